"""How the download site answers one request: ranges as RFC 9110 has them, and faults."""

from __future__ import annotations

import io
import re
import select
import socket
import struct
import time
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO
from urllib.parse import unquote, urlsplit

from tests.lab.cuda import faults

if TYPE_CHECKING:
    from tests.lab.cuda.site import DownloadSite

BLOCK = 64 * 1024


@dataclass(kw_only=True)
class Exchange:
    """One request and what was sent for it, counted before it is sent: a client that has it finds it counted.

    Attributes:
        range: the Range header, empty for none. sent: bytes of the body. lost: what ended the line before its time.
    """

    method: str
    path: str
    range: str
    status: int = 0
    sent: int = 0
    lost: str = ""


@dataclass(frozen=True, kw_only=True)
class Content:
    """What a path holds: a file here, or bytes."""

    body: Path | bytes
    size: int
    etag: str


class Answerer(BaseHTTPRequestHandler):
    """Answers the requests of one connection."""

    protocol_version = "HTTP/1.1"
    server_version = "lab"
    sys_version = ""
    server: Any
    timeout = 60

    def do_GET(self) -> None:
        """Answer with the file, or with what is wrong with it."""
        self._answer(body=True)

    def do_HEAD(self) -> None:
        """Answer with the headers alone."""
        self._answer(body=False)

    def log_message(self, *args: object) -> None:
        """Nothing: the site counts."""

    def _answer(self, *, body: bool) -> None:
        site: DownloadSite = self.server.site
        path = unquote(urlsplit(self.path).path)
        if self.server.closing.is_set():
            self.close_connection = True
            return
        content, fault = site.look_up(path)
        self.exchange = Exchange(method=self.command, path=path, range=self.headers.get("Range", ""))
        site.note(self.exchange)
        try:
            if fault.redirect_loop:
                self._page(302, b"", body=body, location=path)
            elif fault.status is not None or (content is None and not fault.html):
                status = fault.status or 404
                self._page(status, f"<html><body><h1>{status}</h1></body></html>\n".encode(), body=body)
            elif fault.html:
                self._page(200, faults.PAGE, body=body)
            elif content is not None:
                self._file(content, fault, body=body)
        except OSError as error:  # the client went away
            self.exchange.lost = repr(error)
            self.close_connection = True

    def _page(self, status: int, text: bytes, *, body: bool, location: str = "") -> None:
        self.exchange.status = status
        self.send_response(status)
        if location:
            self.send_header("Location", location)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        if body:
            self.exchange.sent = len(text)
            self.wfile.write(text)

    def _file(self, content: Content, fault: faults.Fault, *, body: bool) -> None:
        size = content.size if fault.ends_at is None else min(fault.ends_at, content.size)
        wanted = self._range(size, content.etag) if fault.ranges else None
        status = 200 if wanted is None else 206
        if wanted is not None and wanted.start >= size:
            status = 416
        self.exchange.status = status
        self.send_response(status)
        self.send_header("Content-Type", "application/octet-stream")
        self.send_header("ETag", content.etag)
        if fault.ranges:
            self.send_header("Accept-Ranges", "bytes")
        if status == 416:
            self.send_header("Content-Range", f"bytes */{size}")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        span = wanted if wanted is not None else range(size)
        if status == 206:
            self.send_header("Content-Range", f"bytes {span.start}-{span.stop - 1}/{size}")
        self.send_header("Content-Length", str(len(span)))
        self.end_headers()
        if body:
            with io.BytesIO(content.body) if isinstance(content.body, bytes) else content.body.open("rb") as file:
                self._send(file, span, fault)

    def _range(self, size: int, etag: str) -> range | None:
        """The one span that is asked for; None for the whole file, also where the words make no sense."""
        if self.headers.get("If-Range", etag) != etag:
            return None
        found = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range", "").strip())
        if found is None or found.group() == "bytes=-":
            return None
        first, last = found.groups()
        if not first:
            return range(max(size - int(last), 0), size) if int(last) else range(size, size)
        if last and int(last) < int(first):
            return None
        return range(int(first), min(int(last) + 1, size) if last else max(size, int(first)))

    def _send(self, file: BinaryIO, span: range, fault: faults.Fault) -> None:
        stop = span.stop
        for limit in (fault.cut_at, fault.stall_at, fault.drop_every and span.start + fault.drop_every):
            if limit is not None:
                stop = min(stop, max(limit, span.start))
        block = BLOCK if fault.rate is None else max(min(BLOCK, fault.rate // 20), 1)
        at, begun = span.start, time.monotonic()
        file.seek(at)
        while at < stop:
            piece = file.read(min(block, stop - at))
            if fault.corrupt:
                piece = _corrupted(piece, at)
            self.exchange.sent += len(piece)
            self.wfile.write(piece)
            at += len(piece)
            late = begun + self.exchange.sent / fault.rate - time.monotonic() if fault.rate is not None else 0
            if self.server.closing.wait(max(late, 0)):
                self.close_connection = True
                return
        if stop == span.stop:
            return
        self.close_connection = True
        if stop == fault.stall_at:
            self._stall()
        if fault.reset:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def _stall(self) -> None:
        """Send nothing until the client goes away or the site closes."""
        while not self.server.closing.wait(0.1):
            ready, _, _ = select.select([self.connection], [], [], 0)
            if ready and not self.connection.recv(1024):
                return


def _corrupted(piece: bytes, at: int) -> bytes:
    """The same bytes but for the middle 512 of each 64 KiB of the file: the wrapper's own script stays readable."""
    changed = bytearray(piece)
    for start in range(BLOCK // 2 - at % BLOCK, len(piece), BLOCK):
        wrong = slice(max(start, 0), max(start + 512, 0))
        changed[wrong] = bytes(byte ^ 0xFF for byte in changed[wrong])
    return bytes(changed)
