"""Statements over whole arrays, as statements over their elements.

What stands on the right is read before anything is written: where an element may be written before it is read, the
values go to an array of their own first.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection
from dataclasses import dataclass

from optimizer.errors import SourceError
from optimizer.polyhedral.frontend.accumulation import Accumulation
from optimizer.polyhedral.frontend.affine import Condition, NotAffine
from optimizer.polyhedral.frontend.array_expressions import ArrayReader
from optimizer.polyhedral.frontend.array_values import (
    ArrayValue,
    broadcast_extents,
    computed,
    elementwise,
    named_array,
    own_point,
)
from optimizer.polyhedral.frontend.buffer_swaps import SameType
from optimizer.polyhedral.frontend.local_arrays import LOCAL_MAKERS
from optimizer.polyhedral.frontend.overlap import reads_what_it_wrote
from optimizer.polyhedral.frontend.quantities import Quantity, ShapeError, counter, of_affine
from optimizer.polyhedral.frontend.rebound_arguments import Handed
from optimizer.polyhedral.frontend.scope import ArrayInfo, Scope


@dataclass(frozen=True, slots=True)
class ArrayStatements:
    """`declare` makes an array known whose elements are not set."""

    scope: Scope
    declare: Callable[[str, ArrayInfo], None]
    made: Collection[str]
    """The arrays that the function makes."""
    conditions: tuple[Condition, ...]
    """Of the loops and tests around."""

    def lowered(self, node: ast.stmt, *, is_outermost: bool) -> list[ast.stmt] | None:
        """What an assignment means element by element; None when it is not about whole arrays.

        `is_outermost`: it runs once, whatever the sizes.

        Raises:
            SourceError: for shapes that do not go together, and what is not supported.
        """
        match node:
            case ast.Assign(targets=[target], value=value) | ast.AnnAssign(target=target, value=ast.expr() as value):
                operator = None
            case ast.AugAssign(target=target, op=operator, value=value):
                pass
            case _:
                return None
        if is_outermost and isinstance(target, ast.Name) and self._is_only_maker(target.id, value):
            return None
        reader = ArrayReader(self.scope, self.declare)
        try:
            lines = self._handed(reader, target, value) if isinstance(node, Handed) else None
            if lines is None:
                lines = self._assignment(reader, target, value, operator, is_outermost)
            if isinstance(node, SameType) and reader.value(target).dtype != reader.value(value).dtype:
                raise ShapeError("arrays that change places are of one type")
        except ShapeError as problem:
            self.scope.check_sizes(problem)
            raise self._error(node, f"`{ast.unparse(node)}`: {problem}") from None
        except NotAffine as problem:
            if not reader.is_about_arrays:
                return None
            hint = "use sums of loop variables, sizes and whole numbers"
            raise self._error(problem.node, f"this is not affine: {problem.reason}", hint) from None
        return None if lines is None else _placed([*reader.before, *lines], node)

    def returned(self, node: ast.expr) -> tuple[list[ast.stmt], ast.expr]:
        """What has to run before a `return`, and what is left of its value."""
        match node:
            case ast.Tuple(elts=elements):
                parts = [self.returned(part) for part in elements]
                return [line for lines, _ in parts for line in lines], ast.Tuple(
                    [part for _, part in parts], ast.Load()
                )
            case ast.Name(id=name) if name not in self.scope.views:
                return [], node
            case ast.Name(id=name) if (view := self.scope.views[name]).array in self.made and self.is_whole(view):
                return [], ast.Name(view.array or name, ast.Load())
            case _:
                pass
        reader = ArrayReader(self.scope, self.declare)
        try:
            value = reader.value(node)
        except ShapeError as problem:
            self.scope.check_sizes(problem)
            raise self._error(node, f"`{ast.unparse(node)}`: {problem}") from None
        except NotAffine:
            return [], node
        if not reader.is_about_arrays and not self._reads_elements(node):
            return [], node
        name = self.scope.names.fresh("result")
        if value.rank == 0:
            self.scope.names.assigned[name] += 2
            lines: list[ast.stmt] = [ast.Assign([ast.Name(name, ast.Store())], value.element(()))]
        else:
            try:
                _, lines = self._new_array(name, value, reader)
            except ShapeError as problem:
                raise self._error(node, f"`{ast.unparse(node)}`: {problem}") from None
        return _placed([*reader.before, *lines], node), ast.Name(name, ast.Load())

    def _is_only_maker(self, name: str, value: ast.expr) -> bool:
        """Whether a name is given memory and nothing else, as a kernel of loops does it."""
        is_maker = isinstance(value, ast.Call) and self.scope.module.resolve(value.func) in LOCAL_MAKERS
        return is_maker and self.scope.names.assigned[name] == 1 and name not in self.scope.arrays

    def _reads_elements(self, node: ast.expr) -> bool:
        parts = (part for part in ast.walk(node) if isinstance(part, ast.Subscript))
        return any(isinstance(part.value, ast.Name) and part.value.id in self.scope.arrays for part in parts)

    def _error(self, node: ast.AST, message: str, hint: str = "") -> SourceError:
        return self.scope.module.source.error(node, message, hint)

    def _assignment(
        self,
        reader: ArrayReader,
        target: ast.expr,
        value: ast.expr,
        operator: ast.operator | None,
        is_outermost: bool,
    ) -> list[ast.stmt] | None:
        found = reader.value(value)
        if isinstance(target, ast.Subscript) and (mask := self._mask(reader, target)) is not None:
            return self._where(reader, target.value, mask, found, operator)
        if isinstance(target, ast.Name) and operator is None:
            return self._to_name(reader, target, found, is_outermost)
        place = reader.value(target)
        if not reader.is_about_arrays:
            return None
        if place.rank == 0 and place.array is None:
            element = found.element(()) if found.rank == 0 else self._not_a_number(found)
            if not isinstance(target, ast.Name | ast.Subscript):
                return None
            return [ast.AugAssign(target, operator, element) if operator else ast.Assign([target], element)]
        if place.array is None:
            raise ShapeError("the target is computed: assign to an array or a part of one")
        return self._stores_after_reading(reader, place, found, operator)

    def _handed(self, reader: ArrayReader, target: ast.expr, value: ast.expr) -> list[ast.stmt] | None:
        """The elements of an array that has no further name are those of another one from here on."""
        names = [node.id for node in (target, value) if isinstance(node, ast.Name)]
        if any(name not in self.scope.arrays and name not in self.scope.views for name in names):
            return None
        place, found = (reader.value(ast.Name(name, ast.Load())) for name in names)
        both = {place.array: names[0], found.array: names[1]}
        others = [view.array for name, view in self.scope.views.items() if name not in names]
        is_alone = len(both) == 2 and all(
            array in self.made and array not in others and (array == name or array not in names)
            for array, name in both.items()
        )
        is_same = place.dtype == found.dtype and place.rank == found.rank
        if not (is_alone and is_same and self.is_whole(place) and self.is_whole(found)):
            return None
        return self._stores_after_reading(reader, place, found, None)

    def _mask(self, reader: ArrayReader, target: ast.Subscript) -> ArrayValue | None:
        """The truths that choose the elements of `x[x < 0]`; None for any other subscript."""
        if not isinstance(target.slice, ast.Compare | ast.UnaryOp | ast.BinOp | ast.Name | ast.Call):
            return None
        try:
            mask = reader.value(target.slice)
        except (ShapeError, NotAffine):
            return None
        return mask if mask.rank and mask.dtype == "bool" else None

    def _where(
        self, reader: ArrayReader, base: ast.expr, mask: ArrayValue, found: ArrayValue, operator: ast.operator | None
    ) -> list[ast.stmt]:
        """The chosen elements get a number; the others keep what they hold."""
        place = reader.value(base)
        if place.array is None or found.rank:
            raise ShapeError("elements that are chosen by a condition can be assigned one number only")
        if mask.rank != place.rank or not all(map(Quantity.equals, mask.extents, place.extents)):
            broadcast_extents([mask.extents, place.extents])
            raise ShapeError("the condition has another shape than the array")

        def chosen(parts: list[ast.expr]) -> ast.expr:
            new = parts[2] if operator is None else ast.BinOp(parts[1], operator, parts[2])
            return ast.IfExp(parts[0], new, parts[1])

        return self._stores_after_reading(reader, place, elementwise([mask, place, found], chosen, place.sample), None)

    def _to_name(
        self, reader: ArrayReader, target: ast.Name, found: ArrayValue, is_outermost: bool
    ) -> list[ast.stmt] | None:
        name = target.id
        if found.rank == 0:
            return [ast.Assign([target], found.element(()))] if reader.is_about_arrays else None
        if name in self.scope.arrays or name in self.scope.views:
            return self._again(reader, name, found, is_outermost)
        if found.array is not None:
            if self.scope.names.assigned[name] > 1 or name in self.scope.arguments:
                raise ShapeError(f"`{name}` stands for several parts of arrays: give each a name of its own")
            self.scope.views[name] = found
            return []
        if found.is_empty:
            reader.accumulation.declared(name, found.dtype, found.extents)
            return []
        return self._new_array(name, found, reader)[1]

    def _again(self, reader: ArrayReader, name: str, found: ArrayValue, is_outermost: bool) -> list[ast.stmt]:
        """A name that is an array already gets another value, in the memory that it has or in its own from here on."""
        old = reader.value(ast.Name(name, ast.Load()))
        if not is_outermost and not self.scope.names.mentioned[found.array or name]:
            # A product or a sum has an array that nothing else knows.
            found = computed(found)
        is_seen = any(view.array == old.array and other != name for other, view in self.scope.views.items())
        is_same = found.dtype == old.dtype and found.rank == old.rank
        is_same = is_same and all(map(Quantity.equals, found.extents, old.extents))
        if found.array is not None and is_outermost:
            self.scope.views[name] = found
            return []
        if found.array is None and old.array in self.made and is_same and not is_seen and self.is_whole(old):
            return self._stores_after_reading(reader, old, found, None)
        if not is_outermost:
            if found.rank == old.rank and found.dtype == old.dtype:
                for one, other in zip(old.extents, found.extents, strict=True):
                    broadcast_extents([[one], [other]])
            raise ShapeError(f"`{name}` is an array already: give this one a name of its own, or assign to `{name}[:]`")
        self.scope.views[name], lines = self._new_array(self.scope.names.fresh(name), found, reader)
        return lines

    def is_whole(self, value: ArrayValue) -> bool:
        """Whether a value is all of an array, as it stands in memory."""
        if value.array is None or value.rank != len(self.scope.arrays[value.array].extents):
            return False
        whole = self._array(value.array)
        at = tuple(counter(f"at_{k}") for k in range(value.rank))
        is_in_order = ast.unparse(whole.element(at)) == ast.unparse(value.element(at))
        return is_in_order and all(map(Quantity.equals, whole.extents, value.extents))

    def _stores_after_reading(
        self, reader: ArrayReader, place: ArrayValue, found: ArrayValue, operator: ast.operator | None
    ) -> list[ast.stmt]:
        fitted = broadcast_extents([place.extents, found.extents])
        if len(fitted) > place.rank or not all(map(Quantity.equals, fitted, place.extents)):
            raise ShapeError("the value has another shape than what it is assigned to")
        if reads_what_it_wrote(self.scope, place, found, self.conditions):
            found, lines = self._new_array(self.scope.names.fresh(f"{place.array}_new"), found, reader)
            reader.before += lines
        return self._stores(reader.accumulation, place, found, operator)

    def _not_a_number(self, found: ArrayValue) -> ast.expr:
        raise ShapeError(f"the value has {found.rank} dimension{'s' * (found.rank > 1)}, and one number is assigned to")

    def _new_array(self, name: str, value: ArrayValue, reader: ArrayReader) -> tuple[ArrayValue, list[ast.stmt]]:
        made = reader.accumulation.declared(name, value.dtype, value.extents)
        return made, self._stores(reader.accumulation, made, value, None)

    def _stores(
        self, make: Accumulation, target: ArrayValue, value: ArrayValue, operator: ast.operator | None
    ) -> list[ast.stmt]:
        return make.stores(target, lambda at: value.element(own_point(value.extents, at)), operator)

    def _array(self, name: str) -> ArrayValue:
        info = self.scope.arrays[name]
        return named_array(name, info.dtype, [of_affine(extent) for extent in info.extents])


def _placed(lines: list[ast.stmt], source: ast.AST) -> list[ast.stmt]:
    """The statements with a place in the source, for messages."""
    for line in lines:
        for part in ast.walk(line):
            if isinstance(part, ast.stmt | ast.expr) and not hasattr(part, "lineno"):
                ast.copy_location(part, source)
    return lines
