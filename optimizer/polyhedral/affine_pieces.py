"""Bounds that isl finds, as expressions of sizes."""

from __future__ import annotations

import re

import islpy as isl

from optimizer.errors import ScheduleSyntaxError
from optimizer.polyhedral.steps.affine import Affine
from optimizer.polyhedral.steps.text import parse_affine


def as_affine(value: isl.PwAff) -> Affine | None:
    """The one expression that it is wherever it is anything; None where it is of several pieces."""
    found = re.fullmatch(r"(?:\[.*?\] -> )?\{ \[\((.*?)\)\] *(?::.*)?\}", str(value))
    if value.n_piece() != 1 or found is None:
        return None
    try:
        return parse_affine(found[1])
    except ScheduleSyntaxError:
        return None  # isl writes more than affine expressions.
