"""From wishes to a converged host: plan, converge, verify."""

from __future__ import annotations
