"""The stand-in for NVIDIA's download site: the same paths, by HTTP, with faults that can be switched on.

with DownloadSite("127.0.0.1") as site:
    served = site.publish(runfiles.small("12.4"))
    with site.fault(served, drop_every=1_000_000, ranges=True):
        ...                                   # download served.url
    assert site.bytes_sent(served) < 2 * served.size
"""

from __future__ import annotations

import hashlib
import socket
import struct
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import ThreadingHTTPServer
from pathlib import Path
from socketserver import TCPServer
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from tests.lab.cuda.answer import Answerer, Content, Exchange
from tests.lab.cuda.faults import NONE, Fault
from tests.lab.cuda.runfiles import Runfile
from tests.lab.engine import LabError


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], site: DownloadSite) -> None:
        self.site = site
        self.closing = threading.Event()
        super().__init__(address, Answerer)

    def server_bind(self) -> None:
        """Bind, without asking the name service what this address is called."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]

    def shutdown_request(self, request: Any) -> None:
        """Close a connection; one that is to be reset must not say goodbye first."""
        if struct.unpack("ii", request.getsockopt(socket.SOL_SOCKET, socket.SO_LINGER, 8))[0]:
            self.close_request(request)
        else:
            super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is no news; whatever else ends a connection is told to whoever reads the test."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class DownloadSite:
    """An HTTP server in threads of its own, on one address; port 0 means any.

    What a test publishes, sets and counts goes by path; wherever a path is wanted, a served `Runfile` or an URL of
    the site will do.
    """

    def __init__(self, address: str = "127.0.0.1", port: int = 0) -> None:
        self.address = address
        self.port = port
        self._lock = threading.Lock()
        self._contents: dict[str, Content] = {}
        self._sums: dict[str, dict[str, str]] = {}
        self._faults: dict[str, Fault] = {}
        self._exchanges: list[Exchange] = []
        self._open: Any = None

    def __enter__(self) -> DownloadSite:
        self._start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stop()

    @property
    def base_url(self) -> str:
        """The address in place of NVIDIA's download host; ends with a slash."""
        return f"http://{self.address}:{self.port}/"

    # What is served

    def publish(self, runfile: Runfile) -> Runfile:
        """Serve an installer at NVIDIA's path, with the release's md5sum.txt; gives it with its `url`.

        A variant (the whole 11.7, one that pauses) is served below a folder of its name, and takes the place of none.
        """
        prefix = f"{runfile.variant}/" if runfile.variant else ""
        self.serve(prefix + runfile.url_path, runfile.path)
        # Where NVIDIA has it: .../11.7.1/docs/sidebar/md5sum.txt
        sums = prefix + runfile.url_path.rsplit("/local_installers/", 1)[0] + "/docs/sidebar/md5sum.txt"
        with self._lock:
            listed = self._sums.setdefault(sums, {})
            listed[runfile.name] = runfile.md5
            lines = "".join(f"{md5}  {name}\n" for name, md5 in sorted(listed.items()))
        self.serve(sums, lines.encode())
        return replace(runfile, url=self.base_url + prefix + runfile.url_path)

    def serve(self, path: str, body: Path | bytes) -> str:
        """Serve a file of this machine, or bytes, at a path; gives its URL."""
        size = len(body) if isinstance(body, bytes) else body.stat().st_size
        mark = hashlib.sha256(body if isinstance(body, bytes) else f"{body} {body.stat().st_mtime_ns}".encode())
        content = Content(body=body, size=size, etag=f'"{mark.hexdigest()[:16]}"')
        with self._lock:
            self._contents[_path(path)] = content
        return self.base_url + quote(_path(path).lstrip("/"))

    # Faults

    @contextmanager
    def fault(self, target: Runfile | str, **parts: Any) -> Iterator[None]:
        """Misbehave on one path for the length of the block; the words are those of `Fault`."""
        self.set_fault(target, Fault(**parts))
        try:
            yield
        finally:
            self.clear_fault(target)

    def set_fault(self, target: Runfile | str, fault: Fault) -> None:
        """Misbehave on one path until `clear_fault`."""
        with self._lock:
            self._faults[_path(target)] = fault

    def clear_fault(self, target: Runfile | str) -> None:
        """Make one path well again. Answers that have begun go on as they were."""
        with self._lock:
            self._faults.pop(_path(target), None)

    @contextmanager
    def down(self) -> Iterator[None]:
        """End all connections and refuse new ones for the length of the block; the port stays the same."""
        self._stop()
        try:
            yield
        finally:
            self._start()

    # Counts

    def exchanges(self, target: Runfile | str | None = None) -> list[Exchange]:
        """All exchanges that have begun, of one path or of all, in order."""
        path = None if target is None else _path(target)
        with self._lock:
            return [replace(one) for one in self._exchanges if path in (None, one.path)]

    def requests(self, target: Runfile | str | None = None) -> int:
        """How many requests for a file came (HEAD not counted)."""
        return sum(one.method == "GET" for one in self.exchanges(target))

    def bytes_sent(self, target: Runfile | str | None = None) -> int:
        """How many bytes of bodies went out."""
        return sum(one.sent for one in self.exchanges(target))

    def forget(self) -> None:
        """Start counting anew; what is under way is not counted any more."""
        with self._lock:
            self._exchanges.clear()

    # For the server's threads

    def look_up(self, path: str) -> tuple[Content | None, Fault]:
        """What is at a path, and what is wrong with it this time."""
        with self._lock:
            fault = self._faults.get(path, NONE)
            if fault.times is not None:
                if fault.times > 0:
                    self._faults[path] = replace(fault, times=fault.times - 1)
                else:
                    fault = NONE
            return self._contents.get(path), fault

    def note(self, exchange: Exchange) -> None:
        """Count an exchange; its numbers grow while it is under way."""
        with self._lock:
            self._exchanges.append(exchange)

    # Life

    def _start(self) -> None:
        try:
            self._open = _Server((self.address, self.port), self)
        except OSError as error:
            raise LabError(
                f"the download site cannot listen on {self.address}:{self.port}: {error.strerror}"
            ) from error
        self.port = self._open.server_address[1]
        threading.Thread(target=self._open.serve_forever, args=(0.05,), daemon=True).start()

    def _stop(self) -> None:
        self._open.closing.set()
        self._open.shutdown()
        self._open.server_close()


def _path(target: Runfile | str) -> str:
    text = target if isinstance(target, str) else target.url
    if not text:
        raise ValueError("this installer is served by no site: publish it first")
    return "/" + unquote(urlsplit(text).path).lstrip("/")
