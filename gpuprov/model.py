"""The core types: what a host should have, how to look, and how to make it so.

Everything here is a value. A resource never prints and never talks to a host; it says which probe
reads its state (`Resource.probe`), what would have to change (`Resource.plan`), what it may write
(`Resource.claims`) and what must be there first (`Resource.needs`). The engine does the rest.
"""

from __future__ import annotations

import dataclasses
import posixpath
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Literal, NewType, Self, TypeVar

from gpuprov.secret import Secret

S = TypeVar("S")

Id = NewType("Id", str)
"""The explicit identity of a resource on one host: ``kind:name``, such as ``cuda-toolkit:11.7``."""


@dataclass(frozen=True, kw_only=True)
class Paths:
    """Where gpuprov keeps things on a host. Empty: decided on the host (see ``docs/architecture.md``)."""

    toolkits: str = "/usr/local"
    envs: str = ""
    cache: str = ""
    state: str = ""


# --- looking ---------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Probe(Generic[S]):
    """A look at a host that changes nothing.

    Attributes:
        script: read-only POSIX sh, well under a second; may be empty when ``asks`` say it all. Its
            stdin is empty and it runs with ``LC_ALL=C``.
        parse: gets one line for each of ``asks``, in their order, and then what the script printed.
            Returns None for absent. Absence is said by output with status 0: a script that ends with
            another status could not look, and the engine makes that `Unseen` before parse is called.
        asks: ``(command, argument)`` pairs, where the command is one of `ASK_COMMANDS`. All probes of a
            host share one process per command. The answer is one line: ``-`` for absent.
        deep: the thorough look, which reads everything; None when there is no difference. No command asks for it yet.
    """

    script: str = ""
    parse: Callable[[bytes], S | None]
    asks: tuple[tuple[str, str], ...] = ()
    deep: str | None = None


ASK_COMMANDS: Mapping[str, str] = {
    "stat": "type|mode|uid|gid|user|group|size|mtime|ctime|inode of a path itself, links not followed; "
    "type is GNU stat's %F in the C locale, mode octal, times in seconds",
    "sha256sum": "the sha256 of a regular file, links not followed, in lower-case hex",
    "readlink": "the target of a symbolic link",
    "dpkg": "status|version|architecture of a package; status is dpkg's abbreviation, such as 'ii ' or 'hi '",
    "real": "the path with the links of the folders above it resolved; it need not exist, nor they",
    "write": "above: the nearest folder above the path that is there can be written; theirs: likewise, and what stands "
    "at the path is another's; folder or file: only what stands at the path, being that, is the user's or can be "
    "written; no: neither, or a sticky folder keeps it for its owner",
    "have": "the path of a command on the probing shell's PATH",
}
"""What a probe may ask for without a process of its own, and the line that answers it."""


# --- changing --------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Step:
    """One thing to do on a host. ``deadline`` is in seconds from the moment it begins there.

    ``env`` is given to the script as environment variables; a `Secret` in it is in no argv, digest or log.
    """

    title: str
    deadline: float = 60.0
    env: Mapping[str, str | Secret] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Run(Step):
    """A short, idempotent script (POSIX sh, ``set -eu`` in force). What may last over two seconds is a `Job`."""

    script: str


@dataclass(frozen=True, kw_only=True)
class Put(Step):
    """Write a file: temporary file on the same file system, mode and owner, sync, rename.

    Attributes:
        mode: permission bits.
        owner, group: names or numbers; empty keeps what the file has, or the writer's for a new one.
    """

    path: str
    content: bytes | Secret
    mode: int
    owner: str = ""
    group: str = ""


@dataclass(frozen=True, kw_only=True)
class Job(Step):
    """A long step that lives on the host by itself; its last line commits by rename.

    Attributes:
        script: POSIX sh, ``set -eu`` in force, started in an empty staging folder that is its working
            directory (``$GPUPROV_WORK``).
        silence: seconds without a byte of output after which it is reported as silent and ended.
        locks: names held while it runs (such as ``apt``), taken in sorted order.
        own_words: the script begins with ``onhost/job_head.sh``: what it says behind its mark makes headline and hint.
            Never with a person's script in it.
    """

    deadline: float = 3600.0
    script: str
    silence: float = 600.0
    locks: frozenset[str] = frozenset()
    own_words: bool = False


@dataclass(frozen=True, kw_only=True)
class Member(Step):
    """One item of a merged transaction. Ready members of one ``group`` become one job: ``join(items)``.

    ``separable``: when the transaction fails its members may be tried singly, so that one bad name fails alone. False
    where they must fit together: a resolver that never sees them together would let them contradict each other.
    """

    group: str
    item: str
    join: Callable[[tuple[str, ...]], Job]
    separable: bool = True


@dataclass(frozen=True, kw_only=True)
class Obtain(Step):
    """Bring an artifact to ``path``: what is there already, mirrors in order, the controller's cache; else build it.

    Attributes:
        key: what it is; the same key is the same artifact, whichever host asks.
        path: the file on the host; it appears by rename, whole and verified.
        sources: URLs, tried in order.
        sha256, md5: in lower-case hex. One of them is needed where there are sources; md5 alone is accepted with a
            warning, and the sha256 that was found is then recorded.
        size: bytes; 0 when not known.
        build: makes it when nowhere to be had, once per key for the fleet.
    """

    deadline: float = 7200.0
    key: str
    path: str
    sources: tuple[str, ...] = ()
    sha256: str = ""
    md5: str = ""
    size: int = 0
    build: Job | None = None


Action = Literal["create", "update", "replace", "remove"]


@dataclass(frozen=True, kw_only=True)
class Change:
    """What is different, and how to make it so.

    Attributes:
        before, after: the state now and then, each in a few words (``absent``, ``0644 root``).
        why: the reason in a sentence, when before and after do not say it.
        diff: unified diff of text, redacted; empty when there is none.
    """

    action: Action
    before: str
    after: str
    why: str = ""
    diff: str = ""
    steps: tuple[Step, ...]


@dataclass(frozen=True, kw_only=True)
class Claims:
    """What a resource may write: judged by the guard before the first step, and what the journal backs up.

    Attributes:
        paths: files, links and folders that may be made, replaced or removed (absolute, normal).
        apt: apt package names that may be installed, upgraded or removed.
        services: services that may be started, stopped or restarted.
    """

    paths: frozenset[str] = frozenset()
    apt: frozenset[str] = frozenset()
    services: frozenset[str] = frozenset()

    def __or__(self, other: Claims) -> Claims:
        return Claims(paths=self.paths | other.paths, apt=self.apt | other.apt, services=self.services | other.services)


def normal_path(path: str, *, what: str = "path") -> str:
    """Return an absolute path in its one spelling: no ``.``, ``..``, doubled or trailing slashes.

    Raises:
        ValueError: the path is relative, empty, or holds a NUL or a newline.
    """
    if not path.startswith("/"):
        raise ValueError(f"{what} must be absolute, not {path!r}")
    if "\0" in path or "\n" in path:
        raise ValueError(f"{what} must not hold a NUL or a newline: {path!r}")
    return "/" + posixpath.normpath(path).lstrip("/")


def is_below(path: str, folder: str) -> bool:
    """Say whether ``path`` lies strictly under ``folder`` (both normal)."""
    return path != folder and path.startswith(folder.rstrip("/") + "/")


@dataclass(frozen=True, kw_only=True)
class Resource(Generic[S]):
    """One thing that a host should have (or, with ``present=False``, should not have).

    A subclass is a frozen, keyword-only dataclass. Fields that hold resources (or tuples of them) are
    its references: they give order, and are left out of equality, so that two declarations which differ
    only there are the same node with the needs of both.
    """

    kind: ClassVar[str]
    inside: ClassVar[str | None] = None
    """The field that names the resource it stands in, such as ``env`` of a pip package."""
    holds: ClassVar[bool] = False
    """Whether what lies under its `place` stands inside it (a folder, a tree)."""

    reports: ClassVar[bool] = False
    """Whether a plan and a run show it also when it is as wanted: a check whose finding is what people came for."""

    present: bool = True
    after: tuple[Resource[Any], ...] = ()
    """Resources that come first, where no other field says so: a file in a folder that a package brings."""

    @property
    def id(self) -> Id:
        """The identity: one node per id on a host."""
        raise NotImplementedError(f"{type(self).__name__} has no id")

    @property
    def place(self) -> str | None:
        """The absolute path at which it stands, its ``path``; None for what is not a file or a tree."""
        path: str | None = getattr(self, "path", None)
        return path

    @property
    def needs_folder(self) -> bool:
        """Whether making it needs the folder above its `place` to be there already."""
        return False

    @property
    def raises_rights(self) -> bool:
        """Whether its steps take rights of their own, beyond those of the connection."""
        return False

    def probe(self) -> Probe[S]:
        """The look that tells its state."""
        raise NotImplementedError(f"{type(self).__name__} has no probe")

    def plan(self, now: S | None) -> Change | None:
        """Compare with what the probe saw (None: absent). None: nothing to do. Pure."""
        raise NotImplementedError(f"{type(self).__name__} has no plan")

    def tell(self, now: S) -> str:
        """The state in a few words, for what is as wanted. By default what making it anew would come to."""
        change = self.plan(None)
        return change.after if change else ""

    def bears(self, need: Resource[Any], now: S | None) -> bool:
        """Whether a change of what it needs may alter the state that was seen; if not, that look stands."""
        return True

    def claims(self) -> Claims:
        """What its steps may write. By default its own path."""
        return Claims(paths=frozenset({self.place})) if self.place else Claims()

    def merge(self, other: Self) -> Self | None:
        """Return the one declaration that satisfies both, or None when they contradict each other."""
        return None

    def needs(self) -> Iterator[Resource[Any]]:
        """The resources among its fields: the only edges, apart from paths."""
        for f in dataclasses.fields(self):
            yield from _resources_in(getattr(self, f.name))

    def container(self) -> Resource[Any] | None:
        """The resource in its ``inside`` field, if that is declared and set."""
        value = getattr(self, self.inside) if self.inside else None
        return value if isinstance(value, Resource) else None

    def desired(self) -> tuple[tuple[str, object], ...]:
        """Its fields without the references: what equality compares."""
        return tuple(
            (f.name, getattr(self, f.name))
            for f in dataclasses.fields(self)
            if not any(_resources_in(getattr(self, f.name)))
        )


def _resources_in(value: object) -> Iterator[Resource[Any]]:
    if isinstance(value, Resource):
        yield value
    elif isinstance(value, tuple | frozenset):
        for item in value:
            yield from _resources_in(item)


# --- judging ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Same:
    """Nothing to do."""


@dataclass(frozen=True)
class Differs:
    """A change is due."""

    change: Change


@dataclass(frozen=True)
class Recheck:
    """A need changes first, so it is looked at again after ``after``; ``now`` is what would be due as things stand."""

    after: tuple[Id, ...]
    now: Change | None


@dataclass(frozen=True)
class Blocked:
    """It cannot be judged or done.

    Attributes:
        because: a sentence.
        unseen: the probe could not look.
        output, hint: what explains it, and what to do, where there is any.
    """

    because: str
    unseen: bool = False
    output: str = ""
    hint: str = ""


Verdict = Same | Differs | Recheck | Blocked

OutcomeKind = Literal["same", "changed", "failed", "skipped", "not-selected", "unseen"]


@dataclass(frozen=True)
class Outcome:
    """How a node ended. ``because`` says why it was skipped, failed or unseen."""

    kind: OutcomeKind
    because: str = ""
