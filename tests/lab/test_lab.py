"""The lab itself: its hosts are what they claim to be, and its eyes see what goes wrong."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.lab import engine, faults, fsdigest
from tests.lab.fixtures import StartHost
from tests.lab.hosts import Host, wait_until
from tests.lab.lab import Lab
from tests.lab.link import delayed_link
from tests.lab.prober import Prober, deep_faults, take_sample

pytestmark = pytest.mark.lab

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="enters the host's namespaces, which needs root")


@pytest.fixture(params=["a", "b"])
def session_host(request: pytest.FixtureRequest) -> Host:
    host: Host = request.getfixturevalue(f"lab_{request.param}")
    return host


@pytest.fixture(scope="module")
def card_host(lab: Lab) -> Iterator[Host]:
    """A host whose card the tests below change."""
    host = lab.start("b", services=False)
    yield host
    lab.remove(host)


# What a host is


@pytest.mark.parametrize(("user", "sudo_status"), [("root", 0), ("gpu", 0), ("plain", 1)])
def test_host_lets_its_users_in_over_openssh(session_host: Host, user: str, sudo_status: int) -> None:
    assert session_host.ssh("id -un", user=user).stdout == f"{user}\n"
    assert session_host.ssh("sudo -n true", user=user).returncode == sudo_status


def test_unknown_host_key_is_refused(session_host: Host, tmp_path: Path) -> None:
    other = session_host.ssh_config().read_text().replace(str(session_host.known_hosts), str(tmp_path / "empty"))
    (tmp_path / "config").write_text(other)
    done = subprocess.run(
        ["ssh", "-F", str(tmp_path / "config"), session_host.name, "true"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 255
    assert "Host key verification failed" in done.stderr


def test_banner_of_shape_a_is_in_every_shell(lab_a: Host) -> None:
    assert "AutoDL" in lab_a.ssh("echo hello", quiet=False).stdout
    assert lab_a.ssh("echo hello").stdout == "hello\n"
    assert lab_a.ssh("command -v python").stdout == "/root/miniconda3/bin/python\n"


def test_banner_of_shape_b_is_in_login_shells(lab_b: Host) -> None:
    assert lab_b.ssh("echo hello", quiet=False).stdout == "hello\n"
    assert "Welcome to vast.ai" in lab_b.ssh("bash -lc 'echo hello'", quiet=False).stdout
    assert lab_b.ssh("echo $PIP_BREAK_SYSTEM_PACKAGES").stdout == "1\n"


def test_sftp_works_in_spite_of_the_banner(session_host: Host, tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"\x00\xff" * 1000)
    batch = f"put {tmp_path}/in /tmp/lab-sftp\nget /tmp/lab-sftp {tmp_path}/out\nrm /tmp/lab-sftp\n"
    subprocess.run(
        ["sftp", "-q", "-b", "-", "-F", str(session_host.ssh_config()), session_host.name],
        input=batch, text=True, check=True, capture_output=True,
    )  # fmt: skip
    assert (tmp_path / "out").read_bytes() == (tmp_path / "in").read_bytes()


def test_testinfra_reads_a_host(session_host: Host) -> None:
    seen = session_host.testinfra()
    assert seen.system_info.distribution == "debian"
    assert seen.system_info.release.startswith("12")
    assert seen.package("g++-12").is_installed
    assert not seen.package("gcc-11").is_installed
    assert seen.package("python3-protobuf").version.startswith("3.21.12")
    assert seen.socket("tcp://0.0.0.0:8888").is_listening
    assert session_host.testinfra("plain").user().name == "plain"


@pytest.mark.parametrize("program", ["zsh", "dash", "bash", "busybox", "tmux", "curl", "python3", "ps", "ip"])
def test_host_has_the_programs_a_rented_one_has(session_host: Host, program: str) -> None:
    assert session_host.testinfra().exists(program)


def test_cuda_goes_through_alternatives(session_host: Host) -> None:
    seen = session_host.testinfra()
    assert seen.file("/usr/local/cuda").linked_to == "/usr/local/cuda-12.1"
    assert session_host.exec("readlink /usr/local/cuda").stdout.strip() == "/etc/alternatives/cuda"
    query = session_host.exec("update-alternatives --query cuda").stdout
    assert "Value: /usr/local/cuda-12.1" in query
    assert "release 12.1, V12.1.105" in session_host.exec("/usr/local/cuda/bin/nvcc --version").stdout
    assert session_host.exec("/usr/local/cuda/bin/nvcc x.cu", check=False).returncode == 1
    assert "libcudart.so.12 (libc6,x86-64) => /usr/local/cuda/" in session_host.exec("ldconfig -p").stdout


@needs_root
def test_kernel_module_version_is_shown(session_host: Host) -> None:
    assert "Kernel Module  535.104.05  " in session_host.exec("cat /proc/driver/nvidia/version").stdout


def test_conda_stand_in_makes_environments(fresh_host: StartHost) -> None:
    host = fresh_host("a", services=False)
    conda = "/root/miniconda3/bin/conda"
    assert host.exec(f"{conda} --version").stdout == "conda 23.11.0\n"
    host.exec(f"{conda} create -y -q -n work python=3.11 pip")
    prefix = "/root/miniconda3/envs/work"
    assert yaml.safe_load(host.exec(f"{conda} env list --json").stdout)["envs"] == ["/root/miniconda3", prefix]
    assert host.exec(f"{conda} run -n work python -c 'import sys; print(sys.prefix)'").stdout.strip() == prefix
    names = {row["name"] for row in yaml.safe_load(host.exec(f"{conda} list -p {prefix} --json").stdout)}
    assert {"python", "pip"} <= names
    missing = host.exec(f"{conda} create -y -n other python=2.1", check=False)
    assert missing.returncode == 1
    assert "PackagesNotFoundError" in missing.stderr


# Card and driver


def test_card_is_the_one_that_was_chosen(card_host: Host) -> None:
    card_host.set_gpu(MODE="ok", COUNT=2, NAME="NVIDIA GeForce RTX 4070", NAME_1="NVIDIA GeForce RTX 3090")
    query = "nvidia-smi --query-gpu=index,name,memory.total,driver_version,compute_cap --format=csv,noheader"
    assert card_host.exec(f"{query},nounits").stdout.splitlines() == [
        "0, NVIDIA GeForce RTX 4070, 12282, 535.104.05, 8.9",
        "1, NVIDIA GeForce RTX 3090, 12282, 535.104.05, 8.9",
    ]
    assert ", 12282 MiB, " in card_host.exec(query).stdout
    assert card_host.exec("nvidia-smi -L").stdout.count("GPU-00000000-") == 2
    assert "CUDA Version        : 12.2" in card_host.exec("nvidia-smi --version").stdout
    unknown = card_host.exec("nvidia-smi --query-gpu=no_such --format=csv", check=False)
    assert (unknown.returncode, unknown.stdout.strip()) == (2, 'Field "no_such" is not a valid field to query.')


@pytest.mark.parametrize(("driver", "width"), [("510.47.03", 79), ("535.104.05", 89), ("570.133.20", 91)])
def test_table_has_the_layout_of_its_driver(card_host: Host, driver: str, width: int) -> None:
    card_host.set_gpu(MODE="ok", COUNT=1, DRIVER=driver)
    lines = card_host.exec("nvidia-smi").stdout.splitlines()
    card_host.set_gpu(DRIVER="535.104.05")
    assert {len(line) for line in lines[1:]} == {width}
    assert f"NVIDIA-SMI {driver} " in lines[2]
    assert "1MiB / 12282MiB |" in "".join(lines).replace("  ", " ")
    # The narrow layout has no room for the name.
    assert any("NVIDIA GeForce RTX 4070 " in line for line in lines) == (width > 79)


CU_INIT = "import ctypes; print(ctypes.CDLL('libcuda.so.1').cuInit(0))"


@pytest.mark.parametrize(
    ("mode", "status", "text", "cu_init"),
    [
        ("ok", 0, "Driver Version: 535.104.05", "0"),
        ("nvml-mismatch", 18, "Driver/library version mismatch", "803"),
        ("no-driver", 9, "couldn't communicate with the NVIDIA driver", "100"),
        ("no-devices", 6, "No devices were found", "100"),
        ("unknown-error", 255, "Failed to initialize NVML: Unknown Error", "999"),
        ("gpu-lost", 15, "GPU is lost", "999"),
        ("cuda-none", 0, "Driver Version: 535.104.05", "100"),
        ("no-gpu-boot", 126, "", "file too short"),
        ("absent", 127, "", "cannot open shared object file"),
    ],
)
def test_failure_modes_of_the_driver(card_host: Host, mode: str, status: int, text: str, cu_init: str) -> None:
    card_host.set_gpu(MODE=mode, COUNT=1)
    done = card_host.exec("bash -c 'nvidia-smi; exit $?'", check=False)
    assert done.returncode == status
    assert text in done.stdout
    loaded = card_host.exec(f'python3 -c "{CU_INIT}"', check=False)
    assert cu_init in (loaded.stdout + loaded.stderr).splitlines()[-1]


def test_hanging_driver_hangs(card_host: Host) -> None:
    card_host.set_gpu(MODE="hang")
    assert card_host.exec("timeout 1 nvidia-smi", check=False).returncode == 124
    card_host.set_gpu(MODE="ok")


# The prober


@pytest.mark.parametrize("shape", ["a", "b"])
def test_prober_turns_red_when_protobuf_breaks_and_green_again(fresh_host: StartHost, shape: str) -> None:
    host = fresh_host(shape)
    python = host.shape.service_python
    package = host.exec(f"{python} -c 'import google.protobuf as p; print(p.__path__[0])'").stdout.strip()
    with Prober(host, interval=0.3) as prober:
        assert prober.look().green
        host.exec(f"mv {package} {package}.away")
        broken = prober.look()
        host.exec(f"mv {package}.away {package}")
        assert prober.look().green
    name = "base" if shape == "a" else "system"
    assert set(broken.faults) == {f"protobuf-{name}", "tensorboard-import"}
    assert "No module named" in broken.faults[f"protobuf-{name}"]
    with pytest.raises(AssertionError, match="looks red"):
        prober.assert_green()
    with Prober(host, interval=0.3) as prober:
        wait_until(lambda: len(prober.timeline) >= 4, "no rhythm", 30)
    prober.assert_green()


@pytest.mark.slow
def test_prober_sees_a_protobuf_that_tensorboard_refuses(fresh_a: Host) -> None:
    with Prober(fresh_a) as prober:
        fresh_a.exec("/root/miniconda3/bin/python -m pip install -q protobuf==3.20.3", timeout=120)
    # It can be imported, and what runs goes on; TensorBoard's next start is what fails.
    assert set(prober.timeline[-1].faults) == {"tensorboard-import"}
    with pytest.raises(AssertionError, match="tensorboard-import"):
        prober.assert_green()
    assert set(deep_faults(fresh_a)) == {"tensorboard"}


def test_prober_sees_programs_die_and_come_back(fresh_b: Host) -> None:
    with Prober(fresh_b, interval=0.3) as prober:
        fresh_b.exec("pkill -9 -f '[j]upyter-lab'")
        dead = prober.look()
        fresh_b.wait_services()
    assert dead.faults == {"jupyter": "HTTP 000"}
    assert prober.restarted
    with pytest.raises(AssertionError):
        prober.assert_green()


def test_prober_tells_a_host_that_is_down(fresh_b: Host) -> None:
    with Prober(fresh_b, interval=0.3) as prober:
        address = fresh_b.address
        fresh_b.kill()
        assert prober.look().down
        fresh_b.start()
        fresh_b.wait_services()
    assert fresh_b.address == address
    assert fresh_b.ssh("echo back").stdout == "back\n"
    with pytest.raises(AssertionError, match="not running"):
        prober.assert_green(allow_restart=True)


# The digest


def test_digest_of_an_idle_host_stays(session_host: Host) -> None:
    before = fsdigest.snapshot(session_host)
    session_host.ssh("true")
    after = fsdigest.snapshot(session_host)
    assert len(before) > 20_000
    assert not fsdigest.diff(before, after)
    assert not fsdigest.written(before, fsdigest.snapshot(session_host, content=False))
    assert fsdigest.digest(before) == fsdigest.digest(after)


def test_digest_finds_each_kind_of_change(fresh_host: StartHost) -> None:
    host = fresh_host("b", services=False)
    host.exec("mkdir /srv/x; echo 1 > /srv/x/changed; echo 2 > /srv/x/mode; echo 3 > /srv/x/gone; ln -s a /srv/x/link")
    host.exec("touch -a -d '2001-01-01' /srv/x/changed")
    before = fsdigest.snapshot(host)
    assert host.exec("stat -c %x /srv/x/changed").stdout.startswith("2001-01-01")
    host.exec("cd /srv/x; echo 9 > changed; chmod 600 mode; rm gone; ln -sfn b link; touch 'new one'; touch again")
    after = fsdigest.snapshot(host)
    seen = fsdigest.diff(before, after)
    assert seen.added == ("/srv/x/again", "/srv/x/new one")
    assert seen.removed == ("/srv/x/gone",)
    assert seen.changed == ("/srv/x/changed", "/srv/x/link", "/srv/x/mode")
    assert fsdigest.digest(before) != fsdigest.digest(after)
    assert not seen.outside("/srv/x")
    assert seen.outside("/srv/x/*e*").changed == ("/srv/x/link",)


@pytest.mark.parametrize("content", [True, False])
def test_digest_finds_what_was_written_as_it_was(fresh_host: StartHost, content: bool) -> None:
    host = fresh_host("b", services=False)
    host.exec("mkdir /srv/x; for f in same timed moved left; do echo 1 > /srv/x/$f; done; ln -s a /srv/x/link")
    before = fsdigest.snapshot(host)
    host.exec(
        "cd /srv/x; echo 1 > same; touch -r timed t; echo 1 > timed; touch -r t timed; rm t; mv moved a; mv a moved"
    )
    after = fsdigest.snapshot(host, content=content)
    if content:
        assert not fsdigest.diff(before, after)
    assert fsdigest.written(before, after).changed == ("/srv/x/moved", "/srv/x/same", "/srv/x/timed")
    host.exec("cd /srv/x; ln -sfn b link")
    assert "/srv/x/link" in fsdigest.written(before, fsdigest.snapshot(host, content=content)).changed


# Faults


@needs_root
def test_cut_line_is_silent_and_heals(fresh_host: StartHost) -> None:
    host = fresh_host("b")
    session = subprocess.Popen(
        ["ssh", "-F", str(host.ssh_config()), host.name, "sleep 3; echo done"], stdout=subprocess.PIPE, text=True
    )
    wait_until(lambda: "sleep 3" in host.exec("ps ax").stdout, "no session", 10)
    with faults.line_cut(host):
        with pytest.raises(TimeoutError):
            socket.create_connection((host.address, host.port), timeout=1)
        assert take_sample(host).green
    out, _ = session.communicate(timeout=30)
    assert (session.returncode, out) == (0, "done\n")
    assert host.ssh("echo healed").stdout == "healed\n"


@needs_root
def test_refused_connections(fresh_host: StartHost) -> None:
    host = fresh_host("b", services=False)
    faults.refuse_connections(host)
    assert "Connection refused" in host.ssh("true").stderr
    faults.heal_line(host)
    assert host.ssh("true").returncode == 0


def test_newest_session_is_killed_and_its_command_goes_on(fresh_host: StartHost) -> None:
    host = fresh_host("b", services=False)
    assert not faults.kill_newest_session(host)
    session = subprocess.Popen(
        ["ssh", "-F", str(host.ssh_config()), host.name, "sleep 5; touch /tmp/went-on"], stderr=subprocess.DEVNULL
    )
    wait_until(lambda: "sleep 5" in host.exec("ps ax").stdout, "no session", 10)
    assert faults.kill_newest_session(host)
    assert session.wait(10) == 255
    wait_until(lambda: host.exec("test -e /tmp/went-on", check=False).returncode == 0, "the command died", 30)


@needs_root
def test_delayed_link_delays_the_handshake_too(fresh_host: StartHost) -> None:
    host = fresh_host("b", services=False)
    with delayed_link(host, one_way_ms=60) as (far, link):
        begin = time.monotonic()
        with socket.create_connection((far.address, far.port), timeout=10) as line:
            connected = time.monotonic() - begin
            line.recv(4)
        answered = time.monotonic() - begin
        assert 0.12 <= connected < 1
        assert answered >= 0.18
        assert far.ssh("hostname").stdout == host.ssh("hostname").stdout
        link.cut = True
        with pytest.raises(TimeoutError):
            socket.create_connection((far.address, far.port), timeout=1)
        link.cut, link.lose_every = False, 20
        assert far.ssh("echo in spite of loss").stdout == "in spite of loss\n"


def test_small_file_system_fills(fresh_host: StartHost) -> None:
    host = fresh_host("b", tmpfs={"/data": "16m"}, services=False)
    faults.fill_disk(host, "/data", leave_kib=64)
    full = host.exec("dd if=/dev/zero of=/data/x bs=1k count=128", check=False)
    assert "No space left on device" in full.stderr
    faults.free_disk(host, "/data")
    host.exec("dd if=/dev/zero of=/data/x bs=1k count=128")


@needs_root
def test_small_disk_keeps_its_content_over_a_power_cut(fresh_host: StartHost) -> None:
    with faults.small_disk(16) as disk:
        host = fresh_host("b", volumes=[f"{disk}:/data"], services=False)
        host.exec("echo kept > /data/file; sync")
        faults.fill_disk(host, "/data")
        assert "No space left" in host.exec("dd if=/dev/zero of=/data/more count=8", check=False).stderr
        host.kill()
        host.start()
        assert host.exec("cat /data/file").stdout == "kept\n"
        host.kill()


# The lab's own housekeeping


def test_unchanged_images_are_not_built_again(lab: Lab) -> None:
    begin = time.monotonic()
    assert engine.build_images("a", "b") == lab.images
    assert time.monotonic() - begin < 2


def test_inventory_names_each_host(lab: Lab, lab_a: Host, lab_b: Host, tmp_path: Path) -> None:
    written = yaml.safe_load(lab.write_inventory(tmp_path / "inventory.yml", [lab_a, lab_b]).read_text())
    assert written["hosts"] == {
        "lab-a": {"address": lab_a.address, "port": lab_a.port},
        "lab-b": {"address": lab_b.address, "port": lab_b.port},
    }
    assert written["defaults"] == {"user": "root", "key": str(lab.key), "known_hosts": str(lab.known_hosts)}


def test_hosts_of_a_killed_run_are_removed_by_the_next(lab: Lab) -> None:
    script = (
        "from tests.lab.lab import Lab; lab = Lab(); host = lab.start('b', services=False);"
        "print(lab.owner, host.container, flush=True); import time; time.sleep(60)"
    )
    root = str(Path(__file__).parents[2])
    run = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, cwd=root)
    assert run.stdout is not None
    owner, container = run.stdout.readline().split()
    listing = ["ps", "-a", "-q", "--no-trunc", "--filter", f"label={engine.OWNER_LABEL}={owner}"]
    engine.remove_leftovers()
    assert container in engine.docker(*listing)
    run.send_signal(signal.SIGKILL)
    run.wait()
    engine.remove_leftovers()
    assert engine.docker(*listing) == ""
    assert engine.docker("network", "ls", "-q", "--filter", f"label={engine.OWNER_LABEL}={owner}") == ""


# Real registries


@pytest.mark.slow
def test_apt_installs_another_compiler(fresh_host: StartHost) -> None:
    host = fresh_host("b", services=False)
    host.exec("apt-get update -qq && apt-get install -y -qq --no-install-recommends gcc-11 g++-11", timeout=300)
    assert host.exec("gcc-11 -dumpversion; gcc -dumpversion").stdout.split() == ["11", "12"]


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["a", "b"])
def test_pip_installs_from_the_index(fresh_host: StartHost, shape: str) -> None:
    host = fresh_host(shape, services=False)
    host.exec("python3 -m venv /opt/try && /opt/try/bin/pip install -q packaging", timeout=300)
    assert host.exec("/opt/try/bin/python -c 'import packaging'").returncode == 0
