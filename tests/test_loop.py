"""The loop: who proposes when, what costs what, when it stops, who wins, and that it can be cut off anywhere."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from optimizer.budget import Ledger, Limits, Line
from optimizer.candidate import Candidate
from optimizer.errors import InfrastructureError, UserError
from optimizer.events import ChainStopped, RunFinished, RunResult, RunStarted, TrialFinished, TrialStarted, Waiting
from optimizer.journal import Journal, read_record
from optimizer.loop import run_loop
from optimizer.plan import Plan, StopReason
from optimizer.selection import Finalist, finalists_of, is_tie, select
from optimizer.verdict import Reason, Status
from tests.fakes import (
    ListPolicy,
    NumberComparer,
    NumberProblem,
    NumberVerifier,
    Watcher,
    accepted,
    measured,
    rejected,
)


class JudgedProblem(NumberProblem):
    """A problem whose baseline is judged like any candidate."""

    baseline_is_unit = False


def run(
    directory: Path,
    *texts: Sequence[str | None],
    verifier: NumberVerifier | None = None,
    plan: Plan | None = None,
    limits: Limits | None = None,
    watcher: Watcher | None = None,
    problem: NumberProblem | None = None,
) -> RunResult:
    """Run chains that propose given texts; without a plan every text gets its step."""
    policies = [ListPolicy(chain) for chain in texts]
    with Journal(directory) as journal:
        return run_loop(
            problem or NumberProblem(),
            policies,
            [verifier or NumberVerifier()],
            plan or Plan(chains=len(texts), steps=max(map(len, texts))),
            Ledger(limits or Limits(), journal.record.spent),
            journal,
            watcher,
        )


def outcomes(result: RunResult) -> list[str]:
    return [trial.outcome for trial in result.trials]


def test_the_baseline_scores_1_unjudged_and_the_best_wins(tmp_path: Path) -> None:
    verifier = NumberVerifier()
    result = run(tmp_path, ["2", "3", "0.9"], verifier=verifier)
    assert verifier.asked == ["2", "3", "0.9"]
    assert [trial.score for trial in result.trials] == [1.0, 2.0, 3.0, 0.9]
    assert result.winner.number == 2
    assert result.selection.selected == measured(3.0)
    assert result.selection.measured is None
    assert result.stop_reason is StopReason.STEPS_DONE
    assert result.used.evaluations == 3
    assert result.outcomes == {"ok": 3}


def test_a_slower_candidate_is_kept_and_never_wins(tmp_path: Path) -> None:
    result = run(tmp_path, ["0.9", "0.5"])
    assert outcomes(result) == ["ok", "ok", "ok"]
    assert result.winner.number == 0
    assert result.winner.score == 1.0


def test_a_problem_may_have_its_baseline_judged_at_no_cost(tmp_path: Path) -> None:
    verifier = NumberVerifier(limit=0.5)
    result = run(tmp_path, ["0.25"], verifier=verifier, problem=JudgedProblem())
    assert verifier.asked == ["1", "0.25"]
    assert result.trials[0].outcome == "wrong_result"
    assert result.used.evaluations == 1
    assert result.winner.number == 1  # any accepted candidate beats a baseline that is not


def test_a_baseline_that_cannot_be_judged_ends_the_run(tmp_path: Path) -> None:
    with pytest.raises(InfrastructureError, match="baseline"):
        run(tmp_path, ["2"], verifier=NumberVerifier(failures=2), problem=JudgedProblem())
    assert read_record(tmp_path).trials == ()


def test_chains_take_turns_and_see_only_their_own_trials(tmp_path: Path) -> None:
    policies = [ListPolicy(["2", "3"]), ListPolicy(["4", "5"])]
    with Journal(tmp_path) as journal:
        result = run_loop(
            NumberProblem(), policies, [NumberVerifier()], Plan(chains=2, steps=2), Ledger(Limits()), journal
        )
    assert [trial.chain for trial in result.trials[1:]] == [0, 1, 0, 1]
    assert [trial.candidate.text for trial in policies[1].seen[-1]] == ["1", "4"]
    assert policies[0].seen[1][1].feedback.startswith("accepted: 2 x; measured")


def test_a_bad_text_is_a_rejection_that_costs_an_evaluation(tmp_path: Path) -> None:
    result = run(tmp_path, ["many", "2!", "1000"])
    assert outcomes(result)[1:] == ["unparsable", "invalid_step", "wrong_result"]
    assert result.used.evaluations == 3
    assert "possible here: 1" in result.trials[2].feedback
    assert result.trials[3].feedback == (
        "rejected by number (wrong_result): too large\nthis near candidate would be accepted there: 100"
    )
    assert result.trials[3].score is None


def test_a_duplicate_anywhere_in_the_run_is_not_judged_and_costs_a_step_only(tmp_path: Path) -> None:
    verifier = NumberVerifier()
    result = run(tmp_path, ["2", "1.0", "bad", "bad"], ["2.00", "3", "4", "5"], verifier=verifier)
    assert verifier.asked == ["2", "3", "4", "5"]
    assert [trial.outcome for trial in result.trials if trial.chain == 1] == ["duplicate", "ok", "ok", "ok"]
    assert [trial.outcome for trial in result.trials[1:] if trial.chain == 0] == [
        "ok",
        "duplicate",
        "unparsable",
        "duplicate",
    ]
    assert result.trials[2].verdicts[0].witness == {"trial": 1}
    assert "the untouched original" in result.trials[3].feedback
    assert result.used.evaluations == 5


def test_a_policy_with_nothing_but_duplicates_comes_to_an_end(tmp_path: Path) -> None:
    result = run(tmp_path, ["1"] * 50, plan=Plan(steps=50, patience=5), limits=Limits(evaluations=3))
    assert len(result.trials) == 6
    assert result.stop_reason is StopReason.NO_PROGRESS
    assert result.used.evaluations == 0


def test_patience_counts_from_the_last_best(tmp_path: Path) -> None:
    result = run(tmp_path, ["2", "1.5", "3", "2.5", "2.25", "9"], plan=Plan(steps=9, patience=2))
    assert [trial.candidate.text for trial in result.trials[1:]] == ["2", "1.5", "3", "2.5", "2.25"]
    assert result.stop_reason is StopReason.NO_PROGRESS


def test_the_budget_stops_the_loop(tmp_path: Path) -> None:
    watcher = Watcher()
    result = run(
        tmp_path,
        ["2", "3"],
        ["4", "5"],
        ["6", "7"],
        plan=Plan(chains=3, steps=100),
        limits=Limits(evaluations=4),
        watcher=watcher,
    )
    assert result.stop_reason is StopReason.BUDGET_EVALUATIONS
    assert result.used.evaluations == 4
    assert len(result.trials) == 5
    assert result.chain_stops == (StopReason.BUDGET_EVALUATIONS,) * 3
    lefts = [event.budget.left(Line.EVALUATIONS) for event in watcher.events if isinstance(event, TrialFinished)]
    assert lefts == [4, 3, 2, 1, 0]


def test_seconds_stop_the_loop(tmp_path: Path) -> None:
    now = [0.0]
    verifier = NumberVerifier(on_call=lambda _: now.__setitem__(0, now[0] + 4))
    with Journal(tmp_path) as journal:
        result = run_loop(
            NumberProblem(),
            [ListPolicy([str(number) for number in range(2, 50)])],
            [verifier],
            Plan(),
            Ledger(Limits(seconds=10), clock=lambda: now[0]),
            journal,
        )
    assert result.stop_reason is StopReason.BUDGET_SECONDS
    assert len(verifier.asked) == 3
    assert read_record(tmp_path).spent.seconds == 12


def test_the_target_stops_the_run_and_giving_up_stops_the_chain(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    result = run(tmp_path / "a", ["2", "5", "6"], plan=Plan(target=4))
    assert result.stop_reason is StopReason.TARGET_REACHED
    assert len(result.trials) == 3
    result = run(tmp_path / "b", ["2"], ["3", "4"], plan=Plan(chains=2))
    assert result.stop_reason is StopReason.GIVEN_UP
    assert [trial.candidate.text for trial in result.trials[1:]] == ["2", "3", "4"]


def test_a_harness_failure_is_retried_once_and_then_an_error_without_score_or_cost(tmp_path: Path) -> None:
    verifier = NumberVerifier(failures=1)
    result = run(tmp_path, ["2", "13", "3", "13"], verifier=verifier)
    assert verifier.asked == ["2", "2", "13", "13", "3", "13", "13"]
    assert outcomes(result)[1:] == ["ok", "infrastructure", "ok", "infrastructure"]
    assert result.trials[2].status is Status.ERROR
    assert result.trials[2].score is None
    assert "not the candidate's fault" in result.trials[2].feedback
    assert result.used.evaluations == 2


def test_errors_in_a_row_stop_the_run_and_a_resume_tries_again(tmp_path: Path) -> None:
    broken = NumberVerifier(failures=1000)
    texts = ["2", "3", "4", "5", "6"]
    plan = Plan(steps=5, max_consecutive_errors=2)
    result = run(tmp_path, texts, verifier=broken, plan=plan)
    assert result.stop_reason is StopReason.INFRASTRUCTURE_ERRORS
    assert len(result.trials) == 3
    result = run(tmp_path, texts, plan=plan)
    assert outcomes(result)[1:] == ["infrastructure", "infrastructure", "ok", "ok", "ok"]
    assert result.stop_reason is StopReason.STEPS_DONE


def test_a_policy_that_cannot_answer_is_asked_again(tmp_path: Path) -> None:
    class Flaky(ListPolicy):
        def propose(self, problem: Any, history: Any, budget: Any) -> Any:
            proposal = super().propose(problem, history, budget)
            if len(self.seen) in (1, 3, 4):
                raise InfrastructureError("overloaded")
            return proposal

    watcher = Watcher()
    with Journal(tmp_path) as journal:
        plan = Plan(steps=2, max_consecutive_errors=2)
        result = run_loop(
            NumberProblem(), [Flaky(["2", "3"])], [NumberVerifier()], plan, Ledger(Limits()), journal, watcher
        )
    assert [trial.candidate.text for trial in result.trials] == ["1", "2"]
    assert result.stop_reason is StopReason.INFRASTRUCTURE_ERRORS
    assert sum(isinstance(event, Waiting) for event in watcher.events) == 3


def test_a_bug_in_a_verifier_is_no_verdict_but_loses_nothing(tmp_path: Path) -> None:
    def fail(count: int) -> None:
        if count == 2:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run(tmp_path, ["2", "3", "4"], verifier=NumberVerifier(on_call=fail))
    result = run(tmp_path, ["2", "3", "4"])
    assert [trial.candidate.text for trial in result.trials] == ["1", "2", "3", "4"]
    assert result.used.evaluations == 3


def interrupt_at(count: int) -> Callable[[int], None]:
    def on_call(calls: int) -> None:
        if calls == count:
            raise KeyboardInterrupt

    return on_call


def test_an_interrupted_run_goes_on_as_if_nothing_had_happened(tmp_path: Path) -> None:
    texts = (["2", "many", "3", None], ["2", "5", "4", "0.5"])
    (tmp_path / "whole").mkdir()
    whole = run(tmp_path / "whole", *texts)
    for count in range(1, 6):
        folder = tmp_path / str(count)
        folder.mkdir()
        first = NumberVerifier(on_call=interrupt_at(count))
        result = run(folder, *texts, verifier=first)
        assert result.stop_reason is StopReason.INTERRUPTED
        second = NumberVerifier()
        result = run(folder, *texts, verifier=second)
        assert sorted(first.asked[:-1] + second.asked) == ["0.5", "2", "3", "4", "5"]
        assert [(t.number, t.chain, t.step, t.candidate, t.outcome, t.feedback) for t in result.trials] == [
            (t.number, t.chain, t.step, t.candidate, t.outcome, t.feedback) for t in whole.trials
        ]
        assert result.winner.candidate == whole.winner.candidate
        assert result.used.evaluations == whole.used.evaluations
        assert (result.stop_reason, result.chain_stops) == (whole.stop_reason, whole.chain_stops)


def test_a_run_that_is_over_is_only_read(tmp_path: Path) -> None:
    first = run(tmp_path, ["2", "3"])
    content = (tmp_path / "journal.jsonl").read_bytes()
    policy, verifier = ListPolicy(["7"]), NumberVerifier()
    with Journal(tmp_path) as journal:
        ledger = Ledger(Limits(), journal.record.spent)
        again = run_loop(NumberProblem(), [policy], [verifier], Plan(steps=2), ledger, journal)
    assert (policy.seen, verifier.asked) == ([], [])
    assert (tmp_path / "journal.jsonl").read_bytes() == content
    assert again.trials == first.trials
    assert again.selection == first.selection


def test_finalists_are_measured_again_and_that_decides(tmp_path: Path) -> None:
    comparer = NumberComparer(again={"5": 1.5, "4": 3.0})
    result = run(tmp_path, ["2", "5", "4", "6"], verifier=comparer, plan=Plan(steps=4, finalists=3))
    assert comparer.compared == [["6", "5", "4"]]
    assert result.winner.candidate.text == "4"
    assert result.selection.selected == measured(4.0)
    assert result.selection.measured == measured(3.0)
    assert isinstance(result.finalists[0], Finalist)
    with Journal(tmp_path) as journal:
        again = run_loop(NumberProblem(), [ListPolicy()], [comparer], Plan(steps=4), Ledger(Limits()), journal)
    assert len(comparer.compared) == 1
    assert again.selection == result.selection


def test_the_last_verifier_that_can_compare_decides(tmp_path: Path) -> None:
    first, last = NumberComparer(again={"2": 9.0, "3": 1.0}), NumberComparer(again={"2": 1.0, "3": 9.0})
    with Journal(tmp_path) as journal:
        policies = [ListPolicy(["2", "3"])]
        result = run_loop(NumberProblem(), policies, [first, last], Plan(steps=2), Ledger(Limits()), journal)
    assert result.winner.candidate.text == "3"
    assert first.compared == []


def test_no_finalist_above_1_means_the_original_stays(tmp_path: Path) -> None:
    result = run(tmp_path, ["2", "3"], verifier=NumberComparer(again={"2": 1.0, "3": 0.97}))
    assert result.winner.number == 0
    assert result.selection.measured is None


def test_a_comparison_that_fails_is_retried_and_then_left_to_a_resume(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    comparer = NumberComparer(again={"2": 1.9}, comparison_failures=1)
    assert run(tmp_path / "a", ["2"], verifier=comparer).winner.number == 1
    comparer = NumberComparer(again={"2": 1.9}, comparison_failures=2)
    assert run(tmp_path / "b", ["2"], verifier=comparer).stop_reason is StopReason.INFRASTRUCTURE_ERRORS
    result = run(tmp_path / "b", ["2"], verifier=comparer)
    assert result.stop_reason is StopReason.STEPS_DONE
    assert result.selection.measured == measured(1.9)


def test_watchers_see_the_run_in_order(tmp_path: Path) -> None:
    watcher = Watcher()
    result = run(tmp_path, ["2"], watcher=watcher)
    kinds = [type(event) for event in watcher.events]
    assert kinds == [RunStarted, TrialFinished, TrialStarted, TrialFinished, ChainStopped, RunFinished]
    first, last = watcher.events[0], watcher.events[-1]
    assert isinstance(first, RunStarted)
    assert "only one proposal fits" in first.warnings[0]
    assert isinstance(last, RunFinished)
    assert last.result == result


def test_ties_are_called_ties_and_the_simplest_wins() -> None:
    trials = [accepted(0, "1", 1.0), accepted(1, "longer", 2.0, 0.1), accepted(2, "short", 1.95, 0.1)]
    selection = select(trials, 3, None)
    assert selection.tied == (1, 2)
    assert selection.winner.number == 2
    assert is_tie(measured(2.0, 0.1), measured(1.95, 0.1))
    assert not is_tie(measured(2.0, 0.1), measured(1.95))
    assert not is_tie(measured(2.0, 0.8), measured(1.3, 0.2))


def test_a_finalist_that_cannot_be_told_from_the_original_does_not_win() -> None:
    trials = [accepted(0, "1", 1.0), accepted(1, "2", 1.02, 0.05)]
    assert select(trials, 3, None).winner.number == 0


def test_finalists_are_accepted_better_than_the_baseline_and_best_first() -> None:
    trials = [
        accepted(0, "1", 1.0),
        accepted(1, "a", 2.4),
        rejected(2, "b"),
        accepted(3, "c", 3.1),
        accepted(4, "d", 1),
    ]
    assert [trial.number for trial in finalists_of(trials, 5)] == [3, 1]
    assert [trial.number for trial in finalists_of(trials, 1)] == [3]


def test_best_of_five_is_the_largest() -> None:
    scores = [1.8, 2.4, 3.1, 2.0, 2.9]
    trials = [accepted(0, "1", 1.0), *(accepted(n, str(n), score) for n, score in enumerate(scores, start=1))]
    assert select(trials, 3, None).winner.score == 3.1


@pytest.mark.parametrize("field", ["chains", "steps", "patience", "finalists", "max_consecutive_errors"])
def test_a_plan_of_nothing_is_the_users_error(field: str) -> None:
    with pytest.raises(UserError, match=field):
        Plan(**{field: 0})


def test_same_seed_same_run(tmp_path: Path) -> None:
    texts = [str(random.Random(7).uniform(0.5, 9)) for _ in range(20)]
    results = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        results.append(run(tmp_path / name, texts))
    assert [trial.candidate for trial in results[0].trials] == [trial.candidate for trial in results[1].trials]
    assert Candidate("1") == results[0].trials[0].candidate


def test_the_loop_itself_takes_next_to_no_time(tmp_path: Path) -> None:
    texts = [str(number) for number in range(2, 502)]
    result = run(tmp_path, texts)
    assert len(result.trials) == 501
    assert result.used.seconds / 500 < 0.02
    assert Reason.DUPLICATE.value not in result.outcomes
