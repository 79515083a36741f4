"""A run's trace as spans, the way OpenTelemetry has them.

Attribute names follow OpenTelemetry's semantic conventions for generative AI; our own begin with `loopwright.`. Spans
hold what was proposed, but no prompts and no answers. All ids follow from the run, so that exporting it again gives the
same spans.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from optimizer.llm.trace import Call, Chain, Part, RunTrace, Step, ToolUse
from optimizer.trial import Trial
from optimizer.verdict import Status

Value = str | bool | int | float | Sequence[str]

LONGEST_TEXT = 4096
"""Characters of a candidate or a message that a span holds."""


@dataclass(frozen=True, slots=True)
class Span:
    """Times in nanoseconds since the epoch, ids in hexadecimal digits as OpenTelemetry has them."""

    name: str
    trace_id: str
    span_id: str
    parent_id: str
    """Empty for the run itself."""
    start: int
    end: int
    attributes: Mapping[str, Value]
    error: str | None = None
    """What went wrong; None for a span without fault."""
    is_client: bool = False
    """Whether it is a request to somebody else."""


def spans_of(run: RunTrace, name: str, policy: str, identity: str) -> tuple[Span, ...]:
    """The run's span, then that of each chain, step, call, trial and verdict, parents first.

    `name` is the problem's; the ids follow from `identity`, such as the text of `run.json`, and the run's first moment.
    """
    if not run.started:
        return ()
    return _Spans(policy, _hex(f"{identity}\n{run.started!r}", 32)).of_run(run, name)


class _Spans:
    """Makes the spans of one run."""

    def __init__(self, policy: str, trace_id: str) -> None:
        self._policy, self._trace_id = policy, trace_id
        self._provider = "anthropic" if policy == "llm" else policy

    def of_run(self, run: RunTrace, name: str) -> tuple[Span, ...]:
        stopped = {"loopwright.stop_reason": run.stop_reason.value} if run.stop_reason else {}
        attributes = {"loopwright.problem": name, "loopwright.policy": self._policy, **stopped}
        root = self._span(f"run {name}", "run", "", run.started, run.ended, attributes)
        chains = [span for chain in run.chains for span in self._of_chain(chain)]
        if run.baseline is None:
            return (root, *chains)
        baseline = self._of_trial(run.baseline, "run", run.baseline_started, run.baseline_ended)
        return (root, *baseline, *chains)

    def _of_chain(self, chain: Chain) -> list[Span]:
        path = f"chain {chain.number}"
        inner = [span for step in chain.steps for span in self._of_step(step, chain, path)]
        if not inner:
            return []
        attributes: dict[str, Value] = {"loopwright.chain": chain.number}
        if chain.calls:
            attributes |= {
                "gen_ai.operation.name": "invoke_agent",
                "gen_ai.provider.name": self._provider,
                "gen_ai.agent.name": self._policy,
                "gen_ai.conversation.id": self._conversation(chain.number),
            }
        return [self._around(path, path, "run", attributes, inner), *inner]

    def _of_step(self, step: Step, chain: Chain, parent: str) -> list[Span]:
        path = f"{parent}/step {step.number}"
        inner = [self._of_call(call, chain.number, path, index) for index, call in enumerate(step.calls)]
        if step.trial:
            is_tool = bool(chain.calls) and step.fallback is None
            inner += self._of_trial(step.trial, path, step.judging_started, step.judging_ended, is_tool)
        if not inner:
            return []
        attributes: dict[str, Value] = {"loopwright.chain": chain.number, "loopwright.step": step.number}
        if step.fallback is not None:
            attributes["loopwright.fallback"] = _short(step.fallback)
        return [self._around(f"step {step.number}", path, parent, attributes, inner), *inner]

    def _of_call(self, call: Call, chain: int, parent: str, index: int) -> Span:
        attributes: dict[str, Value] = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": self._provider,
            "gen_ai.conversation.id": self._conversation(chain),
            "gen_ai.request.model": call.model,
            "gen_ai.request.max_tokens": call.max_tokens,
            "loopwright.usd": call.charged.usd,
            "loopwright.attempts": call.attempts,
            "loopwright.is_repair": call.is_repair,
            "loopwright.left_out": [_short(f"{part.name}: {part.tokens} tokens, {part.why}") for part in call.left_out],
            **_parts("loopwright.prompt", call.manifest),
        }
        if call.answer:
            usage = call.answer.usage
            attributes |= {
                "gen_ai.response.model": call.answer.model,
                "gen_ai.response.finish_reasons": [call.answer.stop_reason or call.answer.outcome.value],
                "gen_ai.usage.input_tokens": usage.prompt,
                "gen_ai.usage.output_tokens": usage.output,
                "gen_ai.usage.cache_creation.input_tokens": usage.cache_write,
                "gen_ai.usage.cache_read.input_tokens": usage.cache_read,
                "loopwright.tools": [_short(tool_text(tool)) for tool in call.tools],
            }
        if call.failure:
            attributes["error.type"] = call.failure.value
        error = (call.message or call.failure.value) if call.failure else None
        path = f"{parent}/call {index}"
        return self._span(f"chat {call.model}", path, parent, call.started, call.ended, attributes, error, True)

    def _of_trial(self, trial: Trial, parent: str, start: float, end: float, is_tool: bool = False) -> list[Span]:
        path = f"{parent}/trial {trial.number}"
        attributes: dict[str, Value] = {
            "loopwright.trial": trial.number,
            "loopwright.candidate": _short(trial.candidate.text),
            "loopwright.outcome": trial.outcome,
        }
        if trial.score is not None:
            attributes["loopwright.score"] = trial.score
        if is_tool:
            attributes |= {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "evaluate"}
        broken = trial.verdicts[-1].detail or trial.outcome if trial.verdicts and trial.status is Status.ERROR else None
        name = "execute_tool evaluate" if is_tool else f"judge trial {trial.number}"
        spans = [self._span(name, path, parent, start, end, attributes, broken)]
        for index, verdict in enumerate(trial.verdicts):
            stop = min(end, start + verdict.seconds)
            told: dict[str, Value] = {"loopwright.status": verdict.status.value}
            told |= {"loopwright.reason": verdict.reason.value} if verdict.reason else {}
            told |= {"loopwright.assurance": verdict.assurance} if verdict.assurance else {}
            spans.append(self._span(verdict.verifier, f"{path}/verdict {index}", path, start, stop, told))
            start = stop
        return spans

    def _around(
        self, name: str, path: str, parent: str, attributes: Mapping[str, Value], inner: Sequence[Span]
    ) -> Span:
        start, end = min(span.start for span in inner), max(span.end for span in inner)
        return Span(name, self._trace_id, self._id(path), self._id(parent), start, end, attributes)

    def _span(
        self,
        name: str,
        path: str,
        parent: str,
        start: float,
        end: float,
        attributes: Mapping[str, Value],
        error: str | None = None,
        is_client: bool = False,
    ) -> Span:
        parent_id = self._id(parent) if parent else ""
        told = None if error is None else _short(error)
        times = _nanoseconds(start), _nanoseconds(max(start, end))
        return Span(name, self._trace_id, self._id(path), parent_id, *times, attributes, told, is_client)

    def _id(self, path: str) -> str:
        return _hex(f"{self._trace_id}/{path}", 16)

    def _conversation(self, chain: int) -> str:
        return f"{self._trace_id[:16]}-{chain}"


def tool_text(tool: ToolUse) -> str:
    """`inspect(what=legal, of=i)`."""
    return f"{tool.name}({', '.join(f'{name}={value}' for name, value in tool.arguments.items())})"


def _parts(prefix: str, parts: Sequence[Part]) -> dict[str, Value]:
    """Tokens by part; parts of one name are added."""
    tokens: dict[str, Value] = {}
    for part in parts:
        name = f"{prefix}.{_clean(part.name).replace(' ', '_')}"
        tokens[name] = cast("int", tokens.get(name, 0)) + part.tokens
    return tokens


def _hex(text: str, digits: int) -> str:
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()[:digits]


def _nanoseconds(seconds: float) -> int:
    return round(seconds * 1e9)


def _short(text: str) -> str:
    text = _clean(text)
    return text if len(text) <= LONGEST_TEXT else text[: LONGEST_TEXT - 1] + "…"


def _clean(text: str) -> str:
    """Half characters, which a model can write in JSON, are no Unicode text."""
    return text.encode(errors="replace").decode()
