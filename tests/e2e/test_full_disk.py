"""A full disk is called a full disk, whatever it was that met it."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.command import Command, hosts_of, playbook, write_inventory
from tests.lab.faults import fill_disk
from tests.lab.fixtures import StartHost

ROLE = '''
from gpuprov.facts import Facts
from gpuprov.resources import Command, CondaEnv, File, PipPackage
from gpuprov.role import role

@role
def writer(host: Facts):
    """Write in every way."""
    yield File(path="/data/file", content="x" * 9000)
    yield File(path="/data/large", content="x" * 3_000_000)
    yield Command(name="short", look="echo no", want="yes", script="head -c 9000 /dev/zero >/data/short")
    yield Command(name="long", look="echo no", want="yes", script="head -c 9000 /dev/zero >/data/long", long=True)
    yield CondaEnv(path="/data/envs/work", python="3.10", tool="/bin/conda-of-nowhere", cache="/data/cache")
'''

CONDA = "printf '#!/bin/sh\\necho conda 24.1\\n' >/bin/conda-of-nowhere; chmod 755 /bin/conda-of-nowhere"


def test_whatever_is_written_names_the_full_disk(fresh_host: StartHost, tmp_path: Path) -> None:
    host = fresh_host("b", tmpfs={"/data": "1m"}, services=False)
    host.exec(CONDA)
    fill_disk(host, "/data")
    path = playbook(tmp_path, {"hosts": "all", "roles": ["writer"]}, roles={"writer": ROLE})
    result = Command(write_inventory(tmp_path / "hosts.yaml", hosts_of(host)))("apply", str(path))
    assert result.code == 1
    errors = {event["id"]: event["error"] for event in result.of("node-ended")}
    assert set(errors) == {
        "file:/data/file",
        "file:/data/large",
        "command:short",
        "command:long",
        "conda-env:/data/envs/work",
    }
    for id_, error in errors.items():
        assert "disk is full" in error["message"], (id_, error)
        assert "df -h" in error["hint"], (id_, error)


def test_a_job_whose_own_folder_is_full_ends_and_does_not_die(fresh_host: StartHost, tmp_path: Path) -> None:
    host = fresh_host("b", tmpfs={"/data": "1m"}, services=False)
    script = "dd if=/dev/zero of=/data/fill bs=4096 2>/dev/null || :; exit 3"
    role = f'''
from gpuprov.facts import Facts
from gpuprov.resources import Command
from gpuprov.role import role

@role
def filler(host: Facts):
    """Fill the disk that the state is on."""
    yield Command(name="long", look="echo no", want="yes", script={script!r}, long=True)
'''
    path = playbook(tmp_path, {"hosts": "all", "roles": ["filler"]}, roles={"filler": role})
    entry = {**hosts_of(host)[host.name], "paths": {"state": "/data/state"}}
    result = Command(write_inventory(tmp_path / "hosts.yaml", {host.name: entry}))("apply", str(path))
    (error,) = [event["error"] for event in result.of("node-ended")]
    assert "ended with status 3, and said nothing" in error["message"], error
    assert "full disk" in error["hint"]


def test_a_journal_that_cannot_be_written_stops_what_would_follow(fresh_host: StartHost, tmp_path: Path) -> None:
    host = fresh_host("b", tmpfs={"/data": "1m"}, services=False)
    role = '''
from gpuprov.facts import Facts
from gpuprov.resources import Command, File
from gpuprov.role import role

@role
def filler(host: Facts):
    """Fill the disk that the state is on, and then write elsewhere."""
    fill = "dd if=/dev/zero of=/data/fill bs=512 2>/dev/null || :"
    filled = Command(name="fill", look="[ -f /data/fill ] && echo yes || echo no", want="yes", script=fill)
    yield filled
    yield File(path="/srv/late", content="x", after=(filled,))
'''
    path = playbook(tmp_path, {"hosts": "all", "roles": ["filler"]}, roles={"filler": role})
    entry = {**hosts_of(host)[host.name], "paths": {"state": "/data/state"}}
    result = Command(write_inventory(tmp_path / "hosts.yaml", {host.name: entry}))("apply", str(path))
    errors = {event["id"]: event["error"] for event in result.of("node-ended") if event["error"]}
    # The end of the change could not be noted: it does not count as made, and nothing goes on from it
    assert "disk is full" in errors["command:fill"]["message"], errors
    assert result.outcomes(host.name)["file:/srv/late"] == "skipped"
    assert not host.testinfra().file("/srv/late").exists
