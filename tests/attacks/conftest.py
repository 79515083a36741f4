"""After all attacks nothing is left of them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Generator

import pytest

from tests.attacks.leftovers import Snapshot, left_since


@pytest.fixture(scope="package", autouse=True)
def _nothing_is_left(tmp_path_factory: pytest.TempPathFactory) -> Generator[None]:
    temporary = tmp_path_factory.mktemp("temporary")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(temporary))
        patch.setitem(os.environ, "TMPDIR", str(temporary))
        before = Snapshot.now(temporary)
        yield
        assert left_since(before) == []
