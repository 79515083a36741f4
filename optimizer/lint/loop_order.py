"""Innermost loops that walk down the columns of row-major arrays (`column-walk`).

Something is said only if the loops can be interchanged, proved for all sizes, and no access of the new innermost loop
is worse than it was. In a product of matrices in the order i, j, k the element that is summed up stays in a register
while a column is walked: that is an exchange, not a fault.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from enum import IntEnum

from optimizer.lint.finding import Finding, Rule
from optimizer.lint.iterations import distances
from optimizer.lint.subject import Subject
from optimizer.polyhedral.legality import Legal, can_be_parallel, judge
from optimizer.polyhedral.locality import linear_coefficients
from optimizer.polyhedral.model import model_of
from optimizer.polyhedral.nest import Access, Role, Statement
from optimizer.polyhedral.tree import Loop, leaves, loops, path_to, replace_loop

_COLUMNS_FIRST = r"""asfortranarray|order=["']F|::1, *:"""
"""Code that arranges arrays by columns, at least some of them."""


class Walk(IntEnum):
    """How an access moves through memory from one iteration to the next, best first."""

    STAYS = 0
    NEXT = 1
    """To the element beside."""
    JUMPS = 2
    """Along the row, over others."""
    ROWS = 3
    """To another row."""


def column_walks(subject: Subject) -> Iterator[Finding]:
    """Loops that would better be the other way round."""
    has_other_order = re.search(_COLUMNS_FIRST, subject.module.source.text) is not None
    if has_other_order or (not subject.is_whole and _has_views(subject.function)):
        return
    tree = subject.nest.tree
    for innermost in loops(tree):
        node = subject.loop_node(innermost.name)
        if node is None or any(True for _ in loops(innermost.body)):
            continue
        band = _band(subject, innermost)
        now = _walks(subject, innermost, innermost.name)
        if now is None or Walk.ROWS not in now.values() or not _is_long(subject, innermost, innermost.name):
            continue
        for outer in reversed(band[:-1]):
            then = _walks(subject, innermost, outer)
            if then is None or any(then[key] > now[key] for key in now) or Walk.ROWS in then.values():
                continue
            if _is_long(subject, innermost, outer) and _is_legal(subject, band, outer):
                yield _finding(subject, node, innermost.name, outer, now)
                break


def _finding(subject: Subject, node: ast.For, inner: str, outer: str, now: dict[tuple[str, Access], Walk]) -> Finding:
    arrays = sorted({f"`{access.array}`" for (_, access), walk in now.items() if walk is Walk.ROWS})
    own, other = subject.variable(inner), subject.variable(outer)
    message = f"the innermost loop `{own}` goes to another row of {' and of '.join(arrays)} in each iteration"
    hint = f"interchange the loops `{other}` and `{own}`: it is proved that the results stay the same"
    return Finding(Rule.COLUMN_WALK, subject.function.name, node.iter, message, hint)


def _band(subject: Subject, innermost: Loop) -> list[str]:
    """The loops from the outermost that has nothing but the next one in it, in the source too, to the innermost."""
    band: list[str] = []
    outer: ast.For | None = None
    for part in path_to(subject.nest.tree, innermost.name):
        node = subject.loop_node(part.name) if isinstance(part, Loop) else None
        if not isinstance(part, Loop) or node is None:
            band, outer = [], None
            continue
        is_only = outer is not None and outer.body == [node]
        band, outer = [*(band if is_only else []), part.name], node
    return band


def _walks(subject: Subject, innermost: Loop, loop: str) -> dict[tuple[str, Access], Walk] | None:
    """How each access in the innermost loop moves when `loop` steps; None where that is not known."""
    found: dict[tuple[str, Access], Walk] = {}
    for leaf in leaves(innermost):
        statement = subject.nest.statement(leaf.statement)
        for access in statement.accesses:
            if subject.nest.array(access.array).role is not Role.SCALAR:
                walk = _walk(subject, statement, access, loop)
                if walk is None:
                    return None
                found[statement.name, access] = walk
    return found


def _walk(subject: Subject, statement: Statement, access: Access, loop: str) -> Walk | None:
    steps: list[int] = []
    for subscript in access.subscripts:
        coefficients = linear_coefficients(subscript, statement.iterators, subject.nest.parameters)
        if coefficients is None:
            return None
        steps.append(coefficients[loop])
    *rows, along = steps
    if any(rows):
        return Walk.ROWS
    return Walk.JUMPS if abs(along) > 1 else Walk(abs(along))


def _is_long(subject: Subject, innermost: Loop, loop: str) -> bool:
    """Whether the number of iterations grows with the sizes."""
    statements = [subject.nest.statement(leaf.statement) for leaf in leaves(innermost)]
    return all(distances(subject.nest, statement, loop) is None for statement in statements)


def _is_legal(subject: Subject, band: list[str], inner: str) -> bool:
    """Whether `inner` and the innermost loop may change places, parallel loops staying at their depth."""
    exchanged = {inner: band[-1], band[-1]: inner}
    tree = subject.nest.tree
    place = band.index(inner)
    top = band[place]
    body = next(loop.body for loop in loops(tree) if loop.name == band[-1])
    for name in reversed([exchanged.get(each, each) for each in band[place:]]):
        body = Loop(name, body)
    new = replace_loop(tree, top, lambda _: body)
    model = model_of(subject.nest)
    if judge(model, new).legal is not Legal.YES:
        return False
    parallel = {loop.name for loop in subject.nest.loops if loop.is_prange}
    return all(can_be_parallel(model, new, exchanged.get(name, name)) for name in parallel & set(band[place:]))


def _has_views(function: ast.FunctionDef) -> bool:
    """Whether some name may stand for elements of another array."""
    assigned = (node.value for node in ast.walk(function) if isinstance(node, ast.Assign))
    return any(isinstance(value, ast.Name | ast.Subscript | ast.Attribute | ast.Tuple) for value in assigned)
