"""Verdicts and measurements refuse what could pass for a score or a pass and is none."""

from __future__ import annotations

import math

import pytest

from optimizer.candidate import Candidate
from optimizer.selection import select
from optimizer.trial import Trial
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


@pytest.mark.parametrize("reason", Reason)
def test_a_refused_trial_has_no_score_whatever_was_measured_before(reason: Reason) -> None:
    """Neither nought, which is the best where less is better, nor the mean of passes and failures."""
    measurement = Measurement(9.0, (8.0, 10.0), 5)
    passed = Verdict(Status.OK, "timing", measurement=measurement)
    for status in (Status.REJECTED, Status.ERROR):
        for last in (Verdict(status, "check", reason), Verdict(status, "check", reason, measurement=measurement)):
            trial = Trial(1, 0, 1, Candidate("x"), (passed, last))
            assert (trial.score, trial.measurement, trial.outcome) == (None, None, reason.value)
            assert select([Trial(0, 0, 0, Candidate("y"), (passed,)), trial], 3, None).winner.number == 0
