"""Small edits of a Python text, found in its syntax tree and made in the text, so that comments and layout survive."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from optimizer.text_edit import Edit

ARITHMETIC: dict[type[ast.operator], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
}
COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
}
NEVER_DELETED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom, ast.Pass)


def python_edits(text: str, tree: ast.Module) -> list[list[Edit]]:
    """All edits of a text that parses to `tree`, one list a kind. An edited text need not parse."""
    finder = _Finder(text)
    finder.scope(tree)
    return [finder.edits[kind] for kind in sorted(finder.edits)]


@dataclass
class _Finder(ast.NodeVisitor):
    text: str
    edits: dict[str, list[Edit]] = field(default_factory=dict[str, list[Edit]])

    def __post_init__(self) -> None:
        self._lines = self.text.split("\n")
        self._starts = [0]
        for line in self._lines:
            self._starts.append(self._starts[-1] + len(line) + 1)
        self._names: list[str] = []

    def scope(self, node: ast.Module | ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        """Visit a body whose names may stand for each other."""
        outer = self._names
        self._names = _names_of(node)
        self._body(node.body)
        self._names = outer

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._defaults(node.args)
        self.scope(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._defaults(node.args)
        self.scope(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._body(node.body)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value:
            self.visit(node.value)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Before Python 3.12 the places of what is inside are wrong."""

    def visit_If(self, node: ast.If) -> None:
        self._negate(node.test)
        self.generic_visit(node)

    def visit_While(self, node: ast.While) -> None:
        self._negate(node.test)
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._negate(node.test)
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        self._operator("arithmetic", node.left, node.right, ARITHMETIC.get(type(node.op)), ARITHMETIC.values())
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        signs = [f"{sign}=" for sign in ARITHMETIC.values()]
        sign = ARITHMETIC.get(type(node.op))
        self._operator("arithmetic", node.target, node.value, f"{sign}=" if sign else None, signs)
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        operands = [node.left, *node.comparators]
        for left, operator, right in zip(operands, node.ops, operands[1:], strict=False):
            self._operator("comparison", left, right, COMPARISONS.get(type(operator)), COMPARISONS.values())
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        sign, other = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        for left, right in zip(node.values, node.values[1:], strict=False):
            self._operator("boolean", left, right, sign, [other])
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool):
            self._replace("boolean", node, str(not node.value))
        elif isinstance(node.value, int):
            self._replace("constant", node, str(node.value + 1))
            self._replace("constant", node, str(node.value - 1))

    def visit_Call(self, node: ast.Call) -> None:
        for first, second in zip(node.args, node.args[1:], strict=False):
            start, middle, then, end = *self._span(first), *self._span(second)
            swapped = self.text[then:end] + self.text[middle:then] + self.text[start:middle]
            self._add("arguments", start, end, swapped)
        if not isinstance(node.func, ast.Name):
            self.visit(node.func)
        for argument in (*node.args, *(keyword.value for keyword in node.keywords)):
            self.visit(argument)

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            for name in self._names:
                if name != node.id:
                    self._replace("name", node, name)

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is None:
            return
        for name in self._names:
            if ast.unparse(node.value) != name:
                self._replace("return", node.value, name)
        if not isinstance(node.value, ast.Name):
            self.visit(node.value)

    def generic_visit(self, node: ast.AST) -> None:
        for _, value in ast.iter_fields(node):
            items = value if isinstance(value, list) else [value]
            if items and isinstance(items[0], ast.stmt):
                self._body(items)
                continue
            for item in items:
                if isinstance(item, ast.AST):
                    self.visit(item)

    def _body(self, body: Sequence[ast.stmt]) -> None:
        for statement in body:
            if not isinstance(statement, NEVER_DELETED) and not _is_text(statement):
                self._delete(statement, len(body) == 1)
            self.visit(statement)

    def _delete(self, node: ast.stmt, alone: bool) -> None:
        """Leave out whole lines; where more stands on them, or nothing would be left, `pass` takes the place."""
        start, end = self._span(node)
        line_start = self.text.rfind("\n", 0, start) + 1
        line_end = self.text.find("\n", end)
        line_end = len(self.text) if line_end < 0 else line_end + 1
        before, after = self.text[line_start:start].strip(), self.text[end:line_end].strip()
        if alone or before or (after and not after.startswith("#")):
            self._add("statement", start, end, "pass")
        else:
            self._add("statement", line_start, line_end, "")

    def _defaults(self, arguments: ast.arguments) -> None:
        for default in (*arguments.defaults, *arguments.kw_defaults):
            if default:
                self.visit(default)

    def _negate(self, test: ast.expr) -> None:
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            start, end = self._span(test.operand)
            self._replace("condition", test, f"({self.text[start:end]})")
        else:
            start, end = self._span(test)
            self._replace("condition", test, f"not ({self.text[start:end]})")

    def _operator(self, kind: str, left: ast.expr, right: ast.expr, sign: str | None, signs: Iterable[str]) -> None:
        if sign is None:
            return
        start, end = self._span(left)[1], self._span(right)[0]
        found = re.search(re.escape(sign), self.text[start:end])
        if found:
            for other in signs:
                if other != sign:
                    self._add(kind, start + found.start(), start + found.end(), other)

    def _replace(self, kind: str, node: ast.expr, replacement: str) -> None:
        self._add(kind, *self._span(node), replacement)

    def _add(self, kind: str, start: int, end: int, replacement: str) -> None:
        self.edits.setdefault(kind, []).append(Edit(start, end, replacement))

    def _span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        last_line, last_column = node.end_lineno or node.lineno, node.end_col_offset or node.col_offset
        return self._place(node.lineno, node.col_offset), self._place(last_line, last_column)

    def _place(self, line: int, column: int) -> int:
        """`ast` counts lines from 1 and columns in bytes of UTF-8."""
        content = self._lines[line - 1]
        if not content.isascii():
            column = len(content.encode()[:column].decode())
        return self._starts[line - 1] + column


def _names_of(node: ast.Module | ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    """The arguments and the variables assigned in a body, without those of functions inside it."""
    names: dict[str, None] = {}
    if not isinstance(node, ast.Module):
        arguments = node.args
        for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
            names[argument.arg] = None
    waiting: list[ast.AST] = list(node.body)
    while waiting:
        inner = waiting.pop(0)
        if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            continue
        if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store):
            names[inner.id] = None
        waiting.extend(ast.iter_child_nodes(inner))
    return list(names)


def _is_text(statement: ast.stmt) -> bool:
    """Whether a statement is a docstring."""
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )
