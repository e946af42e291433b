"""The one way in which text becomes a word of a shell command."""

from __future__ import annotations

import shlex


def quote(word: str) -> str:
    """Return ``word`` as exactly one word for a POSIX shell.

    Everything interpolated into a script passes through here: names, paths and values are
    untrusted text, whoever wrote them.

    Raises:
        ValueError: the word holds a NUL, which no shell word and no file name can hold.

    >>> quote("a b"), quote("it's"), quote("")
    ("'a b'", "'it'\\"'\\"'s'", "''")
    """
    if "\0" in word:
        raise ValueError(f"a NUL character cannot be passed to a shell: {word!r}")
    return shlex.quote(word)


def command(*words: str) -> str:
    """Return a command line made of literal words, each quoted."""
    return " ".join(map(quote, words))
