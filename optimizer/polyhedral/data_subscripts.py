"""Which whole numbers an array argument may hold, as far as the text says: those that are subscripts of other arrays.

    y[i] = x[columns[k]]                                columns: from 0 to below x.shape[0]
    for k in range(start[i], start[i + 1]): ... x[k]    start: from 0 to x.shape[0], in ascending order

That is for drawing inputs. It follows values through variables, sums and `min` and `max`, and proves nothing: what is
drawn is tried on the original with its subscripts checked.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

from optimizer.polyhedral.frontend.renaming import assignments
from optimizer.polyhedral.nest import Nest, Role


@dataclass(frozen=True, slots=True)
class Subscripts:
    """What the elements of one array are subscripts for."""

    limits: tuple[str, ...]
    """They are below each of these expressions of sizes."""
    is_ascending: bool = False
    """Whether they bound loops, from one to the next."""

    @property
    def limit(self) -> str:
        return self.limits[0] if len(self.limits) == 1 else f"min({', '.join(self.limits)})"


@dataclass(slots=True)
class _Found:
    limits: dict[str, None] = field(default_factory=dict[str, None])
    bounds: bool = False


def arrays_of_subscripts(nest: Nest) -> dict[str, Subscripts]:
    """The whole-number arguments whose elements are subscripts in opaque statements, or bound what is one."""
    reader = _Reader(nest)
    for statement in nest.statements:
        for node in ast.walk(ast.parse(statement.body)) if statement.opaque else ():
            if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
                indices = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
                for index, extent in zip(indices, nest.array(node.value.id).shape, strict=True):
                    reader.follow(index, extent, is_bound=False)
    return {name: Subscripts(tuple(found.limits), found.bounds) for name, found in reader.found.items()}


class _Reader:
    def __init__(self, nest: Nest) -> None:
        self.found: dict[str, _Found] = {}
        self._seen: set[tuple[str, str]] = set()
        roles = {array.name: array.role for array in nest.arrays}
        self._arguments = {a.name for a in nest.arrays if roles[a.name] is Role.ARGUMENT and "int" in a.dtype}
        self._values: dict[str, list[ast.expr]] = {}
        self._bounds: dict[str, list[ast.expr]] = {}
        """Of the loops inside opaque statements, by their variables."""
        for statement in nest.statements:
            tree = ast.parse(statement.body)
            for name, value in assignments(tree):
                self._values.setdefault(name, []).append(value)
            for loop in (node for node in ast.walk(tree) if isinstance(node, ast.For)):
                assert isinstance(loop.iter, ast.Call)
                self._bounds.setdefault(ast.unparse(loop.target), []).extend(loop.iter.args[:2])

    def follow(self, value: ast.expr, limit: str, *, is_bound: bool) -> None:
        """Notes what may make the value, which has to be below the limit; or at most as large, if it is a bound."""
        match value:
            case ast.Subscript(value=ast.Name(id=name)) if name in self._arguments:
                noted = self.found.setdefault(name, _Found())
                noted.limits[f"{limit} + 1" if is_bound else limit] = None
                noted.bounds |= is_bound
            case ast.Name(id=name) if (name, limit) not in self._seen:
                self._seen.add((name, limit))
                for bound in self._bounds.get(name, ()):
                    self.follow(bound, limit, is_bound=True)
                for assigned in self._values.get(name, ()) if name not in self._bounds else ():
                    self.follow(assigned, limit, is_bound=is_bound)
            case ast.BinOp() | ast.Call() | ast.IfExp() | ast.UnaryOp():
                for part in _operands(value):
                    self.follow(part, limit, is_bound=is_bound)
            case _:
                return


def _operands(value: ast.expr) -> Iterator[ast.expr]:
    match value:
        case ast.BinOp(left=left, right=right):
            yield from (left, right)
        case ast.Call(args=arguments):
            yield from arguments
        case ast.IfExp(body=body, orelse=orelse):
            yield from (body, orelse)
        case _:
            return
