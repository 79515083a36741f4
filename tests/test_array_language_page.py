"""The examples in docs/array_language.md compute what NumPy computes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.plain_comparison import assert_same_as_python

PAGE = Path(__file__).parent.parent / "docs" / "array_language.md"
EXAMPLES = dict(re.findall(r"```python\n(def (\w+)\(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL))
TYPES = "from jaxtyping import Float64, Int64\n"


def whole(*shape: int) -> Any:
    """Small whole numbers, of which every order of a sum gives the same bits."""
    return np.random.default_rng(sum(shape)).integers(-4, 5, shape).astype(float)


CASES: dict[str, list[dict[str, Any]]] = {
    "heat": [{"steps": steps, "u": whole(n), "v": whole(n + 1)[1:]} for steps, n in ((3, 7), (2, 5), (0, 4), (1, 1))],
    "distances": [{"x": whole(n, k), "y": whole(m, k)} for n, m, k in ((3, 4, 2), (1, 1, 1), (0, 2, 3), (2, 3, 0))],
    "row_of": [
        {"starts": np.array([0, 2, 2, 5]), "columns": np.array([3, 1, 0, 3, 2]), "x": whole(4)},
        {"starts": np.array([0]), "columns": np.array([], np.int64), "x": whole(2)},
    ],
}


@pytest.mark.parametrize("name", CASES)
def test_examples_compute_what_numpy_computes(name: str) -> None:
    text = next(text for text, function in EXAMPLES.items() if function == name)
    assert_same_as_python(TYPES + text, CASES[name], name)


def test_every_example_has_a_case() -> None:
    assert {*EXAMPLES.values()} == CASES.keys()
