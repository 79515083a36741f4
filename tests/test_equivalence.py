"""Candidates that differ from the original in any way are found, and those that do not are accepted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import psutil
import pytest

from optimizer.candidate import Candidate
from optimizer.errors import InfrastructureError, UserError
from optimizer.measure.bench import Bench, TimeLimits
from optimizer.measure.commands import Form
from optimizer.measure.comparison import RoundingJudge, arrays_of, bit_difference, named_results, scale_difference
from optimizer.measure.guards import GuardedArguments
from optimizer.measure.inputs import ValueKind, make_values, perturbed
from optimizer.measure.lane import TimingLane
from optimizer.measure.loading import plain_function
from optimizer.measure.workload import ArgumentKind, ArgumentSpec, CatalogInputs, FileInputs
from optimizer.run import Closable
from optimizer.verdict import Reason, Status, Verdict
from tests.measured_problem import (
    COMPILED_ONLY,
    ORIGINAL_BODY,
    PARALLEL,
    PARALLEL_BODY,
    SCALE_SUM,
    TextProblem,
    module,
)
from verifiers.equivalence import Equivalence

STRICT = TextProblem(fastmath=())
CONTRACT = TextProblem()
REASSOCIATE = TextProblem(fastmath=("contract", "reassoc", "nsz", "arcp"))
STRICT_OPTIONS = "error_model='numpy'"
STRICT_PARALLEL = "parallel=True, error_model='numpy'"
TILED_BODY = """
for i in range(n):
    total[i] = 0.0
for j_t in range(0, m, 4):
    for i in range(n):
        for j in range(j_t, min(j_t + 4, m)):
            A[i, j] = factor * A[i, j] + B[i, j]
            total[i] += A[i, j] * B[i, j]
"""
BACKWARD_SUM_BODY = """
for i in range(n):
    total[i] = 0.0
    for j in range(m):
        A[i, j] = factor * A[i, j] + B[i, j]
    for j in range(m - 1, -1, -1):
        total[i] += A[i, j] * B[i, j]
"""


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    directory = tmp_path_factory.mktemp("bench")
    with Bench(directory, threads=2, limits=TimeLimits(call=5), lane=TimingLane(directory / "lane")) as bench:
        yield bench


def judged(bench: Bench, text: str, problem: TextProblem = CONTRACT) -> Verdict:
    return Equivalence(bench).verify(problem, Candidate(text))


def rejected_for(verdict: Verdict, reason: Reason) -> bool:
    return (verdict.status, verdict.reason) == (Status.REJECTED, reason)


@pytest.mark.parametrize("problem", [STRICT, CONTRACT, REASSOCIATE], ids=["strict", "contract", "reassociate"])
def test_original_itself_passes(bench: Bench, problem: TextProblem) -> None:
    options = f"error_model='numpy', fastmath={set(problem.fastmath) or False}"
    verdict = judged(bench, module(ORIGINAL_BODY, options), problem)
    assert verdict.status is Status.OK, verdict
    assert verdict.assurance.startswith("bit-exact on ")
    assert int(verdict.assurance.split()[2]) >= 20


def test_tiled_code_is_bit_exact_in_strict_mode(bench: Bench) -> None:
    assert "bit-exact" in judged(bench, module(TILED_BODY, STRICT_OPTIONS), STRICT).assurance


def test_parallel_rows_are_bit_exact(bench: Bench) -> None:
    verdict = judged(bench, module(PARALLEL_BODY, STRICT_PARALLEL), STRICT)
    assert "bit-exact" in verdict.assurance, verdict


def test_contracted_candidate_fails_only_where_bits_count(bench: Bench) -> None:
    contracted = module(TILED_BODY)
    assert judged(bench, contracted, CONTRACT).status is Status.OK
    assert rejected_for(judged(bench, contracted, STRICT), Reason.WRONG_RESULT)


def test_reordered_sum_passes_only_where_reordering_is_allowed(bench: Bench) -> None:
    options = "error_model='numpy', fastmath={'contract', 'reassoc', 'nsz', 'arcp'}"
    verdict = judged(bench, module(BACKWARD_SUM_BODY, options), REASSOCIATE)
    assert "within tolerance" in verdict.assurance, verdict
    assert rejected_for(judged(bench, module(BACKWARD_SUM_BODY), CONTRACT), Reason.WRONG_RESULT)
    assert rejected_for(judged(bench, module(BACKWARD_SUM_BODY, STRICT_OPTIONS), STRICT), Reason.WRONG_RESULT)


def test_wrong_only_at_odd_sizes(bench: Bench) -> None:
    body = f"{ORIGINAL_BODY}\nif m % 2 == 1 and m > 5:\n    A[n - 1, m - 1] += 1.0"
    verdict = judged(bench, module(body))
    assert rejected_for(verdict, Reason.WRONG_RESULT)
    assert verdict.witness is not None
    assert (verdict.witness["array"], verdict.witness["index"]) == ("A", [4, 6])
    assert verdict.witness["sizes"] == {"n": 5, "m": 7}
    assert "A[4, 6] is" in verdict.detail
    assert "n=5, m=7" in verdict.detail


def test_race_is_found_although_each_run_may_look_fine(bench: Bench) -> None:
    racing = """
    for i in range(n):
        total[i] = 0.0
    for j in prange(m):
        for i in range(n):
            A[i, j] = factor * A[i, j] + B[i, j]
            total[i] += A[i, j] * B[i, j]
    """
    body = "\n".join(line[4:] for line in racing.strip("\n").splitlines())
    verdict = judged(bench, module(body, PARALLEL))
    assert rejected_for(verdict, Reason.NONDETERMINISTIC)
    assert "iteration 1 of a parallel loop writes total[0], which 0 writes" in verdict.detail


def test_race_in_compiled_code_is_nondeterministic_or_wrong(bench: Bench) -> None:
    body = f"{ORIGINAL_BODY}\nif is_compiled() and n > 30:\n    for j in prange(200000):\n        total[0] += 1.0"
    verdict = judged(bench, module(body, PARALLEL, head=COMPILED_ONLY))
    assert verdict.reason in (Reason.WRONG_RESULT, Reason.NONDETERMINISTIC)


def test_random_results_are_nondeterministic(bench: Bench) -> None:
    mischief = "if is_compiled() and n > 30:\n    for i in prange(n):\n        total[i] += np.random.random()"
    verdict = judged(bench, module(f"{ORIGINAL_BODY}\n{mischief}", PARALLEL, head=COMPILED_ONLY))
    assert verdict.reason in (Reason.NONDETERMINISTIC, Reason.WRONG_RESULT)


def test_results_that_change_from_run_to_run_are_nondeterministic(bench: Bench) -> None:
    """Within tolerance each time, so that only the comparison of repeats can see it."""
    mischief = "if is_compiled() and n > 30:\n    for i in prange(n):\n        "
    mischief += "total[i] *= 1.0 + np.floor(2.0 * np.random.random()) * 2.3e-16"
    verdict = judged(bench, module(f"{ORIGINAL_BODY}\n{mischief}", PARALLEL, head=COMPILED_ONLY))
    assert rejected_for(verdict, Reason.NONDETERMINISTIC)
    assert "2 threads" in verdict.detail
    assert "an equal run before" in verdict.detail


def test_write_into_a_guard_zone(bench: Bench) -> None:
    body = f"{ORIGINAL_BODY}\nif is_compiled():\n    total[n] = 1.0"
    verdict = judged(bench, module(body, head=COMPILED_ONLY))
    assert rejected_for(verdict, Reason.OUT_OF_BOUNDS)
    assert "total" in verdict.detail


def test_read_from_a_guard_zone_shows_in_the_result(bench: Bench) -> None:
    body = f"{ORIGINAL_BODY}\nif is_compiled() and n > 0:\n    total[0] += B[n - 1, m]"
    assert rejected_for(judged(bench, module(body, head=COMPILED_ONLY)), Reason.WRONG_RESULT)


@pytest.mark.parametrize("place", ["", "is_compiled() and "], ids=["anywhere", "compiled only"])
def test_modified_input(bench: Bench, place: str) -> None:
    body = f"{ORIGINAL_BODY}\nif {place}n > 4:\n    B[2, 3] += 1.0"
    verdict = judged(bench, module(body, head=COMPILED_ONLY))
    assert rejected_for(verdict, Reason.MODIFIED_INPUT)
    assert "B" in verdict.detail


def test_exception_that_the_original_does_not_raise(bench: Bench) -> None:
    verdict = judged(bench, module(f"{ORIGINAL_BODY}\nif n == 5:\n    raise ValueError('no fives')"))
    assert rejected_for(verdict, Reason.WRONG_RESULT)
    assert "no fives" in verdict.detail


@pytest.mark.parametrize(
    "text",
    [
        module(f"{ORIGINAL_BODY}\ntotal[0] = 'text'"),
        module(f"{ORIGINAL_BODY}\nno_such_function(n)"),
        "def scale_sum(:\n",
        "other = 1\n",
        "!the backend gave up",
    ],
    ids=["type error", "unknown name", "syntax error", "no function", "no code"],
)
def test_what_cannot_be_built(bench: Bench, text: str) -> None:
    verdict = judged(bench, text, replace(CONTRACT, small=({"n": 0, "m": 0}, {"n": 3, "m": 3})))
    assert verdict.status is Status.REJECTED
    assert verdict.reason in (Reason.BUILD_FAILED, Reason.WRONG_RESULT)
    assert len(verdict.detail) < 900


def test_compile_error_is_short_and_says_what(bench: Bench) -> None:
    body = f"{ORIGINAL_BODY}\nif is_compiled():\n    total[0] = 'text'"
    verdict = judged(bench, module(body, head=COMPILED_ONLY))
    assert rejected_for(verdict, Reason.BUILD_FAILED)
    assert "text" in verdict.detail or "unicode" in verdict.detail.lower()


def test_original_that_cannot_be_compiled_is_infrastructure(bench: Bench) -> None:
    broken = replace(CONTRACT, source=SCALE_SUM + "\n    if n > 100:\n        print({}.get(n).x)\n")
    with pytest.raises(InfrastructureError, match="cannot compile the original"):
        judged(bench, module(ORIGINAL_BODY), broken)


def test_size_at_which_the_original_fails_is_skipped(bench: Bench) -> None:
    source = SCALE_SUM + "    total[n - 1] = factor / n\n"
    body = f"{ORIGINAL_BODY}\ntotal[n - 1] = factor / n"
    verdict = judged(bench, module(body), replace(CONTRACT, source=source))
    assert verdict.status is Status.OK
    assert verdict.detail.startswith("sizes skipped: n=0, m=1")


def test_nothing_may_be_outside_of_its_array_where_the_original_fails_in_another_way(bench: Bench) -> None:
    source = SCALE_SUM + "    share = 6 // n\n    for i in range(n):\n        total[i] *= share\n"
    body = f"{ORIGINAL_BODY}\n{{}}\nshare = 6 // n\nfor i in range(n):\n    total[i] *= share"
    problem = replace(CONTRACT, source=source)
    assert judged(bench, module(body.format("first = 0.0")), problem).status is Status.OK
    verdict = judged(bench, module(body.format("first = total[0]")), problem)
    assert rejected_for(verdict, Reason.OUT_OF_BOUNDS), verdict
    assert "n=0" in verdict.detail


def test_no_size_to_check_is_infrastructure(bench: Bench) -> None:
    source = SCALE_SUM + "    total[n - 1] = factor / n\n"
    with pytest.raises(InfrastructureError, match="any size"):
        judged(bench, module(ORIGINAL_BODY), replace(CONTRACT, source=source, small=({"n": 0, "m": 0},)))


RETURNING = TextProblem(
    source="""
import math
LIMIT = 0.25

def squash(x):
    return x / (1.0 + math.sqrt(x)) if x > LIMIT else x

def norm(n, x):
    y = np.zeros(n)
    s = 0.0
    for i in range(n):
        y[i] = squash(x[i])
        s += y[i] * y[i]
    return y, s
""".replace("import math", "import math\nimport numpy as np"),
    name="norm",
    arguments=(
        ArgumentSpec("n", ArgumentKind.PARAMETER, "int64"),
        ArgumentSpec("x", ArgumentKind.ARRAY, "float64", ("n",)),
    ),
    written=(),
    small=({"n": 0}, {"n": 1}, {"n": 7}, {"n": 100}),
)


CHAOTIC = TextProblem(
    source="""
def logistic(n, x):
    for i in range(n):
        for t in range(200):
            x[i] = 3.9999 * x[i] - 3.9999 * x[i] * x[i]
""",
    name="logistic",
    arguments=(
        ArgumentSpec("n", ArgumentKind.PARAMETER, "int64"),
        ArgumentSpec("x", ArgumentKind.ARRAY, "float64", ("n",)),
    ),
    written=("x",),
    small=({"n": 4},),
    sizes={"n": 2000},
    inputs=FileInputs("set by the test"),
)


def test_inputs_on_which_rounding_decides_are_left_out(bench: Bench, tmp_path: Path) -> None:
    """Every order of operations that contraction allows gives other results here, so only plain Python can tell."""
    file = tmp_path / "arguments.npz"
    np.savez(file, n=4, x=np.array([0.1, 0.2, 0.3, 0.4]))
    chaotic = replace(CHAOTIC, inputs=FileInputs(str(file)))
    head = "from numba import njit\n\n@njit(error_model='numpy', fastmath={'contract'})"
    verdict = judged(bench, head + CHAOTIC.source, chaotic)
    assert verdict.status is Status.OK
    assert "rounding decides" in verdict.detail
    rewritten = CHAOTIC.source.replace("3.9999 * x[i] - 3.9999 * x[i] * x[i]", "3.9999 * x[i] * (1.0 - x[i])")
    assert rejected_for(judged(bench, head + rewritten, chaotic), Reason.WRONG_RESULT)


def test_unreadable_arguments_are_the_users_error(bench: Bench) -> None:
    with pytest.raises(UserError, match="cannot be read"):
        judged(bench, module(ORIGINAL_BODY), replace(CONTRACT, inputs=FileInputs("missing.npz")))


def test_returned_values_and_helper_functions(bench: Bench) -> None:
    def candidate(change: str = "") -> str:
        source = RETURNING.source.replace("def ", "@njit(fastmath={'contract'}, error_model='numpy')\ndef ")
        return f"from numba import njit\n{source}".replace("return y, s", f"{change}return y, s")

    assert judged(bench, candidate(), RETURNING).status is Status.OK
    assert rejected_for(judged(bench, candidate("s += 1e-9\n    "), RETURNING), Reason.WRONG_RESULT)
    assert rejected_for(judged(bench, candidate("y = y[1:]\n    "), RETURNING), Reason.WRONG_RESULT)


def test_integer_results_are_exact(bench: Bench) -> None:
    problem = TextProblem(
        source="def count(n, a):\n    for i in range(1, n):\n        a[i] = max(a[i], a[i - 1] + 1)\n",
        name="count",
        arguments=(
            ArgumentSpec("n", ArgumentKind.PARAMETER, "int64"),
            ArgumentSpec("a", ArgumentKind.ARRAY, "int32", ("n",)),
        ),
        written=("a",),
        small=({"n": 1}, {"n": 6}, {"n": 50}),
    )
    text = f"from numba import njit\n@njit\n{problem.source}"
    assert "bit-exact" in judged(bench, text, problem).assurance
    off = text.replace("1, n)", "1, n - n // 40)")
    assert rejected_for(judged(bench, off, problem), Reason.WRONG_RESULT)


def test_bundled_kernel_is_checked_on_its_own_inputs(bench: Bench) -> None:
    source = Path("kernels/polybench/trisolv.py")
    text = (Path(__file__).resolve().parent.parent / source).read_text(encoding="utf-8")
    function = "def trisolv(n, L, x, b):\n" + text.split("-> None:\n")[1].split("\n\n")[0] + "\n"
    problem = TextProblem(
        source=function,
        name="trisolv",
        arguments=(
            ArgumentSpec("n", ArgumentKind.PARAMETER, "int64"),
            ArgumentSpec("L", ArgumentKind.ARRAY, "float64", ("n", "n")),
            ArgumentSpec("x", ArgumentKind.ARRAY, "float64", ("n",)),
            ArgumentSpec("b", ArgumentKind.ARRAY, "float64", ("n",)),
        ),
        written=("x",),
        inputs=CatalogInputs("trisolv"),
        small=({"n": 1}, {"n": 2}, {"n": 9}, {"n": 40}),
    )
    candidate = f"from numba import njit\n@njit(error_model='numpy', fastmath={{'contract'}})\n{function}"
    assert judged(bench, candidate, problem).status is Status.OK


# Without a process


def test_inputs_are_a_function_of_the_seed() -> None:
    workload = CONTRACT.workload({"n": 5, "m": 7})
    for kind in ValueKind:
        once, again, *others = (make_values(workload, seed, kind) for seed in (3, *range(3, 11)))
        assert list(once) == ["n", "m", "factor", "A", "B", "total"]
        np.testing.assert_array_equal(once["A"], again["A"])
        assert any(not np.array_equal(once["A"], other["A"]) for other in others)


def test_special_values_are_what_they_say() -> None:
    workload = CONTRACT.workload({"n": 40, "m": 40})
    values = {kind: make_values(workload, 1, kind)["A"] for kind in ValueKind}
    assert np.isfinite(values[ValueKind.USUAL]).all()
    assert (np.signbit(values[ValueKind.SIGNS]) & (values[ValueKind.SIGNS] == 0)).any()
    assert np.abs(values[ValueKind.EXTREMES]).max() > 1e300
    assert (np.abs(values[ValueKind.EXTREMES]) > 0).any()
    assert np.isnan(values[ValueKind.NONFINITE]).any()
    assert np.isinf(values[ValueKind.NONFINITE]).any()
    assert np.isfinite(values[ValueKind.NONFINITE]).mean() > 0.5


def test_inputs_from_a_file(tmp_path: Path) -> None:
    given = {"n": 2, "m": 3, "factor": 2.5, "A": np.ones((2, 3)), "B": np.asfortranarray(np.ones((2, 3)))}
    file = tmp_path / "arguments.npz"
    np.savez(file, total=np.zeros(2), **given)  # type: ignore[arg-type]
    values = make_values(replace(CONTRACT, inputs=FileInputs(str(file))).workload({"n": 2, "m": 3}), 0)
    assert list(values) == ["n", "m", "factor", "A", "B", "total"]
    assert (values["n"], values["factor"]) == (2, 2.5)
    assert isinstance(values["n"], int)
    assert values["B"].flags.c_contiguous


def test_guard_zones_see_a_write_on_either_side() -> None:
    guarded = GuardedArguments({"n": 3, "A": np.arange(6.0).reshape(2, 3), "flags": np.ones(3, bool)})
    array = guarded.values["A"]
    assert array.ctypes.data % 64 == 0
    assert array.flags.c_contiguous
    assert guarded.overrun() is None
    outside = np.lib.stride_tricks.as_strided(array, (8,), (8,))
    outside[6] = 0.0
    assert guarded.overrun() == "A"
    array[0, 0] = 9.0
    assert guarded.modified(()) == "A"
    assert guarded.modified(("A",)) is None
    guarded.restore()
    assert guarded.modified(()) is None


def test_bits_and_what_counts_as_equal() -> None:
    base = {"A": np.array([0.0, np.nan, np.inf, 1.0])}
    assert bit_difference({"A": base["A"].copy()}, base) is None
    difference = bit_difference({"A": np.array([-0.0, np.nan, np.inf, 1.0])}, base)
    assert difference is not None
    assert str(difference) == "A[0] is -0.0 where the original gives 0.0"
    assert bit_difference({}, base) is not None
    assert bit_difference({"A": np.ones((2, 2))}, base) is not None
    assert bit_difference({"A": np.ones(4, np.float32)}, base) is not None


def test_scale_tolerance() -> None:
    base = {"A": np.array([1000.0, 1e-9, np.nan])}
    tolerances = {np.dtype(np.float64): 1e-9}
    assert scale_difference({"A": np.array([1000.0, 1e-7, np.nan])}, base, tolerances) is None
    assert scale_difference({"A": np.array([1000.0, 1e-5, np.nan])}, base, tolerances) is not None
    assert scale_difference({"A": np.array([1000.0, 1e-9, 0.0])}, base, tolerances) is not None


def test_judge_measures_by_the_originals_own_error() -> None:
    exact = {"A": np.linspace(1.0, 2.0, 50, dtype=np.longdouble)}
    original = {"A": (exact["A"] * (1 + 3e-16)).astype(np.float64)}
    judge = RoundingJudge()
    judge.learn(original, exact)
    as_good = {"A": (exact["A"] * (1 - 6e-16)).astype(np.float64)}
    assert judge.difference(as_good, original, exact, {}) is None
    assert judge.difference({"A": exact["A"].astype(np.float32).astype(np.float64)}, original, exact, {}) is not None
    assert judge.difference({"A": original["A"] * (1 + 1e-13)}, original, exact, {}) is not None
    assert judge.difference(as_good, original, None, {}) is None
    assert judge.difference({"A": exact["A"].astype(np.float32).astype(np.float64)}, original, None, {}) is not None


ROOTS = """
import numpy as np
import math

def roots(A):
    t = np.zeros(1)
    for i in range(A.size):
        t[0] += math.sqrt(A[i])
    return t
"""


def test_judge_grants_what_the_last_bit_of_the_inputs_does() -> None:
    exact = {"A": np.ones(3, np.longdouble)}
    original = {"A": np.ones(3)}
    off = {"A": np.full(3, 1 + 1e-12)}
    assert RoundingJudge().difference(off, original, exact, {}) is not None
    assert RoundingJudge().difference(off, original, exact, {"A": 1e-12}) is None


def test_wide_evaluation_is_wider() -> None:
    wide = plain_function(ROOTS, "roots", "roots", Form.WIDE)(np.full(1000, 2.0, np.longdouble))
    assert wide.dtype == np.longdouble
    assert abs(wide[0] / 1000 - np.sqrt(np.longdouble(2))) < 1e-17


def test_plain_evaluation_gives_nan_where_compiled_code_does() -> None:
    with np.errstate(invalid="ignore"):
        assert np.isnan(plain_function(ROOTS, "roots", "roots")(np.array([-1.0]))[0])


def test_results_are_copies_and_have_names() -> None:
    array = np.zeros(2)
    results = arrays_of({"A": array}, ("A",)) | named_results((1.5, array), is_tuple=True)
    array[0] = 1.0
    assert results["A"][0] == 0.0
    assert sorted(results) == ["A", "the returned value 0", "the returned value 1"]
    assert list(named_results((2,), is_tuple=False)) == ["the returned value"]
    assert named_results((), is_tuple=False) == {}


def test_closing_ends_the_worker(tmp_path: Path) -> None:
    bench = Bench(tmp_path, threads=1, limits=TimeLimits(call=5))
    verifier = Equivalence(bench)
    assert isinstance(verifier, Closable)
    assert verifier.verify(CONTRACT, Candidate(module(ORIGINAL_BODY))).status is Status.OK
    process = bench.worker.process_id
    assert process is not None
    assert psutil.pid_exists(process)
    verifier.close()
    assert not psutil.pid_exists(process)


def test_infinities_stay_infinite_when_the_last_bits_change() -> None:
    values = {"a": np.array([np.inf, -np.inf, 0.0, -0.0, 1.0])}
    assert list(perturbed(values, 0)["a"][:4]) == list(values["a"][:4])
    assert perturbed(values, 0)["a"][4] != 1.0


@pytest.mark.parametrize("problem", [CONTRACT, REASSOCIATE], ids=["contract", "reassociate"])
def test_lost_infinities_show_in_compiled_code_that_may_round(bench: Bench, problem: TextProblem) -> None:
    clipped = "if is_compiled():\n    for i in range(n):\n        total[i] = min(total[i], 1.7976931348623157e308)"
    verdict = judged(bench, module(f"{ORIGINAL_BODY}\n{clipped}", head=COMPILED_ONLY), problem)
    assert rejected_for(verdict, Reason.WRONG_RESULT)
    assert "nonfinite values" in verdict.detail
