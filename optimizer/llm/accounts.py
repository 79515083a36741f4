"""What a run's model calls cost and what came of them, computed from the journal alone.

Shares of proposals count what the model proposed: steps of the fallback policy are told apart.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import mean, median
from typing import Any

from optimizer.budget import Amounts
from optimizer.closed_loop import Share, Tally, tally_of
from optimizer.llm.growth import Growth, growth_of
from optimizer.llm.messages import Outcome, Usage
from optimizer.llm.shares import Kind, kind_of
from optimizer.llm.trace import Call, Event, RunTrace, Step, trace_of
from optimizer.trial import Trial
from optimizer.verdict import Status
from optimizer.wording import seconds_text

EARLY, LAST_STEPS = range(10, 21), 10
"""Steps whose prompts are compared with those of the last steps."""
MOST_ROWS = 10
"""Of the table of steps."""
REPAIR_ROUNDS = (0, 1, 3)
"""After how many further attempts the chance of an accepted proposal is told."""


@dataclass(frozen=True, slots=True)
class StepAccount:
    """One step number over all chains."""

    step: int
    kinds: Mapping[Kind, int]
    """Proposals of the model."""
    prompts: tuple[int, ...]
    """Prompt tokens of all calls of the step, one number a chain that the model leads: 0 where an answer before had
    asked for several steps."""

    @property
    def prompt_tokens(self) -> float | None:
        """The mean over the chains that the model leads; None without one."""
        return mean(self.prompts) if self.prompts else None


@dataclass(frozen=True, slots=True)
class Accounts:
    """All figures of a run. `usage` is of answers; `charged` also counts those that broke off or never came."""

    models: tuple[str, ...]
    calls: int
    failures: Mapping[str, int]
    attempts: int
    """Requests over the network, repeated ones included."""
    retries: int
    refusals: int
    repair_turns: int
    lost: int
    """Calls that were out when the process died: charged at their worst case."""
    in_flight: int
    """Calls that are out, or were out when the process died and the run was not resumed: in `charged` as well."""
    fallback_steps: int
    usage: Usage
    charged: Amounts
    waited: float
    """Seconds between requests and answers, added over all chains."""
    latency_median: float | None
    latency_p90: float | None
    kinds: Mapping[Kind, int]
    """Judged proposals of the model (of the policy, in a run without a model)."""
    tally: Tally
    """The same proposals without those that the harness failed to judge: how often one is accepted, or tried again."""
    outcomes: Mapping[str, int]
    steps: tuple[StepAccount, ...]
    growth: Growth | None
    """None when no chain made two calls before its first compaction."""

    @property
    def proposals(self) -> int:
        return sum(self.kinds.values())

    def share(self, kind: Kind) -> Share:
        return Share(self.kinds[kind], self.proposals)

    @property
    def cache_share(self) -> float | None:
        """The share of prompt tokens that was read from the cache; None without prompt tokens."""
        return self.usage.cache_read / self.usage.prompt if self.usage.prompt else None

    @property
    def tokens_per_accepted(self) -> float | None:
        """All tokens charged for, over the accepted proposals of the model; None without one."""
        return self._per_accepted(self.charged.tokens)

    @property
    def usd_per_accepted(self) -> float | None:
        """The same of dollars."""
        return self._per_accepted(self.charged.usd)

    def _per_accepted(self, charged: float) -> float | None:
        """Of what was charged; that is the cost of a proposal over the chance that one is accepted."""
        loop = self.tally.loop()
        if not self.calls or loop is None or not loop.accepted:
            return None
        return loop.cost_per_accepted(charged / self.tally.share.total)

    @property
    def late_over_early(self) -> float | None:
        """Prompt tokens a step, the last 10 steps over steps 10 to 20; None when these overlap."""
        asked = [(row.step, tokens) for row in self.steps if (tokens := row.prompt_tokens) is not None]
        late = [tokens for step, tokens in asked[-LAST_STEPS:] if step not in EARLY]
        early = [tokens for step, tokens in asked if step in EARLY]
        if len(late) < LAST_STEPS or len(early) < len(EARLY) or not mean(early):
            return None
        return mean(late) / mean(early)

    def to_json(self) -> dict[str, Any]:
        """Every figure by its name, as JSON."""
        shares = {kind.value: self.share(kind) for kind in Kind}
        return {
            "models": list(self.models),
            "calls": self.calls,
            "failures": dict(self.failures),
            "attempts": self.attempts,
            "retries": self.retries,
            "refusals": self.refusals,
            "repair_turns": self.repair_turns,
            "lost": self.lost,
            "in_flight": self.in_flight,
            "fallback_steps": self.fallback_steps,
            "usage": asdict(self.usage),
            "charged": asdict(self.charged),
            "seconds_waited": self.waited,
            "latency_median": self.latency_median,
            "latency_p90": self.latency_p90,
            "cache_share": self.cache_share,
            "proposals": self.proposals,
            "shares": {
                name: {"count": share.count, "share": share.value, "interval": share.interval}
                for name, share in shares.items()
            },
            "acceptance_in_a_loop": self._acceptance_in_a_loop(),
            "outcomes": dict(self.outcomes),
            "tokens_per_accepted": self.tokens_per_accepted,
            "usd_per_accepted": self.usd_per_accepted,
            "growth": asdict(self.growth) if self.growth else None,
            "late_over_early": self.late_over_early,
            "steps": [
                {"step": row.step, "prompt_tokens": row.prompt_tokens, **{kind.value: row.kinds[kind] for kind in Kind}}
                for row in self.steps
            ],
        }

    def _acceptance_in_a_loop(self) -> dict[str, float]:
        """By repair rounds, the chance to end with an accepted proposal; empty without a proposal."""
        loops = {rounds: self.tally.loop(rounds) for rounds in REPAIR_ROUNDS}
        return {str(rounds): loop.acceptance for rounds, loop in loops.items() if loop}

    def lines(self) -> list[str]:
        """The same for people; empty when nothing was proposed and no model asked."""
        lines = [*self._model_lines(), *self._proposal_lines()]
        return [*lines, *_table(self.steps)] if self.calls and self.proposals else lines

    def _model_lines(self) -> Iterator[str]:
        if not self.calls and not self.lost and not self.in_flight:
            return
        kinds = ", ".join(f"{count} {kind}" for kind, count in self.failures.items())
        told = [
            f"  calls      {self.calls} of {', '.join(self.models) or 'the model'}",
            f"{sum(self.failures.values())} failed ({kinds})" if kinds else "",
            f"{self.retries} sent again" if self.retries else "",
            f"{self.lost} lost" if self.lost else "",
            f"{self.in_flight} not answered yet" if self.in_flight else "",
        ]
        yield "; ".join(part for part in told if part)
        odd = [
            f"{self.refusals} refused" if self.refusals else "",
            f"{self.repair_turns} to repair an answer" if self.repair_turns else "",
            f"{self.fallback_steps} by the fallback policy" if self.fallback_steps else "",
        ]
        if any(odd):
            yield f"  turns      {', '.join(part for part in odd if part)}"
        if self.latency_median is not None and self.latency_p90 is not None:
            each = f"median {seconds_text(self.latency_median)}, 90% within {seconds_text(self.latency_p90)}"
            yield f"  waited     {seconds_text(self.waited)} for answers; {each}"
        if self.usage.total:
            cached = f" ({self.cache_share:.0%} from the cache)" if self.cache_share is not None else ""
            yield f"  tokens     {self.usage.prompt:,} read{cached}, {self.usage.output:,} written"
        yield f"  charged    {self.charged.tokens:,} tokens, {usd_text(self.charged.usd)}"
        if self.growth and self.growth.compactions:
            times = "once" if self.growth.compactions == 1 else f"{self.growth.compactions} times"
            yield f"  context    made shorter {times}; without that, about {self.growth.without:,.0f} tokens read"
        if self.late_over_early is not None:
            yield f"  prompts    the last 10 steps read {self.late_over_early:.2f} times what steps 10 to 20 did"

    def _proposal_lines(self) -> Iterator[str]:
        if not self.proposals:
            return
        shares = [f"{share.count} {kind}{_share_text(share)}" for kind in Kind if (share := self.share(kind)).count]
        yield f"  proposals  {self.proposals}: {', '.join(shares)}"
        if self.tally.accepted and self.tally.rejected:
            at_once, *later = self._acceptance_in_a_loop().items()
            more = ", ".join(f"{chance:.0%} within {rounds} more" for rounds, chance in later)
            yield f"  in a loop  {at_once[1]:.0%} accepted at the first attempt, {more}"
        if self.tokens_per_accepted is not None and self.usd_per_accepted is not None:
            yield f"  accepted   at {self.tokens_per_accepted:,.0f} tokens and {usd_text(self.usd_per_accepted)} each"


def accounts_of(events: Sequence[Event]) -> Accounts:
    """The accounts of a run, from the events of its journal. Raises `UserError` when the journal is damaged."""
    return accounts_of_trace(trace_of(events))


def accounts_of_trace(run: RunTrace) -> Accounts:
    """The same from a run that is folded already."""
    calls = run.calls
    trials = [step.trial for step in run.steps if step.trial and step.fallback is None]
    latencies = sorted(call.answer.seconds for call in calls if call.answer)
    lost = [flight for chain in run.chains for flight in chain.lost]
    in_flight = [flight for chain in run.chains for flight in chain.in_flight]
    charged = Amounts()
    for amount in [*(call.charged for call in calls), *(flight.amount for flight in [*lost, *in_flight])]:
        charged = charged.plus(amount)
    return Accounts(
        models=tuple(dict.fromkeys(call.answer.model if call.answer else call.model for call in calls)),
        calls=len(calls),
        failures=dict(Counter(call.failure.value for call in calls if call.failure).most_common()),
        attempts=sum(call.attempts for call in calls),
        retries=sum(max(0, call.attempts - 1) for call in calls),
        refusals=sum(call.answer is not None and call.answer.outcome is Outcome.REFUSAL for call in calls),
        repair_turns=sum(call.is_repair for call in calls),
        lost=len(lost),
        in_flight=len(in_flight),
        fallback_steps=sum(step.fallback is not None for step in run.steps),
        usage=_usage_of(calls),
        charged=charged,
        waited=sum(latencies),
        latency_median=median(latencies) if latencies else None,
        latency_p90=latencies[math.ceil(0.9 * len(latencies)) - 1] if latencies else None,
        kinds=_kinds_of(trials),
        tally=_tally_of(run),
        outcomes=dict(Counter(trial.outcome for trial in trials).most_common()),
        steps=_step_accounts(run),
        growth=growth_of([chain.calls for chain in run.chains]),
    )


def usd_text(usd: float) -> str:
    """Dollars, with as many digits as small sums need."""
    if usd == 0 or usd >= 0.1:
        return f"${usd:,.2f}"
    return f"${usd:.3g}" if usd >= 0.0001 else "less than $0.0001"


def _usage_of(calls: Sequence[Call]) -> Usage:
    usage = Usage()
    for call in calls:
        usage = usage.plus(call.answer.usage) if call.answer else usage
    return usage


def _kinds_of(trials: Sequence[Trial]) -> dict[Kind, int]:
    counts = Counter(kind_of(trial) for trial in trials)
    return {kind: counts[kind] for kind in Kind}


def _tally_of(run: RunTrace) -> Tally:
    tally = Tally()
    for chain in run.chains:
        trials = [step.trial for step in chain.steps if step.trial and step.fallback is None]
        judged = [trial.status is Status.OK for trial in trials if trial.status is not Status.ERROR]
        tally = tally.plus(tally_of(judged))
    return tally


def _step_accounts(run: RunTrace) -> tuple[StepAccount, ...]:
    by_number: dict[int, list[tuple[Step, bool]]] = {}
    for chain in run.chains:
        for step in chain.steps:
            is_led = bool(chain.calls) and bool(step.trial) and step.fallback is None
            by_number.setdefault(step.number, []).append((step, is_led or any(call.answer for call in step.calls)))
    return tuple(
        StepAccount(
            number,
            _kinds_of([step.trial for step, _ in same if step.trial and step.fallback is None]),
            tuple(_usage_of(step.calls).prompt for step, is_led in same if is_led),
        )
        for number, same in sorted(by_number.items())
    )


def _share_text(share: Share) -> str:
    if share.value is None or share.interval is None:
        return ""
    low, high = share.interval
    return f" ({share.value:.0%}, {low:.0%} to {high:.0%})"


def _table(steps: Sequence[StepAccount]) -> Iterator[str]:
    """Shares and prompt tokens over the steps, at most ten rows."""
    width = math.ceil(len(steps) / MOST_ROWS)
    yield f"  {'steps':<9}{'proposals':>11}" + "".join(f"{kind:>11}" for kind in Kind) + f"{'read a step':>13}"
    for start in range(0, len(steps), width):
        rows = steps[start : start + width]
        counts = {kind: sum(row.kinds[kind] for row in rows) for kind in Kind}
        total = sum(counts.values())
        cells = "".join(f"{counts[kind] / total:>11.0%}" if total else f"{'-':>11}" for kind in Kind)
        prompts = [prompt for row in rows for prompt in row.prompts]
        read = f"{mean(prompts):,.0f}" if prompts else "-"
        name = f"{rows[0].step}" if len(rows) == 1 else f"{rows[0].step} to {rows[-1].step}"
        yield f"  {name:<9}{total:>11}{cells}{read:>13}"
