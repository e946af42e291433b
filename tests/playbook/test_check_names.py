"""Undefined names are found before any host is contacted: all of them, once, for every host of a play."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuprov.inventory import load_inventory
from gpuprov.playbook import check_names, load_playbook, parse_extra

INVENTORY = """\
defaults: {vars: {cuda: "11.7", torch: {version: 2.1}}}
hosts: {a: , b: {vars: {jobs: 4}}, c: }
groups: {two: {hosts: [a, b]}}
"""


def check(tmp_path: Path, playbook: str, extra: tuple[str, ...] = (), limit: str = "all") -> list[str]:
    (tmp_path / "i.yaml").write_text(INVENTORY)
    (tmp_path / "p.yaml").write_text(playbook)
    inventory = load_inventory([tmp_path / "i.yaml"])
    fields = ("gpus", "os.id", "os.version")
    found = check_names(
        load_playbook(tmp_path / "p.yaml"), inventory, inventory.select(limit), parse_extra(extra), fields
    )
    return [str(problem).replace(f"{tmp_path}/", "") for problem in found]


@pytest.mark.parametrize(
    ("play", "expected"),
    [
        ("roles: [x: {y: '{{ cuda }}{{ torch.version }}{{ host.name }}', z: '{{ facts.os.id }}{{ facts.gpus[0].x }}'}]",
         []),
        ("roles: [x: {y: '{{ cdua }}'}]", ["p.yaml:1:31: there is no variable 'cdua' (did you mean 'cuda'?)"]),
        ("roles: [x: {y: '{{ jobs }}'}]", ["p.yaml:1:31: there is no variable 'jobs' for a, c"]),
        ("roles: [x: {y: '{{ jobs | default(1) }}'}]", []),
        ("roles: [x: {y: '{{ torch.verison }}'}]",
         ["p.yaml:1:31: there is no 'verison' in 'torch' (did you mean 'version'?)"]),
        ("roles: [x: {y: '{{ facts.oss.id }}'}]", ["p.yaml:1:31: there is no fact 'oss.id' (did you mean 'os.id'?)"]),
        ("roles: [x: {y: '{{ facts.os.idd }}'}]", ["p.yaml:1:31: there is no fact 'os.idd' (did you mean 'os.id'?)"]),
        ("roles: [x: {y: '{{ host.nmae }}'}]", ["p.yaml:1:31: there is no 'nmae' in 'host' (did you mean 'name'?)"]),
        ("roles: [], when: cdua == 'x'", ["p.yaml:1:33: there is no variable 'cdua' (did you mean 'cuda'?)"]),
        ("roles: [{role: x, when: cdua}]", ["p.yaml:1:40: there is no variable 'cdua' (did you mean 'cuda'?)"]),
        ("vars: {v: '{{ w }}', w: '{{ cdua }}'}, roles: [x: {y: '{{ v }}'}]",
         ["p.yaml:1:40: there is no variable 'cdua' (did you mean 'cuda'?)"]),
        ("vars: {v: '{{ cdua }}'}, roles: []", ["p.yaml:1:26: there is no variable 'cdua' (did you mean 'cuda'?)"]),
        ("vars: {v: '{{ w }}', w: '{{ v }}'}, roles: []",
         ["p.yaml:1:26: variables need each other in a loop: v > w > v"]),
        ("vars: {v: '{{ v }}'}, roles: []", ["p.yaml:1:26: variables need each other in a loop: v > v"]),
        ("roles: [x: {y: '{{ fatcs.os }}'}]", ["p.yaml:1:31: there is no variable 'fatcs' (did you mean 'facts'?)"]),
    ],
)  # fmt: skip
def test_what_is_undefined(tmp_path: Path, play: str, expected: list[str]) -> None:
    assert check(tmp_path, f"- {{hosts: all, {play}}}") == expected


def test_extra_variables_count(tmp_path: Path) -> None:
    playbook = "- {hosts: all, roles: [x: {y: '{{ jobs }}'}]}"
    assert check(tmp_path, playbook)
    assert check(tmp_path, playbook, extra=("jobs=1",)) == []


def test_only_hosts_of_the_play_that_the_run_may_touch_count(tmp_path: Path) -> None:
    playbook = "- {hosts: two, roles: [x: {y: '{{ jobs }}'}]}"
    assert check(tmp_path, playbook) == ["p.yaml:1:31: there is no variable 'jobs' for a"]
    assert check(tmp_path, playbook, limit="b,c") == []
    assert check(tmp_path, playbook, limit="c") == []


def test_all_plays_at_once_and_wrong_patterns_too(tmp_path: Path) -> None:
    found = check(
        tmp_path,
        "- {hosts: tow, roles: []}\n- {hosts: all, roles: [x: {a: '{{ n1 }}', b: '{{ n1 }}{{ n2 }}'}]}\n",
    )
    assert [problem.split(" (")[0] for problem in found] == [
        "p.yaml:1:11: no host or group is called 'tow'",
        "p.yaml:2:31: there is no variable 'n1'",
        "p.yaml:2:46: there is no variable 'n1'",
        "p.yaml:2:46: there is no variable 'n2'",
    ]
