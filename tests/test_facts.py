"""What follows from comparisons: never what small numbers contradict."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product

import pytest
from hypothesis import given, settings
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
    variable,
)
from optimizer.codegen.facts import Facts, between
from optimizer.codegen.loop_ast import Block, For
from optimizer.codegen.python_text import condition_text
from tests.hand_nests import gemm
from tests.test_codegen_affine import expressions

NOTHING = Facts("[n] -> { : n >= 0 }", ("n",))
SMALL = range(-5, 6)
I, J, N = variable("i"), variable("j"), variable("n")


def can_hold(conditions: Iterable[Comparison], but_not: Comparison | None = None) -> bool:
    """Whether small numbers make all of them hold, the size none below 0."""
    text = condition_text(AllOf(tuple(conditions)))
    text += f" and not ({condition_text(but_not)})" if but_not else ""
    together = eval(f"lambda i, j_t, n: {text}")
    return any(together(i, j_t, n) for i, j_t, n in product(SMALL, SMALL, range(6)))


comparisons = st.builds(Comparison, expressions, st.sampled_from(Relation), expressions)
few = st.lists(comparisons, min_size=1, max_size=3)
thorough = settings(max_examples=200, deadline=None)


@thorough
@given(few, few)
def test_what_is_excluded_never_happens(known: list[Comparison], wanted: list[Comparison]) -> None:
    if NOTHING.and_that(AllOf(tuple(known))).exclude(wanted):
        assert not can_hold([*known, *wanted])


@thorough
@given(few, comparisons)
def test_what_is_implied_always_holds(known: list[Comparison], wanted: Comparison) -> None:
    if NOTHING.and_that(AllOf(tuple(known))).imply(wanted):
        assert not can_hold(known, but_not=wanted)


def is_less(left: Affine, right: Affine) -> Comparison:
    return Comparison(left, Relation.LESS, right)


@pytest.mark.parametrize(
    ("known", "follows"),
    [
        ([], is_less(number(-1), N)),
        ([is_less(I, J), is_less(J, N)], is_less(I + number(1), N)),
        ([is_less(I, smallest(J, N))], is_less(I, N)),
        ([is_less(largest(I, J), N)], is_less(J, N)),
        ([Comparison(I, Relation.EQUAL, floor_division(J, 8))], is_less(J, I.times(8) + number(8))),
        ([], is_less(remainder(J, 8), number(8))),
        ([is_less(I, J), is_less(J, I + number(2))], Comparison(J, Relation.EQUAL, I + number(1))),
        ([*between(largest(I, N), J, smallest(I, N) + number(1))], Comparison(I, Relation.EQUAL, N)),
    ],
)
def test_what_tiles_rely_on_is_proved(known: list[Comparison], follows: Comparison) -> None:
    facts = NOTHING.and_that(AllOf(tuple(known)))
    assert facts.imply(follows)
    assert facts.unproved([follows, is_less(J, J), is_less(J, J)]) == [is_less(J, J)]
    assert not NOTHING.imply(is_less(I, N))


def test_the_sizes_that_a_kernel_admits_are_known() -> None:
    assert Facts.of(gemm()).imply(is_less(number(-1), variable("nk")))
    assert not Facts.of(gemm()).imply(is_less(number(0), variable("nk")))


def test_inside_a_loop_its_bounds_are_known() -> None:
    ascending = For("i", "i", largest(number(2), J), smallest(N, J + number(8)), 3, Block())
    inside = NOTHING.and_in(ascending)
    assert inside.imply(is_less(number(1), I))
    assert inside.imply(is_less(I, J + number(8)))
    assert not inside.imply(is_less(number(2), I))
    descending = For("i", "i", N, number(0), -1, Block())
    assert NOTHING.and_in(descending) == NOTHING


def test_what_isl_cannot_say_proves_nothing() -> None:
    chosen = choice(is_less(I, J), number(1), number(2))
    assert not NOTHING.exclude([is_less(chosen, number(0))])
    assert NOTHING.and_that(is_less(chosen, number(0))).imply(is_less(number(-1), N)), "other facts still count"
    assert NOTHING.and_that(AnyOf((is_less(I, J), is_less(J, I)))) == NOTHING


@pytest.mark.parametrize(
    "word", ["and", "exists", "false", "floor", "infty", "max", "min", "mod", "NaN", "not", "rat", "true"]
)
def test_variables_may_be_called_like_words_of_isl(word: str, capfd: pytest.CaptureFixture[str]) -> None:
    named = variable(word)
    assert not NOTHING.exclude([Comparison(named, Relation.EQUAL, number(3))])
    assert not NOTHING.exclude([is_less(named, N), is_less(named.times(2), I)])
