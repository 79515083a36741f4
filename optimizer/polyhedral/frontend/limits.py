"""Bounds what isl may spend on one function."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import islpy as isl

from optimizer.errors import UserError
from optimizer.polyhedral.model import operation_limit

MOST_OPERATIONS = 20_000_000
"""isl operations for one question about the user's own function: ten times a candidate's, as it is asked once."""


@contextmanager
def limited(file: str, task: str) -> Generator[None]:
    """Within it, `task` ("prove that ...") fails as the user's error once isl needs too many operations for it."""
    try:
        with operation_limit(MOST_OPERATIONS):
            yield
    except isl.Error as error:
        message = f"{file}: cannot {task}: simplify the bounds and subscripts"
        raise UserError(f"{message} ({str(error).strip()})") from None
