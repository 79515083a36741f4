"""Breaks lines of generated Python that are too long, at the places where Ruff's formatter breaks them."""

from __future__ import annotations

import ast
from collections.abc import Sequence

LINE_LENGTH = 120


def laid_out(line: str, indent: str) -> list[str]:
    """A simple statement as lines of at most LINE_LENGTH columns, as far as it can be broken; others as they are."""
    if "\n" in line:
        return [indent + part for part in line.split("\n")]
    whole = indent + line
    if len(whole) <= LINE_LENGTH:
        return [whole]
    match ast.parse(line).body:
        case [ast.Return(ast.Tuple(elements))]:
            names = [f"{indent}    {ast.get_source_segment(line, element)}," for element in elements]
            return [f"{indent}return (", *names, f"{indent})"]
        case [ast.Raise(exc=ast.Call() as value)]:
            return _broken(indent, "raise ", value, line)
        case [ast.Expr(value=ast.Call() as value)]:
            return _broken(indent, "", value, line)
        case [ast.Assign(value=value) | ast.AugAssign(value=value)]:
            text = ast.get_source_segment(line, value) or ""
            return _broken(indent, line[: len(line) - len(_with_parentheses(line, text))], value, line)
        case _:
            return [whole]


def if_lines(operands: Sequence[str], joiner: str, indent: str) -> list[str]:
    """The head of an `if` whose condition is these operands joined by `and` or `or`."""
    whole = f"{indent}if {f' {joiner} '.join(operands)}:"
    if len(whole) <= LINE_LENGTH or len(operands) == 1:
        return [whole]
    first, *rest = operands
    return [f"{indent}if (", f"{indent}    {first}", *(f"{indent}    {joiner} {text}" for text in rest), f"{indent}):"]


def _with_parentheses(line: str, text: str) -> str:
    """`text` stands at the end of `line`, perhaps in parentheses."""
    return text if line.endswith(text) else f"({text})"


def _broken(indent: str, target: str, value: ast.expr, line: str) -> list[str]:
    inner = indent + "    "
    if isinstance(value, ast.Call):
        opening = f"{indent}{target}{ast.get_source_segment(line, value.func)}("
        arguments = [ast.get_source_segment(line, argument) or "" for argument in (*value.args, *value.keywords)]
        if len(inner + ", ".join(arguments)) <= LINE_LENGTH:
            return [opening, inner + ", ".join(arguments), f"{indent})"]
        return [opening, *(f"{inner}{argument}," for argument in arguments), f"{indent})"]
    text = ast.get_source_segment(line, value) or ""
    inside, before, after = value, "", ""
    if last := _last_in_parentheses(value, line):
        head = text[: len(text) - len(ast.get_source_segment(line, last) or "") - 2]
        if len(f"{indent}{target}{head}(") <= LINE_LENGTH:
            inside, before = last, head
    if inside is value and (first := _first_in_parentheses(value, line)):
        inside, after = first, text[len(ast.get_source_segment(line, first) or "") + 2 :]
    pieces = (inner + piece for piece in _fitted(inside, line, inner))
    return [f"{indent}{target}{before}(", *pieces, f"{indent}){after}"]


def _fitted(value: ast.expr, line: str, indent: str) -> list[str]:
    text = ast.get_source_segment(line, value) or ""
    return [text] if len(indent + text) <= LINE_LENGTH else _pieces(value, line)


def _is_alone(value: ast.expr, line: str) -> bool:
    """Whether the expression has one operator of its lowest precedence only."""
    if not isinstance(value, ast.BinOp):
        return False
    operands = [side for side in (value.left, value.right) if isinstance(side, ast.BinOp)]
    return not any(_rank(side.op) == _rank(value.op) and not _is_parenthesized(side, line) for side in operands)


def _last_in_parentheses(value: ast.expr, line: str) -> ast.expr | None:
    """What stands in parentheses at the end of an expression of one operator."""
    if not (isinstance(value, ast.BinOp) and _is_alone(value, line)):
        return None
    last = value.right
    while isinstance(last, ast.BinOp) and not _is_parenthesized(last, line):
        last = last.right
    return last if _is_parenthesized(last, line) else None


def _first_in_parentheses(value: ast.expr, line: str) -> ast.expr | None:
    """What stands in parentheses at the start of an expression of one operator."""
    if not (isinstance(value, ast.BinOp) and _is_alone(value, line)):
        return None
    first = value.left
    while isinstance(first, ast.BinOp) and not _is_parenthesized(first, line):
        first = first.left
    return first if _is_parenthesized(first, line) else None


def _rank(operator: ast.operator) -> int:
    return 0 if isinstance(operator, ast.Add | ast.Sub) else 1


def _pieces(value: ast.expr, line: str) -> list[str]:
    """The operands of the outermost operator, each with the operator before it."""
    match value:
        case ast.IfExp(test, body, orelse):
            return [
                _operand(body, line),
                f"if {_operand(test, line)}",
                f"else {_operand(orelse, line)}",
            ]
        case ast.BinOp(left, ast.Add() | ast.Sub() as operator, right):
            family = (ast.Add, ast.Sub)
        case ast.BinOp(left, ast.Mult() | ast.Div() as operator, right):
            family = (ast.Mult, ast.Div)
        case _:
            return [ast.get_source_segment(line, value) or ""]
    is_same = isinstance(left, ast.BinOp) and isinstance(left.op, family) and not _is_parenthesized(left, line)
    first = _pieces(left, line) if is_same else [_operand(left, line)]
    return [*first, f"{_SYMBOLS[type(operator)]} {_operand(right, line)}"]


_SYMBOLS: dict[type[ast.operator], str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}


def _operand(node: ast.expr, line: str) -> str:
    text = ast.get_source_segment(line, node) or ""
    return f"({text})" if _is_parenthesized(node, line) else text


def _is_parenthesized(node: ast.expr, line: str) -> bool:
    before, after = line[: node.col_offset].rstrip(), line[node.end_col_offset or 0 :].lstrip()
    return before.endswith("(") and after.startswith(")") and not _opens_call(before)


def _opens_call(before: str) -> bool:
    return len(before) > 1 and (before[-2].isalnum() or before[-2] in "_])")
