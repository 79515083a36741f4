"""What a model is told about its proposal."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from optimizer.budget import Amounts, BudgetView, Limits
from optimizer.kernel_problem import KernelProblem
from optimizer.llm.briefing import Grounding
from optimizer.llm.feedback import best_of, feedback_text
from optimizer.text_problem import TextProblem
from optimizer.trial import Trial
from optimizer.verdict import Measurement, Reason, Status, Verdict
from tests.judged_trials import chain_of, rejected_trial, repeated, timed, trial_of, untouched

NO_LIMITS = BudgetView()


@pytest.fixture(scope="module")
def gemm() -> KernelProblem:
    return KernelProblem.load("gemm", "mini", threads=2)


def told(problem: KernelProblem, trial: Trial, *without: Grounding, limit_seconds: float | None = None) -> str:
    return feedback_text(problem, trial, [untouched(problem)], NO_LIMITS, without, limit_seconds)


def test_an_accepted_schedule(gemm: KernelProblem) -> None:
    lines = told(gemm, trial_of(gemm, 1, "parallel(i)", 2.5), limit_seconds=0.05).splitlines()
    assert lines == [
        "accepted: 2.50x (95% interval 2.45 to 2.55); proved, bit-exact on 24 checks",
        "it takes 200 ms, the original 500 ms; 25% of the machine's limit",
        "this is the best so far: trial 1",
    ]
    assert "limit" not in told(gemm, trial_of(gemm, 1, "parallel(i)"))


def test_a_slower_one_is_told_with_the_best(gemm: KernelProblem) -> None:
    history = chain_of(gemm, ["parallel(i)", "tile(k=8); parallel(i)"])
    slow = trial_of(gemm, 3, "tile(i=2)", 0.5)
    lines = feedback_text(gemm, slow, history, NO_LIMITS).splitlines()
    assert lines[-2:] == ["step 1 made: i_t", "best so far: 1.20x, trial 2, as before"]
    assert "the untouched original is the best so far" in told(gemm, slow)


def test_the_history_may_hold_the_trial_already(gemm: KernelProblem) -> None:
    history = chain_of(gemm, ["parallel(i)", "tile(k=8); parallel(i)"])
    assert feedback_text(gemm, history[2], history, NO_LIMITS) == feedback_text(
        gemm, history[2], history[:2], NO_LIMITS
    )


def test_a_measurement_on_a_busy_machine_is_told_first(gemm: KernelProblem) -> None:
    trial = trial_of(gemm, 1, "parallel(i)")
    busy = replace(trial, verdicts=(*trial.verdicts[:-1], timed(2.0, disturbed=True, other_load=1.34)))
    first, second, *_ = told(gemm, busy).splitlines()
    assert first == (
        "measured while other work held 1.3 processors: little can be concluded about this proposal, "
        "least of all about its threads"
    )
    assert second.startswith("accepted: 2.00x")
    later = feedback_text(gemm, trial_of(gemm, 2, "tile(i=2)", 0.5), [untouched(gemm), busy], NO_LIMITS)
    assert "best so far: 2.00x (on a busy machine), trial 1, as before" in later
    again = feedback_text(gemm, repeated(2, busy), [untouched(gemm), busy], NO_LIMITS)
    assert "measured while other work held 1.3 processors" in again
    assert "other work" not in told(gemm, trial)
    assert "busy" not in told(gemm, trial)


def test_too_slow_on_a_busy_machine_is_told_so(gemm: KernelProblem) -> None:
    load = {"seconds_at_least": 3, "disturbed": True, "other_load": 1.0}
    slow = rejected_trial(1, "parallel(i)", Reason.TOO_SLOW, "over 3 s", witness=load)
    assert told(gemm, slow).startswith("measured while other work held 1 processor: ")
    undisturbed = rejected_trial(1, "parallel(i)", Reason.TOO_SLOW, "over 3 s", witness=load | {"disturbed": False})
    assert told(gemm, undisturbed).startswith("rejected, too_slow: over 3 s")


def test_remarks_are_told_but_not_those_for_people(gemm: KernelProblem) -> None:
    trial = trial_of(gemm, 1, "parallel(i)")
    remark = Verdict(Status.OK, "plausibility", detail="fresh, larger inputs gave 60x")
    skipped = Verdict(Status.OK, "equivalence", detail="sizes skipped: n=0: the original leaves its arrays")
    answer = told(gemm, replace(trial, verdicts=(*trial.verdicts, skipped, remark)))
    assert "fresh, larger inputs gave 60x" in answer
    assert "skipped" not in answer


def test_the_loops_that_steps_made_are_listed(gemm: KernelProblem) -> None:
    made = told(gemm, trial_of(gemm, 1, "split(k, at=8*(nk//8)); unroll_and_jam(k, 8); parallel(i)"))
    assert "step 1 made: k_2, j_3; step 2 made: k_t" in made.splitlines()
    failed = told(gemm, trial_of(gemm, 1, "split(k, at=8); tile(k_3=8)"))
    assert "rejected, invalid_step" in failed
    assert "step 1 made: k_2, j_3" in failed.splitlines()
    assert "made" not in told(gemm, trial_of(gemm, 1, "interchange(k, j_2)"))
    assert "made" not in told(gemm, trial_of(gemm, 1, "tile(i=8"))


@pytest.mark.parametrize(
    ("kernel", "text", "array", "kind"),
    [
        ("gemm", "parallel(k)", "C", "RAW"),
        ("lu", "interchange(j_2, k_2); reverse(i)", "A", "RAW"),
        ("jacobi-2d", "fuse(i, i_2)", "", ""),
        ("jacobi-2d", "reverse(t)", "", ""),
        ("nussinov", "parallel(i)", "", ""),
    ],
)
def test_an_illegal_schedule_is_told_with_its_witness_and_a_repair_that_holds(
    kernel: str, text: str, array: str, kind: str
) -> None:
    problem = KernelProblem.load(kernel, "mini", threads=2)
    trial = trial_of(problem, 1, text)
    witness = trial.verdicts[-1].witness
    assert trial.outcome == "illegal"
    assert witness is not None
    answer = told(problem, trial)
    assert answer.startswith("rejected, illegal: ")
    for end in ("source", "sink"):
        iteration = ", ".join(f"{name}={value}" for name, value in witness[f"{end}_iteration"].items())
        assert f"{witness[end]}({iteration})" in answer
    assert str(witness["loop"]) in answer
    assert witness["array"] in answer
    assert f"({witness['kind']})" in answer
    assert (array or witness["array"], kind or witness["kind"]) == (witness["array"], witness["kind"])
    repair = re.search(r"this near schedule is legal: `(.*)`|nothing near it is legal but the untouched nest", answer)
    assert repair is not None
    assert problem.is_admissible(problem.parse(repair.group(1) or ""))
    assert (repair.group(1) or "") == trial.verdicts[-1].repair
    assert "the untouched original is the best so far" in answer


def test_each_ablation_takes_away_what_it_says_and_nothing_else(gemm: KernelProblem) -> None:
    trial = trial_of(gemm, 1, "parallel(k)")
    whole = told(gemm, trial).splitlines()
    assert len(whole) == 3
    assert told(gemm, trial, Grounding.REPAIR).splitlines() == [whole[0], whole[2]]
    without_witness = told(gemm, trial, Grounding.WITNESS).splitlines()
    assert without_witness == ["rejected, illegal: it breaks a dependence", *whole[1:]]
    assert told(gemm, trial, Grounding.FEEDBACK) == "recorded"
    assert told(gemm, trial, Grounding.INSPECT, Grounding.ANALYSIS).splitlines() == whole
    accepted = trial_of(gemm, 1, "parallel(i)")
    assert told(gemm, accepted, Grounding.WITNESS, Grounding.REPAIR) == told(gemm, accepted)
    assert told(gemm, accepted, Grounding.FEEDBACK) == "recorded"


def test_a_wrong_element_is_a_witness_too(gemm: KernelProblem) -> None:
    trial = rejected_trial(1, "parallel(i)", Reason.WRONG_RESULT, "C[3, 4] is 2.0 instead of 1.0", witness={"at": 3})
    assert "C[3, 4]" in told(gemm, trial)
    assert told(gemm, trial, Grounding.WITNESS).splitlines()[0] == "rejected, wrong_result"
    slow = rejected_trial(1, "parallel(i)", Reason.TOO_SLOW, "over 3 s", witness={"seconds_at_least": 3})
    assert "over 3 s" in told(gemm, slow, Grounding.WITNESS)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("interchange(i, k)", "rejected, invalid_step: step 1, `interchange(i, k)`: k is not perfectly nested in i"),
        ("interchange(i, k)", "possible here: distribute(i)"),
        ("tille(i=8)", "there is no step tille"),
        ("tille(i=8)", "possible here: tile"),
        ("parallel(j_3)", "the loops are i, j, k, j_2"),
        ("tile(i=8", "rejected, unparsable: line 1, column 9"),
    ],
)
def test_a_schedule_that_cannot_be_applied_is_told_with_what_could(gemm: KernelProblem, text: str, said: str) -> None:
    assert said in told(gemm, trial_of(gemm, 1, text))


def test_a_duplicate_says_of_what_and_what_came_of_it(gemm: KernelProblem) -> None:
    history = chain_of(gemm, ["parallel(i)", "parallel(k)"])
    of_accepted = feedback_text(gemm, repeated(3, history[1]), history, NO_LIMITS)
    assert "duplicate: the same as your trial 1; propose another one. It was:\naccepted: 1.10x" in of_accepted
    of_illegal = feedback_text(gemm, repeated(3, history[2]), history, NO_LIMITS)
    assert "the same as your trial 2" in of_illegal
    assert "rejected, illegal: S1(" in of_illegal
    assert "this near schedule is legal" in of_illegal
    assert "comes to the untouched original" in feedback_text(gemm, repeated(3, history[0]), history, NO_LIMITS)
    of_other_chain = feedback_text(gemm, repeated(3, replace(history[1], number=7)), history, NO_LIMITS)
    assert "the same candidate as trial 7 (ok)" in of_other_chain
    hidden = feedback_text(gemm, repeated(3, history[2]), history, NO_LIMITS, {Grounding.WITNESS, Grounding.REPAIR})
    assert "S1(" not in hidden
    assert "near schedule" not in hidden


def test_trouble_of_the_harness_is_not_the_candidate_s(gemm: KernelProblem) -> None:
    verdict = Verdict(Status.ERROR, "timing", Reason.INFRASTRUCTURE, "the disk is full")
    trial = replace(trial_of(gemm, 1, "parallel(i)"), verdicts=(verdict,))
    assert told(gemm, trial).startswith("not judged, and not the candidate's fault: the disk is full")
    assert told(gemm, replace(trial, verdicts=())).startswith("not judged")


def test_what_is_left_of_the_budget(gemm: KernelProblem) -> None:
    limits = Limits(evaluations=20, seconds=600.0, calls=30, tokens=100_000, usd=1.0)
    budget = BudgetView(Amounts(3, 60.4, 5, 20_000, 0.126), limits)
    answer = feedback_text(gemm, trial_of(gemm, 1, "parallel(i)"), [], budget)
    expected = "left of the budget: 17 evaluations, 540 seconds, 25 calls, 80000 tokens, 0.87 USD"
    assert answer.splitlines()[-1] == expected
    assert "left of" not in told(gemm, trial_of(gemm, 1, "parallel(i)"))
    last = BudgetView(Amounts(evaluations=19, seconds=599.2, calls=28), limits)
    assert "left of the budget: 1 evaluation, 1 second, 2 calls, " in feedback_text(
        gemm, trial_of(gemm, 1, "parallel(i)"), [], last
    )


def test_a_text_is_told_its_score_and_a_long_detail_is_cut() -> None:
    problem = TextProblem("poem.txt", "roses")
    accepted = Trial(1, 0, 1, problem.parse("violets"), (_scored(3.0, "two rhymes"),))
    assert feedback_text(problem, accepted, [], NO_LIMITS) == (
        "accepted: 3 points (95% interval 2 to 4); tested only\ntwo rhymes\nthis is the best so far: trial 1"
    )
    failed = rejected_trial(2, "tulips", Reason.FAILED_CHECK, "x" * 50_000, repair="`roses`\n")
    answer = feedback_text(problem, failed, [accepted], NO_LIMITS)
    assert "best so far: 3 points, trial 1" in answer
    assert "this near candidate passes there:\n```" in answer
    assert "more characters left out" in answer
    assert len(answer) < 2_000
    assert "nothing has been accepted" in feedback_text(problem, failed, [], NO_LIMITS)


def test_the_best_is_the_earliest_of_equals(gemm: KernelProblem) -> None:
    assert best_of([]) is None
    first, second = trial_of(gemm, 1, "parallel(i)", 2.0), trial_of(gemm, 2, "parallel(j)", 2.0)
    assert best_of([second, first]) is first


def _scored(score: float, detail: str) -> Verdict:
    found = Measurement(score, (score - 1, score + 1), 3, "points")
    return Verdict(Status.OK, "check", detail=detail, assurance="tested only", measurement=found)
