"""The manifest of a tree: written and compared by real shells and tools, read here."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuprov.errors import Unseen
from gpuprov.resources import manifest

from .host import SHELLS

HEAD = {"id": "cuda-toolkit:11.7", "inputs": "a1", "release": 'odd "\\ süß'}

ODD_NAMES = [
    b"plain",
    b"new\nline",
    b"a\n81a4 5 5 .",
    b"tab\tx",
    b" lead and trail ",
    b'quo"te\\back',
    b"$(touch pwned)",
    b"-rf",
    "süß 漢字 😀".encode(),
    b"\xff\xfe",
    b"\xc3",
    b"\xed\xa0\x80 surrogate",
    b"\xf0\x80\x80\x80 overlong",
    b"\x01\x7f\x1b[31m",
    b"manifest.json.old",
]


class Tree:
    """A tree, and one of the hosts that may have it."""

    def __init__(self, folder: Path, shell: list[str], path: str) -> None:
        self.at = folder / "tree"
        self.at.mkdir()
        self.work = folder / "work"
        self.work.mkdir()
        self.shell = shell
        self.path = path

    def run(self, script: str) -> subprocess.CompletedProcess[bytes]:
        words = [
            shutil.which(self.shell[0]) or "",
            *self.shell[1:],
            "-eu",
            "-c",
            script,
            "sh",
            str(self.at),
            str(self.work),
        ]
        env = {"PATH": self.path, "LC_ALL": "C.UTF-8"}
        return subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False, env=env)

    def write(self) -> manifest.Manifest:
        done = self.run(manifest.writing(HEAD) + 'gp_manifest_write "$1" "$2" "$gp_head"')
        assert done.returncode == 0, done
        assert os.listdir(self.work) == []
        read = manifest.parse((self.at / "manifest.json").read_bytes())
        assert read is not None and read.unreadable == 0
        return read

    def look(self, *, deep: bool = False) -> manifest.Look:
        done = self.run(manifest.looking(deep=deep) + 'gp_manifest_look "$1"')
        assert done.returncode == 0, done
        return manifest.parse_look(done.stdout)


@pytest.fixture(scope="session")
def applets(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder in which every command is busybox's."""
    folder = tmp_path_factory.mktemp("applets")
    program = shutil.which("busybox")
    assert program
    for name in subprocess.run([program, "--list"], capture_output=True, text=True, check=True).stdout.split():
        (folder / name).symlink_to(program)
    return str(folder)


@pytest.fixture(params=[*SHELLS, "all busybox"])
def tree(request: pytest.FixtureRequest, tmp_path: Path, applets: str) -> Tree:
    if request.param == "all busybox":
        return Tree(tmp_path, SHELLS["busybox"], applets)
    return Tree(tmp_path, SHELLS[request.param], os.environ["PATH"])


def test_any_name_is_written_down(tree: Tree) -> None:
    folder = os.fsencode(tree.at / "sub folder")
    os.mkdir(folder)
    for name in ODD_NAMES:
        Path(os.fsdecode(folder + b"/" + name)).write_bytes(name * 3)
    Path(os.fsdecode(folder + b"/plain")).chmod(0o4711)
    targets = [b"to\nnew\n", b"\xff", b'quo"te', b"sub folder"]
    for number, target in enumerate(targets):
        os.symlink(target, os.fsencode(tree.at) + b"/link%d" % number)
    (tree.at / "empty").touch()

    read = tree.write()
    head = read.head
    assert (head.id, head.inputs, head.release) == (HEAD["id"], HEAD["inputs"], HEAD["release"])
    assert abs(head.created - time.time()) < 60
    assert head.listing == hashlib.sha256((tree.at / "manifest.files").read_bytes()).hexdigest()
    files = {e.path: e for e in read.entries if e.target is None}
    assert set(map(os.fsencode, files)) == {b"empty", *(b"sub folder/" + name for name in ODD_NAMES)}
    for path, entry in files.items():
        status = os.lstat(os.fsencode(tree.at) + b"/" + os.fsencode(path))
        content = Path(os.fsdecode(os.fsencode(tree.at) + b"/" + os.fsencode(path))).read_bytes()
        assert (entry.size, entry.mtime) == (status.st_size, int(status.st_mtime))
        assert (entry.mode, entry.sha256) == (status.st_mode & 0o7777, hashlib.sha256(content).hexdigest())
    links = {e.path: e.target for e in read.entries if e.target is not None}
    assert {k: os.fsencode(v) for k, v in links.items()} == {f"link{n}": t for n, t in enumerate(targets)}

    for deep in (False, True):
        look = tree.look(deep=deep)
        assert look.head == head
        assert (look.damage, look.extra, look.words()) == ((), (), "")


def _touch(path: Path) -> None:
    os.utime(path, (1, 1), follow_symlinks=False)


def _rewrite(path: Path) -> None:
    path.write_text("7654321")
    _touch(path)


def _relink(path: Path, target: str = "elsewhere") -> None:
    path.unlink()
    path.symlink_to(target)
    _touch(path)


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


DAMAGES: dict[str, tuple[str, Callable[[Path], object], str, str]] = {
    "deleted": ("f", Path.unlink, "missing", "1 missing (f)"),
    "cut": ("f", lambda p: os.truncate(p, 3), "truncated", "1 cut short (f)"),
    "longer": ("f", lambda p: p.write_text("123456789"), "changed", "1 changed (f)"),
    "edited": ("f", _rewrite, "changed", "1 changed (f)"),
    "a link instead": ("f", _relink, "changed", "1 changed (f)"),
    "a folder instead": ("f", _folder, "missing", "1 missing (f)"),
    "not to be run": ("run", lambda p: p.chmod(0o644), "mode", "1 no longer readable or executable (run)"),
    "not to be read": ("f", lambda p: p.chmod(0o600), "mode", "1 no longer readable or executable (f)"),
    "other link": ("l", lambda p: _relink(p, "g"), "changed", "1 changed (l)"),
    "no link": ("l", Path.unlink, "missing", "1 missing (l)"),
    "odd name": ("süß\n", Path.unlink, "missing", "1 missing (süß\n)"),
    "listing": ("manifest.files", lambda p: os.truncate(p, 0), "changed", "1 changed (manifest.files)"),
    "no listing": ("manifest.files", Path.unlink, "missing", "1 missing (manifest.files)"),
}


@pytest.mark.parametrize("case", DAMAGES)
def test_damage(tree: Tree, case: str) -> None:
    for name in ("f", "g", "süß\n"):
        (tree.at / name).write_text("1234567")
    (tree.at / "run").touch(0o755)
    (tree.at / "l").symlink_to("f")
    tree.write()
    path, damage, kind, words = DAMAGES[case]
    damage(tree.at / path)
    for deep in (False, True):
        look = tree.look(deep=deep)
        assert (look.damage, look.damaged, look.words()) == (((kind, path),), 1, words)


def test_what_is_no_damage(tree: Tree) -> None:
    (tree.at / "f").write_text("1")
    (tree.at / "l").symlink_to("f")
    tree.write()
    _touch(tree.at / "f")
    _touch(tree.at / "l")
    (tree.at / "f").chmod(0o777)
    (tree.at / "new").touch()
    look = tree.look()
    assert (look.damage, look.extra, dict(look.totals)) == ((), ("new",), {"extra": 1})


def test_an_edit_that_keeps_size_and_time_is_seen_by_the_deep_look(tree: Tree) -> None:
    (tree.at / "f").write_text("1")
    _touch(tree.at / "f")
    tree.write()
    (tree.at / "f").write_text("2")
    _touch(tree.at / "f")
    assert tree.look().damage == ()
    assert tree.look(deep=True).damage == (("changed", "f"),)


def test_many_damages_are_counted_and_the_first_named(tree: Tree) -> None:
    for number in range(50):
        (tree.at / f"f{number}").write_text("x")
    tree.write()
    for number in range(45):
        (tree.at / f"f{number}").write_text("y") if number % 2 else (tree.at / f"f{number}").unlink()
        if number % 2:
            _touch(tree.at / f"f{number}")
    look = tree.look()
    assert (len(look.damage), look.damaged) == (20, 45)
    assert look.words().startswith("23 missing, 22 changed (")


def test_what_is_too_much_to_read_is_counted(tree: Tree) -> None:
    with (tree.at / "big").open("wb") as file:
        file.truncate(65 << 20)
    tree.write()
    _touch(tree.at / "big")
    look = tree.look()
    assert (look.damage, dict(look.totals)) == ((), {"unread": 1})
    assert dict(tree.look(deep=True).totals) == {}


def test_an_empty_tree(tree: Tree) -> None:
    assert tree.write().entries == ()
    assert tree.look().damage == ()


def test_a_look_changes_nothing(tree: Tree) -> None:
    (tree.at / "f").touch()
    tree.write()
    _touch(tree.at / "f")

    def seen() -> list[tuple[str, int]]:
        return [(str(p), p.lstat().st_ctime_ns) for p in sorted([tree.at, *tree.at.rglob("*")])]

    before = seen()
    tree.look()
    assert seen() == before


def test_a_host_without_the_commands_says_which(tmp_path: Path, applets: str) -> None:
    few = tmp_path / "few"
    few.mkdir()
    for name in ("cat", "rm", "mkdir", "find", "xargs", "stat", "mv", "date"):
        shutil.copy(Path(applets, name), few / name, follow_symlinks=False)
    tree = Tree(tmp_path, SHELLS["dash"], str(few))
    done = tree.run(manifest.writing(HEAD) + 'gp_manifest_write "$1" "$2" "$gp_head"')
    assert done.returncode != 0
    assert b" sha256sum awk (" in done.stderr
    assert not (tree.at / "manifest.json").exists()


def test_a_tree_that_is_not_there_gets_no_manifest(tree: Tree) -> None:
    tree.at.rmdir()
    assert tree.run(manifest.writing(HEAD) + 'gp_manifest_write "$1" "$2" "$gp_head"').returncode != 0


@pytest.mark.parametrize("which", ["GNU", "busybox"])
def test_time_for_a_large_tree(
    tmp_path: Path, applets: str, which: str, record_property: Callable[[str, object], None]
) -> None:
    """20,000 files, as a toolkit has. How long it took is reported, not judged: machines differ."""
    tree = Tree(
        tmp_path,
        SHELLS["busybox" if which == "busybox" else "dash"],
        applets if which == "busybox" else os.environ["PATH"],
    )
    for folder in range(200):
        (tree.at / f"include/folder{folder}").mkdir(parents=True)
        for number in range(100):
            (tree.at / f"include/folder{folder}/a_header_of_some_length_{number}.h").write_text(f"{number}")
    tree.write()
    began = time.monotonic()
    look = tree.look()
    took = time.monotonic() - began
    record_property("seconds", took)
    print(f"a quick look at 20,000 files took {took:.2f} s with the tools of {which}")
    assert look.damage == ()


# --- reading ---------------------------------------------------------------------------------

ENTRY = {"path": "f", "size": 1, "mtime": 2, "mode": "0755", "sha256": "a" * 64}
WHOLE = {"format": 1, "id": "x:1", "inputs": "i", "release": "r", "created": 3, "listing": "l", "files": [ENTRY]}


def test_a_whole_manifest() -> None:
    entry = manifest.Entry(path="f", size=1, mtime=2, mode=0o755, sha256="a" * 64)
    head = manifest.Head(id="x:1", inputs="i", release="r", created=3, listing="l")
    assert manifest.parse(json.dumps(WHOLE).encode()) == manifest.Manifest(head=head, entries=(entry,))


@pytest.mark.parametrize(
    "change",
    [{"format": 2}, {"format": None}, {"id": ""}, {"id": 7}, {"inputs": None}, {"listing": []}],
)
def test_what_is_no_manifest_of_ours(change: dict[str, object]) -> None:
    assert manifest.parse(json.dumps({**WHOLE, **change}).encode()) is None


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "1", '"x"', "[" * 100_000, '{"format":1e999}', "1" * 5000])
def test_what_is_no_manifest(text: str) -> None:
    assert manifest.parse(text.encode()) is None


@pytest.mark.parametrize(
    "entry",
    [
        None,
        7,
        {},
        {**ENTRY, "path": ""},
        {**ENTRY, "size": "1"},
        {**ENTRY, "mode": "rwx"},
        {**ENTRY, "mode": 755},
        {**ENTRY, "sha256": "A" * 64},
    ],
)
def test_an_entry_that_makes_no_sense_is_counted(entry: object) -> None:
    read = manifest.parse(json.dumps({**WHOLE, "files": [entry, ENTRY]}).encode())
    assert read and (len(read.entries), read.unreadable) == (1, 1)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*WHOLE, *ENTRY]), inner, max_size=5),
    max_leaves=10,
)


@given(st.binary())
def test_any_bytes_are_read(data: bytes) -> None:
    manifest.parse(data)
    try:
        manifest.parse_look(data)
    except Unseen:
        assert b"end" not in data.split(b"\n")


@given(st.dictionaries(st.sampled_from([*WHOLE]), json_values))
def test_any_json_is_read(changes: dict[str, object]) -> None:
    read = manifest.parse(json.dumps({**WHOLE, **changes}).encode())
    assert read is None or read.head.id


@given(
    st.lists(
        st.sampled_from(["head {", 'head "id": 7,', "damage", "damage x y", "damage missing a\\", "total", "total x"])
    )
)
def test_any_lines_of_a_look_are_read(lines: list[str]) -> None:
    look = manifest.parse_look("\n".join([*lines, "end", ""]).encode())
    assert look.head is None
    assert all(kind == "missing" for kind, _ in look.damage)


@given(st.binary(min_size=1).map(os.fsdecode))
def test_a_path_comes_back_as_it_is_written(path: str) -> None:
    assert manifest.unescaped(json.dumps(path)[1:-1]) == path
