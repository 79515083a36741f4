"""Faults of vectors of which only some lanes run: lanes too many, too few or of another vector, elements beside."""

from __future__ import annotations

import ast
from collections.abc import Callable

from tests.mutants.fault import Fault, at_each
from tests.mutants.site import Site, called, expression
from tests.mutants.vector_faults import drop, is_call, shift


def is_masked_store(site: Site) -> bool:
    return isinstance(site.node, ast.Expr) and called(site.node.value) == "store_masked"


def move_limit(number: int, by: str) -> Callable[[Site], object]:
    """Another first lane that runs, or another one behind the last."""

    def change(site: Site) -> None:
        assert isinstance(site.node, ast.Call)
        site.node.args[number] = expression(f"LIMIT {by}", LIMIT=site.node.args[number])

    return change


def other_mask(site: Site) -> bool:
    """The mask of another vector."""
    assert isinstance(site.node, ast.Call)
    mask = site.node.args[-1]
    masks = sorted(
        node.targets[0].id
        for node in ast.walk(site.function)
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and called(node.value) == "lanes_between"
    )
    if not isinstance(mask, ast.Name) or len(set(masks)) < 2:
        return False
    mask.id = masks[(masks.index(mask.id) + 1) % len(masks)]
    return True


LANES_ARE_FREE = "the lanes in question compute what is there already, or all run"

MASK_FAULTS = (
    Fault(
        "masked-loaded-late",
        "a vector with a mask is loaded one element too late",
        at_each(is_call("load_masked", "gather_masked"), shift("+ 1")),
        "all elements are equal",
    ),
    Fault(
        "masked-stored-late",
        "a vector with a mask is stored one element too late",
        at_each(is_call("store_masked"), shift("+ 1")),
    ),
    Fault(
        "masked-stored-early",
        "a vector with a mask is stored one element too early",
        at_each(is_call("store_masked"), shift("- 1")),
    ),
    Fault("masked-not-stored", "a vector with a mask is not stored", at_each(is_masked_store, drop)),
    Fault(
        "mask-too-wide",
        "a lane runs behind the last one",
        at_each(is_call("lanes_between"), move_limit(2, "+ 1")),
        LANES_ARE_FREE,
    ),
    Fault("mask-too-narrow", "the last lane does not run", at_each(is_call("lanes_between"), move_limit(2, "- 1"))),
    Fault("mask-starts-late", "the first lane does not run", at_each(is_call("lanes_between"), move_limit(1, "+ 1"))),
    Fault(
        "other-mask",
        "a vector has another one's mask",
        at_each(is_call("load_masked", "store_masked"), other_mask),
        LANES_ARE_FREE,
    ),
)
