from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuprov.errors import HostFailed, Unseen
from gpuprov.model import Member
from gpuprov.resources import PROTECTED_APT, AptPackage, AptState, apt_transaction

SAME = None
# wanted, dpkg's answer, (action, before, after, item)
PLANS: dict[str, tuple[dict[str, Any], str, tuple[str, str, str, str] | None]] = {
    "absent": ({}, "-", ("create", "absent", "installed", "gcc-11")),
    "absent, version": ({"version": "11.4"}, "-", ("create", "absent", "11.4", "gcc-11=11.4")),
    "only its configuration is left": ({}, "rc |11.2|amd64", ("create", "absent", "installed", "gcc-11")),
    "unknown to dpkg": ({}, "un ||", ("create", "absent", "installed", "gcc-11")),
    "purged": ({}, "pn |<none>|", ("create", "absent", "installed", "gcc-11")),
    "held and never installed": ({}, "hn ||", ("create", "absent", "installed", "gcc-11")),
    "same": ({}, "ii |11.2|amd64", SAME),
    "same, version": ({"version": "11.2"}, "ii |11.2|amd64", SAME),
    "same, blank lost": ({}, "ii|11.2|amd64", SAME),
    "same, held": ({}, "hi |11.2|amd64", SAME),
    "same, held version": ({"version": "11.2"}, "hi |11.2|amd64", SAME),
    "same, wished away by somebody": ({}, "ri |11.2|amd64", SAME),
    "same, triggers to come": ({}, "it |11.2|amd64", SAME),
    "same, waits for triggers": ({}, "iW |11.2|amd64", SAME),
    "version": ({"version": "11.4"}, "ii |11.2|amd64", ("update", "11.2", "11.4", "gcc-11=11.4")),
    "older version": ({"version": "11.1"}, "ii |11.2|amd64", ("update", "11.2", "11.1", "gcc-11=11.1")),
    "epoch counts": ({"version": "1:11.2"}, "ii |11.2|amd64", ("update", "11.2", "1:11.2", "gcc-11=1:11.2")),
    "unpacked": ({}, "iU |11.2|a", ("update", "11.2 (unpacked, not configured)", "installed", "gcc-11")),
    "half-configured": ({}, "iF |11.2|a", ("update", "11.2 (half-configured)", "installed", "gcc-11")),
    "half-installed": ({}, "iH |11.2|a", ("update", "11.2 (half-installed)", "installed", "gcc-11")),
    "to reinstall": ({}, "iiR|11.2|a", ("update", "11.2 (must be installed again)", "installed", "gcc-11")),
    "remove": ({"present": False}, "ii |11.2|amd64", ("remove", "11.2", "absent", "gcc-11-")),
    "remove, foreign": (
        {"present": False, "name": "libc6:i386"},
        "ii |2.36|i386",
        ("remove", "2.36", "absent", "libc6:i386-"),
    ),
    "remove half": ({"present": False}, "iH |11.2|a", ("remove", "11.2 (half-installed)", "absent", "gcc-11-")),
    "remove absent": ({"present": False}, "-", SAME),
    "configuration may stay": ({"present": False}, "rc |11.2|amd64", SAME),
}


@pytest.mark.parametrize("case", PLANS)
def test_plan(case: str) -> None:
    wanted, answer, expected = PLANS[case]
    package = AptPackage(**{"name": "gcc-11", **wanted})
    change = package.plan(package.probe().parse(f"{answer}\n".encode()))
    if expected is None:
        assert change is None
        return
    assert change is not None
    (step,) = change.steps
    assert isinstance(step, Member)
    assert (change.action, change.before, change.after, step.item) == expected
    assert (step.group, step.join) == ("apt", apt_transaction)
    assert apt_transaction((step.item,)).locks == {"apt"}


@pytest.mark.parametrize("wanted", [{"version": "11.4"}, {"present": False}])
def test_held_packages_are_respected_in_the_plan(wanted: dict[str, Any]) -> None:
    with pytest.raises(HostFailed, match=r"gcc-11 is held at 11\.2") as caught:
        AptPackage(name="gcc-11", **wanted).plan(AptState(version="11.2", architecture="amd64", held=True))
    assert "apt-mark unhold gcc-11" in caught.value.hint


NAMES = ["gcc-11", "g++", "libstdc++6", "libc6:i386", "0ad", "python3.11", "a2", "libgtk2.0-0", "cuda-toolkit-11-7"]
NO_NAMES = [
    "",
    "a",
    "GCC",
    "gcc 11",
    "gcc-",
    "-gcc",
    "+a",
    "gcc_11",
    "gcc=11",
    "gcc;id",
    "gcc\n",
    "gcc*",
    "a:b:c",
    "gcc:",
    "gçc",
]
VERSIONS = ["1", "11.4.0-1ubuntu1~22.04", "1:2.0", "2.0+dfsg-1+b1", "0~rc1", "12.3.0-1"]
NO_VERSIONS = ["", "latest", "*", "11.*", "1:", "a1", "1 2", "1;id", "1\n", "1:2:3", "=1", "-1"]


@pytest.mark.parametrize("name", NAMES)
def test_names(name: str) -> None:
    assert AptPackage(name=name).id == f"apt:{name}"
    assert AptPackage(name=name).claims().apt == {name}
    assert AptPackage(name=name).probe().asks == (("dpkg", name),)


@pytest.mark.parametrize("name", NO_NAMES)
def test_no_names(name: str) -> None:
    with pytest.raises(ValueError, match="name"):
        AptPackage(name=name)
    with pytest.raises(ValueError, match="item"):
        apt_transaction((f"{name}=",))


@pytest.mark.parametrize("version", VERSIONS)
def test_versions(version: str) -> None:
    assert AptPackage(name="gcc-11", version=version).version == version


@pytest.mark.parametrize("version", NO_VERSIONS)
def test_no_versions(version: str) -> None:
    with pytest.raises(ValueError, match="version"):
        AptPackage(name="gcc-11", version=version)


def test_absent_has_no_version() -> None:
    with pytest.raises(ValueError, match="absent"):
        AptPackage(name="gcc-11", version="11", present=False)


def test_merge() -> None:
    some, one, two = (AptPackage(name="a1", version=v) for v in (None, "1", "2"))
    assert some.merge(one) == one.merge(some) == one.merge(one) == one
    assert some.merge(some) == some
    assert one.merge(two) is None
    assert some.merge(AptPackage(name="b1")) is None
    assert some.merge(AptPackage(name="a1", present=False)) is None


def test_one_job_whatever_the_order() -> None:
    job = apt_transaction(("tool", "gcc-11=11.4", "old-"))
    assert job == apt_transaction(("old-", "tool", "gcc-11=11.4", "tool"))
    assert "gp_items='gcc-11=11.4 old- tool'\n" in job.script
    assert job.title == "apt: gcc-11=11.4, old-, tool"
    assert job.silence > 600
    assert all(pattern in job.script for pattern in PROTECTED_APT)


@pytest.mark.parametrize("items", [(), ("",), ("gcc;id",), ("a b",), ("-",), ("tool=",), ("--purge",), ("$(id)",)])
def test_no_items(items: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="item"):
        apt_transaction(items)


@pytest.mark.parametrize("answer", [b"", b"\n", b"ii |1|a", b"what\n", b"|\n", b"ix |1|a\n", b"i\n"])
def test_what_is_no_answer_is_unseen(answer: bytes) -> None:
    with pytest.raises(Unseen):
        AptPackage(name="gcc-11").probe().parse(answer)


@given(st.binary() | st.binary().map(lambda b: b"ii |" + b + b"\n"))
def test_parse_survives_any_bytes(data: bytes) -> None:
    try:
        seen = AptPackage(name="gcc-11").probe().parse(data)
    except Unseen:
        return
    assert seen is None or isinstance(seen, AptState)
