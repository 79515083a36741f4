"""The ledger with many real threads: no cap is ever passed, the sums are right, and both survive a resume."""

from __future__ import annotations

import itertools
import random
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optimizer.budget import Amounts, Ledger, Limits, Line
from optimizer.events import Silent
from optimizer.journal import FILE_NAME, Journal, read_record
from optimizer.loop import run_loop
from optimizer.plan import Plan, StopReason
from optimizer.services import BudgetSpent, RunState, RunStopped, Services, Workbench
from tests.fakes import ListPolicy, NumberProblem, NumberVerifier

THREADS = 6
SPENDABLE = (Line.EVALUATIONS, Line.CALLS, Line.TOKENS, Line.USD)


@dataclass(frozen=True)
class Job:
    """Set `most` aside, then use `part` eighths of it, or nothing and give it back."""

    most: Amounts
    part: int
    is_refunded: bool

    @property
    def actual(self) -> Amounts:
        return Amounts(
            evaluations=self.most.evaluations * self.part // 8,
            calls=self.most.calls * self.part // 8,
            tokens=self.most.tokens * self.part // 8,
            usd=self.most.usd * self.part / 8,
        )


AMOUNTS = st.builds(
    Amounts,
    evaluations=st.integers(0, 3),
    calls=st.integers(0, 2),
    tokens=st.integers(0, 500),
    usd=st.integers(0, 8).map(lambda eighths: eighths / 8),
)
JOBS = st.lists(st.builds(Job, AMOUNTS, st.integers(0, 8), st.booleans()), max_size=40)
LIMITS = st.builds(
    Limits,
    evaluations=st.none() | st.integers(1, 12),
    calls=st.none() | st.integers(1, 8),
    tokens=st.none() | st.integers(1, 3000),
    usd=st.none() | st.integers(1, 40).map(lambda eighths: eighths / 8),
)


def over(limits: Limits, used: Amounts) -> list[Line]:
    return [line for line in SPENDABLE if (most := getattr(limits, line)) is not None and getattr(used, line) > most]


def total(amounts: Sequence[Amounts]) -> dict[Line, float]:
    return {line: sum(getattr(amount, line) for amount in amounts) for line in SPENDABLE}


def in_threads(work: Callable[[int], None], count: int = THREADS) -> None:
    """Run `work(number)` in so many threads at once; what one raises is raised here."""
    barrier = threading.Barrier(count)

    def begin(number: int) -> None:
        barrier.wait(10)
        work(number)

    with ThreadPoolExecutor(count) as pool:
        for future in [pool.submit(begin, number) for number in range(count)]:
            future.result(30)


@settings(max_examples=40, deadline=None)
@given(LIMITS, st.lists(JOBS, min_size=THREADS, max_size=THREADS))
def test_no_cap_is_passed_and_the_sums_are_right(limits: Limits, jobs: list[list[Job]]) -> None:
    ledger = Ledger(limits)
    settled: list[list[Amounts]] = [[] for _ in range(THREADS)]
    seen_over: list[Amounts] = []

    def work(number: int) -> None:
        for job in jobs[number]:
            reservation = ledger.reserve(job.most)
            if over(limits, (view := ledger.view()).used):
                seen_over.append(view.used)
            if reservation is None:
                continue
            if job.is_refunded:
                ledger.refund(reservation)
            else:
                ledger.settle(reservation, job.actual)
                settled[number].append(job.actual)

    in_threads(work)
    assert seen_over == []
    used = ledger.used()
    assert {line: getattr(used, line) for line in SPENDABLE} == total(list(itertools.chain(*settled)))
    assert over(limits, used) == []
    # Nothing is in flight any more, and what is left can be had to the last bit.
    rest = {line: ledger.view().left(line) for line in SPENDABLE}
    assert ledger.reserve(Amounts(**{line.value: value for line, value in rest.items() if value is not None}))


def test_whoever_waits_for_a_change_wakes_at_once() -> None:
    for end in ("settle", "refund"):
        ledger = Ledger(Limits(calls=1))
        reservation = ledger.reserve(Amounts(calls=1))
        assert reservation is not None
        waited: list[float] = []

        def wait(ledger: Ledger = ledger, waited: list[float] = waited) -> None:
            began = time.monotonic()
            ledger.wait_for_change(30)
            waited.append(time.monotonic() - began)

        threads = [threading.Thread(target=wait) for _ in range(4)]
        for thread in threads:
            thread.start()
        time.sleep(0.1)
        ledger.settle(reservation, Amounts(calls=1)) if end == "settle" else ledger.refund(reservation)
        for thread in threads:
            thread.join(10)
        assert len(waited) == 4
        assert max(waited) < 5
    began = time.monotonic()
    Ledger(Limits()).wait_for_change(0.05)
    assert 0.04 < time.monotonic() - began < 5


def services(directory: Path, journal: Journal, limits: Limits) -> list[Services]:
    ledger = Ledger(limits, journal.record.spent)
    state = RunState(NumberProblem(), [], ledger, journal, Silent(), Workbench(), threading.Event(), [], {})
    return [Services(chain, state) for chain in range(THREADS)]


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 2**32))
def test_chains_that_pay_at_once_keep_the_cap_whenever_the_process_dies(seed: int) -> None:
    limits = Limits(calls=9, usd=4.0)
    rng = random.Random(seed)
    prices = [[rng.randint(0, 8) / 8 for _ in range(4)] for _ in range(THREADS)]
    worst = Amounts(calls=1, usd=1.0)
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder)
        with Journal(directory) as journal:
            chains = services(directory, journal, limits)

            def work(number: int) -> None:
                chain = chains[number]
                with chain.run.workbench.held():
                    for price in prices[number]:
                        try:
                            reservation = chain.reserve(worst)
                        except BudgetSpent:
                            return
                        with chain.away():
                            time.sleep(price / 1000)
                        if price == 0:
                            chain.refund(reservation)
                        else:
                            chain.settle(reservation, Amounts(calls=1, usd=price), "purchase", price=price)

            in_threads(work)
            used = chains[0].run.ledger.used()
        content = (directory / FILE_NAME).read_bytes()
        record = read_record(directory)
        bought = [note["price"] for note in record.notes]
        assert (record.spent.calls, record.spent.usd) == (used.calls, used.usd) == (len(bought), sum(bought))
        assert record.unsettled == {}
        # Any other end of the process: what was in flight then counts in full, and the cap still holds.
        lines = content.splitlines(keepends=True)
        for count in range(len(lines)):
            (directory / FILE_NAME).write_bytes(b"".join(lines[:count]))
            cut = read_record(directory)
            paid = total([Amounts(calls=1, usd=note["price"]) for note in cut.notes])
            flying = total([amount for _, amount in cut.unsettled.values()])
            assert cut.spent.usd == paid[Line.USD] + flying[Line.USD] <= 4.0
            assert cut.spent.calls == paid[Line.CALLS] + flying[Line.CALLS] <= 9


def test_a_chain_waits_for_what_another_may_give_back(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        first, second, *_ = services(tmp_path, journal, Limits(calls=1))
        reservation = first.reserve(Amounts(calls=1))
        got: list[int] = []

        def wait() -> None:
            with second.run.workbench.held():
                got.append(second.reserve(Amounts(calls=1)).number)

        thread = threading.Thread(target=wait)
        thread.start()
        time.sleep(0.1)
        assert got == []
        with first.run.workbench.held():
            first.refund(reservation)
        thread.join(10)
        assert len(got) == 1
        with first.run.workbench.held(), pytest.raises(BudgetSpent):
            first.reserve(Amounts(calls=2))  # whatever comes back, that never fits: no use to wait
        first.stopping.set()
        with first.run.workbench.held(), pytest.raises(RunStopped):
            first.reserve(Amounts(calls=1))


def test_what_cost_too_much_does_not_stop_what_costs_nothing(tmp_path: Path) -> None:
    """An evaluation costs no dollars: that more than the cap was spent must not keep it from beginning."""
    with Journal(tmp_path) as journal:
        ledger = Ledger(Limits(evaluations=2, usd=1.0), Amounts(usd=1.5))
        verifier = NumberVerifier()
        result = run_loop(NumberProblem(), [ListPolicy(("2", "3", "4"))], [verifier], Plan(), ledger, journal)
    assert verifier.asked == ["2", "3"]
    assert result.stop_reason is StopReason.BUDGET_EVALUATIONS
    assert ledger.refusing(Amounts(usd=0.25)) == (Line.USD, False)


@pytest.mark.parametrize("step", [0.03, 0.07, 0.11, 0.13])
def test_time_that_runs_out_between_two_looks_at_the_clock_ends_the_run(tmp_path: Path, step: float) -> None:
    ticks = itertools.count()
    with Journal(tmp_path) as journal:
        ledger = Ledger(Limits(seconds=1.0), clock=lambda: step * next(ticks))
        policy = ListPolicy([str(number / 8) for number in range(8, 90)])
        result = run_loop(NumberProblem(), [policy], [NumberVerifier()], Plan(), ledger, journal)
    assert result.stop_reason is StopReason.BUDGET_SECONDS
    assert ledger.reserve(Amounts()) is None
