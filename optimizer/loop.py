"""The loop: chains of proposals, judged one by one under a budget; then the best few compared.

It knows nothing of what is optimized. All that it decides follows from the journal, so a run that was cut off at any
point goes on as if nothing had happened.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from optimizer.budget import Amounts, Ledger, Line, Reservation
from optimizer.candidate import Candidate
from optimizer.errors import InfrastructureError
from optimizer.events import (
    ChainStopped,
    ComparisonStarted,
    FinalistsMeasured,
    Observer,
    RunFinished,
    RunResult,
    RunStarted,
    Silent,
    TrialFinished,
    TrialStarted,
    Waiting,
)
from optimizer.journal import Journal, JournalFailed, check_order
from optimizer.judging import feedback_of, judge, malformed_answer, read_candidate
from optimizer.plan import Plan, StopReason
from optimizer.protocols import Attachable, Comparer, Policy, Problem, Proposal, Verifier
from optimizer.selection import Finalist, finalists_of, select
from optimizer.services import BudgetSpent, RunState, Workbench, warn_of_budget
from optimizer.trial import Trial
from optimizer.turns import Turn, Turns
from optimizer.verdict import Measurement, Reason, Status, Verdict

BASELINE = Verdict(Status.OK, "baseline", assurance="the original", measurement=Measurement(1.0, (1.0, 1.0), 0))

ONE_EVALUATION = Amounts(evaluations=1)


def run_loop(
    problem: Problem,
    policies: Sequence[Policy | Attachable],
    verifiers: Sequence[Verifier],
    plan: Plan,
    ledger: Ledger,
    journal: Journal,
    observer: Observer | None = None,
) -> RunResult:
    """Run, or go on with, what `journal` records; `policies` has one policy a chain, `verifiers` the cheapest first.

    An interrupt (`KeyboardInterrupt`) ends the run with everything saved. Raises `InfrastructureError` when not even
    the baseline can be judged.
    """
    observer = observer or Silent()
    record = journal.record
    check_order(record)
    observer.notify(RunStarted(problem.name, plan, ledger.limits, _warnings(plan, ledger), len(record.trials)))
    search = _Search(problem, policies, verifiers, plan, ledger, journal, observer)
    search.ensure_baseline()
    finalists = record.finalists
    if record.stop_reason is not None and record.stop_reason.is_final:
        stop_reason, chain_stops = record.stop_reason, record.chain_stops
    else:
        try:
            stop_reason = search.run()
            if stop_reason.is_final and finalists is None:
                finalists = _compare(problem, search.trials, verifiers, plan, journal, observer)
        except KeyboardInterrupt:
            stop_reason = StopReason.INTERRUPTED
        except _ComparisonFailed as error:
            observer.notify(Waiting(str(error)))
            stop_reason = StopReason.INFRASTRUCTURE_ERRORS
        chain_stops = tuple(stop or stop_reason for stop in search.stops)
        journal.finished(stop_reason, chain_stops, ledger.used())
    result = RunResult(
        trials=tuple(search.trials),
        selection=select(search.trials, plan.finalists, finalists),
        finalists=finalists or (),
        stop_reason=stop_reason,
        chain_stops=chain_stops,
        used=ledger.used(),
    )
    observer.notify(RunFinished(result))
    return result


class _ComparisonFailed(InfrastructureError):
    """The finalists could not be measured again, twice."""


class _Search:
    """The state of the chains, which is a function of the journal's record."""

    def __init__(
        self,
        problem: Problem,
        policies: Sequence[Policy | Attachable],
        verifiers: Sequence[Verifier],
        plan: Plan,
        ledger: Ledger,
        journal: Journal,
        observer: Observer,
    ) -> None:
        if len(policies) != plan.chains:
            raise ValueError(f"{plan.chains} chains need as many policies, not {len(policies)}")
        self.problem, self.verifiers = problem, verifiers
        self.plan, self.ledger, self.journal, self.observer = plan, ledger, journal, observer
        self.trials: list[Trial] = []
        self.stops: list[StopReason | None] = [None] * plan.chains
        self._histories: list[list[Trial]] = [[] for _ in range(plan.chains)]
        self._best: list[float | None] = [None] * plan.chains
        self._steps_since_best = [0] * plan.chains
        self._judged: dict[str, int] = {}
        self._target_reached = False
        self._errors_in_a_row = 0
        self._pending = dict(journal.record.pending)
        for trial in journal.record.trials:
            self._take(trial)
        self._errors_in_a_row = 0
        for number, (chain, amount) in journal.record.unsettled.items():
            journal.settled(chain, number, amount, "lost")
        state = RunState(problem, verifiers, ledger, journal, observer, Workbench(), threading.Event(), self.trials, {})
        self._turns = Turns(policies, state)

    def ensure_baseline(self) -> None:
        """Trial 0 is the baseline; it costs no evaluation."""
        if self.trials:
            return
        candidate = self.problem.baseline
        if self.problem.baseline_is_unit:
            verdicts: tuple[Verdict, ...] = (BASELINE,)
        else:
            verdicts = judge(self.problem, candidate, self.verifiers)
        trial = Trial(0, 0, 0, candidate, verdicts, feedback_of(verdicts), when=time.time())
        if trial.status is Status.ERROR:
            raise InfrastructureError(f"the baseline could not be judged: {verdicts[-1].detail}")
        self._record(trial)

    def run(self) -> StopReason:
        """Step after step until the run or its last chain stops.

        Chains take turns; where their policies ask somebody outside, all ask at once, and answers are judged one by
        one as they come.
        """
        with self._turns:
            while True:
                if self._target_reached:
                    return StopReason.TARGET_REACHED
                if self._errors_in_a_row >= self.plan.max_consecutive_errors:
                    return StopReason.INFRASTRUCTURE_ERRORS
                line = self._ask()
                if not self._turns.open:
                    return StopReason(f"budget_{line}") if line else self._last_stop()
                self._finish(self._turns.next_answered())

    def _ask(self) -> Line | None:
        """Ask chains that wait for nothing, those with the fewest steps first; the line of the budget that ends it."""
        while self._turns.has_room:
            free = [chain for chain, stop in enumerate(self.stops) if stop is None and chain not in self._turns.chains]
            if not free:
                return None
            view = self.ledger.view()
            reservation = self.ledger.reserve(ONE_EVALUATION)
            if reservation is None:
                return self.ledger.refusing(ONE_EVALUATION)[0]
            chain = min(free, key=self._steps_of)
            place = chain, self._steps_of(chain) + 1
            history, known = tuple(self._histories[chain]), self._pending.pop(place, None)
            self._turns.begin(*place, history, view, reservation, known)
        return None

    def _steps_of(self, chain: int) -> int:
        return len(self._histories[chain]) - 1

    def _last_stop(self) -> StopReason:
        chain = max(range(self.plan.chains), key=lambda chain: (self._steps_of(chain), chain))
        return self.stops[chain] or StopReason.STEPS_DONE

    def _finish(self, turn: Turn) -> None:
        """Record what a chain proposed, judge it and record that."""
        proposal = self._proposed(turn)
        if proposal is None or proposal.text is None:
            self.ledger.refund(turn.reservation)
            if proposal is not None:
                self._stop(turn.chain, proposal.stop)
            return
        number = len(self.trials)
        candidate, rejection = self._read(proposal.text, proposal.malformed)
        self.observer.notify(TrialStarted(number, turn.chain, turn.step, candidate))
        started = time.perf_counter()
        verdicts = self._judge(candidate, rejection, turn.reservation)
        seconds = proposal.cost.seconds + time.perf_counter() - started
        trial = Trial(
            number=number,
            chain=turn.chain,
            step=turn.step,
            candidate=candidate,
            verdicts=verdicts,
            feedback=feedback_of(verdicts),
            rationale=proposal.rationale,
            cost=replace(proposal.cost, seconds=seconds),
            when=time.time(),
        )
        self._record(trial)

    def _proposed(self, turn: Turn) -> Proposal | None:
        """The turn's proposal, recorded; None when its policy could not answer."""
        try:
            proposal = turn.answer.result()
        except JournalFailed:
            raise
        except InfrastructureError as error:
            self._errors_in_a_row += 1
            self.observer.notify(Waiting(f"the policy of chain {turn.chain} could not answer: {error}"))
            return None
        except BudgetSpent as error:
            self.observer.notify(Waiting(f"chain {turn.chain} cannot go on: {error}"))
            self._stop(turn.chain, StopReason(f"budget_{error.line}"))
            return None
        if not turn.is_recorded:
            self.journal.proposal(turn.chain, turn.step, proposal)
        return proposal

    def _read(self, text: str, malformed: str) -> tuple[Candidate, Verdict | None]:
        if malformed:
            return malformed_answer(text, malformed)
        return read_candidate(self.problem, text)

    def _judge(self, candidate: Candidate, rejection: Verdict | None, reservation: Reservation) -> tuple[Verdict, ...]:
        """The verdicts. A duplicate costs no evaluation, and neither does one that the harness failed to judge."""
        earlier = self._judged.get(candidate.digest)
        if earlier is not None:
            self.ledger.refund(reservation)
            return (_duplicate(self.trials[earlier]),)
        verdicts: tuple[Verdict, ...] = ()
        try:
            verdicts = (rejection,) if rejection else judge(self.problem, candidate, self.verifiers)
        finally:
            if verdicts and verdicts[-1].status is not Status.ERROR:
                self.ledger.settle(reservation, ONE_EVALUATION)
            else:
                self.ledger.refund(reservation)
        return verdicts

    def _record(self, trial: Trial) -> None:
        self.journal.trial(trial, self.ledger.used())
        self.observer.notify(TrialFinished(trial, self.ledger.view()))
        warn_of_budget(self.ledger, self.observer)
        self._take(trial)

    def _take(self, trial: Trial) -> None:
        """Everything that a new trial changes, whether it was judged now or read from the journal."""
        self.trials.append(trial)
        if trial.status is Status.ERROR:
            self._errors_in_a_row += 1
        else:
            self._errors_in_a_row = 0
            self._judged.setdefault(trial.candidate.digest, trial.number)
        if trial.score is not None and self.plan.target is not None and trial.score >= self.plan.target:
            self._target_reached = True
        if trial.number == 0:
            self._histories = [[trial] for _ in range(self.plan.chains)]
            self._best = [trial.score] * self.plan.chains
        else:
            self._advance(trial)

    def _advance(self, trial: Trial) -> None:
        chain = trial.chain
        self._histories[chain].append(trial)
        best = self._best[chain]
        if trial.score is not None and (best is None or trial.score > best):
            self._best[chain] = trial.score
            self._steps_since_best[chain] = 0
        else:
            self._steps_since_best[chain] += 1
        if trial.step >= self.plan.steps:
            self._stop(chain, StopReason.STEPS_DONE)
        elif self.plan.patience is not None and self._steps_since_best[chain] >= self.plan.patience:
            self._stop(chain, StopReason.NO_PROGRESS)

    def _stop(self, chain: int, reason: StopReason) -> None:
        self.stops[chain] = reason
        self.observer.notify(ChainStopped(chain, reason))


def _compare(
    problem: Any,
    trials: Sequence[Trial],
    verifiers: Sequence[Verifier],
    plan: Plan,
    journal: Journal,
    observer: Observer,
) -> tuple[Finalist, ...] | None:
    """Measure the best few again; None when no verifier can compare or nothing is better than the baseline."""
    # The last one knows what those before it know, and more.
    comparer = next((verifier for verifier in reversed(verifiers) if isinstance(verifier, Comparer)), None)
    best = finalists_of(trials, plan.finalists)
    if comparer is None or not best:
        return None
    observer.notify(ComparisonStarted(tuple(trial.number for trial in best)))
    candidates = [trial.candidate for trial in best]
    try:
        answers = comparer.compare(problem, candidates)
    except InfrastructureError:
        try:
            answers = comparer.compare(problem, candidates)
        except InfrastructureError as error:
            raise _ComparisonFailed(f"the finalists could not be measured again: {error}") from error
    finalists = tuple(Finalist(trial.number, answer) for trial, answer in zip(best, answers, strict=True))
    journal.finalists(finalists)
    observer.notify(FinalistsMeasured(finalists))
    return finalists


def _duplicate(earlier: Trial) -> Verdict:
    said = "the untouched original" if earlier.number == 0 else f"trial {earlier.number}"
    score = "" if earlier.score is None else f", score {earlier.score:.4g}"
    detail = f"the same candidate as {said} ({earlier.outcome}{score}): propose another one"
    return Verdict(Status.REJECTED, "loop", Reason.DUPLICATE, detail, witness={"trial": earlier.number})


def _warnings(plan: Plan, ledger: Ledger) -> tuple[str, ...]:
    warning = ledger.limits.warning(plan.chains * plan.steps)
    return (warning,) if warning else ()
