"""Writing vectors past the caches, for what is not read again soon: its lines are not loaded first, and push out none.

On x86 such stores wait in buffers of the processor, and other processors may see them later than ordinary stores that
come after them, the one included by which a thread says that it is done. So threads that wait for one another, which
for all else is enough, may read old values of what was streamed. A fence orders them: what comes after it is not seen
before all that was streamed before it. The thread itself always reads what it has written.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import lower_builtin, type_callable

from optimizer.codegen.simd.memory import address_of, compile_store, store, type_stored
from optimizer.codegen.simd.vector import Vector, converted


def store_streaming(array: Any, index: Any, vector: Any) -> None:
    """As `store`; past the caches where the vector is at a multiple of its size in memory."""
    store(array, index, vector)


def fence() -> None:
    """Other threads see all that was streamed before whatever is stored from now on."""


@type_callable(store_streaming)
def type_store_streaming(context: Any) -> Any:
    return lambda array, index, vector: type_stored(array, vector)


@type_callable(fence)
def type_fence(context: Any) -> Any:
    return lambda: types.none


@lower_builtin(store_streaming, types.Array, types.Any, Vector)
def compile_store_streaming(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    array, _, kind = signature.args
    if array.layout != "C":
        return compile_store(context, builder, signature, arguments)
    address, _ = address_of(context, builder, signature, arguments)
    vector = converted(context, builder, arguments[2], kind, array.dtype, kind.lanes)
    pointer = builder.bitcast(address, vector.type.as_pointer())
    element = array.dtype.bitwidth // 8
    size = kind.lanes * element
    number = builder.ptrtoint(address, ir.IntType(64))
    past = builder.and_(number, number.type(size - 1))
    # The processor refuses such a store anywhere else, so that it is not left to who calls this.
    with builder.if_else(builder.icmp_unsigned("==", past, past.type(0)), likely=True) as (whole, elsewhere):
        with whole:
            streamed = builder.store(vector, pointer, align=size)
            streamed.set_metadata("nontemporal", builder.module.add_metadata([ir.IntType(32)(1)]))
        with elsewhere:
            builder.store(vector, pointer, align=element)
    return context.get_dummy_value()


@lower_builtin(fence)
def compile_fence(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    builder.fence("seq_cst")
    return context.get_dummy_value()
