"""The conflicts found along the tree are those of their definition, which compares the times of all iterations."""

from __future__ import annotations

import ast
from pathlib import Path

import islpy as isl
import numpy as np
import pytest

from benchmarks.test_front_end import array_function
from kernels import catalog
from optimizer.polyhedral.frontend import nest_of_file, nest_of_source
from optimizer.polyhedral.model import Model
from optimizer.polyhedral.nest import Nest

PEOPLE = [
    f"{path}:{node.name}"
    for path in sorted(Path(__file__).with_name("people").glob("*.py"))
    for node in ast.parse(path.read_text()).body
    if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")
]
DATA_DECIDE = """
def f(n, m, A, idx, x):
    for t in range(m):
        for i in range(n):
            x[idx[i]] += A[t, i]
        for i in range(n):
            A[t, i] = x[i] * 0.5
"""


def by_definition(model: Model) -> isl.UnionMap:
    nothing = isl.UnionMap("{ }")
    reads = writes = nothing
    for statement in model.nest.statements:
        for access in statement.accesses:
            relation = model.access_relation(statement, access)
            reads, writes = (reads, writes.union(relation)) if access.is_write else (reads.union(relation), writes)
    touching = writes.apply_range(reads.reverse().union(writes.reverse())).union(reads.apply_range(writes.reverse()))
    return touching.intersect(model.original_order.lex_lt_union_map(model.original_order))


def assert_as_defined(nest: Nest) -> None:
    model = Model(nest)
    assert model.conflicts.is_equal(by_definition(model))


@pytest.mark.parametrize("name", catalog.names())
def test_of_kernels(name: str) -> None:
    entry = catalog.entry(name)
    assert_as_defined(nest_of_file(f"{entry.load().__file__}:{entry.function}"))


@pytest.mark.parametrize("place", PEOPLE, ids=lambda place: place.rpartition("/")[2])
def test_of_people(place: str) -> None:
    assert_as_defined(nest_of_file(place))


@pytest.mark.parametrize("is_in_loop", [False, True])
def test_of_array_statements(is_in_loop: bool) -> None:
    text = array_function(15)
    if is_in_loop:
        head, _, body = text.partition("):\n")
        lines = "".join(f"    {line}\n" for line in body.splitlines())
        text = f"{head.replace('f(u', 'f(steps: int, u')}):\n    for step in range(steps):\n{lines}"
    assert_as_defined(nest_of_source(text, "f", "statements.py"))


def test_of_what_data_decide() -> None:
    examples = {"n": 3, "m": 2, "A": np.ones((2, 3)), "idx": np.zeros(3, np.int64), "x": np.ones(3)}
    nest = nest_of_source(DATA_DECIDE, "f", "data.py", examples)
    assert any(not access.is_exact for statement in nest.statements for access in statement.accesses)
    assert_as_defined(nest)
