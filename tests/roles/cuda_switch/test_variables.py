"""What becomes of PATH, LD_LIBRARY_PATH, CUDA_HOME and CUDA_PATH, in every shell that scripts are written for."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from .ground import CALLERS, SHEBANGS, Ground, make

# By its path: the PATHs of these cases lead to nothing.
ENV = "/usr/local/bin/cuda-env"
USE, NONE = f'eval "$({ENV} 11.7)"', f'eval "$({ENV} none)"'

T = "/usr/local/cuda-11.7"
BIN, LIB = f"{T}/bin", f"{T}/lib64:{T}/extras/CUPTI/lib64"

ODD = " a b :/c*:/[d]?:~:$HOME:`e`:'f':\"g\":\\:-n:=:!"
TAKEN = "/usr/local/cuda/bin:/usr/local/cuda-12.1/nvvm/bin:/usr/local/cuda-12/targets/x86_64-linux/lib"


def dumped(names: dict[bytes, bytes], *wanted: str) -> dict[str, str]:
    return {n: names[n.encode()].decode("utf-8", "surrogateescape") for n in wanted if n.encode() in names}


VARIABLES = ("PATH", "LD_LIBRARY_PATH", "CUDA_HOME", "CUDA_PATH")


@dataclass(frozen=True)
class Case:
    """Lists before, and what of them stands after ours when 11.7 is in use (None: nothing)."""

    path: str
    path_rest: str | None
    lib: str | None = None
    lib_rest: str | None = None
    more: dict[str, str] = field(default_factory=dict)

    @property
    def before(self) -> dict[str, str]:
        return {"PATH": self.path, **({} if self.lib is None else {"LD_LIBRARY_PATH": self.lib}), **self.more}

    @property
    def used(self) -> dict[str, str]:
        return {
            "PATH": BIN if self.path_rest is None else f"{BIN}:{self.path_rest}",
            "LD_LIBRARY_PATH": LIB if self.lib_rest is None else f"{LIB}:{self.lib_rest}",
            "CUDA_HOME": T,
            "CUDA_PATH": T,
        }


CASES = {
    "nothing of CUDA": Case("/usr/bin:/bin", "/usr/bin:/bin"),
    "empty strings": Case("", "", "", None, {"CUDA_HOME": "", "CUDA_PATH": ""}),
    "one colon": Case(":", ":", ":", ":"),
    "empty entries": Case(":/a::/b:", ":/a::/b:", "/x:", "/x:"),
    "odd folders": Case(ODD, ODD, ODD, ODD),
    "a newline": Case("/a\nb\n:/c\n", "/a\nb\n:/c\n", "\n", "\n"),
    "bytes that are no text": Case("/\udcff\udcfe:/b", "/\udcff\udcfe:/b", "/ä\udce4", "/ä\udce4"),
    "entries twice": Case("/a:/b:/a", "/a:/b:/a"),
    "others' toolkits go": Case(f"/a:{TAKEN}:/b", "/a:/b", f"{TAKEN}:/b:/usr/local/cuda/lib64", "/b"),
    "only toolkits": Case(TAKEN, None, TAKEN, None),
    "toolkits and the current folder": Case(f"{TAKEN}:", "", f":{TAKEN}", ""),
    "every part of a toolkit": Case(
        "/usr/local/cuda/nsight-systems/bin:/usr/local/cuda-11/bin:/b:/usr/local/cuda",
        "/b",
        "/usr/local/cuda/lib:/usr/local/cuda-12.1/extras/CUPTI/lib64:/usr/local/cuda/compat:/usr/local/cuda-9/nvvm/x",
        None,
    ),
    "the wanted one is there already": Case(f"/a:{BIN}:/b:{BIN}", "/a:/b", f"/x:{LIB}", "/x"),
    "other spellings": Case("//usr/local//cuda/./bin/:/usr/./local/cuda/:/usr/local/cuda-12.1/.:/a//b/", "/a//b/"),
    "the driver stays": Case(
        "/usr/local/nvidia/bin:/bin",
        "/usr/local/nvidia/bin:/bin",
        "/usr/local/nvidia/lib:/usr/local/nvidia/lib64:/usr/lib/x86_64-linux-gnu:/usr/local/cuda/compat/lib",
        "/usr/local/nvidia/lib:/usr/local/nvidia/lib64:/usr/lib/x86_64-linux-gnu",
    ),
    "no toolkit": Case(
        "/usr/local/bin:/opt/cuda/bin:cuda/bin:/usr/local/cuda/../bin:/home/cuda-12.1/bin",
        "/usr/local/bin:/opt/cuda/bin:cuda/bin:/usr/local/cuda/../bin:/home/cuda-12.1/bin",
        "/usr/local/cudnn/lib64:/usr/local/cuda/lib64;/a",
        "/usr/local/cudnn/lib64:/usr/local/cuda/lib64;/a",
    ),
    "what CUDA_HOME names": Case(
        "/opt/cuda-10/bin:/b:/opt/CUDA/bin:/opt/cuda-100/bin",
        "/b:/opt/cuda-100/bin",
        "/opt/cuda-10/lib64:/opt/CUDA",
        None,
        {"CUDA_HOME": "/opt/cuda-10/", "CUDA_PATH": "/opt/CUDA"},
    ),
    "CUDA_HOME is the system": Case(
        "/usr/bin:/usr/local/bin", "/usr/bin:/usr/local/bin", None, None, {"CUDA_HOME": "/usr", "CUDA_PATH": "/"}
    ),
    "CUDA_HOME is no folder": Case("a/bin:/bin", "a/bin:/bin", None, None, {"CUDA_HOME": "a", "CUDA_PATH": "*"}),
}


def round_trip(ground: Ground, case: Case, shell: list[str]) -> None:
    # zsh starts with a PATH of its own when it is given an empty one.
    script = f'PATH="$P"; unset P; DUMP before; {USE}; DUMP used; {NONE}; DUMP none'
    done = ground.run(shell, script, surrogates({**case.before, "P": case.path}))
    assert done.err == ""
    assert dumped(done.dumps["used"], *VARIABLES) == case.used
    assert done.dumps["none"] == done.dumps["before"]
    assert dumped(done.dumps["none"], *VARIABLES) == case.before


def surrogates(env: dict[str, str]) -> dict[str, bytes]:
    return {name: value.encode("utf-8", "surrogateescape") for name, value in env.items()}


@pytest.mark.parametrize("caller", CALLERS)
@pytest.mark.parametrize("case", CASES)
def test_use_and_none(ground: Ground, case: str, caller: str) -> None:
    round_trip(ground, CASES[case], CALLERS[caller])


@pytest.fixture(scope="module", params=sorted(SHEBANGS.keys() - {"dash"}))
def other_sh(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Ground:
    return make(tmp_path_factory.mktemp(request.param), shebang=request.param)


@pytest.mark.parametrize("case", CASES)
def test_whatever_sh_is(other_sh: Ground, case: str) -> None:
    round_trip(other_sh, CASES[case], CALLERS["zsh"])


def test_environments_of_their_own_that_cuda_home_may_name(ground: Ground) -> None:
    for name, mark in {
        "cuda-env": "conda-meta",
        "cuda-venv": "pyvenv.cfg",
        "11.0": "version.json",
        "11.1": "x",
    }.items():
        (ground.folder / name / mark).mkdir(parents=True, exist_ok=True)
    for name, goes in {"cuda-env": False, "cuda-venv": False, "11.0": True, "11.1": False}.items():
        home = str(ground.folder / name)
        case = Case(f"/a:{home}/bin", "/a" if goes else f"/a:{home}/bin", None, None, {"CUDA_HOME": home})
        round_trip(ground, case, CALLERS["dash"])


# --- changed by hand in between ---

O_PATH = "/a b:/usr/local/cuda/bin:/b:/c:"
O_LIB = "/usr/local/cuda/lib64:/x"
BEFORE = {"PATH": O_PATH, "LD_LIBRARY_PATH": O_LIB, "CUDA_HOME": "/usr/local/cuda"}

# what is done while 11.7 is in use, and what is different from before afterwards (None: unset)
EDITS: dict[str, tuple[str, dict[str, str | None]]] = {
    "nothing": ("", {}),
    "another": (f'eval "$({ENV} 12.1)"', {}),
    "another, and back": (f'eval "$({ENV} 12.1)"; {USE}', {}),
    "the same": (USE, {}),
    "one that is not there": (f'eval "$({ENV} 99.9 2>/dev/null)"', {}),
    "added first": ("PATH=/mine:$PATH", {"PATH": f"/mine:{O_PATH}"}),
    "added first, not exported before": ("MINE=/mine; PATH=$MINE:$PATH", {"PATH": f"/mine:{O_PATH}"}),
    "added last": ('PATH="$PATH:/mi ne"', {"PATH": f"{O_PATH}:/mi ne"}),
    "added at both ends": ("PATH=:/m:$PATH:/n", {"PATH": f":/m:{O_PATH}:/n"}),
    "added, then another": (f'PATH=/mine:$PATH; eval "$({ENV} 12.1)"', {"PATH": f"/mine:{O_PATH}"}),
    "added, another, added": (
        f'PATH=/m:$PATH; eval "$({ENV} 12.1)"; LD_LIBRARY_PATH=/n:$LD_LIBRARY_PATH',
        {"PATH": f"/m:{O_PATH}", "LD_LIBRARY_PATH": f"/n:{O_LIB}"},
    ),
    "added as an rc file does": ('PATH="$CUDA_HOME/bin:$PATH:$CUDA_HOME/bin"', {}),
    "its own toolkit added": ("PATH=/usr/local/cuda-9.2/bin:$PATH", {"PATH": f"/usr/local/cuda-9.2/bin:{O_PATH}"}),
    "one taken out": (f'PATH="{BIN}:/a b:/c:"', {"PATH": "/a b:/usr/local/cuda/bin:/c:"}),
    "the next one taken out, one added within": (
        f'PATH="{BIN}:/a b:/new:/c:"',
        {"PATH": "/a b:/new:/usr/local/cuda/bin:/c:"},
    ),
    "all others taken out": (f'PATH="{BIN}"', {"PATH": "/usr/local/cuda/bin"}),
    "turned round": (f'PATH="/c:/b:/a b:{BIN}"', {"PATH": "/usr/local/cuda/bin:/c:/b:/a b"}),
    "put back by hand": (
        f'PATH="{BIN}:/usr/local/cuda/bin:/a b:/b:/c:"',
        {"PATH": "/usr/local/cuda/bin:/a b:/b:/c:"},
    ),
    "made anew": ("PATH=/new:/bin", {"PATH": "/new:/bin"}),
    "made anew and empty": ("PATH=", {"PATH": ""}),
    "unset": ("unset LD_LIBRARY_PATH CUDA_HOME", {"LD_LIBRARY_PATH": None, "CUDA_HOME": None}),
    "another CUDA_HOME": ("CUDA_HOME=/my; export CUDA_PATH=", {"CUDA_HOME": "/my", "CUDA_PATH": ""}),
}


@pytest.mark.parametrize("caller", CALLERS)
@pytest.mark.parametrize("edit", EDITS)
def test_what_was_changed_in_between_stays(ground: Ground, edit: str, caller: str) -> None:
    script, different = EDITS[edit]
    done = ground.run(CALLERS[caller], f"{USE}; {script or ':'}; {NONE}; DUMP none", BEFORE)
    assert done.err == ""
    expected = {name: value for name, value in {**BEFORE, **different}.items() if value is not None}
    assert dumped(done.dumps["none"], *VARIABLES) == expected
    assert not [name for name in done.dumps["none"] if name.startswith(b"GPUPROV")]


def test_the_toolkit_in_use_is_put_back_where_it_was_before(ground: Ground) -> None:
    done = ground.run(["dash"], f'{USE}; PATH="{BIN}:/a:/c"; {NONE}; DUMP none', {"PATH": f"/a:{BIN}:/b:/c"})
    assert dumped(done.dumps["none"], "PATH") == {"PATH": f"/a:{BIN}:/c"}


# LD_LIBRARY_PATH before (None: unset), what is done, and LD_LIBRARY_PATH afterwards
WITHOUT_ANY = {
    "unset, added first": (None, "LD_LIBRARY_PATH=/m:$LD_LIBRARY_PATH", "/m"),
    "unset, added last": (None, "LD_LIBRARY_PATH=$LD_LIBRARY_PATH:/m", "/m"),
    "empty, added first": ("", "LD_LIBRARY_PATH=/m:$LD_LIBRARY_PATH", "/m"),
    "unset, a part of ours taken out": (None, f"LD_LIBRARY_PATH={T}/lib64", None),
    "empty, a part of ours taken out": ("", f"LD_LIBRARY_PATH={T}/lib64", ""),
    "a toolkit, a part of ours taken out": (
        "/usr/local/cuda/lib64",
        f"LD_LIBRARY_PATH={T}/lib64",
        "/usr/local/cuda/lib64",
    ),
}


@pytest.mark.parametrize("case", WITHOUT_ANY)
def test_no_entry_appears_that_nobody_put_there(ground: Ground, case: str) -> None:
    before, script, after = WITHOUT_ANY[case]
    env = {"PATH": "/bin", **({} if before is None else {"LD_LIBRARY_PATH": before})}
    done = ground.run(["dash"], f"{USE}; {script}; {NONE}; DUMP none", env)
    assert dumped(done.dumps["none"], "LD_LIBRARY_PATH").get("LD_LIBRARY_PATH") == after


@pytest.mark.parametrize("caller", CALLERS)
def test_a_child_can_undo_what_its_parent_did(ground: Ground, caller: str) -> None:
    child = f"/bin/{caller} {'sh ' if caller == 'busybox' else ''}-c '{NONE}; DUMP child'"
    done = ground.run(
        CALLERS[caller], f"DUMP before; {USE}; {child}; DUMP still; ({NONE}; DUMP sub); {NONE}; DUMP none", BEFORE
    )
    assert done.dumps["child"] == done.dumps["sub"] == done.dumps["none"] == done.dumps["before"]
    assert done.dumps["still"][b"CUDA_HOME"] == T.encode()


def test_a_toolkit_that_went_can_be_undone(tmp_path: Path) -> None:
    ground = make(tmp_path)
    for caller in CALLERS.values():
        gone = f"mv {T} {T}.gone"
        script = f'DUMP before; {USE}; /bin/{gone}; {NONE}; DUMP none; eval "$({ENV} 11.7)"; echo $?; DUMP same'
        done = ground.run(caller, script, BEFORE)
        assert done.dumps["before"] == done.dumps["none"] == done.dumps["same"]
        assert done.out == "1\n"
        edited = ground.run(caller, f"{NONE}; DUMP none", {**BEFORE, "PATH": O_PATH})
        assert dumped(edited.dumps["none"], *VARIABLES) == BEFORE
        shutil.move(f"{ground.local}/cuda-11.7.gone", f"{ground.local}/cuda-11.7")


@pytest.mark.parametrize("toolkits", ["/usr/local/odd [a-c]* it's", "/usr/local/x\\$(id)"])
def test_any_folder_for_toolkits(tmp_path: Path, toolkits: str) -> None:
    ground = make(tmp_path, toolkits=toolkits)
    path = f"{toolkits}/cuda/bin:/b:{toolkits}/cuda-9.2/bin:/usr/local/cuda-12.1/bin:/usr/local/odd a/cuda/bin"
    for caller in CALLERS.values():
        done = ground.run(caller, f"DUMP before; {USE}; DUMP used; {NONE}; DUMP none", {"PATH": path})
        assert dumped(done.dumps["used"], "PATH") == {"PATH": f"{toolkits}/cuda-11.7/bin:/b:/usr/local/odd a/cuda/bin"}
        assert done.dumps["none"] == done.dumps["before"]


# --- any text ---

piece = st.sampled_from(
    [" ", "*", "[", "]", "?", "'", '"', "\\", "$", "`", "~", "-", "=", "\n", "ä", "\udcff", "/", ".", "a"]
)
others = st.lists(piece, max_size=6).map("".join).filter(lambda text: not text.startswith("/usr/local/cuda"))
toolkit_entries = st.sampled_from(
    [*TAKEN.split(":"), "/usr/local/cuda", "/usr/local/cuda-7.5/odd *'", BIN, f"{T}/lib64"]
)
entries = st.lists(others.map(lambda e: (e, False)) | toolkit_entries.map(lambda e: (e, True)), min_size=1, max_size=7)


def joined(chosen: list[tuple[str, bool]]) -> str:
    return ":".join(entry for entry, _ in chosen)


@pytest.mark.parametrize("caller", CALLERS)
@given(path=entries, lib=entries | st.none())
@settings(max_examples=30, deadline=None)
def test_any_lists(
    ground: Ground, caller: str, path: list[tuple[str, bool]], lib: list[tuple[str, bool]] | None
) -> None:
    kept = [entry for entry, taken in path if not taken]
    kept_lib = [entry for entry, taken in lib or () if not taken]
    if lib is not None and joined(lib) == "":
        kept_lib = []  # to the linker an empty list has no entry, to a shell it has one
    round_trip(
        ground,
        Case(
            joined(path),
            ":".join(kept) if kept else None,
            joined(lib) if lib else None,
            ":".join(kept_lib) if kept_lib else None,
        ),
        CALLERS[caller],
    )


@given(path=entries, before=others, after=others)
@settings(max_examples=30, deadline=None)
def test_any_addition_stays(ground: Ground, path: list[tuple[str, bool]], before: str, after: str) -> None:
    env = surrogates({"PATH": joined(path), "B": before, "A": after})
    done = ground.run(["dash"], f'{USE}; PATH="$B:$PATH:$A"; {NONE}; DUMP none', env)
    middle = [joined(path)] if joined(path) else []
    assert dumped(done.dumps["none"], "PATH") == {"PATH": ":".join([before, *middle, after])}


@given(path=entries, now=st.lists(others | toolkit_entries, min_size=1, max_size=7))
@settings(max_examples=30, deadline=None)
def test_whatever_it_was_made_none_ends_and_loses_nothing_of_it(
    ground: Ground, path: list[tuple[str, bool]], now: list[str]
) -> None:
    env = surrogates({"PATH": joined(path), "NOW": ":".join([*now, BIN])})
    done = ground.run(["dash"], f'{USE}; PATH="$NOW"; {NONE}; DUMP none', env)
    left = dumped(done.dumps["none"], "PATH")["PATH"].split(":")
    mine = iter(left)
    assert all(entry in mine for entry in now if entry not in LIB.split(":") and entry != BIN), left
