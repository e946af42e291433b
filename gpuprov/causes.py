"""Why something on a host failed, read out of what it printed. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

STOPPED = "stopped: "
ADVICE = "advice: "
"""What our own scripts put before their last words (``gp_stop`` in ``onhost/job_head.sh``): why, and what to do."""

FULL_HINT = "make room on the host's file system that is full (df -h, df -i), then the same command goes on"

WRITE_HINT = "df -h and df -i on the host tell whether a disk is full; if none is, what was written to did not take it"

SILENT_HINT = "a program that says nothing may have met a full disk, which takes its words too: df -h tells"

_KNOWN = "known cause: "
_LONGEST = 300
_OWN_MARK = re.compile(r"gpuprov speaks as (?:([0-9a-f-]{36})|nobody)")
# Words for a full disk: whatever a line that is the reason says of it...
_FULL = re.compile(r"No space left on device|ENOSPC|NoSpaceLeft|\bErrno 28\b|have enough free space")
_QUOTA = re.compile(r"Disk quota exceeded|EDQUOT|\bErrno 122\b")
# ... and what counts wherever it stands: a program that reports the error itself, at the end of its line.
_END = r"(?: ?\((?:os error )?\d+\))?(?: \[[^\]]*\])*[)\]'\".]*\s*$"
_PLAIN_FULL = re.compile(
    rf"[:(] ?No space left on device{_END}|\[Errno 28\] No space left on device|\bENOSPC: no space left on device"
    r"|^NoSpaceLeftError\b|^E: .*have enough free space"
)
_PLAIN_QUOTA = re.compile(rf"[:(] ?Disk quota exceeded{_END}|\[Errno 122\] Disk quota exceeded|\bEDQUOT: ")
# dash's own words for any write that failed
_WRITE = re.compile(r"\b(?:printf|echo): (?:printf: |echo: )?I/O error")
_TELLING = re.compile(
    r"^E: |\b(?:\w*error|fatal|cannot|can't|could not|couldn't|fail(?:ed|ure)?|unable|denied|refused|not permitted"
    r"|no such|not found|no space|invalid|unknown|unrecognized|missing|exceeded|timed out|killed)\b",
    re.IGNORECASE,
)
# What programs add beside their reason: pip's notes and offers, and our own lines of progress.
_ASIDE = re.compile(r"\s*(?:note|hint|warning|info|\[notice\]|failed): ?|\s*\[notice\]", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class Cause:
    """Why it failed.

    Attributes:
        why: one line for the headline; empty when nothing was printed.
        own: it is in our own script's words, so that the status adds nothing to it.
        hint: what to do; may be empty.
        output: what was printed, without the lines that are told by ``why`` and ``hint``.
    """

    why: str = ""
    own: bool = False
    hint: str = ""
    output: str = ""


def own_mark(line: str) -> str | None:
    """Return the mark that a script of ours announces in a line, which may be none; None when it is no such line.

    Only the first that such a job prints counts: it comes before any program of others runs.
    """
    found = _OWN_MARK.fullmatch(line)
    return (f"{found[1]} " if found[1] else "") if found else None


def cause(text: str, status: int | None, *, mark: str = "", aside: str = "") -> Cause:
    """Return why something ended badly that printed ``text``.

    A status of 1 says by the contract of our scripts that a program of others failed: then its words are added to ours.

    Args:
        mark: what stands before each line that is in our own script's words (`own_mark`). Without one none is: the
            same words of a program of others are its output, and no advice of ours.
        aside: what was printed beside it, whose words count where ``text`` says nothing; it is shown before it.
    """
    marked = text.splitlines()
    lines = [line.removeprefix(mark) for line in marked]
    ours = {n for n, line in enumerate(marked) if mark and line.startswith(mark)}
    others = aside.splitlines()
    last = max((n for n in ours if lines[n].startswith(STOPPED)), default=None)
    if last is None:
        why, hint, rest = _last_telling(lines) or _last_telling(others) or _last_said([*others, *lines]), "", lines
    else:
        told = {n for n in ours if n > last and lines[n].startswith(ADVICE)}
        why = lines[last].removeprefix(STOPPED)
        hint = "; ".join(lines[n].removeprefix(ADVICE) for n in sorted(told))
        rest = [line for n, line in enumerate(lines) if n != last and n not in told]
        known = next((lines[n] for n in sorted(ours, reverse=True) if n < last and lines[n].startswith(_KNOWN)), "")
        theirs = known or (_last_telling(lines[:last]) if status == 1 else "")
        why = f"{why}: {theirs}" if theirs and theirs not in why else why
    full, what_to_do = _room((why,), _FULL, _QUOTA)
    if not full:
        full, what_to_do = full_disk("\n".join((*others, *lines)))
    if full:
        why, hint = f"{full}: {why}" if why else full, what_to_do
    return Cause(why=why, own=last is not None, hint=hint, output="\n".join((*others, *rest)))


def full_disk(text: str) -> tuple[str, str]:
    """Return in words that there was no room, and what to do, when a program says so itself; else two empty texts.

    A line that only speaks of it (a note, a sentence about what might have been) is not enough.
    """
    return _room((line for line in text.splitlines() if not _ASIDE.match(line)), _PLAIN_FULL, _PLAIN_QUOTA)


def _room(lines: Iterable[str], full: re.Pattern[str], quota: re.Pattern[str]) -> tuple[str, str]:
    lines = tuple(lines)
    if any(map(full.search, lines)):
        return "the disk is full", FULL_HINT
    if any(map(quota.search, lines)):
        return "the disk quota is used up", FULL_HINT
    # A full disk makes dash say this, and so does a file of /proc that refuses a number
    return ("a write failed; see whether the disk is full", WRITE_HINT) if any(map(_WRITE.search, lines)) else ("", "")


def _last_telling(lines: Sequence[str]) -> str:
    """Return the last line that speaks of a failure; none does: the last that says anything in words."""
    said = [line.strip() for line in lines if re.search(r"[^\W\d_]{2}", line) and not _ASIDE.match(line)]
    found = next((line for line in reversed(said) if _PLAIN_FULL.search(line) or _PLAIN_QUOTA.search(line)), "")
    return _cut(found or next((line for line in reversed(said) if _TELLING.search(line)), said[-1] if said else ""))


def _last_said(lines: Sequence[str]) -> str:
    """Return the last line that is not blank, whatever it is."""
    return _cut(next((line.strip() for line in reversed(lines) if line.strip()), ""))


def _cut(line: str) -> str:
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…"
