"""pytest fixtures of the lab.  Load with `pytest_plugins = ["tests.lab.fixtures"]` in tests/conftest.py.

Session:  lab, lab_a, lab_b (started by pytest-docker from docker-compose.yml)
Test:     fresh_host (makes hosts), fresh_a, fresh_b
"""

import os
import warnings
from collections.abc import Iterator
from typing import Any, Protocol

import pytest
from pytest_docker.plugin import Services, get_docker_services

from tests.lab.engine import HERE, LabError
from tests.lab.hosts import Host, ssh_banner
from tests.lab.lab import Lab


class StartHost(Protocol):
    """`fresh_host(shape, name=None, tmpfs=..., volumes=..., env=..., services=True) -> Host`."""

    def __call__(self, shape: str, name: str | None = None, **options: Any) -> Host: ...


@pytest.fixture(scope="session")
def lab() -> Iterator[Lab]:
    """The lab of this session: engine running, images built."""
    made = Lab()
    yield made
    try:
        made.close()
    except LabError as error:  # says nothing of what was tested, and the next run removes what is left
        warnings.warn(f"the lab is left behind: {error}", stacklevel=1)


@pytest.fixture(scope="session")
def lab_services(lab: Lab) -> Iterator[Services]:
    """The session's hosts, started by pytest-docker; its own fixtures stay free for other tests."""
    os.environ.update(lab.compose_environment())
    with get_docker_services(
        docker_compose_command="docker compose",
        docker_compose_file=str(HERE / "docker-compose.yml"),
        docker_compose_project_name=f"gpuprov-lab-{lab.owner}",
        docker_setup=["up -d --no-build"],
        docker_cleanup=[],  # it would wait without a limit; the lab removes what carries its label
    ) as services:
        yield services


def _composed(lab: Lab, docker_ip: str, lab_services: Services, name: str, shape: str) -> Host:
    port = lab_services.port_for(name, 22)
    lab_services.wait_until_responsive(check=lambda: ssh_banner(docker_ip, port), timeout=30, pause=0.1)
    container = lab_services._docker_compose.execute(f"ps -q {name}").decode().split()[-1]
    return lab.adopt(name, container, shape, docker_ip, port)


@pytest.fixture(scope="session")
def lab_a(lab: Lab, docker_ip: str, lab_services: Services) -> Host:
    """The session's host of shape A (AutoDL).  Leave it as it was: it is shared."""
    return _composed(lab, docker_ip, lab_services, "lab-a", "a")


@pytest.fixture(scope="session")
def lab_b(lab: Lab, docker_ip: str, lab_services: Services) -> Host:
    """The session's host of shape B (vast.ai, RunPod).  Leave it as it was: it is shared."""
    return _composed(lab, docker_ip, lab_services, "lab-b", "b")


@pytest.fixture
def fresh_host(lab: Lab) -> Iterator[StartHost]:
    """Start hosts for one test alone; they are removed after it."""
    started: list[Host] = []

    def start(shape: str, name: str | None = None, **options: Any) -> Host:
        host = lab.start(shape, name, **options)
        started.append(host)
        return host

    yield start
    for host in started:
        lab.remove(host)


@pytest.fixture
def fresh_a(fresh_host: StartHost) -> Host:
    """A host of shape A for one test alone."""
    return fresh_host("a")


@pytest.fixture
def fresh_b(fresh_host: StartHost) -> Host:
    """A host of shape B for one test alone."""
    return fresh_host("b")
