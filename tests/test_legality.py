"""The verdict on finished schedules: every kind of violation, with the right array, loop, witness and repair."""

from dataclasses import replace
from functools import cache

import pytest

from kernels import catalog
from optimizer.kernel_problem import KernelProblem
from optimizer.polyhedral.frontend import nest_of_file, nest_of_source
from optimizer.polyhedral.legality import Legal, judge, parallel_loops
from optimizer.polyhedral.model import OPERATION_LIMIT, Model
from optimizer.polyhedral.repair import repair
from optimizer.polyhedral.schedule import parse_schedule
from optimizer.polyhedral.tree import Sequence, map_leaves
from optimizer.polyhedral.witness import Kind
from optimizer.verdict import Reason, Status
from tests.oracle import is_violated
from verifiers.legality import Legality

SHIFTED = """
def shifted(n, A):
    for i in range(n - 1):
        for j in range(n - 1):
            A[i + 1, j + 1] = A[i, j] + 1.0
"""
AHEAD = """
def ahead(n, A, B, C):
    for i in range(n):
        A[i] = B[i]
    for i in range(n - 1):
        C[i] = A[i + 1]
"""
PULL = """
def pull(n, A):
    for i in range(n - 1):
        A[i] = A[i + 1]
"""
LAST_WINS = """
def last_wins(n, A, B):
    for i in range(n):
        for j in range(n):
            A[j] = B[i]
"""
TOTAL = """
def total(n, A, x):
    s = 0.0
    for i in range(n):
        s += A[i]
    x[0] = s
"""
OWN = {
    "shifted": (SHIFTED, 2),
    "ahead": (AHEAD, 1),
    "pull": (PULL, 1),
    "last_wins": (LAST_WINS, 1),
    "total": (TOTAL, 1),
}


@cache
def model_named(name: str) -> Model:
    if name in OWN:
        source, rank = OWN[name]
        dims = " ".join(["n"] * rank)
        arrays = ", ".join(f'{a}: Float64[np.ndarray, "{dims}"]' for a in "ABCx" if f"{a}[" in source)
        head, _, body = source.strip().partition("\n")
        text = f"import numpy as np\nfrom jaxtyping import Float64\ndef {name}(n: int, {arrays}) -> None:\n{body}\n"
        assert head.startswith(f"def {name}(")
        return Model(nest_of_source(text, name, f"{name}.py"))
    return Model(nest_of_file(f"{catalog.load(name).__file__}:{catalog.entry(name).function}"))


ILLEGAL = [
    # kernel, schedule, the arrays that may be named, the loop, kinds that may be named
    ("lu", "parallel(i)", "A", "i", {Kind.RAW}),
    ("cholesky", "parallel(i)", "A", "i", {Kind.RAW}),
    ("seidel-2d", "parallel(t)", "A", "t", {Kind.RAW}),
    ("nussinov", "parallel(i)", "table", "i", {Kind.RAW}),
    ("trisolv", "parallel(i)", "x", "i", {Kind.RAW}),
    ("floyd-warshall", "parallel(k)", "path", "k", {Kind.RAW}),
    ("heat-3d", "parallel(t)", "A B", "t", {Kind.RAW}),
    ("jacobi-2d", "parallel(t)", "A B", "t", {Kind.RAW}),
    ("jacobi-1d", "parallel(t)", "A B", "t", {Kind.RAW}),
    ("fdtd-2d", "parallel(t)", "ex ey hz", "t", {Kind.RAW}),
    ("adi", "parallel(t)", "u v p q", "t", {Kind.RAW, Kind.WAW}),
    ("durbin", "parallel(k)", "y z", "k", {Kind.RAW, Kind.WAW}),
    ("gramschmidt", "parallel(k)", "A", "k", {Kind.RAW}),
    ("matmul", "parallel(k)", "C", "k", {Kind.RAW}),
    ("gemm", "parallel(k)", "C", "k", {Kind.RAW}),
    ("lcs", "parallel(i_2)", "table", "i_2", {Kind.RAW}),
    # a mark that was legal when it was set
    ("shifted", "parallel(j); interchange(i, j)", "A", "j", {Kind.RAW}),
    ("shifted", "parallel(j); tile(i=8, j=8); interchange(j_t, i_t); reorder(j, i)", "A", "j", {Kind.RAW}),
    ("jacobi-1d", "parallel(i); parallel(i_2); fuse(i, i_2)", "B", "i", {Kind.RAW}),
    # order
    ("ahead", "fuse(i, i_2)", "A", "i", {Kind.RAW}),
    ("pull", "reverse(i)", "A", "i", {Kind.WAR}),
    ("pull", "parallel(i)", "A", "i", {Kind.WAR}),
    ("last_wins", "parallel(i)", "A", "i", {Kind.WAW}),
    ("last_wins", "reverse(i)", "A", "i", {Kind.WAW}),
    ("total", "parallel(i)", "s", "i", {Kind.RAW}),
    ("seidel-2d", "reverse(i)", "A", "i", {Kind.RAW}),
    ("seidel-2d", "tile(i=8, j=8)", "A", "i_t j_t j i", {Kind.RAW, Kind.WAR}),
    ("seidel-2d", "interchange(t, i)", "A", "i", {Kind.RAW, Kind.WAR}),
    ("trisolv", "reverse(i)", "x", "i", {Kind.RAW}),
    ("jacobi-2d", "fuse(i, i_2)", "B A", "i", {Kind.RAW, Kind.WAR}),
    ("lu", "reverse(k)", "A", "k", {Kind.RAW, Kind.WAW, Kind.WAR}),
    ("nussinov", "reverse(i)", "table", "i", {Kind.RAW}),
]


def shown(value: str | set[Kind]) -> str:
    """The same in every process, whatever order a set has there."""
    return value[:40] if isinstance(value, str) else " ".join(sorted(kind.value for kind in value))


@pytest.mark.parametrize(("kernel", "schedule", "arrays", "loop", "kinds"), ILLEGAL, ids=shown)
def test_illegal_schedules_are_rejected_with_the_violated_dependence(kernel, schedule, arrays, loop, kinds):
    model = model_named(kernel)
    tree = parse_schedule(schedule).apply(model.nest)
    judgement = judge(model, tree)
    assert judgement.legal is Legal.NO
    witness = judgement.witness
    assert witness is not None
    assert witness.array in arrays.split()
    assert witness.loop in loop.split()
    assert witness.kind in kinds
    assert is_violated(model.nest, tree, witness)


def test_repairs_are_legal_and_offered_for_most():
    repaired: dict[tuple[str, str], str] = {}
    for kernel, schedule, *_ in ILLEGAL:
        model = model_named(kernel)
        parsed = parse_schedule(schedule)
        judgement = judge(model, parsed.apply(model.nest))
        found = repair(model, parsed, judgement)
        if found is not None:
            assert judge(model, found.apply(model.nest)).legal is Legal.YES
            repaired[kernel, schedule] = str(found)
    useful = [text for text in repaired.values() if text]
    print(*(f"{k}: {s}  ->  {r or '(the untouched kernel)'}" for (k, s), r in repaired.items()), sep="\n")
    assert len(useful) >= 15


LEGAL = [
    ("matmul", "parallel(i)"),
    ("matmul", "parallel(i); interchange(i, k)"),
    ("matmul", "tile(i=32, j=32, k=32); parallel(i_t)"),
    ("matmul", "reverse(i); reverse(j)"),
    ("lu", "autoschedule(); reorder(k, i, j); parallel(i)"),
    ("shifted", "parallel(j)"),
    ("shifted", "tile(i=8, j=8); wavefront(i_t, j_t)"),
    ("seidel-2d", "skew(i, by=t); skew(j, by=t); skew(j, by=i); tile(t=8, i=16, j=16); wavefront(t_t, i_t)"),
    ("ahead", "fuse(i, i_2); shift(S1, i, 1)"),
    ("floyd-warshall", "split(i, at=k); split(i_2, at=k + 1); parallel(i); parallel(i_3)"),
    (
        "floyd-warshall",
        "split(i, at=k); split(i_2, at=k + 1); split(j, at=k); split(j_2, at=k + 1); parallel(i); parallel(i_3)",
    ),
    (
        "lu",
        "fuse(j, j_2); reorder_statements(k_2, S1); fuse(k, k_2); fuse(k, S1); shift(S1, k, j); tile(k=32);"
        "reorder(k_t, i, j); split(i, at=32*k_t + 32); reorder(k, i, j); tile(i_2=8); split(j_3, at=32*k_t + 32);"
        "tile(j_4=24); parallel(i_2_t)",
    ),
]


@pytest.mark.parametrize(("kernel", "schedule"), LEGAL, ids=lambda v: str(v)[:40])
def test_legal_schedules_are_accepted_for_all_sizes(kernel, schedule):
    model = model_named(kernel)
    judgement = judge(model, parse_schedule(schedule).apply(model.nest))
    assert judgement.legal is Legal.YES, str(judgement.witness or judgement.detail)


def test_the_whole_schedule_is_judged_not_its_steps():
    """A skewed and reversed order that is illegal half way through and legal at the end."""
    model = model_named("pull")
    half = parse_schedule("reverse(i)").apply(model.nest)
    whole = parse_schedule("reverse(i); reverse(i)").apply(model.nest)
    assert judge(model, half).legal is Legal.NO
    assert judge(model, whole).legal is Legal.YES


def test_giving_up_is_unknown_and_not_accepted():
    model = model_named("lu")
    tree = parse_schedule("tile(i=32); autoschedule()").apply(model.nest)
    assert judge(model, tree, limit=10).legal is Legal.UNKNOWN
    assert judge(model, tree).legal is Legal.YES


def test_a_verdict_that_was_given_up_is_the_same_every_time():
    """The limit is one of operations, not of time: the load of the machine decides nothing."""
    model = model_named("lu")
    tree = parse_schedule("tile(i=32); autoschedule()").apply(model.nest)
    limits = [10 * 2**power for power in range(14)]
    verdicts = [judge(Model(model.nest), tree, limit=limit).legal for limit in limits]
    assert Legal.UNKNOWN in verdicts
    assert Legal.YES in verdicts
    for _ in range(3):
        assert [judge(Model(model.nest), tree, limit=limit).legal for limit in limits] == verdicts


def test_unknown_legality_is_rejected_by_a_reason_of_its_own(monkeypatch):
    problem = KernelProblem.load("gemm", "mini")
    schedule = problem.parse("tile(i=8)")
    assert Legality().verify(problem, schedule).status is Status.OK
    monkeypatch.setattr(KernelProblem, "judge", lambda self, candidate: judge(self.model, self.tree(candidate), 10))
    verdict = Legality().verify(problem, schedule)
    assert (verdict.status, verdict.reason) == (Status.REJECTED, Reason.UNKNOWN_LEGALITY)
    assert verdict.assurance == ""
    assert not problem.is_admissible(schedule)


@pytest.mark.parametrize(("kernel", "schedule"), LEGAL, ids=lambda v: str(v)[:40])
def test_an_ordinary_verdict_is_cheap(kernel, schedule):
    """A check that were slow would be switched off: a fifth of the operations allowed is enough for all of these."""
    model = model_named(kernel)
    assert judge(model, parse_schedule(schedule).apply(model.nest), OPERATION_LIMIT // 5).legal is Legal.YES


def test_a_tree_that_loses_or_repeats_iterations_is_illegal():
    model = model_named("matmul")
    lost = map_leaves(model.nest.tree, lambda leaf: replace(leaf, where=("i >= 1",)))
    judgement = judge(model, lost)
    assert judgement.legal is Legal.NO
    assert "would not run" in judgement.detail
    twice = judge(model, Sequence((model.nest.tree, model.nest.tree)))
    assert twice.legal is Legal.NO
    assert "would run twice" in twice.detail


def test_parallel_loops_of_lu_are_the_columns_of_the_upper_half():
    model = model_named("lu")
    assert parallel_loops(model, model.nest.tree) == {"j_2"}
