"""Questions about a schedule tree and pure changes of it that several steps need."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from collections.abc import Sequence as Ordered
from dataclasses import replace

from optimizer.errors import StepError
from optimizer.polyhedral.nest import Nest
from optimizer.polyhedral.tree import Leaf, Loop, Node, Sequence, find_loop, leaves, loops, map_leaves, path_to

MOST_LOOPS_AROUND = 16
"""Python allows 20 blocks inside each other."""
MOST_LEAVES = 128
LONGEST_VALUE = 2_000
"""Characters of a loop's value."""


def check_size(tree: Node) -> None:
    """Refuse a tree that only a runaway schedule makes: each repeated skew or split can double it."""
    found = tuple(leaves(tree))
    if len(found) > MOST_LEAVES:
        raise StepError(f"the schedule would have {len(found)} parts of statements, at most {MOST_LEAVES} are allowed")
    for leaf in found:
        if len(leaf.values) > MOST_LOOPS_AROUND:
            raise StepError(
                f"{leaf.statement} would be in {len(leaf.values)} loops, at most {MOST_LOOPS_AROUND} may be"
            )
        if any(len(text) > LONGEST_VALUE for text in (*leaf.values.values(), *leaf.where)):
            raise StepError(f"the expressions of the loops around {leaf.statement} would become too long")


def check_vectors(tree: Node) -> None:
    """Refuse a tree in which a vectorized loop is not innermost."""
    for loop in loops(tree):
        if loop.vector != 1 and (inside := loop_inside(loop)):
            raise StepError(
                f"{loop.name} is vectorized, and {inside} would be inside it: vectorize when it is innermost"
            )


def loop_inside(loop: Loop) -> str | None:
    """A loop inside it that the code runs as a loop."""
    return next((inner.name for inner in loops(loop.body) if inner.unroll == 1), None)


def loop_named(tree: Node, name: str) -> Loop:
    """The loop of that name; StepError names the loops there are."""
    loop = find_loop(tree, name)
    if loop is None:
        names = [loop.name for loop in loops(tree)]
        listing = f"the loops are {', '.join(names)}" if names else "there are no loops"
        raise StepError(f"there is no loop {name}; {listing}", tuple(difflib.get_close_matches(name, names)))
    return loop


def around(tree: Node, name: str) -> tuple[Loop, ...]:
    """The loops that the loop of that name is in, outermost first."""
    return tuple(node for node in path_to(tree, name)[:-1] if isinstance(node, Loop))


def chain_of(tree: Node, names: Collection[str]) -> tuple[Loop, ...]:
    """All loops from the outermost to the innermost of the named ones, which must be perfectly nested."""
    for name in names:
        loop_named(tree, name)
    innermost = max(names, key=lambda name: len(path_to(tree, name)))
    path = path_to(tree, innermost)
    on_path = [node.name for node in path if isinstance(node, Loop)]
    for name in names:
        if name not in on_path:
            raise StepError(f"{name} and {innermost} are not nested in one another: {name} is {_place(tree, name)}")
    first = next(index for index, node in enumerate(path) if isinstance(node, Loop) and node.name in names)
    chain: list[Loop] = []
    for node in path[first:]:
        if isinstance(node, Sequence):
            distribute = f"distribute({chain[-1].name})"
            raise StepError(
                f"{innermost} is not perfectly nested in {chain[0].name}: {chain[-1].name} has several parts",
                (distribute,),
            )
        chain.append(node)
    return tuple(chain)


def _place(tree: Node, name: str) -> str:
    outside = around(tree, name)
    return f"in {' '.join(loop.name for loop in outside)}" if outside else "an outermost loop"


def chains(tree: Node) -> Iterator[tuple[Loop, ...]]:
    """The longest perfectly nested chains of loops; each loop is in exactly one."""
    match tree:
        case Leaf():
            return
        case Sequence():
            for part in tree.parts:
                yield from chains(part)
        case Loop():
            chain = [tree]
            while isinstance(body := chain[-1].body, Loop):
                chain.append(body)
            yield tuple(chain)
            yield from chains(body)


def nested(chain: Ordered[Loop], body: Node) -> Node:
    """The loops inside each other, the first outermost, around the body."""
    for loop in reversed(chain):
        body = replace(loop, body=body)
    return body


def change_values(node: Node, change: Callable[[Leaf], Mapping[str, str]]) -> Node:
    """The same tree where every leaf has, in addition or instead, the values that `change` gives."""
    return map_leaves(node, lambda leaf: replace(leaf, values={**leaf.values, **change(leaf)}))


def rename_loops(node: Node, names: Mapping[str, str]) -> Node:
    """The same tree under new loop names, in the loops and in the values of the leaves."""
    match node:
        case Leaf():
            return replace(node, values={names.get(loop, loop): value for loop, value in node.values.items()})
        case Loop():
            return replace(node, name=names.get(node.name, node.name), body=rename_loops(node.body, names))
        case Sequence():
            return Sequence(tuple(rename_loops(part, names) for part in node.parts))


def fresh_names(nest: Nest, tree: Node, wanted: Ordered[str]) -> tuple[str, ...]:
    """Each wanted name, or it with the first suffix (`j_2`, `j_3`) that nothing in the kernel is called.

    The loops of the source count although they may be gone: their names stand in the values of the leaves.
    """
    taken = {loop.name for loop in loops(tree)}
    taken.update(
        nest.parameters,
        (loop.name for loop in nest.loops),
        (a.name for a in nest.arguments),
        (a.name for a in nest.arrays),
    )
    chosen: list[str] = []
    for name in wanted:
        number, fresh = 1, name
        while fresh in taken:
            number += 1
            fresh = f"{name}_{number}"
        taken.add(fresh)
        chosen.append(fresh)
    return tuple(chosen)


def without_number(name: str) -> str:
    """The name that the copies of a loop are numbered from: `i` of `i_2`."""
    return re.sub(r"_\d+$", "", name) or name


def tile_name(name: str) -> str:
    """`i_t` for the tiles of `i`, `i_tt` for the tiles of those."""
    return f"{name}t" if re.search(r"_t+$", name) else f"{name}_t"


def map_sequences(node: Node, change: Callable[[Sequence], Node]) -> Node:
    """The same tree with every sequence changed, inner before outer."""
    match node:
        case Leaf():
            return node
        case Loop():
            return replace(node, body=map_sequences(node.body, change))
        case Sequence():
            return change(Sequence(tuple(map_sequences(part, change) for part in node.parts)))


def part_name(part: Node) -> str:
    """What a part of a sequence is called in messages: its loop or its statement."""
    return part.name if isinstance(part, Loop) else next(leaves(part)).statement


def check_part_exists(tree: Node, name: str) -> None:
    """Refuse a name that is neither; the message names what there is."""
    statements = list(dict.fromkeys(leaf.statement for leaf in leaves(tree)))
    names = [*(loop.name for loop in loops(tree)), *statements]
    if name not in names:
        near = tuple(difflib.get_close_matches(name, names))
        raise StepError(f"there is no loop or statement {name}; there are {', '.join(names) or 'none'}", near)


def refuse_parallel_near(tree: Node, name: str) -> None:
    """One loop of a nest runs on threads, not several inside each other."""
    loop = loop_named(tree, name)
    if loop.is_parallel:
        raise StepError(f"{name} is parallel already")
    if loop.unroll != 1:
        raise StepError(f"{name} is unrolled, so it cannot be parallel")
    if loop.vector != 1:
        raise StepError(f"{name} is vectorized, so it cannot be parallel")
    for other in around(tree, name):
        if other.is_parallel:
            raise StepError(f"{other.name} around {name} is parallel already: only one of them can be")
    for other in loops(loop.body):
        if other.is_parallel:
            raise StepError(f"{other.name} inside {name} is parallel already: only one of them can be")


def can_be_parallel(tree: Node, name: str) -> bool:
    try:
        refuse_parallel_near(tree, name)
    except StepError:
        return False
    return True
