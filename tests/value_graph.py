"""Runs a kernel as plain Python and writes down what it really does: every operation by its operands, every first use.

Independent of the model: the arrays are objects that note each subscript, their elements numbers that note each
operation. Two operations are the same one when they have the same operands: operations, constants, or elements as they
were handed in or as a certain write left them. So the count is what is left when nothing is computed twice that does
not go through memory in between.
"""

from __future__ import annotations

import math
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass
class Log:
    """What a run did."""

    values: dict[tuple[Any, ...], int] = field(default_factory=dict[tuple[Any, ...], int])
    """Number of each distinct value by what it is made of."""
    operations: int = 0
    """Distinct ones."""
    executed: int = 0
    first_reads: set[tuple[str, Any]] = field(default_factory=set[tuple[str, Any]])
    written: set[tuple[str, Any]] = field(default_factory=set[tuple[str, Any]])

    def number(self, key: tuple[Any, ...], *, is_operation: bool) -> int:
        self.executed += is_operation
        if key not in self.values:
            self.values[key] = len(self.values)
            self.operations += is_operation
        return self.values[key]


class Number:
    """A value with its origin."""

    __slots__ = ("log", "origin", "value")

    def __init__(self, log: Log, value: Any, origin: int) -> None:
        self.log, self.value, self.origin = log, value, origin

    def made(self, name: str, value: Any, *operands: Any) -> Number:
        origins = tuple(self.number(operand).origin for operand in operands)
        return Number(self.log, value, self.log.number((name, *origins), is_operation=True))

    def number(self, value: Any) -> Number:
        if isinstance(value, Number):
            return value
        return Number(self.log, value, self.log.number(("constant", float(value)), is_operation=False))

    def __neg__(self) -> Number:
        return Number(self.log, -self.value, self.log.number(("negative", self.origin), is_operation=False))

    def __lt__(self, other: Any) -> bool:
        return self.value < value_of(other)

    def __le__(self, other: Any) -> bool:
        return self.value <= value_of(other)

    def __gt__(self, other: Any) -> bool:
        return self.value > value_of(other)

    def __ge__(self, other: Any) -> bool:
        return self.value >= value_of(other)

    def __eq__(self, other: object) -> bool:
        return self.value == value_of(other)

    def __hash__(self) -> int:
        return hash(self.value)


def value_of(number: Any) -> Any:
    return number.value if isinstance(number, Number) else number


def _operator(name: str, operation: Callable[[Any, Any], Any]) -> None:
    def forward(self: Number, other: Any) -> Number:
        return self.made(name, operation(self.value, value_of(other)), self, other)

    def backward(self: Number, other: Any) -> Number:
        return self.made(name, operation(other, self.value), other, self)

    setattr(Number, f"__{name}__", forward)
    setattr(Number, f"__r{name}__", backward)


_operator("add", lambda a, b: a + b)
_operator("sub", lambda a, b: a - b)
_operator("mul", lambda a, b: a * b)
_operator("truediv", lambda a, b: a / b)
_operator("floordiv", lambda a, b: a // b)
_operator("mod", lambda a, b: a % b)
_operator("pow", lambda a, b: a**b)


class NotedArray:
    """An array that notes which elements are read before they are written, and which are written."""

    def __init__(self, log: Log, name: str, values: np.ndarray[Any, Any]) -> None:
        self.log, self.name, self.shape = log, name, values.shape
        self.elements: dict[Any, Number] = {}
        self.writes = 0
        self.initial = values

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: Any) -> Number:
        if index not in self.elements:
            self.log.first_reads.add((self.name, index))
            origin = self.log.number(("element", self.name, index), is_operation=False)
            self.elements[index] = Number(self.log, self.initial[index].item(), origin)
        return self.elements[index]

    def __setitem__(self, index: Any, value: Any) -> None:
        self.log.written.add((self.name, index))
        self.writes += 1
        origin = self.log.number(("written", self.name, self.writes), is_operation=False)
        self.elements[index] = Number(self.log, value_of(value), origin)


class NotedFunctions:
    """A module of functions as far as kernels use it on numbers."""

    def __init__(self, log: Log, module: types.ModuleType) -> None:
        self.log, self.module = log, module

    def __getattr__(self, name: str) -> Callable[..., Any]:
        function = getattr(self.module, name)
        if name in ("zeros", "empty", "ones"):
            return lambda *shape: NotedArray(self.log, "a local array", function(*shape))
        return noted(self.log, name, function)


def noted(log: Log, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        if not any(isinstance(argument, Number) for argument in arguments):
            return function(*arguments)
        value = function(*map(value_of, arguments))
        return Number(log, 0, 0).made(name, value, *arguments)

    return call


def run(function: Callable[..., Any], arguments: dict[str, Any]) -> Log:
    """Call the function with noted arrays; numbers among the arguments are left as they are."""
    log = Log()
    names = {
        "np": NotedFunctions(log, np),
        "math": NotedFunctions(log, math),
        "max": noted(log, "max", max),
        "min": noted(log, "min", min),
    }
    here = types.FunctionType(function.__code__, {**function.__globals__, **names})
    given = {
        name: NotedArray(log, name, value) if isinstance(value, np.ndarray) else value
        for name, value in arguments.items()
    }
    here(**given)
    return log
