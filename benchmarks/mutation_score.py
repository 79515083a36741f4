"""The mutation score of the cascade: of faults planted into generated code, how many it rejects.

    python -m benchmarks.mutation_score --mutants 500 --json
    python -m benchmarks.mutation_score --parts

Needs a checkout, because the faults live in `tests/mutants`. A mutant that the cascade accepts is judged on inputs of
its own: it survived if it changes any result, and is equivalent if nothing was found. With `--parts`, there is one
mutant of every kind of fault in each part of the code that a step of its own makes.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import click

from optimizer.measure.bench import Bench, TimeLimits
from optimizer.measure.lane import TimingLane
from tests.mutants.parts import Part, one_of_each
from tests.mutants.registry import FAULTS
from tests.mutants.scoring import Mutant, Outcome, Result, draw, evaluate
from tests.mutants.subject import THREADS

LIMITS = TimeLimits(build=60.0, call=5.0, check=180.0, timing=60.0, rounds=0.1)
KILLED = (Outcome.REJECTED, Outcome.REJECTED_BY_TIMING)


def report(results: Sequence[Result]) -> dict[str, Any]:
    """The figures, in all and for each kind of fault."""
    counts = Counter(result.outcome for result in results)
    killed = sum(counts[outcome] for outcome in KILLED)
    changing = killed + counts[Outcome.SURVIVED]
    shown = ("fault", "kernel", "schedule", "fp", "is_compiled_only", "reason", "detail")
    return {
        "mutants": len(results),
        "kinds": len({result.fault for result in results}),
        "kernels": len({result.kernel for result in results}),
        "score": killed / changing if changing else None,
        "changing": changing,
        "outcomes": {outcome.value: counts[outcome] for outcome in Outcome},
        "reasons": dict(Counter(r.reason for r in results if r.outcome is Outcome.REJECTED).most_common()),
        "by_kind": {
            fault.name: dict(Counter(r.outcome.value for r in results if r.fault == fault.name)) for fault in FAULTS
        },
        "survivors": [_chosen(result, (*shown, "text")) for result in results if result.outcome is Outcome.SURVIVED],
        "undecided": [_chosen(result, (*shown, "text")) for result in results if result.outcome is Outcome.UNDECIDED],
        "equivalent": [_chosen(result, shown) for result in results if result.outcome is Outcome.EQUIVALENT],
    }


def _chosen(result: Result, names: Sequence[str]) -> dict[str, Any]:
    return {name: getattr(result, name) for name in names}


def table(figures: dict[str, Any]) -> str:
    """The figures as Markdown."""
    outcomes = figures["outcomes"]
    lines = [
        f"{figures['mutants']} mutants of {figures['kinds']} kinds in {figures['kernels']} kernels: "
        + ", ".join(f"{count} {outcome}" for outcome, count in outcomes.items() if count),
        f"Score: {outcomes['rejected'] + outcomes['rejected by timing']} of {figures['changing']} "
        "that change a result are rejected.",
        "",
        "| fault | " + " | ".join(outcome.value for outcome in Outcome) + " |",
        "|---|" + "---|" * len(Outcome),
    ]
    for fault, counts in figures["by_kind"].items():
        lines.append(f"| {fault} | " + " | ".join(str(counts.get(outcome.value, "")) for outcome in Outcome) + " |")
    for heading in ("survivors", "undecided", "equivalent"):
        lines += ["", f"{heading}: {len(figures[heading])}"]
        lines += [
            f"- {one['fault']} in {one['kernel']} `{one['schedule']}` ({one['fp']}"
            f"{', compiled only' if one['is_compiled_only'] else ''}): {one['reason']}; {one['detail']}"
            for one in figures[heading]
        ]
    return "\n".join(lines)


def drawn_by_part(seed: int) -> Iterator[Mutant]:
    for part in Part:
        mutants = list(one_of_each(part, seed))
        print(f"{part}: {len(mutants)} kinds", file=sys.stderr, flush=True)
        yield from mutants


def recorded(file: Path | None) -> dict[str, Result]:
    """The results of a file by the keys of their mutants; of several for a mutant the last."""
    if file is None or not file.exists():
        return {}
    results = [Result(**json.loads(line)) for line in file.read_text(encoding="utf-8").splitlines()]
    return {result.key: replace(result, outcome=Outcome(result.outcome)) for result in results}


@click.command()
@click.option("--mutants", "count", default=500, show_default=True, help="How many to draw.")
@click.option("--parts", is_flag=True, help="One of every kind in each part of the code instead.")
@click.option("--seed", default=0, show_default=True, help="Of the drawing.")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
@click.option(
    "--record",
    type=click.Path(path_type=Path),
    help="Results as lines of JSON; a mutant that has one here is not run again.",
)
def main(count: int, parts: bool, seed: int, as_json: bool, record: Path | None) -> None:
    """Plant faults into generated code and count which ones the cascade rejects. Exit status 1 if any survives."""
    mutants = list(drawn_by_part(seed)) if parts else draw(count, seed)
    known = recorded(record)
    with tempfile.TemporaryDirectory(prefix="loopwright-mutants-") as folder:
        directory = Path(folder)
        lane = TimingLane(directory / "lane")
        with Bench(directory / "bench", threads=THREADS, limits=LIMITS, lane=lane) as bench:
            for number, mutant in enumerate(mutants, 1):
                if mutant.key in known:
                    continue
                known[mutant.key] = result = evaluate(mutant, bench)
                line = (
                    f"{number}/{len(mutants)} {result.fault} in {mutant.subject}: {result.outcome} {result.seconds} s"
                )
                print(line, file=sys.stderr, flush=True)
                if record:
                    with record.open("a", encoding="utf-8") as file:
                        file.write(json.dumps(asdict(result)) + "\n")
    results = [known[mutant.key] for mutant in mutants]
    figures = report(results)
    print(json.dumps(figures, indent=2) if as_json else table(figures))
    if figures["survivors"]:
        sys.exit(1)


if __name__ == "__main__":
    main()
