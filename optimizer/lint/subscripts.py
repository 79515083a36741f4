"""Subscripts that leave their array: `out-of-bounds`, `negative-subscript`.

Something is said only if it happens at every size at which the access runs, arrays of one element apart.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import islpy as isl

from optimizer.lint.finding import Finding, Rule
from optimizer.lint.reachable import unreachable
from optimizer.lint.subject import Subject
from optimizer.polyhedral.frontend.bounds import Violation, certain_violations
from optimizer.polyhedral.nest import Statement


def bad_subscripts(subject: Subject) -> Iterator[Finding]:
    """Elements that do not exist, or that are not meant."""
    never = unreachable(subject)
    wraps = any(isinstance(node, ast.Mod) for node in ast.walk(subject.function))
    for violation in certain_violations(subject.reading.nest):
        node = subject.reading.place(violation)
        if violation.statement.name in never or not _is_element(subject, node):
            continue
        message = _in_words(subject, violation)
        if not violation.counts_from_end:
            hint = "make the array larger or the loop shorter"
            yield Finding(Rule.OUT_OF_BOUNDS, subject.function.name, node, message, hint)
        elif not wraps and not _counts_below_zero(violation.statement):
            message = f"{message.partition(', but ')[0]}: a negative subscript counts from the end"
            hint = "begin the loop later; if the other end is meant, write the subscript with `%`"
            yield Finding(Rule.NEGATIVE_SUBSCRIPT, subject.function.name, node, message, hint)


def _counts_below_zero(statement: Statement) -> bool:
    """Whether some loop has negative values by itself: then negative subscripts are no accident."""
    iteration = f"{statement.name}[{', '.join(statement.iterators)}]"
    below = " or ".join(f"{iterator} < 0" for iterator in statement.iterators) or "false"
    return not isl.Set(statement.domain).is_disjoint(isl.Set(f"{{ {iteration} : {below} }}"))


def _is_element(subject: Subject, node: ast.AST) -> bool:
    """Whether it is one element in this function; slices end where the array ends."""
    first, last = subject.function.lineno, subject.function.end_lineno or 0
    slices = any(isinstance(part, ast.Slice) for part in ast.walk(node))
    return isinstance(node, ast.Subscript) and first <= node.lineno <= last and not slices


def _in_words(subject: Subject, violation: Violation) -> str:
    """The message with the names of the source."""
    shapes = {symbol: f"{array}.shape[{k}]" for symbol, array, k in subject.nest.extents}
    known = {node.id for node in ast.walk(subject.function) if isinstance(node, ast.Name)}
    names = {loop: subject.variable(loop) for loop in violation.statement.iterators}
    names |= {symbol: text for symbol, text in shapes.items() if symbol not in known}
    said = violation.message.removeprefix(f"{violation.statement.name} ").removeprefix("at ")
    return re.sub(r"\w+", lambda word: names.get(word[0], word[0]), said)
