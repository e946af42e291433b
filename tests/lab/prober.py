"""Watches what must not break on a host, from outside gpuprov, second by second."""

import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.lab.hosts import Host

# Importing the package alone reads one small file; a message class needs the whole of it.
_IMPORT = "import google.protobuf, google.protobuf.descriptor_pb2"
# A protobuf that TensorBoard's own messages refuse breaks it at its next start, not now.
_TENSORBOARD_IMPORT = "from tensorboard.compat.proto import event_pb2"


@dataclass(frozen=True)
class Sample:
    """What one look saw.  `faults` is empty when all was well."""

    at: float
    faults: dict[str, str] = field(default_factory=dict)
    down: bool = False
    processes: tuple[str, ...] = ()

    @property
    def green(self) -> bool:
        return not self.faults and not self.down


def _script(host: Host) -> str:
    shape = host.shape
    lines = [
        'http() { c=$(curl -s -o /dev/null -m 10 -w "%{http_code}" "$2");',
        'case $c in 200|302) ;; *) echo "$1 HTTP $c";; esac; }',
        # -B: a look must leave no byte code behind.
        'can() { e=$("$2" -B -c "$3" 2>&1) || echo "$1 $(echo "$e" | tail -n 1)"; }',
        f"http jupyter {shape.jupyter_url}",
        f"http tensorboard {shape.tensorboard_url}",
        f"can tensorboard-import {shape.service_python} '{_TENSORBOARD_IMPORT}'",
    ]
    lines += [f"can protobuf-{name} {python} '{_IMPORT}'" for name, python in shape.interpreters.items()]
    # Which processes serve: number and start time, so that a restart in between shows.
    lines.append(
        "for p in $(pgrep -f '[j]upyter-lab|[b]in/tensorboard '); do"
        " echo \"process $p-$(cut -d' ' -f22 /proc/$p/stat 2>/dev/null)\"; done"
    )
    lines.append("echo end")
    return "\n".join(lines)


def take_sample(host: Host, at: float = 0.0) -> Sample:
    """Look once."""
    try:
        done = host.exec(_script(host), timeout=40, check=False)
    except subprocess.TimeoutExpired:
        return Sample(at, {"host": "no answer within 40 s"})
    lines = done.stdout.splitlines()
    if not lines or lines[-1] != "end":
        return Sample(at, {"host": f"not running: {done.stderr.strip()}"}, down=True)
    rows = [line.partition(" ") for line in lines[:-1]]
    return Sample(
        at,
        {name: text for name, _, text in rows if name != "process"},
        processes=tuple(sorted(text for name, _, text in rows if name == "process")),
    )


def deep_faults(host: Host) -> dict[str, str]:
    """Start the protected programs anew, as their next start would: {program: what went wrong}."""
    python = host.shape.service_python
    faults = {}
    for name, module in (("jupyter", "jupyterlab"), ("tensorboard", "tensorboard.main")):
        done = host.exec(f"{python} -B -m {module} --version", timeout=60, check=False)
        if done.returncode:
            faults[name] = (done.stderr or done.stdout).strip().rpartition("\n")[2]
    return faults


class Prober:
    """`with Prober(host) as prober: ...; prober.assert_green()`

    Looks every `interval` seconds from the first line of the block to its last, in a thread; each
    look is kept in `timeline`.
    """

    def __init__(self, host: Host, interval: float = 1.0) -> None:
        self.host = host
        self.interval = interval
        self.timeline: list[Sample] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name=f"prober-{host.name}", daemon=True)
        self._begin = 0.0

    def __enter__(self) -> "Prober":
        self._begin = time.monotonic()
        self.look()
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stop.set()
        self._thread.join()
        self.look()

    def look(self) -> Sample:
        """Look now, beside the rhythm."""
        sample = take_sample(self.host, time.monotonic() - self._begin)
        self.timeline.append(sample)
        return sample

    def _watch(self) -> None:
        due = time.monotonic() + self.interval
        while not self._stop.wait(max(0.0, due - time.monotonic())):
            due = max(due + self.interval, time.monotonic())
            self.look()

    def red(self, *, allow_down: bool = False) -> Iterator[Sample]:
        """The looks that saw something broken."""
        return (s for s in self.timeline if not s.green and not (allow_down and s.down))

    @property
    def restarted(self) -> bool:
        """Whether a protected program runs as another process than at the first look."""
        return self.timeline[-1].processes != self.timeline[0].processes

    def assert_green(
        self, *, allow_down: bool = False, allow_restart: bool = False, deep: bool = True, max_gap: float = 20
    ) -> None:
        """Fail unless every look was green, no protected program was restarted, and each starts anew.

        allow_down: the test itself took the host away for a while
        deep: also start Jupyter and TensorBoard anew (2 s)
        max_gap: seconds without a look after which the timeline proves nothing
        """
        seen = [f"{s.at:6.1f} s: {s.faults}" for s in self.red(allow_down=allow_down)]
        assert not seen, f"{self.host.name}: {len(seen)} of {len(self.timeline)} looks red:\n" + "\n".join(seen[:20])
        longest = max((b.at - a.at for a, b in zip(self.timeline, self.timeline[1:], strict=False)), default=0.0)
        assert longest < max_gap, f"{self.host.name}: no look for {longest:.1f} s; proves nothing"
        if not allow_restart:
            assert not self.restarted, f"{self.host.name}: a protected program was restarted: {self.timeline[-1]}"
        if deep:
            assert not (faults := deep_faults(self.host)), f"{self.host.name}: would not start again: {faults}"
