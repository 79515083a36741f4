"""The policies that a client may start: those that search by themselves. Others would ask a model, and spend money."""

from __future__ import annotations

from typing import Literal, get_args

OwnPolicy = Literal["polyhedral", "hillclimb", "random"]
OWN_POLICIES: tuple[str, ...] = get_args(OwnPolicy)
