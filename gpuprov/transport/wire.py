"""What goes over the line: frames and openings as the text that a host's shell reads. Pure."""

from __future__ import annotations

import gzip
import math
import re
from base64 import b64encode
from functools import cache

from gpuprov import onhost
from gpuprov.quote import command, quote
from gpuprov.secret import Secret
from gpuprov.transport.frame import FRAME_DEADLINE, Frame, Section
from gpuprov.transport.marks import Mark

_NAME = re.compile(r"[A-Za-z0-9_-]{1,128}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LONG = 8 * 1024
_RESERVED = frozenset({"before", "prelude"})


def check(frame: Frame) -> None:
    """Refuse what cannot be sent.

    Raises:
        ValueError: a deadline that is not within (0, `FRAME_DEADLINE`], a doubled, reserved or odd section name, an
            odd variable name, or a NUL in a script or value.
    """
    if not 0 < frame.deadline <= FRAME_DEADLINE:
        raise ValueError(f"a frame's deadline is over 0 and at most {FRAME_DEADLINE:g} s, not {frame.deadline!r}")
    seen: set[str] = set()
    for section in frame.sections:
        if not _NAME.fullmatch(section.name) or section.name in _RESERVED or section.name in seen:
            raise ValueError(f"not a section's name, or one used twice: {section.name!r}")
        seen.add(section.name)


def host_seconds(deadline: float) -> int:
    """Return a deadline as the host's ``timeout`` takes it everywhere: whole seconds, at least one."""
    return max(1, math.ceil(deadline))


SHELL = "/bin/sh"


@cache
def definitions(shell: str = SHELL) -> bytes:
    """Return what the persistent shell is told once, before its first frame."""
    return (
        f"_gp_sh={quote(shell)}\n_gp_inner={quote(onhost.script('frame_sections'))}\n{onhost.script('frame')}".encode()
    )


def frame_text(frame: Frame, mark: Mark, *, pack: bool = True) -> bytes:
    """Return the one command that runs a frame. It ends in a newline; cut anywhere before, nothing of it runs.

    A long script is packed: what goes beyond TCP's first window would cost a round trip of its own.

    Raises:
        ValueError: see `check`.
    """
    check(frame)
    lines = [command("_gp_prelude", frame.prelude)] if frame.prelude else []
    lines += [f"_gp_section {section.name} {quote(_with_env(section))}" for section in frame.sections]
    script = "\n".join(lines)
    raw = encoded(script)
    packed = pack and len(raw) > _LONG
    if packed:
        script = b64encode(gzip.compress(raw, mtime=0)).decode()
    words = (
        *("_gp_frame", mark.first, mark.second, str(host_seconds(frame.deadline)), str(len(raw))),
        *(script, frame.before, "y" if packed else ""),
    )
    # The braces: a cut between two words would otherwise leave a shorter command that is whole.
    return encoded(f"{{ {command(*words)}; }}\n")


def _with_env(section: Section) -> str:
    if not section.env:
        return section.script
    words = []
    for name, value in section.env.items():
        if not _VARIABLE.fullmatch(name):
            raise ValueError(f"not the name of an environment variable: {name!r}")
        text = value.reveal().decode("utf-8", "surrogateescape") if isinstance(value, Secret) else value
        words.append(f"{name}={quote(text)}")
    return f"export {' '.join(words)}\n{section.script}"


def encoded(text: str) -> bytes:
    """Return text as bytes; what was read from a host's bytes goes back as the same bytes."""
    return text.encode("utf-8", "surrogateescape")


def opening(mark: Mark, *, become: bool, shell: str = SHELL) -> str:
    """Return the exec command: become root where sudo asks nobody, print READY, be a shell.

    It is one simple command of single-quoted words, because the login shell that reads it may be fish or csh.
    """
    login, after = (_one_line(onhost.script(name)) for name in ("frame_login", "frame_open"))
    words = (shell, "-c", login, shell, after, mark.first, mark.second, "auto" if become else "never", shell)
    return f"exec {command(*words)}"


def _one_line(script: str) -> str:
    return " ".join(line.strip() for line in script.splitlines())


def aside(script: str) -> bytes:
    """Return what runs one script in a fresh shell with an empty stdin, and ends that shell with its status."""
    return encoded(f"{{ (eval {quote(script)}) </dev/null; exit; }}\n")


def receive(path: str, mark: Mark) -> bytes:
    """Return what writes the rest of stdin to a file, after a mark that says the shell reads no further.

    Prints the number of bytes that the file has in the end. A new file is readable by its owner only.
    """
    said = f"printf '\\n%s%s go\\n' {mark.first} {mark.second}"
    return encoded(f"{{ umask 077; {said}; cat >{quote(path)} && wc -c <{quote(path)}; exit; }}\n")


def ending(*, group: int = 0, session: int = 0, tag: str = "", wait: float = 0.0, grace: float = 5.0) -> str:
    """Return the script that ends a process group, or what a frame left behind. See ``onhost/frame_end.sh``."""
    values = {
        "gp_group": str(group) if group > 1 else "",
        "gp_session": str(session),
        "gp_tag": tag,
        "gp_wait": str(round(wait * 10)),
        "gp_grace": str(round(grace * 10)),
    }
    return "".join(f"{name}={quote(value)}\n" for name, value in values.items()) + onhost.script("frame_end")
