from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuprov.errors import HostFailed, Unseen
from gpuprov.model import Run
from gpuprov.resources import Symlink, SymlinkState

from .host import Host
from .test_file import inode


def link(target: str) -> SymlinkState:
    return SymlinkState(inode=inode(kind="symbolic link", mode=0o777), target=target)


def other(kind: str) -> SymlinkState:
    return SymlinkState(inode=inode(kind=kind))


SAME = None
PLANS: dict[str, tuple[dict[str, Any], SymlinkState | None, tuple[str, str, str] | None]] = {
    "absent": ({}, None, ("create", "absent", "-> t")),
    "same": ({}, link("t"), SAME),
    "target": ({}, link("u"), ("update", "-> u", "-> t")),
    "target is compared as text": ({}, link("./t"), ("update", "-> ./t", "-> t")),
    "forced over a file": ({"force": True}, other("regular file"), ("replace", "a file", "-> t")),
    "forced over an empty file": ({"force": True}, other("regular empty file"), ("replace", "a file", "-> t")),
    "forced, same": ({"force": True}, link("t"), SAME),
    "remove": ({"present": False}, link("t"), ("remove", "-> t", "absent")),
    "remove, wherever it points": ({"present": False, "target": ""}, link("u"), ("remove", "-> u", "absent")),
    "remove absent": ({"present": False}, None, SAME),
}


@pytest.mark.parametrize("case", PLANS)
def test_plan(case: str) -> None:
    wanted, now, expected = PLANS[case]
    change = Symlink(**{"path": "/l", "target": "t", **wanted}).plan(now)
    assert (change and (change.action, change.before, change.after)) == expected


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({}, "regular file"),
        ({}, "directory"),
        ({"force": True}, "directory"),
        ({"force": True}, "socket"),
        ({"present": False}, "regular file"),
        ({"present": False, "force": True}, "regular file"),
        ({"present": False}, "directory"),
    ],
)
def test_what_is_in_the_way_stays(fields: dict[str, Any], kind: str) -> None:
    with pytest.raises(HostFailed, match="/srv/l is a"):
        Symlink(path="/srv/l", target="t", **fields).plan(other(kind))


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"path": "l"}, "absolute"),
        ({"path": "/"}, "root"),
        ({"target": ""}, "target"),
        ({"target": "a\nb"}, "newline"),
        ({"target": "a\0b"}, "NUL"),
    ],
)
def test_wrong(fields: dict[str, Any], word: str) -> None:
    with pytest.raises(ValueError, match=word):
        Symlink(**{"path": "/l", "target": "t", **fields})


@given(st.binary() | st.binary().map(lambda b: b"symbolic link|777|0|0|root|root|1|2|3|4\n" + b))
def test_parse_survives_any_bytes(data: bytes) -> None:
    try:
        seen = Symlink(path="/l", target="t").probe().parse(data)
    except Unseen:
        return
    assert seen is None or isinstance(seen, SymlinkState)


# --- on a real file system ---


@pytest.mark.parametrize("target", ["t", "/no/where", "../x y", "-T", "--help", "it's", "$HOME", "d"])
def test_life_of_a_link(host: Host, tmp_path: Path, target: str) -> None:
    (tmp_path / "d").mkdir()
    path = tmp_path / "a 'link'"
    host.converge(Symlink(path=str(path), target=target))
    assert path.readlink() == Path(target)
    path.unlink()
    # A link to a folder must be replaced itself; a careless mv would move into the folder.
    path.symlink_to("d")
    host.converge(Symlink(path=str(path), target=target))
    assert path.readlink() == Path(target)
    assert list((tmp_path / "d").iterdir()) == []
    host.converge(Symlink(path=str(path), present=False))
    assert not path.is_symlink()
    assert [p.name for p in tmp_path.iterdir()] == ["d"]


def test_force_replaces_a_file_only(host: Host, tmp_path: Path) -> None:
    path = tmp_path / "l"
    path.write_text("old")
    with pytest.raises(HostFailed):
        host.plan(Symlink(path=str(path), target="t"))
    host.converge(Symlink(path=str(path), target="t", force=True))
    assert path.readlink() == Path("t")


@pytest.mark.parametrize("wanted", [{"target": "t"}, {"target": "t", "force": True}, {"present": False}])
def test_a_folder_that_came_in_between_stays(host: Host, tmp_path: Path, wanted: dict[str, Any]) -> None:
    path = tmp_path / "l"
    path.symlink_to("u")
    change = host.plan(Symlink(path=str(path), **wanted))
    assert change
    path.unlink()
    path.mkdir()
    (path / "f").write_text("mine")
    step = change.steps[0]
    assert isinstance(step, Run)
    assert host.run(f"set -eu\n{step.script}", check=False).returncode != 0
    assert [p.name for p in tmp_path.iterdir()] == ["l"]
    assert [p.name for p in path.iterdir()] == ["f"]


def test_without_mv_t(host: Host, tmp_path: Path) -> None:
    """Old busybox has no mv -T."""
    tools = tmp_path / "tools"
    tools.mkdir()
    mv = tools / "mv"
    mv.write_text('#!/bin/sh\ncase $1 in *T*) echo "bad option" >&2; exit 1 ;; esac\nexec /bin/mv "$@"\n')
    mv.chmod(0o755)
    # busybox would use its own mv whatever PATH says, so its shell gets a function in that place.
    host.env["PATH"] = f"{tools}:/usr/bin:/bin"
    prefix = f'mv() {{ {mv} "$@"; }}\n'
    path = tmp_path / "l"
    path.symlink_to("tools")
    change = Symlink(path=str(path), target="t").plan(link("tools"))
    assert change
    step = change.steps[0]
    assert isinstance(step, Run)
    host.run(f"set -eu\n{prefix}{step.script}")
    assert path.readlink() == Path("t")
    assert [p.name for p in tools.iterdir()] == ["mv"]
