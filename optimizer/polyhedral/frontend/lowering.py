"""Array statements of a function, one after the other, as statements over elements."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass

from optimizer.polyhedral.frontend.affine import NotAffine
from optimizer.polyhedral.frontend.array_statements import ArrayReader, subscript_names
from optimizer.polyhedral.frontend.array_values import ArrayValue, ShapeError, named_array
from optimizer.polyhedral.frontend.quantities import counter, of_affine
from optimizer.polyhedral.frontend.scope import ArrayInfo, Scope


@dataclass(frozen=True, slots=True)
class ArrayStatements:
    """`declare` makes an array known that is not initialized."""

    scope: Scope
    declare: Callable[[str, ArrayInfo], None]

    def lowered(self, node: ast.stmt) -> list[ast.stmt] | None:
        """What an assignment means element by element; None when it is not about whole arrays.

        Raises:
            SourceError: for shapes that do not go together.
        """
        match node:
            case ast.Assign(targets=[target], value=value) | ast.AnnAssign(target=target, value=ast.expr() as value):
                operator = None
            case ast.AugAssign(target=target, op=operator, value=value):
                pass
            case _:
                return None
        try:
            return self._assignment(target, value, operator, node)
        except ShapeError as problem:
            raise self.scope.module.source.error(node, f"`{ast.unparse(node)}`: {problem}") from None
        except NotAffine:
            return None

    def returned(self, node: ast.expr) -> tuple[list[ast.stmt], ast.expr]:
        """What has to run before a `return`, and what is left of its value."""
        if isinstance(node, ast.Tuple):
            parts = [self.returned(part) for part in node.elts]
            return [line for lines, _ in parts for line in lines], ast.Tuple([part for _, part in parts], ast.Load())
        if isinstance(node, ast.Name):
            return [], node
        reader = ArrayReader(self.scope, self.declare)
        value = reader.value(node)
        if value.rank == 0:
            return (_placed(reader.before, node), value.element(())) if reader.before else ([], node)
        name = reader.fresh("result")
        lines = self._new_array(name, value, reader)
        return _placed([*reader.before, *lines], node), ast.Name(name, ast.Load())

    def _assignment(
        self, target: ast.expr, value: ast.expr, operator: ast.operator | None, node: ast.stmt
    ) -> list[ast.stmt] | None:
        reader = ArrayReader(self.scope, self.declare)
        found = reader.value(value)
        is_name = isinstance(target, ast.Name)
        if is_name and target.id not in self.scope.arrays:
            if found.rank:
                lines = self._new_array(target.id, found, reader)
                return _placed([*reader.before, *lines], node)
            return self._scalar_assignment(target, found, operator, reader, node)
        place = reader.value(target)
        if place.rank == 0:
            return self._scalar_assignment(target, found, operator, reader, node)
        if place.array is None:
            return None
        if _may_change_what_is_read(place, found):
            name = reader.fresh(f"{place.array}_new")
            lines = self._new_array(name, found, reader)
            reader.before += lines
            found = self._array(name)
        return _placed([*reader.before, *reader.stores(place, found, operator)], node)

    def _scalar_assignment(
        self, target: ast.expr, value: ArrayValue, operator: ast.operator | None, reader: ArrayReader, node: ast.stmt
    ) -> list[ast.stmt] | None:
        if not reader.before:
            return None
        element = value.element(())
        last = ast.AugAssign(target, operator, element) if operator else ast.Assign([target], element)
        return _placed([*reader.before, last], node)

    def _new_array(self, name: str, value: ArrayValue, reader: ArrayReader) -> list[ast.stmt]:
        points = tuple(map(counter, reader.points(value.extents)))
        dtype = reader.dtype(value.element(points))
        self.declare(name, ArrayInfo(dtype, tuple(extent.value for extent in value.extents)))
        return reader.stores(self._array(name), value)

    def _array(self, name: str) -> ArrayValue:
        return named_array(name, [of_affine(extent) for extent in self.scope.arrays[name].extents])


def _may_change_what_is_read(place: ArrayValue, value: ArrayValue) -> bool:
    """Whether some element that is read may have been written already: unless each reads what it writes, or nothing."""
    if place.array is None:
        return False
    names = [f"at_{k}" for k in range(place.rank)]
    written = ast.unparse(place.element(tuple(map(counter, names))))
    element = value.element(tuple(map(counter, names[place.rank - value.rank :])))
    reads = [part for part in ast.walk(element) if isinstance(part, ast.Subscript)]
    return place.array in subscript_names(element) and any(
        ast.unparse(part) != written
        for part in reads
        if isinstance(part.value, ast.Name) and part.value.id == place.array
    )


def _placed(lines: list[ast.stmt], source: ast.AST) -> list[ast.stmt]:
    """The statements with a place in the source, for messages."""
    for line in lines:
        for part in ast.walk(line):
            if isinstance(part, ast.stmt | ast.expr) and not hasattr(part, "lineno"):
                ast.copy_location(part, source)
    return lines
