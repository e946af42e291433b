"""What the journal on a host says when changes were cut off or failed: what was given back, in words. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Literal

from gpuprov.onhost import script

_OURS = "gpuprov: "
_GIVEN_BACK = ("put back ", "removed ", "could not put back ")


def recover_script(under_way: Iterable[int] = ()) -> str:
    """Return the script of a section that closes open intents but those of the given numbers; see `recovered`."""
    return "\n".join((script("job_process"), script("job_state"), " ".join(("gp_recover", *map(str, under_way)))))


def recovered(raw: bytes) -> Iterator[tuple[Literal["warning", "info"], str]]:
    """Yield what people should know of each change that was cut off: how much it matters, and a sentence."""
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
        back = given_back(lines)
        if came == "running":
            yield "info", f"{begin}; its job still runs on the host"
        elif came == "done":
            yield "info", f"{begin}; its job has ended well since"
        elif back:
            yield "warning", f"{begin}; {back}"
        else:
            yield "info", f"{begin}; it is looked at again"


def given_back(lines: Iterable[str]) -> str:
    """Return in words what lines of the journal say was given back; empty when nothing had to be."""
    said = [line.removeprefix(_OURS) for line in lines if line.startswith(_OURS)]
    return ", ".join(dict.fromkeys(line for line in said if line.startswith(_GIVEN_BACK)))
