"""Long lines are broken without changing what they mean, and end up as Ruff would have them."""

from __future__ import annotations

import ast

import pytest

from optimizer.codegen.layout import LINE_LENGTH, if_lines, laid_out
from optimizer.codegen.statement_text import Subscripts, statement_text
from optimizer.polyhedral.nest import Statement

SHORT = " + ".join(f"long_name[i + {k}, j]" for k in range(4))
SUM = " + ".join(f"long_name[i + {k}, j]" for k in range(7))
STATEMENTS = (
    f"x[i, j] = {SUM}",
    f"x[i, j] = 0.2 * ({SUM})",
    f"x[i, j] = ({SUM}) / 9.0",
    f"x[i, j] = x[i, j] - 0.7 * ({SHORT} - y[i])",
    f"x[i, j] = ({SUM}) / (d * p[i, j - 1] + e)",
    f"x[i, j] -= {SUM.replace('+ long', '* long')}",
    f"x[i, j] = max({SHORT}, {SHORT})",
    f"x[i, j] = y[i, j] if {SHORT} > 0.0 else z[i, j] + long_name[i, j] * long_name[i, j]",
    'raise ValueError("' + "long " * 19 + '")',
    "return " + ", ".join(f"argument_{k}" for k in range(12)),
)


@pytest.mark.parametrize("statement", STATEMENTS)
def test_broken_lines_mean_the_same(statement: str) -> None:
    indent = " " * 8
    lines = laid_out(statement, indent)
    assert len(lines) > 1
    assert all(line.startswith(indent) for line in lines)
    assert max(map(len, lines)) <= LINE_LENGTH
    text = "\n".join(line.removeprefix(indent) for line in lines)
    assert ast.dump(ast.parse(text)) == ast.dump(ast.parse(statement))


def test_short_lines_stay() -> None:
    assert laid_out("x = y", "    ") == ["    x = y"]


def test_long_conditions() -> None:
    operands = [f"first_number_{k} < second_number_{k}" for k in range(4)]
    lines = if_lines(operands, "and", "    ")
    assert lines[:3] == ["    if (", f"        {operands[0]}", f"        and {operands[1]}"]
    assert if_lines(operands[:1], "and", "") == [f"if {operands[0]}:"]


@pytest.mark.parametrize(
    "expression",
    ["x**2", "-x**2", "(x**2)**3", "x**y**2", "(a + b) ** 2", "(-2) ** n", "A[i] ** 2", "a * b**2", "(a**2) ** A[i]"],
)
def test_powers_keep_their_meaning(expression: str) -> None:
    statement = Statement("S9", (), "{ S9[] }", (), f"z = {expression}", 1)
    text = statement_text(statement, {}, {}, Subscripts("at", frozenset({"i"})))
    assert ast.dump(ast.parse(text)) == ast.dump(ast.parse(f"z = {expression}"))
