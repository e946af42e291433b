"""What hosts say about jobs, read as values. It is untrusted text: what does not fit is refused, never guessed at."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, cast, get_args

from gpuprov.jobs.slot import from_word
from gpuprov.model import Id

State = Literal["running", "orphaned", "ended", "died", "unknown"]
"""``unknown``: the host has no ``flock`` any more, so nobody can say."""

How = Literal["ended", "cancelled", "deadline", "silent", "died", "orphaned"]

_DATA = re.compile(rb"D ([A-Za-z0-9._-]{1,120}) ([0-9]{1,9}) ([0-9]{1,18}) ([0-9]{1,9})")
_FATE = re.compile(
    rb"([EXO]) ([A-Za-z0-9._-]{1,120}) ([0-9]{1,9}) ([0-9]{1,3}|-) (ended|cancelled|deadline|silent|-) ([0-9]{1,18})"
)
_LONGEST_HEADER = 512
_LOOK_WORDS = 8


class Garbled(Exception):
    """The stream is not what a follower sends; it is closed and taken up again at the last good offset."""


@dataclass(frozen=True, kw_only=True)
class Chunk:
    """A piece of a job's log, beginning at byte ``offset``."""

    folder: str
    attempt: int
    offset: int
    data: bytes


@dataclass(frozen=True, kw_only=True)
class Fate:
    """How an attempt ended. ``size``: bytes of its whole log; a reader that has not seen them all reads on first."""

    folder: str
    attempt: int
    status: int | None
    how: How
    size: int


@dataclass(frozen=True, kw_only=True)
class JobInfo:
    """One slot as a host has it.

    Attributes:
        attempt: the present or last one.
        age: seconds of uptime since it began; None when the host was started anew since.
        last: the last line of its log that says anything, redacted of the secrets this controller knows.
        owner: who started it, for people.
        status, how: of an ended attempt (see `Fate`); ``how`` is empty otherwise.
    """

    slot: Id
    state: State
    attempt: int
    age: float | None
    last: str
    owner: str
    digest: str
    status: int | None = None
    how: str = ""


class RecordReader:
    """Reads a follower's stream piece by piece. A job's log passes through; only headers are ever held back."""

    def __init__(self, word: str = "") -> None:
        """``word`` is said by the follower before its first record: what a login shell prints before is thrown away."""
        self._word = word.encode()
        self._held = bytearray()
        self._data: Chunk | None = None
        self._left = 0

    @property
    def started(self) -> bool:
        """Whether the word was seen."""
        return not self._word

    def feed(self, piece: bytes) -> Iterator[Chunk | Fate]:
        """Yield what these bytes say.

        Raises:
            Garbled
        """
        self._held += piece
        if self._word and not self._skip_to_word():
            return
        while self._held:
            if self._data and self._left:
                data = bytes(self._held[: self._left])
                del self._held[: self._left]
                whole, self._left = self._data, self._left - len(data)
                self._data = Chunk(
                    folder=whole.folder, attempt=whole.attempt, offset=whole.offset + len(data), data=b""
                )
                yield Chunk(folder=whole.folder, attempt=whole.attempt, offset=whole.offset, data=data)
                continue
            end = self._held.find(b"\n")
            if end < 0:
                if len(self._held) > _LONGEST_HEADER:
                    raise Garbled("no record begins here")
                return
            header = bytes(self._held[:end])
            del self._held[: end + 1]
            fate = self._begin(header)
            if fate:
                yield fate

    def _skip_to_word(self) -> bool:
        found = self._held.find(b"\n" + self._word + b"\n")
        if found < 0:
            del self._held[: -(len(self._word) + 2)]
            return False
        del self._held[: found + len(self._word) + 2]
        self._word = b""
        return True

    def _begin(self, header: bytes) -> Fate | None:
        if header == b"B":
            return None
        if data := _DATA.fullmatch(header):
            self._data = Chunk(folder=data[1].decode(), attempt=int(data[2]), offset=int(data[3]), data=b"")
            self._left = int(data[4])
            return None
        if fate := _FATE.fullmatch(header):
            return _fate(fate)
        raise Garbled(f"not a record: {header[:80]!r}")


def _fate(found: re.Match[bytes]) -> Fate:
    kind, folder, attempt, status, word, size = (group.decode() for group in found.groups())
    how: How = "died"
    if kind == "O":
        how = "orphaned"
    elif kind == "E" and word != "-":
        how = cast(How, word)
    return Fate(
        folder=folder, attempt=int(attempt), status=None if status == "-" else int(status), how=how, size=int(size)
    )


def read_look(text: str) -> list[JobInfo]:
    """Read what ``job_look.sh`` printed. Lines that do not fit are left out."""
    found = []
    for line in text.split("\n"):
        head, tab, last = line.partition("\t")
        words = head.split()
        if not tab or len(words) != _LOOK_WORDS:
            continue
        state, attempt, digest, slot, owner, age, status, how = words
        if state not in get_args(State) or not _is_number(attempt):
            continue
        info = JobInfo(
            slot=Id(from_word(slot)),
            state=cast(State, state),
            attempt=int(attempt),
            age=int(age) / 100 if _is_number(age) else None,
            last=last,
            owner=from_word(owner),
            digest=from_word(digest),
            status=int(status) if _is_number(status) else None,
            how="" if how == "-" else how,
        )
        found.append(info)
    return found


def _is_number(word: str) -> bool:
    return word.isascii() and word.isdigit() and len(word) < 16
