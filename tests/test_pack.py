"""The step `pack`: what is refused, what is stale, what the code copies, and that results stay the same."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernels import catalog
from optimizer.codegen.backend import CodeOptions, FloatingPoint
from optimizer.codegen.numba_source import NumbaBackend
from optimizer.errors import CandidateError, StepError
from optimizer.measure.commands import Form
from optimizer.measure.loading import plain_function
from optimizer.polyhedral.legality import Legal, judge
from optimizer.polyhedral.model import model_of
from optimizer.polyhedral.nest import Nest
from optimizer.polyhedral.schedule import Schedule, parse_schedule
from optimizer.polyhedral.steps.autoschedule import Autoschedule
from optimizer.polyhedral.templates.draft import Draft
from optimizer.polyhedral.templates.register import eliminations
from optimizer.polyhedral.witness import Fault
from tests.hand_nests import gemm
from tests.test_random_schedules import assert_same_bits, inputs, module_function, nest_named, run
from tests.test_vectorize import nest_of
from tests.vector_units import lanes_of_doubles

TILE = "distribute(i); register_tile(i_2=2, j_2=8)"


def source_of(nest: Nest, schedule: str, lanes: int = 4) -> str:
    tree = parse_schedule(schedule).apply(nest)
    judgement = judge(model_of(nest), tree)
    assert judgement.legal is Legal.YES, judgement
    with lanes_of_doubles(lanes):
        return NumbaBackend().source(nest, tree, CodeOptions(FloatingPoint.STRICT))


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        ("distribute(i); pack(B, before=i_2)", "there is no register tile inside i_2: pack after register_tile"),
        (f"{TILE}; pack(D, before=i_2_t)", "there is no array D; there are C, A, B"),
        (f"{TILE}; pack(B, before=x)", "there is no loop x"),
        (f"{TILE}; pack(B, before=i_2)", "there is no register tile inside i_2: pack after register_tile"),
        (f"{TILE}; pack(C, before=i_2_t)", "no register tile inside i_2_t reads C; it reads A, B"),
        (f"{TILE}; pack(B, before=i_2_t); pack(B, before=j_2_t)", "B is packed before i_2_t already"),
        (f"{TILE}; pack(B, before=j_2_t); pack(B, before=i_2_t)", "B is packed before j_2_t already"),
        (f"{TILE}; pack(B)", "pack needs before"),
    ],
)
def test_a_pack_that_makes_no_sense_is_refused(schedule: str, message: str) -> None:
    with pytest.raises(StepError, match=message):
        parse_schedule(schedule).apply(gemm())


def test_the_text_of_a_step_means_it() -> None:
    schedule = parse_schedule("pack(B, before=i_t)")
    assert str(schedule) == "pack(B, before=i_t)"
    assert parse_schedule(str(schedule)) == schedule


HEAD = "import numpy as np\nfrom jaxtyping import Float64\n\n"
IN_PLACE = f"""{HEAD}
def kernel(n: int, A: Float64[np.ndarray, "n n"]):
    for t in range(n):
        for i in range(t + 1, n):
            for j in range(t + 1, n):
                for k in range(t):
                    A[i, j] -= A[i, k] * A[k, j]
        for l in range(n):
            A[t, l] *= 2.0
"""


def test_a_copy_made_before_what_it_copies_is_written_is_stale(tmp_path: Path) -> None:
    nest = nest_of(tmp_path, IN_PLACE)
    tiled = parse_schedule("register_tile(i=2, j=4)")
    assert judge(model_of(nest), tiled.apply(nest)).legal is Legal.YES
    good = judge(model_of(nest), parse_schedule(f"{tiled}; pack(A, before=i_t)").apply(nest))
    assert good.legal is Legal.YES, good
    judgement = judge(model_of(nest), parse_schedule(f"{tiled}; pack(A, before=t)").apply(nest))
    assert judgement.legal is Legal.NO
    assert judgement.witness is not None
    assert judgement.witness.fault is Fault.STALE
    assert "what is packed before t is copied before both" in str(judgement.witness)


def test_a_thread_packs_nothing_of_an_array_that_threads_write() -> None:
    nest = nest_named("trmm")
    schedule = "distribute(j); distribute(i); register_tile(i=2, j=4); reorder(j_t, i_t); parallel(j_t); "
    judgement = judge(model_of(nest), parse_schedule(f"{schedule} pack(B, before=i_t)").apply(nest))
    assert judgement.legal is Legal.NO
    assert "in the parallel loop j_t, inside which B is packed before i_t" in judgement.detail
    assert judge(model_of(nest), parse_schedule(f"{schedule} pack(A, before=i_t)").apply(nest)).legal is Legal.YES


def test_panels_are_copied_on_threads_and_a_thread_has_copies_of_its_own() -> None:
    schedule = "distribute(i); register_tile(i_2=2, j_2=8); parallel(i_2_t); "
    lines = source_of(gemm(), schedule + "pack(B, before=i_2_t); pack(A, before=j_2_t)").splitlines()
    text = [line.strip() for line in lines]
    assert text.count("for j_2_t in prange((nj + 7) // 8):") == 1
    assert "B_packed[j_2_t, k, at(j_2 - 8 * j_2_t)] = B[k, at(j_2)]" in text
    assert text.index("A_packed = np.zeros((nk, 2))") == text.index("for i_2_t in prange((ni + 1) // 2):") + 1
    assert "A_packed[k, at(i_2 - 2 * i_2_t)] = alpha * A[at(i_2), k]" in text
    assert "B_packed_0 = load(B_packed, (j_2_t, k, 0), 4)" in text
    assert "x_1 = A_packed[k, 1]" in text


def test_reads_of_one_element_of_each_row_become_reads_of_neighbours() -> None:
    source = source_of(nest_named("syrk"), f"{TILE}; pack(A, before=i_2_t)")
    assert "gather" not in source
    assert source.count("_packed = np.zeros(") + source.count("_packed_2 = np.zeros(") == 2


CASES = {
    "covariance": "distribute(j_3); distribute(i_3); register_tile(i_4=3, j_4=8); parallel(i_4_t); "
    "pack(data, before=i_4_t)",
    "doitgen": "distribute(p); register_tile(p_3=8); pack(C4, before=r); pack(A, before=p_3_t)",
    "gemm": "distribute(i); tile(k=4, i_2=4); reorder(k_t, i_2_t, j_2, i_2, k); register_tile(i_2=2, j_2=4); "
    "interchange(i_2_t_2, j_2_t); parallel(i_2_t); pack(B, before=i_2_t); pack(A, before=j_2_t)",
    "matmul-float32": "tile(k=3); reorder(k_t, i, j, k); register_tile(i=3, j=8); pack(B, before=i_t); "
    "pack(A, before=j_t)",
    "symm": "autoschedule(); register_tile(k_2=3, j_2=8); pack(A, before=k_2_t); pack(B, before=k_2_t)",
    "syr2k": f"{TILE}; parallel(i_2_t, share=ends); pack(A, before=i_2_t); pack(B, before=i_2_t)",
    "trmm": "distribute(j); distribute(i); register_tile(i=3, j=8); reorder(j_t, i_t); parallel(j_t); "
    "pack(A, before=j_t)",
}


@pytest.mark.parametrize("name", CASES)
def test_results_have_the_bits_of_the_original(name: str) -> None:
    nest = nest_named(name)
    source = source_of(nest, CASES[name])
    expected = run(module_function(nest.original, nest.name), inputs(name))
    for form in (Form.WATCHED, Form.BACKWARD) if "prange" in source else (Form.PLAIN,):
        assert_same_bits(run(plain_function(source, "candidate", nest.name, form), inputs(name)), expected, name)


@pytest.mark.parametrize("name", ["gemm", "syr2k", "trmm"])
def test_compiled_results_have_the_bits_of_the_original(name: str) -> None:
    import numba

    nest = nest_named(name)
    function = module_function(source_of(nest, CASES[name]), nest.name)
    original = numba.njit(error_model="numpy")(module_function(nest.original, nest.name))
    names = catalog.load(name).SIZES["mini"]
    for sizes in ({}, dict.fromkeys(names, 1), dict.fromkeys(names, 0)):
        expected, got = (run(f, made(name, sizes)) for f in (original, function))
        assert_same_bits(got, expected, f"{name} {sizes}")


def made(name: str, sizes: dict[str, int]) -> dict[str, Any]:
    sizes = {**catalog.load(name).SIZES["mini"], **sizes}
    return catalog.load(name).make_inputs(**sizes, rng=np.random.default_rng(5))


def test_a_schedule_with_nothing_to_copy_has_no_code(tmp_path: Path) -> None:
    matrix = 'Float64[np.ndarray, "n n"]'
    text = f"""{HEAD}
def kernel(n: int, A: {matrix}, B: Float64[np.ndarray, "2*n 2*n"], C: {matrix}):
    for i in range(n):
        for j in range(n):
            for k in range(n):
                C[i, j] += A[i, 0] * B[i + k, j + k]
"""
    nest = nest_of(tmp_path, text)
    for array, reason in (("A", "k always reads the same"), ("B", "depends on several loops of the tile")):
        with pytest.raises(CandidateError, match=f"nothing can be packed: {array}: .*{reason}"):
            source_of(nest, f"register_tile(i=2, j=4); pack({array}, before=i_t)")


@pytest.mark.parametrize("name", ["lu", "cholesky", "ludcmp"])
def test_an_elimination_that_updates_from_copies_has_the_bits_of_the_original(name: str) -> None:
    nest = nest_named(name)
    start = Draft(model_of(nest), (), nest.tree).then(Autoschedule())
    assert start is not None
    source = source_of(nest, str(Schedule(next(eliminations(start, (4, 8), threads=2)).steps)))
    assert "A_packed" in source
    arguments = catalog.load(name).make_inputs(n=37, rng=np.random.default_rng(5))
    expected = run(module_function(nest.original, nest.name), copy.deepcopy(arguments))
    for form in (Form.WATCHED, Form.BACKWARD):
        got = run(plain_function(source, "candidate", nest.name, form), copy.deepcopy(arguments))
        assert_same_bits(got, expected, name)
