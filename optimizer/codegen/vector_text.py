"""The assignment of one statement for all lanes of a vector, as Python text that calls the operations of `simd`."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from itertools import zip_longest

from optimizer.codegen.accumulator_text import combination
from optimizer.codegen.affine import Affine
from optimizer.codegen.layout import LINE_LENGTH, laid_out
from optimizer.codegen.loop_ast import Boundary, Call, For, Mask, RegisterTile, calls
from optimizer.codegen.naming import free_name
from optimizer.codegen.python_text import expression_text
from optimizer.codegen.registers import Register, Registers
from optimizer.codegen.scalars import is_assigned_first
from optimizer.codegen.statement_text import ScalarPlace, Subscripts, affine_of, parsed
from optimizer.codegen.vector_values import NoVectorForm, VectorAxis, VectorForm, VectorNames, copy_of, tuple_text
from optimizer.polyhedral.nest import Access, Nest, Role, Statement
from optimizer.polyhedral.reductions import access_of, reduction_of

OPERATIONS = (
    *("load", "gather", "store", "scatter", "splat", "minimum", "maximum", "sqrt", "select"),
    *("rounded_like", "load_masked", "gather_masked", "store_masked", "lanes_between", "to_boundary"),
    *("store_streaming", "fence"),
    *("sum_of_lanes", "product_of_lanes", "least_of_lanes", "greatest_of_lanes"),
)
"""Of `simd`, that generated code calls by name."""


def vector_names(nest: Nest, reserved: frozenset[str]) -> VectorNames:
    """Names that mean nothing else."""
    scalars = [array.name for array in nest.arrays if array.role is Role.SCALAR]
    return VectorNames(
        {name: free_name(name, reserved) for name in OPERATIONS},
        {name: free_name(f"{name}_vector", reserved) for name in scalars},
        free_name("value", reserved),
        free_name("mask", reserved),
    )


@dataclass(frozen=True, slots=True)
class VectorText:
    """Prints statements for all lanes at once."""

    nest: Nest
    places: Mapping[str, ScalarPlace]
    names: VectorNames
    buffers: frozenset[str] = frozenset()
    """Arrays that hold a whole tile also where it is not full."""
    buffer_subscripts: frozenset[str] = frozenset()
    """Iterators of statements that are nothing else."""

    def axis(self, loop: For | RegisterTile) -> VectorAxis:
        """Raises NoVectorForm when a scalar variable cannot become a vector."""
        if isinstance(loop, RegisterTile):
            return replace(self.axis(loop.loop), iterator=loop.axis)
        accesses = [a for call in calls(loop.body) for a in self.nest.statement(call.statement).accesses]
        variables = {array.name for array in self.nest.arrays if array.role is Role.SCALAR} - self.places.keys()
        variables -= {accumulator.array for accumulator in loop.accumulators}
        assigned = {access.array for access in accesses if access.is_write} & variables
        for access in accesses:
            is_private = access.subscripts and is_assigned_first(self.nest, loop.body, access.array)
            if access.array in assigned and not is_private:
                raise NoVectorForm(f"its iterations share {access.array}")
        is_masked = loop.mask is not None
        return VectorAxis(loop.iterator, loop.vector, frozenset(assigned), is_masked, loop.accumulators, loop.streams)

    def mask_line(self, loop: For) -> str:
        """The assignment of the mask of a loop that has one."""
        assert loop.mask is not None
        return f"{self.names.mask} = {self._mask_text(loop.mask, loop.vector)}"

    def boundary_text(self, boundary: Boundary) -> str:
        """The value that it names."""
        place = tuple_text([expression_text(subscript) for subscript in boundary.subscripts])
        distance = f"{self.names.operations['to_boundary']}({boundary.array}, {place}, {boundary.lanes})"
        return f"{expression_text(boundary.start)} + {distance}"

    def check(self, call: Call, axis: VectorAxis) -> None:
        """Raises NoVectorForm for a statement that cannot be printed."""
        values = dict(zip(self.nest.statement(call.statement).iterators, call.arguments, strict=True))
        self.lines(call, values, axis, Subscripts("", frozenset()), "")

    def subscripts_of(self, access: Access, values: Mapping[str, Affine]) -> tuple[Affine, ...]:
        """In the array that the code has; raises NoVectorForm."""
        found = [affine_of(parsed(subscript), values) for subscript in access.subscripts]
        known = tuple(subscript for subscript in found if subscript is not None)
        if len(known) < len(found):
            raise NoVectorForm(f"a subscript of {access.array} is not affine")
        return known

    def extents(self, array: str) -> list[Affine | None]:
        """Of an array, as far as they can be told."""
        return [affine_of(parsed(text), {}) for text in self.nest.array(array).shape]

    def registers(
        self, tile: RegisterTile, axis: VectorAxis, subscripts: Subscripts, taken: AbstractSet[str]
    ) -> Registers:
        """Those that keep what a tile writes, and the masks of one that is not full."""
        registers = Registers(set(taken))
        for call, masks in zip_longest(tile.calls, tile.masks):
            statement = self.nest.statement(call.statement)
            values = dict(zip(statement.iterators, call.arguments, strict=True))
            form = self._form(statement, values, values, subscripts, axis)
            (assignment,) = ast.parse(statement.body).body
            assert isinstance(assignment, ast.Assign | ast.AugAssign)
            target = assignment.targets[0] if isinstance(assignment, ast.Assign) else assignment.target
            array, load = form.load_text(target)
            if load not in registers.kept:
                name = registers.fresh(array)
                registers.kept[load] = Register(name, load, form.store(target, name))
            if masks is not None:
                own, read = (self._mask(mask, axis, registers) for mask in masks)
                registers.read_masks.append(read)
                register = registers.kept[load]
                load_name, store_name = self.names.operations["load_masked"], self.names.operations["store_masked"]
                _, index = form.place(target)
                registers.kept[load] = Register(
                    register.name,
                    f"{load_name}({array}, {index}, {own})",
                    f"{store_name}({array}, {index}, {register.name}, {own})",
                )
        return registers

    def _mask(self, mask: Mask, axis: VectorAxis, registers: Registers) -> str:
        return registers.name_of(self._mask_text(mask, axis.lanes), "mask")

    def _mask_text(self, mask: Mask, lanes: int) -> str:
        numbers = ", ".join(expression_text(number) for number in (mask.at, mask.first, mask.last))
        return f"{self.names.operations['lanes_between']}({numbers}, {lanes})"

    def _dtype(self, target: ast.expr) -> str:
        name = next(node.id for node in ast.walk(target) if isinstance(node, ast.Name))
        return self.nest.array(name).dtype

    def lines(
        self,
        call: Call,
        values: Mapping[str, Affine],
        axis: VectorAxis,
        subscripts: Subscripts,
        indent: str,
        registers: Registers | None = None,
    ) -> list[str]:
        """The assignment; `values`: how the statement's iterators are printed, `subscripts`: those of single elements.

        Raises NoVectorForm.
        """
        statement = self.nest.statement(call.statement)
        arguments = dict(zip(statement.iterators, call.arguments, strict=True))
        form = self._form(statement, arguments, values, subscripts, axis, registers)
        accumulated = self._accumulated(call, arguments, form)
        if accumulated:
            return laid_out(accumulated, indent)
        (assignment,) = ast.parse(statement.body).body
        match assignment:
            case ast.Assign(targets=[target], value=value):
                pass
            case ast.AugAssign(target=target, op=operator, value=value):
                value = ast.BinOp(copy_of(target), operator, value)
            case _:
                raise NoVectorForm(f"`{statement.body}` has no vector form")
        computed = ast.unparse(form.vector_of(value))
        if isinstance(target, ast.Name) and target.id in axis.scalars:
            return laid_out(f"{self.names.scalars[target.id]} = {computed}", indent)
        if registers is not None:
            # Whatever is added to a float64 gives one.
            is_rounded = isinstance(assignment, ast.AugAssign) and self._dtype(target) == "float64"
            return laid_out(form.keep(target, computed, is_rounded=is_rounded), indent)
        line = form.store(target, computed)
        if len(indent + line) <= LINE_LENGTH:
            return [indent + line]
        return [*laid_out(f"{self.names.value} = {computed}", indent), indent + form.store(target, self.names.value)]

    def _form(
        self,
        statement: Statement,
        arguments: Mapping[str, Affine],
        values: Mapping[str, Affine],
        subscripts: Subscripts,
        axis: VectorAxis,
        registers: Registers | None = None,
    ) -> VectorForm:
        return VectorForm(
            self.names, self.places, self.buffers, statement, arguments, values, subscripts, axis, registers
        )

    def _accumulated(self, call: Call, arguments: Mapping[str, Affine], form: VectorForm) -> str:
        """The assignment to an accumulator of what a statement reduces; empty where it has none.

        Raises NoVectorForm.
        """
        reduction = reduction_of(self.nest, self.nest.statement(call.statement)) if form.axis.accumulators else None
        if reduction is None:
            return ""
        element = (reduction.array, self.subscripts_of(access_of(reduction), arguments))
        names = (a.names for a in form.axis.accumulators if (a.array, a.subscripts) == element)
        own = next(names, None)
        if own is None:
            return ""
        name = own[call.partial]
        value = form.vector_of(parsed(reduction.value))
        combined = combination(self.nest, reduction, name, value, self.names.operations)
        if form.axis.is_masked:
            combined = f"{self.names.operations['select']}({self.names.mask}, {combined}, {name})"
        return f"{name} = {combined}"
