"""Statements that never run, and arrays that nobody uses: `never-runs`, `unused-array`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import islpy as isl

from optimizer.lint.argument_types import annotated
from optimizer.lint.finding import Finding, Rule
from optimizer.lint.subject import Subject
from optimizer.polyhedral.frontend.bounds import only_for_small_arrays
from optimizer.polyhedral.frontend.source import Module
from optimizer.polyhedral.tree import Leaf, Loop, Node, Sequence, leaves


def never_runs(subject: Subject) -> Iterator[Finding]:
    """Loops and statements that no iteration reaches, whatever the sizes."""
    never = frozenset(name for name in unreachable(subject) if not _is_switched_off(subject, name))
    hint = "exchange the bounds, or give `range` a negative step, if it should run; else remove it"

    def visit(node: Node) -> Iterator[Finding]:
        match node:
            case Loop():
                source = subject.loop_node(node.name)
                if source is not None and all(leaf.statement in never for leaf in leaves(node)):
                    message = "nothing in this loop ever runs, except perhaps for arrays of a few elements"
                    yield Finding(Rule.NEVER_RUNS, subject.function.name, source.iter, message, hint)
                else:
                    yield from visit(node.body)
            case Sequence():
                for part in node.parts:
                    yield from visit(part)
            case Leaf():
                found = subject.source_of(node.statement)
                if node.statement in never and found is not None:
                    message = "this never runs: the conditions and ranges around it exclude each other"
                    yield Finding(
                        Rule.NEVER_RUNS, subject.function.name, found[0], message, "remove it, or correct them"
                    )

    yield from visit(subject.nest.tree)


def _is_switched_off(subject: Subject, statement: str) -> bool:
    """Whether a condition or a range around a statement depends on a constant: `if DEBUG:`, `if False:`."""
    found = subject.source_of(statement)
    for node in () if found is None else found[1]:
        decides = node.test if isinstance(node, ast.If) else node.iter if isinstance(node, ast.For) else None
        names = (
            {part.id for part in ast.walk(decides) if isinstance(part, ast.Name)} if decides is not None else set[str]()
        )
        if isinstance(decides, ast.Constant) or names & subject.module.constants.keys():
            return True
    return found is None


def unreachable(subject: Subject) -> frozenset[str]:
    """The statements that do not run at any size at which every array has an element.

    Also those that only run for arrays below some size, and then with a negative loop variable: `range(n - 2, 0)` has
    one iteration if `n` is 1.
    """
    nest = subject.reading.nest
    shapes = " and ".join(f"{extent} >= 1" for array in nest.arrays for extent in array.shape)
    usual = isl.Set(f"[{', '.join(nest.parameters)}] -> {{ : {shapes or 'true'} }}")
    found: set[str] = set()
    for statement in nest.statements:
        domain = isl.Set(statement.domain).intersect_params(usual)
        counted = domain
        for k in range(len(statement.iterators)):
            counted = counted.lower_bound_val(isl.dim_type.set, k, 0)
        if domain.is_empty() or (counted.is_empty() and only_for_small_arrays(domain.params(), nest)):
            found.add(statement.name)
    return frozenset(found)


def unused_arrays(module: Module, function: ast.FunctionDef) -> Iterator[Finding]:
    """Arguments that are declared as arrays, in a function of loops, and do not occur in it."""
    nodes = [node for statement in function.body for node in ast.walk(statement)]
    if not any(isinstance(node, ast.For) for node in nodes):
        return
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    for argument in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs):
        signature = annotated(module, argument)
        if signature is not None and signature.is_array and argument.arg not in names | {"self", "_"}:
            message = f"nothing uses the array `{argument.arg}`"
            yield Finding(Rule.UNUSED_ARRAY, function.name, argument, message, "remove the argument")
