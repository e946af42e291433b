"""Artifacts: large files onto hosts, from mirrors or from the controller's cache, always verified."""

from __future__ import annotations

from gpuprov.store.cache import Cache, default_folder
from gpuprov.store.download import Limits, check, download_job, slot_of
from gpuprov.store.endings import Ended, explain
from gpuprov.store.obtain import RunJob, obtain
from gpuprov.store.upload import upload

__all__ = [
    "Cache",
    "Ended",
    "Limits",
    "RunJob",
    "check",
    "default_folder",
    "download_job",
    "explain",
    "obtain",
    "slot_of",
    "upload",
]
