from __future__ import annotations

import base64
import hashlib
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuprov.errors import HostFailed, Unseen
from gpuprov.model import Change, Put, Run
from gpuprov.resources import File, FileState
from gpuprov.resources.inode import Inode
from gpuprov.secret import Secret

from .host import Host


def inode(kind: str = "regular file", mode: int = 0o644, user: str = "root", group: str = "root", **more: Any) -> Inode:
    numbers = {"uid": 0 if user == "root" else 1000, "gid": 0 if group == "root" else 1000}
    return Inode(**{"type": kind, "mode": mode, "user": user, "group": group, "size": 0, **numbers, **more})


def state(content: bytes = b"", **more: Any) -> FileState:
    found = inode(**more)
    if not found.is_file:
        return FileState(inode=found)
    return FileState(inode=found, sha256=hashlib.sha256(content).hexdigest(), content=content)


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:12]


A, B = f"content {digest(b'a')}", f"content {digest(b'b')}"
SAME = None

# wanted (besides path /f and content a), state, (action, before, after, types of the steps)
PLANS: dict[str, tuple[dict[str, Any], FileState | None, tuple[str, str, str, tuple[type, ...]] | None]] = {
    "absent": ({}, None, ("create", "absent", "file 0644", (Put,))),
    "absent, with owner": ({"owner": "me", "group": "us"}, None, ("create", "absent", "file 0644 me:us", (Put,))),
    "absent, secret": ({"content": Secret("a")}, None, ("create", "absent", "file 0600", (Put,))),
    "same": ({}, state(b"a"), SAME),
    "same, text or bytes": ({"content": b"a"}, state(b"a"), SAME),
    "same, secret": ({"content": Secret("a")}, state(b"a", mode=0o600), SAME),
    "same, secret that others may read": ({"content": Secret("a"), "mode": 0o644}, state(b"a"), SAME),
    "same, empty": ({"content": ""}, state(b"", kind="regular empty file"), SAME),
    "same, owner by name": ({"owner": "root", "group": "root"}, state(b"a"), SAME),
    "same, owner by number": ({"owner": "0", "group": "0"}, state(b"a"), SAME),
    "same, owner by odd number": ({"owner": "000"}, state(b"a"), SAME),
    "same, owner not asked": ({}, state(b"a", user="me", group="us"), SAME),
    "content": ({}, state(b"b"), ("update", B, A, (Put,))),
    "content, from empty": (
        {},
        state(b"", kind="regular empty file"),
        ("update", f"content {digest(b'')}", A, (Put,)),
    ),
    "content, secret": (
        {"content": Secret("a")},
        state(b"b", mode=0o600),
        ("update", "secret content", "other secret content", (Put,)),
    ),
    "mode": ({}, state(b"a", mode=0o600), ("update", "0600", "0644", (Run,))),
    "mode, set-id bits": ({"mode": 0o4755}, state(b"a", mode=0o755), ("update", "0755", "4755", (Run,))),
    "owner": ({"owner": "me"}, state(b"a"), ("update", "root", "me", (Run,))),
    "owner by number": ({"owner": "7"}, state(b"a"), ("update", "0", "7", (Run,))),
    "group": ({"group": "us"}, state(b"a"), ("update", ":root", ":us", (Run,))),
    "group only of both": ({"owner": "root", "group": "us"}, state(b"a"), ("update", ":root", ":us", (Run,))),
    "owner and group": ({"owner": "me", "group": "us"}, state(b"a"), ("update", "root:root", "me:us", (Run,))),
    "mode and owner": ({"owner": "me"}, state(b"a", mode=0o600), ("update", "0600 root", "0644 me", (Run,))),
    "mode, secret": ({"content": Secret("a")}, state(b"a"), ("update", "0644", "0600", (Run,))),
    "content and mode": ({}, state(b"b", mode=0o600), ("update", f"{B}, 0600", f"{A}, 0644", (Put,))),
    "link": ({}, state(kind="symbolic link", mode=0o777), ("replace", "a symbolic link", "file 0644", (Put,))),
    "remove": ({"present": False}, state(b"a"), ("remove", "file", "absent", (Run,))),
    "remove link": ({"present": False}, state(kind="symbolic link"), ("remove", "symbolic link", "absent", (Run,))),
    "remove absent": ({"present": False}, None, SAME),
}


@pytest.mark.parametrize("case", PLANS)
def test_plan(case: str) -> None:
    wanted, now, expected = PLANS[case]
    change = File(**{"path": "/f", "content": "a", **wanted}).plan(now)
    if expected is None:
        assert change is None
    else:
        assert change is not None
        assert (change.action, change.before, change.after, tuple(map(type, change.steps))) == expected


@pytest.mark.parametrize("kind", ["directory", "fifo", "socket", "block special file", "character special file"])
@pytest.mark.parametrize("present", [True, False])
def test_what_is_in_the_way_stays(kind: str, present: bool) -> None:
    with pytest.raises(HostFailed) as caught:
        File(path="/srv/f", content="a", present=present).plan(state(kind=kind))
    assert "/srv/f" in caught.value.message
    assert ("a folder" if kind == "directory" else kind) in caught.value.message
    assert caught.value.hint


def test_replacing_a_link_says_why() -> None:
    change = File(path="/f", content="a").plan(state(kind="symbolic link"))
    assert change
    assert "symbolic link" in change.why


DIFFS: dict[str, tuple[Any, bytes | None, str]] = {
    "new": ("a\n", None, "--- /dev/null\n+++ /f\n@@ -0,0 +1 @@\n+a\n"),
    "new, empty": ("", None, ""),
    "new, binary": (b"\0", None, ""),
    "line": ("a\nc\n", b"a\nb\n", "--- /f\n+++ /f\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n"),
    "last newline": ("a\n", b"a", "--- /f\n+++ /f\n@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a\n"),
    "form feed is no line end": ("a\fb\n", b"a\fc\n", "--- /f\n+++ /f\n@@ -1 +1 @@\n-a\fc\n+a\fb\n"),
    "carriage return shows": ("a\n", b"a\r\n", "--- /f\n+++ /f\n@@ -1 +1 @@\n-a\r\n+a\n"),
    "not ASCII": ("ä\n", "ö\n".encode(), "--- /f\n+++ /f\n@@ -1 +1 @@\n-ö\n+ä\n"),
    "binary there": ("a", b"\xff\xfe", "binary content differs (sha256 "),
    "binary wanted": (b"\0", b"a", "binary content differs (sha256 "),
    "secret": (Secret("a"), b"b", ""),
    "secret, new": (Secret("a"), None, ""),
}


@pytest.mark.parametrize("case", DIFFS)
def test_diff(case: str) -> None:
    content, present, expected = DIFFS[case]
    change = File(path="/f", content=content).plan(None if present is None else state(present))
    assert change
    assert change.diff == expected or (expected.endswith("sha256 ") and change.diff.startswith(expected))


def test_a_secret_is_nowhere_but_in_the_put() -> None:
    file = File(path="/f", content=Secret("hunter2"), mode=0o600)
    for now in (None, state(b"hunter1")):
        change = file.plan(now)
        assert change
        assert "hunter2" not in repr(change)
        assert hashlib.sha256(b"hunter2").hexdigest()[:8] not in repr(change)
        assert change.steps[0] == Put(title="write /f", path="/f", content=Secret("hunter2"), mode=0o600)
    assert "hunter2" not in file.probe().script
    assert file.probe().script == ""


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "relative": ({"path": "f"}, "absolute"),
    "empty path": ({"path": ""}, "absolute"),
    "root": ({"path": "//"}, "root folder"),
    "newline": ({"path": "/a\nb"}, "newline"),
    "NUL": ({"path": "/a\0b"}, "NUL"),
    "decimal mode": ({"mode": 644}, "0o644"),
    "large mode": ({"mode": 0o10000}, "mode"),
    "negative mode": ({"mode": -1}, "mode"),
    "text mode": ({"mode": "0644"}, "mode"),
    "truth as mode": ({"mode": True}, "mode"),
    "owner with colon": ({"owner": "a:b"}, "owner"),
    "owner as option": ({"owner": "-R"}, "owner"),
    "owner with blank": ({"owner": "a b"}, "owner"),
    "group with newline": ({"group": "a\n"}, "group"),
    "group with escape": ({"group": "a\x1b"}, "group"),
    "surrogate": ({"content": "\ud800"}, "UTF-8"),
    "no content": ({"content": 3}, "content"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong(case: str) -> None:
    fields, word = WRONG[case]
    with pytest.raises(ValueError, match=word) as caught:
        File(**{"path": "/f", "content": "a", **fields})
    assert "\n" not in str(caught.value)


def test_one_identity_however_it_is_spelled() -> None:
    one = File(path="/a//b/./c/", content="x")
    other = File(path="/a/z/../b/c", content=b"x")
    assert one == other
    assert one.id == other.id == "file:/a/b/c"
    assert hash(one) == hash(other)
    assert one.claims().paths == {"/a/b/c"}


STAT = b"regular file|644|0|0|root|root|1|2|3|4"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        STAT,
        STAT + b"\n",
        STAT + b"\n-\n",
        STAT + b"\nzz\n",
        b"regular file|999|0|0|root|root|1|2|3|4\n-\n",
        b"regular file\n-\n",
        b"-",
        b"\n\n",
        b"sh: stat: not found\n-\n",
    ],
)
def test_what_cannot_be_read_is_unseen(data: bytes) -> None:
    with pytest.raises(Unseen):
        File(path="/f", content="a").probe().parse(data)


def test_absent_and_odd_answers() -> None:
    parse = File(path="/f", content="a").probe().parse
    assert parse(b"-\n-\n") is None
    sha = hashlib.sha256(b"a").hexdigest().encode()
    for printed, content in ((b"", None), (base64.b64encode(b"a"), b"a"), (base64.b64encode(b"b"), None), (b"=", None)):
        seen = parse(STAT + b"\n" + sha + b"\n" + printed + b"\n")
        assert seen
        assert seen.content == content


@given(st.binary() | st.binary().map(lambda b: STAT + b"\n" + b) | st.binary().map(lambda b: b"0" * 64 + b"\n" + b))
def test_parse_survives_any_bytes(data: bytes) -> None:
    for file in (File(path="/f", content="a"), File(path="/f", content="a", present=False)):
        try:
            seen = file.probe().parse(data)
        except Unseen:
            continue
        try:
            assert isinstance(file.plan(seen), Change | None)
        except HostFailed:
            assert seen
            assert not seen.inode.is_file


# --- on a real file system ---


def test_life_of_a_file(host: Host, tmp_path: Path) -> None:
    path = tmp_path / 'it\'s $HOME; "a" file'
    first = host.converge(File(path=str(path), content="a\n"))
    assert first
    assert first.action == "create"
    assert path.read_bytes() == b"a\n"
    before = path.stat()

    second = host.converge(File(path=str(path), content="a\n", mode=0o600))
    assert second
    assert second.before == "0644"
    assert path.stat().st_mode & 0o7777 == 0o600
    assert path.stat().st_ino == before.st_ino, "the content was not to be written again"
    assert path.stat().st_mtime_ns == before.st_mtime_ns

    third = host.converge(File(path=str(path), content="b\n", mode=0o600))
    assert third
    assert "-a\n+b\n" in third.diff
    fourth = host.converge(File(path=str(path), present=False))
    assert fourth
    assert not path.exists()


def test_binary_and_large_contents(host: Host, tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(bytes(range(256)))
    change = host.converge(File(path=str(path), content="text\n"))
    assert change
    assert change.diff.startswith("binary content differs")
    path.write_bytes(b"line\n" * 20000)
    change = host.plan(File(path=str(path), content="text\n"))
    assert change
    assert change.diff.startswith("content differs (sha256 ")
    path.write_bytes(b"x" * 65536)
    change = host.plan(File(path=str(path), content="text\n"))
    assert change
    assert "-xxx" in change.diff


def test_a_link_is_replaced_and_never_followed(host: Host, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("mine")
    link = tmp_path / "f"
    link.symlink_to(elsewhere)
    host.converge(File(path=str(link), content="new"))
    assert not link.is_symlink()
    assert elsewhere.read_text() == "mine"

    link.unlink()
    link.symlink_to(elsewhere)
    host.converge(File(path=str(link), present=False))
    assert not link.is_symlink()
    assert elsewhere.read_text() == "mine"


def test_mode_is_not_set_through_a_link_that_came_in_between(host: Host, tmp_path: Path) -> None:
    path, other = tmp_path / "f", tmp_path / "other"
    path.write_text("a")
    other.write_text("b")
    other.chmod(0o600)
    change = host.plan(File(path=str(path), content="a", mode=0o666))
    assert change
    path.unlink()
    path.symlink_to(other)
    step = change.steps[0]
    assert isinstance(step, Run)
    assert host.run(f"set -eu\n{step.script}", check=False).returncode != 0
    assert other.stat().st_mode & 0o777 == 0o600


def test_owner(host: Host, tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_text("a")
    path.chmod(0o644)
    me = os.stat(path)
    assert host.plan(File(path=str(path), content="a", owner=str(me.st_uid), group=str(me.st_gid))) is None
    change = File(path=str(path), content="a", owner="nobody").plan(host.look(File(path=str(path), content="a")))
    assert change
    step = change.steps[0]
    assert isinstance(step, Run)
    assert "chown -h nobody " in step.script
    assert step.script.index("chown") < step.script.index("chmod")


def test_a_folder_is_not_removed(host: Host, tmp_path: Path) -> None:
    with pytest.raises(HostFailed):
        host.plan(File(path=str(tmp_path), content="a"))
    with pytest.raises(HostFailed):
        host.plan(File(path=str(tmp_path), present=False))
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(HostFailed):
        host.plan(File(path=str(tmp_path / "fifo"), content="a"))
