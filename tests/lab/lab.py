"""The lab: starts hosts, keeps their keys and addresses, removes them.  Used by fixtures and by hand."""

import itertools
import os
import random
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.lab import engine
from tests.lab.engine import LABEL, OWNER_LABEL, LabError, docker
from tests.lab.hosts import SHAPES, Host


def inventory(hosts: Iterable[Host], *, user: str = "root") -> dict[str, Any]:
    """The inventory that describes these hosts to gpuprov.  The one place that knows its schema."""
    listed = list(hosts)
    return {
        "defaults": {"user": user, "key": str(listed[0].key), "known_hosts": str(listed[0].known_hosts)},
        "hosts": {host.name: {"address": host.address, "port": host.port} for host in listed},
    }


class Lab:
    """Hosts on a network of their own, all removed by `close`.

    A lab belongs to the process that makes it: what a killed run left is removed by the next.
    With `owner`, hosts stay until a lab with the same owner removes them.
    """

    def __init__(self, owner: str | None = None, shapes: Sequence[str] = ("a", "b")) -> None:
        engine.ensure_engine()
        self.owner = owner or engine.process_mark(os.getpid())
        self.keeps = owner is not None
        self.images = engine.build_images(*shapes)
        self.key = engine.private_key()
        self.folder = engine.cache_folder() / "runs" / self.owner
        self.folder.mkdir(parents=True, exist_ok=True)
        self.known_hosts = self.folder / "known_hosts"
        self.hosts: dict[str, Host] = {}
        self._network: str | None = None
        self._subnet = ""
        self._numbers = itertools.count(10)
        engine.remove_leftovers()
        for folder in self.folder.parent.iterdir():
            pid = folder.name.partition("-")[0]
            if pid.isdigit() and engine.process_mark(int(pid)) != folder.name:
                shutil.rmtree(folder, ignore_errors=True)

    def __enter__(self) -> "Lab":
        return self

    def __exit__(self, *exc: object) -> None:
        if not self.keeps:
            self.close()

    def close(self) -> None:
        """Remove all hosts, the network and the folder of this lab."""
        engine.remove_leftovers(of=self.owner)
        self.hosts.clear()
        self._network = None
        shutil.rmtree(self.folder, ignore_errors=True)

    def compose_environment(self) -> dict[str, str]:
        """What docker-compose.yml asks for."""
        images = {f"GPUPROV_LAB_IMAGE_{shape.upper()}": image for shape, image in self.images.items()}
        return {**images, "GPUPROV_LAB_AUTHORIZED_KEY": engine.public_key(), "GPUPROV_LAB_OWNER": self.owner}

    def network(self) -> tuple[str, str]:
        """The lab's network and the first three numbers of its addresses; made at first use."""
        if self._network is None:
            # Fixed addresses need a subnet of our choice: a killed host comes back where it was.
            for number in random.sample(range(256), 40):
                subnet = f"10.213.{number}"
                try:
                    docker(
                        "network", "create", "--subnet", f"{subnet}.0/24", "--label", f"{OWNER_LABEL}={self.owner}",
                        f"gpuprov-lab-{self.owner}-{number}",
                    )  # fmt: skip
                except LabError as error:
                    if "overlap" not in str(error).lower():
                        raise
                    continue
                self._network, self._subnet = f"gpuprov-lab-{self.owner}-{number}", subnet
                break
            else:
                raise LabError("no free subnet in 10.213.0.0/16 for the lab's network")
        return self._network, self._subnet

    def start(
        self,
        shape: str,
        name: str | None = None,
        *,
        tmpfs: Mapping[str, str] | None = None,
        volumes: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        services: bool = True,
    ) -> Host:
        """Start a fresh host with an address of its own and wait for it.

        tmpfs: {path: size} small file systems, such as {"/root/autodl-tmp": "64m"}
        volumes: as docker's -v, such as the folder of `faults.small_disk`
        services: run Jupyter and TensorBoard, and wait for them; else sshd alone, which is up in a moment
        """
        network, subnet = self.network()
        number = next(self._numbers)
        name = name or f"lab-{shape}{number}"
        address = f"{subnet}.{number}"
        options = [f"--tmpfs={path}:exec,size={size}" for path, size in (tmpfs or {}).items()]
        options += [f"--volume={volume}" for volume in volumes]
        options += [f"--env={key}={value}" for key, value in (env or {}).items()]
        options += [] if services else ["--env=LAB_SERVICES=sshd"]
        container = docker(
            "run", "-d", "--network", network, "--ip", address, "--hostname", name,
            "--label", f"{LABEL}={shape}", "--label", f"{OWNER_LABEL}={self.owner}",
            "--env", f"LAB_AUTHORIZED_KEY={engine.public_key()}", *options, self.images[shape],
        ).strip()  # fmt: skip
        return self.adopt(name, container, shape, address, 22, services=services)

    def adopt(self, name: str, container: str, shape: str, address: str, port: int, *, services: bool = True) -> Host:
        """Wait for a container that runs already (one of Compose's) and take it in as a host."""
        host = Host(name, container, SHAPES[shape], address, port, self.key, self.folder)
        host.wait_ssh()
        host.mount_driver_proc()
        host.pin_host_keys()
        self.hosts[name] = host
        if services:
            host.wait_services()
        return host

    def remove(self, host: Host) -> None:
        """Remove one host."""
        self.hosts.pop(host.name, None)
        host.remove()

    def write_inventory(self, path: Path, hosts: Iterable[Host] | None = None, *, user: str = "root") -> Path:
        """Write an inventory of these hosts (default: all) for gpuprov."""
        path.write_text(yaml.safe_dump(inventory(hosts or self.hosts.values(), user=user), sort_keys=False))
        return path
