"""The policies that a client may start: those that search by themselves. Others would ask a model, and spend money."""

from __future__ import annotations

POLICIES = ("polyhedral", "hillclimb", "random")
