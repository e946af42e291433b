"""What does not fit: on a real, small mount."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuprov.store import Ended
from tests.store.hosts import TOOLS, Host, some_bytes, step_for
from tests.store.server import Server

CONTENT = some_bytes(3 * 1024 * 1024)


def test_what_does_not_fit_is_not_begun(host: Host, server: Server, small: Path) -> None:
    ran = host.fetch(step_for(small / "new" / "a", CONTENT, server.serve("x", CONTENT)))
    assert ran.ended == Ended.NO_SPACE, ran.text
    assert ran.lines[-1] == (
        f"not enough space for {small}/new/a: it needs 3145728 bytes more, and {small} has 2097152 free"
    )
    assert server["x"].asked == []
    assert list((small / "new").iterdir()) == []


def test_what_is_here_already_needs_no_room(host: Host, server: Server, small: Path) -> None:
    (small / "a.part").write_bytes(CONTENT[:1_500_000])
    content = CONTENT[:2_000_000]
    ran = host.fetch(step_for(small / "a", content, server.serve("x", content)))
    assert ran.status == 0, ran.text
    assert (small / "a").read_bytes() == content


@pytest.mark.parametrize("tool", TOOLS)
def test_a_mount_that_fills_up_in_the_middle_is_named(host: Host, server: Server, small: Path, tool: str) -> None:
    host.has(tool)
    ran = host.fetch(step_for(small / "a", CONTENT, server.serve("x", CONTENT), size=0))
    assert ran.ended == Ended.NO_SPACE, ran.text
    assert f"no space left for {small}/a: {small} has " in ran.text
