"""A run's trace as a tree of text, without the control characters of what models wrote: a terminal would obey them."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from optimizer.llm.accounts import usd_text
from optimizer.llm.spans import tool_text
from optimizer.llm.trace import Call, Chain, Event, Part, RunTrace, Step
from optimizer.trial import Trial
from optimizer.trial_json import verdict_from_json
from optimizer.verdict import Measurement, Verdict
from optimizer.wording import score_text, seconds_text

NARROWEST = 40
"""Columns; less is not useful."""


@dataclass(frozen=True, slots=True)
class Node:
    """One line of the tree and what hangs below it."""

    text: str
    children: tuple[Node, ...] = ()
    is_whole: bool = False
    """Whether a long text goes on in further lines instead of being cut."""


def tree_text(root: Node, width: int) -> str:
    """The tree in lines of at most `width` columns (at least 40)."""
    return "\n".join(_lines(root, "", "", max(width, NARROWEST)))


def run_node(run: RunTrace, name: str, full: bool) -> Node:
    """The tree of a run; `full` adds the new messages of each request and the content of each answer."""
    state = f"stopped: {run.stop_reason.value}" if run.stop_reason else "not finished"
    children: list[Node] = []
    if run.baseline:
        children.append(_trial_node(run.baseline, "baseline"))
    children += [_chain_node(chain, run.started, full) for chain in run.chains]
    if run.finalists:
        children.append(Node("finalists measured again", tuple(_finalist_node(one) for one in run.finalists)))
    if not run.started:
        return Node(f"{name}: not begun")
    return Node(f"{name}: {seconds_text(run.ended - run.started)}, {state}", tuple(children))


def _chain_node(chain: Chain, began: float, full: bool) -> Node:
    children = [_prefix_node(prefix, full) for prefix in chain.prefixes]
    children += [_note_node(note) for note in chain.notes]
    children += [_step_node(step, began, full) for step in chain.steps]
    for flight in chain.lost:
        cost = f"charged at its worst case, {flight.amount.tokens:,} tokens, {usd_text(flight.amount.usd)}"
        children.append(Node(f"call lost {_at(flight.started, began)}: the process ended before the answer; {cost}"))
    for flight in chain.in_flight:
        most = f"up to {flight.amount.tokens:,} tokens, {usd_text(flight.amount.usd)}"
        children.append(Node(f"call without an answer so far {_at(flight.started, began)}: {most}"))
    return Node(f"chain {chain.number}", tuple(children))


def _prefix_node(prefix: Event, full: bool) -> Node:
    text = f"prompt begins with {prefix['digest']}"
    if not full:
        return Node(text)
    tools = ", ".join(str(tool.get("name")) for tool in prefix["tools"])
    return Node(text, (Node(f"system: {prefix['system']}", is_whole=True), Node(f"tools: {tools}")))


def _step_node(step: Step, began: float, full: bool) -> Node:
    children = [_call_node(call, began, full) for call in step.calls]
    children += [_note_node(note) for note in step.notes]
    if step.fallback is not None:
        children.append(Node(f"fallback policy: {step.fallback}"))
    if step.proposal and step.proposal.text is None:
        children.append(Node(f"gives up ({step.proposal.stop.value}): {step.proposal.rationale}".removesuffix(": ")))
    if step.trial:
        children.append(_trial_node(step.trial, f"trial {step.trial.number}"))
    elif step.proposal and step.proposal.text is not None:
        children.append(Node(f"proposed, not judged yet: {_one_line(step.proposal.text)}"))
    times = [call.started for call in step.calls] + ([step.judging_started] if step.trial else [])
    return Node(f"step {step.number}" + (f"  {_at(min(times), began)}" if times else ""), tuple(children))


def _call_node(call: Call, began: float, full: bool) -> Node:
    facts = [f"call {call.model}", _at(call.started, began)]
    if call.answer:
        usage = call.answer.usage
        tokens = f"{usage.prompt:,} read ({usage.cache_read:,} cached), {usage.output:,} written"
        facts += [seconds_text(call.seconds), tokens, usd_text(call.charged.usd)]
        facts.append(call.answer.stop_reason or call.answer.outcome.value)
    facts += ["to repair an answer"] if call.is_repair else []
    facts += [f"{call.attempts} attempts"] if call.attempts > 1 else []
    facts += [usd_text(call.charged.usd)] if call.failure and call.charged.usd else []
    facts += [f"{call.failure.value}: {call.message}"] if call.failure else []
    children: list[Node] = []
    if call.manifest:
        children.append(Node(f"saw {', '.join(_part_text(part) for part in call.manifest)}", is_whole=full))
    children += [Node(f"left out {_part_text(part)}: {part.why}", is_whole=full) for part in call.left_out]
    if full:
        for message in call.messages:
            children += [_block_node(str(message["role"]), block) for block in _blocks(message["content"])]
        children += [_block_node("answer", block) for block in (call.answer.content if call.answer else ())]
    else:
        children += [Node(_one_line(tool_text(tool))) for tool in call.tools]
    return Node("  ".join(facts), tuple(children))


def _trial_node(trial: Trial, title: str) -> Node:
    score = f" {score_text(trial.measurement)}" if trial.measurement else ""
    verdicts = tuple(_verdict_node(verdict) for verdict in trial.verdicts)
    return Node(f"{title}  {trial.outcome}{score}  {_one_line(trial.candidate.text) or '(the original)'}", verdicts)


def _verdict_node(verdict: Verdict) -> Node:
    found = verdict.reason.value if verdict.reason else verdict.status.value
    score = score_text(verdict.measurement) if verdict.measurement else ""
    said = _one_line(verdict.detail) or verdict.assurance
    facts = (verdict.verifier, found, seconds_text(verdict.seconds) if verdict.seconds else "", score, said)
    return Node("  ".join(fact for fact in facts if fact))


def _finalist_node(finalist: Event) -> Node:
    answer = finalist["answer"]
    if "status" in answer:
        return Node(f"trial {finalist['trial']}  {_verdict_node(verdict_from_json(answer)).text}")
    low, high = answer["interval"]
    measured = Measurement(answer["score"], (low, high), answer["samples"], answer["unit"], answer["details"])
    return Node(f"trial {finalist['trial']}  {score_text(measured)}  (95% interval {low:.4g} to {high:.4g})")


def _note_node(note: Event) -> Node:
    own = {key: value for key, value in note.items() if key not in ("v", "event", "t", "chain", "step")}
    return Node(f"{note['event']} {json.dumps(own)}")


def _block_node(who: str, block: Mapping[str, Any]) -> Node:
    kind = str(block.get("type"))
    match kind:
        case "text":
            said = str(block.get("text", ""))
        case "thinking":
            said = f"thinking: {block.get('thinking') or '(not shown by the model)'}"
        case "tool_use":
            said = f"{block.get('name')} {json.dumps(block.get('input'), ensure_ascii=False)}"
        case "tool_result":
            parts = [str(part.get("text", part)) for part in _blocks(block.get("content"))]
            said = f"result: {' '.join(parts)}"
        case _:
            said = f"{kind}: {json.dumps(block, ensure_ascii=False)}"
    return Node(f"{who}: {said}", is_whole=True)


def _blocks(content: Any) -> Sequence[Mapping[str, Any]]:
    """A message's content, which the Messages API also allows to be a plain text."""
    return [{"type": "text", "text": content}] if isinstance(content, str) else content or []


def _part_text(part: Part) -> str:
    return f"{part.name} {part.tokens:,}"


def _at(moment: float, began: float) -> str:
    return f"+{max(0.0, moment - began):.1f} s"


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _lines(node: Node, first: str, rest: str, width: int) -> Iterator[str]:
    """The node's lines: `first` stands before its first line, `rest` before all that follow."""
    hanging = rest + ("│  " if node.children else "   ")
    yield from _wrapped(node.text, first, hanging, width) if node.is_whole else [_cut(first + _plain(node.text), width)]
    for index, child in enumerate(node.children):
        is_last = index == len(node.children) - 1
        yield from _lines(child, rest + ("└─ " if is_last else "├─ "), rest + ("   " if is_last else "│  "), width)


def _wrapped(text: str, first: str, rest: str, width: int) -> Iterator[str]:
    before = first
    for line in text.splitlines() or [""]:
        wrapped = textwrap.wrap(_plain(line), width, initial_indent=before, subsequent_indent=rest)
        yield from wrapped or [before.rstrip()]
        before = rest


def _cut(line: str, width: int) -> str:
    return line.rstrip() if len(line) <= width else line[: width - 1] + "…"


def _plain(text: str) -> str:
    return "".join(character if character.isprintable() else " " if character.isspace() else "�" for character in text)
