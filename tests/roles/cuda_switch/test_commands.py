"""The commands for scripts: what they say, how they end, and that they leave nothing behind."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gpuprov.role import SearchPath

from .ground import CALLERS, CASES_PATH, SHEBANGS, Ground, make

THERE = "there are 9.2, 11.7, 12.1"
NAME_ONE = f"cuda-switch: name one toolkit, or none; {THERE}\n"
NAME_BOTH = f"cuda-switch: name a toolkit and a command, as in cuda-run X.Y -- nvcc --version; {THERE}\n"


@pytest.fixture(scope="module", params=SHEBANGS)
def any_sh(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Ground:
    """The commands run by each of the shells that sh may be."""
    return make(tmp_path_factory.mktemp(request.param), shebang=request.param)


# words, status, what is printed, what is said (None: in the shell's words)
ENDINGS: dict[str, tuple[str, int, str, str | None]] = {
    "run": ("cuda-run 11.7 -- nvcc", 0, "nvcc of /usr/local/cuda-11.7\n", ""),
    "run, without dashes": ("cuda-run 11.7 nvcc", 0, "nvcc of /usr/local/cuda-11.7\n", ""),
    "run none": ('eval "$(cuda-env 11.7)"; cuda-run none -- sh -c "echo ${X-}; command -v nvcc"', 127, "\n", ""),
    "run, its words": ("cuda-run 11.7 -- printf '%s|' 'a b' '' '*' -- 'c\nd'", 0, "a b||*|--|c\nd|", ""),
    "run, its status": ("cuda-run 11.7 -- sh -c 'exit 42'", 42, "", ""),
    "run, its signal": ("cuda-run 11.7 -- sh -c 'kill -TERM $$'", 143, "", None),
    "run, its input": ("echo in | cuda-run 11.7 -- cat", 0, "in\n", ""),
    "run, not found": ("cuda-run 11.7 -- no-such-command", 127, "", None),
    "run, not executable": ("cuda-run 11.7 -- /etc/passwd", 126, "", None),
    "run, no toolkit": ("cuda-run 10.1 -- echo no", 1, "", f"cuda-switch: no CUDA 10.1 in /usr/local; {THERE}\n"),
    "run, no command": ("cuda-run 11.7 --", 1, "", NAME_BOTH),
    "run, nothing": ("cuda-run", 1, "", NAME_BOTH),
    "list": (
        "cuda-list",
        0,
        "  9.2   /usr/local/cuda-9.2\n  11.7  /usr/local/cuda-11.7\n  12.1  /usr/local/cuda-12.1\n",
        "",
    ),
    "list, in use": ("cuda-run 12.1 cuda-list | grep '^[*]'", 0, "* 12.1  /usr/local/cuda-12.1\n", ""),
    "list, whatever IFS is": ("IFS=./1; export IFS; cuda-list | wc -l", 0, "3\n", ""),
    "list of something": ("cuda-list 11.7", 1, "", "cuda-switch: cuda-list takes no argument\n"),
    "env, nothing": ('eval "$(cuda-env)"', 1, "", NAME_ONE),
    "env, too much": ('eval "$(cuda-env 11.7 12.1)"', 1, "", NAME_ONE),
    "env, empty": ("eval \"$(cuda-env '')\"", 1, "", NAME_ONE),
    "env none, nothing in use": ('eval "$(cuda-env none)"', 0, "", ""),
    "env, unquoted": ("eval $(cuda-env 11.7); nvcc; eval $(cuda-env none)", 0, "nvcc of /usr/local/cuda-11.7\n", ""),
    "use": (
        "cuda-use 11.7",
        1,
        "",
        'cuda-switch: cuda-use is for login and interactive shells; here, type  eval "$(cuda-env 11.7)"\n',
    ),
}

UNKNOWN = [
    "99.9",
    "12",
    "12.4",
    "10.0",
    "11.8.gpuprov-new",
    "../x",
    "11.7/",
    "*",
    "1?.7",
    "a b",
    "-x",
    "11.7\n",
    "cuda-11.7",
]


@pytest.mark.parametrize("ending", ENDINGS)
def test_endings(any_sh: Ground, ending: str) -> None:
    words, status, out, err = ENDINGS[ending]
    done = any_sh.run(["dash"], words)
    assert (done.status, done.out) == (status, out)
    assert err is None or done.err == err


@pytest.mark.parametrize("version", UNKNOWN)
def test_what_is_not_there(any_sh: Ground, version: str) -> None:
    script = 'DUMP a; eval "$(cuda-env "$V")"; echo $?; DUMP b'
    done = any_sh.run(["dash"], script, {"PATH": CASES_PATH, "V": version})
    assert done.out == "1\n"
    assert done.err == f"cuda-switch: no CUDA {version} in /usr/local; {THERE}\n"
    assert done.dumps["a"] == done.dumps["b"]


def test_a_host_without_toolkits(tmp_path: Path) -> None:
    ground = make(tmp_path)
    for folder in (ground.local).glob("cuda*"):
        folder.rename(tmp_path / folder.name)
    done = ground.run(["dash"], 'cuda-list; eval "$(cuda-env 11.7)"')
    assert done.status == 1
    assert done.err == (
        "cuda-switch: no CUDA toolkit in /usr/local\n"
        "cuda-switch: no CUDA 11.7 in /usr/local; there is none in /usr/local\n"
    )


@pytest.mark.parametrize("caller", CALLERS)
def test_a_script_that_stops_at_errors_stops_at_an_unknown_toolkit(ground: Ground, caller: str) -> None:
    done = ground.run(CALLERS[caller], 'set -e; eval "$(cuda-env 99.9)"; echo went on')
    assert (done.status, done.out) == (1, "")


# --- in any shell, whatever its options ---

OPTIONS = {
    "set -eu": "set -eu",
    "set -f": "set -f",
    "noclobber": "set -C",
    "everything exported": "set -a",
    "IFS": "IFS=:/=-.",
    "no IFS": "IFS=",
    "its own words": "printf() { :; }; echo() { :; }; test() { false; }",
    "a function of the variable's name": "GPUPROV_CUDA_ROOT() { :; }; CUDA_HOME() { :; }",
}
ZSH = {
    "ksharrays": "setopt ksharrays",
    "nounset": "setopt nounset errexit",
    "sh_word_split": "setopt shwordsplit globsubst",
    "nomatch": "setopt nomatch extendedglob",
    "warnings": "setopt warncreateglobal warnnestedvar",
    "unique": "typeset -U path",
    "sh": "emulate sh",
    "ksh": "emulate ksh",
}


@pytest.mark.parametrize(
    ("caller", "options"),
    [(caller, o) for caller in CALLERS for o in OPTIONS.values()] + [("zsh", o) for o in ZSH.values()],
)
def test_whatever_the_options(ground: Ground, caller: str, options: str) -> None:
    env = {"PATH": f"/a  b:/*:/usr/local/cuda/bin:{CASES_PATH}:", "LD_LIBRARY_PATH": ""}
    script = f'{options}\nDUMP a; eval "$(cuda-env 11.7)"; DUMP b; eval "$(cuda-env none)"; DUMP c'
    done = ground.run(CALLERS[caller], script, env)
    assert done.err == ""
    assert done.dumps["b"][b"PATH"] == f"/usr/local/cuda-11.7/bin:/a  b:/*:{CASES_PATH}:".encode()
    assert done.dumps["c"] == done.dumps["a"]


LOOK = {"bash": "set; declare -F; alias; shopt", "zsh": "typeset; functions; alias", "dash": "set; alias"}
CHANGING = {"_", "BASH_LINENO", "LINENO", "RANDOM", "SECONDS", "EPOCHSECONDS", "EPOCHREALTIME", "SRANDOM", "TTYIDLE"}
CHANGING |= {"PIPESTATUS", "pipestatus", "status", "?", "!", "usertime", "systime", "BASH_MONOSECONDS"}


@pytest.mark.parametrize("caller", CALLERS)
def test_nothing_is_left_behind(ground: Ground, caller: str) -> None:
    look = f"{LOOK.get(caller, 'set; alias')}; set +o; umask; trap"
    folder = ground.folder / "looks"
    folder.mkdir(exist_ok=True)
    script = (
        f'export CUDA_PATH=; {{ {look}; }} >{folder}/a; eval "$(cuda-env 11.7)"; {{ {look}; }} >{folder}/b; '
        f'eval "$(cuda-env none)"; {{ {look}; }} >{folder}/c'
    )
    assert ground.run(CALLERS[caller], script).err == ""
    a, b, c = (
        [line for line in (folder / name).read_text().splitlines() if line.split("=")[0].split(" ")[-1] not in CHANGING]
        for name in "abc"
    )
    # bash keeps where the last command was, and zsh what it last asked the system.
    assert set(c) == set(a)
    variables = "GPUPROV_CUDA_|(PATH|path|LD_LIBRARY_PATH|CUDA_HOME|CUDA_PATH)="
    ours = re.compile(rf"(export |integer |exported |(array )?tied \w+ )?({variables})")
    assert [line for line in b if line not in a and not ours.match(line)] == []


def test_what_the_command_gets(any_sh: Ground) -> None:
    """A command sees the toolkit, and of its own variables each one, also where we use the name ourselves."""
    code = (SearchPath().find("cuda_switch").folder / "files/cuda-switch.sh").read_text()
    names = set(re.findall(r"\b([a-z_]+)=", code)) | {"LC_ALL", "LANG", "IFS"}
    assert len(names) > 15
    env = {
        name: "C.UTF-8" if name in ("LC_ALL", "LANG") else "of the user"
        for name in names - {"gpuprov_cuda_toolkits", "IFS"}
    }
    done = any_sh.run(["dash"], 'DUMP a; cuda-run 11.7 -- sh -c "DUMP b"', {"PATH": f"/b:{CASES_PATH}", **env})
    assert done.err == ""
    a, b = done.dumps["a"], done.dumps["b"]
    assert b[b"PATH"] == f"/usr/local/cuda-11.7/bin:/b:{CASES_PATH}".encode()
    ours = re.compile(rb"GPUPROV_CUDA_|PATH$|LD_LIBRARY_PATH$|CUDA_HOME$|CUDA_PATH$")
    assert {n: v for n, v in b.items() if not ours.match(n)} == {n: v for n, v in a.items() if not ours.match(n)}


def test_no_command_is_needed_on_path(any_sh: Ground) -> None:
    folder = "/usr/local/bin"
    script = (
        f'PATH=/no; eval "$({folder}/cuda-env 11.7)"; {folder}/cuda-list; eval "$({folder}/cuda-env none)"; echo $PATH'
    )
    done = any_sh.run(["dash"], script)
    assert done.err == ""
    assert done.out.splitlines()[1:] == ["* 11.7  /usr/local/cuda-11.7", "  12.1  /usr/local/cuda-12.1", "/no"]
