"""How a chain that a model leads comes together: briefing, facts, hints from memory, fallback."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from optimizer.errors import UserError
from optimizer.llm.briefing import Facts, Grounding, Part, briefing_of
from optimizer.llm.conversation import Task
from optimizer.llm.record import MEMORY
from optimizer.names import nearest
from optimizer.protocols import Attachable, Policy
from optimizer.registry import make_policy
from optimizer.services import Services

NONE = "none"
DEFAULT_FALLBACKS: Mapping[str, str] = {"kernel": "polyhedral"}
"""By the kind of problem; texts are mutated."""


@dataclass(frozen=True, slots=True)
class TaskOptions:
    """What a user may choose about a conversation, whoever is asked."""

    without: Sequence[str]
    memory: bool
    context: int
    calls_per_step: int

    def __post_init__(self) -> None:
        if isinstance(self.without, str):
            raise UserError(f"without takes a list of parts, not the text {self.without!r}")
        for part in self.without:
            if part not in list(Grounding):
                known = ", ".join(Grounding)
                raise UserError(
                    f"nothing called {part!r} can be left out{nearest(part, list(Grounding))}; there are: {known}"
                )
        if self.context < 1_000:
            raise UserError(f"a conversation needs a context of 1000 tokens or more, not {self.context}")
        if self.calls_per_step < 1:
            raise UserError(f"a step needs at least one call, not {self.calls_per_step}")


def task_of(services: Services, options: TaskOptions) -> Task:
    """All that a chain's conversation is about. Measures the original if no chain of the run has done so."""
    without = frozenset(Grounding(part) for part in options.without)
    problem, facts = services.problem, _facts(services.facts())
    briefing = briefing_of(problem, facts)
    starts = briefing.starts(services.chain + 1)
    start = starts[services.chain % len(starts)] if starts else None
    hints = _hints(services) if options.memory else ()
    return Task(problem, briefing, without, start, hints, facts.limit_seconds, options.context, options.calls_per_step)


def fallback_of(name: str | None, services: Services, seed: int) -> Policy | None:
    """The policy that proposes when the model cannot be reached; None when there is to be none. Raises `UserError`."""
    chosen = name or DEFAULT_FALLBACKS.get(services.problem.kind, "mutate")
    if chosen == NONE:
        return None
    policy = make_policy(chosen, {}, seed, services.chain)
    if isinstance(policy, Attachable):
        raise UserError(f"policy {chosen} asks somebody outside itself: as a fallback choose one that does not")
    return policy


def _facts(known: Mapping[str, Any]) -> Facts:
    peaks = None
    if "peaks" in known:
        from optimizer.measure.peaks import Peaks  # imports NumPy

        peaks = Peaks(**known["peaks"])
    from optimizer.measure.machine import this_machine

    return Facts(
        known.get("baseline_seconds"), known.get("limit_seconds"), peaks, known.get("machine", ""), this_machine()
    )


def _hints(services: Services) -> tuple[Part, ...]:
    """What memory offers, the same again after a resume."""
    recorded = [note for note in services.notes() if note["event"] == MEMORY]
    if recorded:
        offered: Sequence[Mapping[str, str]] = recorded[0]["hints"]
    else:
        from optimizer.measure.machine import this_machine
        from optimizer.memory.hints import hints

        found = hints(services.problem, this_machine().digest) if services.problem.kind == "kernel" else ()
        offered = [{"schedule": hint.schedule, "source": hint.source, "entry": hint.entry} for hint in found]
        services.note(MEMORY, hints=offered)
    if not offered:
        return ()
    lines = [f"- {hint['schedule']}\n  {hint['source']}" for hint in offered]
    intro = (
        "Schedules that were fast in earlier runs on this machine. They are legal here; their speed here is not known:"
    )
    return (Part("memory", "\n".join([intro, *lines])),)
