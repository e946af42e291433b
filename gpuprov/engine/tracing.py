"""The way of an error through people's and our own code, for whoever asked to see it."""

from __future__ import annotations

import dataclasses
import traceback

from gpuprov.errors import ErrorRecord, GpuprovError
from gpuprov.role import role_trace


def recorded(error: Exception, *, traced: bool) -> ErrorRecord:
    """Return the record of an error; ``traced``: with its way through a role's code, or through ours if it is a bug."""
    record = ErrorRecord.of(error)
    if not traced or record.output:
        return record
    if not isinstance(error, GpuprovError):
        return dataclasses.replace(record, output="".join(traceback.format_exception(error)))
    # What a role raises on purpose says all itself; what its code met unawares is the cause of what is told
    return dataclasses.replace(record, output=role_trace(error.__cause__) if error.__cause__ is not None else "")
