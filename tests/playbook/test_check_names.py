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


NO_CDUA = "there is no variable 'cdua' (did you mean 'cuda'?)"


@pytest.mark.parametrize(
    ("play", "expected"),
    [
        # a condition says which hosts a role is for
        ("roles: [{role: x, when: jobs is defined, with: {y: '{{ jobs }}'}}]", []),
        ("roles: [{role: x, when: jobs is defined and jobs == '4', with: {y: '{{ jobs }}'}}]", []),
        ("when: jobs is defined, vars: {v: '{{ jobs }}'}, roles: [x: {y: '{{ v }}'}]", []),
        ("when: host.name == 'b', roles: [x: {y: '{{ jobs }}'}]", []),
        ("when: host.name != 'a', roles: [x: {y: '{{ jobs }}'}]", ["p.yaml:1:55: there is no variable 'jobs' for c"]),
        ("roles: [{role: x, when: host.name == 'a', with: {y: '{{ jobs }}'}}]",
         ["p.yaml:1:68: there is no variable 'jobs' for a"]),
        ("roles: [{role: x, when: no, with: {y: '{{ cdua }}'}}]", []),
        ("roles: [{role: x, when: 'false', with: {y: '{{ cdua }}'}}]", []),
        ("when: no, vars: {v: '{{ cdua }}'}, roles: [x: {y: '{{ v }}'}]", []),
        ("roles: [{role: x, when: no, with: {y: '{{ facts.oss }}'}}]",
         ["p.yaml:1:54: there is no fact 'oss' (did you mean 'os'?)"]),
        # one that only the host decides says it where it asks whether the name is there
        ("roles: [{role: x, when: facts.gpus and jobs is defined, with: {y: '{{ jobs }}'}}]", []),
        ("roles: [{role: x, when: facts.gpus, with: {y: '{{ jobs }}'}}]",
         ["p.yaml:1:62: there is no variable 'jobs' for a, c"]),
        ("roles: [{role: x, when: facts.gpus and jobs | default('') == '4', with: {y: '{{ jobs }}'}}]",
         ["p.yaml:1:92: there is no variable 'jobs' for a, c"]),
        # what evaluating does not reach
        ("roles: [{role: x, when: host.name == 'b' and jobs == '4'}]", []),
        ("roles: [{role: x, when: host.name == 'a' and jobs == '4'}]",
         ["p.yaml:1:40: there is no variable 'jobs' for a"]),
        ("roles: [{role: x, when: host.name == 'b' and cdua == '4'}]", [f"p.yaml:1:40: {NO_CDUA}"]),
        ("roles: [{role: x, when: host.name == 'x' and cdua}]", [f"p.yaml:1:40: {NO_CDUA}"]),
        ("roles: [{role: x, when: host.name == 'x' and torch.verison}]",
         ["p.yaml:1:40: there is no 'verison' in 'torch' (did you mean 'version'?)"]),
        ("roles: [x: {y: \"{{ jobs if host.name == 'b' else 1 }}\"}]", []),
        ("roles: [x: {y: \"{{ cdua if host.name == 'x' else 1 }}\"}]", [f"p.yaml:1:31: {NO_CDUA}"]),
        ("vars: {v: '{{ jobs }}'}, roles: [{role: x, when: jobs is defined, with: {y: '{{ v }}'}}]", []),
        ("vars: {v: '{{ jobs }}'}, roles: [x: {y: '{{ v }}'}]", ["p.yaml:1:26: there is no variable 'jobs' for a, c"]),
        # a name that others have is no slip of the pen
        ("vars: {jobz: 1}, roles: [x: {y: '{{ jobs }}'}]", ["p.yaml:1:48: there is no variable 'jobs' for a, c"]),
    ],
)  # fmt: skip
def test_what_conditions_leave_out_is_not_undefined(tmp_path: Path, play: str, expected: list[str]) -> None:
    assert check(tmp_path, f"- {{hosts: all, {play}}}") == expected


def test_what_two_plays_meet_is_told_once(tmp_path: Path) -> None:
    (tmp_path / "i.yaml").write_text("hosts: {a: {vars: {p: '{{ gone }}'}}, b: {vars: {p: x}}}\n")
    (tmp_path / "p.yaml").write_text(
        "".join(f"- {{hosts: {hosts}, roles: [x: {{y: '{{{{ p }}}}'}}]}}\n" for hosts in ("all", "a"))
    )
    inventory = load_inventory([tmp_path / "i.yaml"])
    found = check_names(load_playbook(tmp_path / "p.yaml"), inventory, inventory.hosts.values(), {}, ())
    assert [problem.message for problem in found] == ["there is no variable 'gone' for a"]
