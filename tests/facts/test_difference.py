"""What counts as a difference, and what only could not be seen."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuprov.facts import Difference, compare, compare_protected, parse
from tests.facts.wire import PID1, RENTED, Lines, driver, output, rented

U = "unseen: no sha256sum"
HOLES = {"*": "unseen: cut"}


@pytest.mark.parametrize(
    ("before", "after", "kinds"),
    [
        ({}, {}, []),
        ({"a": "1"}, {"a": "1"}, []),
        ({"a": "1"}, {"a": "2"}, ["changed"]),
        ({}, {"a": "2"}, ["appeared"]),
        ({"a": "1"}, {}, ["gone"]),
        ({"a": U}, {"a": U}, []),
        ({"a": U}, {"a": "unseen: other"}, []),
        ({"a": U}, {"a": "1"}, ["unseen"]),
        ({"a": "1"}, {"a": U}, ["unseen"]),
        ({}, {"a": U}, ["unseen"]),
        ({"a": "1"}, HOLES, ["unseen", "unseen"]),
        ({"a": "1", **HOLES}, {"a": "2"}, ["unseen", "changed"]),
        (HOLES, {"a": "1", **HOLES}, ["unseen"]),
    ],
)
def test_protected(before: dict[str, str], after: dict[str, str], kinds: list[str]) -> None:
    assert [difference.kind for difference in compare_protected(before, after)] == kinds


TEXTS = st.dictionaries(st.sampled_from("abcd"), st.sampled_from(["1", "2", U]))


@given(TEXTS, TEXTS)
def test_protected_is_even_handed(before: dict[str, str], after: dict[str, str]) -> None:
    swap = {"appeared": "gone", "gone": "appeared"}
    there = [(d.key, d.kind) for d in compare_protected(before, after)]
    back = [(d.key, swap.get(d.kind, d.kind)) for d in compare_protected(after, before)]
    assert there == back
    assert compare_protected(before, before) == ()


def test_a_moved_link_and_a_replaced_package_are_named() -> None:
    protected: Lines = [
        *[record for record in RENTED["protected"] if record[0] not in ("link", "dist")],
        ("link", "/usr/local/cuda", "/usr/local/cuda-11.7"),
        ("dist", "1111111111111111", "protobuf-3.20.3.dist-info"),
        ("dist", "fedcba9876543210", "PyYAML-6.0-py3.10.egg-info"),
    ]
    # the site's line stands before its packages
    protected.sort(key=lambda record: ["sum", "dpkg", "meta", "link", "site", "dist"].index(record[0]))
    found = compare_protected(parse(rented()).protected, parse(rented(protected=protected)).protected)
    assert list(map(str, found)) == [
        "link:/usr/local/cuda: /usr/local/cuda-12.1 became /usr/local/cuda-11.7",
        "python:/usr/lib/python3/dist-packages:protobuf: 4.25.3 0123456789abcdef became 3.20.3 1111111111111111",
    ]


def test_a_restarted_service_is_a_difference_of_the_protected_but_not_of_hosts() -> None:
    services: Lines = [
        (*record[:1], "999", *record[2:]) if record[1] == "812" else record for record in RENTED["services"]
    ]
    a, b = parse(rented()), parse(rented(services=services))
    assert [d.key for d in compare(a, b)] == ["protected.service:jupyter"]


def test_what_passes_by_itself_is_no_difference() -> None:
    later = {
        **RENTED,
        "identity": [("clock", "1799999999") if r[0] == "clock" else r for r in RENTED["identity"]],
        "os": [("uptime", "9999.0 1.0") if r[0] == "uptime" else r for r in RENTED["os"]],
        "mounts": [("space", "1 7864320 4096 1 1000 /") if r[-1].endswith(" /") else r for r in RENTED["mounts"]],
    }
    a, b = parse(rented()), parse(output(later))
    assert a != b
    assert compare(a, b.seen_as(name="b", groups=("x",), expected_gpu="y")) == ()


def test_hosts_differ_by_field() -> None:
    row = "0, NVIDIA GeForce RTX 4090, GPU-1, 24564, 535.104.05, 00000000:01:00.0, 8.9, [N/A]"
    query = next(r for r in RENTED["driver"] if r[0] == "smi-query")
    a = parse(rented())
    b = parse(rented(driver=driver((*query[:3], row)), toolkits=RENTED["toolkits"][:2], conda=RENTED["conda"]))
    keys = {(d.key, d.kind) for d in compare(a, b)}
    assert ("gpus.0.name", "changed") in keys
    assert ("toolkits./usr/local/cuda-11.7.version", "gone") in keys
    assert not any(key.startswith("envs.") for key, _ in keys)


def test_a_list_one_side_could_not_see_is_unseen_and_not_gone() -> None:
    a, b = parse(rented()), parse(output(RENTED, leave_out=("toolkits",)))
    found = [d for d in compare(a, b) if d.key.startswith("toolkits")]
    assert found
    assert {d.kind for d in found} == {"unseen"}
    assert compare(b, b) == ()


def test_a_scalar_one_side_could_not_see_is_unseen() -> None:
    a = parse(rented())
    b = dataclasses.replace(a, glibc=None)
    assert compare(a, b) == (Difference(key="glibc", kind="unseen", before="2.35", after="not known"),)


def test_two_services_of_a_kind_do_not_hide_each_other() -> None:
    two: Lines = [*RENTED["services"], ("service", "900", PID1, "/x/bin/python3", "/x/bin/jupyter-lab")]
    found = compare(parse(rented()), parse(rented(services=two)))
    assert any(d.key.startswith("services.jupyter#") and d.kind == "appeared" for d in found)
