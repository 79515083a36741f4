"""What a statement computes for all lanes of a vector, and where it lies in memory, as calls of what `simd` has."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass

from optimizer.codegen.affine import Affine, coefficient_of, names_in
from optimizer.codegen.loop_ast import Accumulator
from optimizer.codegen.python_text import expression_text
from optimizer.codegen.registers import Registers
from optimizer.codegen.statement_text import ScalarPlace, Subscripts, Substitution, affine_of, parsed
from optimizer.polyhedral.nest import Statement
from optimizer.polyhedral.vector_form import VECTOR_FUNCTIONS, VECTOR_OPERATORS


class NoVectorForm(Exception):
    """Why a loop cannot be vector code."""


@dataclass(frozen=True, slots=True)
class VectorNames:
    """What generated code calls the operations, and the vectors that take the place of scalar variables."""

    operations: Mapping[str, str]
    scalars: Mapping[str, str]
    value: str
    """Of what is stored by a line that would become too long."""
    mask: str
    """Of the lanes that run, where not all do."""

    @property
    def all(self) -> frozenset[str]:
        return frozenset({*self.operations.values(), *self.scalars.values(), self.value, self.mask})


@dataclass(frozen=True, slots=True)
class VectorAxis:
    """The loop whose neighbouring iterations are the lanes."""

    iterator: str
    """Its value in lane 0; each lane has one more than the one before."""
    lanes: int
    scalars: frozenset[str]
    """The scalar variables that have a value of their own in each lane."""
    is_masked: bool = False
    """Whether only some of the lanes run."""
    accumulators: tuple[Accumulator, ...] = ()
    streams: tuple[str, ...] = ()
    """Arrays of which rows are written past the caches."""


@dataclass(frozen=True, slots=True)
class _Element:
    """An element of an array, for each lane one."""

    array: str
    index: str
    steps: tuple[int, ...]
    """By how much each subscript grows from lane to lane."""

    @property
    def is_row(self) -> bool:
        return not any(self.steps[:-1]) and self.steps[-1] == 1


@dataclass(frozen=True, slots=True)
class VectorForm:
    """One statement for all lanes of a vector."""

    names: VectorNames
    places: Mapping[str, ScalarPlace]
    buffers: frozenset[str]
    """As in `VectorText`, all three."""
    statement: Statement
    arguments: Mapping[str, Affine]
    values: Mapping[str, Affine]
    subscripts: Subscripts
    axis: VectorAxis
    registers: Registers | None = None

    def store(self, target: ast.expr, value: str) -> str:
        element = self._element(target)
        if element is None or not any(element.steps):
            raise NoVectorForm(f"every iteration writes the same {ast.unparse(target)}")
        if element.is_row and self.axis.is_masked:
            return self._call("store_masked", element.array, element.index, value, self.names.mask)
        if element.is_row:
            operation = "store_streaming" if element.array in self.axis.streams else "store"
            return self._call(operation, element.array, element.index, value)
        if self.axis.is_masked:
            raise NoVectorForm(f"some lanes alone cannot write {element.array} where its elements are apart")
        return self._call("scatter", element.array, element.index, tuple_text([str(s) for s in element.steps]), value)

    def place(self, target: ast.expr) -> tuple[str, str]:
        """The array and the subscripts of a row that is written."""
        element = self._element(target)
        assert element is not None, "what is written is an element of an array"
        return element.array, element.index

    def load_text(self, target: ast.expr) -> tuple[str, str]:
        """The array that a row of is written, and how to load what is there."""
        array, index = self.place(target)
        return array, self._call("load", array, index, str(self.axis.lanes))

    def keep(self, target: ast.expr, value: str, *, is_rounded: bool) -> str:
        """The assignment to a register; `is_rounded`: the value has the type that the array has."""
        assert self.registers is not None
        _, load = self.load_text(target)
        name = self.registers.kept[load].name
        return f"{name} = {value if is_rounded else self._call('rounded_like', name, value)}"

    def vector_of(self, node: ast.expr) -> ast.expr:
        """A value that is the same in all lanes becomes a vector as well."""
        value = self._value(node)
        return value if self._varies(node) else self._called("splat", value, ast.Constant(self.axis.lanes))

    def _value(self, node: ast.expr) -> ast.expr:
        """A vector where it varies from lane to lane; else a number."""
        if not self._varies(node):
            value = Substitution(self.statement, self.values, self.places, self.subscripts).visit(copy_of(node))
            if self.registers is not None and any(isinstance(part, ast.Subscript) for part in ast.walk(value)):
                return ast.Name(self.registers.name_of(ast.unparse(value), "x"), ast.Load())
            return value
        match node:
            case ast.Name(name) if name in self.axis.scalars:
                return ast.Name(self.names.scalars[name], ast.Load())
            case ast.Name(name) if name in self.arguments:
                raise NoVectorForm(f"`{ast.unparse(node)}` is computed with, not only a subscript")
            case ast.Name() | ast.Subscript():
                return self._load(node)
            case ast.BinOp(left, operator, right) if isinstance(operator, VECTOR_OPERATORS):
                return ast.BinOp(self._number(left), operator, self._number(right))
            case ast.UnaryOp(ast.USub() | ast.UAdd() as operator, operand):
                number = self._number(operand)
                return ast.UnaryOp(operator, number) if isinstance(operator, ast.USub) else number
            case ast.IfExp(test, body, orelse) if self._varies(body) or self._varies(orelse):
                return self._called("select", self._truth(test), self._number(body), self._number(orelse))
            case ast.Call(function, arguments):
                return self._function(VECTOR_FUNCTIONS.get(ast.unparse(function), ""), arguments, node)
            case _:
                raise self._none(node)

    def _number(self, node: ast.expr) -> ast.expr:
        match node:
            case ast.Compare() | ast.BoolOp() | ast.UnaryOp(ast.Not()):
                raise self._none(node)
            case _:
                return self._value(node)

    def _function(self, name: str, arguments: list[ast.expr], node: ast.Call) -> ast.expr:
        match name, [self._number(argument) for argument in arguments]:
            case "minimum" | "maximum", operands:
                same = next(k for k, argument in enumerate(arguments) if self._varies(argument))
                if same > 1:
                    operands = [ast.Call(node.func, operands[:same], []), *operands[same:]]
                whole = operands[0]
                for operand in operands[1:]:
                    whole = self._called(name, whole, operand)
                return whole
            case "sqrt", [number]:
                return self._called("sqrt", number)
            case "abs", [number]:
                return ast.Call(ast.Name("abs", ast.Load()), [number], [])
            case _:
                raise self._none(node)

    def _truth(self, node: ast.expr) -> ast.expr:
        """A condition that varies from lane to lane in each of its parts, so that it says nothing of subscripts."""
        if not self._varies(node):
            raise NoVectorForm(f"the condition `{ast.unparse(node)}` is the same in all lanes")
        match node:
            case ast.Compare(left, operators, others):
                operands = [left, *others]
                pairs = [
                    self._comparison(ast.Compare(first, [operator], [second]))
                    for first, operator, second in zip(operands, operators, others, strict=False)
                ]
                return _joined(ast.BitAnd(), pairs)
            case ast.BoolOp(operator, operands):
                joiner = ast.BitAnd() if isinstance(operator, ast.And) else ast.BitOr()
                return _joined(joiner, [self._truth(operand) for operand in operands])
            case ast.UnaryOp(ast.Not(), operand):
                return ast.UnaryOp(ast.Invert(), self._truth(operand))
            case _:
                raise self._none(node)

    def _comparison(self, node: ast.Compare) -> ast.expr:
        if not self._varies(node):
            raise NoVectorForm(f"the condition `{ast.unparse(node)}` is the same in all lanes")
        return ast.Compare(self._number(node.left), node.ops, [self._number(node.comparators[0])])

    def _load(self, node: ast.expr) -> ast.expr:
        element = self._element(node)
        assert element is not None, "a name that varies has a place in memory or in a register"
        steps = () if element.is_row else (tuple_text([str(step) for step in element.steps]),)
        operation = "load" if element.is_row else "gather"
        if self.axis.is_masked:
            return parsed(self._call(f"{operation}_masked", element.array, element.index, *steps, self.names.mask))
        text = self._call(operation, element.array, element.index, *steps, str(self.axis.lanes))
        if self.registers is None:
            return parsed(text)
        is_masked = self.registers.read_mask and element.array not in self.buffers
        if is_masked and text not in self.registers.kept:
            text = self._call(f"{operation}_masked", element.array, element.index, *steps, self.registers.read_mask)
        return parsed(self.registers.name_of(text, element.array))

    def _element(self, node: ast.expr) -> _Element | None:
        """The element of an array that a name or subscript means; None for a plain variable."""
        match node:
            case ast.Subscript(ast.Name(array), ast.Tuple(indices)):
                lower: list[Affine] = [Affine()] * len(indices)
            case ast.Subscript(ast.Name(array), index):
                indices, lower = [index], [Affine()]
            case ast.Name(name) if name in self.places:
                access = next(access for access in self.statement.accesses if access.array == name)
                indices, lower = [parsed(text) for text in access.subscripts], list(self.places[name].array.lower)
                array = self.places[name].name
            case _:
                return None
        printed = [self._subscript(index, least) for index, least in zip(indices, lower, strict=True)]
        steps = tuple(self._step(index) for index in indices)
        return _Element(array, tuple_text(printed), steps)

    def _subscript(self, index: ast.expr, least: Affine) -> str:
        value = affine_of(index, self.values)
        if value is not None:
            return expression_text(value - least)
        return ast.unparse(Substitution(self.statement, self.values, {}, self.subscripts).visit(copy_of(index)))

    def _step(self, index: ast.expr) -> int:
        """By how much a subscript grows from lane to lane."""
        value = affine_of(index, self.arguments)
        step = None if value is None else coefficient_of(value, self.axis.iterator)
        if step is not None:
            return step
        if any(self._moves(name) for name in _names(index)):
            raise NoVectorForm(f"the subscript `{ast.unparse(index)}` does not grow evenly")
        return 0

    def _varies(self, node: ast.expr) -> bool:
        """Whether the value is another one in each lane."""
        match node:
            case ast.Name(name):
                if name in self.places:
                    element = self._element(node)
                    return element is not None and any(element.steps)
                return name in self.axis.scalars or self._moves(name)
            case ast.Subscript():
                element = self._element(node)
                return element is not None and any(element.steps)
            case _:
                return any(self._varies(part) for part in ast.iter_child_nodes(node) if isinstance(part, ast.expr))

    def _moves(self, name: str) -> bool:
        """Whether a name of an iterator has another value in each lane."""
        return name in self.arguments and self.axis.iterator in names_in(self.arguments[name])

    def _call(self, operation: str, *arguments: str) -> str:
        return f"{self.names.operations[operation]}({', '.join(arguments)})"

    def _called(self, operation: str, *arguments: ast.expr) -> ast.expr:
        return ast.Call(ast.Name(self.names.operations[operation], ast.Load()), list(arguments), [])

    def _none(self, node: ast.expr) -> NoVectorForm:
        return NoVectorForm(f"`{ast.unparse(node)}` in {self.statement.name} has no vector form")


def tuple_text(texts: list[str]) -> str:
    return texts[0] if len(texts) == 1 else f"({', '.join(texts)})"


def _joined(operator: ast.operator, operands: list[ast.expr]) -> ast.expr:
    whole = operands[0]
    for operand in operands[1:]:
        whole = ast.BinOp(whole, operator, operand)
    return whole


def copy_of(node: ast.expr) -> ast.expr:
    return ast.parse(ast.unparse(node), mode="eval").body


def _names(node: ast.expr) -> set[str]:
    return {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}
