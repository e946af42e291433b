"""Hosts, groups and patterns."""

from __future__ import annotations

from gpuprov.inventory.hosts import Become, Connection, Host, Inventory, PasswordSource
from gpuprov.inventory.load import load_inventory, read_inventory

__all__ = ["Become", "Connection", "Host", "Inventory", "PasswordSource", "load_inventory", "read_inventory"]
