"""The journal's shell functions by themselves, in each of the shells that hosts have."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from gpuprov.onhost import script
from gpuprov.quote import command, quote
from tests.jobs.hosts import SHELLS

SLOT = "command_x-0123456789ab"


class Journal:
    """One host's journal: each call is a frame of the given run."""

    def __init__(self, shell: tuple[str, ...], folder: Path) -> None:
        self.shell = shell
        self.state = folder / "st ate's"
        self.place = folder / "pl ace's"
        self.place.mkdir()

    def __call__(self, run: str, *words: str, user: int = 0) -> str:
        names = f"gp_state={quote(str(self.state))} gp_run={run}"
        texts = (names, "set -eu", *map(script, ("put", "journal", "job_process", "job_state")), command(*words))
        done = subprocess.run(
            [*_as(user), *self.shell, "-c", "\n".join(texts)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=30,
        )
        assert (done.returncode, done.stderr) == (0, ""), done
        return done.stdout.replace(str(self.place), "/p").replace(str(self.state), "/s")

    def paths(self, *names: str) -> list[str]:
        return [str(self.place / name) for name in names]

    def attempt(self, number: int, rc: str = "") -> None:
        """What a job leaves of an attempt; without a status it has died."""
        slot = self.state / "jobs" / SLOT
        counts = self.state / "jobs" / ".counts"
        (slot / str(number)).mkdir(parents=True)
        counts.mkdir(exist_ok=True)
        (counts / SLOT).write_text(f"{number} .\n")
        (slot / "now").write_text(f"{number} d n i o boot+1 5 .\n")
        if rc:
            (slot / str(number) / "rc").write_text(f"{rc} .\n")

    @property
    def open(self) -> list[str]:
        return sorted(f"{path.parents[1].name}/{path.name}" for path in self.state.glob("journal/*/open/*"))


def _as(user: int) -> list[str]:
    return ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"] if user else []


@pytest.fixture(params=SHELLS)
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> Journal:
    return Journal(SHELLS[request.param], tmp_path)


def test_what_was_cut_off_is_given_back_and_each_path_is_told(journal: Journal) -> None:
    place = journal.place
    (place / "file").write_text("old")
    (place / "same").write_text("same")
    (place / "link").symlink_to("old")
    (place / "folder").mkdir()
    names = ("file", "same", "link", "folder", "new", "new folder", "full folder", "new link")
    journal("r1", "gp_begin", "7", '{"id": "x"}', str(place / ".gpuprov-t"), "--", *journal.paths(*names))
    assert journal.open == ["r1/7"]
    (place / "file").unlink()
    (place / "file").symlink_to("elsewhere")
    (place / "link").unlink()
    (place / "link").write_text("a file by now")
    (place / "new").write_text("half")
    (place / "new folder").mkdir()
    (place / "full folder").mkdir()
    (place / "full folder/x").touch()
    (place / "new link").symlink_to("nowhere")
    (place / "folder").rmdir()
    (place / ".gpuprov-t").touch()
    assert sorted(journal("r2", "gp_pending").splitlines()[1:]) == [
        "\tgpuprov: leave /p/full folder, which was not there before",
        "\tgpuprov: put back /p/file",
        "\tgpuprov: put back /p/link",
        *(f"\tgpuprov: remove /p/{name}" for name in ("new", "new folder", "new link")),
    ]
    assert (
        journal.open == ["r1/7"]
        and (place / "new").read_text() == "half"
        and not (journal.state / "journal/r2").exists()
    )
    told = journal("r2", "gp_recover").splitlines()
    assert told[0] == 'r1\t7\tundone\t{"id": "x"}'
    assert sorted(told[1:]) == [
        "\tgpuprov: left /p/full folder, which was not there before",
        "\tgpuprov: put back /p/file (what was there is kept as /s/journal/r2/kept/1)",
        "\tgpuprov: put back /p/link (what was there is kept as /s/journal/r2/kept/2)",
        "\tgpuprov: removed /p/new (what was there is kept as /s/journal/r2/kept/3)",
        "\tgpuprov: removed /p/new folder",
        "\tgpuprov: removed /p/new link (what was there is kept as /s/journal/r2/kept/4)",
    ]
    kept = journal.state / "journal/r2/kept"
    assert os.readlink(kept / "1") == "elsewhere" and os.readlink(kept / "4") == "nowhere"
    assert [(kept / name).read_text() for name in ("2", "3")] == ["a file by now", "half"]
    assert (place / "file").read_text() == "old" and os.readlink(place / "link") == "old"
    assert sorted(path.name for path in place.iterdir()) == ["file", "full folder", "link", "same"]
    assert journal.open == [] and journal("r2", "gp_recover") == ""


def test_what_is_under_way_is_left_alone_and_a_change_is_undone_once(journal: Journal) -> None:
    (path,) = journal.paths("new")
    journal("r1", "gp_begin", "1", "{}", "--", path)
    Path(path).touch()
    assert journal("r1", "gp_recover", "1", "2") == "" and Path(path).exists()
    assert journal("r1", "gp_undo", "1") == "gpuprov: removed /p/new\n"
    Path(path).touch()
    assert journal("r1", "gp_undo", "1") == "" and Path(path).exists(), "what came after it was undone as well"


@pytest.mark.parametrize(
    ("rc", "came"), [("0 ended", "done"), ("1 ended", "undone"), ("0 cancelled", "undone"), ("", "undone")]
)
def test_what_became_of_its_job_decides(journal: Journal, rc: str, came: str) -> None:
    (path,) = journal.paths("new")
    journal.attempt(1, "0 ended")
    journal("r1", "gp_begin", "1", "{}", f"job {SLOT}", "--", path)
    journal.attempt(2, rc)
    Path(path).touch()
    assert journal("r2", "gp_recover").splitlines()[0] == f"r1\t1\t{came}\t{{}}"
    assert Path(path).exists() == (came == "done") and journal.open == []


def test_an_earlier_attempt_that_ended_well_says_nothing_of_this_one(journal: Journal) -> None:
    (path,) = journal.paths("new")
    journal.attempt(1, "0 ended")
    journal("r1", "gp_begin", "1", "{}", f"job {SLOT}", "--", path)
    Path(path).touch()
    assert "undone" in journal("r2", "gp_recover") and not Path(path).exists()


def test_a_job_that_is_taken_up_has_given_back_what_was_kept_before_it_began(journal: Journal) -> None:
    one, two, three = journal.paths("one", "two", "three")
    Path(one).write_text("old")
    journal("r1", "gp_begin", "1", "{}", f"job {SLOT}", "--", one, two)
    journal("r1", "gp_begin", "2", "{}", "job other-0123456789ab", "--", three)
    Path(one).write_text("half")
    Path(two).write_text("half")
    journal("r2", "gp_begin", "1", "{}", f"job {SLOT}", "--", one, three)
    assert journal.open == ["r1/2", "r2/1"], "two intents have one job"
    assert sorted(journal("r2", "gp_undo", "1").splitlines()) == ["gpuprov: put back /p/one", "gpuprov: removed /p/two"]
    assert Path(one).read_text() == "old" and not Path(two).exists()


def test_what_the_holder_of_the_lock_is_at_is_not_told_as_cut_off(journal: Journal) -> None:
    (path,) = journal.paths("new")
    journal("r1", "gp_begin", "1", "{}", "--", path)
    Path(path).touch()
    owner = 'gp_host; gp_process $$; printf "r1 h u 1 $$ $gp_pstart 0 $gp_boot 1 .\\n" >"$gp_state/owner"; gp_pending'
    assert journal("r2", "eval", owner) == ""
    assert "remove /p/new" in journal("r2", "gp_pending"), "its shell is gone"


def test_the_backups_of_earlier_runs_are_pruned_and_no_open_intent_is(journal: Journal) -> None:
    """The first two are past their week, but the second kept something since; the third was cut off."""
    (path,) = journal.paths("file")
    Path(path).write_text("old")
    for number in range(8):
        journal(f"r{number}", "gp_begin", "1", "{}", "--", path)
        if number != 2:
            journal(f"r{number}", "gp_done", "1")
    runs = journal.state / "journal"
    kept = runs / "r1/kept"
    kept.mkdir()
    (kept / "1").write_text("by hand")
    ago = time.time() - 8 * 86400
    for name in ("r0", "r1"):
        os.utime(runs / name / "log", (ago, ago))
    journal("r8", "gp_begin", "1", "{}", "--", path)
    journal("r8", "gp_begin", "2", "{}", "--", path)

    def names(pattern: str) -> list[str]:
        return sorted(found.relative_to(runs).parts[0] for found in runs.glob(pattern))

    assert names("*") == ["r1", *(f"r{number}" for number in range(2, 9))]
    assert names("*/backup") == ["r2", *(f"r{number}" for number in range(3, 9))]
    assert (kept / "1").read_text() == "by hand", "it was kept less than a week ago"
    os.utime(kept, (ago, ago))
    journal("r9", "gp_begin", "1", "{}", "--", path)
    assert names("*") == [f"r{number}" for number in range(2, 10)]
    assert names("*/backup") == ["r2", *(f"r{number}" for number in range(4, 10))]
    Path(path).write_text("half")
    assert "put back /p/file" in journal("r9", "gp_recover", "1") and Path(path).read_text() == "old"


def test_a_plain_user_takes_no_file_from_its_owner_when_nothing_was_changed(journal: Journal) -> None:
    for folder in (journal.place.parent, *journal.place.parent.parents):
        if str(folder) not in ("/", "/tmp"):
            folder.chmod(folder.stat().st_mode | 0o111)
    journal.state.mkdir()
    for folder in (journal.state, journal.place):
        os.chown(folder, 65534, 65534)
    (file,) = journal.paths("of root")
    Path(file).write_text("x")
    journal("r1", "gp_begin", "1", "{}", "--", file, user=65534)
    assert journal("r1", "gp_undo", "1", user=65534) == ""
    assert (Path(file).stat().st_uid, Path(file).read_text()) == (0, "x")
