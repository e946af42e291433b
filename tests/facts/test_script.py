"""The gathering script itself, run in each shell that this machine has, on a home made for it."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gpuprov.facts import Facts, compare_protected, parse
from gpuprov.onhost import script

SHELLS: dict[str, list[str]] = {}
for _name, *_words in (["dash"], ["bash"], ["busybox", "sh"], ["sh"]):
    if (_path := shutil.which(_name)) and all(not os.path.samefile(_path, words[0]) for words in SHELLS.values()):
        SHELLS[_name] = [_path, *_words]
ANY_SHELL = next(iter(SHELLS))

USERS: dict[str, list[str]] = {"as we are": []}
if os.geteuid() == 0 and (setpriv := shutil.which("setpriv")):
    USERS["as a plain user"] = [setpriv, "--reuid=65534", "--regid=65534", "--clear-groups"]

# the deadlines of the real script, cut so that the tests need not wait for them
QUICK = script("facts").replace("-s KILL 10", "-s KILL 1").replace("gp_bounded 11 ", "gp_bounded 2 ")


@dataclass(kw_only=True)
class Home:
    """A home folder with what a rented host may have, and commands of its own before the machine's."""

    root: Path
    env: dict[str, str] = field(default_factory=dict)

    def command(self, name: str, body: str, mode: int = 0o755) -> None:
        path = self.root / "bin" / name
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(mode)

    def file(self, name: str, text: str = "") -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def run(
        self, shell: str = ANY_SHELL, *, user: str = "as we are", text: str = QUICK, env: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[bytes]:
        variables = {
            "HOME": str(self.root),
            "TMPDIR": str(self.root / "tmp"),
            "PATH": self.path(),
            **self.env,
            **(env or {}),
        }
        return subprocess.run(
            [*USERS[user], *SHELLS[shell], "-c", 'eval "$(cat)" </dev/null'],
            input=text.encode(),
            capture_output=True,
            timeout=30,
            env=variables,
            cwd=self.root / "tmp",
            check=False,
        )

    def path(self) -> str:
        return f"{self.root / 'bin'}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"

    def facts(self, shell: str = ANY_SHELL, **how: str) -> Facts:
        done = self.run(shell, **how)  # type: ignore[arg-type]
        assert done.returncode == 0, done.stderr
        assert done.stderr == b""
        return parse(done.stdout)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    for folder in (tmp_path, *tmp_path.parents):  # the plain user must get there
        if folder.stat().st_uid == os.geteuid() and folder.stat().st_mode & 0o005 != 0o005:
            folder.chmod(folder.stat().st_mode | 0o055)
    (tmp_path / "bin").mkdir()
    (tmp_path / "tmp").mkdir()
    return Home(root=tmp_path)


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def conda(home: Home, name: str = "miniconda3") -> Path:
    base = home.root / name
    home.file(f"{name}/condabin/conda")
    home.file(f"{name}/conda-meta/conda-23.5.2-py310h06a4308_0.json")
    home.file(f"{name}/conda-meta/python-3.10.13-h955ad1f_0.json")
    home.file(
        f"{name}/lib/python3.10/site-packages/protobuf-4.25.3.dist-info/RECORD",
        "google/protobuf/__init__.py,sha256=x,1",
    )
    home.file(f"{name}/lib/python3.10/site-packages/old-1.0.egg-info/PKG-INFO", "Name: old")
    home.file(f"{name}/envs/train/conda-meta/python-3.9.18-h955ad1f_0.json")
    home.file(f"{name}/envs/train/manifest.json", "{}")
    return base


# --- everywhere ----------------------------------------------------------------------------------


@pytest.mark.parametrize("user", USERS)
def test_this_machine_is_read_in_every_shell_and_as_every_user(home: Home, shell: str, user: str) -> None:
    facts = home.facts(shell, user=user)
    expected = [os.geteuid(), 65534][list(USERS).index(user)]
    assert facts.user.uid == expected
    assert facts.hostname == os.uname().nodename
    assert facts.arch == os.uname().machine
    assert facts.kernel == os.uname().release
    assert facts.cpu.count == len(os.sched_getaffinity(0))
    assert facts.clock is not None
    assert abs(facts.clock - time.time()) < 60
    assert facts.boot.id == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert (facts.tools or {})["sh"]
    assert {m.path for m in facts.mounts or ()} >= {"/"}
    root = facts.mount_of("/")
    assert root is not None
    assert root.size == os.statvfs("/").f_blocks * os.statvfs("/").f_frsize
    # What a plain user may not see is all that may be missing.
    known = ["not readable", "GPU", "gpus"]
    assert all(any(words in line for words in known) for line in facts.unseen), facts.unseen


def test_the_shells_agree(home: Home) -> None:
    conda(home)
    ids = [home.facts(name).protected for name in SHELLS]
    assert all(protected == ids[0] for protected in ids)
    assert ids[0]


def digests(root: Path) -> dict[str, tuple[object, ...]]:
    return {
        str(path.relative_to(root)): (
            path.lstat().st_mode,
            path.lstat().st_mtime_ns,
            path.lstat().st_ctime_ns,
            hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "",
        )
        for path in [root, *sorted(root.rglob("*"))]
    }


def test_it_writes_nothing(home: Home, shell: str) -> None:
    conda(home)
    home.command("nvidia-smi", "echo No devices were found; exit 6")
    before = digests(home.root)
    home.facts(shell)
    assert digests(home.root) == before


def test_it_is_quick_and_leaves_no_process(home: Home, shell: str) -> None:
    home.command("nvidia-smi", "echo No devices were found; exit 6")
    started = time.monotonic()
    done = home.run(shell, env={"GP_TEST_MARK": str(home.root)})
    assert time.monotonic() - started < 5  # about 0.1 s; a busy machine is no failure
    assert done.returncode == 0
    time.sleep(0.3)
    assert ours(home.root) == []


def ours(mark: Path) -> list[str]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if f"GP_TEST_MARK={mark}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                found.append((folder / "cmdline").read_bytes().decode(errors="replace"))
        except OSError:
            continue
    return found


# --- with little to work with --------------------------------------------------------------------


def test_without_any_command_it_still_tells_what_the_kernel_tells(home: Home, shell: str) -> None:
    facts = parse(run_bare(home, shell).stdout)
    assert facts.user.uid == os.geteuid()
    assert facts.hostname == os.uname().nodename
    assert facts.os.id
    assert facts.memory.total
    assert facts.cpu.count
    assert facts.gpus in ((), None)
    # busybox brings its own commands
    assert shell == "busybox" or {"mount sizes", "services", "user"} <= {line.split(":")[0] for line in facts.unseen}
    assert not any("the output ended" in line for line in facts.unseen)


def run_bare(home: Home, shell: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*SHELLS[shell], "-c", QUICK], capture_output=True, timeout=30, env={"PATH": str(home.root / "bin")}, check=True
    )


def test_with_few_commands_what_is_missing_is_unseen_and_not_absent(home: Home) -> None:
    path = home.root / "few"
    path.mkdir()
    for name in ("cat", "id", "date", "uname", "readlink"):
        found = shutil.which(name)
        assert found
        (path / name).symlink_to(found)
    conda(home)
    facts = parse(home.run(env={"PATH": str(path)}).stdout)
    assert facts.services is None
    assert (facts.tools or {}).get("sha256sum") is None
    key = f"python:{home.root}/miniconda3/lib/python3.10/site-packages:protobuf"
    assert facts.protected[key] == "unseen: no sha256sum"
    assert any(line.startswith("mount sizes") for line in facts.unseen)


# --- nvidia-smi ----------------------------------------------------------------------------------

ROW = "0, NVIDIA GeForce RTX 4070, GPU-1, 12282, 535.104.05, 00000000:01:00.0"
TABLE = "echo '| NVIDIA-SMI 535.104.05    Driver Version: 535.104.05   CUDA Version: 12.2     |'"


def test_a_working_nvidia_smi(home: Home, shell: str) -> None:
    home.command("nvidia-smi", f"case $1 in --query*) echo '{ROW}, 8.9, [N/A]' ;; *) {TABLE} ;; esac")
    facts = home.facts(shell)
    assert [(gpu.name, gpu.compute_cap) for gpu in facts.gpus or ()] == [("NVIDIA GeForce RTX 4070", "8.9")]
    assert (facts.driver.version, facts.driver.cuda) == ("535.104.05", "12.2")
    assert facts.driver.smi == str(home.root / "bin/nvidia-smi")


def test_one_that_does_not_know_a_field_is_asked_again(home: Home, shell: str) -> None:
    home.command(
        "nvidia-smi",
        f"""case $1 in
        *compute_cap*) echo 'Field "compute_cap" is not a valid field to query.'; exit 2 ;;
        --query*) echo '{ROW}' ;;
        *) {TABLE} ;;
        esac""",
    )
    facts = home.facts(shell)
    assert [(gpu.name, gpu.compute_cap) for gpu in facts.gpus or ()] == [("NVIDIA GeForce RTX 4070", "8.9")]


@pytest.mark.parametrize(
    ("body", "mode", "answer"),
    [
        ("echo 'Failed to initialize NVML: Driver/library version mismatch'; exit 18", 0o755, "version-mismatch"),
        ("echo 'No devices were found'", 0o755, "no-devices"),
        ("head -c 300000 /dev/urandom", 0o755, "unreadable"),
        ("printf 'no newline at the end'; exit 1", 0o755, "unreadable"),
        ("kill -SEGV $$", 0o755, "unreadable"),
        ("", 0o644, "permission"),
    ],
)
def test_a_failing_nvidia_smi_spoils_nothing_else(home: Home, shell: str, body: str, mode: int, answer: str) -> None:
    home.command("nvidia-smi", body, mode)
    # With the deadlines that hosts get: none is to be reached
    facts = parse(home.run(shell, text=script("facts")).stdout)
    assert facts.driver.answer == answer
    assert facts.os.id
    assert "the output ended" not in "".join(facts.unseen)


@pytest.mark.parametrize(
    ("body", "timeout"),
    [
        ("sleep 20", "with timeout"),
        ("trap '' TERM; sleep 20 & sleep 20 & wait", "with timeout"),
        ("while :; do echo GPU; done", "with timeout"),
        ("echo half; exec sleep 20", "with timeout"),
        ("sleep 20 & sleep 20 & wait", "without timeout"),  # what is left of it holds the pipe open
        ("while :; do echo GPU; done", "without timeout"),
    ],
)
def test_a_hanging_nvidia_smi_costs_its_deadline_and_nothing_more(
    home: Home, shell: str, body: str, timeout: str
) -> None:
    home.command("nvidia-smi", body)
    text = QUICK if timeout == "with timeout" else QUICK.replace("command -v timeout", "false")
    started = time.monotonic()
    done = home.run(shell, text=text)
    assert time.monotonic() - started < 8
    facts = parse(done.stdout)
    assert facts.gpus is None
    assert facts.driver.answer == "timed-out"
    assert facts.unseen[-1].startswith("gpus: nvidia-smi did not answer")
    assert facts.os.id


# --- toolkits, conda, services -------------------------------------------------------------------


def test_toolkits_below_the_inventory_s_path(home: Home, shell: str) -> None:
    home.file("tk/cuda-11.7/bin/nvcc").chmod(0o755)
    home.file("tk/cuda-11.7/include/cuda_runtime.h")
    home.file("tk/cuda-11.7/manifest.json", "{}")
    home.file(
        "tk/cuda-11.7/version.json",
        '{\n   "cuda" : {\n      "name" : "CUDA SDK",\n      "version" : "11.7.20220729"\n   },\n'
        '   "cuda_nvcc" : {\n      "name" : "CUDA NVCC",\n      "version" : "11.7.99"\n   }\n}\n',
    )
    home.file("tk/cuda-10.1/version.txt", "CUDA Version 10.1.243\n")
    home.file("tk/cuda-12.4/include/cuda.h", "/* x */\n#define CUDA_VERSION 12040\n")
    home.file("tk/cuda-12.9/targets/x86_64-linux/lib/libcudart.so.12.9.37")
    (home.root / "tk/cuda-12.9/lib64").symlink_to("targets/x86_64-linux/lib")
    (home.root / "tk/cuda").symlink_to("cuda-11.7")
    (home.root / "tk/cuda-9").symlink_to("/nowhere/at all")
    (home.root / "tk/cuda-8").symlink_to("cuda-8")
    (home.root / "tk/cuda-7").mkdir()  # empty: a toolkit may be made in it
    home.file("tk/cuda-6/.keep")
    facts = home.facts(shell, text="gp_paths_toolkits='~/tk'\n" + QUICK)
    tk = home.root / "tk"
    found = {Path(t.path).name: t for t in facts.toolkits or () if t.path.startswith(str(tk))}
    assert set(found) == {"cuda", "cuda-11.7", "cuda-10.1", "cuda-12.4", "cuda-12.9", "cuda-9", "cuda-8", "cuda-6"}
    own = found["cuda-11.7"]
    assert (own.version, own.release, own.nvcc, own.told_by) == ("11.7", "11.7.20220729", "11.7.99", "version.json")
    assert (own.compiler, own.headers, own.ours, own.link) == (True, True, True, False)
    assert (found["cuda"].real, found["cuda"].link) == (str(tk / "cuda-11.7"), True)
    assert [found[f"cuda-{v}"].version for v in ("10.1", "12.4", "12.9")] == ["10.1", "12.4", "12.9"]
    assert (found["cuda-9"].dangling, found["cuda-8"].dangling, found["cuda"].dangling) == (True, True, False)
    assert facts.paths.toolkits == str(tk)


def test_conda_and_environments(home: Home, shell: str) -> None:
    base = conda(home)
    home.file("venvs/odd\tname\\/pyvenv.cfg", "home = /usr/bin\nversion = 3.11.2\n")
    home.file(".conda/environments.txt", f"{base}\n{base}/envs/train\n/nowhere\n{home.root}/other")
    home.file("other/conda-meta/python-3.8.1-0.json")
    facts = home.facts(shell, text="gp_paths_envs='~/venvs' gp_state=/x\n" + QUICK)
    assert [(c.path, c.version) for c in facts.conda or () if c.path.startswith(str(home.root))] == [
        (str(base), "23.5.2")
    ]
    envs = {e.path: (e.kind, e.python, e.ours) for e in facts.envs or () if e.path.startswith(str(home.root))}
    assert envs == {
        f"{base}": ("conda", "3.10.13", False),
        f"{base}/envs/train": ("conda", "3.9.18", True),
        f"{home.root}/venvs/odd\tname\\": ("venv", "3.11.2", False),
        f"{home.root}/other": ("conda", "3.8.1", False),
    }
    assert facts.paths.state == "/x"
    site = f"python:{base}/lib/python3.10/site-packages"
    digest = hashlib.sha256(b"google/protobuf/__init__.py,sha256=x,1").hexdigest()[:16]
    assert facts.protected[f"{site}:protobuf"] == f"4.25.3 {digest}"
    assert facts.protected[f"{site}:old"].startswith("1.0 ")
    assert facts.protected[f"conda:{base}:python"] == "3.10.13-h955ad1f_0"
    assert not any("/envs/train" in key for key in facts.protected)


def test_so_many_packages_that_the_answer_would_be_cut_are_told_by_one_digest(home: Home, shell: str) -> None:
    base = conda(home)
    text = QUICK.replace("gp_most=1200", "gp_most=0")
    assert text != QUICK
    before = home.facts(shell, text=text).protected
    key = f"python:{base}/lib/python3.10/site-packages:(all 2 packages)"
    assert before[key].startswith("? ")
    assert f"file:{base}/conda-meta" in before
    home.file("miniconda3/lib/python3.10/site-packages/protobuf-4.25.3.dist-info/RECORD", "changed")
    home.file("miniconda3/conda-meta/openssl-3.0.1-0.json", "{}")
    after = home.facts(shell, text=text).protected
    changed = {difference.key for difference in compare_protected(before, after)}
    assert changed == {key, f"file:{base}/conda-meta"}


@pytest.mark.parametrize(
    "damage",
    [
        ("miniconda3/lib/python3.10/site-packages/protobuf-4.25.3.dist-info/RECORD", "changed"),
        ("miniconda3/conda-meta/openssl-3.0.1-0.json", "{}"),
        (".condarc", "channels: []"),
        (".config/pip/pip.conf", "[global]"),
    ],
    ids=lambda damage: str(damage[0]),
)
def test_damage_to_what_is_protected_shows(home: Home, damage: tuple[str, str]) -> None:
    conda(home)
    before = home.facts().protected
    home.file(*damage)
    after = home.facts().protected
    assert len(set(before.items()) ^ set(after.items())) in (1, 2)


@pytest.fixture
def jupyter(home: Home) -> Iterator[subprocess.Popen[bytes]]:
    base = conda(home)
    program = home.file("miniconda3/bin/jupyter-lab", "import time\nprint(flush=True)\ntime.sleep(60)\n")
    argv = [
        str(base / "bin/python"),
        "-s",
        str(program),
        "--IdentityProvider.token=s3cret",
        "--password",
        "hush",
        "a\nb",
    ]
    with subprocess.Popen(argv, executable=sys.executable, stdout=subprocess.PIPE, env={"SECRET": "x"}) as process:
        assert process.stdout
        process.stdout.readline()
        yield process
        process.kill()


def test_a_running_jupyter_is_seen_its_python_protected_and_its_secrets_left_there(
    home: Home, shell: str, jupyter: subprocess.Popen[bytes]
) -> None:
    done = home.run(shell)
    assert b"s3cret" not in done.stdout
    assert b"hush" not in done.stdout
    facts = parse(done.stdout)
    (seen,) = [service for service in facts.services or () if service.pid == jupyter.pid]
    assert seen.kind == "jupyter"
    assert seen.argv[3:] == ("--IdentityProvider.token=(withheld)", "--password", "(withheld)", "a b")
    assert os.path.samefile(seen.exe, sys.executable)
    stat = Path(f"/proc/{jupyter.pid}/stat").read_text()
    assert seen.start == int(stat.rpartition(")")[2].split()[19])
    assert f"pid {jupyter.pid} since tick {seen.start}" in facts.protected["service:jupyter"]


# --- network mounts ------------------------------------------------------------------------------


def test_nothing_below_a_network_mount_is_touched(home: Home, shell: str) -> None:
    """Here every tmpfs counts as one; a link from home leads there."""
    place = Path("/dev/shm") / home.root.name
    place.mkdir()
    try:
        real = Home(root=place)
        conda(real)
        (home.root / "miniconda3").symlink_to(place / "miniconda3")
        home.file(".conda/environments.txt", f"{place}/miniconda3/envs/train\n")
        assert len([c for c in home.facts(shell).conda or () if str(place) in c.path]) == 1
        facts = home.facts(shell, text=QUICK.replace("| tmpfs | bcachefs", "| bcachefs"))
        assert not [c for c in facts.conda or () if str(place) in c.path]
        assert not [key for key in facts.protected if str(place) in key and "unseen" not in facts.protected[key]]
        assert any(line.startswith(f"environment {place}") and "network mount" in line for line in facts.unseen)
        (shm, *_) = [m for m in facts.mounts or () if m.path == "/dev/shm"]
        assert (shm.network, shm.size) == (True, None)
        path = f"{place}/bin:{home.path()}"
        done = home.run(shell, text=QUICK.replace("| tmpfs | bcachefs", "| bcachefs"), env={"PATH": path})
        assert f"PATH folder {place}/bin: on a network mount" in parse(done.stdout).unseen
        assert not any("came through" in line or "the output ended" in line for line in parse(done.stdout).unseen)
    finally:
        shutil.rmtree(place)
