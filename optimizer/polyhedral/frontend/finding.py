"""From a file, a text or a live function to the function that is meant, and to its nest."""

from __future__ import annotations

import ast
import inspect
import tokenize
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FunctionType
from typing import Any

from optimizer.errors import UserError
from optimizer.polyhedral.frontend.build import build_nest
from optimizer.polyhedral.frontend.live_source import text_with_globals
from optimizer.polyhedral.frontend.source import Module, parse_module
from optimizer.polyhedral.frontend.stencils import is_stencil
from optimizer.polyhedral.nest import Nest


def nest_of_source(
    text: str, function: str | None, file: str, examples: Mapping[str, Any] | None = None, *, by_use: bool = False
) -> Nest:
    """The nest of a function in a module's text; the only kernel function when none is named.

    Args:
        text: The module's source. It is read, never run.
        function: The function's name.
        file: How messages call the text.
        examples: Example arguments by name, for what annotations leave open.
        by_use: Whether arguments of which still nothing is known have the types that their use shows.

    Raises:
        UserError: when there is no such function, or something in it is not supported.
    """
    module = parse_module(text, file)
    return _built(module, _chosen(module, function), examples, by_use=by_use)


def nest_of_file(path_and_function: str) -> Nest:
    """The nest of `kernel.py:gemm`, or of the only kernel function in `kernel.py`; see `by_use` in `nest_of_source`.

    Raises:
        UserError: when there is no such file or function, or something in it is not supported.
    """
    path, separator, name = path_and_function.rpartition(":")
    function = name if separator and name.isidentifier() else None
    if function is None:
        path = path_and_function
    return nest_of_source(text_of(path), function, path, by_use=True)


def nest_of_function(function: Callable[..., Any], arguments: Mapping[str, Any] | Sequence[Any] | None = None) -> Nest:
    """The nest of a live function, also one that Numba has compiled.

    Args:
        function: A Python function whose source can be found.
        arguments: Example arguments by name or in order, for types that are not annotated. Only types and numbers of
            dimensions are taken from them.

    Raises:
        UserError: when its source cannot be found, or something in it is not supported.
    """
    plain = inspect.unwrap(getattr(function, "py_func", function))
    if not isinstance(plain, FunctionType):
        raise UserError(f"{function!r} is not a Python function")
    examples = _by_name(plain, arguments)
    file = inspect.getsourcefile(plain) or "<function>"
    if plain.__qualname__ == plain.__name__ and Path(file).is_file():
        module = parse_module(text_of(file), file)
        found = module.functions.get(plain.__name__)
        if found is not None and _covers(found, plain.__code__.co_firstlineno):
            return _built(module, found, examples)
    return nest_of_source(text_with_globals(plain), plain.__name__, file, examples)


def _built(
    module: Module, function: ast.FunctionDef, examples: Mapping[str, Any] | None, *, by_use: bool = False
) -> Nest:
    try:
        return build_nest(module, function, examples, by_use=by_use)
    except RecursionError:
        message = f"`{function.name}` has expressions that are nested too deeply"
        raise module.source.error(function, message, "split them into several assignments") from None


def text_of(path: str) -> str:
    """The text of a source file, in the encoding that it states; UserError if there is none."""
    try:
        with tokenize.open(path) as stream:
            return stream.read()
    except FileNotFoundError:
        raise UserError(f"no such file: {path}") from None
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from None
    except (SyntaxError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read {path} as Python source: {error}") from None


def _chosen(module: Module, name: str | None) -> ast.FunctionDef:
    file = module.source.file
    if name is not None:
        if name not in module.functions:
            there = f"there are {', '.join(module.functions)}" if module.functions else "there are no functions in it"
            raise UserError(f"no function `{name}` in {file}: {there}")
        return module.functions[name]
    kernels = _kernel_functions(module)
    if len(kernels) == 1:
        return kernels[0]
    if not kernels:
        there = f" ({', '.join(module.functions)})" if module.functions else ""
        raise UserError(f"no function with loops or statements over arrays in {file}{there}")
    names = ", ".join(kernel.name for kernel in kernels)
    raise UserError(f"{file} could mean several functions: {names}. Name one: {file}:{kernels[0].name}")


def _kernel_functions(module: Module) -> list[ast.FunctionDef]:
    """Public functions with something to repeat that no other function of the module calls."""
    called = {
        node.func.id
        for name, function in module.functions.items()
        for node in ast.walk(function)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id != name
    }
    return [
        function
        for name, function in module.functions.items()
        if not name.startswith("_")
        and name != "make_inputs"
        and name not in called
        and not is_stencil(module, function)
        and (_has_loops(function) or _has_array_statements(function))
    ]


def _has_loops(function: ast.FunctionDef) -> bool:
    return any(isinstance(node, ast.For | ast.While) for node in ast.walk(function))


def _has_array_statements(function: ast.FunctionDef) -> bool:
    """Whether there is a slice in it, `@`, a method or a function of a module, or an argument that is a whole array."""
    arrays = {parameter.arg for parameter in function.args.args if isinstance(parameter.annotation, ast.Subscript)}
    single = {
        id(node.value) for node in ast.walk(function) if isinstance(node, ast.Subscript | ast.Attribute | ast.keyword)
    }
    return any(
        isinstance(node, ast.Slice | ast.MatMult)
        or (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute))
        or (isinstance(node, ast.Name) and node.id in arrays and id(node) not in single)
        for statement in function.body
        for node in ast.walk(statement)
    )


def _covers(node: ast.FunctionDef, line: int) -> bool:
    first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    return first <= line <= node.lineno


def _by_name(function: FunctionType, arguments: Mapping[str, Any] | Sequence[Any] | None) -> Mapping[str, Any] | None:
    if arguments is None:
        return None
    signature = inspect.signature(function)
    try:
        if isinstance(arguments, Mapping):
            bound = signature.bind(**arguments)
        else:
            bound = signature.bind(*arguments)
    except TypeError as error:
        raise UserError(f"the example arguments do not fit `{function.__name__}{signature}`: {error}") from None
    bound.apply_defaults()
    return bound.arguments
