"""The stand-alone module that a user takes away: optimized function, original, and a check of one against the other."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import islpy as isl

from optimizer.codegen.backend import CodeOptions, FloatingPoint
from optimizer.codegen.function_text import shape_expression, written_arguments
from optimizer.codegen.layout import LINE_LENGTH, laid_out
from optimizer.codegen.loop_text import INDENT
from optimizer.codegen.loops_apart import IN_THREADS, with_loops_apart
from optimizer.codegen.module_text import defined_names, function_source, import_lines, without_imports
from optimizer.codegen.naming import free_name
from optimizer.codegen.numba_source import ModuleParts, decorator, module_parts, numba_names, reserved_names
from optimizer.codegen.python_text import expression_text
from optimizer.codegen.simd_text import SimdPart, simd_part
from optimizer.errors import UserError
from optimizer.polyhedral.data_subscripts import arrays_of_subscripts
from optimizer.polyhedral.frontend.source import parse_module
from optimizer.polyhedral.nest import Argument, ArgumentKind, Nest
from optimizer.polyhedral.tree import Node

CHECK_SIZE = 50
"""The value that parameters get in the exported check, where the kernel's own conditions allow it."""


@dataclass(frozen=True, slots=True)
class ExportHeader:
    """What the file says about itself."""

    schedule: str
    """Text of the schedule; empty for the original order."""
    machine: str
    versions: Mapping[str, str]
    """Of loopwright, python, numba, llvmlite and numpy."""
    measured: str
    """The speedup with its interval, over what, at which size and with how many threads."""
    assurance: str
    """What was proved and what was tested."""
    date: str
    """ISO 8601."""


def export_module(
    nest: Nest, tree: Node, options: CodeOptions, header: ExportHeader, check_sizes: Mapping[str, int] | None = None
) -> str:
    """The text of the module; needs NumPy and Numba only.

    `check_sizes`: values of the parameters for the check that runs when the file is run.
    Raises CandidateError when no code can be made of the schedule, UserError when the kernel admits no size.
    """
    parts = module_parts(nest, tree, replace(options, is_cached=True))
    name = options.function_name or nest.name
    reserved = reserved_names(nest) | {name}
    original = free_name(f"original_{nest.name}", reserved)
    parts = _with_loops_apart(nest, parts, reserved | {original})
    check = _Check(nest, name, original, options, check_sizes or _sizes(nest))
    decorated = decorator(replace(options, is_cached=True))
    if_possible = ""
    if nest.has_array_statements:
        compiled = free_name("compiled_if_possible", reserved | {original})
        if_possible, decorated = (
            _IF_POSSIBLE.format(name=compiled, decorator=decorated.removeprefix("@")),
            f"@{compiled}",
        )
        if not header.schedule:
            # The original is what the user wrote, which is faster than its untouched loops where it calls BLAS.
            parts = replace(
                parts, constants="", checks="", operations={}, function=_original_function(nest, name, decorated)
            )
    blocks = [
        _unformatted(parts.preamble) if parts.preamble.strip() else "",
        if_possible,
        parts.checks,
        parts.function,
        _unformatted(_original_function(nest, original, decorated)),
        *check.functions(reserved),
    ]
    simd = _simd_part(nest, parts)
    if simd is not None:
        blocks.insert(0, simd.text + _aliases(parts.operations))
    imports = import_lines(
        f"{nest.preamble}\n{simd.imports}" if simd is not None else nest.preamble,
        numba_names=numba_names(f"{parts.function}\n{nest.original}") | ({"typeof"} if if_possible else set()),
        needs_numpy=True,
        standard=("inspect", "sys", "time") if if_possible else ("sys", "time"),
    )
    whole = ModuleParts(
        imports, parts.constants, "", "", "", "\n\n\n".join(block.strip("\n") for block in blocks if block), {}
    )
    main = f'\n\nif __name__ == "__main__":\n{INDENT}sys.exit({check.main_name(reserved)}())\n'
    return whole.text(_docstring(nest, header)) + main


def _with_loops_apart(nest: Nest, parts: ModuleParts, reserved: frozenset[str]) -> ModuleParts:
    """With parallel loops as they were compiled and measured; as they are if the kernel's file has names in the way."""
    function = with_loops_apart(parts.function, reserved)
    if function == parts.function:
        return parts
    apart = replace(parts, function=function, operations={**parts.operations, IN_THREADS: IN_THREADS})
    return parts if _names_in_the_way(nest, _definitions(apart)) else apart


def _simd_part(nest: Nest, parts: ModuleParts) -> SimdPart | None:
    """What the function calls of ours, in place of the import of a module of ours; None if it calls nothing.

    Raises UserError when the kernel's file gives a name of it another meaning.
    """
    if not parts.operations:
        return None
    simd = _definitions(parts)
    if names := _names_in_the_way(nest, simd):
        raise UserError(
            f"vector code cannot be exported: {nest.file} defines {' and '.join(names)}, "
            f"which it needs itself: rename it"
        )
    return simd


def _definitions(parts: ModuleParts) -> SimdPart:
    has_vectors = any(name != IN_THREADS for name in parts.operations)
    return simd_part(parts.operations, parts.function if has_vectors else "")


def _names_in_the_way(nest: Nest, simd: SimdPart) -> list[str]:
    usual = defined_names(simd.imports)
    taken = (defined_names(without_imports(nest.preamble)) | {nest.name}) & simd.names
    return sorted(
        taken | {name for name in defined_names(nest.preamble) & usual if not _means_the_same(name, nest, simd)}
    )


def _means_the_same(name: str, nest: Nest, simd: SimdPart) -> bool:
    return parse_module(nest.preamble, nest.file).imports.get(name) == parse_module(simd.imports, "").imports.get(name)


def _aliases(operations: Mapping[str, str]) -> str:
    """Where the kernel has another use for the name of an operation."""
    renamed = [f"\n{own} = {name}" for name, own in sorted(operations.items()) if own != name]
    return "\n\n" + "".join(renamed) if renamed else ""


def _unformatted(text: str) -> str:
    """The source's own text stays as it was written."""
    return f"# fmt: off\n{text.strip()}\n# fmt: on"


def _original_function(nest: Nest, name: str, decorated: str) -> str:
    text = re.sub(rf"\bdef {nest.name}\b", f"def {name}", function_source(nest.original, nest.name), count=1)
    return f"{decorated}\n{text}"


def _docstring(nest: Nest, header: ExportHeader) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in header.versions.items() if name != "loopwright")
    entries = {
        "kernel": f"{nest.name} {nest.digest} (start of the SHA-256 of its source, types and shapes)",
        "schedule": header.schedule or "the original order",
        "measured": header.measured,
        "assurance": header.assurance,
        "machine": header.machine,
        "versions": versions,
        "date": header.date,
    }
    lines = [f"{nest.name}, optimized by Loopwright {header.versions.get('loopwright', '')}".rstrip() + ".", ""]
    for key, text in entries.items():
        start = f"{key}:".ljust(12)
        lines += textwrap.wrap(start + text, LINE_LENGTH, subsequent_indent=" " * 12, break_on_hyphens=False)
    lines += ["", "Run this file to compare it with the original.", ""]
    return "\n".join(lines).replace("\\", "/").replace('"', "'")


def _sizes(nest: Nest) -> dict[str, int]:
    """Values for all parameters that the kernel admits, CHECK_SIZE where possible."""
    sizes = isl.Set(nest.context)
    for value in (CHECK_SIZE, None):
        for name in nest.parameters:
            wish = f"{name} = {value}" if value else f"5 <= {name} <= {CHECK_SIZE}"
            narrowed = sizes.intersect(isl.Set(f"[{', '.join(nest.parameters)}] -> {{ : {wish} }}"))
            sizes = sizes if narrowed.is_empty() else narrowed
    point = sizes.sample_point()
    if point.is_void():
        raise UserError(f"{nest.name} admits no sizes at all: {nest.context}")
    values: dict[str, int] = {}
    for position in range(sizes.dim(isl.dim_type.param)):
        value = point.get_coordinate_val(isl.dim_type.param, position)
        values[str(sizes.get_dim_name(isl.dim_type.param, position))] = int(value.to_python())
    return {name: values.get(name, CHECK_SIZE) for name in nest.parameters}


@dataclass(frozen=True, slots=True)
class _Check:
    """The functions with which the module compares itself with the original."""

    nest: Nest
    name: str
    original: str
    options: CodeOptions
    sizes: Mapping[str, int]

    def main_name(self, reserved: frozenset[str]) -> str:
        return free_name("main", reserved)

    def functions(self, reserved: frozenset[str]) -> Iterator[str]:
        make, run, agree = (free_name(name, reserved) for name in ("small_arguments", "run", "agree"))
        yield "\n".join(self._make_lines(make))
        yield self._run_text(run, make)
        yield _AGREE_EXACTLY.format(agree=agree) if self._is_exact else _AGREE.format(agree=agree)
        at = ", ".join(f"{name}={value}" for name, value in self.sizes.items())
        yield _MAIN.format(
            main=self.main_name(reserved), run=run, agree=agree, original=self.original, name=self.name, at=at
        )

    @property
    def _is_exact(self) -> bool:
        return self.options.fp is FloatingPoint.STRICT

    def _make_lines(self, make: str) -> Iterator[str]:
        yield f"def {make}():"
        yield f'{INDENT}"""Random arguments of a small size, the same ones on every call."""'
        yield f"{INDENT}rng = np.random.default_rng(0)"
        yield from (f"{INDENT}{name} = {value}" for name, value in self.sizes.items())
        for argument in self.nest.arguments:
            if argument.kind is ArgumentKind.ARRAY:
                yield from self._array_lines(argument)
            elif argument.kind is ArgumentKind.VALUE:
                yield f"{INDENT}{argument.name} = {_scalar(argument.dtype)}"
        names = ", ".join(argument.name for argument in self.nest.arguments)
        yield from laid_out(f"return {names}{',' if len(self.nest.arguments) == 1 else ''}", INDENT)

    def _array_lines(self, argument: Argument) -> Iterator[str]:
        shape = self.nest.array(argument.name).shape
        extents = [expression_text(shape_expression(self.nest, text)) for text in shape]
        size = f"({', '.join(extents)}{',' if len(extents) == 1 else ''})"
        subscripts = arrays_of_subscripts(self.nest).get(argument.name)
        drawn = _random(argument.dtype, size) if subscripts is None else _below(subscripts.limit, size, argument.dtype)
        yield from laid_out(f"{argument.name} = {drawn}", INDENT)
        if subscripts is not None and subscripts.is_ascending:
            yield f"{INDENT}{argument.name}.sort()"
        if len(shape) == 2 and shape[0] == shape[1] and argument.dtype.startswith("float"):
            # A dominant diagonal keeps factorizations and solvers away from zero pivots.
            yield f"{INDENT}{argument.name} += {extents[0]} * np.eye({extents[0]}, dtype={argument.name}.dtype)"

    def _run_text(self, run: str, make: str) -> str:
        written = ", ".join(f"arguments[{self._position(name)}]" for name in written_arguments(self.nest))
        gathered = f"[{written}]"
        lines = [
            f"def {run}(function):",
            f'{INDENT}"""What the function computes from the small arguments, and its seconds once compiled."""',
            f"{INDENT}function(*{make}())",
            f"{INDENT}arguments = {make}()",
            f"{INDENT}start = time.perf_counter()",
            f"{INDENT}{'returned = ' if self.nest.epilogue else ''}function(*arguments)",
            f"{INDENT}seconds = time.perf_counter() - start",
        ]
        if self.nest.epilogue:
            gathered += " + (list(returned) if isinstance(returned, tuple) else [returned])"
        return "\n".join([*lines, f"{INDENT}return {gathered}, seconds"])

    def _position(self, name: str) -> int:
        return [argument.name for argument in self.nest.arguments].index(name)


def _scalar(dtype: str) -> str:
    if dtype == "bool":
        return "True"
    return "1.25" if dtype == "float64" else f"np.{dtype}(2)" if dtype != "int64" else "2"


def _random(dtype: str, size: str) -> str:
    if dtype == "bool":
        return f"rng.random({size}) < 0.5"
    if "int" in dtype:
        return f"rng.integers(0, 4, {size}, dtype=np.{dtype})"
    return f"rng.uniform(0.5, 1.5, {size})" + ("" if dtype == "float64" else f".astype(np.{dtype})")


def _below(limit: str, size: str, dtype: str) -> str:
    return f"rng.integers(0, max(1, {limit}), {size}, dtype=np.{dtype})"


_IF_POSSIBLE = '''\
def {name}(function):
    """The function compiled, or as it stands for types of arguments with which Numba does not know all of it."""
    compiled = {decorator}(function)
    signature, chosen = inspect.signature(function), {{}}

    def call(*arguments, **named):
        bound = signature.bind(*arguments, **named)
        bound.apply_defaults()
        types = tuple(typeof(argument) for argument in bound.args)
        if types not in chosen:
            try:
                compiled.compile(types)
                chosen[types] = compiled
            except Exception:  # Of many kinds, for what Numba cannot compile.
                chosen[types] = function
        return chosen[types](*bound.args, **bound.kwargs)

    return call
'''

_AGREE_EXACTLY = '''\
def {agree}(first, second):
    """Whether two results are equal bit for bit, NaN being equal to NaN."""
    first, second = np.asarray(first), np.asarray(second)
    return np.array_equal(first, second, equal_nan=first.dtype.kind == "f")
'''

_AGREE = '''\
def {agree}(first, second):
    """Whether two results differ by rounding only, to half of their digits."""
    first, second = np.asarray(first), np.asarray(second)
    if first.dtype.kind != "f":
        return np.array_equal(first, second)
    tolerance = np.sqrt(np.finfo(first.dtype).eps)
    largest = np.max(np.abs(first), initial=0.0, where=np.isfinite(first))
    return np.allclose(first, second, rtol=tolerance, atol=tolerance * largest, equal_nan=True)
'''

_MAIN = """\
def {main}():
    expected, original_seconds = {run}({original})
    actual, seconds = {run}({name})
    is_right = all({agree}(first, second) for first, second in zip(expected, actual, strict=True))
    sizes = "{at}"
    print("{name}", "agrees with" if is_right else "DIFFERS FROM", "the original at", sizes)
    print(f"{{1e3 * original_seconds:.3f}} ms the original, {{1e3 * seconds:.3f}} ms this, at that small size")
    return 0 if is_right else 1
"""
