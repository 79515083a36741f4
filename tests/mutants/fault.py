"""What a fault is, and the ways to make one from a change at a single place."""

from __future__ import annotations

import ast
import copy
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from tests.mutants.site import Site, expression, has_vectors, sites, vector_names

IMPORTS = (
    "import numpy as np",
    "from numba import prange",
    "from optimizer.codegen.simd import minimum",
    "from optimizer.codegen.simd import maximum",
)
"""What a change may need."""
Apply = Callable[[ast.Module, random.Random], Iterator[str]]


class Scope(StrEnum):
    """Which code a fault can be planted into."""

    ANY = "any"
    FLOAT = "float"
    """Code that computes with floating-point numbers."""
    STRICT = "strict"
    """Such code whose bits must be the original's."""
    CONTRACT = "contract"
    """Such code that may contract."""


@dataclass(frozen=True, slots=True)
class Fault:
    name: str
    summary: str
    apply: Apply
    """The mutants of a module, in an order drawn from the generator; none where the fault does not apply."""
    harmless: str = ""
    """When a mutant of this kind changes no result."""
    scope: Scope = Scope.ANY
    is_compiled_only: bool = False
    """Whether plain Python cannot show it."""
    is_race: bool = False
    """Whether threads have to meet for compiled code to show it, so that runs which agree say nothing."""


def at_each(matches: Callable[[Site], bool], change: Callable[[Site], object]) -> Apply:
    """Mutants by one change at one place. A change that returns False did nothing."""

    def apply(module: ast.Module, rng: random.Random) -> Iterator[str]:
        right = ast.unparse(module)
        places = [number for number, site in enumerate(sites(module)) if matches(site)]
        rng.shuffle(places)
        for place in places:
            mutated = copy.deepcopy(module)
            site = next(site for number, site in enumerate(sites(mutated)) if number == place)
            if change(site) is False:
                continue
            text = _text(mutated)
            if text != right:
                yield text

    return apply


def whole(change: Callable[[ast.Module, random.Random], object]) -> Apply:
    """The one mutant by a change of the module. A change that returns False did nothing."""

    def apply(module: ast.Module, rng: random.Random) -> Iterator[str]:
        mutated = copy.deepcopy(module)
        if change(mutated, rng) is not False:
            text = _text(mutated)
            if text != ast.unparse(module):
                yield text

    return apply


def _text(module: ast.Module) -> str:
    """The module with the imports that a change may need."""
    text = ast.unparse(ast.fix_missing_locations(module))
    names = _names(module)
    lacking = [line for line in IMPORTS if line.split()[-1] in names]
    start = len(module.body[:1]) and text.index("\n") + 1
    return text[:start] + "".join(f"{line}\n" for line in lacking) + text[start:]


def _names(module: ast.Module) -> set[str]:
    """Names that are used and not imported."""
    used = {node.id for node in ast.walk(module) if isinstance(node, ast.Name)}
    imported = {
        alias.asname or alias.name
        for node in ast.walk(module)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    return used - imported


def is_computed(site: Site) -> bool:
    """A whole number that is stored, or an element that is read for one."""
    is_stored = isinstance(site.parent, ast.Assign | ast.AugAssign) and site.node is site.parent.value
    is_stored = is_stored and not has_vectors(site.node, vector_names(site.function))
    return site.is_in_value and isinstance(site.node, ast.expr) and (is_stored or isinstance(site.node, ast.Subscript))


def computed_as(text: str) -> Apply:
    """Mutants in which one value `X` is computed in another way."""

    def change(site: Site) -> None:
        assert isinstance(site.node, ast.expr)
        site.replace(expression(text, X=site.node))

    return at_each(is_computed, change)


def only_compiled(right: str, wrong: str) -> str:
    """A module that is right as plain Python and wrong once it is compiled."""
    module, mutant = ast.parse(right), ast.parse(wrong)
    name = [node for node in module.body if isinstance(node, ast.FunctionDef)][-1].name
    function = next(node for node in reversed(module.body) if isinstance(node, ast.FunctionDef) and node.name == name)
    function.name = f"right_{name}"
    # A compiled function knows the Python function that it was made of.
    choice = ast.parse(f"if not hasattr({name}, 'py_func'):\n    {name} = {function.name}").body
    return ast.unparse(ast.fix_missing_locations(ast.Module([*mutant.body, function, *choice], [])))
