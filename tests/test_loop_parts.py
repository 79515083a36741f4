"""Loops that are cut where their choice changes run the same iterations in the same way."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from optimizer.codegen.affine import (
    Affine,
    AllOf,
    AnyOf,
    Comparison,
    Condition,
    Relation,
    floor_division,
    number,
    variable,
)
from optimizer.codegen.loop_ast import Bind, Block, Call, For, If, LoopNode, walk
from optimizer.codegen.loop_parts import without_choices
from optimizer.codegen.python_text import condition_text, expression_text

FIRST, SECOND = Call("First", (variable("j"),)), Call("Second", (variable("j"),))


def loop(condition: Condition, step: int = 1) -> For:
    return For("j", "j", variable("a"), variable("b"), step, If(condition, FIRST, SECOND))


def value_of(text: str, values: dict[str, int]) -> Any:
    return eval(text, {"min": min, "max": max}, values)


def trace(node: LoopNode, values: dict[str, int]) -> list[tuple[str, int]]:
    """The calls in their order."""
    match node:
        case Call(statement, (argument,)):
            return [(statement, value_of(expression_text(argument), values))]
        case If(condition, then, otherwise):
            chosen = then if value_of(condition_text(condition), values) else otherwise
            return [] if chosen is None else trace(chosen, values)
        case For():
            start, stop = (value_of(expression_text(bound), values) for bound in (node.start, node.stop))
            counts = range(start, stop, node.step)
            return [call for count in counts for call in trace(node.body, {**values, node.iterator: count})]
        case Block(parts):
            found: list[tuple[str, int]] = []
            for part in parts:
                if isinstance(part, Bind):
                    values = {**values, part.name: value_of(expression_text(part.value), values)}
                else:
                    found += trace(part, values)
            return found
        case _:
            raise AssertionError(f"{node} is not expected")


small = st.integers(-5, 5)


@st.composite
def sides(draw: st.DrawFn) -> Affine:
    """A multiple of the loop's variable, perhaps a quotient of it, and something else."""
    value = variable("j").times(draw(small)) + number(draw(small))
    if draw(st.booleans()):
        value = floor_division(value, draw(st.integers(2, 4))).times(draw(small))
    return value + variable("a").times(draw(small))


comparisons = st.builds(
    Comparison, sides(), st.sampled_from(Relation), st.builds(variable, st.sampled_from(["a", "b"]))
)


@given(st.lists(comparisons, min_size=1, max_size=3), small, small)
def test_the_same_iterations_run_in_the_same_way(conditions: list[Comparison], first: int, last: int) -> None:
    whole = loop(AllOf(tuple(conditions)))
    values = {"a": first, "b": last}
    assert trace(without_choices(whole, {"a", "b", "j"}), values) == trace(whole, values)


def test_a_row_of_iterations_has_a_loop_of_its_own() -> None:
    condition = Comparison(variable("n"), Relation.LESS_EQUAL, floor_division(variable("j"), 2))
    parts = without_choices(loop(AllOf((condition, Comparison(variable("j"), Relation.LESS, variable("m"))))), {"j"})
    assert [node.body for node in walk(parts) if isinstance(node, For)] == [SECOND, FIRST, SECOND]


def test_what_is_no_row_is_left_alone() -> None:
    either = AnyOf(tuple(Comparison(variable("j"), Relation.LESS, variable(name)) for name in "ab"))
    equal = Comparison(variable("j"), Relation.EQUAL, variable("a"))
    for whole in (loop(either), loop(equal), loop(Comparison(variable("j"), Relation.LESS, variable("a")), step=2)):
        assert without_choices(whole, {"j"}) is whole
