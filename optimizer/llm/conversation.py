"""One conversation with a model, as pure functions: what its last answer asks for, and what it is sent next."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from optimizer.budget import BudgetView
from optimizer.llm.briefing import Briefing, Grounding, Part, Start, Without, cut, estimated_tokens
from optimizer.llm.feedback import best_of, feedback_text
from optimizer.llm.messages import Block, Message, Outcome
from optimizer.llm.record import PastCall
from optimizer.llm.summary import looked_up_text, summary_text
from optimizer.llm.tools import Evaluate, Finish, Inspect, Invalid, read_calls, strict_prose
from optimizer.plan import StopReason
from optimizer.protocols import Proposal
from optimizer.trial import Trial
from optimizer.verdict import Reason

MARK = {"cache_control": {"type": "ephemeral"}}
LONGEST_RECORDED = 2_000
"""Characters that are kept of an answer which holds no candidate."""
MOST_STUCK = 6
"""A chain ends after so many steps in a row that repeat something or hold no candidate."""
OTHERS = 8
"""How many trials of other chains a chain is told of."""
OTHERS_TRIED = "Other searches for the same task, side by side with yours, have tried (do not repeat them):"
ASK_FOR_A_CALL = "Nothing happens without a tool call: answer by calling evaluate, inspect or finish."
CUT_OFF = "Your last answer was cut off at the limit of its length and is lost. Think less, and call a tool."
LAST_LOOK = "No more look-ups in this step: call evaluate next, or finish."


@dataclass(frozen=True, slots=True)
class Task:
    """What stays the same in all of a chain's conversation."""

    problem: Any
    briefing: Briefing
    without: Without
    start: Start | None
    hints: tuple[Part, ...] = ()
    """Schedules from memory."""
    limit_seconds: float | None = None
    context: int = 4_000
    """Tokens of turns beyond which they are replaced by a summary."""
    calls_per_step: int = 8


@dataclass(frozen=True, slots=True)
class Question:
    """The messages of the next call."""

    messages: tuple[Message, ...]
    is_repair: bool
    manifest: tuple[dict[str, Any], ...]
    left_out: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class _Reply:
    """What goes back to the model after its last answer."""

    blocks: tuple[Block, ...] = ()
    """Results of its tool calls, ..."""
    results: tuple[str, ...] = ()
    """... and the same in words of their own, for a conversation that starts anew."""
    notes: tuple[str, ...] = ()
    """What is said besides."""
    is_repair: bool = False
    afresh: bool = False
    """Whether the conversation starts anew from a summary, because its last answer cannot stay in it."""
    goes_on: bool = False
    """Whether the answer was only paused, and is sent back as it is."""


def next_move(
    task: Task,
    calls: Sequence[PastCall],
    history: Sequence[Trial],
    others: Sequence[Trial],
    budget: BudgetView,
    afresh: bool = False,
) -> Proposal | Question:
    """What a chain does next: make the proposal that the model asked for, or ask the model.

    `calls` are the chain's answered ones; `history` its trials, the baseline first, so its length is the number of the
    step that is proposed now; `others` the trials of other chains. `afresh`: start anew from a summary in any case.
    """
    step = len(history)
    if _is_stuck(history):
        return Proposal(None, f"{MOST_STUCK} steps in a row brought nothing new", stop=StopReason.MODEL_STUCK)
    reply = _reply(task, calls, history, budget)
    if isinstance(reply, Proposal):
        return reply
    made = sum(call.step == step for call in calls)
    if made >= task.calls_per_step:
        malformed = f"no proposal after {made} answers"
        return Proposal(f"({malformed})", malformed=malformed)
    notes = (*reply.notes, LAST_LOOK) if made == task.calls_per_step - 1 and made else reply.notes
    turns = None
    if calls and not (reply.afresh or afresh):
        news = _news(task, calls[-1], others) if step > calls[-1].step else ()
        turns = _turns(calls[-1], reply, (*news, *notes))
    if turns is None or _tokens(turns[1:]) > task.context:
        return _anew(task, calls, history, others, budget, (*reply.results, *notes), reply.is_repair)
    manifest = (*_manifest(task), {"part": "turns", "tokens": _tokens(turns[1:])})
    return Question(turns, reply.is_repair, manifest)


def marked(messages: Sequence[Message], briefing_blocks: int) -> tuple[Message, ...]:
    """The messages with the two marks up to which the provider is asked to cache: the briefing, and all so far."""
    found = [dict(message) for message in messages]
    first = list(found[0]["content"])
    first[briefing_blocks - 1] = {**first[briefing_blocks - 1], **MARK}
    found[0]["content"] = first
    last = list(found[-1]["content"])
    if found[-1]["role"] == "user":
        last[-1] = {**last[-1], **MARK}
        found[-1]["content"] = last
    return tuple(found)


def _is_stuck(history: Sequence[Trial]) -> bool:
    last = [trial.outcome for trial in history[1:]][-MOST_STUCK:]
    return len(last) == MOST_STUCK and set(last) <= {Reason.DUPLICATE, Reason.UNPARSABLE}


def _reply(task: Task, calls: Sequence[PastCall], history: Sequence[Trial], budget: BudgetView) -> _Reply | Proposal:
    """What the last answer asks for: a proposal, or something to be answered."""
    if not calls:
        return _Reply()
    last, step = calls[-1], len(history)
    is_new_step = step > last.step
    match last.outcome:
        case Outcome.REFUSAL:
            if len(calls) > 1 and calls[-2].outcome is Outcome.REFUSAL:
                return Proposal(None, "the model declined to answer, twice", stop=StopReason.MODEL_REFUSED)
            return _Reply(afresh=True)
        case Outcome.CONTEXT_FULL:
            if len(last.messages) == 1:
                return Proposal(None, "the task does not fit in the model's context")
            return _Reply(afresh=True)
        case Outcome.MAX_TOKENS:
            if is_new_step or not last.is_repair:
                return _Reply(notes=(CUT_OFF,), is_repair=not is_new_step, afresh=True)
            return _no_candidate(last, "the answer was cut off at the limit of its length, twice")
        case Outcome.PAUSE_TURN:
            return _Reply(goes_on=True)
        case _:
            return _answered(task, last, history, budget)


def _answered(task: Task, last: PastCall, history: Sequence[Trial], budget: BudgetView) -> _Reply | Proposal:
    """The tool calls of an answer, carried out in their order up to the first that has to be judged."""
    step = len(history)
    blocks: list[Block] = []
    results: list[str] = []
    found = read_calls(last.content, task.briefing, task.without)
    at = last.step
    for call in found:
        match call:
            case Evaluate(text=text, rationale=rationale):
                if at >= step:
                    return Proposal(text, rationale)
                results.append(_feedback(task, history, at, budget))
                blocks.append(_result(call.id, results[-1]))
                at += 1
            case Inspect(inspection=inspection):
                answer = task.briefing.inspect(inspection, task.without)
                results.append(looked_up_text(inspection, answer))
                blocks.append(_result(call.id, answer))
            case Finish(reason=reason):
                return Proposal(None, reason or "the model has nothing more to try")
            case Invalid(message=message):
                results.append(message)
                blocks.append(_result(call.id, message, is_error=True))
    unseen = tuple(f"Step {k} was proposed without you. {_feedback(task, history, k, budget)}" for k in range(at, step))
    if any(not isinstance(call, Invalid) for call in found):
        return _Reply(tuple(blocks), tuple(results), unseen)
    if step > last.step:
        return _Reply(notes=(ASK_FOR_A_CALL,), afresh=True)
    if not last.is_repair:
        return _Reply(tuple(blocks), tuple(results), () if blocks else (ASK_FOR_A_CALL,), is_repair=True)
    prose = _prose(last)
    text = strict_prose(prose, task.problem) if not found else None
    if text is not None:
        return Proposal(text, "from an answer without a tool call")
    why = "; ".join(call.message for call in found if isinstance(call, Invalid)) or "the answer calls no tool, twice"
    return _no_candidate(last, why)


def _no_candidate(last: PastCall, why: str) -> Proposal:
    said = _prose(last) or json.dumps([block.get("input") for block in last.content if "input" in block])
    return Proposal(cut(said.strip() or "(nothing)", LONGEST_RECORDED), malformed=why)


def _prose(call: PastCall) -> str:
    return "\n".join(str(block["text"]) for block in call.content if block.get("type") == "text")


def _feedback(task: Task, history: Sequence[Trial], step: int, budget: BudgetView) -> str:
    trial = history[step]
    return feedback_text(task.problem, trial, history[: step + 1], budget, task.without, task.limit_seconds)


def _result(identity: str, text: str, is_error: bool = False) -> Block:
    block = {"type": "tool_result", "tool_use_id": identity, "content": [_text(text)]}
    return {**block, "is_error": True} if is_error else block


def _text(text: str) -> Block:
    return {"type": "text", "text": text}


def _turns(last: PastCall, reply: _Reply, notes: Sequence[str]) -> tuple[Message, ...]:
    """The conversation so far with the last answer and the reply to it."""
    answer = {"role": "assistant", "content": list(last.content)}
    if reply.goes_on:
        return (*last.messages, answer)
    content = [*reply.blocks, *map(_text, notes)]
    if not last.content:  # an empty answer cannot be handed back
        return (*last.messages[:-1], {**last.messages[-1], "content": [*last.messages[-1]["content"], *content]})
    return (*last.messages, answer, {"role": "user", "content": content})


def briefing_blocks(task: Task) -> list[Block]:
    """What all chains of a run begin with."""
    return [_text(part.text) for part in (*task.briefing.parts(task.without), *task.hints)]


def _anew(
    task: Task,
    calls: Sequence[PastCall],
    history: Sequence[Trial],
    others: Sequence[Trial],
    budget: BudgetView,
    notes: Sequence[str],
    is_repair: bool,
) -> Question:
    """The briefing, then in one message all that the chain has learnt."""
    own: list[Part] = []
    if task.start is not None and len(history) == 1:
        own.append(Part("start", _start_text(task.start)))
    if len(history) > 1:
        summary = summary_text(task.problem, history, task.without, budget, task.limit_seconds)
        own.append(Part("summary", summary))
    if others and Grounding.FEEDBACK not in task.without:
        own.append(Part("other chains", _others_text(others)))
    own.append(Part("now", "\n".join([*notes, "Call a tool now."])))
    content = [*briefing_blocks(task), *(_text(part.text) for part in own)]
    manifest = (*_manifest(task), *({"part": part.name, "tokens": estimated_tokens(part.text)} for part in own))
    left_out = tuple(_left_out(calls))
    return Question(({"role": "user", "content": content},), is_repair, manifest, left_out)


def _left_out(calls: Sequence[PastCall]) -> Iterator[dict[str, Any]]:
    if calls:
        tokens = _tokens((*calls[-1].messages[1:], {"content": list(calls[-1].content)}))
        why = "too long or not usable: every verdict stands in the summary"
        yield {"part": f"turns up to step {calls[-1].step}", "tokens": tokens, "why": why}


def _start_text(start: Start) -> str:
    schedule = f" Begin at, or near: {start.text}" if start.text else ""
    return f"For this search: {start.hint}{schedule}"


def _others_text(others: Sequence[Trial]) -> str:
    """What other chains of the run have tried: the best, then the last few."""
    best = best_of(others)
    shown = [*([best] if best else []), *(trial for trial in others[-OTHERS:] if trial is not best)]
    return "\n".join([OTHERS_TRIED, *map(_other_line, shown)])


def _news(task: Task, last: PastCall, others: Sequence[Trial]) -> tuple[str, ...]:
    """What other chains have tried of late and this one was not told yet."""
    if Grounding.FEEDBACK in task.without:
        return ()
    told = "\n".join(_told(last.messages))
    fresh = [line for trial in others[-OTHERS:] if (line := _other_line(trial)) not in told]
    return ("\n".join([OTHERS_TRIED, *fresh]),) if fresh else ()


def _told(messages: Sequence[Message]) -> Iterator[str]:
    """The engine's own texts in a conversation."""
    for message in messages:
        if message["role"] == "user":
            yield from (str(block["text"]) for block in message["content"] if block["type"] == "text")


def _other_line(trial: Trial) -> str:
    found = f"{trial.score:.3g} {trial.measurement.unit}" if trial.measurement else trial.outcome
    return f"- {cut(trial.candidate.text, 300)}: {found}"


def _manifest(task: Task) -> Iterator[dict[str, Any]]:
    tools = json.dumps(list(task.briefing.tools(task.without)))
    yield {"part": "system", "tokens": estimated_tokens(task.briefing.system(task.without))}
    yield {"part": "tools", "tokens": estimated_tokens(tools)}
    for part in (*task.briefing.parts(task.without), *task.hints):
        yield {"part": part.name, "tokens": estimated_tokens(part.text)}


def _tokens(messages: Sequence[Message]) -> int:
    return estimated_tokens(json.dumps([message["content"] for message in messages], ensure_ascii=False))
