"""Two iterations in the words of the source: its loop variables, its lines, its sizes."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping

from optimizer.lint.subject import Subject
from optimizer.polyhedral.nest import Role
from optimizer.polyhedral.witness import Kind, Witness

_VERBS = {Kind.RAW: ("writes", "reads"), Kind.WAW: ("writes", "writes"), Kind.WAR: ("reads", "writes")}


def told(subject: Subject, witness: Witness) -> str:
    """`i=1 writes y[1] (line 7), i=2 reads it (line 8), at n = 4`."""
    array = subject.nest.array(witness.array)
    name = subject.scalar_name(array.name) if array.role is Role.SCALAR else array.name
    element = f"{name}[{', '.join(map(str, witness.element))}]" if array.role is not Role.SCALAR else f"`{name}`"
    first, second = _VERBS[witness.kind]
    source, sink = (subject.nest.statement(statement) for statement in (witness.source, witness.sink))
    at = sizes(subject, witness.sizes, f"{source.domain} {sink.domain} {' '.join(array.shape)}")
    return (
        f"{iteration(subject, witness.source_iteration)} {first} {element} (line {source.line}), "
        f"{iteration(subject, witness.sink_iteration)} {second} it (line {sink.line}){at}"
    )


def iteration(subject: Subject, values: Mapping[str, int]) -> str:
    """`i=1, j=0`, without the loops that array statements stand for; `it` where there are no others."""
    shown = {subject.variable(loop): value for loop, value in values.items() if subject.is_written(loop)}
    return ", ".join(f"{name}={value}" for name, value in shown.items()) or "it"


def sizes(subject: Subject, values: Mapping[str, int], texts: str) -> str:
    """`, at n = 4, A.shape[1] = 5`: those of the sizes that some isl texts mention."""
    known = {node.id for node in ast.walk(subject.function) if isinstance(node, ast.Name)}
    known |= {argument.arg for argument in subject.function.args.args}
    shapes = {symbol: f"{array}.shape[{k}]" for symbol, array, k in subject.nest.extents if symbol not in known}
    mentioned = set(re.findall(r"\w+", texts))
    shown = [f"{shapes.get(name, name)} = {value}" for name, value in values.items() if name in mentioned]
    return f", at {', '.join(shown)}" if shown else ""
