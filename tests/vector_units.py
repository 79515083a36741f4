"""Vector registers of other machines."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import pytest

from optimizer.codegen import vector_unit
from optimizer.codegen.vector_unit import VectorUnit


@contextmanager
def lanes_of_doubles(lanes: int) -> Generator[None]:
    """As on a machine whose registers hold so many."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vector_unit, "host_unit", lambda: VectorUnit(8 * lanes, 32))
        yield
