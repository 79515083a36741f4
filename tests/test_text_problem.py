"""Any text as a problem: what is the same text, and what is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from optimizer.budget import Ledger, Limits
from optimizer.errors import CandidateError
from optimizer.journal import Journal
from optimizer.loop import run_loop
from optimizer.plan import Plan
from optimizer.text_problem import TextProblem
from optimizer.verdict import Reason
from tests.fakes import ListPolicy, NumberVerifier

PROBLEM = TextProblem("numbers.txt", "1\n")


def test_an_edit_that_changes_nothing_is_not_judged_again(tmp_path: Path) -> None:
    """Line ends of another system are no change."""
    verifier = NumberVerifier()
    texts = ["1\n", "1\r\n", "1\r", "2\r\n", "2\n"]
    with Journal(tmp_path) as journal:
        result = run_loop(PROBLEM, [ListPolicy(texts)], [verifier], Plan(steps=len(texts)), Ledger(Limits()), journal)
    outcomes = [trial.outcome for trial in result.trials[1:]]
    assert outcomes == [Reason.DUPLICATE, Reason.DUPLICATE, Reason.DUPLICATE, "ok", Reason.DUPLICATE]
    assert verifier.asked == ["1\n", "2\n"]


@pytest.mark.parametrize(("text", "message"), [("a\0b", "null character"), ("a\ud800", "UTF-8")])
def test_what_is_no_text_is_refused(text: str, message: str) -> None:
    with pytest.raises(CandidateError, match=message):
        PROBLEM.parse(text)
