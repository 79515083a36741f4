"""Running the iterations of a loop on Numba's threads.

Each thread runs its block of them by one call of a function that is compiled as any other is. Numba's own `prange`
wraps the body of a loop twice, and compiles it anew in each wrapping.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import lower_builtin
from numba.np.ufunc.parallel import _launch_threads as launch_threads  # pyright: ignore[reportPrivateUsage]


def in_threads(part: Any, start: int, stop: int, arguments: tuple[Any, ...]) -> None:
    """Call `part(first, last, *arguments)` for blocks which together are the numbers from `start` up to `stop`.

    No array among the arguments shares memory with one that the part writes. What a call raises is raised when all
    threads are done.
    """
    part(start, stop, *arguments)


class InThreads(AbstractTemplate):
    """Compiles the part for numbers without a sign where the first is known to have none, as `prange` does."""

    key = in_threads
    prefer_literal = True

    def generic(self, args: Any, kws: Any) -> Any:
        part, start, _, arguments = args
        is_counted = isinstance(start, types.IntegerLiteral) and start.literal_value >= 0
        number = types.uint64 if is_counted else types.int64
        part.dispatcher._compiler._customize_flags = without_overlap
        part.get_call_type(self.context, (number, number, *map(types.unliteral, arguments)), {})
        return signature(types.none, part, number, number, arguments)


infer_global(in_threads, types.Function(InThreads))


def without_overlap(flags: Any) -> Any:
    """Compiler flags for a function whose arguments share no memory."""
    flags.noalias = True
    return flags


@lower_builtin(in_threads, types.Any, types.Any, types.Any, types.Any)
def compile_in_threads(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    part, number, _, kinds = signature.args
    compiled = part.dispatcher.overloads[(number, number, *map(types.unliteral, kinds))]
    library = context.active_code_library
    library.add_linking_library(compiled.library)
    library._reload_init.add(launch_threads)
    launch_threads()

    _, start, stop, packed = arguments
    word, address = ir.IntType(64), ir.IntType(8).as_pointer()
    get_num_threads = cgutils.get_or_insert_function(builder.module, ir.FunctionType(word, []), "get_num_threads")
    threads = builder.call(get_num_threads, [])
    no_error = ir.Constant(context.call_conv._get_excinfo_argument(builder.function).type.pointee, None)
    values = [start, stop, threads, packed, ir.IntType(32)(0), no_error]
    shared = cgutils.alloca_once_value(builder, cgutils.pack_struct(builder, values))
    blocks = compile_blocks(context, builder.module, shared.type, compiled, kinds)

    kind = ir.FunctionType(ir.VoidType(), [address] * 5 + [word] * 3)
    parallel_for = cgutils.get_or_insert_function(builder.module, kind, "numba_parallel_for")
    # Threads get the "addresses" 0, 1, 2, ...: the numbers of their blocks.
    first, count, step = (
        cgutils.alloca_once_value(builder, value) for value in (ir.Constant(address, None), threads, word(1))
    )
    pointers = [builder.bitcast(pointer, address) for pointer in (blocks, first, count, step, shared)]
    with builder.if_then(builder.icmp_signed("<", start, stop)):
        python = context.get_python_api(builder)
        lock = python.gil_ensure()
        state = python.save_thread()
        builder.call(parallel_for, [*pointers, word(0), word(1), threads])
        python.restore_thread(state)
        python.gil_release(lock)
    code, error = (builder.load(cgutils.gep_inbounds(builder, shared, 0, field)) for field in (4, 5))
    with builder.if_then(builder.icmp_signed("!=", code, code.type(0))):
        status = context.call_conv._get_return_status(builder, code, error)
        context.call_conv.return_status_propagate(builder, status)
    return context.get_dummy_value()


def compile_blocks(context: Any, module: Any, shared_type: Any, compiled: Any, kinds: Any) -> Any:
    """The function that a thread calls, once or more, with one or more blocks to run; all threads share the rest."""
    word, address = ir.IntType(64), ir.IntType(8).as_pointer()
    kind = ir.FunctionType(ir.VoidType(), [address.as_pointer(), word.as_pointer(), word.as_pointer(), address])
    function = ir.Function(module, kind, module.get_unique_name(f"{compiled.fndesc.mangled_name}.blocks"))
    function.linkage = "internal"
    builder = ir.IRBuilder(function.append_basic_block())
    first, blocks, _, data = function.args
    shared = builder.bitcast(data, shared_type)
    fields = [cgutils.gep_inbounds(builder, shared, 0, field) for field in range(6)]
    start, stop, threads, packed = map(builder.load, fields[:4])
    arguments = [
        context.cast(builder, value, kind, types.unliteral(kind))
        for kind, value in zip(kinds, cgutils.unpack_tuple(builder, packed), strict=True)
    ]
    length = builder.sub(stop, start)
    first_block = builder.ptrtoint(builder.load(first), word)
    with cgutils.for_range(builder, builder.load(blocks)) as loop:
        block = builder.add(first_block, loop.index)
        ends = [
            builder.add(start, builder.sdiv(builder.mul(length, end), threads))
            for end in (block, builder.add(block, word(1)))
        ]
        given = [*ends, *arguments]
        status, _ = context.call_internal_no_propagate(builder, compiled.fndesc, compiled.signature, given)
        with builder.if_then(status.is_error):
            builder.store(status.code, fields[4])
            builder.store(status.excinfoptr, fields[5])
    builder.ret_void()
    return function
