"""Parallel loops in functions of their own: which are taken out, and what threads make of them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytest

from optimizer.codegen.backend import CodeOptions
from optimizer.codegen.export import ExportHeader, export_module
from optimizer.codegen.loops_apart import with_loops_apart
from optimizer.codegen.threads import in_threads
from optimizer.polyhedral.schedule import parse_schedule
from tests.hand_nests import row_sum

HEAD = 'import numpy as np\nfrom numba import njit, prange\n\n\n@njit(parallel=True, error_model="numpy")\n'


def module(*body: str) -> str:
    return HEAD + "def f(n, x, A):\n" + "".join(f"    {line}\n" for line in body)


def test_the_loop_becomes_a_function_of_what_it_uses():
    text = module("for t in range(n):", "    for i in prange(t, n):", "        # Rows.", "        for j in prange(n):",
                  "            A[i, j] += x[t]", "x[0] = 1.0")  # fmt: skip
    assert with_loops_apart(text) == (
        'import numpy as np\nfrom numba import njit, prange\n\n\n@njit(error_model="numpy")\n'
        "def f_loop(first, last, A, n, t, x):\n"
        "    for i in range(first, last):\n"
        "        # Rows.\n"
        "        for j in range(n):\n"
        "            A[i, j] += x[t]\n"
        "\n\n"
        '@njit(error_model="numpy")\n'
        "def f(n, x, A):\n"
        "    for t in range(n):\n"
        "        in_threads(f_loop, t, n, (A, n, t, x))\n"
        "    x[0] = 1.0\n"
    )


@pytest.mark.parametrize(
    "body",
    [
        ["s = 0.0", "for i in prange(n):", "    s += x[i]", "x[0] = s"],
        ["for i in prange(n):", "    s = x[i]", "x[0] = s"],
        ["for i in prange(n):", "    x[i] = 1.0", "x[0] = i"],
        ["s = 0.0", "for i in prange(n):", "    x[i] = s", "    s = x[i]"],
        ["s = 0.0", "for t in range(n):", "    x[0] = s", "    for i in prange(n):", "        s = x[i]"],
        ["for i in prange(n):", "    if i == 0:", "        s = 1.0", "    x[i] = s"],
        ["for i in prange(n):", "    if x[i] < 0.0:", "        return"],
        ["for i in prange(n):", "    x[i] = max([A[i, j] for j in range(n)])"],
        ["for i in prange(0, n, 2):", "    x[i] = 1.0"],
        ["for i in prange(n): x[i] = 1.0"],
        ["in_threads = 0", "for i in prange(n):", "    x[i] = in_threads"],
        ["for i in range(n):", "    x[i] = 1.0"],
    ],
)
def test_a_function_that_is_not_understood_stays_whole(body):
    text = module(*body)
    assert with_loops_apart(text) == text


def test_blocks_are_all_numbers_once_and_arguments_keep_their_types():
    @numba.njit
    def part(first, last, counts, step, flag):
        for k in range(first, last):
            counts[k] += step if flag else 0.0

    @numba.njit
    def everything(counts, start, step):
        in_threads(part, start, len(counts), (counts, step, True))
        in_threads(part, 0, 2, (counts, 1, True))
        in_threads(part, 5, 1, (counts, 100, True))

    before = numba.get_num_threads()
    for threads in (1, 2):
        numba.set_num_threads(min(threads, numba.config.NUMBA_NUM_THREADS))
        counts = np.zeros(7)
        everything(counts, 3, 2.5)
        assert counts.tolist() == [1.0, 1.0, 0.0, 2.5, 2.5, 2.5, 2.5]
        nothing = np.zeros(2)
        everything(nothing, -2, 0.0)
    numba.set_num_threads(before)


def test_what_a_thread_raises_is_raised():
    @numba.njit
    def part(first, last, x):
        for k in range(first, last):
            if x[k] < 0.0:
                raise ValueError("negative")

    @numba.njit
    def check(x):
        in_threads(part, 0, len(x), (x,))
        return True

    assert check(np.ones(9))
    with pytest.raises(ValueError, match="negative"):
        check(np.array([1.0, 1.0, -1.0]))


def test_an_exported_module_runs_on_threads_also_when_it_comes_from_the_cache(tmp_path: Path):
    nest = row_sum()
    tree = parse_schedule("tile(i=8); parallel(i_t)").apply(nest)
    text = export_module(nest, tree, CodeOptions(), ExportHeader("", "m", {}, "1x", "t", "d"))
    assert f"in_threads({nest.name}_loop, 0, " in text
    file = tmp_path / "exported.py"
    file.write_text(text, encoding="utf-8")
    for _ in range(2):
        run = subprocess.run([sys.executable, file], capture_output=True, text=True, check=False)
        assert run.returncode == 0, run.stdout + run.stderr
    assert "agrees with" in run.stdout
