"""What the linter looks at: a function, or a loop of one that cannot be read as a whole, as a nest."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import islpy as isl

from optimizer.errors import SourceError, UserError
from optimizer.lint.argument_types import signature_by_use
from optimizer.polyhedral.frontend.bounds import within_bounds
from optimizer.polyhedral.frontend.build import Reading, check_decorators, read_function
from optimizer.polyhedral.frontend.functions import is_number, is_transparent
from optimizer.polyhedral.frontend.names import FunctionNames
from optimizer.polyhedral.frontend.source import Module
from optimizer.polyhedral.frontend.uses import uses_of
from optimizer.polyhedral.nest import Access, ArgumentKind, Array, Nest, Role, Statement

_OPENED = ast.For | ast.While | ast.If | ast.With | ast.Try
"""Statements whose own statements are looked at when they cannot be read as a whole."""


@dataclass(frozen=True)
class Subject:
    """A nest with its source."""

    module: Module
    function: ast.FunctionDef
    """The function as it stands in the source, of which `reading` may hold one loop only."""
    reading: Reading
    loop: ast.For | None = None
    """Which one, if the nest is a loop of the function. Loops around it are there without their other statements."""

    @property
    def is_whole(self) -> bool:
        """Whether the nest is the whole function, so that what it leaves behind is known."""
        return self.loop is None

    @cached_property
    def nest(self) -> Nest:
        """At the sizes at which every subscript stays inside its array."""
        return within_bounds(self.reading.nest)

    @cached_property
    def _statements(self) -> dict[tuple[int, int], tuple[ast.stmt, tuple[ast.stmt, ...]]]:
        found: dict[tuple[int, int], tuple[ast.stmt, tuple[ast.stmt, ...]]] = {}

        def visit(node: ast.AST, around: tuple[ast.stmt, ...]) -> None:
            inside = around
            if isinstance(node, ast.stmt):
                found[node.lineno, node.col_offset] = node, around
                inside = (*around, node)
            for child in ast.iter_child_nodes(node):
                visit(child, inside)

        for statement in self.function.body:
            visit(statement, ())
        return found

    def source_of(self, name: str) -> tuple[ast.stmt, tuple[ast.stmt, ...]] | None:
        """The source's statement that a statement of the nest is made of, and the compound ones around it.

        None for what stands outside the function: the body of a function that it calls.
        """
        source = self.reading.drafts[int(name[1:])].source
        return self._statements.get((source.lineno, source.col_offset))

    def loop_node(self, name: str) -> ast.For | None:
        """The `for` that a loop of the nest is.

        None for a loop of an array statement, and for one of which only a loop inside it is known.
        """
        node = self._for_of(name)
        first = self.loop or self.function
        return node if node is not None and first.lineno <= node.lineno <= (first.end_lineno or 0) else None

    @cached_property
    def _written_loops(self) -> dict[str, ast.For]:
        """The loops of the nest that are a `for` of the source."""
        nodes: dict[int, ast.For] = {}
        for node in ast.walk(self.function):
            if isinstance(node, ast.For):
                nodes.setdefault(node.lineno, node)
        return {loop.name: nodes[loop.line] for loop in self.nest.loops if loop.line in nodes}

    def _for_of(self, name: str) -> ast.For | None:
        return self._written_loops.get(name)

    @cached_property
    def first_values(self) -> dict[str, ast.expr]:
        """What is assigned to each variable first, outermost statements before those inside them."""
        found: dict[str, ast.expr] = {}
        for node in ast.walk(self.function):
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    found.setdefault(name, value)
                case _:
                    pass
        return found

    def is_written(self, name: str) -> bool:
        """Whether a loop of the nest is a `for` of the source."""
        return self._for_of(name) is not None

    def variable(self, name: str) -> str:
        """What the source calls a loop of the nest."""
        node = self._for_of(name)
        return node.target.id if node is not None and isinstance(node.target, ast.Name) else name

    def scalar_name(self, name: str) -> str:
        """What the source calls a scalar of the nest."""
        for draft, statement in zip(self.reading.drafts, self.reading.nest.statements, strict=True):
            for own, access in zip(draft.accesses, statement.accesses, strict=True):
                if access.array == name:
                    return own.array
        return name

    def users(self, array: Array, *, is_write: bool | None = None) -> list[Statement]:
        """The statements that touch an array; if `is_write` is given, those that write it, or those that read it."""

        def is_meant(access: Access) -> bool:
            return access.array == array.name and is_write in (None, access.is_write)

        return [statement for statement in self.nest.statements if any(map(is_meant, statement.accesses))]

    def depends_on_data(self, statement: Statement) -> bool:
        """Whether it may be that a statement does not run in every iteration of its domain."""
        found = self.source_of(statement.name)
        if found is None:
            return True
        values = {argument.name for argument in self.nest.arguments if argument.kind is ArgumentKind.VALUE}
        values |= {self.scalar_name(array.name) for array in self.nest.arrays if array.role is Role.SCALAR}
        tests = [part for node in found[1] if isinstance(node, ast.If) for part in ast.walk(node.test)]
        return any(
            (isinstance(part, ast.Subscript) and not isinstance(part.value, ast.Attribute))
            or (isinstance(part, ast.Name) and part.id in values)
            for part in tests
        )


@dataclass(frozen=True, slots=True)
class Skipped:
    """A function, or a loop of one, that cannot be read."""

    function: str
    error: UserError

    @property
    def reason(self) -> str:
        """`file:line:column: why`."""
        return str(self.error).splitlines()[0]


def functions_of(tree: ast.Module) -> list[ast.FunctionDef]:
    """Every function of a file, methods and functions inside others too."""
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]


def subjects_of(module: Module, function: ast.FunctionDef) -> Iterator[Subject | Skipped]:
    """The function; if it cannot be read, the loops in it that can be."""
    names = FunctionNames.of(function)
    try:
        whole = _with_free_names(module, _bare(module, function))
        yield Subject(module, function, _read(module, whole))
    except UserError as error:
        if any(isinstance(node, ast.For | ast.While) for node in ast.walk(function)):
            yield Skipped(function.name, error)
        yield from _loops(module, function, names, function.body, ())


def _read(module: Module, function: ast.FunctionDef) -> Reading:
    try:
        check_decorators(module, function)
        # Faults are known for certain: what data decide is not looked into.
        return read_function(module, function, signature_by_use(module, function), may_be_opaque=False)
    except (RecursionError, ArithmeticError, LookupError, ValueError, isl.Error) as error:
        # Code that was not written for the front end can have what it does not expect, or what is too much for isl.
        raise module.source.error(function, f"the analysis of this function failed: {error}") from None


def _bare(module: Module, function: ast.FunctionDef) -> ast.FunctionDef:
    """Without decorators that leave its meaning alone, and with every argument in an ordinary position."""
    own = function.args
    if (unusual := own.vararg or own.kwarg) is not None:
        raise module.source.error(unusual, "any number of arguments")
    arguments = _arguments([*own.posonlyargs, *own.args, *own.kwonlyargs])
    decorators = [each for each in function.decorator_list if not is_transparent(module, each)]
    return _function(function, arguments, function.body, decorators)


def _function(
    function: ast.FunctionDef, arguments: ast.arguments, body: list[ast.stmt], decorators: list[ast.expr]
) -> ast.FunctionDef:
    made = ast.FunctionDef(name=function.name, args=arguments, body=body, decorator_list=decorators)
    return ast.copy_location(made, function)


def _with_free_names(module: Module, function: ast.FunctionDef) -> ast.FunctionDef:
    """The function with an argument for everything that it uses and that is defined elsewhere."""
    own = {argument.arg for argument in function.args.args}
    added = [ast.copy_location(ast.arg(name), function) for name in _free_names(module, function.body) - own]
    arguments = _arguments([*function.args.args, *added])
    return _function(function, arguments, function.body, function.decorator_list)


def _free_names(module: Module, body: list[ast.stmt]) -> set[str]:
    """Names that statements read and that neither they nor the module define, or the module not as a number."""
    nodes = [node for statement in body for node in ast.walk(statement)]
    called = {node.func.id for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    read = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    bound = {node.id for node in nodes if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)}
    known = {*module.functions, *module.imports, *dir(builtins)}
    numbers = {name for name in module.constants if is_number(module, ast.Name(name, ast.Load()))}
    return read - called - bound - known - numbers


def _loops(
    module: Module, function: ast.FunctionDef, names: FunctionNames, body: list[ast.stmt], around: tuple[ast.stmt, ...]
) -> Iterator[Subject | Skipped]:
    """The outermost loops that can be read."""
    for statement in body:
        if isinstance(statement, ast.For):
            try:
                yield Subject(module, function, _read_loop(module, function, names, statement, around), statement)
                continue
            except UserError as error:
                yield Skipped(function.name, error)
        if isinstance(statement, _OPENED):
            for inner in _bodies(statement):
                yield from _loops(module, function, names, inner, (*around, statement))


def _bodies(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    for field in ("body", "orelse", "finalbody"):
        yield getattr(statement, field, [])
    for handler in getattr(statement, "handlers", []):
        yield handler.body


def _read_loop(
    module: Module, function: ast.FunctionDef, names: FunctionNames, loop: ast.For, around: tuple[ast.stmt, ...]
) -> Reading:
    """The nest of one loop, for any values of what is computed before it.

    Loops around it are kept without their other statements, where they can be read: they say between which values
    their variables are.
    """
    uses = uses_of(module, [loop])
    for outer in around:
        if isinstance(outer, ast.If | ast.While) and _names(outer.test) & (uses.whole | uses.ranks.keys()):
            raise module.source.error(outer, "a condition on sizes that is not looked into")
    wrapped: ast.stmt = loop
    for outer in reversed(around):
        if isinstance(outer, ast.For) and not outer.orelse:
            header = ast.For(target=outer.target, iter=outer.iter, body=[wrapped], orelse=[])
            wrapped = ast.copy_location(header, outer)
    try:
        return _read(module, _as_function(module, function, names, wrapped))
    except SourceError:
        if wrapped is loop:
            raise
        return _read(module, _as_function(module, function, names, loop))


def _as_function(
    module: Module, function: ast.FunctionDef, names: FunctionNames, statement: ast.stmt
) -> ast.FunctionDef:
    """A function of one statement, whose arguments are all that it reads and that is bound outside it."""
    own = FunctionNames.of(_function(function, _arguments([]), [statement], []))
    given = {argument.arg: argument for argument in ast.walk(function.args) if isinstance(argument, ast.arg)}
    elsewhere = {name for name, count in names.assigned.items() if count > own.assigned[name]}
    bound_outside = elsewhere | given.keys() | names.loops
    wanted = _free_names(module, [statement]) | (_names(statement) & bound_outside) - own.loops
    arguments = [given.get(name) or ast.copy_location(ast.arg(name), statement) for name in sorted(wanted)]
    return _function(function, _arguments(arguments), [statement], [])


def _arguments(plain: list[ast.arg]) -> ast.arguments:
    return ast.arguments(posonlyargs=[], args=plain, kwonlyargs=[], kw_defaults=[], defaults=[])


def _names(node: ast.AST) -> set[str]:
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
