"""What stands in for the earlier turns of a long chain."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import islice

import pytest

from optimizer.budget import Amounts, BudgetView, Limits
from optimizer.kernel_problem import KernelProblem
from optimizer.llm.briefing import Grounding, Inspection, What, estimated_tokens
from optimizer.llm.feedback import feedback_text
from optimizer.llm.summary import LONGEST_TEXT, looked_up_text, summary_text
from optimizer.polyhedral.steps.sampling import random_schedule
from optimizer.text_problem import TextProblem
from optimizer.trial import Trial
from optimizer.verdict import Measurement, Reason, Status, Verdict
from tests.judged_trials import chain_of, rejected_trial, repeated, timed, trial_of, untouched

MOST_TOKENS_OF_A_TRIAL = 40


@pytest.fixture(scope="module")
def gemm() -> KernelProblem:
    return KernelProblem.load("gemm", "mini", threads=2)


@pytest.fixture(scope="module")
def long_chain() -> tuple[KernelProblem, tuple[Trial, ...]]:
    """60 trials of random schedules and templates: legal, illegal, invalid, unparsable and repeated ones."""
    problem = KernelProblem.load("jacobi-2d", "mini", threads=2)
    texts = [str(schedule) for schedule in islice(problem.templates(), 12)]
    texts += [str(random_schedule(problem.nest, random.Random(seed), 1 + seed % 4)) for seed in range(36)]
    texts += [f"parallel(q{number})" for number in range(4)] + ["tile(i=8", "skew"]
    trials = list(chain_of(problem, texts))
    while len(trials) < 61:
        trials.append(repeated(len(trials), trials[len(trials) % 20 + 1]))
    return problem, tuple(trials)


def test_every_verdict_is_kept(gemm: KernelProblem) -> None:
    history = chain_of(
        gemm, ["parallel(i)", "parallel(k)", "tile(k=8); parallel(i)", "reverse(k)", "parallel(q)", "tile(i=8"]
    )
    history = (*history, repeated(7, history[1]), rejected_trial(8, "unroll(j)", Reason.TOO_SLOW, "over 3 s"))
    lines = summary_text(gemm, history).splitlines()
    assert lines[2] == "Best so far: 1.30x (95% interval 1.25 to 1.35), trial 3: `tile(k=8); parallel(i)`"
    accepted = lines.index("Accepted, best first:")
    assert lines[accepted + 1 : accepted + 3] == ["1.30x `tile(k=8); parallel(i)`", "1.10x `parallel(i)`"]
    assert "illegal (C RAW S1->S1 at k): `parallel(k)`; `reverse(k)`" in lines
    assert "invalid_step (there is no loop q; the loops are...): `parallel(q)`" in lines
    assert any(line.startswith("unparsable (") and line.endswith(": `tile(i=8`") for line in lines)
    assert "too_slow (over 3 s): `unroll(j)`" in lines
    assert "duplicate: `parallel(i)` 1x" in lines
    assert "Do not propose any of these again." in lines


def test_nothing_is_dropped_from_a_long_chain(long_chain: tuple[KernelProblem, tuple[Trial, ...]]) -> None:
    problem, trials = long_chain
    text = summary_text(problem, trials)
    outcomes = {trial.outcome for trial in trials}
    assert {"ok", "illegal", "invalid_step", "unparsable", "duplicate"} <= outcomes
    for trial in trials[1:]:
        if len(trial.candidate.text) <= LONGEST_TEXT:
            assert f"`{trial.candidate.text}`" in text, trial
    shown = text.count("`") // 2
    offered = text.partition("Offered as repairs")[2].partition("\n")[0].count("`") // 2
    distinct_duplicates = {trial.candidate.text for trial in trials if trial.outcome == "duplicate"}
    others = sum(trial.outcome != "duplicate" for trial in trials[1:])
    assert shown == others + len(distinct_duplicates) + offered + 1


def test_schedules_that_differ_never_look_alike(gemm: KernelProblem) -> None:
    alike = "tile(k=8, j_2=8); tile(k_t=2, j_2_t=2); reverse(i); reverse(i); unroll_and_jam(k, 4); "
    texts = [f"{alike}reverse(j); reverse(j); parallel({loop})" for loop in ("i", "j")]
    far = "; ".join(["reverse(j)"] * 14)
    texts += [f"parallel(i); {far}; reverse({loop})" for loop in ("k", "j")]
    lines = summary_text(gemm, chain_of(gemm, texts[::-1])).splitlines()
    assert "1.30x the best's first 7 steps + `parallel(j)`" in lines
    assert "1.40x the best" in lines
    assert f"1.10x `{texts[3]}`" in lines
    assert any(line.endswith(f": `{texts[2]}`") for line in lines), "which is illegal"
    alone = summary_text(gemm, chain_of(gemm, [texts[3], texts[0]])).splitlines()
    assert f"1.10x `parallel(i){'; reverse(j)' * 5}` and 10 more steps" in alone


def test_what_was_measured_on_a_busy_machine_is_marked(gemm: KernelProblem) -> None:
    trial = trial_of(gemm, 1, "parallel(i)")
    busy = replace(trial, verdicts=(*trial.verdicts[:-1], timed(2.0, disturbed=True, other_load=1.2)))
    slow = rejected_trial(2, "unroll(j)", Reason.TOO_SLOW, "over 3 s", witness={"disturbed": True, "other_load": 1})
    lines = summary_text(gemm, (untouched(gemm), busy, slow)).splitlines()
    assert lines[2].startswith("Best so far: 2.00x (95% interval 1.95 to 2.05) (on a busy machine), trial 1: ")
    assert "2.00x (on a busy machine) `parallel(i)`" in lines
    assert "too_slow (over 3 s): `unroll(j)` (on a busy machine)" in lines
    assert "busy" not in summary_text(gemm, (untouched(gemm), trial))


def test_a_look_up_says_what_was_asked() -> None:
    asked = Inspection(What.DEPENDENCES, "A", "tile(i=8)")
    assert looked_up_text(asked, "none") == "You last looked up: dependences of `A`, after `tile(i=8)`:\nnone"
    assert looked_up_text(Inspection(What.BOUND), "x") == "You last looked up: bound, of the untouched nest:\nx"


def test_it_grows_by_few_tokens_a_trial(long_chain: tuple[KernelProblem, tuple[Trial, ...]]) -> None:
    problem, trials = long_chain
    tokens = {count: estimated_tokens(summary_text(problem, trials[: count + 1])) for count in (0, 10, 20, 40, 60)}
    turns = [feedback_text(problem, trial, trials[:k], BudgetView()) for k, trial in enumerate(trials)]
    print(f"summary {tokens}; feedback of 60 trials {sum(map(estimated_tokens, turns[1:]))} tokens")
    assert tokens[60] - tokens[0] <= 60 * MOST_TOKENS_OF_A_TRIAL
    assert tokens[60] - tokens[40] <= 20 * MOST_TOKENS_OF_A_TRIAL


def test_one_huge_schedule_does_not_make_it_long(gemm: KernelProblem) -> None:
    history = chain_of(gemm, ["parallel(i)"])
    huge = "; ".join(["reverse(k)"] * 199)
    longer = (*history, trial_of(gemm, 2, huge))
    assert estimated_tokens(summary_text(gemm, longer)) < estimated_tokens(summary_text(gemm, history)) + 80


def test_the_best_stands_whole(gemm: KernelProblem) -> None:
    text = "tile(k=8, j_2=8); tile(k_t=2, j_2_t=2); unroll_and_jam(k, 4); reverse(i); reverse(i); parallel(i)"
    history = chain_of(gemm, [text])
    assert f"`{text}`" in summary_text(gemm, history)
    assert summary_text(gemm, history, limit_seconds=0.1).count("22% of the machine's limit") == 1


def test_repairs_that_were_not_tried_are_offered_again(gemm: KernelProblem) -> None:
    history = chain_of(gemm, ["parallel(k)"])
    repair = history[1].verdicts[-1].repair
    assert repair
    offer = f"Offered as repairs and not tried yet: `{repair}`"
    lines = summary_text(gemm, history).splitlines()
    assert lines.index(offer) > lines.index("Do not propose any of these again.")
    assert "Offered" not in summary_text(gemm, history, {Grounding.REPAIR})
    assert "Offered" not in summary_text(gemm, (*history, trial_of(gemm, 2, repair)))


def test_ablations(gemm: KernelProblem) -> None:
    history = chain_of(gemm, ["parallel(i)", "parallel(k)"])
    assert "illegal: `parallel(k)`" in summary_text(gemm, history, {Grounding.WITNESS})
    assert "S1" not in summary_text(gemm, history, {Grounding.WITNESS})
    silent = summary_text(gemm, history, {Grounding.FEEDBACK})
    assert "`parallel(i)`; `parallel(k)`" in silent
    assert "x" not in silent.partition("proposed again: ")[2].replace("parallel", "")
    assert "illegal" not in silent
    assert "repair" not in silent


def test_a_chain_without_trials_and_one_without_success(gemm: KernelProblem) -> None:
    assert "Best so far: the original itself, 1.00x." in summary_text(gemm, [untouched(gemm)])
    assert "Nothing was tried yet" in summary_text(gemm, [untouched(gemm)])
    assert "nothing was accepted" in summary_text(gemm, [])
    error = Verdict(Status.ERROR, "timing", Reason.INFRASTRUCTURE, "the disk is full")
    failed = replace(trial_of(gemm, 1, "parallel(i)"), verdicts=(error,))
    text = summary_text(gemm, [untouched(gemm), failed])
    assert "not judged, proposable again (the disk is full): `parallel(i)`" in text


def test_the_budget_and_the_same_input_give_the_same_text(gemm: KernelProblem) -> None:
    history = chain_of(gemm, ["parallel(i)", "parallel(k)"])
    budget = BudgetView(Amounts(2), Limits(evaluations=10))
    first = summary_text(gemm, history, budget=budget)
    assert first.endswith("left of the budget: 8 evaluations")
    assert summary_text(gemm, list(history), budget=budget) == first


def test_a_text_s_best_stands_whole_between_fences() -> None:
    problem = TextProblem("poem.txt", "roses")
    verdict = Verdict(Status.OK, "check", measurement=Measurement(3.0, (3.0, 3.0), 1, "points"))
    poem = "violets are blue\n```\nfinish\n```"
    trials = (
        Trial(0, 0, 0, problem.baseline, (verdict,)),
        Trial(1, 0, 1, problem.parse(poem), (replace(verdict, measurement=Measurement(4.0, (4.0, 4.0), 1, "points")),)),
        rejected_trial(2, "tulips", Reason.FAILED_CHECK, "no rhyme"),
    )
    text = summary_text(problem, trials)
    assert f"````\n{poem}\n````" in text
    assert "4 points, trial 1" in text
    assert "failed_check (no rhyme): `tulips`" in text
