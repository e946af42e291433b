from __future__ import annotations

from pathlib import Path

import pytest

from gpuprov.cli import main
from gpuprov.cli.exec import shell_line
from gpuprov.events import PlanLine, PlanReady, RunStarted
from tests.cli.fake import install, telling
from tests.report.story import apply_story, plan_story

INVENTORY = ["-i", "hosts.yaml"]


def test_every_word_arrives(monkeypatch: pytest.MonkeyPatch) -> None:
    called = install(monkeypatch, telling([]))
    words = (
        "apply site.yaml -i a.yaml -i b.yaml -l gpu* -D -t cuda,torch -t x --skip-tags slow -e a=1 -e @more.yaml"
        " -f 5 -vv -y --accept-new --timeout 3 --reconnect-for 60 --lock-wait 0"
    )
    assert main(words.split()) == 0
    got = called.typed
    assert called.kind == "apply"
    assert called.subject == "site.yaml"
    assert got.inventory == ("a.yaml", "b.yaml")
    assert got.limit == "gpu*"
    assert got.diff
    assert got.tags == {"cuda", "torch", "x"}
    assert got.skip_tags == {"slow"}
    assert got.extra_vars == ("a=1", "@more.yaml")
    assert (got.forks, got.verbosity) == (5, 2)
    assert got.yes
    assert got.accept_new
    assert (got.timeout, got.reconnect_for, got.lock_wait) == (3.0, 60.0, 0.0)
    assert not got.only_looks


@pytest.mark.parametrize(
    ("words", "looks"),
    [
        ("plan s.yaml", True),
        ("apply s.yaml", False),
        ("apply -C s.yaml", True),
        ("apply --list-resources s.yaml", True),
        ("plan -C s.yaml", True),
    ],
)
def test_only_apply_without_check_changes_anything(words: str, looks: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    called = install(monkeypatch, telling([]))
    assert main([*words.split(), *INVENTORY]) == 0
    assert called.typed.only_looks is looks


def test_facts_are_of_all_hosts_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    called = install(monkeypatch, telling([]))
    assert main(["facts", *INVENTORY]) == 0
    assert (called.kind, called.subject) == ("facts", "all")
    assert main(["facts", "gpu1", *INVENTORY]) == 0
    assert called.subject == "gpu1"


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["nvidia-smi", "-L"], "nvidia-smi -L"),
        (["df -h / | tail -1"], "df -h / | tail -1"),
        (["echo", "a b", "$HOME", "it's"], """echo 'a b' '$HOME' 'it'"'"'s'"""),
        (["ls", "--json", "-l"], "ls --json -l"),
    ],
)
def test_the_words_of_exec_reach_the_host_as_they_are(
    words: list[str], line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    called = install(monkeypatch, telling([]))
    assert main(["exec", "gpu*", *INVENTORY, "--", *words]) == 0
    assert (called.subject, called.line) == ("gpu*", line)
    assert not called.typed.json
    assert shell_line(tuple(words)) == line


def test_the_inventory_comes_from_the_words_then_the_environment_then_the_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    called = install(monkeypatch, telling([]))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GPUPROV_INVENTORY", raising=False)
    assert main(["plan", "s.yaml"]) == 2
    assert "no inventory" in capsys.readouterr().err
    (tmp_path / "hosts.yaml").touch()
    assert main(["plan", "s.yaml"]) == 0
    assert list(called.typed.inventory) == ["hosts.yaml"]
    monkeypatch.setenv("GPUPROV_INVENTORY", "a.yaml:b.yaml")
    assert main(["plan", "s.yaml"]) == 0
    assert list(called.typed.inventory) == ["a.yaml", "b.yaml"]
    assert main(["plan", "s.yaml", "-i", "c.yaml"]) == 0
    assert list(called.typed.inventory) == ["c.yaml"]


@pytest.mark.parametrize(
    "words",
    [
        "",
        "plan",
        "plan s.yaml --no-such-option",
        "plan s.yaml -f 0",
        "plan s.yaml --timeout 0",
        "plan s.yaml --timeout soon",
        "plan a.yaml b.yaml",
        "plan s.yaml -y",
        "nonsense",
        "exec all",
        "exec all nvidia-smi -L",
        "apply s.yaml --exit-code",
    ],
)
def test_wrong_words_end_with_2(words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, telling([]))
    arguments = words.split()
    assert main([*arguments, *(INVENTORY if len(arguments) > 1 else [])]) == 2


def test_after_a_plan_the_same_words_are_offered_as_an_apply(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    install(monkeypatch, telling(plan_story()))
    arguments = ["plan", "my site.yaml", "-i", "hosts.yaml", "-l", "gpu*", "-t", "a,b", "--exit-code", "-D", "-C"]
    assert main([*arguments, "--timeout", "5", "-e", "x=a b"]) == 4
    last = capsys.readouterr().out.rstrip().splitlines()[-1]
    assert last == "  gpuprov apply 'my site.yaml' -i hosts.yaml -l 'gpu*' -e 'x=a b' --timeout 5 -D -t a,b"


def test_after_a_failure_the_same_words_are_offered_for_the_failed_hosts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    install(monkeypatch, telling(apply_story(), 3))
    assert main(["apply", "site.yaml", "-i", "hosts.yaml", "-l", "all", "-vv", "-y"]) == 3
    last = capsys.readouterr().out.rstrip().splitlines()[-1]
    assert last == "  gpuprov apply site.yaml -i hosts.yaml -vv -y -l gpu2,gpu3"


def changed_plan(verdict: str) -> list[object]:
    line = PlanLine(host="gpu1", play="p", role="r", id="x", verdict=verdict, action="create", after="1")  # type: ignore[arg-type]
    return [RunStarted(run="r", command="plan", hosts=("gpu1",)), line, PlanReady(host="gpu1", play="p")]


@pytest.mark.parametrize(
    ("verdict", "asked", "engine", "code"),
    [
        ("change", False, 0, 0),
        ("change", False, 4, 0),
        ("change", True, 0, 4),
        ("change", True, 4, 4),
        ("recheck", True, 0, 4),
        ("same", True, 0, 0),
        ("not-selected", True, 0, 0),
        ("change", True, 3, 3),
        ("change", True, 1, 1),
        ("blocked", False, 1, 1),
    ],
)
def test_a_plan_tells_differences_by_its_exit_code_only_when_asked(
    verdict: str, asked: bool, engine: int, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, telling(changed_plan(verdict), engine))  # type: ignore[arg-type]
    assert main(["plan", "s.yaml", *INVENTORY, *(["--exit-code"] if asked else [])]) == code


@pytest.mark.parametrize("words", [["-t", ""], ["-t", " , "], ["--skip-tags", ""]])
def test_a_tag_option_without_a_tag_is_refused(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An empty variable of a script must not come to mean everything."""
    called = install(monkeypatch, telling([]))
    assert main(["apply", "site.yaml", *INVENTORY, *words]) == 2
    assert "names no tag" in capsys.readouterr().err
    assert called.kind == ""


def test_each_level_says_what_its_help_tells(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said: dict[tuple[str, int], str] = {}
    for command, story in (("plan", plan_story), ("apply", apply_story)):
        for level in (1, 2, 3):
            install(monkeypatch, telling(story()))
            main([command, "site.yaml", *INVENTORY, "-" + "v" * level])
            said[command, level] = capsys.readouterr().out.replace(" -" + "v" * level, "")
    assert said["plan", 1] == said["plan", 2], "plan has no steps that print"
    assert said["plan", 2] != said["plan", 3]
    assert len({said["apply", level] for level in (1, 2, 3)}) == 3
    assert main(["plan", "--help"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "-vv: in apply, also what long steps print" in told
    assert "Only look, as plan does, and list every resource of each host" in told


@pytest.mark.parametrize("command", ["facts", "exec"])
def test_the_mistakes_of_all_words_are_told_at_once(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "h.yaml").write_text("hosts: {gpu1: {port: x}}")
    words = ["-i", str(tmp_path / "h.yaml"), "-l", "gpu3", "-e", "nothing"]
    assert main([command, "gpu2", *words, *(["--", "true"] if command == "exec" else [])]) == 2
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 4
    for words_of_it, line in zip(("'gpu2'", "'gpu3'", "'nothing' sets nothing", "port must be"), said, strict=True):
        assert words_of_it in line


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("plan s.yaml --become", "'become: auto' or 'become: never' stands in the inventory"),
        ("apply s.yaml -b", "'become: auto' or 'become: never' stands in the inventory"),
        ("apply s.yaml -u root", "say 'user' in the inventory"),
        ("apply s.yaml -uroot", "say 'user' in the inventory"),
        ("apply s.yaml -k", "say 'password: {env: NAME}' in the inventory"),
        ("apply s.yaml -K", "sudo without a password is the only way"),
        ("apply s.yaml --ask-become-pass", "sudo without a password is the only way"),
        ("apply s.yaml --private-key=x", "say 'key' in the inventory"),
        ("plan s.yaml --syntax-check", "plan --list-hosts does only that"),
        ("apply s.yaml --start-at-task x", "what is as wanted is left alone"),
        ("apply s.yaml --step", "asks once"),
        ("exec all -m ping", "gpuprov exec PATTERN -- COMMAND"),
        ("exec -a uptime all", "gpuprov exec PATTERN -- COMMAND"),
        ("exec a --become uptime -p", "'become: auto' or 'become: never' stands in the inventory"),
        ("plan s.yaml --tag x", "did you mean '--tags'?"),
        ("plan s.yaml -y", "that goes with apply"),
        ("facts --check", "that goes with plan and apply"),
        ("-i hosts.yaml plan s.yaml", "options stand behind the command"),
        ("exec a uptime -p", "put '--' before the command: gpuprov exec a -- uptime -p"),
        ("exec a -f 2 df -hP /", "put '--' before the command: gpuprov exec a -f 2 -- df -hP /"),
        ("exec a ls -l", "put '--' before the command: gpuprov exec a -- ls -l"),
    ],
)
def test_an_option_of_other_tools_is_told_with_what_there_is_instead(
    words: str, hint: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    install(monkeypatch, telling([]))
    assert main(words.split()) == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("Error: ")
    assert f"{hint}" in last
    assert last.endswith(")")
    assert ("did you mean" in last) == (hint.startswith("did you mean"))


def test_an_option_like_no_other_is_told_without_a_guess(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    install(monkeypatch, telling([]))
    assert main(["plan", "s.yaml", "--vault-id", "x"]) == 2
    assert capsys.readouterr().err.splitlines()[-1] == "Error: no such option '--vault-id'"


def test_the_help_of_exec_says_as_whom_and_quotes_its_pattern(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["exec", "--help"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "gpuprov exec 'gpu*' -i" in told
    assert "root, through sudo" in told
    assert "'become: never'" in told


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("--timeout x", "'x' is not a valid number of seconds."),
        ("--lock-wait x", "'x' is not a valid number of seconds."),
        ("-f x", "'x' is not a valid whole number."),
    ],
)
def test_a_number_that_is_none_is_called_what_it_should_be(
    words: str, says: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    install(monkeypatch, telling([]))
    assert main(["plan", "s.yaml", *INVENTORY, *words.split()]) == 2
    assert capsys.readouterr().err.splitlines()[-1].endswith(says)


def test_no_line_of_the_help_is_cut(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["--help"]) == 0
    commands = capsys.readouterr().out.rpartition("Commands:")[2].strip().splitlines()
    assert [line.split()[0] for line in commands] == ["plan", "apply", "facts", "exec"]
    assert all(line.endswith(".") and not line.endswith("...") for line in commands)
