"""Candidates for attacks: module texts that are Python to the end and can do whatever Python can."""

from __future__ import annotations

from dataclasses import replace

from optimizer.candidate import Candidate
from optimizer.measure.bench import Bench
from optimizer.verdict import Reason, Status, Verdict
from tests.measured_problem import TextProblem
from verifiers.equivalence import Equivalence
from verifiers.timing import Timing

SOURCE = """
def scale_sum(n, m, factor, A, B, total):
    for i in range(n):
        for again in range(300):
            total[i] = again
            for j in range(m):
                total[i] += A[i, j] * B[i, j]
        total[i] -= 299
        A[i, 0] = factor * A[i, 0]
"""
"""Does the same work three hundred times over, so that a call takes a while; writes A and total, reads B."""
PROBLEM = TextProblem(
    source=SOURCE, sizes={"n": 200, "m": 400}, small=({"n": 0, "m": 1}, {"n": 2, "m": 3}, {"n": 4, "m": 5})
)
STRICT = replace(PROBLEM, fastmath=())

HONEST_CALL = "inner(n, m, factor, A, B, total)"
SCRIPT = """
import numpy as np
import time
from numba import njit

@njit(error_model='numpy', fastmath={'contract'}, nogil=True)
def inner(n, m, factor, A, B, total):
%(inner)s
%(head)s

class Function:
    calls = 0

    def compile(self, types):
        inner.compile(types)

    def __call__(self, n, m, factor, A, B, total):
        self.calls += 1
        is_timed = n > 100
%(body)s

scale_sum = Function()
"""


def scripted(body: str = HONEST_CALL, head: str = "") -> str:
    """A candidate around the honest, compiled `inner`; in `body` it knows `is_timed` and `self.calls`."""
    inner = "\n".join(SOURCE.strip("\n").splitlines()[1:])
    return SCRIPT % {"inner": inner, "head": head.strip("\n"), "body": _indented(body, 8)}


def _indented(text: str, by: int) -> str:
    return "\n".join(f"{' ' * by}{line}" for line in text.strip("\n").splitlines())


def checked(bench: Bench, text: str, problem: TextProblem = PROBLEM) -> Verdict:
    return Equivalence(bench).verify(problem, Candidate(text))


def timed(bench: Bench, text: str, problem: TextProblem = PROBLEM) -> Verdict:
    """Checked and then timed, as far as it gets."""
    verdict = checked(bench, text, problem)
    return verdict if verdict.status is not Status.OK else Timing(bench).verify(problem, Candidate(text))


def is_rejected(verdict: Verdict, *reasons: Reason) -> bool:
    return verdict.status is Status.REJECTED and verdict.reason in reasons and verdict.measurement is None


def is_honest_work_accepted(bench: Bench, problem: TextProblem = PROBLEM) -> bool:
    """Whether an attack has spoilt nothing for who comes next."""
    return checked(bench, scripted(), problem).status is Status.OK
