"""A run that is cut off anywhere goes on as if nothing had happened; a recorded one can be repeated without a model."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from optimizer.budget import Limits
from optimizer.errors import UserError
from optimizer.journal import FILE_NAME, read_events, read_record
from optimizer.llm.conversation import MARK
from optimizer.llm.record import past_calls
from optimizer.plan import Plan, StopReason
from optimizer.run import RunSpecification, replay, rescore, start
from optimizer.text_problem import TextProblem
from tests.model_runs import KEY, SOON, Finished, run_model, unmarked
from tests.model_server import AnyReply, ApiError, ModelServer, Reply, call, calls, say, think

PLAN = Plan(steps=6)
CONVERSATION: tuple[AnyReply, ...] = (
    think("Up.", then=call("evaluate", candidate="2")),
    say("Perhaps three?"),
    call("evaluate", candidate="3"),
    calls(("evaluate", {"candidate": "4"}), ("evaluate", {"candidate": "5"})),
    say("too long", stop_reason="max_tokens"),
    call("evaluate", candidate="500"),
    say("That was wrong."),
    say("Still nothing."),
)
"""Something of everything: a thought, a repair turn, two proposals at once, a lost answer, a rejection, nonsense."""


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.startswith(("ANTHROPIC_", "LOOPWRIGHT_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)


def said(requests: Sequence[Mapping[str, Any]]) -> list[Any]:
    """What requests ask, with the ids of calls as they are."""
    return [[request["system"], request["tools"], request["messages"]] for request in requests]


def decisions(run: Finished) -> list[Any]:
    return [(t.chain, t.step, t.candidate.text, t.outcome, t.rationale) for t in run.result.trials]


class Server(ModelServer):
    """Goes on with the conversation where it was when the run was cut off, and knows the answers given before."""

    def __init__(self, script: Sequence[AnyReply], before: ModelServer, answered: int) -> None:
        super().__init__(script[answered:])
        for exchange in before.exchanges[:answered]:
            if exchange.content is not None:
                stop = "tool_use" if any(block["type"] == "tool_use" for block in exchange.content) else "end_turn"
                self._rules.remember(exchange.content, stop)
        # Calls get the ids that they would have got.
        made = sum(block["type"] == "tool_use" for e in before.exchanges[:answered] for block in e.content or ())
        for _ in range(made):
            next(self._ids)


def test_cut_off_after_any_event_the_run_goes_on_as_if_nothing_had_happened(tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    with ModelServer(CONVERSATION) as server:
        run = run_model(server.url, whole, plan=PLAN)
    assert run.outcomes == ["ok", "ok", "ok", "ok", "wrong_result", "unparsable"]
    lines = (whole / FILE_NAME).read_text().splitlines(keepends=True)
    events = read_events(whole)
    assert len(lines) > 25
    for cut in range(1, len(lines)):
        directory = tmp_path / f"cut-{cut}"
        directory.mkdir()
        # The next event is torn.
        (directory / FILE_NAME).write_text("".join(lines[:cut]) + lines[cut][: len(lines[cut]) // 2])
        answered = sum(event["event"] == "call" for event in events[:cut])
        lost = read_record(directory).unsettled
        with Server(CONVERSATION, server, answered) as again:
            resumed = run_model(again.url, directory, plan=PLAN)
        assert decisions(resumed) == decisions(run), f"after {cut} events"
        assert said(again.requests) == said(server.requests[answered:]), f"after {cut} events"
        worst = sum(amount.tokens for _, amount in lost.values())
        paid = sum(event["amount"]["tokens"] for event in resumed.events("call"))
        assert resumed.result.used.tokens == paid + worst, f"after {cut} events"
        assert resumed.result.used.calls == len(CONVERSATION) + len(lost)
        asked = [event["request"] for event in resumed.events("call")]
        assert asked == [event["request"] for event in run.events("call")], "no message is recorded twice"


def test_a_lost_reservation_is_charged_once_however_often_the_run_is_resumed(tmp_path: Path) -> None:
    with ModelServer(CONVERSATION) as server:
        run_model(server.url, tmp_path / "whole", plan=PLAN)
    lines = (tmp_path / "whole" / FILE_NAME).read_text().splitlines(keepends=True)
    cut = next(k for k, line in enumerate(lines) if '"event": "reserved"' in line) + 1
    directory = tmp_path / "cut"
    directory.mkdir()
    (directory / FILE_NAME).write_text("".join(lines[:cut]))
    worst = json.loads(lines[cut - 1])["amount"]["tokens"]
    used: list[int] = []
    for _ in range(3):
        with ModelServer([ApiError(401)]) as server, pytest.raises(UserError, match="key"):
            run_model(server.url, directory, plan=PLAN)
        record = read_record(directory)
        assert record.unsettled == {}
        used.append(record.spent.tokens)
    assert used == [worst] * 3


def test_a_run_over_its_budget_after_a_loss_stops(tmp_path: Path) -> None:
    with ModelServer(CONVERSATION) as server:
        run_model(server.url, tmp_path / "whole", plan=PLAN)
    lines = (tmp_path / "whole" / FILE_NAME).read_text().splitlines(keepends=True)
    cut = next(k for k, line in enumerate(lines) if '"event": "reserved"' in line) + 1
    directory = tmp_path / "cut"
    directory.mkdir()
    (directory / FILE_NAME).write_text("".join(lines[:cut]))
    with ModelServer(CONVERSATION) as server:
        run = run_model(server.url, directory, plan=PLAN, limits=Limits(calls=1))
    assert server.requests == []
    assert run.result.stop_reason is StopReason.BUDGET_CALLS


def test_the_journal_rebuilds_every_request_and_holds_no_key(tmp_path: Path) -> None:
    script = [ApiError(529, headers=SOON), *CONVERSATION]
    with ModelServer(script) as server:
        run = run_model(server.url, tmp_path, plan=PLAN)
    record = read_record(tmp_path)
    (prefix,) = run.events("prefix")
    rebuilt = past_calls(record.notes)
    received = server.requests[1:]  # the first was the same request, and got no answer
    assert len(rebuilt) == len(received) == len(CONVERSATION)
    for past, request, exchange in zip(rebuilt, received, server.exchanges[1:], strict=True):
        assert list(past.messages) == unmarked(request["messages"])
        assert prefix["system"] == request["system"][0]["text"]
        assert list(past.content) == exchange.content
    assert [tool["name"] for tool in prefix["tools"]] == [tool["name"] for tool in received[0]["tools"]]
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or KEY not in path.read_text()
    assert KEY in str(server.exchanges[0].headers)


def test_calls_name_what_the_model_saw(tmp_path: Path) -> None:
    with ModelServer(CONVERSATION) as server:
        run = run_model(server.url, tmp_path, plan=PLAN)
    for event, exchange in zip(run.events("call"), server.exchanges, strict=True):
        parts = [part["part"] for part in event["manifest"]]
        assert parts[:2] == ["system", "tools"]
        assert len(parts) == len(set(parts))
        usage = exchange.usage or {}
        told = usage["input_tokens"] + usage["cache_creation_input_tokens"] + usage["cache_read_input_tokens"]
        counted = sum(part["tokens"] for part in event["manifest"])
        assert 0.7 < counted / told < 1.5
    after_lost_answer = run.events("call")[5]
    assert [part["part"] for part in after_lost_answer["left_out"]] == ["turns up to step 5"]
    assert "summary" in [part["part"] for part in after_lost_answer["manifest"]]


def test_every_request_marks_what_is_to_be_cached(tmp_path: Path) -> None:
    with ModelServer(CONVERSATION) as server:
        run_model(server.url, tmp_path, plan=PLAN)
    for request in server.requests:
        first, last = request["messages"][0]["content"], request["messages"][-1]["content"]
        assert [block for block in first if MARK.items() <= block.items()]
        assert MARK.items() <= last[-1].items()


# -- without the model

CHECK = """
def check(text):
    return float(text) if text.strip().replace(".", "").isdigit() else (0.1, "no number")
"""


def text_run(url: str, folder: Path) -> RunSpecification:
    (folder / "check.py").write_text(CHECK)
    return RunSpecification(
        TextProblem("number.txt", "1").specification(),
        "llm",
        {"base_url": url},
        {"check": f"{folder / 'check.py'}:check"},
        Plan(chains=2, steps=3),
    )


def numbers(request: Mapping[str, Any], count: int) -> Reply:
    return call("evaluate", candidate=str(count + 2))


def test_a_recorded_run_is_replayed_without_network_and_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ModelServer(numbers) as server:
        run = start(text_run(server.url, tmp_path), tmp_path / "run")
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    again = replay(tmp_path / "run", tmp_path / "again")
    assert {(t.chain, t.step): t.candidate.text for t in again.result.trials} == {
        (t.chain, t.step): t.candidate.text for t in run.result.trials
    }
    assert again.result.winner.candidate == run.result.winner.candidate
    assert again.result.winner.score == 7
    assert again.result.used.calls == 0
    judged = rescore(tmp_path / "run", tmp_path / "rescored")
    assert [then.score for then, _ in judged.pairs] == [now.score for _, now in judged.pairs]
    assert len(judged.pairs) == 7


def test_prose_does_not_become_a_candidate_when_a_run_is_replayed(tmp_path: Path) -> None:
    prose = "9 is my answer, and 9 it is"
    script = [call("evaluate", candidate="3"), say(prose), say(prose), call("finish", reason="")]
    with ModelServer(script) as server:
        specification = replace(text_run(server.url, tmp_path), plan=Plan(steps=5))
        run = start(specification, tmp_path / "run")
    assert [trial.outcome for trial in run.result.trials[1:]] == ["ok", "unparsable"]
    again = replay(tmp_path / "run", tmp_path / "again")
    assert [trial.candidate.text for trial in again.result.trials[1:]] == ["3"]
    judged = rescore(tmp_path / "run", tmp_path / "rescored")
    assert [now.candidate.text for _, now in judged.pairs] == ["1", "3"]


# -- killed for real

CHILD = """
import sys
from pathlib import Path
from optimizer.plan import Plan
from tests.model_runs import run_model
run_model(sys.argv[1], Path(sys.argv[2]), plan=Plan(chains=2, steps=3))
"""


def test_a_killed_process_repeats_no_answered_call(tmp_path: Path) -> None:
    directory = tmp_path / "run"
    with ModelServer(lambda _, count: calls(proposal(count), delay=60.0 if count == 4 else 0.0)) as first:
        command = [sys.executable, "-c", CHILD, first.url, str(directory)]
        child = subprocess.Popen(command, cwd=Path(__file__).parent.parent)
        deadline = time.monotonic() + 120
        while len(first.requests) < 5 and child.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
        time.sleep(0.2)
        child.kill()
        child.wait()
    before = read_record(directory)
    assert before.unsettled
    answered = len([note for note in before.notes if note["event"] == "call"])
    with ModelServer(lambda _, count: calls(proposal(count + 50))) as second:
        run = run_model(second.url, directory, plan=Plan(chains=2, steps=3))
    assert answered + len(second.requests) == 6
    assert run.outcomes == ["ok"] * 6
    worst = sum(amount.tokens for _, amount in before.unsettled.values())
    assert run.result.used.tokens == worst + sum(event["amount"]["tokens"] for event in run.events("call"))


def proposal(count: int) -> tuple[str, dict[str, str]]:
    return "evaluate", {"candidate": str(count + 2)}
