"""The transaction's script, really run against a private apt and dpkg."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from .apt_root import AptRoot
from .host import SHELLS


@pytest.fixture
def apt(tmp_path: Path) -> AptRoot:
    return AptRoot(folder=tmp_path, shell=SHELLS["dash"])


@pytest.mark.parametrize("shell", SHELLS)
def test_the_usual_life(tmp_path: Path, shell: str) -> None:
    apt = AptRoot(folder=tmp_path, shell=SHELLS[shell])
    apt.add("libtool-a")
    apt.add("extra")
    apt.add("tool", depends="libtool-a", recommends="extra")
    apt.add("g++")

    done = apt.transaction("tool", "g++")
    assert done.status == 0, done.output
    assert done.simulated == ["Inst g++", "Inst libtool-a", "Inst tool"]
    assert apt.installed() == {"tool": "1.0", "libtool-a": "1.0", "g++": "1.0"}, "no recommended package"

    again = apt.transaction("tool", "g++")
    assert (again.status, again.simulated) == (0, [])
    assert "nothing to do" in again.output
    assert "apt-get update" not in again.output

    refused = apt.transaction("libtool-a-")
    assert refused.status == 10
    assert "refused: would remove tool, which nobody asked for" in refused.output

    unknown = apt.transaction("tool", "libtool-b")
    assert unknown.status == 12
    assert "E: Unable to locate package libtool-b; near that name: libtool-a" in unknown.output

    removed = apt.transaction("libtool-a-", "tool-")
    assert removed.status == 0, removed.output
    assert apt.installed() == {"g++": "1.0"}


def test_exact_version_up_and_down(apt: AptRoot) -> None:
    apt.add("tool", "1:2.0-1~a")
    apt.add("tool", "1:1.0+b-1")
    assert apt.transaction("tool=1:1.0+b-1").status == 0
    assert apt.installed() == {"tool": "1:1.0+b-1"}
    assert apt.transaction("tool").status == 0, "any version will do"
    assert apt.installed() == {"tool": "1:1.0+b-1"}
    assert apt.transaction("tool=1:2.0-1~a").status == 0
    down = apt.transaction("tool=1:1.0+b-1")
    assert down.status == 0, down.output
    assert apt.installed() == {"tool": "1:1.0+b-1"}


def test_install_and_remove_in_one(apt: AptRoot) -> None:
    apt.add("old")
    apt.add("new", conflicts="old")
    apt.install("old")
    done = apt.transaction("new", "old-")
    assert done.status == 0, done.output
    assert apt.installed() == {"new": "1.0"}


# --- the lists ---


def test_lists_are_refreshed_only_when_needed(apt: AptRoot) -> None:
    apt.add("one")
    apt.update()
    first = apt.transaction("one")
    assert first.status == 0
    assert "apt-get update" not in first.output

    apt.add("two")
    second = apt.transaction("two")
    assert second.status == 0, second.output
    assert "the package lists do not have two" in second.output

    apt.add("two", "2.0")
    third = apt.transaction("two=2.0")
    assert third.status == 0, third.output
    assert "the package lists do not have two=2.0" in third.output

    apt.add("three")
    apt.update()
    old = time.time() - 90000
    for path in (apt.folder / "root/var/lib/apt/lists", apt.folder / "root/var/lib/apt/lists/partial"):
        os.utime(path, (old, old))
    fourth = apt.transaction("three")
    assert fourth.status == 0
    assert "older than a day" in fourth.output


def test_removal_needs_no_lists(apt: AptRoot) -> None:
    apt.add("tool")
    apt.install("tool")
    for path in (apt.folder / "root/var/lib/apt/lists").glob("*Packages*"):
        path.unlink()
    done = apt.transaction("tool-")
    assert done.status == 0, done.output
    assert "apt-get update" not in done.output


def test_lists_that_are_young_and_yet_behind(apt: AptRoot) -> None:
    apt.add("tool", "1.0")
    apt.update()
    (apt.folder / "repo/tool_1.0.deb").unlink()
    apt.packages.clear()
    apt.add("tool", "1.1")
    done = apt.transaction("tool")
    assert done.status == 0, done.output
    assert "apt-get update, because a package could not be fetched" in done.output
    assert apt.installed() == {"tool": "1.1"}


def test_what_stays_unfetchable_ends(apt: AptRoot) -> None:
    apt.add("tool")
    apt.update()
    (apt.folder / "repo/tool_1.0.deb").unlink()
    done = apt.transaction("tool")
    assert done.status == 1
    assert done.output.count("apt-get update, because") == 1


def test_a_broken_source_is_a_warning_when_it_does_not_matter(apt: AptRoot) -> None:
    apt.add("tool")
    apt.source("gone.list", f"deb [trusted=yes] file:{apt.folder}/gone ./\n")
    done = apt.transaction("tool")
    assert done.status == 0, done.output
    warnings = [line for line in done.output.splitlines() if line.startswith("warning: a package source is broken")]
    assert warnings
    assert all(f"{apt.folder}/gone" in line for line in warnings)


def test_a_broken_source_is_named_when_it_matters(apt: AptRoot) -> None:
    apt.source("gone.list", f"deb [trusted=yes] file:{apt.folder}/gone ./\n")
    done = apt.transaction("tool")
    assert done.status == 12
    assert "these package sources could not be read" in done.output
    assert f"{apt.folder}/gone" in done.output.split("could not be read")[1]


def test_a_source_line_that_apt_cannot_parse(apt: AptRoot) -> None:
    apt.add("tool")
    apt.source("odd.list", "deb nonsense\n")
    done = apt.transaction("tool")
    assert done.status == 12
    assert "odd.list" in done.output


NOT_TO_BE_HAD = {
    "tool=9": "E: Version 9 of tool is not to be had; there are: 2.0 1.0",
    "editor": "E: editor is a virtual package; name one that provides it: tool",
    "tool-11": "E: Unable to locate package tool-11; near that name: tool",
    "zzz": "E: Unable to locate package zzz\n",
    # apt-get itself would take these for a pattern, or for "install tool".
    "to.l": "E: Unable to locate package to.l; near that name: tool",
    "tool+": "E: Unable to locate package tool+; near that name: tool",
}


@pytest.mark.parametrize("item", NOT_TO_BE_HAD)
def test_not_to_be_had(apt: AptRoot, item: str) -> None:
    apt.add("tool", "1.0")
    apt.add("tool", "2.0", provides="editor")
    done = apt.transaction(item)
    assert done.status == 12, done.output
    assert NOT_TO_BE_HAD[item] in done.output
    assert apt.installed() == {}


# --- refusals ---


def test_what_would_remove_something_else(apt: AptRoot) -> None:
    apt.add("old")
    apt.add("new", conflicts="old")
    apt.install("old")
    done = apt.transaction("new")
    assert done.status == 10
    assert "refused: would remove old, which nobody asked for" in done.output
    assert "Remv old" in done.simulated
    assert apt.installed() == {"old": "1.0"}


PROTECTED = [
    "python3-numpy",
    "libpython3.11",
    "libprotobuf32",
    "python3-protobuf",
    "nvidia-driver-535",
    "libnvidia-compute-535",
    "cuda-drivers",
    "libcuda1",
    "openssh-server",
    "sudo",
]


def test_protected_packages_are_not_upgraded_but_may_come_in(apt: AptRoot) -> None:
    for name in PROTECTED:
        apt.add(name, "1.0")
    apt.install(*PROTECTED)
    for name in PROTECTED:
        apt.add(name, "2.0")
        apt.add(f"needs-{name}", depends=f"{name} (>= 2.0)")
    apt.add("python3-new")
    apt.add("wants-new", depends="python3-new")
    before = apt.installed()

    done = apt.transaction(*(f"needs-{name}" for name in PROTECTED))
    assert done.status == 10
    for name in PROTECTED:
        assert f"refused: would upgrade {name} from 1.0 to 2.0, which is protected" in done.output
    assert apt.installed() == before

    by_name = apt.transaction("python3-numpy=2.0")
    assert by_name.status == 10
    removal = apt.transaction("sudo-")
    assert removal.status == 10
    assert "refused: would remove sudo, which is protected" in removal.output
    assert apt.installed() == before

    new = apt.transaction("wants-new")
    assert new.status == 0, new.output
    assert apt.installed()["python3-new"] == "1.0"


def test_protected_packages_are_not_downgraded(apt: AptRoot) -> None:
    apt.add("sudo", "1.0")
    apt.add("sudo", "2.0")
    apt.install("sudo=2.0")
    done = apt.transaction("sudo=1.0")
    assert done.status == 10
    assert "would downgrade sudo from 2.0 to 1.0" in done.output


def test_libc_may_only_go_up(apt: AptRoot) -> None:
    apt.add("libc6", "2.36-9")
    apt.add("libc6", "2.36-10")
    apt.install("libc6=2.36-9")
    apt.add("gcc-11", depends="libc6 (>= 2.36-10)")
    assert apt.transaction("gcc-11").status == 0
    assert apt.installed()["libc6"] == "2.36-10"
    assert apt.transaction("gcc-11-").status == 0
    done = apt.transaction("libc6=2.36-9")
    assert done.status == 10
    assert "would downgrade libc6 from 2.36-10 to 2.36-9, which is never downgraded" in done.output


def test_the_list_of_protected_packages_is_the_callers(apt: AptRoot) -> None:
    apt.add("mine")
    apt.install("mine")
    done = apt.transaction("mine-", gp_protected="a* m?ne")
    assert done.status == 10
    assert apt.transaction("mine-", gp_protected="mine?").status == 0


# --- held ---


def test_a_held_package_stays(apt: AptRoot) -> None:
    apt.add("lib", "1.0")
    apt.add("tool", "1.0")
    apt.install("lib", "tool")
    apt.add("lib", "2.0")
    apt.add("tool", "2.0", depends="lib (>= 2.0)")
    apt.add("other", depends="lib (>= 2.0)")
    apt.call("apt-mark", "hold", "lib")
    for item in ("lib=2.0", "tool=2.0", "other", "lib-"):
        done = apt.transaction(item)
        assert done.status == 13, done.output
        assert "held: lib would have to change" in done.output
        assert "apt-mark unhold lib" in done.output
    assert apt.installed() == {"lib": "1.0", "tool": "1.0"}
    apt.add("free")
    assert apt.transaction("free").status == 0, "a hold elsewhere is no obstacle"


# --- broken ---


def test_half_done_packages_stop_everything(apt: AptRoot) -> None:
    apt.add("bad", postinst="#!/bin/sh\necho the postinst says why >&2\nexit 1\n")
    apt.add("good")
    first = apt.transaction("bad")
    assert first.status == 1
    assert "the postinst says why" in first.output
    second = apt.transaction("good")
    assert second.status == 11
    assert "bad" in second.output
    assert second.output.rstrip().endswith("repair: dpkg --configure -a && apt-get -f install")
    assert "good" not in apt.installed()


def test_an_interrupted_dpkg_stops_everything(apt: AptRoot) -> None:
    apt.add("good")
    (apt.admin / "updates/0001").write_text("")
    done = apt.transaction("good")
    assert done.status == 11
    assert "dpkg was interrupted" in done.output
    assert "repair: dpkg --configure -a" in done.output


def test_missing_dependencies_stop_everything(apt: AptRoot) -> None:
    apt.add("lib")
    apt.add("tool", depends="lib")
    apt.add("good")
    apt.install("tool")
    apt.call("dpkg", f"--root={apt.folder}/root", "--force-depends", "--log=/dev/null", "-r", "lib")
    done = apt.transaction("good")
    assert done.status == 11, done.output
    assert done.output.rstrip().endswith("repair: apt-get -f install")


def test_what_cannot_be_satisfied_is_said_in_apts_words(apt: AptRoot) -> None:
    apt.add("tool", depends="nowhere")
    done = apt.transaction("tool")
    assert done.status == 1
    assert "nowhere" in done.output
    assert "apt finds no way to do this: tool" in done.output


# --- locks ---

LOCKS = ("lib/dpkg/lock-frontend", "lib/dpkg/lock", "lib/apt/lists/lock", "cache/apt/archives/lock")


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_that_stays_is_named_and_left_alone(apt: AptRoot, lock: str) -> None:
    apt.add("tool")
    path = apt.folder / "root/var" / lock
    with apt.locked(path) as pid:
        done = apt.transaction("tool", gp_lock_wait="1")
    assert done.status == 14, done.output
    assert f"waiting: {path} is held by" in done.output
    assert f"pid {pid} after 1 s" in done.output
    assert path.exists()
    assert apt.installed() == {}


@pytest.mark.parametrize("lock", LOCKS[1:3])
def test_a_lock_that_goes_is_awaited(apt: AptRoot, lock: str) -> None:
    apt.add("tool")
    ended: list[int] = []
    with apt.locked(apt.folder / "root/var" / lock):
        thread = threading.Thread(target=lambda: ended.append(apt.transaction("tool").status))
        thread.start()
        thread.join(1.5)
        assert not ended
    thread.join(30)
    assert ended == [0]
    assert apt.installed() == {"tool": "1.0"}


def test_without_the_kernels_list_apt_itself_finds_the_lock(apt: AptRoot) -> None:
    """As in sandboxes that have no /proc/locks."""
    apt.add("tool")
    tools = apt.folder / "tools"
    tools.mkdir()
    (tools / "stat").write_text("#!/bin/sh\necho 0\n")
    (tools / "stat").chmod(0o755)
    for lock in LOCKS[2:]:
        with apt.locked(apt.folder / "root/var" / lock) as pid:
            done = apt.transaction("tool", gp_lock_wait="1")
        assert done.status == 14, done.output
        assert str(pid) in done.output or "archives" in done.output


# --- manners ---


def test_configuration_files_of_the_host_stay(apt: AptRoot) -> None:
    apt.add("tool", "1.0", conffile="shipped 1\n")
    apt.install("tool")
    conf = apt.folder / "root/etc/tool.conf"
    conf.write_text("mine\n")
    apt.add("tool", "2.0", conffile="shipped 2\n")
    done = apt.transaction("tool=2.0")
    assert done.status == 0, done.output
    assert conf.read_text() == "mine\n"


def test_nobody_is_asked_and_nothing_is_restarted(apt: AptRoot) -> None:
    apt.add("tool", postinst=f"#!/bin/sh\nenv >{apt.folder}/seen\nread -r x || echo no input >>{apt.folder}/seen\n")
    assert apt.transaction("tool").status == 0
    seen = (apt.folder / "seen").read_text().splitlines()
    assert "no input" in seen
    assert {
        "DEBIAN_FRONTEND=noninteractive",
        "NEEDRESTART_MODE=l",
        "NEEDRESTART_SUSPEND=1",
        "APT_LISTCHANGES_FRONTEND=none",
    } <= set(seen)


def test_not_permitted(apt: AptRoot) -> None:
    (apt.folder / "apt.conf").write_text('Dir::State::status "/nowhere/status";\n')
    done = apt.transaction("tool")
    assert done.status == 1
    assert "not permitted to change packages: /nowhere is not writable" in done.output
