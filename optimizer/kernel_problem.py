"""The problem of the home domain: a kernel at a size. Its candidates are schedules."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal

import psutil

from kernels import catalog
from optimizer.candidate import Candidate, digest_of
from optimizer.codegen.backend import Backend, CodeOptions, FloatingPoint
from optimizer.codegen.numba_source import NumbaBackend
from optimizer.codegen.partial_arrays import with_partial_arrays
from optimizer.codegen.private_memory import private_memory
from optimizer.codegen.scalar_rows import scalar_bytes
from optimizer.codegen.vector_unit import register_tile_shape
from optimizer.errors import CandidateError, StepError, UserError
from optimizer.measure.machine import available_processors
from optimizer.measure.workload import ArgumentKind, ArgumentSpec, CatalogInputs, FileInputs, RandomInputs, Workload
from optimizer.names import nearest
from optimizer.polyhedral.counting import array_bytes, bytes_of, compulsory_bytes, flops, iterations
from optimizer.polyhedral.data_subscripts import arrays_of_subscripts
from optimizer.polyhedral.frontend import check_bounds, nest_of_file
from optimizer.polyhedral.legality import Judgement, Legal, judge
from optimizer.polyhedral.meaning import meaning_of
from optimizer.polyhedral.model import Model, model_of
from optimizer.polyhedral.nest import Nest, Role
from optimizer.polyhedral.reductions import ADDING, reduction_of
from optimizer.polyhedral.repair import repair
from optimizer.polyhedral.schedule import Schedule, parse_schedule
from optimizer.polyhedral.steps.reduce import Reduce
from optimizer.polyhedral.templates import templates
from optimizer.polyhedral.tree import Node
from optimizer.schedule_edits import edits, numbers_of
from optimizer.sizes import parse_sizes

COPIES = 6
"""How many copies of the arguments the measuring process may hold at once: inputs, results, guarded copies."""
SMALL_PRIVATE_BYTES = 2**23
"""Private arrays may take that much, however small the arguments are."""
MOST_CHECK_ITERATIONS = 400_000
"""Of one check at a small size, ..."""
MOST_CHECK_BYTES = 2**26
"""... and what its arrays may take."""
PRIMES = (13, 11, 7, 5, 3, 2)
NARROW = 5
"""What the other sizes are where all of them would be too much, or where one is 0, 1 or wide."""
WIDE = 9
"""The largest size at which code also runs as plain Python."""
LONG = 23
"""Tiles that are skewed against each other may only go wrong where one size is several times the others."""
ROUND = 32
"""A multiple of every vector length, for code that is wrong only without a remainder."""
LARGE = (67, 37, 19)
"""For code that is wrong only beyond some size, and for threads to have work enough to meet."""


@dataclass(frozen=True)
class KernelProblem:
    """A kernel at a size, with the precision and the threads it may use."""

    kind: ClassVar[str] = "kernel"
    baseline_is_unit: ClassVar[bool] = True

    kernel: str
    """Name in the catalog, or `file.py:function`."""
    nest: Nest
    sizes: Mapping[str, int]
    size: str
    """The size's name, or its values as text."""
    fp: FloatingPoint = FloatingPoint.CONTRACT
    threads: int = 1
    arguments_file: str | None = None
    """`.npz` file with example arguments, instead of generated ones."""
    jobs: int = 1
    """Processes for work that is not timed, such as finding templates."""
    backend: Backend = field(default_factory=NumbaBackend)
    _candidates: dict[str, Candidate] = field(default_factory=dict[str, Candidate], repr=False, compare=False)
    _judgements: dict[str, Judgement] = field(default_factory=dict[str, Judgement], repr=False, compare=False)
    _checkable: dict[tuple[int, ...], bool] = field(
        default_factory=dict[tuple[int, ...], bool], repr=False, compare=False
    )

    @classmethod
    def load(
        cls,
        kernel: str,
        size: str | Mapping[str, int] | None = None,
        fp: str = "contract",
        threads: int | None = None,
        jobs: int = 1,
    ) -> KernelProblem:
        """The problem for a bundled kernel's name or a `file.py:function`; raises `UserError` if unusable."""
        nest, named = _find(kernel)
        size_name, sizes = parse_sizes(size, _size_names(kernel, nest), named)
        return replace(cls.of_nest(kernel, nest, sizes, size_name, fp, threads), jobs=jobs)

    @classmethod
    def of_nest(
        cls, kernel: str, nest: Nest, sizes: Mapping[str, int], size: str, fp: str, threads: int | None
    ) -> KernelProblem:
        """The problem for a nest; raises `UserError` for sizes at which it leaves its arrays or fills the memory."""
        check_bounds(nest, sizes)
        _check_precision(nest, FloatingPoint(fp))
        nest = replace(nest, reassociates=FloatingPoint(fp) is FloatingPoint.REASSOCIATE)
        if FloatingPoint(fp) is FloatingPoint.STRICT:
            nest = replace(nest, free_sums=())
        _check_memory(kernel, nest, sizes, size)
        return cls(kernel, nest, dict(sizes), size, FloatingPoint(fp), threads or available_processors())

    @property
    def name(self) -> str:
        return self.kernel

    @property
    def baseline(self) -> Candidate:
        return self.parse("")

    @property
    def model(self) -> Model:
        return model_of(self.nest)

    @classmethod
    def from_specification(cls, specification: Mapping[str, Any]) -> KernelProblem:
        """The problem that wrote it; raises `UserError` when the kernel's source is another one by now."""
        problem = cls.load(
            specification["kernel"],
            specification["sizes"],
            specification["fp"],
            specification["threads"],
            specification["jobs"],
        )
        if problem.nest.digest != specification["digest"]:
            raise UserError(f"{problem.kernel} was changed since this run: start a new one")
        return replace(problem, size=specification["size"], arguments_file=specification["arguments_file"])

    def specification(self) -> dict[str, Any]:
        # A run can be resumed from any folder.
        place = f"{Path(self.nest.file).absolute()}:{self.nest.name}"
        return {
            "kind": self.kind,
            "kernel": self.kernel if self.kernel in catalog.names() else place,
            "size": self.size,
            "sizes": dict(self.sizes),
            "fp": self.fp.value,
            "threads": self.threads,
            "arguments_file": self.arguments_file,
            "jobs": self.jobs,
            "digest": self.nest.digest,
        }

    # -- candidates

    def parse(self, text: str) -> Candidate:
        """The canonical candidate; two schedules that come to the same tree are one candidate."""
        if text not in self._candidates:
            schedule = parse_schedule(text)
            tree = schedule.apply(self.nest)
            self._candidates[text] = Candidate(str(schedule), digest_of(meaning_of(self.nest, tree)))
        return self._candidates[text]

    def schedule(self, candidate: Candidate) -> Schedule:
        return parse_schedule(candidate.text)

    def tree(self, candidate: Candidate) -> Node:
        return self.schedule(candidate).apply(self.nest)

    def judge(self, candidate: Candidate) -> Judgement:
        """Is the finished schedule legal? Remembered by what the schedule comes to."""
        digest = candidate.digest
        if digest not in self._judgements:
            self._judgements[digest] = judge(self.model, self.tree(candidate))
        return self._judgements[digest]

    def repair(self, candidate: Candidate) -> Schedule | None:
        """The nearest legal schedule to an illegal one."""
        return repair(self.model, self.schedule(candidate), self.judge(candidate))

    def freer(self, candidate: Candidate) -> str:
        """The step that makes an illegal schedule legal where sums may be rounded in another order; empty if none."""
        witness = self.judge(candidate).witness
        if witness is None or witness.loop is None or self.nest.reassociates:
            return ""
        step = Reduce(witness.loop)
        try:
            tree = Schedule((*self.schedule(candidate).steps, step)).apply(self._reassociating)
        except StepError:
            return ""
        return str(step) if judge(model_of(self._reassociating), tree).legal is Legal.YES else ""

    @cached_property
    def _reassociating(self) -> Nest:
        return replace(self.nest, reassociates=True)

    def templates(self) -> tuple[Schedule, ...]:
        """Legal schedules worth trying on this nest, the most promising first."""
        return self._templates

    @cached_property
    def _templates(self) -> tuple[Schedule, ...]:
        return templates(self.model, self.sizes, self.threads, self.jobs, register_tile_shape(self.nest))

    def is_admissible(self, candidate: Candidate) -> bool:
        """Whether a candidate is legal, and code can be made of it."""
        return self.judge(candidate).legal is Legal.YES and self.has_code(candidate)

    def neighbours(self, candidate: Candidate, rng: random.Random) -> Iterator[Candidate]:
        """Schedules with one step more, one less, or one number changed; in random order, never the same text twice."""
        for edited in edits(self.schedule(candidate), self.nest, rng):
            with suppress(StepError):
                yield self.parse(str(edited))

    # -- what is run

    def code(self, candidate: Candidate) -> str:
        """The module text of a candidate; raises `CandidateError` when no code can be made of it."""
        tree = self.tree(candidate)
        self._check_copies(tree)
        return self.backend.source(self.nest, tree, CodeOptions(self.fp))

    def _check_copies(self, tree: Node) -> None:
        """Refuse private arrays, partial results and temporaries that take more than the largest argument does; of
        temporaries, where the order of the source does not need as much."""
        nest, tree = with_partial_arrays(self.nest, tree)
        own = {array.name for array in self.nest.arrays}
        memory = private_memory(nest, tree, own)
        arguments = (array for array in self.nest.arrays if array.role is Role.ARGUMENT)
        largest = max((bytes_of(self.nest, array, self.sizes) for array in arguments), default=0)
        allowed = max(largest, SMALL_PRIVATE_BYTES)
        needed: dict[str, int] = {}
        for array in memory.nest.arrays if nest is not self.nest else ():
            if array.name not in own:
                copies = self.threads if array.name in memory.owners else 1
                what = f"the partial results {array.name}"
                if array.private:
                    what = f"the copies of {array.private.array} for each {array.private.loop}"
                needed[what] = copies * bytes_of(memory.nest, array, self.sizes)
        for name, size in scalar_bytes(memory.nest, tree, self.sizes).items():
            if size > allowed and size > self._scalars_of_source.get(name, 0):
                needed[f"the values of {name}"] = size
        for what, size in needed.items():
            if size > allowed:
                raise CandidateError(
                    f"{what} would take {size / 1e6:.0f} MB, more than the largest argument ({largest / 1e6:.0f} MB)"
                )

    @cached_property
    def _scalars_of_source(self) -> dict[str, int]:
        memory = private_memory(self.nest, self.nest.tree, {array.name for array in self.nest.arrays})
        return scalar_bytes(memory.nest, self.nest.tree, self.sizes)

    def has_code(self, candidate: Candidate) -> bool:
        """Whether code can be made of a candidate."""
        try:
            self.code(candidate)
        except CandidateError:
            return False
        return True

    def workload(self, size: Literal["timing"] | Mapping[str, int]) -> Workload:
        """The original with inputs at the size asked for, or at another one."""
        sizes = self.sizes if isinstance(size, str) else size
        written = {a.array for s in self.nest.statements for a in s.accesses if a.is_write}
        shapes = {array.name: array.shape for array in self.nest.arrays}
        subscripts = arrays_of_subscripts(self.nest)
        arguments = tuple(
            ArgumentSpec(
                a.name,
                ArgumentKind(a.kind.value),
                a.dtype,
                shapes.get(a.name, ()),
                subscripts[a.name].limit if a.name in subscripts else "",
                a.name in subscripts and subscripts[a.name].is_ascending,
            )
            for a in self.nest.arguments
        )
        if self.kernel in catalog.names():
            inputs = CatalogInputs(self.kernel)
        elif self.arguments_file and dict(sizes) == dict(self.sizes):
            inputs = FileInputs(self.arguments_file)
        else:
            inputs = RandomInputs()
        return Workload(
            source=self.nest.original,
            function=self.nest.name,
            fastmath=self.fp.fastmath,
            arguments=arguments,
            written=tuple(a.name for a in arguments if a.kind is ArgumentKind.ARRAY and a.name in written),
            sizes=dict(sizes),
            inputs=inputs,
            has_array_statements=self.nest.has_array_statements,
            result_types=() if self.nest.is_decorated else _result_types(self.nest),
            data_decide=any(statement.opaque for statement in self.nest.statements),
            has_free_sums=bool(self.nest.free_sums),
        )

    def check_sizes(self, candidate: Candidate) -> list[dict[str, int]]:
        """Small sizes to compare results at: 0 and 1 for all and for each alone, a few others, one that is wider
        than the rest, primes, one below, at and above each tile size, a round size and a large one."""
        names = tuple(self.sizes)
        wanted = [dict.fromkeys(names, size) for size in (0, 1, 2, NARROW, WIDE)]
        wanted += [dict.fromkeys(names, NARROW) | {name: size} for size in (0, 1, WIDE, LONG) for name in names]
        wanted += [dict.fromkeys(names, 2) | {name: LONG} for name in names]
        for primes in (PRIMES, PRIMES[::-1]):
            wanted.append({name: primes[k % len(primes)] for k, name in enumerate(names)})
        tiles = sorted(numbers_of(self.schedule(candidate)) - {0, 1})
        for size in (*(tile + k for tile in tiles for k in (-1, 0, 1)), ROUND):
            wanted += self._whole_or_one_by_one(size)
        wanted += next((w for size in LARGE if len(w := self._whole_or_one_by_one(size)) == 1), [])
        wanted += self._whole_or_one_by_one(LARGE[0])
        distinct = [sizes for k, sizes in enumerate(wanted) if sizes not in wanted[:k]]
        return [sizes for sizes in distinct if self._is_checkable(sizes)]

    def _whole_or_one_by_one(self, size: int) -> list[dict[str, int]]:
        """All sizes at once; where that would be too much, one after the other with the rest narrow."""
        names = tuple(self.sizes)
        whole = dict.fromkeys(names, size)
        one_by_one = [dict.fromkeys(names, NARROW) | {name: size} for name in names]
        return [whole] if self._is_checkable(whole) else one_by_one

    def _is_checkable(self, sizes: Mapping[str, int]) -> bool:
        """Remembered, also because isl's bindings lose some memory with nearly every call."""
        key = tuple(sizes.values())
        if key not in self._checkable:
            fits = self.model.admits(sizes) and array_bytes(self.nest, sizes) <= MOST_CHECK_BYTES
            count = iterations(self.nest, sizes) if fits else None
            self._checkable[key] = count is not None and count <= MOST_CHECK_ITERATIONS
        return self._checkable[key]

    def flops_and_bytes(self) -> tuple[float, float]:
        """Arithmetic operations, and bytes that must move, of one run at the size that is timed."""
        return self._flops_and_bytes

    @cached_property
    def _flops_and_bytes(self) -> tuple[float, float]:
        return float(flops(self.nest, self.sizes)), float(compulsory_bytes(self.nest, self.sizes))


def _result_types(nest: Nest) -> tuple[str, ...]:
    """Of all arrays that may be among the results."""
    arrays = (array for array in nest.arrays if array.role is Role.ARGUMENT or (array.returned and array.shape))
    return tuple(sorted({array.dtype for array in arrays}))


def _find(kernel: str) -> tuple[Nest, Mapping[str, Mapping[str, int]]]:
    if kernel in catalog.names():
        module = catalog.load(kernel)
        return nest_of_file(f"{module.__file__}:{catalog.entry(kernel).function}"), module.SIZES
    if ".py" not in kernel:
        raise UserError(
            f"no bundled kernel is called {kernel!r}{nearest(kernel, catalog.names())} "
            "(`loopwright kernels` lists them; a file of yours is file.py:function)"
        )
    return nest_of_file(kernel), {}


def _size_names(kernel: str, nest: Nest) -> tuple[str, ...]:
    return nest.parameters if kernel not in catalog.names() else tuple(catalog.load(kernel).SIZES["mini"])


def _check_precision(nest: Nest, fp: FloatingPoint) -> None:
    statements = [nest.statement(name) for name in nest.free_sums]
    sums = [s for s in statements if (found := reduction_of(nest, s)) and found.operator in ADDING]
    if fp is FloatingPoint.STRICT and sums:
        line = sums[0].line
        raise UserError(
            f"--fp strict cannot hold for {nest.name}: in line {line} NumPy adds up in an order of its own; "
            "use --fp contract, or write that sum as a loop"
        )


def _check_memory(kernel: str, nest: Nest, sizes: Mapping[str, int], size: str) -> None:
    """Raise `UserError` when the arrays at this size do not fit in memory; nothing is allocated before."""
    needed, available = array_bytes(nest, sizes), psutil.virtual_memory().available
    if COPIES * needed > available:
        gib = 2**30
        raise UserError(
            f"{kernel} at {size} needs about {COPIES * needed / gib:.1f} GiB ({COPIES} copies of "
            f"{needed / gib:.1f} GiB), and {available / gib:.1f} GiB are available: choose a smaller size"
        )
