"""Products in panels of the whole depth, and local arrays of which one tile is alive at a time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest

from optimizer.kernel_problem import KernelProblem
from optimizer.polyhedral.schedule import Schedule
from optimizer.polyhedral.templates.draft import Draft
from optimizer.polyhedral.templates.panel import panels

SOURCE = """
import numpy as np
from jaxtyping import Float64

def product(alpha: float, C: Float64[np.ndarray, "n m"], A: Float64[np.ndarray, "n k"], B: Float64[np.ndarray, "k m"]):
    C[:] = alpha * (A @ B) + 0.5 * C

def returned(A: Float64[np.ndarray, "n k"], B: Float64[np.ndarray, "k m"]) -> Float64[np.ndarray, "n m"]:
    return A @ B
"""
SIZES = {"n": 37, "m": 53, "k": 11}
TILES = "tile(i_2=16); register_tile(i_2=8, j_2=8); reorder(j_2_t, i_2_t_2); tile(i=16, j=8); tile(i_4=16, j_3=8)"
BLOCKS = "fuse(i_t, i_2_t); fuse(i_t, i_4_t)"
PANELS = "fuse(j_t, j_2_t); fuse(j_t, j_3_t)"


def problem_of(tmp_path: Path, name: str = "product", **sizes: int) -> KernelProblem:
    file = tmp_path / "products.py"
    file.write_text(SOURCE)
    chosen = {**SIZES, **sizes}
    return KernelProblem.load(f"{file}:{name}", ",".join(f"{size}={n}" for size, n in chosen.items()), threads=2)


def code_of(problem: KernelProblem, *steps: str) -> str:
    candidate = problem.parse("; ".join(steps).replace(";", "\n"))
    verdict = problem.judge(candidate)
    assert verdict.legal.value == "legal", verdict
    return problem.code(candidate)


def called(source: str, name: str, *arguments: Any) -> Any:
    names: dict[str, Any] = {}
    exec(compile(source, name, "exec"), names)
    return names[name](*arguments)


def test_what_is_made_of_a_product_is_made_of_each_panel(tmp_path: Path) -> None:
    problem = problem_of(tmp_path, n=1000, m=1100, k=900)
    (found,) = panels(Draft(problem.model, (), problem.nest.tree), (8, 24), problem.sizes, 2)
    steps = str(Schedule(found.steps))
    for step in ("fuse(i_t, i_2_t)", "fuse(j_t, j_2_t)", "fuse(i_t, i_4_t)", "fuse(j_t, j_3_t)", "pack(B, before=i_t)"):
        assert step in steps
    assert any(step == str(each) for step in (steps,) for each in problem.templates()[:2])


def test_a_depth_that_no_cache_holds_has_no_panels(tmp_path: Path) -> None:
    problem = problem_of(tmp_path, k=9000)
    assert not list(panels(Draft(problem.model, (), problem.nest.tree), (8, 24), problem.sizes, 2))


def test_a_product_of_which_one_tile_is_alive_is_one_tile_large(tmp_path: Path) -> None:
    source = code_of(problem_of(tmp_path), TILES, BLOCKS, PANELS, "parallel(i_t)")
    assert "        sum = np.empty((16, 8))" in source
    assert "sum[at(i - 16 * i_t), at(j - 8 * j_t)] = 0.0" in source
    inner = code_of(problem_of(tmp_path), TILES, BLOCKS, PANELS, "parallel(j_t)")
    assert "            sum = np.empty((16, 8))" in inner, "threads would share a tile"


@pytest.mark.parametrize(
    ("name", "steps"),
    [
        ("product", (TILES,)),
        ("product", (TILES, BLOCKS, "parallel(i_t)")),
        ("product", (TILES, BLOCKS, PANELS.split(";")[0])),
        ("returned", (TILES.rpartition(";")[0], "fuse(i_t, i_2_t); fuse(j_t, j_2_t)", "parallel(i_t)")),
    ],
)
def test_other_arrays_keep_their_size(name: str, steps: tuple[str, ...], tmp_path: Path) -> None:
    source = code_of(problem_of(tmp_path, name), *steps)
    assert "np.empty((16" not in source
    assert "np.empty((n, m))" in source


@pytest.mark.parametrize("shape", [(1, 1, 1), (8, 8, 8), (17, 9, 3), (37, 53, 11), (16, 24, 0), (0, 3, 2), (40, 25, 2)])
@pytest.mark.parametrize("threads", ["", "parallel(i_t)", "parallel(j_t)"])
def test_results_are_the_same(shape: tuple[int, int, int], threads: str, tmp_path: Path) -> None:
    n, m, k = shape
    copies = "pack(B, before=i_t)" if threads != "parallel(j_t)" else ""
    source = code_of(problem_of(tmp_path), *filter(None, (TILES, BLOCKS, PANELS, threads, copies)))
    rng = np.random.default_rng(n)
    A, B, C = rng.random((n, k)), rng.random((k, m)), rng.random((n, m))
    expected = 0.3 * (A @ B) + 0.5 * C
    called(source.replace("cache=True", "cache=False"), "product", 0.3, C, A, B)
    np.testing.assert_allclose(C, expected, rtol=1e-13)
    assert numba.get_num_threads() >= 1
