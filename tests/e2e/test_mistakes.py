"""What people get wrong, and what hosts do wrong: one clear error, the right exit code, nothing half-done."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.e2e.command import Command, hosts_of, playbook, write_inventory
from tests.lab.fixtures import StartHost
from tests.lab.fsdigest import snapshot, written
from tests.lab.hosts import Host

TOUCH = '''
from gpuprov.resources import Directory, File
from gpuprov.role import role
from gpuprov.facts import Facts

@role
def touch(host: Facts, *, path: str, size: int = 1, color: str = "red"):
    """Write one file."""
    yield File(path=path, content="x" * size)
'''


@contextmanager
def listener() -> Iterator[tuple[int, list[object]]]:
    """A port that remembers whoever calls."""
    calls: list[object] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def accept() -> None:
            while True:
                try:
                    line, peer = server.accept()
                except OSError:
                    return
                calls.append(peer)
                line.close()

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        try:
            yield server.getsockname()[1], calls
        finally:
            # Closing alone leaves the thread in accept(), which a process that was stopped for a moment begins anew,
            # with the number of the descriptor, whosever that is by then. It would take other tests' connections.
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


MISTAKES: dict[str, tuple[dict[str, object], list[str]]] = {
    "unknown role": (
        {"hosts": "all", "roles": [{"tuch": {"path": "/srv/x"}}]},
        ["play.yaml:3:5", "no role 'tuch'", "did you mean 'touch'"],
    ),
    "misspelt parameter": (
        {"hosts": "all", "roles": [{"touch": {"path": "/srv/x", "colour": "blue"}}]},
        ["play.yaml:5:7", "no parameter 'colour'", "did you mean 'color'"],
    ),
    "missing parameter": ({"hosts": "all", "roles": ["touch"]}, ["play.yaml:3:5", "needs the parameter 'path'"]),
    "wrong type": (
        {"hosts": "all", "roles": [{"touch": {"path": "/srv/x", "size": "big"}}]},
        ["play.yaml:5:13", "expected whole number, found 'big'"],
    ),
    "undefined variable": (
        {"hosts": "all", "roles": [{"touch": {"path": "{{ foldr }}/x"}}], "vars": {"folder": "/srv"}},
        ["play.yaml:4:13", "foldr", "did you mean 'folder'"],
    ),
    "unknown fact": (
        {"hosts": "all", "roles": [{"touch": {"path": "/srv/{{ facts.drivr.version }}"}}]},
        ["play.yaml:4:13", "drivr", "driver"],
    ),
    "misspelt key": (
        {"hosts": "all", "roles": [], "tag": "x"},
        ["play.yaml:3:3", "tag", "did you mean 'tags'"],
    ),
    "no such host": ({"hosts": "gpu2", "roles": []}, ["play.yaml:1:10", "gpu2", "gpu1"]),
    "bad expression": ({"hosts": "all", "when": "facts.os.id ==", "roles": []}, ["play.yaml:2:9"]),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_mistakes_in_the_playbook_contact_no_host(case: str, tmp_path: Path) -> None:
    play, says = MISTAKES[case]
    path = playbook(tmp_path, play, roles={"touch": TOUCH})
    with listener() as (port, calls):
        inventory = write_inventory(tmp_path / "hosts.yaml", {"gpu1": {"address": "127.0.0.1", "port": str(port)}})
        result = Command(inventory)("apply", str(path), json_lines=False)
    assert result.code == 2 and not calls
    assert result.out == ""
    for words in says:
        assert words in result.err, result.err
    assert len(result.err.splitlines()) == 1, "one mistake, one line"


@pytest.mark.parametrize("word", ["plan", "apply"])
def test_the_inventorys_own_paths_keep_away_from_what_is_protected(word: str, tmp_path: Path) -> None:
    path = playbook(tmp_path, {"hosts": "all", "roles": []})
    with listener() as (port, calls):
        entry = {"address": "127.0.0.1", "port": str(port), "paths": {"cache": "/etc/ld.so.conf.d"}}
        inventory = write_inventory(tmp_path / "hosts.yaml", {"gpu1": entry})
        result = Command(inventory)(word, str(path), json_lines=False)
    assert result.code == 2 and not calls
    assert "hosts.yaml:7:14: paths.cache is /etc/ld.so.conf.d" in result.err, result.err


def test_all_mistakes_are_told_at_once(tmp_path: Path) -> None:
    play: dict[str, object] = {
        "hosts": "all",
        "roles": [{"touch": {"path": "{{ nope }}", "colour": "blue"}}, "tuch", {"touch": {"path": "/x", "size": "y"}}],
    }
    path = playbook(tmp_path, play, roles={"touch": TOUCH})
    result = Command(write_inventory(tmp_path / "hosts.yaml", {"gpu1": {}}))("plan", str(path), json_lines=False)
    assert result.code == 2
    assert [line.rpartition("play.yaml:")[2].split(":")[0] for line in result.err.splitlines()] == ["4", "5", "6", "9"]


def test_no_mistake_of_one_file_hides_those_of_the_other(tmp_path: Path) -> None:
    plays: list[dict[str, object]] = [
        {"hosts": "all", "roles": [], "tag": "x"},
        {"hosts": "all", "roles": [{"touch": {"path": "/x", "size": "big", "colour": "blue"}}]},
    ]
    path = playbook(tmp_path, *plays, roles={"touch": TOUCH})
    inventory = write_inventory(tmp_path / "hosts.yaml", {"gpu1": {"port": "x"}, "gpu2": {"adress": "y"}})
    result = Command(inventory)("plan", str(path), "-e", "nothing", json_lines=False)
    assert result.code == 2 and result.out == ""
    places = [line.replace(f"{tmp_path}/", "").split(": ")[0] for line in result.err.splitlines()]
    assert places == ["-e:1:1", "hosts.yaml:4:11", "hosts.yaml:6:5", "play.yaml:3:3", "play.yaml:8:13", "play.yaml:9:7"]


def test_a_role_that_cannot_be_imported_is_named_with_its_line(tmp_path: Path) -> None:
    path = playbook(tmp_path, {"hosts": "all", "roles": ["broken"]}, roles={"broken": "x = 1\nimport nosuchmodule\n"})
    result = Command(write_inventory(tmp_path / "hosts.yaml", {"gpu1": {}}))("plan", str(path), json_lines=False)
    assert result.code == 2 and "roles/broken/role.py:2:1" in result.err and "nosuchmodule" in result.err


@pytest.fixture
def good(fresh_host: StartHost) -> Host:
    """A host that does its part while another fails."""
    return fresh_host("b", services=False)


@pytest.fixture
def bad(fresh_host: StartHost) -> Host:
    """A host on which something fails."""
    return fresh_host("b", services=False)


def one_file(tmp_path: Path, path: str = "/srv/x", size: int = 1) -> Path:
    play = {"hosts": "all", "roles": [{"touch": {"path": path, "size": str(size)}}]}
    return playbook(tmp_path, play, roles={"touch": TOUCH})


def test_an_unreachable_host_is_told_and_the_others_finish(good: Host, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    entries = hosts_of(good) | {"gone": {"address": "127.0.0.1", "port": str(port)}}
    result = Command(write_inventory(tmp_path / "hosts.yaml", entries))("apply", str(one_file(tmp_path)))
    assert result.code == 3
    assert result.changed(good.name) == {"file:/srv/x"} and good.testinfra().file("/srv/x").exists
    error = result.ended("gone")["error"]
    assert result.ended("gone")["status"] == "unreachable" and error["code"] == "unreachable" and error["message"]


def test_a_refused_key_is_told(good: Host, tmp_path: Path) -> None:
    entries = hosts_of(good)
    stranger: dict[str, object] = {**entries[good.name], "user": "nobody"}
    hosts = entries | {"refused": stranger}
    command = Command(write_inventory(tmp_path / "hosts.yaml", hosts))
    result = command("apply", str(one_file(tmp_path)))
    assert result.code == 3 and result.ended("refused")["error"]["code"] == "authentication"
    assert result.changed(good.name) == {"file:/srv/x"}


def test_a_changed_host_key_is_refused_with_both_fingerprints(good: Host, tmp_path: Path) -> None:
    entry = hosts_of(good)[good.name]
    known = tmp_path / "known_hosts"
    strange = good.exec("rm -f /tmp/k; ssh-keygen -q -t ed25519 -N '' -f /tmp/k && cut -d' ' -f1,2 /tmp/k.pub").stdout
    known.write_text(f"{good.address} {strange}")
    before = snapshot(good, content=False)
    command = Command(write_inventory(tmp_path / "hosts.yaml", {good.name: {**entry, "known_hosts": known}}))
    for words in (["apply"], ["apply", "--accept-new"]):
        result = command(*words, str(one_file(tmp_path / words[-1])))
        error = result.ended(good.name)["error"]
        assert result.code == 3 and error["code"] == "host-key"
        text = f"{error['message']} {error['hint']} {error['output']}"
        assert text.count("SHA256:") >= 2 and "ssh-keygen" in text and " -R " in text
    assert not written(before, snapshot(good, content=False))


def test_an_unknown_host_key_is_refused_until_it_is_accepted(good: Host, tmp_path: Path) -> None:
    known = tmp_path / "known_hosts"
    entry = {**hosts_of(good)[good.name], "known_hosts": known}
    command = Command(write_inventory(tmp_path / "hosts.yaml", {good.name: entry}))
    path = str(one_file(tmp_path))
    refused = command("plan", path)
    assert refused.code == 3 and "--accept-new" in str(refused.ended(good.name)["error"])
    assert command("plan", path, "--accept-new").code == 0
    assert command("plan", path).code == 0 and known.read_text().startswith(good.address)


def test_a_full_disk_leaves_nothing_half_made(fresh_host: StartHost, good: Host, tmp_path: Path) -> None:
    small = fresh_host("b", services=False, tmpfs={"/srv": "64k"})
    command = Command(write_inventory(tmp_path / "hosts.yaml", hosts_of(small, good)))
    small.exec("echo old >/srv/x")
    result = command("apply", str(one_file(tmp_path, size=150_000)))
    assert result.code == 1
    (ended,) = result.of("node-ended", host=small.name)
    assert ended["outcome"] == "failed" and "No space left" in ended["error"]["output"]
    there = small.testinfra()
    assert there.file("/srv/x").content_string == "old\n"
    assert small.exec("ls -A /srv").stdout.split() == ["x"]
    assert result.changed(good.name) == {"file:/srv/x"}


def test_a_protected_thing_is_refused_before_the_first_step(good: Host, tmp_path: Path) -> None:
    roles = {"touch": TOUCH}
    play = {
        "hosts": "all",
        "roles": [{"touch": {"path": "/srv/x"}}, {"touch": {"path": "/usr/lib/python3/dist-packages/evil.py"}}],
    }
    before = snapshot(good, content=False)
    command = Command(write_inventory(tmp_path / "hosts.yaml", hosts_of(good)))
    result = command("apply", str(playbook(tmp_path, play, roles=roles)))
    error = result.ended(good.name)["error"]
    assert result.code == 1 and error["code"] == "refused" and "evil.py" in error["message"]
    assert not written(before, snapshot(good, content=False)).outside("/var/lib/gpuprov")


@pytest.mark.parametrize("word", ["plan", "apply"])
def test_a_plain_user_is_told_what_needs_root(word: str, good: Host, tmp_path: Path) -> None:
    paths = ("/etc/tmux.conf", "/home/plain/tmux.conf")
    play = {"hosts": "all", "roles": [{"touch": {"path": path}} for path in paths]}
    entry = {**hosts_of(good)[good.name], "user": "plain"}
    command = Command(write_inventory(tmp_path / "hosts.yaml", {good.name: entry}))
    result = command(word, str(playbook(tmp_path, play, roles={"touch": TOUCH})))
    assert result.code == 1
    why = {line["id"]: (line["verdict"], line["why"]) for line in result.of("plan-line")}
    assert why["file:/etc/tmux.conf"][0] == "blocked"
    assert "writing /etc/tmux.conf needs root, and user plain is not root" in why["file:/etc/tmux.conf"][1]
    assert why["file:/home/plain/tmux.conf"] == ("change", "")
    assert good.testinfra().file("/home/plain/tmux.conf").exists == (word == "apply")


ALIASES = {
    "a link of the image to its toolkit": ("/usr/local/cuda-12/x", ""),
    "another spelling of /usr/lib": ("/lib/python3/dist-packages/x.py", ""),
    "a harmless link to a protected folder": ("/srv/link/x", "ln -s /usr/local/cuda-12.1/include /srv/link"),
}


@pytest.mark.parametrize("case", ALIASES)
@pytest.mark.parametrize("command_word", ["plan", "apply"])
def test_a_protected_thing_is_refused_under_every_name(
    case: str, command_word: str, good: Host, tmp_path: Path
) -> None:
    path, script = ALIASES[case]
    good.exec(script or "true")
    before = snapshot(good, content=False)
    command = Command(write_inventory(tmp_path / "hosts.yaml", hosts_of(good)))
    result = command(command_word, str(one_file(tmp_path, path)))
    assert result.code == 1 and result.ended(good.name)["error"]["code"] == "refused", result.out
    assert not written(before, snapshot(good, content=False)).outside("/var/lib/gpuprov")


def test_a_role_that_calls_exit_ends_no_other_host(bad: Host, good: Host, tmp_path: Path) -> None:
    role = TOUCH.replace("    yield", f'    if host.name == "{bad.name}":\n        raise SystemExit(0)\n    yield')
    play = {"hosts": "all", "roles": [{"touch": {"path": "/srv/x"}}]}
    command = Command(write_inventory(tmp_path / "hosts.yaml", hosts_of(bad, good)))
    result = command("apply", str(playbook(tmp_path, play, roles={"touch": role})))
    assert result.code == 1 and result.changed(good.name) == {"file:/srv/x"}
    assert "SystemExit" in result.ended(bad.name)["error"]["message"]


def test_two_plays_that_would_undo_each_other_are_an_error(good: Host, tmp_path: Path) -> None:
    plays = [{"hosts": "all", "roles": [{"touch": {"path": "/srv/x", "size": size}}]} for size in ("1", "2")]
    command = Command(write_inventory(tmp_path / "hosts.yaml", hosts_of(good)))
    result = command("apply", str(playbook(tmp_path, *plays, roles={"touch": TOUCH})), json_lines=False)
    assert result.code == 2 and "file:/srv/x is declared twice and differently" in result.out + result.err
    assert (result.out + result.err).count("play.yaml:") >= 2
    assert not good.testinfra().file("/srv/x").exists


def test_a_file_whose_folder_is_missing_is_blocked_in_the_plan(good: Host, tmp_path: Path) -> None:
    command = Command(write_inventory(tmp_path / "hosts.yaml", hosts_of(good)))
    result = command("plan", str(one_file(tmp_path, "/srv/not/there/x")))
    (line,) = result.of("plan-line", host=good.name)
    assert result.code == 1 and line["verdict"] == "blocked" and "/srv/not/there is not there" in line["why"]


def test_packages_without_root_are_blocked_in_the_plan(good: Host, tmp_path: Path) -> None:
    role = TOUCH.replace('File(path=path, content="x" * size)', 'AptPackage(name="tree")').replace(
        "import Directory", "import AptPackage, Directory"
    )
    entry = {**hosts_of(good)[good.name], "user": "plain"}
    command = Command(write_inventory(tmp_path / "hosts.yaml", {good.name: entry}))
    play = {"hosts": "all", "roles": [{"touch": {"path": "/srv/x"}}]}
    result = command("plan", str(playbook(tmp_path, play, roles={"touch": role})))
    (line,) = result.of("plan-line", host=good.name)
    assert result.code == 1 and line["verdict"] == "blocked" and "needs root" in line["why"]


def test_a_short_command_is_ended_at_its_own_deadline(good: Host, tmp_path: Path) -> None:
    command_line = 'Command(name="slow", look="true", want="x", script="sleep 50", deadline=2)'
    role = TOUCH.replace('File(path=path, content="x" * size)', f"File(path=path)\n    yield {command_line}").replace(
        "import Directory", "import Command, Directory"
    )
    play = {"hosts": "all", "roles": [{"touch": {"path": "/srv/x"}}]}
    command = Command(write_inventory(tmp_path / "hosts.yaml", hosts_of(good)))
    result = command("apply", str(playbook(tmp_path, play, roles={"touch": role})))
    assert result.outcomes(good.name) == {"file:/srv/x": "changed", "command:slow": "failed"}
    (ended,) = result.of("node-ended", id="command:slow")
    assert ended["seconds"] < 30 and "within 2 s" in ended["error"]["message"]


def test_an_upload_that_fails_leaves_nothing_behind(fresh_host: StartHost, tmp_path: Path) -> None:
    small = fresh_host("b", services=False, tmpfs={"/srv": "500k"})
    command = Command(write_inventory(tmp_path / "hosts.yaml", hosts_of(small)))
    result = command("apply", str(one_file(tmp_path, size=900_000)))
    assert result.code == 1 and small.exec("ls -A /srv").stdout == ""


def test_a_state_folder_that_is_full_is_said_at_once(fresh_host: StartHost, tmp_path: Path) -> None:
    small = fresh_host("b", services=False, tmpfs={"/state": "16k"})
    small.exec("mkdir /state/s; dd if=/dev/zero of=/state/fill bs=1k count=64 2>/dev/null || true", check=False)
    entry = {**hosts_of(small)[small.name], "paths": {"state": "/state/s"}}
    command = Command(write_inventory(tmp_path / "hosts.yaml", {small.name: entry}))
    result = command("apply", str(one_file(tmp_path)), timeout=60)
    error = result.ended(small.name)["error"]
    assert result.code == 1 and error["code"] == "locked" and "/state/s cannot be written" in error["message"]


def test_a_role_that_fails_on_one_host_is_named_and_the_others_finish(bad: Host, good: Host, tmp_path: Path) -> None:
    role = TOUCH.replace(
        "    yield", f'    if host.name == "{bad.name}":\n        raise RuntimeError("oops")\n    yield'
    )
    play = {"hosts": "all", "roles": [{"touch": {"path": "/srv/x"}}]}
    command = Command(write_inventory(tmp_path / "hosts.yaml", hosts_of(bad, good)))
    result = command("apply", str(playbook(tmp_path, play, roles={"touch": role})))
    assert result.code == 1 and result.changed(good.name) == {"file:/srv/x"}
    error = result.ended(bad.name)["error"]
    assert "oops" in error["message"] and "roles/touch/role.py:10" in error["where"]


def test_one_machine_under_two_names_is_refused_before_it_is_contacted(good: Host, tmp_path: Path) -> None:
    entry = hosts_of(good)[good.name]
    inventory = write_inventory(tmp_path / "hosts.yaml", {"one": entry, "two": entry})
    path = str(one_file(tmp_path))
    result = Command(inventory)("apply", path, json_lines=False)
    assert result.code == 2
    assert "'two' is the machine of 'one'" in result.err and "hosts.yaml:" in result.err and "-l '!two'" in result.err
    assert Command(inventory)("apply", path, "-l", "one").code == 0


def test_a_limit_that_names_nobody_is_not_everybody(good: Host, tmp_path: Path) -> None:
    command = Command(write_inventory(tmp_path / "hosts.yaml", hosts_of(good)))
    assert command("apply", str(one_file(tmp_path)), "-l", "", json_lines=False).code == 2
    assert not good.testinfra().file("/srv/x").exists


@pytest.mark.parametrize("folder", ["/srv/shared", "/etc", "/tmp"])
def test_a_state_folder_that_others_use_is_not_closed_to_them(good: Host, tmp_path: Path, folder: str) -> None:
    good.exec("mkdir -p /srv/shared; chmod 755 /srv/shared")
    before = good.exec(f"stat -c %a {folder}; ls -A {folder}").stdout
    command = Command(write_inventory(tmp_path / "hosts.yaml", hosts_of(good), paths={"state": folder}))
    result = command("apply", str(one_file(tmp_path)))
    error = result.ended(good.name)["error"]
    assert result.code == 1 and folder in error["message"] and "a folder of its own" in error["message"]
    assert good.exec(f"stat -c %a {folder}; ls -A {folder}").stdout == before


@pytest.mark.parametrize("raised", ["BaseException", "GeneratorExit", "asyncio.CancelledError", "StopIteration"])
def test_whatever_a_role_raises_ends_no_other_host(bad: Host, good: Host, tmp_path: Path, raised: str) -> None:
    body = f'    if host.name == "{bad.name}":\n        raise {raised}("oops")\n    yield'
    role = "import asyncio\n" + TOUCH.replace("    yield", body)
    play = {"hosts": "all", "roles": [{"touch": {"path": "/srv/x"}}]}
    command = Command(write_inventory(tmp_path / "hosts.yaml", hosts_of(bad, good)))
    result = command("apply", str(playbook(tmp_path, play, roles={"touch": role})))
    assert result.code == 1 and result.changed(good.name) == {"file:/srv/x"}
    assert result.ended(bad.name)["status"] == "failed"


def test_what_a_role_prints_stands_in_no_json_line(good: Host, tmp_path: Path) -> None:
    body = '    print("printed"); os.system("echo by a program"); os.write(1, b"written\\n")\n    yield'
    role = "import os\nprint('imported')\n" + TOUCH.replace("    yield", body)
    play = {"hosts": "all", "roles": [{"touch": {"path": "/srv/x"}}]}
    command = Command(write_inventory(tmp_path / "hosts.yaml", hosts_of(good)))
    result = command("apply", str(playbook(tmp_path, play, roles={"touch": role})))
    assert result.changed(good.name) == {"file:/srv/x"}
    assert {"imported", "printed", "by a program", "written"} <= set(result.err.splitlines())


def test_an_order_that_names_no_resource_is_a_mistake(good: Host, tmp_path: Path) -> None:
    role = TOUCH.replace('content="x" * size)', 'content="x" * size, after=("/srv/y",))')
    play = {"hosts": "all", "roles": [{"touch": {"path": "/srv/x"}}]}
    command = Command(write_inventory(tmp_path / "hosts.yaml", hosts_of(good)))
    result = command("apply", str(playbook(tmp_path, play, roles={"touch": role})))
    assert result.code == 2 and "'/srv/y', which is no resource" in result.ended(good.name)["error"]["message"]
