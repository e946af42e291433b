"""A Python package in a conda environment, in one exact version, put there by the environment's own pip."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

from packaging.utils import NormalizedName, canonicalize_name
from packaging.version import InvalidVersion, Version

from gpuprov.digest import digest
from gpuprov.errors import Unseen
from gpuprov.model import Change, Claims, Id, Job, Member, Probe, Resource
from gpuprov.onhost import script
from gpuprov.quote import quote
from gpuprov.resources.answers import shown
from gpuprov.resources.conda_env import CondaEnv

DEADLINE = 3 * 3600.0
"""Seconds for one transaction: gigabytes of wheels, and sources that are built."""

SILENCE = 1800.0
"""Seconds: pip prints nothing while it downloads or builds one package."""

_NAME = re.compile(r"[A-Za-z0-9]|[A-Za-z0-9][A-Za-z0-9._-]*[A-Za-z0-9]")
_HASH = re.compile(r"sha256:[0-9a-f]{64}|sha384:[0-9a-f]{96}|sha512:[0-9a-f]{128}")
_ITEM = re.compile(
    r"-[a-z0-9][a-z0-9-]*"
    r"|!?[a-z0-9][a-z0-9-]*(?:\[[a-z0-9,-]+\])?={2,3}[0-9][0-9A-Za-z.+!]*(?: --hash=[a-z0-9]+:[0-9a-f]+)*"
)
_INDEX = re.compile(r"(?:https?|file)://[^\s@'\"\\]+")


@dataclass(frozen=True, kw_only=True)
class Copy:
    """One record of the package in the environment.

    Attributes:
        version: as its folder says; may be none by PEP 440.
        fault: why it does not count as whole, in words; empty when it does.
    """

    version: str
    fault: str = ""


@dataclass(frozen=True, kw_only=True)
class PipState:
    """What the environment knows of the package; never empty. More than one copy is damage."""

    copies: tuple[Copy, ...]

    @property
    def words(self) -> str:
        """The versions, and what is wrong with them."""
        each = [copy.version + (f" ({copy.fault})" if copy.fault else "") for copy in self.copies]
        return " and ".join(each)

    @property
    def damage(self) -> str:
        """Why it must be put right whatever its version; empty when it need not."""
        if len(self.copies) > 1:
            return "it is installed more than once, so that its files are mixed"
        return f"its {self.copies[0].fault}" if self.copies[0].fault else ""


@dataclass(frozen=True, kw_only=True)
class PipTransaction:
    """One run of pip in an environment; called with items, it is the job that brings them about.

    An item is a requirement line; ``!`` and a requirement line, when what is there must go first; or ``-`` and a name
    that is to be removed.
    """

    path: str
    cache: str
    index: str = ""
    extra_index: str = ""

    def __call__(self, items: tuple[str, ...]) -> Job:
        """Return the job.

        Raises:
            ValueError: there are no items, or one is of no known form.
        """
        wanted = sorted(set(items))
        if not wanted:
            raise ValueError("a pip transaction must have items")
        for item in wanted:
            if not _ITEM.fullmatch(item):
                raise ValueError(f"a pip item must be name==version, with ! before it, or -name, not {item!r}")
        gone = [item[1:] for item in wanted if item.startswith("-")]
        lines = [item.removeprefix("!") for item in wanted if not item.startswith("-")]
        names = gone + [_name_of(line) for line in lines]
        variables = {
            "gp_path": self.path,
            "gp_wanted": "\n".join(line.partition(" ")[0] for line in lines),
            "gp_hashed": "\n".join(line for line in lines if " --hash=" in line),
            "gp_repair": "\n".join(item[1:] for item in wanted if item.startswith("!")),
            "gp_gone": "\n".join(gone),
            "gp_index": self.index,
            "gp_extra": self.extra_index,
            "gp_cache": self.cache,
        }
        text = "".join(f"{name}={quote(value)}\n" for name, value in variables.items())
        cases = "".join(f'{name}) shift; "$@" {_globs(canonicalize_name(name))} ;;\n' for name in sorted(set(names)))
        shown_items = ", ".join(item.removeprefix("!").partition(" ")[0] for item in wanted)
        return Job(
            title=f"pip in {self.path}: {shown_items}",
            script=f"{text}gp_globs() {{ case $1 in\n{cases}esac; }}\n{script('job_head')}{script('pip_transaction')}",
            own_words=True,
            deadline=DEADLINE,
            silence=SILENCE,
            locks=frozenset({f"pip-{digest(self.path)[:16]}"}),
        )


@dataclass(frozen=True, kw_only=True)
class PipPackage(Resource[PipState]):
    """A package of an environment, in exactly one version.

    All that are ready together, in one environment and from one index, become one run of pip (`PipTransaction`), so
    that their requirements are resolved together.

    A wanted version with a local label (``1.13.1+cu117``) is that build and no other. One without is met by a labelled
    one only where an index is given, since then that index decides which build the plain version means. Otherwise it
    is the build without a label, whatever else the host's own index or links offer; pip is asked with ``===`` for it,
    so that the version must be written as it was published (1.13.0 is not 1.13).

    Attributes:
        env: the environment it stands in.
        name: in any spelling; its identity is the normalised one.
        version: exact, by PEP 440.
        index: URL to use instead of the host's own; None: what the host's pip is configured for, or PyPI.
        extra_index: URL to use beside that.
        hashes: ``sha256:…`` of the files that are allowed. When all packages of a run have some, what they require must
            be among them, with hashes too: that is pip's rule.
        extras: such as ``("test",)``.

    Raises:
        ValueError: a field cannot be what it must be.
    """

    kind: ClassVar[str] = "pip"
    inside: ClassVar[str | None] = "env"

    env: CondaEnv
    name: str
    version: str = ""
    index: str | None = None
    extra_index: str | None = None
    hashes: tuple[str, ...] = ()
    extras: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ValueError(f"name must be a Python package's, such as torch: {self.name!r}")
        object.__setattr__(self, "name", str(canonicalize_name(self.name)))
        if self.present or self.version:
            try:
                object.__setattr__(self, "version", str(Version(self.version)))
            except InvalidVersion:
                raise ValueError(
                    f"version of {self.name} must be exact, such as 1.13.1, not {self.version!r}"
                ) from None
        if not self.present and (self.version or self.hashes or self.extras):
            raise ValueError(f"version, hashes and extras of {self.name} have no meaning when it is to be absent")
        for what in ("hashes", "extras"):
            if isinstance(getattr(self, what), str):
                raise ValueError(f"{what} of {self.name} must be a tuple of texts, not one text")
        for value in self.hashes:
            if not _HASH.fullmatch(value):
                raise ValueError(f"hashes of {self.name} must be sha256: and 64 lower-case hex digits, not {value!r}")
        for extra in self.extras:
            if not _NAME.fullmatch(extra):
                raise ValueError(f"extras of {self.name} must be names, not {extra!r}")
        for url in filter(None, (self.index, self.extra_index)):
            if not _INDEX.fullmatch(url):
                raise ValueError(
                    f"index of {self.name} must be a URL without a password (that belongs into the host's own pip "
                    f"configuration): {url.rpartition('@')[2]!r}"
                )
        object.__setattr__(self, "hashes", tuple(sorted(set(self.hashes))))
        object.__setattr__(self, "extras", tuple(sorted({str(canonicalize_name(extra)) for extra in self.extras})))

    @property
    def id(self) -> Id:
        """``pip:/path/of/env/name``."""
        return Id(f"{self.kind}:{self.env.path}/{self.name}")

    @property
    def pip_cache(self) -> str:
        """What pip keeps of its downloads and builds lies there."""
        return f"{self.env.cache}/pip"

    @property
    def place(self) -> str | None:
        """None: its files lie among others'."""
        return None

    def probe(self) -> Probe[PipState]:
        """The names of the folders that pip keeps its records in. Deep: every file against its RECORD."""
        site, globs = quote(self.env.site_packages), _globs(canonicalize_name(self.name))
        text = f"gp_site={site}\n{script('pip_look')}gp_pip_show {globs}\n"
        return Probe(script=f"{text}echo end\n", parse=self._parse, deep=f"{text}{self._verify()}\necho end\n")

    def plan(self, now: PipState | None) -> Change | None:
        """Compare."""
        if now is None:
            return self._change(None, self._requirement()) if self.present else None
        if not self.present:
            return self._change(now, f"-{self.name}")
        if now.damage:
            return self._change(now, f"!{self._requirement()}", why=now.damage)
        found = now.copies[0].version
        if self.is_met_by(found):
            return None
        return self._change(now, self._requirement())

    def claims(self) -> Claims:
        """The environment, and pip's folder of the cache, whose files are not backed up and stay."""
        here = {self.env.path}
        return Claims(paths=frozenset(here | {self.pip_cache} if self.present else here))

    def is_met_by(self, found: str) -> bool:
        """Say whether a version that is there is the wanted one."""
        try:
            have = Version(found)
        except InvalidVersion:
            return False
        want = Version(self.version)
        if want == have:
            return True
        return want.local is None and Version(have.public) == want and bool(self.index or self.extra_index)

    def _requirement(self) -> str:
        extras = f"[{','.join(self.extras)}]" if self.extras else ""
        hashes = "".join(f" --hash={value}" for value in self.hashes)
        # To "==" a plain version is met by any build of it.
        plain = "+" not in self.version and not (self.index or self.extra_index)
        return f"{self.name}{extras}{'===' if plain else '=='}{self.version}{hashes}"

    def _change(self, now: PipState | None, item: str, why: str = "") -> Change:
        wanted = f"{self.name}=={self.version}"
        step = Member(
            title=f"pip install {wanted}" if self.present else f"pip uninstall {self.name}",
            deadline=DEADLINE,
            group=f"pip:{self.env.path}#{self.index or ''}#{self.extra_index or ''}",
            separable=False,
            item=item,
            join=PipTransaction(
                path=self.env.path,
                cache=self.env.cache,
                index=self.index or "",
                extra_index=self.extra_index or "",
            ),
        )
        return Change(
            action="remove" if not self.present else "update" if now else "create",
            before=now.words if now else "absent",
            after=self.version if self.present else "absent",
            why=why,
            steps=(step,),
        )

    def _verify(self) -> str:
        return f"gp_py={quote(self.env.path)}/bin/python gp_package={quote(self.name)}\n{script('pip_verify')}"

    def _parse(self, data: bytes) -> PipState | None:
        lines = shown(data).split("\n")
        if "end" not in lines:
            raise Unseen("the look at the environment's packages was cut short")
        copies: list[Copy] = []
        broken = ""
        for line in lines[: lines.index("end")]:
            word, _, rest = line.partition(" ")
            flags, _, folder = rest.partition(" ")
            if word == "broken":
                broken = f"files are not whole: {rest[:80]}"
            elif word == "dist" and (version := self._version_of(folder)) is not None:
                copies.append(Copy(version=version, fault=_fault(flags)))
        if len(copies) == 1 and broken and not copies[0].fault:
            copies = [Copy(version=copies[0].version, fault=broken)]
        return PipState(copies=tuple(copies)) if copies else None

    def _version_of(self, folder: str) -> str | None:
        """Return the version in a folder's name; None: it is another package's."""
        stem, _, suffix = folder.rpartition(".")
        if suffix == "egg-info":
            stem = re.sub(r"-py3\.[0-9]+$", "", stem)
        name, _, version = stem.rpartition("-")
        if not name:
            name, version = stem, "an unknown version"
        return version if canonicalize_name(name) == self.name else None


def _name_of(requirement: str) -> str:
    return requirement.partition("==")[0].partition("[")[0]


def _fault(flags: str) -> str:
    if "e" in flags:
        return ""
    missing = [name for flag, name in (("r", "RECORD"), ("m", "METADATA")) if flag not in flags]
    return f"{' and '.join(missing)} is missing" if missing else ""


def _globs(name: NormalizedName) -> str:
    """Return shell words that match the records of a package in ``$gp_site``, however its name was spelt."""
    letters = "".join("[-_.]" if c == "-" else f"[{c}{c.upper()}]" if c.isalpha() else c for c in name)
    patterns = (
        f"{letters}-[0-9]*.dist-info",
        f"{letters}-[0-9]*.egg-info",
        f"{letters}.egg-info",
        f"{letters}.egg-link",
    )
    return " ".join(f'"$gp_site"/{pattern}' for pattern in patterns)
