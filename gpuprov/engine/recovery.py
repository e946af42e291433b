"""What the journal on a host says when changes were cut off or failed: what was given back, in words. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Literal

from gpuprov.onhost import script
from gpuprov.quote import quote

_OURS = "gpuprov: "
_GIVEN_BACK = ("put back ", "removed ", "could not put back ")
_TO_GIVE_BACK = ("put back ", "remove ")


def recover_script(under_way: Iterable[int] = ()) -> str:
    """Return the script of a section that closes open intents but those of the given numbers; see `recovered`."""
    return "\n".join((script("job_process"), script("job_state"), " ".join(("gp_recover", *map(str, under_way)))))


def pending_script(state: str) -> str:
    """Return the script of a section that says what `recover_script`'s would do, and writes nothing; see `pending`."""
    names = f"gp_state={quote(state)} gp_run="
    return "\n".join((names, script("journal"), script("job_process"), script("job_state"), "gp_pending"))


def recovered(raw: bytes) -> Iterator[tuple[Literal["warning", "info"], str]]:
    """Yield what people should know of each change that was cut off: how much it matters, and a sentence."""
    for begin, came, lines in _cut_off(raw):
        back = given_back(lines)
        if came == "running":
            yield "info", f"{begin}; its job still runs on the host"
        elif came == "done":
            yield "info", f"{begin}; its job has ended well since"
        elif back:
            yield "warning", f"{begin}; {back}"
        else:
            yield "info", f"{begin}; it is looked at again"


def pending(raw: bytes) -> Iterator[tuple[Literal["warning", "info"], str]]:
    """Yield what an apply would do, before it looks, with each change that was cut off."""
    for begin, came, lines in _cut_off(raw):
        back = _words(lines, _TO_GIVE_BACK)
        if came == "running":
            yield "info", f"{begin}; its job still runs on the host"
        elif came == "undone" and back:
            yield "warning", f"{begin}; before it looks, an apply will {back}"


def _cut_off(raw: bytes) -> Iterator[tuple[str, str, list[str]]]:
    """Yield of each change that was cut off: the beginning of a sentence, what became of it, the lines behind it."""
    found: list[tuple[str, list[str]]] = []
    for line in raw.decode(errors="replace").splitlines():
        if not line.startswith("\t"):
            found.append((line, []))
        elif found:
            found[-1][1].append(line[1:])
    for head, lines in found:
        run, _, came, record = (*head.split("\t", 3), "", "", "")[:4]
        try:
            change = json.loads(record)
            what = f"{change['id']} ({change['action']})"
        except (ValueError, TypeError, KeyError):
            what = "a change whose record cannot be read"
        begin = f"run {run} was cut off in the middle of {what}"
        yield begin, came, lines


def given_back(lines: Iterable[str]) -> str:
    """Return in words what lines of the journal say was given back; empty when nothing had to be."""
    return _words(lines, _GIVEN_BACK)


def _words(lines: Iterable[str], which: tuple[str, ...]) -> str:
    said = [line.removeprefix(_OURS) for line in lines if line.startswith(_OURS)]
    return ", ".join(dict.fromkeys(line for line in said if line.startswith(which)))
