"""Results are compared element by element: no sum, norm or sample of them stands for the whole."""

from __future__ import annotations

import numpy as np
import pytest

from optimizer.measure.comparison import RoundingJudge, bit_difference, scale_difference

TOLERANCES = {np.dtype(np.float64): 1e-9}


def test_the_right_sum_in_the_wrong_places_is_wrong() -> None:
    expected = np.random.default_rng(1).uniform(0.5, 1.5, (40, 30))
    moved = expected.copy()
    moved[3, 4], moved[20, 7] = expected[20, 7], expected[3, 4]
    assert moved.sum() == pytest.approx(expected.sum(), rel=1e-15)
    for difference in (
        bit_difference({"A": moved}, {"A": expected}),
        scale_difference({"A": moved}, {"A": expected}, TOLERANCES),
        RoundingJudge().difference({"A": moved}, {"A": expected}, None, {"A": 0.0}),
    ):
        assert difference is not None
        assert (difference.array, difference.index) == ("A", (3, 4))


def test_one_wrong_element_of_a_million_is_not_averaged_away() -> None:
    expected = np.ones(10**6)
    wrong = expected.copy()
    wrong[-1] += 1e-6
    difference = scale_difference({"A": wrong}, {"A": expected}, TOLERANCES)
    assert difference is not None
    assert difference.index == (10**6 - 1,)
