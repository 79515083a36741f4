"""What a person sees during a run and after it."""

import io
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from rich.live import Live

from optimizer.budget import Amounts, BudgetView, Limits
from optimizer.candidate import Candidate
from optimizer.cli.live import LiveTable, PlainLines, lines_of, render, trial_line, watching
from optimizer.cli.progress import Progress, budget_text
from optimizer.events import (
    ChainStopped,
    ComparisonStarted,
    FinalistsMeasured,
    RunFinished,
    RunResult,
    RunStarted,
    TrialFinished,
    TrialStarted,
    Waiting,
)
from optimizer.plan import Plan, StopReason
from optimizer.polyhedral.frontend import nest_of_source
from optimizer.polyhedral.nest import Nest
from optimizer.selection import Finalist, Selection
from optimizer.trial import Trial
from optimizer.verdict import Measurement, Reason, Status, Verdict
from optimizer.views.run import WHY_STOPPED, run_json, summary_text
from optimizer.wording import score_text

BUDGET = BudgetView(Amounts(evaluations=3, seconds=2.0), Limits(evaluations=10, seconds=30.0))


def measured(score: float, unit: str = "x") -> Measurement:
    details = {"seconds": 1.0 / score, "baseline_seconds": 1.0}
    return Measurement(score, (score * 0.98, score * 1.02), 9, unit, details)


def accepted(number: int, score: float, text: str = "tile(i=8, j=8)", unit: str = "x") -> Trial:
    proof = Verdict(Status.OK, "legality", assurance="proved")
    time = Verdict(Status.OK, "timing", measurement=measured(score, unit))
    return Trial(number, 0, number, Candidate(text), (proof, time))


def rejected(number: int, text: str = "parallel(k)") -> Trial:
    detail = "S0(k=0) writes C[0, 0], then S0(k=1) reads it\nand more"
    return Trial(number, 0, number, Candidate(text), (Verdict(Status.REJECTED, "legality", Reason.ILLEGAL, detail),))


BASELINE = Trial(0, 0, 0, Candidate(""), (Verdict(Status.OK, "baseline", measurement=Measurement(1.0, (1.0, 1.0), 0)),))


def result(trials: Sequence[Trial], winner: Trial, final: Measurement | None = None, **changes: Any) -> RunResult:
    fields: dict[str, Any] = {
        "trials": tuple(trials),
        "selection": Selection(winner, winner.measurement, final, changes.pop("tied", ())),
        "finalists": (),
        "stop_reason": StopReason.BUDGET_EVALUATIONS,
        "chain_stops": (StopReason.BUDGET_EVALUATIONS,),
        "used": Amounts(evaluations=3, seconds=12.5),
    }
    return RunResult(**fields | changes)


SCALED = "def scale(x, by):\n    for i in range(len(x)):\n        x[i] *= by\n"


@dataclass(frozen=True)
class FakeKernel:
    kind: str = "kernel"
    name: str = "matmul"
    size: str = "small"
    sizes: dict[str, int] = field(default_factory=lambda: {"n": 60})
    nest: Nest = field(default_factory=lambda: nest_of_source(SCALED, None, "mine.py", by_use=True))


@dataclass(frozen=True)
class FakeText:
    kind: str = "text"
    name: str = "start.txt"


def test_lines_of_a_run() -> None:
    events = [
        RunStarted("matmul", Plan(chains=2, steps=5), Limits(evaluations=10), ("only two proposals fit",)),
        TrialFinished(BASELINE, BUDGET),
        TrialStarted(1, 0, 1, Candidate("tile(i=8, j=8)")),
        TrialFinished(accepted(1, 2.5), BUDGET),
        TrialFinished(rejected(2), BUDGET),
        Waiting("another run is timing"),
        ChainStopped(0, StopReason.NO_PROGRESS),
        ComparisonStarted((1,)),
        FinalistsMeasured((Finalist(1, measured(2.4)),)),
        RunFinished(result([BASELINE], BASELINE)),
    ]
    assert [line for event in events for line in lines_of(event)] == [
        "matmul: 2 chains of up to 5 steps",
        "warning: only two proposals fit",
        "trial 1  chain 0 step 1  ok  2.50x  tile(i=8, j=8)  (7 of 10 evaluations left, 28 s left)",
        "trial 2  chain 0 step 2  illegal  S0(k=0) writes C[0, 0], then S0(k=1) reads it  parallel(k)"
        "  (7 of 10 evaluations left, 28 s left)",
        "waiting: another run is timing",
        "chain 0 stopped: no_progress",
        "measuring the best 1 again, side by side",
        "  trial 1: 2.40x",
    ]


def test_lines_are_cut_and_never_broken() -> None:
    line = trial_line(accepted(1, 2.0, text="x = 1\n" * 100))
    assert "\n" not in line
    assert line.endswith("...")
    assert len(line) < 180


def test_plain_lines_go_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    with watching(is_terminal=False) as observer:
        assert isinstance(observer, PlainLines)
        observer.notify(Waiting("another run is timing"))
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "waiting: another run is timing\n"


def shown(progress: Progress) -> str:
    console = Console(file=io.StringIO(), width=140, color_system=None)
    console.print(render(progress))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_live_table_shows_chains_best_counts_and_budget() -> None:
    stream = io.StringIO()
    with Live(console=Console(file=stream, width=140, force_terminal=True), auto_refresh=False) as live:
        view = LiveTable(live)
        view.notify(RunStarted("matmul", Plan(chains=2, steps=5), Limits(evaluations=10)))
        view.notify(TrialFinished(accepted(1, 2.5), BUDGET))
    assert "2.50x" in stream.getvalue()

    progress = Progress()
    progress.notify(RunStarted("matmul", Plan(chains=2, steps=5), Limits(evaluations=10)))
    progress.notify(TrialFinished(BASELINE, BUDGET))
    progress.notify(TrialFinished(accepted(1, 2.5), BUDGET))
    progress.notify(TrialFinished(rejected(2), BUDGET))
    progress.notify(TrialFinished(accepted(3, 1.5, text="reverse(i)"), BUDGET))
    progress.notify(Waiting("another run is timing"))
    text = shown(progress)
    assert "2 ok, 1 illegal" in text
    assert "budget: 7 of 10 evaluations left, 28 s left" in text
    assert "best so far: 2.50x  tile(i=8, j=8)" in text
    assert "waiting: another run is timing" in text
    progress.notify(ChainStopped(0, StopReason.STEPS_DONE))
    progress.notify(TrialStarted(4, 1, 1, Candidate("")))
    text = shown(progress)
    assert "stopped: steps_done" in text
    assert "judging (the original)" in text
    assert "another run is timing" not in text


def test_candidates_are_not_read_as_markup() -> None:
    progress = Progress()
    progress.notify(TrialFinished(accepted(1, 2.0, text="[bold]A[i, j][/bold]"), BUDGET))
    assert "[bold]A[i, j][/bold]" in shown(progress)


def test_texts_of_scores_and_budgets() -> None:
    assert score_text(None) == "-"
    assert score_text(measured(5, "points")) == "5 points"
    suite = Measurement(5 / 6, (5 / 6, 5 / 6), 1, "tests", {"passed": 5, "total": 6})
    assert score_text(suite) == "5 of 6 tests"
    assert score_text(measured(0.5, "")) == "0.5"
    assert budget_text(BudgetView(Amounts(seconds=4.0))) == "4 s used"


def test_every_stop_reason_is_explained() -> None:
    assert set(WHY_STOPPED) == set(StopReason)


def test_summary_of_a_faster_kernel() -> None:
    best, other = accepted(1, 2.5), accepted(3, 2.45)
    outcome = result([BASELINE, best, rejected(2), other], best, measured(2.4), tied=(1, 3))
    text = summary_text(FakeKernel(), outcome, Path("runs/x"), None, limit_seconds=0.1)
    assert text.splitlines() == [
        "matmul at small: 2.40x (95% interval 2.35 to 2.45) over the original",
        "  time       1 s original, 417 ms now; this machine's limit is about 100 ms (24% of it reached)",
        "  assumed    x: float64[x_0], by: float64 (annotations would say it for certain)",
        "  schedule   tile(i=8, j=8)",
        "  assurance  proved",
        "  winner     trial 1, 2.50x in the search and 2.40x afterwards; a tie with 3",
        "  outcomes   2 ok, 1 illegal (3 evaluations, 12.5 s)",
        "  stopped    budget_evaluations: all evaluations of the budget are used",
        "  run        runs/x",
        "  next       loopwright resume runs/x --out FILE.py writes the code",
    ]


def test_summary_when_the_original_stays_best() -> None:
    slower = accepted(1, 0.9)
    outcome = result([BASELINE, slower], BASELINE)
    text = summary_text(FakeKernel(), outcome, Path("runs/x"), None)
    assert text.startswith(
        "matmul at small: nothing that was tried is faster than the original\n  time       1 s original\n"
    )
    data = run_json(FakeKernel(), outcome, Path("runs/x"), None)
    assert (data["speedup"], data["interval"], data["schedule"], data["baseline_seconds"]) == (1.0, [1.0, 1.0], "", 1.0)


def test_json_of_a_run_has_what_the_design_names() -> None:
    best = accepted(1, 2.5)
    outcome = result([BASELINE, best, rejected(2)], best, measured(2.4))
    data = json.loads(json.dumps(run_json(FakeKernel(), outcome, Path("runs/x"), Path("/tmp/fast.py"))))
    expected = "kernel size baseline baseline_seconds best_seconds speedup interval selected_speedup schedule assurance"
    assert set(f"{expected} evaluations outcomes stop_reason run_dir export".split()) <= set(data)
    assert data["assumed_types"] == {"x": "float64[x_0]", "by": "float64"}
    assert data["speedup"] == 2.4
    assert data["selected_speedup"] == 2.5
    assert data["outcomes"] == {"ok": 1, "illegal": 1}
    assert data["export"] == "/tmp/fast.py"
    assert data["best_seconds"] == pytest.approx(1 / 2.4)


def test_summary_of_a_text() -> None:
    before, best = accepted(0, 2.0, "old", unit="points"), accepted(4, 6.0, "new", unit="points")
    outcome = result([before, best], best)
    assert summary_text(FakeText(), outcome, Path("r"), None).startswith(
        "start.txt: 6 points, the original had 2 points\n"
    )
    data = run_json(FakeText(), outcome, Path("r"), None)
    assert (data["baseline_score"], data["score"], data["unit"], data["candidate"]) == (2.0, 6.0, "points", "new")


@pytest.mark.parametrize("reason", [StopReason.INTERRUPTED, StopReason.INFRASTRUCTURE_ERRORS])
def test_summary_says_how_to_go_on(reason: StopReason) -> None:
    text = summary_text(FakeKernel(), result([BASELINE], BASELINE, stop_reason=reason), Path("runs/x"), None)
    assert "go on with: loopwright resume runs/x" in text
