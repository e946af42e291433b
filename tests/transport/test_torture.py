"""Sections that do their worst, in three shells: the others must not notice."""

from __future__ import annotations

import os
import random
import re
import tracemalloc
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpuprov.errors import LineLost
from gpuprov.secret import Secret
from gpuprov.transport.frame import CLIP, Frame, FrameResult, Section
from gpuprov.transport.local import LocalConnection


@pytest.fixture
async def line(sh: str) -> AsyncIterator[LocalConnection]:
    connection = LocalConnection("here", shell=sh, become=False, reconnect_for=5.0, grace=1.0)
    await connection.open()
    yield connection
    await connection.close()


async def run(
    line: LocalConnection, *scripts: str, prelude: str = "", before: str = "", deadline: float = 20.0
) -> FrameResult:
    sections = tuple(Section(name=f"s{number}", script=script) for number, script in enumerate(scripts))
    return await line.frame(Frame(sections=sections, prelude=prelude, before=before, deadline=deadline))


NASTY = {
    "syntax": ("echo 'x", 2),
    "syntax in the middle": ("echo a\nif\necho b", 2),
    "exit": ("exit 7", 7),
    "exec": ("exec sh -c 'exit 9'", 9),
    "self kill": ("kill -9 $$; sleep 5", 137),
    "self term": ("kill -TERM $$; sleep 5", 143),
    "subshell kill": ("sh -c 'kill -9 $$'", 137),
    "closes stdout": ("exec 1>&-; echo lost; exit 4", 4),
    "closes both": ("exec 1>&- 2>&-; exit 5", 5),
    "dups": ("exec 2>&1 3>&1; echo x >&2; exit 6", 6),
    "closes all": ("exec 0<&- 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-; exit 3", 3),
    "half a mark": (r"printf '\n%s' \"$_gp_a\"; exit 0", 0),
    "mark apart": (r"printf '\n%s %s end 0\n' $_gp_a $_gp_b; exit 0", 0),
    "all variables": ("set; exit 0", 0),
    "trace": ("set -x; echo a; set +x; exit 0", 0),
    "errexit": ("set -e; false; echo never", 1),
    "nounset": ("set -u; echo $nothing_of_that_name; exit 0", None),
    "trap": ("trap 'echo bye' EXIT; exit 11", 11),
    "background": ("sleep 0.2 & exit 0", 0),
    "background noise": ("(sleep 0.05; echo late) & exit 0", 0),
    "unset": ("unset PATH; unset -f _gp_mark _gp_section; exit 0", 0),
    "redefine": ("_gp_mark() { :; }; _gp_section() { :; }; printf() { :; }; exit 0", 0),
    "alias": ("alias printf=false exit=true; true", 0),
    "return": ("return 8", 8),
    "break": ("break; continue; exit 0", 0),
    "positional": ("[ $# -eq 0 ] || exit 1; set -- a b; shift; exit 0", 0),
    "ifs": ("IFS=0123456789; set -f; exit 0", 0),
    "cd": ("cd /; umask 777; exit 0", 0),
    "stdin": ("read x; cat; exit 0", 0),
    "missing command": ("no-such-command-here", 127),
    "trailing backslash": ("echo a \\", 0),
    "trailing comment": ("true # it's", 0),
    "here document": ("cat <<E\nit's $((1+1))\nE", 0),
    "open here document": ("cat <<E\nunended", None),
    "empty": ("", 0),
    "binary": (r"printf '\000\377\n\001'; exit 0", 0),
    "carriage": (r"printf 'a\r\n\r'; exit 0", 0),
}


@pytest.mark.parametrize("name", NASTY)
async def test_a_nasty_section_disturbs_no_other(line: LocalConnection, name: str) -> None:
    script, status = NASTY[name]
    result = await run(line, "printf one", script, "echo two; echo err >&2; pwd; exit 3", prelude="f() { :; }")
    first, nasty, last = (result.sections[key] for key in ("s0", "s1", "s2"))
    assert (first.status, first.stdout, first.stderr) == (0, b"one", b"")
    if status is not None:
        assert nasty.status == status
    assert last.status == 3
    assert last.stdout.replace(b"late\n", b"") == f"two\n{os.getcwd()}\n".encode()
    assert last.stderr == b"err\n"
    assert not result.timed_out and not result.stuck
    # And the shell is fit for the next.
    assert (await run(line, "echo again")).sections["s0"].stdout.replace(b"late\n", b"") == b"again\n"


@pytest.mark.parametrize(
    ("script", "stdout"),
    [("printf 'no newline'", b"no newline"), ("echo; echo", b"\n\n"), (r"printf '\n'", b"\n"), ("printf '\\0'", b"\0")],
)
async def test_output_is_exact(line: LocalConnection, script: str, stdout: bytes) -> None:
    assert (await run(line, script, script)).sections["s1"].stdout == stdout


async def test_any_output_comes_back_as_it_is(shells: dict[str, str], tmp_path: Path) -> None:
    connection = LocalConnection("here", become=False)
    await connection.open()
    rng = random.Random(7)
    pieces = [b"\n", b"\n\n", b"\0", b"\xff", b"'", b"\\", b"] s0 0", b"end 0 1 2", b"\r", b"abc"]
    for round_ in range(25):
        outs = [b"".join(rng.choices(pieces, k=rng.randrange(12))) for _ in range(4)]
        for number, out in enumerate(outs):
            (tmp_path / f"{number}").write_bytes(out)
        result = await run(
            connection, f"cat {tmp_path}/0; cat {tmp_path}/1 >&2", f"cat {tmp_path}/2; cat {tmp_path}/3 >&2"
        )
        got = [part for key in ("s0", "s1") for part in (result.sections[key].stdout, result.sections[key].stderr)]
        assert got == outs, round_
    await connection.close()


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.text(st.characters(exclude_characters="\0"), max_size=60), min_size=1, max_size=4))
def test_any_script_text_leaves_the_last_section_alone(texts: list[str]) -> None:
    """Random text as comments and quoted words: nothing of it may leave its section."""
    import asyncio

    from gpuprov.quote import quote

    async def check() -> None:
        async with asyncio.timeout(30):
            connection = LocalConnection("here", become=False)
            await connection.open()
            scripts = [f"printf %s {quote(text)}" for text in texts]
            result = await run(connection, *scripts, "printf last")
            for number, text in enumerate(texts):
                assert result.sections[f"s{number}"].stdout == text.encode("utf-8", "surrogateescape")
            assert result.sections[f"s{len(texts)}"].stdout == b"last"
            await connection.close()

    if not any("\ud800" <= c <= "\udfff" for text in texts for c in text):
        asyncio.run(check())


async def test_the_prelude_serves_all_sections(line: LocalConnection) -> None:
    result = await run(line, "f 1", "f 2; X=changed", "echo $X", prelude="X=kept\nf() { echo f$1; }\necho said")
    assert [result.sections[key].stdout for key in ("prelude", "s0", "s1", "s2")] == [
        b"said\n",
        b"f1\n",
        b"f2\n",
        b"kept\n",
    ]


async def test_an_errexit_of_the_prelude_holds_in_sections_and_ends_no_frame(line: LocalConnection) -> None:
    result = await run(line, "false; echo never", "echo on; false", prelude="set -eu")
    assert [(r.status, r.stdout) for r in result.sections.values()] == [(0, b""), (1, b""), (1, b"on\n")]


@pytest.mark.parametrize(("prelude", "status"), [("exit 4", 4), ("if", 2), ("kill -9 $$", 137)])
async def test_a_broken_prelude_is_reported_once(line: LocalConnection, prelude: str, status: int) -> None:
    result = await run(line, "echo no", prelude=prelude)
    assert list(result.sections) == ["prelude"]
    assert result.sections["prelude"].status == status
    assert line.exchanges == 1


async def test_before_lives_in_the_persistent_shell(line: LocalConnection, tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    result = await run(line, "echo $X", before=f"exec 8>>{lock}; X=out; cat; echo had >&2")
    before = result.sections["before"]
    assert (before.status, before.stdout, before.stderr) == (0, b"", b"had\n")
    assert list(result.sections) == ["before", "s0"]
    result = await run(line, "ls -l /proc/$$/fd /proc/$PPID/fd", before='echo "$X"; [ -e /proc/$$/fd/8 ] && echo open')
    assert result.sections["before"].stdout == b"out\nopen\n"
    assert str(lock).encode() not in result.sections["s0"].stdout


@pytest.mark.parametrize("before", ["return 5", "(exit 5)", "echo no; sh -c 'exit 5'"])
async def test_where_before_says_no_nothing_else_runs(line: LocalConnection, before: str) -> None:
    result = await run(line, "echo ran", prelude="echo ran", before=before)
    assert [(section.name, section.status) for section in result.sections.values()] == [("before", 5)]
    assert not result.timed_out
    assert (await run(line, "echo on")).sections["s0"].stdout == b"on\n"


async def test_what_is_due_on_opening_is_done_once_per_shell_and_retried_until_it_succeeds(
    line: LocalConnection, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    line.on_open = f"echo opening; [ -e {go} ] || return 4"
    refused = await run(line, "echo ran", before="echo too")
    assert list(refused.sections) == ["before"]
    assert (refused.sections["before"].status, refused.sections["before"].stdout) == (4, b"opening\n")
    go.touch()
    opened = await run(line, "echo ran", before="echo too")
    assert opened.sections["before"].stdout == b"opening\ntoo\n" and opened.sections["s0"].stdout == b"ran\n"
    assert list((await run(line, "echo ran")).sections) == ["s0"]
    with pytest.raises(LineLost):
        await run(line, "echo no", before="exit 1")
    again = await run(line, "echo ran")
    assert again.sections["before"].stdout == b"opening\n" and again.sections["s0"].stdout == b"ran\n"


async def test_before_that_ends_the_shell_is_a_lost_line_and_not_sent_again(
    line: LocalConnection, tmp_path: Path
) -> None:
    count = tmp_path / "count"
    with pytest.raises(LineLost) as caught:
        await run(line, "echo no", before=f"echo x >>{count}; exit 3")
    assert caught.value.begun and "status 3" in caught.value.message
    assert count.read_text() == "x\n"
    assert (await run(line, "echo on")).sections["s0"].stdout == b"on\n"


async def test_env_is_exported_in_its_section_only_and_secrets_are_in_no_argv(line: LocalConnection) -> None:
    token = "s3cr3t it's \\n $HOME"
    show = "for p in /proc/[0-9]*; do tr '\\0' ' ' <$p/cmdline; echo; done 2>/dev/null | grep -c 's3cr3t [i]t' || :"
    sections = (
        Section(
            name="a",
            script='printf %s "$TOKEN"; sh -c \'printf " %s" "$PLAIN"\'',
            env={"TOKEN": Secret(token), "PLAIN": "p q"},
        ),
        Section(name="b", script='echo "${TOKEN-unset}${PLAIN-unset}"'),
        Section(name="c", script=show, env={"TOKEN": Secret(token)}),
    )
    result = await line.frame(Frame(sections=sections))
    assert result.sections["a"].stdout == f"{token} p q".encode()
    assert result.sections["b"].stdout == b"unsetunset\n"
    assert result.sections["c"].stdout == b"0\n"


async def test_locale_and_path(line: LocalConnection) -> None:
    result = await run(line, 'echo "$LC_ALL:$PATH"')
    locale, *path = result.sections["s0"].stdout.decode().strip().split(":")
    assert locale == "C" and {"/usr/local/sbin", "/usr/sbin", "/sbin"} <= set(path)


@pytest.mark.parametrize("fill", ["x", "random"])
async def test_long_scripts_do_not_deadlock(line: LocalConnection, fill: str) -> None:
    body = "x" * 400_000 if fill == "x" else random.Random(1).randbytes(150_000).hex()
    result = await run(line, f"yes | head -c 300000; : '{body}'; echo end", "echo after")
    assert result.sections["s0"].stdout.endswith(b"end\n") and result.sections["s0"].status == 0
    assert result.sections["s1"].stdout == b"after\n"


async def test_a_host_that_cannot_unpack_gets_the_frame_as_it_is(
    shells: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("id", "timeout", "true", "env", "cat"):
        (tmp_path / name).symlink_to(f"/usr/bin/{name}")
    monkeypatch.setenv("PATH", str(tmp_path))
    connection = LocalConnection("here", become=False)
    await connection.open()
    # The PATH is completed with the sbin folders, so base64 must be missing there as well.
    result = await run(connection, "command -v base64 gzip; echo x" + " # pad" * 3000)
    assert result.sections["s0"].stdout == b"x\n"
    await connection.close()


async def test_noise_is_clipped_per_section_and_memory_stays_flat(line: LocalConnection) -> None:
    tracemalloc.start()
    result = await run(
        line, "echo first; head -c 60000000 /dev/zero; echo last; yes e | head -c 1000000 >&2", "echo quiet"
    )
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    noisy, quiet = result.sections["s0"], result.sections["s1"]
    assert noisy.stdout.startswith(b"first\n") and noisy.stdout.endswith(b"last\n")
    assert len(noisy.stdout) == len(noisy.stderr) == 2 * CLIP
    assert noisy.clipped == 60_000_011 + 1_000_000 - 4 * CLIP
    assert (quiet.status, quiet.stdout, quiet.clipped) == (0, b"quiet\n", 0)
    assert peak < 16_000_000


async def test_frames_of_one_line_do_not_overlap(line: LocalConnection, tmp_path: Path) -> None:
    import asyncio

    script = f"mkdir {tmp_path}/one && sleep 0.05 && rmdir {tmp_path}/one"
    results = await asyncio.gather(*(run(line, script) for _ in range(6)))
    assert [result.sections["s0"].status for result in results] == [0] * 6


def test_no_test_of_the_nasty_sections_is_named_twice() -> None:
    assert all(re.fullmatch("[a-z ]+", name) for name in NASTY)
