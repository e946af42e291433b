from __future__ import annotations

import posixpath
import re
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuprov.errors import StepFailed
from gpuprov.jobs import JobResult
from gpuprov.model import Job, Obtain
from gpuprov.store import Cache, Ended, check, download_job, explain, obtain, slot_of
from gpuprov.store.endings import explain_result
from tests.engine.pretend import PretendedHost
from tests.store.hosts import sha256, step_for

GOOD = "https://example.org/a/cuda_12.8.run"


def step(*sources: str, path: str = "/var/cache/cuda.run", **more: Any) -> Obtain:
    return step_for(path, b"content", *(sources or (GOOD,)), **more)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"sha256": ""}, "a digest is needed"),
        ({"sha256": "abc"}, "64 digits of lower-case hex"),
        ({"sha256": "A" * 64}, "64 digits of lower-case hex"),
        ({"sha256": "a" * 64 + "\n"}, "64 digits of lower-case hex"),
        ({"sha256": "", "md5": "g" * 32}, "32 digits of lower-case hex"),
        ({"md5": "1"}, "32 digits of lower-case hex"),
        ({"size": -1}, "negative"),
        ({"path": "cuda.run"}, "absolute"),
        ({"path": "/a\nb"}, "newline"),
        ({"path": "/"}, "root folder"),
    ],
)
def test_what_cannot_be_verified_or_written_is_refused(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        download_job(step(**wrong))


@pytest.mark.parametrize(
    "url",
    [
        "ftp://example.org/a",
        "scp://example.org/a",
        "example.org/a",
        "/a",
        "",
        "https:///a",
        "https://exa mple.org/a",
        "https://example.org/a\nurl = file:///etc/shadow",
        'https://example.org/"a',
        "https://example.org/a\\b",
        "https://example.org/ü",
        "https://[::1/a",
        "file://elsewhere/a",
        "file:///a?b",
        "file:///%ff%fe",
        "file:///a%0Ab",
        "file:a",
    ],
)
def test_an_address_of_an_unknown_kind_is_refused(url: str) -> None:
    with pytest.raises(ValueError):
        check(step(url))


@pytest.mark.parametrize(
    "url",
    [GOOD, "http://ada:pw@[::1]:80/a?b=c&d=%20", "HTTPS://example.org/a(1)~'b[x]{y}.run", "file:///a%20b", "file://localhost/a"],
)  # fmt: skip
def test_an_address_may_be(url: str) -> None:
    check(step(url))


def test_what_is_built_only_needs_a_digest_to_be_looked_for() -> None:
    with pytest.raises(ValueError, match="digest"):
        check(Obtain(title="t", key="k", path="/a", build=Job(title="b", script=":")))


def test_a_path_has_one_lock_and_one_slot_however_it_is_spelt() -> None:
    one, other = step(path="/var/cache/a"), step(path="/var//cache/./a")
    assert download_job(one).locks == download_job(other).locks
    assert slot_of(one) == slot_of(other) == "download:/var/cache/a"
    assert download_job(one).locks != download_job(step(path="/var/cache/b")).locks
    assert all(re.fullmatch(r"download-[0-9a-f]{12}", name) for name in download_job(one).locks)


def test_the_job_keeps_title_deadline_and_environment() -> None:
    job = download_job(step(deadline=99.0, env={"https_proxy": "http://proxy:3128"}))
    assert (job.title, job.deadline, job.env) == ("fetch it", 99.0, {"https_proxy": "http://proxy:3128"})


def test_each_status_is_documented_where_the_script_is() -> None:
    text = resources.files("gpuprov.onhost").joinpath("download.sh").read_text()
    documented = {int(found[1]): found[2] for found in re.finditer(r"^#   (7\d|8\d)  ([a-z-]+)", text, re.M)}
    assert documented == {e.value: e.name.lower().replace("_", "-") for e in Ended if e}


@pytest.mark.parametrize("status", list(Ended))
def test_each_status_has_words(status: Ended) -> None:
    message, hint = explain(status, step("https://ada:s3cret@mirror.example/x", GOOD))
    assert message.startswith("cuda.run ")
    assert "{" not in message
    assert "s3cret" not in message + hint
    assert bool(hint) == (status != Ended.OK)


def test_words_name_the_hosts_and_what_was_wanted() -> None:
    message, _ = explain(Ended.WRONG_DIGEST, step())
    assert message == (
        f"cuda.run was fetched from example.org, and is not the file that was asked for (sha256 {sha256(b'content')})"
    )
    hint = explain(Ended.NO_SOURCES, step(), Path("/somewhere/kept"))[1]
    assert f"put the file as /somewhere/kept/{posixpath.basename(step().path)} on the controller" in hint
    assert "clock" in explain(Ended.CERTIFICATE, step())[1]
    assert "any of 3 hosts" in explain(Ended.NO_WAY, step("http://a/x", "http://b/x", "http://c/x"))[0]


@pytest.mark.parametrize(
    ("status", "words"), [(None, "without a status"), (1, "with status 1"), (137, "137"), (-1, "-1")]
)
def test_a_status_of_nobody_is_said_as_it_is(status: int | None, words: str) -> None:
    assert words in explain(status, step())[0]


@given(st.text(), st.integers(-5, 300))
def test_no_text_of_people_leads_to_anything_but_an_answer_or_a_value_error(text: str, status: int) -> None:
    wanted = step(text, path=f"/{text}")
    try:
        check(wanted)
        assert download_job(wanted).script
    except ValueError:
        return
    explain(status, wanted)


def test_what_the_hosts_tool_said_stands_in_the_message() -> None:
    tail = "downloading\nexample.org: no TLS there: curl: (35) wrong version number"
    result = JobResult(status=Ended.TLS, attempt=1, how="ended", tail=tail, followed=False)
    message, hint = explain_result(result, step())
    assert message.endswith("no TLS came about with it (no TLS there: curl: (35) wrong version number)")
    assert "http://" in hint


async def test_equal_lines_are_shown_once(tmp_path: Path) -> None:
    async def run_job(*_: object) -> JobResult:
        tail = "downloading a 0 bytes\n" * 9 + "example.org: no way there: curl: (28) timed out"
        return JobResult(status=Ended.NO_WAY, attempt=1, how="ended", tail=tail, followed=False)

    with pytest.raises(StepFailed, match=r"timed out") as raised:
        await obtain(
            step(), run_job=run_job, connection=PretendedHost(), emit_line=lambda line: None, cache=Cache(tmp_path)
        )
    assert raised.value.output == "downloading a 0 bytes\nexample.org: no way there: curl: (28) timed out"
