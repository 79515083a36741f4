"""Right code that faults are planted into: kernels with schedules of all kinds."""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from optimizer.candidate import Candidate
from optimizer.codegen.backend import CodeOptions
from optimizer.kernel_problem import KernelProblem
from optimizer.polyhedral.nest import Nest
from optimizer.polyhedral.tree import Node
from tests.mutants.fault import Fault, Scope

OWN_KERNELS = Path(__file__).resolve().parent.parent / "data" / "mutants"
THREADS = 2


@dataclass(frozen=True, slots=True)
class PlantedBackend:
    """A back end whose code is a given text, whatever the schedule."""

    text: str

    def source(self, nest: Nest, tree: Node, options: CodeOptions) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Subject:
    """A kernel, a legal schedule, a floating-point mode."""

    kernel: str
    """Name in the catalog, or of a file in `tests/data/mutants`."""
    schedule: str
    fp: str = "contract"
    size: str = "mini"

    @property
    def problem(self) -> KernelProblem:
        return _problem(self.kernel, self.size, self.fp)

    @property
    def candidate(self) -> Candidate:
        return self.problem.parse(self.schedule)

    @property
    def code(self) -> str:
        return _code(self)

    @property
    def module(self) -> ast.Module:
        """The code's tree, which nobody changes."""
        return _module(self)

    def planted(self, text: str) -> KernelProblem:
        """The problem with code in which every candidate is this text."""
        return replace(self.problem, backend=PlantedBackend(text))

    @property
    def has_floats(self) -> bool:
        return any(array.dtype.startswith("float") for array in self.problem.nest.arrays)

    def admits(self, fault: Fault) -> bool:
        match fault.scope:
            case Scope.ANY:
                return True
            case Scope.FLOAT:
                return self.has_floats
            case Scope.STRICT | Scope.CONTRACT:
                return self.has_floats and self.fp == fault.scope.value

    def __str__(self) -> str:
        return f"{self.kernel} `{self.schedule}` {self.fp}"


@cache
def _problem(kernel: str, size: str, fp: str) -> KernelProblem:
    file = OWN_KERNELS / f"{kernel}.py"
    if file.exists():
        return KernelProblem.load(f"{file}:{kernel}", "n=40,m=50", fp=fp, threads=THREADS)
    return KernelProblem.load(kernel, size, fp=fp, threads=THREADS)


@cache
def _code(subject: Subject) -> str:
    return subject.problem.code(subject.candidate)


@cache
def _module(subject: Subject) -> ast.Module:
    return ast.parse(subject.code)


TILED_GEMM = "distribute(i); tile(i_2=4, k=3, j_2=5); parallel(i_2_t)"

VECTOR_SUBJECTS: tuple[Subject, ...] = (
    Subject("clipped", "vectorize(j, 4)", "strict"),
    Subject("clipped", "interchange(i, j); parallel(j); vectorize(i, 2)", "strict"),
    Subject("gemm", "distribute(i); unroll_and_jam(k, 2); vectorize(j, 8); vectorize(j_2, 4)"),
    Subject("jacobi-2d", "tile(i=5, j=10); parallel(i_t); vectorize(j, 4); vectorize(j_2, 8)", "strict"),
    Subject("floyd-warshall", "split(j, at=k); vectorize(j, 4)"),
    Subject("lcs", "skew(j_2, by=i_2); interchange(i_2, j_2); vectorize(i_2, 4)"),
    Subject("matmul-float32", "interchange(j, k); parallel(i); vectorize(j, 8)"),
)
TILE = "distribute(i); register_tile(i_2=2, j_2=8)"
TILE_SUBJECTS: tuple[Subject, ...] = (
    Subject("gemm", f"{TILE}; pack(B, before=i_2_t); parallel(i_2_t)"),
    Subject("gemm", f"{TILE}; pack(A, before=i_2_t); pack(B, before=i_2_t)", "strict"),
)
PRIVATE_SUBJECTS: tuple[Subject, ...] = (
    Subject("row_parts", "privatize(parts, i); parallel(i)"),
    Subject("row_parts", "privatize(parts, i); tile(i=4); parallel(i_t)", "strict"),
)
HELD_SUBJECTS: tuple[Subject, ...] = (
    *PRIVATE_SUBJECTS,
    Subject("gemm", "distribute(i); reorder(i_2, j_2, k); parallel(i_2)"),
    Subject("gemm", "distribute(i); reorder(i_2, j_2, k); tile(k=7)", "strict"),
)
SUBJECTS: tuple[Subject, ...] = (
    Subject("gemm", ""),
    Subject("gemm", TILED_GEMM),
    Subject("gemm", TILED_GEMM, "strict"),
    Subject("gemm", "distribute(i); unroll_and_jam(i_2, 4)"),
    Subject("gemm", "unroll(j_2, 3)", "strict"),
    Subject("gemm", "distribute(i); skew(k, by=i_2); tile(i_2=4, k=4); wavefront(i_2_t, k_t)"),
    Subject("gemm", "autoschedule(); tile(i=8, j=8, k=8); parallel(i_t)"),
    Subject("jacobi-2d", "autoschedule(); distribute(j); tile(t=4, i=6); wavefront(t_t, i_t)"),
    Subject("jacobi-2d", "tile(i=5, j=4); tile(i_2=3, j_2=7); parallel(i_t); parallel(i_2_t)", "strict"),
    Subject("seidel-2d", "autoschedule(); tile(t=3, i=5, j=4); wavefront(t_t, i_t)"),
    Subject("lu", "tile(j_2=5, k_2=4); parallel(j_2_t)"),
    Subject("lu", "autoschedule(); reorder(i, k, j); tile(i=4, k=4, j=4); wavefront(i_t, k_t)"),
    Subject("lu", "", "strict"),
    Subject("cholesky", "autoschedule(); distribute(k); parallel(k_3); parallel(k_5)"),
    Subject("cholesky", "", "strict"),
    Subject("trisolv", "autoschedule(); tile(i_2=4, j=3); parallel(i); wavefront(i_2_t, j_t)", "strict"),
    Subject("trmm", "tile(i=5, j=4); reorder(j_t, i_t, i, j); parallel(j_t)"),
    Subject("floyd-warshall", "split(i, at=k); split(i_2, at=k + 1); parallel(i); parallel(i_2); parallel(i_3)"),
    Subject("floyd-warshall", "tile(i=8, j=8); wavefront(i_t, j_t)"),
    Subject("nussinov", "tile(i=5, j=4); wavefront(i_t, j_t)"),
    Subject("lcs", "tile(i_2=4, j_2=5); parallel(i); parallel(j); wavefront(i_2_t, j_2_t)"),
    Subject("fdtd-2d", "autoschedule(); distribute(j); tile(t=4, i=6); wavefront(t_t, i_t)"),
    Subject("fdtd-2d", "parallel(i)", "strict"),
    Subject("layernorm", "parallel(i)"),
    Subject("layernorm", "autoschedule(fuse=max); tile(i=4, j=5); parallel(i_t)", "strict"),
    Subject("correlation", "tile(i_3=4, j_3=5); parallel(j); parallel(j_2); parallel(i_3_t); parallel(i_4)"),
    Subject("atax", "autoschedule(fuse=max); tile(i_2=4, i=5); wavefront(i_2_t, i_t)"),
    Subject("conv2d", "tile(f=2, y=4, x=4); parallel(f_t)"),
    Subject("durbin", "parallel(i_2); parallel(i_3)", "strict"),
    Subject("doitgen", "autoschedule(); tile(p=4, s=5); parallel(p_t); parallel(p_2)"),
    Subject("matmul-float32", "reorder(i, k, j); tile(i=4, k=3, j=8); parallel(i_t)"),
    Subject("limited_rows", "distribute(j); parallel(i)"),
    Subject("limited_rows", "tile(i=4, j=5); parallel(i_t)", "strict"),
    Subject("row_norms", "parallel(i)"),
    Subject("row_norms", "distribute(j); parallel(i)", "strict"),
    *VECTOR_SUBJECTS,
    *TILE_SUBJECTS,
    *HELD_SUBJECTS,
)
