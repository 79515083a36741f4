"""What a run's model calls will cost, before any is made."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from optimizer.budget import Limits
from optimizer.errors import UserError
from optimizer.llm.briefing import Grounding, briefing_of, estimated_tokens
from optimizer.llm.chain import Model
from optimizer.llm.messages import Usage
from optimizer.llm.prices import price_of
from optimizer.policies.llm import Llm
from optimizer.registry import make_policy, make_problem
from optimizer.run import RunSpecification

CALLS_PER_PROPOSAL = 1.5
"""Every other proposal is preceded by a look-up: an assumption, as are the next two."""
ANSWER_TOKENS = 800
"""Of a usual answer, thinking included."""
TURN_TOKENS = 400
"""By which a usual turn makes the conversation longer."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A usual run under the assumptions above, and the most that the limits allow."""

    model: str
    prefix_tokens: int
    """That every call begins with: instructions, tools and the task."""
    proposals: int
    calls: int
    usage: Usage
    usd: float | None
    """None when the model has no known price."""
    calls_at_most: int
    tokens_at_most: int
    usd_at_most: float | None
    warnings: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def lines(self) -> Iterator[str]:
        """For people."""
        usd = "unknown" if self.usd is None else f"{self.usd:.3g} USD"
        most = "unknown" if self.usd_at_most is None else f"{self.usd_at_most:.3g} USD"
        used = self.usage
        yield f"model {self.model}: {self.prefix_tokens} tokens of instructions, tools and task before each call"
        yield (
            f"usual: {self.proposals} proposals, {self.calls} calls, {used.prompt} tokens read "
            f"({used.cache_read} of them from the cache), {used.output} written: {usd}"
        )
        limited = "(--usd, --calls and --tokens limit it)"
        yield f"at most: {self.calls_at_most} calls, {self.tokens_at_most} tokens: {most} {limited}"
        yield from (f"warning: {warning}" for warning in self.warnings)


def estimate(specification: RunSpecification) -> Estimate:
    """Estimate a run of policy `llm`, without measuring or asking. Raises `UserError` for another policy."""
    plan, limits = specification.plan, specification.limits
    policy = make_policy(specification.policy, specification.policy_options, plan.seed, 0)
    if not isinstance(policy, Llm):
        raise UserError(f"policy {specification.policy} calls no model: there is nothing to estimate")
    briefing = briefing_of(make_problem(specification.problem))
    without = frozenset(Grounding(part) for part in policy.without)
    shown = [
        briefing.system(without),
        json.dumps(list(briefing.tools(without))),
        *(part.text for part in briefing.parts(without)),
    ]
    prefix = sum(map(estimated_tokens, shown))
    proposals = min(limits.evaluations or math.inf, plan.chains * plan.steps)
    proposals = int(proposals)
    model = Model(policy.model, policy.max_tokens, policy.effort, price_of(policy.model))
    calls = min(math.ceil(CALLS_PER_PROPOSAL * proposals), limits.calls or math.inf)
    usage = _usual(int(calls), plan.chains, prefix, policy.context)
    calls_at_most = int(min(policy.calls_per_step * plan.chains * plan.steps, limits.calls or math.inf))
    # Twice the context: a summary and the turns after it.
    worst = model.worst_case(2 * (prefix + 2 * policy.context))
    dollars = model.price is not None
    return Estimate(
        model=policy.model,
        prefix_tokens=prefix,
        proposals=proposals,
        calls=int(calls),
        usage=usage,
        usd=min(model.paid(usage).usd, limits.usd or math.inf) if dollars else None,
        calls_at_most=calls_at_most,
        tokens_at_most=int(min(calls_at_most * worst.tokens, limits.tokens or math.inf)),
        usd_at_most=min(calls_at_most * worst.usd, limits.usd or math.inf) if dollars else None,
        warnings=tuple(_warnings(limits, proposals, model)),
    )


def _usual(calls: int, chains: int, prefix: int, context: int) -> Usage:
    """Each chain reads the prefix and its turns from the cache, writes what is new, and starts anew when it is long."""
    per_chain = math.ceil(calls / chains)
    turns = [(number * TURN_TOKENS) % context for number in range(per_chain)]
    read = chains * sum(prefix + turn for turn in turns) - prefix
    written = prefix + chains * per_chain * TURN_TOKENS
    return Usage(0, calls * ANSWER_TOKENS, written, max(0, read))


def _warnings(limits: Limits, proposals: int, model: Model) -> Iterator[str]:
    few = limits.warning(proposals)
    if few:
        yield few
    if limits.usd is not None and model.price is None:
        yield f"the price of {model.name} is not known: a run with a limit in dollars is refused"
