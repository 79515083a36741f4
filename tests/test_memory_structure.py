"""What makes two kernels alike, and schedules that say where a step goes instead of naming loops."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from kernels import catalog
from optimizer.errors import StepError
from optimizer.kernel_problem import KernelProblem
from optimizer.memory.pattern import pattern_of, schedule_of
from optimizer.memory.structure import structure_of
from optimizer.polyhedral.frontend import nest_of_file
from optimizer.polyhedral.schedule import parse_schedule
from tests.remembered_runs import (
    RENAMED,
    SAME_LOOPS,
    own_problem,
)


@pytest.fixture(scope="module")
def gemm() -> KernelProblem:
    return KernelProblem.load("gemm", "small", threads=2)


@pytest.mark.parametrize(
    "kernel", ["adi", "correlation", "deriche", "layernorm", "lu", "mttkrp", "nussinov", "seidel-2d"]
)
def test_the_structure_of_a_kernel_is_that_under_any_names(kernel: str, tmp_path: Path) -> None:
    """Also under names of another alphabetical order."""
    nest, module = KernelProblem.load(kernel, "mini").nest, catalog.load(kernel)
    loops = [re.sub(r"_\d+$", "", loop.name) for loop in nest.loops]
    names = sorted({*(a.name for a in (*nest.arguments, *nest.arrays)), *nest.parameters, *loops})
    other = {name: f"q{500 - number}x" for number, name in enumerate(names)}
    source = inspect.getsource(module).split("def make_inputs")[0]
    path = tmp_path / "kernel.py"
    path.write_text(re.sub(r"[A-Za-z_]\w*", lambda match: other.get(match[0], match[0]), source), encoding="utf-8")
    renamed = nest_of_file(f"{path}:{catalog.entry(kernel).function}")
    assert renamed.digest != nest.digest
    own, ours = structure_of(renamed), structure_of(nest)
    assert (own.structure, own.shape) == (ours.structure, ours.shape)


def test_no_two_kernels_have_one_structure_but_for_their_types() -> None:
    names: dict[str, list[str]] = {}
    for kernel in catalog.names():
        names.setdefault(structure_of(KernelProblem.load(kernel, "mini").nest).structure, []).append(kernel)
    assert [alike for alike in names.values() if len(alike) > 1] == [["matmul", "matmul-float32"]]


def test_names_and_the_order_of_arguments_do_not_change_the_structure(gemm: KernelProblem, tmp_path: Path) -> None:
    own, ours = structure_of(own_problem(tmp_path, RENAMED).nest), structure_of(gemm.nest)
    assert (own.structure, own.shape) == (ours.structure, ours.shape)
    sizes, statements = ("rows", "columns", "depth"), ("S0", "S1")
    arrays = [name for name, place in own.places.items() if place.startswith("array")]
    assert len(arrays) == 3
    assert own.places == {
        **{name: f"statement{k}" for k, name in enumerate(statements)},
        **{name: f"size{k}" for k, name in enumerate(sizes)},
        **{name: own.places[name] for name in arrays},
    }


@pytest.mark.parametrize(
    ("source", "changed"),
    [
        (SAME_LOOPS, {"structure"}),
        (RENAMED.replace("right[d, c]", "right[d, c - 1 + 1]"), set[str]()),
        (
            RENAMED.replace(
                "for c in range(columns):\n            out", "for c in range(1, columns):\n            out"
            ),
            {"structure", "shape"},
        ),
        (RENAMED.replace("*= 0.5", "= 0.0"), {"structure"}),
        (RENAMED.replace("in range(rows)", "in range(rows - 1, -1, -1)"), {"structure", "shape"}),
    ],
    ids=["commuted", "subscript written otherwise", "bound", "write only", "backwards"],
)
def test_what_the_structure_tells_apart(gemm: KernelProblem, tmp_path: Path, source: str, changed: set[str]) -> None:
    own, ours = structure_of(own_problem(tmp_path, source).nest), structure_of(gemm.nest)
    assert {name for name in ("structure", "shape") if getattr(own, name) != getattr(ours, name)} == changed


@pytest.mark.parametrize(
    ("schedule", "pattern", "renamed"),
    [
        ("tile(i=32); parallel(i_t)", "tile(loop0=32); parallel(loop0)", "tile(r=32); parallel(r_t)"),
        ("interchange(k, j_2)", "interchange(loop2, loop3)", "interchange(d, c_2)"),
        ("fuse(j, k)", "fuse(loop1, loop2)", "fuse(c, d)"),
        ("shift(S1, i, 2*nk + 1)", "shift(statement1, loop0, 2*size2 + 1)", "shift(S1, r, 2*depth + 1)"),
        ("split(j_2, at=nj - k//2)", "split(loop3, at=size1 - (loop2//2))", "split(c_2, at=columns - (d//2))"),
        ("skew(j_2, by=k, factor=-1)", "skew(loop3, by=loop2, factor=-1)", "skew(c_2, by=d, factor=-1)"),
        ("reorder_statements(k, S0)", "reorder_statements(loop2, statement0)", "reorder_statements(d, S0)"),
        ("autoschedule(fuse=none)", "autoschedule(fuse=none)", "autoschedule(fuse=none)"),
        ("unroll(j_2, 4)", "unroll(loop3, 4)", "unroll(c_2, 4)"),
    ],
)
def test_steps_by_place(gemm: KernelProblem, tmp_path: Path, schedule: str, pattern: str, renamed: str) -> None:
    nest, own = gemm.nest, own_problem(tmp_path, RENAMED).nest
    found = pattern_of(nest, structure_of(nest), parse_schedule(schedule))
    assert found == pattern
    assert str(schedule_of(own, structure_of(own), found)) == renamed
    assert str(schedule_of(nest, structure_of(nest), found)) == str(parse_schedule(schedule))


@pytest.mark.parametrize(
    ("schedule", "pattern"),
    [
        ("privatize(sum, r); shift(S_sum_r, r, 1)", "privatize(array0, loop0); shift(copying_array0_loop0, loop0, 1)"),
        ("privatize(sum, q); distribute(p)", "privatize(array0, loop1); distribute(loop2)"),
        ("privatize(sum, r); reverse(element)", "privatize(array0, loop0); reverse(loop5)"),
    ],
)
def test_what_privatize_made_has_places_too(schedule: str, pattern: str) -> None:
    nest = KernelProblem.load("doitgen", "mini").nest
    found = pattern_of(nest, structure_of(nest), parse_schedule(schedule))
    assert found == pattern
    assert str(schedule_of(nest, structure_of(nest), found)) == schedule


@pytest.mark.parametrize("kernel", ["gemm", "lu", "jacobi-2d", "syrk"])
def test_every_template_survives_its_pattern(kernel: str) -> None:
    problem = KernelProblem.load(kernel, "mini", threads=2)
    nest, structure = problem.nest, structure_of(problem.nest)
    templates = problem.templates()
    assert templates
    for schedule in templates:
        assert schedule_of(nest, structure, pattern_of(nest, structure, schedule)) == schedule


def test_a_pattern_that_fits_no_loop_is_refused(gemm: KernelProblem) -> None:
    with pytest.raises(StepError, match="names loop9, which is not there"):
        schedule_of(gemm.nest, structure_of(gemm.nest), "parallel(loop9)")
