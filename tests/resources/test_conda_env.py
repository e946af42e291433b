"""The environment as a value: what it refuses, and what it plans."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuprov.errors import HostFailed, Unseen
from gpuprov.facts import Conda, Facts
from gpuprov.guard.claims import PATHS, judge, on_host
from gpuprov.model import Job, Obtain
from gpuprov.resources.conda_env import CondaEnv, CondaEnvState, MicromambaSource
from gpuprov.resources.manifest import Head, Look

PATH = "/root/miniconda3/envs/work"
BASE = "/root/miniconda3"
SUM = "0" * 64
PYTHON_URL = "https://c.example/linux-64/python-3.10.13-h955ad1f_0.conda#" + "a" * 32


def env(**fields: Any) -> CondaEnv:
    return CondaEnv(**{"path": PATH, "python": "3.10", "bases": (BASE,), **fields})


def state(kind: str = "ours", **fields: Any) -> CondaEnvState:
    look = None
    if kind == "ours":
        head = Head(
            id=fields.pop("id", f"conda-env:{PATH}"),
            inputs=fields.pop("inputs", env().inputs),
            release="python 3.10.13",
        )
        look = Look(head=head, **fields.pop("look", {}))
    return CondaEnvState(**{"kind": kind, "tool": "/bin/conda", "look": look, **fields})


# --- what it refuses ---


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"path": BASE}, "is a conda base"),
        ({"path": f"{BASE}/"}, "is a conda base"),
        ({"path": "/root/x/../miniconda3"}, "is a conda base"),
        ({"path": f"{BASE}/lib/x"}, "its place is below /root/miniconda3/envs"),
        ({"path": f"{BASE}/envs"}, "its place is below"),
        ({"path": "/root"}, "below another one"),
        ({"path": "/data/all", "bases": ("/data/all/conda",)}, "holds the conda base"),
        ({"path": "/"}, "below another one"),
        ({"path": "envs/x"}, "absolute"),
        ({"path": "/data/a:b"}, "colon"),
        ({"path": "/data/a\nb"}, "newline"),
        ({"python": "3"}, "version such as 3.10"),
        ({"python": "2.7"}, "version such as 3.10"),
        ({"python": "3.10.*"}, "version such as 3.10"),
        ({"python": ">=3.10"}, "version such as 3.10"),
        ({"python": "3.10\n"}, "version such as 3.10"),
        ({"packages": "numpy=1"}, "tuple"),
        ({"packages": ("numpy",)}, "exact"),
        ({"packages": ("numpy>=1.2",)}, "exact"),
        ({"packages": ("numpy=1.*",)}, "exact"),
        ({"packages": ("numpy==1.2",)}, "exact"),
        ({"packages": ("-c=evil",)}, "exact"),
        ({"packages": ("numpy=1 --no-deps",)}, "exact"),
        ({"packages": ("python=3.11",)}, "given as python"),
        ({"packages": ("conda-forge::python=3.11",)}, "given as python"),
        ({"channels": ("--override",)}, "channels"),
        ({"channels": ("https://me:secret@c.example/x",)}, "password"),
        ({"channels": ("",)}, "channels"),
        ({"explicit": ("https://c.example/linux-64/python-3.10.13-h1_0.conda",)}, "sum"),
        ({"explicit": (PYTHON_URL,), "packages": ("a=1",)}, "instead of"),
        ({"explicit": (PYTHON_URL.replace("3.10", "3.11"),)}, "one Python 3.10; it names 3.11.13"),
        ({"explicit": (PYTHON_URL.replace("python", "pip"),)}, "it names none"),
        ({"explicit": (PYTHON_URL.replace("3.10", "3.1"),)}, "it names 3.1.13"),
        ({"tool": "conda"}, "absolute"),
    ],
)
def test_what_cannot_be(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        env(**fields)


@pytest.mark.parametrize(
    ("urls", "sha256"), [((), SUM), ("https://x", SUM), (("https://x",), "abc"), (("https://x",), "")]
)
def test_a_micromamba_has_its_sum(urls: Any, sha256: str) -> None:
    with pytest.raises(ValueError, match="of micromamba must be"):
        MicromambaSource(urls=urls, sha256=sha256)


def test_the_guard_lets_an_environment_of_its_own_pass_and_no_base() -> None:
    facts = Facts(conda=(Conda(path=BASE),))
    protected = [*PATHS, *on_host(facts)]
    assert judge({env().id: env().claims()}, protected, ()) == ()
    # Where no facts were there to refuse it sooner
    base = CondaEnv(path=BASE, python="3.10")
    assert judge({base.id: base.claims()}, protected, ()) != ()


# --- what it is made of ---


@pytest.mark.parametrize(
    ("fields", "specs"),
    [
        ({}, ["python=3.10", "pip"]),
        ({"python": "3.10.13"}, ["python==3.10.13", "pip"]),
        ({"packages": ("numpy=1.26.4",)}, ["python=3.10", "numpy==1.26.4", "pip"]),
        ({"packages": ("numpy=1.26.4=py310_0",)}, ["python=3.10", "numpy=1.26.4=py310_0", "pip"]),
        ({"packages": ("conda-forge::gxx=12.1",)}, ["python=3.10", "conda-forge::gxx==12.1", "pip"]),
        ({"packages": ("pip=23.1",)}, ["python=3.10", "pip==23.1"]),
    ],
)
def test_what_the_tool_is_asked_for(fields: dict[str, Any], specs: list[str]) -> None:
    job = job_of(env(**fields))
    assert f"gp_specs='{chr(10).join(specs)}'\n" in job.script
    assert job.locks == {"conda"}


def job_of(resource: CondaEnv, now: CondaEnvState | None = None) -> Job:
    change = resource.plan(now or state("absent"))
    assert change is not None
    (job,) = (step for step in change.steps if isinstance(step, Job))
    return job


def test_the_digest_knows_what_decides_the_content_and_nothing_else() -> None:
    same: list[dict[str, Any]] = [{}, {"cache": "/x"}, {"tool": "/x/mamba"}, {"bases": ()}]
    other: list[dict[str, Any]] = [
        {"python": "3.10.13"},
        {"packages": ("a=1",)},
        {"channels": ("a", "b")},
        {"channels": ("b", "a")},
    ]
    assert len({env(**fields).inputs for fields in same}) == 1
    assert len({env(**fields).inputs for fields in [{}, *other]}) == 5
    assert env(packages=("a=1", "b=2")).inputs == env(packages=("b=2", "a=1")).inputs


def test_one_environment_seen_with_other_conda_installations_is_one() -> None:
    assert env().merge(env(bases=())) is not None
    assert env().merge(env(python="3.11")) is None


# --- plans ---

LEFT = (".gpuprov-work.making",)
PLANS: dict[str, tuple[dict[str, Any], CondaEnvState | None, tuple[str, str] | None]] = {
    "absent": ({}, state("absent"), ("create", "absent")),
    "nothing seen": ({}, None, ("create", "absent")),
    "empty": ({}, state("empty"), ("create", "an empty folder")),
    "half-made": ({}, state("conda", left=LEFT), ("create", "half-made")),
    "half-made, barely": ({}, state("other", left=LEFT), ("create", "half-made")),
    "as wanted": ({}, state(), None),
    "as wanted, leftovers": ({}, state(left=LEFT), ("update", "python 3.10.13, leftovers")),
    "other inputs": ({"packages": ("a=1",)}, state(), ("replace", "python 3.10.13")),
    "damaged": (
        {},
        state(look={"damage": (("missing", "bin/python"),), "totals": {"missing": 1}}),
        ("replace", "python 3.10.13, damaged"),
    ),
    "to go": ({"present": False}, state(), ("remove", "python 3.10.13")),
    "to go, damaged": (
        {"present": False},
        state(look={"damage": (("missing", "x"),), "totals": {"missing": 1}}),
        ("remove", "python 3.10.13"),
    ),
    "to go, half-made": ({"present": False}, state("venv", left=LEFT), ("remove", "half-made")),
    "to go, leftovers": ({"present": False}, state("absent", left=(".gpuprov-work.removed",)), ("remove", "leftovers")),
    "to go, absent": ({"present": False}, state("absent"), None),
    "to go, nothing seen": ({"present": False}, None, None),
    "to go, empty": ({"present": False}, state("empty"), None),
}


@pytest.mark.parametrize("case", PLANS)
def test_plan(case: str) -> None:
    fields, now, expected = PLANS[case]
    change = env(**fields).plan(now)
    assert (change and (change.action, change.before)) == expected
    if change:
        assert all(isinstance(step, Job) for step in change.steps)


@pytest.mark.parametrize(
    ("now", "words"),
    [
        (state("link"), "symbolic link"),
        (state("file"), "no folder"),
        (state("base"), "conda base"),
        (state("conda"), "did not make"),
        (state("venv"), "did not make"),
        (state("other"), "something else"),
        (state(id="conda-env:/elsewhere"), "cannot be moved or copied"),
        (CondaEnvState(kind="ours", tool="/bin/conda", look=Look(head=None)), "cannot be read"),
        (state("link", left=LEFT), "symbolic link"),
    ],
)
@pytest.mark.parametrize("present", [True, False])
def test_what_is_not_ours_stays(now: CondaEnvState, words: str, present: bool) -> None:
    with pytest.raises(HostFailed, match=words) as caught:
        env(present=present).plan(now)
    assert PATH in caught.value.message
    assert present is ("another path" in caught.value.message) or now.kind == "ours"


MICROMAMBA = MicromambaSource(urls=("https://m.example/micromamba",), sha256=SUM)


def test_a_host_without_conda_gets_a_micromamba_that_is_checked() -> None:
    change = env(micromamba=MICROMAMBA, cache="/c").plan(state("absent", tool=""))
    assert change is not None
    obtain, job = change.steps
    assert isinstance(obtain, Obtain)
    assert (obtain.sources, obtain.sha256, obtain.path) == (MICROMAMBA.urls, SUM, "/c/micromamba-000000000000")
    assert isinstance(job, Job)
    assert "gp_fallback=/c/micromamba-000000000000\n" in job.script


@pytest.mark.parametrize("fields", [{}, {"tool": "/opt/conda", "micromamba": MICROMAMBA}])
def test_without_a_tool_it_says_so(fields: dict[str, Any]) -> None:
    with pytest.raises(HostFailed, match="cannot be made: ") as caught:
        env(**fields).plan(state("absent", tool=""))
    assert "micromamba" in caught.value.hint


def test_a_host_with_a_tool_gets_none() -> None:
    change = env(micromamba=MICROMAMBA).plan(state("absent"))
    assert change is not None
    assert [type(step) for step in change.steps] == [Job]


@pytest.mark.parametrize("data", [b"", b"state absent\n", b"state what\nend\n", b"end\n", b"state ours\nhead {\n"])
def test_a_look_that_was_cut_short_is_unseen(data: bytes) -> None:
    with pytest.raises(Unseen):
        env().probe().parse(data)


@given(st.binary() | st.binary().map(lambda b: b"tool /x\nstate ours\n" + b + b"\nend\n"))
def test_parse_survives_any_bytes(data: bytes) -> None:
    try:
        seen = env().probe().parse(data)
    except Unseen:
        return
    try:
        env().plan(seen)
    except HostFailed:
        return


@given(st.text(max_size=20))
def test_no_text_becomes_an_option_or_a_second_spec(text: str) -> None:
    try:
        resource = env(packages=(text,))
    except ValueError:
        return
    assert not text.startswith("-")
    assert len(text.split()) == 1
    assert resource.packages == (text,)
