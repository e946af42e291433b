"""The one digest: canonical JSON, sha256. Artifact keys, job digests and manifests all use it."""

from __future__ import annotations

import hashlib
import json
from typing import Any


def canonical(value: Any) -> bytes:
    """Return the one JSON spelling of plain data: sorted keys, no blanks, UTF-8.

    Raises:
        TypeError: the value holds something JSON has no word for (a `gpuprov.secret.Secret` among them).
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def digest(value: Any) -> str:
    """Return the sha256 of the canonical JSON, in lower-case hex."""
    return hashlib.sha256(canonical(value)).hexdigest()
