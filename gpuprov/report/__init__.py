"""Readers of the event stream: each takes events and makes text; none of them decides anything.

Readers are callables of one event (`gpuprov.events.Sink`). They never block on a host, and what they do
wrong stays with them (see `gpuprov.report.fanout`).
"""

from __future__ import annotations
