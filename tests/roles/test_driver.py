from __future__ import annotations

from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuprov.errors import HostFailed, InputError, Position
from gpuprov.facts import Driver, Facts, Gpu, Pci
from gpuprov.facts.smi import SmiKind
from gpuprov.resources.driver import PENDING, DriverCheck, check_driver
from gpuprov.role import SearchPath, bind
from gpuprov.yaml_text import Mapping, loads

ROLE = SearchPath().find("driver")
A100 = Gpu(index=0, name="NVIDIA A100-SXM4-80GB", compute_cap="8.0")
T4 = Gpu(index=0, name="Tesla T4", compute_cap="7.5")
GEFORCE = Gpu(index=0, name="NVIDIA GeForce RTX 4090", compute_cap="8.9")
CARD = Pci(address="0000:01:00.0", class_code="0x030200", device="0x20b2")
NONE = Driver(version="", cuda="", answer="not-found", pci=())
"""A host without driver and card."""


def works(version: str, *gpus: Gpu, cuda: str = "", **fields: Any) -> Facts:
    driver = Driver(version=version, answer="ok", cuda=cuda, pci=(CARD,))
    return Facts(driver=driver, gpus=gpus or (A100,), **fields)


def broken(answer: SmiKind, **fields: Any) -> Facts:
    return Facts(driver=Driver(version="535.54.03", answer=answer, **fields), gpus=None)


def check(facts: Facts, **values: object) -> DriverCheck:
    (found,) = ROLE.declare(facts, values)
    assert isinstance(found, DriverCheck)
    return found


FINE: dict[str, tuple[Facts, dict[str, object], str]] = {
    "works": (works("535.54.03"), {}, "driver 535.54.03, 1 x NVIDIA A100-SXM4-80GB (sm_80, Ampere)"),
    "two kinds": (
        works("535.54.03", A100, A100, T4),
        {},
        "2 x NVIDIA A100-SXM4-80GB (sm_80, Ampere), 1 x Tesla T4 (sm_75",
    ),
    "fully": (works("535.54.03"), {"cuda": "11.7"}, "(sm_80, Ampere), runs CUDA 11.7"),
    "by compatibility": (works("470.57.02"), {"cuda": "11.7"}, "runs CUDA 11.7 by minor-version compatibility"),
    "a release": (works("525.60.13"), {"cuda": "12.1.1"}, "runs CUDA 12.1.1 by minor-version compatibility"),
    "as new as wanted": (works("535.54.03"), {"minimum": "535.54.03"}, "driver 535.54.03"),
    "a branch": (works("535.54.03"), {"minimum": "525"}, "driver 535.54.03"),
    "as many as wanted": (works("535.54.03", A100, A100), {"gpus": 2}, "2 x"),
    "more than wanted": (works("535.54.03", A100, A100), {"gpus": 1}, "2 x"),
    "a CUDA that only the driver knows": (works("999.10", cuda="99.3"), {"cuda": "99.2"}, "runs CUDA 99.2"),
    "a card that was promised, and is there": (works("535.54.03", expected_gpu="A100"), {}, "driver 535.54.03"),
    "no card yet": (
        Facts(driver=NONE, gpus=(), expected_gpu="RTX 4090"),
        {"cuda": "12.1", "gpus": 2, "minimum": "525"},
        f"{PENDING}: RTX 4090 (sm_89, Ada Lovelace) is expected",
    ),
    "a driver and no card yet": (
        Facts(driver=Driver(version="535.54.03", answer="no-devices", pci=()), gpus=(), expected_gpu="A100"),
        {"cuda": "11.7"},
        f"{PENDING}: A100 (sm_80) is expected, driver 535.54.03, runs CUDA 11.7",
    ),
    "a card that nobody knows yet": (
        Facts(driver=NONE, gpus=(), expected_gpu="Z9000"),
        {},
        f"{PENDING}: Z9000 is expected",
    ),
}


@pytest.mark.parametrize("case", FINE)
def test_what_will_do(case: str) -> None:
    facts, values, words = FINE[case]
    found = check(facts, **values)
    assert found.problem == ""
    assert words in found.words
    assert found.plan(found.probe().parse(b"")) is None
    change = found.plan(None)
    assert change and (change.after, change.steps) == (found.words, ())
    assert found.pending is found.words.startswith("pending GPU")


WRONG: dict[str, tuple[Facts, dict[str, object], str]] = {
    "none": (Facts(driver=NONE, gpus=()), {}, "no NVIDIA driver .* `gpu:` in the inventory"),
    "a card without a driver": (
        Facts(driver=Driver(version="", answer="not-found", pci=(CARD,)), gpus=None),
        {},
        "there is no nvidia-smi",
    ),
    "a promise does not hide a broken card": (
        Facts(driver=Driver(version="535.54.03", answer="driver-not-loaded", pci=(CARD,)), expected_gpu="A100"),
        {},
        "module is not loaded",
    ),
    "a promise does not hide a mismatch": (
        Facts(driver=Driver(version="535.54.03", answer="version-mismatch", pci=()), expected_gpu="A100"),
        {},
        "replaced under its loaded module",
    ),
    "one lost": (
        Facts(driver=Driver(version="535.54.03", answer="ok", lost=("0000:03:00.0",)), gpus=(A100,)),
        {},
        "no longer answers.*0000:03:00.0",
    ),
    "too old for the CUDA": (
        works("470.57.02"),
        {"cuda": "12.1"},
        r"runs CUDA up to 11\.8: CUDA 12\.1 needs 525\.60\.13 or newer.*cuda-compat.*supports.*older CUDA",
    ),
    "too old, and no package helps": (works("470.57.02", GEFORCE), {"cuda": "12.1"}, "does not work on this card"),
    "too old for the driver wanted": (works("470.57.02"), {"minimum": "525"}, "470.57.02 is older than 525"),
    "a CUDA that nobody knows": (works("535.54.03", cuda="12.2"), {"cuda": "99.2"}, "CUDA 99.2 is not in the tables"),
    "too few": (works("535.54.03"), {"gpus": 2}, "2 GPUs are wanted and 1 answers;"),
    "no version": (Facts(driver=Driver(answer="ok"), gpus=(A100,)), {}, "version .* could not be read"),
    "nothing is known": (Facts(), {}, "no GPU was seen"),
    "too old before the card is there": (
        Facts(driver=Driver(version="470.57.02", answer="no-devices", pci=()), gpus=(), expected_gpu="A100"),
        {"cuda": "12.1"},
        "needs 525.60.13",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_will_not_do(case: str) -> None:
    facts, values, words = WRONG[case]
    found = check(facts, **values)
    with pytest.raises(HostFailed, match=words):
        found.plan(found.words)


@pytest.mark.parametrize("answer", [kind for kind in get_args(SmiKind) if kind != "ok"])
def test_every_answer_of_nvidia_smi_has_a_sentence(answer: SmiKind) -> None:
    problem = check(broken(answer)).problem
    assert problem.startswith("the NVIDIA driver does not work: ")
    assert len(problem) > 60


def test_it_writes_nothing() -> None:
    claims = check(works("535.54.03")).claims()
    assert not (claims.paths | claims.apt | claims.services)
    assert check(works("535.54.03")).probe().script == ""


def test_two_wishes_are_two_checks() -> None:
    facts = works("535.54.03")
    ids = {
        check(facts, **values).id for values in ({}, {"cuda": "11.7"}, {"cuda": "12.1", "gpus": 1}, {"minimum": "525"})
    }
    assert ids == {"driver:works", "driver:CUDA 11.7", "driver:CUDA 12.1, 1 GPU", "driver:at least 525"}
    assert check(facts, cuda="11.7") == check(facts, cuda="11.7")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("cuda: latest", "X.Y"),
        ("minimum: new", "525"),
        ("gpus: some", "expected whole number"),
        ("version: 525", "no parameter 'version'"),
    ],
)
def test_words_that_are_wrong(text: str, words: str) -> None:
    params = loads(text, "p.yaml")
    assert isinstance(params, Mapping)
    with pytest.raises(InputError, match=words):
        bind(ROLE, params, Position("p.yaml", 1, 1))


def test_a_number_that_cannot_be() -> None:
    with pytest.raises(InputError, match="gpus"):
        check(works("535.54.03"), gpus=-1)


@given(
    version=st.none() | st.text(max_size=12),
    cuda=st.none() | st.text(max_size=8),
    answer=st.none() | st.sampled_from(get_args(SmiKind)),
    name=st.none() | st.text(max_size=20),
    expected=st.none() | st.text(max_size=20),
    wanted=st.none() | st.sampled_from(["11.7", "12.1.1", "99.9"]),
)
def test_whatever_a_host_says(
    version: str | None,
    cuda: str | None,
    answer: SmiKind | None,
    name: str | None,
    expected: str | None,
    wanted: str | None,
) -> None:
    gpus = None if name is None else (Gpu(index=None, name=name),)
    facts = Facts(driver=Driver(version=version, cuda=cuda, answer=answer), gpus=gpus, expected_gpu=expected)
    found = check_driver(facts, cuda=wanted, minimum="525", count=1)
    assert found.words
