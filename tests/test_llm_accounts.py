"""The accounts of a run: every figure follows from the journal, and sums are sums."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optimizer.budget import Amounts
from optimizer.closed_loop import Tally
from optimizer.errors import UserError
from optimizer.llm.accounts import accounts_of
from optimizer.llm.messages import Usage
from optimizer.llm.shares import Kind
from optimizer.verdict import Reason, Status, Verdict
from tests.model_journal import MODEL, ModelJournal, accepted, rejected, whole_run


def test_the_figures_of_a_run() -> None:
    accounts = accounts_of(whole_run().events)
    assert accounts.models == (MODEL,)
    assert (accounts.calls, accounts.attempts, accounts.retries) == (4, 6, 2)
    assert accounts.failures == {"overloaded": 1}
    assert (accounts.repair_turns, accounts.refusals, accounts.fallback_steps, accounts.in_flight) == (1, 0, 1, 1)
    assert accounts.usage == Usage(1500, 210, 100, 2300)
    assert (accounts.charged.calls, accounts.charged.tokens) == (5, 4110 + 40_000)
    assert accounts.charged.usd == pytest.approx(0.56)
    assert (accounts.waited, accounts.latency_median, accounts.latency_p90) == (9.0, 3.0, 4.0)
    assert accounts.cache_share == pytest.approx(2300 / 3900)
    assert accounts.outcomes == {"illegal": 1, "ok": 1}, "the fallback's proposal is none of the model's"
    assert accounts.tokens_per_accepted == 44_110
    assert accounts.usd_per_accepted == pytest.approx(0.56)


def test_each_outcome_has_its_kind() -> None:
    journal = ModelJournal()
    journal.baseline()
    reasons = [Reason.ILLEGAL, Reason.UNPARSABLE, Reason.INVALID_STEP, Reason.DUPLICATE, Reason.TOO_SLOW]
    for step, reason in enumerate(reasons, start=1):
        journal.trial(rejected(reason), 0, step)
    journal.trial((Verdict(Status.ERROR, "timing", Reason.INFRASTRUCTURE, "no worker"),), 0, 6)
    journal.trial(accepted(2.0), 0, 7)
    accounts = accounts_of(journal.events)
    assert accounts.kinds == {
        Kind.RUNNABLE: 1,
        Kind.ILLEGAL: 1,
        Kind.INVALID: 2,
        Kind.DUPLICATE: 1,
        Kind.OTHER: 2,
    }
    assert accounts.tokens_per_accepted is None, "no model was asked"


def test_lost_calls_are_charged_and_refunded_ones_are_not() -> None:
    journal = ModelJournal()
    journal.baseline()
    worst = Amounts(calls=1, tokens=900, usd=0.25)
    for why, amount in (("lost", worst), ("refund", Amounts())):
        number = journal.reserve(0, worst)
        journal.add("settled", chain=0, number=number, amount=asdict(amount), why=why)
    accounts = accounts_of(journal.events)
    assert (accounts.lost, accounts.calls, accounts.in_flight, accounts.charged) == (1, 0, 0, worst)
    assert "1 lost" in accounts.lines()[0]


def test_a_step_counts_all_its_calls_and_means_go_over_chains() -> None:
    journal = ModelJournal()
    journal.baseline()
    journal.call(0, 1, Usage(100))
    journal.call(0, 1, Usage(20, cache_read=100), kept=1)
    journal.call(1, 1, Usage(80, cache_write=100))
    journal.call(2, 1, failure="timed_out")
    journal.trial(rejected(Reason.ILLEGAL), 0, 1)
    journal.trial(accepted(1.5), 1, 1)
    row = accounts_of(journal.events).steps[0]
    assert (row.step, row.prompts, row.prompt_tokens) == (1, (220, 180), 200.0)
    assert (row.kinds[Kind.RUNNABLE], row.kinds[Kind.ILLEGAL]) == (1, 1)


def test_a_step_that_an_earlier_answer_asked_for_reads_nothing() -> None:
    journal = ModelJournal()
    journal.baseline()
    journal.call(0, 1, Usage(100))
    journal.trial(accepted(1.5), 0, 1)
    journal.trial(accepted(1.6), 0, 2)
    journal.add("fallback", chain=0, step=3, why="the breaker is open")
    journal.trial(accepted(1.7), 0, 3)
    accounts = accounts_of(journal.events)
    assert [row.prompts for row in accounts.steps] == [(100,), (0,), ()]
    assert accounts.proposals == 2


def test_growth_without_compaction_is_quadratic() -> None:
    """Calls read 1000, 1100, 1200, then the chain is compacted and stays at 1000."""
    journal = ModelJournal()
    for number, prompt in enumerate([1000, 1100, 1200, 1000, 1000, 1000]):
        journal.call(0, number + 1, Usage(prompt), kept=number % 3)
    growth = accounts_of(journal.events).growth
    assert growth is not None
    assert growth.per_call == 100
    assert growth.without == 6 * 1000 + 100 * 6 * 5 / 2
    assert growth.paid == 6300
    assert growth.compactions == 1


def test_a_chain_that_is_never_compacted_reads_what_the_formula_says() -> None:
    journal = ModelJournal()
    for number in range(8):
        journal.call(0, number + 1, Usage(500 + 70 * number), kept=number)
    growth = accounts_of(journal.events).growth
    assert growth is not None
    assert growth.without == pytest.approx(growth.paid)
    assert growth.compactions == 0


def test_one_call_says_nothing_of_growth() -> None:
    journal = ModelJournal()
    journal.call(0, 1, Usage(500))
    assert accounts_of(journal.events).growth is None


def test_late_prompts_are_compared_with_early_ones() -> None:
    journal = ModelJournal()
    for step in range(1, 41):
        journal.call(0, step, Usage(1000 if step <= 30 else 1200), kept=1)
    assert accounts_of(journal.events).late_over_early == pytest.approx(1.2)
    assert accounts_of(journal.events[: 2 * 29]).late_over_early is None, "the two spans of steps would overlap"


def test_what_more_attempts_would_give() -> None:
    journal = ModelJournal()
    journal.baseline()
    for step, verdicts in enumerate([rejected(Reason.ILLEGAL), accepted(2.0), accepted(3.0), rejected(Reason.ILLEGAL)]):
        journal.trial(verdicts, 0, step + 1)
    journal.trial((Verdict(Status.ERROR, "timing", Reason.INFRASTRUCTURE, "no worker"),), 0, 5)
    accounts = accounts_of(journal.events)
    assert accounts.tally == Tally(accepted=2, rejected=2, answered=1), "trouble of the harness is no rejection"
    told = accounts.to_json()["acceptance_in_a_loop"]
    assert told == {"0": 0.5, "1": 0.625, "3": pytest.approx(0.5 * (1 + 0.25 + 0.0625 + 0.015625))}
    assert "  in a loop  50% accepted at the first attempt, 62% within 1 more, 66% within 3 more" in accounts.lines()


def test_lines_are_short_and_say_the_essential() -> None:
    journal = whole_run()
    for step in range(3, 60):
        journal.call(0, step, Usage(2000, 100, cache_read=1000), 0.001, kept=step - 3)
        journal.trial(accepted(2.0), 0, step)
    lines = accounts_of(journal.events).lines()
    text = "\n".join(lines)
    assert max(map(len, lines)) <= 120
    assert "61 of claude-sonnet-5-5; 1 failed (1 overloaded); 2 sent again" in text
    assert "59: 58 runnable (98%, 91% to 100%), 1 illegal (2%, 0% to 9%)" in text
    assert "made shorter once; without that, about" in text
    assert len(lines) <= 10 + 11, "a table of at most ten rows"


def test_a_run_without_a_model_has_shares_only() -> None:
    journal = ModelJournal()
    journal.baseline()
    assert accounts_of(journal.events).lines() == []
    journal.trial(accepted(2.0), 0, 1)
    assert accounts_of(journal.events).lines() == ["  proposals  1: 1 runnable (100%, 21% to 100%)"]
    assert accounts_of([]).lines() == []


def test_a_model_that_reports_no_tokens() -> None:
    journal = ModelJournal()
    journal.call(0, 1)
    journal.call(0, 2, kept=1)
    journal.trial(accepted(2.0), 0, 1)
    accounts = accounts_of(journal.events)
    assert accounts.cache_share is None
    assert not any("read" in line for line in accounts.lines() if line.startswith("  tokens"))


def test_a_damaged_call_is_named() -> None:
    journal = whole_run()
    place = next(index for index, event in enumerate(journal.events) if event["event"] == "call")
    del journal.events[place]["request"]
    with pytest.raises(UserError, match=rf"event {place + 1} of the journal \(call\) is damaged"):
        accounts_of(journal.events)


TOKENS = st.integers(0, 10**6)
USAGES = st.builds(Usage, TOKENS, TOKENS, TOKENS, TOKENS)
CALLS = st.lists(
    st.tuples(
        st.integers(0, 3),
        st.integers(1, 9),
        USAGES,
        st.floats(0, 10),
        st.floats(0, 100),
        st.integers(0, 4),
        st.sampled_from([None, None, None, "overloaded", "timed_out"]),
    ),
    max_size=25,
)
TRIALS = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 9), st.sampled_from([None, *Reason])), max_size=25)


@settings(max_examples=60, deadline=None)
@given(CALLS, TRIALS)
def test_totals_equal_sums(
    calls: list[tuple[int, int, Usage, float, float, int, str | None]], trials: list[tuple[int, int, Reason | None]]
) -> None:
    journal = ModelJournal()
    journal.baseline()
    for chain, step, usage, usd, seconds, kept, failure in calls:
        journal.call(chain, step, usage, usd, seconds, kept, failure=failure)
    judged = {(chain, step): reason for chain, step, reason in trials}
    for (chain, step), reason in judged.items():
        journal.trial(accepted(2.0) if reason is None else rejected(reason), chain, step)
    accounts = accounts_of(journal.events)
    answered = [call for call in calls if call[6] is None]
    assert accounts.calls == len(calls) == accounts.attempts
    assert sum(accounts.failures.values()) == len(calls) - len(answered)
    assert accounts.usage.total == accounts.charged.tokens == sum(usage.total for _, _, usage, *_ in answered)
    assert accounts.charged.usd == pytest.approx(sum(call[3] for call in calls))
    assert accounts.waited == pytest.approx(sum(call[4] for call in answered))
    assert sum(sum(row.prompts) for row in accounts.steps) == accounts.usage.prompt
    assert accounts.proposals == len(judged) == sum(accounts.outcomes.values())
    for kind in Kind:
        assert accounts.kinds[kind] == sum(row.kinds[kind] for row in accounts.steps)
        share = accounts.share(kind)
        if share.value is not None and share.interval is not None:
            assert 0 <= share.interval[0] <= share.value <= share.interval[1] <= 1
    if accounts.growth:
        assert accounts.growth.paid == accounts.usage.prompt
    assert json.loads(json.dumps(accounts.to_json(), allow_nan=False))["calls"] == len(calls)
    assert all(len(line) <= 200 for line in accounts.lines())
