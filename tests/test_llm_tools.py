"""The tools of a model, and what is made of its answers."""

from __future__ import annotations

import time
from typing import Any

import pytest

from optimizer.kernel_problem import KernelProblem
from optimizer.llm.briefing import Briefing, Grounding, Inspection, What, briefing_of
from optimizer.llm.tools import (
    LONGEST_MESSAGE,
    LONGEST_SCHEDULE,
    LONGEST_TEXT,
    Evaluate,
    Finish,
    Inspect,
    Invalid,
    read_calls,
    strict_prose,
)
from optimizer.polyhedral.steps.text import LONGEST_TEXT as LONGEST_PARSED
from optimizer.text_problem import TextProblem
from tests.fakes import NumberProblem


@pytest.fixture(scope="module")
def gemm() -> KernelProblem:
    return KernelProblem.load("gemm", "mini", threads=2)


@pytest.fixture(scope="module")
def briefing(gemm: KernelProblem) -> Briefing:
    return briefing_of(gemm)


def call(name: str, identity: str = "t1", **given: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": identity, "name": name, "input": given}


def message_of(briefing: Briefing, block: dict[str, Any], *without: Grounding) -> str:
    (found,) = read_calls([block], briefing, without)
    assert isinstance(found, Invalid), found
    assert found.id == "t1"
    assert len(found.message) < LONGEST_MESSAGE + 60
    return found.message


def test_schemas_are_those_of_the_messages_api(briefing: Briefing) -> None:
    for tool in briefing.tools():
        assert set(tool) == {"name", "description", "input_schema"}
        schema = tool["input_schema"]
        assert schema["type"] == "object"
        assert schema["additionalProperties"] is False
        assert "title" not in str(schema)
        assert all("description" in field for field in schema["properties"].values())
    evaluate, inspect, _ = briefing.tools()
    assert evaluate["input_schema"]["required"] == ["schedule"]
    assert evaluate["input_schema"]["properties"]["schedule"]["maxLength"] == LONGEST_SCHEDULE == LONGEST_PARSED
    assert inspect["input_schema"]["properties"]["what"]["enum"] == [what.value for what in What]
    assert briefing.tools() == briefing.tools()


def test_calls_are_read_in_order_by_the_type_of_their_block(briefing: Briefing) -> None:
    content = [
        {"type": "thinking", "thinking": "", "signature": "s"},
        call("inspect", "a", what="legal", of="k"),
        {"type": "text", "text": "evaluate(parallel(i))"},
        call("evaluate", "b", schedule="parallel(i)", rationale="threads"),
        call("evaluate", "c", schedule=""),
        call("inspect", "d", what="nest", of=None, schedule="tile(i=8)"),
        call("finish", "e"),
    ]
    assert read_calls(content, briefing) == (
        Inspect("a", Inspection(What.LEGAL, "k")),
        Evaluate("b", "parallel(i)", "threads"),
        Evaluate("c", "", ""),
        Inspect("d", Inspection(What.NEST, "", "tile(i=8)")),
        Finish("e", ""),
    )


@pytest.mark.parametrize(
    ("block", "said"),
    [
        (
            call("evalute", schedule=""),
            "there is no tool evalute; did you mean evaluate?; the tools are evaluate(schedule",
        ),
        (call("evaluate"), "evaluate needs schedule; write evaluate(schedule, [rationale])"),
        (call("evaluate", schedule=3), "schedule: input should be a valid string"),
        (call("evaluate", schedule=["parallel(i)"]), "schedule: input should be a valid string"),
        (call("evaluate", schedule="", shedule="x"), "evaluate takes no shedule; did you mean schedule?"),
        (call("evaluate", schedule="", rationale=True), "rationale: input should be a valid string"),
        (call("evaluate", candidate=""), "evaluate takes no candidate"),
        (call("inspect", what="everything"), "what: input should be 'dependences', 'legal', 'nest' or 'bound'"),
        (call("inspect", of="k"), "inspect needs what; write inspect(what, [of], [schedule])"),
        (call("finish", because="x"), "finish takes no because"),
        ({"type": "tool_use", "id": "t1", "name": "evaluate", "input": "parallel(i)"}, "must be a JSON object"),
        ({"type": "tool_use", "id": "t1", "name": None, "input": {}}, "there is no tool None"),
        ({"type": "tool_use", "id": "t1", "name": ["evaluate"], "input": {}}, "there is no tool"),
        (call("evaluate", schedule="\ud800"), "schedule: input should be a valid string"),
    ],
)
def test_what_is_not_valid_is_told_with_what_would_be(briefing: Briefing, block: dict[str, Any], said: str) -> None:
    assert said in message_of(briefing, block)


def test_a_megabyte_is_refused_at_once(briefing: Briefing) -> None:
    megabyte = "x" * 2**20
    started = time.perf_counter()
    assert f"at most {LONGEST_SCHEDULE} characters" in message_of(briefing, call("evaluate", schedule=megabyte))
    assert "takes no xxx" in message_of(briefing, call("evaluate", **{megabyte: "", "schedule": ""}))
    assert "there is no tool xxx" in message_of(briefing, call(megabyte))
    many = {f"field{number}": "x" for number in range(2_000)}
    assert "takes no field0" in message_of(briefing, call("finish", **many))
    assert time.perf_counter() - started < 1.0


def test_a_tool_that_is_switched_off_does_not_exist(briefing: Briefing) -> None:
    said = message_of(briefing, call("inspect", what="bound"), Grounding.INSPECT)
    assert "there is no tool inspect" in said
    assert "inspect(" not in said


def test_a_text_s_candidate_is_called_candidate() -> None:
    briefing = briefing_of(TextProblem("poem.txt", "roses"))
    assert read_calls([call("evaluate", candidate="violets\n")], briefing) == (Evaluate("t1", "violets\n", ""),)
    assert "evaluate needs candidate" in message_of(briefing, call("evaluate", schedule="parallel(i)"))
    assert "there is no tool inspect" in message_of(briefing, call("inspect", what="nest"))
    assert "characters" in message_of(briefing, call("evaluate", candidate="x" * (LONGEST_TEXT + 1)))


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        ("parallel(i)", "parallel(i)"),
        ("Try this:\n```\ntile(i=8); parallel(i_t)\n```\nIt has threads.", "tile(i=8); parallel(i_t)"),
        ("~~~text\nparallel(i)\n~~~", "parallel(i)"),
        ("```\nparallel(i)\n```\nor\n```\nparallel(j)\n```", None),
        ("```\nparallel(i)", None),
        ("I would make loop i parallel.", None),
        ("```\nfor i in prange(n): ...\n```", None),
        ("```\nparallel(q)\n```", None),
        ("", None),
        ("# nothing", None),
        ("```\n```", None),
        ("parallel(i) " * 100_000, None),
    ],
)
def test_prose_is_a_schedule_only_when_it_can_be_nothing_else(
    gemm: KernelProblem, answer: str, found: str | None
) -> None:
    assert strict_prose(answer, gemm) == found


def test_a_refusal_never_becomes_a_text() -> None:
    problem = TextProblem("poem.txt", "roses")
    assert strict_prose("I cannot help with that.", problem) is None
    assert strict_prose("Here:\n```\nviolets\n```", problem) == "violets"
    assert strict_prose("````\n```\nviolets\n```\n````", problem) == "```\nviolets\n```"
    assert strict_prose("3.5", NumberProblem()) == "3.5"
