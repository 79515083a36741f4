"""Runs of the `llm` policy against a scripted model, over real HTTP on loopback, of problems that are soon judged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from optimizer.budget import Ledger, Limits
from optimizer.candidate import Candidate
from optimizer.events import Event, RunResult, Waiting
from optimizer.journal import Journal, read_events
from optimizer.loop import run_loop
from optimizer.plan import Plan
from optimizer.policies.llm import Llm
from optimizer.verdict import Measurement, Status, Verdict
from tests.fakes import NumberProblem, NumberVerifier, Watcher
from tests.model_server import Reply, call, say
from verifiers.legality import Legality

KEY = "sk-ant-test-never-to-be-recorded-42"
ONE_CHAIN, NO_LIMITS = Plan(), Limits()
SOON: Mapping[str, str] = {"retry-after": "0.01"}
"""Headers of an error after which the client may come back at once."""
NONSENSE = say("What a lovely problem this is.")


@dataclass
class Timing:
    """Stands in for the measurement of kernels: every new schedule is a little faster than the one before."""

    name: ClassVar[str] = "timing"
    seen: list[str] = field(default_factory=list[str])

    def verify(self, problem: Any, candidate: Candidate) -> Verdict:
        self.seen.append(candidate.text)
        speedup = 1.0 + len(self.seen) / 10
        times = {"seconds": 0.5 / speedup, "baseline_seconds": 0.5}
        return Verdict(Status.OK, self.name, measurement=Measurement(speedup, (speedup, speedup), 5, "x", times))


def timeless_verifiers(problem: Any, directory: Path, waiting: Any, seed: int = 0) -> list[Any]:
    """A cascade for kernels that proves, and does not measure."""
    return [Legality(), Timing()]


@dataclass(frozen=True)
class Finished:
    """What a run came to."""

    result: RunResult
    directory: Path
    said: Sequence[Event]

    @property
    def outcomes(self) -> list[str]:
        """Of all trials but the baseline."""
        return [trial.outcome for trial in self.result.trials[1:]]

    @property
    def texts(self) -> list[str]:
        return [trial.candidate.text for trial in self.result.trials[1:]]

    @property
    def waits(self) -> str:
        """All that was said about waiting."""
        return "\n".join(str(event.reason) for event in self.said if isinstance(event, Waiting))

    def events(self, name: str) -> list[dict[str, Any]]:
        """The journal's events of one name."""
        return [event for event in read_events(self.directory) if event["event"] == name]


def run_model(
    url: str,
    directory: Path,
    problem: Any = None,
    verifiers: Sequence[Any] | None = None,
    plan: Plan = ONE_CHAIN,
    limits: Limits = NO_LIMITS,
    **options: Any,
) -> Finished:
    """Begin, or go on with, a run in a folder: of numbers that are worth what they are, unless given otherwise."""
    problem = NumberProblem() if problem is None else problem
    if verifiers is None:
        verifiers = [NumberVerifier()] if problem.kind == "number" else [Legality(), Timing()]
    directory.mkdir(parents=True, exist_ok=True)
    policies = [Llm(chain=chain, base_url=url, **options) for chain in range(plan.chains)]
    watcher = Watcher()
    with Journal(directory) as journal:
        ledger = Ledger(limits, journal.record.spent)
        result = run_loop(problem, policies, verifiers, plan, ledger, journal, watcher)
    return Finished(result, directory, watcher.events)


def last_text(request: Mapping[str, Any]) -> str:
    """All that the model was told in the last message."""
    return "\n".join(texts_in(request["messages"][-1]["content"]))


def texts_in(content: Any) -> list[str]:
    """The texts of blocks, those within results of tools as well."""
    if isinstance(content, str):
        return [content]
    found: list[str] = []
    for block in content:
        if block["type"] == "text":
            found.append(block["text"])
        elif block["type"] == "tool_result":
            found += texts_in(block["content"])
    return found


def unmarked(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Messages without their cache marks."""
    return [{**message, "content": [_unmarked(block) for block in message["content"]]} for message in messages]


def _unmarked(block: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in block.items() if key != "cache_control"}


def schedule(text: str) -> Reply:
    """A model proposes this schedule."""
    return call("evaluate", schedule=text)


DONE = call("finish", reason="nothing more to try")


def number(value: float) -> Reply:
    return call("evaluate", candidate=str(value))


def failures(run: Finished) -> list[str | None]:
    """Of each call, in order; None for one that was answered."""
    return [event["failure"] and event["failure"]["kind"] for event in run.events("call")]
