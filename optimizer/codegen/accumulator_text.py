"""Vectors of partial results, as Python text that calls the operations of `simd`: how they start, what is added to
them, and how they are combined with their elements."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import reduce

from optimizer.codegen.loop_ast import Accumulator, Reducing
from optimizer.codegen.statement_text import ScalarPlace, Subscripts, Substitution, parsed
from optimizer.polyhedral.nest import Nest
from optimizer.polyhedral.reductions import Operator, Reduction, neutral_text, reduction_of

PAIRWISE = {Operator.LEAST: "minimum", Operator.GREATEST: "maximum"}
ACROSS = {
    Operator.SUM: "sum_of_lanes",
    Operator.PRODUCT: "product_of_lanes",
    Operator.LEAST: "least_of_lanes",
    Operator.GREATEST: "greatest_of_lanes",
}
WIDE = ("float64", "int64")
"""What is combined with a number of these types gives one."""


def start_lines(nest: Nest, reducing: Reducing, operations: Mapping[str, str]) -> Iterator[str]:
    """The assignments of accumulators that hold nothing yet; `operations`: what the code calls those of `simd`."""
    for accumulator in reducing.loop.accumulators:
        operator = _reduction(nest, accumulator).operator
        nothing = neutral_text(operator, nest.array(accumulator.array).dtype)
        for name in accumulator.names:
            yield f"{name} = {operations['splat']}({nothing}, {reducing.loop.vector})"


def combination(nest: Nest, reduction: Reduction, name: str, value: ast.expr, operations: Mapping[str, str]) -> str:
    """What the accumulator of that name holds after a vector of values is combined with it."""
    register = ast.Name(name, ast.Load())
    match reduction.operator:
        case Operator.SUM:
            combined = ast.unparse(ast.BinOp(register, ast.Sub() if reduction.is_subtracted else ast.Add(), value))
        case Operator.PRODUCT:
            combined = ast.unparse(ast.BinOp(register, ast.Mult(), value))
        case Operator.LEAST | Operator.GREATEST:
            combined = f"{operations[PAIRWISE[reduction.operator]]}({name}, {ast.unparse(value)})"
    if nest.array(reduction.array).dtype in WIDE:
        return combined
    return f"{operations['rounded_like']}({name}, {combined})"


def end_lines(
    nest: Nest,
    reducing: Reducing,
    operations: Mapping[str, str],
    places: Mapping[str, ScalarPlace],
    subscripts: Subscripts,
) -> Iterator[str]:
    """The assignments that combine accumulators with their elements."""
    for accumulator in reducing.loop.accumulators:
        reduction, call = _reduction(nest, accumulator), accumulator.call
        statement = nest.statement(call.statement)
        values = dict(zip(statement.iterators, call.arguments, strict=True))
        element = ast.unparse(Substitution(statement, values, places, subscripts).visit(parsed(reduction.element)))
        across = operations[ACROSS[reduction.operator]]
        match reduction.operator:
            case Operator.SUM | Operator.PRODUCT as sign:
                yield f"{element} {sign}= {across}({f' {sign} '.join(accumulator.names)})"
            case Operator.LEAST | Operator.GREATEST as name:
                pairwise = operations[PAIRWISE[name]]
                whole = reduce(lambda one, other: f"{pairwise}({one}, {other})", accumulator.names)
                yield f"{element} = {name}({element}, {across}({whole}))"


def _reduction(nest: Nest, accumulator: Accumulator) -> Reduction:
    reduction = reduction_of(nest, nest.statement(accumulator.call.statement))
    assert reduction is not None, "only what reduces has accumulators"
    return reduction
