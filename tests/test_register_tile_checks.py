"""Register tiles before the check of results: right ones pass, and each kind of fault is found."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from optimizer.measure.bench import Bench, TimeLimits
from optimizer.measure.lane import TimingLane
from optimizer.verdict import Reason, Status
from tests.mutants.subject import Subject
from tests.test_random_schedules import nest_named
from tests.test_register_tile_results import tiled_source
from verifiers.equivalence import Equivalence

GEMM = Subject("gemm", "distribute(i); register_tile(i_2=3, j_2=8)", "strict")
TRMM = Subject("trmm", "distribute(j); distribute(i); register_tile(i=3, j=8); parallel(j_t)", "strict")
FAULTS = {
    "a register begins at zero": (
        GEMM,
        "C_0 = load_masked(C, (i_2_0, j_2), mask_0)",
        "C_0 = load_masked(C, (0, 0), mask_0) * 0.0",
    ),
    "a mask is one lane too wide": (
        GEMM,
        "lanes_between(j_2, j_2, j_2_end_0, 4)",
        "lanes_between(j_2, j_2, j_2_end_0 + 1, 4)",
    ),
    "too little is read": (
        GEMM,
        "mask_3 = lanes_between(j_2 + 4, j_2, j_2_end, 4)",
        "mask_3 = lanes_between(j_2 + 4, j_2, j_2_end - 1, 4)",
    ),
    "a register is not stored": (GEMM, "store_masked(C, (i_2_1, j_2 + 4), C_3, mask_5)", "pass"),
    "rows outside are not clamped": (GEMM, "i_2_2 = min(i_2 + 2, ni - 1)", "i_2_2 = i_2 + 2"),
    "what changes is read beside registers": (TRMM, "for k in range(3 * i_t + 3, m)", "for k in range(3 * i_t + 2, m)"),
}
"""What is wrong -> where, and the text that is replaced."""


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    directory = tmp_path_factory.mktemp("bench")
    with Bench(directory, threads=2, limits=TimeLimits(), lane=TimingLane(directory / "lane")) as bench:
        yield bench


def source_of(subject: Subject) -> str:
    return tiled_source(nest_named(subject.kernel), subject.schedule, 4)


@pytest.mark.parametrize("subject", [GEMM, TRMM], ids=str)
def test_register_tiles_pass_every_check(bench: Bench, subject: Subject) -> None:
    verdict = Equivalence(bench, repeats=2).verify(subject.planted(source_of(subject)), subject.candidate)
    assert verdict.status is Status.OK, verdict


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_of_register_tiles_are_found(bench: Bench, fault: str) -> None:
    subject, right, wrong = FAULTS[fault]
    source = source_of(subject)
    assert source.count(right) == 1
    verdict = Equivalence(bench, repeats=2).verify(subject.planted(source.replace(right, wrong)), subject.candidate)
    assert verdict.status is Status.REJECTED
    assert verdict.reason is not Reason.BUILD_FAILED
