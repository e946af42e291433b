"""What is said of key files: why one is none, and which keys a server took none of."""

from __future__ import annotations

import asyncio
import base64
import hashlib
from collections.abc import Sequence
from pathlib import Path

import asyncssh

_AGENT = 3.0
"""Seconds for the agent to list its keys, when that is only asked for an error's sake."""
_SHOWN = 6


def is_encrypted(error: asyncssh.KeyImportError) -> bool:
    """Say whether a private key could not be read for want of its passphrase."""
    return "passphrase" in str(error).lower() or "encrypt" in str(error).lower()


def why_no_key(file: Path) -> tuple[str, str]:
    """Return why a file cannot be used as a private key, and what to do."""
    try:
        head = file.read_bytes()[:4096]
    except OSError as error:
        return f"the key file {file} cannot be read: {error.strerror}", ""
    if not head.strip():
        return f"the key file {file} is empty", "copy the private key into it again"
    if head.startswith(b"PuTTY-User-Key-File"):
        return f"the key file {file} is PuTTY's", f"convert it: puttygen {file} -O private-openssh -o {file}.openssh"
    try:
        public = asyncssh.import_public_key(head)
    except (asyncssh.KeyImportError, ValueError):
        public = None
    if public is not None and b"PRIVATE" not in head:
        private = file.with_suffix("") if file.suffix == ".pub" else None
        hint = f"name the private one: {private}" if private else "name the file of the private key, without .pub"
        return f"the key file {file} holds the public key", hint
    return f"the key file {file} holds no private key that can be read", f"see what it is: ssh-keygen -y -f {file}"


def public_key(file: Path) -> asyncssh.SSHKey | None:
    """Return the public key of a private key file, with a passphrase or without; None when it cannot be told."""
    for one in (file, Path(f"{file}.pub")):
        try:
            return asyncssh.read_public_key(str(one))
        except (asyncssh.KeyImportError, OSError, ValueError):
            continue
    return None


def fingerprint(file: Path) -> str:
    """Return the fingerprint of a private key file, with a passphrase or without; empty when it cannot be told."""
    key = public_key(file)
    return key.get_fingerprint() if key is not None else ""


async def tried(files: Sequence[Path], *, agent: bool) -> tuple[str, list[Path]]:
    """Return in words the keys that were offered, and the files that were not, for want of their passphrase.

    Args:
        files: private key files that could be offered.
        agent: the agent's other keys are offered too.
    """
    held = await _agent_keys()
    words, locked = [], []
    for file in files:
        digest = await asyncio.to_thread(fingerprint, file)
        encrypted = await asyncio.to_thread(_needs_passphrase, file)
        if encrypted and digest not in held:
            locked.append(file)
            continue
        words.append(f"{file} ({digest or 'of an unknown fingerprint'}{', from the agent' if encrypted else ''})")
        held.pop(digest, None)
    if agent:
        words += [f"the agent's {comment or 'key'} ({digest})" for digest, comment in held.items()]
    more = len(words) - _SHOWN
    return ", ".join(words[:_SHOWN]) + (f" and {more} more" if more > 0 else ""), locked


def _needs_passphrase(file: Path) -> bool:
    try:
        asyncssh.read_private_key(str(file))
    except asyncssh.KeyImportError as error:
        return is_encrypted(error)
    except (OSError, ValueError):
        return False
    return False


async def _agent_keys() -> dict[str, str]:
    """Return fingerprint and comment of what the agent holds; nothing when there is none, or it does not answer."""
    try:
        async with asyncio.timeout(_AGENT):
            async with asyncssh.connect_agent() as agent:
                keys = await agent.get_keys()
    except (OSError, ValueError, asyncssh.Error, TimeoutError):
        return {}
    return {_digest(key.public_data): (key.get_comment_bytes() or b"").decode(errors="replace") for key in keys}


def _digest(public_data: bytes) -> str:
    return "SHA256:" + base64.b64encode(hashlib.sha256(public_data).digest()).decode().rstrip("=")
