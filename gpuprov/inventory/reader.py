"""Reading nodes against a closed schema, so that misspelt keys are found and all mistakes are told at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from gpuprov.errors import InputError, Position, Problem
from gpuprov.yaml_text import Mapping, Node, Scalar, Sequence, describe, in_order, is_null, nearest

Hints: TypeAlias = Callable[[str, Node], str]
"""Says of a key that a schema does not have, and its value, what to write instead; empty if nothing is known."""


class Reader:
    """Takes nodes apart against a closed schema, and gathers every mistake instead of stopping at the first.

    What is wrong gives None or nothing and one more of ``problems``; what is null reads as an empty
    mapping or list. ``what`` names the thing in messages: ``port``, ``a play``.

    Attributes:
        problems: the mistakes, in the order in which they were met.
        lost: how many keys and collections said something that was not understood, so that it is not known.
    """

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.lost = 0

    def wrong(self, at: Node | Position, message: str, hint: str = "") -> None:
        """Note a mistake."""
        self.problems.append(Problem(message, at if isinstance(at, Position) else at.position, hint))

    def finish(self) -> None:
        """Raise an `InputError` with all mistakes; do nothing when there are none."""
        if self.problems:
            raise InputError(in_order(self.problems))

    def text(self, node: Node, what: str) -> str | None:
        """Read text that is not empty."""
        if isinstance(node, Scalar) and node.text and not is_null(node):
            return node.text
        self.wrong(node, f"{what} must be text, not {describe(node)}")
        return None

    def choice(self, node: Node, what: str, choices: Iterable[str]) -> str | None:
        """Read one of a few words."""
        allowed = tuple(choices)
        if isinstance(node, Scalar) and node.text in allowed:
            return node.text
        hint = nearest(node.text, allowed) if isinstance(node, Scalar) else ""
        self.wrong(node, f"{what} must be {' or '.join(map(repr, allowed))}, not {describe(node)}", hint)
        return None

    def items(self, node: Node, what: str) -> tuple[Node, ...]:
        """Read a list."""
        if isinstance(node, Sequence):
            return node.items
        if not is_null(node):
            self.lost += 1
            self.wrong(node, f"{what} must be a list, not {describe(node)}")
        return ()

    def words(self, node: Node, what: str) -> tuple[Scalar, ...]:
        """Read a list of text; one word alone is a list of one."""
        alone = isinstance(node, Scalar) and not is_null(node)
        found = (node,) if alone else self.items(node, what)
        words = tuple(
            item for item in found if self.text(item, f"each of {what}") is not None and isinstance(item, Scalar)
        )
        self.lost += len(found) - len(words)
        return words

    def entries(self, node: Node, what: str, hint: str = "") -> tuple[tuple[Scalar, Node], ...]:
        """Read a mapping with any keys. ``hint`` says what to write instead of anything else."""
        if isinstance(node, Mapping):
            return node.entries
        if not is_null(node):
            self.lost += 1
            self.wrong(node, f"{what} must be a mapping, not {describe(node)}", hint)
        return ()

    def fields(
        self, node: Node, what: str, known: Iterable[str], hints: Hints | None = None, *, hint: str = ""
    ) -> dict[str, Node]:
        """Read a mapping with known keys.

        ``hints`` says of a foreign key what to write instead, ``""`` if unknown; ``hint`` of what is no mapping.
        """
        allowed = tuple(known)
        found: dict[str, Node] = {}
        for key, value in self.entries(node, what, hint):
            if key.text in allowed:
                found[key.text] = value
                continue
            self.lost += 1
            instead = (hints(key.text, value) if hints else "") or nearest(key.text, allowed)
            self.wrong(key, f"{key.text!r} is not a key of {what}", instead or f"its keys are {', '.join(allowed)}")
        return found
