"""`loopwright check`: one schedule, judged and timed."""

import json
from typing import Any

import pytest
from click.testing import CliRunner

from optimizer.candidate import Candidate
from optimizer.cli import main
from optimizer.kernel_problem import KernelProblem
from optimizer.verdict import Measurement, Reason, Status, Verdict
from optimizer.views.check import check_json

KEYS = {"kernel", "schedule", "status", "reason", "detail", "witness", "repair", "speedup", "interval", "assurance"}


def check(*arguments: str) -> tuple[int, dict[str, Any]]:
    result = CliRunner().invoke(main, ["check", *arguments, "--json"])
    assert result.exit_code in (0, 1), result.output
    return result.exit_code, json.loads(result.stdout)


def test_an_illegal_schedule_comes_with_witness_and_legal_repair() -> None:
    status, data = check("lu", "parallel(i)", "--size", "mini", "--no-timing")
    assert status == 1
    assert set(data) == KEYS
    assert (data["status"], data["reason"], data["speedup"], data["interval"]) == ("rejected", "illegal", None, None)
    assert {"array", "kind", "source", "source_iteration", "sink", "sink_iteration", "loop"} <= set(data["witness"])
    assert (data["witness"]["array"], data["witness"]["loop"]) == ("A", "i")
    problem = KernelProblem.load("lu", "mini")
    assert problem.is_admissible(problem.parse(data["repair"]))


def test_text_for_people_names_the_repair() -> None:
    result = CliRunner().invoke(main, ["check", "lu", "parallel(i)", "--size", "mini", "--no-timing"])
    assert result.exit_code == 1
    assert "illegal" in result.stdout
    assert "nearest legal schedule: " in result.stdout


def test_a_legal_schedule_is_timed() -> None:
    status, data = check("matmul", "reorder(i, k, j)", "--size", "mini", "--threads", "1", "--fp", "strict")
    assert status == 0
    assert (data["status"], data["reason"], data["witness"], data["repair"]) == ("ok", None, None, None)
    assert data["interval"][0] <= data["speedup"] <= data["interval"][1]
    assert data["assurance"].startswith("proved, bit-exact")


def test_a_rejected_measurement_is_no_speedup() -> None:
    measured = Verdict(Status.OK, "timing", measurement=Measurement(900.0, (890.0, 910.0), 5))
    verdicts = (measured, Verdict(Status.REJECTED, "plausibility", Reason.SUSPICIOUS, "faster than the machine"))
    data = check_json("matmul", "", verdicts)
    assert (data["status"], data["reason"], data["speedup"]) == ("rejected", "suspicious", None)


def test_infrastructure_trouble_is_status_3(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(problem: KernelProblem, candidate: Candidate, verifiers: Any) -> tuple[Verdict, ...]:
        assert verifiers
        return (Verdict(Status.ERROR, "timing", Reason.INFRASTRUCTURE, "the worker does not start"),)

    monkeypatch.setattr("optimizer.single_check.judge", broken)
    result = CliRunner().invoke(main, ["check", "matmul", "", "--size", "mini", "--json"])
    assert result.exit_code == 3
    assert json.loads(result.stdout)["status"] == "error"
