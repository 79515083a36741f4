"""Arrays that each iteration of a loop has for itself: when that is right, what the nest becomes, and its code."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kernels import catalog
from optimizer.codegen.backend import CodeOptions, FloatingPoint
from optimizer.codegen.numba_source import NumbaBackend
from optimizer.codegen.private_memory import private_memory
from optimizer.errors import CandidateError, StepError
from optimizer.kernel_problem import KernelProblem
from optimizer.measure.commands import Form
from optimizer.measure.loading import plain_function
from optimizer.polyhedral.frontend import nest_of_source
from optimizer.polyhedral.legality import Legal, judge
from optimizer.polyhedral.model import model_of
from optimizer.polyhedral.nest import Nest, Role
from optimizer.polyhedral.schedule import nest_of, parse_schedule
from optimizer.polyhedral.steps.privatize import Privatize
from optimizer.polyhedral.tree import inconsistencies, loops, show
from tests import nest_interpreter, oracle
from tests.test_legality_oracle import tiny_sizes
from tests.test_random_schedules import nest_named
from tests.vector_units import lanes_of_doubles

HEAD = """
import numpy as np
from jaxtyping import Float64

"""

ROWS = f"""{HEAD}
def rows(n: int, m: int, A: Float64[np.ndarray, "n m"], w: Float64[np.ndarray, "m"]) -> None:
    for i in range(n):
        for j in range(m):
            w[j] = 2.0 * A[i, j]
        for k in range(m):
            A[i, k] = w[k] + w[m - 1 - k]
"""

TRIANGLE = f"""{HEAD}
def triangle(n: int, A: Float64[np.ndarray, "n n"], w: Float64[np.ndarray, "n"]) -> None:
    for i in range(n - 1, -1, -1):
        for j in range(i, n):
            w[j] = A[i, j] + 1.0
        for k in range(i, n):
            A[i, k] = w[k] * w[n - 1]
"""
"""The last iteration that writes an element is another one for each element, and the loop descends."""

STEPS_IN_TIME = f"""{HEAD}
def steps_in_time(t: int, n: int, A: Float64[np.ndarray, "n n"], w: Float64[np.ndarray, "n"]) -> None:
    for s in range(t):
        for i in range(n):
            for j in range(i + 1):
                w[j] = A[i, j] * 0.5
            for k in range(i + 1):
                A[i, k] = w[k] + w[i - k]
        for q in range(n):
            A[q, 0] = A[q, 0] + w[q]
"""
"""What is left in the array is read after the loop, in each iteration of the loop around."""

LOCAL = f"""{HEAD}
def local(n: int, A: Float64[np.ndarray, "n n"]) -> Float64[np.ndarray, "n"]:
    w = np.zeros(n)
    v = np.zeros((n, 2))
    for i in range(n):
        for j in range(n):
            v[j, i % 2] = A[i, j]
            w[j] = A[i, j] * 3.0
        for k in range(n):
            A[i, k] = w[k] + w[0] + v[k, i % 2]
    return w
"""
"""One array is returned; nobody sees the other one afterwards."""

SOURCES = {"rows": ROWS, "triangle": TRIANGLE, "steps_in_time": STEPS_IN_TIME, "local": LOCAL}
SIZES_OFF_ARRAYS = ("matmul", "matmul-float32")
"""Kernels with no sizes among their arguments, which the interpreter of nests needs."""
SIZES = ({"n": 0, "m": 3, "t": 2}, {"n": 1, "m": 1, "t": 1}, {"n": 5, "m": 4, "t": 3}, {"n": 9, "m": 11, "t": 2})

SCHEDULES = [
    ("rows", "privatize(w, i); parallel(i)"),
    ("rows", "privatize(w, i); distribute(i)"),
    ("rows", "privatize(w, i); distribute(i); parallel(i); parallel(i_2); interchange(i_2, k)"),
    ("rows", "privatize(w, i); tile(i=2); parallel(i_t); distribute(i)"),
    ("rows", "privatize(w, i); reverse(i); parallel(i)"),
    ("rows", "privatize(w, i); vectorize(j, 4); vectorize(k, 2); parallel(i)"),
    ("rows", "privatize(w, i); split(i, at=3); parallel(i); parallel(i_2)"),
    ("rows", "privatize(w, i); autoschedule(fuse=none)"),
    ("triangle", "privatize(w, i); parallel(i)"),
    ("triangle", "privatize(w, i); distribute(i); interchange(i, j)"),
    ("triangle", "privatize(w, i); parallel(i, share=ends)"),
    ("triangle", "privatize(w, i); parallel(i, chunk=2)"),
    ("steps_in_time", "privatize(w, i); parallel(i)"),
    ("steps_in_time", "privatize(w, i); tile(i=2); parallel(i_t)"),
    ("local", "privatize(w, i); privatize(v, i); parallel(i)"),
    ("local", "privatize(v, i); privatize(w, i); distribute(i)"),
]


def nest_from(name: str) -> Nest:
    return nest_of_source(SOURCES[name], None, "example.py")


def arguments_of(nest: Nest, sizes: dict[str, int]) -> dict[str, Any]:
    rng = np.random.default_rng(3)
    shapes = {array.name: array.shape for array in nest.arrays}
    found: dict[str, Any] = {}
    for argument in nest.arguments:
        if argument.name in shapes:
            found[argument.name] = rng.uniform(
                -1, 1, tuple(eval(text, {}, dict(sizes)) for text in shapes[argument.name])
            )
        else:
            found[argument.name] = sizes[argument.name]
    return found


def results(function: Any, arguments: dict[str, Any]) -> list[bytes]:
    copies = {name: value.copy() if isinstance(value, np.ndarray) else value for name, value in arguments.items()}
    returned = function(copies)
    arrays = [value for value in (*copies.values(), returned) if isinstance(value, np.ndarray)]
    return [array.tobytes() for array in arrays]


def function_of(source: str, name: str) -> Any:
    space: dict[str, Any] = {}
    exec(source, space)
    return lambda arguments: space[name](*arguments.values())


def test_the_array_gets_the_loops_around_and_the_last_iteration_copies_it_back() -> None:
    nest = nest_from("rows")
    tree = parse_schedule("privatize(w, i)").apply(nest)
    assert (
        show(tree)
        == """\
for i
  for j
    S0: i = i, j = j with its own w for each i
  for k
    S1: i = i, k = k with its own w for each i
  for element
    S_w_i: i = i, element = w_i_0 with its own w for each i"""
    )
    private = nest_of(nest, tree)
    assert private.array("w_i").shape == ("n", "m")
    assert private.statement("S1").body == "A[i, k] = w_i[i, k] + w_i[i, m - 1 - k]"
    assert private.statement("S_w_i").body == "w[w_i_0] = w_i[i, w_i_0]"
    assert nest_of(private, tree) is private
    assert nest_of(nest, tree) is private, "the same nest gives the same one again"


def test_what_iterations_no_longer_share_lets_them_run_on_threads() -> None:
    nest = nest_named("doitgen")
    for schedule, legal in [
        ("parallel(r)", Legal.NO),
        ("privatize(sum, q); parallel(r)", Legal.YES),
        ("privatize(sum, r); parallel(r)", Legal.YES),
        ("privatize(sum, r); parallel(q)", Legal.NO),
        ("privatize(sum, q); distribute(p); distribute(q)", Legal.YES),
        ("privatize(sum, q); distribute(q); reorder_statements(q_3, q)", Legal.NO),
    ]:
        assert judge(model_of(nest), parse_schedule(schedule).apply(nest)).legal is legal, schedule


@pytest.mark.parametrize(
    ("name", "schedule", "reason"),
    [
        ("rows", "privatize(v, i)", "there is no array v; there are A, w"),
        ("rows", "privatize(A, i)", "each iteration of i writes elements of its own of A already"),
        ("rows", "privatize(w, k)", "no iteration of k writes w"),
        ("rows", "privatize(w, x)", "there is no loop x; the loops are i, j, k"),
        ("rows", "tile(i=2); privatize(w, i_t)", "i_t is no loop of the source"),
        ("rows", "privatize(w, i); privatize(w, i)", "each i has its own w already"),
        ("rows", "privatize(w, i); privatize(w_i, i)", "w_i is private already"),
        ("rows", "distribute(i); privatize(w, i)", "the loop i is not whole any more"),
        ("steps_in_time", "privatize(A, s)", "S0 (line 10) reads elements of A that the same iteration of s has not"),
        ("steps_in_time", "privatize(w, q)", "no iteration of q writes w"),
    ],
)
def test_refusals_say_why(name: str, schedule: str, reason: str) -> None:
    nest = nest_from(name)
    with pytest.raises(StepError) as refused:
        parse_schedule(schedule).apply(nest)
    assert reason in str(refused.value)


def test_scalars_are_said_to_be_private_where_they_can_be() -> None:
    with pytest.raises(StepError, match="is a scalar"):
        parse_schedule("privatize(temp2, j)").apply(nest_named("symm"))


@pytest.mark.parametrize("name", [name for name in (*SOURCES, *catalog.names()) if name not in SIZES_OFF_ARRAYS])
def test_the_nest_with_private_arrays_gives_the_results_of_the_source(name: str) -> None:
    nest = nest_from(name) if name in SOURCES else nest_named(name)
    sizes = tiny_sizes(nest)
    assert model_of(nest).admits(sizes)
    assert nest.parameters
    assert not nest.extents
    arguments = {} if name in catalog.names() else arguments_of(nest, sizes)
    if name in catalog.names():
        arguments = catalog.load(name).make_inputs(**{k: sizes[k] for k in catalog.load(name).SIZES["mini"]})
    with np.errstate(all="ignore"):
        expected = results(function_of(nest.original, nest.name), arguments)
        for step in Privatize.options(nest, nest.tree):
            tree = step.apply(nest, nest.tree)
            private = nest_of(nest, tree)
            assert private.tree == tree
            assert inconsistencies(tree) == ()
            assert results(lambda given, nest=private: nest_interpreter.run(nest, given), arguments) == expected, step


@pytest.mark.parametrize("name", [*SOURCES, *catalog.names()])
def test_reads_before_writes_are_found_like_by_brute_force(name: str) -> None:
    """At one size: nothing may be let through; what is refused for all sizes may be right at this one."""
    nest = nest_from(name) if name in SOURCES else nest_named(name)
    run = oracle.trace(nest, tiny_sizes(nest))
    for array in (array.name for array in nest.arrays if array.role is not Role.SCALAR):
        for loop in (loop.name for loop in loops(nest.tree)):
            try:
                Privatize(array, loop).apply(nest, nest.tree)
            except StepError as error:
                if "not written before" in error.message:
                    assert not is_written_first(nest, run, array, loop), f"{name}: privatize({array}, {loop})"
            else:
                assert is_written_first(nest, run, array, loop), f"{name}: privatize({array}, {loop})"


def is_written_first(nest: Nest, run: oracle.Trace, array: str, loop: str) -> bool:
    """Whether each iteration of a loop reads only such elements as it has written before."""
    written: set[object] = set()
    for iteration in run.iterations:
        iterators = nest.statement(iteration[0]).iterators
        if loop in iterators:
            place = iteration[1][: iterators.index(loop) + 1]
            uses = [use for use in run.touched[iteration] if use[0] == array]
            if any((place, element) not in written for _, element, is_write in uses if not is_write):
                return False
            written |= {(place, element) for _, element, is_write in uses if is_write}
    return True


@pytest.mark.parametrize(("name", "schedule"), SCHEDULES)
def test_the_code_gives_the_bits_of_the_original(name: str, schedule: str) -> None:
    nest = nest_from(name)
    tree = parse_schedule(schedule).apply(nest)
    assert judge(model_of(nest), tree).legal is Legal.YES
    with lanes_of_doubles(2):
        source = NumbaBackend().source(nest, tree, CodeOptions(FloatingPoint.STRICT))
    for sizes in SIZES:
        arguments = arguments_of(nest, sizes)
        expected = results(function_of(nest.original, nest.name), arguments)
        for form in (Form.WATCHED, Form.BACKWARD) if "prange" in source else (Form.PLAIN,):
            function = plain_function(source, "candidate", nest.name, form)
            got = results(lambda given, function=function: function(*given.values()), arguments)
            assert got == expected, (sizes, form, source)


@pytest.mark.parametrize(
    ("schedule", "shape", "owner"),
    [
        ("privatize(sum, q)", ("ns",), ""),
        ("privatize(sum, q); distribute(q)", ("nq", "ns"), ""),
        ("privatize(sum, q); distribute(q); distribute(r)", ("nr", "nq", "ns"), ""),
        ("privatize(sum, q); parallel(q)", ("ns",), "q"),
        ("privatize(sum, q); distribute(q); parallel(r)", ("nq", "ns"), "r"),
        ("privatize(sum, q); interchange(r, q); parallel(q)", ("ns",), "q"),
        ("privatize(sum, q); tile(q=4); distribute(q); parallel(q_t)", ("nq", "ns"), ""),
        ("privatize(sum, q); tile(r=4, q=4); distribute(q); parallel(r_t)", ("nq", "ns"), "r_t"),
    ],
)
def test_memory_is_as_small_as_the_order_allows(schedule: str, shape: tuple[str, ...], owner: str) -> None:
    nest = nest_named("doitgen")
    memory = private_memory(nest, parse_schedule(schedule).apply(nest))
    assert memory.nest.array("sum_q").shape == shape
    assert memory.owners.get("sum_q", "") == owner


def test_a_thread_gets_its_memory_itself() -> None:
    nest = nest_named("doitgen")
    tree = parse_schedule("privatize(sum, q); distribute(q); parallel(r)").apply(nest)
    source = NumbaBackend().source(nest, tree, CodeOptions())
    assert source.endswith("""\
    if nq >= 1:
        for r in prange(nr):
            sum_q = np.empty((nq, ns))
            for q in range(nq):
                for p in range(ns):
                    sum_q[q, p] = 0.0
                    sum_q_1 = sum_q[q, p]
                    for s in range(ns):
                        sum_q_1 += A[r, q, s] * C4[s, p]
                    sum_q[q, p] = sum_q_1
            for q_2 in range(nq):
                for p_2 in range(ns):
                    A[r, q_2, p_2] = sum_q[q_2, p_2]
            if r + 1 == nr:
                for element in range(ns):
                    sum[element] = sum_q[at(nq - 1), element]
""")


def test_a_loop_that_would_be_cut_in_pieces_is_refused() -> None:
    """A piece would not have the memory that another one has filled."""
    source = f"""{HEAD}
def last(n: int, A: Float64[np.ndarray, "n n"]) -> None:
    w = np.empty(n)
    for i in range(n):
        for j in range(n):
            w[j] = A[i, j]
        for k in range(n):
            if i == n - 1:
                A[i, k] = 2.0 * w[k]
"""
    nest = nest_of_source(source, None, "example.py")
    tree = parse_schedule("privatize(w, i); parallel(i)").apply(nest)
    assert judge(model_of(nest), tree).legal is Legal.YES
    with pytest.raises(CandidateError, match="i, which has its own w_i, is not one loop"):
        NumbaBackend().source(nest, tree, CodeOptions(FloatingPoint.STRICT))


def test_more_memory_than_the_largest_argument_is_refused() -> None:
    problem = KernelProblem.load("doitgen", "large", threads=2)
    problem.code(problem.parse("privatize(sum, q); distribute(q); parallel(r)"))
    problem.code(problem.parse("privatize(sum, q); distribute(q); distribute(r)"))
    small = KernelProblem.load("doitgen", {"nr": 4, "nq": 2000, "ns": 1000}, threads=8)
    with pytest.raises(CandidateError, match="the copies of sum for each q would take 128 MB, more than the largest"):
        small.code(small.parse("privatize(sum, q); distribute(q); parallel(r)"))


def test_templates_give_each_iteration_a_row_of_its_own_and_keep_it_in_registers() -> None:
    texts = [str(schedule) for schedule in KernelProblem.load("doitgen", "small", threads=2).templates()]
    assert any(
        text.startswith("privatize(sum, q)") and "register_tile(q_2=" in text and text.endswith("parallel(r)")
        for text in texts
    )
