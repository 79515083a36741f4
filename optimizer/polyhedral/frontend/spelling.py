"""What Python's statements mean in terms of plainer ones: one assignment each, loops over a `range`, no calls of
functions that work on arrays, no `if` that depends on data."""

from __future__ import annotations

import ast

from optimizer.polyhedral.frontend.choices import ChoiceMaker
from optimizer.polyhedral.frontend.copying import copied
from optimizer.polyhedral.frontend.expressions import ExpressionReader
from optimizer.polyhedral.frontend.inlining import Inliner
from optimizer.polyhedral.frontend.iteration import over_range
from optimizer.polyhedral.frontend.numpy_spellings import stored_result
from optimizer.polyhedral.frontend.placing import placed
from optimizer.polyhedral.frontend.several_targets import single_assignments


class Spelling:
    """Rewrites one statement at a time, where it stands: what its names mean is known then."""

    def __init__(self, reader: ExpressionReader) -> None:
        self.reader = reader
        self.inliner = Inliner(reader)
        self.choice_maker = ChoiceMaker(reader, self.spelled)

    def spelled(self, node: ast.stmt) -> list[ast.stmt] | None:
        """Plainer statements that mean the same, which may be rewritten again; None for one that is plain.

        Raises:
            SourceError: for what has no plainer form.
        """
        match node:
            case ast.For():
                loop = over_range(self.reader, node)
                return None if loop is None else [loop]
            case ast.Expr(value=ast.Call() as call) if self.inliner.is_wanted(call):
                return self.inliner.taken_in(call)[0]
            case ast.Expr(value=ast.Call() as call) if (stored := self._stored(call)) is not None:
                return [placed(stored, node)]
            case ast.Assign(targets=targets, value=ast.Call() as call) if self.inliner.is_wanted(call):
                lines, result = self.inliner.taken_in(call, self._new_variables(targets))
                return [*lines, *self._assigned(node, call, result)]
            case ast.Assign(value=value):
                before, plain = self.without_calls(value)
                if plain is not value:
                    return [*before, placed(ast.Assign(node.targets, plain), node)]
                return single_assignments(self.reader, node)
            case ast.AnnAssign(target=target, value=ast.expr() as value) if any(
                map(self.is_call_on_arrays, ast.walk(value))
            ):
                return [placed(ast.Assign([target], value), node)]
            case ast.AugAssign(target=target, op=operator, value=value):
                # The target is read before anything is called.
                for call in (part for part in ast.walk(value) if isinstance(part, ast.Call)):
                    self.check_no_writes(call)
                before, plain = self.without_calls(value)
                return [*before, placed(ast.AugAssign(target, operator, plain), node)] if plain is not value else None
            case ast.If(test=test, body=body, orelse=orelse):
                before, plain = self.without_calls(test)
                return [*before, placed(ast.If(plain, body, orelse), node)] if plain is not test else None
            case _:
                return None

    def choices(self, node: ast.If) -> list[ast.stmt]:
        """The assignments that a data-dependent `if` means. Raises `SourceError`."""
        return self.choice_maker.choices(node)

    def without_calls(self, node: ast.expr) -> tuple[list[ast.stmt], ast.expr]:
        """What has to run before an expression, and the expression without calls of functions that work on arrays;
        itself, if it has none.

        Raises:
            SourceError: for a call that writes to arrays or is not always made, within something larger.
        """
        if not any(map(self.is_call_on_arrays, ast.walk(node))):
            return [], node
        if isinstance(node, ast.Call) and self.is_call_on_arrays(node):
            lines, result = self.inliner.taken_in(node)
            return lines, self.value_of(node, result)
        calls = _Calls(self)
        plain = calls.visit(copied(node))
        return calls.before, plain

    def check_no_writes(self, call: ast.Call) -> None:
        """Raises for a call that writes to arrays which the same statement may have read before."""
        if self.inliner.is_wanted(call) and self.inliner.writes(call):
            message = f"`{ast.unparse(call.func)}` writes to its arguments within an expression"
            raise self.reader.error(call, message, "call it in a statement of its own")

    def is_call_on_arrays(self, node: ast.AST) -> bool:
        return isinstance(node, ast.Call) and self.inliner.is_wanted(node)

    def value_of(self, call: ast.Call, result: ast.expr | None) -> ast.expr:
        if result is None:
            raise self.reader.error(call, f"`{ast.unparse(call.func)}` returns nothing", "call it by itself")
        return result

    def _stored(self, call: ast.Call) -> ast.Assign | None:
        """What a call that stores into an array assigns."""
        match call:
            case ast.Call(func=ast.Attribute(value=array, attr="fill"), args=[value], keywords=[]):
                return stored_result("copyto", ast.Call(call.func, [array, value], []))
            case _:
                name = self.reader.scope.module.resolve(call.func)
                return stored_result(name.removeprefix("numpy."), call) if name.startswith("numpy.") else None

    def _assigned(self, node: ast.Assign, call: ast.Call, result: ast.expr | None) -> list[ast.stmt]:
        value = self.value_of(call, result)
        is_there = [ast.unparse(target) for target in node.targets] == [ast.unparse(value)]
        match node.targets, value:
            case [ast.Tuple(elts=targets)], ast.Tuple(elts=values) if len(targets) == len(values):
                pairs = [(t, v) for t, v in zip(targets, values, strict=True) if ast.unparse(t) != ast.unparse(v)]
                left = ast.Tuple([target for target, _ in pairs], ast.Store())
                right = ast.Tuple([part for _, part in pairs], ast.Load())
                return [placed(ast.Assign([left], right), node)] if pairs else []
            case _:
                return [] if is_there else [placed(ast.Assign(node.targets, value), node)]

    def _new_variables(self, targets: list[ast.expr]) -> tuple[str, ...]:
        """The variables that an assignment gives their only value."""
        names = self.reader.scope.names
        match targets:
            case [ast.Name() as only]:
                parts: list[ast.expr] = [only]
            case [ast.Tuple(elts=parts)]:
                pass
            case _:
                return ()
        found = [part.id for part in parts if isinstance(part, ast.Name) and names.assigned[part.id] == 1]
        return tuple(found) if len(set(found)) == len(parts) else ()


class _Calls(ast.NodeTransformer):
    """Takes calls out of an expression, in the order in which they are made."""

    def __init__(self, spelling: Spelling) -> None:
        self.spelling = spelling
        self.before: list[ast.stmt] = []

    def visit_Call(self, node: ast.Call) -> ast.expr:
        inner = self.generic_visit(node)
        assert isinstance(inner, ast.Call)
        spelling = self.spelling
        if not spelling.inliner.is_wanted(inner):
            return inner
        spelling.check_no_writes(inner)
        lines, result = spelling.inliner.taken_in(inner)
        self.before += lines
        return spelling.value_of(inner, result)

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        return self._sometimes(node, [node.body, node.orelse])

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        return self._sometimes(node, node.values[1:])

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        return self._sometimes(node, node.comparators[1:])

    def _sometimes(self, node: ast.expr, parts: list[ast.expr]) -> ast.expr:
        for call in (inner for part in parts for inner in ast.walk(part) if self.spelling.is_call_on_arrays(inner)):
            message = f"`{ast.unparse(call)}` is not always called here"
            raise self.spelling.reader.error(call, message, "call it before, or in an `if`")
        visited = self.generic_visit(node)
        assert isinstance(visited, ast.expr)
        return visited
