"""The loops as lines of Python."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace

from optimizer.codegen.accumulator_text import end_lines, start_lines
from optimizer.codegen.affine import (
    Affine,
    AllOf,
    AnyOf,
    Comparison,
    Relation,
    choice,
    floor_division,
    number,
    remainder,
    substitute,
    variable,
)
from optimizer.codegen.held_elements import held_names
from optimizer.codegen.layout import LINE_LENGTH, if_lines, laid_out
from optimizer.codegen.loop_ast import (
    Allocate,
    Bind,
    Block,
    Boundary,
    Call,
    Fence,
    For,
    HeldElement,
    If,
    LoopNode,
    Reducing,
    RegisterTile,
    walk,
)
from optimizer.codegen.naming import free_name
from optimizer.codegen.python_text import allocation_text, condition_text, expression_text
from optimizer.codegen.statement_text import ScalarPlace, Subscripts, parsed, statement_text, values_to_bind
from optimizer.codegen.vector_text import VectorText
from optimizer.codegen.vector_values import VectorAxis
from optimizer.polyhedral.nest import Nest

INDENT = "    "


@dataclass(frozen=True, slots=True)
class LoopPrinter:
    nest: Nest
    places: Mapping[str, ScalarPlace]
    """Where the scalars are that are no plain variables."""
    subscripts: Subscripts
    vectors: VectorText
    module_names: frozenset[str] = frozenset()
    """Names that mean the same in all functions of the module."""
    tiles: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """Functions of register tiles, name and text: they are added here when they are printed."""
    axis: VectorAxis | None = None
    """Of the vectors that statements are printed for."""
    held: tuple[HeldElement, ...] = ()
    """By the loop whose statements are printed."""

    def lines(self, node: LoopNode, indent: str, live: AbstractSet[str]) -> Iterator[str]:
        """`live`: names that keep their meaning in here."""
        parts = node.parts if isinstance(node, Block) else (node,)
        bound: dict[str, Affine] = {}
        for part in parts:
            match part:
                case Call():
                    yield from self._call(part, indent, live, bound)
                case Bind(name, value):
                    yield from laid_out(f"{name} = {expression_text(value)}", indent)
                    live = live | {name}
                case Boundary(name):
                    yield from laid_out(f"{name} = {self.vectors.boundary_text(part)}", indent)
                    live = live | {name}
                case Allocate(array, dtype, extents, fill):
                    allocation = allocation_text(fill, dtype, [expression_text(extent) for extent in extents])
                    yield from laid_out(f"{array} = {allocation}", indent)
                    live = live | {array}
                case Fence():
                    yield f"{indent}{self.vectors.names.operations['fence']}()"
                case If():
                    yield from self._if(part, indent, live)
                    bound.clear()
                case For():
                    yield from self._for(part, indent, live)
                    bound.clear()
                case Block():
                    yield from self.lines(part, indent, live)
                    bound.clear()
                case RegisterTile():
                    yield from self._register_tile(part, indent, live)
                case Reducing():
                    yield from self._reducing(part, indent, live)
        if not parts:
            yield f"{indent}pass"

    def _call(self, call: Call, indent: str, live: AbstractSet[str], bound: dict[str, Affine]) -> Iterator[str]:
        """`bound`: the names that statements before this one in the block have bound."""
        statement = self.nest.statement(call.statement)
        values = dict(zip(statement.iterators, call.arguments, strict=True))
        taken = set(live)
        for iterator, value in values_to_bind(statement, call.arguments).items():
            name = free_name(iterator, taken)
            taken.add(name)
            if bound.get(name) != value:
                yield from laid_out(f"{name} = {expression_text(value)}", indent)
            bound[name] = value
            values[iterator] = variable(name)
        if self.axis is not None:
            yield from self.vectors.lines(call, values, self.axis, self.subscripts, indent)
        else:
            held = held_names(statement, dict(zip(statement.iterators, call.arguments, strict=True)), self.held)
            yield from laid_out(statement_text(statement, values, self.places, self.subscripts, held), indent)

    def _if(self, node: If, indent: str, live: AbstractSet[str]) -> Iterator[str]:
        match node.condition:
            case AllOf(conditions) if conditions:
                yield from if_lines([condition_text(inner, AllOf) for inner in conditions], "and", indent)
            case AnyOf(conditions) if conditions:
                yield from if_lines([condition_text(inner, AnyOf) for inner in conditions], "or", indent)
            case _:
                yield f"{indent}if {condition_text(node.condition)}:"
        yield from self.lines(node.then, indent + INDENT, live)
        if node.otherwise is not None:
            yield f"{indent}else:"
            yield from self.lines(node.otherwise, indent + INDENT, live)

    def _reducing(self, reducing: Reducing, indent: str, live: AbstractSet[str]) -> Iterator[str]:
        nest, operations = self.vectors.nest, self.vectors.names.operations
        for line in start_lines(nest, reducing, operations):
            yield from laid_out(line, indent)
        yield from self.lines(reducing.body, indent, live)
        for line in end_lines(nest, reducing, operations, self.places, self.subscripts):
            yield from laid_out(line, indent)

    def _register_tile(self, tile: RegisterTile, indent: str, live: AbstractSet[str]) -> Iterator[str]:
        """A call of a function of its own: what is compiled for threads is compiled several times."""
        name = free_name(f"{self.nest.name}_tile", live | {other for other, _ in self.tiles})
        lines = list(self._tile_lines(tile, INDENT, live))
        given = ", ".join(sorted(_names_from_outside(lines) - self.module_names, key=str.lower))
        self.tiles.append((name, "\n".join([f"def {name}({given}):", *lines])))
        yield from laid_out(f"{name}({given})", indent)

    def _tile_lines(self, tile: RegisterTile, indent: str, live: AbstractSet[str]) -> Iterator[str]:
        axis = self.vectors.axis(tile)
        for bind in tile.binds:
            yield from laid_out(f"{bind.name} = {expression_text(bind.value)}", indent)
        binds = {bind.name: bind.value for bind in tile.binds}
        registers = self.vectors.registers(tile, axis, self.subscripts, live | binds.keys() | {tile.loop.iterator})
        yield from registers.printed(indent)
        for register in registers.kept.values():
            yield from laid_out(f"{register.name} = {register.load}", indent)
        start, stop = expression_text(tile.loop.start), expression_text(tile.loop.stop)
        yield indent + _head(tile.loop.iterator, "range", start, stop, 1)
        for call, mask in zip(tile.calls, registers.read_masks or [""] * len(tile.calls), strict=True):
            registers.read_mask = mask
            values = dict(zip(self.nest.statement(call.statement).iterators, call.arguments, strict=True))
            for subscript in values.keys() & self.vectors.buffer_subscripts:
                values[subscript] = _shorter(values[subscript], binds)
            lines = self.vectors.lines(call, values, axis, self.subscripts, indent + INDENT, registers)
            yield from registers.printed(indent + INDENT)
            yield from lines
        for register in registers.kept.values():
            yield from laid_out(register.store, indent)

    def _for(self, loop: For, indent: str, live: AbstractSet[str]) -> Iterator[str]:
        live = live | {loop.iterator}
        if loop.is_parallel and (loop.step != 1 or loop.from_ends or loop.chunk):
            yield from self._counted_parallel(loop, indent, live)
            return
        start, stop = expression_text(loop.start), expression_text(loop.stop)
        kind = "prange" if loop.is_parallel else "range"
        head = _head(loop.iterator, kind, start, stop, loop.step)
        if len(indent + head) > LINE_LENGTH:
            start_name, stop_name = (free_name(f"{loop.iterator}_{end}", live) for end in ("start", "stop"))
            yield from laid_out(f"{start_name} = {start}", indent)
            yield from laid_out(f"{stop_name} = {stop}", indent)
            head = _head(loop.iterator, kind, start_name, stop_name, loop.step)
        if loop.note:
            yield f"{indent}# Not vectorized: {loop.note}."
        for element in loop.held:
            yield from laid_out(f"{element.name} = {self._element_text(element)}", indent)
        yield indent + head
        inside = replace(self, axis=self.vectors.axis(loop) if loop.vector != 1 else None, held=loop.held)
        if loop.mask is not None:
            yield from laid_out(self.vectors.mask_line(loop), indent + INDENT)
        yield from inside.lines(loop.body, indent + INDENT, live)
        for element in loop.held:
            yield from laid_out(f"{self._element_text(element)} = {element.name}", indent)

    def _element_text(self, element: HeldElement) -> str:
        name, subscripts = element.array, list(element.subscripts)
        if name in self.places:
            place = self.places[name]
            name = place.name
            subscripts = [each - least for each, least in zip(subscripts, place.array.lower, strict=True)] or [
                number(0)
            ]
        indices = [self.subscripts.printed(parsed(expression_text(subscript))) for subscript in subscripts]
        return f"{name}[{', '.join(map(ast.unparse, indices))}]"

    def _counted_parallel(self, loop: For, indent: str, live: AbstractSet[str]) -> Iterator[str]:
        """Numba's prange counts by one, and gives each thread a block of what it counts."""
        size = abs(loop.step)
        span = (loop.stop - loop.start).times(loop.step // size)
        trips = floor_division(span + number(size - 1), size)
        if loop.chunk:
            yield from self._chunks(loop, trips, indent, live)
            return
        counter = free_name(f"{loop.iterator}_count", live)
        place, count = variable(counter), expression_text(trips)
        inside = live | {counter}
        if loop.from_ends:
            half = floor_division(place, 2)
            is_early = Comparison(remainder(place, 2), Relation.EQUAL, number(0))
            place = choice(is_early, half, trips - number(1) - half)
        yield f"{indent}for {counter} in prange({count}):"
        yield from laid_out(
            f"{loop.iterator} = {expression_text(loop.start + place.times(loop.step))}", indent + INDENT
        )
        yield from self.lines(loop.body, indent + INDENT, inside)

    def _chunks(self, loop: For, trips: Affine, indent: str, live: AbstractSet[str]) -> Iterator[str]:
        """What a thread counts in one block are all the chunks of which it is the turn."""
        names: dict[str, str] = {}
        for word in ("trips", "threads", "turns", "count", "chunk", "place"):
            names[word] = free_name(f"{loop.iterator}_{word}", live | set(names.values()))
        whole, threads, turns, count, chunk, place = names.values()
        size, inner = loop.chunk, indent + INDENT
        yield from laid_out(f"{whole} = {expression_text(trips)}", indent)
        yield f"{indent}{threads} = get_num_threads()"
        yield from laid_out(f"{turns} = ({whole} + {size} * {threads} - 1) // ({size} * {threads})", indent)
        yield f"{indent}for {count} in prange({threads} * {turns}):"
        yield from laid_out(f"{chunk} = {count} % {turns} * {threads} + {count} // {turns}", inner)
        bounds = f"{size} * {chunk}, min({size} * {chunk} + {size}, {whole})"
        yield from laid_out(f"for {place} in range({bounds}):", inner)
        value = loop.start + variable(place).times(loop.step)
        yield from laid_out(f"{loop.iterator} = {expression_text(value)}", inner + INDENT)
        yield from self.lines(loop.body, inner + INDENT, live | set(names.values()))


def _shorter(value: Affine, binds: Mapping[str, Affine]) -> Affine:
    """`3` for `i + 3 - 8 * i_t` where i is `8 * i_t`."""
    other = substitute(value, binds)
    return other if len(other.terms) < len(value.terms) else value


def _names_from_outside(lines: Sequence[str]) -> set[str]:
    """Those that no line assigns."""
    names = [node for node in ast.walk(ast.parse("if True:\n" + "\n".join(lines))) if isinstance(node, ast.Name)]
    return {node.id for node in names} - {node.id for node in names if isinstance(node.ctx, ast.Store)}


def _head(iterator: str, kind: str, start: str, stop: str, step: int) -> str:
    bounds = [stop] if start == "0" and step == 1 else [start, stop]
    return f"for {iterator} in {kind}({', '.join([*bounds, str(step)] if step != 1 else bounds)}):"


def counting_iterators(node: LoopNode) -> frozenset[str]:
    """The loop variables that start at a number from 0 and ascend, in every loop that uses the name."""
    loops = [part for part in walk(node) if isinstance(part, For)]
    others = {loop.iterator for loop in loops if loop.start.terms or loop.start.constant < 0 or loop.step < 0}
    others |= {loop.iterator for loop in loops if loop.is_parallel and (loop.from_ends or loop.chunk)}
    return frozenset(loop.iterator for loop in loops) - others
