"""Puts fences behind loops that write arrays past the caches: see `simd/streaming`.

One stands at the end of what each iteration of a parallel loop runs, since the other threads wait for its end only;
`loops_apart` makes of these one for all iterations of a thread. Elsewhere one stands after the outermost loop that has
no threads inside, before anything that could start some, and before the function returns.
"""

from __future__ import annotations

from dataclasses import replace

from optimizer.codegen.loop_ast import Block, Fence, For, If, LoopNode, block_of, has_parallel_loop, walk


def with_fences(node: LoopNode) -> LoopNode:
    """The finished loops with a fence wherever a thread is done with streaming."""
    if not _streams(node):
        return node
    match node:
        case Block(parts):
            return block_of(*map(with_fences, parts))
        case If(condition, then, otherwise):
            return If(condition, with_fences(then), None if otherwise is None else with_fences(otherwise))
        case For(is_parallel=True):
            return replace(node, body=block_of(node.body, Fence()))
        case For() if has_parallel_loop(node):
            return replace(node, body=with_fences(node.body))
        case _:
            return block_of(node, Fence())


def _streams(node: LoopNode) -> bool:
    return any(isinstance(inner, For) and inner.streams and inner.mask is None for inner in walk(node))
