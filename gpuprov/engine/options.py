"""What a person asked for beside the files: the options of a run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from gpuprov.yaml_text import Node

Approve = Callable[[str], Awaitable[bool]]
"""Asked with a host's name once its plan is ready and differs; False: leave that host as it is."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of a run.

    Attributes:
        check: plan only; nothing is written on any host, the lock included.
        tags, skip_tags: of plays and role entries; empty ``tags``: all.
        forks: how many hosts at once; None: all.
        timeout: seconds for each phase of connecting.
        reconnect_for: seconds of trying to get a lost line back.
        lock_wait: seconds to wait for a host that another controller holds.
        extra: variables of ``-e``, which win over all others.
        traced: errors of a role's own code, and of ours, come with their traceback.
    """

    check: bool = False
    tags: frozenset[str] = frozenset()
    skip_tags: frozenset[str] = frozenset()
    forks: int | None = None
    accept_new: bool = False
    timeout: float = 15.0
    reconnect_for: float = 600.0
    lock_wait: float = 600.0
    extra: Mapping[str, Node] = field(default_factory=dict)
    traced: bool = False
    approve: Approve | None = None
