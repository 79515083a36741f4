"""Mutations: seeded, one edit each, and Python stays Python."""

from __future__ import annotations

import ast
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optimizer.mutations import Language, language_of, mutations

SOURCE = '''\
"""A module."""

import math


def f(first, second: int = 3):
    """A docstring."""
    # é: a comment
    if first < second and not second:  # é
        return max(first, second) + 1
    for step in range(3):
        first += step
        label = f"{first} of {step}"
    print(label); second = -first
    return first
'''


def all_mutations(text: str, language: Language = Language.PYTHON, seed: int = 1) -> list[str]:
    return list(mutations(text, random.Random(seed), language))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("return max(first, second) + 1", "return max(first, second) - 1"),
        ("return max(first, second) + 1", "return max(first, second) // 1"),
        ("return max(first, second) + 1", "return max(second, first) + 1"),
        ("return max(first, second) + 1", "return max(first, second) + 2"),
        ("return max(first, second) + 1", "return step"),
        ("first < second and", "first >= second and"),
        ("second and not second", "second or not second"),
        ("if first < second and not second:", "if not (first < second and not second):"),
        ("first += step", "first *= step"),
        ("range(3)", "range(2)"),
        ("= 3)", "= 4)"),
        ("        first += step\n", ""),
        ("second = -first\n", "pass\n"),
        ("return first\n", "return second\n"),
    ],
)
def test_python_edits(before: str, after: str) -> None:
    assert SOURCE.replace(before, after) in all_mutations(SOURCE)


def test_every_mutant_of_python_parses_differs_and_keeps_what_is_no_code() -> None:
    mutants = all_mutations(SOURCE)
    assert len(set(mutants)) == len(mutants) > 40
    for mutant in mutants:
        ast.parse(mutant)
        assert ast.dump(ast.parse(mutant)) != ast.dump(ast.parse(SOURCE))
        assert '"""A docstring."""' in mutant
        assert "import math" in mutant
        assert "# é: a comment" in mutant
        assert 'f"{first} of {step}"' in mutant or "label = " not in mutant


def test_line_ends_of_windows_cost_no_edit() -> None:
    source = SOURCE.replace("\n", "\r\n")
    mutants = all_mutations(source)
    assert len(mutants) == len(all_mutations(SOURCE))
    assert source not in mutants
    for mutant in mutants:
        ast.parse(mutant)
        assert mutant.count("\n") == mutant.count("\r\n")


def test_the_order_is_a_function_of_the_seed() -> None:
    assert all_mutations(SOURCE) == all_mutations(SOURCE)
    assert all_mutations(SOURCE) != all_mutations(SOURCE, seed=2)
    assert sorted(all_mutations(SOURCE)) == sorted(all_mutations(SOURCE, seed=2))


def test_the_only_statement_of_a_body_leaves_pass() -> None:
    assert "def f():\n    pass\n" in all_mutations("def f():\n    return 1\n")


def test_plain_text_edits() -> None:
    mutants = all_mutations("ab 19\ncd", Language.PLAIN)
    for expected in (
        "cd",
        "ab 19\nab 19\ncd",
        "cd\nab 19",
        "19\ncd",
        "ab 20\ncd",
        "ab 18\ncd",
        "ba 19\ncd",
        "b 19\ncd",
    ):
        assert expected in mutants


def test_a_number_keeps_its_width() -> None:
    assert {"1.06", "1.04"} <= set(all_mutations("1.05", Language.PLAIN))


def test_python_that_does_not_parse_is_edited_as_plain_text() -> None:
    assert "def f)" in all_mutations("def f()")
    assert list(all_mutations("", Language.PLAIN)) == []


def test_the_language_is_told_by_the_file_name() -> None:
    assert language_of("a.py") is Language.PYTHON
    assert language_of("a.txt") is Language.PLAIN


@settings(max_examples=50, deadline=None)
@given(st.text(max_size=30), st.integers(0, 9))
def test_any_text_has_mutants_that_differ_from_it(text: str, seed: int) -> None:
    for language in Language:
        assert text not in all_mutations(text, language, seed)
