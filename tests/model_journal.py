"""Journals of runs that asked a model, written event by event in the documented format."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from optimizer.budget import Amounts
from optimizer.candidate import Candidate
from optimizer.journal import FILE_NAME, VERSION
from optimizer.llm.messages import Usage
from optimizer.plan import StopReason
from optimizer.protocols import Proposal
from optimizer.trial import Cost, Trial
from optimizer.trial_json import trial_to_json
from optimizer.verdict import Measurement, Reason, Status, Verdict

SPECIFICATION = {"problem": {"kind": "kernel", "kernel": "matmul"}, "policy": "llm", "created": "2026-11-30T07:00:00"}
MODEL = "claude-sonnet-5-5"
BEGAN = 1_796_000_000.0
TOOL = {
    "type": "tool_use",
    "id": "t1",
    "name": "evaluate",
    "input": {"schedule": "tile(i=32)", "rationale": "cache"},
}
THOUGHT = {"type": "thinking", "thinking": "", "signature": "c2ln"}


def accepted(score: float) -> tuple[Verdict, ...]:
    measured = Measurement(score, (score * 0.98, score * 1.02), 9, "x", {"seconds": 0.1})
    proof = Verdict(Status.OK, "legality", assurance="proved", seconds=0.5)
    return proof, Verdict(Status.OK, "timing", measurement=measured, seconds=1.0)


def rejected(reason: Reason) -> tuple[Verdict, ...]:
    return (Verdict(Status.REJECTED, "legality", reason, "S0(i=0) writes A[0]", seconds=0.25),)


@dataclass
class ModelJournal:
    """Grows with each event; the clock stands at `now`."""

    now: float = BEGAN
    events: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    trials: int = 0
    reservations: int = 0
    spent: Amounts = Amounts()

    def add(self, event: str, **fields: Any) -> None:
        whole = {"v": VERSION, "event": event, "t": self.now, **fields}
        self.events.append(json.loads(json.dumps(whole)))

    def trial(
        self, verdicts: tuple[Verdict, ...], chain: int = 0, step: int = 0, text: str = "", seconds: float = 0.0
    ) -> None:
        """Judged in so many seconds, which end now."""
        self.now += seconds
        digest = "" if self.trials == 0 else f"digest-{self.trials}"
        cost = Cost(seconds=seconds)
        trial = Trial(self.trials, chain, step, Candidate(text, digest), verdicts, "", "", cost, self.now)
        self.trials += 1
        self.spent = self.spent.plus(Amounts(evaluations=1 if trial.number else 0, seconds=seconds))
        self.add("trial", trial=trial_to_json(trial), spent=asdict(self.spent))

    def baseline(self) -> None:
        self.trial((Verdict(Status.OK, "baseline", measurement=Measurement(1.0, (1.0, 1.0), 0)),))

    def reserve(self, chain: int, amount: Amounts) -> int:
        self.reservations += 1
        self.add("reserved", chain=chain, number=self.reservations, amount=asdict(amount))
        return self.reservations

    def call(
        self,
        chain: int = 0,
        step: int = 1,
        usage: Usage | None = None,
        usd: float = 0.0,
        seconds: float = 1.0,
        kept: int = 0,
        messages: Sequence[dict[str, Any]] | None = None,
        content: Sequence[dict[str, Any]] = (THOUGHT, TOOL),
        outcome: str = "tool_use",
        failure: str | None = None,
        attempts: int = 1,
        is_repair: bool = False,
    ) -> None:
        """A call that ends after so many seconds: an answer with this usage, or a failure."""
        number = self.reserve(chain, Amounts(calls=1, tokens=50_000, usd=1.0))
        self.now += seconds
        usage = usage or Usage()
        answer = {
            "content": list(content),
            "outcome": outcome,
            "stop_reason": outcome,
            "model": MODEL,
            "usage": asdict(usage),
            "seconds": seconds,
        }
        default = [{"role": "user", "content": [{"type": "text", "text": "go on"}]}]
        amount = Amounts(calls=1, tokens=0 if failure else usage.total, usd=usd)
        self.spent = self.spent.plus(amount)
        self.add(
            "call",
            chain=chain,
            step=step,
            reservation=number,
            amount=asdict(amount),
            request={
                "model": MODEL,
                "max_tokens": 4096,
                "effort": "medium",
                "prefix": "abc",
                "kept": kept,
                "messages": default if messages is None else list(messages),
            },
            answer=None if failure else answer,
            failure={"kind": failure, "message": "the service is overloaded"} if failure else None,
            attempts=attempts,
            is_repair=is_repair,
            manifest=[{"part": "system", "tokens": 900}, {"part": "turns", "tokens": 300}],
            left_out=[{"part": "turns", "tokens": 700, "why": "summarized"}],
        )

    def propose(self, chain: int, step: int, proposal: Proposal) -> None:
        self.add("proposal", chain=chain, step=step, **asdict(proposal))

    def finish(self, reason: StopReason = StopReason.STEPS_DONE) -> None:
        self.add("finished", stop_reason=reason, chain_stops=[reason], spent=asdict(self.spent))

    def write(self, directory: Path) -> None:
        lines = "".join(json.dumps(event) + "\n" for event in self.events)
        (directory / FILE_NAME).write_text(lines, encoding="utf-8")


def whole_run() -> ModelJournal:
    """Two chains: an illegal proposal and an accepted one; a failure, the fallback policy, a call that is still out."""
    journal = ModelJournal()
    journal.baseline()
    journal.add("prefix", chain=0, digest="abc", system="You optimize.", tools=[{"name": "evaluate"}])
    journal.add("memory", chain=0, hints=["tile(i=64)"])
    inspect = {"type": "tool_use", "id": "t0", "name": "inspect", "input": {"what": "legal", "of": "i"}}
    journal.call(0, 1, Usage(1000, 100), 0.01, seconds=2.0, content=[inspect])
    journal.call(0, 1, Usage(200, 50, 100, 1000), 0.02, seconds=4.0, kept=1, is_repair=True)
    journal.propose(0, 1, Proposal("parallel(k)", "all cores"))
    journal.trial(rejected(Reason.ILLEGAL), 0, 1, "parallel(k)", seconds=0.5)
    journal.call(1, 1, failure="overloaded", attempts=3, seconds=0.0)
    journal.add("fallback", chain=1, step=1, why="the breaker is open")
    journal.propose(1, 1, Proposal("tile(i=8)", "template"))
    journal.trial(accepted(3.0), 1, 1, "tile(i=8)", seconds=2.0)
    journal.call(0, 2, Usage(300, 60, 0, 1300), 0.03, seconds=3.0, kept=2)
    journal.propose(0, 2, Proposal("tile(i=32)", "cache"))
    journal.trial(accepted(2.0), 0, 2, "tile(i=32)", seconds=2.0)
    journal.reserve(1, Amounts(calls=1, tokens=40_000, usd=0.5))
    return journal


def run_folder(directory: Path, journal: ModelJournal) -> Path:
    """A folder of a run with this journal."""
    (directory / "run.json").write_text(json.dumps(SPECIFICATION), encoding="utf-8")
    journal.write(directory)
    return directory
