"""The one error tree. What an error carries is what a person needs in order to act on it.

    GpuprovError                    code, message, where, output, hint; exit code 1
    ├── InputError                  the words or files are wrong (exit 2); holds all Problems at once
    ├── Unreachable                 no session on the host (exit 3); says which phase failed
    │   ├── HostKeyRefused          unknown or changed host key
    │   └── AuthenticationFailed
    ├── LineLost                    the connection went away; says whether the frame had begun
    └── HostFailed                  something on the host is not as it must be (exit 1)
        ├── Unseen                  a probe could not look
        ├── StepFailed              a step ended badly
        ├── Refused                 the guard said no
        ├── Locked                  another controller holds the host, or a job slot
        └── DidNotConverge          still different after it was changed

Exit codes of the command, highest precedence first: 2, 130 (interrupted), 3, 1, 4, 0.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar


class ExitCode:
    """What the command returns; when several apply, the first in ``PRECEDENCE`` wins."""

    OK: ClassVar[int] = 0
    FAILED: ClassVar[int] = 1
    USAGE: ClassVar[int] = 2
    UNREACHABLE: ClassVar[int] = 3
    DIFFERENCES: ClassVar[int] = 4
    INTERRUPTED: ClassVar[int] = 130

    PRECEDENCE: ClassVar[tuple[int, ...]] = (2, 130, 3, 1, 4, 0)

    @classmethod
    def worst(cls, codes: Iterable[int]) -> int:
        """Return the code that the whole run ends with (0 for no codes)."""
        seen = set(codes)
        return next((code for code in cls.PRECEDENCE if code in seen), cls.OK)


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """A place in a file that a person wrote. Lines and columns count from 1."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake in what the user wrote.

    Attributes:
        alone: what stands at its place is not known, so that anything else told there would only follow.
        as_meant: what stands at its place was read as it was meant, and is judged like anything else.
    """

    message: str
    position: Position | None = None
    hint: str = ""
    alone: bool = field(default=False, compare=False)
    as_meant: bool = field(default=False, compare=False)

    def __str__(self) -> str:
        place = f"{self.position}: " if self.position else ""
        return f"{place}{self.message}" + (f" ({self.hint})" if self.hint else "")


class GpuprovError(Exception):
    """Base of everything that gpuprov raises on purpose.

    Attributes:
        code: a stable word for scripts (``--json``), such as ``step-failed``.
        message: one sentence that says what is wrong.
        where: ``file:line:column``, or ``host`` and resource id; may be empty.
        output: the last lines of output that explain it, already redacted; may be empty.
        hint: what to do next; may be empty.
    """

    code: ClassVar[str] = "error"
    exit_code: ClassVar[int] = ExitCode.FAILED

    def __init__(self, message: str, *, where: str = "", output: str = "", hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.where = where
        self.output = output
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.where}: {self.message}" if self.where else self.message


class InputError(GpuprovError, ValueError):
    """The command line, inventory, playbook or a role's parameters are wrong. No host is contacted.

    ``trace``: the tracebacks of roles that could not be imported, for whoever asks.
    """

    code = "input"
    exit_code = ExitCode.USAGE

    def __init__(self, problems: Iterable[Problem] | Problem | str, *, hint: str = "", trace: str = "") -> None:
        self.trace = trace
        if isinstance(problems, str):
            problems = Problem(problems, hint=hint)
        self.problems: tuple[Problem, ...] = (problems,) if isinstance(problems, Problem) else tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))


class Unreachable(GpuprovError, ConnectionError):
    """No session could be had.

    ``phase`` is ``dns``, ``tcp``, ``key-exchange``, ``authentication``, ``session`` or ``sudo``.
    """

    code = "unreachable"
    exit_code = ExitCode.UNREACHABLE

    def __init__(self, message: str, *, phase: str, where: str = "", output: str = "", hint: str = "") -> None:
        super().__init__(message, where=where, output=output, hint=hint)
        self.phase = phase


class HostKeyRefused(Unreachable):
    """The host's key is unknown, revoked, or not the one that was pinned."""

    code = "host-key"


class AuthenticationFailed(Unreachable):
    """The server took none of the keys or passwords that were offered."""

    code = "authentication"


class LineLost(GpuprovError, ConnectionError):
    """The connection ended while something was under way. ``begun``: the frame's begin marker had been seen."""

    code = "line-lost"
    exit_code = ExitCode.UNREACHABLE

    def __init__(self, message: str, *, begun: bool, where: str = "", hint: str = "") -> None:
        super().__init__(message, where=where, hint=hint)
        self.begun = begun


class HostFailed(GpuprovError):
    """Something on one host is not as it must be. Never ends another host's work."""

    code = "failed"


class Unseen(HostFailed):
    """A probe could not look, so nothing is known; never the same as absent."""

    code = "unseen"


class StepFailed(HostFailed):
    """A step ended with a bad status, or ran past its deadline or silence limit."""

    code = "step-failed"

    def __init__(
        self, message: str, *, status: int | None = None, where: str = "", output: str = "", hint: str = ""
    ) -> None:
        super().__init__(message, where=where, output=output, hint=hint)
        self.status = status


class Refused(HostFailed):
    """The guard refused a claim before the first step."""

    code = "refused"


class Locked(HostFailed):
    """Another controller holds the host's lock, or another job the slot."""

    code = "locked"


class DidNotConverge(HostFailed):
    """Every step succeeded and yet the final probe still sees a difference."""

    code = "did-not-converge"


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorRecord:
    """An error as a plain value, for events and JSON."""

    code: str
    message: str
    where: str = ""
    output: str = ""
    hint: str = ""
    exit_code: int = field(default=ExitCode.FAILED)

    @classmethod
    def of(cls, error: BaseException) -> ErrorRecord:
        """Record any exception. An unexpected one is named as such: it is a bug, and not the user's fault."""
        if isinstance(error, GpuprovError):
            return cls(
                code=error.code,
                message=error.message,
                where=error.where,
                output=error.output,
                hint=error.hint,
                exit_code=error.exit_code,
            )
        return cls(
            code="bug",
            message=f"gpuprov itself failed: {type(error).__name__}: {error}",
            hint="please report this with the output of the same command and -vvv",
        )
