"""A small made-up run, event by event, that the readers' tests share."""

from __future__ import annotations

from collections.abc import Iterator

from gpuprov.errors import ErrorRecord
from gpuprov.events import (
    Event,
    HostEnded,
    HostPhase,
    NodeEnded,
    NodeOutput,
    NodeProgress,
    NodeStarted,
    Notice,
    PlanLine,
    PlanReady,
    RunEnded,
    RunStarted,
)

START = 1_795_000_000.0
DIFF = "--- /etc/motd\n+++ /etc/motd\n@@ -1 +1 @@\n-old\n+new\n"


def plan_of(host: str, at: float = START, *, play: str = "train") -> Iterator[Event]:
    """The plan of a host on which a toolkit, its gcc and a python environment are missing."""

    def line(role: str, name: str, verdict: str = "change", **more: object) -> PlanLine:
        return PlanLine(at=at, host=host, play=play, role=role, id=name, verdict=verdict, **more)  # type: ignore[arg-type]

    yield line("gcc", "apt:gcc-11", action="create", before="absent", after="11.3.0")
    yield line("gcc", "apt:make", "same", after="4.3")
    yield line(
        "cuda_toolkit",
        "cuda-toolkit:11.7",
        action="create",
        before="absent",
        after="11.7.1 in /usr/local/cuda-11.7",
        why="flash-attention 1.0.9 is built with it",
        steps=("fetch the runfile", "run the installer"),
    )
    yield line(
        "motd", "file:/etc/motd", action="update", before="0644 root", after="0644 root, 1 line differs", diff=DIFF
    )
    yield line("motd", "file:/etc/old", action="remove", before="0644 root", after="absent")
    yield line(
        "flash_attention",
        "pip:train/flash-attn",
        "recheck",
        action="create",
        before="absent",
        after="1.0.9",
        rechecked_after=("conda-env:train",),
    )
    yield line("flash_attention", "check:flash-attn", "blocked", why="nvidia-smi did not answer within 10 s")
    yield PlanReady(
        at=at, host=host, play=play, counts={"change": 4, "same": 1, "recheck": 1, "blocked": 1}, undeclared=()
    )


def refused(host: str) -> ErrorRecord:
    """The error of a host whose sshd is not there."""
    return ErrorRecord(
        code="unreachable",
        message=f"no connection to {host} (10.0.0.9:22) within 15 s, in phase tcp",
        where=host,
        hint="is the instance running, and the port the one the provider shows?",
        exit_code=3,
    )


def broken(host: str) -> ErrorRecord:
    """The error of an installer that refused its compiler."""
    return ErrorRecord(
        code="step-failed",
        message="the step 'run the installer' ended with status 255",
        where=f"{host} cuda-toolkit:11.7",
        output="[INFO]: Checking compiler version...\n[ERROR]: unsupported compiler version: 12.2.0.\n"
        " Failed to verify gcc version. See log at /var/log/cuda-installer.log for details.",
        hint="CUDA 11.7 takes gcc up to 11: add the role gcc with version 11 before it",
    )


def apply_story() -> Iterator[Event]:
    """Three hosts: one is changed, one fails half-way, one is not there."""
    hosts = ("gpu1", "gpu2", "gpu3")
    yield RunStarted(at=START, run="20261130-133250-4f1c", command="apply", playbook="site.yaml", hosts=hosts)
    for host in hosts:
        yield HostPhase(at=START + 0.1, host=host, phase="connect", note="tcp")
    for host in ("gpu1", "gpu2"):
        yield HostPhase(at=START + 0.4, host=host, phase="facts")
        yield HostPhase(at=START + 0.6, host=host, phase="probe")
        yield from plan_of(host, START + 0.9)
        yield HostPhase(at=START + 1.0, host=host, phase="converge")
    yield Notice(at=START + 1.1, level="warning", host="gpu1", text="roles/gcc beside the playbook shadows the shipped")
    for host in ("gpu1", "gpu2"):
        yield NodeStarted(at=START + 1.2, host=host, role="gcc", id="apt:gcc-11", title="install gcc-11")
        yield NodeOutput(at=START + 3.0, host=host, id="apt:gcc-11", line="Unpacking gcc-11 (11.3.0-12) ...")
        yield NodeEnded(
            at=START + 13.5, host=host, role="gcc", id="apt:gcc-11", outcome="changed", seconds=12.3, action="create"
        )
        yield NodeStarted(
            at=START + 13.6, host=host, role="cuda_toolkit", id="cuda-toolkit:11.7", title="fetch the runfile"
        )
        yield NodeProgress(at=START + 20, host=host, id="cuda-toolkit:11.7", done=1_200_000_000, total=3_600_000_000)
    yield NodeEnded(
        at=START + 30.0,
        host="gpu2",
        role="cuda_toolkit",
        id="cuda-toolkit:11.7",
        outcome="failed",
        seconds=16.4,
        error=broken("gpu2"),
    )
    yield NodeEnded(
        at=START + 30.0,
        host="gpu2",
        role="flash_attention",
        id="pip:train/flash-attn",
        outcome="skipped",
        because="cuda-toolkit:11.7 failed",
    )
    yield HostEnded(
        at=START + 30.4,
        host="gpu2",
        status="failed",
        counts={"changed": 2, "failed": 1, "skipped": 1, "same": 1},
        seconds=30.3,
        exchanges=6,
    )
    yield HostEnded(at=START + 30.5, host="gpu3", status="unreachable", seconds=30.5, error=refused("gpu3"))
    yield NodeProgress(at=START + 31, host="gpu1", id="cuda-toolkit:11.7", done=37, total=92, unit="items")
    yield NodeOutput(at=START + 55, host="gpu1", id="cuda-toolkit:11.7", line="[37/92] c++ flash_fwd.o")
    yield NodeEnded(
        at=START + 90.0,
        host="gpu1",
        role="cuda_toolkit",
        id="cuda-toolkit:11.7",
        outcome="changed",
        seconds=76.4,
        action="create",
    )
    yield HostEnded(
        at=START + 91.0, host="gpu1", status="changed", counts={"changed": 5, "same": 1}, seconds=91.0, exchanges=7
    )
    yield RunEnded(at=START + 91.1, run="20261130-133250-4f1c", exit_code=3, seconds=91.1)


def plan_story() -> Iterator[Event]:
    """Five hosts: two alike, one with less, two with nothing to do."""
    hosts = ("gpu1", "gpu2", "gpu3", "gpu4", "gpu5")
    yield RunStarted(at=START, run="20261130-133250-4f1c", command="plan", playbook="site.yaml", hosts=hosts)
    for host in ("gpu1", "gpu3"):
        yield from plan_of(host)
        yield HostEnded(at=START + 2, host=host, status="ok", seconds=2.0)
    yield PlanLine(
        at=START,
        host="gpu2",
        play="train",
        role="gcc",
        id="apt:gcc-11",
        verdict="change",
        action="replace",
        before="11.2.0",
        after="11.3.0",
    )
    yield PlanReady(at=START, host="gpu2", play="train", counts={"change": 1}, undeclared=("file:/etc/former",))
    yield HostEnded(at=START + 2, host="gpu2", status="ok", seconds=2.0)
    for host in ("gpu4", "gpu5"):
        yield PlanLine(at=START, host=host, play="train", role="gcc", id="apt:gcc-11", verdict="same", after="11.3.0")
        yield PlanReady(at=START, host=host, play="train", counts={"same": 1})
        yield HostEnded(at=START + 2, host=host, status="ok", seconds=2.0)
    yield RunEnded(at=START + 2, run="20261130-133250-4f1c", exit_code=0, seconds=2.0)
