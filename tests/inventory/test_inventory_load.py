"""Inventories: what wins over what, and that every mistake is told with its place and what to write instead."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from gpuprov.errors import InputError, Position
from gpuprov.inventory import Inventory, PasswordSource, load_inventory
from gpuprov.model import Paths
from gpuprov.yaml_text import Scalar, plain

ROOT = Path(__file__).parents[2]
FINGERPRINT = "SHA256:" + "a" * 43


def load(tmp_path: Path, *texts: str) -> Inventory:
    files = []
    for number, text in enumerate(texts):
        files.append(tmp_path / f"{number}.yaml")
        files[-1].write_text(text)
    return load_inventory(files)


def problems(tmp_path: Path, *texts: str) -> list[str]:
    with pytest.raises(InputError) as caught:
        load(tmp_path, *texts)
    return [str(problem).replace(f"{tmp_path}/", "") for problem in caught.value.problems]


def variables(inventory: Inventory, host: str) -> dict[str, object]:
    return {name: plain(node) for name, node in inventory.hosts[host].vars.items()}


def test_the_example_loads() -> None:
    inventory = load_inventory([ROOT / "inventory.example.yaml"])
    assert list(inventory.hosts) == ["gpu1", "gpu2", "gpu3", "bastion", "here"]
    assert inventory.groups == {"train": ("gpu1", "gpu2"), "behind": ("gpu3",), "cards": ("gpu1", "gpu2", "gpu3")}
    gpu1, gpu2, gpu3, bastion, here = inventory.hosts.values()
    assert (gpu1.address, gpu1.port, gpu1.user, gpu1.gpu) == ("203.0.113.7", 2222, "root", "RTX 4070")
    assert gpu1.groups == ("cards", "train")
    assert variables(inventory, "gpu1") == {
        "cuda": "11.7",
        "torch": {"version": "2.1.2", "python": "3.11"},
        "role": "training",
        "max_jobs": "4",
    }
    assert gpu2.password is not None
    assert gpu2.password.env == "GPU2_PASSWORD"
    assert gpu3.jump == "bastion"
    assert gpu3.known_hosts == Path("~/.ssh/known_hosts_lab").expanduser()
    assert gpu3.paths == Paths(
        toolkits="/usr/local", envs="/opt/envs", cache="/var/cache/gpuprov", state="/var/lib/gpuprov"
    )
    assert bastion.become == "never"
    assert (here.connection, here.address) == ("local", "here")


def test_the_example_shows_every_key() -> None:
    from gpuprov.inventory.settings import GROUP_KEYS, HOST_KEYS

    text = (ROOT / "inventory.example.yaml").read_text()
    for key in {*HOST_KEYS, *GROUP_KEYS, *(f.name for f in dataclasses.fields(Paths))}:
        assert re.search(rf"\b{key}:", text), key


def test_defaults_of_a_bare_host(tmp_path: Path) -> None:
    host = load(tmp_path, "hosts:\n  gpu1:\n").hosts["gpu1"]
    assert (host.address, host.port, host.user, host.key, host.password) == ("gpu1", None, None, None, None)
    assert (host.connection, host.become, host.groups, host.paths) == ("ssh", "auto", (), Paths())
    assert (host.position.line, host.position.column) == (2, 3)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("defaults: {user: d}\nhosts: {h: }", "d"),
        ("defaults: {user: d}\nhosts: {h: }\ngroups: {g: {hosts: [h], user: g}}", "g"),
        ("hosts: {h: }\ngroups: {p: {children: [c], user: p}, c: {hosts: [h]}}", "p"),
        ("hosts: {h: }\ngroups: {p: {children: [c], user: p}, c: {hosts: [h], user: c}}", "c"),
        ("hosts: {h: }\ngroups: {c: {hosts: [h], user: c}, p: {children: [c], user: p}}", "c"),
        ("hosts: {h: }\ngroups: {b: {hosts: [h], user: b}, a: {hosts: [h], user: a}}", "b"),
        ("hosts: {h: }\ngroups: {z: {children: [y]}, y: {children: [c]}, c: {hosts: [h], user: c}, "
         "q: {hosts: [h], user: q}}", "c"),
        ("hosts: {h: {user: h, groups: [g]}}\ngroups: {g: {user: g}}", "h"),
    ],
)  # fmt: skip
def test_the_narrowest_wins(tmp_path: Path, text: str, expected: str) -> None:
    assert load(tmp_path, text).hosts["h"].user == expected


def test_vars_and_paths_are_laid_over_each_other_key_by_key(tmp_path: Path) -> None:
    file = tmp_path / "i.yaml"
    file.write_text(
        "defaults: {vars: {a: 1, b: 1, c: {x: 1}}, paths: {cache: /c, envs: ~/e//f/}}\n"
        "hosts: {h: {vars: {b: 2, c: {y: 2}}, paths: {cache: /d}}}\n"
    )
    inventory = load_inventory([file], {"a": Scalar("extra", Position("-e", 1, 1))})
    assert variables(inventory, "h") == {"a": "extra", "b": "2", "c": {"y": "2"}}
    assert inventory.hosts["h"].paths == Paths(cache="/d", envs="~/e/f")


def test_several_files_are_merged_and_the_later_wins(tmp_path: Path) -> None:
    inventory = load(
        tmp_path,
        "defaults: {user: one, port: 1}\nhosts: {a: {vars: {x: 1, y: 1}}}\ngroups: {g: {hosts: [a]}}",
        "defaults: {user: two}\nhosts: {b: , a: {vars: {x: 2}}}\ngroups: {g: {hosts: [b]}}",
    )
    assert list(inventory.hosts) == ["a", "b"]
    assert (inventory.hosts["a"].user, inventory.hosts["a"].port) == ("two", 1)
    assert variables(inventory, "a") == {"x": "2", "y": "1"}
    assert inventory.groups["g"] == ("a", "b")


def test_a_folder_is_read_in_the_order_of_its_names(tmp_path: Path) -> None:
    (tmp_path / "b.yml").write_text("defaults: {user: b}")
    (tmp_path / "a.yaml").write_text("defaults: {user: a}\nhosts: {h: }")
    (tmp_path / ".c.yaml").write_text("nonsense")
    (tmp_path / "README.md").write_text("nonsense")
    assert load_inventory([tmp_path]).hosts["h"].user == "b"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("h1,", [("h1", "h1", None, None)]),
        ("h1, h2", [("h1", "h1", None, None), ("h2", "h2", None, None)]),
        ("root@203.0.113.7:2222,", [("203.0.113.7-2222", "203.0.113.7", "root", 2222)]),
        ("[2001:db8::1]:22,", [("2001-db8--1-22", "2001:db8::1", None, 22)]),
    ],
)
def test_the_comma_form(words: str, expected: list[tuple[str, str, str | None, int | None]]) -> None:
    hosts = load_inventory([words]).hosts.values()
    assert [(host.name, host.address, host.user, host.port) for host in hosts] == expected


@pytest.mark.parametrize("words", ["a b,", "-oProxyCommand=x,", "h:0,", "h:x,", "::1,", "@h,", "-u@h,", "a\0,", "h;x,"])
def test_what_is_no_host_in_the_comma_form(words: str) -> None:
    with pytest.raises(InputError, match=r"^-i:1:1: "):
        load_inventory([words])


def test_a_bastion_does_not_jump_over_itself(tmp_path: Path) -> None:
    inventory = load(tmp_path, "defaults: {jump: bastion}\nhosts: {bastion: , gpu1: , gpu2: {jump: u@x:22}}")
    assert [host.jump for host in inventory.hosts.values()] == [None, "bastion", "u@x:22"]


def test_files_of_the_controller_count_from_the_inventory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "id").touch()
    (tmp_path / "id").touch()
    inventory = load(tmp_path, "hosts: {a: {key: ~/id, known_hosts: kh}, b: {key: id, password: {file: pw}}}")
    a, b = inventory.hosts.values()
    assert (a.key, a.known_hosts) == (tmp_path / "home" / "id", tmp_path / "kh")
    assert b.key == tmp_path / "id"
    assert b.password is not None
    assert b.password.file == tmp_path / "pw"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("hosts: {h: {hostname: x}}", "'hostname' is not a key of the host 'h' (here it is 'address' of a host)"),
        ("hosts: {h: {identity_file: x}}", "'identity_file' is not a key of the host 'h' (here it is 'key')"),
        ("hosts: {h: {ansible_ssh_private_key_file: x}}", "(that is Ansible's; here it is 'key' of the host, a"),
        ("hosts: {h: {ansible_host_key_checking: no}}", "host keys are always checked; that of a new host is taken"),
        ("hosts: {h: {zzz: x}}", "'zzz' is not a key of the host 'h' (its keys are address, user, port, key,"),
        ("hosts: {h: {adress: x}}", "0.yaml:1:13: 'adress' is not a key of the host 'h' (did you mean 'address'?)"),
        ("host: {h: }", "0.yaml:1:1: 'host' is not a key of the inventory (did you mean 'hosts'?)"),
        ("hosts: [a, b]", "0.yaml:1:8: 'hosts' must be a mapping, not a list"),
        ("hosts: {h: x}", "0.yaml:1:12: the host 'h' must be a mapping, not 'x'"),
        ("hosts: {h: {port: 0}}", "0.yaml:1:19: port must be a number from 1 to 65535, not '0'"),
        ("hosts: {h: {port: 65536}}", "0.yaml:1:19: port must be a number from 1 to 65535, not '65536'"),
        ("hosts: {h: {port: 2_2}}", "0.yaml:1:19: port must be a number from 1 to 65535, not '2_2'"),
        ("hosts: {h: {port: [22]}}", "0.yaml:1:19: port must be a number from 1 to 65535, not a list"),
        ("hosts: {h: {port: ٢٢}}", "0.yaml:1:19: port must be a number from 1 to 65535, not '٢٢'"),
        ("hosts: {h: {address: 'a b'}}", "0.yaml:1:22: address must be a host name or IP, not 'a b'"),
        ("hosts: {h: {address: -oX=y}}", "0.yaml:1:22: address must be a host name or IP, not '-oX=y'"),
        ("hosts: {h: {address: 1.2.3.4:22}}", "not '1.2.3.4:22' (the port goes under 'port')"),
        ("hosts: {h: {address: root@x}}", "not 'root@x' (the user goes under 'user')"),
        ("hosts: {h: {user: -l}}", "0.yaml:1:19: user must be a name without blanks or a leading '-', not '-l'"),
        ("hosts: {h: {user: 'a b'}}", "user must be a name without blanks"),
        ("hosts: {h: {user: }}", "0.yaml:1:19: user must be text, not nothing"),
        ("hosts: {h: {key: /no/such}}", "0.yaml:1:18: there is no key file '/no/such'"),
        ("hosts: {h: {key: /dev/null/x}}", "0.yaml:1:18: there is no key file '/dev/null/x'"),
        ("hosts: {h: {key: /etc}}", "0.yaml:1:18: the key file '/etc' is a folder, not a file (leave 'key' out"),
        ("hosts: {h: {key: /dev/null}}", "0.yaml:1:18: the key file '/dev/null' is a device, not a file"),
        ("hosts: {h: {connection: shs}}", "connection must be 'ssh' or 'local', not 'shs' (did you mean 'ssh'?)"),
        ("hosts: {h: {become: yes}}", "become must be 'auto' or 'never', not 'yes'"),
        ("hosts: {h: {host_key: abc}}", "host_key must be a fingerprint 'SHA256:' and 43 characters, not 'abc'"),
        ("hosts: {h: {paths: {envs: e}}}", "envs must be an absolute path or begin with '~/', not 'e'"),
        ("hosts: {h: {paths: {envs: ~/../e}}}", "envs must be an absolute path or begin with '~/', not '~/../e'"),
        ("hosts: {h: {paths: {env: /e}}}", "'env' is not a key of paths (did you mean 'envs'?)"),
        ("hosts: {h: {groups: [trian]}}\ngroups: {train: }", "no group is called 'trian' (did you mean 'train'?)"),
        ("hosts: {h: {groups: [new]}}", "no group is called 'new' (declare it: groups: {new: })"),
        ("hosts: {gpu1: }\ngroups: {g: {hosts: [gpu2]}}",
         "0.yaml:2:22: no host is called 'gpu2' (did you mean 'gpu1'?)"),
        ("hosts: {h: }\ngroups: {g: {hosts: [f]}, f: }",
         "no host is called 'f' (it is a group, and goes under 'children')"),
        ("hosts: {h: }\ngroups: {g: {children: [h]}}", "no group is called 'h' (it is a host, and goes under 'hosts')"),
        ("hosts: {h: }\ngroups: {a: {children: [a]}}", "groups hold each other in a loop: a > a"),
        ("hosts: {h: }\ngroups: {g: {address: x}}", "'address' is not a key of the group 'g' (only a host has that)"),
        ("hosts: {h: }\ngroups: {h: }", "0.yaml:2:10: 'h' is the name of a host and of a group"),
        ("hosts: {h: }\ngroups: {all: }", "what is said of all hosts goes under 'defaults'"),
        ("hosts: {'a b': }", "0.yaml:1:9: a host's name is made of letters"),
        ("hosts: {-h: }", "0.yaml:1:9: a host's name is made of letters"),
        ("hosts: {a: {jump: b}, b: {jump: a}}", "hosts jump over each other in a loop: a > b > a"),
        ("hosts: {a: {jump: a}}", "hosts jump over each other in a loop: a > a"),
        ("hosts: {bastion: , a: {jump: bastoin}}",
         "no host is called 'bastoin' to jump over (did you mean 'bastion'?)"),
        ("hosts: {a: {jump: 'u@x:99999'}}", "0.yaml:1:19: no host is called 'u@x:99999' to jump over"),
        ("hosts: {h: {vars: {facts: 1}}}", "no variable can be called 'facts'"),
        ("hosts: {h: {vars: {a-b: 1}}}", "not 'a-b' (such as 'a_b')"),
        ("hosts: {h: {vars: {ansible_user: x}}}", "here it is 'user' of the host"),
        ("hosts: {h: {vars: [1]}}", "vars must be a mapping, not a list"),
        ("all: {hosts: {h: }}", "0.yaml:1:1: 'all' is not a key of the inventory (that is Ansible's form;"),
        ("hosts: {h: {ansible_host: x}}", "(that is Ansible's; here it is 'address' of the host"),
        ("train: {hosts: {h: }}", "(a group goes under 'groups': groups: {train: …})"),
        ("user: root\nhosts: {h: }", "(for all hosts: defaults: {user: …})"),
        ("hosts: {w: 10.213.146.10}", "not '10.213.146.10' (write w: {address: 10.213.146.10})"),
        ("hosts: {w: 'ada@gpu1:22'}", "(write w: {address: gpu1, user: ada, port: 22})"),
        ("hosts: {w: a b}", "0.yaml:1:12: the host 'w' must be a mapping, not 'a b'"),
        ("- {hosts: all, roles: [x]}", "(it is a playbook: gpuprov plan "),
        ("- a", "(write: hosts: {NAME: {address: IP}})"),
        ("gpu1 ansible_host=1.2.3.4\n", "this looks like an Ansible inventory in INI form"),
        ("[train]\n", "this looks like an Ansible inventory in INI form"),
        ("[train]\ngpu1 ansible_host=1.2.3.4\n", "this looks like an Ansible inventory in INI form"),
        ("", "0.yaml:1:1: the inventory holds no host (add: hosts: {NAME: {address: IP}})"),
        ("- a", "0.yaml:1:1: the inventory must be a mapping, not a list"),
        ("hosts: {h: {password: {}}}", "password must have exactly one source"),
        ("hosts: {h: {password: {env: A, file: b}}}", "password must have exactly one source"),
        ("hosts: {h: {password: {enw: A}}}", "'enw' is not a key of password (did you mean 'env'?)"),
        ("hosts: {h: {password: {command: []}}}", "command must be a list of words"),
    ],
)  # fmt: skip
def test_mistakes(tmp_path: Path, text: str, expected: str) -> None:
    assert any(expected in problem for problem in problems(tmp_path, text)), problems(tmp_path, text)


@pytest.mark.parametrize("text", ["[train]\ngpu1 ansible_host=1.2.3.4\n", "gpu1\n[all:vars]\nx=1\n", "[train]\n"])
def test_an_inventory_in_ini_form_is_one_mistake(tmp_path: Path, text: str) -> None:
    (problem,) = problems(tmp_path, text)
    assert "INI form" in problem


def test_all_mistakes_of_all_files_come_at_once_and_in_order(tmp_path: Path) -> None:
    found = problems(
        tmp_path,
        "defaults: {prot: 1}\nhosts: {h: {user: -x, port: x}}\n",
        "hosts: {i: {becom: auto}}\ngroups: {g: {hosts: [j]}, k: {children: [l]}}\n",
    )
    assert [problem.split(": ")[0] for problem in found] == [
        *("0.yaml:1:12", "0.yaml:2:19", "0.yaml:2:29", "1.yaml:1:13", "1.yaml:2:22", "1.yaml:2:42"),
    ]


def test_broken_files_do_not_hide_the_mistakes_of_others_nor_make_up_new_ones(tmp_path: Path) -> None:
    found = problems(tmp_path, "hosts: {h: {prot: 1}}\ngroups: {g: {hosts: [other]}}", "hosts: [")
    assert len(found) == 2
    assert "'prot' is not a key" in found[0]
    assert "1.yaml:1:9: this is not YAML" in found[1]


@pytest.mark.parametrize(
    "text", ["password: hunter2", "password: [hunter2]", "password: {hunter: hunter2}", "password: {env: hunter2!}",
             "password: {env: [hunter2]}", "password: {command: [[hunter2]]}", "ansible_password: hunter2"]
)  # fmt: skip
def test_a_password_that_was_written_down_is_in_no_message(tmp_path: Path, text: str) -> None:
    found = problems(tmp_path, f"hosts: {{h: {{{text}}}}}")
    assert found
    assert not any("hunter2" in problem for problem in found)


def test_what_cannot_be_found(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        load_inventory(["gpu1"])
    assert (
        str(caught.value)
        == "there is no inventory 'gpu1' (to name a host and not a file, end it with a comma: 'gpu1,')"
    )
    with pytest.raises(InputError, match=r"holds no \*\.yaml"):
        load_inventory([tmp_path])
    with pytest.raises(InputError, match="no inventory is given"):
        load_inventory([])
    with pytest.raises(InputError, match="there is no inventory"):
        load_inventory(["a\0b"])


def test_deep_and_wide_groups_are_no_trouble(tmp_path: Path) -> None:
    chain = "".join(f"  g{i}: {{children: [g{i + 1}]}}\n" for i in range(2000))
    inventory = load(tmp_path, f"hosts: {{h: }}\ngroups:\n{chain}  g2000: {{hosts: [h]}}\n")
    assert len(inventory.hosts["h"].groups) == 2001


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ({"env": "GPUPROV_TEST_PASSWORD"}, b"from env"),
        ({"command": ("printf", "first\\nsecond\\n")}, b"first"),
        ({"file": "pw"}, b"from file "),
    ],
)
def test_passwords_are_read_from_their_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: dict[str, object], expected: bytes
) -> None:
    monkeypatch.setenv("GPUPROV_TEST_PASSWORD", "from env")
    (tmp_path / "pw").write_text("from file \nmore\n")
    if "file" in source:
        source = {"file": tmp_path / "pw"}
    found = PasswordSource(position=Position("f", 1, 1), **source)  # type: ignore[arg-type]
    assert found.read().reveal() == expected


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ({"env": "GPUPROV_NO_SUCH"}, "holds no password"),
        ({"env": "GPUPROV_NO_SUCH"}, "it is not set .set it where gpuprov runs: export GPUPROV_NO_SUCH="),
        ({"file": Path("/no/such")}, "cannot be read: No such file"),
        ({"command": ("sh", "-c", "echo secret; exit 3")}, "ended with status 3"),
        ({"command": ("/no/such",)}, "cannot be read: No such file"),
        ({"command": ("sleep", "60")}, "gave no password in 0.2 s"),
    ],
)
def test_a_password_that_cannot_be_had(source: dict[str, object], says: str) -> None:
    with pytest.raises(InputError, match=says) as caught:
        PasswordSource(position=Position("f", 1, 1), **source).read(deadline=0.2)  # type: ignore[arg-type]
    assert str(caught.value).startswith("f:1:1: ")
    assert "secret" not in str(caught.value).replace("secret; exit", "")
