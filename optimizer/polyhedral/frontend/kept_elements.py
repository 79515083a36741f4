"""`y[i] = v if test else y[i]` keeps an element: something must have been written to it before."""

from __future__ import annotations

import ast

import islpy as isl

from optimizer.polyhedral.frontend.drafts import Draft
from optimizer.polyhedral.frontend.limits import limited
from optimizer.polyhedral.frontend.scalars import example_sizes
from optimizer.polyhedral.frontend.source import Source
from optimizer.polyhedral.nest import Access, Nest, Role
from optimizer.polyhedral.order import instance_tuple, order_map


def check_kept(nest: Nest, drafts: list[Draft], source: Source) -> None:
    """Checks the choices whose alternative is the element that is assigned.

    Raises:
        SourceError: for an element of memory that `np.empty` made and nothing has written.
    """
    unset = {array.name for array in nest.arrays if array.role is Role.LOCAL and array.fill == "empty"}
    kept = [(draft, access) for draft in drafts if (access := _kept(draft)) and access.array in unset]
    if not kept:
        return
    with limited(nest.file, "find out which elements of an array have been written"):
        order = order_map(nest, nest.tree).intersect_params(isl.Set(nest.context))
        for draft, access in kept:
            unwritten = _unwritten(nest, order, draft, access)
            if not unwritten.is_empty():
                assert isinstance(draft.node, ast.Assign)
                shown = ast.unparse(draft.node.targets[0])
                message = (
                    f"`{shown}` keeps what it held, and nothing may have been written to it{example_sizes(unwritten)}"
                )
                hint = f"make `{access.array}` by `np.zeros`, or assign its elements in both cases"
                raise source.error(draft.source, message, hint)


def _kept(draft: Draft) -> Access | None:
    """The element that a statement may leave as it is."""
    match draft.node:
        case _ if draft.opaque:
            return None
        case ast.Assign(targets=[ast.Subscript() as target], value=ast.IfExp(body=body, orelse=orelse)):
            if ast.unparse(target) in (ast.unparse(body), ast.unparse(orelse)):
                return next(access for access in draft.accesses if access.is_write)
        case _:
            pass
    return None


def _unwritten(nest: Nest, order: isl.UnionMap, draft: Draft, kept: Access) -> isl.Set:
    """The iterations of the statement before which nothing writes the element."""
    domain = isl.Set(nest.statement(draft.name).domain).intersect_params(isl.Set(nest.context))
    read = _relation(nest, draft.name, kept)
    written = isl.UnionMap.empty(order.get_space())
    for statement in (statement for statement in nest.statements if not statement.opaque):
        for access in statement.accesses:
            if access.is_write and access.array == kept.array:
                written = written.union(_relation(nest, statement.name, access))
    own = order.intersect_domain(isl.UnionSet.from_set(domain))
    before = own.lex_gt_union_map(order).intersect(read.apply_range(written.reverse()))
    return isl.UnionSet.from_set(domain).subtract(before.domain()).params()


def _relation(nest: Nest, statement: str, access: Access) -> isl.UnionMap:
    element = f"{access.array}[{', '.join(access.subscripts)}]"
    return isl.UnionMap(f"[{', '.join(nest.parameters)}] -> {{ {instance_tuple(nest, statement)} -> {element} }}")
