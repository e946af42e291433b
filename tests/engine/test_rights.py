"""What only root could do is told in the plan of a connection that is not root."""

from __future__ import annotations

from typing import Any

import pytest

from gpuprov.engine.graph import build
from gpuprov.engine.judging import Circumstances, judge
from gpuprov.engine.looking import probes_of
from gpuprov.engine.rights import Rights
from gpuprov.errors import HostFailed
from gpuprov.facts import User
from gpuprov.model import Blocked, Change, Differs, Put, Resource, Run
from gpuprov.resources import AptPackage, Command, Directory, File, Symlink
from tests.engine.things import Thing, Writer, declare

ADA = User(name="ada", uid=1000)
PUT = Put(title="write", path="/etc/x", content=b"", mode=0o644)
RUN = Run(title="chmod", script="chmod")


def refusal(resource: Resource[Any], access: str, *steps: Any, action: Any = "create", root: bool = False) -> str:
    paths = dict.fromkeys(resource.claims().paths, access)
    change = Change(action=action, before="", after="", steps=steps)
    try:
        Rights(root=root, user=ADA, access=paths).check(resource, change)
    except Exception as error:
        return str(error)
    return ""


FILE = File(path="/etc/x")
COMMAND: dict[str, Any] = {"name": "c", "look": "x", "want": "x", "writes": ("/etc/x",)}


@pytest.mark.parametrize(
    ("resource", "access", "steps", "action", "says"),
    [
        (FILE, "above", (PUT,), "create", ""),
        (FILE, "no", (PUT,), "create", "writing /etc/x needs root, and user ada is not root"),
        (FILE, "file", (PUT,), "update", "writing /etc/x needs root"),
        (FILE, "file", (RUN,), "update", ""),
        (FILE, "file", (RUN,), "remove", "writing /etc/x needs root"),
        (File(path="/etc/x", owner="ada"), "above", (PUT,), "create", ""),
        (File(path="/etc/x", owner="1000"), "above", (PUT,), "create", ""),
        (File(path="/etc/x", owner="root"), "above", (PUT,), "create", "giving it to root needs root"),
        (FILE, "theirs", (PUT,), "update", "writing /etc/x needs root"),
        (FILE, "theirs", (RUN,), "update", "writing /etc/x needs root"),
        (FILE, "theirs", (RUN,), "remove", ""),
        (File(path="/etc/x", owner="ada"), "theirs", (PUT,), "update", ""),
        (File(path="/etc/x", owner="ada"), "theirs", (RUN,), "update", "writing /etc/x needs root"),
        (Directory(path="/etc/x"), "theirs", (RUN,), "update", "writing /etc/x needs root"),
        (Symlink(path="/etc/x", target="/y"), "theirs", (RUN,), "update", ""),
        (Directory(path="/srv/x"), "folder", (RUN,), "update", ""),
        (Directory(path="/srv/x"), "no", (RUN,), "create", "writing /srv/x needs root"),
        (Symlink(path="/etc/x", target="/y"), "no", (RUN,), "create", "writing /etc/x needs root"),
        (AptPackage(name="tmux"), "above", (), "create", "installing or removing packages needs root"),
        (Command(script="touch /etc/x", **COMMAND), "no", (RUN,), "create", "writing /etc/x needs root"),
        (Command(script="/usr/bin/sudo -n touch /etc/x", **COMMAND), "no", (RUN,), "create", ""),
        (
            Command(script="# no sudo\ntouch /etc/x  # doas", **COMMAND),
            "no",
            (RUN,),
            "create",
            "writing /etc/x needs root",
        ),
        (Command(script="touch /srv/sudo.d", **COMMAND), "no", (RUN,), "create", "writing /etc/x needs root"),
    ],
)
def test_what_needs_root(resource: Any, access: str, steps: tuple[Any, ...], action: str, says: str) -> None:
    found = refusal(resource, access, *steps, action=action)
    assert found.startswith(says) if says else not found
    assert not refusal(resource, access, *steps, action=action, root=True)


def test_it_is_blocked_in_the_plan_whatever_changes_before_it() -> None:
    first = Thing(name="first")
    late = Writer(name="late", writes="/etc/late", needs_=(first,))
    graph = build(declare(first, late))
    rights = Rights(root=False, user=ADA, access={"/etc/late": "no"})
    verdicts = judge(graph, dict.fromkeys(graph), Circumstances(rights=rights))
    assert isinstance(verdicts[first.id], Differs)
    blocked = verdicts[late.id]
    assert isinstance(blocked, Blocked) and "user: root in the inventory" in blocked.hint


@pytest.mark.parametrize("never", [False, True])
def test_it_says_why_there_is_no_sudo(never: bool) -> None:
    """With become: never nobody asked whether there is one."""
    with pytest.raises(HostFailed) as caught:
        Rights(root=False, user=ADA, never=never).check(
            AptPackage(name="tmux"), Change(action="create", before="", after="", steps=())
        )
    text = f"{caught.value.message} {caught.value.hint}"
    assert ("become: never" in text) is never
    assert ("has no sudo without a password" in text) is not never


def test_what_is_as_wanted_needs_nothing() -> None:
    late = Writer(name="late", writes="/etc/late")
    rights = Rights(root=False, user=ADA, access={"/etc/late": "no"})
    assert not isinstance(
        judge(build(declare(late)), {late.id: "there"}, Circumstances(rights=rights))[late.id], Blocked
    )


def test_root_is_asked_nothing_more() -> None:
    graph = build(declare(File(path="/etc/x")))

    def asked(root: bool) -> set[str]:
        return {name for _, probe in probes_of([graph], root=root) for name, _ in probe.asks}

    assert asked(False) - asked(True) == {"write"}
