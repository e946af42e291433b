"""Values that nothing may write down: passwords and tokens."""

from __future__ import annotations

from typing import NoReturn


class Secret:
    """A value that no template, log, digest or error can write down by mistake.

    It raises when formatted, so that a template holding it fails loudly instead of writing ``***`` or
    the value. It has three doors: authentication, a step's ``env`` and the whole content of a `Put`.
    """

    __slots__ = ("__value",)

    def __init__(self, value: str | bytes) -> None:
        self.__value = value.encode() if isinstance(value, str) else bytes(value)

    def reveal(self) -> bytes:
        """Return the bytes. Called at the three doors only."""
        return self.__value

    def _refuse(self, *_: object) -> NoReturn:
        raise TypeError(
            "a secret cannot be written into text; pass it through a step's env or as the whole content of a file"
        )

    __str__ = __format__ = __bytes__ = _refuse
    __add__ = __radd__ = __mod__ = _refuse
    __iter__ = _refuse
    __reduce__ = _refuse

    def __repr__(self) -> str:
        return "Secret(...)"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other.reveal() == self.__value

    def __hash__(self) -> int:
        return hash((Secret, self.__value))
