"""Module texts become functions: compiled by Numba, or plain Python in which nothing is compiled.

The plain form replaces Numba by nothing, so that thousands of small runs need no compilation, `math` by functions that
return NaN where Python raises (as compiled code does), and, when asked, every floating-point type by a wider one.
"""

from __future__ import annotations

import ast
import builtins
import importlib
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FunctionType, SimpleNamespace
from typing import Any

import numba
import numpy as np

from optimizer.codegen.loops_apart import IN_THREADS, with_loops_apart
from optimizer.codegen.module_text import GENERATED
from optimizer.codegen.threads import in_threads
from optimizer.errors import InfrastructureError
from optimizer.measure.commands import Form
from optimizer.measure.failure import WorkerFailure, described_error
from optimizer.measure.races import WatchedFunction, watched
from optimizer.measure.stencil_stand_in import stencil
from optimizer.measure.total_division import NAMES, with_total_division
from optimizer.measure.widening import WIDER, widened
from optimizer.measure.workload import Workload
from optimizer.verdict import Reason

Function = Callable[..., Any]

LONGEST_MESSAGE = 600
UNWRITTEN = -87
"""What memory of integers holds before it is written."""
MOST_MARKED = 10**6
"""Elements. Kernels are small as plain Python; what takes more is after the memory, and gets none by being filled."""


def compiled_original(
    workload: Workload, file: Path, arguments: tuple[Any, ...], *, is_checked: bool = False
) -> Function:
    """The untouched function under serial `njit` with the workload's flags, compiled for these arguments; where
    `is_checked` is set, it raises `IndexError` for a subscript that leaves its array."""
    try:
        file.write_text(workload.source, encoding="utf-8")
    except OSError as error:
        raise InfrastructureError(f"{file} cannot be written: {error}") from error
    flags = set(workload.fastmath) or False
    decorate = numba.njit(error_model="numpy", fastmath=flags, boundscheck=is_checked)
    types = types_of(arguments)
    try:
        function = _load(workload.source, str(file), workload.function, {})
        for name, value in list(function.__globals__.items()):
            if isinstance(value, FunctionType) and value.__globals__ is function.__globals__:
                function.__globals__[name] = decorate(value)
        compiled = function.__globals__[workload.function]
        compiled.compile(types)
    except Exception as error:
        # Numba fails with many kinds of exceptions; the original has to compile whatever the kind is.
        if workload.has_array_statements:
            return _load(workload.source, str(file), workload.function, {})
        raise InfrastructureError(f"Numba cannot compile the original {workload.function}: {_brief(error)}") from error
    made = _array_types(compiled.overloads[types].signature.return_type)
    if workload.has_array_statements and workload.result_types and not made <= {*workload.result_types}:
        return _load(workload.source, str(file), workload.function, {})
    return compiled


def _array_types(result: Any) -> set[str]:
    """NumPy's names of the elements of the arrays in a type of Numba."""
    if isinstance(result, numba.types.Array):
        return {str(result.dtype)}
    parts: Any = result if isinstance(result, numba.types.BaseTuple) else ()
    return set[str]().union(*map(_array_types, parts))


def compiled_candidate(file: Path, name: str, arguments: tuple[Any, ...]) -> Function:
    """The function `name` of the module in `file`, compiled for these arguments by its own decorator.

    Generated code is compiled as its exported module has it, with parallel loops in functions of their own.
    Raises `WorkerFailure` when the module or the compiler fails, and `InfrastructureError` when there is no such file.
    """
    source, types = _text(file), types_of(arguments)
    with _building():
        if (ast.get_docstring(ast.parse(source)) or "").endswith(GENERATED):
            source = with_loops_apart(source)
        compiled: Any = _load(source, str(file), name, {}, {IN_THREADS: in_threads})
        compiled.compile(types)
    return compiled


def plain_candidate(file: Path, name: str, form: Form) -> Function:
    """The function `name` of the module in `file` as `plain_function` makes it; fails as `compiled_candidate` does."""
    source = _text(file)
    with _building():
        return plain_function(source, str(file), name, form)


def types_of(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """Numba's types of some arguments."""
    return tuple(numba.typeof(argument) for argument in arguments)


def plain_function(source: str, file: str, name: str, form: Form = Form.PLAIN) -> Function:
    """The function `name` of the module text `source`, as Python runs it in one of the plain forms.

    Watched, it raises `RaceError` when two iterations of a parallel loop get in each other's way.
    """
    numba_stand_in = SimpleNamespace(
        njit=_undecorated, jit=_undecorated, prange=range, stencil=stencil, get_num_threads=lambda: 3
    )
    modules: dict[str, Any] = {"numba": numba_stand_in, "math": _TotalMath(), "numpy": _MarkedNumpy()}
    match form:
        case Form.BACKWARD:
            numba_stand_in.prange = _backward_range
        case Form.WIDE:
            modules["numpy"] = _WideNumpy()
        case Form.WATCHED:
            module, watch = watched(source)
            loaded = _load(with_total_division(module), file, name, modules, {**watch.names, **NAMES})
            return WatchedFunction(loaded, watch)
        case _:
            pass
    return _load(with_total_division(ast.parse(source)), file, name, modules, NAMES)


def _load(
    source: str | ast.Module, file: str, name: str, modules: dict[str, Any], names: Mapping[str, Any] | None = None
) -> Any:
    def import_module(module: str, *others: Any, **named: Any) -> Any:
        return modules[module] if module in modules else importlib.__import__(module, *others, **named)

    namespace: dict[str, Any] = {
        "__name__": f"loopwright_{Path(file).stem}",
        "__file__": file,
        "__builtins__": {**vars(builtins), "__import__": import_module},
        **(names or {}),
    }
    exec(compile(source, file, "exec"), namespace)
    if name not in namespace:
        raise AttributeError(f"the module has no function {name}")
    return namespace[name]


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except OSError as error:
        raise InfrastructureError(f"{file} cannot be read: {error}") from error


@contextmanager
def _building() -> Generator[None]:
    """Around code of a candidate and of the compiler: whatever they raise, the candidate has no usable code."""
    try:
        yield
    except MemoryError as error:
        raise WorkerFailure(Reason.OUT_OF_MEMORY, "no memory left to build it") from error
    except Exception as error:
        raise WorkerFailure(Reason.BUILD_FAILED, _brief(error)) from error


def _undecorated(*arguments: Any, **_options: Any) -> Any:
    """`@njit` and `@njit(...)` without an effect."""
    if len(arguments) == 1 and callable(arguments[0]):
        return arguments[0]
    return lambda function: function


def _backward_range(*bounds: int) -> Iterable[int]:
    return reversed(range(*bounds))


class _TotalMath:
    """`math` by NumPy's functions: defined everywhere, and as wide as their argument."""

    _NAMES = {"pow": "power", "asin": "arcsin", "acos": "arccos", "atan": "arctan", "atan2": "arctan2"}  # noqa: RUF012
    _INTEGRAL = frozenset({"floor", "ceil", "trunc"})

    def __getattr__(self, name: str) -> Any:
        import math

        function = getattr(np, self._NAMES.get(name, name), None)
        if name in self._INTEGRAL or not isinstance(function, np.ufunc):
            return getattr(math, name)
        return function


class _MarkedNumpy:
    """NumPy whose new memory holds what no kernel computes with, so that it shows when it is read unwritten."""

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    def empty(self, shape: Any, dtype: Any = np.float64) -> Any:
        array = np.empty(shape, dtype)
        if array.size > MOST_MARKED:
            return array
        array.fill(np.nan if array.dtype.kind in "fc" else UNWRITTEN if array.dtype.kind == "i" else 1)
        return array


class _WideNumpy:
    """NumPy whose floating-point types are wider than they say."""

    float64 = WIDER[np.dtype(np.float64)].type
    float32 = WIDER[np.dtype(np.float32)].type

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    def zeros(self, shape: Any, dtype: Any = np.float64) -> Any:
        return np.zeros(shape, widened(dtype))

    def ones(self, shape: Any, dtype: Any = np.float64) -> Any:
        return np.ones(shape, widened(dtype))

    def empty(self, shape: Any, dtype: Any = np.float64) -> Any:
        return np.empty(shape, widened(dtype))


def _brief(error: Exception) -> str:
    lines = [line.strip() for line in described_error(error).splitlines() if line.strip()]
    return "; ".join(lines[:6])[:LONGEST_MESSAGE]
