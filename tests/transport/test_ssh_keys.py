"""Host keys and authentication against a server of our own: told apart, never accepted by mistake."""

from __future__ import annotations

import asyncio
import dataclasses
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path

import asyncssh
import pytest

from gpuprov.errors import AuthenticationFailed, HostKeyRefused, InputError, Position, Unreachable
from gpuprov.secret import Secret
from gpuprov.transport.hostkeys import append
from gpuprov.transport.ssh import SshConnection, SshTarget
from tests.transport.server import Behaviour, Guest, new_guest, serving


@pytest.fixture
def guest(tmp_path: Path) -> Guest:
    return new_guest(tmp_path)


async def opens(target: SshTarget) -> SshConnection:
    connection = SshConnection(target, reconnect_for=0.0)
    try:
        await connection.open()
    finally:
        await connection.close()
    return connection


async def test_an_unknown_key_is_refused_with_its_fingerprint(guest: Guest) -> None:
    async with serving(Behaviour(keys=(guest.key,))) as place:
        with pytest.raises(HostKeyRefused) as caught:
            await opens(guest.target(place.port))
        assert place.host_key.get_fingerprint() in caught.value.message
        assert f"[127.0.0.1]:{place.port}" in caught.value.message
        assert "--accept-new" in caught.value.hint
        assert caught.value.phase == "key-exchange"
        assert not guest.known_hosts.exists()
        assert place.behaviour.log == [], "nothing was offered to a stranger"


async def test_accept_new_writes_it_down_once(guest: Guest) -> None:
    async with serving(Behaviour(keys=(guest.key,))) as place:
        await opens(guest.target(place.port, accept_new=True))
        await opens(guest.target(place.port, accept_new=True))
        await opens(guest.target(place.port))
        written = guest.known_hosts.read_text().splitlines()
        assert len(written) == 1 and written[0].startswith(f"[127.0.0.1]:{place.port} ssh-ed25519 ")
        assert guest.known_hosts.stat().st_mode & 0o777 == 0o600


async def test_a_new_key_that_cannot_be_written_down_is_refused_before_anything_is_offered(guest: Guest) -> None:
    async with serving(Behaviour(keys=(guest.key,))) as place:
        guest.known_hosts.mkdir()
        with pytest.raises(HostKeyRefused, match="cannot be written"):
            await opens(guest.target(place.port, accept_new=True))
        assert place.behaviour.log == []


@pytest.mark.parametrize("accept_new", [False, True])
@pytest.mark.parametrize("old", ["ssh-ed25519", "ecdsa-sha2-nistp256"])
async def test_a_changed_key_is_never_accepted(guest: Guest, accept_new: bool, old: str) -> None:
    former = asyncssh.generate_private_key(old)
    async with serving(Behaviour(keys=(guest.key,))) as place:
        guest.knows(place, former)
        before = guest.known_hosts.read_text()
        with pytest.raises(HostKeyRefused) as caught:
            await opens(guest.target(place.port, accept_new=accept_new))
        assert former.get_fingerprint() in caught.value.message
        assert place.host_key.get_fingerprint() in caught.value.message
        assert f"-R '[127.0.0.1]:{place.port}'" in caught.value.hint
        assert guest.known_hosts.read_text() == before


async def test_a_key_of_another_port_says_nothing_against_this_one(guest: Guest) -> None:
    other = asyncssh.generate_private_key("ssh-ed25519")
    async with serving(Behaviour(keys=(guest.key,))) as place:
        guest.known_hosts.write_text(f"127.0.0.1 {other.export_public_key().decode()}")
        with pytest.raises(HostKeyRefused, match="not known"):
            await opens(guest.target(place.port))
        await opens(guest.target(place.port, accept_new=True))
        guest.known_hosts.write_text(f"127.0.0.1 {place.host_key.export_public_key().decode()}")
        await opens(guest.target(place.port))


async def test_a_revoked_key_is_refused(guest: Guest) -> None:
    async with serving(Behaviour(keys=(guest.key,))) as place:
        guest.knows(place)
        with guest.known_hosts.open("a") as file:
            file.write(f"@revoked * {place.host_key.export_public_key().decode()}")
        with pytest.raises(HostKeyRefused):
            await opens(guest.target(place.port, accept_new=True))


async def test_a_pin_counts_alone(guest: Guest) -> None:
    async with serving(Behaviour(keys=(guest.key,))) as place:
        guest.knows(place, asyncssh.generate_private_key("ssh-ed25519"))
        await opens(guest.target(place.port, host_key=place.host_key.get_fingerprint()))
        guest.known_hosts.unlink()
        guest.knows(place)
        with pytest.raises(HostKeyRefused, match="pinned") as caught:
            await opens(guest.target(place.port, host_key="SHA256:" + "A" * 43, accept_new=True))
        assert place.host_key.get_fingerprint() in caught.value.message


async def test_broken_lines_of_a_known_hosts_file_hide_nothing(guest: Guest) -> None:
    async with serving(Behaviour(keys=(guest.key,))) as place:
        guest.known_hosts.write_bytes(b"\xff\xfe\nbroken\n@what a b c\n\n# x\n|1|zz|zz ssh-rsa AAAA\n")
        guest.knows(place)
        await opens(guest.target(place.port))


def _append(folder: str, number: int) -> None:
    for line in range(20):
        append(Path(folder) / "known_hosts", f"[host{number}]:{line} ssh-ed25519 AAAA\n")


def test_appends_of_many_processes_do_not_mix(tmp_path: Path) -> None:
    (tmp_path / "known_hosts").write_text("[mine]:1 ssh-ed25519 AAAA")
    with get_context("spawn").Pool(2) as pool:
        pool.starmap(_append, [(str(tmp_path), number % 3) for number in range(6)])
    lines = (tmp_path / "known_hosts").read_text().splitlines()
    assert lines[0] == "[mine]:1 ssh-ed25519 AAAA"
    assert len(lines) == len(set(lines)) == 61


async def test_a_refused_key_says_who_was_refused_and_shows_the_banner(guest: Guest, tmp_path: Path) -> None:
    async with serving(Behaviour(banner="Welcome to the gateway. If authentication fails, wait.\n")) as place:
        guest.knows(place)
        with pytest.raises(AuthenticationFailed) as caught:
            await opens(guest.target(place.port, user="root"))
        assert "root" in caught.value.message and "gateway" in caught.value.output
        assert caught.value.phase == "authentication"
        assert place.behaviour.log == ["publickey"], "one key was given, one was offered"
        assert f"tried: the keys {tmp_path / 'id'} (SHA256:" in caught.value.message


async def test_keys_of_the_agent_that_were_refused_are_named(
    guest: Guest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    with agent(tmp_path / "agent", monkeypatch):
        key = asyncssh.generate_private_key("ssh-ed25519", comment="of the agent")
        key.write_private_key(str(tmp_path / "held"))
        (tmp_path / "held").chmod(0o600)
        add_to_agent(tmp_path / "held")
        async with serving(Behaviour()) as place:
            guest.knows(place)
            with pytest.raises(AuthenticationFailed) as caught:
                await opens(guest.target(place.port, keys=False))
    assert f"the agent's of the agent ({key.get_fingerprint()})" in caught.value.message


async def test_a_password_logs_in_and_is_read_when_needed(guest: Guest) -> None:
    asked = []

    def password() -> Secret:
        asked.append(1)
        return Secret("pass wörd")

    async with serving(Behaviour(password="pass wörd")) as place:
        guest.knows(place)
        target = guest.target(place.port, keys=False, password=password)
        assert not asked
        assert (await opens(target)).privilege == "root"
        assert asked
        with pytest.raises(AuthenticationFailed) as caught:
            await opens(guest.target(place.port, keys=False, password=Secret("wrong")))
        assert "wrong" not in str(caught.value)


async def test_a_missing_or_broken_key_file_is_the_users_to_mend(guest: Guest, tmp_path: Path) -> None:
    target = guest.target(1)
    (tmp_path / "id").write_text("nonsense")
    with pytest.raises(InputError, match="id"):
        await opens(target)
    (tmp_path / "id").unlink()
    with pytest.raises(InputError, match="no key file"):
        await opens(target)


NO_KEYS = {
    "public": (b"", "holds the public key", "without .pub"),
    "empty": (b"\n", "is empty", "copy the private key"),
    "PuTTY's": (b"PuTTY-User-Key-File-3: ssh-ed25519\n", "is PuTTY's", "puttygen"),
    "nonsense": (b"nonsense", "holds no private key", "ssh-keygen -y"),
}


@pytest.mark.parametrize("case", NO_KEYS)
async def test_a_file_that_is_no_key_says_what_it_is_and_where_it_is_named(
    case: str, guest: Guest, tmp_path: Path
) -> None:
    content, message, hint = NO_KEYS[case]
    (tmp_path / "id").write_bytes(content or guest.key.export_public_key())
    target = dataclasses.replace(guest.target(1), written={"key": Position("hosts.yaml", 3, 8)})
    with pytest.raises(InputError) as caught:
        await opens(target)
    (problem,) = caught.value.problems
    assert str(problem.position) == "hosts.yaml:3:8" and str(tmp_path / "id") in problem.message
    assert message in problem.message and hint in problem.hint


@pytest.mark.parametrize("form", ["openssh", "pkcs1-pem", "pkcs8-pem"])
async def test_an_encrypted_key_without_an_agent_is_an_authentication_matter(
    form: str, guest: Guest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    if form != "openssh":
        rsa(tmp_path / "id")
    encrypt(tmp_path / "id", form)
    async with serving(Behaviour(keys=(guest.key,))) as place:
        guest.knows(place)
        target = dataclasses.replace(guest.target(place.port), written={"key": Position("hosts.yaml", 3, 8)})
        with pytest.raises(AuthenticationFailed) as caught:
            await opens(target)
    assert f"{tmp_path / 'id'} needs a passphrase" in caught.value.message
    assert caught.value.hint == f"give it to the agent: ssh-add {tmp_path / 'id'} (key at hosts.yaml:3:8)"


async def test_an_encrypted_key_comes_from_the_agent_and_alone(
    guest: Guest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with agent(tmp_path / "agent", monkeypatch):
        for name in ("other1", "other2", "id"):
            if name != "id":
                asyncssh.generate_private_key("ssh-ed25519").write_private_key(str(tmp_path / name))
                (tmp_path / name).chmod(0o600)
            add_to_agent(tmp_path / name)
        encrypt(tmp_path / "id")
        async with serving(Behaviour(keys=(guest.key,))) as place:
            guest.knows(place)
            await opens(guest.target(place.port))
            assert place.behaviour.log.count("publickey") <= 2, "asked once, signed once"
            # Without a key of its own, whatever the agent holds is offered, as ssh does.
            await opens(guest.target(place.port, keys=False))


@pytest.mark.parametrize("beside", [True, False])
async def test_an_encrypted_key_in_pem_comes_from_the_agent(
    beside: bool, guest: Guest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = rsa(tmp_path / "id")
    with agent(tmp_path / "agent", monkeypatch):
        asyncssh.generate_private_key("ssh-ed25519").write_private_key(str(tmp_path / "other"))
        (tmp_path / "other").chmod(0o600)
        for name in ("other", "id"):
            add_to_agent(tmp_path / name)
        encrypt(tmp_path / "id", "pkcs1-pem")
        if beside:
            old.write_public_key(str(tmp_path / "id.pub"))
        async with serving(Behaviour(keys=(old,))) as place:
            guest.knows(place)
            await opens(guest.target(place.port))
            assert place.behaviour.log.count("publickey") <= (2 if beside else 3)


async def test_a_folder_is_no_key_file(guest: Guest, tmp_path: Path) -> None:
    (tmp_path / "id").unlink()
    (tmp_path / "id").mkdir()
    with pytest.raises(InputError, match="/id' is a folder, not a file"):
        await opens(guest.target(1))


def rsa(file: Path) -> asyncssh.SSHKey:
    """Write a key of the kind that old forms know too."""
    key = asyncssh.generate_private_key("ssh-rsa", key_size=2048)
    key.write_private_key(str(file))
    file.chmod(0o600)
    return key


def encrypt(key: Path, form: str = "openssh") -> None:
    if form == "openssh":
        subprocess.run(["ssh-keygen", "-q", "-p", "-N", "pass", "-f", str(key)], check=True, timeout=10)
    else:
        asyncssh.read_private_key(str(key)).write_private_key(str(key), form, passphrase="pass")


def add_to_agent(key: Path) -> None:
    subprocess.run(["ssh-add", "-q", str(key)], check=True, timeout=10)


@contextmanager
def agent(socket: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    process = subprocess.Popen(["ssh-agent", "-D", "-a", str(socket)], stdout=subprocess.DEVNULL)
    try:
        until = time.monotonic() + 5
        while not socket.exists() and time.monotonic() < until:
            time.sleep(0.02)
        monkeypatch.setenv("SSH_AUTH_SOCK", str(socket))
        yield
    finally:
        process.kill()
        process.wait()


async def test_the_ssh_config_is_honoured(guest: Guest, tmp_path: Path) -> None:
    async with serving(Behaviour(keys=(guest.key,))) as place:
        guest.knows(place)
        config = tmp_path / "config"
        config.write_text(
            f"Host box\n HostName 127.0.0.1\n Port {place.port}\n User someone\n IdentityFile {tmp_path}/missing\n"
            f" IdentityFile {tmp_path}/id\n UserKnownHostsFile {guest.known_hosts}\n StrictHostKeyChecking no\n"
        )
        await opens(SshTarget(name="gpu1", address="box", config=(config,)))
        guest.known_hosts.unlink()
        with pytest.raises(HostKeyRefused):
            await opens(SshTarget(name="gpu1", address="box", config=(config,)))


async def test_a_proxy_command_of_the_config_is_used(guest: Guest, tmp_path: Path) -> None:
    async with serving(Behaviour(keys=(guest.key,))) as place:
        guest.knows(place)
        (tmp_path / "through").write_text(
            f'#!/bin/bash\nexec 3<>"/dev/tcp/127.0.0.1/$1"; touch {tmp_path}/used\ncat <&3 & exec cat >&3\n'
        )
        (tmp_path / "through").chmod(0o755)
        config = tmp_path / "config"
        config.write_text(
            f"Host 127.0.0.1\n ProxyCommand {tmp_path}/through %p\n IdentityFile {tmp_path}/id\n"
            f" UserKnownHostsFile {guest.known_hosts}\n"
        )
        await opens(SshTarget(name="gpu1", address="127.0.0.1", port=place.port, config=(config,)))
        assert (tmp_path / "used").exists()


async def test_jump_hosts_are_checked_like_any_other(guest: Guest, tmp_path: Path) -> None:
    async with serving(Behaviour(keys=(guest.key,))) as far, serving(Behaviour(keys=(guest.key,))) as near:
        guest.knows(far)
        jump = guest.target(near.port)
        with pytest.raises(HostKeyRefused, match="jump host") as caught:
            await opens(guest.target(far.port, jump=jump))
        assert near.host_key.get_fingerprint() in caught.value.message


@pytest.mark.parametrize("words", ["", "a b:c", "x@y:port", "a,,b", ":22"])
async def test_odd_jump_words_are_the_users_to_mend(guest: Guest, words: str) -> None:
    target = guest.target(1, jump=words or " ")
    with pytest.raises((InputError, Unreachable)):
        async with asyncio.timeout(10):
            await opens(target)
