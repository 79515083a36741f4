"""Verdicts and measurements refuse what could pass for a score or a pass and is none."""

from __future__ import annotations

import math

import pytest

from optimizer.verdict import Measurement, Reason, Status, Verdict


@pytest.mark.parametrize("score", [math.nan, math.inf, -math.inf, True, False])
def test_what_is_no_number_is_no_score(score: float) -> None:
    with pytest.raises(ValueError, match="finite number"):
        Measurement(score, (0.0, 1.0), 5)
    with pytest.raises(ValueError, match="finite number"):
        Measurement(1.0, (0.0, score), 5)


def test_any_finite_number_is_one() -> None:
    assert Measurement(-2.5, (-3.0, 0.0), 1).score == -2.5


@pytest.mark.parametrize("status", [Status.REJECTED, Status.ERROR])
def test_a_refusal_says_why(status: Status) -> None:
    with pytest.raises(ValueError, match="reason"):
        Verdict(status, "check")


def test_a_pass_has_no_reason_against_it() -> None:
    assert Verdict(Status.OK, "check").reason is None
    with pytest.raises(ValueError, match="reason"):
        Verdict(Status.OK, "check", Reason.ILLEGAL)
