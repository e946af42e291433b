"""Probes to sections of a frame, and back to states. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from gpuprov.errors import Unseen
from gpuprov.model import ASK_COMMANDS, Id, Probe
from gpuprov.onhost import script
from gpuprov.quote import command
from gpuprov.transport.frame import FRAME_DEADLINE, FrameResult, Section, SectionResult


@dataclass(frozen=True)
class ProbeBatch:
    """Probes that are looked at in one exchange: their sections, and how to read the answers.

    What several of them ask for in the same words is asked once.
    """

    probes: tuple[tuple[Id, Probe[Any]], ...]
    sections: tuple[Section, ...]
    _asked: Mapping[str, tuple[str, ...]]
    _prefix: str

    @property
    def prelude(self) -> str:
        """Functions that the sections call; empty when nothing is asked."""
        return script("asks") if self._asked else ""

    def read(self, result: FrameResult) -> dict[Id, Any]:
        """Return the state of each probe: what it parsed, None for absent, or an `Unseen` error as a value.

        A probe is left out when it never began (it stood behind one that hung): ask it again.
        """
        answers = {name: self._answers(name, result.sections.get(f"{self._prefix}ask-{name}")) for name in self._asked}
        states: dict[Id, Any] = {}
        for number, (id_, probe) in enumerate(self.probes):
            section = result.sections.get(f"{self._prefix}{number}") if probe.script else None
            if probe.script and section is None:
                continue
            lines = [answers[name].get(argument) for name, argument in probe.asks]
            if any(line is None for line in lines):
                # An ask that never began is asked again; one that hung is not: it would hang again
                hung = [n for n, _ in probe.asks if _hung(result.sections.get(f"{self._prefix}ask-{n}"))]
                if not hung:
                    continue
                states[id_] = Unseen(f"{hung[0]} did not come back in time", where=id_)
                continue
            states[id_] = _state(id_, probe, [line for line in lines if line is not None], section)
        return states

    def _answers(self, name: str, section: SectionResult | None) -> dict[str, bytes]:
        if section is None or section.status is None:
            return {}
        lines = section.stdout.split(b"\n")
        return dict(zip(self._asked[name], lines, strict=False)) if not section.clipped else {}


def batch(probes: Iterable[tuple[Id, Probe[Any]]], *, prefix: str = "p") -> ProbeBatch:
    """Return the sections of the probes. ``prefix`` keeps two batches of one frame apart.

    Raises:
        ValueError: a probe asks for something that is not in `ASK_COMMANDS`.
    """
    probes = tuple(probes)
    asked: dict[str, dict[str, None]] = {}
    for _, probe in probes:
        for name, argument in probe.asks:
            if name not in ASK_COMMANDS:
                raise ValueError(f"a probe cannot ask for {name!r}; it can for {', '.join(ASK_COMMANDS)}")
            asked.setdefault(name, {})[argument] = None
    sections = [
        # "--" is not needed: a function of ours takes them, and paths are absolute
        Section(name=f"{prefix}ask-{name}", script=command(f"gp_ask_{name}", *arguments))
        for name, arguments in asked.items()
    ]
    sections += [
        Section(name=f"{prefix}{number}", script=probe.script)
        for number, (_, probe) in enumerate(probes)
        if probe.script
    ]
    return ProbeBatch(probes, tuple(sections), {name: tuple(args) for name, args in asked.items()}, prefix)


def _hung(section: SectionResult | None) -> bool:
    return section is not None and section.status is None


def _state(id_: Id, probe: Probe[Any], lines: list[bytes], section: SectionResult | None) -> Any:
    for (name, argument), line in zip(probe.asks, lines, strict=True):
        if line.startswith(b"?"):
            return Unseen(f"{name} {argument}: {line[1:].decode(errors='replace')}", where=id_)
        if not line:
            return Unseen(f"{name} {argument}: no answer", where=id_)
    if section is not None:
        if section.status is None:
            return Unseen(f"the look did not end within {FRAME_DEADLINE:.0f} s", where=id_, output=_last_lines(section))
        if section.status != 0:
            return Unseen(
                f"the look ended with status {section.status}",
                where=id_,
                output=_last_lines(section),
                hint="a look says absence by its output; another status means that it could not look",
            )
        if section.clipped:
            return Unseen(f"the look printed too much ({section.clipped} bytes over the limit)", where=id_)
    answer = b"".join(line + b"\n" for line in lines) + (section.stdout if section else b"")
    try:
        return probe.parse(answer)
    except Unseen as error:
        error.where = error.where or id_
        return error
    except Exception as error:
        return Unseen(
            f"what the look printed could not be read: {type(error).__name__}: {error}",
            where=id_,
            output=answer[-500:].decode(errors="replace"),
        )


def _last_lines(section: SectionResult, count: int = 10) -> str:
    text = (section.stderr or section.stdout).decode(errors="replace").strip()
    return "\n".join(text.splitlines()[-count:])
