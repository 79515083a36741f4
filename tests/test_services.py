"""What the engine does for a policy that asks outside: the workbench, reservations of many chains, what is recorded."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optimizer.budget import Amounts, BudgetView, Ledger, Limits, Line
from optimizer.errors import InfrastructureError
from optimizer.events import BudgetShort, RunResult, Waiting
from optimizer.journal import Journal, read_events, read_record
from optimizer.loop import run_loop
from optimizer.plan import Plan, StopReason
from optimizer.protocols import Policy, Proposal
from optimizer.services import BudgetSpent, RunState, RunStopped, Services, Workbench
from optimizer.trial import Trial
from tests.fakes import NumberProblem, NumberVerifier, Watcher

NO_LIMITS = Limits()


@dataclass(frozen=True)
class Call:
    """A call that a chain makes: what it costs at most, what it costs, how long it is out, how it ends."""

    worst: Amounts
    actual: Amounts
    seconds: float = 0.0
    is_refunded: bool = False


class Spy(Ledger):
    """A ledger that checks at every change that no limit is passed."""

    def __init__(self, limits: Limits, spent: Amounts) -> None:
        super().__init__(limits, spent)
        self.passed: list[Line] = []

    def reserve(self, amount: Amounts) -> Any:
        reservation = super().reserve(amount)
        self.look()
        return reservation

    def settle(self, reservation: Any, actual: Amounts) -> None:
        super().settle(reservation, actual)
        self.look()

    def look(self) -> None:
        used = self.view().used
        for line in (Line.CALLS, Line.TOKENS, Line.EVALUATIONS, Line.USD):
            limit = getattr(self.limits, line)
            if limit is not None and getattr(used, line) > limit:
                self.passed.append(line)


@dataclass(frozen=True)
class Scripted:
    """A policy that makes given calls, each with a proposal, and notes whether anybody else computes meanwhile."""

    name: ClassVar[str] = "scripted"
    chain: int
    calls: Sequence[Call]
    computing: list[int] = field(default_factory=list[int])

    def attach(self, services: Services) -> Policy:
        return _Chain(services, self)


@dataclass(frozen=True)
class _Chain:
    name: ClassVar[str] = "scripted"
    services: Services
    script: Scripted

    def propose(self, problem: Any, history: Sequence[Trial], budget: BudgetView) -> Proposal:
        step = len(history) - 1
        if step >= len(self.script.calls):
            return Proposal(None)
        call = self.script.calls[step]
        reservation = self.services.reserve(call.worst)
        with self.services.away():
            time.sleep(call.seconds)
        assert not self.script.computing, "two chains compute at the same time"
        self.script.computing.append(self.script.chain)
        time.sleep(0.0002)
        self.script.computing.pop()
        if call.is_refunded:
            self.services.refund(reservation)
        else:
            self.services.settle(reservation, call.actual, "call", step=step)
        return Proposal(f"{self.script.chain + 1}.{step + 1}")


def run_scripts(
    directory: Path, scripts: Sequence[Sequence[Call]], limits: Limits, **plan: Any
) -> tuple[RunResult, Spy, Watcher]:
    watcher, computing = Watcher(), list[int]()
    with Journal(directory) as journal:
        ledger = Spy(limits, journal.record.spent)
        policies = [Scripted(chain, calls, computing) for chain, calls in enumerate(scripts)]
        result = run_loop(
            NumberProblem(),
            policies,
            [NumberVerifier()],
            Plan(chains=len(scripts), **plan),
            ledger,
            journal,
            watcher,
        )
    return result, ledger, watcher


def cost(tokens: int) -> Amounts:
    return Amounts(calls=1, tokens=tokens, usd=tokens / 1_000)


@st.composite
def made_calls(draw: st.DrawFn) -> Call:
    worst = draw(st.integers(1, 40))
    return Call(
        cost(worst),
        cost(draw(st.integers(0, worst))),
        draw(st.sampled_from([0.0, 0.001, 0.003])),
        draw(st.booleans()) and draw(st.booleans()),
    )


limits = st.builds(
    Limits,
    calls=st.none() | st.integers(1, 12),
    tokens=st.none() | st.integers(10, 150),
    usd=st.none() | st.floats(0.01, 0.2),
    evaluations=st.none() | st.integers(1, 15),
)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(made_calls(), max_size=4), min_size=1, max_size=6), limits)
def test_whatever_chains_ask_no_limit_is_ever_passed_and_nothing_paid_is_lost(
    scripts: Sequence[Sequence[Call]], limits: Limits
) -> None:
    with TemporaryDirectory() as folder:
        result, ledger, _ = run_scripts(Path(folder), scripts, limits)
        events, record = read_events(Path(folder)), read_record(Path(folder))
    assert ledger.passed == []
    calls = [event for event in events if event["event"] == "call"]
    assert len(calls) == result.used.calls
    assert sum(event["amount"]["tokens"] for event in calls) == result.used.tokens == record.spent.tokens
    assert sum(event["amount"]["usd"] for event in calls) == pytest.approx(result.used.usd)
    assert record.unsettled == {}
    assert record.spent.evaluations == result.used.evaluations == len(result.trials) - 1 - repeated(result)
    if limits == NO_LIMITS:
        assert len(result.trials) - 1 == sum(map(len, scripts))


def repeated(result: RunResult) -> int:
    return sum(trial.outcome == "duplicate" for trial in result.trials)


def test_a_chain_waits_for_what_others_may_give_back(tmp_path: Path) -> None:
    """Both can pay, but not their worst cases together: the second waits for the first."""
    call = Call(Amounts(tokens=80), Amounts(tokens=10), 0.05)
    result, ledger, _ = run_scripts(tmp_path, [[call], [call], [call]], Limits(tokens=100))
    assert len(result.trials) == 4
    assert result.used.tokens == 30
    assert ledger.passed == []


def test_a_chain_that_can_never_pay_stops_and_the_others_go_on(tmp_path: Path) -> None:
    poor, fine = Call(Amounts(tokens=500), Amounts(tokens=1)), Call(Amounts(tokens=20), Amounts(tokens=20))
    result, _, _ = run_scripts(tmp_path, [[poor], [fine, fine, fine]], Limits(tokens=100))
    assert result.chain_stops == (StopReason.BUDGET_TOKENS, StopReason.GIVEN_UP)
    assert result.used.tokens == 60


def test_three_quarters_of_a_line_are_warned_of_once(tmp_path: Path) -> None:
    call = Call(Amounts(tokens=20), Amounts(tokens=20))
    _, _, watcher = run_scripts(tmp_path, [[call] * 5], Limits(tokens=100))
    assert [event.line for event in watcher.events if isinstance(event, BudgetShort)] == [Line.TOKENS]


def services(directory: Path, journal: Journal, limits: Limits = NO_LIMITS, **changes: Any) -> tuple[Services, Watcher]:
    watcher = Watcher()
    state = RunState(
        problem=NumberProblem(),
        verifiers=changes.get("verifiers", ()),
        ledger=Ledger(limits, journal.record.spent),
        journal=journal,
        observer=watcher,
        workbench=Workbench(),
        stopping=threading.Event(),
        trials=[],
        shared={},
    )
    return Services(changes.get("chain", 0), state), watcher


def test_nothing_is_reserved_once_the_run_ends(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        given_services, _ = services(tmp_path, journal)
        given_services.stopping.set()
        with pytest.raises(RunStopped):
            given_services.reserve(Amounts(calls=1))
    assert read_events(tmp_path) == []


def test_a_chain_that_waits_for_budget_is_woken_by_the_end_of_the_run(tmp_path: Path) -> None:
    ended: list[BaseException] = []
    with Journal(tmp_path) as journal:
        given_services, _ = services(tmp_path, journal, Limits(calls=1))
        first = given_services.reserve(Amounts(calls=1))

        def wait() -> None:
            try:
                with given_services.run.workbench.held():
                    given_services.reserve(Amounts(calls=1))
            except RunStopped as error:
                ended.append(error)

        thread = threading.Thread(target=wait)
        thread.start()
        time.sleep(0.05)
        assert thread.is_alive()
        given_services.stopping.set()
        thread.join(5)
        given_services.refund(first)
    assert len(ended) == 1


def test_too_much_for_the_budget_is_told_by_its_line(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        given_services, _ = services(tmp_path, journal, Limits(usd=0.5))
        with pytest.raises(BudgetSpent) as raised:
            given_services.reserve(Amounts(calls=1, usd=0.6))
    assert raised.value.line is Line.USD


@dataclass
class Knowing(NumberVerifier):
    """A verifier that measures facts beforehand, and counts how often."""

    told: int = 0
    failures_of_facts: int = 0

    def facts(self, problem: Any) -> Mapping[str, Any]:
        self.told += 1
        if self.told <= self.failures_of_facts:
            raise InfrastructureError("no clock")
        return {"baseline_seconds": 0.25}


def test_facts_are_measured_once_a_run_and_kept_for_the_next_sitting(tmp_path: Path) -> None:
    knowing = Knowing()
    with Journal(tmp_path) as journal:
        first, _ = services(tmp_path, journal, verifiers=[knowing])
        assert first.facts() == first.facts() == {"baseline_seconds": 0.25}
    with Journal(tmp_path) as journal:
        later, _ = services(tmp_path, journal, verifiers=[knowing], chain=3)
        assert later.facts() == {"baseline_seconds": 0.25}
    assert knowing.told == 1


def test_facts_that_could_not_be_measured_are_asked_for_again(tmp_path: Path) -> None:
    knowing = Knowing(failures_of_facts=1)
    with Journal(tmp_path) as journal:
        given_services, _ = services(tmp_path, journal, verifiers=[knowing])
        with pytest.raises(InfrastructureError):
            given_services.facts()
        assert given_services.facts() == {"baseline_seconds": 0.25}


def test_notes_are_of_one_chain_and_shared_things_are_made_once(tmp_path: Path) -> None:
    made: list[int] = []
    with Journal(tmp_path) as journal:
        one, watcher = services(tmp_path, journal)
        other = Services(1, one.run)
        one.note("thought", text="a")
        other.note("thought", text="b")
        for given_services in (one, other):
            given_services.shared("connection", lambda: made.append(1))
        one.say("waiting for something")
    assert made == [1]
    assert [event.reason for event in watcher.events if isinstance(event, Waiting)] == [
        "chain 0: waiting for something"
    ]
    with Journal(tmp_path) as journal:
        again, _ = services(tmp_path, journal, chain=1)
        assert [note["text"] for note in again.notes()] == ["b"]


def test_what_chains_share_is_closed_when_the_run_ends(tmp_path: Path) -> None:
    closed: list[str] = []

    class Connection:
        def close(self) -> None:
            closed.append("closed")

    @dataclass(frozen=True)
    class Connected:
        name: ClassVar[str] = "connected"

        def attach(self, services: Services) -> Policy:
            services.shared("connection", Connection)
            return _Chain(services, Scripted(0, ()))

    with Journal(tmp_path) as journal:
        run_loop(
            NumberProblem(), [Connected(), Connected()], [NumberVerifier()], Plan(chains=2), Ledger(Limits()), journal
        )
    assert closed == ["closed"]
