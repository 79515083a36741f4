"""Writing past the caches: what is refused, the code with its fences, and that all numbers arrive."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest

from optimizer.codegen.backend import CodeOptions
from optimizer.codegen.export import ExportHeader, export_module
from optimizer.codegen.loops_apart import with_loops_apart
from optimizer.codegen.simd import fence, load, splat, store_streaming
from optimizer.errors import StepError
from optimizer.kernel_problem import KernelProblem
from optimizer.polyhedral.legality import Legal, judge
from optimizer.polyhedral.model import model_of
from optimizer.polyhedral.schedule import parse_schedule
from optimizer.polyhedral.tree import loops
from tests.test_random_schedules import nest_named
from tests.test_simd import DTYPES
from tests.test_vectorize import loop_code

BLUR = "vectorize(x); vectorize(x_2); stream(blurred)"


def doubled(array: Any, out: Any) -> None:
    for row in range(out.shape[0]):
        for column in range(0, out.shape[1] - 3, 4):
            store_streaming(out, (row, column), load(array, (row, column), 4) * splat(2, 4))
    fence()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("offset", range(5))
def test_every_vector_arrives_wherever_it_lies(dtype: Any, offset: int) -> None:
    compiled = numba.njit(doubled)
    numbers = np.arange(3 * 12).reshape(3, 12).astype(dtype)
    memory = np.zeros((6, 45), dtype)
    flat = memory.reshape(-1)[offset : offset + 36].reshape(3, 12)
    for out in (flat, np.asfortranarray(flat), memory[::2, offset : offset + 36 : 3], memory[:3, offset : offset + 12]):
        for run in (doubled, compiled):
            out[...] = 1
            run(numbers, out)
            np.testing.assert_array_equal(out, 2 * numbers)


def test_an_array_between_its_elements_addresses_is_written_as_any_other() -> None:
    memory = np.zeros(8 * 36 + 4, np.uint8)
    out = memory[4:].view(np.float64).reshape(3, 12)
    assert not out.flags.aligned
    numbers = np.arange(36.0).reshape(3, 12)
    numba.njit(doubled)(numbers, out)
    np.testing.assert_array_equal(out, 2 * numbers)


def test_compiled_stores_go_past_the_caches() -> None:
    compiled = numba.njit(doubled)
    compiled(np.ones((1, 8)), np.ones((1, 8)))
    text = compiled.inspect_llvm(compiled.signatures[0])
    assert "!nontemporal" in text
    assert "fence seq_cst" in text


def test_vectors_of_whole_lines_are_streamed_and_all_else_is_stored() -> None:
    text = loop_code(nest_named("blur"), BLUR)
    assert "x_2_aligned = 1 + to_boundary(blurred, (y_2, 1), 8)" in text.replace(", 4)", ", 8)").replace(", 2)", ", 8)")
    assert text.count("store_streaming(blurred, (y_2, x_2), value)") == 1
    assert text.count("store_masked(blurred, (y_2, x_2), value, mask)") == 2
    assert "store_streaming(tmp" not in text
    assert text.endswith("\n    fence()")


def test_each_thread_has_one_fence_at_its_end() -> None:
    text = loop_code(nest_named("blur"), f"{BLUR}; stream(tmp); parallel(y); parallel(y_2)")
    assert text.count("\n        fence()") == 2
    apart = with_loops_apart(text)
    assert apart.count("\n    fence()\n") == 2
    assert apart.count("fence()") == 2


def test_threads_that_start_later_read_what_one_thread_has_streamed() -> None:
    text = loop_code(nest_named("jacobi-2d"), "vectorize(j); stream(B); parallel(i_2)")
    before, after = text.split("\n        fence()\n")
    assert "store_streaming(B" in before
    assert after.startswith("        for i_2 in prange(")


@pytest.mark.parametrize(
    ("kernel", "text", "message", "near"),
    [
        ("blur", "stream(Q)", "there is no array Q; there are image, tmp, blurred", ()),
        ("blur", "stream(blurred)", "no vector loop writes neighbours of blurred", ("vectorize(x_2)",)),
        ("blur", "vectorize(x); stream(image)", "no vector loop writes neighbours of image", ()),
        ("blur", f"{BLUR}; stream(blurred)", "blurred is streamed already", ()),
        ("blur", "interchange(y, x); vectorize(y); stream(tmp)", "no vector loop writes neighbours of tmp", ()),
        ("gemver", "vectorize(j); stream(A)", "S0 reads A in a loop that also writes it in j", ()),
        ("blur", "shift(S1, y_2, 1); fuse(y, y_2); vectorize(x); stream(tmp)", "S1 reads tmp in a loop that", ()),
    ],
)
def test_a_refusal_says_why_and_what_would_work(kernel: str, text: str, message: str, near: tuple[str, ...]) -> None:
    with pytest.raises(StepError) as raised:
        parse_schedule(text).apply(nest_named(kernel))
    assert message in raised.value.message
    assert raised.value.near == near


def test_what_is_read_by_another_sweep_may_be_streamed() -> None:
    tree = parse_schedule("vectorize(j); vectorize(j_2); stream(A); stream(B)").apply(nest_named("jacobi-2d"))
    assert {loop.name: loop.streams for loop in loops(tree) if loop.streams} == {"j": ("B",), "j_2": ("A",)}


def test_it_changes_no_verdict() -> None:
    nest = nest_named("blur")
    for threads, legal in (("parallel(y_2)", Legal.YES), ("fuse(y, y_2)", Legal.NO)):
        tree = parse_schedule(f"{threads}; vectorize(x_2); stream(blurred)").apply(nest)
        assert judge(model_of(nest), tree).legal is legal


def test_templates_stream_large_arrays_only() -> None:
    small, large = (KernelProblem.load("blur", size, threads=2).templates() for size in ("small", "large"))
    assert not any("stream(" in str(schedule) for schedule in small)
    places = [k for k, schedule in enumerate(large) if "stream(" in str(schedule)]
    assert min(places) > 5
    pieces = next(str(large[k]) for k in places)
    assert "tile(x=512)" in pieces
    assert pieces.endswith("parallel(x_t); vectorize(x); stream(blurred)")


def test_an_exported_module_carries_what_it_needs(tmp_path: Path) -> None:
    nest = nest_named("blur")
    header = ExportHeader("", "", {"loopwright": "0"}, "", "", "")
    tree = parse_schedule(f"{BLUR}; parallel(y_2)").apply(nest)
    text = export_module(nest, tree, CodeOptions(), header)
    assert "from optimizer" not in text
    file = tmp_path / "blur.py"
    file.write_text(text)
    names = runpy.run_path(str(file))
    image = np.random.default_rng(0).uniform(size=(20, 70))
    results = []
    for function in (names["blur"], names["original_blur"]):
        tmp, blurred = np.zeros_like(image), np.zeros_like(image)
        function(*image.shape, image, tmp, blurred)
        results.append(blurred)
    np.testing.assert_allclose(*results, rtol=1e-14)
