"""Into memory and out of it: the winner of a run, and hints for a problem like one that was solved before."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import IntEnum

from optimizer.errors import CandidateError
from optimizer.kernel_problem import KernelProblem
from optimizer.memory.entry import Entry
from optimizer.memory.pattern import pattern_of, schedule_of
from optimizer.memory.store import Memory
from optimizer.memory.structure import Structure, structure_of
from optimizer.run import Run

DAYS = 90
"""How long an entry is offered: machines, compilers and kernels change."""
MOST_TRIED = 20
"""Entries that are looked at for one problem: each costs a proof."""


class Likeness(IntEnum):
    """How much an entry's nest is like the one at hand, the most first."""

    SAME = 0
    RENAMED = 1
    SAME_LOOPS = 2

    @property
    def words(self) -> str:
        match self:
            case Likeness.SAME:
                return "the same kernel"
            case Likeness.RENAMED:
                return "a kernel of the same structure"
            case Likeness.SAME_LOOPS:
                return "a kernel with the same loops and other accesses"


@dataclass(frozen=True, slots=True)
class Hint:
    """A schedule that is legal on the nest at hand and was fast on one like it."""

    schedule: str
    """In the names of the nest at hand."""
    source: str
    """Where it comes from, for people and models: kernel, size, speedup, likeness, date, machine, expiry."""
    entry: str
    """Id of the entry."""


def remember(run: Run, days: int = DAYS, memory: Memory | None = None) -> Entry | None:
    """Keep the winner of a run on a kernel; None when there is nothing that deserves it.

    Only a winner that was accepted, measured again beside the other finalists, and faster than the original with all
    of its interval is kept. Raises `UserError` when the memory cannot be written.
    """
    problem, winner, measured = run.problem, run.result.winner, run.result.selection.measured
    machine = run.specification.machine.get("digest")
    if not isinstance(problem, KernelProblem) or machine is None or measured is None:
        return None
    if winner.number == 0 or winner.measurement is None or measured.interval[0] <= 1.0:
        return None
    # Of the measurement: a finished run that is only told again makes nothing younger.
    created = datetime.fromtimestamp(winner.when, UTC)
    structure = structure_of(problem.nest)
    entry = Entry(
        kernel=_line(problem.kernel),
        nest=problem.nest.digest,
        structure=structure.structure,
        shape=structure.shape,
        schedule=winner.candidate.text,
        pattern=pattern_of(problem.nest, structure, problem.schedule(winner.candidate)),
        speedup=measured.score,
        interval=measured.interval,
        sizes=dict(problem.sizes),
        threads=problem.threads,
        fp=problem.fp.value,
        machine=machine,
        machine_description=_line(str(run.specification.machine.get("description", "unknown"))),
        run=_line(str(run.directory.absolute())),
        created=created,
        expires=created + timedelta(days=days),
    )
    (memory or Memory()).add(entry)
    return entry


def hints(
    problem: KernelProblem, machine: str, now: datetime | None = None, most: int = 3, memory: Memory | None = None
) -> tuple[Hint, ...]:
    """Schedules for this problem from runs on this machine (by its digest), the most promising first.

    Each one applies to the nest and is legal on it; nothing is claimed of its speed here. Raises `UserError` when the
    memory cannot be read.
    """
    now = now or datetime.now(UTC)
    structure = structure_of(problem.nest)
    usable = [entry for entry in (memory or Memory()).read().entries if not entry.why_unused(machine, now)]
    alike = [(like, entry) for entry in usable if (like := _likeness(entry, problem, structure)) is not None]
    alike.sort(key=lambda pair: (pair[0], _distance(pair[1], problem), -pair[1].speedup, pair[1].id))
    found: dict[str, Hint] = {}
    original = problem.baseline.digest
    for like, entry in alike[:MOST_TRIED]:
        with suppress(CandidateError):
            text = entry.schedule
            if like is not Likeness.SAME:
                text = str(schedule_of(problem.nest, structure, entry.pattern))
            candidate = problem.parse(text)
            if candidate.digest not in (original, *found) and problem.is_admissible(candidate):
                found[candidate.digest] = Hint(candidate.text, _source(entry, like), entry.id)
        if len(found) >= most:
            break
    return tuple(found.values())


def _likeness(entry: Entry, problem: KernelProblem, structure: Structure) -> Likeness | None:
    if entry.nest == problem.nest.digest:
        return Likeness.SAME
    if entry.structure == structure.structure:
        return Likeness.RENAMED
    return Likeness.SAME_LOOPS if entry.shape == structure.shape else None


def _distance(entry: Entry, problem: KernelProblem) -> int:
    """How many of size, threads and precision are others than those at hand."""
    sizes = sorted(entry.sizes.values()) != sorted(problem.sizes.values())
    return sizes + (entry.threads != problem.threads) + (entry.fp != problem.fp.value)


def _source(entry: Entry, like: Likeness) -> str:
    return (
        f"from memory {entry.id}: {like.words}, {entry.kernel} at {entry.where}: {entry.measured}; "
        f"found on {entry.created:%Y-%m-%d} on {entry.machine_description}; expires on {entry.expires:%Y-%m-%d}"
    )


def _line(text: str) -> str:
    """The text as one line that an entry can hold."""
    return "".join(character if character.isprintable() else " " for character in text)[:500]
