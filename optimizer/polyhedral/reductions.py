"""Statements that only add to an element, or multiply it, or keep the least or greatest: their order may not matter.

It does not matter for whole numbers, which wrap around. Floating-point numbers round, and zeros have signs, so that
their order is free only where the caller allows another rounding (`Nest.reassociates`), or where the source gives none
(`Nest.free_sums`).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import reduce

from optimizer.polyhedral.nest import Access, Nest, Statement
from optimizer.polyhedral.vector_form import redefined_names

WHOLE = ("int64", "int32")
FLOATS = ("float64", "float32")


class Operator(StrEnum):
    """What combines an element with a value; each is associative and commutative but for rounding."""

    SUM = "+"
    PRODUCT = "*"
    LEAST = "min"
    GREATEST = "max"
    LEAST_OR_NAN = "np.minimum"
    GREATEST_OR_NAN = "np.maximum"


ADDING = (Operator.SUM, Operator.PRODUCT)
"""Those that round."""


@dataclass(frozen=True, slots=True)
class Reduction:
    """`element = element operator value`."""

    operator: Operator
    element: str
    """As the statement's text has it: `x[i]`, or the name of a scalar."""
    array: str
    subscripts: tuple[str, ...]
    """isl expressions, as those of an access."""
    value: str
    """Python text; it may read the same array elsewhere."""
    is_subtracted: bool = False
    """Whether the value is taken away: what is left is a sum of negated values."""


def neutral_text(operator: Operator, dtype: str) -> str:
    """What changes nothing when it is combined with a number, of that type, as Python text."""
    match operator:
        case Operator.SUM | Operator.PRODUCT:
            number = str(int(operator is Operator.PRODUCT))
            return {"float64": f"{number}.0", "int64": number}.get(dtype, f"np.{dtype}({number})")
        case _ if dtype in FLOATS:
            number = "np.inf" if operator in (Operator.LEAST, Operator.LEAST_OR_NAN) else "-np.inf"
            return number if dtype == "float64" else f"np.{dtype}({number})"
        case Operator.LEAST | Operator.LEAST_OR_NAN:
            return f"np.{dtype}({_greatest(dtype)})"
        case Operator.GREATEST | Operator.GREATEST_OR_NAN:
            # Numba takes the number itself for one without a sign.
            return f"np.{dtype}(np.{dtype}(-{_greatest(dtype)}) - 1)"


def _greatest(dtype: str) -> int:
    return 2 ** (int(dtype[-2:]) - 1) - 1


def reduction_of(nest: Nest, statement: Statement) -> Reduction | None:
    """What a statement combines, if it does nothing else; whether its order is free is another question."""
    if statement.opaque:
        return None
    (assignment,) = ast.parse(statement.body).body
    match assignment:
        case ast.AugAssign(target, ast.Add(), value):
            found = Operator.SUM, value, False
        case ast.AugAssign(target, ast.Sub(), value):
            found = Operator.SUM, value, True
        case ast.AugAssign(target, ast.Mult(), value):
            found = Operator.PRODUCT, value, False
        case ast.Assign([target], value):
            combined = _combined(ast.unparse(target), value, redefined_names(nest))
            if combined is None:
                return None
            found = *combined, False
        case _:
            return None
    operator, value, is_subtracted = found
    element, writes = ast.unparse(target), [access for access in statement.accesses if access.is_write]
    if len(writes) != 1 or _mentions(value, element):
        return None
    (write,) = writes
    if len(_texts_of(write.array, value)) != len(_elsewhere(statement, write)):
        return None  # It may be the element that is read, in other words.
    return Reduction(operator, element, write.array, write.subscripts, ast.unparse(value), is_subtracted)


def _combined(element: str, whole: ast.expr, redefined: set[str]) -> tuple[Operator, ast.expr] | None:
    """The operator, and all operands but the element, of an expression in which the element is one operand."""
    match whole:
        case ast.BinOp(op=ast.Add() | ast.Sub()):
            terms = list(_terms(whole, is_added=True))
            own = [(term, is_added) for term, is_added in terms if ast.unparse(term) == element]
            if len(own) != 1 or not own[0][1]:
                return None
            others = [ast.UnaryOp(ast.USub(), t) if not plus else t for t, plus in terms if (t, plus) != own[0]]
            return Operator.SUM, reduce(lambda one, other: ast.BinOp(one, ast.Add(), other), others)
        case ast.BinOp(op=ast.Mult()):
            factors = list(_factors(whole))
            others = [factor for factor in factors if ast.unparse(factor) != element]
            if len(others) != len(factors) - 1:
                return None
            return Operator.PRODUCT, reduce(lambda one, other: ast.BinOp(one, ast.Mult(), other), others)
        case ast.Call(ast.Name("min" | "max" as name), [first, second], []) if name not in redefined:
            # Python's min keeps its first argument where the other one is NaN, in any order of the others.
            return (Operator(name), second) if ast.unparse(first) == element else None
        case ast.Call(ast.Attribute(ast.Name("np"), "minimum" | "maximum") as function, [first, second], []):
            name = ast.unparse(function)
            if name in redefined or ast.unparse(first) != element:
                return None
            return Operator(name), second
        case _:
            return None


def _terms(node: ast.expr, *, is_added: bool) -> Iterator[tuple[ast.expr, bool]]:
    match node:
        case ast.BinOp(left, ast.Add() | ast.Sub() as operator, right):
            yield from _terms(left, is_added=is_added)
            yield from _terms(right, is_added=is_added == isinstance(operator, ast.Add))
        case _:
            yield node, is_added


def _factors(node: ast.expr) -> Iterator[ast.expr]:
    match node:
        case ast.BinOp(left, ast.Mult(), right):
            yield from _factors(left)
            yield from _factors(right)
        case _:
            yield node


def _texts_of(array: str, value: ast.expr) -> set[str]:
    """How an expression names elements of an array, or the scalar of that name."""
    nodes = list(ast.walk(value))
    elements = {ast.unparse(node) for node in nodes if isinstance(node, ast.Subscript) and _is_name(node.value, array)}
    return elements or {array for node in nodes if _is_name(node, array)}


def _is_name(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _elsewhere(statement: Statement, write: Access) -> set[tuple[str, ...]]:
    """The subscripts of other elements of the array that is written."""
    return {access.subscripts for access in statement.accesses if access.array == write.array} - {write.subscripts}


def _mentions(node: ast.expr, element: str) -> bool:
    return any(isinstance(part, ast.expr) and ast.unparse(part) == element for part in ast.walk(node))


def free_reduction(nest: Nest, statement: Statement) -> Reduction | None:
    """The reduction of a statement whose order is free."""
    found = reduction_of(nest, statement)
    if found is None:
        return None
    dtype = nest.array(found.array).dtype
    may_round = nest.reassociates or statement.name in nest.free_sums
    is_free = may_round if dtype in FLOATS else dtype in WHOLE and _is_whole(nest, statement, found)
    return found if is_free else None


def _is_whole(nest: Nest, statement: Statement, reduction: Reduction) -> bool:
    """Whether an element of whole numbers stays one in every order: what is cut off in between matters nowhere."""
    dtypes = {thing.name: thing.dtype for thing in (*nest.arguments, *nest.arrays)}
    dtypes |= dict.fromkeys((*nest.parameters, *statement.iterators), "int64")
    value = ast.parse(reduction.value, mode="eval").body
    if reduction.operator not in ADDING:
        # A wider value is cut off when it is stored, which does not keep the order of numbers.
        name = value.value if isinstance(value, ast.Subscript) else value
        return isinstance(name, ast.Name) and dtypes.get(name.id) == dtypes[reduction.array]

    def is_whole(node: ast.expr) -> bool:
        match node:
            case ast.Constant(whole):
                return isinstance(whole, int) and not isinstance(whole, bool)
            case ast.Name(name) | ast.Subscript(ast.Name(name)):
                return dtypes.get(name) in WHOLE
            case ast.BinOp(left, ast.Add() | ast.Sub() | ast.Mult(), right):
                return is_whole(left) and is_whole(right)
            case ast.UnaryOp(ast.USub(), operand):
                return is_whole(operand)
            case _:
                return False

    return is_whole(value)


def access_of(reduction: Reduction) -> Access:
    """Its write to the element."""
    return Access(reduction.array, reduction.subscripts, is_write=True)
