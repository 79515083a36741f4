"""Repair `middle.py` by mutations until its six tests pass, and print what had to change."""

from __future__ import annotations

import difflib
from pathlib import Path

from optimizer.budget import Limits
from optimizer.plan import Plan
from optimizer.run import RunSpecification, start
from optimizer.suite_problem import SuiteProblem

HERE = Path(__file__).parent


def main() -> None:
    problem = SuiteProblem.from_files(HERE / "middle.py", HERE / "tests")
    specification = RunSpecification(
        problem.specification(),
        policy="mutate",
        verifier_options={"plugins": False},
        plan=Plan(target=1.0, seed=1),
        limits=Limits(evaluations=100),
    )
    run = start(specification)
    winner = run.result.winner
    print(f"{winner.assurance}, after {run.result.used.evaluations} evaluations; the run is in {run.directory}")
    print("\n".join(difflib.unified_diff(problem.text.splitlines(), winner.candidate.text.splitlines(), lineterm="")))


if __name__ == "__main__":
    main()
