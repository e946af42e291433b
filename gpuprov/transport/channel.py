"""An asyncssh session channel as a `gpuprov.transport.duplex.Duplex`."""

from __future__ import annotations

import signal

import asyncssh

from gpuprov.transport.duplex import Inbox, Outlet


class ChannelDuplex(asyncssh.SSHClientSession[bytes]):
    """A process behind an SSH channel."""

    def __init__(self) -> None:
        self._channel: asyncssh.SSHClientChannel[bytes] | None = None
        self._inbox = Inbox(self._pause)
        self._outlet = Outlet()
        self._status: int | None = None
        self._lost = ""

    def connection_made(self, chan: asyncssh.SSHClientChannel[bytes]) -> None:
        """Called by asyncssh."""
        self._channel = chan

    def data_received(self, data: bytes, datatype: asyncssh.DataType) -> None:
        """Called by asyncssh."""
        self._inbox.put(1 if datatype is None else 2, data)

    def eof_received(self) -> bool:
        """Called by asyncssh. True: our own direction stays open until we close it."""
        return True

    def exit_status_received(self, status: int) -> None:
        """Called by asyncssh."""
        self._status = status

    def exit_signal_received(self, signal_name: str, core_dumped: bool, msg: str, lang: str) -> None:
        """Called by asyncssh."""
        number = getattr(signal, f"SIG{signal_name}", signal.SIGTERM)
        self._status = -int(number)

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by asyncssh, also when the channel ended in an orderly way."""
        if exc is not None:
            self._lost = str(exc) or type(exc).__name__
        elif self._status is None:
            # A process that ended says how; a channel that ends without a word was taken away with its connection.
            self._lost = "the connection was closed"
        self._outlet.resume()
        self._inbox.end()

    def pause_writing(self) -> None:
        """Called by asyncssh."""
        self._outlet.pause()

    def resume_writing(self) -> None:
        """Called by asyncssh."""
        self._outlet.resume()

    def _pause(self, paused: bool) -> None:
        assert self._channel is not None
        if paused:
            self._channel.pause_reading()
        else:
            self._channel.resume_reading()

    def write(self, data: bytes) -> None:
        """Queue bytes for stdin."""
        if self._channel is not None and not self._channel.is_closing():
            self._channel.write(data)

    async def drain(self) -> None:
        """Wait until little is queued."""
        await self._outlet.wait()

    def write_eof(self) -> None:
        """End stdin."""
        if self._channel is not None and not self._channel.is_closing():
            self._channel.write_eof()

    async def read(self) -> tuple[int, bytes]:
        """Return the oldest chunk."""
        return await self._inbox.get()

    @property
    def status(self) -> int | None:
        """The exit status; negative: ended by that signal."""
        return self._status

    @property
    def lost(self) -> str:
        """Why the connection beneath went away."""
        return self._lost

    def abandon(self) -> None:
        """Close the channel without waiting for the other side."""
        if self._channel is not None:
            self._channel.close()
