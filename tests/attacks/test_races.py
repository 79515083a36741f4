"""Loops that other tools ran in parallel although they carry dependences: legality refuses them, and so do runs.

A code generator may be wrong where the proof is right, so here the code of illegal schedules goes past legality to the
checks that run it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import pytest

from optimizer.kernel_problem import KernelProblem
from optimizer.measure.bench import Bench, TimeLimits
from optimizer.measure.lane import TimingLane
from optimizer.verdict import Reason, Status
from tests.attacks.candidates import is_rejected
from tests.mutants.fault import only_compiled
from tests.mutants.subject import PlantedBackend
from verifiers.equivalence import Equivalence
from verifiers.legality import Legality

RACES: Mapping[str, str] = {
    "lu": "parallel(i)",
    "cholesky": "parallel(i)",
    "seidel-2d": "parallel(t)",
    "nussinov": "parallel(i)",
    "trisolv": "parallel(i)",
    "floyd-warshall": "parallel(k)",
}
"""Kernel -> its outermost loop in parallel."""
FOUND_AT_LEAST = 5
FOUND = (Reason.WRONG_RESULT, Reason.NONDETERMINISTIC)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    directory = tmp_path_factory.mktemp("bench")
    with Bench(directory, threads=2, limits=TimeLimits(call=5), lane=TimingLane(directory / "lane")) as bench:
        yield bench


def problem_of(kernel: str) -> KernelProblem:
    return KernelProblem.load(kernel, "mini", threads=2)


@pytest.mark.parametrize("kernel", RACES)
def test_the_proof_refuses(kernel: str) -> None:
    problem = problem_of(kernel)
    assert is_rejected(Legality().verify(problem, problem.parse(RACES[kernel])), Reason.ILLEGAL)


@pytest.mark.parametrize("kernel", ["lu", "cholesky", "nussinov", "trisolv"])
def test_runs_in_another_order_refuse_without_any_luck(bench: Bench, kernel: str) -> None:
    problem = problem_of(kernel)
    verdict = Equivalence(bench).verify(problem, problem.parse(RACES[kernel]))
    assert is_rejected(verdict, *FOUND), verdict
    assert "as plain Python" in verdict.detail


def test_repeated_runs_on_several_threads_alone_find_at_least_five(bench: Bench) -> None:
    """As plain Python the candidates are the original, so that nothing else can find them."""
    found: dict[str, str] = {}
    for kernel, schedule in RACES.items():
        problem = problem_of(kernel)
        right, racing = (problem.code(problem.parse(text)) for text in ("", schedule))
        planted = replace(problem, backend=PlantedBackend(only_compiled(right, racing)))
        verdict = Equivalence(bench).verify(planted, planted.parse(schedule))
        if verdict.status is not Status.OK:
            assert is_rejected(verdict, *FOUND), verdict
            assert "thread" in verdict.detail
            found[kernel] = verdict.detail
    assert len(found) >= FOUND_AT_LEAST, sorted(RACES.keys() - found)
