from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuprov.errors import HostFailed, Unseen
from gpuprov.model import Run
from gpuprov.resources import Directory, DirectoryState

from .host import Host
from .test_file import inode


def state(full: bool = False, **more: Any) -> DirectoryState:
    return DirectoryState(inode=inode(**{"kind": "directory", "mode": 0o755, **more}), full=full)


SAME = None
PLANS: dict[str, tuple[dict[str, Any], DirectoryState | None, tuple[str, str, str] | None]] = {
    "absent": ({}, None, ("create", "absent", "folder 0755")),
    "absent, private": ({"mode": 0o700, "owner": "me"}, None, ("create", "absent", "folder 0700 me")),
    "absent, parents": ({"parents": True}, None, ("create", "absent", "folder 0755")),
    "same": ({}, state(), SAME),
    "same, full": ({}, state(full=True), SAME),
    "same, owner": ({"owner": "root", "group": "0"}, state(), SAME),
    "same, sticky": ({"mode": 0o1777}, state(mode=0o1777), SAME),
    "mode": ({"mode": 0o700}, state(), ("update", "0755", "0700")),
    "set-group-id is in the way": ({}, state(mode=0o2755), ("update", "2755", "0755")),
    "owner": ({"owner": "me"}, state(), ("update", "root", "me")),
    "group": ({"group": "5"}, state(), ("update", ":0", ":5")),
    "mode and owner": ({"mode": 0o700, "owner": "me"}, state(), ("update", "0755 root", "0700 me")),
    "remove": ({"present": False}, state(), ("remove", "empty folder", "absent")),
    "remove absent": ({"present": False}, None, SAME),
}


@pytest.mark.parametrize("case", PLANS)
def test_plan(case: str) -> None:
    wanted, now, expected = PLANS[case]
    change = Directory(**{"path": "/d", **wanted}).plan(now)
    assert (change and (change.action, change.before, change.after)) == expected
    assert change is None or [type(step) for step in change.steps] == [Run]


@pytest.mark.parametrize("present", [True, False])
@pytest.mark.parametrize("kind", ["regular file", "symbolic link", "fifo", "block special file"])
def test_what_is_in_the_way_stays(kind: str, present: bool) -> None:
    with pytest.raises(HostFailed, match="/srv/d is a"):
        Directory(path="/srv/d", present=present).plan(state(kind=kind))


def test_a_full_folder_is_not_removed() -> None:
    with pytest.raises(HostFailed, match="/srv/d is not empty"):
        Directory(path="/srv/d", present=False).plan(state(full=True))


@pytest.mark.parametrize(
    ("fields", "word"),
    [({"path": "d"}, "absolute"), ({"path": "/", "present": False}, "root"), ({"mode": 755}, "0o755")],
)
def test_wrong(fields: dict[str, Any], word: str) -> None:
    with pytest.raises(ValueError, match=word):
        Directory(**{"path": "/d", **fields})


def test_what_it_is_to_the_graph() -> None:
    folder = Directory(path="/a/b/")
    assert folder.holds
    assert folder.id == "directory:/a/b"
    assert folder.claims().paths == {"/a/b"}


@given(st.binary() | st.binary().map(lambda b: b"directory|755|0|0|root|root|1|2|3|4\n" + b))
def test_parse_survives_any_bytes(data: bytes) -> None:
    for folder in (Directory(path="/d"), Directory(path="/d", present=False)):
        try:
            seen = folder.probe().parse(data)
        except Unseen:
            continue
        assert seen is None or isinstance(seen, DirectoryState)


# --- on a real file system ---


def test_life_of_a_folder(host: Host, tmp_path: Path) -> None:
    path = tmp_path / "it's a 'folder'"
    host.converge(Directory(path=str(path), mode=0o700))
    assert path.stat().st_mode & 0o7777 == 0o700
    (path / "f").write_text("mine")
    path.chmod(0o2700)
    host.converge(Directory(path=str(path), mode=0o755))
    assert path.stat().st_mode & 0o7777 == 0o755
    with pytest.raises(HostFailed):
        host.plan(Directory(path=str(path), present=False))
    (path / "f").unlink()
    host.converge(Directory(path=str(path), present=False))
    assert not path.exists()


@pytest.mark.parametrize("name", ["f", ".f", "..f", "...", "-f", "*", "a b", "dangling"])
def test_every_name_counts_as_full(host: Host, tmp_path: Path, name: str) -> None:
    folder = tmp_path / "d"
    folder.mkdir()
    if name == "dangling":
        (folder / name).symlink_to("nowhere")
    else:
        (folder / name).write_text("")
    seen = host.look(Directory(path=str(folder), present=False))
    assert seen
    assert seen.full


def test_parents_only_when_asked(host: Host, tmp_path: Path) -> None:
    path = tmp_path / "a/b/c"
    change = host.plan(Directory(path=str(path)))
    assert change
    assert isinstance(change.steps[0], Run)
    assert host.run(f"set -eu\n{change.steps[0].script}", check=False).returncode != 0
    assert not (tmp_path / "a").exists()
    host.converge(Directory(path=str(path), mode=0o700, parents=True))
    assert path.stat().st_mode & 0o777 == 0o700
    assert path.parent.stat().st_mode & 0o777 == 0o755


def test_what_came_in_between_stays(host: Host, tmp_path: Path) -> None:
    path, other = tmp_path / "d", tmp_path / "other"
    other.mkdir(mode=0o700)
    for wanted in (Directory(path=str(path)), Directory(path=str(path), mode=0o777)):
        change = host.plan(wanted)
        assert change
        assert isinstance(change.steps[0], Run)
        if path.exists():
            path.rmdir()
        path.symlink_to(other)
        assert host.run(f"set -eu\n{change.steps[0].script}", check=False).returncode != 0
        assert other.stat().st_mode & 0o777 == 0o700
        os.unlink(path)
        path.mkdir(mode=0o755)
