from __future__ import annotations

import hashlib
import json
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuprov.errors import HostFailed, Unseen
from gpuprov.facts import Conda, Facts
from gpuprov.guard.claims import PATHS, judge, on_host
from gpuprov.model import Job, Obtain, Run
from gpuprov.resources import AptPackage, Directory
from gpuprov.resources.pip_package import PipTransaction
from gpuprov.resources.wheel import Abi, BuiltWheel, ReleaseWheel, Sdist, env_lock, jobs_for, known_failures
from gpuprov.resources.wheel_state import Marker, WheelState
from tests.lab.mini_attn import make_sdist

SUM = hashlib.sha256(b"sdist").hexdigest()
ENV, TORCH, TOOLKIT = Directory(path="/opt/envs/a"), AptPackage(name="torch"), Directory(path="/usr/local/cuda-11.7")
ABI = Abi(python="3.10", torch="1.13.1+cu117", cuda="11.7", cxx11_abi=False, gcc="11", glibc="2.36", archs=("75", "80"))
RELEASE = ReleaseWheel(name="a-1-cp310-cp310-linux_x86_64.whl", urls=("https://example.org/a.whl",), sha256=SUM)


def abi(field: str, value: Any) -> Abi:
    return replace(ABI, **{field: value})


def wheel(**fields: Any) -> BuiltWheel:
    values: dict[str, Any] = {
        "name": "flash-attn",
        "version": "1.0.9",
        "module": "flash_attn",
        "env": ENV,
        "torch": TORCH,
        "toolkit": TOOLKIT,
        "abi": ABI,
        "source": Sdist(sha256=SUM),
        "cache": "/var/lib/gpuprov/cache",
    }
    return BuiltWheel(**{**values, **fields})


def marker(**inputs: str) -> Marker:
    return Marker(
        name="flash-attn",
        version="1.0.9",
        inputs={**wheel().inputs, **inputs},
        how="built",
        checked="pending GPU",
        files={"lib/a.so": ("00", 1, 2)},
    )


THERE = WheelState(versions=("1.0.9",), torch="1.13.1+cu117", marker=marker())

# What is there now; action, before, and a word of the reason; None: nothing to do.
PLANS: dict[str, tuple[WheelState | None, tuple[str, str, str] | None]] = {
    "absent": (None, ("create", "absent", "")),
    "in place": (THERE, None),
    "in place, torch not told": (replace(THERE, torch=""), None),
    "another version": (replace(THERE, versions=("1.0.8",)), ("replace", "flash-attn 1.0.8", "wanted is 1.0.9")),
    "two versions": (
        replace(THERE, versions=("1.0.8", "1.0.9")),
        ("replace", "flash-attn 1.0.8 and 1.0.9", "wanted is 1.0.9"),
    ),
    "pip put it there": (replace(THERE, marker=None), ("replace", "flash-attn 1.0.9", "did not put it there")),
    "marker cannot be read": (
        replace(THERE, marker=None, unreadable=True),
        ("replace", "flash-attn 1.0.9", "cannot be read"),
    ),
    "taken out by pip": (replace(THERE, versions=()), ("replace", "its marker alone", "its files are gone")),
    "for another torch": (
        replace(THERE, marker=marker(torch="1.13.1+cu116")),
        ("replace", "flash-attn 1.0.9", "made for torch 1.13.1+cu116"),
    ),
    "by another gcc": (
        replace(THERE, marker=marker(compiler="gcc-10")),
        ("replace", "flash-attn 1.0.9", "made for compiler gcc-10"),
    ),
    "for more targets": (replace(THERE, marker=marker(archs="75 80 90")), None),
    "for all targets": (replace(THERE, marker=marker(archs="")), None),
    "for fewer targets": (replace(THERE, marker=marker(archs="80")), ("replace", "flash-attn 1.0.9", "archs 80")),
    "of another source": (replace(THERE, marker=marker(source="00")), ("replace", "flash-attn 1.0.9", "source 00")),
    "an input is missing": (replace(THERE, marker=marker(glibc="")), ("replace", "flash-attn 1.0.9", "glibc unknown")),
    "torch was changed under it": (
        replace(THERE, torch="2.0.1+cu117"),
        ("replace", "flash-attn 1.0.9", "torch there is 2.0.1+cu117 by now"),
    ),
    "a file was changed": (
        replace(THERE, damage=("lib/a.so",)),
        ("replace", "flash-attn 1.0.9", "lib/a.so is gone or changed"),
    ),
    "many files": (replace(THERE, damage=("a", "b", "c", "d")), ("replace", "flash-attn 1.0.9", "a, b, c are gone")),
}


@pytest.mark.parametrize("case", PLANS)
def test_plan(case: str) -> None:
    now, expected = PLANS[case]
    change = wheel().plan(now)
    if expected is None:
        assert change is None
        return
    action, before, why = expected
    assert change is not None
    assert (change.action, change.before) == (action, before)
    assert why in change.why
    assert change.after == "flash-attn 1.0.9 for torch 1.13.1+cu117 and Python 3.10"


@pytest.mark.parametrize(
    ("fields", "obtained"),
    [
        ({}, []),
        ({"source": Sdist(sha256=SUM, urls=("https://example.org/s.tar.gz",))}, ["/sdists/"]),
        ({"release": RELEASE}, ["/wheels/release/"]),
        ({"release": RELEASE, "source": Sdist(sha256=SUM, urls=("https://e.org/s.tar.gz",))}, ["/wheels/", "/sdists/"]),
    ],
)
def test_what_is_fetched_before_the_job(fields: dict[str, Any], obtained: list[str]) -> None:
    change = wheel(**fields).plan(None)
    assert change is not None
    *before, job = change.steps
    assert isinstance(job, Job)
    assert len(before) == len(obtained)
    for step, part in zip(before, obtained, strict=True):
        assert isinstance(step, Obtain)
        assert step.sha256 == SUM
        assert step.path.startswith(f"/var/lib/gpuprov/cache{part}")
        assert f"{step.path}\n" in job.script, "the job looks where the file was put"


def test_the_lock_is_that_of_pip() -> None:
    transaction = PipTransaction(path="/opt/envs/a", cache="/c")
    assert transaction(("torch==1.13.1",)).locks == {env_lock("/opt/envs/a")}


def test_who_works_in_one_environment_waits() -> None:
    def locks(**fields: Any) -> frozenset[str]:
        change = wheel(**fields).plan(None)
        assert change is not None
        job = change.steps[-1]
        assert isinstance(job, Job)
        return job.locks

    assert env_lock("/opt/envs/a") in locks()
    other = locks(env=Directory(path="/opt/envs/b"))
    assert env_lock("/opt/envs/b") in other
    assert len(locks() & other) == 1, "the same wheel is built once"
    assert not locks() & locks(env=Directory(path="/opt/envs/b"), version="1.0.8")
    assert all(len(lock) <= 64 for lock in locks())


OTHER_KEYS: dict[str, dict[str, Any]] = {
    "name": {"name": "flash-attn2"},
    "version": {"version": "1.0.8"},
    "source": {"source": Sdist(sha256="0" * 64)},
    **{
        name: {"abi": abi(name, value)}
        for name, value in {
            "python": "3.9",
            "torch": "1.13.1+cu116",
            "cuda": "11.8",
            "cxx11_abi": True,
            "archs": ("80",),
            "glibc": "2.31",
            "gcc": "10",
            "machine": "aarch64",
        }.items()
    },
}
SAME_KEYS: dict[str, dict[str, Any]] = {
    "jobs": {"jobs": 9},
    "place": {"env": Directory(path="/opt/envs/b")},
    "where the toolkit lies": {"toolkit": Directory(path="/opt/cuda")},
    "url": {"source": Sdist(sha256=SUM, urls=("https://example.org/s",))},
    "release wheel": {"release": RELEASE},
    "cache": {"cache": "/tmp/c"},
}


def test_the_key_is_of_all_that_decides_the_wheel() -> None:
    keys = [wheel(**fields).key for fields in OTHER_KEYS.values()]
    assert len({wheel().key, *keys}) == len(OTHER_KEYS) + 1
    assert {wheel(**fields).key for fields in SAME_KEYS.values()} == {wheel().key}


def test_identity_needs_and_claims() -> None:
    one = wheel(tools=(AptPackage(name="gcc-11"),))
    assert one.id == "wheel:/opt/envs/a/flash-attn"
    assert set(one.needs()) == {ENV, TORCH, TOOLKIT, AptPackage(name="gcc-11")}
    assert one.container() == ENV
    assert hash(one)
    assert one.claims().paths == {
        "/opt/envs/a",
        "/opt/envs/a/.gpuprov/wheels/flash-attn.json",
        "/var/lib/gpuprov/cache/wheels",
        "/var/lib/gpuprov/cache/sdists",
    }


@pytest.mark.parametrize(("prefix", "refused"), [("/root/miniconda3", True), ("/root/miniconda3/envs/a", False)])
def test_the_guard_refuses_condas_base(prefix: str, refused: bool) -> None:
    one = wheel(env=Directory(path=prefix))
    protected = [*PATHS, *on_host(Facts(conda=(Conda(path="/root/miniconda3"),)))]
    assert bool(judge({one.id: one.claims()}, protected, ())) == refused


def test_absent() -> None:
    gone = wheel(present=False)
    assert gone.plan(None) is None
    change = gone.plan(THERE)
    assert change is not None
    assert (change.action, change.after, len(change.steps)) == ("remove", "absent", 1)
    assert gone.plan(WheelState(marker=marker())) is not None
    with pytest.raises(HostFailed, match="is not what gpuprov put there"):
        gone.plan(WheelState(versions=("1.0.9",)))


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "name": ({"name": "a b"}, "name"),
    "name leads elsewhere": ({"name": "../a"}, "name"),
    "version": ({"version": "latest"}, "version"),
    "module": ({"module": "flash-attn"}, "module"),
    "modules": ({"modules": ("a b",)}, "modules"),
    "env is no place": ({"env": AptPackage(name="gcc")}, "env"),
    "toolkit is no place": ({"toolkit": AptPackage(name="gcc")}, "toolkit"),
    "jobs": ({"jobs": 0}, "jobs"),
    "cache": ({"cache": "cache"}, "cache"),
    "settings": ({"settings": {"A B": "x"}}, "settings"),
    "settings value": ({"settings": {"A": "\0"}}, "settings"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong(case: str) -> None:
    fields, word = WRONG[case]
    with pytest.raises(ValueError, match=word):
        wheel(**fields)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("python", "3"),
        ("python", "cp310"),
        ("torch", "1.13.1"),
        ("torch", "1.13.1+cu117; id"),
        ("cuda", "cu117"),
        ("gcc", "gcc-11"),
        ("glibc", ""),
        ("machine", "x 86"),
        ("archs", ("sm_80",)),
    ],
)
def test_wrong_abi(field: str, value: object) -> None:
    with pytest.raises(ValueError, match=field):
        abi(field, value)


def test_wrong_sources() -> None:
    for make in (
        lambda: Sdist(sha256="abc"),
        lambda: replace(RELEASE, sha256="abc"),
        lambda: replace(RELEASE, urls=()),
        lambda: replace(RELEASE, name="../a.whl"),
    ):
        with pytest.raises(ValueError):
            make()


GIB = 2**30


@pytest.mark.parametrize(
    ("cores", "memory", "gib", "jobs"),
    [
        (2, 64 * GIB, 4.0, 2),
        (96, 64 * GIB, 4.0, 16),
        (96, 880 * GIB, 4.0, 96),
        (96, 880 * GIB, 9.0, 96),
        (16, 31 * GIB, 9.0, 3),
        (16, 3 * GIB, 4.0, 1),
        (1, 880 * GIB, 4.0, 1),
        (16, 15 * GIB, 2.5, 6),
        (None, 64 * GIB, 4.0, 1),
        (16, None, 4.0, 1),
    ],
)
def test_jobs(cores: int | None, memory: int | None, gib: float, jobs: int) -> None:
    assert jobs_for(cores=cores, memory=memory, gib_per_job=gib) == jobs


@pytest.mark.parametrize("gib", [0.0, -1.0, float("nan"), float("inf")])
def test_jobs_need_memory(gib: float) -> None:
    with pytest.raises(ValueError, match="GiB"):
        jobs_for(cores=1, memory=GIB, gib_per_job=gib)


def test_known_failures_fit_their_format() -> None:
    kinds: tuple[Literal["build", "import"], ...] = ("build", "import")
    for what in kinds:
        for line in known_failures(what).split("\n"):
            text, tab, cause = line.partition("\t")
            assert text and tab and cause and "\t" not in cause


def test_the_labs_source_is_the_same_each_time(tmp_path: Path) -> None:
    (tmp_path / "again").mkdir()
    path, sha256 = make_sdist.make(tmp_path)
    other, same = make_sdist.make(tmp_path / "again")
    assert sha256 == same == hashlib.sha256(path.read_bytes()).hexdigest()
    assert other.name == "mini_attn-0.1.0.tar.gz"
    with tarfile.open(path) as tar:
        assert {"mini_attn-0.1.0/setup.py", "mini_attn-0.1.0/csrc/attention.cu"} <= set(tar.getnames())


# --- what the look printed -------------------------------------------------------------------

HEAD = {"format": 1, "name": "a", "version": "1", "how": "built", "checked": "imported", "inputs": {"torch": "1"}}
ONE = {"path": "lib/a b.so", "size": 5, "mtime": 7, "sha256": "ab"}


def printed(*lines: str, **head: object) -> bytes:
    value = {**HEAD, "files": [ONE], **head}
    return "\n".join((*lines, f"marker {json.dumps(value)}", "end", "")).encode()


DAMAGE: dict[str, tuple[str, tuple[str, ...]]] = {
    "as it was": ("file 5 7 - lib/a b.so", ()),
    "other time, same content": ("file 5 8 ab lib/a b.so", ()),
    "other time, other content": ("file 5 8 cd lib/a b.so", ("lib/a b.so",)),
    "other size": ("file 6 7 - lib/a b.so", ("lib/a b.so",)),
    "other content at the same time": ("file 5 7 cd lib/a b.so", ("lib/a b.so",)),
    "gone": ("file - - - lib/a b.so", ("lib/a b.so",)),
    "not told": ("", ("lib/a b.so",)),
}


@pytest.mark.parametrize("case", DAMAGE)
def test_damage(case: str) -> None:
    line, damage = DAMAGE[case]
    state = wheel().probe().parse(printed(line))
    assert state is not None
    assert state.damage == damage


TORCHES = {
    "torch 1.13.1+cu117": "1.13.1+cu117",
    "torch 2.0.1\ncuda 11.7": "2.0.1+cu117",
    "torch 2.0.1": "2.0.1",
    "": "",
}


@pytest.mark.parametrize("lines", TORCHES)
def test_which_torch(lines: str) -> None:
    state = wheel().probe().parse(f"dist flash_attn-1.0.9\n{lines}\nend\n".encode())
    assert state == WheelState(versions=("1.0.9",), torch=TORCHES[lines])


@pytest.mark.parametrize("change", [{"format": 2}, {"how": "magic"}, {"files": [{}]}, {"files": 7}, {"inputs": []}])
def test_a_marker_of_another_kind_is_told(change: dict[str, object]) -> None:
    state = wheel().probe().parse(printed("dist flash_attn-1.0.9", **change))
    assert state is not None
    assert (state.marker, state.unreadable) == (None, True)


def test_nothing_there_and_cut_short() -> None:
    parse = wheel().probe().parse
    assert parse(b"torch 1.13.1+cu117\ncuda 11.7\nend\n") is None
    with pytest.raises(Unseen, match="cut short"):
        parse(b"dist flash_attn-1.0.9\n")


@given(
    st.binary(), st.recursive(st.none() | st.integers() | st.text(), lambda inner: st.dictionaries(st.text(), inner))
)
def test_any_output_is_read(data: bytes, value: object) -> None:
    one = wheel()
    for text in (data, data + b"\nend\n", b"marker " + data + b"\nend\n", printed(files=value), printed(inputs=value)):
        try:
            state = one.probe().parse(text)
        except Unseen:
            continue
        one.plan(state)


def test_text_stays_text() -> None:
    evil = wheel(env=Directory(path="/opt/$(id)/it's"), settings={"A": "$(id) 'x'"}, check="'\"$(id)")
    change = evil.plan(None)
    assert change is not None
    assert not any(isinstance(step, Run) for step in change.steps)
    job = change.steps[-1]
    assert isinstance(job, Job)
    assert "gp_prefix='/opt/$(id)/it'\"'\"'s'\n" in job.script
