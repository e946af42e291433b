"""The stand-in installers: they do on a host what NVIDIA's do, and fail as NVIDIA's do."""

from __future__ import annotations

import hashlib
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab import fsdigest
from tests.lab.cuda import makeself_header, runfiles
from tests.lab.cuda.fixtures import SmallRunfile
from tests.lab.cuda.runfiles import Runfile
from tests.lab.cuda.site import DownloadSite
from tests.lab.engine import LabError
from tests.lab.fixtures import StartHost
from tests.lab.hosts import Host, wait_until
from tests.lab.lab import Lab

# How a toolkit alone is installed.
QUIETLY = "--silent --toolkit --override --no-man-page"
FILE = "/var/tmp/x.run"


def bring(host: Host, served: Runfile) -> None:
    """Download an installer to `FILE`, readable by all."""
    host.exec(f"curl -fsS -o {FILE} {served.url}", timeout=120)


def run(host: Host, arguments: str, *, user: str = "root", env: str = "") -> subprocess.CompletedProcess[str]:
    return host.exec(f"cd /; {env} sh {FILE} {arguments}", user=user, check=False, timeout=120)


@pytest.fixture(scope="module")
def host(lab: Lab) -> Iterator[Host]:
    """A host for runs that leave it as it was, or write where each test looks for itself."""
    made = lab.start("b", services=False)
    yield made
    lab.remove(made)


# The files


def test_no_installer_of_an_unknown_release() -> None:
    with pytest.raises(LabError, match=r"no installer of CUDA 12\.99"):
        runfiles.small("12.99")


def test_unchanged_installer_is_not_built_again() -> None:
    first = runfiles.small("12.4")
    begin = time.monotonic()
    assert runfiles.small("12.4.1") == first
    assert time.monotonic() - begin < 1


def test_facts_are_those_of_the_file() -> None:
    made = runfiles.small("12.4.1")
    content = made.path.read_bytes()
    assert made.path.name == made.name == "cuda_12.4.1_550.54.15_linux.run"
    assert (made.size, made.sha256) == (len(content), hashlib.sha256(content).hexdigest())
    assert made.md5 == hashlib.md5(content).hexdigest()
    assert made.size < 20 << 20


def test_same_input_gives_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = runfiles.small("12.4", padding_mib=1)
    time.sleep(1.1)
    monkeypatch.setenv("GPUPROV_LAB_CACHE", str(tmp_path))
    again = runfiles.small("12.4", padding_mib=1)
    assert again.path != first.path
    assert again.sha256 == first.sha256


@pytest.mark.parametrize(("release", "ceiling"), [("11.4.0", 10), ("11.4.1", 11), ("11.7.1", 11), ("13.4.1", 16)])
def test_gcc_ceiling_is_the_releases(release: str, ceiling: int) -> None:
    assert runfiles.gcc_ceiling(runfiles.release_row(release)) == ceiling


def test_header_of_another_makeself_is_refused() -> None:
    with pytest.raises(ValueError, match="not the one that is known here"):
        makeself_header.edited("#!/bin/sh\necho something else\n")


# As root


@pytest.mark.lab
def test_root_writes_outside_the_toolkit(fresh_host: StartHost, small_runfile: SmallRunfile) -> None:
    host = fresh_host("b", services=False)
    bring(host, small_runfile("12.4"))
    before = fsdigest.snapshot(host)
    done = run(host, "--silent --toolkit")
    after = fsdigest.snapshot(host)
    assert done.returncode == 0, done.stderr
    assert "Toolkit:  Installed in /usr/local/cuda-12.4/" in done.stdout
    assert "Incomplete installation" in done.stdout
    outside = fsdigest.diff(before, after).outside("/usr/local/cuda-12.4")
    assert outside.added == (
        "/etc/ld.so.conf.d/cuda-12-4.conf",
        "/usr/share/man/man3/cudaFree.3",
        "/usr/share/man/man3/cudaMalloc.3",
        "/usr/share/man/man7/cuda-lab.7",
        "/var/log/cuda-installer.log",
        "/var/log/nvidia",
        "/var/log/nvidia/.uninstallManifests",
        "/var/log/nvidia/.uninstallManifests/uninstallManifest-12.4",
    )
    assert set(outside.changed) <= {"/etc/ld.so.cache", "/usr/local/cuda", "/var/cache/ldconfig/aux-cache"}
    assert "/usr/local/cuda" in outside.changed
    assert not outside.removed
    assert after["/usr/local/cuda"].content == "/usr/local/cuda-12.4/"
    lines = host.exec("cat /etc/ld.so.conf.d/cuda-12-4.conf").stdout
    assert lines == "/usr/local/cuda-12.4/targets/x86_64-linux/lib\n/usr/local/cuda-12.4/lib64\n"
    # What the whole host loads is another one now: the linker's list of the image goes through the link.
    assert "libcudart.so.12 (libc6,x86-64) => /usr/local/cuda/" in host.exec("ldconfig -p").stdout
    assert host.exec("readlink -f /usr/local/cuda/lib64/libcudart.so.12").stdout.endswith("cudart.so.12.4.131\n")
    assert "Finished with code: 0" in host.exec("cat /var/log/cuda-installer.log").stdout
    # The toolkit's own uninstaller takes back the tree, the link and the linker's file.
    host.exec("/usr/local/cuda-12.4/bin/cuda-uninstaller")
    left = fsdigest.diff(before, fsdigest.snapshot(host)).outside("/usr/share/man", "/var", "/etc/ld.so.cache")
    assert (left.added, left.changed, left.removed) == ((), (), ("/usr/local/cuda",))


@pytest.mark.lab
def test_toolkit_is_what_a_toolkit_is(fresh_host: StartHost, small_runfile: SmallRunfile) -> None:
    host = fresh_host("b", services=False)
    bring(host, small_runfile("12.4"))
    assert run(host, f"{QUIETLY} --toolkitpath='/opt/my cuda&|'").returncode == 0
    seen = host.exec(
        "cd '/opt/my cuda&|' && bin/nvcc --version && cat version.json pkgconfig/cudart-12.4.pc && bin/nsys "
        "&& readlink -e lib64/libcudart.so && ! grep -rl @PREFIX@ . && stat -c '%U %a' . bin/nvcc"
    ).stdout
    assert "release 12.4, V12.4.131" in seen
    assert "cudaroot=/opt/my cuda&|\n" in seen
    assert "Nsight Systems" in seen
    assert "/opt/my cuda&|/targets/x86_64-linux/lib/libcudart.so.12.4.131" in seen
    assert '"version" : "12.4.1"' in seen
    assert "\nroot 755\nroot 755\n" in seen
    assert host.exec("'/opt/my cuda&|/bin/nvcc' x.cu", check=False).returncode == 1
    version = (
        "import ctypes; v = ctypes.c_int(); "
        "ctypes.CDLL('/opt/my cuda&|/lib64/libcudart.so').cudaRuntimeGetVersion(ctypes.byref(v)); print(v.value)"
    )
    assert host.exec(f'python3 -c "{version}"').stdout == "12040\n"


@pytest.mark.lab
def test_driver_leaves_a_mark_and_the_usual_command_does_not(
    fresh_host: StartHost, small_runfile: SmallRunfile
) -> None:
    host = fresh_host("b", services=False)
    bring(host, small_runfile("12.4"))
    mark = "cat /var/log/driver-was-installed; rm /var/log/driver-was-installed"
    assert run(host, QUIETLY).returncode == 0
    assert host.exec(mark, check=False).returncode == 1
    assert run(host, f"{QUIETLY} --driver").returncode == 0
    assert host.exec(mark).stdout == "550.54.15\n"
    # No choice is every choice.
    assert run(host, "--silent --override").returncode == 0
    assert host.exec(mark).stdout == "550.54.15\n"


@pytest.mark.lab
def test_files_go_to_the_user_behind_sudo(fresh_host: StartHost, small_runfile: SmallRunfile) -> None:
    host = fresh_host("b", services=False)
    bring(host, small_runfile("12.4"))
    assert run(host, f"{QUIETLY} --toolkitpath=/opt/c", env="SUDO_USER=gpu").returncode == 0
    assert host.exec("stat -c %U /opt/c/bin/nvcc").stdout == "gpu\n"


@pytest.mark.lab
def test_installed_toolkit_is_refused_without_override(fresh_host: StartHost, small_runfile: SmallRunfile) -> None:
    host = fresh_host("b", services=False)
    bring(host, small_runfile("12.4"))
    assert run(host, "--silent --toolkit").returncode == 0
    again = run(host, "--silent --toolkit")
    assert again.returncode == 1
    assert "Installation failed. See log at /var/log/cuda-installer.log" in again.stdout
    assert run(host, f"{QUIETLY}").returncode == 0


@pytest.mark.lab
def test_killed_in_the_middle_leaves_half_a_toolkit(fresh_host: StartHost, small_runfile: SmallRunfile) -> None:
    host = fresh_host("b", services=False)
    bring(host, small_runfile("12.4", pause=30))
    with subprocess.Popen(["docker", "exec", host.container, "sh", FILE, *QUIETLY.split()]) as running:
        half = "test -e /usr/local/cuda-12.4/bin/nvcc"
        wait_until(lambda: host.exec(half, check=False).returncode == 0, "nothing was copied", 20)
        host.kill()
        running.wait(20)
    host.start()
    seen = host.exec("ls /usr/local/cuda-12.4; readlink /usr/local/cuda").stdout
    assert "bin\n" in seen
    assert "version.json" not in seen
    assert seen.endswith("/etc/alternatives/cuda\n")


# As somebody else


@pytest.mark.lab
def test_nobody_writes_its_folder_and_a_log(fresh_host: StartHost, small_runfile: SmallRunfile) -> None:
    host = fresh_host("b", services=False)
    bring(host, small_runfile("12.4"))
    host.exec("install -d -o nobody /opt/cuda")
    before = fsdigest.snapshot(host)
    done = run(host, "--silent --toolkit --override --toolkitpath=/opt/cuda", user="nobody")
    after = fsdigest.snapshot(host)
    assert done.returncode == 0, done.stdout + done.stderr
    outside = fsdigest.diff(before, after).outside("/opt/cuda")
    assert (outside.added, outside.changed, outside.removed) == (("/tmp/cuda-installer.log",), (), ())
    assert "Cannot write to /usr/share/man" in host.exec("cat /tmp/cuda-installer.log").stdout
    assert host.exec("stat -c %U /opt/cuda/bin/nvcc").stdout == "nobody\n"


@pytest.mark.lab
def test_log_of_another_user_ends_it_in_a_segmentation_fault(host: Host, small_runfile: SmallRunfile) -> None:
    bring(host, small_runfile("12.4"))
    host.exec("touch /tmp/cuda-installer.log; chmod 666 /tmp/cuda-installer.log; rm -rf /opt/nobody")
    done = run(host, f"{QUIETLY} --toolkitpath=/opt/nobody", user="nobody")
    assert done.returncode == 139
    assert "Segmentation fault" in done.stderr
    host.exec("rm /tmp/cuda-installer.log")
    # Without it: a folder that it may not make.
    done = run(host, f"{QUIETLY} --toolkitpath=/opt/nobody", user="nobody")
    assert done.returncode == 1
    assert "Permission denied" in host.exec("cat /tmp/cuda-installer.log").stdout
    assert run(host, "--silent", user="nobody").returncode == 1
    host.exec("rm /tmp/cuda-installer.log")


# The command line


@pytest.mark.lab
@pytest.mark.parametrize(
    ("release", "known", "unknown"),
    [
        ("10.2.89", "--samples --driver --librarypath=/a --installpath=/a --no-drm", "--no-such"),
        ("11.7.1", "--samples --samplespath=/a --driver --no-opengl-libs -m=/a", "--librarypath=/a"),
        ("12.4.1", "--driver --no-drm --defaultroot=/a", "--samples"),
        ("13.3.1", "--driver --installpath=/a --no-drm", "--samplespath=/a"),
        ("13.4.1", "--toolkit --defaultroot=/a --override --no-man-page --tmpdir=/tmp", "--no-drm"),
        ("13.4.1", "--extract=/a", "--driver"),
        ("13.4.1", "", "--installpath=/a"),
    ],
)
def test_options_are_those_of_the_release(
    host: Host, small_runfile: SmallRunfile, release: str, known: str, unknown: str
) -> None:
    bring(host, small_runfile(release, padding_mib=0))
    # The help comes when all before it is understood, and nothing is installed.
    accepted = run(host, f"--silent {known} --help")
    assert (accepted.returncode, accepted.stderr) == (0, "")
    assert accepted.stdout.startswith("Options:\n  --silent --toolkit")
    refused = run(host, f"--silent {unknown} --help")
    assert refused.returncode == 1
    assert f"unrecognized option '{unknown}'" in refused.stderr


@pytest.mark.lab
@pytest.mark.parametrize(
    "arguments", ["--silent --toolkit --toolkitpath=x", "--silent --toolkit --tmpdir=x", "--toolkit"]
)
def test_what_the_command_line_must_have(host: Host, small_runfile: SmallRunfile, arguments: str) -> None:
    bring(host, small_runfile("12.4"))
    assert run(host, arguments).returncode == 1


@pytest.mark.lab
def test_wrapper_has_its_own_options(host: Host, small_runfile: SmallRunfile) -> None:
    bring(host, small_runfile("12.4"))
    assert run(host, "--check").returncode == 0
    assert run(host, "--noexec --target /var/tmp/unpacked").returncode == 0
    assert run(host, "--extract=/var/tmp/extracted").returncode == 0
    host.exec(
        "test -x /var/tmp/unpacked/cuda-installer && test -e /var/tmp/extracted/toolkit/bin/nvcc && rm -r /var/tmp/*ed"
    )


@pytest.mark.lab
def test_gcc_above_the_ceiling_or_missing_is_refused(host: Host, small_runfile: SmallRunfile) -> None:
    bring(host, small_runfile("11.7"))  # accepts 11, and the host has 12
    arguments = "--silent --toolkit --no-man-page --toolkitpath=/opt/gcc"
    message = " Failed to verify gcc version. See log at /var/log/cuda-installer.log for details.\n"
    refused = run(host, arguments)
    assert (refused.returncode, refused.stdout) == (255, message)
    assert "unsupported compiler version: 12" in host.exec("cat /var/log/cuda-installer.log").stdout
    missing = run(host, arguments, env="mv /usr/bin/gcc /usr/bin/gcc.away;")
    host.exec("mv /usr/bin/gcc.away /usr/bin/gcc")
    assert (missing.returncode, missing.stdout) == (255, message)
    assert "[error] Missing gcc" in host.exec("cat /var/log/cuda-installer.log").stdout
    host.exec("test ! -e /opt/gcc")


@pytest.mark.lab
def test_libxml2_is_missed_where_it_is_needed(host: Host, small_runfile: SmallRunfile) -> None:
    bring(host, small_runfile("12.4", needs_libxml2=True))
    done = run(host, f"{QUIETLY} --toolkitpath=/opt/xml")
    assert done.returncode == 127
    assert "libxml2.so.2: cannot open shared object file" in done.stderr


# Broken files and full disks


@pytest.mark.lab
@pytest.mark.parametrize(
    ("fault", "status", "texts"),
    [
        ({"ends_at": 5_000_000}, 15, ["unexpected end of file", "Extraction failed", "Signal caught, cleaning up"]),
        ({"corrupt": True}, 15, ["gzip: stdin: ", "Extraction failed", "Signal caught, cleaning up"]),
        ({"html": True}, 2, ["Syntax error: "]),
    ],
    ids=["truncated", "corrupt", "html"],
)
def test_broken_download_fails_as_the_real_one(
    host: Host,
    cuda_site: DownloadSite,
    small_runfile: SmallRunfile,
    fault: dict[str, int],
    status: int,
    texts: list[str],
) -> None:
    served = small_runfile("12.4")
    with cuda_site.fault(served, **fault):
        bring(host, served)
    done = run(host, f"{QUIETLY} --toolkitpath=/opt/broken")
    assert done.returncode == status
    assert [text for text in texts if text not in done.stderr] == []
    host.exec("test ! -e /opt/broken && ! ls -d /tmp/selfgz*")


@pytest.mark.lab
def test_small_temporary_folder_and_full_target(fresh_host: StartHost, small_runfile: SmallRunfile) -> None:
    host = fresh_host("b", services=False, tmpfs={"/few": "4m"})
    bring(host, small_runfile("12.4"))
    unpacking = run(host, f"{QUIETLY} --toolkitpath=/opt/c --tmpdir=/few")
    assert unpacking.returncode == 15
    assert "Ensure there is enough space in /tmp" in unpacking.stderr
    host.exec('test ! -e /opt/c && test -z "$(ls /few)"')
    copying = run(host, f"{QUIETLY} --toolkitpath=/few/c")
    assert copying.returncode == 1
    assert "No space left on device" not in copying.stdout + copying.stderr
    assert "No space left on device" in host.exec("cat /var/log/cuda-installer.log").stdout


# The one that compiles

PROGRAM = """
#include <cstdio>
#include <cuda_runtime.h>
#include <thrust/device_vector.h>
__global__ void twice(float *x) { x[threadIdx.x] *= 2; }
int main() { printf("%d\\n", CUDART_VERSION); }
"""


@pytest.mark.lab
@pytest.mark.slow
def test_whole_toolkit_compiles_with_gcc_11_and_refuses_gcc_12(
    fresh_host: StartHost, real_runfile_117: Runfile
) -> None:
    host = fresh_host("b", services=False)
    bring(host, real_runfile_117)
    install = f"{QUIETLY} --toolkitpath=/usr/local/cuda-11.7"
    assert run(host, install).returncode == 127
    host.exec("apt-get update -qq && apt-get install -y -qq --no-install-recommends libxml2 gcc-11 g++-11", timeout=300)
    assert run(host, "--silent --toolkit").returncode == 255
    done = run(host, install)
    assert done.returncode == 0, done.stderr
    host.exec("mkdir /srv/try && cat > /srv/try/x.cu", stdin=PROGRAM)
    nvcc = "cd /srv/try && /usr/local/cuda-11.7/bin/nvcc"
    assert "release 11.7, V11.7.99" in host.exec(f"{nvcc} --version").stdout
    refused = host.exec(f"{nvcc} -c x.cu", check=False, timeout=120)
    assert refused.returncode == 1
    assert "unsupported GNU version! gcc versions later than 11 are not supported!" in refused.stderr
    # Linked with the runtime both ways; without a card nothing but main runs.
    for runtime in ("static", "shared"):
        host.exec(f"{nvcc} -ccbin g++-11 -cudart {runtime} -arch=sm_80 -o {runtime} x.cu", timeout=300)
        program = f"LD_LIBRARY_PATH=/usr/local/cuda-11.7/lib64 /srv/try/{runtime}"
        assert host.exec(program).stdout == "11070\n"
        assert "sm_80" in host.exec(f"/usr/local/cuda-11.7/bin/cuobjdump -lelf /srv/try/{runtime}").stdout
    assert "libcudart.so.11.0" in host.exec("ldd /srv/try/shared").stdout
    assert "cudart" not in host.exec("ldd /srv/try/static").stdout
