"""Index expressions: the simplified ones have the value of the plain ones, also as Python text."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from optimizer.codegen.affine import (
    Affine,
    AllOf,
    AnyOf,
    Comparison,
    Relation,
    choice,
    floor_division,
    largest,
    number,
    remainder,
    smallest,
    substitute,
    variable,
)
from optimizer.codegen.python_text import condition_text, expression_text
from optimizer.codegen.statement_text import affine_of

VALUES = {"i": 7, "n": -5, "j_t": 3}


def value_of(expression: Affine) -> int:
    return eval(expression_text(expression), {}, dict(VALUES))


leaf = st.one_of(st.sampled_from(sorted(VALUES)).map(variable), st.integers(-9, 9).map(number))


def _grown(inner: st.SearchStrategy[Affine]) -> st.SearchStrategy[Affine]:
    pair = st.tuples(inner, inner)
    divisor = st.integers(1, 5)
    return st.one_of(
        pair.map(lambda two: two[0] + two[1]),
        pair.map(lambda two: two[0] - two[1]),
        pair.map(lambda two: smallest(*two)),
        pair.map(lambda two: largest(*two)),
        st.tuples(inner, st.integers(-4, 4)).map(lambda two: two[0].times(two[1])),
        st.tuples(inner, divisor).map(lambda two: floor_division(*two)),
        st.tuples(inner, divisor).map(lambda two: remainder(*two)),
        pair.map(lambda two: choice(Comparison(two[0], Relation.LESS, two[1]), two[1], two[0])),
    )


expressions = st.recursive(leaf, _grown, max_leaves=8)


@given(expressions, expressions, st.integers(-4, 4), st.integers(1, 5))
def test_arithmetic_keeps_values(first: Affine, second: Affine, factor: int, divisor: int) -> None:
    a, b = value_of(first), value_of(second)
    assert value_of(first + second) == a + b
    assert value_of(first - second) == a - b
    assert value_of(first.times(factor)) == a * factor
    assert value_of(smallest(first, second)) == min(a, b)
    assert value_of(largest(first, second)) == max(a, b)
    assert value_of(floor_division(first, divisor)) == a // divisor
    assert value_of(remainder(first, divisor)) == a % divisor


@given(expressions, expressions)
def test_substitution_keeps_values(outer: Affine, inner: Affine) -> None:
    expected = eval(expression_text(outer), {}, {**VALUES, "i": value_of(inner)})
    assert value_of(substitute(outer, {"i": inner})) == expected


@given(expressions)
def test_python_text_is_read_back(expression: Affine) -> None:
    import ast

    read = affine_of(ast.parse(expression_text(expression), mode="eval").body, {})
    assert read is None or value_of(read) == value_of(expression)


def test_text_is_what_a_person_would_write() -> None:
    i, n = variable("i"), variable("n")
    assert expression_text(n - i - number(1)) == "n - i - 1"
    assert expression_text(number(3) - i) == "3 - i"
    assert expression_text(i.times(-1)) == "-i"
    assert expression_text(smallest(n - number(1), i.times(4) + number(3)) + number(1)) == "min(n, 4 * i + 4)"
    assert expression_text(floor_division(n - number(1), 32) + number(1)) == "(n + 31) // 32"
    assert expression_text(smallest(n, n + number(2))) == "n"
    assert expression_text(remainder(i, 2).times(3)) == "3 * (i % 2)"


def test_conditions() -> None:
    i, n = variable("i"), variable("n")
    low, high = Comparison(i, Relation.GREATER_EQUAL, number(1)), Comparison(i, Relation.LESS, n)
    assert condition_text(AllOf((low, AnyOf((high, low))))) == "i >= 1 and (i < n or i >= 1)"
    assert condition_text(AllOf(())) == "True"
    assert condition_text(AnyOf(())) == "False"
