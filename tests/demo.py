"""`make demo`: the main job on two disposable hosts, as a person would type it, and what came of it."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.e2e.command import from_runfile, hosts_of, write_inventory
from tests.e2e.legacy import give_conda, legacy_playbook
from tests.lab.cuda import runfiles
from tests.lab.cuda.site import DownloadSite
from tests.lab.engine import LabError, pip_cache
from tests.lab.lab import Lab
from tests.lab.mini_attn.make_sdist import make
from tests.lab.prober import take_sample


def say(text: str) -> None:
    """Print a heading of our own."""
    print(f"\n\033[1m# {text}\033[0m" if sys.stdout.isatty() else f"\n# {text}", flush=True)


def gpuprov(folder: Path, *words: str) -> None:
    """Type one command, and stop the demo when it fails."""
    print(f"$ gpuprov {shlex.join(words)}", flush=True)
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(["gpuprov", *words], cwd=folder, env=environment, check=False)
    if done.returncode:
        sys.exit(f"the demo failed: exit code {done.returncode}")


def main() -> None:
    """Run it."""
    say("building what stands in for NVIDIA's installer (the first time: a minute and 1.5 GB)")
    runfile = runfiles.whole_117()
    with tempfile.TemporaryDirectory(prefix="gpuprov-demo-") as name, Lab() as lab:
        folder = Path(name)
        _, subnet = lab.network()
        with DownloadSite(f"{subnet}.1") as site:
            served = site.publish(runfile)
            sdist, sha256 = make(folder)
            url = site.serve(f"/sdists/{sdist.name}", sdist.read_bytes())
            pair = [
                lab.start(shape, name, volumes=[f"{pip_cache()}:/srv/cache/pip"])
                for shape, name in (("a", "autodl"), ("b", "vast"))
            ]
            give_conda(*pair)
            write_inventory(
                folder / "hosts.yaml",
                {name: {**entry, "gpu": "RTX 4070"} for name, entry in hosts_of(*pair).items()},
                vars=from_runfile(served),
                paths={"envs": "/srv/envs", "cache": "/srv/cache"},
            )
            play = legacy_playbook(folder, url, sha256).name
            say("what the two hosts are: one as on AutoDL, one as on vast.ai")
            gpuprov(folder, "facts", "-i", "hosts.yaml")
            for host in pair:
                host.set_gpu(MODE="no-gpu-boot")  # nothing here computes: as started without the card
            say("what would change; nothing is touched (a small package is compiled in flash-attention's place)")
            gpuprov(folder, "plan", play, "-i", "hosts.yaml")
            say("make it so")
            gpuprov(folder, "apply", play, "-i", "hosts.yaml", "-y")
            say("again: nothing changes, and acceptance tells what works")
            gpuprov(folder, "apply", play, "-i", "hosts.yaml", "-y")
            say("two CUDAs, side by side; the image's own is still the default")
            gpuprov(folder, "exec", "all", "-i", "hosts.yaml", "--", "cuda-list")
            gpuprov(folder, "exec", "all", "-i", "hosts.yaml", "readlink -f /usr/local/cuda")
            say("Jupyter and TensorBoard never noticed")
            for host in pair:
                sample = take_sample(host)
                print(f"{host.name}: {'all answer' if sample.green else sample}")
                if not sample.green:
                    sys.exit("the demo failed: a service of the image does not answer")


if __name__ == "__main__":
    try:
        main()
    except LabError as error:
        sys.exit(f"the lab: {error}")
