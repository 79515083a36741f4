"""Repair `middle.py` by mutations until its six tests pass, and print what had to change."""

from __future__ import annotations

import difflib
from pathlib import Path

from optimizer.budget import Limits
from optimizer.plan import Plan
from optimizer.run import RunSpecification, start
from optimizer.suite_problem import SuiteProblem

HERE = Path(__file__).parent


def repair() -> RunSpecification:
    """What is asked for: at most 100 mutants, and a stop at the first that passes all tests."""
    problem = SuiteProblem.from_files(HERE / "middle.py", HERE / "tests")
    return RunSpecification(
        problem.specification(),
        policy="mutate",
        verifier_options={"plugins": False},
        plan=Plan(target=1.0, seed=8),
        limits=Limits(evaluations=100),
    )


def main() -> None:
    run = start(repair())
    original, winner = run.result.trials[0], run.result.winner
    print(f"{winner.assurance}, after {run.result.used.evaluations} evaluations; the run is in {run.directory}")
    before, after = original.candidate.text.splitlines(), winner.candidate.text.splitlines()
    print("\n".join(difflib.unified_diff(before, after, lineterm="")))


if __name__ == "__main__":
    main()
