"""A line to a host over ssh. asyncssh is imported when the first connection is made: it is slow to load."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from gpuprov.errors import Unreachable
from gpuprov.transport.duplex import Duplex
from gpuprov.transport.line import LineConnection, SessionRefused
from gpuprov.transport.target import SshTarget

if TYPE_CHECKING:
    import asyncssh

__all__ = ["SshConnection", "SshTarget"]

_GOODBYE = 2.0


class SshConnection(LineConnection):
    """A line to one host over ssh.

    Args:
        reconnect_for: seconds for which a lost line is tried again before the call gives up.
        keepalive: seconds between two signs of life; after ``keepalive_count`` unanswered ones the line is lost.
        grace: seconds that a frame may be late before it is ended from elsewhere.
    """

    def __init__(
        self,
        target: SshTarget,
        *,
        reconnect_for: float = 600.0,
        keepalive: float = 15.0,
        keepalive_count: int = 3,
        grace: float = 5.0,
    ) -> None:
        super().__init__(
            target.name,
            become=target.become == "auto",
            session_timeout=target.connect_timeout,
            reconnect_for=reconnect_for,
            grace=grace,
        )
        self.target = target
        self._keepalive = (keepalive, keepalive_count)
        self._connections: tuple[asyncssh.SSHClientConnection, ...] = ()
        self._connecting = asyncio.Lock()

    async def _connect(self) -> None:
        async with self._connecting:
            if not self._lost:
                return
            from gpuprov.transport.handshake import connect
            from gpuprov.transport.options import Keepalive

            await self._disconnect()
            interval, count = self._keepalive
            self._connections = await connect(self.target, Keepalive(interval=interval, count=count))

    @property
    def _lost(self) -> bool:
        return not self._connections or any(connection.is_closed() for connection in self._connections)

    async def _process(self, command: str) -> Duplex:
        import asyncssh

        from gpuprov.transport.channel import ChannelDuplex

        limit = self._session_timeout
        duplex = ChannelDuplex()
        try:
            async with asyncio.timeout(limit):
                await self._connections[0].create_session(
                    lambda: duplex, command, encoding=None, env=None, send_env=None, request_pty=False
                )
        except TimeoutError:
            # A connection whose server does not even refuse is of no use any more.
            self._abort()
            raise Unreachable(
                f"logged in, but no session was opened within {limit:g} s",
                phase="session",
                where=self.host,
                hint="the host may be overloaded or out of memory",
            ) from None
        except asyncssh.ChannelOpenError as error:
            if self._lost:
                raise Unreachable(f"the line was lost: {error}", phase="session", where=self.host) from None
            raise SessionRefused(
                f"the server allows no further session: {error}",
                phase="session",
                where=self.host,
                hint="MaxSessions in its sshd_config, or what the account may do",
            ) from None
        except (asyncssh.Error, OSError, IndexError) as error:
            self._abort()
            raise Unreachable(f"no session was opened: {error}", phase="session", where=self.host) from None
        return duplex

    def _another(self) -> LineConnection:
        interval, count = self._keepalive
        return SshConnection(
            self.target, reconnect_for=0.0, keepalive=interval, keepalive_count=count, grace=self._grace
        )

    def _abort(self) -> None:
        for connection in self._connections:
            connection.abort()

    async def _disconnect(self) -> None:
        connections, self._connections = self._connections, ()
        for connection in connections:
            connection.close()
        try:
            async with asyncio.timeout(_GOODBYE):
                for connection in connections:
                    await connection.wait_closed()
        except TimeoutError:
            for connection in connections:
                connection.abort()
