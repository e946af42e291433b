"""From inventory to line."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuprov.errors import InputError, Position
from gpuprov.inventory import Host, Inventory, PasswordSource
from gpuprov.secret import Secret
from gpuprov.transport.connect import connection_for
from gpuprov.transport.local import LocalConnection
from gpuprov.transport.ssh import SshConnection
from gpuprov.transport.target import SshTarget, jump_targets

HERE = Position("hosts.yaml", 1, 1)


def inventory(*hosts: Host) -> Inventory:
    return Inventory(hosts={host.name: host for host in hosts}, groups={})


def host(name: str, **fields: object) -> Host:
    return Host(name=name, position=HERE, **{"address": name, **fields})  # type: ignore[arg-type]


def test_everything_the_inventory_says_arrives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PASSWORD", "secret")
    box = host(
        "box",
        address="10.0.0.5",
        port=2222,
        user="ubuntu",
        key=Path("~/id"),
        jump="gate",
        become="never",
        known_hosts=Path("kh"),
        host_key="SHA256:x",
        password=PasswordSource(env="PASSWORD", position=HERE),
    )
    gate = host("gate", port=22, user="me")
    connection = connection_for(box, inventory(box, gate), accept_new=True, timeout=7.0, reconnect_for=9.0)
    assert isinstance(connection, SshConnection) and connection.host == "box"
    target = connection.target
    assert (target.address, target.port, target.user, target.keys) == ("10.0.0.5", 2222, "ubuntu", (Path("~/id"),))
    assert (target.known_hosts, target.host_key, target.become) == ((Path("kh"),), "SHA256:x", "never")
    assert (target.accept_new, target.connect_timeout) == (True, 7.0)
    assert callable(target.password) and target.password() == Secret("secret")
    assert isinstance(target.jump, SshTarget) and (target.jump.address, target.jump.user) == ("gate", "me")
    assert target.jump.accept_new


def test_the_ssh_config_decides_what_the_inventory_leaves_open() -> None:
    connection = connection_for(host("box"), inventory())
    assert isinstance(connection, SshConnection)
    target = connection.target
    assert (target.port, target.user, target.keys, target.known_hosts, target.jump) == (None, None, (), (), None)
    assert target.config is None


def test_jump_words_go_through() -> None:
    connection = connection_for(host("box", jump="me@gate:2200"), inventory())
    assert isinstance(connection, SshConnection) and connection.target.jump == "me@gate:2200"


def test_local_is_local() -> None:
    assert isinstance(connection_for(host("here", connection="local"), inventory()), LocalConnection)


def test_circles_and_local_jump_hosts_are_refused() -> None:
    one, two = host("one", jump="two"), host("two", jump="one")
    with pytest.raises(InputError, match="one -> two -> one"):
        connection_for(one, inventory(one, two))
    here, box = host("here", connection="local"), host("box", jump="here")
    with pytest.raises(InputError, match="this machine"):
        connection_for(box, inventory(here, box))


@pytest.mark.parametrize(
    ("words", "hops"),
    [
        ("gate", [(None, "gate", None)]),
        ("me@gate:22", [("me", "gate", 22)]),
        ("a, b@c:1", [("b", "c", 1), (None, "a", None)]),
        ("[::1]:2222", [(None, "::1", 2222)]),
        ("ssh://x@y:3", [("x", "y", 3)]),
        ("none", []),
    ],
)
def test_jump_words(words: str, hops: list[tuple[str | None, str, int | None]]) -> None:
    found, target = [], jump_targets(words, like=SshTarget(name="box", address="box"))
    while target is not None:
        found.append((target.user, target.address, target.port))
        assert target.jump is None or isinstance(target.jump, SshTarget)
        target = target.jump
    assert found == hops
