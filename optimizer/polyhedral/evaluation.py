"""What a statement evaluates: which operations it does and which elements it reads, where that depends on conditions.

A condition on loop variables and sizes splits the iterations, so what happens on each side is known. One on data leaves
several outcomes, any of which an iteration may have.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import reduce

import islpy as isl

from optimizer.polyhedral.frontend.affine import Affine, NotAffine, affine, condition, variable
from optimizer.polyhedral.frontend.functions import SCALAR_FUNCTIONS
from optimizer.polyhedral.model import Model
from optimizer.polyhedral.nest import Access, Statement

FREE_CALLS = frozenset({"abs", "absolute", "fabs", "copysign", "sign", "isnan", "isinf", "isfinite"})
"""Functions that only look at bits, or change one."""
COUNTED_CALLS = frozenset(name.split(".")[-1] for name in SCALAR_FUNCTIONS) - FREE_CALLS
MOST_OUTCOMES = 64
"""An expression with more of them is not looked into."""


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """Iterations of a statement in which the same conditions on loop variables and sizes hold."""

    statement: Statement
    iterations: isl.Set
    outcomes: frozenset[frozenset[str]]
    """The operations and elements that are evaluated, as texts, for each way in which conditions on data can turn out;
    empty if there are too many ways to list them."""
    values: frozenset[str]
    """What may be assigned, likewise; one expression where no data decide."""

    @property
    def certain(self) -> frozenset[str]:
        """What is evaluated in any case."""
        return frozenset[str].intersection(*self.outcomes) if self.outcomes else frozenset[str]()

    @property
    def certain_reads(self) -> Iterator[Access]:
        """The elements of arrays that are read in any case."""
        for text in sorted(self.certain):
            node = ast.parse(text, mode="eval").body
            if isinstance(node, ast.Subscript):
                yield access_of(node)

    @property
    def possible(self) -> frozenset[str]:
        """What is evaluated in some case."""
        return frozenset[str]().union(*self.outcomes)


def parts_of(model: Model, statement: Statement) -> Iterator[Part]:
    """The iterations of a statement, by what they evaluate; nothing is known of an opaque one."""
    if statement.opaque:
        yield Part(statement, model.domains[statement.name], frozenset(), frozenset())
        return
    for iterations, value in _pieces(model.domains[statement.name], statement, _value(statement)):
        try:
            outcomes = _outcomes(value)
        except _TooMany:
            outcomes = frozenset[_Outcome]()
        evaluated = frozenset(outcome.evaluated for outcome in outcomes)
        yield Part(statement, iterations, evaluated, frozenset(outcome.text for outcome in outcomes))


def is_operation(node: ast.expr) -> bool:
    """Whether it is a `+ - * / // % **` or a call of a mathematical function."""
    match node:
        case ast.BinOp():
            return True
        case ast.Call(func=ast.Attribute(attr=name)) | ast.Call(func=ast.Name(id=name)):
            return name in COUNTED_CALLS
        case _:
            return False


def access_of(node: ast.Subscript) -> Access:
    """The read that an element in a body stands for."""
    indices = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    return Access(ast.unparse(node.value), tuple(str(affine(index, _variable)) for index in indices), is_write=False)


def _value(statement: Statement) -> ast.expr:
    """What a statement assigns, without its shorthand: `x + y` of `x += y`."""
    match ast.parse(statement.body).body[0]:
        case ast.AugAssign(target=target, op=operator, value=value):
            return ast.BinOp(_loaded(target), operator, value)
        case ast.Assign(value=value):
            return value
        case other:
            raise ValueError(f"{statement.name} is no assignment: {ast.unparse(other)}")


def _loaded(target: ast.expr) -> ast.expr:
    return ast.parse(ast.unparse(target), mode="eval").body


def _variable(node: ast.expr) -> Affine | None:
    """In bodies every other name is replaced in subscripts."""
    return variable(node.id) if isinstance(node, ast.Name) else None


def _pieces(iterations: isl.Set, statement: Statement, value: ast.expr) -> Iterator[tuple[isl.Set, ast.expr]]:
    """The iterations split by every comparison of loop variables and sizes, which is replaced by how it turns out."""
    for node in ast.walk(value):
        if isinstance(node, ast.Compare) and (holds := _affine(node, iterations, statement)) is not None:
            for truth, part in ((True, iterations.intersect(holds)), (False, iterations.subtract(holds))):
                if not part.is_empty():
                    yield from _pieces(part, statement, _Decided(ast.unparse(node), truth).visit(_loaded(value)))
            return
    yield iterations, value


def _affine(node: ast.Compare, iterations: isl.Set, statement: Statement) -> isl.Set | None:
    """Where an affine comparison holds; None if it is none."""
    parameters = [iterations.get_dim_name(isl.dim_type.param, k) for k in range(iterations.dim(isl.dim_type.param))]
    try:
        found = condition(node, _variable)
    except NotAffine:
        return None
    if not found.names.issubset({*parameters, *statement.iterators}):
        return None
    iteration = f"{statement.name}[{', '.join(statement.iterators)}]"
    return isl.Set(f"[{', '.join(map(str, parameters))}] -> {{ {iteration} : {found.text} }}")


class _Decided(ast.NodeTransformer):
    """Puts its truth in the place of a comparison."""

    def __init__(self, comparison: str, truth: bool) -> None:
        self.comparison, self.truth = comparison, truth

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        if ast.unparse(node) == self.comparison:
            return ast.Constant(self.truth)
        self.generic_visit(node)
        return node


class _TooMany(Exception):
    """An expression has more outcomes than are worth listing."""


@dataclass(frozen=True, slots=True)
class _Outcome:
    """One way to evaluate an expression."""

    text: str
    """The expression without what was decided."""
    evaluated: frozenset[str]

    @property
    def node(self) -> ast.expr:
        return ast.parse(self.text, mode="eval").body

    @property
    def truth(self) -> bool | None:
        """Whether it is true, if that is known."""
        return bool(self.node.value) if isinstance(self.node, ast.Constant) else None

    def after(self, *others: _Outcome) -> _Outcome:
        return _Outcome(self.text, self.evaluated.union(*(other.evaluated for other in others)))


def _outcomes(node: ast.expr) -> frozenset[_Outcome]:
    """Every way to evaluate an expression. That two conditions may exclude each other is not seen."""
    found: set[_Outcome] = set()
    for outcome in _each_outcome(node):
        found.add(outcome)
        if len(found) > MOST_OUTCOMES:
            raise _TooMany
    return frozenset(found)


def _each_outcome(node: ast.expr) -> Iterator[_Outcome]:
    match node:
        case ast.IfExp(test=test, body=body, orelse=orelse):
            for tested in _outcomes(test):
                sides = {True: [body], False: [orelse], None: [body, orelse]}[tested.truth]
                yield from (outcome.after(tested) for side in sides for outcome in _outcomes(side))
        case ast.BoolOp(values=[only]):
            yield from _outcomes(only)
        case ast.BoolOp(op=operator, values=[first, *rest]):
            ends_at = isinstance(operator, ast.Or)
            for begun in _outcomes(first):
                if begun.truth in (ends_at, None):
                    yield begun
                if begun.truth in (not ends_at, None):
                    yield from (outcome.after(begun) for outcome in _outcomes(ast.BoolOp(operator, rest)))
        case ast.Compare(left=left, ops=[_, *others], comparators=[right, *rest]):
            for sides in _combined([left, right]):
                yield _Outcome("False", frozenset()).after(*sides)
                further = _outcomes(ast.Compare(right, others, rest)) if rest else [_Outcome("True", frozenset())]
                yield from (outcome.after(*sides) for outcome in further)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            for outcome in _outcomes(operand):
                truths = (True, False) if outcome.truth is None else (not outcome.truth,)
                yield from (_Outcome(str(truth), outcome.evaluated) for truth in truths)
        case ast.BinOp(left=left, op=operator, right=right):
            for first, second in _combined([left, right]):
                yield _done(ast.BinOp(first.node, operator, second.node), [first, second])
        case ast.UnaryOp(op=operator, operand=operand):
            yield from (_done(ast.UnaryOp(operator, outcome.node), [outcome]) for outcome in _outcomes(operand))
        case ast.Call(func=function, args=arguments):
            for outcomes in _combined(arguments):
                yield _done(ast.Call(function, [outcome.node for outcome in outcomes], []), outcomes)
        case _:
            yield _done(node, [])


def _combined(nodes: Iterable[ast.expr]) -> list[tuple[_Outcome, ...]]:
    """Every way to evaluate all of them."""

    def extended(begun: list[tuple[_Outcome, ...]], node: ast.expr) -> list[tuple[_Outcome, ...]]:
        ways = [(*outcomes, outcome) for outcomes in begun for outcome in _outcomes(node)]
        if len(ways) > MOST_OUTCOMES:
            raise _TooMany
        return ways

    return reduce(extended, nodes, [()])


def _done(node: ast.expr, operands: Iterable[_Outcome]) -> _Outcome:
    text = ast.unparse(node)
    own = {text} if is_operation(node) or isinstance(node, ast.Subscript) else set[str]()
    return _Outcome(text, frozenset(own)).after(*operands)
