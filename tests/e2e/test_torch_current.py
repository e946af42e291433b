"""The playbook for today's cards: planned on the lab's hosts, and made for real in the slow variant."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.command import Command, from_runfile, hosts_of, write_inventory
from tests.lab.cuda.fixtures import SmallRunfile
from tests.lab.engine import pip_cache
from tests.lab.fixtures import StartHost
from tests.lab.hosts import Host

PLAYBOOK = str(Path(__file__).parents[2] / "playbooks" / "torch-current.yaml")
ENV = "/srv/envs/torch-current"
BLACKWELL: dict[str, str | int] = {
    "NAME": "NVIDIA GeForce RTX 5090",
    "MEMORY_MIB": 32607,
    "COMPUTE_CAP": "12.0",
    "DRIVER": "570.124.06",
}


def command_for(host: Host, small_runfile: SmallRunfile, folder: Path, **more: object) -> Command:
    variables = from_runfile(small_runfile("12.8.1"))
    paths = {"envs": "/srv/envs", "cache": "/srv/cache"}
    entries = {host.name: {**hosts_of(host)[host.name], **more}}
    return Command(write_inventory(folder / "hosts.yaml", entries, vars=variables, paths=paths))


@pytest.fixture
def host(fresh_host: StartHost) -> Host:
    made = fresh_host("a", services=False, volumes=[f"{pip_cache()}:/srv/cache/pip"])
    made.set_gpu(**BLACKWELL, CUDA="12.8")
    made.mount_driver_proc()
    return made


def test_it_plans_on_a_blackwell_card(host: Host, small_runfile: SmallRunfile, tmp_path: Path) -> None:
    result = command_for(host, small_runfile, tmp_path)("plan", PLAYBOOK)
    assert result.code == 0, result.out
    verdicts = {e["id"]: e["verdict"] for e in result.of("plan-line", host=host.name)}
    assert "blocked" not in verdicts.values()
    assert verdicts["cuda-toolkit:12.8"] in ("change", "recheck")
    assert f"pip:{ENV}" in " ".join(verdicts) and "torch" in " ".join(verdicts)


def test_a_driver_before_blackwell_is_told(host: Host, small_runfile: SmallRunfile, tmp_path: Path) -> None:
    host.set_gpu(DRIVER="470.57.02", CUDA="11.4", NAME="NVIDIA A100-SXM4-80GB", COMPUTE_CAP="8.0")
    host.mount_driver_proc()
    result = command_for(host, small_runfile, tmp_path)("plan", PLAYBOOK)
    assert result.code == 1
    (line,) = result.of("plan-line", host=host.name, role="driver")
    assert line["verdict"] == "blocked" and "470.57.02" in line["why"] and "525.60.13" in line["why"]


@pytest.mark.slow  # fetches three gigabytes of wheels the first time
def test_it_is_made_and_made_once(host: Host, small_runfile: SmallRunfile, tmp_path: Path) -> None:
    # As on an instance that was started without its card: nothing here computes
    host.set_gpu(MODE="no-gpu-boot")
    command = command_for(host, small_runfile, tmp_path, gpu="RTX 5090")
    first = command("apply", PLAYBOOK, timeout=1800)
    assert first.code == 0, first.out[-6000:]
    script = "import torch as t, torchvision as v; print(t.__version__, t.version.cuda, v.__version__)"
    said = host.ssh(f"{ENV}/bin/python -c '{script}'", timeout=180).stdout.split()
    assert said[0].startswith("2.9.1") and said[1] == "12.8" and said[2].startswith("0.24.1"), said
    assert "release 12.8" in host.testinfra().check_output("/usr/local/cuda-12.8/bin/nvcc --version")
    (check,) = first.of("node-ended", id=f"check:torch:{ENV}")
    assert "pending GPU" in check["because"], check
    second = command("apply", PLAYBOOK)
    assert second.code == 0 and second.changed(host.name) == set()
