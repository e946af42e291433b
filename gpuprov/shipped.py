"""Where the roles and playbooks that come with gpuprov lie: in the wheel, or in a checkout."""

from __future__ import annotations

from pathlib import Path


def shipped(folder: str) -> Path:
    """Return the folder ``roles`` or ``playbooks`` that came with gpuprov."""
    package = Path(__file__).resolve().parent
    inside = package / "_shipped" / folder
    return inside if inside.is_dir() else package.parent / folder


def find_playbook(word: str) -> Path:
    """Return the playbook that a person means: a file, or else one that came with gpuprov.

    ``playbooks/verify.yaml`` works from every folder; a file of one's own by that name comes first. A word that is
    neither is returned as it is, so that reading it says what is wrong.
    """
    path = Path(word)
    if not path.exists() and not path.is_absolute() and path.parts[:1] == ("playbooks",):
        came_with = shipped("playbooks").joinpath(*path.parts[1:])
        if came_with.is_file():
            return came_with
    return path
