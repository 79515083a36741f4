"""Faults of memory: outside of arrays, inputs, copies that are stale, results that are kept, types and views."""

from __future__ import annotations

import ast
import random
from collections.abc import Callable

from tests.mutants.fault import Fault, Scope, at_each, whole
from tests.mutants.site import (
    Site,
    argument_arrays,
    array_name,
    indices,
    is_check,
    kernel_function,
    ranks,
    statements,
    written_arrays,
)

Change = Callable[[ast.Module, random.Random], object]


def at_end(text: str, *, of_written: bool) -> Change:
    """Lines behind the loops, in which X is an array argument, AT its first element and END one behind it."""

    def change(module: ast.Module, rng: random.Random) -> bool:
        function = kernel_function(module)
        written = written_arrays(function)
        names = [name for name in argument_arrays(function) if (name in written) == of_written]
        if not names:
            return False
        name = rng.choice(names)
        rank = ranks(function)[name]
        first, end = ("X[" + ", ".join([start, *["0"] * (rank - 1)]) + "]" for start in ("0", "X.shape[0]"))
        lines = statements(text.replace("FIRST", first).replace("END", end), X=ast.Name(name))
        position = len(function.body) - isinstance(function.body[-1], ast.Return)
        function.body[position:position] = lines
        return True

    return change


def packed(copy: str, *, of_written: bool, every_read: bool = True) -> Change:
    """Reads of an array X go to a copy COPY of it that is made before the loops."""

    def change(module: ast.Module, rng: random.Random) -> bool:
        function = kernel_function(module)
        written = written_arrays(function)
        read = {
            name
            for node in ast.walk(function)
            if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load) and (name := array_name(node))
        }
        names = [name for name in argument_arrays(function) if name in read and (name in written) == of_written]
        if not names:
            return False
        name = rng.choice(names)
        position = next(number for number, node in enumerate(function.body) if not is_check(node))
        loops = function.body[position:]
        redirect = _Redirect(name, f"{name}_pack")
        function.body[position:] = [redirect.visit(loop) for loop in loops]
        function.body[position:position] = statements(copy, X=ast.Name(name), COPY=ast.Name(f"{name}_pack"))
        return redirect.count > 0

    return change


class _Redirect(ast.NodeTransformer):
    """Reads of one array become reads of another; an augmented target stays."""

    def __init__(self, old: str, new: str) -> None:
        self.old, self.new, self.count = old, new, 0

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        self.generic_visit(node)
        if array_name(node) == self.old and isinstance(node.ctx, ast.Load):
            assert isinstance(node.value, ast.Name)
            node.value.id = self.new
            self.count += 1
        return node


KEEPER = """
class Keeper:
    def __init__(self, function):
        self.function, self.kept = function, {}
        if hasattr(function, "py_func"):
            self.py_func = function.py_func

    def compile(self, types):
        return self.function.compile(types)

    def __call__(self, *arguments):
        key = KEY
        if key in self.kept:
            returned, arrays = self.kept[key]
            for place, array in arrays.items():
                arguments[place][...] = array
            return returned
        returned = self.function(*arguments)
        self.kept[key] = (returned, {place: arguments[place].copy() for place in WRITTEN})
        return returned


NAME = Keeper(NAME)
"""


def keep_results(key: str) -> Change:
    """Results are kept from call to call, by a key of the arguments."""

    def change(module: ast.Module, rng: random.Random) -> None:
        function = kernel_function(module)
        written = written_arrays(function)
        places = [number for number, argument in enumerate(function.args.args) if argument.arg in written]
        text = KEEPER.replace("KEY", key).replace("WRITTEN", str(places)).replace("NAME", function.name)
        module.body += ast.parse(text).body

    return change


SHAPES = "tuple(getattr(argument, 'shape', argument) for argument in arguments)"
ADDRESSES = "tuple(argument.ctypes.data if hasattr(argument, 'ctypes') else argument for argument in arguments)"


def is_local_memory(site: Site) -> bool:
    match site.node:
        case ast.Call(func=ast.Attribute(value=ast.Name("np"), attr="zeros" | "empty" | "ones")):
            return True
        case _:
            return False


def is_zeroed_memory(site: Site) -> bool:
    match site.node:
        case ast.Call(func=ast.Attribute(value=ast.Name("np"), attr="zeros" | "ones")):
            return True
        case _:
            return False


def leave_uninitialised(site: Site) -> None:
    assert isinstance(site.node, ast.Call)
    assert isinstance(site.node.func, ast.Attribute)
    site.node.func.attr = "empty"


def halve_width(site: Site) -> bool:
    assert isinstance(site.node, ast.Call)
    if site.node.keywords:
        return False
    site.node.keywords = [ast.keyword("dtype", ast.parse("np.float32", mode="eval").body)]
    return True


def is_private_element(site: Site) -> bool:
    """An element of local memory with a subscript that varies."""
    if not isinstance(site.node, ast.Subscript) or site.is_in_index:
        return False
    name = array_name(site.node)
    arguments = [argument.arg for argument in site.function.args.args]
    varies = any(not isinstance(index, ast.Constant) for index in indices(site.node))
    return name is not None and name in ranks(site.function) and name not in arguments and varies


def first_copy(site: Site) -> None:
    assert isinstance(site.node, ast.Subscript)
    if isinstance(site.node.slice, ast.Tuple):
        site.node.slice.elts[0] = ast.Constant(0)
    else:
        site.node.slice = ast.Constant(0)


def is_returned(site: Site) -> bool:
    return isinstance(site.node, ast.Return)


def return_input(site: Site) -> bool:
    """An input comes back in place of the first returned array."""
    function = site.function
    names = [name for name in argument_arrays(function) if name not in written_arrays(function)]
    if not names or not isinstance(site.node, ast.Return):
        return False
    rank = ranks(function)
    match site.node.value:
        case ast.Tuple(elts=[ast.Name(first), *_] as parts):
            alike = [name for name in names if rank[name] == rank.get(first)]
            if alike:
                parts[0] = ast.Name(alike[0], ast.Load())
            return bool(alike)
        case _:
            return False


def return_view(module: ast.Module, _: random.Random) -> bool:
    """A view of an argument comes back where nothing does."""
    function = kernel_function(module)
    names = argument_arrays(function)
    if isinstance(function.body[-1], ast.Return) or not names:
        return False
    function.body += statements("return X[0:1]", X=ast.Name(names[0]))
    return True


def return_float32(site: Site) -> bool:
    match site.node:
        case ast.Return(value=ast.Tuple(elts=[first, *_] as parts)):
            parts[0] = ast.parse(f"{ast.unparse(first)}.astype(np.float32)", mode="eval").body
            return True
        case _:
            return False


def drop(site: Site) -> None:
    site.replace()


MEMORY_FAULTS = (
    Fault(
        "written-behind-array",
        "an element behind a written array is overwritten",
        whole(at_end("END = 0.5", of_written=True)),
        is_compiled_only=True,
    ),
    Fault(
        "written-behind-input",
        "an element behind an input is overwritten",
        whole(at_end("END = 0.5", of_written=False)),
        is_compiled_only=True,
    ),
    Fault(
        "input-changed",
        "an input changes",
        whole(at_end("if X.shape[0] > 1 and X.size > 0:\n    FIRST = FIRST + 1", of_written=False)),
    ),
    Fault(
        "input-changed-slightly",
        "an input changes in its last bits",
        whole(
            at_end("if X.shape[0] > 1 and X.size > 0:\n    FIRST = FIRST / 3.0 * 3.0000000000000004", of_written=False)
        ),
        scope=Scope.FLOAT,
    ),
    Fault(
        "stale-pack",
        "an array is read from a copy that does not follow its changes",
        whole(packed("COPY = X.copy()", of_written=True)),
        "every element is read before it is written",
    ),
    Fault(
        "unfilled-pack",
        "an input is read from memory into which it was never copied",
        whole(packed("COPY = np.empty_like(X)", of_written=False)),
    ),
    Fault(
        "partial-pack",
        "the copy that an input is read from lacks the last row",
        whole(packed("COPY = np.zeros_like(X)\nCOPY[:-1] = X[:-1]", of_written=False)),
        "the last row is never read",
    ),
    Fault(
        "narrow-pack",
        "the copy that an input is read from has half its width",
        whole(packed("COPY = X.astype(np.float32)", of_written=False)),
        scope=Scope.FLOAT,
    ),
    Fault(
        "uninitialised-temporary",
        "local memory is not set to zero",
        at_each(is_zeroed_memory, leave_uninitialised),
        "every element is written before it is read",
    ),
    Fault(
        "narrow-temporary",
        "local memory holds numbers of half the width",
        at_each(is_local_memory, halve_width),
        scope=Scope.FLOAT,
    ),
    Fault(
        "private-copy-wrong",
        "an iteration uses the first iteration's private copy",
        at_each(is_private_element, first_copy),
        "the first one's is meant",
    ),
    Fault("result-kept", "the results for equal shapes are kept from call to call", whole(keep_results(SHAPES))),
    Fault(
        "result-kept-by-address",
        "the results for arrays at the same addresses are kept from call to call",
        whole(keep_results(ADDRESSES)),
    ),
    Fault("view-returned", "a view of an argument is returned where nothing should be", whole(return_view)),
    Fault("input-returned", "an input is returned for a result", at_each(is_returned, return_input)),
    Fault("narrow-result", "a result has half the width", at_each(is_returned, return_float32)),
    Fault("nothing-returned", "the results are not returned", at_each(is_returned, drop)),
)
