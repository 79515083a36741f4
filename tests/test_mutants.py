"""Faults planted into generated code: the cascade rejects those that change a result; the judge can tell which do."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import numpy as np
import pytest

from optimizer.measure.bench import Bench, TimeLimits
from optimizer.measure.lane import TimingLane
from optimizer.measure.loading import plain_function
from optimizer.measure.problem import TIMING
from optimizer.measure.workload import ArgumentKind, ArgumentSpec, RandomInputs, Workload
from optimizer.polyhedral.legality import Legal
from optimizer.verdict import Reason, Status
from tests.mutants.fault import Fault, only_compiled
from tests.mutants.judging import Answer, Question, answer, ask
from tests.mutants.mask_faults import MASK_FAULTS
from tests.mutants.parts import Part, one_of_each
from tests.mutants.registry import FAULTS
from tests.mutants.scoring import Outcome, draw, evaluate, one_of
from tests.mutants.subject import HELD_SUBJECTS, SUBJECTS, THREADS, TILE_SUBJECTS, VECTOR_SUBJECTS, Subject
from tests.mutants.vector_faults import VECTOR_FAULTS
from verifiers.equivalence import Equivalence

SEED = 0
QUICK = [
    subject
    for subject in SUBJECTS
    if subject.kernel in ("gemm", "limited_rows", "row_norms")
    and subject not in (*VECTOR_SUBJECTS, *TILE_SUBJECTS, *HELD_SUBJECTS)
    and "autoschedule" not in subject.schedule
]
QUICK_VECTORS = [subject for subject in VECTOR_SUBJECTS if subject.kernel == "clipped"]
SEEDS = {
    "runs-backward": 1,
    "wrong-above-16": 5,
    "wrong-above-48": 1,
    "lower-clamp-lost": 1,
    "lower-tile-start-lost": 5,
    "statements-exchanged": 1,
    "zero-skipped": 2,
    "denormals-flushed": 2,
    "chunk-lost-when-long": 5,
    "chunk-loses-last": 1,
    "written-behind-input": 4,
    "written-behind-array": 1,
    "bound-number-up": 2,
    "indices-swapped": 2,
    "reassociated": 2,
    "fast": 1,
}
"""Which mutant of a kind changes a result, where the first one does not or takes long to be found."""
NOT_SAMPLED = frozenset(
    [
        "loops-interchanged",
        "guard-never-holds",
        "guard-boundary",
        "condition-dropped",
        "sum-becomes-difference",
        "number-rounded",
        "comparison-boundary",
        "negative-zero-lost",
        "stale-pack",
        "view-returned",
        "parallel-mark",
        "signs-of-zeros-ignored",
        "special-values-ignored",
        "other-mask",
    ]
)
"""Kinds that do not apply to the quick kernels or are mostly harmless there; `benchmarks.mutation_score` has them."""
IN_PARTS = [
    (Part.TILE, "masked-not-stored"),
    (Part.PACKED, "last-iteration-lost"),
    (Part.PRIVATE, "private-copy-wrong"),
    (Part.HELD, "statement-dropped"),
]
"""Kinds that change a result there."""
SAMPLED = [fault for fault in FAULTS if fault.name not in NOT_SAMPLED]
EVERY = 3
"""Of the sampled kinds one in so many runs in each ordinary test run; the others are long."""


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    directory = tmp_path_factory.mktemp("mutants")
    limits = TimeLimits(build=60, call=5, check=120, timing=60, rounds=0.1)
    with Bench(directory, threads=THREADS, limits=limits, lane=TimingLane(directory / "lane")) as bench:
        yield bench


def fault_named(name: str) -> Fault:
    return next(fault for fault in FAULTS if fault.name == name)


def test_there_are_enough_kinds_and_kernels() -> None:
    assert len({fault.name for fault in FAULTS}) == len(FAULTS) >= 40
    assert len({subject.kernel for subject in SUBJECTS}) >= 12
    schedules = " ".join(subject.schedule for subject in SUBJECTS)
    steps = [
        "tile",
        "parallel",
        "wavefront",
        "unroll",
        "unroll_and_jam",
        "vectorize",
        "split",
        "skew",
        "distribute",
        "autoschedule",
    ]
    assert all(f"{step}(" in schedules for step in steps)


@pytest.mark.parametrize("subject", SUBJECTS, ids=str)
def test_subjects_are_right(subject: Subject) -> None:
    assert subject.problem.judge(subject.candidate).legal is Legal.YES


def test_every_fault_makes_other_modules() -> None:
    mutants = draw(len(FAULTS), SEED)
    assert {mutant.fault.name for mutant in mutants} == {fault.name for fault in FAULTS}
    for mutant in mutants:
        compile(mutant.text, "mutant", "exec")
        assert ast.unparse(ast.parse(mutant.wrong)) != ast.unparse(ast.parse(mutant.subject.code))


def test_the_same_seed_draws_the_same_mutants() -> None:
    once, again, other = (draw(60, seed, subjects=QUICK) for seed in (1, 1, 2))
    assert [mutant.text for mutant in once] == [mutant.text for mutant in again]
    assert [mutant.text for mutant in once] != [mutant.text for mutant in other]
    assert len({(mutant.fault.name, mutant.subject, mutant.wrong) for mutant in once}) == 60


def test_hidden_faults_show_only_in_compiled_code() -> None:
    right = "from numba import njit\n@njit\ndef one():\n    return 1\n"
    text = only_compiled(right, right.replace("return 1", "return 2"))
    assert plain_function(text, "one", "one")() == 1
    namespace: dict[str, object] = {}
    exec(text, namespace)
    function = namespace["one"]
    assert callable(function)
    assert function() == 2


def test_a_planted_back_end_is_all_that_differs(bench: Bench) -> None:
    """The right code passes by the same way that mutants take."""
    subject = next(subject for subject in QUICK if subject.kernel == "row_norms")
    verdict = Equivalence(bench).verify(subject.planted(subject.code), subject.candidate)
    assert verdict.status is Status.OK, verdict


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(fault, id=fault.name, marks=[pytest.mark.long] if place % EVERY else [])
        for place, fault in enumerate(SAMPLED)
    ],
)
def test_the_cascade_rejects(bench: Bench, fault: Fault) -> None:
    """One mutant of each kind, which is known to change a result."""
    mutant = one_of(
        fault, QUICK_VECTORS if fault in (*VECTOR_FAULTS, *MASK_FAULTS) else QUICK, SEEDS.get(fault.name, 0)
    )
    verdict = Equivalence(bench).verify(mutant.subject.planted(mutant.text), mutant.subject.candidate)
    assert verdict.status is Status.REJECTED, f"{mutant.subject}\n{mutant.text}"
    assert verdict.reason is not Reason.BUILD_FAILED, verdict.detail


@pytest.mark.parametrize(("part", "fault"), IN_PARTS)
def test_the_cascade_rejects_in_each_part_of_the_code(bench: Bench, part: Part, fault: str) -> None:
    (mutant,) = one_of_each(part, SEED, [fault_named(fault)])
    verdict = Equivalence(bench).verify(mutant.subject.planted(mutant.text), mutant.subject.candidate)
    assert verdict.status is Status.REJECTED, f"{mutant.subject}\n{mutant.text}"


@pytest.mark.long
@pytest.mark.parametrize("part", Part)
def test_no_kind_of_fault_survives_in_a_part_of_the_code(bench: Bench, part: Part) -> None:
    results = [evaluate(mutant, bench) for mutant in one_of_each(part, SEED)]
    assert len(results) > 50
    assert [result for result in results if result.outcome is Outcome.SURVIVED] == []


def test_an_accepted_mutant_is_judged(bench: Bench) -> None:
    """The rows of a matrix product may be computed in any order."""
    backward = one_of(fault_named("loops-interchanged"), [SUBJECTS[0]], 0)
    assert evaluate(backward, bench).outcome is Outcome.EQUIVALENT


# The judge

ADD = """
from numba import njit, prange

@njit(parallel=True)
def add(n, x, y):
    for i in prange(n):
        y[i] += x[i]
"""
WORKLOAD = Workload(
    source=ADD,
    function="add",
    fastmath=(),
    arguments=(
        ArgumentSpec("n", ArgumentKind.PARAMETER, "int64"),
        ArgumentSpec("x", ArgumentKind.ARRAY, "float64", ("n",)),
        ArgumentSpec("y", ArgumentKind.ARRAY, "float64", ("n",)),
    ),
    written=("y",),
    sizes={"n": 50},
    inputs=RandomInputs(),
)


def judged(wrong: str, *, right: str = ADD, compiles: bool = False, is_loose: bool = False) -> Answer:
    sizes = [{"n": n} for n in (0, 1, 2, 17, 50)]
    with np.errstate(all="ignore"):
        return answer(Question(WORKLOAD, right, wrong, sizes, THREADS, compiles, keeps_flags=False, is_loose=is_loose))


@pytest.mark.parametrize(
    "body",
    [
        "if n > 49:\n            y[i] += x[i] + 1.0\n        else:\n            y[i] += x[i]",
        "y[i] += x[i] if x[i] == x[i] else 0.0",
        "y[i] += x[i] * 1.0000000000000002",
        "y[i] += x[i]\n        x[i] = 0.0",
        "y[i] += x[i + 1]",
        "y[i] = x[i] + (y[i] if i == 0 else y[i - 1])",
    ],
)
def test_the_judge_sees_every_change(body: str) -> None:
    assert judged(ADD.replace("y[i] += x[i]", body)).difference is not None


def test_the_judge_sees_no_change_where_there_is_none() -> None:
    same = judged(ADD.replace("y[i] += x[i]", "y[i] = x[i] + y[i]"))
    assert same.difference is None
    assert same.runs > 60


def test_the_judge_can_leave_rounding_out() -> None:
    off = ADD.replace("y[i] += x[i]", "y[i] += x[i] * 1.0000000000000002")
    assert judged(off, is_loose=True).difference is None
    assert judged(ADD.replace("y[i] += x[i]", "y[i] += x[i] * 1.0001"), is_loose=True).difference is not None


def test_the_judge_sees_what_is_returned_and_kept() -> None:
    assert judged(ADD + "    return x\n").difference is not None
    subject = SUBJECTS[0]
    mutant = one_of(fault_named("result-kept-by-address"), [subject], 0)
    workload = subject.problem.workload(TIMING)
    found = ask(
        Question(workload, subject.code, mutant.wrong, [{"ni": 3, "nj": 3, "nk": 3}], THREADS, False, False, False)
    )
    assert found is not None
    assert found.difference is not None


def test_the_judge_compiles_where_only_that_shows_a_fault() -> None:
    serial = ADD.replace("prange(n)", "range(n)").replace("(parallel=True)", "")
    behind = serial + "    y[n] = 1.0\n"
    hidden = only_compiled(serial, behind)
    assert judged(hidden, right=serial).difference is None
    assert judged(hidden, right=serial, compiles=True).difference is not None
