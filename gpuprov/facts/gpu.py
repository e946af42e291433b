"""The driver and its GPUs, from the records of the ``driver`` group."""

from __future__ import annotations

import re

from gpuprov.facts import smi
from gpuprov.facts.card import Driver, Gpu, Libcuda, Pci
from gpuprov.facts.records import Group
from gpuprov.knowledge.gpus import compute_capability

_SAID = {
    "not-found": "there is no nvidia-smi",
    "timed-out": "nvidia-smi did not answer within 10 s",
    "driver-not-loaded": "the driver is not loaded",
    "version-mismatch": "the driver's libraries and its loaded module differ in version",
    "nvml-missing": "the driver's library libnvidia-ml is missing",
    "nvml-unknown": "the driver refuses to answer (NVML: unknown error)",
    "gpu-lost": "a GPU no longer answers",
    "permission": "nvidia-smi may not be run, or may not open the devices",
    "bad-field": "nvidia-smi does not know the questions",
    "in-use": "the GPU is in use",
    "unreadable": "nvidia-smi answered something else",
    "ok": "nvidia-smi listed none",
}

Read = tuple[Driver, tuple[Gpu, ...] | None, list[str]]
"""The driver, the GPUs (None: not known), and what was unseen."""


def read_driver(group: Group | None) -> Read:
    """Read the driver's records; ``None`` for a group that was not read whole."""
    if group is None:
        return Driver(), None, []
    module = smi.module(group.one("module") or "")
    path = group.one("smi-path") or ""
    rc, fields, text = next(group.all("smi-query", 3), ("127", "", "command not found"))
    table = smi.table(next((text for _, text in group.all("smi-table", 2)), ""))
    answer, gpus, versions = _query(text, _status(rc), tuple(fields.split(",")))
    if not gpus and answer in ("bad-field", "unreadable", "ok") and table.gpus:
        gpus = tuple(_from_table(row) for row in table.gpus)
        answer = "ok"
    lost = smi.lost_gpus(text)
    pci = _pci(group)
    there = any(device.is_gpu for device in pci or ())
    absent = not path and module is None and pci is not None and not there
    version = module.version if module else table.driver or next(iter(versions), None)
    driver = Driver(
        version="" if version is None and absent else version,
        module=module.version if module else "",
        flavour=module.flavour if module else "",
        cuda="" if absent else table.cuda,
        answer=answer,
        message="" if answer == "ok" else _short(text),
        smi=path,
        lost=lost,
        devices=tuple(device for (device,) in group.all("device", 1)),
        open_error=next((_short(said) or f"status {rc}" for rc, said in group.all("open", 2) if rc != "0"), ""),
        pci=pci,
        libcuda=tuple(
            Libcuda(path=p, real=real, cached="uncached" not in how, empty="empty" in how)
            for p, real, how in group.all("libcuda", 3)
        ),
    )
    if gpus or absent or answer == "no-devices":
        partly = [f"gpus: {_SAID['gpu-lost']} ({', '.join(lost)})"] if lost and answer == "gpu-lost" else []
        return driver, gpus, partly
    devices = sum(device.is_gpu for device in pci or ())
    seen = f"; {devices} on the PCI bus" if devices else ""
    return driver, None, [f"gpus: {_SAID[answer]}{seen}"]


def _status(text: str) -> int | None:
    return int(text) if re.fullmatch(r"[0-9]{1,3}", text) else None


def _short(text: str) -> str:
    return " ".join(text.split())[:400]


def _query(text: str, status: int | None, fields: tuple[str, ...]) -> tuple[smi.SmiKind, tuple[Gpu, ...], list[str]]:
    kind = smi.classify(text, status)
    if kind not in ("ok", "gpu-lost"):
        return kind, (), []
    rows = [row for row in smi.rows(text, fields) if row.get("index", "").isdecimal() and row.get("name")]
    gpus = []
    for row in rows:
        cap = row.get("compute_cap", "")
        memory = smi.number(row.get("memory.total", ""))
        mig = row.get("mig.mode.current")
        gpus.append(
            Gpu(
                index=int(smi.number(row["index"]) or 0),
                name=row["name"],
                uuid=row.get("uuid"),
                memory_mib=None if memory is None else int(memory),
                compute_cap=cap if re.fullmatch(r"[0-9]{1,2}\.[0-9]", cap) else compute_capability(row["name"]),
                bus_id=row.get("pci.bus_id"),
                mig={"Enabled": True, "Disabled": False, "[N/A]": False}.get(mig or ""),
            )
        )
    if kind == "ok" and not gpus:
        kind = "unreadable"
    return kind, tuple(gpus), [row["driver_version"] for row in rows if row.get("driver_version")]


def _from_table(row: smi.TableRow) -> Gpu:
    return Gpu(
        index=row.index,
        name=row.name,
        memory_mib=row.memory_mib,
        compute_cap=compute_capability(row.name),
        bus_id=row.bus_id,
        mig=row.mig,
    )


def _pci(group: Group) -> tuple[Pci, ...] | None:
    if group.one("pci-bus") is None:
        return None
    return tuple(
        Pci(address=address, class_code=code, device=device, driver=driver)
        for address, code, device, driver in group.all("pci", 4)
    )
