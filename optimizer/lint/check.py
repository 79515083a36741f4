"""All rules on all functions of a file."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import islpy as isl

from optimizer.errors import UserError
from optimizer.lint.compared_scalars import compared_scalars
from optimizer.lint.dead_stores import dead_stores
from optimizer.lint.finding import Finding, Rule
from optimizer.lint.loop_order import column_walks
from optimizer.lint.parallel_cost import nested_prange, serial_prange, small_prange
from optimizer.lint.races import broken_reductions, races
from optimizer.lint.reachable import never_runs, unused_arrays
from optimizer.lint.subject import Skipped, Subject, functions_of, subjects_of
from optimizer.lint.subscripts import bad_subscripts
from optimizer.lint.unwritten import unwritten_reads
from optimizer.polyhedral.frontend.finding import text_of
from optimizer.polyhedral.frontend.source import Module, Source, parse_module
from optimizer.polyhedral.model import operation_limit

# Adding a rule: its name in `Rule`, a function that finds it, a row here, a section in docs/lint.md.
OF_SOURCE: Mapping[Callable[[Module, ast.FunctionDef], Iterator[Finding]], frozenset[Rule]] = MappingProxyType(
    {
        nested_prange: frozenset({Rule.NESTED_PRANGE}),
        serial_prange: frozenset({Rule.SERIAL_PRANGE}),
        compared_scalars: frozenset({Rule.NOT_A_REDUCTION}),
        unused_arrays: frozenset({Rule.UNUSED_ARRAY}),
    }
)
"""Rules that look at the text of a function."""
OF_NEST: Mapping[Callable[[Subject], Iterator[Finding]], frozenset[Rule]] = MappingProxyType(
    {
        races: frozenset({Rule.RACE}),
        broken_reductions: frozenset({Rule.NOT_A_REDUCTION}),
        small_prange: frozenset({Rule.SMALL_PRANGE}),
        bad_subscripts: frozenset({Rule.OUT_OF_BOUNDS, Rule.NEGATIVE_SUBSCRIPT}),
        unwritten_reads: frozenset({Rule.UNWRITTEN_READ}),
        dead_stores: frozenset({Rule.DEAD_STORE}),
        never_runs: frozenset({Rule.NEVER_RUNS}),
        column_walks: frozenset({Rule.COLUMN_WALK}),
    }
)
"""Rules that look at a function, or a loop of it, as a nest."""


@dataclass(frozen=True, slots=True)
class Report:
    """What there is to say about a file."""

    source: Source
    findings: tuple[Finding, ...]
    """In the order of the source."""
    skipped: tuple[Skipped, ...]
    """Functions and loops about which nothing is known that depends on their iterations."""


def rules_named(names: Collection[str]) -> tuple[Rule, ...]:
    """The rules of these names; all for none. UserError for a name that is none."""
    for name in names:
        if name not in set(Rule):
            raise UserError(f"there is no rule `{name}`; the rules are {', '.join(Rule)}")
    return tuple(rule for rule in Rule if not names or rule in names)


def lint_file(path: str, rules: Collection[Rule] = tuple(Rule)) -> Report:
    """Looks at every function of a file.

    Raises:
        UserError: when it cannot be read as Python.
    """
    return lint_source(text_of(path), path, rules)


def lint_source(text: str, file: str, rules: Collection[Rule] = tuple(Rule)) -> Report:
    """Looks at every function in a module's text, which is never run.

    Raises:
        UserError: when it cannot be read as Python.
    """
    module = parse_module(text, file)
    findings: list[Finding] = []
    skipped: list[Skipped] = []
    for function in functions_of(ast.parse(text)):
        for of_source, names in OF_SOURCE.items():
            if names.intersection(rules):
                findings += of_source(module, function)
        for subject in subjects_of(module, function):
            if isinstance(subject, Skipped):
                skipped.append(subject)
                continue
            for of_nest, names in OF_NEST.items():
                if names.intersection(rules):
                    findings += _found(of_nest, subject)
    kept = {(found.place, found.rule, found.message): found for found in findings if found.rule in rules}
    return Report(module.source, tuple(sorted(kept.values(), key=lambda found: found.place)), tuple(skipped))


def _found(rule: Callable[[Subject], Iterator[Finding]], subject: Subject) -> list[Finding]:
    """What a rule finds; nothing where isl would need too long for it."""
    try:
        with operation_limit():
            return list(rule(subject))
    except (isl.Error, UserError):
        return []
