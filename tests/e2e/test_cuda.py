"""CUDA beside CUDA on real hosts of both shapes: the toolkit appears whole, and nothing of the image's CUDA moves."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.command import Command, Result, hosts_of, write_inventory
from tests.lab.cuda.fixtures import SmallRunfile
from tests.lab.cuda.runfiles import Runfile
from tests.lab.cuda.site import DownloadSite
from tests.lab.fixtures import StartHost
from tests.lab.fsdigest import Snapshot, diff, snapshot, written
from tests.lab.hosts import Host
from tests.lab.lab import Lab
from tests.lab.prober import Prober, deep_faults

PLAYBOOK = str(Path(__file__).parents[2] / "playbooks" / "cuda-side-by-side.yaml")
TOOLKIT = "/usr/local/cuda-11.7"
OURS = re.compile(
    r"/usr/local/cuda-11\.7(/.*)?|/usr/local/lib/gpuprov(/.*)?|/usr/local/bin/cuda-(env|run|list|use)"
    r"|/etc/profile\.d/(zzz-)?cuda-switch\.sh|/etc/(bash\.bashrc|zsh/(zprofile|zshrc))|/var/lib/gpuprov(/.*)?"
)
LIBXML2 = re.compile(
    r"/usr/(lib|share)/.*(libxml2|icu|libicu).*|/usr/share/doc/.*|/var/(lib|cache)/(dpkg|apt|debconf)(/.*)?"
    r"|/var/log/(apt(/.*)?|dpkg\.log|alternatives\.log)|/etc/ld\.so\.cache|/var/cache/ldconfig/aux-cache"
)
AUDIT = """
readlink /usr/local/cuda /etc/alternatives/cuda; readlink -f /usr/local/cuda
cd /etc/ld.so.conf.d && sha256sum * && cd /
stat -c '%n %Y %Z' /etc/ld.so.conf.d /etc/alternatives
ldconfig -p | grep -v -e xml2 -e icu -e 'libs found'
find /usr/local/cuda-12.1 -type f | sort | xargs sha256sum
ls -A /var/log/driver-was-installed /usr/share/man/man1 2>&1 | sort | sha256sum
"""

# Looks every 10 ms and writes down each state that it has not seen before.
POLLER = r"""
import os, time
seen = {}
def look():
    def link(path):
        try: return os.readlink(path)
        except OSError as error: return type(error).__name__
    tree = "/usr/local/cuda-11.7"
    if not os.path.lexists(tree): state = "absent"
    elif os.path.exists(tree + "/manifest.json") and os.path.exists(tree + "/bin/nvcc"): state = "whole"
    else: state = "half"
    conf = tuple(sorted((n, os.stat("/etc/ld.so.conf.d/" + n).st_mtime_ns) for n in os.listdir("/etc/ld.so.conf.d")))
    return link("/usr/local/cuda"), link("/etc/alternatives/cuda"), conf, state
end = time.time() + 150
while time.time() < end and not os.path.exists("/tmp/poll-stop"):
    key = look()
    if key not in seen:
        seen[key] = True
        with open("/tmp/poll-seen", "a") as out: out.write(repr(key) + "\n")
    time.sleep(0.01)
"""


def variables(runfile: Runfile, **other: object) -> list[str]:
    values = {"cuda_url": runfile.url, "cuda_sha256": runfile.sha256, "cuda_size": runfile.size, **other}
    return [word for name, value in values.items() for word in ("-e", f"{name}={value}")]


def start_poller(host: Host) -> None:
    host.exec("cat >/tmp/poll.py; rm -f /tmp/poll-stop /tmp/poll-seen", stdin=POLLER)
    host.exec("nohup python3 /tmp/poll.py >/tmp/poll-log 2>&1 & sleep 0.3; test -s /tmp/poll-seen")


def polled(host: Host) -> list[tuple[Any, ...]]:
    host.exec("touch /tmp/poll-stop; sleep 0.1")
    import ast

    seen = [ast.literal_eval(line) for line in host.exec("cat /tmp/poll-seen").stdout.splitlines()]
    assert host.exec("cat /tmp/poll-log").stdout == "", "the poller itself failed"
    host.exec("rm -f /tmp/poll*")
    return seen


@dataclass
class Story:
    hosts: tuple[Host, Host]
    command: Command
    words: list[str]
    plan: Result
    first: Result
    second: Result
    before: Mapping[str, Snapshot]
    planned: Mapping[str, Snapshot]
    after: Mapping[str, Snapshot]
    again: Mapping[str, Snapshot]
    audit: Mapping[str, str]
    polled: Mapping[str, list[tuple[Any, ...]]]
    probers: Mapping[str, Prober]


@pytest.fixture(scope="module")
def story(lab: Lab, small_runfile: SmallRunfile, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    runfile = small_runfile("11.7.1")
    hosts = (lab.start("a"), lab.start("b"))
    try:
        command = Command(write_inventory(tmp_path_factory.mktemp("cuda") / "hosts.yaml", hosts_of(*hosts)))
        words = ["apply", PLAYBOOK, *variables(runfile)]
        audit = {h.name: h.exec(AUDIT, check=False).stdout for h in hosts}
        before = {h.name: snapshot(h) for h in hosts}
        plan = command("plan", *words[1:])
        planned = {h.name: snapshot(h, content=False) for h in hosts}
        for host in hosts:
            start_poller(host)
        probers = {h.name: Prober(h) for h in hosts}
        for prober in probers.values():
            prober.__enter__()
        first = command(*words)
        seen = {h.name: polled(h) for h in hosts}
        after = {h.name: snapshot(h) for h in hosts}
        second = command(*words)
        again = {h.name: snapshot(h, content=False) for h in hosts}
        for prober in probers.values():
            prober.__exit__()
        yield Story(hosts, command, words, plan, first, second, before, planned, after, again, audit, seen, probers)
    finally:
        for host in hosts:
            lab.remove(host)


def test_plan_touches_nothing(story: Story) -> None:
    assert story.plan.code == 0, story.plan.out + story.plan.err
    for host in story.hosts:
        assert not written(story.before[host.name], story.planned[host.name])
        (line,) = story.plan.of("plan-line", host=host.name, id="cuda-toolkit:11.7")
        assert line["verdict"] in ("change", "recheck") and line["action"] == "create"


def test_the_toolkit_is_there_says_an_independent_reader(story: Story) -> None:
    assert story.first.code == 0, story.first.out
    for host in story.hosts:
        there = host.testinfra()
        assert "release 11.7" in there.check_output(f"{TOOLKIT}/bin/nvcc --version")
        assert there.file(TOOLKIT).user == "root" and there.file(TOOLKIT).mode & 0o022 == 0
        manifest = json.loads(there.file(f"{TOOLKIT}/manifest.json").content_string)
        assert manifest["id"] == "cuda-toolkit:11.7"
        # the staging folder is named nowhere in the files that carry their prefix
        assert host.exec(f"grep -rIl gpuprov-cuda {TOOLKIT} --exclude=manifest*", check=False).stdout == ""
        assert host.exec(f"grep -rIl {TOOLKIT} {TOOLKIT} --include=*.pc").stdout != ""
        assert host.exec(f"find {TOOLKIT} ! -user root -o -perm /022 ! -type l").stdout == ""


def test_nothing_of_the_other_cuda_moved_not_even_for_a_moment(story: Story) -> None:
    for host in story.hosts:
        states = story.polled[host.name]
        assert [state[3] for state in states] == ["absent", "whole"], "a half-made tree was seen"
        assert len({state[:3] for state in states}) == 1, "a link or ld.so.conf.d was changed, if only for a moment"
        assert host.exec(AUDIT, check=False).stdout == story.audit[host.name]


def test_only_what_was_planned_was_written(story: Story) -> None:
    for host in story.hosts:
        change = diff(story.before[host.name], story.after[host.name])
        touched = {*change.added, *change.changed}
        assert not change.removed
        assert {p for p in touched if not OURS.fullmatch(p) and not LIBXML2.fullmatch(p)} == set()


def test_again_nothing_changes(story: Story) -> None:
    assert story.second.code == 0
    for host in story.hosts:
        assert story.second.changed(host.name) == set()
        assert story.second.ended(host.name)["exchanges"] == 2
        assert not written(story.after[host.name], story.again[host.name]).outside("/var/lib/gpuprov")


def test_jupyter_tensorboard_and_protobuf_never_noticed(story: Story) -> None:
    for host in story.hosts:
        story.probers[host.name].assert_green()
        assert deep_faults(host) == {}


def test_switching_works_in_shells_and_elsewhere(story: Story) -> None:
    for host in story.hosts:
        for shell in ("bash -lc", "zsh -lc", "dash -lc", "bash -ic", "zsh -ic"):
            script = 'eval "$(cuda-env 11.7)"; echo home=$CUDA_HOME; command -v nvcc'
            said = host.ssh(f"{shell} '{script}'").stdout
            assert f"home={TOOLKIT}" in said and f"{TOOLKIT}/bin/nvcc" in said, (shell, said)
        for shell in ("bash -ic", "zsh -ic"):
            script = 'b=$PATH; cuda-use 11.7; nvcc --version; cuda-use none; [ "$b" = "$PATH" ] && echo same'
            said = host.ssh(f"{shell} '{script}'").stdout
            assert "release 11.7" in said and "same" in said, (shell, said)
        assert "release 11.7" in host.ssh("cuda-run 11.7 -- nvcc --version").stdout
        assert "11.7" in host.ssh("cuda-list").stdout and "12.1" in host.ssh("cuda-list").stdout


UNDONE = {
    "a file deleted": f"rm {TOOLKIT}/version.json",
    "a file truncated": f": >{TOOLKIT}/bin/nvcc",
    "a file edited, its time put back": (
        f"cd {TOOLKIT} && f=$(find -L include -type f | head -n 1) && touch -r $f /tmp/t && echo '// x' >>$f "
        "&& touch -r /tmp/t $f && rm /tmp/t"
    ),
    "the compiler and a header deleted": (
        f'cd {TOOLKIT} && rm "$(find -L include -type f | sort | tail -n 1)" bin/nvcc'
    ),
}


@pytest.mark.parametrize("case", UNDONE)
def test_what_is_broken_by_hand_is_all_that_the_next_apply_changes(story: Story, case: str) -> None:
    for host in story.hosts:
        assert host.exec(UNDONE[case], check=False).returncode == 0
    result = story.command(*story.words)
    assert result.code == 0, result.out
    for host in story.hosts:
        assert result.changed(host.name) == {"cuda-toolkit:11.7"}
        assert "release 11.7" in host.testinfra().check_output(f"{TOOLKIT}/bin/nvcc --version")
        assert host.exec("ls -A /usr/local | grep gpuprov || true").stdout == ""
        assert host.exec(AUDIT, check=False).stdout == story.audit[host.name]


@pytest.fixture
def host(fresh_host: StartHost) -> Host:
    return fresh_host("b", services=False)


@pytest.fixture
def command(host: Host, tmp_path: Path) -> Command:
    return Command(write_inventory(tmp_path / "hosts.yaml", hosts_of(host)))


def assert_nothing_half_made(host: Host) -> None:
    assert not host.testinfra().file(TOOLKIT).exists
    assert host.exec("ls -A /usr/local | grep -e cuda-11 -e gpuprov-cuda || true").stdout == ""


FAULTS: dict[str, tuple[dict[str, Any], str]] = {
    "an HTML page instead": ({"html": True}, "HTML"),
    "wrong bytes of the right size": ({"corrupt": True}, "sha256"),
    "not found": ({"status": 404}, "404"),
    "truncated": ({"ends_at": 1_000_000}, "bytes"),
}


@pytest.mark.parametrize("case", FAULTS)
def test_a_bad_download_is_named_and_leaves_nothing(
    case: str, host: Host, command: Command, small_runfile: SmallRunfile, cuda_site: DownloadSite
) -> None:
    fault, says = FAULTS[case]
    runfile = small_runfile("11.7.1")
    with cuda_site.fault(runfile, **fault):
        result = command("apply", PLAYBOOK, *variables(runfile))
    assert result.code == 1
    (ended,) = result.of("node-ended", host=host.name, id="cuda-toolkit:11.7")
    text = f"{ended['error']['message']} {ended['error']['output']} {ended['error']['hint']}"
    assert says in text, text
    assert_nothing_half_made(host)
    assert result.outcomes(host.name)["file:/usr/local/bin/cuda-env"] == "changed", "the rest did not go on"
    assert command("apply", PLAYBOOK, *variables(runfile)).changed(host.name) == {"cuda-toolkit:11.7"}


def test_a_dropped_download_is_resumed(
    host: Host, command: Command, small_runfile: SmallRunfile, cuda_site: DownloadSite
) -> None:
    runfile = small_runfile("11.7.1")
    cuda_site.forget()
    with cuda_site.fault(runfile, drop_every=3_000_000):
        result = command("apply", PLAYBOOK, *variables(runfile))
    assert result.code == 0, result.out
    assert cuda_site.bytes_sent(runfile) < 1.5 * runfile.size


def test_the_wrong_digest_in_the_inventory_is_refused(
    host: Host, command: Command, small_runfile: SmallRunfile
) -> None:
    runfile = small_runfile("11.7.1")
    result = command("apply", PLAYBOOK, *variables(runfile, cuda_sha256="0" * 64))
    assert result.code == 1
    (ended,) = result.of("node-ended", host=host.name, id="cuda-toolkit:11.7")
    assert runfile.sha256 in str(ended["error"]), "the digest that was found is not told"
    assert_nothing_half_made(host)


def test_a_host_killed_in_the_middle_of_installing_starts_clean(
    host: Host, command: Command, small_runfile: SmallRunfile
) -> None:
    runfile = small_runfile("11.7.1", pause=6)
    running = command.until(
        lambda e: e["event"] == "node-output" and "nstall" in e["line"] and e["id"] == "cuda-toolkit:11.7",
        "apply", PLAYBOOK, *variables(runfile),
    )  # fmt: skip
    host.kill()
    running.kill()
    host.start()
    assert not host.testinfra().file(TOOLKIT).exists
    result = command("apply", PLAYBOOK, *variables(runfile))
    assert result.code == 0, result.out
    assert "release 11.7" in host.testinfra().check_output(f"{TOOLKIT}/bin/nvcc --version")
    assert host.exec("ls -A /usr/local | grep gpuprov || true").stdout == ""


def test_a_driver_that_is_too_old_is_told_and_what_would_do(
    host: Host, command: Command, small_runfile: SmallRunfile
) -> None:
    host.set_gpu(DRIVER="440.33.01", CUDA="10.2")
    host.mount_driver_proc()
    result = command("plan", PLAYBOOK, *variables(small_runfile("11.7.1")))
    assert result.code == 1
    (line,) = result.of("plan-line", host=host.name, role="driver")
    assert line["verdict"] == "blocked" and "440.33.01" in line["why"] and "450.80.02" in line["why"]


def test_an_instance_without_its_card_is_set_up_all_the_same(
    host: Host, small_runfile: SmallRunfile, tmp_path: Path
) -> None:
    host.set_gpu(MODE="no-gpu-boot")
    entry = {**hosts_of(host)[host.name], "gpu": "RTX 4070"}
    command = Command(write_inventory(tmp_path / "hosts.yaml", {host.name: entry}))
    result = command("apply", PLAYBOOK, *variables(small_runfile("11.7.1")))
    assert result.code == 0, result.out
    assert "release 11.7" in host.testinfra().check_output(f"{TOOLKIT}/bin/nvcc --version")
