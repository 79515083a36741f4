"""Walks a kernel function in source order: loops become the tree, assignments become statements."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

from optimizer.errors import SourceError
from optimizer.polyhedral.frontend.accumulation import FreeExtreme, FreeSum
from optimizer.polyhedral.frontend.affine import NotAffine, affine
from optimizer.polyhedral.frontend.array_statements import ArrayStatements
from optimizer.polyhedral.frontend.drafts import Draft, Place
from optimizer.polyhedral.frontend.expressions import ExpressionReader, Reading
from optimizer.polyhedral.frontend.greatest_sizes import greatest
from optimizer.polyhedral.frontend.local_arrays import LocalArray, read_local_array
from optimizer.polyhedral.frontend.names import LoopNames, is_reserved
from optimizer.polyhedral.frontend.opaque import Surroundings, read_piece
from optimizer.polyhedral.frontend.quantities import ShapeError
from optimizer.polyhedral.frontend.ranges import read_range
from optimizer.polyhedral.frontend.rejections import unsupported
from optimizer.polyhedral.frontend.scope import ArrayInfo, Binding, Scope
from optimizer.polyhedral.frontend.spelling import Spelling
from optimizer.polyhedral.nest import Access, SourceLoop
from optimizer.polyhedral.tree import Leaf, Loop, Node, Sequence, sequence_of


@dataclass(slots=True)
class FunctionWalker:
    """Collects everything that the body of a function says."""

    scope: Scope
    reader: ExpressionReader
    loop_names: LoopNames
    spelling: Spelling
    may_be_opaque: bool
    """Whether what data decide is read as opaque statements, or refused."""
    drafts: list[Draft] = field(default_factory=list[Draft])
    loops: list[SourceLoop] = field(default_factory=list[SourceLoop])
    locals: dict[str, LocalArray] = field(default_factory=dict[str, LocalArray])
    has_array_statements: bool = False
    is_choosing: bool = False
    """Whether what is walked are choices between values, all of whose elements are touched in any case: none of them
    may be where data decide."""
    free_sums: set[str] = field(default_factory=set[str])
    """Statements that add up in no order of the source's."""
    made: set[str] = field(default_factory=set[str])
    """Local arrays that hold the values of array statements."""
    refused: SourceError | None = None
    """Why the first opaque statement is one."""
    returned: ast.expr | None = None
    """The rewritten value of the final `return`."""
    returned_arrays: set[str] = field(default_factory=set[str])
    returned_scalars: dict[str, ast.Name] = field(default_factory=dict[str, ast.Name])

    def walk(self, function: ast.FunctionDef) -> Node:
        """The original schedule of the function."""
        *body, last = function.body
        if not isinstance(last, ast.Return):
            return self._block(function.body, Place())
        if last.value is None or (isinstance(last.value, ast.Constant) and last.value.value is None):
            return self._block(body, Place())
        tree = self._block(body, Place())
        before, value = self.spelling.without_calls(last.value)
        tree = sequence_of(tree, self._block(before, Place()))
        lines, value = self._arrays(Place()).returned(value)
        tree = sequence_of(tree, *self._generated(lines, Place()))
        self.returned = self._returned(value)
        return tree

    def _arrays(self, place: Place) -> ArrayStatements:
        return ArrayStatements(self.scope, partial(self._declare_made, place), self.made, place.conditions)

    def _declare_made(self, place: Place, name: str, info: ArrayInfo) -> None:
        """Memory for values of array statements, as large as any iteration of the loops around needs."""
        loops = set(place.loops)
        extents = [
            greatest(extent, place.loops, place.conditions) if extent.names & loops else extent
            for extent in info.extents
        ]
        sizes = tuple(extent for extent in extents if extent is not None)
        if len(sizes) < len(extents):
            raise ShapeError("the size of a part of this changes from iteration to iteration")
        self.scope.arrays[name] = ArrayInfo(info.dtype, sizes)
        self.locals[name] = LocalArray(self.scope.arrays[name], "empty")
        self.made.add(name)
        for extent in sizes:
            self.scope.used |= extent.names

    def _generated(self, lines: list[ast.stmt], place: Place) -> Iterator[Node]:
        """Statements that were made of one of the source."""
        self.has_array_statements = True
        outer = self.scope.generated
        sizes = {name for info in self.scope.arrays.values() for extent in info.extents for name in extent.names}
        self.scope.generated = frozenset(sizes | set(self.scope.loops.values()))
        for line in lines:
            yield from self._statement(line, place)
        self.scope.generated = outer

    def _error(self, node: ast.AST, message: str, hint: str = "") -> SourceError:
        return self.reader.error(node, message, hint)

    def _block(self, body: list[ast.stmt], place: Place) -> Node:
        outer, views = dict(self.scope.bindings), dict(self.scope.views)
        parts = [part for statement in body for part in self._statement(statement, place)]
        if not place.is_outermost:
            self.scope.bindings, self.scope.views = outer, views
        return sequence_of(*parts)

    def _statement(self, node: ast.stmt, place: Place) -> Iterator[Node]:
        """What a statement becomes, or an opaque one where it does what data decide."""
        if self.scope.generated or self.is_choosing or not self.may_be_opaque:
            yield from self._transparent(node, place)
            return
        undo = self._undoing()
        try:
            parts = list(self._transparent(node, place))
        except SourceError as error:
            undo()
            if not error.depends_on_data:
                raise
            parts = [self._opaque(node, place, error)]
        yield from parts

    def _undoing(self) -> Callable[[], None]:
        """What takes back all that is noted from now on."""
        undo_scope, drafts, loops = self.scope.undoing(), len(self.drafts), len(self.loops)
        sets = [(kept, set(kept)) for kept in (self.free_sums, self.made, self.loop_names.used)]
        local, is_choosing, has_array_statements = dict(self.locals), self.is_choosing, self.has_array_statements

        def undo() -> None:
            undo_scope()
            del self.drafts[drafts:], self.loops[loops:]
            for noted, before in sets:
                noted.intersection_update(before)
            self.locals = dict(local)
            self.is_choosing, self.has_array_statements = is_choosing, has_array_statements

        return undo

    def _opaque(self, node: ast.stmt, place: Place, error: SourceError) -> Node:
        """The statement as one step; raises the error for one that cannot be."""
        given = [info for name, info in self.scope.arrays.items() if name not in self.made]
        sizes = tuple(extent for info in given for extent in info.extents)
        around = Surroundings(self.scope, self.loop_names, place.loops, place.conditions, sizes, self._check_variable)
        undo = self._undoing()
        try:
            piece = read_piece(around, node)
        except SourceError:
            undo()
            raise error from None
        self.refused = self.refused or error
        reading = Reading(list(piece.accesses), piece.scalar_reads)
        reason = error.message.replace("is not supported", "is not looked into")
        return self._draft(piece.node, node, reading, place, reason)

    def _transparent(self, node: ast.stmt, place: Place) -> Iterator[Node]:
        if not self.scope.generated and (lines := self.spelling.spelled(node)) is not None:
            for line in lines:
                yield from self._statement(line, place)
            return
        if not self.scope.generated:
            lines = self._arrays(place).lowered(node, is_outermost=place.is_outermost)
            if lines is not None:
                yield from self._generated(lines, place)
                return
        match node:
            case ast.Pass() | ast.Expr(value=ast.Constant()) | ast.AnnAssign(value=None):
                return
            case ast.For():
                yield from self._for(node, place)
            case ast.If():
                condition = self.reader.condition(node.test)
                if condition is None:
                    lines = self.spelling.choices(node)
                    before, self.is_choosing = self.is_choosing, True
                    for line in lines:
                        yield from self._statement(line, place)
                    self.is_choosing = before
                    return
                yield self._block(node.body, place.where(condition))
                yield self._block(node.orelse, place.where(condition.negated()))
            case ast.Assign(targets=[target], value=value) | ast.AnnAssign(target=target, value=ast.expr() as value):
                yield from self._assign(node, target, value, place)
            case ast.AugAssign():
                yield self._augmented(node, place)
            case _:
                raise unsupported(self.scope.module.source, node)

    def _for(self, node: ast.For, place: Place) -> Iterator[Node]:
        if not isinstance(node.target, ast.Name):
            raise self._error(node.target, "a loop must have one loop variable", "write `for i in range(...)`")
        if node.orelse:
            raise self._error(node.orelse[0], "`else` of a loop is not supported", "move it behind the loop")
        variable = node.target.id
        if variable in self.scope.loops:
            message = f"loop variable `{variable}` is also that of a loop around this one"
            raise self._error(node.target, message, "give the inner loop a variable of its own")
        name = self.loop_names.next(variable)
        values = read_range(self.reader, node.iter, name)
        position = len(self.loops)
        self.scope.loops[variable] = name
        inside = place.inside_loop(name, values.condition, is_descending=values.is_descending)
        body = self._block(node.body, inside)
        del self.scope.loops[variable]
        if body == Sequence():
            return
        self.loops.insert(position, SourceLoop(name, node.lineno, values.is_prange))
        yield Loop(name, body)

    def _assign(self, node: ast.stmt, target: ast.expr, value: ast.expr, place: Place) -> Iterator[Node]:
        if isinstance(target, ast.Name):
            self._check_variable(target)
            local = read_local_array(self.reader, value)
            if local is not None:
                self._declare(target, local, place)
                return
            is_only_one = self.scope.names.assigned[target.id] == 1 and target.id not in self.scope.arguments
            if is_only_one and (self._bind(target.id, value, place) or self._hoist(target.id, value, place)):
                return
        reading = Reading()
        rewritten = self.reader.value(value, reading)
        written, access = self._target(target)
        reading.add(access)
        if isinstance(node, FreeExtreme):
            self.free_sums.add(f"S{len(self.drafts)}")
        yield self._draft(ast.Assign([written], rewritten, lineno=node.lineno), node, reading, place)

    def _bind(self, name: str, value: ast.expr, place: Place) -> bool:
        """Lets a variable stand for an affine expression; False when `value` is none."""
        try:
            found = affine(value, self.scope.lookup)
        except NotAffine:
            return False
        # A constant keeps its name in computations: `x ** 2` and `x ** k` are compiled differently.
        is_kept = found.is_constant and place.is_outermost
        rewritten = self.scope.rewritten(value)
        self.scope.bindings[name] = Binding(found, rewritten, is_inlined=not is_kept)
        if is_kept:
            self.scope.prologue[name] = rewritten
        return True

    def _hoist(self, name: str, value: ast.expr, place: Place) -> bool:
        """Computes a variable before the nests; False when it depends on more than arguments."""
        if not place.is_outermost:
            return False
        reading = Reading()
        rewritten = self.reader.value(value, reading)
        if reading.accesses:
            return False
        self.scope.prologue[name] = rewritten
        return True

    def _augmented(self, node: ast.AugAssign, place: Place) -> Node:
        if isinstance(node.op, ast.MatMult):
            raise self._error(node, "`@=` works on whole arrays, which is not supported", "write it as loops")
        reading = Reading()
        if isinstance(node.target, ast.Name):
            self._check_variable(node.target)
            reading.scalars[node.target.id] = node.target
        written, access = self._target(node.target)
        reading.add(Access(access.array, access.subscripts, is_write=False))
        reading.add(access)
        value = self.reader.value(node.value, reading)
        if isinstance(node, FreeSum):
            self.free_sums.add(f"S{len(self.drafts)}")
        return self._draft(ast.AugAssign(written, node.op, value), node, reading, place)

    def _check_variable(self, target: ast.Name) -> None:
        name = target.id
        if is_reserved(name):
            raise self._error(target, f"`{name}` cannot be the name of a variable here", "give it another name")
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
                hint = "assign to elements of arrays and to plain variables"
                raise self._error(target, f"assignment to `{ast.unparse(target)}` is not supported", hint)

    def _declare(self, target: ast.Name, local: LocalArray, place: Place) -> None:
        name = target.id
        if not place.is_outermost:
            hint = f"move `{name} = ...` before the loops"
            raise self._error(target, "an array cannot be made inside a loop or an `if`", hint)
        if self.scope.names.assigned[name] > 1 or name in self.scope.arguments:
            raise self._error(target, f"`{name}` is assigned more than once", "give each array a name of its own")
        self.scope.arrays[name] = local.info
        self.locals[name] = local

    def _draft(self, node: ast.stmt, source: ast.stmt, reading: Reading, place: Place, opaque: str = "") -> Node:
        name = f"S{len(self.drafts)}"
        self.drafts.append(Draft(name, place, node, source, tuple(reading.accesses), reading.scalars, opaque))
        return Leaf(name, dict(zip(place.loops, place.values, strict=True)))

    def _returned(self, value: ast.expr) -> ast.expr:
        if isinstance(value, ast.Tuple):
            return ast.Tuple([self._returned_part(part) for part in value.elts], ast.Load())
        return self._returned_part(value)

    def _returned_part(self, part: ast.expr) -> ast.expr:
        if isinstance(part, ast.Name) and part.id in self.scope.arrays:
            self.returned_arrays.add(part.id)
            return part
        reading = Reading()
        rewritten = self.reader.value(part, reading)
        if any(access.subscripts for access in reading.accesses):
            hint = "assign the element to a variable first and return that"
            raise self._error(part, "an element of an array cannot be returned directly", hint)
        self.returned_scalars |= reading.scalars
        return rewritten
