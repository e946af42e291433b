"""A snippet that login and interactive shells read."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

from gpuprov.errors import HostFailed, Unseen
from gpuprov.model import Change, Claims, Id, Probe, Resource, Run, Step
from gpuprov.onhost import script
from gpuprov.quote import quote
from gpuprov.resources import answers
from gpuprov.resources.file import File, FileState

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")

# Who reads what, on Debian and Ubuntu:
#   login sh, dash, bash      /etc/profile, which reads /etc/profile.d/*.sh
#   interactive bash          /etc/bash.bashrc only
#   login zsh                 zshenv, zprofile; interactive zsh: zshenv, zshrc; none of them reads profile.d
#   interactive dash          only the file that $ENV names; it has what its login shell exported
# zprofile and zshrc rather than zshenv: zshenv is read by every script too, before Debian's own default
# for PATH is set there and before the user's ~/.zshenv, which often sets PATH anew.
_BASH = "bash.bashrc"
_ZSH = ("zsh/zprofile", "zsh/zshrc")
_STATES = frozenset({"none", "same", "other", "broken"})


@dataclass(frozen=True, kw_only=True)
class Block:
    """The marked block in one file. ``state`` is none, same, other, or broken (a marker without its partner).

    ``needed``: a shell that reads the file is installed.
    """

    file: str
    needed: bool
    state: str


@dataclass(frozen=True, kw_only=True)
class ProfileState:
    """The snippet's file (None: absent), and the block in each file that leads other shells to it."""

    file: FileState | None
    blocks: tuple[Block, ...]


@dataclass(frozen=True, kw_only=True)
class ProfileScript(Resource[ProfileState]):
    """Shell code for login and interactive shells of dash, bash and zsh: ``/etc/profile.d/NAME.sh``.

    Shells that do not read that folder are led there by a marked block in ``/etc/bash.bashrc`` and, where
    zsh is installed, ``/etc/zsh/zprofile`` and ``zshrc``. The rest of those files and their mode stay as
    they are, byte for byte, also when the block is taken out again. A shell reads the snippet once.

    Attributes:
        name: lower-case letters, digits and ``-``.
        content: POSIX sh, checked on the host before it is put in place. zsh reads it as sh.

    Raises:
        ValueError: a field cannot be what it must be.
    """

    kind: ClassVar[str] = "profile"
    _etc: ClassVar[str] = "/etc"

    name: str
    content: str = ""

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ValueError(f"name must be lower-case letters, digits and '-', at most 64, not {self.name!r}")
        if self.present and not self.content.strip():
            raise ValueError(f"content of profile script {self.name} is empty")
        if "\0" in self.content:
            raise ValueError(f"content of profile script {self.name} holds a NUL")
        _ = self.file

    @property
    def id(self) -> Id:
        """``profile:name``."""
        return Id(f"{self.kind}:{self.name}")

    @property
    def path(self) -> str:
        """The snippet's file."""
        return f"{self._etc}/profile.d/{self.name}.sh"

    @property
    def file(self) -> File:
        """The snippet's file, with the guard that keeps a shell from reading it twice.

        A login bash reads it through ``bash.bashrc`` and then through ``profile``. The mark is not
        exported: each shell reads the snippet for itself, as functions and aliases are not inherited.
        """
        mark = f"_gpuprov_{self.name.replace('-', '_')}"
        guard = f'# {self.name}, by gpuprov\n[ -z "${{{mark}-}}" ] || return 0\n{mark}=1\n'
        content = self.content if self.content.endswith("\n") else f"{self.content}\n"
        return File(present=self.present, path=self.path, content=guard + content if self.present else "")

    def probe(self) -> Probe[ProfileState]:
        """The look of the file, and the blocks."""
        of_file = self.file.probe()
        look = self._variables() + script("profile_look")
        return Probe(script=f"{look}{of_file.script}", parse=self._parse, asks=of_file.asks)

    def plan(self, now: ProfileState | None) -> Change | None:
        """Compare the file and the blocks.

        Raises:
            HostFailed: a marker stands without its partner, or something else stands in the file's place.
        """
        blocks = now.blocks if now else tuple(Block(file=f, needed=True, state="none") for f in (_BASH, *_ZSH))
        broken = [f"{self._etc}/{b.file}" for b in blocks if b.state == "broken"]
        if broken:
            raise HostFailed(
                f"the lines BEGIN and END of gpuprov {self.name} do not make pairs in {' and '.join(broken)}",
                hint="take the odd line out by hand; what lies between cannot be told from what is yours",
            )
        change = self.file.plan(now.file if now else None)
        edits = tuple(b.file for b in blocks if self._differs(b))
        if not change and not edits:
            return None
        # Where there was nothing at all, "absent" says it
        was = () if change and change.action == "create" else [_words(b) for b in blocks if b.file in edits]
        before = [*([change.before] if change else []), *was]
        is_read = f"{'read' if self.present else 'not read'} by {' and '.join(dict.fromkeys(map(_shell, edits)))}"
        after = [*([change.after] if change else []), *([is_read] if edits else [])]
        return Change(
            action=change.action if change else "update" if self.present else "remove",
            before=", ".join(before),
            after=", ".join(after),
            why=change.why if change else "",
            diff=change.diff if change else "",
            steps=self._steps(change, edits),
        )

    def claims(self) -> Claims:
        """The snippet and the files that get a block."""
        return Claims(paths=frozenset({self.path, *(f"{self._etc}/{file}" for file in (_BASH, *_ZSH))}))

    def _differs(self, block: Block) -> bool:
        return block.state != "none" if not self.present else block.needed and block.state != "same"

    def _steps(self, change: Change | None, edits: tuple[str, ...]) -> tuple[Step, ...]:
        edit: tuple[Step, ...] = ()
        if edits:
            words = f"gp_files={quote(' '.join(edits))}\n"
            title = f"{'lead shells to' if self.present else 'lead no shell to'} {self.path}"
            edit = (Run(title=title, script=self._variables() + words + script("profile_edit")),)
        if not self.present:
            # Blocks first: a shell that starts in between finds either both or a block that reads nothing.
            return edit + (change.steps if change else ())
        check: tuple[Step, ...] = ()
        if change:
            words = f"gp_content={quote(self.content)}\n"
            check = (Run(title=f"check the syntax of {self.name}.sh", script=words + script("profile_check")),)
        return check + (change.steps if change else ()) + edit

    def _variables(self) -> str:
        read = f"if [ -r {quote(self.path)} ]; then . {quote(self.path)}; fi"
        blocks = {
            # Interactive only: what a script or a remote command prints and reads is not ours to change.
            "gp_bash": f"case $- in *i*) {read} ;; esac",
            # As sh: a snippet that relies on sh's word splitting works in zsh as well.
            "gp_zsh": f"emulate sh -c {quote(read)}",
        }
        words = {"gp_etc": self._etc, "gp_name": self.name, "gp_present": "yes" if self.present else ""}
        return "".join(f"{name}={quote(value)}\n" for name, value in (words | blocks).items())

    def _parse(self, data: bytes) -> ProfileState | None:
        of_file = self.file.probe()
        lines = data.split(b"\n", len(of_file.asks) + len((_BASH, *_ZSH)))
        told = [answers.shown(line).split(" ") for line in lines[len(of_file.asks) : -1]]
        if [words[0] for words in told] != [_BASH, *_ZSH] or any(len(w) != 3 or w[2] not in _STATES for w in told):
            raise Unseen("the look at the shells' files was cut short")
        blocks = tuple(Block(file=w[0], needed=w[1] == "needed", state=w[2]) for w in told)
        file = of_file.parse(b"\n".join([*lines[: len(of_file.asks)], lines[-1]]))
        if file is None and all(b.state == "none" for b in blocks) and not self.present:
            return None
        return ProfileState(file=file, blocks=blocks)


def _shell(file: str) -> str:
    return "zsh" if file in _ZSH else "bash"


def _words(block: Block) -> str:
    return {"none": "not read by", "other": "read otherwise by", "same": "read by"}[block.state] + f" {block.file}"
