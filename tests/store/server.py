"""An HTTP server on loopback that misbehaves as it is told, and counts what it gives away."""

from __future__ import annotations

import contextlib
import re
import ssl
import threading
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import IPv4Address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


@dataclass
class Served:
    """One thing to be had, and how badly.

    ``claim``: the Content-Length when it is not the truth; None in ``length``: no Content-Length at all.
    ``drop``: bytes after which each answer breaks off. ``stall``: bytes after which it stands still.
    """

    content: bytes = b""
    status: int = 200
    kind: str = "application/octet-stream"
    ranges: bool = True
    drop: int = 0
    drops: int = 1_000_000
    stall: int = 0
    length: bool = True
    rate: float = 0.0
    to: str = ""
    given: int = 0
    asked: list[str] = field(default_factory=list)


class Server:
    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        self.things: dict[str, Served] = {}
        self.closing = threading.Event()
        handler = type("Bound", (_Handler,), {"server_of": self})
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._http.daemon_threads = True
        if context:
            self._http.socket = context.wrap_socket(self._http.socket, server_side=True)
        scheme = "https" if context else "http"
        self.url = f"{scheme}://127.0.0.1:{self._http.server_address[1]}"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def serve(self, name: str, content: bytes = b"", **how: object) -> str:
        self.things[f"/{name}"] = Served(content, **how)  # type: ignore[arg-type]
        return f"{self.url}/{name}"

    def __getitem__(self, name: str) -> Served:
        return self.things[f"/{name}"]

    def close(self) -> None:
        self.closing.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join(5)


def self_signed(folder: Path) -> ssl.SSLContext:
    """A certificate for loopback that nobody vouches for."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), now, now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    file = folder / "server.pem"
    file.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        + certificate.public_bytes(serialization.Encoding.PEM)
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    return context


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_of: Server

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        self.close_connection = True
        with contextlib.suppress(OSError):
            self._answer()

    def _answer(self) -> None:
        thing = self.server_of.things.get(self.path.partition("?")[0])
        if thing is None:
            self._head(404, 9, "text/html")
            self.wfile.write(b"not here\n")
            return
        asked = self.headers.get("Range", "")
        thing.asked.append(asked)
        if thing.to:
            self.send_response(302)
            self.send_header("Location", thing.to)
            self.send_header("Content-Length", "0")
            # A line of its own for each: one that dies idle on a busy machine would be asked again, and count twice
            self.send_header("Connection", "close")
            self.end_headers()
            self.close_connection = True
            return
        begin, status, total = 0, thing.status, len(thing.content)
        if thing.ranges and status == 200 and (found := re.fullmatch(r"bytes=(\d+)-", asked)):
            begin, status = int(found[1]), 206
            if begin >= total:
                self.send_response(416)
                self.send_header("Content-Range", f"bytes */{total}")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
        self._head(status, total - begin if thing.length else None, thing.kind, begin, total)
        self._body(thing, begin)

    def _head(self, status: int, length: int | None, kind: str, begin: int = 0, total: int = 0) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Connection", "close")
        if length is not None:
            self.send_header("Content-Length", str(length))
        if status == 206:
            self.send_header("Content-Range", f"bytes {begin}-{total - 1}/{total}")
        self.end_headers()

    def _body(self, thing: Served, begin: int) -> None:
        sent, block = 0, 16384
        content = memoryview(thing.content)[begin:]
        may_drop = bool(thing.drop and thing.drops > 0)
        if may_drop:
            thing.drops -= 1
        while sent < len(content):
            end = min(sent + block, len(content))
            if may_drop:
                end = min(end, thing.drop)
            self.wfile.write(content[sent:end])
            thing.given += end - sent
            sent = end
            if may_drop and sent >= thing.drop:
                return
            if thing.stall and sent >= thing.stall:
                self.server_of.closing.wait(20)
                return
            if thing.rate:
                time.sleep(block / thing.rate)
