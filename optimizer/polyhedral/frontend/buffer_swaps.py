"""Arrays that change places at the end of each time step: `u, v = v, u` in a loop.

    for t in range(n): v[1:-1] = f(u); u, v = v, u

What a name stands for repeats every two steps (every `k` for `k` arrays in turn), so the loop does so many in one go,
and what is left of them after it. A name that is read after the loop gets an array of its own there.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from optimizer.polyhedral.frontend.copying import copied
from optimizer.polyhedral.frontend.placing import mentions, placed
from optimizer.polyhedral.frontend.substitution import Substituted

MOST_IN_TURN = 4


class SameType(ast.Assign):
    """An assignment whose sides are arrays of one type."""


@dataclass(frozen=True, slots=True)
class _Swap:
    position: int
    """Of its first line in the loop."""
    lines: int
    sources: Mapping[str, str]
    """Name -> the name whose array it gets."""


def without_swaps(function: ast.FunctionDef, arrays: Collection[str], fresh: Callable[[str], str]) -> None:
    """Replaces loops at the top of a function in which arrays change places; `arrays` are those among the arguments."""
    body = list(function.body)
    for position in range(len(body) - 1, -1, -1):
        loop = body[position]
        if isinstance(loop, ast.For):
            swap = _swap_of(loop, {*arrays, *_subscripted(function)})
            rest = body[position + 1 :]
            if swap is not None and _is_clean(loop, swap) and not _are_changed(rest, swap.sources):
                lines, finals = _unrolled(loop, swap, rest, fresh)
                renamed = Substituted({old: ast.Name(new, ast.Load()) for old, new in finals.items()})
                body[position:] = [*(placed(line, loop) for line in lines), *(renamed.visit(line) for line in rest)]
    function.body = body
    ast.fix_missing_locations(function)


def _subscripted(function: ast.FunctionDef) -> set[str]:
    parts = (node.value for node in ast.walk(function) if isinstance(node, ast.Subscript))
    return {part.id for part in parts if isinstance(part, ast.Name)}


def _swap_of(loop: ast.For, arrays: Collection[str]) -> _Swap | None:
    """The only one in the loop's own lines."""
    found: list[_Swap] = []
    for position, line in enumerate(loop.body):
        match line, loop.body[position : position + 3]:
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)), _:
                names = [part.id for part in targets if isinstance(part, ast.Name)]
                sources = [part.id for part in values if isinstance(part, ast.Name)]
                is_turn = len(set(names)) == len(targets) and sorted(names) == sorted(sources)
                if is_turn and names != sources and arrays.__contains__(names[0]):
                    found.append(_Swap(position, 1, dict(zip(names, sources, strict=True))))
            case _, [
                ast.Assign(targets=[ast.Name(id=kept)], value=ast.Name(id=first)),
                ast.Assign(targets=[ast.Name(id=again)], value=ast.Name(id=second)),
                ast.Assign(targets=[ast.Name(id=last)], value=ast.Name(id=back)),
            ] if again == first and last == second and back == kept and first in arrays:
                found.append(_Swap(position, 3, {first: second, second: first, kept: kept}))
            case _:
                pass
    return found[0] if len(found) == 1 and len(found[0].sources) <= MOST_IN_TURN else None


def _is_clean(loop: ast.For, swap: _Swap) -> bool:
    """Whether it counts one by one, and nothing else in it gives the names another array."""
    match loop:
        case ast.For(
            target=ast.Name(id=counter),
            iter=ast.Call(func=ast.Name(id="range"), args=[_] | [_, _] | [_, _, ast.Constant(value=1)], keywords=[]),
            orelse=[],
        ):
            pass
        case _:
            return False
    others = [*loop.body[: swap.position], *loop.body[swap.position + swap.lines :]]
    kept = [name for name, source in swap.sources.items() if name == source]
    if any(mentions(line, name) for line in others for name in kept):
        return False
    stored = [part.id for line in others for part in ast.walk(line) if _is_stored(part) and isinstance(part, ast.Name)]
    jumps = (ast.Break, ast.Continue, ast.Return, ast.While)
    return (
        counter not in stored
        and not set(stored) & set(swap.sources)
        and not any(isinstance(part, jumps) for line in others for part in ast.walk(line))
    )


def _is_stored(part: ast.AST) -> bool:
    return isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)


def _are_changed(rest: Sequence[ast.stmt], names: Collection[str]) -> bool:
    """Whether what follows changes one of the arrays, which only the loop knows apart."""
    for part in (part for line in rest for part in ast.walk(line)):
        match part:
            case ast.Name(id=name, ctx=ast.Store()) if name in names:
                return True
            case ast.Subscript(ctx=ast.Store()) if any(mentions(part.value, name) for name in names):
                return True
            case ast.Call(keywords=words) if any(
                isinstance(value, ast.Name) and value.id in names for value in (word.value for word in words)
            ):
                return True
            case ast.Expr(value=ast.Call() as call) if any(mentions(call, name) for name in names):
                return True
            case ast.Assign(targets=[ast.Name()], value=value) if any(
                mentions(value, name) for name in names
            ) and not _is_new(value):
                return True
            case _:
                pass
    return False


def _is_new(value: ast.expr) -> bool:
    """Whether it is surely no part of an array in memory."""
    match value:
        case ast.BinOp() | ast.Compare():
            return True
        case ast.Call(func=ast.Attribute(attr=name)):
            return name in {"sum", "mean", "max", "min", "std", "var", "copy", "sqrt", "dot", "abs", "norm"}
        case _:
            return False


def _unrolled(
    loop: ast.For, swap: _Swap, rest: Sequence[ast.stmt], fresh: Callable[[str], str]
) -> tuple[list[ast.stmt], dict[str, str]]:
    """The loop for several steps at once with what is left, and the names that stand for arrays afterwards."""
    turn = {name: source for name, source in swap.sources.items() if name != source}
    meanings = [{name: name for name in turn}]
    while (after := {name: meanings[-1][source] for name, source in turn.items()}) != meanings[0]:
        meanings.append(after)
    steps = len(meanings)
    assert isinstance(loop.iter, ast.Call)
    assert isinstance(loop.target, ast.Name)
    bounds = [ast.unparse(bound) for bound in loop.iter.args[:2]]
    low, high = ("0", bounds[0]) if len(bounds) == 1 else bounds
    count = f"({high} - ({low}))" if low != "0" else f"({high})"
    group = fresh(loop.target.id if loop.target.id != "_" else "step")
    lines = [_for(group, f"{count} // {steps}")]
    for k in range(steps):
        lines[0].body += _step(loop, swap, meanings, k, f"{low} + {steps} * {group} + {k}")
    tree: list[ast.stmt] = list(lines)
    for k in range(steps - 1):
        test = f"{high} > {low} and {count} % {steps} >= {k + 1}"
        at = f"{high} - {count} % {steps} + {k}"
        tree.append(ast.If(_parsed(test), _step(loop, swap, meanings, k, at), []))
    finals: dict[str, str] = {}
    for name in turn:
        if any(mentions(line, name) for line in rest):
            finals[name] = fresh(name)
            tree += _final(finals[name], name, meanings, f"{high} > {low}", f"{count} % {steps}")
    return tree, finals


def _step(loop: ast.For, swap: _Swap, meanings: Sequence[Mapping[str, str]], k: int, at: str) -> list[ast.stmt]:
    """One step of the loop, the k-th of those that are done in one go."""
    assert isinstance(loop.target, ast.Name)
    parts = (loop.body[: swap.position], loop.body[swap.position + swap.lines :])
    lines: list[ast.stmt] = []
    for part, meaning in zip(parts, (meanings[k], meanings[(k + 1) % len(meanings)]), strict=True):
        values: dict[str, ast.expr] = {name: ast.Name(other, ast.Load()) for name, other in meaning.items()}
        values[loop.target.id] = _parsed(at)
        lines += [Substituted(values).visit(copied(line)) for line in part]
    return lines


def _final(new: str, name: str, meanings: Sequence[Mapping[str, str]], some: str, rest: str) -> list[ast.stmt]:
    """An array with what the name stands for after the loop."""
    lines: list[ast.stmt] = [ast.Assign([ast.Name(new, ast.Store())], _parsed(f"{name}.copy()"))]
    for k in range(1, len(meanings)):
        stored = ast.Subscript(ast.Name(new, ast.Load()), ast.Constant(Ellipsis), ast.Store())
        store = SameType([stored], ast.Name(meanings[k][name], ast.Load()))
        lines.append(ast.If(_parsed(f"{some} and {rest} == {k}"), [store], []))
    return lines


def _for(name: str, count: str) -> ast.For:
    return ast.For(ast.Name(name, ast.Store()), _parsed(f"range({count})"), [], [])


def _parsed(text: str) -> ast.expr:
    """An expression without a place of its own."""
    found = ast.parse(text, mode="eval").body
    for part in ast.walk(found):
        for attribute in ("lineno", "col_offset", "end_lineno", "end_col_offset"):
            part.__dict__.pop(attribute, None)
    return found
