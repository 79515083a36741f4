"""The problem of a kernel: sizes, memory, candidates and their identity, neighbours, what is run and remembered."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import psutil
import pytest

from kernels import catalog
from optimizer.errors import ScheduleSyntaxError, StepError, UserError
from optimizer.kernel_problem import MOST_CHECK_ITERATIONS, KernelProblem
from optimizer.measure.workload import CatalogInputs, RandomInputs
from optimizer.polyhedral.counting import iterations
from optimizer.polyhedral.legality import Legal
from optimizer.protocols import Problem, Searchable
from optimizer.registry import make_problem

OWN = """
import numpy as np
from jaxtyping import {dtype}


def pairs(n: int, m: int, x: {dtype}[np.ndarray, "n"], y: {dtype}[np.ndarray, "m"]):
    for i in range(m - 1):
        y[i] += 2.0 * x[2 * i + 1]
"""
"""Stays inside its arrays where 2 m <= n + 2."""


@pytest.fixture(scope="module")
def problem() -> KernelProblem:
    return KernelProblem.load("matmul", "mini", threads=2)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "pairs.py"
    path.write_text(OWN.format(dtype="Float64"), encoding="utf-8")
    return path


def test_it_is_a_problem_that_can_be_searched(problem: KernelProblem) -> None:
    checked: Problem = problem
    assert isinstance(checked, Searchable)
    assert (problem.name, problem.size, problem.threads) == ("matmul", "mini", 2)
    assert problem.sizes == catalog.load("matmul").SIZES["mini"]
    assert problem.baseline.text == ""


@pytest.mark.parametrize(
    ("kernel", "size", "message"),
    [
        ("matmull", "mini", r"no bundled kernel is called 'matmull'; did you mean matmul"),
        ("matmul", "tiny", "unknown size 'tiny'"),
        ("matmul", {"ni": 5}, "missing size"),
        ("nowhere.py:f", "n=5", "nowhere.py"),
    ],
)
def test_what_cannot_be_loaded(kernel: str, size: str | dict[str, int], message: str) -> None:
    with pytest.raises(UserError, match=message):
        KernelProblem.load(kernel, size)


def test_sizes_at_which_the_original_leaves_its_arrays_are_refused(file: Path) -> None:
    assert KernelProblem.load(f"{file}:pairs", "n=8,m=5").sizes == {"n": 8, "m": 5}
    with pytest.raises(UserError, match=r"S0 at i=4 reads x\[9\], but x has the shape \[n\], here \[8\]"):
        KernelProblem.load(f"{file}:pairs", "n=8,m=6")


def test_memory_is_checked_before_anything_is_allocated(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match=r"matmul at .* needs about [\d.]+ GiB .* choose a smaller size"):
        KernelProblem.load("matmul", {"ni": 10**7, "nj": 10**7, "nk": 10**7})
    needed = 6 * 8 * (30 * 40 + 40 * 50 + 30 * 50)
    sizes = {"ni": 30, "nk": 40, "nj": 50}
    for available, is_enough in ((needed, True), (needed - 1, False)):
        memory = psutil.virtual_memory()._replace(available=available)
        monkeypatch.setattr(psutil, "virtual_memory", lambda memory=memory: memory)
        if is_enough:
            KernelProblem.load("matmul", sizes)
        else:
            with pytest.raises(UserError, match="GiB"):
                KernelProblem.load("matmul", sizes)


def test_schedules_that_come_to_the_same_are_one_candidate(problem: KernelProblem) -> None:
    same = [
        "",
        "  # nothing",
        "interchange(i, k); interchange(i, k)",
        "reverse(i); reverse(i)",
        "skew(j, by=i); skew(j, by=i, factor=-1)",
    ]
    assert {problem.parse(text).digest for text in same} == {problem.baseline.digest}
    written = [problem.parse(text) for text in ("tile(i=8,j=4)", "tile( i = 8, j = 4 )")]
    assert written[0] == written[1]
    assert problem.parse("skew(j, by=i); skew(j, by=i)").digest == problem.parse("skew(j, by=i, factor=2)").digest
    assert problem.parse("tile(i=8, j=8)").digest != written[0].digest
    assert problem.parse("parallel(i)").digest != problem.baseline.digest


def test_what_cannot_be_parsed_or_applied(problem: KernelProblem) -> None:
    with pytest.raises(ScheduleSyntaxError):
        problem.parse("tile(i=8")
    with pytest.raises(StepError, match="tille"):
        problem.parse("tille(i=8)")
    with pytest.raises(StepError, match="q"):
        problem.parse("parallel(q)")


def test_legality_and_repair(problem: KernelProblem) -> None:
    legal, illegal = problem.parse("parallel(i)"), problem.parse("parallel(k)")
    assert problem.is_admissible(legal)
    assert problem.judge(legal) is problem.judge(problem.parse("parallel(i)"))
    assert problem.judge(illegal).legal is Legal.NO
    repaired = problem.repair(illegal)
    assert repaired is not None
    assert problem.is_admissible(problem.parse(str(repaired)))


def test_neighbours_are_candidates_and_depend_on_the_seed_alone(problem: KernelProblem) -> None:
    start = problem.parse("tile(i=8, j=8); parallel(i_t)")

    def texts(seed: int) -> list[str]:
        return [candidate.text for candidate in islice(problem.neighbours(start, random.Random(seed)), 40)]

    found = texts(3)
    assert len(found) == len(set(found)) == 40
    assert start.text not in found
    assert texts(3) == found != texts(4)
    assert all(problem.parse(text).text == text for text in found)
    counts = {len(problem.schedule(problem.parse(text)).steps) for text in found}
    assert counts == {1, 2, 3}


def test_check_sizes_are_small_and_lie_around_each_tile(problem: KernelProblem) -> None:
    sizes = problem.check_sizes(problem.parse("tile(i=16, j=5); tile(i=128)"))
    cubes = {next(iter(s.values())) for s in sizes if len(set(s.values())) == 1}
    assert {0, 1, 2, 4, 5, 6, 15, 16, 17} <= cubes
    for name in problem.sizes:
        assert {s[name] for s in sizes if all(s[other] == 5 for other in s if other != name)} >= {127, 128, 129}
    assert any(len(set(s.values())) == len(s) for s in sizes)
    assert len({tuple(s.values()) for s in sizes}) == len(sizes)
    assert all((iterations(problem.nest, s) or 0) <= MOST_CHECK_ITERATIONS for s in sizes)


def test_check_sizes_have_each_one_wider_than_the_rest(problem: KernelProblem) -> None:
    sizes = problem.check_sizes(problem.parse(""))
    for name in problem.sizes:
        assert any(all(4 < other < size[name] for key, other in size.items() if key != name) for size in sizes)
        for others in (2, 5):
            assert any(all(size[name] > 4 * size[key] == 4 * others for key in size if key != name) for size in sizes)


def test_check_sizes_are_such_that_the_original_may_run(file: Path) -> None:
    own = KernelProblem.load(f"{file}:pairs", "n=64,m=32")
    sizes = own.check_sizes(own.parse("tile(i=8)"))
    assert {"n": 1, "m": 1} in sizes
    assert all(2 * s["m"] <= s["n"] + 2 for s in sizes if s["m"] >= 2)


def test_check_sizes_are_counted_once_a_size(problem: KernelProblem, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a long run most sizes come again, and each count costs memory that isl's bindings do not give back."""
    counted: list[dict[str, int]] = []

    def count(nest: Any, sizes: dict[str, int]) -> int | None:
        counted.append(dict(sizes))
        return iterations(nest, sizes)

    monkeypatch.setattr("optimizer.kernel_problem.iterations", count)
    first = problem.check_sizes(problem.parse("tile(i=23, j=29)"))
    assert counted
    counted.clear()
    assert problem.check_sizes(problem.parse("tile(i=23, j=29)")) == first
    assert problem.check_sizes(problem.parse("tile(i=29, j=23)")) == first
    assert counted == []


def test_the_workload_says_what_is_run(problem: KernelProblem, file: Path) -> None:
    workload = problem.workload("timing")
    assert isinstance(workload.inputs, CatalogInputs)
    assert (workload.function, workload.written, workload.sizes) == ("matmul", ("C",), problem.sizes)
    assert problem.workload({"ni": 2, "nk": 3, "nj": 4}).sizes == {"ni": 2, "nk": 3, "nj": 4}
    own = KernelProblem.load(f"{file}:pairs", "n=8,m=5").workload("timing")
    assert isinstance(own.inputs, RandomInputs)
    assert [(spec.name, spec.shape) for spec in own.arguments if spec.shape] == [("x", ("n",)), ("y", ("m",))]


def test_a_limit_is_known_for_the_work(problem: KernelProblem) -> None:
    ni, nk, nj = (problem.sizes[name] for name in ("ni", "nk", "nj"))
    flops, moved = problem.flops_and_bytes()
    assert flops == 2 * ni * nj * nk
    assert moved >= 8 * (ni * nk + nk * nj + ni * nj)


@pytest.mark.parametrize("fp", ["strict", "contract", "reassociate"])
def test_the_specification_makes_the_same_problem(fp: str, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(file.parent)
    for kernel, size in (("matmul", "mini"), ("pairs.py:pairs", "n=8,m=5")):
        problem = replace(KernelProblem.load(kernel, size, fp, threads=3), arguments_file="arguments.npz")
        again = make_problem(json.loads(json.dumps(problem.specification())))
        assert isinstance(again, KernelProblem)
        assert again.specification() == problem.specification()
        assert (again.sizes, again.size, again.fp, again.threads) == (problem.sizes, size, fp, 3)
        assert again.arguments_file == "arguments.npz"


@pytest.mark.parametrize(
    "changed", [OWN.format(dtype="Float64").replace("2.0", "3.0"), OWN.format(dtype="Float32")], ids=["body", "type"]
)
def test_a_kernel_that_was_changed_is_refused(changed: str, file: Path) -> None:
    specification = KernelProblem.load(f"{file}:pairs", "n=8,m=5").specification()
    file.write_text("# moved down\n" + OWN.format(dtype="Float64"), encoding="utf-8")
    KernelProblem.from_specification(specification)
    file.write_text(changed, encoding="utf-8")
    with pytest.raises(UserError, match=r"pairs was changed since this run: start a new one"):
        KernelProblem.from_specification(specification)
