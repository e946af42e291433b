"""Where the roles and playbooks that come with gpuprov lie: in the wheel, or in a checkout."""

from __future__ import annotations

from pathlib import Path

from gpuprov.errors import InputError
from gpuprov.yaml_text import closest


def shipped(folder: str) -> Path:
    """Return the folder ``roles`` or ``playbooks`` that came with gpuprov."""
    package = Path(__file__).resolve().parent
    inside = package / "_shipped" / folder
    return inside if inside.is_dir() else package.parent / folder


def find_playbook(word: str) -> Path:
    """Return the playbook that a person means: a file, or else one that came with gpuprov.

    ``playbooks/verify.yaml`` works from every folder; a file of one's own by that name comes first.

    Raises:
        InputError: there is neither; with where it was looked for, and the nearest name or all that came with gpuprov.
    """
    path = Path(word)
    if _is_there(path):
        return path
    may_come_with = not path.is_absolute() and path.parts[:1] == ("playbooks",)
    came_with = shipped("playbooks").joinpath(*path.parts[1:])
    if may_come_with and _is_there(came_with):
        return came_with
    places = [str(path.absolute().parent), *([str(came_with.parent)] if may_come_with else [])]
    raise InputError(f"there is no playbook {word!r} in {' or '.join(places)}", hint=_playbook_hint(path))


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):
        return True  # reading it says why it cannot be


def _playbook_hint(path: Path) -> str:
    """Return what may have been meant: beside the path that is not there, or among those that came with gpuprov."""
    ours = {name: f"playbooks/{name}" for name in sorted(p.name for p in shipped("playbooks").glob("*.y*ml"))}
    try:
        beside = {p.name: str(p) for p in path.parent.iterdir() if p.suffix in (".yaml", ".yml") and p.is_file()}
    except (OSError, ValueError):
        beside = {}
    known = {**ours, **beside}
    bare = {name.rpartition(".")[0]: name for name in known}
    found = closest(path.name, known) or bare.get(closest(path.name, bare), "")
    if found:
        return f"did you mean {known[found]!r}?"
    return f"with gpuprov come {', '.join(ours.values())}"
