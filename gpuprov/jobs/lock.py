"""The host lock: one controller at a time may change a host.

The kernel holds it: an ``flock`` on descriptor 8 of the connection's persistent shell, gone the moment that shell is.
Nothing expires by a clock. An owner that has been silent for too long by the host's own uptime is fenced: every
process of its session is ended first, then the lock is free by itself.
"""

from __future__ import annotations

import getpass
import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass

from gpuprov.jobs.slot import as_word, from_word
from gpuprov.onhost import script
from gpuprov.quote import quote
from gpuprov.transport.frame import SectionResult

SILENT_AFTER = 120.0
"""Seconds of host uptime without a heartbeat after which an owner may be fenced."""


@dataclass(frozen=True, kw_only=True)
class Owner:
    """Who asks for a host. ``run`` is the same when a run comes back after its line was lost."""

    run: str
    host: str
    user: str
    pid: int

    @classmethod
    def here(cls, run: str) -> Owner:
        """This process on this controller."""
        try:
            user = getpass.getuser()
        except (KeyError, OSError):
            # A container may run under a number that has no name.
            user = str(os.getuid())
        return cls(run=run, host=socket.gethostname(), user=user, pid=os.getpid())

    def __str__(self) -> str:
        return f"{self.user}@{self.host} (run {self.run}, pid {self.pid})"


@dataclass(frozen=True, kw_only=True)
class LockState:
    """What became of asking for the lock.

    Attributes:
        held: it is ours.
        owner: who holds it instead; None when it is ours or nobody can be named.
        since: seconds of host uptime for which the owner has held it; None when unknown.
        silent: seconds of host uptime since the owner's last heartbeat; None when unknown.
        by: ``flock``, or ``mkdir`` on a host without ``flock``; empty when not held.
        reason: why it is not held, or what is weaker than it should be, as a sentence; may be empty.
        state: the host's state folder, absolute.
    """

    held: bool
    owner: Owner | None = None
    since: float | None = None
    silent: float | None = None
    by: str = ""
    reason: str = ""
    state: str = ""


def acquire(owner: Owner, state: str, *, silent_after: float = SILENT_AFTER, protected: Sequence[str] = ()) -> str:
    """Return the text for `Frame.before` or `Connection.on_open` that takes the lock, or tells who has it.

    It fails when the lock is not to be had, so that nothing else of the frame runs. `parse` reads the section
    ``before``.

    Args:
        owner: who asks.
        state: the inventory's ``paths.state``; empty: decided on the host.
        silent_after: seconds without a heartbeat after which another owner is fenced.
        protected: shell patterns of paths at and below which no state folder is made, whatever links lead there.
    """
    who = {"gp_run": owner.run, "gp_who": owner.host, "gp_user": owner.user}
    return "\n".join(
        (
            _place(state),
            *(f"{name}={quote(as_word(value))}" for name, value in who.items()),
            f"gp_pid={owner.pid} gp_limit={round(silent_after * 100)}",
            "gp_protected=" + quote("\n".join(protected)),
            script("job_process"),
            script("lock"),
        )
    )


def heartbeat(owner: Owner, state: str) -> str:
    """Return the script of a section that says the owner is alive; `parse` tells whether the lock is still held."""
    return "\n".join((_place(state), f"gp_run={quote(as_word(owner.run))}", script("job_process"), script("lock_beat")))


def release(owner: Owner, state: str) -> str:
    """Return the text for `Frame.before` that lets the lock go. Harmless when it is not held."""
    return "\n".join((_place(state), f"gp_run={quote(as_word(owner.run))}", script("lock_release")))


def _place(state: str) -> str:
    return f"gp_state={quote(state)}\n{script('state')}"


def parse(result: SectionResult) -> LockState:
    """Read what `acquire` or `heartbeat` said. Never raises: what cannot be read is not held."""
    found: dict[str, str] = {}
    lines = result.stdout.decode(errors="replace").splitlines()
    for number, line in enumerate(lines):
        key, _, rest = line.partition(" ")
        if key == "reason" and rest.startswith("unwritable"):
            # A command's own words: they may go on over several lines, and nothing comes after them.
            rest = " ".join([rest, *lines[number + 1 :]])
        if key in ("state", "held", "owner", "reason"):
            found.setdefault(key, rest.strip())
    state, held = found.get("state", ""), "held" in found
    owner, silent, since = _other(found.get("owner", ""))
    return LockState(
        held=held,
        owner=None if held else owner,
        silent=None if held else silent,
        since=None if held else since,
        by=found.get("held", ""),
        reason=_reason(found.get("reason", ""), state=state, held=held, owner=owner, silent=silent, result=result),
        state=state,
    )


def _other(words: str) -> tuple[Owner | None, float | None, float | None]:
    parts = words.split()
    if len(parts) != 6 or _number(parts[3]) < 0:
        return None, None, None
    run, host, user, pid, silent, since = parts
    owner = Owner(run=from_word(run), host=from_word(host), user=from_word(user), pid=_number(pid))
    return owner, _seconds(silent), _seconds(since)


def _number(word: str) -> int:
    return int(word) if word.isascii() and word.isdigit() and len(word) < 12 else -1


def _seconds(word: str) -> float | None:
    hundredths = _number(word)
    return None if hundredths < 0 else hundredths / 100


def _reason(
    word: str, *, state: str, held: bool, owner: Owner | None, silent: float | None, result: SectionResult
) -> str:
    if word.startswith("unwritable"):
        detail = word.removeprefix("unwritable").strip()
        return f"the state folder {state} cannot be written" + (f": {detail}" if detail else "")
    weaker = ""
    if word == "noflock":
        weaker = "this host has no flock command (package util-linux), so a folder serves as the lock"
    if held:
        return weaker
    if owner:
        why = f"held by {owner}" + ("" if silent is None else f", last heard {silent:.0f} s ago")
    elif result.status is None:
        why = "the host did not answer in time when asked for its lock"
    else:
        said = result.stderr.decode(errors="replace").strip().splitlines()
        why = "the lock could not be taken" + (f": {said[-1]}" if said else "; its holder left no name")
    return f"{why}; {weaker}" if weaker else why
