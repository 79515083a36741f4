"""One long run with injected faults: memory stays flat, nothing leaks, and the journal accounts for every fault.

    python -m benchmarks.soak --evaluations 2000

The real loop, journal, cascade, bench and worker process; the kernel is tiny, and its candidates are left uncompiled,
so that two thousand of them take less than an hour. Exit status 1 when anything leaks or is missing.
"""

from __future__ import annotations

import math
import os
import random
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import product
from pathlib import Path
from typing import ClassVar

import click
import psutil

from optimizer.budget import Ledger, Limits
from optimizer.candidate import Candidate
from optimizer.codegen.backend import CodeOptions
from optimizer.codegen.numba_source import NumbaBackend
from optimizer.errors import InfrastructureError
from optimizer.events import Event, TrialFinished
from optimizer.journal import FILE_NAME, Journal, read_record
from optimizer.kernel_problem import KernelProblem
from optimizer.loop import run_loop
from optimizer.measure.bench import Bench, TimeLimits
from optimizer.measure.lane import TimingLane
from optimizer.plan import Plan
from optimizer.policies.replay import Replay
from optimizer.polyhedral.nest import Nest
from optimizer.polyhedral.tree import Node, show
from optimizer.run_lock import LOCK_NAME
from optimizer.verdict import Status, Verdict
from verifiers.equivalence import Equivalence
from verifiers.legality import Legality
from verifiers.timing import Timing

KERNEL = "mvt"
SIZES = {"n": 7}
MOST_GROWTH = 1.3
"""Resident memory at the end over that at the reference point."""
SETTLED_SHARE = 0.1
"""The reference point: after this part of the evaluations all caches are warm."""
SAMPLES = 80
PART = SAMPLES // 10
"""So many samples at either end are compared: of 2,000 evaluations, 200, after which a worker is replaced."""
IMPORT = "from numba import njit\n"
UNCOMPILED = """\
import os
import subprocess


def njit(*given, **_options):
    def uncompiled(function):
        function.compile = lambda signature: None
        return function
    return uncompiled(given[0]) if given else uncompiled
"""
"""Stands in for Numba, which would take half a second for each candidate."""


class Fault(Enum):
    """What goes wrong with a candidate: in words, what its code begins with, and how its trial must end."""

    CRASH = "crashes", "    os.abort()\n", "crashed"
    EARLY_EXIT = "exits with 0", "    os._exit(0)\n", "crashed"
    ORPHAN = (
        "crashes and leaves a process behind",
        "    try:\n        subprocess.Popen(['sleep', '1000'])\n    finally:\n        os.abort()\n",
        "crashed",
    )
    HANG = "hangs", "    while True:\n        pass\n", "timed_out"
    WRONG = "computes something else", "    x1 += 1.0\n", "wrong_result"
    HARNESS_FAILS_ONCE = "the harness fails once", "", "ok"
    HARNESS_FAILS = "the harness fails", "", "infrastructure"
    WORKER_KILLED = "the worker is killed between two candidates", "", "ok"

    @property
    def code(self) -> str:
        return self.value[1]

    @property
    def outcome(self) -> str:
        return self.value[2]


@dataclass(frozen=True)
class FaultyBackend:
    """Makes proper, uncompiled code of every schedule, and puts the fault of some in front."""

    faults: Mapping[str, Fault]
    """By the shown tree."""

    def source(self, nest: Nest, tree: Node, options: CodeOptions) -> str:
        text = NumbaBackend().source(nest, tree, options)
        code = self.faults[show(tree)].code if show(tree) in self.faults else ""
        names = ", ".join(argument.name for argument in nest.arguments)
        head = f"def {nest.name}({names}):\n"
        if text.count(IMPORT) != 1 or text.count(head) != 1:
            raise ValueError(f"the generated module is not as the soak expects it:\n{text}")
        return text.replace(IMPORT, UNCOMPILED).replace(head, head + code)


@dataclass
class FaultyHarness:
    """A verifier that says yes to everything, and breaks the harness where it is told to."""

    name: ClassVar[str] = "faulty-harness"
    bench: Bench
    faults: Mapping[str, Fault]
    """By the candidate's text."""
    failed: Counter[str] = field(default_factory=Counter[str])

    def verify(self, problem: KernelProblem, candidate: Candidate) -> Verdict:
        fault = self.faults.get(candidate.text)
        self.failed[candidate.text] += 1
        again = self.failed[candidate.text] > 1
        if fault is Fault.HARNESS_FAILS or (fault is Fault.HARNESS_FAILS_ONCE and not again):
            raise InfrastructureError("injected")
        if fault is Fault.WORKER_KILLED and self.bench.worker.process_id:
            os.kill(self.bench.worker.process_id, signal.SIGKILL)
        return Verdict(Status.OK, self.name)


@dataclass(frozen=True, slots=True)
class Sample:
    """What this process holds after so many evaluations."""

    evaluations: int
    resident: int
    """Bytes of this process ..."""
    below: int
    """... and of those below it, which give up theirs whenever they are replaced."""
    files: int
    """Open file descriptors."""
    children: int
    """Processes below this one, at any depth."""
    temporary: int
    """Entries in the folder for temporary files."""


@dataclass
class Recorder:
    """Takes a sample now and then; keeps nothing else of the run."""

    every: int
    temporary: Path
    samples: list[Sample] = field(default_factory=list[Sample])

    def notify(self, event: Event) -> None:
        if isinstance(event, TrialFinished):
            evaluations = event.budget.used.evaluations
            if evaluations % self.every == 0 and (not self.samples or evaluations > self.samples[-1].evaluations):
                self.samples.append(sample(evaluations, self.temporary))


@dataclass(frozen=True, slots=True)
class Report:
    """What the soak found."""

    samples: Sequence[Sample]
    growth: float
    growth_below: float
    outcomes: Mapping[str, int]
    """Outcome -> how many trials, from the journal."""
    injected: Mapping[str, int]
    """Fault -> how many."""
    faults: Sequence[str]
    """What is wrong."""

    def lines(self) -> list[str]:
        """What to print."""
        shown = [
            f"{one.evaluations:>6} evaluations: {one.resident / 2**20:7.1f} MiB, {one.below / 2**20:7.1f} MiB below, "
            f"{one.files} files, {one.children} processes, {one.temporary} temporary"
            for one in self.samples[:: max(1, len(self.samples) // 10)]
        ]
        return [
            *shown,
            f"injected: {', '.join(f'{count} x {name}' for name, count in self.injected.items())}",
            f"outcomes: {', '.join(f'{count} {name}' for name, count in self.outcomes.items())}",
            f"memory at the end over that at the reference point: {self.growth:.3f}, of the processes below the peak "
            f"of the last part over that of the first: {self.growth_below:.3f} (at most {MOST_GROWTH})",
            *(f"FAULT {fault}" for fault in self.faults[:20]),
            f"{len(self.faults)} faults" if self.faults else "nothing leaks, and everything is accounted for",
        ]


def sample(evaluations: int, temporary: Path) -> Sample:
    """What this process holds now."""
    process = psutil.Process()
    children = process.children(recursive=True)
    return Sample(
        evaluations,
        process.memory_info().rss,
        sum(_resident(child) for child in children),
        process.num_fds(),
        len(children),
        sum(1 for _ in temporary.iterdir()),
    )


def _resident(process: psutil.Process) -> int:
    try:
        return process.memory_info().rss
    except psutil.NoSuchProcess:
        return 0


def soak(evaluations: int, share: float, seed: int, directory: Path) -> Report:
    """Judge so many candidates, this share of them with a fault, in a run in `directory`.

    Temporary files must go to `directory` / "temporary" (TMPDIR), so that they can be counted.
    """
    rng = random.Random(seed)
    temporary, run = directory / "temporary", directory / "run"
    run.mkdir(parents=True)
    temporary.mkdir(exist_ok=True)
    plain = KernelProblem.load(KERNEL, SIZES, threads=1)
    # No larger tiles than it takes: candidates are checked at the sizes around those of their tiles.
    tiles = range(2, 4 + math.isqrt(2 * evaluations))
    texts = [f"tile(i={i}, j={j})" for i, j in product(tiles, repeat=2)]
    rng.shuffle(texts)
    kinds = list(Fault)
    count = round(share * evaluations)
    chosen = {place: kinds[index % len(kinds)] for index, place in enumerate(rng.sample(range(evaluations), count))}
    # One that the harness could not judge costs no evaluation.
    texts = texts[: evaluations + Counter(chosen.values())[Fault.HARNESS_FAILS]]
    candidates = [plain.parse(text) for text in texts]
    faults = {texts[place]: fault for place, fault in chosen.items()}
    trees = {show(plain.tree(candidates[place])): fault for place, fault in chosen.items()}
    problem = replace(plain, backend=FaultyBackend(trees))

    recorder = Recorder(max(1, evaluations // SAMPLES), temporary)
    before = sample(0, temporary)
    limits = TimeLimits(call=1.5, rounds=0.02)
    with (
        Journal(run) as journal,
        Bench(run / "code", threads=1, limits=limits, lane=TimingLane(directory / "lane")) as bench,
    ):
        verifiers = [FaultyHarness(bench, faults), Legality(), Equivalence(bench), Timing(bench)]
        ledger = Ledger(Limits(evaluations=evaluations))
        run_loop(problem, [Replay(chains=(texts,))], verifiers, Plan(steps=len(texts)), ledger, journal, recorder)
    after = sample(evaluations, temporary)
    reference = next(one for one in recorder.samples if one.evaluations >= SETTLED_SHARE * evaluations)
    growth = max(one.resident for one in recorder.samples[-3:]) / reference.resident
    first, last = ([one.below for one in part] for part in (recorder.samples[:PART], recorder.samples[-PART:]))
    growth_below = max(last) / max(first)
    trials = read_record(run).trials
    return Report(
        recorder.samples,
        growth,
        growth_below,
        dict(Counter(trial.outcome for trial in trials[1:]).most_common()),
        dict(Counter(fault.value[0] for fault in chosen.values())),
        [
            *([f"memory grew by {growth:.3f}"] if growth > MOST_GROWTH else []),
            *([f"memory of the processes below grew by {growth_below:.3f}"] if growth_below > MOST_GROWTH else []),
            *_leaks(before, recorder.samples, after),
            *_unaccounted(run, texts, faults, evaluations),
            *_left_in(run),
        ],
    )


def _leaks(before: Sample, during: Sequence[Sample], after: Sample) -> list[str]:
    found: list[str] = []
    if after.files > before.files:
        found.append(f"{after.files - before.files} files are still open")
    if after.children > before.children:
        found.append(f"{after.children - before.children} processes live on")
    if after.temporary:
        found.append(f"{after.temporary} temporary files are left")
    for what in ("files", "children", "temporary"):
        first, last = (max(getattr(one, what) for one in part) for part in (during[:10], during[-10:]))
        if last > first:
            found.append(f"{what} grew from {first} to {last}")
    return found


def _unaccounted(run: Path, texts: Sequence[str], faults: Mapping[str, Fault], evaluations: int) -> list[str]:
    """What the journal does not say as it was."""
    record = read_record(run)
    found: list[str] = []
    if record.spent.evaluations != evaluations:
        found.append(f"{record.spent.evaluations} evaluations are charged, not {evaluations}")
    if [trial.candidate.text for trial in record.trials[1:]] != list(texts):
        found.append(f"{len(record.trials) - 1} trials are recorded for {len(texts)} candidates, or in another order")
    if [trial.number for trial in record.trials] != list(range(len(record.trials))):
        found.append("trials are not numbered one after the other")
    for trial in record.trials[1:]:
        expected = faults[trial.candidate.text].outcome if trial.candidate.text in faults else "ok"
        if trial.outcome != expected:
            fault = faults.get(trial.candidate.text)
            what = f"with fault {fault.name}" if fault else "without a fault"
            found.append(f"trial {trial.number}, {what}, ended as {trial.outcome}: {trial.feedback[:200]}")
    return found


def _left_in(run: Path) -> list[str]:
    """What a run should not leave in its folder."""
    kept, kept_folders = {FILE_NAME, LOCK_NAME, "code"}, {"numba_cache", "__pycache__"}
    return [
        *(f"{path.name} is left in the run's folder" for path in run.iterdir() if path.name not in kept),
        *(f"{path.name} is left among the modules" for path in (run / "code").rglob("*.draft")),
        *(
            f"the folder {path.name} is left among the modules"
            for path in (run / "code").iterdir()
            if path.is_dir() and path.name not in kept_folders
        ),
    ]


@click.command()
@click.option("--evaluations", default=2000, show_default=True, type=click.IntRange(20, 3500))
@click.option("--faults", default=0.05, show_default=True, help="The share of candidates with a fault.")
@click.option("--seed", default=0, show_default=True)
def main(evaluations: int, faults: float, seed: int) -> None:
    """Judge many candidates in one run, some of them with injected faults, and look for leaks."""
    with tempfile.TemporaryDirectory(prefix="loopwright-soak-") as folder:
        temporary = Path(folder) / "temporary"
        temporary.mkdir()
        # For this process and for those that it starts.
        os.environ["TMPDIR"] = tempfile.tempdir = str(temporary)
        report = soak(evaluations, faults, seed, Path(folder))
    print("\n".join(report.lines()))
    sys.exit(1 if report.faults else 0)


if __name__ == "__main__":
    main()
