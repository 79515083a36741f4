"""isl's AST, converted to ours. All that isl leaves untyped stays in this file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import islpy as isl

from optimizer.codegen.affine import (
    Affine,
    AllOf,
    AnyOf,
    Comparison,
    Condition,
    Relation,
    choice,
    floor_division,
    largest,
    number,
    remainder,
    smallest,
    variable,
)
from optimizer.codegen.loop_ast import Call, For, If, LoopNode, block_of, substitute_names
from optimizer.errors import CandidateError
from optimizer.polyhedral.tree import Loop

_Kind: Any = isl.ast_expr_op_type
_NodeKind: Any = isl.ast_node_type


def loop_ast_of(node: Any, loops: Mapping[str, Loop]) -> LoopNode:
    """Our loops for isl's; `loops` are those of the schedule by name."""
    return _node(node, loops, {})


def _node(node: Any, loops: Mapping[str, Loop], loop_of: Mapping[str, Loop]) -> LoopNode:
    """`loop_of`: the schedule's loop for each of isl's iterators here."""
    match node.get_type():
        case _NodeKind.mark:
            name, _, iterator = str(node.mark_get_id().get_name()).rpartition("@")
            return _node(node.mark_get_node(), loops, {**loop_of, iterator: loops[name]})
        case _NodeKind.block:
            children = node.block_get_children()
            parts = (children.get_at(position) for position in range(children.n_ast_node()))
            return block_of(*(_node(part, loops, loop_of) for part in parts))
        case _NodeKind.if_:
            return If(
                condition_of(node.if_get_cond()),
                _node(node.if_get_then_node(), loops, loop_of),
                _node(node.if_get_else_node(), loops, loop_of) if node.if_has_else_node() else None,
            )
        case _NodeKind.for_:
            return _for(node, loops, loop_of)
        case _NodeKind.user:
            call = node.user_get_expr()
            name, *arguments = _operands(call)
            return Call(str(name.get_id().get_name()), tuple(expression_of(argument) for argument in arguments))
        case kind:
            raise CandidateError(f"code generation gave up: isl made a node of kind {kind}")


def _for(node: Any, loops: Mapping[str, Loop], loop_of: Mapping[str, Loop]) -> LoopNode:
    iterator = str(node.for_get_iterator().get_id().get_name())
    loop = loop_of[iterator]
    start = expression_of(node.for_get_init())
    body = _node(node.for_get_body(), loops, loop_of)
    if node.for_is_degenerate():
        return substitute_names(body, {iterator: start})
    return For(
        loop.name,
        iterator,
        start,
        _exclusive_bound(node.for_get_cond()),
        expression_of(node.for_get_inc()).constant,
        body,
        loop.is_parallel,
        loop.from_ends,
        loop.chunk,
        loop.unroll,
        loop.vector,
        loop.partials,
        loop.packs,
        loop.streams,
    )


def _exclusive_bound(condition: Any) -> Affine:
    bound = expression_of(condition.get_op_arg(1))
    return bound if condition.get_op_type() == _Kind.lt else bound + number(1)


def _operands(expression: Any) -> list[Any]:
    return [expression.get_op_arg(position) for position in range(expression.get_op_n_arg())]


def expression_of(expression: Any) -> Affine:
    """Ours for isl's integer expression. Raises CandidateError for one that we have no word for."""
    match expression.get_type():
        case isl.ast_expr_type.int:
            return number(int(expression.get_val().to_python()))
        case isl.ast_expr_type.id:
            return variable(str(expression.get_id().get_name()))
        case _:
            pass
    operands = _operands(expression)
    match expression.get_op_type():
        case _Kind.add:
            return expression_of(operands[0]) + expression_of(operands[1])
        case _Kind.sub:
            return expression_of(operands[0]) - expression_of(operands[1])
        case _Kind.minus:
            return expression_of(operands[0]).times(-1)
        case _Kind.mul:
            left, right = (expression_of(operand) for operand in operands)
            if left.terms and right.terms:
                raise CandidateError("code generation gave up: isl multiplied two variables")
            return right.times(left.constant) if not left.terms else left.times(right.constant)
        case _Kind.div | _Kind.fdiv_q | _Kind.pdiv_q:
            return floor_division(expression_of(operands[0]), expression_of(operands[1]).constant)
        case _Kind.pdiv_r | _Kind.zdiv_r:
            return remainder(expression_of(operands[0]), expression_of(operands[1]).constant)
        case _Kind.min:
            return smallest(*(expression_of(operand) for operand in operands))
        case _Kind.max:
            return largest(*(expression_of(operand) for operand in operands))
        case _Kind.cond | _Kind.select:
            condition, then, otherwise = operands
            return choice(condition_of(condition), expression_of(then), expression_of(otherwise))
        case kind:
            raise CandidateError(f"code generation gave up: isl made an expression of kind {kind}")


_RELATIONS = {
    _Kind.eq: Relation.EQUAL,
    _Kind.lt: Relation.LESS,
    _Kind.le: Relation.LESS_EQUAL,
    _Kind.gt: Relation.GREATER,
    _Kind.ge: Relation.GREATER_EQUAL,
}


def condition_of(expression: Any) -> Condition:
    """Ours for isl's truth value. Raises CandidateError for one that we have no word for."""
    if expression.get_type() == isl.ast_expr_type.int:
        return AllOf(()) if int(expression.get_val().to_python()) else AnyOf(())
    operands = _operands(expression)
    match expression.get_op_type():
        case _Kind.and_ | _Kind.and_then:
            return AllOf(tuple(condition_of(operand) for operand in operands))
        case _Kind.or_ | _Kind.or_else:
            return AnyOf(tuple(condition_of(operand) for operand in operands))
        case kind if kind in _RELATIONS:
            return _comparison(expression_of(operands[0]), _RELATIONS[kind], expression_of(operands[1]))
        case kind:
            raise CandidateError(f"code generation gave up: isl made a condition of kind {kind}")


def _comparison(left: Affine, relation: Relation, right: Affine) -> Comparison:
    """isl prefers `n >= i + 1` where `i < n` reads better."""
    if relation is Relation.GREATER_EQUAL and right.terms and right.constant > 0:
        return Comparison(right + number(-1), Relation.LESS, left)
    if relation is Relation.LESS_EQUAL and left.terms and left.constant > 0:
        return Comparison(left + number(-1), Relation.LESS, right)
    return Comparison(left, relation, right)
