"""Plain Python divides by zero as compiled code does."""

from __future__ import annotations

import math

import numpy as np

from optimizer.measure.loading import plain_function


def test_division_by_zero_raises_nothing() -> None:
    source = "def f(x, y, n):\n    s = x / n\n    y[0] /= n\n    s /= n\n    y /= 2\n    return s + 1.0 / 4\n"
    y = np.array([-3.0, 5.0])
    with np.errstate(all="ignore"):
        assert math.isnan(plain_function(source, "f.py", "f")(0.0, y, 0))
        assert y.tolist() == [-math.inf, 2.5], "in place"
        assert plain_function(source, "f.py", "f")(4.0, y, 2) == 1.25
