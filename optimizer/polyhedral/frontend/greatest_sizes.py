"""The size of an array that holds what changes its size from iteration to iteration."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

import islpy as isl

from optimizer.polyhedral.frontend.affine import Affine, Condition, NotAffine, affine, variable


def greatest(extent: Affine, loops: Sequence[str], conditions: Sequence[Condition]) -> Affine | None:
    """The greatest value over all iterations of the loops around, as one expression of sizes; None if it is none.

    `loops` are the names of the loops, `conditions` the bounds of theirs.
    """
    names = extent.names.union(*(condition.names for condition in conditions)) - set(loops)
    where = " and ".join([*(f"({condition.text})" for condition in conditions), f"size = {extent}"])
    found = isl.Set(f"[{', '.join(sorted(names))}] -> {{ [size] : exists {', '.join(loops)} : {where} }}")
    if found.is_empty():
        return None
    text = re.fullmatch(r"(?:\[.*?\] -> )?\{ \[\((.*?)\)\] *(?::.*)?\}", str(found.dim_max(0)))
    if text is None:
        return None
    try:
        return affine(
            ast.parse(text[1], mode="eval").body, lambda node: variable(node.id) if isinstance(node, ast.Name) else None
        )
    except (NotAffine, SyntaxError):
        return None
