"""What can go wrong with a download, as values."""

from __future__ import annotations

from dataclasses import dataclass

PAGE = (
    b"<!DOCTYPE html>\n<html><head><title>Sign in</title></head><body><p>Please sign in to go on.</p></body></html>\n"
)


@dataclass(frozen=True, kw_only=True)
class Fault:
    """How the site misbehaves on one path. Parts can be put together: `Fault(ranges=False, drop_every=100_000)`.

    Attributes:
        status: answer with an error page of this status (404, 503).
        html: answer 200 with an HTML page in place of the file, as captive portals do.
        redirect_loop: answer 302 to the same path, each time.
        ends_at: the file ends after so many bytes, and the answer says so: shorter than it should be.
        cut_at: the whole length is promised, and the connection closed after this offset of the file; a resumed
            download gets no further.
        drop_every: the connection is closed after so many bytes of each answer; a resumed download gets on.
        stall_at: nothing comes any more after this offset of the file, and the connection stays open.
        reset: connections are closed by RST, not by FIN; a client may then lose what it had not read yet.
        corrupt: right size, wrong bytes: the middle 512 of each 64 KiB.
        ranges: whether resuming is possible; without, every answer is the whole file.
        rate: bytes per second of each answer.
        times: requests (HEAD too) after which the path is well again; None: as long as the fault is set.
    """

    status: int | None = None
    html: bool = False
    redirect_loop: bool = False
    ends_at: int | None = None
    cut_at: int | None = None
    drop_every: int | None = None
    stall_at: int | None = None
    reset: bool = False
    corrupt: bool = False
    ranges: bool = True
    rate: int | None = None
    times: int | None = None


NONE = Fault()
