"""Calls of `numba.stencil` kernels become loops over the inner points.

As Numba has it: `a[-1, 0]` is the neighbour of the point that is computed; points whose neighbours the array does not
have get `cval`, which is 0 by default, or stay as they are in `out`.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from optimizer.polyhedral.frontend import dtypes
from optimizer.polyhedral.frontend.copying import copied
from optimizer.polyhedral.frontend.expressions import ExpressionReader
from optimizer.polyhedral.frontend.own_variables import is_written_first
from optimizer.polyhedral.frontend.placing import placed
from optimizer.polyhedral.frontend.stencils import constant_of, read_stencil
from optimizer.polyhedral.frontend.substitution import Substituted
from optimizer.polyhedral.frontend.views import bound_size, view_of


@dataclass(slots=True)
class StencilCalls:
    reader: ExpressionReader

    def applied(self, call: ast.Call, targets: Sequence[str]) -> tuple[list[ast.stmt], ast.expr | None]:
        """The loops of a call, and the array with the result; None for a call with `out`.

        Args:
            targets: The variable that gets the result and has no value before, if there is one.

        Raises:
            SourceError: for arguments that the kernel does not take, and what Numba or this does not support.
        """
        scope = self.reader.scope
        function = scope.module.functions[ast.unparse(call.func)]
        stencil = read_stencil(scope.module, function)
        arguments, out = self._arguments(call, function)
        self._check_body(function)
        first = view_of(scope, call.args[0])
        if first is None or first.rank != len(stencil.reach):
            raise self.reader.error(
                call.args[0], f"`{function.name}` needs an array of {len(stencil.reach)} dimensions"
            )
        arrays = [name for name in stencil.relative if view_of(scope, arguments[name]) is not None]
        for name in arrays:
            view = view_of(scope, arguments[name])
            if view is not None and view.rank != first.rank:
                raise self.reader.error(
                    arguments[name], f"all arrays of `{function.name}` need {first.rank} dimensions"
                )

        names: dict[str, str] = {}
        before: list[ast.stmt] = []
        values: dict[str, ast.expr] = {}
        for name, value in arguments.items():
            if isinstance(value, ast.Name | ast.Constant):
                values[name] = value
            else:
                names[name] = scope.names.fresh(name)
                before.append(ast.Assign([ast.Name(names[name], ast.Store())], value))
        for name in sorted(_stored(function)):
            names[name] = scope.names.fresh(name)
        values |= {name: ast.Name(new, ast.Load()) for name, new in names.items()}

        sizes = [bound_size(scope, extent, call) for extent in first.extents]
        loops = [scope.names.fresh("ijklmn"[k % 6]) for k in range(first.rank)]
        *body, last = map(copied, function.body)
        assert isinstance(last, ast.Return)
        assert last.value is not None
        moved = _Moved(self.reader, arrays, loops)
        substituted = Substituted(values)
        body = [substituted.visit(moved.visit(line)) for line in body]
        value = substituted.visit(moved.visit(last.value))
        dtype = self._dtype(body, value, loops)
        if out is None:
            target = targets[0] if len(targets) == 1 else scope.names.fresh("stencil")
            if targets:
                scope.names.assigned[target] -= 1
            before.append(self._made(call, target, sizes, dtype, stencil.border))
            result: ast.expr = ast.Name(target, ast.Load())
        else:
            result = out
            if stencil.border is not None:
                whole = ast.Subscript(out, ast.Constant(...), ast.Store())
                before.append(ast.Assign([whole], stencil.border))
        index: ast.expr = ast.Tuple([ast.Name(loop, ast.Load()) for loop in loops], ast.Load())
        index = index if len(loops) > 1 else ast.Name(loops[0], ast.Load())
        inner: list[ast.stmt] = [*body, ast.Assign([ast.Subscript(result, index, ast.Store())], value)]
        lines = [*before, *_nested(loops, sizes, stencil.reach, inner)]
        scope.names.add(lines)
        return [placed(line, call) for line in lines], None if out is not None else result

    def _arguments(self, call: ast.Call, function: ast.FunctionDef) -> tuple[dict[str, ast.expr], ast.expr | None]:
        words = {word.arg: word.value for word in call.keywords}
        names = [argument.arg for argument in function.args.args]
        is_plain = len(names) == len(call.args) and ast.unparse(function.args) == ", ".join(
            ast.unparse(argument) for argument in function.args.args
        )
        if not is_plain or not words.keys() <= {"out"} or any(isinstance(part, ast.Starred) for part in call.args):
            message = f"the arguments do not fit the stencil `{function.name}({ast.unparse(function.args)})`"
            raise self.reader.error(call, message, "give all arguments in order; only `out` has a name")
        out = words.get("out")
        if out is not None and (not isinstance(out, ast.Name) or view_of(self.reader.scope, out) is None):
            raise self.reader.error(out, "`out` must be the name of an array")
        return dict(zip(names, call.args, strict=True)), out

    def _check_body(self, function: ast.FunctionDef) -> None:
        scope = self.reader.scope
        *body, last = function.body
        early = [node for line in body for node in ast.walk(line) if isinstance(node, ast.Return)]
        if early or not isinstance(last, ast.Return) or last.value is None:
            message = f"stencil `{function.name}` must return a number in its last line, and nowhere else"
            raise self.reader.error((*early, last)[0], message)
        parameters = {argument.arg for argument in function.args.args}
        for node in (part for line in body for part in ast.walk(line)):
            match node:
                case ast.Name(id=name, ctx=ast.Store()) if name in parameters:
                    raise self.reader.error(
                        node, f"stencil `{function.name}` gives its argument `{name}` another value"
                    )
                case ast.Subscript(ctx=ast.Store()):
                    raise self.reader.error(node, f"stencil `{function.name}` writes to an array")
                case _:
                    pass
        own = _stored(function)
        counters = {ast.unparse(node.target) for node in ast.walk(function) if isinstance(node, ast.For)}
        for name in own - counters:
            if not is_written_first(function.body, name):
                place = next(p for p in ast.walk(function) if isinstance(p, ast.Name) and p.id == name)
                raise self.reader.error(place, f"`{name}` may be read before it is assigned")
        for node in (part for line in function.body for part in ast.walk(line) if isinstance(part, ast.Name)):
            known = node.id in scope.arguments or node.id in scope.arrays or node.id in scope.names.assigned
            if node.id not in own | parameters and (known or node.id in scope.names.loops):
                message = f"`{node.id}` means something else in `{scope.function}` than in `{function.name}`"
                raise self.reader.error(node, message, f"give the variable of `{scope.function}` another name")

    def _made(
        self, call: ast.Call, name: str, sizes: Sequence[ast.expr], dtype: str, border: ast.expr | None
    ) -> ast.stmt:
        module = self.reader.scope.module
        numpy = next((bound for bound, origin in module.imports.items() if origin == "numpy"), None)
        if numpy is None:
            raise self.reader.error(call, "the result needs NumPy", "write `import numpy as np` at the top of the file")

        def of_numpy(attribute: str) -> ast.expr:
            return ast.Attribute(ast.Name(numpy, ast.Load()), attribute, ast.Load())

        is_zero = border is None or constant_of(border) == 0
        shape = ast.Tuple([*sizes], ast.Load())
        arguments: list[ast.expr] = [shape] if is_zero or border is None else [shape, border]
        kind = ast.keyword("dtype", of_numpy("bool_" if dtype == "bool" else dtype))
        made = ast.Call(of_numpy("zeros" if is_zero else "full"), arguments, [kind])
        return ast.Assign([ast.Name(name, ast.Store())], made)

    def _dtype(self, body: Sequence[ast.stmt], value: ast.expr, loops: Sequence[str]) -> str:
        """The type of the result, by Numba's rules; the variables' types grow until nothing changes."""
        scope = self.reader.scope
        types: dict[str, str | None] = dict.fromkeys(loops, "int64")

        def type_of(node: ast.expr) -> str | None:
            match node:
                case ast.Name(id=name) if name in types:
                    return types[name]
                case ast.Subscript(value=ast.Name() as array) if (view := view_of(scope, array)) is not None:
                    return view.dtype
                case ast.Subscript(value=array):
                    return type_of(array)
                case ast.Name(id=name) if name in scope.arguments:
                    return scope.arguments[name]
                case _:
                    return dtypes.constant_type(node, scope.module)

        for _ in range(4):
            for node in (part for line in body for part in ast.walk(line)):
                match node:
                    case ast.Assign(targets=[ast.Name(id=name)], value=given):
                        types[name] = dtypes.join(types.get(name), dtypes.infer(given, type_of, scope.module))
                    case ast.AugAssign(target=ast.Name(id=name), op=operator, value=given):
                        changed = ast.BinOp(ast.Name(name, ast.Load()), operator, given)
                        types[name] = dtypes.join(types.get(name), dtypes.infer(changed, type_of, scope.module))
                    case ast.For(target=ast.Name(id=name)):
                        types[name] = "int64"
                    case _:
                        pass
        return dtypes.infer(value, type_of, scope.module) or "float64"


class _Moved(ast.NodeTransformer):
    """Distances from a point become positions."""

    def __init__(self, reader: ExpressionReader, arrays: Sequence[str], loops: Sequence[str]) -> None:
        self.reader, self.arrays, self.loops = reader, arrays, loops

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        match node:
            case ast.Subscript(value=ast.Name(id=name), slice=index) if name in self.arrays:
                parts = index.elts if isinstance(index, ast.Tuple) else [index]
                if len(parts) != len(self.loops) or any(isinstance(part, ast.Slice) for part in parts):
                    message = f"`{ast.unparse(node)}` needs {len(self.loops)} distances"
                    raise self.reader.error(node, message, "slices are not supported in stencils")
                moved = [self._moved(loop, part) for loop, part in zip(self.loops, parts, strict=True)]
                place = moved[0] if len(moved) == 1 else ast.Tuple(moved, ast.Load())
                return ast.copy_location(ast.Subscript(node.value, place, node.ctx), node)
            case _:
                visited = self.generic_visit(node)
                assert isinstance(visited, ast.expr)
                return visited

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id in self.arrays:
            message = f"`{node.id}` stands for the whole array here, which is not supported in stencils"
            raise self.reader.error(node, message, f"write `{node.id}[0]` or another neighbour")
        return node

    def _moved(self, loop: str, distance: ast.expr) -> ast.expr:
        at, constant = ast.Name(loop, ast.Load()), constant_of(distance)
        if constant is None:
            return ast.BinOp(at, ast.Add(), self.visit(distance))
        if constant < 0:
            return ast.BinOp(at, ast.Sub(), ast.Constant(-constant))
        return ast.BinOp(at, ast.Add(), ast.Constant(constant)) if constant else at


def _nested(
    loops: Sequence[str], sizes: Sequence[ast.expr], reach: Sequence[tuple[int, int]], body: list[ast.stmt]
) -> list[ast.stmt]:
    for loop, size, (low, high) in reversed([*zip(loops, sizes, reach, strict=True)]):
        end = ast.BinOp(size, ast.Sub(), ast.Constant(high)) if high else size
        bounds = [ast.Constant(-low), end] if low else [end]
        body = [ast.For(ast.Name(loop, ast.Store()), ast.Call(ast.Name("range", ast.Load()), bounds, []), body, [])]
    return body


def _stored(function: ast.FunctionDef) -> set[str]:
    return {node.id for node in ast.walk(function) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
