"""A large file onto a host, as a job: from what is there, or from mirrors in order. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from gpuprov.digest import digest
from gpuprov.model import Id, Job, Obtain, normal_path
from gpuprov.onhost import script
from gpuprov.quote import command, quote

SCHEMES = ("http", "https", "file")

_DIGEST = {"sha256": re.compile(r"[0-9a-f]{64}"), "md5": re.compile(r"[0-9a-f]{32}")}
# What a URL may be made of; a quote or backslash would end the line of curl's settings that carries it.
_URL = re.compile(r"[!#-\[\]-~]+")


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How much patience a download has; its deadline is the step's.

    Attributes:
        connect: seconds until a connection must stand.
        stall: seconds without a byte after which the line counts as lost.
        pause: seconds before a mirror is tried again; doubled each time up to 30, and reset by progress.
        tries: how often one mirror is tried without getting further.
    """

    connect: int = 20
    stall: int = 60
    pause: int = 1
    tries: int = 6


def check(step: Obtain) -> None:
    """Refuse what could not be fetched, or not be verified.

    Raises:
        ValueError: a digest is missing or not lower-case hex; the path is relative, the root or holds a newline;
            the size is negative; an address is not http, https or file, has no host, or has characters that an
            address cannot have.
    """
    if normal_path(step.path) == "/":
        raise ValueError("path must name a file, not the root folder")
    if not step.sha256 and not step.md5:
        raise ValueError(f"{step.path}: a digest is needed, so that what was fetched can be verified")
    for name, pattern in _DIGEST.items():
        value = getattr(step, name)
        if value and not pattern.fullmatch(value):
            raise ValueError(
                f"{step.path}: {name} must be {pattern.pattern[-3:-1]} digits of lower-case hex: {value!r}"
            )
    if step.size < 0:
        raise ValueError(f"{step.path}: size must not be negative: {step.size}")
    for url in step.sources:
        _source(url)


def _source(url: str) -> str:
    """Return an address as the script takes it: for a file its path, decoded."""
    if not _URL.fullmatch(url):
        raise ValueError(f"an address is made of visible ASCII characters (others as %XX): {url!r}")
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError as error:
        raise ValueError(f"not an address: {url!r}: {error}") from None
    if parts.scheme not in SCHEMES:
        raise ValueError(f"an address begins with http://, https:// or file://, unlike {url!r}")
    if parts.scheme == "file":
        if host not in ("", "localhost") or parts.query or parts.fragment:
            raise ValueError(f"a file's address is file:///path, unlike {url!r}")
        return f"file://{normal_path(unquote(parts.path, errors='strict'), what='path of a file address')}"
    if not host:
        raise ValueError(f"there is no host in {url!r}")
    return url


def settings(step: Obtain, **more: int) -> str:
    """Return the lines that tell a script which file it is about.

    Raises:
        ValueError: see `check`.
    """
    check(step)
    values = {
        "gp_path": normal_path(step.path),
        "gp_size": str(step.size),
        "gp_sha256": step.sha256,
        "gp_md5": step.md5,
        **{f"gp_{name}": str(value) for name, value in more.items()},
    }
    return "\n".join(("set -eu", *(f"{name}={quote(value)}" for name, value in values.items())))


def lock_of(step: Obtain) -> str:
    """Return the name of the lock that every job holds which writes this file."""
    return f"download-{digest(normal_path(step.path))[:12]}"


def slot_of(step: Obtain) -> Id:
    """Return the job slot of a file: one for each path, whichever resource wants it."""
    return Id(f"download:{normal_path(step.path)}")


def job_of(step: Obtain, text: str) -> Job:
    """Return a job that works on the file of a step, alone."""
    return Job(title=step.title, deadline=step.deadline, env=step.env, script=text, locks=frozenset({lock_of(step)}))


def download_job(step: Obtain, *, limits: Limits | None = None) -> Job:
    """Return the job that brings the file to its path. Run again, it goes on from where it was ended.

    How it ends is told by its exit status, see `gpuprov.store.endings.Ended`. With no sources it succeeds only when
    the right file is there already.

    Raises:
        ValueError: see `check`.
    """
    limits = limits or Limits()
    head = settings(step, connect=limits.connect, stall=limits.stall, first=limits.pause, tries=limits.tries)
    mirrors = command("set", "--", *map(_source, step.sources))
    parts = (head, mirrors, *map(script, ("download_common", "download_fetch", "download")))
    return job_of(step, "\n".join(parts))
