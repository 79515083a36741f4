"""Iterations, operations and bytes against what is found by listing every iteration."""

from __future__ import annotations

import ast
from itertools import product

import numpy as np
import pytest

from kernels import catalog
from optimizer.polyhedral import counting
from optimizer.polyhedral.counting import array_bytes, compulsory_bytes, flops, iterations
from optimizer.polyhedral.frontend import nest_of_file, nest_of_source
from optimizer.polyhedral.nest import Nest, Role
from tests import oracle
from tests.hand_nests import gemm, lu

TINY = (4, 3, 5, 3, 4)


def bundled(name: str) -> Nest:
    return nest_of_file(f"{catalog.load(name).__file__}:{catalog.entry(name).function}")


def own(body: str, arguments: str) -> Nest:
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    return nest_of_source(
        f"import numpy as np\nfrom jaxtyping import Float64\ndef f({arguments}):\n{lines}", "f", "k.py"
    )


def listed_flops(run: oracle.Trace) -> int:
    """Different evaluations: of what depends on no written array, one for all iterations with the same operands."""
    written = {access.array for s in run.nest.statements for access in s.accesses if access.is_write}
    total = 0
    for statement in run.nest.statements:
        points = [point for name, point in run.iterations if name == statement.name]
        for node in needed(ast.parse(statement.body).body[0]):
            names = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
            kept = [k for k, name in enumerate(statement.iterators) if names & written or name in names]
            total += len({tuple(point[k] for k in kept) for point in points})
    return total


def needed(node: ast.AST) -> list[ast.AST]:
    if isinstance(node, ast.Subscript):
        return []
    if isinstance(node, ast.IfExp):
        return needed(node.test) + min(needed(node.body), needed(node.orelse), key=len)
    inner = [found for child in ast.iter_child_nodes(node) for found in needed(child)]
    return [node, *inner] if isinstance(node, ast.BinOp | ast.Call | ast.AugAssign) else inner


def listed_bytes(run: oracle.Trace) -> int:
    sizes = {a.name: np.dtype(a.dtype).itemsize for a in run.nest.arrays if a.role is Role.ARGUMENT}
    touched = {use for uses in run.touched.values() for use in uses}
    return sum(sizes.get(array, 0) for array, _, _ in touched)


@pytest.mark.parametrize("name", catalog.names())
def test_counts_are_those_of_a_listing(name: str) -> None:
    nest = bundled(name)
    sizes = {parameter: TINY[k % len(TINY)] for k, parameter in enumerate(nest.parameters)}
    sizes |= {parameter: 2 for parameter in sizes if parameter in ("tsteps", "tmax")}
    run = oracle.trace(nest, sizes)
    assert iterations(nest, sizes) == len(run.iterations) > 0
    assert flops(nest, sizes) == listed_flops(run)
    assert compulsory_bytes(nest, sizes) == listed_bytes(run) > 0


@pytest.mark.parametrize("name", catalog.names())
def test_interpolated_counts_are_exact(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    nest = bundled(name)
    sizes = {parameter: 17 + 2 * k for k, parameter in enumerate(nest.parameters)}
    monkeypatch.setattr(counting, "SMALL", 10**9)
    direct = iterations(nest, sizes), flops(nest, sizes), compulsory_bytes(nest, sizes)
    monkeypatch.setattr(counting, "SMALL", 0)
    assert (iterations(nest, sizes), flops(nest, sizes), compulsory_bytes(nest, sizes)) == direct


def test_large_sizes_are_counted_by_formula() -> None:
    n = 10**6
    assert iterations(gemm(), {"ni": n, "nj": n, "nk": n}) == n**2 + n**3
    # lu: a triangle of divisions, and two operations for each of the rest.
    rest = sum(j for i in range(40) for j in range(i)) + sum(i for i in range(40) for _ in range(i, 40))
    assert iterations(lu(), {"n": 40}) == 40 * 39 // 2 + rest
    assert flops(lu(), {"n": 40}) == 40 * 39 // 2 + 2 * rest


def test_a_factor_that_can_be_hoisted_counts_once() -> None:
    sizes = {"ni": 7, "nj": 8, "nk": 9}
    assert flops(gemm(), sizes) == 7 * 8 + 7 * 9 + 2 * 7 * 8 * 9


def test_only_the_cheaper_side_of_a_condition_counts() -> None:
    arguments = 'n: int, x: Float64[np.ndarray, "n"], y: Float64[np.ndarray, "n"]'
    nest = own("for i in range(n):\n    y[i] = x[i] * x[i] + 1.0 if x[i] > 0.0 else x[i] + 2.0", arguments)
    assert flops(nest, {"n": 50}) == 50


def test_what_is_no_polynomial_is_not_claimed() -> None:
    arguments = 'n: int, m: int, x: Float64[np.ndarray, "n m"]'
    nest = own("for i in range(min(n, m)):\n    for j in range(i, m):\n        x[i, j] += 1.0", arguments)
    large = {"n": 5000, "m": 4000}
    assert iterations(nest, large) is None
    assert flops(nest, large) == 0
    for n, m in product((3, 6), (4, 5)):
        assert iterations(nest, {"n": n, "m": m}) == sum(m - i for i in range(min(n, m)))


def test_memory_of_arguments_and_local_arrays() -> None:
    arguments = 'n: int, x: Float64[np.ndarray, "n 2*n+1"]'
    nest = own("t = np.zeros(n + 1)\nfor i in range(n):\n    t[i] = x[i, 0]\n    x[i, 1] = t[i]", arguments)
    assert array_bytes(nest, {"n": 10}) == 8 * (10 * 21 + 11)
