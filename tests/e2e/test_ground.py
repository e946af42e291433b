"""Every kind of resource, on real hosts of both shapes at once: state is read by testinfra and from outside.

The run is made once; each test looks at another side of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.command import GROUND, Command, Result, hosts_of, write_inventory
from tests.lab.fsdigest import Snapshot, diff, snapshot, written
from tests.lab.hosts import Host
from tests.lab.lab import Lab
from tests.lab.prober import Prober, deep_faults

IDS = {
    "directory:/srv/ground",
    "directory:/srv/ground/odd name's",
    "file:/srv/ground/file0",
    "file:/srv/ground/odd name's/$(touch pwned)",
    "file:/srv/ground/stack.env",
    "symlink:/srv/ground/current",
    "apt:tree",
    "apt:jq",
    "profile:ground",
    "command:stamp",
    "command:slow",
}
MADE = {
    "/srv/ground",
    "/srv/ground/odd name's",
    "/srv/ground/file0",
    "/srv/ground/odd name's/$(touch pwned)",
    "/srv/ground/stack.env",
    "/srv/ground/current",
    "/srv/ground/stamp",
    "/srv/ground/slow",
    "/etc/profile.d/ground.sh",
}
EDITED = {"/etc/bash.bashrc", "/etc/zsh/zprofile", "/etc/zsh/zshrc"}
APT = re.compile(
    r"/usr/(bin|lib|share)/.*|/var/(lib|cache)/(dpkg|apt|debconf)(/.*)?|/var/log/(apt(/.*)?|dpkg\.log|alternatives\.log)"
    r"|/etc/ld\.so\.cache|/var/cache/ldconfig/aux-cache|/var/lib/apt/.*"
)
"""What installing two packages writes."""


@dataclass
class Story:
    hosts: tuple[Host, Host]
    command: Command
    plan: Result
    first: Result
    second: Result
    before: dict[str, Snapshot]
    planned: dict[str, Snapshot]
    after: dict[str, Snapshot]
    again: dict[str, Snapshot]
    probers: dict[str, Prober]
    audit_before: dict[str, str]


AUDIT = (
    "dpkg --verify | grep -v -e /etc/bash.bashrc -e /etc/zsh/; "
    "readlink -f /usr/local/cuda /usr/bin/python3 /etc/alternatives/*; "
    "ldconfig -p | grep -v -e jq -e onig -e 'libs found'"
)


"""The files in which the plan announces a block are left out: dpkg, rightly, sees that they are edited."""


def look(hosts: tuple[Host, Host], *, content: bool) -> dict[str, Snapshot]:
    return {host.name: snapshot(host, content=content) for host in hosts}


@pytest.fixture(scope="module")
def story(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    hosts = (lab.start("a"), lab.start("b"))
    try:
        folder = tmp_path_factory.mktemp("ground")
        command = Command(write_inventory(folder / "hosts.yaml", hosts_of(*hosts)))
        audit = {h.name: h.exec(AUDIT, check=False).stdout for h in hosts}
        before = look(hosts, content=True)
        plan = command("plan", str(GROUND))
        planned = look(hosts, content=False)
        probers = {h.name: Prober(h) for h in hosts}
        for prober in probers.values():
            prober.__enter__()
        first = command("apply", str(GROUND))
        after = look(hosts, content=True)
        second = command("apply", str(GROUND))
        again = look(hosts, content=False)
        for prober in probers.values():
            prober.__exit__()
        yield Story(hosts, command, plan, first, second, before, planned, after, again, probers, audit)
    finally:
        for host in hosts:
            lab.remove(host)


def test_plan_says_what_would_change_and_touches_nothing(story: Story) -> None:
    assert story.plan.code == 0
    for host in story.hosts:
        lines = {e["id"]: e["verdict"] for e in story.plan.of("plan-line", host=host.name)}
        assert set(lines) == IDS
        assert {id_ for id_, verdict in lines.items() if verdict == "recheck"} == {"command:stamp", "command:slow"}
        assert not written(story.before[host.name], story.planned[host.name])


def test_apply_makes_it_so(story: Story) -> None:
    assert story.first.code == 0, story.first.out
    for host in story.hosts:
        assert story.first.changed(host.name) == IDS
        assert story.first.ended(host.name)["status"] == "changed"


def test_the_hosts_are_as_wanted_says_an_independent_reader(story: Story) -> None:
    for host in story.hosts:
        there = host.testinfra()
        folder, file0 = there.file("/srv/ground"), there.file("/srv/ground/file0")
        assert (folder.is_directory, folder.mode, folder.user) == (True, 0o750, "root")
        assert file0.content_string == f"hello from {host.name}\nfile 0\n" and file0.mode == 0o640
        assert there.file("/srv/ground/odd name's").mode == 0o700
        odd = host.exec('od -An -tx1 "/srv/ground/odd name\'s/\\$(touch pwned)"').stdout
        assert odd.split() == ["00", "ff", "0a"]
        assert there.file("/srv/ground/current").linked_to == "/srv/ground/stack.env"
        assert "CUDA=12.10\n" in there.file("/srv/ground/stack.env").content_string
        assert there.package("tree").is_installed and there.package("jq").is_installed
        assert there.file("/srv/ground/stamp").content_string == "stamped\n"
        assert there.file("/srv/ground/slow").content_string == "done\n"
        assert not there.file("/pwned").exists and not there.file("/root/pwned").exists


@pytest.mark.parametrize("shell", ["bash -lc", "bash -ic", "dash -lc", "zsh -lc", "zsh -ic"])
def test_every_shell_reads_the_profile_snippet(story: Story, shell: str) -> None:
    for host in story.hosts:
        said = host.ssh(f"{shell} 'echo ground=$GROUND'").stdout
        assert "ground=/srv/ground" in said


def test_the_file_systems_differ_exactly_where_the_plan_said(story: Story) -> None:
    for host in story.hosts:
        change = diff(story.before[host.name], story.after[host.name])
        paths = {*change.added, *change.removed, *change.changed}
        touched = {path for path in paths if not path.startswith("/var/lib/gpuprov")}
        assert touched >= MADE | EDITED
        rest = {path for path in touched - MADE - EDITED if not APT.fullmatch(path)}
        assert rest == set()
        assert not change.removed


def test_again_nothing_changes_not_even_a_time_of_change(story: Story) -> None:
    assert story.second.code == 0
    for host in story.hosts:
        assert story.second.changed(host.name) == set()
        assert story.second.ended(host.name)["status"] == "ok"
        change = written(story.after[host.name], story.again[host.name]).outside("/var/lib/gpuprov")
        assert not change, change


def test_a_run_without_changes_takes_two_exchanges(story: Story) -> None:
    for host in story.hosts:
        assert story.second.ended(host.name)["exchanges"] == 2


def test_jupyter_tensorboard_and_protobuf_never_noticed(story: Story) -> None:
    for host in story.hosts:
        story.probers[host.name].assert_green()
        assert deep_faults(host) == {}
        assert host.exec(AUDIT, check=False).stdout == story.audit_before[host.name]


UNDONE = {
    "file edited": ("echo more >>/srv/ground/file0", {"file:/srv/ground/file0"}),
    "file removed": ("rm /srv/ground/stack.env", {"file:/srv/ground/stack.env"}),
    "mode changed": ("chmod 600 /srv/ground/file0", {"file:/srv/ground/file0"}),
    "file replaced by a link": (
        "cd /srv/ground && rm file0 && ln -s stack.env file0",
        {"file:/srv/ground/file0"},
    ),
    "folder opened": ("chmod 777 /srv/ground", {"directory:/srv/ground"}),
    "link turned": ("ln -sfn /tmp /srv/ground/current", {"symlink:/srv/ground/current"}),
    "package removed": ("DEBIAN_FRONTEND=noninteractive apt-get -qq remove -y tree >/dev/null", {"apt:tree"}),
    "block taken out": ("sed -i '/BEGIN gpuprov/,/END gpuprov/d' /etc/bash.bashrc", {"profile:ground"}),
    "snippet edited": ("echo true >>/etc/profile.d/ground.sh", {"profile:ground"}),
    "state lost": ("rm /srv/ground/slow", {"command:slow"}),
}


@pytest.mark.parametrize("case", UNDONE)
def test_what_is_undone_by_hand_is_all_that_the_next_apply_changes(story: Story, case: str) -> None:
    script, expected = UNDONE[case]
    for host in story.hosts:
        host.exec(script)
    result = story.command("apply", str(GROUND))
    assert result.code == 0, result.out
    for host in story.hosts:
        assert result.changed(host.name) == expected
        there = host.testinfra()
        assert there.file("/srv/ground/file0").content_string == f"hello from {host.name}\nfile 0\n"
        assert there.file("/srv/ground/file0").mode == 0o640 and there.file("/srv/ground").mode == 0o750
        assert there.package("tree").is_installed
        assert there.file("/srv/ground/current").linked_to == "/srv/ground/stack.env"


def test_check_is_plan(story: Story) -> None:
    host = story.hosts[0]
    host.exec("echo more >>/srv/ground/file0")
    before = snapshot(host, content=False)
    words = ("apply", str(GROUND), "-l", host.name, "--check", "--exit-code")
    result = story.command(*words)
    assert result.code == 4
    assert {e["id"] for e in result.of("plan-line", verdict="change")} == {"file:/srv/ground/file0"}
    assert not written(before, snapshot(host, content=False))
    assert story.command("apply", str(GROUND), "-l", host.name).code == 0
    assert story.command(*words).code == 0


def test_tags_select_what_is_changed(story: Story) -> None:
    host = story.hosts[1]
    host.exec("rm /srv/ground/stamp; echo more >>/srv/ground/file0")
    result = story.command("apply", str(GROUND), "-l", host.name, "-t", "commands")
    assert result.code == 0 and result.changed(host.name) == {"command:stamp"}
    assert story.command("apply", str(GROUND), "-l", host.name).changed(host.name) == {"file:/srv/ground/file0"}


def test_only_the_limited_host_is_contacted(story: Story) -> None:
    result = story.command("plan", str(GROUND), "-l", story.hosts[0].name)
    assert {e["host"] for e in result.events if "host" in e} == {story.hosts[0].name}


def test_facts_say_what_each_host_is(story: Story) -> None:
    result = story.command("facts")
    assert result.code == 0
    shapes = dict(zip((h.name for h in story.hosts), "ab", strict=True))
    for event in result.of("facts-read"):
        facts = event["facts"]
        assert facts["gpus"][0]["name"] == "NVIDIA GeForce RTX 4070" and facts["driver"]["version"] == "535.104.05"
        assert [t["version"] for t in facts["toolkits"] if t["path"] == "/usr/local/cuda-12.1"] == ["12.1"]
        assert bool(facts["conda"]) == (shapes[event["host"]] == "a")
        assert {"jupyter", "tensorboard"} <= {s["kind"] for s in facts["services"]}


def test_one_command_on_many_hosts(story: Story) -> None:
    result = story.command("exec", "all", "--", "printf", "%s|", "a b", "$HOME")
    assert result.code == 0
    assert [e["stdout"] for e in result.of("command-ended")] == ["a b|$HOME|"] * 2
    assert story.command("exec", "all", "exit 3").code == 1


def test_as_a_plain_user_without_sudo_it_says_what_it_lacks(story: Story, tmp_path: Path) -> None:
    host = story.hosts[1]
    entry = {**hosts_of(host)[host.name], "user": "plain"}
    command = Command(write_inventory(tmp_path / "hosts.yaml", {host.name: entry}))
    host.exec("echo more >>/srv/ground/file0")
    result = command("apply", str(GROUND))
    assert result.code == 1
    # /srv/ground is closed to others: what lies in it could not be seen, and is never called absent
    assert result.outcomes(host.name)["file:/srv/ground/file0"] in ("unseen", "skipped")
    assert story.command("apply", str(GROUND), "-l", host.name).changed(host.name) == {"file:/srv/ground/file0"}


def test_as_a_user_with_sudo_it_works_as_root_does(story: Story, tmp_path: Path) -> None:
    host = story.hosts[0]
    entry = {**hosts_of(host)[host.name], "user": "gpu"}
    command = Command(write_inventory(tmp_path / "hosts.yaml", {host.name: entry}))
    host.exec("rm /srv/ground/file0")
    result = command("apply", str(GROUND))
    assert result.code == 0, result.out
    assert result.changed(host.name) == {"file:/srv/ground/file0"}
    assert host.testinfra().file("/srv/ground/file0").user == "root"
