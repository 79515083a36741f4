"""What happened in a run, as a tree: run > chain > step > calls of the model and the trial with its verdicts.

It is a fold of the journal's events and can be made while the run still goes on. Runs of policies that ask no model
have the same tree, without calls.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from optimizer.budget import Amounts
from optimizer.errors import UserError
from optimizer.llm.messages import Answer, Block, Failure, Message, Outcome, Usage
from optimizer.plan import StopReason
from optimizer.protocols import Proposal
from optimizer.trial import Trial
from optimizer.trial_json import proposal_from_json, trial_from_json

Event = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a prompt that the model saw, or that was left out."""

    name: str
    tokens: int
    why: str = ""
    """Why it was left out."""


@dataclass(frozen=True, slots=True)
class ToolUse:
    """A tool that an answer asks for."""

    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Call:
    """One request to the model with its answer, or with why there is none. Times are seconds since the epoch."""

    started: float
    ended: float
    model: str
    max_tokens: int
    effort: str | None
    prefix: str
    """The digest of the prompt's stable beginning."""
    kept: int
    """How many messages of the chain's previous request stand before the new ones."""
    messages: tuple[Message, ...]
    """The new ones."""
    answer: Answer | None
    failure: Failure | None
    message: str
    """What is known of the failure."""
    attempts: int
    is_repair: bool
    manifest: tuple[Part, ...]
    left_out: tuple[Part, ...]
    charged: Amounts

    @property
    def seconds(self) -> float:
        return self.ended - self.started

    @property
    def tools(self) -> tuple[ToolUse, ...]:
        """The tools that the answer asks for, in order."""
        blocks = self.answer.content if self.answer else ()
        return tuple(_tool_of(block) for block in blocks if block.get("type") == "tool_use")


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a chain; the trial is missing while it is judged, and where the chain ended."""

    number: int
    calls: tuple[Call, ...] = ()
    fallback: str | None = None
    """Why the fallback policy proposed instead of the model; None when it did not."""
    proposal: Proposal | None = None
    trial: Trial | None = None
    judging_ended: float = 0.0
    """When the trial was recorded."""
    notes: tuple[Event, ...] = ()
    """What else the policy recorded."""

    @property
    def judging_started(self) -> float:
        """The trial's cost holds what its proposal cost, which was before."""
        if self.trial is None:
            return self.judging_ended
        proposing = self.proposal.cost.seconds if self.proposal else 0.0
        return self.judging_ended - max(0.0, self.trial.cost.seconds - proposing)


@dataclass(frozen=True, slots=True)
class Flight:
    """A call with no recorded end: it is out now, or was out when the process died and is charged at its worst case."""

    number: int
    started: float
    amount: Amounts


@dataclass(frozen=True, slots=True)
class Chain:
    number: int
    steps: tuple[Step, ...] = ()
    prefixes: tuple[Event, ...] = ()
    """The stable beginnings of its prompts: system, tools."""
    notes: tuple[Event, ...] = ()
    """What else the policy recorded for the whole chain."""
    in_flight: tuple[Flight, ...] = ()
    lost: tuple[Flight, ...] = ()

    @property
    def calls(self) -> tuple[Call, ...]:
        return tuple(call for step in self.steps for call in step.calls)


@dataclass(frozen=True, slots=True)
class RunTrace:
    """A whole run. Times are seconds since the epoch, 0 for a journal without events."""

    started: float = 0.0
    ended: float = 0.0
    baseline: Trial | None = None
    baseline_started: float = 0.0
    baseline_ended: float = 0.0
    chains: tuple[Chain, ...] = ()
    finalists: tuple[Event, ...] = ()
    """As the journal writes them: trial, answer."""
    stop_reason: StopReason | None = None
    """None while the run goes on, and after it was killed."""

    @property
    def calls(self) -> tuple[Call, ...]:
        return tuple(call for chain in self.chains for call in chain.calls)

    @property
    def steps(self) -> tuple[Step, ...]:
        return tuple(step for chain in self.chains for step in chain.steps)

    def narrowed(self, chain: int | None = None, step: int | None = None) -> RunTrace:
        """Only one chain, only one step of each chain. Raises `UserError` when nothing is left."""
        chains = tuple(one for one in self.chains if chain in (None, one.number))
        if not chains and chain is not None:
            raise UserError(f"the run has no chain {chain} (so far): it has {_numbers(self.chains, 'chain')}")
        if step is None:
            return replace(self, chains=chains)
        kept = tuple(replace(one, steps=tuple(s for s in one.steps if s.number == step)) for one in chains)
        if not any(one.steps for one in kept):
            steps = [one for chain in chains for one in chain.steps]
            raise UserError(f"there is no step {step} (so far): there are {_numbers(steps, 'step')}")
        return replace(self, chains=tuple(one for one in kept if one.steps))


def trace_of(events: Sequence[Event]) -> RunTrace:
    """Fold the events of a journal. Raises `UserError` on an event that is not as this version writes it."""
    fold = _Fold()
    for number, event in enumerate(events, start=1):
        try:
            fold.take(event)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise UserError(f"event {number} of the journal ({event.get('event')}) is damaged: {error!r}") from error
    return fold.run()


class _Fold:
    """The tree that grows with each event."""

    def __init__(self) -> None:
        self._started: float | None = None
        self._run = RunTrace()
        self._chains: dict[int, Chain] = {}
        self._steps: dict[tuple[int, int], Step] = {}
        self._flights: dict[int, tuple[int, Flight]] = {}

    def take(self, event: Event) -> None:
        at = float(event["t"])
        begun = at
        match event["event"]:
            case "reserved":
                flight = Flight(event["number"], at, Amounts(**event["amount"]))
                self._flights[flight.number] = event["chain"], flight
                self._chain(event["chain"])
            case "settled":
                self._settle(event)
            case "proposal":
                self._change(event, proposal=proposal_from_json(event))
            case "trial":
                begun = self._judged(trial_from_json(event["trial"]), at)
            case "finalists":
                self._run = replace(self._run, finalists=tuple(event["finalists"]))
            case "finished":
                self._run = replace(self._run, stop_reason=StopReason(event["stop_reason"]))
            case _:
                begun = self._noted(event, at)
        if event["event"] in ("proposal", "reserved"):
            self._run = replace(self._run, stop_reason=None)
        self._started = begun if self._started is None else min(self._started, begun)
        self._run = replace(self._run, started=self._started, ended=max(self._run.ended, at))

    def run(self) -> RunTrace:
        chains: list[Chain] = []
        for number, chain in sorted(self._chains.items()):
            steps = tuple(step for (of, _), step in sorted(self._steps.items()) if of == number)
            flying = tuple(flight for of, flight in self._flights.values() if of == number)
            chains.append(replace(chain, steps=steps, in_flight=flying))
        return replace(self._run, chains=tuple(chains))

    def _judged(self, trial: Trial, at: float) -> float:
        if trial.number == 0:
            took = sum(verdict.seconds for verdict in trial.verdicts)  # the baseline is charged for nothing
            self._run = replace(self._run, baseline=trial, baseline_started=at - took, baseline_ended=at)
            return at - took
        self._change({"chain": trial.chain, "step": trial.step}, trial=trial, judging_ended=at)
        return self._steps[trial.chain, trial.step].judging_started

    def _settle(self, event: Event) -> None:
        chain, flight = self._flights.pop(event["number"])
        if event["why"] != "lost":
            return
        lost = (*self._chain(chain).lost, replace(flight, amount=Amounts(**event["amount"])))
        self._chains[chain] = replace(self._chain(chain), lost=lost)

    def _noted(self, event: Event, at: float) -> float:
        """What a policy recorded of its own work."""
        _, flight = self._flights.pop(event.get("reservation", -1), (0, None))
        if event["event"] == "prefix":
            chain = self._chain(event["chain"])
            self._chains[chain.number] = replace(chain, prefixes=(*chain.prefixes, event))
        elif event["event"] == "call":
            call = _call_of(event, at, flight)
            self._change(event, calls=(*self._step(event).calls, call))
            return call.started
        elif event["event"] == "fallback":
            self._change(event, fallback=str(event["why"]))
        elif "step" in event:
            self._change(event, notes=(*self._step(event).notes, event))
        elif "chain" in event:
            chain = self._chain(event["chain"])
            self._chains[chain.number] = replace(chain, notes=(*chain.notes, event))
        return at

    def _chain(self, number: int) -> Chain:
        return self._chains.setdefault(number, Chain(number))

    def _step(self, event: Event) -> Step:
        self._chain(event["chain"])
        return self._steps.setdefault((event["chain"], event["step"]), Step(event["step"]))

    def _change(self, event: Event, **fields: Any) -> None:
        self._steps[event["chain"], event["step"]] = replace(self._step(event), **fields)


def _call_of(event: Event, at: float, flight: Flight | None) -> Call:
    """One that failed began when its cost was set aside; one with an answer may have waited for its turn after that."""
    request, failure = event["request"], event["failure"]
    answer = _answer_of(event["answer"]) if event["answer"] else None
    started = at - answer.seconds if answer else flight.started if flight else at
    return Call(
        started=started,
        ended=at,
        model=request["model"],
        max_tokens=request["max_tokens"],
        effort=request["effort"],
        prefix=request["prefix"],
        kept=request["kept"],
        messages=tuple(request["messages"]),
        answer=answer,
        failure=Failure(failure["kind"]) if failure else None,
        message=failure["message"] if failure else "",
        attempts=event["attempts"],
        is_repair=event["is_repair"],
        manifest=tuple(Part(part["part"], part["tokens"]) for part in event["manifest"]),
        left_out=tuple(Part(part["part"], part["tokens"], part["why"]) for part in event["left_out"]),
        charged=Amounts(**event["amount"]),
    )


def _answer_of(data: Event) -> Answer:
    content: tuple[Block, ...] = tuple(data["content"])
    return Answer(
        content, Outcome(data["outcome"]), Usage(**data["usage"]), data["model"], data["seconds"], data["stop_reason"]
    )


def _tool_of(block: Block) -> ToolUse:
    """The arguments of a model are what it made of them: they need not be an object."""
    arguments = block.get("input")
    if not isinstance(arguments, Mapping):
        arguments = {"input": arguments}
    return ToolUse(str(block.get("name")), cast("Mapping[str, Any]", arguments))


def _numbers(known: Sequence[Chain] | Sequence[Step], what: str) -> str:
    numbers = sorted({one.number for one in known})
    if not numbers:
        return f"no {what}s yet"
    return f"{what} {numbers[0]}" if len(numbers) == 1 else f"{what}s {numbers[0]} to {numbers[-1]}"
