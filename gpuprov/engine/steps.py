"""A change's steps to what is sent: scripts for a frame, jobs, transactions and downloads between them. Pure."""

from __future__ import annotations

import base64
import posixpath
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from gpuprov.model import Change, Claims, Job, Member, Obtain, Put, Run, Step
from gpuprov.quote import command, quote
from gpuprov.secret import Secret

INLINE_LIMIT = 256 * 1024
"""Bytes: a file up to this size travels inside a frame, a larger one on a channel of its own."""


@dataclass(frozen=True, kw_only=True)
class Short:
    """Steps that fit into one section of a frame.

    Attributes:
        script: run by the frame's shell; each `Run` in it by an ``sh -eu`` of its own.
        temps: temporary files it may leave behind when it is cut off.
        uploads: what must be written (raw) before it runs: path and content.
    """

    script: str
    titles: tuple[str, ...]
    deadline: float
    env: Mapping[str, str | Secret] = field(default_factory=dict)
    temps: tuple[str, ...] = ()
    uploads: tuple[tuple[str, bytes | Secret], ...] = ()


Segment = Short | Job | Member | Obtain
"""What a change is made of, in order: neighbouring short steps are one segment."""


def segments(change: Change, *, run: str, number: int) -> tuple[Segment, ...]:
    """Return the segments of a run's change of that number, which also makes its temporary files' names unique.

    Raises:
        ValueError: neighbouring steps give one environment variable different values.
    """
    return tuple(_segments(change.steps, run, number))


def _segments(steps: Iterable[Step], run: str, change: int) -> Iterator[Segment]:
    pending: list[Step] = []
    tag = f"{run}.{change}"
    for number, step in enumerate(steps):
        match step:
            case Run() | Put():
                pending.append(step)
            case Job() | Member() | Obtain():
                if pending:
                    yield _short(pending, change, f"{tag}.{number}")
                    pending = []
                yield step
            case _:
                raise TypeError(f"a step of an unknown kind: {type(step).__name__}")
    if pending:
        yield _short(pending, change, f"{tag}.end")


def _short(steps: list[Step], change: int, tag: str) -> Short:
    env: dict[str, str | Secret] = {}
    parts, temps, uploads = [], [], []
    for number, step in enumerate(steps):
        for name, value in step.env.items():
            if env.setdefault(name, value) != value:
                raise ValueError(f"two steps give the environment variable {name} different values")
        # Each in a shell of its own: a step that changes folder, sets a variable or exits says nothing to the next, and
        # one that kills its shell leaves the section alive to say so, and to end what went on without it. What failed
        # is named on stderr, since the section has one status for all of them.
        if isinstance(step, Put):
            temp = posixpath.join(posixpath.dirname(step.path), f".gpuprov-{tag}.{number}")
            temps.append(temp)
            content = step.content.reveal() if isinstance(step.content, Secret) else step.content
            words = (temp, step.path, f"{step.mode:04o}", step.owner, step.group)
            if len(content) <= INLINE_LIMIT:
                encoded = base64.b64encode(content).decode()
                parts.append(f"printf %s {quote(encoded)} | {command('gp_put', *words)}")
            else:
                uploads.append((temp, step.content))
                parts.append(command("gp_finish", *words))
        elif isinstance(step, Run):
            parts.append(command("gp_step", str(change), f"\n{step.script}\n"))
        failed = command("echo", f"failed: {step.title}")
        parts.append(f"gp_r=$?; [ $gp_r -eq 0 ] || {{ {failed} >&2; exit $gp_r; }}")
    return Short(
        script="\n".join(parts),
        titles=tuple(step.title for step in steps),
        deadline=sum(step.deadline for step in steps),
        env=env,
        temps=tuple(temps),
        uploads=tuple(uploads),
    )


def journaled(
    short: Short, *, number: int, record: str, claims: Claims, last: bool, first: bool, slot: str = "", undoing: str
) -> str:
    """Return the section's script with the intent written before it and its end after it.

    When a step fails, what stood at the claimed paths is put back, and told behind a line ``undoing``. ``slot``: the
    folder of the job that the change has, which may outlive the run.
    """
    job = (f"job {slot}",) if slot else ()
    begin = command("gp_begin", str(number), record, *job, *short.temps, "--", *sorted(claims.paths))
    failed = 'echo "the journal in $gp_journal could not be written; see whether its disk is full" >&2'
    lines = [f"{begin} || {{ {failed}; exit 1; }}"] if first else []
    # A subshell, so that the section lives on to say how it ended.
    lines += [
        f"(\n{short.script}\n)\ngp_r=$?",
        # The frame's shell was killed: whoever asked is told that this failed, so it must not be noted as done
        "kill -0 $$ 2>/dev/null || exit 137",
        f"if [ $gp_r -ne 0 ]; then {command('echo', undoing)}; gp_undo {number}; exit $gp_r; fi",
    ]
    if last:
        lines.append(f"gp_done {number}")
    return "\n".join(lines)


def merge_members(members: Iterable[Member]) -> dict[str, tuple[Member, ...]]:
    """Return members of merged transactions by group, each group in a stable order."""
    groups: dict[str, list[Member]] = {}
    for member in members:
        groups.setdefault(member.group, []).append(member)
    return {group: tuple(sorted(items, key=lambda m: m.item)) for group, items in groups.items()}


def job_digest_parts(job: Job) -> dict[str, object]:
    """Return what makes two runs of a job the same work. Secrets are in no digest: only their names are."""
    return {
        "script": job.script,
        "env": {name: None if isinstance(value, Secret) else value for name, value in job.env.items()},
    }
