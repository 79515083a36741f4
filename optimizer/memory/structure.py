"""When two nests are alike: digests of their polyhedral structure that no choice of names changes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count

import islpy as isl

from optimizer.candidate import digest_of
from optimizer.polyhedral.nest import Nest, Statement
from optimizer.polyhedral.tree import loops, show

_NAME = re.compile(r"[^\W\d]\w*")


@dataclass(frozen=True, slots=True)
class Structure:
    """A nest without its names."""

    structure: str
    """Digest of the tree, the iterations of each statement and what each of its accesses touches, in source order."""
    shape: str
    """Digest of the tree and the iterations alone: the same loops, whatever is computed in them."""
    places: Mapping[str, str]
    """Every name of a statement, size or array -> what it is called by its place: `statement0`, `size1`."""


def structure_of(nest: Nest) -> Structure:
    """The structure of a nest. Its function, arguments, types and arithmetic make no difference."""
    tree = show(nest.tree)
    places = {
        **{loop.name: f"loop{k}" for k, loop in enumerate(loops(nest.tree))},
        **{statement.name: f"statement{k}" for k, statement in enumerate(nest.statements)},
    }
    sizes = _numbered(nest.parameters, [tree, *_texts(nest)], "size")
    arrays = _numbered([array.name for array in nest.arrays], list(_texts(nest)), "array")
    places |= sizes | arrays
    prefix = f"[{', '.join(sizes.values())}] ->"
    iterations = [str(isl.Set(f"{prefix} {_placed(s.domain[s.domain.index('{') :], places)}")) for s in nest.statements]
    accesses = [_accesses(statement, prefix, places) for statement in nest.statements]
    shape = "\n".join([_placed(tree, places), *iterations])
    return Structure(
        structure=digest_of("\n".join([shape, *accesses])),
        shape=digest_of(shape),
        places={name: place for name, place in places.items() if place.startswith(("statement", "size", "array"))},
    )


def _texts(nest: Nest) -> Iterator[str]:
    """Where sizes and arrays are named, in source order."""
    for statement in nest.statements:
        yield statement.domain[statement.domain.index("{") :]
    for statement in nest.statements:
        for access in statement.accesses:
            yield f"{access.array}[{', '.join(access.subscripts)}]"


def _numbered(names: Iterator[str] | list[str] | tuple[str, ...], texts: list[str], kind: str) -> dict[str, str]:
    """Names by the order in which they first appear in the texts, those that do not appear last."""
    known = set(names)
    found = dict.fromkeys(name for text in texts for name in _NAME.findall(text) if name in known)
    number = count()
    return {name: f"{kind}{next(number)}" for name in [*found, *(name for name in names if name not in found)]}


def _accesses(statement: Statement, prefix: str, places: Mapping[str, str]) -> str:
    instance = f"{statement.name}[{', '.join(statement.iterators)}]"
    lines: list[str] = []
    for access in statement.accesses:
        relation = _placed(f"{{ {instance} -> {access.array}[{', '.join(access.subscripts)}] }}", places)
        lines.append(f"{'write' if access.is_write else 'read'} {isl.Map(f'{prefix} {relation}')}")
    return "\n".join(lines)


def _placed(text: str, places: Mapping[str, str]) -> str:
    return _NAME.sub(lambda match: places.get(match.group(), match.group()), text)
