"""A schedule without names: each loop is called by its place in the tree to which the step applies, from `loop0`.

`tile(i=32, j=32); parallel(i_t)` becomes `tile(loop0=32, loop1=32); parallel(loop0)`: after the tiling the outermost
loop is `i_t`. So the pattern fits any nest with the same loops, whatever they are called there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Annotated, Any, cast, get_args, get_origin, get_type_hints

from optimizer.errors import StepError
from optimizer.memory.structure import Structure
from optimizer.polyhedral.nest import Nest
from optimizer.polyhedral.private_arrays import copying_statement
from optimizer.polyhedral.schedule import Schedule, apply_step, nest_of, parse_schedule
from optimizer.polyhedral.steps import Step
from optimizer.polyhedral.steps.affine import Affine, name
from optimizer.polyhedral.steps.arguments import AffineText
from optimizer.polyhedral.steps.text import parse_affine
from optimizer.polyhedral.tree import Node, loops


def pattern_of(nest: Nest, structure: Structure, schedule: Schedule) -> str:
    """The pattern of a schedule of this nest. Raises `StepError` if the schedule does not apply to it."""
    tree, steps = nest.tree, list[Step]()
    for step in schedule.steps:
        steps.append(renamed(step, _places(structure, nest, tree)))
        tree = apply_step(nest, tree, step)
    return str(Schedule(tuple(steps)))


def schedule_of(nest: Nest, structure: Structure, pattern: str) -> Schedule:
    """The schedule of this nest that a pattern means. Raises `CandidateError` if there is none."""
    tree, steps = nest.tree, list[Step]()
    for step in parse_schedule(pattern).steps:
        own = renamed(step, {place: name for name, place in _places(structure, nest, tree).items()})
        steps.append(own)
        tree = apply_step(nest, tree, own)
    return Schedule(tuple(steps))


def renamed(step: Step, names: Mapping[str, str]) -> Step:
    """The step with every name of a loop, statement or size replaced. Raises `StepError` for one without a new name."""
    hints = get_type_hints(type(step), include_extras=True)
    found = cast("Any", step)
    try:
        changes = {f.name: _renamed(hints[f.name], getattr(step, f.name), names) for f in fields(found)}
    except KeyError as error:
        raise StepError(f"`{step}` names {error.args[0]}, which is not there") from None
    return replace(found, **changes)


def _renamed(hint: Any, value: Any, names: Mapping[str, str]) -> Any:
    """A field's value of a type that `steps/arguments.py` knows."""
    if hint == AffineText:
        return str(_affine(parse_affine(value), names))
    if get_origin(hint) is Annotated:
        return names[value]
    if get_origin(hint) is tuple:
        parts = get_args(hint)
        each = [parts[0]] * len(value) if parts[-1] is Ellipsis else parts
        return tuple(_renamed(part, item, names) for part, item in zip(each, value, strict=True))
    return value


def _affine(expression: Affine, names: Mapping[str, str]) -> Affine:
    total = Affine(constant=expression.constant)
    for atom, coefficient in expression.terms:
        if isinstance(atom, str):
            term = name(names[atom])
        else:
            term = _affine(atom.numerator, names).quotient(atom.divisor)
        total += term.scaled(coefficient)
    return total


def _places(structure: Structure, nest: Nest, tree: Node) -> dict[str, str]:
    """The names that a step on this tree may use -> their places. Those that `privatize` made are called by the array
    and the loop that it was about."""
    source = {loop.name: f"loop{k}" for k, loop in enumerate(loops(nest.tree))}
    places = dict(structure.places)
    for array in nest_of(nest, tree).arrays:
        if array.private is not None:
            place = f"{places[array.private.array]}_{source[array.private.loop]}"
            places |= {array.name: place, copying_statement(array.private): f"copying_{place}"}
    return {**places, **{loop.name: f"loop{k}" for k, loop in enumerate(loops(tree))}}
