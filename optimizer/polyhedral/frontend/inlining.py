"""Calls of functions of the same file that work on arrays: their statements take the place of the call.

A function of numbers stays a call. The variables of one whose statements are taken in get new names; an argument that
is a name stands for itself, any other is assigned to a variable first, as Python does.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass

from optimizer.polyhedral.frontend.affine import NotAffine
from optimizer.polyhedral.frontend.copying import copied
from optimizer.polyhedral.frontend.expressions import ExpressionReader
from optimizer.polyhedral.frontend.functions import Impure, check_pure, is_number, is_transparent
from optimizer.polyhedral.frontend.own_variables import separate_own_variables
from optimizer.polyhedral.frontend.placing import placed
from optimizer.polyhedral.frontend.quantities import ShapeError
from optimizer.polyhedral.frontend.stencil_calls import StencilCalls
from optimizer.polyhedral.frontend.stencils import is_stencil
from optimizer.polyhedral.frontend.substitution import Substituted
from optimizer.polyhedral.frontend.views import array_value, view_of

_MAKERS = frozenset(f"numpy.{name}{like}" for name in ("zeros", "ones", "empty", "full") for like in ("", "_like")) | {
    "numpy.copy",
    "numpy.eye",
    "numpy.arange",
}


@dataclass(slots=True)
class Inliner:
    reader: ExpressionReader

    def is_wanted(self, call: ast.Call) -> bool:
        """Whether it is a call of a function that works on arrays."""
        module, name = self.reader.scope.module, self._name(call)
        if name is None:
            return False
        values = [*call.args, *(word.value for word in call.keywords)]
        if any(self._has_dimensions(value) for value in values):
            return True
        function = module.functions[name]
        try:
            check_pure(module, function)
        except Impure:
            return any(isinstance(node, ast.Subscript) for node in ast.walk(function))
        return False

    def writes(self, call: ast.Call) -> bool:
        """Whether it may change an array that is not its own."""
        name = self._name(call)
        if name is None:
            return False
        module = self.reader.scope.module
        function = module.functions[name]
        return bool(call.keywords) if is_stencil(module, function) else _writes(self.reader, function)

    def taken_in(self, call: ast.Call, targets: tuple[str, ...] = ()) -> tuple[list[ast.stmt], ast.expr | None]:
        """The statements of the function, and its result.

        Args:
            targets: Variables that get the result and have no value before: arrays that it makes get these names.

        Raises:
            SourceError: for a function that calls itself, returns early, or is called with what it does not take.
        """
        name = self._name(call)
        assert name is not None
        function = self.reader.scope.module.functions[name]
        if is_stencil(self.reader.scope.module, function):
            return StencilCalls(self.reader).applied(call, targets)
        self._check(call, function)
        *body, last = function.body
        if not isinstance(last, ast.Return):
            body, last = function.body, ast.Return(None)
        for early in (node for line in body for node in ast.walk(line) if isinstance(node, ast.Return)):
            message = f"`{name}` works on arrays and returns before its last line"
            raise self.reader.error(early, message, "compute the result first, and return it in the last line")
        values, assignments = self._bound(call, function)
        names = self._new_names(function, values, last.value, targets)
        values |= {own: ast.Name(new, ast.Load()) for own, new in names.items()}
        in_place = Substituted(values)
        lines: list[ast.stmt] = [
            *(ast.Assign([ast.Name(names[own], ast.Store())], value) for own, value in assignments.items()),
            *(in_place.visit(copied(line)) for line in body),
        ]
        lines = [placed(line, call) for line in lines]
        separate_own_variables(lines, self.reader.scope.names.fresh)
        self.reader.scope.names.add(lines)
        for own, value in assignments.items():
            if self._is_array(value):
                # `v *= 2` changes the array that `v` is, and does not make it another.
                self.reader.scope.names.assigned[names[own]] = 1
        if last.value is None or (isinstance(last.value, ast.Constant) and last.value.value is None):
            return lines, None
        return lines, in_place.visit(copied(last.value))

    def _name(self, call: ast.Call) -> str | None:
        scope = self.reader.scope
        match call.func:
            case ast.Name(id=name) if name in scope.module.functions and name != scope.function:
                return name
            case _:
                return None

    def _has_dimensions(self, node: ast.expr) -> bool:
        """Whether it is an array, a part of one, or computed from arrays as a whole."""
        try:
            return array_value(self.reader.scope, node).rank > 0
        except (NotAffine, ShapeError):
            return False

    def _is_array(self, node: ast.expr) -> bool:
        """Whether it is an array or a part of one that is more than an element."""
        return view_of(self.reader.scope, node) is not None

    def _check(self, call: ast.Call, function: ast.FunctionDef) -> None:
        scope = self.reader.scope
        for decorator in function.decorator_list:
            if not is_transparent(scope.module, decorator):
                message = f"`{function.name}`: decorator `@{ast.unparse(decorator)}` may change what it does"
                raise self.reader.error(call, message, "only `jit`, `njit` and type checkers are read over")
        if function.name in _reached(scope.module.functions, function):
            message = f"`{function.name}` calls itself: recursion is not supported"
            raise self.reader.error(call, message, "write loops instead")
        own = {*_stored(function), *(argument.arg for argument in _parameters(function))}
        defaults = [value for value in (*function.args.defaults, *function.args.kw_defaults) if value is not None]
        parts = (part for line in (*function.body, *defaults) for part in ast.walk(line))
        for node in (part for part in parts if isinstance(part, ast.Name)):
            name = node.id
            is_shadowed = name in scope.arguments or name in scope.arrays or name in scope.names.loops
            if name not in own and (is_shadowed or name in scope.names.assigned):
                message = f"`{name}` means something else in `{scope.function}` than in `{function.name}`"
                raise self.reader.error(node, message, f"give the variable of `{scope.function}` another name")

    def _bound(self, call: ast.Call, function: ast.FunctionDef) -> tuple[dict[str, ast.expr], dict[str, ast.expr]]:
        """Parameter -> what stands for it, and what has to be assigned to it first."""
        given = self._given(call, function)
        assigned, changed = _assigned(function), _stored(function)
        direct: dict[str, ast.expr] = {}
        for name, value in given.items():
            is_array = self._is_array(value)
            if is_array and name in assigned:
                message = f"`{function.name}` gives its argument `{name}` another value, which is an array here"
                raise self.reader.error(call, message, "use a variable of another name there")
            if isinstance(value, ast.Name | ast.Constant) and (is_array or name not in changed):
                direct[name] = value
        return direct, {name: value for name, value in given.items() if name not in direct}

    def _given(self, call: ast.Call, function: ast.FunctionDef) -> dict[str, ast.expr]:
        arguments = function.args
        positional = [*arguments.posonlyargs, *arguments.args]
        defaults = dict(zip([part.arg for part in positional[::-1]], arguments.defaults[::-1], strict=False))
        defaults |= {
            part.arg: value
            for part, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
            if value is not None
        }
        for name, value in defaults.items():
            if not is_number(self.reader.scope.module, value):
                message = f"`{name}={ast.unparse(value)}` is not a number that is fixed in this module"
                raise self.reader.error(value, message, "give the argument in the call")
        is_starred = any(isinstance(value, ast.Starred) for value in call.args)
        if is_starred or any(word.arg is None for word in call.keywords) or arguments.vararg or arguments.kwarg:
            message = f"`{function.name}` is called with, or takes, any number of arguments"
            raise self.reader.error(call, message, "name each argument")
        given = dict(zip([part.arg for part in positional], call.args, strict=False))
        words = {word.arg: word.value for word in call.keywords if word.arg}
        by_name = {part.arg for part in (*arguments.args, *arguments.kwonlyargs)}
        every = [part.arg for part in _parameters(function)]
        whole = defaults | given | words
        is_fitting = len(call.args) <= len(positional) and words.keys() <= by_name - given.keys()
        if not is_fitting or [name for name in every if name not in whole]:
            message = f"the arguments do not fit `{function.name}({ast.unparse(arguments)})`"
            raise self.reader.error(call, message)
        return {name: whole[name] for name in every}

    def _new_names(
        self,
        function: ast.FunctionDef,
        values: Mapping[str, ast.expr],
        result: ast.expr | None,
        targets: tuple[str, ...],
    ) -> dict[str, str]:
        """A new name for each variable; arrays that are made to be returned have their target's."""
        results = result.elts if isinstance(result, ast.Tuple) else [result]
        parameters = {argument.arg for argument in _parameters(function)}
        names: dict[str, str] = {}
        if len(results) == len(targets):
            for part, target in zip(results, targets, strict=True):
                name = part.id if isinstance(part, ast.Name) else ""
                if name not in parameters | names.keys() and _is_made(self.reader, function, name):
                    names[name] = target
                    self.reader.scope.names.assigned[target] -= 1
        for name in sorted((_stored(function) | parameters) - values.keys() - names.keys()):
            names[name] = self.reader.scope.names.fresh(name)
        return names


def _parameters(function: ast.FunctionDef) -> list[ast.arg]:
    return [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]


def _stored(function: ast.FunctionDef) -> set[str]:
    """The names that a function assigns or changes."""
    return set(_all_stored(function))


def _assigned(function: ast.FunctionDef) -> set[str]:
    """The names that a function gives another value, other than by `+=` and its like."""
    changes = [id(node.target) for node in ast.walk(function) if isinstance(node, ast.AugAssign)]
    stored = [node for node in ast.walk(function) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    return {node.id for node in stored if id(node) not in changes}


def _reached(functions: Mapping[str, ast.FunctionDef], function: ast.FunctionDef) -> set[str]:
    """Every function that it calls, directly or through others."""
    found: set[str] = set()
    pending = [function]
    while pending:
        for node in ast.walk(pending.pop()):
            match node:
                case ast.Call(func=ast.Name(id=name)) if name in functions and name not in found:
                    found.add(name)
                    pending.append(functions[name])
                case _:
                    pass
    return found


def _is_made(reader: ExpressionReader, function: ast.FunctionDef, name: str) -> bool:
    """Whether the variable is an array that the function makes, and nothing else."""
    made = 0
    for node in (part for line in function.body for part in ast.walk(line)):
        match node:
            case ast.Assign(targets=[ast.Name(id=target)], value=ast.Call(func=called)) if target == name:
                made += reader.scope.module.resolve(called) in _MAKERS
            case _:
                pass
    return made == 1 and sum(stored == name for stored in _all_stored(function)) == 1


def _all_stored(function: ast.FunctionDef) -> list[str]:
    return [node.id for node in ast.walk(function) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]


def _writes(reader: ExpressionReader, function: ast.FunctionDef) -> bool:
    for node in (part for line in function.body for part in ast.walk(line)):
        match node:
            case ast.Subscript(ctx=ast.Store()):
                names = [part.id for part in ast.walk(node.value) if isinstance(part, ast.Name)]
                if not all(_is_made(reader, function, name) for name in names):
                    return True
            case ast.AugAssign(target=ast.Name(id=name)):
                if name in {argument.arg for argument in _parameters(function)}:
                    return True
            case ast.Call(func=ast.Name(id=name)) if name in reader.scope.module.functions and name != function.name:
                if _writes(reader, reader.scope.module.functions[name]):
                    return True
            case _:
                pass
    return False
