"""Faults of parallel code: loops that must not be parallel, chunks that lose iterations, data that threads share."""

from __future__ import annotations

import ast
from collections.abc import Callable

from tests.mutants.fault import Fault, at_each
from tests.mutants.site import Site, bounds, expression, is_range, ranks, statements


def is_serial_by_ones(site: Site) -> bool:
    if not is_range(site.node, "range"):
        return False
    assert isinstance(site.node, ast.For)
    step = bounds(site.node)[2]
    return isinstance(step, ast.Constant) and step.value == 1


def is_parallel(site: Site) -> bool:
    return is_range(site.node, "prange")


def mark_parallel(site: Site) -> bool:
    """Numba ignores `prange` without its option."""
    assert isinstance(site.node, ast.For)
    assert isinstance(site.node.iter, ast.Call)
    if any(is_range(loop, "prange") for loop in site.loops):
        return False
    site.node.iter.func = ast.Name("prange")
    decorator = site.function.decorator_list[0]
    assert isinstance(decorator, ast.Call)
    if not any(keyword.arg == "parallel" for keyword in decorator.keywords):
        decorator.keywords.insert(0, ast.keyword("parallel", ast.Constant(True)))
    return True


def in_chunks(start: str, stop: str) -> Callable[[Site], object]:
    """The loop in four pieces; the texts say where a piece starts and stops, given its number."""

    def change(site: Site) -> None:
        assert isinstance(site.node, ast.For)
        first, last, _ = bounds(site.node)
        parts = {"FIRST": first, "LAST": last}
        (outer,) = statements("for piece in prange(4):\n    pass")
        assert isinstance(outer, ast.For)
        inner = site.node
        inner.iter = ast.Call(ast.Name("range"), [expression(start, **parts), expression(stop, **parts)], [])
        site.replace(outer)
        outer.body = [inner]

    return change


START = "FIRST + (LAST - FIRST) * piece // 4"
STOP = "FIRST + (LAST - FIRST) * (piece + 1) // 4"


def is_scalar_of_thread(site: Site) -> bool:
    """The first assignment to a plain variable inside a parallel loop."""
    match site.node:
        case ast.Assign(targets=[ast.Name(name)], value=ast.Constant(float())):
            return any(is_range(loop, "prange") for loop in site.loops) and name not in ranks(site.function)
        case _:
            return False


def share(site: Site) -> None:
    """One cell for all threads."""
    assert isinstance(site.node, ast.Assign)
    assert isinstance(site.node.targets[0], ast.Name)
    name = site.node.targets[0].id
    _Sharing(name).visit(site.function)
    position = next(number for number, node in enumerate(site.function.body) if isinstance(node, ast.For))
    site.function.body[position:position] = statements(f"{name}_cell = np.empty(1)")


class _Sharing(ast.NodeTransformer):
    def __init__(self, name: str) -> None:
        self.name = name

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id != self.name:
            return node
        return ast.Subscript(ast.Name(f"{self.name}_cell", ast.Load()), ast.Constant(0), node.ctx)


THREAD_FAULTS = (
    Fault(
        "parallel-mark",
        "a loop runs on threads although nobody proved that it may",
        at_each(is_serial_by_ones, mark_parallel),
        "its iterations are independent of one another",
        is_race=True,
    ),
    Fault(
        "chunk-loses-last",
        "a piece of a parallel loop loses its last iteration",
        at_each(is_parallel, in_chunks(START, f"{STOP} - int(piece == 2)")),
        "the last iteration of that piece has nothing to do",
    ),
    Fault(
        "chunk-loses-first",
        "a piece of a parallel loop loses its first iteration",
        at_each(is_parallel, in_chunks(f"{START} + int(piece == 1)", STOP)),
        "the first iteration of that piece has nothing to do",
    ),
    Fault(
        "chunks-overlap",
        "two pieces of a parallel loop share an iteration",
        at_each(is_parallel, in_chunks(f"{START} - int(piece == 1)", STOP)),
        "running an iteration again computes the same values again",
    ),
    Fault(
        "chunk-lost-when-long",
        "the last piece of a parallel loop is lost when pieces are long",
        at_each(is_parallel, in_chunks(START, f"{STOP} - int(piece == 3 and LAST - FIRST >= 12)")),
        "the loop never has twelve iterations, or the last has nothing to do",
    ),
    Fault(
        "scalar-shared",
        "a variable of each iteration is one cell for all threads",
        at_each(is_scalar_of_thread, share),
        is_race=True,
    ),
)
