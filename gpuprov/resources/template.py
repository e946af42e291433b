"""A file made from a template of the role, filled in on the controller."""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from gpuprov.errors import InputError, Position, Problem
from gpuprov.model import Change, Id, Probe, Resource, normal_path
from gpuprov.resources.file import File, FileState
from gpuprov.secret import Secret

if TYPE_CHECKING:
    import jinja2


@dataclass(frozen=True, kw_only=True)
class TemplateSource:
    """A template that is there. ``name`` is its path below ``folder``, with slashes."""

    folder: str
    name: str

    @property
    def path(self) -> str:
        """Where it lies on the controller."""
        return str(Path(self.folder, self.name))

    def render(self, variables: Mapping[str, object]) -> str:
        """Fill it in. Every variable it names must be given.

        Raises:
            InputError: a variable is undefined or holds a `Secret`, or the template is wrong; with file and line.
        """
        import jinja2  # 80 ms that a run without templates does not pay

        secret = next((name for name, value in variables.items() if _holds_secret(value)), None)
        if secret is not None:
            raise InputError(
                Problem(
                    f"the variable {secret!r} holds a secret, and a secret is written into no template",
                    Position(self.path, 1, 1),
                    "pass it as the whole content of a file, or through a step's env",
                )
            )
        try:
            return _environment(self.folder).get_template(self.name).render(dict(variables))
        except jinja2.TemplateSyntaxError as e:
            raise InputError(Problem(f"{e.message}", Position(e.filename or self.path, e.lineno, 1))) from e
        except jinja2.TemplateNotFound as e:
            raise InputError(Problem(f"there is no template {e.name!r}", self._position(e))) from e
        except jinja2.UndefinedError as e:
            raise InputError(Problem(f"{e.message}", self._position(e))) from e
        except Exception as e:  # an expression or filter in the template may raise anything
            raise InputError(Problem(f"cannot be filled in: {type(e).__name__}: {e}", self._position(e))) from e

    def _position(self, error: BaseException) -> Position:
        """The innermost line of a template that the error went through."""
        folder = str(Path(self.folder)) + "/"
        frames = [
            (frame.f_code.co_filename, line)
            for frame, line in traceback.walk_tb(error.__traceback__)
            if frame.f_code.co_filename.startswith(folder)
        ]
        file, line = frames[-1] if frames else (self.path, 1)
        return Position(file, line, 1)


@dataclass(frozen=True, kw_only=True)
class Templates:
    """The templates of a role: those in the folder ``templates`` beside its ``role.py``."""

    folder: Path

    @classmethod
    def beside(cls, file: str) -> Templates:
        """Return the templates beside a module, given its ``__file__``."""
        return cls(folder=Path(file).resolve().parent / "templates")

    def __call__(self, name: str) -> TemplateSource:
        """Return a template by its name.

        Raises:
            InputError: there is none of that name in the folder.
        """
        folder = self.folder.resolve()
        found = (folder / name).resolve()
        if not (found.is_relative_to(folder) and found.is_file()):
            there = ", ".join(sorted(p.name for p in folder.glob("*"))) if folder.is_dir() else ""
            raise InputError(
                Problem(f"there is no template {name!r} in {folder}", None, f"there are: {there}" if there else "")
            )
        return TemplateSource(folder=str(folder), name=found.relative_to(folder).as_posix())


@dataclass(frozen=True, kw_only=True)
class Template(Resource[FileState]):
    """A file whose content is a filled-in template. In all else it is a `File`, and has a file's identity.

    Attributes:
        source: from the role's `Templates`.
        variables: by name; resources among them are needed first.
        rendered: the content, filled in when the resource is made.

    Raises:
        InputError: the template cannot be filled in.
        ValueError: another field cannot be what it must be.
    """

    kind: ClassVar[str] = "file"

    path: str
    source: TemplateSource
    variables: Mapping[str, object] = field(default_factory=dict, hash=False)
    mode: int = 0o644
    owner: str = ""
    group: str = ""
    rendered: str = field(init=False, repr=False, default="")

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", normal_path(self.path))
        if self.present:
            object.__setattr__(self, "rendered", self.source.render(self.variables))
        _ = self.file

    @property
    def file(self) -> File:
        """The file that it amounts to."""
        return File(
            present=self.present,
            path=self.path,
            content=self.rendered,
            mode=self.mode,
            owner=self.owner,
            group=self.group,
        )

    @property
    def id(self) -> Id:
        """``file:/path``: a template and a file at one path are one node, or contradict each other."""
        return self.file.id

    @property
    def needs_folder(self) -> bool:
        """A new one needs its folder."""
        return self.present

    def probe(self) -> Probe[FileState]:
        """The look of its file."""
        return self.file.probe()

    def plan(self, now: FileState | None) -> Change | None:
        """Compare as its file does.

        Raises:
            HostFailed: a folder, device or the like stands at the path.
        """
        return self.file.plan(now)

    def needs(self) -> Iterator[Resource[Any]]:
        """The resources among its variables."""
        for value in self.variables.values():
            for item in value if isinstance(value, tuple | list | frozenset) else (value,):
                if isinstance(item, Resource):
                    yield item

    def desired(self) -> tuple[tuple[str, object], ...]:
        """Those of its file: what it was rendered from makes no difference."""
        return self.file.desired()


@lru_cache(maxsize=64)
def _environment(folder: str) -> jinja2.Environment:
    import jinja2

    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder),
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        autoescape=False,  # shell and configuration files, not HTML
    )


def _holds_secret(value: object) -> bool:
    if isinstance(value, Mapping):
        return any(map(_holds_secret, (*value.keys(), *value.values())))
    if isinstance(value, list | tuple | set | frozenset):
        return any(map(_holds_secret, value))
    return isinstance(value, Secret)
