"""A Python package as a value: what it refuses, how versions compare, what it plans."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuprov.digest import digest
from gpuprov.engine.graph import Declaration, Origin, build
from gpuprov.engine.judging import judge
from gpuprov.errors import Unseen
from gpuprov.model import Differs, Member, Recheck
from gpuprov.resources.conda_env import CondaEnv, CondaEnvState
from gpuprov.resources.pip_package import Copy, PipPackage, PipState, PipTransaction

ENV = CondaEnv(path="/envs/work", python="3.10.13", cache="/c")
SUM = "sha256:" + "0" * 64
INDEX = "https://i.example/whl/cu117"


def package(**fields: Any) -> PipPackage:
    return PipPackage(**{"env": ENV, "name": "torch", "version": "1.13.1", **fields})


def state(*versions: str, fault: str = "") -> PipState:
    return PipState(copies=tuple(Copy(version=version, fault=fault) for version in versions))


def parsed(text: str, **fields: Any) -> PipState | None:
    return package(**fields).probe().parse(text.encode())


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"name": ""}, "name must be"),
        ({"name": "-r"}, "name must be"),
        ({"name": "a b"}, "name must be"),
        ({"name": "torch\n"}, "name must be"),
        ({"name": "torch[x]"}, "name must be"),
        ({"version": ""}, "exact"),
        ({"version": ">=1"}, "exact"),
        ({"version": "1.*"}, "exact"),
        ({"version": "latest"}, "exact"),
        ({"version": "1 --index-url=x"}, "exact"),
        ({"hashes": SUM}, "tuple"),
        ({"hashes": ("md5:" + "0" * 32,)}, "sha256"),
        ({"hashes": (SUM + " -e .",)}, "sha256"),
        ({"extras": ("a b",)}, "extras"),
        ({"index": "i.example"}, "URL"),
        ({"index": "https://me:secret@i.example/x"}, "without a password"),
        ({"extra_index": "https://i.example/x y"}, "URL"),
        ({"present": False}, "no meaning"),
        ({"present": False, "version": "", "hashes": (SUM,)}, "no meaning"),
    ],
)
def test_what_cannot_be(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words) as caught:
        package(**fields)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("name", ["Flash_Attn", "flash-attn", "flash.attn", "FLASH__attn"])
def test_one_identity_for_all_spellings(name: str) -> None:
    assert package(name=name).id == "pip:/envs/work/flash-attn"


@pytest.mark.parametrize(
    ("written", "version"), [("1.0.post1", "1.0.post1"), ("v1.0-1", "1.0.post1"), ("1.0RC1", "1.0rc1")]
)
def test_one_spelling_of_a_version(written: str, version: str) -> None:
    assert package(version=written).version == version


# wanted, found, an index is given, met
VERSIONS = [
    ("1.13.1", "1.13.1", False, True),
    ("1.13.1", "1.13.1", True, True),
    ("1.13", "1.13.0", False, True),
    ("1.13.1", "1.13.2", True, False),
    ("1.13.1+cu117", "1.13.1+cu117", False, True),
    ("1.13.1+cu117", "1.13.1", True, False),
    ("1.13.1+cu117", "1.13.1+cu116", True, False),
    ("1.13.1", "1.13.1+cu117", True, True),
    ("1.13.1", "1.13.1+cu117", False, False),
    ("1.13.1", "1.13.10+cu117", True, False),
    ("2.0.0", "2.0.0rc1", True, False),
    ("1.0.post1", "1.0-1", True, True),
    ("1.0", "an unknown version", True, False),
]


@pytest.mark.parametrize(("wanted", "found", "index", "met"), VERSIONS)
def test_versions(wanted: str, found: str, index: bool, met: bool) -> None:
    assert package(version=wanted, index=INDEX if index else None).is_met_by(found) is met
    assert package(version=wanted, extra_index=INDEX if index else None).is_met_by(found) is met


PLANS: dict[str, tuple[dict[str, Any], PipState | None, tuple[str, str, str, str] | None]] = {
    "absent": ({}, None, ("create", "absent", "1.13.1", "torch===1.13.1")),
    "extras": (
        {"extras": ("opt_einsum", "b")},
        None,
        ("create", "absent", "1.13.1", "torch[b,opt-einsum]===1.13.1"),
    ),
    "hashes": ({"hashes": (SUM,)}, None, ("create", "absent", "1.13.1", f"torch===1.13.1 --hash={SUM}")),
    "same": ({}, state("1.13.1"), None),
    "other": ({}, state("1.12.1"), ("update", "1.12.1", "1.13.1", "torch===1.13.1")),
    "another build": ({}, state("1.13.1+cu116"), ("update", "1.13.1+cu116", "1.13.1", "torch===1.13.1")),
    "any build of an index": (
        {"extra_index": INDEX, "version": "1.13"},
        None,
        ("create", "absent", "1.13", "torch==1.13"),
    ),
    "to a build": (
        {"version": "1.13.1+cu117"},
        state("1.13.1"),
        ("update", "1.13.1", "1.13.1+cu117", "torch==1.13.1+cu117"),
    ),
    "twice": ({}, state("1.13.1", "1.12.1"), ("update", "1.13.1 and 1.12.1", "1.13.1", "!torch===1.13.1")),
    "damaged": (
        {},
        state("1.13.1", fault="RECORD is missing"),
        ("update", "1.13.1 (RECORD is missing)", "1.13.1", "!torch===1.13.1"),
    ),
    "to go": ({"present": False, "version": ""}, state("1.13.1"), ("remove", "1.13.1", "absent", "-torch")),
    "to go, twice": ({"present": False, "version": ""}, state("1", "2"), ("remove", "1 and 2", "absent", "-torch")),
    "to go, absent": ({"present": False, "version": ""}, None, None),
}


@pytest.mark.parametrize("case", PLANS)
def test_plan(case: str) -> None:
    fields, now, expected = PLANS[case]
    change = package(**fields).plan(now)
    if expected is None:
        assert change is None
        return
    assert change is not None
    (step,) = change.steps
    assert isinstance(step, Member)
    assert (change.action, change.before, change.after, step.item) == expected
    assert step.join((step.item,)).locks == {f"pip-{digest('/envs/work')[:16]}"}


LOOKS: list[tuple[str, str, tuple[Copy, ...] | None]] = [
    ("torch", "dist rm torch-1.13.1+cu117.dist-info", (Copy(version="1.13.1+cu117"),)),
    ("flash-attn", "dist rm Flash_Attn-2.0.dist-info", (Copy(version="2.0"),)),
    ("torch", "dist rm torch_geometric-1.0.dist-info", None),
    ("torch", "dist m torch-1.0.dist-info", (Copy(version="1.0", fault="RECORD is missing"),)),
    ("torch", "dist - torch-1.0.dist-info", (Copy(version="1.0", fault="RECORD and METADATA is missing"),)),
    ("torch", "dist e torch-1.0-py3.10.egg-info", (Copy(version="1.0"),)),
    ("torch", "dist e torch.egg-info", (Copy(version="an unknown version"),)),
    ("torch", "dist rm torch-1.0.dist-info\ndist rm torch-2.0.dist-info", (Copy(version="1.0"), Copy(version="2.0"))),
    (
        "torch",
        "dist rm torch-1.0.dist-info\nbroken 1 of 9: torch/x.so",
        (Copy(version="1.0", fault="files are not whole: 1 of 9: torch/x.so"),),
    ),
    ("torch", "", None),
]


@pytest.mark.parametrize(("name", "text", "copies"), LOOKS)
def test_looks(name: str, text: str, copies: tuple[Copy, ...] | None) -> None:
    assert parsed(f"{text}\nend\n", name=name) == (PipState(copies=copies) if copies else None)


def test_a_look_that_was_cut_short_is_unseen() -> None:
    with pytest.raises(Unseen):
        parsed("dist rm torch-1.0.dist-info\n")


@given(st.binary() | st.binary().map(lambda b: b"dist rm torch-" + b + b"\nend\n"))
def test_parse_survives_any_bytes(data: bytes) -> None:
    try:
        seen = package().probe().parse(data)
    except Unseen:
        return
    package().plan(seen)


@given(st.text(max_size=12), st.text(max_size=12))
def test_no_text_becomes_an_option(name: str, version: str) -> None:
    try:
        change = package(name=name, version=version).plan(None)
    except ValueError:
        return
    assert change is not None and isinstance(change.steps[0], Member)
    job = change.steps[0].join((change.steps[0].item,))
    line = next(line for line in job.script.splitlines() if line.startswith("gp_wanted="))
    assert not line.removeprefix("gp_wanted=").strip("'").startswith("-")
    assert " " not in line


# --- one run of pip ---

RUN = PipTransaction(path="/envs/work", cache="/c", index=INDEX)


def test_one_job_whatever_the_order() -> None:
    items = ("torch==1.13.1", "!numpy==1.26.4", "-old", f"six==1.16 --hash={SUM}")
    job = RUN(items)
    assert job == RUN(items[::-1])
    assert job.title == "pip in /envs/work: numpy==1.26.4, -old, six==1.16, torch==1.13.1"
    for text in (
        "gp_wanted='numpy==1.26.4\nsix==1.16\ntorch==1.13.1'\n",
        f"gp_hashed='six==1.16 --hash={SUM}'\n",
        "gp_repair=numpy==1.26.4\n",
        "gp_gone=old\n",
        f"gp_index={INDEX}\n",
    ):
        assert text in job.script


@pytest.mark.parametrize(
    "items", [(), ("",), ("torch",), ("-r x",), ("torch==1 -e .",), ("--user",), ("a==1;b",), ("$(id)==1",)]
)
def test_no_items(items: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="item"):
        RUN(items)


def test_those_of_one_environment_and_index_are_one_run() -> None:
    def group(**fields: Any) -> str:
        change = package(**fields).plan(None)
        assert change is not None and isinstance(change.steps[0], Member)
        return change.steps[0].group

    other = CondaEnv(path="/envs/other", python="3.10")
    assert group() == group(name="numpy", version="1.26.4")
    assert len({group(), group(index=INDEX), group(extra_index=INDEX), group(env=other)}) == 4


# --- inside ---


@pytest.mark.parametrize("recheck", [False, True])
def test_those_of_a_new_environment_are_planned_from_absent(recheck: bool) -> None:
    declared = (ENV, package(), package(name="numpy", version="1.26.4"))
    graph = build(Declaration(resource=r, origin=Origin(play=1, role="r")) for r in declared)
    states = {ENV.id: CondaEnvState(kind="absent", tool="/bin/conda"), package().id: state("1.13.1")}
    verdicts = judge(graph, states)
    assert isinstance(verdicts[ENV.id], Differs)
    verdict = verdicts[package().id]
    assert isinstance(verdict, Differs | Recheck)
    change = verdict.change if isinstance(verdict, Differs) else verdict.now
    assert change is not None and change.action == "create"
