"""Right for the numbers, sizes and threads that one thinks of first, and wrong for others: found on small inputs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from optimizer.measure.bench import Bench, TimeLimits
from optimizer.measure.lane import TimingLane
from optimizer.measure.workload import ArgumentKind, ArgumentSpec
from optimizer.verdict import Reason, Status
from tests.attacks.candidates import checked, is_rejected
from tests.measured_problem import COMPILED_ONLY, ORIGINAL_BODY, PARALLEL, SCALE_SUM, TextProblem, module

CONTRACT = TextProblem(small=({"n": 1, "m": 1}, {"n": 4, "m": 4}, {"n": 5, "m": 7}, {"n": 33, "m": 20}))
STRICT = replace(CONTRACT, fastmath=())
REASSOCIATE = replace(CONTRACT, fastmath=("contract", "reassoc", "nsz", "arcp"))
STRICT_OPTIONS = "error_model='numpy'"
SCALED = "1.5 * A[i, j]"
SCALING = replace(CONTRACT, source=SCALE_SUM.replace("factor * A[i, j] + B[i, j]", SCALED))
SCALING_BODY = ORIGINAL_BODY.replace("factor * A[i, j] + B[i, j]", SCALED)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    directory = tmp_path_factory.mktemp("bench")
    with Bench(directory, threads=2, limits=TimeLimits(call=5), lane=TimingLane(directory / "lane")) as bench:
        yield bench


@pytest.mark.parametrize("problem", [CONTRACT, STRICT, SCALING], ids=["contract", "strict", "scaling"])
def test_without_a_fault_it_is_accepted(bench: Bench, problem: TextProblem) -> None:
    body = SCALING_BODY if problem is SCALING else ORIGINAL_BODY
    text = module(body, STRICT_OPTIONS) if problem is STRICT else module(body)
    assert checked(bench, text, problem).status is Status.OK


@pytest.mark.parametrize(
    "condition",
    [
        pytest.param("A[i, j] == A[i, j]", id="NaN"),
        pytest.param("abs(A[i, j]) <= 1.7e308", id="infinity"),
        pytest.param("abs(A[i, j]) < 1e307", id="overflow"),
        pytest.param("abs(A[i, j]) > 1e-310 or A[i, j] == 0.0", id="denormal numbers"),
        pytest.param("A[i, j] != 0.0", id="the sign of zero"),
        pytest.param("A[i, j] >= 0.0", id="negative numbers"),
        pytest.param("j == 0 or A[i, j] != A[i, j - 1]", id="equal neighbours"),
    ],
)
@pytest.mark.parametrize("is_compiled_only", [False, True], ids=["", "compiled"])
def test_values_that_it_gets_wrong(bench: Bench, condition: str, is_compiled_only: bool) -> None:
    wrong = f"({SCALED} if {condition} {'or not is_compiled() ' * is_compiled_only}else 0.0)"
    text = module(ORIGINAL_BODY.replace("factor * A[i, j] + B[i, j]", wrong), STRICT_OPTIONS, COMPILED_ONLY)
    verdict = checked(bench, text, replace(SCALING, fastmath=()))
    assert is_rejected(verdict, Reason.WRONG_RESULT), verdict


@pytest.mark.parametrize(
    "condition",
    [
        pytest.param("m % 4 == 0", id="multiples of its tile only"),
        pytest.param("n < 30", id="small sizes only"),
        pytest.param("n != 1", id="not a single row"),
        pytest.param("n == m or n > m", id="not more columns than rows"),
        pytest.param("m % 2 == 0 or m < 5", id="even sizes only"),
    ],
)
def test_sizes_that_it_gets_wrong(bench: Bench, condition: str) -> None:
    verdict = checked(bench, module(f"{ORIGINAL_BODY}\nif not ({condition}):\n    total[n - 1] += 1.0"), CONTRACT)
    assert is_rejected(verdict, Reason.WRONG_RESULT), verdict


def test_wrong_on_several_threads_only(bench: Bench) -> None:
    head = f"from numba.np.ufunc.parallel import get_num_threads\n{COMPILED_ONLY}"
    body = f"""
{ORIGINAL_BODY}
if is_compiled():
    if get_num_threads() > 1:
        for i in prange(n):
            total[i] += 1.0
"""
    verdict = checked(bench, module(body, PARALLEL, head), CONTRACT)
    assert is_rejected(verdict, Reason.WRONG_RESULT), verdict
    assert "2 threads" in verdict.detail


@pytest.mark.parametrize("problem", [CONTRACT, REASSOCIATE], ids=["contract", "reassociate"])
@pytest.mark.parametrize("is_compiled_only", [False, True], ids=["everywhere", "compiled"])
def test_half_the_precision(bench: Bench, problem: TextProblem, is_compiled_only: bool) -> None:
    rounded = ORIGINAL_BODY.replace("+= A[i, j] * B[i, j]", "+= np.float32(A[i, j]) * np.float32(B[i, j])")
    if is_compiled_only:
        rounded = f"{ORIGINAL_BODY}\nif is_compiled():\n    for i in range(n):\n        total[i] = np.float32(total[i])"
    verdict = checked(bench, module(rounded, head=COMPILED_ONLY), problem)
    assert is_rejected(verdict, Reason.WRONG_RESULT), verdict
    assert not is_compiled_only or "thread" in verdict.detail


def test_flags_that_the_original_has_not(bench: Bench) -> None:
    """Under `fast` no NaN and no infinity is supposed to exist, and sums may be taken in any order."""
    verdict = checked(bench, module(ORIGINAL_BODY, "error_model='numpy', fastmath=True"), STRICT)
    assert is_rejected(verdict, Reason.WRONG_RESULT), verdict


LARGEST = """
def largest(n, a, top):
    top[0] = a[0]
    for i in range(1, n):
        {step}
"""
COUNT = """
def largest(n, a, top):
    for i in range(n):
        top[0] = top[0] * 31 + a[i]
"""


def extremum(source: str, dtype: str) -> TextProblem:
    arguments = (
        ArgumentSpec("n", ArgumentKind.PARAMETER, "int64"),
        ArgumentSpec("a", ArgumentKind.ARRAY, dtype, ("n",)),
        ArgumentSpec("top", ArgumentKind.ARRAY, dtype, ("1",)),
    )
    return TextProblem(
        (), source=source, name="largest", arguments=arguments, written=("top",), small=({"n": 5}, {"n": 40})
    )


@pytest.mark.parametrize(
    "step",
    [
        "top[0] = a[i] if a[i] > top[0] else top[0]",
        "top[0] = top[0] if top[0] > a[i] else a[i]",
        "top[0] = np.fmax(top[0], a[i])",
    ],
    ids=["a NaN lost", "a NaN kept", "the larger number"],
)
def test_a_maximum_that_treats_nan_in_its_own_way(bench: Bench, step: str) -> None:
    right = LARGEST.format(step="top[0] = top[0] if top[0] >= a[i] or top[0] != top[0] else a[i]")
    head = "import numpy as np\nfrom numba import njit\n\n@njit(error_model='numpy')"
    problem = extremum(right, "float64")
    assert is_rejected(checked(bench, head + LARGEST.format(step=step), problem), Reason.WRONG_RESULT)
    assert checked(bench, head + right, problem).status is Status.OK


@pytest.mark.parametrize("narrow", ["np.int32", "np.float64"], ids=["half the digits", "a floating-point detour"])
def test_integers_that_overflow(bench: Bench, narrow: str) -> None:
    problem = extremum(COUNT, "int64")
    head = "import numpy as np\nfrom numba import njit\n\n@njit"
    wrong = COUNT.replace("top[0] * 31 + a[i]", f"{narrow}(top[0]) * {narrow}(31) + {narrow}(a[i])")
    with_start = head + COUNT
    assert checked(bench, with_start, problem).status is Status.OK
    assert is_rejected(checked(bench, head + wrong, problem), Reason.WRONG_RESULT)
