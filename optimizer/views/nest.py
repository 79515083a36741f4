"""A nest and its analysis: the source with names in the margin, dependences in words, all of it as JSON, its code."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optimizer.wording import table

if TYPE_CHECKING:
    from optimizer.polyhedral.explain import Dependence, Explanation
    from optimizer.polyhedral.nest import Nest
    from optimizer.polyhedral.tree import Node

MOST_DEPENDENCES = 30
"""With more, the table summarizes them; the JSON lists all."""


def source_listing(nest: Nest) -> str:
    """The loops and statements as they stand in the source, with their names in the margin."""
    lines = {loop.line: loop.name for loop in nest.loops}
    for statement in nest.statements:
        lines[statement.line] = ", ".join(filter(None, (lines.get(statement.line), statement.name)))
    width = max(map(len, lines.values()))
    source = _source_lines(nest)
    if not source:
        return "\n".join(f"  line {number:<5}{name}" for number, name in sorted(lines.items()))
    shown = range(min(lines), max(lines) + 1)
    return "\n".join(f"{n:>5}  {lines.get(n, ''):<{width}}  {source[n - 1]}".rstrip() for n in shown)


def _source_lines(nest: Nest) -> list[str]:
    path = Path(nest.file)
    if not path.is_file():
        return []
    return path.read_text(encoding="utf-8").splitlines()


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
    return "\n".join(lines)


def dependence_table(dependences: Sequence[Dependence]) -> str:
    """The dependences in words, a row for each pair of statements; for each array and way when that is too much."""
    if not dependences:
        return "no dependences: every order of the iterations is legal"
    pairs: dict[tuple[str, str, str], list[Dependence]] = {}
    ways: dict[tuple[str, str], list[Dependence]] = {}
    for d in dependences:
        pairs.setdefault((d.array, f"{d.source} -> {d.sink}", _way(d)), []).append(d)
        ways.setdefault((d.array, _way(d)), []).append(d)
    rows = [(array, between, _kinds(group), way) for (array, between, way), group in pairs.items()]
    if len(rows) > MOST_DEPENDENCES:
        rows = [(array, _statements(group), _kinds(group), way) for (array, way), group in ways.items()]
    return table(("array", "dependence", "kind", "how"), rows)


def _way(dependence: Dependence) -> str:
    places = [f"carried by {', '.join(dependence.carried_by)}"] if dependence.carried_by else []
    return " and ".join([*places, "within one iteration"] if dependence.is_within_iteration else places)


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
        "statements": [{"name": s.name, "line": s.line, "text": s.body, "loops": s.iterators} for s in nest.statements],
        "dependences": [d.to_json() for d in explanation.dependences],
        "parallel": explanation.parallel,
        "permutable": explanation.permutable,
        "scalars": scalars(nest),
        "limit_seconds": limit,
    }
    return data | ({"code": code} if code else {})


def code_text(nest: Nest, tree: Node, fp: str) -> str:
    """The Numba module of the nest after a schedule."""
    from optimizer.codegen.backend import CodeOptions, FloatingPoint
    from optimizer.codegen.numba_source import NumbaBackend

    return NumbaBackend().source(nest, tree, CodeOptions(FloatingPoint(fp)))
