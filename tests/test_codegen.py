"""Generated code, run as plain Python: every schedule computes what the original computes, bit for bit."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernels import catalog
from optimizer.codegen import schedule_tree
from optimizer.codegen.backend import CodeOptions, FloatingPoint
from optimizer.codegen.numba_source import NumbaBackend
from optimizer.errors import CandidateError
from optimizer.kernel_problem import KernelProblem
from optimizer.measure.commands import Form
from optimizer.measure.inputs import make_values
from optimizer.measure.loading import compiled_candidate, compiled_original, plain_function
from optimizer.polyhedral.frontend import nest_of_file
from optimizer.polyhedral.legality import Legal, judge
from optimizer.polyhedral.model import Model
from optimizer.polyhedral.nest import Argument, ArgumentKind, Array, Nest, Role, SourceLoop, Statement
from optimizer.polyhedral.schedule import parse_schedule
from optimizer.polyhedral.steps.sampling import random_schedule
from optimizer.polyhedral.tree import Leaf, Loop, Node, Sequence
from tests.hand_nests import array, gemm, lu, parameter, read, row_sum, value, write
from tests.test_random_schedules import source_or_none

SIZES = (0, 1, 2, 3, 5, 7, 8, 9)


def code(nest: Nest, tree: Node, fp: FloatingPoint = FloatingPoint.STRICT) -> str:
    return NumbaBackend().source(nest, tree, CodeOptions(fp))


def scheduled(nest: Nest, schedule: str) -> str:
    return code(nest, parse_schedule(schedule).apply(nest))


def arguments_of(nest: Nest, sizes: dict[str, int], seed: int = 0) -> list[Any]:
    rng = np.random.default_rng(seed)
    found: list[Any] = []
    for argument in nest.arguments:
        match argument.kind:
            case ArgumentKind.PARAMETER:
                found.append(sizes[argument.name])
            case ArgumentKind.VALUE:
                found.append(float(rng.uniform(0.5, 1.5)))
            case ArgumentKind.ARRAY:
                shape = [eval(extent, {}, dict(sizes)) for extent in nest.array(argument.name).shape]
                found.append(rng.uniform(0.5, 1.5, shape).astype(argument.dtype))
    return found


def assert_same_results(nest: Nest, source: str, sizes: dict[str, int], backward: bool = False) -> None:
    original = plain_function(nest.original, "original.py", nest.name)
    generated = plain_function(source, "generated.py", nest.name, Form.BACKWARD if backward else Form.WATCHED)
    expected, actual = arguments_of(nest, sizes), arguments_of(nest, sizes)
    returned, result = original(*expected), generated(*actual)
    np.testing.assert_array_equal(np.asarray(result, dtype=float), np.asarray(returned, dtype=float))
    for argument, first, second in zip(nest.arguments, expected, actual, strict=True):
        if argument.kind is ArgumentKind.ARRAY:
            assert first.tobytes() == second.tobytes(), f"{argument.name} differs at {sizes}\n{source}"


def size_combinations(nest: Nest) -> Iterator[dict[str, int]]:
    """Every size for all parameters at once, and mixed ones."""
    for position, size in enumerate(SIZES):
        yield dict.fromkeys(nest.parameters, size)
        rotated = SIZES[position:] + SIZES[:position]
        yield dict(zip(nest.parameters, rotated, strict=False))


GEMM_SCHEDULES = (
    "",
    "distribute(i); interchange(k, j_2)",
    "distribute(i); tile(i_2=4, k=3, j_2=2)",
    "distribute(i); tile(i_2=8, j_2=8); tile(i_2=4, j_2=4)",
    "distribute(i); reverse(i_2); reverse(j_2)",
    "distribute(i); skew(j_2, by=i_2, factor=2)",
    "distribute(i); skew(k, by=i_2); tile(i_2=4, k=4); wavefront(i_2_t, k_t)",
    "shift(S1, k, 2)",
    "interchange(k, j_2); fuse(j, j_2)",
    "interchange(k, j_2); fuse(j, j_2); shift(S1, j, 2)",
    "distribute(i); split(k, at=4); split(j_2, at=nk)",
    "distribute(i); unroll(j_2, 4)",
    "distribute(i); interchange(k, j_2); tile(k=4); unroll(k, 4)",
    "distribute(i); unroll_and_jam(i_2, 4)",
    "distribute(i); reverse(j_2); unroll(j_2, 3)",
    "parallel(i)",
    "distribute(i); tile(i_2=4, k=4); parallel(i_2_t); reverse(i); parallel(i)",
    "distribute(i); reverse(i_2); parallel(i_2); unroll(j_2, 2)",
    "distribute(i); reverse(i); parallel(i, chunk=3); parallel(i_2, chunk=1)",
)


@pytest.mark.parametrize("schedule", GEMM_SCHEDULES)
def test_gemm_is_unchanged(schedule: str) -> None:
    nest = gemm()
    tree = parse_schedule(schedule).apply(nest)
    assert judge(Model(nest), tree).legal is Legal.YES, "the test is about legal schedules"
    source = code(nest, tree)
    for sizes in size_combinations(nest):
        assert_same_results(nest, source, sizes)
        if "prange" in source:
            assert_same_results(nest, source, sizes, backward=True)


LU_SCHEDULES = (
    "",
    "interchange(j_2, k_2)",
    "tile(j_2=4); parallel(j_2_t)",
    "interchange(j_2, k_2); unroll(j_2, 4)",
    "autoschedule()",
)


@pytest.mark.parametrize("schedule", LU_SCHEDULES)
def test_lu_is_unchanged(schedule: str) -> None:
    nest = lu()
    tree = parse_schedule(schedule).apply(nest)
    assert judge(Model(nest), tree).legal is Legal.YES, "the test is about legal schedules"
    source = code(nest, tree)
    for sizes in size_combinations(nest):
        assert_same_results(nest, source, sizes, backward=True)


@pytest.mark.parametrize("make", [gemm, lu, row_sum])
def test_random_legal_schedules_are_unchanged(make: Any) -> None:
    nest = make()
    model, rng, run = Model(nest), random.Random(7), 0
    for _ in range(60):
        tree = random_schedule(nest, rng, rng.randint(1, 6)).apply(nest)
        source = source_or_none(nest, tree) if judge(model, tree).legal is Legal.YES else None
        if source is None:
            continue
        for size in (1, 4, 9):
            sizes = {name: size + position for position, name in enumerate(nest.parameters)}
            assert_same_results(nest, source, sizes, backward=True)
        run += 1
    assert run >= 8


def every_second(step: int = 2) -> Nest:
    """Strided and descending: only elements of one residue are touched."""
    source = f"def thin(n, x):\n    for i in range(n - 1, -1, -{step}):\n        x[i] = 2.0 * x[i] + i\n"
    return Nest(
        name="thin",
        arguments=(parameter("n"), array("x")),
        parameters=("n",),
        extents=(),
        context="[n] -> { : n >= 0 }",
        arrays=(Array("x", "float64", ("n",), Role.ARGUMENT),),
        statements=(
            Statement(
                "S0",
                ("i",),
                f"[n] -> {{ S0[i] : 0 <= i < n and (n - 1 - i) mod {step} = 0 }}",
                (read("x", "i"), write("x", "i")),
                "x[i] = 2.0 * x[i] + i",
                3,
            ),
        ),
        tree=Loop("i", Leaf("S0", {"i": "-i"})),
        loops=(SourceLoop("i", 2),),
        prologue=(),
        epilogue=(),
        preamble="",
        original=source,
    )


@pytest.mark.parametrize(
    "schedule", ["", "parallel(i)", "reverse(i)", "reverse(i); parallel(i)", "tile(i=4)", "unroll(i, 2)"]
)
def test_strided_loops(schedule: str) -> None:
    nest = every_second(3)
    for sizes in size_combinations(nest):
        assert_same_results(nest, scheduled(nest, schedule), sizes)


def test_a_descending_loop_is_printed_descending() -> None:
    printed = code(every_second(), every_second().tree)
    assert "for i in range(n - 1, -1, -2):\n        x[at(i)] = 2.0 * x[at(i)] + i" in printed


def with_everything() -> Nest:
    """Extents, a default, a prologue, helper functions, a local array, a scalar that comes in and is returned."""
    preamble = "import math\nimport numpy as np\n\nHALF = 0.5\n\ndef squash(x):\n    return math.sqrt(x * x + HALF)\n"
    function = (
        "def everything(A, total, scale=2.0):\n"
        "    n = A.shape[0]\n"
        "    c0 = A.shape[1]\n"
        "    double = 2.0 * scale\n"
        "    w = np.zeros(n + 1)\n"
        "    for i in range(n):\n"
        "        for j in range(c0):\n"
        "            w[i + 1] = w[i] + double * squash(A[i, j]) ** 2\n"
        "        total = total + w[i + 1]\n"
        "    return total, w\n"
    )
    s0 = Statement(
        "S0",
        ("i", "j"),
        "[n, c0] -> { S0[i, j] : 0 <= i < n and 0 <= j < c0 }",
        (read("w", "i"), read("A", "i", "j"), write("w", "i + 1")),
        "w[i + 1] = w[i] + double * squash(A[i, j]) ** 2",
        8,
    )
    s1 = Statement(
        "S1",
        ("i",),
        "[n] -> { S1[i] : 0 <= i < n }",
        (read("total"), read("w", "i + 1"), write("total")),
        "total = total + w[i + 1]",
        9,
    )
    return Nest(
        name="everything",
        arguments=(
            array("A"),
            value("total"),
            Argument("scale", ArgumentKind.VALUE, "float64", default="2.0"),
        ),
        parameters=("n", "c0"),
        extents=(("n", "A", 0), ("c0", "A", 1)),
        context="[n, c0] -> { : n >= 0 and c0 >= 0 }",
        arrays=(
            Array("A", "float64", ("n", "c0"), Role.ARGUMENT),
            Array("w", "float64", ("n + 1",), Role.LOCAL, fill="zeros", returned=True),
            Array("total", "float64", (), Role.SCALAR, returned=True),
        ),
        statements=(s0, s1),
        tree=Loop("i", Sequence((Loop("j", Leaf("S0", {"i": "i", "j": "j"})), Leaf("S1", {"i": "i"})))),
        loops=(SourceLoop("i", 6), SourceLoop("j", 7)),
        prologue=("double = 2.0 * scale",),
        epilogue=("return total, w",),
        preamble=preamble,
        original=preamble + "\n\n" + function,
    )


@pytest.mark.parametrize("schedule", ["", "tile(i=4)", "distribute(i)", "distribute(i); tile(j=4); unroll(i_2, 2)"])
@pytest.mark.parametrize(("n", "m"), [(0, 3), (1, 1), (5, 3), (8, 4), (9, 0)])
def test_everything_around_the_loops_is_kept(schedule: str, n: int, m: int) -> None:
    nest = with_everything()
    original = plain_function(nest.original, "original.py", nest.name)
    generated = plain_function(scheduled(nest, schedule), "generated.py", nest.name)
    A = np.random.default_rng(1).uniform(0.5, 1.5, (n, m))
    for call in ((A, 3.0), (A, 3.0, 0.25)):
        expected, actual = original(*call), generated(*call)
        assert expected[0] == actual[0]
        assert expected[1].tobytes() == actual[1].tobytes()


def test_wrong_shapes_are_refused() -> None:
    function = plain_function(code(gemm(), gemm().tree), "generated.py", "gemm")
    with pytest.raises(ValueError, match=r"A must have shape \(ni, nk\)"):
        function(2, 3, 4, 1.0, 1.0, np.zeros((2, 3)), np.zeros((4, 2)), np.zeros((4, 3)))


def test_sizes_outside_the_context_are_refused() -> None:
    nest = replace(gemm(), context="[ni, nj, nk] -> { : ni >= 2 and nj >= 0 and nk >= 0 and ni mod 2 = 0 }")
    function = plain_function(code(nest, nest.tree), "generated.py", "gemm")
    with pytest.raises(ValueError, match="gemm needs ni >= 2 and ni % 2 == 0"):
        function(3, 1, 1, 1.0, 1.0, np.zeros((3, 1)), np.zeros((3, 1)), np.zeros((1, 1)))


def test_written_arrays_must_not_overlap_others() -> None:
    function = plain_function(code(gemm(), gemm().tree), "generated.py", "gemm")
    A = np.ones((4, 4))
    with pytest.raises(ValueError, match="C must not overlap A or B"):
        function(4, 4, 4, 1.0, 1.0, A[::-1], A, np.ones((4, 4)))
    function(2, 4, 2, 1.0, 1.0, A[:2], A[2:, :2], np.ones((2, 4)))
    assert (A[:2] == 3.0).all()
    function(0, 4, 4, 1.0, 1.0, A[:0], A[:0], A)


def test_loops_do_not_take_names_that_mean_something() -> None:
    """The array is called as a loop of the schedule would be."""
    nest = gemm()
    statements = tuple(
        replace(
            statement,
            accesses=tuple(replace(access, array=access.array.replace("A", "i_t")) for access in statement.accesses),
            body=statement.body.replace("A[", "i_t["),
        )
        for statement in nest.statements
    )
    renamed = replace(
        nest,
        arguments=tuple(replace(argument, name=argument.name.replace("A", "i_t")) for argument in nest.arguments),
        arrays=tuple(replace(item, name=item.name.replace("A", "i_t")) for item in nest.arrays),
        statements=statements,
        original=nest.original.replace("A", "i_t"),
    )
    source = scheduled(renamed, "tile(i=4); distribute(i); tile(j_2=4)")
    assert "for i_t_2 in range" in source
    assert_same_results(renamed, source, {"ni": 9, "nj": 7, "nk": 5})


def test_too_many_copies_are_refused() -> None:
    source = scheduled(gemm(), "distribute(i); unroll(j_2, 16)")
    assert source.count("C[i_2, at(j_2 + ") == 15
    with pytest.raises(CandidateError, match="at most 64 iterations"):
        scheduled(gemm(), "distribute(i); unroll(j_2)")


def test_the_flags_say_what_the_compiler_may_do() -> None:
    assert '@njit(error_model="numpy")\ndef gemm' in code(gemm(), gemm().tree, FloatingPoint.STRICT)
    assert '@njit(fastmath={"contract"}, error_model="numpy")\ndef gemm' in code(
        gemm(), gemm().tree, FloatingPoint.CONTRACT
    )
    assert {"nnan", "ninf"}.isdisjoint(FloatingPoint.REASSOCIATE.fastmath)


@pytest.mark.parametrize("fp", FloatingPoint)
def test_flags_never_differ_between_original_and_candidate(fp: FloatingPoint, tmp_path: Path) -> None:
    """A speedup is of the loops, and not of what only one of the two may leave out or reorder."""
    problem = KernelProblem.load("matvec", "mini", fp.value)
    workload = problem.workload("timing")
    arguments = tuple(make_values(workload, seed=1).values())
    original = compiled_original(workload, tmp_path / "original.py", arguments)
    (tmp_path / "candidate.py").write_text(problem.code(problem.parse("tile(i=8)")))
    candidate = compiled_candidate(tmp_path / "candidate.py", workload.function, arguments)
    for flag in ("fastmath", "error_model", "boundscheck", "forceinline"):
        assert flags_of(original, flag) == flags_of(candidate, flag), flag
    assert set(flags_of(original, "fastmath") or ()) == set(fp.fastmath)


def flags_of(compiled: Any, flag: str) -> Any:
    """Of a function that Numba compiled; an absent flag is off."""
    return compiled.targetoptions.get(flag) or None


def test_compiled_threads_agree() -> None:
    nest = gemm()
    source = scheduled(nest, "distribute(i); tile(i_2=4, k=4); parallel(i_2_t); reverse(i); parallel(i)")
    namespace: dict[str, Any] = {}
    exec(compile(source, "generated.py", "exec"), namespace)
    original = plain_function(nest.original, "original.py", nest.name)
    for sizes in ({"ni": 23, "nj": 9, "nk": 7}, {"ni": 0, "nj": 1, "nk": 1}):
        expected, actual = arguments_of(nest, sizes), arguments_of(nest, sizes)
        original(*expected)
        namespace["gemm"](*actual)
        assert expected[5].tobytes() == actual[5].tobytes()


def test_code_that_takes_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule_tree, "MOST_OPERATIONS", 200)
    with pytest.raises(CandidateError, match="code generation gave up"):
        scheduled(gemm(), "tile(i=4)")
    monkeypatch.undo()
    assert "i_t" in scheduled(gemm(), "tile(i=4)")


@pytest.mark.parametrize("kernel", catalog.names())
def test_bundled_kernels_are_unchanged(kernel: str) -> None:
    bundled = catalog.load(kernel)
    nest = nest_of_file(str(Path(bundled.__file__ or "")))
    original, rng, model = plain_function(nest.original, "original.py", nest.name), random.Random(3), Model(nest)
    trees = [nest.tree, *(random_schedule(nest, rng, 2).apply(nest) for _ in range(3))]
    sizes = {name: 5 + position % 3 for position, name in enumerate(bundled.SIZES["mini"])}
    for tree in trees:
        if judge(model, tree).legal is not Legal.YES:
            continue
        generated = plain_function(code(nest, tree), "generated.py", nest.name, Form.BACKWARD)
        first, second = (bundled.make_inputs(**sizes, rng=np.random.default_rng(1)) for _ in range(2))
        np.testing.assert_equal(generated(**second), original(**first))
        for name, expected in first.items():
            np.testing.assert_array_equal(second[name], expected, err_msg=name)
