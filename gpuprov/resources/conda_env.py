"""A conda environment at a path of its own: made whole or not at all, and never ``base``."""

from __future__ import annotations

import json
import posixpath
import re
from dataclasses import dataclass
from typing import ClassVar, Literal, Self, get_args

from gpuprov.digest import digest
from gpuprov.errors import HostFailed, Unseen
from gpuprov.model import Action, Change, Claims, Id, Job, Obtain, Probe, Resource, Step, is_below, normal_path
from gpuprov.onhost import script
from gpuprov.quote import quote
from gpuprov.resources import manifest
from gpuprov.resources.answers import shown

DEADLINE = 2 * 3600.0
"""Seconds for making an environment: a solver may think for long, and mirrors may be slow."""

SILENCE = 1800.0
"""Seconds: conda's own solver prints nothing while it works."""

_PYTHON = re.compile(r"3\.[0-9]{1,2}(\.[0-9]{1,3})?")
# conda's own rules for a spec without ranges: name=version or name=version=build, a channel before "::".
_SPEC = re.compile(
    r"(?:(?P<channel>[A-Za-z0-9][A-Za-z0-9_./:-]*)::)?(?P<name>[a-z0-9_][a-z0-9_.-]*)"
    r"=(?P<version>[0-9A-Za-z][0-9A-Za-z._+!]*)(?:=(?P<build>[0-9A-Za-z][0-9A-Za-z_.]*))?"
)
_CHANNEL = re.compile(r"[A-Za-z0-9/~][^\s@]*")
_EXPLICIT = re.compile(
    r"(?:https?|file)://[^\s#@]*/(?P<name>[^\s/#]+)-(?P<version>[^\s/#-]+)-(?P<build>[^\s/#-]+)\.(?:conda|tar\.bz2)"
    r"#(?:md5:)?(?:[0-9a-f]{32}|(?:sha256:)?[0-9a-f]{64})"
)

StateKind = Literal["absent", "link", "file", "empty", "ours", "base", "conda", "venv", "other"]

_TOGETHER = ("job_head", "manifest_ours", "conda_look", "conda_place")
"""What making and removing have in common."""

_UNKNOWN = "?"
"""The tool of a host that was not looked at: what the environment is to stand in is not there yet."""

_IN_THE_WAY: dict[str, str] = {
    "link": "it is a symbolic link",
    "file": "it is no folder",
    "base": "it is a conda base",
    "conda": "it is an environment that gpuprov did not make",
    "venv": "it is an environment that gpuprov did not make",
    "other": "it holds something else",
}


@dataclass(frozen=True, kw_only=True)
class MicromambaSource:
    """A micromamba for hosts that have no conda.

    Attributes:
        urls: of the plain program, tried in order.
        sha256: of it, in lower-case hex.

    Raises:
        ValueError: a field cannot be what it must be.
    """

    urls: tuple[str, ...]
    sha256: str

    def __post_init__(self) -> None:
        if isinstance(self.urls, str) or not self.urls:
            raise ValueError("urls of micromamba must be a tuple of at least one URL")
        if not re.fullmatch(r"[0-9a-f]{64}", self.sha256):
            raise ValueError(f"sha256 of micromamba must be 64 lower-case hex digits, not {self.sha256!r}")


@dataclass(frozen=True, kw_only=True)
class CondaEnvState:
    """What stands at the path.

    Attributes:
        tool: the program that would make an environment; empty: there is none.
        left: names of what an attempt that was cut off left beside the path.
        look: what the manifest says, and what is damaged, of ``ours``.
    """

    kind: StateKind
    tool: str = ""
    left: tuple[str, ...] = ()
    look: manifest.Look | None = None


@dataclass(frozen=True, kw_only=True)
class CondaEnv(Resource[CondaEnvState]):
    """A conda environment. What is declared below its path, and pip packages in it, stand inside it.

    It is made by the host's own micromamba, mamba or conda, with the host's ``.condarc``, which is read and never
    written; terms of service are accepted for nobody. ``manifest.json`` at its top is the mark of completion and the
    proof that it is ours. Anything else at the path is an error and stays; with ``present=False`` only ours is removed.

    When what it was made from changes, or a conda package in it is damaged, it is made anew at the same path, as an
    environment works nowhere else. The former one is moved aside meanwhile, and comes back when that fails.

    Attributes:
        path: absolute; its identity.
        python: ``3.10.13``, or ``3.10`` for the newest of these.
        packages: exact, ``name=version`` or ``name=version=build``. pip is always there.
        channels: in order of preference, and no others; empty: what the host is configured for.
        explicit: URLs with their sums (``conda list --explicit --md5``), instead of packages and channels.
        tool: path of the program to use; empty: decided on the host.
        bases: paths of the conda installations that are there. None of them can be the environment.
        micromamba: what to use where there is no tool; None: that is an error.
        cache: folder on the host for downloaded packages.

    Raises:
        ValueError: a field cannot be what it must be.
    """

    kind: ClassVar[str] = "conda-env"
    holds: ClassVar[bool] = True

    path: str
    python: str
    packages: tuple[str, ...] = ()
    channels: tuple[str, ...] = ()
    explicit: tuple[str, ...] = ()
    tool: str = ""
    bases: tuple[str, ...] = ()
    micromamba: MicromambaSource | None = None
    cache: str = "/var/lib/gpuprov/cache"

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", normal_path(self.path))
        object.__setattr__(self, "cache", normal_path(self.cache, what="cache"))
        object.__setattr__(self, "bases", tuple(normal_path(base, what="bases") for base in self.bases))
        if self.tool:
            object.__setattr__(self, "tool", normal_path(self.tool, what="tool"))
        self._check_path()
        if not _PYTHON.fullmatch(self.python):
            raise ValueError(f"python of {self.path} must be a version such as 3.10 or 3.10.13, not {self.python!r}")
        for what in ("packages", "channels", "explicit", "bases"):
            if isinstance(getattr(self, what), str):
                raise ValueError(f"{what} of {self.path} must be a tuple of texts, not one text")
        self._check_packages()

    @property
    def id(self) -> Id:
        """``conda-env:/path``."""
        return Id(f"{self.kind}:{self.path}")

    @property
    def inputs(self) -> str:
        """Digest of what decides the content. Which tool makes it, and where packages are cached, does not."""
        return digest(
            {
                "python": self.python,
                "packages": sorted(self.packages),
                "channels": self.channels,
                "explicit": sorted(self.explicit),
            }
        )

    @property
    def minor(self) -> str:
        """The Python as folders name it: ``3.10``."""
        return ".".join(self.python.split(".")[:2])

    @property
    def site_packages(self) -> str:
        """Where its Python packages lie."""
        return f"{self.path}/lib/python{self.minor}/site-packages"

    def probe(self) -> Probe[CondaEnvState]:
        """What stands at the path; of ours, whether its Python and each conda package's record are there."""
        return Probe(script=f"{self._variables()}{script('conda_look')}\ngp_conda_look\n", parse=_parse)

    def plan(self, now: CondaEnvState | None) -> Change | None:
        """Compare.

        Raises:
            HostFailed: something stands at the path that is not ours, or the host has no tool to make an environment.
        """
        if now is None:
            now = CondaEnvState(kind="absent", tool=_UNKNOWN)
        if now.kind == "ours":
            return self._plan_ours(now)
        if now.kind in _IN_THE_WAY and not self._is_half_made(now):
            if not self.present:
                raise HostFailed(
                    f"{self.path} is not removed: {_IN_THE_WAY[now.kind]}",
                    hint=f"look at {self.path} on the host, and remove it there if nobody needs it",
                )
            raise self._in_the_way(_IN_THE_WAY[now.kind])
        before = "half-made" if self._is_half_made(now) else "an empty folder" if now.kind == "empty" else "absent"
        if self.present:
            return self._make("create", now, before)
        return self._remove(before if before == "half-made" else "leftovers") if now.left else None

    def claims(self) -> Claims:
        """The tree, and the folder of the cache, which is not backed up and stays."""
        return Claims(paths=frozenset({self.path, self.cache} if self.present else {self.path}))

    def merge(self, other: Self) -> Self | None:
        """The same environment, declared at times when other conda installations were known."""
        mine, theirs = dict(self.desired()), dict(other.desired())
        same = all(mine[name] == theirs[name] for name in mine if name != "bases")
        return self if same else None

    # --- checks -----------------------------------------------------------------------------

    def _check_path(self) -> None:
        if self.path.count("/") < 2:
            raise ValueError(f"path must be a folder below another one, not {self.path}")
        if ":" in self.path:
            raise ValueError(f"path must not hold a colon, which PATH cannot hold either: {self.path!r}")
        for base in self.bases:
            if self.path == base:
                raise ValueError(f"{base} is a conda base, which is never touched; give the environment another path")
            if is_below(base, self.path):
                raise ValueError(f"path {self.path} holds the conda base {base}; give the environment another path")
            if is_below(self.path, base) and not is_below(self.path, f"{base}/envs"):
                raise ValueError(f"path {self.path} lies in the conda base {base}; its place is below {base}/envs")

    def _check_packages(self) -> None:
        for spec in self.packages:
            found = _SPEC.fullmatch(spec)
            if not found:
                raise ValueError(f"packages must be exact, as name=version or name=version=build are: {spec!r}")
            if found["name"] == "python":
                raise ValueError(f"the version of Python is given as python, not among the packages: {spec!r}")
        for channel in self.channels:
            if not _CHANNEL.fullmatch(channel):
                raise ValueError(f"channels must be names or URLs without a password, not {channel!r}")
        if not self.explicit:
            return
        if self.packages or self.channels:
            raise ValueError("explicit stands instead of packages and channels")
        pythons = []
        for line in self.explicit:
            found = _EXPLICIT.fullmatch(line)
            if not found:
                raise ValueError(f"explicit must hold URLs of conda packages, each with # and its sum: {line!r}")
            if found["name"] == "python":
                pythons.append(found["version"])
        if len(pythons) != 1 or not f"{pythons[0]}.".startswith(f"{self.python}."):
            raise ValueError(f"explicit must name one Python {self.python}; it names {', '.join(pythons) or 'none'}")

    # --- plans ------------------------------------------------------------------------------

    def _plan_ours(self, now: CondaEnvState) -> Change | None:
        assert now.look is not None
        head = now.look.head
        if head is None:
            raise self._in_the_way("its manifest.json cannot be read, so that it is not known whose it is")
        if head.id != self.id:
            raise self._in_the_way(f"gpuprov made it as {head.id}, and an environment cannot be moved or copied")
        before = head.release or "an environment"
        if not self.present:
            return self._remove(before)
        gone = "what was put into it by hand goes with the former one"
        if now.look.damaged:
            return self._make("replace", now, f"{before}, damaged", f"{now.look.words()}; {gone}", force=True)
        if head.inputs != self.inputs:
            return self._make("replace", now, before, f"it was made from another list of packages; {gone}")
        if now.left:
            return self._make(
                "update", now, f"{before}, leftovers", "something was left beside it by an attempt that was cut off"
            )
        return None

    def _is_half_made(self, now: CondaEnvState) -> bool:
        return now.kind in ("conda", "venv", "other", "base") and self._mark in now.left

    @property
    def _mark(self) -> str:
        return f".gpuprov-{posixpath.basename(self.path)}.making"

    def _in_the_way(self, why: str) -> HostFailed:
        return HostFailed(
            f"{self.path} is left alone: {why}; give the environment another path",
            hint=f"look at {self.path} on the host and move it away, or choose another name or prefix",
        )

    # --- steps ------------------------------------------------------------------------------

    def _make(self, action: Action, now: CondaEnvState, before: str, why: str = "", *, force: bool = False) -> Change:
        steps: list[Step] = []
        fallback = ""
        if now.tool in ("", _UNKNOWN) and self.micromamba and not self.tool:
            fallback = f"{self.cache}/micromamba-{self.micromamba.sha256[:12]}"
            steps.append(
                Obtain(
                    title="obtain micromamba",
                    key=f"micromamba:{self.micromamba.sha256}",
                    path=fallback,
                    sources=self.micromamba.urls,
                    sha256=self.micromamba.sha256,
                )
            )
        elif not now.tool:
            raise self._no_tool()
        text = self._variables(
            gp_inputs=self.inputs,
            gp_force="yes" if force else "",
            gp_fallback=fallback,
            gp_cache=self.cache,
            gp_python=self.python,
            gp_specs="\n".join(self._specs()),
            gp_channels="\n".join(self.channels),
            gp_explicit="\n".join(self.explicit),
            gp_id=self.id,
        )
        steps.append(
            Job(
                title=f"make the conda environment {self.path}",
                script=text + "\n".join(map(script, (*_TOGETHER, "conda_create"))),
                own_words=True,
                deadline=DEADLINE,
                silence=SILENCE,
                locks=frozenset({"conda"}),
            )
        )
        packages = len(self.explicit) or len(self.packages)
        after = f"Python {self.python}" + (f" and {packages} conda packages" if packages else "")
        return Change(action=action, before=before, after=after, why=why, steps=tuple(steps))

    def _no_tool(self) -> HostFailed:
        what = f"{self.tool} is not there" if self.tool else "there is no micromamba, mamba or conda on this host"
        return HostFailed(
            f"{self.path} cannot be made: {what}", hint="let gpuprov bring a micromamba: give its URL and its sha256"
        )

    def _remove(self, before: str) -> Change:
        job = Job(
            title=f"remove the conda environment {self.path}",
            script=self._variables() + "\n".join(map(script, (*_TOGETHER, "conda_remove"))),
            own_words=True,
            locks=frozenset({"conda"}),
        )
        return Change(action="remove", before=before, after="absent", steps=(job,))

    def _specs(self) -> list[str]:
        """What the tool is asked for. ``=`` would let 1.2 be 1.2.3, which only Python's X.Y is to mean."""
        if self.explicit:
            return []
        specs = [f"python{'=' if self.python.count('.') == 1 else '=='}{self.python}"]
        names = set()
        for spec in self.packages:
            found = _SPEC.fullmatch(spec)
            assert found is not None
            names.add(found["name"])
            specs.append(spec if found["build"] else spec.replace("=", "==", 1))
        return specs if "pip" in names else [*specs, "pip"]

    def _variables(self, **more: str) -> str:
        words = {
            "gp_path": self.path,
            "gp_tool": self.tool,
            "gp_bases": "\n".join(self.bases),
            "gp_own": f'"id": {json.dumps(self.id)},',
            **more,
        }
        return "".join(f"{name}={quote(value)}\n" for name, value in words.items())


def _parse(data: bytes) -> CondaEnvState | None:
    lines = shown(data).split("\n")
    if "end" not in lines:
        raise Unseen("the look at the environment was cut short")
    pairs = [line.partition(" ")[::2] for line in lines]
    said = dict(reversed(pairs))
    kind = said.get("state", "")
    if kind not in get_args(StateKind):
        raise Unseen(f"the look at the environment said {kind[:40]!r}, which is no state")
    return CondaEnvState(
        kind=kind,
        tool=said.get("tool", ""),
        left=tuple(rest for word, rest in pairs if word == "left"),
        look=manifest.parse_look(data) if kind == "ours" else None,
    )
