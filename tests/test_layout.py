"""Long lines are broken without losing anything."""

from __future__ import annotations

import ast

import pytest

from optimizer.codegen.layout import LINE_LENGTH, laid_out

EXTENT = "min(19, (n - 1) // 8 + 1 - 19 * i_t)"


@pytest.mark.parametrize("count", [1, 2, 4])
def test_a_call_keeps_its_keywords(count: int) -> None:
    line = f"copy = np.zeros(({', '.join([EXTENT] * count)}, 8), dtype=np.float32)"
    lines = laid_out(line, " " * 40)
    assert count == 1 or all(len(each) <= LINE_LENGTH or EXTENT in each for each in lines)
    text = "\n".join(each[40:] for each in lines)
    assert ast.dump(ast.parse(text)) == ast.dump(ast.parse(line))
