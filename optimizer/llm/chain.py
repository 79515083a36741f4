"""A chain that a model leads: asks it, pays for it, records it, and goes on without it when it cannot be reached."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

from optimizer.budget import Amounts, BudgetView, Reservation
from optimizer.errors import InfrastructureError, UserError
from optimizer.llm.breaker import BreakerOpen
from optimizer.llm.conversation import Question, Task, briefing_blocks, marked, next_move
from optimizer.llm.messages import CallFailed, Failure, Message, Request, Usage
from optimizer.llm.prices import Price
from optimizer.llm.record import (
    CALL,
    FALLBACK,
    PREFIX,
    PastCall,
    call_fields,
    last_sent,
    paid_calls,
    past_calls,
    prefix_fields,
)
from optimizer.llm.sender import Sender, Sent
from optimizer.llm.setup import TaskOptions, task_of
from optimizer.protocols import Policy, Proposal
from optimizer.services import Services
from optimizer.trial import Cost, Trial

BYTES_PER_TOKEN_AT_LEAST = 2
"""No prompt of ours has more tokens than its bytes over this: what is reserved for a call is its worst case."""


@dataclass(frozen=True, slots=True)
class Model:
    """Who is asked, and what that may cost."""

    name: str
    max_tokens: int
    """Of one answer, thinking included."""
    effort: str | None
    price: Price | None
    """None: costs nothing, or nobody knows; then there can be no limit in dollars."""

    def worst_case(self, size: int) -> Amounts:
        """What a call with a prompt of so many bytes costs at most."""
        prompt = math.ceil(size / BYTES_PER_TOKEN_AT_LEAST)
        usd = self.price.worst_case(prompt, self.max_tokens) if self.price else 0.0
        return Amounts(calls=1, tokens=prompt + self.max_tokens, usd=usd)

    def paid(self, usage: Usage) -> Amounts:
        """What a call with this usage did cost."""
        return Amounts(calls=1, tokens=usage.total, usd=self.price.usd(usage) if self.price else 0.0)


class ModelChain:
    """One chain of a policy that asks a model; its state is what its journal and its trials say."""

    name: ClassVar[str] = "llm"

    def __init__(
        self, services: Services, options: TaskOptions, sender: Sender, model: Model, fallback: Policy | None
    ) -> None:
        self._services, self._options = services, options
        self._sender, self._model, self._fallback = sender, model, fallback
        self._calls: list[PastCall] = past_calls(services.notes())
        self._sent = last_sent(services.notes())
        self._paid = paid_calls(services.notes())
        self._prefix = next((note["digest"] for note in reversed(services.notes()) if note["event"] == PREFIX), None)

    @cached_property
    def _task(self) -> Task:
        return task_of(self._services, self._options)

    def propose(self, problem: Any, history: Sequence[Trial], budget: BudgetView) -> Proposal:
        """The model's next proposal, after as many look-ups as it may make.

        Raises `BudgetSpent`, `RunStopped`, `UserError` for what only the user can mend, and `InfrastructureError` when
        the model cannot be reached and there is no fallback.
        """
        step, afresh = len(history), False
        while True:
            move = next_move(self._task, self._calls, history, self._others(), budget, afresh)
            if isinstance(move, Proposal):
                return replace(move, cost=self._cost_of(step))
            try:
                self._ask(move, step)
                afresh = False
            except BreakerOpen as error:
                return self._fall_back(error, problem, history, budget)
            except CallFailed as error:
                self._services.say(f"no answer from the model: {error}")
                if error.failure in (Failure.TOO_LARGE, Failure.REFUSED):
                    if afresh or len(move.messages) == 1:
                        return self._fall_back(error, problem, history, budget)
                    afresh = True

    def _others(self) -> tuple[Trial, ...]:
        return tuple(trial for trial in self._services.trials()[1:] if trial.chain != self._services.chain)

    def _cost_of(self, step: int) -> Cost:
        """What the calls for one step have cost, also those that failed."""
        costs = [cost for paid_for, cost in self._paid if paid_for == step]
        return Cost(
            sum(cost.seconds for cost in costs),
            sum(cost.calls for cost in costs),
            sum(cost.tokens for cost in costs),
            sum(cost.usd for cost in costs),
        )

    def _ask(self, question: Question, step: int) -> None:
        """Make one call, pay for it and record it. Raises `CallFailed` and what `Sender.ask` raises."""
        request = self._request(question.messages)
        self._record_prefix(request)
        reservation = self._services.reserve(self._model.worst_case(_bytes(request)))
        answered: Sent | CallFailed | None = None
        try:
            sent = replace(request, messages=marked(question.messages, len(briefing_blocks(self._task))))
            with self._services.away():
                answered = self._sender.ask(sent, self._services.say)
        except CallFailed as error:
            answered = error
            raise
        finally:
            if answered is None:
                self._services.refund(reservation)
            else:
                self._settle(reservation, request, question, step, answered)

    def _settle(
        self, reservation: Reservation, request: Request, question: Question, step: int, sent: Sent | CallFailed
    ) -> None:
        if isinstance(sent, CallFailed):
            result, used = sent, sent.usage
        else:
            result, used = sent.answer, sent.answer.usage
        paid = self._model.paid(used)
        fields = call_fields(
            step, request, self._sent, result, sent.attempts, question.is_repair, question.manifest, question.left_out
        )
        self._sent = request.messages
        self._services.settle(reservation, paid, CALL, **fields)
        seconds = 0.0 if isinstance(result, CallFailed) else result.seconds
        self._paid.append((step, Cost(seconds, paid.calls, paid.tokens, paid.usd)))
        if not isinstance(result, CallFailed):
            self._calls.append(PastCall(step, request.messages, result.content, result.outcome, question.is_repair))

    def _request(self, messages: tuple[Message, ...]) -> Request:
        briefing, without = self._task.briefing, self._task.without
        return Request(
            self._model.name,
            briefing.system(without),
            briefing.tools(without),
            messages,
            self._model.max_tokens,
            self._model.effort,
        )

    def _record_prefix(self, request: Request) -> None:
        fields = prefix_fields(request)
        if fields["digest"] != self._prefix:
            self._services.note(PREFIX, **fields)
            self._prefix = fields["digest"]

    def _fall_back(
        self, why: InfrastructureError, problem: Any, history: Sequence[Trial], budget: BudgetView
    ) -> Proposal:
        if self._fallback is None:
            raise why
        self._services.say(f"{why}; policy {self._fallback.name} proposes instead")
        self._services.note(FALLBACK, step=len(history), why=str(why))
        proposal = self._fallback.propose(problem, history, budget)
        rationale = f"without the model, by {self._fallback.name}: {proposal.rationale}"
        return replace(proposal, rationale=rationale, cost=self._cost_of(len(history)))


def check_dollars(model: Model, services: Services) -> None:
    """Raise `UserError` for a limit in dollars on a model that has no price: the limit could not be kept."""
    if services.limits.usd is not None and model.price is None:
        raise UserError(
            f"the price of model {model.name} is not known, so a limit in dollars cannot be kept: add the model to "
            "your prices.toml, or limit --calls or --tokens instead"
        )


def _bytes(request: Request) -> int:
    """Characters outside of ASCII are more bytes, and more tokens as well."""
    text = json.dumps([request.system, list(request.tools), list(request.messages)], ensure_ascii=False)
    return len(text.encode(errors="surrogatepass"))
