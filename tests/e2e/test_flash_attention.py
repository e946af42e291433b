"""The real flash-attention 1.0.9, compiled on a real host: twenty minutes and more, so not among the quick tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.command import Command, from_runfile, hosts_of, write_inventory
from tests.lab.cuda.runfiles import Runfile
from tests.lab.engine import pip_cache
from tests.lab.fixtures import StartHost

PLAYBOOK = str(Path(__file__).parents[2] / "playbooks" / "legacy-torch113.yaml")
ENV = "/srv/envs/torch113"


@pytest.mark.slow
def test_the_shipped_playbook_builds_flash_attention(
    fresh_host: StartHost, real_runfile_117: Runfile, tmp_path: Path
) -> None:
    host = fresh_host("a", volumes=[f"{pip_cache()}:/srv/cache/pip"])
    host.set_gpu(MODE="no-gpu-boot")
    entries = {host.name: {**hosts_of(host)[host.name], "gpu": "RTX 4070"}}
    variables = from_runfile(real_runfile_117)
    paths = {"envs": "/srv/envs", "cache": "/srv/cache"}
    command = Command(write_inventory(tmp_path / "hosts.yaml", entries, vars=variables, paths=paths))
    result = command("apply", PLAYBOOK, timeout=3600)
    assert result.code == 0, result.out[-6000:]
    script = "import torch, flash_attn, flash_attn_cuda; print(flash_attn.__version__, flash_attn_cuda.__file__)"
    version, library = host.ssh(f"{ENV}/bin/python -c '{script}'", timeout=120).stdout.split()
    assert version == "1.0.9"
    assert "GCC: (Debian 11" in host.exec(f"readelf -p .comment {library}").stdout
    code = host.exec(f"/usr/local/cuda-11.7/bin/cuobjdump --list-elf {library}", timeout=120).stdout
    assert "sm_80" in code
    again = command("apply", PLAYBOOK)
    assert again.code == 0 and again.changed(host.name) == set()
