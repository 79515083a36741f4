"""An `if` whose test is data becomes choices between values: `if x[i] > 0: y[i] = x[i]` else assigns the old value.

A branch is a sequence of assignments, also within loops. Those of both branches that have the same target become one.
Of the others each keeps what its target holds where the test fails. Values are computed only where Python computes
them; a variable that nothing outside its branch knows has some value in any case.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import TypeAlias

from optimizer.polyhedral.frontend.affine import NotAffine, affine
from optimizer.polyhedral.frontend.copying import copied
from optimizer.polyhedral.frontend.expressions import ExpressionReader
from optimizer.polyhedral.frontend.held_types import HeldTypes
from optimizer.polyhedral.frontend.local_arrays import LOCAL_MAKERS
from optimizer.polyhedral.frontend.own_variables import Own, is_written_first, root_of
from optimizer.polyhedral.frontend.placing import mentions, placed
from optimizer.polyhedral.frontend.rejections import data_dependent
from optimizer.polyhedral.frontend.substitution import Substituted

Spelling: TypeAlias = Callable[[ast.stmt], list[ast.stmt] | None]
"""Other statements that mean the same; None for one that is left as it is."""


@dataclass(slots=True)
class ChoiceMaker:
    """`spelled` takes away calls, loops over arrays and several targets inside the branches."""

    reader: ExpressionReader
    spelled: Spelling
    inlined: Counter[str] = field(default_factory=Counter[str])
    """How often names occur in the statements of functions that were taken into branches."""

    @property
    def types(self) -> HeldTypes:
        return HeldTypes(self.reader)

    def choices(self, node: ast.If) -> list[ast.stmt]:
        """The assignments that a data-dependent `if` means.

        Raises:
            SourceError: for a branch that does more than assign.
        """
        known, data = self._split(node.test)
        if known and data and not any(isinstance(part, ast.If) for line in node.orelse for part in ast.walk(line)):
            inner = placed(ast.If(_all_of(data), node.body, node.orelse), node)
            return [placed(ast.If(_all_of(known), [inner], [*map(copied, node.orelse)]), node)]
        body, orelse = self._flat(node, node.body), self._flat(node, node.orelse)
        own = self._own_variables(node, body, orelse)
        if list(map(_target_text, body)) != list(map(_target_text, orelse)):
            orelse, own = self._renamed(orelse, own)
        before: list[ast.stmt] = []
        test = _truth(node.test)
        if not _is_one_choice(body, orelse) and self._may_change(test, (*body, *orelse)):
            name = self._saved()
            before = [ast.Assign([ast.Name(name, ast.Store())], test)]
            test = ast.Name(name, ast.Load())
        views = {root_of(target) for target, value in _assignments((*body, *orelse)) if self._is_view(target, value)}
        lines = [*before, *self._merged(test, body, orelse, Own(own, own - views))]
        return [placed(line, node) for line in lines]

    def _split(self, test: ast.expr) -> tuple[list[ast.expr], list[ast.expr]]:
        """The parts of a conjunction that loops and sizes decide, and the others."""
        parts = test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test]
        known = [part for part in parts if self.reader.condition(part) is not None]
        return known, [part for part in parts if part not in known]

    def _may_change(self, test: ast.expr, lines: Sequence[ast.stmt]) -> bool:
        """Whether what the test says may be something else after some of the lines."""
        scope = self.reader.scope
        read = {part.id for part in ast.walk(test) if isinstance(part, ast.Name)}
        read |= {scope.views[name].array or name for name in read & scope.views.keys()}
        for target, _ in _assignments(lines):
            root = root_of(target)
            memory = (scope.views[root].array or root) if root in scope.views else root
            is_new_view = isinstance(target, ast.Subscript) and memory not in scope.arrays
            if is_new_view or memory in read:
                return True
        return False

    def _saved(self) -> str:
        """A new variable for what a test says."""
        scope = self.reader.scope
        name = scope.names.fresh("holds")
        scope.names.assigned[name] += 2
        scope.samples[name] = True
        scope.truths.add(name)
        return name

    def _flat(self, node: ast.If, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        """A branch as assignments to single targets, within loops and `if`s that sizes decide.

        Raises:
            SourceError: for anything else.
        """
        found: list[ast.stmt] = []
        for line in body:
            before = self.reader.scope.names.mentioned.copy()
            if (spelled := self.spelled(line)) is not None:
                self.inlined += self.reader.scope.names.mentioned - before
                found += self._flat(node, spelled)
                continue
            match line:
                case ast.Pass() | ast.Expr(value=ast.Constant()) | ast.AnnAssign(value=None):
                    continue
                case (
                    ast.Assign(targets=[target], value=value) | ast.AnnAssign(target=target, value=ast.expr() as value)
                ):
                    found.append(placed(ast.Assign([self._target(node, target)], value), line))
                case ast.AugAssign(target=target, op=operator, value=value):
                    target = self._whole(target)
                    found.append(placed(ast.Assign([target], ast.BinOp(_read(target), operator, value)), line))
                case ast.If(test=test) if self.reader.condition(test) is not None:
                    inside, otherwise = self._flat(node, line.body), self._flat(node, line.orelse)
                    found.append(placed(ast.If(test, inside or [ast.Pass()], otherwise), line))
                case ast.If():
                    found += self._flat(node, self.choices(line))
                case ast.For(target=target, iter=iterable, orelse=[]):
                    inside = self._flat(node, line.body) or [ast.Pass()]
                    found.append(placed(ast.For(target, iterable, inside, []), line))
                case _:
                    raise data_dependent(self.reader.scope.module.source, node)
        return found

    def _target(self, node: ast.If, target: ast.expr) -> ast.expr:
        if self._is_array(target) or not isinstance(target, ast.Name | ast.Subscript):
            raise data_dependent(self.reader.scope.module.source, node)
        return target

    def _whole(self, target: ast.expr) -> ast.expr:
        """`A[...]` for a whole array, which `A += 1` changes."""
        if self._is_array(target):
            return placed(ast.Subscript(_read(target), ast.Constant(...), ast.Store()), target)
        return target

    def _is_array(self, node: ast.expr) -> bool:
        scope = self.reader.scope
        return isinstance(node, ast.Name) and (node.id in scope.arrays or node.id in scope.views)

    def _own_variables(self, node: ast.If, *branches: list[ast.stmt]) -> frozenset[str]:
        """Variables that nothing outside the branches knows, and that each branch assigns before it reads them."""
        everywhere = self.reader.scope.names.mentioned - self.inlined
        inside = [part.id for part in ast.walk(node) if isinstance(part, ast.Name)]
        lines = [line for branch in branches for line in branch]
        stored = {target.id for target, _ in _assignments(lines) if isinstance(target, ast.Name)}
        return frozenset(
            name
            for name in stored
            if (name not in inside or inside.count(name) == everywhere[name])
            and name not in self.reader.scope.arguments
            and not mentions(node.test, name)
            and all(is_written_first(branch, name) for branch in branches)
        )

    def _renamed(self, branch: list[ast.stmt], own: frozenset[str]) -> tuple[list[ast.stmt], frozenset[str]]:
        """The branch with new names for its own variables, as the other may have them too; and all such names."""
        scope = self.reader.scope
        names = {name: scope.names.fresh(name) for name in own if any(mentions(line, name) for line in branch)}
        values: dict[str, ast.expr] = {name: ast.Name(new, ast.Load()) for name, new in names.items()}
        renamed = [Substituted(values).visit(copied(line)) for line in branch]
        scope.names.add(renamed)
        return renamed, own.union(names.values())

    def _merged(self, test: ast.expr, body: list[ast.stmt], orelse: list[ast.stmt], own: Own) -> list[ast.stmt]:
        """Both branches as one sequence; each keeps its order, and the other has no effect on it."""
        refused = ast.UnaryOp(ast.Not(), test)
        alike = SequenceMatcher(None, [*map(_target_text, body)], [*map(_target_text, orelse)], autojunk=False)
        found: list[ast.stmt] = []
        for kind, first, last, other_first, other_last in alike.get_opcodes():
            pairs = list(zip(body[first:last], orelse[other_first:other_last], strict=False))
            if kind == "equal":
                found += [self._both(test, one, other) for one, other in pairs]
                continue
            found += [self._guarded(line, test, own) for line in body[first:last]]
            found += [self._guarded(line, refused, own) for line in orelse[other_first:other_last]]
        return found

    def _both(self, test: ast.expr, one: ast.stmt, other: ast.stmt) -> ast.stmt:
        assert isinstance(one, ast.Assign)
        assert isinstance(other, ast.Assign)
        target = one.targets[0]
        return _choice(
            test, target, self.types.as_held(target, one.value), self.types.as_held(target, other.value), one
        )

    def _guarded(self, line: ast.stmt, test: ast.expr, own: Own) -> ast.stmt:
        """The statement, with effect only where the test holds."""
        match line:
            case ast.For(target=target, iter=iterable, body=body):
                return placed(ast.For(target, iterable, [self._guarded(each, test, own) for each in body], []), line)
            case ast.If(test=known, body=body, orelse=orelse):
                inside, otherwise = ([self._guarded(each, test, own) for each in part] for part in (body, orelse))
                return placed(ast.If(known, inside, otherwise), line)
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if name in self.reader.scope.truths:
                return placed(ast.Assign(line.targets, ast.BoolOp(ast.And(), [copied(test), value])), line)
            case ast.Assign(targets=[target], value=value) if own.has(target):
                is_harmless = _is_harmless(value) or self._is_affine(value) or self._is_memory(value)
                return line if is_harmless else _choice(test, target, value, self._nothing(value), line)
            case ast.Assign(targets=[target], value=value):
                return _choice(test, target, self.types.as_held(target, value), _read(target), line)
            case _:
                return line

    def _is_affine(self, value: ast.expr) -> bool:
        try:
            affine(value, self.reader.scope.lookup)
        except NotAffine:
            return False
        return True

    def _is_view(self, target: ast.expr, value: ast.expr) -> bool:
        """Whether a variable may become another name of memory that others know."""
        is_computed = isinstance(value, ast.BinOp | ast.UnaryOp | ast.Compare | ast.Constant) or self._is_memory(value)
        return isinstance(target, ast.Name) and not is_computed

    def _is_memory(self, value: ast.expr) -> bool:
        return isinstance(value, ast.Call) and self.reader.scope.module.resolve(value.func) in LOCAL_MAKERS

    def _nothing(self, value: ast.expr) -> ast.expr:
        """A value that nobody reads; `False` leaves the type of a variable to its other values."""
        return ast.Constant(0.0 if self.types.dtype(value) == "float64" else False)


def _assignments(lines: Sequence[ast.stmt]) -> Iterator[tuple[ast.expr, ast.expr]]:
    """The targets and values of all assignments of flat statements."""
    for part in (part for line in lines for part in ast.walk(line)):
        if isinstance(part, ast.Assign):
            yield part.targets[0], part.value


def _choice(test: ast.expr, target: ast.expr, value: ast.expr, otherwise: ast.expr, line: ast.stmt) -> ast.stmt:
    return placed(ast.Assign([target], ast.IfExp(copied(test), value, otherwise)), line)


def _is_one_choice(body: list[ast.stmt], orelse: list[ast.stmt]) -> bool:
    """Whether the test is evaluated once and before anything that it reads can change."""
    match [*body], [*orelse]:
        case ([ast.Assign()], []) | ([], [ast.Assign()]):
            return True
        case [ast.Assign() as one], [ast.Assign() as other]:
            return _target_text(one) == _target_text(other)
        case _:
            return False


def _truth(test: ast.expr) -> ast.expr:
    """The test as a bool."""
    match test:
        case ast.Compare() | ast.UnaryOp(op=ast.Not()) | ast.Constant(value=bool()):
            return test
        case ast.BoolOp(op=operator, values=values):
            return ast.BoolOp(operator, [_truth(value) for value in values])
        case _:
            return ast.Compare(test, [ast.NotEq()], [ast.Constant(0)])


def _all_of(parts: list[ast.expr]) -> ast.expr:
    return parts[0] if len(parts) == 1 else ast.BoolOp(ast.And(), parts)


def _target_text(line: ast.stmt) -> str:
    """What a statement assigns; for anything else a text that no other has."""
    return ast.unparse(line.targets[0]) if isinstance(line, ast.Assign) else f"<{id(line)}>"


def _read(target: ast.expr) -> ast.expr:
    found = copied(target)
    if isinstance(found, ast.Name | ast.Subscript):
        found.ctx = ast.Load()
    return found


_NEVER_FAIL = frozenset({"abs", "min", "max"})


def _is_harmless(value: ast.expr) -> bool:
    """Whether it may be computed where Python would not: no division, and no function that may refuse."""
    for part in ast.walk(value):
        match part:
            case ast.BinOp(op=operator) if not isinstance(operator, ast.Add | ast.Sub | ast.Mult):
                return False
            case ast.Call(func=function) if not isinstance(function, ast.Name) or function.id not in _NEVER_FAIL:
                return False
            case _:
                continue
    return True
