from __future__ import annotations

import os
import re
import signal
import socket
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gpuprov.store import Ended, Limits, download_job
from tests.store.hosts import QUICK, SHELLS, TOOLS, Host, md5, sha256, some_bytes, step_for, until
from tests.store.server import Server, self_signed

CONTENT = some_bytes(600_000)


def names(host: Host) -> list[str]:
    return sorted(path.name for path in host.files.iterdir())


def closed_port() -> str:
    with socket.socket() as it:
        it.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{it.getsockname()[1]}"


# --- getting it -------------------------------------------------------------------------------


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("tool", TOOLS)
def test_a_file_comes_whole_over_a_line_that_drops(host: Host, server: Server, shell: str, tool: str) -> None:
    host.shell = shell
    host.has(tool)
    path = host.files / "new folder" / "it's *.run"
    ran = host.fetch(step_for(path, CONTENT, server.serve("x", CONTENT, drop=250_000)))
    assert ran.status == 0, ran.text
    assert path.read_bytes() == CONTENT
    assert path.stat().st_mode & 0o7777 == 0o644
    assert path.parent.stat().st_mode & 0o7777 == 0o755
    assert os.listdir(path.parent) == [path.name]
    # Each byte was sent once: what was here was not asked for again.
    assert server["x"].given == len(CONTENT)
    assert server["x"].asked == ["", "bytes=250000-", "bytes=500000-"]


@pytest.mark.parametrize("tool", TOOLS)
def test_a_server_without_ranges_is_begun_anew(host: Host, server: Server, tool: str) -> None:
    host.has(tool)
    path = host.files / "a"
    ran = host.fetch(step_for(path, CONTENT, server.serve("x", CONTENT, ranges=False, drop=250_000, drops=1)))
    assert ran.status == 0, ran.text
    assert path.read_bytes() == CONTENT


def test_gnu_wget_does_not_read_again_in_silence_what_is_here(host: Host, server: Server) -> None:
    host.has("wget")
    path = host.files / "a"
    path.with_name("a.part").write_bytes(CONTENT[:550_000])
    ran = host.fetch(
        step_for(path, CONTENT, server.serve("x", CONTENT, ranges=False, rate=300_000)),
        Limits(connect=2, stall=30, pause=0, tries=3),
    )
    assert ran.status == 0, ran.text
    assert "again from the first byte" in ran.text
    assert path.read_bytes() == CONTENT


@pytest.mark.parametrize("tool", TOOLS)
def test_a_line_that_stands_still_is_left(host: Host, server: Server, tool: str) -> None:
    host.has(tool)
    path = host.files / "a"
    ran = host.fetch(step_for(path, CONTENT, server.serve("x", CONTENT, stall=400_000)))
    assert ran.status == 0, ran.text
    assert path.read_bytes() == CONTENT
    assert server["x"].given == len(CONTENT)
    assert ran.seconds < 10


@pytest.mark.parametrize("tool", TOOLS)
def test_the_next_mirror_goes_on_where_the_first_gave_up(host: Host, server: Server, mirror: Server, tool: str) -> None:
    host.has(tool)
    path = host.files / "a"
    ran = host.fetch(step_for(path, CONTENT, server.serve("x", CONTENT[:200_000]), mirror.serve("y", CONTENT)))
    assert ran.status == 0, ran.text
    assert path.read_bytes() == CONTENT
    assert server["x"].given == 200_000
    assert mirror["y"].given == 400_000


def test_progress_is_readable_and_rare_and_names_only_the_host(host: Host, server: Server) -> None:
    url = server.serve("x", CONTENT, rate=120_000).replace("http://", "http://ada:s3cret@") + "?token=t0ken"
    ran = host.fetch(step_for(host.files / "cuda.run", CONTENT, url))
    assert ran.status == 0, ran.text
    told = [line for line in ran.lines if line.startswith("downloading ")]
    assert 1 <= len(told) <= ran.seconds / 2 + 1
    done, total = map(int, told[0].split()[2].split("/"))
    assert 0 < done < total == len(CONTENT)
    assert told[0].split("bytes ")[1].split(" from ")[0] == "(0.1 MB/s)"
    assert told[0].endswith(f" from {server.url.partition('://')[2]}")
    assert "s3cret" not in ran.text
    assert "t0ken" not in ran.text


@pytest.mark.parametrize("tool", TOOLS)
def test_no_secret_of_an_address_is_told_when_it_fails(host: Host, server: Server, tool: str) -> None:
    host.has(tool)
    url = f"{server.url}/missing?token=t0ken".replace("http://", "http://ada:s3cret@")
    ran = host.fetch(step_for(host.files / "a", CONTENT, url, url.replace(server.url[7:], closed_port()[7:])))
    assert ran.ended == Ended.MIXED
    assert "s3cret" not in ran.text
    assert "t0ken" not in ran.text


def test_what_a_tool_says_is_told_without_secrets(host: Host) -> None:
    host.lacks("curl")
    host.stand_in("wget", "echo 'wget: http://ada:s3cret@h.example/x?token=t0ken gave \033[31mup' >&2; exit 1")
    ran = host.fetch(step_for(host.files / "a", CONTENT, "http://ada:s3cret@h.example/x?token=t0ken"))
    assert "wget: http://h.example/x gave [31mup" in ran.text
    assert "s3cret" not in ran.text
    assert "t0ken" not in ran.text


def test_an_address_is_in_no_argument_of_curl(host: Host, server: Server) -> None:
    url = server.serve("x", CONTENT, stall=10_000).replace("http://", "http://ada:s3cret@")
    process = host.start(download_job(step_for(host.files / "a", CONTENT, url), limits=Limits()))
    until(lambda: server["x"].given > 0)
    seen = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"curl" in words[0]:
            seen.append(words)
    assert seen
    assert not any(b"s3cret" in word for words in seen for word in words)
    process.kill()


def test_a_file_of_unknown_size_comes_too(host: Host, server: Server) -> None:
    ran = host.fetch(step_for(host.files / "a", CONTENT, server.serve("x", CONTENT, drop=400_000), size=0))
    assert ran.status == 0, ran.text
    assert (host.files / "a").read_bytes() == CONTENT


@pytest.mark.parametrize("tool", TOOLS)
def test_a_part_that_is_whole_is_only_verified(host: Host, server: Server, tool: str) -> None:
    host.has(tool)
    for size in (len(CONTENT), 0):
        path = host.files / f"a{size}"
        path.with_name(path.name + ".part").write_bytes(CONTENT)
        ran = host.fetch(step_for(path, CONTENT, server.serve("x", CONTENT), size=size))
        assert ran.status == 0, ran.text
        assert path.read_bytes() == CONTENT
        assert server["x"].given == 0


def test_files_are_copied(host: Host) -> None:
    source = host.folder / "mnt share"
    source.write_bytes(CONTENT)
    host.has("")
    url = f"file://{str(source).replace(' ', '%20')}"
    ran = host.fetch(step_for(host.files / "a", CONTENT, "file:///nowhere/x", url))
    assert ran.status == 0, ran.text
    assert (host.files / "a").read_bytes() == CONTENT
    ran = host.fetch(step_for(host.files / "b", CONTENT, "file:///nowhere/x"))
    assert ran.ended == Ended.NOT_FOUND
    ran = host.fetch(step_for(host.files / "b", CONTENT + b"more", url))
    assert ran.ended == Ended.TRUNCATED
    assert names(host) == ["a"]


def test_proxies_of_the_environment_count(host: Host, server: Server) -> None:
    server.serve("x", CONTENT)
    # A proxy is asked with the whole address.
    server.things["http://cuda.invalid/x"] = server["x"]
    host.env["http_proxy"] = server.url
    for tool in TOOLS:
        host.has(tool)
        path = host.files / tool
        ran = host.fetch(step_for(path, CONTENT, "http://cuda.invalid/x"))
        assert ran.status == 0, (tool, ran.text)
        assert path.read_bytes() == CONTENT


# --- what is there ----------------------------------------------------------------------------


@pytest.mark.parametrize("shell", SHELLS)
def test_the_right_file_is_taken_as_it_is(host: Host, shell: str) -> None:
    host.shell = shell
    host.has("")
    path = host.files / "a"
    path.write_bytes(CONTENT)
    before = path.stat()
    ran = host.fetch(step_for(path, CONTENT, "http://192.0.2.1/never-asked"))
    assert ran.status == 0, ran.text
    assert ran.lines == ["a is there already"]
    assert path.stat() == before
    assert names(host) == ["a"]


@pytest.mark.parametrize(
    ("there", "words"),
    [(b"short", "has 5 bytes instead of 600000;"), (b"x" * len(CONTENT), f"has sha256 {sha256(b'x' * len(CONTENT))};")],
)
def test_a_wrong_file_stays_until_the_right_one_is_whole(host: Host, server: Server, there: bytes, words: str) -> None:
    path = host.files / "a"
    path.write_bytes(there)
    ran = host.fetch(step_for(path, CONTENT, f"{server.url}/missing"))
    assert ran.ended == Ended.NOT_FOUND
    assert f"{words} it will be replaced" in ran.text
    assert path.read_bytes() == there
    assert host.fetch(step_for(path, CONTENT, server.serve("x", CONTENT))).status == 0
    assert path.read_bytes() == CONTENT


def test_without_mirrors_only_what_is_there_counts(host: Host) -> None:
    assert host.fetch(step_for(host.files / "a", CONTENT)).ended == Ended.NO_SOURCES
    (host.files / "a").write_bytes(CONTENT)
    assert host.fetch(step_for(host.files / "a", CONTENT)).status == 0


# --- what is not it ---------------------------------------------------------------------------

PAGE = b"\n <!DOCTYPE HTML><html><head>\n<TITLE>Log in\nto the network</TITLE></head>" + b"x" * 500


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("size", [len(CONTENT), 10, 0])
def test_a_page_for_people_is_named(host: Host, server: Server, tool: str, size: int) -> None:
    host.has(tool)
    ran = host.fetch(step_for(host.files / "a", CONTENT, server.serve("x", PAGE, kind="text/html"), size=size))
    assert ran.ended == Ended.PAGE, ran.text
    assert 'titled "Log in to the network"' in ran.text
    assert names(host) == []


@pytest.mark.parametrize("tool", ["curl", "wget"])
def test_a_page_instead_of_the_rest_costs_nothing_of_what_is_here(host: Host, server: Server, tool: str) -> None:
    host.has(tool)
    part = host.files / "a.part"
    part.write_bytes(CONTENT[:400_000])
    ran = host.fetch(step_for(host.files / "a", CONTENT, server.serve("x", PAGE, kind="text/html", ranges=False)))
    assert ran.ended == Ended.PAGE, ran.text
    assert part.read_bytes() == CONTENT[:400_000]


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize(
    ("how", "ended"),
    [
        ({"status": 404}, Ended.NOT_FOUND),
        ({"status": 410}, Ended.NOT_FOUND),
        ({"status": 403}, Ended.DENIED),
        ({"status": 401}, Ended.DENIED),
        ({"status": 503}, Ended.SERVER),
        ({"to": "/x"}, Ended.REDIRECTS),
        ({"drop": 1, "ranges": False}, Ended.DROPPED),
    ],
)
def test_what_a_server_may_answer(host: Host, server: Server, tool: str, how: dict[str, object], ended: Ended) -> None:
    host.has(tool)
    ran = host.fetch(step_for(host.files / "a", CONTENT, server.serve("x", CONTENT, **how)))
    assert ran.ended == ended, ran.text
    assert ran.lines[-1].startswith(f"127.0.0.1:{server.url.rpartition(':')[2]}: ")
    assert not (host.files / "a").exists()
    # The limit of busybox is its own.
    assert len(server["x"].asked) <= (16 if tool == "busybox wget" else 11)


@pytest.mark.parametrize("tool", TOOLS)
def test_no_way_out_is_told_soon(host: Host, tool: str) -> None:
    host.has(tool)
    ran = host.fetch(step_for(host.files / "a", CONTENT, f"{closed_port()}/x", f"{closed_port()}/y"))
    assert ran.ended == Ended.NO_WAY, ran.text
    assert ran.seconds < 8
    assert names(host) == []


@pytest.mark.parametrize("tool", TOOLS)
def test_a_server_that_takes_the_call_and_is_silent_is_no_way_out(host: Host, tool: str) -> None:
    host.has(tool)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        ran = host.fetch(step_for(host.files / "a", CONTENT, f"http://127.0.0.1:{silent.getsockname()[1]}/x"))
    assert ran.ended == Ended.NO_WAY, ran.text
    assert ran.seconds < 10


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("how", [{}, {"length": False}, {"ranges": False}])
def test_a_file_that_is_too_short_is_truncated(host: Host, server: Server, tool: str, how: dict[str, object]) -> None:
    host.has(tool)
    ran = host.fetch(step_for(host.files / "a", CONTENT, server.serve("x", CONTENT[:300_000], **how)))
    assert ran.ended == Ended.TRUNCATED, ran.text
    assert "300000 of 600000" in ran.text
    assert not (host.files / "a").exists()


@pytest.mark.parametrize("tool", TOOLS)
def test_a_file_that_never_ends_is_left(host: Host, server: Server, tool: str) -> None:
    host.has(tool)
    ran = host.fetch(step_for(host.files / "a", CONTENT, server.serve("x", CONTENT * 30, rate=3e6)))
    assert ran.ended == Ended.WRONG_DIGEST, ran.text
    assert names(host) == []
    assert server["x"].given < 10_000_000


def test_a_wrong_file_is_deleted_and_the_next_mirror_asked(host: Host, server: Server, mirror: Server) -> None:
    wrong = some_bytes(len(CONTENT), seed=1)
    path = host.files / "a"
    ran = host.fetch(step_for(path, CONTENT, server.serve("x", wrong), mirror.serve("y", CONTENT)))
    assert ran.status == 0, ran.text
    assert path.read_bytes() == CONTENT
    # Nothing of the wrong file was built on.
    assert mirror["y"].asked == [""]


def test_two_mirrors_with_the_same_wrong_file_say_that_it_was_published_anew(
    host: Host, server: Server, mirror: Server
) -> None:
    wrong = some_bytes(len(CONTENT), seed=1)
    ran = host.fetch(step_for(host.files / "a", CONTENT, server.serve("x", wrong), mirror.serve("y", wrong)))
    assert ran.ended == Ended.REPUBLISHED
    assert f"two mirrors agree on sha256 {sha256(wrong)}" in ran.lines[-1]
    other = some_bytes(len(CONTENT), seed=2)
    ran = host.fetch(step_for(host.files / "a", CONTENT, server.serve("x", wrong), mirror.serve("y", other)))
    assert ran.ended == Ended.WRONG_DIGEST
    assert sha256(wrong) in ran.text
    assert sha256(other) in ran.text
    assert names(host) == []


@pytest.mark.parametrize("size", [len(CONTENT), 0])
def test_a_beginning_from_elsewhere_does_not_condemn_a_mirror(host: Host, server: Server, size: int) -> None:
    path = host.files / "a"
    path.with_name("a.part").write_bytes(b"of another file" * 100)
    ran = host.fetch(step_for(path, CONTENT, server.serve("x", CONTENT), size=size))
    assert ran.status == 0, ran.text
    assert path.read_bytes() == CONTENT
    assert server["x"].asked == ["bytes=1500-", ""]


def test_md5_alone_is_taken_with_a_warning_and_the_sha256_written_down(host: Host, server: Server) -> None:
    path = host.files / "a"
    ran = host.fetch(step_for(path, CONTENT, server.serve("x", CONTENT), sha256="", md5=md5(CONTENT)))
    assert ran.status == 0, ran.text
    assert "warning: a is known by its md5 only" in ran.text
    assert f"the sha256 of a is {sha256(CONTENT)}" in ran.text
    assert (host.files / "a.sha256").read_text() == f"{sha256(CONTENT)}  a\n"
    ran = host.fetch(step_for(host.files / "b", CONTENT, server.serve("x", CONTENT), sha256="", md5="0" * 32))
    assert ran.ended == Ended.WRONG_DIGEST
    assert names(host) == ["a", "a.sha256"]


# --- the host is not as it should be -----------------------------------------------------------


def test_no_tool_at_all(host: Host) -> None:
    host.has("")
    ran = host.fetch(step_for(host.files / "a", CONTENT, "http://192.0.2.1/x"))
    assert ran.ended == Ended.NO_TOOL
    assert "neither curl nor wget" in ran.text
    assert names(host) == []


def test_no_digest_tool(host: Host, server: Server) -> None:
    host.lacks("sha256sum")
    assert host.fetch(step_for(host.files / "a", CONTENT, server.serve("x", CONTENT))).ended == Ended.NO_DIGEST_TOOL
    assert not (host.files / "a").exists()


def test_busybox_alone_suffices(host: Host, server: Server) -> None:
    host.lacks(*os.listdir(host.bin))
    # As on an image that has nothing else; Debian's busybox has no flock.
    for name in ("cat", "chmod", "cp", "cut", "date", "df", "grep", "head", "mkdir", "mv", "rm", "sed", "sha256sum",
                 "sleep", "stat", "sync", "tail", "tr", "wget"):  # fmt: skip
        host.link(name, "busybox")
    host.shell = "busybox"
    path = host.files / "a"
    ran = host.fetch(step_for(path, CONTENT, server.serve("x", CONTENT, drop=400_000)))
    assert ran.status == 0, ran.text
    assert path.read_bytes() == CONTENT
    ran = host.fetch(step_for(host.files / "b", CONTENT, server.serve("x", CONTENT), size=10**15))
    assert ran.ended == Ended.NO_SPACE, ran.text


@pytest.mark.parametrize(
    ("code", "says", "ended", "words"),
    [
        (6, "curl: (6) Could not resolve host: example.org", Ended.NO_WAY, "Could not resolve"),
        (5, "curl: (5) Could not resolve proxy: p", Ended.NO_WAY, "Could not resolve proxy"),
        (7, "curl: (7) Failed to connect to example.org port 443", Ended.NO_WAY, "Failed to connect"),
        (28, "curl: (28) Connection timed out after 20001 milliseconds", Ended.NO_WAY, "timed out"),
        (35, "curl: (35) Recv failure: Connection reset by peer", Ended.NO_WAY, "reset by peer"),
        (35, "curl: (35) OpenSSL/3.0: error:0A00010B:SSL routines::wrong version number", Ended.TLS, "wrong version"),
        (35, "curl: (35) gnutls_handshake() failed: An unexpected TLS packet was received.", Ended.TLS, "unexpected"),
        (28, "curl: (28) SSL connection timeout", Ended.TLS, "no TLS there: curl: (28) SSL connection timeout"),
        (56, "curl: (56) CONNECT tunnel failed, response 403", Ended.NO_WAY, "the proxy gives no way"),
        (
            60,
            "curl: (60) SSL certificate problem: certificate is not yet valid",
            Ended.CERTIFICATE,
            "clock of this host",
        ),
        (77, "curl: (77) error setting certificate file: /etc/ssl/x", Ended.CERTIFICATE, "clock of this host"),
        (23, "curl: (23) Failure writing output to destination", Ended.UNWRITABLE, "Failure writing"),
        (1, "curl: (1) Protocol https not supported or disabled in libcurl", Ended.NO_TOOL, "not supported"),
        (52, "curl: (52) Empty reply from server", Ended.DROPPED, "Empty reply"),
        (99, "", Ended.DROPPED, "status 99"),
    ],
)
def test_what_curl_says_in_words(host: Host, code: int, says: str, ended: Ended, words: str) -> None:
    host.stand_in("curl", f"cat >/dev/null; echo '000 '; echo '{says}' >&2; exit {code}")
    ran = host.fetch(step_for(host.files / "a", CONTENT, "https://example.org/x"))
    assert ran.ended == ended, ran.text
    assert words in ran.text


@pytest.mark.parametrize(
    ("code", "says", "ended"),
    [
        (4, "wget: unable to resolve host address 'example.org'", Ended.NO_WAY),
        (1, "wget: bad address 'example.org'", Ended.NO_WAY),
        (4, "failed: Connection timed out.", Ended.NO_WAY),
        (4, "GnuTLS: An unexpected TLS packet was received.\nUnable to establish SSL connection.", Ended.TLS),
        (4, "Unable to establish SSL connection.", Ended.NO_WAY),
        (5, "ERROR: cannot verify example.org's certificate, issued by 'X':\n  Issued certificate not yet valid.\n"
            "To connect to example.org insecurely, use `--no-check-certificate'.", Ended.CERTIFICATE),
        (3, "Cannot write to 'a.part' (Permission denied).", Ended.UNWRITABLE),
        (1, "wget: not an http or ftp url: https://example.org/x", Ended.NO_TOOL),
    ],
)  # fmt: skip
def test_what_wget_says_in_words(host: Host, code: int, says: str, ended: Ended) -> None:
    host.lacks("curl")
    host.stand_in("wget", f"cat >&2 <<'EOF'\n{says}\nEOF\nexit {code}")
    ran = host.fetch(step_for(host.files / "a", CONTENT, "https://example.org/x"))
    assert ran.ended == ended, ran.text


def test_mirrors_that_fail_for_different_reasons_have_a_line_each(host: Host, server: Server) -> None:
    dead = closed_port()
    ran = host.fetch(step_for(host.files / "a", CONTENT, f"{dead}/x", f"{server.url}/missing"))
    assert ran.ended == Ended.MIXED
    assert ran.lines[-2].startswith(f"{dead[7:]}: no way there: ")
    assert ran.lines[-1] == f"{server.url[7:]}: it answered with HTTP status 404"


def test_a_folder_in_the_way(host: Host, server: Server) -> None:
    (host.files / "a").mkdir()
    ran = host.fetch(step_for(host.files / "a", CONTENT, server.serve("x", CONTENT)))
    assert ran.ended == Ended.UNWRITABLE
    assert list((host.files / "a").iterdir()) == []
    (host.files / "f").write_text("")
    assert host.fetch(step_for(host.files / "f" / "a", CONTENT, server.serve("x", CONTENT))).ended == Ended.UNWRITABLE


def test_digesting_shows_how_far_it_is(host: Host) -> None:
    path = host.files / "a"
    path.write_bytes(CONTENT)
    host.stand_in("sha256sum", "head -c 100000 >/dev/null; sleep 5; printf '%s  -\\n' " + sha256(CONTENT))
    ran = host.fetch(step_for(path, CONTENT))
    assert ran.status == 0, ran.text
    told = [line for line in ran.lines if line.startswith("checking ")]
    assert 1 <= len(told) <= 3
    assert re.fullmatch(r"checking a [1-9]\d*/600000 bytes \(\d+\.\d MB/s\)", told[0])


@pytest.mark.parametrize("tool", ["curl", "wget"])
def test_a_certificate_that_nobody_vouches_for(host: Host, tmp_path: Path, tool: str) -> None:
    host.has(tool)
    secure = Server(self_signed(tmp_path))
    try:
        ran = host.fetch(step_for(host.files / "a", CONTENT, secure.serve("x", CONTENT)))
    finally:
        secure.close()
    assert ran.ended == Ended.CERTIFICATE, ran.text
    assert "its certificate was not accepted" in ran.text
    assert f"the clock of this host says {datetime.now(UTC):%Y-%m-%d}" in ran.text
    assert secure["x"].asked == []


# --- ended in the middle ------------------------------------------------------------------------


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("tool", TOOLS)
def test_killed_in_the_middle_it_goes_on_from_there(host: Host, server: Server, shell: str, tool: str) -> None:
    host.shell = shell
    host.has(tool)
    path, part = host.files / "a", host.files / "a.part"
    step = step_for(path, CONTENT, server.serve("x", CONTENT, stall=200_000))
    process = host.start(download_job(step, limits=Limits()))
    until(lambda: part.exists() and part.stat().st_size >= 200_000)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait(5)
    server["x"].stall = 0
    ran = host.fetch(step)
    assert ran.status == 0, ran.text
    assert path.read_bytes() == CONTENT
    assert server["x"].given == len(CONTENT)
    assert names(host) == ["a"]


def test_a_tool_that_outlives_its_killed_script_is_waited_for(host: Host, server: Server) -> None:
    path, part = host.files / "a", host.files / "a.part"
    step = step_for(path, CONTENT, server.serve("x", CONTENT, rate=300_000))
    process = host.start(download_job(step, limits=Limits()))
    until(lambda: part.exists() and part.stat().st_size > 0)
    process.kill()  # curl goes on
    ran = host.fetch(step)
    assert ran.status == 0, ran.text
    assert "waiting: another process is writing" in ran.text
    assert path.read_bytes() == CONTENT
    assert server["x"].given == len(CONTENT)


@pytest.mark.parametrize("shell", SHELLS)
def test_asked_to_end_it_takes_its_tool_along(host: Host, server: Server, shell: str) -> None:
    host.shell = shell
    step = step_for(host.files / "a", CONTENT, server.serve("x", CONTENT, stall=200_000))
    process = host.start(download_job(step, limits=Limits()))
    until(lambda: server["x"].given >= 200_000)
    process.terminate()
    ran = host.end(process, within=5)
    assert ran.status == 143
    until(lambda: not any(_session_of(pid) == process.pid for pid in filter(str.isdigit, os.listdir("/proc"))))


def _session_of(pid: str) -> int:
    try:
        state, *rest = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return 0 if state in "ZX" else int(rest[2])


@pytest.mark.parametrize("shell", SHELLS)
def test_two_at_once_fetch_one(host: Host, server: Server, shell: str) -> None:
    host.shell = shell
    path = host.files / "a"
    step = step_for(path, CONTENT, server.serve("x", CONTENT, rate=400_000))
    one, other = (host.start(download_job(step, limits=QUICK)) for _ in range(2))
    ends = [host.end(one), host.end(other)]
    assert [ran.status for ran in ends] == [0, 0], [ran.text for ran in ends]
    assert path.read_bytes() == CONTENT
    assert server["x"].given == len(CONTENT)
    assert names(host) == ["a"]


def test_pauses_grow_and_are_bounded(host: Host, server: Server) -> None:
    began = time.monotonic()
    ran = host.fetch(
        step_for(host.files / "a", CONTENT, server.serve("x", CONTENT, status=503)), Limits(pause=1, tries=3, stall=5)
    )
    assert ran.ended == Ended.SERVER
    assert [line.rpartition(" in ")[2] for line in ran.lines[:-1]] == ["1 s", "2 s"]
    assert 3 <= time.monotonic() - began < 8


def test_https_on_a_port_of_plain_http_is_told_as_that(host: Host, server: Server) -> None:
    ran = host.fetch(step_for(host.files / "a", CONTENT, server.serve("x", CONTENT).replace("http://", "https://")))
    assert ran.ended == Ended.TLS, ran.text
    assert "no TLS there: " in ran.lines[-1]
