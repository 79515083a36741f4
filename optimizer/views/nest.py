"""A nest and its analysis: the source with names in the margin, dependences in words, all of it as JSON, its code."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optimizer.wording import table

if TYPE_CHECKING:
    from optimizer.polyhedral.explain import Dependence, Explanation
    from optimizer.polyhedral.nest import Nest
    from optimizer.polyhedral.schedule import Schedule
    from optimizer.polyhedral.tree import Leaf, Loop, Node

MOST_DEPENDENCES = 30
"""With more, the table summarizes them; the JSON lists all."""


def source_listing(nest: Nest) -> str:
    """The loops and statements as they stand in the source, whole, with their names in the margin."""
    lines = {loop.line: loop.name for loop in nest.loops}
    for statement in nest.statements:
        lines[statement.line] = ", ".join(filter(None, (lines.get(statement.line), statement.name)))
    width = max(map(len, lines.values()))
    source = _source_of(nest)
    if not source:
        return "\n".join(f"  line {number:<5}{name}" for number, name in sorted(lines.items()))
    whole = {statement.line for statement in nest.statements if statement.opaque}
    shown = range(min(lines), max(lines.keys() | _ends_of_statements(source, lines, whole)) + 1)
    text = source.split("\n")
    return "\n".join(f"{n:>5}  {lines.get(n, ''):<{width}}  {text[n - 1]}".rstrip() for n in shown)


def _source_of(nest: Nest) -> str:
    path = Path(nest.file)
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def _ends_of_statements(source: str, first_lines: Mapping[int, str], whole: Collection[int]) -> set[int]:
    """The last lines of the statements that begin on these lines; of a loop its body counts, not the loop, unless it is
    one step."""
    statements = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.stmt))
    begun = (node for node in statements if node.lineno in first_lines)
    simple = (node for node in begun if not hasattr(node, "body") or node.lineno in whole)
    return {node.end_lineno or node.lineno for node in simple}


def nest_text(nest: Nest, tree: Node) -> str:
    """The loops after a schedule, one a line, and how they count the iterators of the source.

    Those are marked, because a loop may be called like one and count something else: `S1[i', j'] at i_t = floor(i'/8)`.
    """
    from optimizer.polyhedral.schedule import nest_of

    head = "(i' is what the source's loop i counts; a loop i here counts the same where nothing else is said)"
    return "\n".join([head, *_nest_lines(nest_of(nest, tree), tree, "")])


def _nest_lines(nest: Nest, node: Node, indent: str) -> Iterator[str]:
    from optimizer.polyhedral.tree import Leaf, Loop

    match node:
        case Leaf():
            yield f"{indent}{_leaf_text(nest, node)}"
        case Loop():
            marks = (" parallel" if node.is_parallel else "") + (" from both ends" if node.from_ends else "")
            marks += f" in chunks of {node.chunk}" if node.chunk else ""
            marks += f" ({written_out_text(node)})" if is_written_out(node) else ""
            marks += f" ({vectors_text(node)})" if node.vector != 1 else ""
            marks += " (reduces in any order)" if node.partials != 1 else ""
            yield f"{indent}for {node.name}{marks}"
            yield from _nest_lines(nest, node.body, indent + "  ")
        case _:
            for part in node.parts:
                yield from _nest_lines(nest, part, indent)


def is_written_out(loop: Loop) -> bool:
    """Whether the code has copies of the body instead of this loop, but for what is left over."""
    from optimizer.polyhedral.tree import loops

    return loop.unroll != 1 and not any(loops(loop.body))


def written_out_text(loop: Loop) -> str:
    """How many copies of its body stand in the code."""
    return f"written out: {loop.unroll} copies" if loop.unroll else "written out: all its iterations"


def vectors_text(loop: Loop) -> str:
    """How many of its iterations run at once."""
    return f"vectors of {loop.vector} lanes" if loop.vector else "vectors as wide as the machine's"


def _leaf_text(nest: Nest, leaf: Leaf) -> str:
    iterators = nest.statement(leaf.statement).iterators

    def marked(text: str) -> str:
        return re.sub(r"[^\W\d]\w*", lambda word: f"{word[0]}'" if word[0] in iterators else word[0], text)

    values = [f"{loop} = {marked(value)}" for loop, value in leaf.values.items() if loop != value]
    at = f" at {', '.join(values)}" if values else ""
    where = f" where {' and '.join(map(marked, leaf.where))}" if leaf.where else ""
    own = "".join(f" with its own {each.array} for each {each.loop}'" for each in leaf.private)
    return f"{leaf.statement}[{', '.join(map(marked, iterators))}]{at}{where}{own}"


def names_made(nest: Nest, schedule: Schedule) -> str:
    """`step 1 made: i_t; step 2 made: k_2, j_3, took away: j`: the loops that came and went with each step.

    Up to the first step that cannot be applied; empty when no step makes or takes a name.
    """
    from optimizer.errors import StepError
    from optimizer.polyhedral.schedule import apply_step
    from optimizer.polyhedral.tree import loops

    found: list[str] = []
    tree = nest.tree
    for number, step in enumerate(schedule.steps, start=1):
        try:
            after = apply_step(nest, tree, step)
        except StepError:
            break
        names, were = ([loop.name for loop in loops(each)] for each in (after, tree))
        made, gone = ([name for name in new if name not in old] for new, old in ((names, were), (were, names)))
        parts = [f"made: {', '.join(made)}"] * bool(made) + [f"took away: {', '.join(gone)}"] * bool(gone)
        if parts:
            found.append(f"step {number} {', '.join(parts)}")
        tree = after
    return "; ".join(found)


def summary_of_nest(nest: Nest, explanation: Explanation) -> str:
    """Parallel loops, bands and scalars, one line each."""
    from optimizer.polyhedral.explain import scalars

    bands = ", ".join(f"({', '.join(band)})" for band in explanation.permutable)
    lines = [
        f"parallel    {', '.join(explanation.parallel) or 'none as it stands'}",
        f"permutable  {bands or 'none as it stands'}",
    ]
    groups: dict[tuple[str, ...] | None, list[str]] = {}
    for name, copies in scalars(nest).items():
        groups.setdefault(copies, []).append(name)
    for copies, names in groups.items():
        how = f"with a copy for each {', '.join(copies)}" if copies else "with one value, carried along"
        lines.append(f"scalars     {', '.join(names)} {how}")
    if assumed := assumed_text(nest):
        lines.append(f"assumed     {assumed}")
    return "\n".join([*lines, *opaque_lines(nest)])


def opaque_lines(nest: Nest) -> Iterator[str]:
    """What is not looked into, and why."""
    for statement in nest.statements:
        if statement.opaque:
            yield f"one step    {statement.name} (line {statement.line}): {statement.opaque}"


def assumed_types(nest: Nest) -> dict[str, str]:
    """Arguments of which nothing but their use says the type, and which it is: `float64[n, m]`."""
    assumed = (argument for argument in nest.arguments if argument.is_assumed)
    shapes = {array.name: f"[{', '.join(array.shape)}]" for array in nest.arrays}
    return {argument.name: argument.dtype + shapes.get(argument.name, "") for argument in assumed}


def assumed_text(nest: Nest) -> str:
    """The same in words; empty if there are none."""
    types = assumed_types(nest)
    listed = ", ".join(f"{name}: {kind}" for name, kind in types.items())
    return f"{listed} (annotations would say it for certain)" if types else ""


def dependence_table(dependences: Sequence[Dependence]) -> str:
    """The dependences in words, a row for each pair of statements; for each array and way when that is too much."""
    if not dependences:
        return "no dependences: every order of the iterations is legal"
    pairs: dict[tuple[str, str, str], list[Dependence]] = {}
    ways: dict[tuple[str, str], list[Dependence]] = {}
    for d in dependences:
        pairs.setdefault((d.array, f"{d.source} -> {d.sink}", _way(d) + _distances(d)), []).append(d)
        ways.setdefault((d.array, _way(d)), []).append(d)
    rows = [(array, between, _kinds(group), way) for (array, between, way), group in pairs.items()]
    if is_summarized(dependences):
        rows = [(array, _statements(group), _kinds(group), way) for (array, way), group in ways.items()]
    return table(("array", "dependence", "kind", "how"), rows)


def is_summarized(dependences: Sequence[Dependence]) -> bool:
    """Whether there are too many for a row for each pair of statements."""
    return len({(d.array, d.source, d.sink, _way(d)) for d in dependences}) > MOST_DEPENDENCES


def _way(dependence: Dependence) -> str:
    places = [f"carried by {', '.join(dependence.carried_by)}"] if dependence.carried_by else []
    return " and ".join([*places, "within one iteration"] if dependence.is_within_iteration else places)


def _distances(dependence: Dependence) -> str:
    """`; distances (t, i): (0, 1), (1, -1)`, where they are constant and say more than `within one iteration` does."""
    if not dependence.distances or not any(map(any, dependence.distances)):
        return ""
    listed = ", ".join(f"({', '.join(map(str, distance))})" for distance in dependence.distances)
    return f"; distances ({', '.join(dependence.loops)}): {listed}"


def _kinds(dependences: Sequence[Dependence]) -> str:
    return "+".join(dict.fromkeys(d.kind.value for d in dependences))


def _statements(dependences: Sequence[Dependence]) -> str:
    names = {name for d in dependences for name in (d.source, d.sink)}
    return f"among {', '.join(sorted(names, key=lambda name: int(name[1:])))}"


def explanation_json(
    kernel: str, nest: Nest, explanation: Explanation, limit: float | None, code: str | None
) -> dict[str, Any]:
    """All of it as one object; `code` is left out when there is none."""
    from optimizer.polyhedral.explain import scalars

    data: dict[str, Any] = {
        "kernel": kernel,
        "loops": [{"name": loop.name, "line": loop.line} for loop in nest.loops],
        "statements": [
            {"name": s.name, "line": s.line, "text": s.body, "loops": s.iterators}
            | ({"one_step": s.opaque} if s.opaque else {})
            for s in nest.statements
        ],
        "dependences": [d.to_json() for d in explanation.dependences],
        "parallel": explanation.parallel,
        "permutable": explanation.permutable,
        "scalars": scalars(nest),
        "assumed_types": assumed_types(nest),
        "limit_seconds": limit,
    }
    return data | ({"code": code} if code else {})


def code_text(nest: Nest, tree: Node, fp: str) -> str:
    """The Numba module of the nest after a schedule."""
    from optimizer.codegen.backend import CodeOptions, FloatingPoint
    from optimizer.codegen.numba_source import NumbaBackend

    return NumbaBackend().source(nest, tree, CodeOptions(FloatingPoint(fp)))
