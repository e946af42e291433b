from __future__ import annotations

import itertools
import shutil
import subprocess
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuprov.errors import HostFailed, Unseen
from gpuprov.model import Put, Run
from gpuprov.resources import ProfileScript, ProfileState

from .host import Host

FILES = ("bash.bashrc", "zsh/zprofile", "zsh/zshrc")


def look(script: ProfileScript, *words: str, stat: str = "-", sha: str = "-") -> ProfileState | None:
    lines = [stat, sha][: len(script.probe().asks)] + [
        f"{file} {word}" for file, word in zip(FILES, words, strict=True)
    ]
    return script.probe().parse("".join(f"{line}\n" for line in lines).encode())


FILE = "regular file|644|0|0|root|root|1|2|3|4"
NONE, SAME, OTHER = "needed none", "needed same", "needed other"
NO_ZSH = "unneeded none"

# present, the file is as wanted, words of the look, (action, files that get or lose a block, kinds of the steps)
PLANS: dict[str, tuple[bool, bool, tuple[str, str, str], tuple[str, tuple[str, ...], tuple[type, ...]] | None]] = {
    "absent": (True, False, (NONE, NONE, NONE), ("create", FILES, (Run, Put, Run))),
    "absent, no zsh": (True, False, (NONE, NO_ZSH, NO_ZSH), ("create", FILES[:1], (Run, Put, Run))),
    "same": (True, True, (SAME, SAME, SAME), None),
    "same, no zsh": (True, True, (SAME, NO_ZSH, NO_ZSH), None),
    "zsh came later": (True, True, (SAME, NONE, NONE), ("update", FILES[1:], (Run,))),
    "zsh went": (True, True, (SAME, "unneeded same", "unneeded same"), None),
    "an old block": (True, True, (OTHER, SAME, SAME), ("update", FILES[:1], (Run,))),
    "only the file is gone": (True, False, (SAME, SAME, SAME), ("create", (), (Run, Put))),
    "remove": (False, True, (SAME, SAME, SAME), ("remove", FILES, (Run, Run))),
    "remove old blocks": (False, True, (OTHER, NONE, NO_ZSH), ("remove", FILES[:1], (Run, Run))),
    "remove, zsh went": (False, True, (SAME, "unneeded same", NO_ZSH), ("remove", FILES[:2], (Run, Run))),
    "remove blocks only": (False, False, (SAME, NONE, NONE), ("remove", FILES[:1], (Run,))),
    "remove the file only": (False, True, (NONE, NONE, NONE), ("remove", (), (Run,))),
    "remove absent": (False, False, (NONE, NO_ZSH, NO_ZSH), None),
}


@pytest.mark.parametrize("case", PLANS)
def test_plan(case: str) -> None:
    present, there, words, expected = PLANS[case]
    script = ProfileScript(name="cuda", content="PATH=/x:$PATH", present=present)
    wanted = ProfileScript(name="cuda", content="PATH=/x:$PATH").file._sha256()
    change = script.plan(look(script, *words, **({"stat": FILE, "sha": wanted} if there else {})))
    if expected is None:
        assert change is None
        return
    assert change is not None
    assert (change.action, tuple(map(type, change.steps))) == (expected[0], expected[2])
    edits = [s.script for s in change.steps if isinstance(s, Run) and "gp_files=" in s.script]
    assert len(edits) == bool(expected[1])
    assert not edits or f"gp_files='{' '.join(expected[1])}'" in edits[0] or f"gp_files={expected[1][0]}\n" in edits[0]
    shells = dict.fromkeys("bash" if "bash" in file else "zsh" for file in expected[1])
    assert change.after.endswith(f"read by {' and '.join(shells)}") == bool(shells)


@pytest.mark.parametrize("present", [True, False])
def test_markers_without_a_partner_are_left_to_people(present: bool) -> None:
    script = ProfileScript(name="cuda", content="x", present=present)
    with pytest.raises(HostFailed, match="/etc/zsh/zshrc") as caught:
        script.plan(look(script, SAME, NONE, "needed broken"))
    assert "bash.bashrc" not in caught.value.message


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"name": ""}, "name"),
        ({"name": "a_b"}, "name"),
        ({"name": "a.b"}, "name"),
        ({"name": "../a"}, "name"),
        ({"name": "A"}, "name"),
        ({"name": "-a"}, "name"),
        ({"name": "a" * 65}, "name"),
        ({"content": " \n"}, "empty"),
        ({"content": "a\0"}, "NUL"),
        ({"content": "\ud800"}, "UTF-8"),
    ],
)
def test_wrong(fields: dict[str, Any], word: str) -> None:
    with pytest.raises(ValueError, match=word):
        ProfileScript(**{"name": "cuda", "content": "x", **fields})


def test_identity_and_claims() -> None:
    script = ProfileScript(name="cuda-11-7", content="x")
    assert script.id == "profile:cuda-11-7"
    assert script.path == "/etc/profile.d/cuda-11-7.sh"
    assert script.claims().paths == {script.path, *(f"/etc/{file}" for file in FILES)}


@given(st.binary() | st.binary().map(lambda b: f"-\n-\n{FILES[0]} {NONE}\n".encode() + b))
def test_parse_survives_any_bytes(data: bytes) -> None:
    for present in (True, False):
        try:
            ProfileScript(name="cuda", content="x", present=present).probe().parse(data)
        except Unseen:
            continue


# --- on a real file system ---


@pytest.fixture
def etc(tmp_path: Path) -> Path:
    for folder in ("profile.d", "zsh"):
        (tmp_path / "e t'c" / folder).mkdir(parents=True)
    return tmp_path / "e t'c"


def kind(etc: Path) -> type[ProfileScript]:
    class Elsewhere(ProfileScript):
        _etc: ClassVar[str] = str(etc)

    return Elsewhere


CONTENTS = {
    "usual": b'# System-wide\n[ -z "$PS1" ] && return\nshopt -s checkwinsize\n',
    "no last newline": b"a\nb",
    "empty": b"",
    "only a newline": b"\n",
    "not UTF-8": b"\xff\xfe # \xe4\n",
    "carriage returns": b"a\r\nb\r\n",
    "backslashes": b"a\\\nb \\n %s $HOME `id`\n",
    "another block": b"# BEGIN gpuprov cuda-2\nx\n# END gpuprov cuda-2\n",
    "blanks": b"  \n\t\n \n",
    "a similar word": b"echo # BEGIN gpuprov cuda\n",
}


@pytest.mark.parametrize("case", CONTENTS)
def test_the_rest_stays_byte_for_byte(host: Host, etc: Path, case: str) -> None:
    before = CONTENTS[case]
    for file in FILES:
        (etc / file).write_bytes(before)
        (etc / file).chmod(0o640)
    script = kind(etc)(name="cuda", content="PATH=/x:$PATH")
    assert host.converge(script)
    for file in FILES:
        after = (etc / file).read_bytes()
        assert after.endswith(before)
        assert after.startswith(b"# BEGIN gpuprov cuda\n")
        assert (etc / file).stat().st_mode & 0o7777 == 0o640
    assert host.converge(script) is None
    host.converge(kind(etc)(name="cuda", present=False))
    for file in FILES:
        assert (etc / file).read_bytes() == before
        assert (etc / file).stat().st_mode & 0o7777 == 0o640
    assert sorted(p.name for p in etc.rglob("*") if p.is_file()) == ["bash.bashrc", "zprofile", "zshrc"]


@pytest.mark.parametrize("order", list(itertools.permutations("abc")))
def test_blocks_come_and_go_in_any_order(etc: Path, order: tuple[str, ...]) -> None:
    host = Host(shell=["dash"])
    (etc / "bash.bashrc").write_bytes(b"mine")
    for name in "abc":
        host.converge(kind(etc)(name=name, content=f"echo {name}"))
    for name in order:
        host.converge(kind(etc)(name=name, present=False))
    assert (etc / "bash.bashrc").read_bytes() == b"mine"
    assert sorted(p.name for p in etc.rglob("*") if p.is_file()) == ["bash.bashrc"]


def test_an_old_block_is_replaced(host: Host, etc: Path) -> None:
    old = b"# BEGIN gpuprov cuda\nold\nlines\n# END gpuprov cuda\n"
    (etc / "bash.bashrc").write_bytes(b"1\n" + old + b"2\n" + old + b"3")
    host.converge(kind(etc)(name="cuda", content="x=1"))
    text = (etc / "bash.bashrc").read_bytes()
    assert text.endswith(b"# END gpuprov cuda\n1\n2\n3")
    assert text.count(b"BEGIN gpuprov") == 1


@pytest.mark.parametrize(
    "text",
    [
        b"# BEGIN gpuprov cuda\nx\n",
        b"x\n# END gpuprov cuda",
        b"# BEGIN gpuprov cuda\n# BEGIN gpuprov cuda\n# END gpuprov cuda\n",
        b"# END gpuprov cuda\n# BEGIN gpuprov cuda\n",
    ],
)
def test_a_broken_block_is_seen(host: Host, etc: Path, text: bytes) -> None:
    (etc / "bash.bashrc").write_bytes(text)
    for present in (True, False):
        with pytest.raises(HostFailed, match="do not make pairs"):
            host.plan(kind(etc)(name="cuda", content="x", present=present))
    assert (etc / "bash.bashrc").read_bytes() == text


def test_a_link_stays_a_link(host: Host, etc: Path) -> None:
    (etc / "bash.bashrc.dpkg").write_text("real\n")
    (etc / "bash.bashrc").symlink_to("bash.bashrc.dpkg")
    host.converge(kind(etc)(name="cuda", content="x=1"))
    assert (etc / "bash.bashrc").readlink() == Path("bash.bashrc.dpkg")
    host.converge(kind(etc)(name="cuda", present=False))
    assert (etc / "bash.bashrc.dpkg").read_text() == "real\n"


def test_without_zsh_its_files_are_not_made(host: Host, etc: Path, tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    names = "bash cat chmod cp grep head base64 mv readlink rm sed sh"
    for tool in {*names.split(), host.shell[0]}:
        (tools / tool).symlink_to(shutil.which(tool) or "")
    host.shell = [shutil.which(host.shell[0]) or "", *host.shell[1:]]
    host.env["PATH"] = str(tools)
    host.converge(kind(etc)(name="cuda", content="x=1"))
    assert list((etc / "zsh").iterdir()) == []
    assert (etc / "bash.bashrc").exists()


@pytest.mark.parametrize("content", ["if true; then", "echo 'open", "f() {", "a=(", "case x in"])
def test_a_syntax_error_is_found_before_anything_is_written(host: Host, etc: Path, content: str) -> None:
    change = host.plan(kind(etc)(name="cuda", content=content))
    assert change
    check = change.steps[0]
    assert isinstance(check, Run)
    done = host.run(f"set -eu\n{check.script}", check=False)
    assert done.returncode == 1
    assert "syntax error" in done.stderr


def test_the_check_runs_nothing(host: Host, etc: Path) -> None:
    change = host.plan(kind(etc)(name="cuda", content=f"touch {etc.parent}/ran\nexit 3\n"))
    assert change
    assert isinstance(change.steps[0], Run)
    host.run(f"set -eu\n{change.steps[0].script}")
    assert not (etc.parent / "ran").exists()


# --- read by real shells, in a mount namespace of their own with a private /etc ---

CONTENT = """READ=${READ-}x
words="a b"
for w in $words; do COUNT=${COUNT-}$w; done
export COUNT
gp_hello() { echo "hello $READ $COUNT"; }
alias gp_alias=true
"""

READERS = {
    "bash, login": ["bash", "-l", "-c"],
    "bash, login and interactive": ["bash", "-l", "-i", "-c"],
    "bash, interactive": ["bash", "-i", "-c"],
    "dash, login": ["dash", "-l", "-c"],
    "zsh, login": ["zsh", "-l", "-c"],
    "zsh, login and interactive": ["zsh", "-l", "-i", "-c"],
    "zsh, interactive": ["zsh", "-i", "-c"],
}
OTHERS = {"bash, script": ["bash", "-c"], "zsh, script": ["zsh", "-c"], "dash, script": ["dash", "-c"]}


@pytest.fixture(scope="module")
def own_etc(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of this machine's /etc with the script in place."""
    folder = tmp_path_factory.mktemp("own") / "etc"
    shutil.copytree("/etc", folder, symlinks=True, ignore=lambda d, names: [n for n in names if n not in KEPT[d]])
    here = kind(folder)(name="cuda", content=CONTENT)
    host = Host(shell=["dash"])
    host.converge(here)
    # What was written for the copy's place must be read at /etc.
    for file in (*FILES, "profile.d/cuda.sh"):
        path = folder / file
        path.write_text(path.read_text().replace(str(folder), "/etc"))
    return folder


class _Kept(dict[str, set[str]]):
    def __missing__(self, folder: str) -> set[str]:
        return {p.name for p in Path(folder).iterdir()} if folder in ("/etc/zsh", "/etc/profile.d") else set()


KEPT = _Kept(
    {"/etc": {"profile", "bash.bashrc", "zsh", "profile.d", "passwd", "group", "nsswitch.conf", "ld.so.cache"}}
)


def in_own_etc(etc: Path, words: list[str], home: Path) -> str:
    mounted = ["unshare", "-Urm", "sh", "-c", 'mount --bind "$0" /etc && exec "$@"', str(etc)]
    env = {"HOME": str(home), "PATH": "/usr/bin:/bin", "TERM": "dumb"}
    done = subprocess.run(
        [*mounted, *words], env=env, capture_output=True, text=True, timeout=30, stdin=subprocess.DEVNULL
    )
    return done.stdout


@pytest.mark.parametrize("reader", READERS)
def test_read_once_by(own_etc: Path, tmp_path: Path, reader: str) -> None:
    assert in_own_etc(own_etc, [*READERS[reader], "gp_hello; alias gp_alias"], tmp_path).splitlines()[:1] == [
        "hello x ab"
    ]


@pytest.mark.parametrize("other", OTHERS)
def test_not_read_by(own_etc: Path, tmp_path: Path, other: str) -> None:
    assert in_own_etc(own_etc, [*OTHERS[other], "gp_hello; echo ended"], tmp_path) == "ended\n"


def test_the_file_may_be_missing(own_etc: Path, tmp_path: Path) -> None:
    etc = tmp_path / "etc"
    shutil.copytree(own_etc, etc, symlinks=True)
    (etc / "profile.d/cuda.sh").unlink()
    for words in READERS.values():
        assert in_own_etc(etc, [*words, "echo ended"], tmp_path).splitlines()[-1:] == ["ended"]
