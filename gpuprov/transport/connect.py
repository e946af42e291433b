"""From a host of the inventory to the line that reaches it."""

from __future__ import annotations

from functools import cache

from gpuprov.errors import InputError, Problem
from gpuprov.inventory import Host, Inventory
from gpuprov.transport.frame import Connection
from gpuprov.transport.local import LocalConnection
from gpuprov.transport.ssh import SshConnection
from gpuprov.transport.target import SshTarget


def connection_for(
    host: Host, inventory: Inventory, *, accept_new: bool = False, timeout: float = 15.0, reconnect_for: float = 600.0
) -> Connection:
    """Return the connection to a host, not yet opened.

    Args:
        accept_new: write down and accept the key of a host that no known_hosts file knows; a changed one never is.
        timeout: seconds for each phase of connecting.
        reconnect_for: seconds for which a lost line is tried again.

    Raises:
        InputError: its jump hosts lead back to itself, or through this machine.
    """
    if host.connection == "local":
        return LocalConnection(
            host.name, become=host.become == "auto", session_timeout=timeout, reconnect_for=reconnect_for
        )
    target = _target(host, inventory, accept_new=accept_new, timeout=timeout, above=())
    return SshConnection(target, reconnect_for=reconnect_for)


def _target(host: Host, inventory: Inventory, *, accept_new: bool, timeout: float, above: tuple[str, ...]) -> SshTarget:
    if host.name in above:
        path = " -> ".join((*above, host.name))
        raise InputError(Problem(f"the jump hosts lead in a circle: {path}", host.position))
    jump: SshTarget | str | None = host.jump
    if host.jump is not None and host.jump in inventory.hosts:
        through = inventory.hosts[host.jump]
        if through.connection == "local":
            raise InputError(
                Problem(f"{host.name} cannot jump through {through.name}: it is this machine", host.position)
            )
        jump = _target(through, inventory, accept_new=accept_new, timeout=timeout, above=(*above, host.name))
    return SshTarget(
        name=host.name,
        address=host.address,
        port=host.port,
        user=host.user,
        keys=(host.key,) if host.key is not None else (),
        password=cache(host.password.read) if host.password is not None else None,
        jump=jump,
        known_hosts=(host.known_hosts,) if host.known_hosts is not None else (),
        host_key=host.host_key,
        accept_new=accept_new,
        become=host.become,
        connect_timeout=timeout,
        written=host.written,
    )
