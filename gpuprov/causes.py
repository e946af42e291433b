"""Why something on a host failed, read out of what it printed. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

STOPPED = "stopped: "
ADVICE = "advice: "
"""What our own scripts put before their last words (``gp_stop`` in ``onhost/job_head.sh``): why, and what to do."""

FULL_HINT = "make room on the host's file system that is full (df -h, df -i), then the same command goes on"

SILENT_HINT = "a program that says nothing may have met a full disk, which takes its words too: df -h tells"

_KNOWN = "known cause: "
_LONGEST = 300
_FULL = re.compile(r"No space left on device|ENOSPC|NoSpaceLeft|\bErrno 28\b|have enough free space")
# dash's own words for any write that failed
_WRITE = re.compile(r"\b(?:printf|echo): (?:printf: |echo: )?I/O error")
_QUOTA = re.compile(r"Disk quota exceeded|EDQUOT|\bErrno 122\b")
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
        why: one line for the headline; empty when nothing that was printed says it.
        own: it is in our own script's words, so that the status adds nothing to it.
        hint: what to do; may be empty.
        output: what was printed, without the lines that are told by ``why`` and ``hint``.
    """

    why: str = ""
    own: bool = False
    hint: str = ""
    output: str = ""


def cause(text: str, status: int | None) -> Cause:
    """Return why something ended badly that printed ``text``.

    A status of 1 says by the contract of our scripts that a program of others failed: then its words are added to ours.
    """
    lines = text.splitlines()
    last = max((n for n, line in enumerate(lines) if line.startswith(STOPPED)), default=None)
    if last is None:
        why, hint, rest = _last_telling(lines), "", lines
    else:
        why = lines[last].removeprefix(STOPPED)
        hint = "; ".join(line.removeprefix(ADVICE) for line in lines[last + 1 :] if line.startswith(ADVICE))
        rest = [line for n, line in enumerate(lines) if n != last and not (n > last and line.startswith(ADVICE))]
        known = next((line for line in reversed(lines[:last]) if line.startswith(_KNOWN)), "")
        theirs = known or (_last_telling(lines[:last]) if status == 1 else "")
        why = f"{why}: {theirs}" if theirs and theirs not in why else why
    if full := full_disk(text):
        why, hint = f"{full}: {why}" if why else full, FULL_HINT
    return Cause(why=why, own=last is not None, hint=hint, output="\n".join(rest))


def full_disk(text: str) -> str:
    """Return in words that there was no room, when that is what the text speaks of; else nothing."""
    if _FULL.search(text):
        return "the disk is full"
    if _WRITE.search(text):
        return "a write failed, so that the disk is full or broken"
    return "the disk quota is used up" if _QUOTA.search(text) else ""


def _last_telling(lines: list[str]) -> str:
    """Return the last line that speaks of a failure; none does: the last that says anything."""
    said = [line.strip() for line in lines if re.search(r"[^\W\d_]{2}", line) and not _ASIDE.match(line)]
    found = next((line for line in reversed(said) if _FULL.search(line) or _QUOTA.search(line)), "")
    found = found or next((line for line in reversed(said) if _TELLING.search(line)), said[-1] if said else "")
    return found if len(found) <= _LONGEST else f"{found[:_LONGEST]}…"
