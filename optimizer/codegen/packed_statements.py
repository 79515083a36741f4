"""Statements that read copies of elements, and those that make the copies."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, replace

from optimizer.codegen.affine import Affine
from optimizer.codegen.loop_ast import Call
from optimizer.codegen.statement_text import affine_of, indices_of, parsed
from optimizer.polyhedral.nest import Access, ArgumentKind, Nest, Statement
from optimizer.polyhedral.packable import packable_reads


@dataclass(frozen=True, slots=True)
class PackedRead:
    """What a copy holds: an element, or the product of it and an argument, which is then computed once."""

    array: str
    subscripts: tuple[Affine, ...]
    """Where the loops of the generated code are."""
    factor: str = ""
    """`alpha * ` or ` * alpha`, as it stands beside the element."""

    def product(self, element: str) -> str:
        return element + self.factor if self.factor.startswith(" ") else self.factor + element


def reads_of(nest: Nest, call: Call, arrays: tuple[str, ...]) -> tuple[PackedRead, ...]:
    """All of a statement that can be copied, each once."""
    finder = _Finder(nest, call, arrays)
    finder.visit(ast.parse(nest.statement(call.statement).body))
    return tuple(dict.fromkeys(finder.found))


def reading_statement(nest: Nest, call: Call, texts: Mapping[PackedRead, tuple[str, tuple[str, ...]]]) -> Statement:
    """The statement with these reads replaced by elements of copies, given as name and subscripts: iterators more."""
    statement = nest.statement(call.statement)
    finder = _Finder(nest, call, tuple({read.array for read in texts}), texts)
    body = ast.unparse(finder.visit(ast.parse(statement.body)))
    replaced = {(read.array, read.subscripts) for read in texts}
    kept = tuple(a for a in statement.accesses if a.is_write or (a.array, finder.subscripts(a)) not in replaced)
    copies = tuple(Access(name, subscripts, is_write=False) for name, subscripts in texts.values())
    more = tuple(iterator for _, subscripts in texts.values() for iterator in subscripts)
    return replace(statement, iterators=(*statement.iterators, *more), accesses=(*kept, *copies), body=body)


def copying_statement(read: PackedRead, buffer: str, extents: int) -> Statement:
    """`B_packed[c0, c1, c2] = B[s0, s1]`; its iterators are the subscripts of both."""
    to, of = ([f"{stem}{k}" for k in range(count)] for stem, count in (("c", extents), ("s", len(read.subscripts))))
    element = f"{read.array}[{', '.join(of)}]"
    accesses = (Access(buffer, tuple(to), is_write=True), Access(read.array, tuple(of), is_write=False))
    body = f"{buffer}[{', '.join(to)}] = {read.product(element)}"
    return Statement(f"{buffer}_copy", (*to, *of), "", accesses, body, line=0)


class _Finder(ast.NodeTransformer):
    """Finds what can be copied, products first, and replaces what is in `texts`."""

    def __init__(
        self,
        nest: Nest,
        call: Call,
        arrays: tuple[str, ...],
        texts: Mapping[PackedRead, tuple[str, tuple[str, ...]]] | None = None,
    ) -> None:
        statement = nest.statement(call.statement)
        self.nest, self.texts = nest, texts or {}
        self.values = dict(zip(statement.iterators, call.arguments, strict=True))
        reads = [access for access in packable_reads(statement) if access.array in arrays]
        written = {(a.array, self.subscripts(a)) for a in statement.accesses if a.is_write}
        self.allowed = {(a.array, self.subscripts(a)) for a in reads} - written
        self.found: list[PackedRead] = []

    def subscripts(self, access: Access) -> tuple[Affine | None, ...]:
        """Of an access, where the call is."""
        try:
            return tuple(affine_of(parsed(text), self.values) for text in access.subscripts)
        except SyntaxError:
            return (None,)

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        read = self._product(node)
        if read is not None:
            return self._noted(read, node)
        self.generic_visit(node)
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        read = self._read(node)
        return node if read is None else self._noted(read, node)

    def _noted(self, read: PackedRead, node: ast.expr) -> ast.expr:
        self.found.append(read)
        if read not in self.texts:
            return node
        name, subscripts = self.texts[read]
        return parsed(f"{name}[{', '.join(subscripts)}]")

    def _read(self, node: ast.expr) -> PackedRead | None:
        match node:
            case ast.Subscript(ast.Name(array), _, ast.Load()):
                found = tuple(affine_of(index, self.values) for index in indices_of(node))
                known = tuple(subscript for subscript in found if subscript is not None)
                is_allowed = len(known) == len(found) and (array, found) in self.allowed
                return PackedRead(array, known) if is_allowed else None
            case _:
                return None

    def _product(self, node: ast.BinOp) -> PackedRead | None:
        match node:
            case ast.BinOp(ast.Name(name), ast.Mult(), element):
                factor = f"{name} * "
            case ast.BinOp(element, ast.Mult(), ast.Name(name)):
                factor = f" * {name}"
            case _:
                return None
        read = self._read(element)
        return replace(read, factor=factor) if read is not None and self._is_factor(name, read.array) else None

    def _is_factor(self, name: str, array: str) -> bool:
        """Whether it is an argument whose product with an element has the element's type."""
        kinds = {argument.name: (argument.kind, argument.dtype) for argument in self.nest.arguments}
        return kinds.get(name) == (ArgumentKind.VALUE, self.nest.array(array).dtype)
