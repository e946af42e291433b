"""Where a resource's job stands on the host: one folder name per identity, whatever text that is."""

from __future__ import annotations

import hashlib
import re
import urllib.parse
from dataclasses import dataclass

from gpuprov.model import Id


@dataclass(frozen=True)
class Slot:
    """The place of one resource's jobs. At most one runs in it at a time.

    >>> Slot(Id("cuda-toolkit:11.7")).folder
    'cuda-toolkit_11.7-95f22b07455d'
    """

    id: Id

    @property
    def folder(self) -> str:
        """The folder's name: letters, digits and ``._-`` only, never hidden, one per id.

        The readable part is for people; the digest keeps ``a/b`` and ``a:b`` apart.
        """
        readable = re.sub(r"[^A-Za-z0-9._-]+", "_", self.id).strip("._-")[:60]
        return f"{readable or 'job'}-{hashlib.sha256(self.id.encode()).hexdigest()[:12]}"


def as_word(text: str) -> str:
    """Return text as one word of a record: never empty, without blanks. `from_word` gives the text back."""
    return "%2D" if text == "-" else urllib.parse.quote(text, safe=":@/+=,") or "-"


def from_word(word: str) -> str:
    """Return the text of `as_word`; anything else comes back as well as it can be read."""
    return "" if word == "-" else urllib.parse.unquote(word, errors="replace")
