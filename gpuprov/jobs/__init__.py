"""Long steps that live on the host, and the host lock."""

from __future__ import annotations

from gpuprov.jobs.lock import LockState, Owner, acquire, heartbeat, parse, release
from gpuprov.jobs.records import JobInfo
from gpuprov.jobs.runner import JobResult, Jobs
from gpuprov.jobs.slot import Slot

__all__ = ["JobInfo", "JobResult", "Jobs", "LockState", "Owner", "Slot", "acquire", "heartbeat", "parse", "release"]
