"""The download site: it serves as NVIDIA's does, and each fault is what it says it is."""

from __future__ import annotations

import hashlib
import http.client
import random
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from tests.lab.cuda import runfiles
from tests.lab.cuda.fixtures import SmallRunfile
from tests.lab.cuda.runfiles import Runfile
from tests.lab.cuda.site import DownloadSite
from tests.lab.engine import LabError
from tests.lab.fixtures import StartHost

BODY = random.Random(1).randbytes(300_000)
PATH = "/compute/cuda/12.4.1/local_installers/x.run"


@dataclass
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes
    ended: str


@pytest.fixture(scope="module")
def running() -> Iterator[DownloadSite]:
    with DownloadSite() as site:
        site.serve(PATH, BODY)
        yield site


@pytest.fixture
def site(running: DownloadSite) -> DownloadSite:
    running.forget()
    return running


def ask(site: DownloadSite, path: str = PATH, method: str = "GET", timeout: float = 10, **headers: str) -> Answer:
    """One request by a client that keeps what it got when the line is lost."""
    line = http.client.HTTPConnection(site.address, site.port, timeout=timeout)
    try:
        line.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
        reply = line.getresponse()
        body, ended = b"", "well"
        try:
            while piece := reply.read1(65536):
                body += piece
            if method == "GET" and len(body) < int(reply.headers["Content-Length"]):
                ended = "early"
        except (OSError, http.client.HTTPException) as error:
            ended = "early" if isinstance(error, http.client.IncompleteRead) else type(error).__name__
        return Answer(reply.status, dict(reply.headers), body, ended)
    except (OSError, http.client.HTTPException) as error:
        error.add_note(f"the site's side of it: {site.exchanges()}, line {line.sock}")
        raise
    finally:
        line.close()


# As NVIDIA's


def test_whole_file_by_default(site: DownloadSite) -> None:
    got = ask(site)
    assert (got.status, got.body, got.ended) == (200, BODY, "well")
    assert got.headers["Content-Length"] == str(len(BODY))
    assert got.headers["Accept-Ranges"] == "bytes"
    assert (site.requests(PATH), site.bytes_sent(PATH)) == (1, len(BODY))


def test_head_sends_no_body_and_is_no_request_for_the_file(site: DownloadSite) -> None:
    got = ask(site, method="HEAD")
    assert (got.status, got.body, got.headers["Content-Length"]) == (200, b"", "300000")
    assert (site.requests(PATH), site.bytes_sent(PATH), len(site.exchanges(PATH))) == (0, 0, 1)


@pytest.mark.parametrize(
    ("asked", "status", "span", "said"),
    [
        ("bytes=0-9", 206, (0, 10), "bytes 0-9/300000"),
        ("bytes=299990-", 206, (299990, 300000), "bytes 299990-299999/300000"),
        ("bytes=-5", 206, (299995, 300000), "bytes 299995-299999/300000"),
        ("bytes=-999999", 206, (0, 300000), "bytes 0-299999/300000"),
        ("bytes=100-999999", 206, (100, 300000), "bytes 100-299999/300000"),
        ("bytes=300000-", 416, (0, 0), "bytes */300000"),
        ("bytes=400000-400009", 416, (0, 0), "bytes */300000"),
        ("bytes=9-0", 200, (0, 300000), None),
        ("bytes=0-1,5-6", 200, (0, 300000), None),
        ("bytes=-", 200, (0, 300000), None),
        ("lines=1-2", 200, (0, 300000), None),
    ],
)
def test_ranges(site: DownloadSite, asked: str, status: int, span: tuple[int, int], said: str | None) -> None:
    got = ask(site, Range=asked)
    assert (got.status, got.body, got.headers.get("Content-Range")) == (status, BODY[slice(*span)], said)
    assert site.exchanges(PATH)[0].range == asked


def test_if_range_of_another_file_gives_the_whole(site: DownloadSite) -> None:
    etag = ask(site, method="HEAD").headers["ETag"]
    assert ask(site, Range="bytes=5-", If_Range=etag).status == 206
    assert ask(site, Range="bytes=5-", If_Range='"another"').status == 200


def test_unknown_path_is_not_found(site: DownloadSite) -> None:
    got = ask(site, "/compute/cuda/12.4.1/local_installers/y.run")
    assert got.status == 404
    assert b"404" in got.body


def test_installer_is_at_nvidias_path_with_its_sum(site: DownloadSite) -> None:
    served = site.publish(runfiles.small("11.7.1"))
    path = "compute/cuda/11.7.1/local_installers/cuda_11.7.1_515.65.01_linux.run"
    assert served.url == site.base_url + path
    got = ask(site, "/" + path)
    assert hashlib.sha256(got.body).hexdigest() == served.sha256
    assert len(got.body) == served.size
    sums = ask(site, "/compute/cuda/11.7.1/docs/sidebar/md5sum.txt").body.decode()
    assert sums == f"{hashlib.md5(got.body).hexdigest()}  cuda_11.7.1_515.65.01_linux.run\n"


def test_variant_takes_no_other_ones_place(site: DownloadSite) -> None:
    usual, padded = (site.publish(runfiles.small("12.4", padding_mib=size)) for size in (8, 1))
    assert usual.url.rsplit("/", 1)[1] == padded.url.rsplit("/", 1)[1]
    assert len(ask(site, usual.url).body) == usual.size
    assert len(ask(site, padded.url).body) == padded.size < usual.size


def test_name_with_a_blank(site: DownloadSite) -> None:
    url = site.serve("some/a file", b"text")
    assert url == site.base_url + "some/a%20file"
    assert ask(site, "/some/a%20file").body == b"text"
    assert (site.requests(url), site.requests("some/a file")) == (1, 1)


def test_installer_that_was_not_published_has_no_path(site: DownloadSite) -> None:
    with pytest.raises(ValueError, match="publish it first"):
        site.requests(runfiles.small("12.4"))


# Faults

CORRUPT = bytearray(BODY)
for start in range(32768, len(CORRUPT), 65536):
    for offset in range(start, start + 512):
        CORRUPT[offset] ^= 0xFF


@pytest.mark.parametrize(
    ("fault", "status", "body", "promised", "ended"),
    [
        ({"status": 404}, 404, None, None, "well"),
        ({"status": 503}, 503, None, None, "well"),
        ({"ends_at": 1000}, 200, BODY[:1000], 1000, "well"),
        ({"cut_at": 1000}, 200, BODY[:1000], 300000, "early"),
        ({"drop_every": 100_000}, 200, BODY[:100_000], 300000, "early"),
        ({"cut_at": 0, "reset": True}, 200, b"", 300000, "ConnectionResetError"),
        ({"corrupt": True}, 200, bytes(CORRUPT), 300000, "well"),
    ],
)
def test_fault(
    site: DownloadSite, fault: dict[str, Any], status: int, body: bytes | None, promised: int | None, ended: str
) -> None:
    with site.fault(PATH, **fault):
        got = ask(site)
    assert (got.status, got.ended) == (status, ended)
    assert body is None or got.body == body
    assert promised is None or got.headers["Content-Length"] == str(promised)
    assert ask(site).body == BODY


def test_html_page_comes_with_status_200(site: DownloadSite) -> None:
    with site.fault(PATH, html=True):
        got = ask(site)
    assert (got.status, got.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert got.body.startswith(b"<!DOCTYPE html>")


def test_without_ranges_every_answer_is_the_whole(site: DownloadSite) -> None:
    with site.fault(PATH, ranges=False):
        got = ask(site, Range="bytes=1000-")
    assert (got.status, got.body) == (200, BODY)
    assert "Accept-Ranges" not in got.headers


def test_dropped_download_gets_on_and_a_cut_one_does_not(site: DownloadSite) -> None:
    def resumed() -> bytes:
        have = b""
        for _ in range(4):
            got = ask(site, Range=f"bytes={len(have)}-")
            have += got.body if got.status == 206 else b""
        return have

    with site.fault(PATH, drop_every=100_000):
        assert resumed() == BODY
    with site.fault(PATH, cut_at=100_000):
        assert resumed() == BODY[:100_000]


def test_corruption_does_not_depend_on_how_it_is_asked_for(site: DownloadSite) -> None:
    with site.fault(PATH, corrupt=True):
        parts = [ask(site, Range=f"bytes={at}-{at + 69_999}").body for at in range(0, 300_000, 70_000)]
    assert b"".join(parts) == CORRUPT


def test_fault_passes_after_so_many_requests(site: DownloadSite) -> None:
    with site.fault(PATH, status=503, times=2):
        assert [ask(site).status for _ in range(4)] == [503, 503, 200, 200]


def test_redirect_goes_round(site: DownloadSite) -> None:
    with site.fault(PATH, redirect_loop=True):
        assert (ask(site).status, ask(site).headers["Location"]) == (302, PATH)
        with pytest.raises(urllib.error.HTTPError, match="infinite loop"):
            urllib.request.urlopen(site.base_url + PATH.lstrip("/"), timeout=10)


def test_slow_answer_has_the_rate(site: DownloadSite) -> None:
    with site.fault(PATH, rate=400_000):
        begin = time.monotonic()
        assert ask(site).body == BODY
    assert 0.6 < time.monotonic() - begin < 3


def test_stalled_answer_stays_open(site: DownloadSite) -> None:
    with site.fault(PATH, stall_at=1000):
        got = ask(site, timeout=0.5)
    assert (got.body, got.ended) == (BODY[:1000], "TimeoutError")
    assert site.bytes_sent(PATH) == 1000


def test_site_that_is_down_refuses_and_cuts_what_was_under_way(site: DownloadSite) -> None:
    got: list[Answer] = []
    with site.fault(PATH, rate=100_000):
        client = threading.Thread(target=lambda: got.append(ask(site)))
        client.start()
        time.sleep(0.3)
        with site.down():
            client.join(5)
            with pytest.raises(ConnectionRefusedError):
                ask(site)
    assert got[0].ended == "early"
    assert ask(site).body == BODY


def test_address_that_is_not_ours_is_one_sentence() -> None:
    with pytest.raises(LabError, match=r"cannot listen on 192\.0\.2\.1:"), DownloadSite("192.0.2.1"):
        pass


# From a host


@pytest.mark.lab
def test_hosts_reach_it_and_resume(fresh_host: StartHost, cuda_site: DownloadSite, small_runfile: SmallRunfile) -> None:
    served: Runfile = small_runfile("12.4")
    host = fresh_host("b", services=False)
    cuda_site.forget()
    with cuda_site.fault(served, drop_every=3_000_000):
        first = host.exec(f"curl -fsS -o /tmp/x.run {served.url}", check=False)
        assert first.returncode == 18
        host.exec(f"for i in 1 2 3; do curl -fsS -C - -o /tmp/x.run {served.url} && break; done", check=False)
    assert host.exec("sha256sum /tmp/x.run").stdout.split()[0] == served.sha256
    assert cuda_site.bytes_sent(served) == served.size
    with cuda_site.fault(served, status=404):
        assert host.exec(f"curl -fsS -o /tmp/y {served.url}", check=False).returncode == 22
