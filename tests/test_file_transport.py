"""Turns through files: every form of answer, half-written and wrong ones, patience, the end of a run, resumption."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from optimizer.errors import UserError
from optimizer.llm.file_answer import FORMS, LARGEST_BYTES, UnusableAnswer, answer_of
from optimizer.llm.file_transport import FileTransport, newest_lines
from optimizer.llm.messages import Answer, CallFailed, Failure, Outcome, Request, Usage
from optimizer.llm.tools import EVALUATE_TEXT, INSPECT_NEST
from optimizer.llm.tools import FINISH as FINISH_CHAIN
from optimizer.services import RunStopped

EVALUATE = {
    "name": "evaluate",
    "description": "Judge a schedule.",
    "input_schema": {
        "type": "object",
        "properties": {"schedule": {"type": "string"}, "rationale": {"type": "string"}},
        "required": ["schedule", "rationale"],
    },
}
INSPECT = {
    "name": "inspect",
    "input_schema": {"type": "object", "properties": {"what": {"type": "string"}}, "required": ["what"]},
}
FINISH = {
    "name": "finish",
    "input_schema": {"type": "object", "properties": {"reason": {"type": "string"}}, "required": ["reason"]},
}
FIRST = {"role": "user", "content": [{"type": "text", "text": "Make it faster:\nfor i in range(n): ..."}]}
REQUEST = Request("some-model", "You schedule loops.", (EVALUATE, INSPECT, FINISH), (FIRST,), 4000)
FOLLOWING = replace(
    REQUEST,
    messages=(
        FIRST,
        {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "evaluate", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "illegal:\nS0 first"}]},
    ),
)


def meaning(data: Any) -> Answer:
    return answer_of(json.dumps(data).encode(), REQUEST, "0_1")


def transport(folder: Path, **changes: Any) -> FileTransport:
    return FileTransport(
        folder,
        0,
        **{"run": "a", "answered": 0, "poll_seconds": 0.005, "grace_seconds": 0.05, "patience_seconds": 10, **changes},
    )


def read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.005)


@contextmanager
def asking(carrier: FileTransport, request: Request = REQUEST) -> Iterator[list[Answer]]:
    """Send in a thread of its own; the answer is in the list after the block."""
    answers: list[Answer] = []
    thread = threading.Thread(target=lambda: answers.append(carrier.send(request)))
    thread.start()
    try:
        yield answers
        thread.join(10)
    finally:
        carrier.stop.set()
        thread.join(10)


# -- what may be written


@pytest.mark.parametrize(
    ("written", "calls"),
    [
        ({"evaluate": "tile(i=32)"}, [("evaluate", {"schedule": "tile(i=32)"})]),
        (
            {"evaluate": "tile(i=32)", "rationale": "cache"},
            [("evaluate", {"schedule": "tile(i=32)", "rationale": "cache"})],
        ),
        ({"evaluate": {"schedule": "reverse(i)"}}, [("evaluate", {"schedule": "reverse(i)"})]),
        ({"inspect": {"what": "bound"}}, [("inspect", {"what": "bound"})]),
        ({"inspect": "bound"}, [("inspect", {"what": "bound"})]),
        ({"finish": "done"}, [("finish", {"reason": "done"})]),
        (
            [{"inspect": {"what": "nest"}}, {"evaluate": "parallel(i)"}],
            [("inspect", {"what": "nest"}), ("evaluate", {"schedule": "parallel(i)"})],
        ),
    ],
)
def test_the_plain_forms_are_calls_of_tools(written: Any, calls: list[tuple[str, Any]]) -> None:
    answer = meaning(written)
    assert [(block["name"], block["input"]) for block in answer.content] == calls
    assert len({block["id"] for block in answer.content}) == len(calls)
    assert (answer.outcome, answer.usage, answer.model) == (Outcome.TOOL_USE, Usage(), "some-model")


def test_the_argument_is_called_as_the_tool_of_the_request_calls_it() -> None:
    schema = {"type": "object", "properties": {"rationale": {}, "candidate": {}}, "required": ["candidate"]}
    text = replace(REQUEST, tools=({"name": "evaluate", "input_schema": schema},))
    (block,) = answer_of(b'{"evaluate": "a text"}', text, "1").content
    assert block["input"] == {"candidate": "a text"}


def test_the_plain_forms_fit_the_real_tools() -> None:
    tools = tuple(tool.schema() for tool in (EVALUATE_TEXT, INSPECT_NEST, FINISH_CHAIN))
    content = b'[{"evaluate": "a", "rationale": "b"}, {"inspect": "bound"}, {"finish": "c"}]'
    answer = answer_of(content, replace(REQUEST, tools=tools), "1")
    assert [block["input"] for block in answer.content] == [
        {"candidate": "a", "rationale": "b"},
        {"what": "bound"},
        {"reason": "c"},
    ]


def test_prose_ends_the_turn() -> None:
    answer = meaning({"text": "I cannot do better."})
    assert answer.content == ({"type": "text", "text": "I cannot do better."},)
    assert answer.outcome is Outcome.END_TURN


def test_a_whole_message_is_taken_as_it_came() -> None:
    content = [
        {"type": "thinking", "thinking": "", "signature": "xyz"},
        {"type": "tool_use", "id": "toolu_1", "name": "finish", "input": {"reason": "enough"}},
        {"type": "of_the_future", "data": [1, 2]},
    ]
    usage = {"input_tokens": 7, "output_tokens": 3, "cache_read_input_tokens": None, "cache_creation_input_tokens": 2}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "another", "content": content}
    answer = meaning({**message, "stop_reason": "tool_use", "usage": {**usage, "service_tier": "standard"}})
    assert list(answer.content) == content
    assert answer.usage == Usage(input=7, output=3, cache_write=2)
    assert (answer.model, answer.stop_reason, answer.outcome) == ("another", "tool_use", Outcome.TOOL_USE)


@pytest.mark.parametrize(
    ("stop_reason", "outcome"),
    [("refusal", Outcome.REFUSAL), ("max_tokens", Outcome.MAX_TOKENS), ("of_the_future", Outcome.UNKNOWN)],
)
def test_a_stop_reason_is_believed(stop_reason: str, outcome: Outcome) -> None:
    answer = meaning({"content": [], "stop_reason": stop_reason})
    assert (answer.outcome, answer.stop_reason) == (outcome, stop_reason)


def test_a_message_may_be_short() -> None:
    assert meaning({"content": "prose"}).content == ({"type": "text", "text": "prose"},)
    answer = meaning({"content": [{"type": "tool_use", "name": "evaluate", "input": {"schedule": ""}}]})
    assert answer.outcome is Outcome.TOOL_USE
    assert answer.content[0]["id"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"evaluate": "tile(i=', "not .yet. JSON"),
        (b"tile(i=32)", "not .yet. JSON"),
        (b"\xff\xfe\x00", "not UTF-8"),
        (b'{"text": "\\ud800"}', "not UTF-8"),
        (b'{"inspect": {"of": NaN}}', "NaN is no JSON"),
        (b"[" * 100_000, "nested too deeply"),
        (b'"' + b"a" * LARGEST_BYTES + b'"', "at most 4000000 are read"),
        (b"7", "a JSON object or a list of them, not 7"),
        (b"[]", "empty list"),
        (b"{}", "names one thing to do, not nothing"),
        (b'{"text": " "}', "text that is not empty"),
        (b'{"text": "a", "rationale": "b"}', "nothing is called 'text'"),
        (b'{"evaluate": "a", "finish": "b"}', "one thing to do, not evaluate, finish"),
        (b'{"evalute": "a"}', "nothing is called 'evalute'; did you mean evaluate"),
        (b'{"content": []}', "the content is empty"),
        (b'{"content": 3}', "a list of blocks or a text, not 3"),
        (b'{"content": [3]}', "block 1 of the content is no object with a type"),
        (b'{"content": [{"type": "text", "text": ""}]}', "block 1 of the content has no text"),
        (b'{"content": [{"type": "tool_use", "input": {}}]}', "block 1 of the content names no tool"),
        (b'{"content": [{"type": "tool_use", "name": "finish", "input": "x"}]}', "input of a tool is an object"),
        (b'{"content": "a", "stop_reason": 3}', "stop_reason and model are texts"),
        (b'{"content": "a", "stopreason": "end_turn"}', "no 'stopreason'; did you mean stop_reason"),
        (b'{"content": "a", "usage": {"input_tokens": -1}}', "input_tokens is a number of tokens, not -1"),
        (b'{"content": "a", "usage": 3}', "usage is an object, not 3"),
    ],
)
def test_what_is_no_answer_is_refused_with_the_reason(content: bytes, message: str) -> None:
    with pytest.raises(UnusableAnswer, match=message):
        answer_of(content, REQUEST, "1")


def test_a_byte_order_mark_does_no_harm() -> None:
    assert answer_of(b'\xef\xbb\xbf{"finish": "done"}', REQUEST, "1").outcome is Outcome.TOOL_USE


# -- the files


def test_a_turn_is_a_request_file_and_a_response_file(tmp_path: Path) -> None:
    carrier = transport(tmp_path, run="run-1")
    asked = tmp_path / "chain-0" / "0001.request.json"
    with asking(carrier) as answers:
        wait_for(asked.exists)
        data = read(asked)
        assert data["text"] == ["Make it faster:", "for i in range(n): ...", ""]
        assert (data["system"], data["model"], data["max_tokens"]) == ("You schedule loops.", "some-model", 4000)
        assert data["messages"] == [FIRST]
        assert [tool["name"] for tool in data["tools"]] == ["evaluate", "inspect", "finish"]
        assert (data["run"], data["chain"], data["turn"]) == ("run-1", 0, 1)
        assert "0001.response.json" in data["instructions"]
        (tmp_path / "chain-0" / "0001.response.json").write_text('{"evaluate": "tile(i=32)"}')
    assert answers[0].content[0]["input"] == {"schedule": "tile(i=32)"}
    assert answers[0].seconds > 0
    assert {path.name for path in (tmp_path / "chain-0").iterdir()} == {"0001.request.json", "0001.response.json"}


def test_the_next_turn_has_the_next_number_and_shows_what_is_new(tmp_path: Path) -> None:
    carrier = transport(tmp_path)
    for number, request in ((1, REQUEST), (2, FOLLOWING)):
        with asking(replace(carrier, answered=number - 1, stop=threading.Event()), request) as answers:
            wait_for((tmp_path / "chain-0" / f"{number:04}.request.json").exists)
            (tmp_path / "chain-0" / f"{number:04}.response.json").write_text('{"finish": "done"}')
        assert answers
    assert read(tmp_path / "chain-0" / "0002.request.json")["text"] == [
        "Result of call a:",
        "illegal:",
        "S0 first",
        "",
        "",
    ]


def test_new_lines_name_blocks_that_are_no_text() -> None:
    content = [{"type": "image", "source": {}}, {"type": "text", "text": "look"}]
    assert list(newest_lines([{"role": "user", "content": content}])) == ["[image]", "", "look", ""]
    assert list(newest_lines([{"role": "user", "content": "short"}])) == ["short", ""]


def test_chains_do_not_meet(tmp_path: Path) -> None:
    for chain in (0, 1):
        folder = tmp_path / f"chain-{chain}"
        folder.mkdir()
        (folder / "0001.response.json").write_text(json.dumps({"finish": f"chain {chain}"}))
    # A file of answers alone is of no request of ours: it is not taken.
    with pytest.raises(CallFailed):
        transport(tmp_path, patience_seconds=0.02).send(REQUEST)
    assert (tmp_path / "chain-0" / "0002.request.json").exists()
    assert not (tmp_path / "chain-1" / "0001.request.json").exists()


def test_a_half_written_answer_is_waited_for(tmp_path: Path) -> None:
    carrier = transport(tmp_path, grace_seconds=5)
    response = tmp_path / "chain-0" / "0001.response.json"
    with asking(carrier) as answers:
        wait_for((tmp_path / "chain-0" / "0001.request.json").exists)
        with response.open("w") as file:
            for part in ('{"evaluate"', ': "tile(i', '=32)"', "}"):
                file.write(part)
                file.flush()
                time.sleep(0.02)
    assert answers[0].content[0]["input"] == {"schedule": "tile(i=32)"}
    assert not (tmp_path / "chain-0" / "0001.error.json").exists()


def test_a_wrong_answer_is_explained_and_may_be_written_again(tmp_path: Path) -> None:
    said: list[str] = []
    carrier = transport(tmp_path, announce=said.append)
    folder = tmp_path / "chain-0"
    with asking(carrier) as answers:
        wait_for((folder / "0001.request.json").exists)
        (folder / "0001.response.json").write_text('{"evalute": "tile(i=32)"}')
        wait_for((folder / "0001.error.json").exists)
        assert "did you mean evaluate" in read(folder / "0001.error.json")["error"]
        (folder / "0001.response.json").write_text("still wrong")
        wait_for(lambda: "JSON" in read(folder / "0001.error.json")["error"])
        (folder / "0001.response.json").write_text('{"evaluate": "tile(i=32)"}')
    assert answers[0].content[0]["name"] == "evaluate"
    assert not (folder / "0001.error.json").exists()
    assert said[0] == f"waiting for {folder / '0001.response.json'}"
    assert "cannot be used" in said[1]
    assert len(said) == 3


def test_something_unreadable_in_the_place_of_the_answer_is_explained(tmp_path: Path) -> None:
    folder = tmp_path / "chain-0"
    with asking(transport(tmp_path)) as answers:
        wait_for((folder / "0001.request.json").exists)
        (folder / "0001.response.json").mkdir()
        wait_for((folder / "0001.error.json").exists)
        assert "cannot be read" in read(folder / "0001.error.json")["error"]
        (folder / "0001.response.json").rmdir()
        (folder / "0001.response.json").write_text('{"finish": "done"}')
    assert answers


def test_patience_ends(tmp_path: Path) -> None:
    with pytest.raises(CallFailed, match=r"no answer in .*0001\.response\.json after 0\.02 s") as failed:
        transport(tmp_path, patience_seconds=0.02).send(REQUEST)
    assert failed.value.failure is Failure.TIMED_OUT


def test_the_end_of_the_run_ends_the_wait(tmp_path: Path) -> None:
    stop = threading.Event()
    threading.Timer(0.05, stop.set).start()
    began = time.monotonic()
    with pytest.raises(RunStopped, match="the run ends"):
        transport(tmp_path, stop=stop, patience_seconds=None, poll_seconds=60).send(REQUEST)
    assert time.monotonic() - began < 10


def test_a_turn_without_an_answer_keeps_its_number(tmp_path: Path) -> None:
    folder = tmp_path / "chain-0"
    with pytest.raises(CallFailed):
        transport(tmp_path, patience_seconds=0.02).send(REQUEST)
    later = replace(REQUEST, messages=({"role": "user", "content": "left of the budget: 3 seconds"},))
    with pytest.raises(CallFailed):
        transport(tmp_path, patience_seconds=0.02).send(later)
    assert read(folder / "0001.request.json")["text"] == ["left of the budget: 3 seconds", ""]
    (folder / "0001.response.json").write_text('{"finish": "meanwhile"}')
    assert transport(tmp_path).send(REQUEST).content[0]["input"] == {"reason": "meanwhile"}
    assert read(folder / "0001.request.json")["text"] == ["left of the budget: 3 seconds", ""]
    assert not (folder / "0002.request.json").exists()


def test_an_answer_is_used_once(tmp_path: Path) -> None:
    folder = tmp_path / "chain-0"
    folder.mkdir()
    carrier = transport(tmp_path, patience_seconds=0.02)
    with pytest.raises(CallFailed):
        carrier.send(REQUEST)
    (folder / "0001.response.json").write_text('{"finish": "done"}')
    assert carrier.send(REQUEST)
    for again in (carrier, transport(tmp_path, answered=1, patience_seconds=0.02)):
        with pytest.raises(CallFailed):
            again.send(REQUEST)
    assert {path.name for path in folder.glob("*.request.json")} == {"0001.request.json", "0002.request.json"}


@pytest.mark.parametrize("leftover", ["another run", "another turn", "damaged", "no object"])
def test_answers_to_other_requests_are_never_taken(tmp_path: Path, leftover: str) -> None:
    folder = tmp_path / "chain-0"
    with pytest.raises(CallFailed):
        transport(
            tmp_path,
            run="b" if leftover == "another run" else "a",
            answered=1 if leftover == "another turn" else 0,
            patience_seconds=0.02,
        ).send(REQUEST)
    (folder / "0001.response.json").write_text('{"finish": "old"}')
    if leftover in ("damaged", "no object"):
        (folder / "0001.request.json").write_text("{" if leftover == "damaged" else "[]")
    with pytest.raises(CallFailed):
        transport(tmp_path, patience_seconds=0.02).send(REQUEST)
    assert read(folder / "0002.request.json")["messages"] == [FIRST]


def test_a_folder_that_cannot_be_written_is_the_users_to_mend(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"cannot write the requests in .*folder=DIR"):
        transport(tmp_path / "file").send(REQUEST)


def test_the_program_in_the_documentation_answers(tmp_path: Path) -> None:
    page = (Path(__file__).parents[1] / "docs" / "external.md").read_text(encoding="utf-8")
    script = tmp_path / "answer.py"
    script.write_text(page.split("```python\n")[1].split("```")[0], encoding="utf-8")
    folder = tmp_path / "turns"
    carrier = transport(folder)
    with subprocess.Popen([sys.executable, str(script), str(folder)], stdout=subprocess.DEVNULL) as program:
        try:
            inputs = [
                carrier.send(replace(REQUEST, messages=(FIRST,) * turn)).content[0]["input"] for turn in (1, 2, 3)
            ]
        finally:
            program.kill()
    assert inputs[0] == {"schedule": "interchange(k, j_2)", "rationale": "the next of the list"}
    assert inputs[2] == {"reason": "the list is done"}


def test_every_form_in_the_documentation_is_an_answer() -> None:
    page = (Path(__file__).parents[1] / "docs" / "external.md").read_text(encoding="utf-8")
    forms = [part.split("```")[0] for part in page.split("```json\n")[1:]]
    assert len(forms) == len(FORMS)
    for form in (*forms, *map(json.dumps, FORMS)):
        assert answer_of(form.encode(), REQUEST, "1").content
