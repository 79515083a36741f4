"""What generated functions look like. A missing golden file is written: look at it, then run the test again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from optimizer.codegen.backend import CodeOptions
from optimizer.codegen.numba_source import module_parts
from optimizer.polyhedral.nest import Nest
from optimizer.polyhedral.schedule import parse_schedule
from tests.hand_nests import gemm, lu, row_sum
from tests.test_random_schedules import nest_named
from tests.vector_units import lanes_of_doubles

GOLDEN = Path(__file__).parent / "data" / "golden"

CASES: dict[str, tuple[Callable[[], Nest], str]] = {
    "gemm_original": (gemm, ""),
    "gemm_tiled_parallel": (gemm, "distribute(i); tile(i_2=32, k=32, j_2=64); parallel(i_2_t); parallel(i)"),
    "gemm_shifted": (gemm, "interchange(k, j_2); fuse(j, j_2); shift(S1, j, 1)"),
    "gemm_wavefront": (gemm, "distribute(i); skew(k, by=i_2); tile(i_2=8, k=8); wavefront(i_2_t, k_t)"),
    "gemm_unroll_and_jam": (gemm, "distribute(i); unroll_and_jam(i_2, 4)"),
    "gemm_register_tile": (gemm, "distribute(i); register_tile(i_2=2, j_2=8)"),
    "gemm_packed": (
        gemm,
        "distribute(i); tile(k=256, i_2=4); reorder(k_t, i_2_t, j_2, i_2, k); register_tile(i_2=2, j_2=4); "
        "interchange(i_2_t_2, j_2_t); parallel(i_2_t); pack(B, before=i_2_t); pack(A, before=j_2_t)",
    ),
    "gemm_vectorized": (gemm, "unroll_and_jam(k, 2); vectorize(j_2, 4)"),
    "lu_unrolled": (lu, "interchange(j_2, k_2); unroll(j_2, 4)"),
    "lu_reversed": (lu, "reverse(j_2); unroll(k_2, 2)"),
    "row_sum_interchanged": (row_sum, "distribute(i); interchange(i_2, j); tile(i_2=64)"),
    "row_sum_in_chunks": (row_sum, "reverse(i); parallel(i, chunk=4)"),
    "row_sum_parallel": (row_sum, "tile(i=8); parallel(i_t)"),
    "trmm_register_tile": (
        lambda: nest_named("trmm"),
        "distribute(j); distribute(i); register_tile(i=2, j=8); parallel(j_t)",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_generated_text(name: str) -> None:
    make, schedule = CASES[name]
    nest = make()
    with lanes_of_doubles(4):
        text = module_parts(nest, parse_schedule(schedule).apply(nest), CodeOptions()).function + "\n"
    file = GOLDEN / f"{name}.py"
    if not file.exists():
        file.write_text(text, encoding="utf-8")
        pytest.fail(f"{file} did not exist and was written; look at it")
    assert text == file.read_text(encoding="utf-8")
