"""An installation that cannot succeed says why, and leaves the host as it was."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest

from gpuprov.model import Job

from .cuda_ground import CUDART, PLAIN, RUNFILE, Ground, make


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    return make(tmp_path, "dash")


GCC = 'echo " Failed to verify gcc version. See log at /tmp/cuda-installer.log for details."; '
FAILURES: dict[str, tuple[str, str, int, list[str]]] = {
    "gcc": (
        GCC + 'echo "[ERROR]: unsupported compiler version: 13.2" >>$log; echo "[INFO]: x" >>$log; exit 255',
        "",
        1,
        [
            "installer log: [ERROR]: unsupported compiler version: 13.2",
            "known cause: no gcc, or one above",
            "status 255",
        ],
    ),
    "crash": ("kill -SEGV $$", "", 1, ["signal 11", "status 139"]),
    "cut off": (
        'echo "gzip: stdin: unexpected end of file; Extraction failed; Signal caught, cleaning up"; exit 15',
        "",
        1,
        ["known cause: truncated or corrupt download"],
    ),
    "library": ('echo "x: libxml2.so.2: cannot open shared object file"; exit 127', "", 1, ["known cause", "libxml2"]),
    "nothing made": ("exit 0", "", 14, ["it made no toolkit"]),
    "no nvcc": ("", "rm bin/nvcc", 14, ["bin/nvcc is missing"]),
    "nvcc does not run": ("", "echo garbage >bin/nvcc", 14, ["bin/nvcc"]),
    "another version": (
        "",
        "sed -i s/11[.]7/11.8/ bin/nvcc",
        14,
        ["is for CUDA 11.8, and CUDA 11.7 is wanted", "not of release 11.7"],
    ),
    "no version": ("", "rm version.json", 14, ["version.json is missing"]),
    "library cut off": ("", ": >lib64/libcudart.so.11.7.99", 14, ["empty file"]),
    "library elsewhere": ("", "ln -sf /usr/lib/os-release lib64/libcudart.so", 14, ["libcudart.so"]),
}


@pytest.mark.parametrize("case", FAILURES)
def test_failures(ground: Ground, case: str) -> None:
    before, after, status, words = FAILURES[case]
    ground.runfile(before=before, after=after)
    done = ground.job(ground.plan(ground.toolkit()))
    assert (done.returncode, [w for w in words if w not in done.stderr]) == (status, []), done
    assert not ground.tree.exists()
    ground.is_clean()
    assert os.listdir(ground.folder / "tmp") == []


def test_a_failure_leaves_the_old_tree(ground: Ground) -> None:
    ground.install()
    (ground.tree / CUDART).unlink()
    ground.runfile(before="exit 255")
    assert ground.job(ground.plan(ground.toolkit())).returncode == 1
    assert (ground.tree / "bin/nvcc").exists()
    ground.is_clean()


def test_too_little_space(ground: Ground) -> None:
    ground.runfile(text=RUNFILE.replace("@BEFORE@", "#" + "x" * 600_000).replace("@AFTER@", ""))
    small = "mkdir -p /srv/small && mount -t tmpfs -o size=2m,mode=755 small /srv/small"
    toolkit = ground.toolkit(path="/srv/small/cuda-11.7")
    done = ground.job(toolkit.plan(None), mount=small)
    assert done.returncode == 11, done
    assert "2 MiB are free" in done.stderr and "another file system" in done.stderr


def test_space_that_runs_out(ground: Ground) -> None:
    ground.runfile(after="dd if=/dev/zero of=lib64/big bs=1M count=9 || exit 1")
    small = "mkdir -p /srv/small && mount -t tmpfs -o size=4m,mode=755 small /srv/small"
    left = "sh -eu -c 'cd /srv/small; ls -A' >&2"
    toolkit = ground.toolkit(path="/srv/small/cuda-11.7")
    change = toolkit.plan(None)
    assert change and isinstance(change.steps[1], Job)
    done = ground.run(f"(\n{change.steps[1].script}\n) || {{ r=$?; {left}; exit $r; }}", mount=small)
    assert done.returncode == 1, done
    assert "known cause: target or temporary folder full" in done.stderr
    assert not done.stderr.splitlines()[-1].startswith(".gpuprov")


def test_noexec(ground: Ground) -> None:
    mount = "mkdir -p /srv/small && mount -t tmpfs -o noexec,mode=755 small /srv/small"
    done = ground.job(ground.toolkit(path="/srv/small/cuda-11.7").plan(None), mount=mount)
    assert (done.returncode, "noexec" in done.stderr) == (12, True), done


def test_a_folder_that_others_cannot_enter(ground: Ground) -> None:
    (ground.folder / "srv/closed").mkdir(mode=0o700)
    done = ground.job(ground.toolkit(path="/srv/closed/cuda-11.7").plan(None))
    assert (done.returncode, "cannot get into /srv/closed" in done.stderr) == (12, True), done


def test_a_file_of_the_wrong_size(ground: Ground) -> None:
    source = dataclasses.replace(ground.toolkit().source or pytest.fail(), size=7)
    done = ground.job(ground.toolkit(source=source).plan(None))
    assert (done.returncode, "must have 7" in done.stderr) == (12, True), done


def test_somebodys_log_stops_one_who_is_not_root(tmp_path: Path) -> None:
    ground = make(tmp_path, "dash", PLAIN)
    (ground.folder / "tmp/cuda-installer.log").write_text("former")
    done = ground.job(ground.plan(ground.toolkit()))
    assert (done.returncode, "belongs to user 0" in done.stderr) == (12, True), done


@pytest.mark.parametrize("mark", ["", ".new"], ids=["path taken", "same name"])
def test_what_came_to_the_path_meanwhile_stays(ground: Ground, mark: str) -> None:
    change = ground.plan(ground.toolkit())
    ground.tree.mkdir()
    (ground.tree / f"file{mark}").write_text("somebody's")
    assert ground.job(change).returncode == 10
    assert [p.name for p in ground.tree.iterdir()] == [f"file{mark}"]


def test_a_change_outside_stops_it_before_the_rename(ground: Ground) -> None:
    toolkit = ground.toolkit()
    change = ground.plan(toolkit)
    assert change and isinstance(change.steps[1], Job)
    # Somebody else, as root, at the same time; what the installer itself did would look the same.
    script = change.steps[1].script.replace("gp_check_made\n", "gp_check_made; ln -sfn /opt/cuda /usr/local/cuda\n")
    assert script != change.steps[1].script
    done = ground.run(script)
    assert done.returncode == 13, done
    assert "was: link /usr/local/cuda -> cuda-12.1" in done.stderr
    assert "is:  link /usr/local/cuda -> /opt/cuda" in done.stderr
    assert not ground.tree.exists()
    assert os.readlink(ground.folder / "local/cuda") == "/opt/cuda", "somebody's choice stays"
    ours = script.replace("/opt/cuda", "$gp_path/").replace("ln -sfn", "ln -sfn --")
    os.unlink(ground.folder / "local/cuda")
    (ground.folder / "local/cuda").symlink_to("cuda-12.1")
    done = ground.run(ours)
    assert (done.returncode, "was put back" in done.stderr) == (13, True), done
    ground.is_clean()
