"""What is wrong in words and files is told at once: each mistake once, and none that only follows from another."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuprov.engine import Options, check_playbook
from gpuprov.errors import InputError
from gpuprov.inventory import read_inventory
from gpuprov.playbook import read_extra, read_playbook

ROLE = '''
from gpuprov.role import role
from gpuprov.facts import Facts

@role
def touch(host: Facts, *, path: str, size: int = 1, color: str = "red"):
    """Write one file."""
    yield from ()
'''
INVENTORY = "hosts: {a: {vars: {jobs: 4}}, b: {vars: {jobs: many}}}\ngroups: {two: {hosts: [a, b]}}\n"


def told(
    folder: Path,
    playbook: str,
    inventory: str = INVENTORY,
    *,
    limit: str | None = None,
    extra: tuple[str, ...] = (),
    tags: tuple[str, ...] = (),
) -> list[str]:
    """Return what is told, without hints."""
    (folder / "roles" / "touch").mkdir(parents=True)
    (folder / "roles" / "touch" / "role.py").write_text(ROLE)
    (folder / "h.yaml").write_text(inventory)
    (folder / "p.yaml").write_text(playbook)
    variables, problems = read_extra(extra)
    options = Options(extra=variables, tags=frozenset(tags))
    hosts = read_inventory([folder / "h.yaml"], variables)
    try:
        check_playbook(read_playbook(folder / "p.yaml"), hosts, limit, options, problems)
    except InputError as error:
        return [str(problem).replace(f"{folder}/", "").split(" (")[0] for problem in error.problems]
    return []


BAD_PARAMETERS = "- {hosts: all, roles: [touch: {path: /x, colour: y, size: big}]}\n"
PARAMETERS_TOLD = [
    "p.yaml:{}:42: role 'touch' has no parameter 'colour'",
    "p.yaml:{}:59: role 'touch', parameter 'size': expected whole number, found 'big'",
]


def parameters_told(line: int) -> list[str]:
    return [text.format(line) for text in PARAMETERS_TOLD]


CASES = {
    "all in order": ("- {hosts: all, roles: [touch: {path: '{{ jobs }}'}]}\n", INVENTORY, []),
    "a misspelt key of a play hides neither its roles nor another play": (
        f"- {{hosts: all, tgas: [x], roles: [tuch, touch]}}\n{BAD_PARAMETERS}",
        INVENTORY,
        [
            "p.yaml:1:16: 'tgas' is not a key of a play",
            "p.yaml:1:35: there is no role 'tuch'",
            "p.yaml:1:41: role 'touch' needs the parameter 'path'",
            *parameters_told(2),
        ],
    ),
    "a misspelt parameter is not missing besides": (
        "- {hosts: all, roles: [touch: {pth: /x, size: big}]}\n",
        INVENTORY,
        [
            "p.yaml:1:32: role 'touch' has no parameter 'pth'",
            "p.yaml:1:47: role 'touch', parameter 'size': expected whole number, found 'big'",
        ],
    ),
    "a parameter beside the long form is not missing besides": (
        "- {hosts: all, roles: [{role: touch, path: /x}, {role: tuch, path: /x}]}\n",
        INVENTORY,
        [
            "p.yaml:1:38: 'path' is not a key of a role in long form",
            "p.yaml:1:49: there is no role 'tuch'",
            "p.yaml:1:62: 'path' is not a key of a role in long form",
        ],
    ),
    "a misspelt key that must be there is not missing besides": (
        "- {hsots: all, roles: []}\n- {hosts: all, rolls: []}\n- {hosts: all, tasks: []}\n- import_playbook: x\n",
        INVENTORY,
        [
            "p.yaml:1:4: 'hsots' is not a key of a play",
            "p.yaml:2:16: 'rolls' is not a key of a play",
            "p.yaml:3:16: 'tasks' is not a key of a play",
            "p.yaml:4:3: 'import_playbook' is not a key of a play",
        ],
    ),
    "an inventory that is no YAML hides no mistake of the playbook": (
        "- {hosts: nobody, vars: {v: 1}, roles: [touch: {path: '{{ w }}{{ facts.oss }}', size: '{{ v }}x'}]}\n"
        + BAD_PARAMETERS,
        "hosts: [\n",
        [
            "h.yaml:2:1: this is not YAML: did not find expected node content",
            "p.yaml:1:55: there is no fact 'oss'",
            "p.yaml:1:87: role 'touch', parameter 'size': expected whole number, found '1x'",
            *parameters_told(2),
        ],
    ),
    "a setting that is wrong hides nothing": (
        "- {hosts: [gpu, a], roles: [touch: {path: '{{ nope }}', size: '{{ jobs }}'}]}\n"
        "- {hosts: all, roles: [touch: {path: x, size: '{{ jobs }}'}]}\n",
        INVENTORY.replace("vars: {jobs: many}", "port: x, vars: {jobs: many}"),
        [
            "h.yaml:1:41: port must be a number from 1 to 65535, not 'x'",
            "h.yaml:1:57: role 'touch', parameter 'size': expected whole number, found 'many'",
            "p.yaml:1:11: no host or group is called 'gpu'",
        ],
    ),
    "what mistakes in the inventory may hide is not missed": (
        "- {hosts: 'gpu:a', roles: [touch: {path: '{{ nope }}', size: '{{ jobs }}', x: y}]}\n",
        "hsots: {gpu: {}}\nhosts: {a: {vras: {nope: 1}}}\n",
        [
            "h.yaml:1:1: 'hsots' is not a key of the inventory",
            "h.yaml:2:13: 'vras' is not a key of the host 'a'",
            "p.yaml:1:76: role 'touch' has no parameter 'x'",
        ],
    ),
    "names of hosts are judged where only variables are hidden": (
        "- {hosts: 'gpu:a', roles: [touch: {path: '{{ nope }}'}]}\n- {hosts: empty, roles: []}\n",
        "hosts: {a: {vras: {nope: 1}, gruops: empty}}\ngroups: {empty: }\n",
        [
            "h.yaml:1:13: 'vras' is not a key of the host 'a'",
            "h.yaml:1:30: 'gruops' is not a key of the host 'a'",
            "p.yaml:1:11: no host or group is called 'gpu'",
        ],
    ),
    "variables that are not read are not missed": (
        "- {hosts: all, vras: {v: 1}, roles: [touch: {path: '{{ v }}'}]}\n"
        "- {hosts: all, vars: [v], roles: [touch: {path: '{{ v }}'}]}\n"
        "- {hosts: all, vars_files: [v], roles: [touch: {path: '{{ v }}'}]}\n"
        "- {hosts: all, roles: [touch: {path: '{{ v }}'}]}\n",
        INVENTORY,
        [
            "p.yaml:1:16: 'vras' is not a key of a play",
            "p.yaml:2:22: vars must be a mapping, not a list",
            "p.yaml:3:16: 'vars_files' is not a key of a play",
            "p.yaml:4:38: there is no variable 'v'",
        ],
    ),
    "a template that is wrong hides no name beside it": (
        "- {hosts: all, roles: [touch: {path: '{{ 1 + }}', color: '{{ nope }}'}]}\n",
        INVENTORY,
        [
            "p.yaml:1:38: the template is wrong: unexpected 'end of print statement'",
            "p.yaml:1:58: there is no variable 'nope'",
        ],
    ),
    "a template that comes to nothing is told before a host is contacted": (
        "- hosts: all\n  vars: {n: 0, s: '{{ 1 / n }}'}\n  when: jobs + 1\n  roles:\n"
        "    - touch: {path: '{{ 7 // n }}', color: '{{ s }}'}\n"
        "- hosts: all\n  vars: {n: 0}\n  roles:\n    - {role: touch, when: n != '0', with: {path: '{{ 7 // n }}'}}\n"
        "    - {role: touch, when: n == '0', with: {path: '{{ 7 // n }}'}}\n"
        "    - {role: touch, when: facts.os, with: {path: '{{ 7 // n }}'}}\n",
        INVENTORY,
        [
            "p.yaml:3:9: the template is wrong: '+' takes numbers",
            "p.yaml:10:50: the template is wrong: '//' takes numbers",
        ],
    ),
    "what two plays meet is told once": (
        "- {hosts: all, roles: [touch: {path: '{{ v }}', size: '{{ 1 // n }}'}]}\n"
        "- {hosts: a, roles: [touch: {path: '{{ v }}', color: '{{ w }}'}]}\n",
        "hosts: {a: {vars: {n: 0, v: '{{ gone }}', w: '{{ n + 1 }}'}}, b: {vars: {n: 0, v: x, w: y}}}\n",
        [
            "h.yaml:1:29: there is no variable 'gone' for a",
            "h.yaml:1:46: the template is wrong: '+' takes numbers",
            "p.yaml:1:55: the template is wrong: '//' takes numbers",
        ],
    ),
    "a loop is told once": (
        "- {hosts: all, vars: {v: '{{ w }}', w: '{{ v }}'}, roles: [touch: {path: '{{ w }}', size: '{{ v }}'}]}\n",
        INVENTORY,
        ["p.yaml:1:26: variables need each other in a loop: v > w > v"],
    ),
    "values are judged for plays without a host": (
        "- {hosts: b, roles: []}\n" + BAD_PARAMETERS.replace("all", "ccc"),
        INVENTORY.replace("{a:", "{ccc: , a:"),
        parameters_told(2),
    ),
    "one role that is no mapping does not hide the next": (
        "- {hosts: all, roles: [touch: [/x], {tuch: [/x]}, [x], {touch: {}, path: /x}]}\n- 7\n",
        INVENTORY,
        [
            "p.yaml:1:31: the parameters of 'touch' must be a mapping, not a list",
            "p.yaml:1:37: there is no role 'tuch'",
            "p.yaml:1:44: the parameters of 'tuch' must be a mapping, not a list",
            "p.yaml:1:51: a role is a name or a mapping, not a list",
            "p.yaml:1:68: 'path' stands beside the role 'touch'",
            "p.yaml:2:3: a play is a mapping, not '7'",
        ],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_told(tmp_path: Path, case: str) -> None:
    playbook, inventory, expected = CASES[case]
    found = told(tmp_path, playbook, inventory)
    assert len(found) == len(expected), found
    assert all(text.startswith(start) for text, start in zip(found, expected, strict=True)), found


def test_words_and_files_are_told_together(tmp_path: Path) -> None:
    found = told(tmp_path, BAD_PARAMETERS, limit="c", extra=("jobs",), tags=("slow",))
    assert found == [
        "no host or group is called 'c'",
        f"no play or role of {tmp_path / 'p.yaml'} has the tag 'slow'".replace(f"{tmp_path}/", ""),
        "-e:1:1: 'jobs' sets nothing",
        *parameters_told(1),
    ]


def test_a_limit_that_names_nobody_leaves_the_variables_alone(tmp_path: Path) -> None:
    playbook = "- {hosts: all, roles: [touch: {path: '{{ only_b }}', size: '{{ jobs }}'}]}\n"
    assert told(tmp_path, playbook, limit="c") == ["no host or group is called 'c'"]


def test_variables_of_a_word_that_is_wrong_are_not_missed(tmp_path: Path) -> None:
    playbook = "- {hosts: all, vars: {n: x}, roles: [touch: {path: '{{ v }}', size: '{{ n }}'}]}\n"
    assert told(tmp_path, playbook, extra=("v",)) == ["-e:1:1: 'v' sets nothing"]


def test_tags_are_not_missed_where_some_could_not_be_read(tmp_path: Path) -> None:
    playbook = "- {hosts: all, tasg: slow, roles: []}\n"
    assert told(tmp_path, playbook, tags=("slow",)) == ["p.yaml:1:16: 'tasg' is not a key of a play"]


def test_a_key_that_stands_twice_hides_nothing(tmp_path: Path) -> None:
    playbook = "- hosts: two\n  hosts: b\n  roles:\n    - touch: {path: /x, path: /y, colour: y, size: big}\n"
    inventory = "hosts: {a: , a: , b: {address: 1.2.3.4, prot: 22}}\ngroups: {two: [a]}\n"
    assert told(tmp_path, playbook, inventory) == [
        "h.yaml:1:14: the key 'a' stands twice",
        "h.yaml:1:41: 'prot' is not a key of the host 'b'",
        "h.yaml:2:15: the group 'two' must be a mapping, not a list",
        "p.yaml:2:3: the key 'hosts' stands twice",
        "p.yaml:4:25: the key 'path' stands twice",
        "p.yaml:4:35: role 'touch' has no parameter 'colour'",
        "p.yaml:4:52: role 'touch', parameter 'size': expected whole number, found 'big'",
    ]


def test_a_template_without_quotes_is_read_as_it_was_meant(tmp_path: Path) -> None:
    playbook = "- {hosts: a, roles: [touch: {path: {{ nope }}, size: {{ jobs }}, colour: {{ jobs | int }}}]}\n"
    assert told(tmp_path, playbook) == [
        # both at the outer brace, where the value begins and the quote is missing
        "p.yaml:1:36: a key must be text, not a mapping",
        "p.yaml:1:36: there is no variable 'nope'",
        "p.yaml:1:54: a key must be text, not a mapping",
        "p.yaml:1:66: role 'touch' has no parameter 'colour'",
        "p.yaml:1:74: a key must be text, not a mapping",
    ]


def test_a_template_without_quotes_hides_nothing_that_it_comes_to(tmp_path: Path) -> None:
    playbook = (
        "- {hosts: a, vars: {n: {{ jobs }}}, roles: [touch: {path: /x, size: 'x{{ n }}', color: {{ 1 // 0 }}}]}\n"
    )
    assert told(tmp_path, playbook) == [
        "p.yaml:1:24: a key must be text, not a mapping",
        "p.yaml:1:69: role 'touch', parameter 'size': expected whole number, found 'x4'",
        "p.yaml:1:88: a key must be text, not a mapping",
        "p.yaml:1:88: the template is wrong: integer division or modulo by zero",
    ]


def test_a_misspelt_setting_hides_nothing(tmp_path: Path) -> None:
    playbook = "- {hosts: all, roles: [touch: {path: '{{ bad }}{{ v }}', size: '{{ jobs }}', color: '{{ nope }}'}]}\n"
    inventory = (
        "hosts: {a: {prot: 1, ansible_ssh_user: x, paths: {cache: /etc/ssh}, vars: {bad: '{% if %}', v: '{{ w }}', "
        "w: '{{ v }}', jobs: many}}}\n"
    )
    assert [text[:50] for text in told(tmp_path, playbook, inventory)] == [
        "h.yaml:1:13: 'prot' is not a key of the host 'a'",
        "h.yaml:1:22: 'ansible_ssh_user' is not a key of th",
        "h.yaml:1:58: paths.cache is /etc/ssh, where gpupro",
        "h.yaml:1:81: the template is wrong: Expected an ex",
        "h.yaml:1:96: variables need each other in a loop: ",
        "h.yaml:1:127: role 'touch', parameter 'size': expe",
        "p.yaml:1:85: there is no variable 'nope'",
    ]


def test_protected_paths_are_judged_where_variables_are_hidden(tmp_path: Path) -> None:
    inventory = "hosts: {a: {color: 1, paths: {cache: /etc/ssh}}}\n"
    found = told(tmp_path, "- {hosts: all, roles: [touch: {path: '{{ color }}'}]}\n", inventory)
    assert [text[:24] for text in found] == ["h.yaml:1:13: 'color' is ", "h.yaml:1:38: paths.cache"]


NOPE = "no anchor '&nope' stands before this alias"
UNKNOWN = {
    "a parameter": (
        "- {hosts: all, roles: [touch: {path: /x, size: *nope, colour: 1}, touch: *nope,"
        " {role: touch, with: *nope}]}\n",
        INVENTORY,
        [f"p.yaml:1:48: {NOPE}", "p.yaml:1:55: role 'touch' has no parameter 'colour'", f"p.yaml:1:74: {NOPE}",
         f"p.yaml:1:101: {NOPE}"],
    ),
    "a variable": (
        "- {hosts: all, vars: {z: *nope, y: [*nope]}, when: z == '1', roles: [touch: {path: x, size: '{{ z }}x'}]}\n"
        "- {hosts: all, vars: {y: [*nope]}, roles: [touch: {path: '{{ y.a }}{{ gone }}', size: '{{ y[0] }}'}]}\n",
        INVENTORY,
        [f"p.yaml:1:26: {NOPE}", f"p.yaml:1:37: {NOPE}", f"p.yaml:2:27: {NOPE}",
         "p.yaml:2:58: there is no variable 'gone'"],
    ),
    "parts of a play": (
        "- {hosts: *nope, tags: *nope, when: *nope, roles: [{role: touch, when: *nope, with: {path: '{{ v }}'}}]}\n"
        "- {hosts: b, roles: *nope, vars: *nope}\n- *nope\n- {hosts: all, roles: [*nope, tuch]}\n"
        "- {<<: *nope, rols: x}\n",
        INVENTORY,
        [f"p.yaml:1:11: {NOPE}", f"p.yaml:1:24: {NOPE}", f"p.yaml:1:37: {NOPE}", f"p.yaml:1:72: {NOPE}",
         f"p.yaml:2:21: {NOPE}", f"p.yaml:2:34: {NOPE}", f"p.yaml:3:3: {NOPE}", f"p.yaml:4:24: {NOPE}",
         "p.yaml:4:31: there is no role 'tuch'", f"p.yaml:5:8: {NOPE}"],
    ),
    "a condition": (
        "- {hosts: all, roles: [{role: touch, when: *nope, with: {path: '{{ jobs // 1 }}', size: 1}}, tuch]}\n",
        INVENTORY,
        [f"p.yaml:1:44: {NOPE}", "p.yaml:1:94: there is no role 'tuch'"],
    ),
    "parts of an inventory": (
        "- {hosts: g, roles: [touch: {path: '{{ v }}', x: y}]}\n",
        "defaults: {port: *nope, vars: *nope}\nhosts: {a: *nope, b: {vars: {<<: *nope}, port: x}, *nope : }\n"
        "groups: {g: {hosts: [*nope, a]}}\n",
        [f"h.yaml:1:18: {NOPE}", f"h.yaml:1:31: {NOPE}", f"h.yaml:2:12: {NOPE}", f"h.yaml:2:34: {NOPE}",
         "h.yaml:2:48: port must be a number from 1 to 65535, not 'x'", f"h.yaml:2:52: {NOPE}", f"h.yaml:3:22: {NOPE}",
         "p.yaml:1:47: role 'touch' has no parameter 'x'"],
    ),
    "itself": (
        "- {hosts: all, vars: {v: &v [*v]}, roles: [touch: {path: '{{ v }}', colour: 1}]}\n",
        INVENTORY,
        ["p.yaml:1:30: the alias '*v' stands inside what it names",
         "p.yaml:1:69: role 'touch' has no parameter 'colour'"],
    ),
    "a tag": (
        "- {hosts: all, vars: {s: !vault x}, roles: [touch: {path: !vault x, size: !vault x, colour: '{{ s }}'}]}\n"
        "- {hosts: all, vars: {s: !vault x}, roles: [touch: {path: !foo [x], size: '{{ s }}'}]}\n",
        INVENTORY,
        ["p.yaml:1:26: the tag '!vault' is not known here", "p.yaml:1:59: the tag '!vault' is not known here",
         "p.yaml:1:75: the tag '!vault' is not known here", "p.yaml:1:85: role 'touch' has no parameter 'colour'",
         "p.yaml:2:26: the tag '!vault' is not known here", "p.yaml:2:59: the tag '!foo' is not known here"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", UNKNOWN)
def test_an_alias_that_names_nothing_hides_nothing_and_nothing_follows_from_it(tmp_path: Path, case: str) -> None:
    playbook, inventory, expected = UNKNOWN[case]
    assert told(tmp_path, playbook, inventory) == expected


def test_an_alias_in_extra_variables_hides_no_other_mistake_there(tmp_path: Path) -> None:
    (tmp_path / "e.yaml").write_text("a: *nope\na-b: 1\n")
    playbook = "- {hosts: all, roles: [touch: {path: '{{ a }}{{ v }}'}]}\n"
    found = told(tmp_path, playbook, extra=(f"@{tmp_path}/e.yaml",))
    assert found == [
        f"e.yaml:1:4: {NOPE}",
        "e.yaml:2:1: a variable's name is made of letters, digits and '_', not 'a-b'",
    ]
