"""A package of the distribution (Debian, Ubuntu)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar, Self

from gpuprov.errors import HostFailed, Unseen
from gpuprov.model import Change, Claims, Id, Job, Member, Probe, Resource
from gpuprov.onhost import script
from gpuprov.quote import quote
from gpuprov.resources import answers

PROTECTED_APT: tuple[str, ...] = (
    "python3*",
    "libpython3*",
    "*protobuf*",
    "nvidia-*",
    "libnvidia-*",
    "cuda-drivers*",
    "libcuda1",
    "openssh-server",
    "sudo",
)
"""Shell patterns of packages that no transaction may upgrade, downgrade or remove. A new one may come in."""

NEVER_DOWNGRADED: tuple[str, ...] = ("libc6", "libc-bin", "libstdc++6", "libgcc-s1")
"""Shell patterns of packages that may be upgraded, but by no request downgraded."""

LOCK_WAIT = 600
"""Seconds that a transaction waits for another one (unattended-upgrades) to let go of apt's locks."""

# https://www.debian.org/doc/debian-policy/ch-controlfields.html, 5.6.1 (Source) and 5.6.12 (Version).
# A name ending in "-" is legal there, but to apt-get it means: remove the package without it.
_NAME = re.compile(r"(?P<name>[a-z0-9][a-z0-9+.-]*[a-z0-9+.])(?P<arch>:[a-z0-9][a-z0-9-]*)?")
_VERSION = re.compile(r"([0-9]+:)?[0-9][A-Za-z0-9.+~-]*")

_BROKEN = {"H": "half-installed", "U": "unpacked, not configured", "F": "half-configured"}


@dataclass(frozen=True, kw_only=True)
class AptState:
    """A package that dpkg knows as more than a leftover of configuration files.

    Attributes:
        version: with epoch and revision, as dpkg writes it.
        held: marked so that apt must not change it.
        broken: in words, why it does not count as installed; empty when it does.
    """

    version: str
    architecture: str
    held: bool = False
    broken: str = ""


@dataclass(frozen=True, kw_only=True)
class AptPackage(Resource[AptState]):
    """A package is installed, in some version or in exactly one.

    All packages that are ready at the same time become one transaction (`apt_transaction`).

    Attributes:
        name: such as ``gcc-11`` or ``libc6:i386``.
        version: exact, such as ``1:11.4.0-1ubuntu1~22.04``; None: any.

    Raises:
        ValueError: the name or version is none by Debian's rules.
    """

    kind: ClassVar[str] = "apt"

    name: str
    version: str | None = None

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ValueError(
                f"name must be a package's, lower-case letters, digits and +-. as in gcc-11: {self.name!r}"
            )
        if self.version is not None and not _VERSION.fullmatch(self.version):
            raise ValueError(f"version of {self.name} must be a Debian version, as 1:11.4.0-1 is: {self.version!r}")
        if self.version is not None and not self.present:
            raise ValueError(f"version of {self.name} has no meaning when the package is to be absent")

    @property
    def id(self) -> Id:
        """``apt:name``."""
        return Id(f"{self.kind}:{self.name}")

    def probe(self) -> Probe[AptState]:
        """What dpkg says."""
        return Probe(parse=_parse, asks=(("dpkg", self.name),))

    def plan(self, now: AptState | None) -> Change | None:
        """Compare presence and version.

        Raises:
            HostFailed: the package is held and would have to change.
        """
        if not self.present:
            if now is None:
                return None
            return self._change("remove", now, "absent")
        if now and not now.broken and self.version in (None, now.version):
            return None
        return self._change("update" if now else "create", now, self.version or "installed")

    def claims(self) -> Claims:
        """The package. What comes with it is judged by the transaction's own simulation."""
        return Claims(apt=frozenset({self.name}))

    def merge(self, other: Self) -> Self | None:
        """The same package with a version and without one: the one with it."""
        if self.present != other.present or self.name != other.name:
            return None
        if self.version is None or other.version is None:
            return other if self.version is None else self
        return self if self.version == other.version else None

    def _change(self, action: str, now: AptState | None, after: str) -> Change:
        if now and now.held:
            raise HostFailed(
                f"package {self.name} is held at {now.version}, and {after} is wanted",
                hint=f"drop the wish, or let go of it on the host: apt-mark unhold {self.name}",
            )
        item = self.name if self.present else f"{self.name}-"
        if self.present and self.version:
            item = f"{self.name}={self.version}"
        before = "absent" if now is None else f"{now.version} ({now.broken})" if now.broken else now.version
        title = f"{'install' if self.present else 'remove'} {item.removesuffix('-')}"
        step = Member(title=title, deadline=3600.0, group="apt", item=item, join=apt_transaction)
        return Change(
            action="create" if action == "create" else "remove" if action == "remove" else "update",
            before=before,
            after=after,
            steps=(step,),
        )


def apt_transaction(items: tuple[str, ...]) -> Job:
    """Return the one job that installs and removes ``items``, each ``name``, ``name=version`` or ``name-``.

    It waits for apt's locks, refreshes the lists only when needed, simulates, prints what would happen,
    refuses what was not asked for or is protected, and only then acts. Its statuses and words are
    described in ``onhost/apt_transaction.sh``.

    Raises:
        ValueError: there are no items, or one is not of these forms.
    """
    wanted = sorted(set(items))
    if not wanted:
        raise ValueError("an apt transaction must have items")
    for item in wanted:
        name, _, version = item.removesuffix("-").partition("=")
        if not _NAME.fullmatch(name) or (version and not _VERSION.fullmatch(version)) or item.endswith("="):
            raise ValueError(f"an apt item must be name, name=version or name-, not {item!r}")
    variables = {
        "gp_items": wanted,
        "gp_protected": PROTECTED_APT,
        "gp_never_downgraded": NEVER_DOWNGRADED,
        "gp_lock_wait": [str(LOCK_WAIT)],
    }
    lines = [f"{name}={quote(' '.join(words))}\n" for name, words in variables.items()]
    return Job(
        title=f"apt: {', '.join(wanted)}",
        script="".join(lines) + script("job_head") + script("apt_transaction"),
        own_words=True,
        silence=LOCK_WAIT + 300.0,
        locks=frozenset({"apt"}),
    )


def _parse(data: bytes) -> AptState | None:
    (answer,), _ = answers.split(data, 1)
    if answer is None:
        return None
    status, version, architecture = (*answers.shown(answer).split("|"), "", "")[:3]
    # dpkg's abbreviation: what is wanted, what is, and R when it must be installed again.
    want, state, error = status[:1], status[1:2], status[2:3]
    if not want or want not in "uihrp" or not state or state not in "ncHUFWti":
        raise Unseen(f"dpkg answered {answers.shown(answer)[:80]!r}, which is no state of a package")
    if state in "nc":
        return None
    broken = "must be installed again" if error == "R" else _BROKEN.get(state, "")
    return AptState(version=version, architecture=architecture, held=want == "h", broken=broken)
