"""Gives the statements of a nest their sorted-out scalars: names, subscripts and types."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import replace

from optimizer.polyhedral.frontend import dtypes
from optimizer.polyhedral.frontend.body import FunctionWalker
from optimizer.polyhedral.frontend.copying import copied
from optimizer.polyhedral.frontend.scalars import Use, Web
from optimizer.polyhedral.nest import Access, Array, Nest, Role, Statement


def with_webs(nest: Nest, walker: FunctionWalker, webs: tuple[Web, ...]) -> Nest:
    """The nest with its scalars renamed, expanded and declared, and with its `return`."""
    web_of = {(use, web.variable): web for web in webs for use in web.uses}
    statements: list[Statement] = []
    nodes: list[ast.stmt] = []
    for draft, statement in zip(walker.drafts, nest.statements, strict=True):
        accesses: list[Access] = []
        for access in statement.accesses:
            web = web_of.get((Use(draft.name, access.is_write), access.array))
            accesses.append(access if web is None else Access(web.name, web.subscripts, access.is_write))
        read, written = (
            {variable: web.name for (use, variable), web in web_of.items() if use == Use(draft.name, is_write)}
            for is_write in (False, True)
        )
        if draft.opaque:
            # One name for each variable, wherever it stands in there.
            read = written = read | written
        node = _Renamer(read, written).visit(copied(draft.node))
        nodes.append(node)
        statements.append(replace(statement, accesses=tuple(accesses), body=ast.unparse(node)))
    types = _scalar_types(nest, walker, webs, nodes)
    scalars = tuple(Array(web.name, types[web.name], (), Role.SCALAR, returned=web.is_returned) for web in webs)
    epilogue = () if walker.returned is None else (f"return {ast.unparse(walker.returned)}",)
    return replace(nest, arrays=(*nest.arrays, *scalars), statements=tuple(statements), epilogue=epilogue)


class _Renamer(ast.NodeTransformer):
    """Renames the scalars that a statement reads and those it writes."""

    def __init__(self, read: Mapping[str, str], written: Mapping[str, str]) -> None:
        self.read, self.written = read, written

    def visit_Name(self, node: ast.Name) -> ast.Name:
        names = self.written if isinstance(node.ctx, ast.Store) else self.read
        return ast.Name(names.get(node.id, node.id), node.ctx)


def _scalar_types(nest: Nest, walker: FunctionWalker, webs: tuple[Web, ...], nodes: list[ast.stmt]) -> dict[str, str]:
    """The type of each web: what all its writes join to. They only grow, until nothing changes."""
    scope = walker.scope
    types: dict[str, str | None] = dict.fromkeys((*nest.parameters, *(loop.name for loop in nest.loops)), "int64")
    types |= {web.name: scope.arguments.get(web.name) for web in webs}
    types |= scope.arguments

    def type_of(node: ast.expr) -> str | None:
        match node:
            case ast.Subscript(value=ast.Name(id=array)):
                return scope.arrays[array].dtype
            case ast.Name(id=name) if name in types:
                return types[name]
            case _:
                return dtypes.constant_type(node, scope.module)

    for name, value in scope.prologue.items():
        types[name] = dtypes.infer(value, type_of, scope.module)
    before: dict[str, str | None] = {}
    while types != before:
        before = dict(types)
        for name, value in (pair for node in nodes for pair in assignments(node)):
            types[name] = dtypes.join(types.get(name), dtypes.infer(value, type_of, scope.module))
    return {web.name: types[web.name] or "float64" for web in webs}


def assignments(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Every variable that a statement assigns, with the value; an opaque one may assign many."""
    for part in ast.walk(node):
        match part:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    yield from _pairs(target, value)
            case ast.AugAssign(target=ast.Name(id=name), op=operator, value=value):
                yield name, ast.BinOp(ast.Name(name, ast.Load()), operator, value)
            case ast.For(target=ast.Name(id=name)):
                yield name, ast.Constant(0)
            case _:
                pass


def _pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    match target, value:
        case ast.Name(id=name), _:
            yield name, value
        case ast.Tuple(elts=targets), ast.Tuple(elts=values):
            for one, other in zip(targets, values, strict=False):
                yield from _pairs(one, other)
        case _:
            return
