"""The outermost possible loops on threads, and vectors where compilers make none by themselves."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import replace

from optimizer.polyhedral.locality import START_OF_THREADS, tree_price
from optimizer.polyhedral.steps.reorder import Reorder
from optimizer.polyhedral.steps.structure import around, chains
from optimizer.polyhedral.steps.vectorize import Vectorize
from optimizer.polyhedral.steps.wavefront import Wavefront
from optimizer.polyhedral.templates.draft import Draft
from optimizer.polyhedral.templates.orders import in_three_parts
from optimizer.polyhedral.tree import Leaf, Loop, Node, Sequence, find_loop, leaves, loops
from optimizer.polyhedral.vector_form import ROUNDED_ANEW, VECTOR_FUNCTIONS


def on_threads(draft: Draft, sizes: Mapping[str, int]) -> Draft:
    """Each part of the tree without threads gives its outermost possible loop to them, unless it is brief."""
    for name in tuple(_outermost(draft.tree)):
        loop = find_loop(draft.tree, name)
        if loop is None or any(inner.is_parallel for inner in loops(loop)):
            continue
        if any(loops(loop.body)) or tree_price(draft.model, loop, sizes, draft.is_parallel, 1) > START_OF_THREADS:
            draft = _with_threads(draft, name) or draft
    return draft


def with_vectors(draft: Draft) -> Iterator[Draft]:
    """The draft with vectors where statements choose between values, or call functions like `exp`, of which compilers
    rarely make vectors; all else they do by themselves."""
    result = draft
    for *_, innermost in tuple(chains(draft.tree)):
        statements = {leaf.statement for leaf in leaves(innermost)}
        choose = any(_chooses(draft.model.nest.statement(name).body) for name in statements)
        if choose and innermost.vector == 1 and not innermost.is_parallel and not any(loops(innermost.body)):
            result = _vectorized(result, innermost.name) or result
    if result is not draft:
        yield result


def _vectorized(draft: Draft, loop: str) -> Draft | None:
    """The loop as vectors, if need be without the iteration that the others wait for."""
    whole = draft.then(Vectorize(loop))
    if whole is not None:
        return whole
    for outer in around(draft.tree, loop):
        parts = in_three_parts(draft, loop, outer.name)
        vectors = None if parts is None else parts.then(Vectorize(loop))
        if parts is not None and vectors is not None:
            return vectors.then(Vectorize(parts.new_loops(draft)[-1])) or vectors
    return None


def _chooses(body: str) -> bool:
    return any(
        isinstance(node, ast.IfExp)
        or (isinstance(node, ast.Name) and node.id in ("min", "max"))
        or (isinstance(node, ast.Call) and VECTOR_FUNCTIONS.get(ast.unparse(node.func)) in ROUNDED_ANEW)
        for node in ast.walk(ast.parse(body))
    )


def _outermost(node: Node) -> Iterator[str]:
    match node:
        case Leaf():
            return
        case Loop():
            yield node.name
        case Sequence():
            for part in node.parts:
                yield from _outermost(part)


def _with_threads(draft: Draft, name: str) -> Draft | None:
    """The loop parallel; or another of its chain moved out; or a wavefront of tiles; or the loops inside it."""
    if draft.is_parallel(name):
        return draft.with_threads_on(name)
    nested = next(nested for nested in chains(draft.tree) if name in (loop.name for loop in nested))
    names = [loop.name for loop in nested]
    for other in names[1:]:
        if draft.is_parallel(other):
            moved = draft.then(Reorder((other, *(n for n in names if n != other))))
            if moved is not None and moved.is_parallel(other):
                return moved.with_threads_on(other)
    tiles = [loop for loop in names if loop.endswith("_t")]
    if len(tiles) >= 2:
        for second in tiles[1:]:
            waved = draft.then(Wavefront(tiles[0], second))
            if waved is not None:
                return waved
    result = draft
    loop = find_loop(draft.tree, name)
    for inner in _outermost(loop.body) if loop is not None else ():
        result = _with_threads(result, inner) or result
    return None if result is draft else replace(result)
