"""From wishes to a converged host: plan, converge, verify."""

from __future__ import annotations

from gpuprov.engine.checking import CheckedRun, check_playbook
from gpuprov.engine.options import Options
from gpuprov.engine.run import read_facts, run_command, run_playbook

__all__ = ["CheckedRun", "Options", "check_playbook", "read_facts", "run_command", "run_playbook"]
