"""The trace of a run: the tree, and the command that shows it."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from optimizer.budget import Amounts
from optimizer.cli import WRONG_INPUT, main
from optimizer.cli.trace_tree import run_node, tree_text
from optimizer.errors import UserError
from optimizer.journal import FILE_NAME, read_events, read_record
from optimizer.llm.accounts import accounts_of
from optimizer.llm.messages import Failure, Outcome, Usage
from optimizer.llm.spans import spans_of
from optimizer.llm.trace import trace_of
from optimizer.llm.trace_json import trace_json
from optimizer.plan import StopReason
from optimizer.protocols import Proposal
from optimizer.trial import Cost
from optimizer.verdict import Reason
from tests.model_journal import BEGAN, MODEL, ModelJournal, accepted, rejected, run_folder, whole_run


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["trace", *arguments])


def shown(journal: ModelJournal, full: bool = False, width: int = 100) -> str:
    return tree_text(run_node(trace_of(journal.events), "r", full), width)


def test_the_builder_writes_what_the_journal_reads(tmp_path: Path) -> None:
    record = read_record(run_folder(tmp_path, whole_run()))
    assert [trial.outcome for trial in record.trials] == ["ok", "illegal", "ok", "ok"]
    charged = accounts_of(read_events(tmp_path)).charged
    assert (record.spent.calls, record.spent.tokens, record.spent.usd) == (charged.calls, charged.tokens, charged.usd)
    assert [amount.tokens for _, amount in record.unsettled.values()] == [40_000]


def test_the_tree_holds_all_that_happened() -> None:
    run = trace_of(whole_run().events)
    assert run.baseline is not None
    assert [chain.number for chain in run.chains] == [0, 1]
    assert [step.number for step in run.chains[0].steps] == [1, 2]
    first, second = run.chains[0].steps[0].calls
    assert (first.started, first.ended) == (BEGAN, BEGAN + 2)
    assert first.answer is not None
    assert (first.answer.outcome, first.answer.usage) == (Outcome.TOOL_USE, Usage(1000, 100))
    assert [(tool.name, tool.arguments) for tool in first.tools] == [("inspect", {"what": "legal", "of": "i"})]
    assert (second.is_repair, second.kept) == (True, 1)
    assert [(part.name, part.tokens, part.why) for part in second.left_out] == [("turns", 700, "summarized")]
    step = run.chains[1].steps[0]
    assert (step.fallback, step.calls[0].failure, step.calls[0].attempts) == (
        "the breaker is open",
        Failure.OVERLOADED,
        3,
    )
    assert step.trial is not None
    assert (step.trial.score, step.judging_ended - step.judging_started) == (3.0, 2.0)
    assert [flight.amount.tokens for flight in run.chains[1].in_flight] == [40_000]
    assert run.stop_reason is None


def test_a_failed_call_began_when_its_cost_was_set_aside() -> None:
    journal = ModelJournal()
    journal.call(0, 1, failure="timed_out", seconds=30.0)
    (call,) = trace_of(journal.events).calls
    assert (call.seconds, call.started) == (30.0, BEGAN)


def test_a_baseline_that_is_judged_takes_its_time() -> None:
    journal = ModelJournal()
    journal.now += 5
    journal.trial(accepted(4.0))
    run = trace_of(journal.events)
    assert (run.started, run.ended) == (BEGAN + 3.5, BEGAN + 5)
    lengths = {span.name: (span.end - span.start) / 1e9 for span in spans_of(run, "matmul", "llm", "identity")}
    assert lengths == {"run matmul": 1.5, "judge trial 0": 1.5, "legality": 0.5, "timing": 1.0}


def test_a_chain_that_gives_up_says_why() -> None:
    journal = ModelJournal()
    journal.baseline()
    journal.propose(0, 1, Proposal(None, "it declined, twice", stop=StopReason.MODEL_REFUSED))
    journal.propose(1, 1, Proposal("tile(i=8)"))
    text = shown(journal)
    assert "gives up (model_refused): it declined, twice" in text
    assert "proposed, not judged yet: tile(i=8)" in text


@pytest.mark.parametrize("arguments", [None, "tile(i=8)", [1, 2], {"schedule": ["tile"]}])
def test_whatever_a_model_takes_for_arguments_is_shown(arguments: Any) -> None:
    journal = ModelJournal()
    journal.call(0, 1, content=[{"type": "tool_use", "name": "evaluate", "input": arguments}, {"type": "new"}])
    for full in (False, True):
        assert "evaluate" in shown(journal, full)
    assert json.loads(json.dumps(trace_json(trace_of(journal.events), full=True)))
    assert spans_of(trace_of(journal.events), "matmul", "llm", "identity")


def test_lost_calls_stand_in_their_chain() -> None:
    journal = ModelJournal()
    amount = Amounts(calls=1, tokens=900, usd=0.25)
    number = journal.reserve(2, amount)
    assert len(trace_of(journal.events).chains[0].in_flight) == 1
    journal.add("settled", chain=2, number=number, amount=asdict(amount), why="lost")
    (chain,) = trace_of(journal.events).chains
    assert (chain.number, chain.in_flight, chain.lost[0].amount) == (2, (), amount)
    text = shown(journal, width=140)
    assert "charged at its worst case, 900 tokens, $0.25" in text


def test_each_beginning_of_a_journal_has_a_tree() -> None:
    events = whole_run().events
    calls = [len(trace_of(events[:count]).calls) for count in range(len(events) + 1)]
    assert calls == sorted(calls)
    assert calls[-1] == 4
    for count in range(len(events) + 1):
        assert tree_text(run_node(trace_of(events[:count]), "r", True), 80)


def test_a_run_that_goes_on_is_not_finished() -> None:
    journal = whole_run()
    journal.finish(StopReason.INTERRUPTED)
    assert trace_of(journal.events).stop_reason is StopReason.INTERRUPTED
    journal.reserve(0, Amounts(calls=1))
    assert trace_of(journal.events).stop_reason is None


def test_a_proposal_s_own_time_is_not_the_time_of_judging() -> None:
    journal = ModelJournal()
    journal.baseline()
    journal.propose(0, 1, Proposal("tile(i=8)", cost=Cost(seconds=3.0)))
    journal.trial(accepted(2.0), 0, 1, seconds=5.0)
    step = trace_of(journal.events).steps[0]
    assert step.judging_ended - step.judging_started == 2.0


def test_the_text_names_every_part() -> None:
    text = shown(whole_run(), width=160)
    for part in (
        "chain 0",
        "step 1  +0.0 s",
        f"call {MODEL}  +0.0 s  2 s  1,000 read (0 cached), 100 written  $0.01  tool_use",
        "saw system 900, turns 300",
        "left out turns 700: summarized",
        "inspect(what=legal, of=i)",
        'memory {"hints": ["tile(i=64)"]}',
        "to repair an answer",
        "trial 1  illegal  parallel(k)",
        "legality  illegal  250 ms  S0(i=0) writes A[0]",
        "overloaded: the service is overloaded",
        "fallback policy: the breaker is open",
        "call without an answer so far +13.5 s: up to 40,000 tokens, $0.50",
    ):
        assert part in text, part
    assert "You optimize." not in text
    assert "system: You optimize." in shown(whole_run(), full=True)


@pytest.mark.parametrize("width", [10, 40, 72, 100])
@pytest.mark.parametrize("full", [False, True])
def test_no_line_is_longer_than_the_terminal(width: int, full: bool) -> None:
    journal = whole_run()
    journal.call(0, 3, content=[{"type": "text", "text": "word " * 500 + "\n" + "x" * 3000}], outcome="end_turn")
    text = shown(journal, full, width)
    assert max(map(len, text.splitlines())) <= max(width, 40)
    assert text.count("x") >= 3000 or not full


def test_a_model_cannot_drive_the_terminal() -> None:
    evil = "\x1b]0;owned\x07\x1b[2J\u202e\r"
    journal = ModelJournal()
    journal.baseline()
    tool = {"type": "tool_use", "id": "t", "name": evil, "input": {"schedule": evil, "rationale": "\ud800"}}
    journal.call(0, 1, content=[{"type": "text", "text": evil}, tool], messages=[{"role": evil, "content": evil}])
    journal.propose(0, 1, Proposal(evil))
    journal.trial(rejected(Reason.UNPARSABLE), 0, 1, evil)
    for full in (False, True):
        text = shown(journal, full)
        assert all(character.isprintable() or character == "\n" for character in text)
        text.encode()


def test_one_chain_and_one_step_can_be_picked(tmp_path: Path) -> None:
    run = run_folder(tmp_path, whole_run())
    picked = invoke(str(run), "--chain", "0", "--step", "2")
    assert picked.exit_code == 0
    assert "trial 3" in picked.output
    assert "trial 1" not in picked.output
    assert "chain 1" not in picked.output
    missing = invoke(str(run), "--chain", "7")
    assert missing.exit_code == WRONG_INPUT
    assert "no chain 7 (so far): it has chains 0 to 1" in missing.output
    assert "no step 9 (so far): there are steps 1 to 2" in invoke(str(run), "--step", "9").output


def test_the_command_shows_the_accounts_below_the_tree(tmp_path: Path) -> None:
    result = invoke(str(run_folder(tmp_path, whole_run())))
    assert result.exit_code == 0
    assert f"  calls      4 of {MODEL}; 1 failed (1 overloaded)" in result.output


def test_json_is_one_document(tmp_path: Path) -> None:
    run = run_folder(tmp_path, whole_run())
    data = json.loads(invoke(str(run), "--json").output)
    assert data["policy"] == "llm"
    assert data["accounts"]["calls"] == 4
    call = data["chains"][0]["steps"][0]["calls"][0]
    assert (call["usage"]["input"], call["tools"][0]["name"]) == (1000, "inspect")
    assert "content" not in call
    full = json.loads(invoke(str(run), "--json", "--full").output)
    assert full["chains"][0]["steps"][0]["calls"][0]["content"][0]["name"] == "inspect"


def test_half_a_character_of_a_model_stays_json(tmp_path: Path) -> None:
    journal = ModelJournal()
    journal.call(0, 1, content=[{"type": "text", "text": "é \ud800"}], outcome="end_turn")
    result = invoke(str(run_folder(tmp_path, journal)), "--json", "--full")
    content = json.loads(result.output)["chains"][0]["steps"][0]["calls"][0]["content"]
    assert content[0]["text"] == "é \ud800"


def test_a_torn_last_line_is_left_out(tmp_path: Path) -> None:
    run = run_folder(tmp_path, whole_run())
    with (run / FILE_NAME).open("a") as file:
        file.write('{"v": 1, "event": "call", "chai')
    before = (run / FILE_NAME).read_bytes()
    assert invoke(str(run)).exit_code == 0
    assert (run / FILE_NAME).read_bytes() == before, "looking changes nothing"


@pytest.mark.parametrize("field", ["answer", "request", "amount", "step"])
def test_a_damaged_call_is_named(field: str) -> None:
    events = whole_run().events
    place = next(index for index, event in enumerate(events) if event["event"] == "call")
    del events[place][field]
    with pytest.raises(UserError, match=rf"event {place + 1} of the journal \(call\) is damaged"):
        trace_of(events)


def test_what_is_no_run_is_said(tmp_path: Path) -> None:
    result = invoke(str(tmp_path))
    assert result.exit_code == WRONG_INPUT
    assert "is no run folder" in result.output


def test_a_run_that_has_only_begun(tmp_path: Path) -> None:
    run = run_folder(tmp_path, ModelJournal())
    result = invoke(str(run))
    assert result.exit_code == 0
    assert "not begun" in result.output
    assert spans_of(trace_of([]), "matmul", "llm", "x") == ()


def test_full_json_has_everything_of_a_call() -> None:
    data = trace_json(trace_of(whole_run().events), full=True)
    call = data["chains"][0]["steps"][0]["calls"][1]
    assert call["messages"][0]["role"] == "user"
    assert [block["type"] for block in call["content"]] == ["thinking", "tool_use"]


def test_looking_loads_nothing_heavy() -> None:
    code = (
        "import sys, optimizer.cli.trace, optimizer.llm.accounts, optimizer.llm.otlp, optimizer.cli.trace_tree\n"
        "print(sorted({'numpy', 'numba', 'islpy', 'rich', 'anthropic', 'opentelemetry'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
