"""Which running processes are services that must live on: told from their command lines."""

from __future__ import annotations

import posixpath
import re

_KINDS = {
    "jupyter": {
        "jupyter",
        "jupyter-lab",
        "jupyter-labhub",
        "jupyter-notebook",
        "jupyter-server",
        "jupyter-nbclassic",
        "jupyterhub",
        "jupyterhub-singleuser",
        "jupyterlab",
        "jupyter_server",
        "notebook",
        "nbclassic",
    },
    "tensorboard": {"tensorboard"},
    "supervisord": {"supervisord"},
    "sshd": {"sshd"},
    "caddy": {"caddy"},
    "nginx": {"nginx"},
    "instance_portal": {"instance_portal"},
    "tunnel_manager": {"tunnel_manager"},
    "autopanel": {"autopanel"},
    "syncthing": {"syncthing"},
    "cloudflared": {"cloudflared"},
}
"""Programs and Python modules of each kind. Which of them providers start: their documentation and process lists."""

_PROGRAMS = {program: kind for kind, programs in _KINDS.items() for program in programs}
_SERVERS = {"lab", "notebook", "server", "nbclassic", "labhub"}


def kind_of(argv: tuple[str, ...]) -> str | None:
    """Return the kind of service a command line is, or None for everything else.

    A shell that starts one, a worker or a session of one, and ``jupyter nbconvert`` are not services.

    >>> kind_of(("/root/miniconda3/bin/python", "/root/miniconda3/bin/jupyter-lab", "--port=8888"))
    'jupyter'
    """
    if not argv:
        return None
    if titled := re.match(r"(sshd|nginx): (/\S*sshd|master process)", argv[0]):  # they rewrite their command line
        return titled[1]
    words = list(argv)
    if re.fullmatch(r"(python|pypy)[0-9.]*", posixpath.basename(words[0])):
        words = words[1:]
        while words and words[0].startswith("-") and words[0] != "-m":
            words = words[1:]
        words = [words[1].split(".")[0], *words[2:]] if words[:1] == ["-m"] and len(words) > 1 else words
    if not words:
        return None
    kind = _PROGRAMS.get(posixpath.basename(words[0]))
    if posixpath.basename(words[0]) == "jupyter" and words[1:] and words[1] not in _SERVERS and words[1][:1] != "-":
        return None
    return kind
