"""Puts a nest together from a function's parts."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import islpy as isl

from optimizer.errors import UserError
from optimizer.polyhedral.frontend import dtypes
from optimizer.polyhedral.frontend.affine import Condition
from optimizer.polyhedral.frontend.body import Draft, FunctionWalker
from optimizer.polyhedral.frontend.bounds import Violation, find_violation, subscripted_arrays
from optimizer.polyhedral.frontend.expressions import ExpressionReader
from optimizer.polyhedral.frontend.names import FunctionNames, LoopNames, is_reserved
from optimizer.polyhedral.frontend.original import original, preamble
from optimizer.polyhedral.frontend.scalars import Use, Web, find_webs
from optimizer.polyhedral.frontend.scope import ArrayInfo, Scope
from optimizer.polyhedral.frontend.shapes import Shapes, read_shapes
from optimizer.polyhedral.frontend.signature import Signature, read_signature
from optimizer.polyhedral.frontend.source import Module
from optimizer.polyhedral.nest import Access, Argument, ArgumentKind, Array, Nest, Role, Statement
from optimizer.polyhedral.tree import Node

_BUILT_IN = ("range", "len", "min", "max", "abs")


def build_nest(module: Module, function: ast.FunctionDef, examples: Mapping[str, Any] | None) -> Nest:
    """The nest of one function of a module.

    Raises:
        SourceError: at the first thing that is not supported, or that is wrong at every size.
    """
    for name in _BUILT_IN:
        if name in module.functions or module.imports.get(name, name) != name:
            raise module.source.error(function, f"the module gives `{name}` a meaning of its own", "rename it there")
    signature = read_signature(module, function, examples)
    for argument in signature:
        if is_reserved(argument.name):
            raise module.source.error(argument.node, f"`{argument.name}` cannot be the name of an argument", "rename it")
    names = FunctionNames.of(function)
    shapes = read_shapes(module, function, signature, names)
    scope = Scope(module, names, {s.name: s.dtype for s in signature if not s.is_array})
    for argument in signature:
        if argument.is_array:
            scope.arrays[argument.name] = ArrayInfo(argument.dtype, shapes.extents[argument.name])
            scope.used.update(*(extent.names for extent in shapes.extents[argument.name]))
    others = {s.name for s in signature} | {symbol for symbol, _, _ in shapes.symbols}
    others |= {*names.assigned, *module.imports, *module.functions, *module.constants}
    walker = FunctionWalker(scope, ExpressionReader(scope), LoopNames(names, frozenset(others)))
    tree = walker.walk(function)
    if not walker.loops:
        raise module.source.error(function, f"`{function.name}` has no loops", "a kernel is a function of `for` loops")
    nest = _assemble(module, function, signature, shapes, walker, tree)
    violation = find_violation(nest)
    if violation is not None:
        draft = walker.drafts[int(violation.statement.name[1:])]
        raise module.source.error(_place(draft, violation), violation.message, "make the array larger or the loop shorter")
    return nest


def _assemble(
    module: Module,
    function: ast.FunctionDef,
    signature: tuple[Signature, ...],
    shapes: Shapes,
    walker: FunctionWalker,
    tree: Node,
) -> Nest:
    scope = walker.scope
    symbols = [symbol for symbol, _, _ in shapes.symbols]
    whole = [s.name for s in signature if scope.is_parameter(s.name) and s.name in scope.used]
    parameters = (*whole, *symbols)
    nest = Nest(
        name=function.name,
        arguments=tuple(_argument(s, whole) for s in signature),
        parameters=parameters,
        extents=shapes.symbols,
        context=_context(parameters, scope),
        arrays=_arrays(signature, walker),
        statements=tuple(_statement(draft, parameters) for draft in walker.drafts),
        tree=tree,
        loops=tuple(walker.loops),
        prologue=tuple(f"{name} = {ast.unparse(value)}" for name, value in scope.prologue.items()),
        epilogue=(),
        preamble=preamble(module, function.body, with_numba=False),
        original=original(module, function),
        file=module.source.file,
    )
    taken = {*scope.names.taken, *(loop.name for loop in walker.loops)}
    webs = find_webs(nest, walker.drafts, module.source, {*scope.arguments}, walker.returned_scalars, taken)
    return _with_webs(nest, walker, webs)


def _argument(signature: Signature, parameters: list[str]) -> Argument:
    if signature.is_array:
        kind = ArgumentKind.ARRAY
    else:
        kind = ArgumentKind.PARAMETER if signature.name in parameters else ArgumentKind.VALUE
    return Argument(signature.name, kind, signature.dtype, signature.default)


def _context(parameters: tuple[str, ...], scope: Scope) -> str:
    """Every extent is at least 0; simple ones first, in the order of the parameters."""
    extents = {str(extent): extent for info in scope.arrays.values() for extent in info.extents}
    shown = [name for name in parameters if name in extents]
    shown += [text for text, extent in extents.items() if text not in parameters and not extent.is_constant]
    conditions = " and ".join(f"{text} >= 0" for text in shown)
    return f"[{', '.join(parameters)}] -> {{ : {conditions} }}"


def _arrays(signature: tuple[Signature, ...], walker: FunctionWalker) -> tuple[Array, ...]:
    infos = walker.scope.arrays
    arrays = [
        Array(s.name, s.dtype, tuple(map(str, infos[s.name].extents)), Role.ARGUMENT) for s in signature if s.is_array
    ]
    for name, local in walker.locals.items():
        shape = tuple(map(str, local.info.extents))
        is_returned = name in walker.returned_arrays
        arrays.append(Array(name, local.info.dtype, shape, Role.LOCAL, local.fill, is_returned))
    return tuple(arrays)


def _statement(draft: Draft, parameters: tuple[str, ...]) -> Statement:
    iterators = tuple(loop.name for loop in draft.loops)
    used = frozenset[str]().union(*(condition.names for condition in draft.conditions))
    prefix = ", ".join(name for name in parameters if name in used)
    condition = " and ".join(_closed(condition) for condition in draft.conditions)
    instance = f"{draft.name}[{', '.join(iterators)}]" + (f" : {condition}" if condition else "")
    domain = f"[{prefix}] -> {{ {instance} }}" if prefix else f"{{ {instance} }}"
    line: int = draft.source.lineno
    return Statement(draft.name, iterators, domain, tuple(draft.accesses), ast.unparse(draft.node), line)


def _closed(condition: Condition) -> str:
    return f"({condition.text})" if " or " in condition.text else condition.text


def _with_webs(nest: Nest, walker: FunctionWalker, webs: tuple[Web, ...]) -> Nest:
    """The nest with its scalars renamed, expanded and declared."""
    web_of = {(use, web.variable): web for web in webs for use in web.uses}
    statements: list[Statement] = []
    nodes: list[ast.Assign | ast.AugAssign] = []
    for draft, statement in zip(walker.drafts, nest.statements, strict=True):
        accesses: list[Access] = []
        for access in statement.accesses:
            web = web_of.get((Use(draft.name, access.is_write), access.array))
            accesses.append(access if web is None else Access(web.name, web.subscripts, access.is_write))
        new_names = {
            is_write: {variable: web.name for (use, variable), web in web_of.items() if use == Use(draft.name, is_write)}
            for is_write in (False, True)
        }
        node = _Renamer(new_names).visit(draft.node)
        nodes.append(node)
        statements.append(replace(statement, accesses=tuple(accesses), body=ast.unparse(node)))
    types = _scalar_types(nest, walker, webs, nodes)
    scalars = tuple(
        Array(web.name, types.get(web.name) or "float64", (), Role.SCALAR, returned=web.is_returned) for web in webs
    )
    epilogue = () if walker.returned is None else (f"return {ast.unparse(walker.returned)}",)
    return replace(nest, arrays=(*nest.arrays, *scalars), statements=tuple(statements), epilogue=epilogue)


class _Renamer(ast.NodeTransformer):
    """Renames scalars: by what is read, and by what is written."""

    def __init__(self, new_names: Mapping[bool, Mapping[str, str]]) -> None:
        self.new_names = new_names

    def visit_Name(self, node: ast.Name) -> ast.Name:
        names = self.new_names[isinstance(node.ctx, ast.Store)]
        return ast.Name(names.get(node.id, node.id), node.ctx)


def _scalar_types(
    nest: Nest, walker: FunctionWalker, webs: tuple[Web, ...], nodes: list[ast.Assign | ast.AugAssign]
) -> dict[str, str | None]:
    """The type of each web: what all its writes join to; they grow until nothing changes."""
    scope = walker.scope
    types: dict[str, str | None] = dict.fromkeys((*nest.parameters, *(loop.name for loop in nest.loops)), "int64")
    types |= scope.arguments
    scalars = {web.name for web in webs}
    for web in webs:
        if web.name not in scope.arguments:
            types[web.name] = None

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
    for _ in range(len(nodes) + 1):
        before = dict(types)
        for node in nodes:
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    types[name] = dtypes.join(types[name], dtypes.infer(value, type_of, scope.module))
                case ast.AugAssign(target=ast.Name(id=name), op=operator, value=value):
                    whole = ast.BinOp(ast.Name(name, ast.Load()), operator, value)
                    types[name] = dtypes.join(types[name], dtypes.infer(whole, type_of, scope.module))
                case _:
                    pass
        if types == before:
            break
    return {name: types[name] for name in scalars}


def _place(draft: Draft, violation: Violation) -> ast.AST:
    """Where in the source the offending subscript stands; the statement, where one line makes several."""
    found = [node for node, _ in subscripted_arrays(draft.source)]
    own = [node for node, _ in subscripted_arrays(draft.node)]
    return found[violation.position] if len(found) == len(own) else draft.source
