"""The shells that people type in, and those that log in."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from gpuprov.quote import quote

from .ground import DEADLINE, Ground, Terminal, make, terminal

SNIPPET = "/etc/profile.d/cuda-switch.sh"

SH = ["bash", "-c", 'exec -a sh bash -l "$@"', "sh"]
"""A login shell as on a host where sh is bash."""

INTERACTIVE: dict[str, tuple[list[str], dict[str, str]]] = {
    "bash": (["bash", "-i"], {}),
    "bash, login": (["bash", "-l", "-i"], {}),
    "sh as bash, login": ([*SH, "-i"], {}),
    "zsh": (["zsh", "-i"], {}),
    "zsh, login": (["zsh", "-l", "-i"], {}),
    "dash, login": (["dash", "-l", "-i"], {}),
    "dash, by ENV": (["dash", "-i"], {"ENV": SNIPPET}),
    "sh, by ENV": (["bash", "--posix", "-i"], {"ENV": SNIPPET}),
    "busybox, login": (["busybox", "sh", "-l", "-i"], {}),
}


def home(ground: Ground) -> None:
    # Without one zsh asks a new user what to write into it.
    (ground.folder / ".zshrc").touch()


@pytest.mark.parametrize("shell", INTERACTIVE)
def test_typed(ground: Ground, shell: str) -> None:
    words, env = INTERACTIVE[shell]
    home(ground)
    with terminal(ground, words, {**env, "LD_LIBRARY_PATH": "/x::"}) as typed:
        before = shown(typed)
        assert before.endswith("</x::> <no>")
        assert "nvcc of /usr/local/cuda-11.7\n" in typed.type("cuda-use 11.7; nvcc")
        assert "* 11.7  /usr/local/cuda-11.7\n" in typed.type("cuda-list")
        typed.type("cuda-use 12.1")
        assert "nvcc of /usr/local/cuda-12.1\n" in typed.type("nvcc")
        assert "ended with 1\n" in (said := typed.type("cuda-use 99.9; echo ended with $?"))
        assert "no CUDA 99.9 in /usr/local; there are 9.2, 11.7, 12.1" in said
        assert "nvcc of /usr/local/cuda-12.1\n" in typed.type("nvcc")
        assert "ended with 0\n" in typed.type("cuda-use none; echo ended with $?")
        assert shown(typed) == before


def shown(typed: Terminal) -> str:
    said = typed.type("""echo "is <$PATH> <${LD_LIBRARY_PATH-no}> <${CUDA_HOME-no}>" """)
    return next(line.partition("is ")[2] for line in said.splitlines() if "is <" in line and "$PATH" not in line)


def test_a_shell_that_reads_nothing_says_what_to_type(ground: Ground) -> None:
    with terminal(ground, ["dash", "-i"]) as typed:
        assert 'type  eval "$(cuda-env 11.7)"' in typed.type("cuda-use 11.7")
        assert "nvcc of /usr/local/cuda-11.7\n" in typed.type('eval "$(cuda-env 11.7)"; nvcc')


LOGIN = {
    "bash": ["bash", "-l"],
    "sh as bash": SH,
    "zsh": ["zsh", "-l"],
    "dash": ["dash", "-l"],
    "busybox": ["busybox", "sh", "-l"],
}


@pytest.mark.parametrize("shell", LOGIN)
def test_a_login_shell_without_a_terminal(ground: Ground, shell: str) -> None:
    script = "DUMP a\ncuda-use 11.7; nvcc; cuda-list | grep -c 1\ncuda-use none; DUMP b\ncuda-use 9; echo $?"
    done = ground.run(LOGIN[shell], script)
    assert done.out == "nvcc of /usr/local/cuda-11.7\n2\n1\n"
    assert done.err == "cuda-switch: no CUDA 9 in /usr/local; there are 9.2, 11.7, 12.1\n"
    assert done.dumps["a"] == done.dumps["b"]


FUNCTIONS = {"bash": ["bash"], "zsh": ["zsh", "-f"], "dash": ["dash"], "busybox": ["busybox", "sh"]}


@pytest.mark.parametrize("options", ["set -eu", "set -f", "set -C", "IFS=:/-.", "set -a"])
@pytest.mark.parametrize("shell", FUNCTIONS)
def test_the_function_whatever_the_options(ground: Ground, shell: str, options: str) -> None:
    read = f"emulate sh -c '. {SNIPPET}'" if shell == "zsh" else f". {SNIPPET}"
    script = f"{options}\n{read}\nDUMP a\ncuda-use 11.7\nDUMP b\ncuda-use none\nDUMP c\ncuda-use 9 || echo failed"
    done = ground.run(FUNCTIONS[shell], script)
    assert done.out == "failed\n"
    assert done.dumps["b"][b"CUDA_HOME"] == b"/usr/local/cuda-11.7"
    assert done.dumps["a"] == done.dumps["c"]


@pytest.mark.parametrize(
    "option", ["ksharrays", "shwordsplit", "nounset", "warncreateglobal", "extendedglob", "errexit"]
)
def test_the_function_in_any_zsh(ground: Ground, option: str) -> None:
    script = f"emulate sh -c '. {SNIPPET}'; setopt {option}; DUMP a; cuda-use 11.7; cuda-use none; DUMP c; setopt"
    done = ground.run(["zsh", "-f"], script)
    assert done.err == ""
    assert done.dumps["a"] == done.dumps["c"]
    assert option in done.out


@pytest.mark.parametrize("shell", FUNCTIONS)
def test_a_variable_that_was_not_exported_comes_back(ground: Ground, shell: str) -> None:
    read = f"emulate sh -c '. {SNIPPET}'" if shell == "zsh" else f". {SNIPPET}"
    script = f'{read}\nCUDA_HOME=/mine\ncuda-use 11.7\necho "$CUDA_HOME"\ncuda-use none\necho "$CUDA_HOME"'
    assert ground.run(FUNCTIONS[shell], script).out == "/usr/local/cuda-11.7\n/mine\n"


def test_only_names_of_our_own_are_read_in(ground: Ground) -> None:
    done = ground.run(["bash"], f"compgen -v | sort; . {SNIPPET}; echo ===; compgen -v | sort; declare -F; alias")
    before, after = done.out.split("===\n")
    new = set(after.splitlines()) - set(before.splitlines())
    functions = {f"declare -f {n}" for n in ("cuda-use", "cuda-list")}
    functions |= {f"declare -f _gpuprov_cuda_{n}" for n in ("use", "list", "login")}
    assert new - {"PIPESTATUS"} == {"_gpuprov_cuda_switch", *functions}


# --- the toolkit of login shells ---


@pytest.fixture(scope="module")
def with_default(tmp_path_factory: pytest.TempPathFactory) -> Ground:
    made = make(tmp_path_factory.mktemp("default"), default="12.1")
    home(made)
    # What a provider's image does for everybody who logs in.
    (made.etc / "profile.d/zz-platform.sh").write_text("export PATH=/usr/local/cuda-9.2/bin:$PATH\n")
    return made


@pytest.mark.parametrize("shell", LOGIN)
def test_a_login_starts_with_the_default(with_default: Ground, shell: str) -> None:
    done = with_default.run(LOGIN[shell], "nvcc; cuda-list\ncuda-use none; DUMP none")
    assert done.out.splitlines()[0] == "nvcc of /usr/local/cuda-12.1"
    assert "* 12.1" in done.out
    assert done.err == ""
    assert b"CUDA_HOME" not in done.dumps["none"]


@pytest.mark.parametrize("words", [["bash", "-l", "-i"], ["zsh", "-l", "-i"], ["dash", "-l", "-i"]], ids="-".join)
def test_so_does_one_on_a_terminal(with_default: Ground, words: list[str]) -> None:
    with terminal(with_default, words) as typed:
        assert "nvcc of /usr/local/cuda-12.1\n" in typed.type("nvcc")


@pytest.mark.parametrize("shell", LOGIN)
def test_a_choice_made_before_stays(with_default: Ground, shell: str) -> None:
    inner = " ".join(map(quote, LOGIN[shell])) + " -c nvcc"
    done = with_default.run(["dash"], f'eval "$(cuda-env 11.7)"; {inner}; cuda-run 9.2 {inner}')
    assert done.out == "nvcc of /usr/local/cuda-11.7\nnvcc of /usr/local/cuda-9.2\n"


@pytest.mark.parametrize("words", [["bash", "-i"], ["bash"], ["zsh", "-i"], ["dash"]], ids="-".join)
def test_other_shells_start_with_nothing(with_default: Ground, words: list[str]) -> None:
    assert b"CUDA_HOME" not in with_default.run(words, "DUMP a").dumps["a"]


def test_a_default_that_is_gone_is_told_to_people_only(tmp_path: Path) -> None:
    ground = make(tmp_path, default="8.0")
    home(ground)
    for words in LOGIN.values():
        done = ground.run(words, "set -e; echo in")
        assert (done.status, done.out, done.err) == (0, "in\n", "")
    with terminal(ground, ["bash", "-l", "-i"]) as typed:
        typed.type(":")
        assert "no CUDA 8.0 in /usr/local" in typed.seen


@pytest.mark.parametrize("shell", LOGIN)
def test_without_a_default_a_login_changes_nothing(ground: Ground, tmp_path: Path, shell: str) -> None:
    bare = make(tmp_path)
    for file in (bare.etc / "profile.d").iterdir():
        file.unlink()
    env = {"PATH": "/bin", "LD_LIBRARY_PATH": ":/usr/local/cuda/lib64", "CUDA_HOME": ""}
    without, with_role = (g.run(LOGIN[shell], "DUMP a", env).dumps["a"] for g in (bare, ground))
    assert {**with_role, b"HOME": b""} == {**without, b"HOME": b""}


# --- shells within shells ---


def test_tmux(ground: Ground) -> None:
    """A window is a login shell: /etc/profile makes its PATH anew, and the toolkit is in use all the same."""
    home(ground)
    out = ground.folder / "tmux"
    out.mkdir()
    keys = f"nvcc >{out}/nvcc; cuda-use none; /usr/bin/env -0 >{out}/env; touch {out}/done"
    script = f"""trap 'tmux -S {out}/s kill-server' EXIT
cuda-use 11.7
SHELL=/bin/bash tmux -S {out}/s -f /dev/null new-session -d
tmux -S {out}/s send-keys '{keys}' Enter
i=0; while [ ! -e {out}/done ] && [ $i -lt 200 ]; do sleep 0.1; i=$((i + 1)); done"""
    before = ground.run(["bash", "-l"], "DUMP a", {"PATH": "/bin", "LD_LIBRARY_PATH": ":/x"}).dumps["a"]
    done = ground.run(["bash", "-l"], script, {"PATH": "/bin", "LD_LIBRARY_PATH": ":/x"})
    assert (out / "nvcc").read_text() == "nvcc of /usr/local/cuda-11.7\n", done
    env = dict(item.split(b"=", 1) for item in (out / "env").read_bytes().split(b"\0") if item)
    assert {n: env.get(n) for n in (b"PATH", b"LD_LIBRARY_PATH", b"CUDA_HOME")} == {
        n: before.get(n) for n in (b"PATH", b"LD_LIBRARY_PATH", b"CUDA_HOME")
    }
    assert not [n for n in env if n.startswith(b"GPUPROV")]


# --- what it costs ---


@pytest.mark.parametrize("shell", FUNCTIONS)
def test_reading_it_starts_no_process(ground: Ground, shell: str) -> None:
    """In a process namespace of its own the first process after the shell itself has the number 2."""
    read = f"emulate sh -c '. {SNIPPET}'" if shell == "zsh" else f". {SNIPPET}"
    words = ground.words("unshare", "-p", "--fork", *FUNCTIONS[shell], "-c", f"{read}; : & echo $!")
    done = subprocess.run(words, capture_output=True, text=True, timeout=DEADLINE, check=True)
    assert done.stdout == "2\n"


@pytest.mark.parametrize("shell", FUNCTIONS)
def test_reading_it_takes_less_than_a_millisecond(ground: Ground, shell: str) -> None:
    read = f"emulate sh -c '. {SNIPPET}'" if shell == "zsh" else f". {SNIPPET}"
    times = 500
    loop = f"i=0; while [ $i -lt {times} ]; do {{}}i=$((i + 1)); unset _gpuprov_cuda_switch; done"

    def seconds(inner: str) -> float:
        process = subprocess.Popen(ground.words(*FUNCTIONS[shell], "-c", loop.replace("{}", inner)))
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0
        # Its own time, which other work on this machine hardly lengthens.
        return usage.ru_utime + usage.ru_stime

    started = time.monotonic()
    assert (seconds(f"{read}; ") - seconds("")) / times < 0.001
    assert time.monotonic() - started < DEADLINE
