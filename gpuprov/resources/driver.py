"""The NVIDIA driver is there and does what is wanted of it. It is judged, never installed: on a rented host it is the
provider's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from gpuprov.errors import HostFailed
from gpuprov.facts import Facts, Gpu
from gpuprov.facts.smi import SmiKind
from gpuprov.knowledge import cuda as knowledge
from gpuprov.knowledge import gpus as models
from gpuprov.model import Change, Claims, Id, Probe, Resource

PENDING = "pending GPU"
"""What the words of a check begin with on a host that was started without its card."""

# What it means, and what to do. No repair of a driver is ever tried: it may be in use, and it is not ours.
_WRONG: dict[SmiKind, str] = {
    "not-found": "there is no nvidia-smi on this host; take an image with the NVIDIA driver, or ask the provider",
    "timed-out": "nvidia-smi hangs: a card or the driver is stuck; restart the host, or ask for another",
    "driver-not-loaded": "the driver's kernel module is not loaded; restart the host, or ask the provider",
    "version-mismatch": "the driver's libraries were replaced under its loaded module (an unattended upgrade does "
    "that); restart the host when nothing computes on it",
    "nvml-missing": "nvidia-smi is there and the driver's library libnvidia-ml is not; in a container the provider "
    "must mount it",
    "nvml-unknown": "the driver refuses to answer: a container lost its devices, or a vGPU has no licence; restart it",
    "no-devices": "the driver is loaded and shows no GPU: none was granted, or the card does not start; ask for "
    "another host",
    "gpu-lost": "a GPU no longer answers; restart the host, and if it stays so ask for another",
    "permission": "the driver's devices may not be opened; run as another user, or have the container given its GPU",
    "bad-field": "nvidia-smi does not know what it was asked: the driver is very old; take a newer image",
    "in-use": "the GPU is being reset; try again in a moment",
    "unreadable": "nvidia-smi answered something that it should not; run it on the host and look",
}

# Seen on an instance that was started without its card: nothing is wrong, it is only not there.
_WITHOUT_CARD: frozenset[SmiKind | None] = frozenset(
    {None, "not-found", "no-devices", "driver-not-loaded", "nvml-missing", "nvml-unknown"}
)


@dataclass(frozen=True, kw_only=True)
class DriverCheck(Resource[str]):
    """A finding about the driver, made of the facts (`check_driver`): it changes nothing and holds, or it fails.

    Attributes:
        wanted: what was asked, in words; its identity.
        words: what was found.
        problem: why that will not do, and what would; empty when it will.
    """

    kind: ClassVar[str] = "driver"
    reports: ClassVar[bool] = True

    wanted: str
    words: str
    problem: str = ""

    @property
    def id(self) -> Id:
        """``driver:what is wanted``."""
        return Id(f"{self.kind}:{self.wanted}")

    @property
    def pending(self) -> bool:
        """Whether the card is not there yet, so that the rest cannot be judged."""
        return self.words.startswith(PENDING)

    def probe(self) -> Probe[str]:
        """No look of its own: the facts have it."""
        return Probe(parse=lambda _: self.words)

    def plan(self, now: str | None) -> Change | None:
        """Nothing to do. From absent, the words that a plan shows for what is as wanted.

        Raises:
            HostFailed: it will not do.
        """
        if self.problem:
            raise HostFailed(self.problem)
        return None if now is not None else Change(action="update", before="not read", after=self.words, steps=())

    def claims(self) -> Claims:
        """Nothing."""
        return Claims()


def check_driver(
    facts: Facts, *, cuda: str | None = None, minimum: str | None = None, count: int | None = None
) -> DriverCheck:
    """Judge a host's driver.

    Args:
        cuda: an X.Y or a release whose programs it must run.
        minimum: the lowest driver version.
        count: how many GPUs must be there at least.
    """
    wanted = [f"CUDA {cuda}" if cuda else "", f"at least {minimum}" if minimum else ""]
    wanted += [f"{count} GPU{'' if count == 1 else 's'}"] if count is not None else []
    pending = _is_pending(facts)
    problem = "" if pending and not facts.driver.version else next(_problems(facts, cuda, minimum, count, pending), "")
    return DriverCheck(
        wanted=", ".join(filter(None, wanted)) or "works", words=_words(facts, cuda, pending), problem=problem
    )


def _is_pending(facts: Facts) -> bool:
    """Say whether the inventory promises a card that is not there, and nothing speaks of a card that is broken."""
    seen = facts.gpus or facts.driver.lost or any(device.is_gpu for device in facts.driver.pci or ())
    # AutoDL's boot without a card: nvidia-smi may not be executed, and libcuda.so.1 is an empty placeholder
    placeholder = facts.driver.answer == "permission" and any(lib.empty for lib in facts.driver.libcuda or ())
    without = facts.driver.answer in _WITHOUT_CARD or placeholder
    return facts.expected_gpu is not None and not seen and without


def _problems(facts: Facts, cuda: str | None, minimum: str | None, count: int | None, pending: bool) -> Iterator[str]:
    driver = facts.driver
    if not pending:
        if driver.version == "" and not any(device.is_gpu for device in driver.pci or ()):
            yield (
                "there is no NVIDIA driver on this host and no GPU on its bus; if it was started without its card, say "
                "which was rented with `gpu:` in the inventory"
            )
        if driver.answer not in ("ok", None):
            said = f" (it said: {driver.message})" if driver.message and driver.answer == "unreadable" else ""
            yield f"the NVIDIA driver does not work: {_WRONG[driver.answer]}{said}"
        if driver.lost:
            yield f"the NVIDIA driver does not work: {_WRONG['gpu-lost']} (lost: {', '.join(driver.lost)})"
        if not facts.gpus:
            yield "no GPU was seen; see `gpuprov facts` for what the host says"
    if not driver.version:
        yield "the version of the NVIDIA driver could not be read; see `gpuprov facts` for what the host says"
        return
    if minimum and knowledge.numbers(driver.version) < knowledge.numbers(minimum):
        yield f"driver {driver.version} is older than {minimum}; it is the provider's: take another image or host"
    if cuda:
        verdict = _runs(facts, cuda)
        if not verdict:
            yield f"{verdict.because}; take a host with that driver, or an older CUDA"
    if count is not None and not pending and len(facts.gpus or ()) < count:
        found = len(facts.gpus or ())
        are, answer = "GPU is" if count == 1 else "GPUs are", "answers" if found == 1 else "answer"
        yield f"{count} {are} wanted and {found} {answer}; ask the provider, or see nvidia-smi -L"


def _runs(facts: Facts, cuda: str) -> knowledge.Verdict:
    cards = [gpu.name for gpu in facts.gpus or ()] or [facts.expected_gpu or ""]
    row = models.gpu(cards[0])
    verdict = knowledge.driver_runs(
        facts.driver.version or "", cuda, forward_compat=row.forward_compat if row else None
    )
    own = knowledge.numbers(facts.driver.cuda or "")
    # What the tables do not know yet the driver itself may: it states the newest CUDA that it runs fully.
    if verdict.how == "unknown" and own and own >= knowledge.numbers(cuda)[:2]:
        because = f"driver {facts.driver.version} states that it runs CUDA up to {facts.driver.cuda}"
        return knowledge.Verdict(fits=True, how="full", because=because)
    return verdict


def _words(facts: Facts, cuda: str | None, pending: bool) -> str:
    version = facts.driver.version
    parts = [f"driver {version}" if version else "no driver" if version == "" else "driver of unknown version"]
    if pending:
        assert facts.expected_gpu is not None
        row = models.gpu(facts.expected_gpu)
        cap = models.compute_capability(facts.expected_gpu)
        sm = f" ({'sm_' + cap.replace('.', '')}{', ' + row.arch if row else ''})" if cap else ""
        parts = [f"{PENDING}: {facts.expected_gpu}{sm} is expected", *([parts[0]] if version else [])]
    else:
        cards = Counter(_card(gpu) for gpu in facts.gpus or ())
        parts += [f"{n} x {card}" for card, n in cards.items()] or ["no GPU"]
    if cuda and version:
        verdict = _runs(facts, cuda)
        how = " by minor-version compatibility" if verdict.how == "minor-version" else ""
        parts.append(f"runs CUDA {cuda}{how}" if verdict else f"does not run CUDA {cuda}")
    return ", ".join(parts)


def _card(gpu: Gpu) -> str:
    about = ", ".join(filter(None, (gpu.sm, gpu.arch)))
    return f"{gpu.name} ({about})" if about else gpu.name
