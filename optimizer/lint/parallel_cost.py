"""Parallel loops that cannot pay: `nested-prange`, `serial-prange`, `small-prange`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from optimizer.lint.finding import Finding, Rule
from optimizer.lint.iterations import distances
from optimizer.lint.subject import Subject
from optimizer.polyhedral.frontend.functions import SCALAR_FUNCTIONS
from optimizer.polyhedral.frontend.source import Module
from optimizer.polyhedral.tree import leaves, loops

MOST_STATEMENTS = 64
"""A loop that runs fewer statements in all takes less time than starting one thread, which is microseconds."""
MOST_PARTS = 60
"""Larger statements are not called small: so many names, numbers and operations."""
_COMPILERS = frozenset({"numba.njit", "numba.jit"})


def nested_prange(module: Module, function: ast.FunctionDef) -> Iterator[Finding]:
    """A `prange` inside another one, which Numba runs as `range`."""
    for outer in outermost_pranges(module, function):
        for node in ast.walk(outer):
            if node is not outer and isinstance(node, ast.For) and _is_prange(module, node):
                message = f"this loop is inside the parallel one of line {outer.lineno}: Numba runs it as `range`"
                hint = "write `range` here, or make this loop the only parallel one"
                yield Finding(Rule.NESTED_PRANGE, function.name, node.iter, message, hint)


def serial_prange(module: Module, function: ast.FunctionDef) -> Iterator[Finding]:
    """A `prange` in a function that is compiled without `parallel=True`."""
    compilers = [each for each in function.decorator_list if _compiler(module, each)]
    first = next(outermost_pranges(module, function), None)
    if first is None or not compilers or any(map(_may_be_parallel, compilers)):
        return
    message = f"`@{ast.unparse(compilers[0])}` does not say `parallel=True`: Numba runs this loop as `range`"
    yield Finding(
        Rule.SERIAL_PRANGE, function.name, first.iter, message, "write `@njit(parallel=True)`, or `range` here"
    )


def small_prange(subject: Subject) -> Iterator[Finding]:
    """A `prange` that has so little to do, whatever the sizes, that starting the threads takes longer."""
    parallel = {loop.name for loop in subject.nest.loops if loop.is_prange}
    for loop in loops(subject.nest.tree):
        node = subject.loop_node(loop.name)
        if loop.name not in parallel or node is None:
            continue
        total, most = 0, 0
        for leaf in leaves(loop):
            statement = subject.nest.statement(leaf.statement)
            spans = distances(subject.nest, statement, loop.name)
            if spans is None or not _is_simple(statement.body):
                break
            most = max(most, spans[0] + 1)
            count = 1
            for span in spans:
                count *= span + 1
            total += count
        else:
            if most == 1:
                message = "this parallel loop has at most one iteration"
            elif total <= MOST_STATEMENTS:
                message = f"this parallel loop runs {total} small statements at most: starting threads takes longer"
            else:
                continue
            yield Finding(Rule.SMALL_PRANGE, subject.function.name, node.iter, message, "write `range`")


def outermost_pranges(module: Module, function: ast.FunctionDef) -> Iterator[ast.For]:
    """The outermost `prange` loops of a function, not those of functions inside it."""

    def visit(node: ast.AST) -> Iterator[ast.For]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.For) and _is_prange(module, child):
                yield child
            elif not isinstance(child, ast.FunctionDef | ast.ClassDef | ast.Lambda):
                yield from visit(child)

    return visit(function)


def _is_prange(module: Module, node: ast.For) -> bool:
    return isinstance(node.iter, ast.Call) and module.resolve(node.iter.func) == "numba.prange"


def _compiler(module: Module, decorator: ast.expr) -> bool:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return module.resolve(called) in _COMPILERS


def _may_be_parallel(decorator: ast.expr) -> bool:
    """Also if it is only inlined into a function that is, or if its options are not written here."""
    if not isinstance(decorator, ast.Call):
        return False
    words = {word.arg: word.value for word in decorator.keywords}
    given = words.get("parallel")
    is_off = given is None or (isinstance(given, ast.Constant) and not given.value)
    return None in words or "inline" in words or not is_off


def _is_simple(body: str) -> bool:
    """Whether a statement is short, and calls mathematical functions only."""
    nodes = list(ast.walk(ast.parse(body)))
    known = {name.rpartition(".")[2] for name in SCALAR_FUNCTIONS} | {"float", "int", "bool"}
    calls = [node.func for node in nodes if isinstance(node, ast.Call)]
    names = [each.attr if isinstance(each, ast.Attribute) else getattr(each, "id", "") for each in calls]
    return len(nodes) <= MOST_PARTS and all(name in known for name in names)
