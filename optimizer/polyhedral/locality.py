"""What a loop does to memory accesses when it is the innermost one, and a rough price of a whole tree.

The price only puts templates in an order worth trying; no verdict and no score depends on it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import prod

import islpy as isl

from optimizer.polyhedral.model import Model
from optimizer.polyhedral.nest import ANYWHERE, Nest, Statement
from optimizer.polyhedral.reductions import free_reduction
from optimizer.polyhedral.tree import Leaf, Loop, Node, Sequence, leaves, loops

CARRIED = 4.0
"""Price of an iteration that waits for the one before it; one independent scalar operation costs 1."""
STRIDED = 2.0
"""Price of an access that jumps through memory."""
VECTOR = 0.3
"""What a vectorized iteration costs of a scalar one, ..."""
CHOSEN_VECTOR = 0.9
"""... what one does that the schedule made a vector, ..."""
COLLECTED = 0.5
"""Price of an access for which such a vector collects its lanes one by one, from lines that the next one uses too."""
JAMMED = 0.25
"""... what one beside those of other iterations of an outer loop does, ..."""
IN_REGISTERS = 0.05
"""... and what one in a register tile does."""
OPAQUE = 50.0
"""Price of a step of which nothing is known, ..."""
START_OF_THREADS = 5_000.0
"""... and of starting and joining the threads once, in the same unit (about a nanosecond)."""


@dataclass(frozen=True, slots=True)
class Linear:
    """A linear form: coefficients by name, the constant left out."""

    coefficients: Mapping[str, Fraction]


@lru_cache(maxsize=100_000)
def linear_coefficients(
    expression: str, names: tuple[str, ...], parameters: tuple[str, ...]
) -> Mapping[str, int] | None:
    """The coefficient of each name in an affine isl expression; None for one that is not (a `floor`, or data)."""
    if expression == ANYWHERE:
        return None
    text = f"[{', '.join(parameters)}] -> {{ [{', '.join(names)}] -> [({expression})] }}"
    pieces = isl.PwAff(text)
    if pieces.n_piece() != 1:
        return None
    form = pieces.as_aff()
    if form.dim(isl.dim_type.div):
        return None
    found: dict[str, int] = {}
    for position, name in enumerate(names):
        value = form.get_coefficient_val(isl.dim_type.in_, position)
        if not value.is_int():
            return None
        found[name] = value.to_python()
    return found


def direction(leaf: Leaf, statement: Statement, loop: str, parameters: tuple[str, ...]) -> dict[str, Fraction] | None:
    """How a statement's iterators move when only this loop of the leaf steps by one.

    None when no move of the iterators does that: the loop does not really iterate this statement.
    """
    rows: list[tuple[Mapping[str, int], int]] = []
    for name, expression in leaf.values.items():
        coefficients = linear_coefficients(expression, statement.iterators, parameters)
        if coefficients is not None:
            rows.append((coefficients, int(name == loop)))
    return _solve(rows, statement.iterators)


def _solve(rows: list[tuple[Mapping[str, int], int]], names: tuple[str, ...]) -> dict[str, Fraction] | None:
    """The solution of a linear system that determines all names; None when there is none or many."""
    matrix = [[Fraction(row.get(name, 0)) for name in names] + [Fraction(right)] for row, right in rows]
    rank = 0
    for column in range(len(names)):
        pivot = next((k for k in range(rank, len(matrix)) if matrix[k][column]), None)
        if pivot is None:
            return None
        matrix[rank], matrix[pivot] = matrix[pivot], matrix[rank]
        head = matrix[rank][column]
        matrix[rank] = [value / head for value in matrix[rank]]
        for k, row in enumerate(matrix):
            if k != rank and row[column]:
                factor = row[column]
                matrix[k] = [value - factor * other for value, other in zip(row, matrix[rank], strict=True)]
        rank += 1
    if any(row[-1] for row in matrix[rank:]):
        return None
    return {name: matrix[k][-1] for k, name in enumerate(names)}


def strides(nest: Nest, leaf: Leaf, loop: str) -> tuple[float, ...]:
    """For each access of the leaf, how far it jumps in elements when the loop steps by one: 0, 1, or a big number."""
    statement = nest.statement(leaf.statement)
    moved = direction(leaf, statement, loop, nest.parameters)
    if moved is None:
        return ()
    found: list[float] = []
    for access in statement.accesses:
        jump = 0.0
        for position, subscript in enumerate(reversed(access.subscripts)):
            coefficients = linear_coefficients(subscript, statement.iterators, nest.parameters)
            if coefficients is None:
                jump = float("inf")
                break
            step = sum(moved[name] * coefficient for name, coefficient in coefficients.items())
            jump += abs(float(step)) * 1000.0**position
        found.append(jump)
    return tuple(found)


def iteration_price(model: Model, leaf: Leaf, loop: str, is_parallel: bool, is_vector: bool = False) -> float:
    """The price of an iteration of the leaf in this innermost loop; `is_parallel`: whether the loop carries nothing;
    `is_vector`: whether the schedule made it one."""
    if model.nest.statement(leaf.statement).opaque:
        return OPAQUE
    jumps = strides(model.nest, leaf, loop)
    strided = sum(jump > 1 for jump in jumps)
    if is_vector:
        return VECTOR * CHOSEN_VECTOR * max(1, len(jumps)) / 2 + COLLECTED * strided
    if not is_parallel and (strided or not _is_free_sum(model, leaf, loop)):
        return CARRIED + STRIDED * strided
    if strided:
        return 1.0 + STRIDED * strided
    return VECTOR * max(1, len(jumps)) / 2


def _is_free_sum(model: Model, leaf: Leaf, loop: str) -> bool:
    """Whether a loop reduces one element in any order, of which compilers make vectors."""
    statement = model.nest.statement(leaf.statement)
    nest = model.nest
    if not (nest.reassociates or nest.free_sums) or free_reduction(nest, statement) is None:
        return False
    jumps = zip(statement.accesses, strides(model.nest, leaf, loop), strict=False)
    return any(access.is_write and jump == 0 for access, jump in jumps)


def tree_price(
    model: Model, tree: Node, sizes: Mapping[str, int], is_parallel: Callable[[str], bool], threads: int
) -> float:
    """A rough price of running the tree; `is_parallel` tells whether a loop carries no dependence."""
    trips = {name: extents(model, name, sizes) for name in model.domains}

    def price(node: Node, innermost: Loop | None, under_threads: bool) -> float:
        match node:
            case Leaf():
                count = prod(trips[node.statement].values(), start=1.0)
                each = 1.0
                if innermost:
                    is_vector = innermost.vector != 1
                    each = iteration_price(model, node, innermost.name, is_parallel(innermost.name), is_vector)
                return count * each / (threads if under_threads else 1)
            case Sequence():
                return sum(price(part, innermost, under_threads) for part in node.parts)
            case Loop():
                if node.vector != 1 and node.unroll == 0:
                    return price(node.body, None, under_threads) * IN_REGISTERS
                if node.unroll > 1 and innermost and not any(loops(node.body)):
                    return price(node.body, innermost, under_threads) * JAMMED
                below = price(node.body, node, under_threads or node.is_parallel)
                starts = _executions(model, tree, node.name, trips) if node.is_parallel else 0.0
                return below + START_OF_THREADS * starts

    return price(tree, None, False)


def extents(model: Model, statement: str, sizes: Mapping[str, int]) -> Mapping[str, float]:
    """The number of values of each iterator, as if the domain were a box; halved for each triangle."""
    question = ("extents", statement, *sizes.items())
    if question not in model.remembered:
        model.remembered[question] = _box(model, statement, sizes)
    return model.remembered[question]


def _box(model: Model, statement: str, sizes: Mapping[str, int]) -> dict[str, float]:
    domain = model.domains[statement]
    for k in range(domain.dim(isl.dim_type.param)):
        name = str(domain.get_dim_name(isl.dim_type.param, k))
        if name in sizes:
            domain = domain.fix_val(isl.dim_type.param, k, isl.Val(sizes[name]))
    if domain.is_empty():
        return {}
    found: dict[str, float] = {}
    for k, name in enumerate(model.nest.statement(statement).iterators):
        low, high = domain.dim_min_val(k), domain.dim_max_val(k)
        found[name] = float(high.to_python() - low.to_python() + 1) if low.is_int() and high.is_int() else 100.0
    return found


def _executions(model: Model, tree: Node, loop: str, trips: Mapping[str, Mapping[str, float]]) -> float:
    """How often a loop is started, roughly: the product of the trips of the loops around it."""
    for leaf in leaves(tree):
        names = list(_loops_around(tree, leaf))
        if loop not in names:
            continue
        product = 1.0
        for outer in names[: names.index(loop)]:
            product *= _trip(leaf.values[outer], trips[leaf.statement])
        return product
    return 1.0


def _trip(expression: str, extents: Mapping[str, float]) -> float:
    mentioned = [extents[name] for name in extents if re.search(rf"\b{re.escape(name)}\b", expression)]
    divisors = [int(text) for text in re.findall(r"/\s*(\d+)", expression)]
    return max(1.0, max(mentioned, default=1.0) / prod(divisors, start=1))


def _loops_around(node: Node, target: Leaf) -> tuple[str, ...]:
    match node:
        case Leaf():
            return ()
        case Loop():
            return (node.name, *_loops_around(node.body, target)) if target in tuple(leaves(node)) else ()
        case Sequence():
            return next((_loops_around(part, target) for part in node.parts if target in tuple(leaves(part))), ())
