"""The errors of steps that ended badly: the cause in the headline, the last lines, what to do."""

from __future__ import annotations

from collections.abc import Callable

from gpuprov.causes import SILENT_HINT, cause, own_mark
from gpuprov.engine.steps import Short
from gpuprov.errors import StepFailed
from gpuprov.transport.frame import FRAME_DEADLINE

SHOWN_LINES = 20
"""How many last lines of output an error carries."""


class OwnWords:
    """Hears a job's lines, and knows which of them are in our own script's words.

    A script of ours announces a mark before any program of others runs, and puts it before its own words
    (``onhost/job_head.sh``). Taken from the job's first lines, it is known too where another run started the job.

    Args:
        on_line: is told each line but the announcement, without the mark.
        expected: the job's script is ours. A person's script may print what it likes.
    """

    def __init__(self, on_line: Callable[[str], None], *, expected: bool) -> None:
        self._on_line = on_line
        self._announcement = "" if expected else None
        self.mark = ""

    def __call__(self, line: str) -> None:
        """Hear one line."""
        if self._announcement == "" and (mark := own_mark(line)) is not None:
            self._announcement, self.mark = line, mark
        else:
            self._on_line(line.removeprefix(self.mark))

    def without_announcement(self, text: str) -> str:
        """Return lines of the job without the one that announced the mark."""
        return "\n".join(line for line in text.splitlines() if not self._announcement or line != self._announcement)

    def shown(self, text: str) -> str:
        """Return lines of the job without the mark."""
        return "\n".join(line.removeprefix(self.mark) for line in text.splitlines())


def short_failed(
    part: Short, status: int | None, stdout: bytes, stderr: bytes, *, redact: Callable[[str], str]
) -> StepFailed:
    """Return the error of a short segment of which a step failed, or that did not end in time (no status)."""
    printed, said = (redact(raw.decode(errors="replace")).strip().splitlines() for raw in (stdout, stderr))
    named = {f"failed: {title}": title for title in part.titles}
    which = next((named[line] for line in reversed(said) if line in named), ", ".join(part.titles))
    said = [line for line in said if line != f"failed: {which}"]
    # Of both something is shown
    said = said[-(SHOWN_LINES - min(len(printed), SHOWN_LINES // 4)) :]
    printed = printed[max(0, len(printed) - (SHOWN_LINES - len(said))) :]
    if status is None:
        limit = min(part.deadline, FRAME_DEADLINE)
        return StepFailed(f"{which}: did not end within {limit:.0f} s", output="\n".join((*printed, *said)))
    return _told(which, status, "\n".join(said), aside="\n".join(printed))


def job_failed(title: str, status: int | None, tail: str, *, mark: str) -> StepFailed:
    """Return the error of a job that ended by itself. ``mark``: of our own script's words (`OwnWords`)."""
    # What a job says lies on the host's disk, and may have found no room there
    return _told(title, status, tail, mark=mark, silent=SILENT_HINT)


def _told(what: str, status: int | None, text: str, *, mark: str = "", aside: str = "", silent: str = "") -> StepFailed:
    """Return the error of a step that ended by itself. ``silent``: what to do where it printed nothing."""
    found = cause(text, status, mark=mark, aside=aside)
    # A script may as well exit with such a status by itself
    signal = f" (as by signal {status - 128})" if status and 128 < status < 160 else ""
    how = f"ended with status {status}{signal}"
    words = found.why if found.own else f"{how}: {found.why}" if found.why else f"{how}, and said nothing"
    hint = found.hint or ("" if found.why else silent)
    return StepFailed(f"{what}: {words}", status=status, output=found.output, hint=hint)
