"""Draws mutants, shows them to the cascade, and judges those that it accepts."""

from __future__ import annotations

import hashlib
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from optimizer.kernel_problem import KernelProblem
from optimizer.measure.bench import Bench
from optimizer.measure.problem import TIMING
from optimizer.polyhedral.counting import iterations
from optimizer.verdict import Reason, Status
from tests.mutants.fault import Fault, Scope, only_compiled
from tests.mutants.judging import Question, ask
from tests.mutants.registry import FAULTS
from tests.mutants.subject import SUBJECTS, THREADS, Subject
from verifiers.equivalence import Equivalence
from verifiers.timing import Timing

COMPILED_SHARE = 0.15
"""The part of mutants that are right as plain Python, so that only the checks of compiled code can find them."""
JUDGED_SIZES = 40
MOST_JUDGED_ITERATIONS = 10_000


@dataclass(frozen=True, slots=True)
class Mutant:
    fault: Fault
    subject: Subject
    wrong: str
    """The module with the fault."""
    is_compiled_only: bool

    @property
    def text(self) -> str:
        """What the cascade is shown."""
        return only_compiled(self.subject.code, self.wrong) if self.is_compiled_only else self.wrong

    @property
    def key(self) -> str:
        """The same for the same mutant in every run."""
        return hashlib.sha256(f"{self.fault.name}/{self.subject}/{self.text}".encode()).hexdigest()[:16]


class Outcome(StrEnum):
    REJECTED = "rejected"
    """By the comparison with the original."""
    REJECTED_BY_TIMING = "rejected by timing"
    """By the comparison at the size that is timed."""
    SURVIVED = "survived"
    """Accepted although it changes a result."""
    EQUIVALENT = "equivalent"
    """Accepted, and no result that changes was found."""
    STILLBORN = "stillborn"
    """No code that could be compiled; counts for nothing."""
    UNDECIDED = "undecided"
    """Accepted, and the judge cannot tell."""


@dataclass(frozen=True, slots=True)
class Result:
    key: str
    """Of the mutant."""
    fault: str
    kernel: str
    schedule: str
    fp: str
    is_compiled_only: bool
    outcome: Outcome
    reason: str
    detail: str
    seconds: float
    text: str


def draw(
    count: int,
    seed: int,
    faults: Sequence[Fault] = FAULTS,
    subjects: Sequence[Subject] = SUBJECTS,
    compiled_share: float = COMPILED_SHARE,
) -> list[Mutant]:
    """Different mutants of every fault in turn, until there are `count` of them or no more; ordered by subject."""
    # Each kind has generators of its own, so that a new kind leaves the others' mutants as they are.
    hiding = {fault.name: random.Random(f"{seed}/{fault.name}/hidden") for fault in faults}
    sources = {fault.name: mutants_of(fault, subjects, random.Random(f"{seed}/{fault.name}")) for fault in faults}
    drawn: list[Mutant] = []
    while sources and len(drawn) < count:
        for fault in faults:
            if fault.name not in sources or len(drawn) == count:
                continue
            mutant = next(sources[fault.name], None)
            if mutant is None:
                del sources[fault.name]
            else:
                subject, wrong = mutant
                hidden = fault.is_compiled_only or hiding[fault.name].random() < compiled_share
                drawn.append(Mutant(fault, subject, wrong, hidden))
    return sorted(drawn, key=lambda mutant: subjects.index(mutant.subject))


def mutants_of(fault: Fault, subjects: Sequence[Subject], rng: random.Random) -> Iterator[tuple[Subject, str]]:
    """Of one subject after the other, then the second mutants of each, and so on."""
    admitted = [subject for subject in subjects if subject.admits(fault)]
    rng.shuffle(admitted)
    waiting = [(subject, fault.apply(subject.module, rng)) for subject in admitted]
    while waiting:
        left: list[tuple[Subject, Iterator[str]]] = []
        for subject, texts in waiting:
            text = next(texts, None)
            if text is not None:
                yield subject, text
                left.append((subject, texts))
        waiting = left


def one_of(fault: Fault, subjects: Sequence[Subject], seed: int) -> Mutant:
    """One mutant of a fault, chosen by the seed. Raises `StopIteration` where it applies to none of the subjects."""
    subject, wrong = next(mutants_of(fault, subjects, random.Random(f"{seed}/{fault.name}")))
    return Mutant(fault, subject, wrong, fault.is_compiled_only)


def evaluate(mutant: Mutant, bench: Bench) -> Result:
    """Show a mutant to the cascade, and judge it if it is accepted."""
    start = time.monotonic()
    outcome, reason, detail = _outcome(mutant, bench)
    subject = mutant.subject
    return Result(
        key=mutant.key,
        fault=mutant.fault.name,
        kernel=subject.kernel,
        schedule=subject.schedule,
        fp=subject.fp,
        is_compiled_only=mutant.is_compiled_only,
        outcome=outcome,
        reason=reason,
        detail=detail[:400],
        seconds=round(time.monotonic() - start, 2),
        text=mutant.text if outcome in (Outcome.SURVIVED, Outcome.UNDECIDED) else "",
    )


def _outcome(mutant: Mutant, bench: Bench) -> tuple[Outcome, str, str]:
    problem, candidate = mutant.subject.planted(mutant.text), mutant.subject.candidate
    verdict = Equivalence(bench).verify(problem, candidate)
    if verdict.status is Status.REJECTED:
        outcome = Outcome.STILLBORN if verdict.reason is Reason.BUILD_FAILED else Outcome.REJECTED
        return outcome, str(verdict.reason), verdict.detail
    judged = ask(_question(mutant, problem))
    if judged is None:
        return Outcome.UNDECIDED, "", "the judge gave no answer"
    if judged.difference is None and mutant.fault.is_race and mutant.is_compiled_only:
        return Outcome.UNDECIDED, "", f"in {judged.runs} runs no threads met"
    if judged.difference is None:
        return Outcome.EQUIVALENT, mutant.fault.harmless, f"{judged.runs} runs agree"
    timed = Timing(bench).verify(problem, candidate)
    if timed.status is Status.REJECTED:
        return Outcome.REJECTED_BY_TIMING, str(timed.reason), judged.difference
    return Outcome.SURVIVED, "", judged.difference


def _question(mutant: Mutant, problem: KernelProblem) -> Question:
    adds_threads = "prange" in mutant.wrong and "prange" not in mutant.subject.code
    return Question(
        workload=problem.workload(TIMING),
        right=mutant.subject.code,
        wrong=mutant.wrong,
        sizes=[*_sizes(problem), dict(problem.sizes)],
        threads=THREADS,
        compiles=mutant.fault.is_compiled_only or adds_threads,
        keeps_flags=mutant.fault.scope in (Scope.STRICT, Scope.CONTRACT),
        # Compiled code that may contract is never compared by its bits.
        is_loose=mutant.is_compiled_only and not problem.workload(TIMING).is_strict,
    )


def _sizes(problem: KernelProblem) -> list[Mapping[str, int]]:
    """Random small sizes in random order, the same for a kernel each time."""
    rng = random.Random(problem.name)
    found: list[Mapping[str, int]] = []
    for limit in (3, 9, 9, 17, 17, 33, 64):
        for _ in range(JUDGED_SIZES):
            sizes = {name: rng.randint(0, limit) for name in problem.sizes}
            if rng.random() < 0.3:
                sizes = dict.fromkeys(sizes, rng.randint(0, limit))
            count = iterations(problem.nest, sizes) if problem.model.admits(sizes) else None
            if count is not None and count <= MOST_JUDGED_ITERATIONS:
                found.append(sizes)
                if len(found) % 6 == 0:
                    break
    rng.shuffle(found)
    return found
