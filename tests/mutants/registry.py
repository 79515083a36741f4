"""Every kind of fault."""

from __future__ import annotations

from tests.mutants.fault import Fault
from tests.mutants.flag_faults import FLAG_FAULTS
from tests.mutants.loop_faults import LOOP_FAULTS
from tests.mutants.mask_faults import MASK_FAULTS
from tests.mutants.memory_faults import MEMORY_FAULTS
from tests.mutants.statement_faults import STATEMENT_FAULTS
from tests.mutants.thread_faults import THREAD_FAULTS
from tests.mutants.value_faults import VALUE_FAULTS
from tests.mutants.vector_faults import VECTOR_FAULTS

FAULTS: tuple[Fault, ...] = (
    *LOOP_FAULTS,
    *STATEMENT_FAULTS,
    *VALUE_FAULTS,
    *MEMORY_FAULTS,
    *THREAD_FAULTS,
    *FLAG_FAULTS,
    *VECTOR_FAULTS,
    *MASK_FAULTS,
)
