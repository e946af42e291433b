"""How bringing a file to a host can end, and what that means in words."""

from __future__ import annotations

import posixpath
from enum import IntEnum
from pathlib import Path
from urllib.parse import urlsplit

from gpuprov.jobs import JobResult
from gpuprov.model import Obtain
from gpuprov.store.cache import default_folder


class Ended(IntEnum):
    """The exit statuses of ``onhost/download.sh`` and its kin. Any other status is not one of theirs."""

    OK = 0
    NO_SOURCES = 70
    NO_TOOL = 71
    NO_WAY = 72
    NOT_FOUND = 73
    PAGE = 74
    TRUNCATED = 75
    WRONG_DIGEST = 76
    REPUBLISHED = 77
    NO_SPACE = 78
    UNWRITABLE = 79
    CERTIFICATE = 80
    DENIED = 81
    SERVER = 82
    DROPPED = 83
    REDIRECTS = 84
    MIXED = 85
    NO_DIGEST_TOOL = 86
    TLS = 87

    @property
    def may_upload(self) -> bool:
        """Whether the sources are at fault, so that the controller's copy would help. The disk never is a source."""
        return self not in (Ended.OK, Ended.NO_SPACE, Ended.UNWRITABLE, Ended.NO_DIGEST_TOOL)


_KEPT = "what came is kept: the same command goes on from there"
_CACHE = "put the file as {cache} on the controller (GPUPROV_CACHE names that folder), and it is sent from there"

# Message, after the file's name; and what to do.
_WORDS: dict[Ended, tuple[str, str]] = {
    Ended.OK: ("is there", ""),
    Ended.NO_SOURCES: ("is not on the host, and there is no address to fetch it from", _CACHE),
    Ended.NO_TOOL: (
        "cannot be fetched: the host has no curl or wget that can do it",
        f"install curl on the host; or {_CACHE}",
    ),
    Ended.NO_WAY: (
        "cannot be fetched: the host gets no way out to {hosts}",
        f"let the host out (https_proxy and http_proxy of its environment count); or {_CACHE}",
    ),
    Ended.NOT_FOUND: (
        "cannot be fetched: {hosts} does not have it",
        "the version or file name may be wrong, or it was withdrawn",
    ),
    Ended.PAGE: (
        "cannot be fetched: an HTML page came from {hosts} instead of the file",
        f"the network may want a login, or the address leads to a download page; or {_CACHE}",
    ),
    Ended.TRUNCATED: (
        "cannot be fetched: it ends too early at {hosts}",
        "a proxy in between may cut large files, or the server has half a file; try another mirror",
    ),
    Ended.WRONG_DIGEST: (
        "was fetched from {hosts}, and is not the file that was asked for ({wanted})",
        "nothing of it was kept; compare the digest with what the publisher says",
    ),
    Ended.REPUBLISHED: (
        "is another file now at more than one mirror than was asked for ({wanted})",
        "it was published anew under the same name, or the digest is wrong; take the new digest from the publisher",
    ),
    Ended.NO_SPACE: ("does not fit on the host", "make room on the mount named above, or choose another folder"),
    Ended.UNWRITABLE: (
        "cannot be written to {folder}",
        "look at permissions, quota and read-only mounts; a curl that came as a snap cannot write outside of homes",
    ),
    Ended.CERTIFICATE: (
        "cannot be fetched: the certificate of {hosts} is not accepted",
        "is the host's clock right (see above)? else install ca-certificates, or the certificate of the proxy",
    ),
    Ended.DENIED: (
        "cannot be fetched: {hosts} refuses to give it",
        "it may want a login, or a proxy that wants one; some servers refuse whole countries",
    ),
    Ended.SERVER: ("cannot be fetched: {hosts} has trouble", "try again later, or another mirror"),
    Ended.DROPPED: (
        "cannot be fetched: the line to {hosts} breaks again and again",
        _KEPT,
    ),
    Ended.REDIRECTS: ("cannot be fetched: {hosts} redirects without end", "the address is wrong or outdated"),
    Ended.MIXED: (
        "cannot be fetched: each address failed for a reason of its own",
        f"see the lines above, one for each; or {_CACHE}",
    ),
    Ended.NO_DIGEST_TOOL: (
        "cannot be checked: the host has no sha256sum or md5sum",
        "install coreutils on the host",
    ),
    Ended.TLS: (
        "cannot be fetched: {hosts} was reached, and no TLS came about with it",
        f"is it a plain http address? then write http:// (what comes is checked by its digest); or {_CACHE}",
    ),
}

_TOLD_BY_ITS_TOOL = (Ended.NO_WAY, Ended.DROPPED, Ended.TLS)
"""Endings of which only the host's tool knows the reason."""


_HOW: dict[str, tuple[str, str]] = {
    "died": ("the job died: its runner was ended from outside, or the host restarted", _KEPT),
    "cancelled": ("the job was cancelled", _KEPT),
    "deadline": ("it did not end before its deadline, and was ended", _KEPT),
    "silent": ("it printed nothing for too long, and was ended", _KEPT),
    "conflict": ("it could not start: its slot is taken by other work", ""),
}


def explain_result(result: JobResult, step: Obtain, cache: Path | None = None) -> tuple[str, str]:
    """Return what the end of a job for the step's file means, and what to do."""
    if result.how in _HOW:
        return _HOW[result.how]
    message, hint = explain(result.status, step, cache)
    if result.status in _TOLD_BY_ITS_TOOL and len(step.sources) == 1 and result.tail:
        # The last line is that of the one mirror: "HOST: why"
        message += f" ({result.tail.splitlines()[-1].partition(': ')[2]})"
    return message, hint


def explain(status: int | None, step: Obtain, cache: Path | None = None) -> tuple[str, str]:
    """Return what a status of the download job means, and what to do: one sentence each; the hint may be empty.

    No address appears in it, only host names: an address may hold a password.

    Args:
        status: of the job; None: it has none.
        step: brings the file.
        cache: the folder of the controller's cache; None: the one that is used by default.
    """
    name = posixpath.basename(step.path.rstrip("/"))
    try:
        message, hint = _WORDS[Ended(status if status is not None else -1)]
    except ValueError:
        how = "without a status" if status is None else f"with status {status}"
        return f"bringing {name} to the host ended {how}", "the last lines of output may say why"
    hosts = tuple(dict.fromkeys(urlsplit(url).hostname or "this host" for url in step.sources))
    return f"{name} " + message.format(
        hosts=" or ".join(hosts) if len(hosts) < 3 else f"any of {len(hosts)} hosts",
        wanted=f"sha256 {step.sha256}" if step.sha256 else f"md5 {step.md5}",
        folder=posixpath.dirname(step.path) or "/",
    ), hint.format(cache=(default_folder() if cache is None else cache).absolute() / name)
