"""onhost/asks.sh, run for real in three shells, against Python's own look at the same files."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from gpuprov.onhost import script
from gpuprov.quote import command

SHELLS = [("dash",), ("bash",), ("busybox", "sh")]


@pytest.fixture(params=SHELLS, ids=lambda words: words[0])
def shell(request: pytest.FixtureRequest) -> tuple[str, ...]:
    words: tuple[str, ...] = request.param
    assert shutil.which(words[0]), f"{words[0]} is needed; make tools installs it"
    return words


def ask(shell: tuple[str, ...], name: str, *arguments: str, user: int | None = None) -> list[str]:
    text = script("asks") + command(f"gp_ask_{name}", *arguments)
    done = subprocess.run(
        [*shell, "-s"],
        input=text,
        capture_output=True,
        text=True,
        timeout=20,
        env={**os.environ, "LC_ALL": "C"},
        user=user,
        errors="surrogateescape",
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_write_says_where_a_plain_user_may_write(shell: tuple[str, ...], tmp_path: Path) -> None:
    theirs, own, locked = tmp_path / "theirs", tmp_path / "own", tmp_path / "locked"
    for folder in (theirs, own, locked):
        folder.mkdir()
    os.chown(own, 65534, 65534)
    (theirs / "open file").touch()
    (theirs / "open file").chmod(0o666)
    (theirs / "open folder").mkdir()
    (theirs / "open folder").chmod(0o777)
    (theirs / "link").symlink_to(own)
    (own / "of root").touch()
    (own / "link of root").symlink_to(own)
    sticky = tmp_path / "sticky"
    sticky.mkdir()
    sticky.chmod(0o1777)
    (sticky / "of root").touch()
    (sticky / "link of root").symlink_to(own)
    (sticky / "mine").touch()
    os.chown(sticky / "mine", 65534, 65534)
    (sticky / "my link").symlink_to("/root")
    os.chown(sticky / "my link", 65534, 65534, follow_symlinks=False)
    locked.chmod(0o700)
    for folder in (tmp_path, *tmp_path.parents):
        if str(folder) not in ("/", "/tmp"):
            folder.chmod(folder.stat().st_mode | 0o111)
    wanted = {
        own / "new": "above",
        own / "no/folders yet": "above",
        theirs / "link/new": "above",
        own: "folder",
        theirs / "open folder": "folder",
        theirs / "open file": "file",
        theirs / "new": "no",
        theirs / "no/folders yet": "no",
        locked / "new": "no",
        Path("/new"): "no",
        own / "of root": "theirs",
        own / "link of root": "theirs",
        sticky / "new": "above",
        sticky / "of root": "no",
        sticky / "link of root": "no",
        sticky / "mine": "above",
        sticky / "my link": "above",
    }
    assert ask(shell, "write", *map(str, wanted), user=65534) == list(wanted.values())


NAMES = ["plain", "with space", "quote'", 'double"', "$(touch x)", "back\\slash", "-n", "ünï", "*", "a|b", "#"]


def test_stat_answers_in_order_for_awkward_names(shell: tuple[str, ...], tmp_path: Path) -> None:
    paths = []
    for n, name in enumerate(NAMES):
        (tmp_path / name).write_text("x" * n)
        os.chmod(tmp_path / name, 0o600 + n)
        paths += [str(tmp_path / name), str(tmp_path / f"no {name}")]
    answers = ask(shell, "stat", *paths)
    assert len(answers) == len(paths)
    for path, answer in zip(paths, answers, strict=True):
        if not os.path.exists(path):
            assert answer == "-"
            continue
        seen = os.lstat(path)
        kind, mode, uid, gid, _, _, size, mtime, ctime, inode = answer.split("|")
        assert kind == ("regular file" if seen.st_size else "regular empty file")
        assert (int(mode, 8), int(uid), int(gid)) == (stat.S_IMODE(seen.st_mode), seen.st_uid, seen.st_gid)
        assert (int(size), int(mtime), int(ctime), int(inode)) == (
            seen.st_size, int(seen.st_mtime), int(seen.st_ctime), seen.st_ino,
        )  # fmt: skip


def test_links_are_not_followed(shell: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for name, target in [("good", "file"), ("dangling", "nowhere"), ("ring", "ring")]:
        (tmp_path / name).symlink_to(target)
    names = [str(tmp_path / n) for n in ("good", "dangling", "ring", "file")]
    assert [a.split("|")[0] for a in ask(shell, "stat", *names)] == ["symbolic link"] * 3 + ["regular file"]
    assert ask(shell, "readlink", *names) == ["file", "nowhere", "ring", "-"]
    assert ask(shell, "sha256sum", *names) == ["-", "-", "-", hashlib.sha256(b"x").hexdigest()]


def test_a_target_with_a_newline_spoils_no_other_answer(shell: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "odd").symlink_to("two\nlines")
    (tmp_path / "fine").symlink_to("target")
    answers = ask(shell, "readlink", str(tmp_path / "odd"), str(tmp_path / "fine"), str(tmp_path / "none"))
    assert answers[0].startswith("?") and answers[1:] == ["target", "-"]


def test_sha256_of_many(shell: tuple[str, ...], tmp_path: Path) -> None:
    for n, name in enumerate(NAMES):
        (tmp_path / name).write_bytes(bytes([n]) * n)
    expected = [hashlib.sha256(bytes([n]) * n).hexdigest() for n in range(len(NAMES))]
    assert ask(shell, "sha256sum", *(str(tmp_path / name) for name in NAMES)) == expected


def test_what_is_closed_to_us_is_never_called_absent(shell: tuple[str, ...], tmp_path: Path) -> None:
    for folder in (tmp_path, *tmp_path.parents):
        if folder.is_relative_to("/tmp") and folder != Path("/tmp"):
            os.chmod(folder, 0o755)
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    (closed / "file").write_text("x")
    (tmp_path / "unreadable").write_text("x")
    os.chmod(tmp_path / "unreadable", 0o600 if os.geteuid() == 0 else 0)
    nobody = 65534 if os.geteuid() == 0 else None
    os.chmod(closed, 0o700 if nobody else 0)
    for name in ("stat", "readlink", "sha256sum"):
        answers = ask(shell, name, str(closed / "file"), str(closed / "deep" / "er"), user=nobody)
        assert [a[:3] for a in answers] == ["?no", "?no"], name
    assert ask(shell, "sha256sum", str(tmp_path / "unreadable"), user=nobody) == ["?no permission to read it"]
    assert ask(shell, "stat", str(tmp_path / "not" / "there"), user=nobody) == ["-"]


def test_where_a_path_really_leads(shell: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "real dir").mkdir()
    (tmp_path / "real dir" / "link").symlink_to("/nowhere")
    (tmp_path / "alias").symlink_to("real dir")
    names = ["alias/x", "alias/link", "alias/no/such/y", "real dir/z", "dangling/w"]
    (tmp_path / "dangling").symlink_to("/not/there")
    there = tmp_path.resolve()
    answers = ask(shell, "real", *(str(tmp_path / name) for name in names), "/top")
    wanted = ["real dir/x", "real dir/link", "real dir/no/such/y", "real dir/z", "dangling/w"]
    assert answers == [*(f"{there}/{name}" for name in wanted), "/top"]


def test_packages(shell: tuple[str, ...]) -> None:
    version = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", "bash"], capture_output=True, text=True).stdout
    answers = ask(shell, "dpkg", "no-such-package", "bash", "libc6", "ba", "bash")
    assert answers[0] == answers[3] == "-"
    assert answers[1] == answers[4] == f"ii |{version}|{answers[1].rpartition('|')[2]}"
    assert answers[2].startswith("ii |")


def test_commands(shell: tuple[str, ...]) -> None:
    answers = ask(shell, "have", "cat", "no-such-command", "cat")
    assert answers[1] == "-" and answers[0] == answers[2] and answers[0].endswith("cat")


def test_a_few_hundred_paths(shell: tuple[str, ...], tmp_path: Path) -> None:
    paths = [str(tmp_path / f"f{n}") for n in range(300)]
    for path in paths[::3]:
        Path(path).touch()
    answers = ask(shell, "stat", *paths)
    assert [a != "-" for a in answers] == [n % 3 == 0 for n in range(300)]
