"""A run's trace as JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from optimizer.llm.trace import Call, Chain, Flight, Part, RunTrace, Step
from optimizer.trial_json import trial_to_json


def trace_json(run: RunTrace, full: bool = False) -> dict[str, Any]:
    """The tree; `full` adds the prompts' beginnings, the new messages of requests and the content of answers."""
    return {
        "started": run.started,
        "ended": run.ended,
        "stop_reason": run.stop_reason.value if run.stop_reason else None,
        "baseline": trial_to_json(run.baseline) if run.baseline else None,
        "chains": [_chain_json(chain, full) for chain in run.chains],
        "finalists": [dict(finalist) for finalist in run.finalists],
    }


def _chain_json(chain: Chain, full: bool) -> dict[str, Any]:
    prefixes = [dict(prefix) if full else {"digest": prefix["digest"]} for prefix in chain.prefixes]
    return {
        "chain": chain.number,
        "prefixes": prefixes,
        "notes": [dict(note) for note in chain.notes],
        "steps": [_step_json(step, full) for step in chain.steps],
        "lost": [_flight_json(flight) for flight in chain.lost],
        "in_flight": [_flight_json(flight) for flight in chain.in_flight],
    }


def _step_json(step: Step, full: bool) -> dict[str, Any]:
    return {
        "step": step.number,
        "calls": [_call_json(call, full) for call in step.calls],
        "fallback": step.fallback,
        "notes": [dict(note) for note in step.notes],
        "proposal": asdict(step.proposal) if step.proposal else None,
        "trial": trial_to_json(step.trial) if step.trial else None,
        "judging_started": step.judging_started if step.trial else None,
        "judging_ended": step.judging_ended if step.trial else None,
    }


def _call_json(call: Call, full: bool) -> dict[str, Any]:
    answer = call.answer
    brief: dict[str, Any] = {
        "started": call.started,
        "seconds": call.seconds,
        "model": answer.model if answer else call.model,
        "max_tokens": call.max_tokens,
        "effort": call.effort,
        "prefix": call.prefix,
        "outcome": answer.outcome.value if answer else None,
        "stop_reason": answer.stop_reason if answer else None,
        "usage": asdict(answer.usage) if answer else None,
        "charged": asdict(call.charged),
        "failure": {"kind": call.failure.value, "message": call.message} if call.failure else None,
        "attempts": call.attempts,
        "is_repair": call.is_repair,
        "manifest": [_part_json(part) for part in call.manifest],
        "left_out": [{**_part_json(part), "why": part.why} for part in call.left_out],
        "tools": [{"name": tool.name, "arguments": dict(tool.arguments)} for tool in call.tools],
    }
    if not full:
        return brief
    content = [dict(block) for block in answer.content] if answer else None
    return {**brief, "kept": call.kept, "messages": [dict(message) for message in call.messages], "content": content}


def _part_json(part: Part) -> dict[str, Any]:
    return {"part": part.name, "tokens": part.tokens}


def _flight_json(flight: Flight) -> dict[str, Any]:
    return {"started": flight.started, "amount": asdict(flight.amount)}
