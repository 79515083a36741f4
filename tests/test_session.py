"""Whose fault an exception in the worker process is: a candidate's is a rejection, the harness's is trouble."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from optimizer.candidate import Candidate
from optimizer.errors import InfrastructureError
from optimizer.measure.bench import Bench
from optimizer.measure.commands import Form
from optimizer.measure.guards import GuardedArguments
from optimizer.measure.lane import TimingLane
from optimizer.measure.runner import Code, Runner
from optimizer.measure.worker import Step, Worker
from optimizer.verdict import Reason, Status, Verdict
from tests.measured_problem import ORIGINAL_BODY, TextProblem, module
from verifiers.equivalence import Equivalence

PROBLEM = TextProblem(small=({"n": 4, "m": 3},))
HONEST = module(ORIGINAL_BODY)
NO_TEXT = """
class Untold(Exception):
    def __str__(self):
        raise self
"""
NO_ARRAY = """
class Result:
    def __array__(self, dtype=None, copy=None):
        raise OSError("the disk is full")
"""
OUR_ERROR = "from optimizer.errors import InfrastructureError\n"


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    directory = tmp_path_factory.mktemp("bench")
    with Bench(directory, threads=1, lane=TimingLane(directory / "lane")) as bench:
        yield bench


def judged(bench: Bench, text: str) -> Verdict:
    return Equivalence(bench).verify(PROBLEM, Candidate(text))


@pytest.mark.parametrize(
    ("end", "reason", "detail"),
    [
        ("open('/no/such/file')", Reason.BUILD_FAILED, "No such file"),
        (NO_TEXT + "raise Untold()", Reason.BUILD_FAILED, "Untold"),
        (OUR_ERROR + "raise InfrastructureError('the disk is full')", Reason.BUILD_FAILED, "the disk is full"),
        ("raise MemoryError('too much')", Reason.OUT_OF_MEMORY, "no memory left"),
        ("del scale_sum", Reason.BUILD_FAILED, "no function scale_sum"),
    ],
    ids=["no file", "no text", "our own kind", "memory", "no function"],
)
def test_whatever_a_module_raises_it_is_the_candidates_fault(
    bench: Bench, end: str, reason: Reason, detail: str
) -> None:
    verdict = judged(bench, f"{HONEST}\n{end}\n")
    assert (verdict.status, verdict.reason) == (Status.REJECTED, reason), verdict
    assert detail in verdict.detail


@pytest.mark.parametrize(
    ("head", "body", "detail"),
    [
        ("", "open('/no/such/file')", "No such file"),
        (NO_TEXT, "raise Untold()", "Untold"),
        (OUR_ERROR, "raise InfrastructureError('the disk is full')", "the disk is full"),
        (NO_ARRAY, f"{ORIGINAL_BODY}\nreturn Result()", "the disk is full"),
    ],
    ids=["no file", "no text", "our own kind", "a result that is no array"],
)
def test_whatever_a_call_raises_it_is_the_candidates_fault(bench: Bench, head: str, body: str, detail: str) -> None:
    verdict = judged(bench, module(body, head=head))
    assert (verdict.status, verdict.reason) == (Status.REJECTED, Reason.WRONG_RESULT), verdict
    assert detail in verdict.detail


def test_a_module_that_is_gone_is_trouble(bench: Bench) -> None:
    runner = Runner(bench.worker, 1)
    for form in (Form.CANDIDATE, Form.PLAIN):
        with pytest.raises(InfrastructureError, match="cannot be read"):
            runner.build(Code(form, str(bench.directory / "gone.py"), "scale_sum"), Step("building", 60, 0))


@pytest.mark.parametrize(
    "planted",
    [
        "guards.OwnArguments.restore",
        "guards.OwnArguments.arguments",
        "loading.types_of",
        "commands.CallReport.__init__",
    ],
)
def test_a_bug_of_the_harness_while_a_candidate_runs_is_trouble(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, planted: str
) -> None:
    """Planted into the worker process before it imports anything: never a rejection, and never a time."""
    plant_bug(tmp_path, planted)
    values = {"n": 3, "m": 2, "factor": 2.0, "A": np.ones((3, 2)), "B": np.ones((3, 2)), "total": np.zeros(3)}
    (tmp_path / "candidate.py").write_text(HONEST)
    code = Code(Form.CANDIDATE, str(tmp_path / "candidate.py"), "scale_sum")
    with Worker(tmp_path, 1) as worker:
        ordinary = worker._variables()  # pyright: ignore[reportPrivateUsage]
        path = f"{tmp_path}:{ordinary['PYTHONPATH']}"
        monkeypatch.setattr(worker, "_variables", lambda: {**ordinary, "PYTHONPATH": path})
        runner, step = Runner(worker, 1), Step("the candidate", 60, 0)
        runner.load(GuardedArguments(values), Step("handing over inputs", 60))
        with pytest.raises(InfrastructureError, match="a bug of ours"):
            build_and_call(runner, code, step)


def build_and_call(runner: Runner, code: Code, step: Step) -> None:
    runner.call(runner.build(code, step), step, is_restored=True)


def plant_bug(folder: Path, place: str) -> None:
    """Python runs `sitecustomize` before everything else."""
    file, _, _ = place.partition(".")
    (folder / "sitecustomize.py").write_text(
        f"from optimizer.measure import {file}\n\n\n"
        "def bug(*arguments, **named):\n    raise ValueError('a bug of ours')\n\n\n"
        f"{place} = bug\n"
    )
