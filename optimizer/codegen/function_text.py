"""The head of a generated function: its signature, the sizes it reads off, what it checks and allocates."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from functools import cache
from importlib.resources import files

import islpy as isl

from optimizer.codegen.affine import Affine, AllOf, largest, number
from optimizer.codegen.isl_ast import condition_of, expression_of
from optimizer.codegen.layout import if_lines, laid_out
from optimizer.codegen.loop_text import INDENT
from optimizer.codegen.module_text import function_source
from optimizer.codegen.python_text import allocation_text, condition_text, expression_text
from optimizer.codegen.statement_text import ScalarPlace, affine_of
from optimizer.polyhedral.nest import Nest, Role

OVERLAP = "optimizer.codegen.overlap"
"""The module with the check of written arrays."""
OVERLAP_NAMES = frozenset({"address_range", "may_overlap"})


@cache
def overlap_check() -> str:
    """The functions of that module as text, for a module that has to do without it."""
    module = files("optimizer.codegen").joinpath("overlap.py").read_text(encoding="utf-8")
    functions = [function_source(module, name) for name in ("address_range", "may_overlap")]
    return "\n\n\n".join(functions).replace(": Any", "").replace(" -> Any", "") + "\n"


def signature(nest: Nest, name: str) -> str:
    arguments = [
        argument.name if argument.default is None else f"{argument.name}={argument.default}"
        for argument in nest.arguments
    ]
    one_line = f"def {name}({', '.join(arguments)}):"
    if len(one_line) <= 120:
        return one_line
    inside = ", ".join(arguments)
    if len(inside) <= 116:
        return f"def {name}(\n    {inside}\n):"
    return f"def {name}(\n" + "".join(f"    {argument},\n" for argument in arguments) + "):"


def head_lines(
    nest: Nest, places: dict[str, ScalarPlace], overlap_name: str, elsewhere: Collection[str] = ()
) -> Iterator[str]:
    """Sizes, checks, the source's own prologue, local memory but for what gets it `elsewhere`."""
    for parameter, array, dimension in nest.extents:
        yield f"{INDENT}{parameter} = {array}.shape[{dimension}]"
    yield from _size_check(nest)
    yield from _shape_checks(nest)
    yield from _overlap_checks(nest, overlap_name)
    for line in nest.prologue:
        yield from laid_out(line, INDENT)
    for array in nest.arrays:
        if array.role is Role.LOCAL and array.private is None and array.name not in elsewhere:
            extents = [expression_text(_extent(nest, text)) for text in array.shape]
            yield from laid_out(
                f"{array.name} = {allocation_text(array.fill or 'empty', array.dtype, extents)}", INDENT
            )
    for scalar, place in places.items():
        extents = [expression_text(extent) for extent in place.array.extents] or ["1"]
        yield from laid_out(f"{place.name} = {allocation_text('empty', place.array.array.dtype, extents)}", INDENT)
        if place.name != scalar and scalar in names_before(nest):
            yield f"{INDENT}{place.name}[0] = {scalar}"


def _extent(nest: Nest, text: str) -> Affine:
    """Of a local array: not below 0, also where the kernel takes smaller sizes than it has elements for."""
    expression = shape_expression(nest, text)
    wanted = isl.Set(f"[{', '.join(nest.parameters)}] -> {{ : {text} >= 0 }}")
    return expression if isl.Set(nest.context).is_subset(wanted) else largest(expression, number(0))


def names_before(nest: Nest) -> set[str]:
    """Names that have a value when the loops start."""
    return {argument.name for argument in nest.arguments} | names_of(*nest.prologue)


def names_of(*lines: str) -> set[str]:
    """All names in lines of Python."""
    return {node.id for node in ast.walk(ast.parse("\n".join(lines))) if isinstance(node, ast.Name)}


def shape_expression(nest: Nest, text: str) -> Affine:
    """An extent, from Python's or isl's text of it."""
    parsed = affine_of(ast.parse(text, mode="eval").body, {})
    if parsed is not None:
        return parsed
    value = isl.PwAff(f"[{', '.join(nest.parameters)}] -> {{ [({text})] }}")
    return expression_of(_build(nest).expr_from_pw_aff(value))


def _build(nest: Nest) -> isl.AstBuild:
    return isl.AstBuild.from_context(isl.Set(nest.context))


def _size_check(nest: Nest) -> Iterator[str]:
    """What the model takes for granted about sizes beyond extents not being negative."""
    extents = {text for array in nest.arrays if array.role is Role.ARGUMENT for text in array.shape}
    known = " and ".join(f"{name} >= 0" for name in nest.parameters if name in extents)
    given = isl.Set(f"[{', '.join(nest.parameters)}] -> {{ : {known} }}")
    needed = isl.Set(nest.context).gist(given)
    condition = condition_of(isl.AstBuild.from_context(given).expr_from_set(needed))
    if condition != AllOf(()):
        text = condition_text(condition)
        yield f"{INDENT}if not ({text}):"
        yield f'{INDENT * 2}raise ValueError("{nest.name} needs {text}")'


def _shape_checks(nest: Nest) -> Iterator[str]:
    read_off = {(array, dimension) for _, array, dimension in nest.extents}
    for array in nest.arrays:
        if array.role is not Role.ARGUMENT:
            continue
        if all((array.name, dimension) in read_off for dimension in range(len(array.shape))):
            continue
        extents = [expression_text(shape_expression(nest, text)) for text in array.shape]
        shape = f"({', '.join(extents)}{',' if len(extents) == 1 else ''})"
        yield f"{INDENT}if {array.name}.shape != {shape}:"
        yield f'{INDENT * 2}raise ValueError("{array.name} must have shape {shape}")'


def _overlap_checks(nest: Nest, overlap_name: str) -> Iterator[str]:
    written = written_arguments(nest)
    others = [array.name for array in nest.arrays if array.role is Role.ARGUMENT]
    for name in written:
        others.remove(name)
        if others:
            yield from if_lines([f"{overlap_name}({name}, {other})" for other in others], "or", INDENT)
            message = f"{name} must not overlap {' or '.join(others)} in memory"
            yield from laid_out(f'raise ValueError("{message}")', INDENT * 2)


def written_arguments(nest: Nest) -> list[str]:
    """The array arguments that the function changes."""
    written = {access.array for statement in nest.statements for access in statement.accesses if access.is_write}
    return [array.name for array in nest.arrays if array.role is Role.ARGUMENT and array.name in written]
