"""Values that are overwritten, or thrown away, before anything reads them (`dead-store`)."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from optimizer.lint.dataflow import Flow, model_of_array, sets_of
from optimizer.lint.finding import Finding, Rule
from optimizer.lint.making import MAKERS, call_that_makes, is_making
from optimizer.lint.subject import Subject
from optimizer.polyhedral.nest import Array, Role


def dead_stores(subject: Subject) -> Iterator[Finding]:
    """Assignments of which no iteration stores anything that is read later, or that is a result.

    That is known of whole functions only. A scalar with several values has several names in the nest: those that nobody
    reads stand alone.
    """
    for array in subject.nest.arrays if subject.is_whole else ():
        is_scalar, users = array.role is Role.SCALAR, subject.users(array)
        name = subject.scalar_name(array.name) if is_scalar else array.name
        is_known = is_scalar or array.role is Role.ARGUMENT or call_that_makes(subject, name, MAKERS) is not None
        if not is_known or name.startswith("_") or any(map(subject.depends_on_data, users)):
            continue
        is_used = array.role is Role.ARGUMENT or array.returned or bool(subject.users(array, is_write=False))
        sources = _by_source(subject, array)
        live = _live(subject, array) if is_used and not is_scalar and len(sources) > 1 else None
        for source, statements in sources.items():
            if is_making(subject, source) or (is_scalar and not isinstance(source, ast.Assign)):
                continue  # `x += ...` changes an array of the caller if `x` is one.
            if not is_used:
                message = f"nothing reads what this stores in `{name}`"
            elif live is not None and not statements & live:
                message = f"what this stores in `{name}` is overwritten before anything reads it"
            else:
                continue
            yield Finding(Rule.DEAD_STORE, subject.function.name, source, message, "remove it, or use what it stores")


def _by_source(subject: Subject, array: Array) -> dict[ast.stmt, set[str]]:
    """The statements of the source that write an array, with the names of those of the nest."""
    found: dict[ast.stmt, set[str]] = {}
    for statement in subject.users(array, is_write=True):
        source = subject.source_of(statement.name)
        if source is not None:
            found.setdefault(source[0], set()).add(statement.name)
    return found


def _live(subject: Subject, array: Array) -> set[str]:
    """The statements of which some iteration writes what is read later, or is a result, and those that never run."""
    flow = Flow(model_of_array(subject.nest, array.name))
    live = flow.pairs.domain()
    if array.role is Role.ARGUMENT or array.returned:
        live = live.union(flow.left)
    never = {name for name, domain in flow.model.domains.items() if domain.is_empty()}
    return never | {str(points.get_tuple_name()) for points in sets_of(live)}
