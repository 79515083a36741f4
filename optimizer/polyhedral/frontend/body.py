"""Walks a kernel function in source order: loops become the tree, assignments become statements."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

from optimizer.errors import SourceError
from optimizer.polyhedral.frontend.affine import Affine, Condition, NotAffine, affine, variable
from optimizer.polyhedral.frontend.expressions import ExpressionReader, Reading
from optimizer.polyhedral.frontend.local_arrays import LocalArray, read_local_array
from optimizer.polyhedral.frontend.names import LoopNames, is_reserved
from optimizer.polyhedral.frontend.scope import Binding, Scope
from optimizer.polyhedral.nest import Access, SourceLoop
from optimizer.polyhedral.tree import Leaf, Loop, Node, Sequence, sequence_of


@dataclass(frozen=True, slots=True)
class OpenLoop:
    """A `for` around a statement."""

    name: str
    is_descending: bool


@dataclass(slots=True)
class Draft:
    """A statement before its scalars are sorted out: they are arrays of rank 0 under the source's names."""

    name: str
    loops: tuple[OpenLoop, ...]
    conditions: tuple[Condition, ...]
    """Of the loops and `if`s around it, outermost first."""
    node: ast.Assign | ast.AugAssign
    """Over unique names."""
    source: ast.stmt
    accesses: list[Access]
    scalar_reads: dict[str, ast.Name]


@dataclass(slots=True)
class FunctionWalker:
    """Collects everything that the body of a function says."""

    scope: Scope
    reader: ExpressionReader
    loop_names: LoopNames
    drafts: list[Draft] = field(default_factory=list[Draft])
    loops: list[SourceLoop] = field(default_factory=list[SourceLoop])
    locals: dict[str, LocalArray] = field(default_factory=dict[str, LocalArray])
    returned: ast.expr | None = None
    """The rewritten value of the final `return`."""
    returned_arrays: set[str] = field(default_factory=set[str])
    returned_scalars: dict[str, ast.Name] = field(default_factory=dict[str, ast.Name])

    def walk(self, function: ast.FunctionDef) -> Node:
        """The original schedule of the function."""
        body = list(function.body)
        if isinstance(body[-1], ast.Return):
            final = body.pop()
            tree = self._block(body, (), ())
            self._return(final)
            return tree
        return self._block(body, (), ())

    def _error(self, node: ast.AST, message: str, hint: str = "") -> SourceError:
        return self.reader.error(node, message, hint)

    def _block(self, body: list[ast.stmt], loops: tuple[OpenLoop, ...], conditions: tuple[Condition, ...]) -> Node:
        outer = dict(self.scope.bindings)
        parts = [part for statement in body for part in self._statement(statement, loops, conditions)]
        if loops or conditions:
            self.scope.bindings = outer
        return sequence_of(*parts)

    def _statement(
        self, node: ast.stmt, loops: tuple[OpenLoop, ...], conditions: tuple[Condition, ...]
    ) -> Iterator[Node]:
        match node:
            case ast.Pass() | ast.Expr(value=ast.Constant()) | ast.AnnAssign(value=None):
                return
            case ast.For():
                yield from self._for(node, loops, conditions)
            case ast.If():
                yield from self._if(node, loops, conditions)
            case ast.Assign(targets=targets, value=value):
                pairs = [pair for target in targets for pair in self._pairs(target, value)]
                self._check_independent(pairs)
                for target, part in pairs:
                    yield from self._assign(node, target, part, loops, conditions)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                yield from self._assign(node, target, value, loops, conditions)
            case ast.AugAssign():
                yield self._augmented(node, loops, conditions)
            case _:
                raise self._unsupported(node)

    def _for(self, node: ast.For, loops: tuple[OpenLoop, ...], conditions: tuple[Condition, ...]) -> Iterator[Node]:
        if not isinstance(node.target, ast.Name):
            raise self._error(node.target, "a loop must have one loop variable", "write `for i in range(...)`")
        if node.orelse:
            raise self._error(node.orelse[0], "`else` of a loop is not supported", "move it behind the loop")
        wanted = node.target.id
        if wanted in self.scope.loops:
            message = f"loop variable `{wanted}` is also that of a loop around this one"
            raise self._error(node.target, message, "give the inner loop a variable of its own")
        called = self._range_call(node.iter)
        is_prange = self.scope.module.resolve(called.func) == "numba.prange"
        name = self.loop_names.next(wanted)
        bounds, is_descending = self._bounds(called, name)
        position = len(self.loops)
        self.scope.loops[wanted] = name
        body = self._block(node.body, (*loops, OpenLoop(name, is_descending)), (*conditions, bounds))
        del self.scope.loops[wanted]
        if body == Sequence():
            return
        self.loops.insert(position, SourceLoop(name, node.lineno, is_prange))
        yield Loop(name, body)

    def _range_call(self, node: ast.expr) -> ast.Call:
        match node:
            case ast.Call(func=function, args=arguments, keywords=[]) if 1 <= len(arguments) <= 3:
                if self.scope.module.resolve(function) in {"range", "numba.prange"}:
                    return node
            case _:
                pass
        message = f"a loop over `{ast.unparse(node)}` is not supported"
        raise self._error(node, message, "loop over `range(...)` and use the loop variable as a subscript")

    def _bounds(self, call: ast.Call, name: str) -> tuple[Condition, bool]:
        """The isl condition on the loop variable, and whether the loop runs downwards."""
        start = call.args[0] if len(call.args) > 1 else ast.Constant(0)
        stop = call.args[1] if len(call.args) > 1 else call.args[0]
        step = 1
        if len(call.args) == 3:
            value = self.reader.affine(call.args[2], "the step of this loop")
            if not value.is_constant or value.constant == 0:
                raise self._error(call.args[2], "the step of a loop must be a whole number other than 0")
            step = value.constant
        first, last = ("max", "min") if step > 0 else ("min", "max")
        starts, stops = self._sides(start, first), self._sides(stop, last)
        lowers, uppers = (starts, stops) if step > 0 else (stops, starts)
        below, above = ("<=", "<") if step > 0 else ("<", "<=")
        if len(lowers) == len(uppers) == 1:
            text = f"{lowers[0]} {below} {name} {above} {uppers[0]}"
        else:
            text = " and ".join([f"{side} {below} {name}" for side in lowers] + [f"{name} {above} {side}" for side in uppers])
        if abs(step) > 1:
            origin = self.reader.affine(start, "the start of this loop")
            distance = variable(name) - origin if step > 0 else origin - variable(name)
            text += f" and ({distance}) mod {abs(step)} = 0"
        return Condition(text, frozenset({name}).union(*(side.names for side in (*starts, *stops)))), step < 0

    def _sides(self, node: ast.expr, name: str) -> list[Affine]:
        """The bounds that all hold: the arguments of an outermost `max` (of a start) or `min` (of an end)."""
        match node:
            case ast.Call(func=ast.Name(id=called), args=[_, _, *_], keywords=[]) if called == name:
                return [side for argument in node.args for side in self._sides(argument, name)]
            case _:
                return [self.reader.affine(node, "the bound of this loop")]

    def _if(self, node: ast.If, loops: tuple[OpenLoop, ...], conditions: tuple[Condition, ...]) -> Iterator[Node]:
        found = self.reader.condition(node.test)
        if found is None:
            message = f"whether `{ast.unparse(node.test)}` holds is not known from loop variables and sizes"
            raise self._error(node.test, message, _choice_hint(node))
        yield self._block(node.body, loops, (*conditions, found))
        yield self._block(node.orelse, loops, (*conditions, found.negated()))

    def _pairs(self, target: ast.expr, value: ast.expr) -> list[tuple[ast.expr, ast.expr]]:
        """The single assignments that `a, b = x, y` and `n, m = A.shape` stand for."""
        match target, value:
            case ast.Tuple(elts=targets), ast.Attribute(value=ast.Name(id=array), attr="shape"):
                info = self.scope.arrays.get(array)
                if info is None or len(info.extents) != len(targets):
                    raise self._error(value, f"`{array}` is not an array of {len(targets)} dimensions")
                numbers = [ast.copy_location(ast.Constant(k), value) for k in range(len(targets))]
                read = [ast.copy_location(ast.Subscript(value, k, ast.Load()), value) for k in numbers]
                return list(zip(targets, read, strict=True))
            case ast.Tuple(elts=targets), ast.Tuple(elts=values) if len(targets) == len(values):
                return list(zip(targets, values, strict=True))
            case (ast.Tuple() | ast.List() | ast.Starred()), _:
                raise self._error(target, "only `a, b = x, y` and `n, m = A.shape` can assign several variables at once")
            case _:
                return [(target, value)]

    def _check_independent(self, pairs: list[tuple[ast.expr, ast.expr]]) -> None:
        """One after the other must mean the same as all at once."""
        for position, (target, _) in enumerate(pairs):
            written = next(node.id for node in ast.walk(target) if isinstance(node, ast.Name))
            later = [node for other, value in pairs[position + 1 :] for node in (*_subscripts(other), *ast.walk(value))]
            for node in later:
                if isinstance(node, ast.Name) and node.id == written:
                    message = f"`{written}` is read after this assignment has already changed it"
                    raise self._error(node, message, "write the assignments one by one, with a variable for the old value")

    def _assign(
        self,
        node: ast.stmt,
        target: ast.expr,
        value: ast.expr,
        loops: tuple[OpenLoop, ...],
        conditions: tuple[Condition, ...],
    ) -> Iterator[Node]:
        is_outermost = not loops and not conditions
        if isinstance(target, ast.Name):
            self._check_target(target)
            local = read_local_array(self.reader, value)
            if local is not None:
                self._declare(target, local, is_outermost)
                return
            is_only = self.scope.names.assigned[target.id] == 1 and target.id not in self.scope.arguments
            if is_only and self._bind(target.id, value, is_outermost):
                return
            if is_only and is_outermost:
                reading = Reading()
                rewritten = self.reader.value(value, reading)
                if not reading.accesses:
                    self.scope.prologue[target.id] = rewritten
                    return
        reading = Reading()
        rewritten = self.reader.value(value, reading)
        written, access = self._target(target)
        reading.add(access)
        statement = ast.Assign([written], rewritten, lineno=node.lineno)
        yield self._draft(statement, node, reading, loops, conditions)

    def _augmented(
        self, node: ast.AugAssign, loops: tuple[OpenLoop, ...], conditions: tuple[Condition, ...]
    ) -> Node:
        if isinstance(node.op, ast.MatMult):
            raise self._error(node, "`@=` works on whole arrays, which is not supported", "write it as loops")
        reading = Reading()
        if isinstance(node.target, ast.Name):
            self._check_target(node.target)
            reading.scalars[node.target.id] = node.target
        written, access = self._target(node.target)
        reading.add(Access(access.array, access.subscripts, is_write=False))
        reading.add(access)
        statement = ast.AugAssign(written, node.op, self.reader.value(node.value, reading))
        return self._draft(statement, node, reading, loops, conditions)

    def _check_target(self, target: ast.Name) -> None:
        name = target.id
        if name in self.scope.names.loops:
            message = f"`{name}` is a loop variable: only its loop may change it"
            raise self._error(target, message, "use a variable of another name")
        if name in self.scope.arrays:
            message = f"`{name}` is an array: the name cannot be given to something else"
            raise self._error(target, message, "assign to its elements in a loop, or use another name")

    def _target(self, target: ast.expr) -> tuple[ast.Name | ast.Subscript, Access]:
        match target:
            case ast.Name(id=name):
                return target, Access(name, (), is_write=True)
            case ast.Subscript():
                return self.reader.element(target, is_write=True)
            case _:
                raise self._error(target, f"assignment to `{ast.unparse(target)}` is not supported")

    def _bind(self, name: str, value: ast.expr, is_outermost: bool) -> bool:
        """Lets a variable stand for an affine expression; False when `value` is none."""
        try:
            found = affine(value, self.scope.lookup)
        except NotAffine:
            return False
        # A constant keeps its name in computations: `x ** 2` and `x ** k` are compiled differently.
        is_kept = found.is_constant and is_outermost
        self.scope.bindings[name] = Binding(found, self.scope.rewritten(value), is_inlined=not is_kept)
        if is_kept:
            self.scope.prologue[name] = value
        return True

    def _declare(self, target: ast.Name, local: LocalArray, is_outermost: bool) -> None:
        name = target.id
        if not is_outermost:
            raise self._error(target, "an array can only be made before the loops", f"move `{name} = ...` before the loops")
        if self.scope.names.assigned[name] > 1 or name in self.scope.arguments:
            raise self._error(target, f"`{name}` is assigned more than once", "give each array a name of its own")
        if is_reserved(name):
            raise self._error(target, f"`{name}` cannot be the name of an array here", "give it another name")
        self.scope.arrays[name] = local.info
        self.locals[name] = local

    def _draft(
        self,
        statement: ast.Assign | ast.AugAssign,
        source: ast.stmt,
        reading: Reading,
        loops: tuple[OpenLoop, ...],
        conditions: tuple[Condition, ...],
    ) -> Node:
        name = f"S{len(self.drafts)}"
        self.drafts.append(Draft(name, loops, conditions, statement, source, reading.accesses, reading.scalars))
        return Leaf(name, {loop.name: f"-{loop.name}" if loop.is_descending else loop.name for loop in loops})

    def _return(self, node: ast.Return) -> None:
        if node.value is None or (isinstance(node.value, ast.Constant) and node.value.value is None):
            return
        parts = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
        values: list[ast.expr] = []
        for part in parts:
            if isinstance(part, ast.Name) and part.id in self.scope.arrays:
                self.returned_arrays.add(part.id)
                values.append(part)
                continue
            reading = Reading()
            values.append(self.reader.value(part, reading))
            if any(access.subscripts for access in reading.accesses):
                hint = "assign the element to a variable first and return that"
                raise self._error(part, "an element of an array cannot be returned directly", hint)
            self.returned_scalars |= reading.scalars
        self.returned = ast.Tuple(values, ast.Load()) if isinstance(node.value, ast.Tuple) else values[0]

    def _unsupported(self, node: ast.stmt) -> SourceError:
        match node:
            case ast.Return():
                return self._error(node, "`return` is only supported as the last line", "compute the result first")
            case ast.While():
                hint = "use `for` over a `range` whose bounds depend on loop variables and sizes only"
                return self._error(node, "`while` is not supported: how often it runs is not known before", hint)
            case ast.Break() | ast.Continue():
                word = type(node).__name__.lower()
                hint = "put the condition into the bounds of the loop, or into an `if` around the rest of its body"
                return self._error(node, f"`{word}` is not supported", hint)
            case ast.Expr(value=ast.Call(func=function)):
                hint = "only assignments have an effect that can be followed; leave the call out"
                return self._error(node, f"a call of `{ast.unparse(function)}` for its effect is not supported", hint)
            case _:
                words = ast.unparse(node).split(maxsplit=1)
                hint = "a kernel consists of `for`, `if`, assignments and a final `return`"
                return self._error(node, f"`{words[0] if words else ''}` is not supported in a kernel", hint)


def _subscripts(target: ast.expr) -> Iterator[ast.AST]:
    if isinstance(target, ast.Subscript):
        yield from ast.walk(target.slice)


def _choice_hint(node: ast.If) -> str:
    """How to write a data-dependent `if` as a choice of values."""
    test = ast.unparse(node.test)
    match node:
        case ast.If(body=[ast.Assign(targets=[target], value=value)], orelse=[]):
            shown = ast.unparse(target)
            return f"write `{shown} = {ast.unparse(value)} if {test} else {shown}`"
        case ast.If(
            body=[ast.Assign(targets=[target], value=value)], orelse=[ast.Assign(targets=[other], value=otherwise)]
        ) if ast.unparse(target) == ast.unparse(other):
            return f"write `{ast.unparse(target)} = {ast.unparse(value)} if {test} else {ast.unparse(otherwise)}`"
        case ast.If(body=[ast.AugAssign(target=target, op=operator, value=value)], orelse=[]):
            changed = ast.unparse(ast.BinOp(target, operator, value))
            return f"write `{ast.unparse(target)} = {changed} if {test} else {ast.unparse(target)}`"
        case _:
            return "choose between values instead: `x = a if condition else b`"
