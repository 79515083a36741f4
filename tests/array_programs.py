"""Random functions of array statements, to compare what they mean with what NumPy makes of them."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

HEADER = """\
import numpy as np
from jaxtyping import Float32, Float64, Int64

"""
DIMENSIONS = ("n", "m")
SIZES = {"n": "A.shape[0]", "m": "len(y)"}
TYPES = {"float64": "Float64", "float32": "Float32", "int64": "Int64"}
UNARY = ("np.sqrt(np.abs({}))", "np.abs({})", "-{}", "np.sin({})", "np.floor({})", "np.exp(-np.abs({}))", "np.tanh({})")
BINARY = ("{} + {}", "{} - {}", "{} * {}", "np.maximum({}, {})", "np.minimum({}, {})", "np.where({} > 0.5, {}, 0.25)")
REDUCTIONS = ("sum", "max", "min", "mean")


@dataclass
class Program:
    """A function that is being written."""

    rng: random.Random
    shapes: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Of every array, by dimension."""
    types: dict[str, str] = field(default_factory=dict[str, str])
    lines: list[str] = field(default_factory=list[str])

    def text(self) -> str:
        arguments = ", ".join(
            f'{name}: {TYPES[self.types[name]]}[np.ndarray, "{" ".join(self.shapes[name])}"]' for name in self.arguments
        )
        body = "\n".join(f"    {line}" for line in self.lines)
        return f"{HEADER}\ndef f(a: float, {arguments}):\n{body}\n"

    @property
    def arguments(self) -> tuple[str, ...]:
        return tuple(name for name in self.shapes if name in ARGUMENTS)


ARGUMENTS: dict[str, tuple[str, ...]] = {
    "A": ("n", "m"), "B": ("n", "m"), "C": ("m", "n"), "S": ("n", "n"), "x": ("n",), "y": ("m",), "z": ("n",),
}  # fmt: skip


def random_program(seed: int) -> Program:
    """A function of one to four statements over the arrays of `ARGUMENTS`."""
    rng = random.Random(seed)
    program = Program(rng)
    for name, shape in ARGUMENTS.items():
        program.shapes[name] = shape
        program.types[name] = rng.choices(list(TYPES), (6, 2, 1))[0]
    for count in range(rng.randint(1, 4)):
        program.lines.append(_statement(program, count))
    if rng.random() < 0.4:
        shape = rng.choice([("n", "m"), ("n",), ("m",), ()])
        program.lines.append(f"return {_expression(program, shape, 2, _cut(rng))}")
    return program


Cut = tuple[int, int]
"""How many elements a part leaves out at the start and at the end of each of its dimensions."""


def _cut(rng: random.Random) -> Cut:
    return rng.choices([(0, 0), (1, 1), (0, 1), (1, 0), (0, 2)], (4, 3, 1, 1, 1))[0]


def _statement(program: Program, count: int) -> str:
    rng = program.rng
    cut = _cut(rng)
    if count and rng.random() < 0.4:
        name = f"t{count}"
        shape = rng.choice([("n", "m"), ("n",), ("m",), ("m", "n"), ()])
        value = _expression(program, shape, 2, (0, 0))
        if not shape:
            return f"{name} = {value}"
        line = f"{name} = {_whole(program, shape)} + {value}"
        program.shapes[name] = shape
        return line
    floats = [name for name in program.arguments if program.types[name] != "int64"]
    target = rng.choice(floats)
    operator = rng.choice(["=", "=", "=", "+=", "-=", "*="])
    return f"{_part(program, target, cut)} {operator} {_expression(program, program.shapes[target], 3, cut)}"


def _expression(program: Program, shape: tuple[str, ...], depth: int, cut: Cut) -> str:
    rng = program.rng
    if depth == 0 or rng.random() < 0.15:
        return _operand(program, shape, cut)
    kind = rng.random()
    if kind < 0.2:
        return rng.choice(UNARY).format(f"({_expression(program, shape, depth - 1, cut)})")
    if kind < 0.3 and cut == (0, 0):
        return _reduction(program, shape, depth - 1)
    if kind < 0.37 and cut == (0, 0) and len(shape) == 2:
        inner = rng.choice(DIMENSIONS)
        return f"({_whole(program, (shape[0], inner))} @ {_whole(program, (inner, shape[1]))})"
    smaller = shape[rng.randint(0, len(shape)) :] if rng.random() < 0.3 else shape
    parts = [_expression(program, shape, depth - 1, cut), _expression(program, smaller, depth - 1, cut)]
    rng.shuffle(parts)
    return f"({rng.choice(BINARY).format(*parts)})"


def _reduction(program: Program, shape: tuple[str, ...], depth: int) -> str:
    rng = program.rng
    kind = rng.choice(REDUCTIONS)
    if not shape:
        return f"np.{kind}({_expression(program, rng.choice([('n', 'm'), ('n',)]), depth, (0, 0))})"
    if len(shape) == 1:
        axis = rng.randint(0, 1)
        other = rng.choice(DIMENSIONS)
        whole = (other, *shape) if axis == 0 else (*shape, other)
        return f"np.{kind}({_expression(program, whole, depth, (0, 0))}, axis={axis})"
    axis = rng.randint(0, 1)
    return f"np.{kind}({_expression(program, shape, depth, (0, 0))}, axis={axis}, keepdims=True)"


def _operand(program: Program, shape: tuple[str, ...], cut: Cut) -> str:
    rng = program.rng
    if not shape:
        return rng.choice(["a", "0.5", "2", "A[0, 0]", "x[-1]"])
    fitting = [name for name, own in program.shapes.items() if own == shape]
    swapped = [name for name, own in program.shapes.items() if len(own) == 2 and own == shape[::-1]]
    choices = [_part(program, name, _moved(rng, cut)) for name in fitting]
    choices += [f"{_part(program, name, _moved(rng, cut))}.T" for name in swapped]
    if len(shape) == 2:
        columns = [name for name, own in program.shapes.items() if own == shape[:1]]
        choices += [f"{_part(program, name, cut)}[:, None]" for name in columns]
    return rng.choice(choices) if choices else "a"


def _whole(program: Program, shape: tuple[str, ...]) -> str:
    """An array of just this shape."""
    fitting = [name for name, own in program.shapes.items() if own == shape]
    swapped = [f"{name}.T" for name, own in program.shapes.items() if len(own) == 2 and own == shape[::-1]]
    return program.rng.choice([*fitting, *swapped, f"np.ones(({', '.join(f'{SIZES[one]}' for one in shape)},))"])


def _moved(rng: random.Random, cut: Cut) -> Cut:
    """Another part of the same size."""
    whole = sum(cut)
    start = rng.randint(0, whole)
    return start, whole - start


def _part(program: Program, name: str, cut: Cut) -> str:
    rng = program.rng
    start, end = cut
    one = f"{start or ''}:{-end if end else ''}"
    if cut == (0, 0):
        if rng.random() < 0.5 and name in ARGUMENTS:
            return f"{name}[{', '.join([rng.choice([':', '::-1'])] * len(program.shapes[name]))}]"
        return f"{name}[:]"
    return f"{name}[{', '.join([one] * len(program.shapes[name]))}]"
