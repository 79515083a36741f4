"""The Numba back end: a readable module that depends on NumPy and Numba alone and also runs without being compiled."""

from __future__ import annotations

import builtins
import keyword
from collections.abc import Mapping
from dataclasses import dataclass, replace

from optimizer.codegen.backend import CodeOptions, FloatingPoint
from optimizer.codegen.fences import with_fences
from optimizer.codegen.function_text import (
    OVERLAP,
    OVERLAP_NAMES,
    head_lines,
    names_before,
    names_of,
    overlap_check,
    signature,
    written_arguments,
)
from optimizer.codegen.held_elements import hold_elements
from optimizer.codegen.loop_ast import LoopNode, has_parallel_loop, variables
from optimizer.codegen.loop_text import INDENT, LoopPrinter, counting_iterators
from optimizer.codegen.module_text import (
    GENERATED,
    decorated_functions,
    defined_names,
    import_lines,
    without_imports,
)
from optimizer.codegen.naming import free_name, name_iterators
from optimizer.codegen.packing import write_packs
from optimizer.codegen.partial_arrays import with_partial_arrays
from optimizer.codegen.private_memory import private_memory, with_allocations, with_guards
from optimizer.codegen.register_tiles import write_register_tiles
from optimizer.codegen.scalars import scalar_arrays
from optimizer.codegen.schedule_tree import generate_loops
from optimizer.codegen.statement_text import ScalarPlace, Subscripts
from optimizer.codegen.tile_memory import with_tile_memory
from optimizer.codegen.twins import with_twins_merged
from optimizer.codegen.unroll import write_out_unrolled
from optimizer.codegen.vector_loops import write_vectors
from optimizer.codegen.vector_text import VectorText, vector_names
from optimizer.codegen.vector_values import VectorNames
from optimizer.polyhedral.nest import Nest, Role
from optimizer.polyhedral.tree import Node
from optimizer.polyhedral.tree import loops as loops_of

SIMD = "optimizer.codegen.simd"
"""The module with the operations on vectors."""
NUMBA_NAMES = frozenset({"njit", "prange", "get_num_threads"})
UNSIGNED_COMMENT = "# Marks a subscript that is proved not to be negative, so that no wrap-around is compiled."


@dataclass(frozen=True, slots=True)
class ModuleParts:
    """The pieces of a generated module, for those who add to it."""

    imports: tuple[str, ...]
    constants: str
    preamble: str
    """The source's constants and helper functions."""
    checks: str
    """Functions that the checks of the arguments call."""
    check: str
    """What the function calls the one of them that it calls; empty when it calls none."""
    function: str
    operations: Mapping[str, str]
    """Those of `simd` that the function calls, and what it calls them."""

    def text(self, docstring: str) -> str:
        head = f'"""{docstring}"""\n\n' + "".join(f"{line}\n" for line in self.imports)
        blocks = [block.strip("\n") for block in (self.preamble, self.checks, self.function) if block.strip()]
        head += f"\n{self.constants}\n" if self.constants else ""
        return head + "".join(f"\n\n{block}\n" for block in blocks)


@dataclass(frozen=True, slots=True)
class NumbaBackend:
    """Prints `njit` functions; `prange` for parallel loops."""

    def source(self, nest: Nest, tree: Node, options: CodeOptions) -> str:
        parts = module_parts(nest, tree, options)
        ours = ((OVERLAP, {"may_overlap": parts.check} if parts.check else {}), (SIMD, parts.operations))
        lines = (f"from {module} import {_imported(names)}" for module, names in ours if names)
        return replace(parts, imports=(*parts.imports, *lines), checks="").text(f"{nest.name}, {GENERATED}")


def _imported(names: Mapping[str, str]) -> str:
    return ", ".join(name if name == own else f"{name} as {own}" for name, own in sorted(names.items()))


def module_parts(nest: Nest, tree: Node, options: CodeOptions) -> ModuleParts:
    """The module for a schedule, in pieces; raises as `Backend.source` does."""
    own = {array.name for array in nest.arrays}
    nest, tree = with_partial_arrays(nest, tree)
    memory = private_memory(nest, tree, own)
    nest, tree = with_twins_merged(memory.nest, tree)
    source_names = _source_names(nest)
    overlap_name, range_name = free_name("may_overlap", source_names), free_name("address_range", source_names)
    reserved = reserved_names(nest) | {overlap_name, range_name}
    memory = replace(memory, nest=nest)
    loops = with_guards(generate_loops(nest, tree, whole=set(memory.owners.values())), memory)
    places = _scalar_places(nest, tree, loops, reserved)
    reserved |= {place.name for place in places.values()}
    names = vector_names(nest, reserved)
    has_vectors = any(loop.vector != 1 for loop in loops_of(tree))
    if has_vectors:
        reserved |= names.all
    is_strict = options.fp is FloatingPoint.STRICT
    loops = name_iterators(loops, nest, reserved | {"at"})
    tiles = with_tile_memory(loops, nest, tree, memory.owners, reserved | {"at"})
    loops, nest, reserved = tiles.loops, tiles.nest, reserved | tiles.subscripts
    vectors = VectorText(nest, places, names, is_strict=is_strict)
    if any(loop.packs for loop in loops_of(tree)):
        packed = write_packs(loops, nest, reserved | {"at"})
        loops, reserved = packed.loops, reserved | packed.buffers
        vectors = VectorText(packed.nest, places, names, packed.buffers, packed.subscripts, is_strict)
    if has_vectors:
        loops = write_register_tiles(loops, vectors, reserved | {"at"})
    loops = write_out_unrolled(loops, reserved | {"at"})
    loops = write_vectors(loops, vectors, reserved | {"at"})
    loops = hold_elements(loops, vectors.nest, places.keys(), reserved | {"at"} | variables(loops))
    loops = with_allocations(with_fences(loops), memory)
    is_parallel = has_parallel_loop(loops)
    subscripts = Subscripts(free_name("at", reserved), counting_iterators(loops))
    name = options.function_name or nest.name
    printer = LoopPrinter(vectors.nest, places, subscripts, vectors, _module_names(nest, names, subscripts))
    lines = [
        decorator(options, is_parallel=is_parallel),
        signature(nest, name),
        *head_lines(nest, places, overlap_name, memory.owners),
        *printer.lines(loops, INDENT, reserved | {subscripts.unsigned}),
        *_tail_lines(nest, places),
    ]
    tiles = [f"{decorator(options)}\n{tile}" for _, tile in printer.tiles]
    function = "\n\n\n".join([*tiles, "\n".join(lines)])
    checks = overlap_check().replace("may_overlap", overlap_name).replace("address_range", range_name)
    checks = checks if _needs_overlap_check(nest) else ""
    constants = (
        f"{UNSIGNED_COMMENT}\n{subscripts.unsigned} = np.uint64" if f"{subscripts.unsigned}(" in function else ""
    )
    return ModuleParts(
        imports=import_lines(
            nest.preamble,
            numba_names=numba_names(function),
            needs_numpy="np." in constants + checks + function,
        ),
        constants=constants,
        preamble=decorated_functions(without_imports(nest.preamble), decorator(options)),
        checks=decorated_functions(checks, "@njit(cache=True)" if options.is_cached else "@njit"),
        check=overlap_name if checks else "",
        function=function,
        operations=_called(function, names.operations) if has_vectors else {},
    )


def _module_names(nest: Nest, names: VectorNames, subscripts: Subscripts) -> frozenset[str]:
    """Names that mean the same in all functions of the module; an argument may be called like a built-in function."""
    everywhere = {*names.operations.values(), subscripts.unsigned, *defined_names(nest.preamble), "np", "math"}
    of_function = {*nest.parameters, *(thing.name for thing in (*nest.arguments, *nest.arrays))}
    return frozenset((everywhere | set(dir(builtins))) - of_function)


def numba_names(text: str) -> set[str]:
    """Those of Numba that functions under `njit` use."""
    return {"njit", *(NUMBA_NAMES & names_of(text))}


def _called(function: str, operations: Mapping[str, str]) -> dict[str, str]:
    used = names_of(function)
    return {operation: name for operation, name in operations.items() if name in used}


def decorator(options: CodeOptions, *, is_parallel: bool = False) -> str:
    """The line above a function. Its flags for floating point and errors are those of the original."""
    flags = ", ".join(f'"{flag}"' for flag in options.fp.fastmath)
    chosen = [
        "parallel=True" if is_parallel else "",
        f"fastmath={{{flags}}}" if flags else "",
        'error_model="numpy"',
        "cache=True" if options.is_cached else "",
    ]
    return f"@njit({', '.join(option for option in chosen if option)})"


def reserved_names(nest: Nest) -> frozenset[str]:
    """Names that mean something else in the generated function than a loop's variable."""
    return _source_names(nest) | OVERLAP_NAMES


def _source_names(nest: Nest) -> frozenset[str]:
    """Those that mean something without anything of ours for checks."""
    iterators = {name for statement in nest.statements for name in statement.iterators}
    in_bodies = names_of(*(statement.body for statement in nest.statements)) - iterators
    return frozenset(
        {
            *in_bodies,
            *defined_names(nest.preamble),
            *names_before(nest),
            *names_of(*nest.epilogue),
            *nest.parameters,
            *(array.name for array in nest.arrays),
            *("np", "math", *NUMBA_NAMES, nest.name),
            *keyword.kwlist,
            *dir(builtins),
        }
    )


def _scalar_places(nest: Nest, tree: Node, loops: LoopNode, reserved: frozenset[str]) -> dict[str, ScalarPlace]:
    kept = names_before(nest) | names_of(*nest.epilogue)
    places: dict[str, ScalarPlace] = {}
    for scalar in scalar_arrays(nest, tree, loops):
        name = scalar.array.name
        places[name] = ScalarPlace(free_name(f"{name}_cell", reserved) if name in kept else name, scalar)
    return places


def _tail_lines(nest: Nest, places: dict[str, ScalarPlace]) -> list[str]:
    used = names_of(*nest.epilogue)
    stored = [f"{INDENT}{scalar} = {place.name}[0]" for scalar, place in places.items() if scalar in used]
    return stored + [f"{INDENT}{line}" for line in nest.epilogue]


def _needs_overlap_check(nest: Nest) -> bool:
    arguments = [array for array in nest.arrays if array.role is Role.ARGUMENT]
    return bool(written_arguments(nest)) and len(arguments) > 1
