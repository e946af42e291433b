"""A CUDA toolkit is installed, repaired, replaced and removed, by real shells; what others see meanwhile is watched."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gpuprov.model import Obtain

from .cuda_ground import CUDART, PLAIN, Ground, make, watched
from .host import SHELLS


@pytest.fixture(params=[(shell, uid) for shell in SHELLS for uid in (0, PLAIN)], ids=lambda p: f"{p[0]}-{p[1]}")
def each(request: pytest.FixtureRequest, tmp_path: Path) -> Ground:
    """Every shell, as root and as somebody else."""
    return make(tmp_path, *request.param)


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    return make(tmp_path, "dash")


def test_this_installer_does_what_the_real_one_does(ground: Ground) -> None:
    arguments = "--silent --toolkit --toolkitpath=/usr/local/x --override --no-man-page --tmpdir=/tmp"
    done = ground.run(f"unset SUDO_USER DISPLAY; sh /srv/cache/cuda_11.7_linux.run {arguments}")
    assert done.returncode == 0, done
    assert os.readlink(ground.folder / "local/cuda") == "/usr/local/x/", "as root it moves the link"
    assert (ground.folder / "etc/ld.so.conf.d/cuda-11-7.conf").exists()


def test_an_installation(each: Ground) -> None:
    each.runfile(after="sleep 0.1")
    with watched(each) as wrong:
        each.install()
    assert wrong == []
    owners = {(p.lstat().st_uid, p.lstat().st_gid) for p in [each.tree, *each.tree.rglob("*")]}
    assert owners == {(each.uid, each.uid)}
    assert {oct(p.stat().st_mode & 0o7022) for p in each.tree.rglob("*") if not p.is_symlink()} == {"0o0"}
    place = each.toolkit().path
    assert (each.tree / "lib64/cudart.pc").read_text() == f"cudaroot={place}\nincludedir={place}/include\n"
    assert os.readlink(each.tree / "nvvm/bin/nvcc") == f"{place}/bin/nvcc"
    assert b".gpuprov-cuda-11.7" in (each.tree / "bin/binary").read_bytes(), "programs are never edited"
    assert os.listdir(each.folder / "tmp") == []
    state = each.look(each.toolkit(), deep=True)
    assert state and state.look and state.look.head and state.look.head.release == "11.7.1"
    assert state.look.totals == {}


def test_what_is_obtained(ground: Ground) -> None:
    change = ground.plan(ground.toolkit())
    assert change and isinstance(change.steps[0], Obtain)
    assert (change.steps[0].key, change.steps[0].path) == ("cuda-runfile:11.7.1", "/srv/cache/cuda_11.7_linux.run")


def _cut(path: Path) -> None:
    os.truncate(path, 1)


def _edit(path: Path) -> None:
    path.write_text(path.read_text().upper())
    # Whole seconds count: an edit within the second of the installation is seen by the deep look alone.
    os.utime(path, (1, 1))


@pytest.mark.parametrize("damage", [Path.unlink, _cut, _edit], ids=["deleted", "cut", "edited"])
def test_damage_is_seen_and_repaired(ground: Ground, damage: Callable[[Path], None]) -> None:
    ground.install()
    (ground.tree / "include/mine.h").write_text("somebody's own")
    (ground.tree / "lib64/libmine.so").symlink_to("nowhere")
    damage(ground.tree / CUDART)
    change = ground.plan(ground.toolkit())
    assert change and change.action == "replace" and CUDART in change.why
    with watched(ground) as wrong:
        ground.install()
    # Between the two renames there is no tree, and never half of one.
    assert wrong == []
    assert (ground.tree / CUDART).read_text() == "real\n"
    assert (ground.tree / "include/mine.h").read_text() == "somebody's own"
    assert os.readlink(ground.tree / "lib64/libmine.so") == "nowhere"


def test_another_release_replaces_ours(ground: Ground) -> None:
    ground.install(ground.toolkit(release="11.7.0"))
    change = ground.plan(ground.toolkit())
    assert change and (change.action, change.before) == ("replace", "CUDA 11.7.0")
    ground.install()


def test_removal(each: Ground) -> None:
    each.install()
    gone = each.toolkit(present=False, source=None)
    done = each.job(each.plan(gone))
    assert done.returncode == 0, done
    assert not each.tree.exists()
    assert each.plan(gone) is None
    each.is_clean()


def test_removal_keeps_what_is_not_ours(ground: Ground) -> None:
    ground.install()
    (ground.tree / "include/mine.h").write_text("mine")
    gone = ground.toolkit(present=False, source=None)
    done = ground.job(ground.plan(gone))
    assert done.returncode == 0, done
    assert [p.relative_to(ground.tree).as_posix() for p in ground.tree.rglob("*") if p.is_file()] == ["include/mine.h"]
    assert ground.plan(gone) is None


BROKEN = "#!/bin/sh\nexit 1\n"
# Perl, since it stands at the same place on every Debian: the ground's /tmp and /usr/local are its own, and the
# Python that runs this test may lie in either.
EXCHANGING = """#!/usr/bin/perl
exec "/bin/mv", @ARGV or die if $ARGV[0] ne "--exchange";
$ARGV[1] eq "-T" && @ARGV == 4 or die "@ARGV";
my ($old, $new) = @ARGV[2, 3];
syscall(316, -100, $old, -100, $new, 2) == 0 or exit 1;  # renameat2 with RENAME_EXCHANGE, on x86-64
open my $log, ">>", "/srv/work/exchanged"; print $log "$new\\n";
"""


@pytest.mark.parametrize("broken", [("setpriv",), ("setpriv", "runuser")], ids=["runuser", "su"])
def test_other_ways_to_another_user(ground: Ground, broken: tuple[str, ...]) -> None:
    nobody = subprocess.run(["id", "-u", "nobody"], capture_output=True, text=True, check=True).stdout.strip()
    done = ground.job(ground.plan(ground.toolkit()), tools=dict.fromkeys(broken, BROKEN))
    assert (done.returncode, f"as user {nobody} " in done.stdout) == (0, True), done
    assert {p.lstat().st_uid for p in ground.tree.rglob("*")} == {0}
    ground.is_clean()


def test_no_way_to_another_user(ground: Ground) -> None:
    done = ground.job(ground.plan(ground.toolkit()), tools=dict.fromkeys(("setpriv", "runuser", "su"), BROKEN))
    assert (done.returncode, "util-linux" in done.stderr) == (12, True), done
    ground.is_clean()


def test_where_mv_can_exchange_there_is_always_a_tree(ground: Ground) -> None:
    ground.install()
    (ground.tree / CUDART).unlink()
    with watched(ground, always=True) as wrong:
        done = ground.job(ground.plan(ground.toolkit()), tools={"mv": EXCHANGING})
    assert (done.returncode, wrong) == (0, []), done
    exchanged = (ground.folder / "srv/work/exchanged").read_text().splitlines()
    assert exchanged[-1] == ground.toolkit().path, "the exchange of this test's mv was used"
    assert (ground.tree / CUDART).exists()
    ground.is_clean()


def test_somebodys_log_is_moved_aside_and_given_back(ground: Ground) -> None:
    log = ground.folder / "tmp/cuda-installer.log"
    log.write_text("former")
    os.chown(log, 777, 777)
    ground.install()
    assert (log.read_text(), log.stat().st_uid) == ("former", 777)


def test_what_a_dead_attempt_left_is_removed(ground: Ground) -> None:
    ground.install()
    stage = ground.toolkits / ".gpuprov-cuda-11.7-dead00"
    stage.mkdir()
    (stage / "path").write_text("/usr/local/cuda-11.7\n")
    ground.tree.rename(stage / "old")
    (stage / "former.log").write_text("former")
    # The next attempt fails too, and yet the tree is back.
    ground.runfile(before="exit 255")
    assert ground.job(ground.toolkit().plan(None)).returncode == 1
    assert (ground.tree / "bin/nvcc").exists()
    assert (ground.folder / "tmp/cuda-installer.log").read_text() == "former"
    ground.is_clean()


def test_a_stage_in_use_is_left_alone(ground: Ground) -> None:
    stage = ground.toolkits / ".gpuprov-cuda-12.4-live00"
    stage.mkdir()
    with subprocess.Popen(["flock", str(stage / "lock"), "sleep", "60"], start_new_session=True) as holder:
        while subprocess.run(["flock", "-n", str(stage / "lock"), "true"], check=False).returncode == 0:
            time.sleep(0.05)
        done = ground.job(ground.plan(ground.toolkit()))
        os.killpg(holder.pid, 9)
    assert done.returncode == 0 and "is in use" in done.stdout
    assert stage.exists()


def test_a_job_that_is_ended_leaves_nothing(ground: Ground) -> None:
    ground.install()
    (ground.tree / CUDART).unlink()
    ground.runfile(after="touch /tmp/here; sleep 50")
    change = ground.plan(ground.toolkit())
    threading.Thread(target=_end_when, args=(ground, ground.folder / "tmp/here")).start()
    assert ground.job(change).returncode in (143, -15)
    assert (ground.tree / "bin/nvcc").exists()
    ground.is_clean()


def _end_when(ground: Ground, mark: Path) -> None:
    """End the job's processes, which bear its mark, as its runner does."""
    end = time.monotonic() + 30
    while not mark.exists() and time.monotonic() < end:
        time.sleep(0.05)
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                marked = f"GPUPROV_JOB={ground.folder}".encode() in (entry / "environ").read_bytes().split(b"\0")
                if marked:
                    os.kill(int(entry.name), 15)
            except OSError:
                continue
