"""The verifiers of a kernel, cheapest first: proof, test on small inputs, time, plausibility."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from optimizer.kernel_problem import KernelProblem
from optimizer.measure.bench import Bench
from optimizer.protocols import Verifier
from verifiers.equivalence import Equivalence
from verifiers.legality import Legality
from verifiers.plausibility import Plausibility
from verifiers.timing import Timing


def kernel_verifiers(
    problem: KernelProblem,
    directory: Path,
    waiting: Callable[[str], None] = lambda _: None,
    seed: int = 0,
    with_repair: bool = True,
    with_timing: bool = True,
) -> Sequence[Verifier]:
    """All of the cascade on one bench; `directory` takes the candidates' modules.

    Options: the seed of inputs and sampling, whether illegal schedules come back with a repair, whether to time at all.
    """
    bench = Bench(directory, threads=problem.threads, seed=seed, on_wait=waiting)
    judged: list[Verifier] = [Legality(with_repair), Equivalence(bench)]
    return [*judged, Timing(bench), Plausibility(bench)] if with_timing else judged
