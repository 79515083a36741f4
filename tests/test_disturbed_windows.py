"""A timing window that other work disturbed is measured once more, and the calmer one counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from optimizer.candidate import Candidate
from optimizer.measure.bench import Bench
from optimizer.measure.commands import TimeCommand, TimeReport
from optimizer.measure.failure import WorkerFailure
from optimizer.verdict import Measurement, Reason, Status, Verdict
from tests.measured_problem import TextProblem
from verifiers.timing import Timing

PROBLEM = TextProblem()
CANDIDATE = Candidate("def scale_sum(): ...")


@dataclass
class Recorded:
    """Stands for `Bench.time`: reports by the load of each window, with a speedup of its own each."""

    windows: Sequence[tuple[float, float] | WorkerFailure]
    """Load and speedup of the windows with a candidate; those of the original alone are calm."""
    commands: list[TimeCommand] = field(default_factory=list[TimeCommand])

    def __call__(self, command: TimeCommand) -> TimeReport:
        if len(command.codes) == 1:
            return report((1.0,), 0.0)
        window = self.windows[len(self.commands)]
        self.commands.append(command)
        if isinstance(window, WorkerFailure):
            raise window
        load, speedup = window
        return report((1.0, 1.0 / speedup), load)


def report(seconds: tuple[float, ...], load: float) -> TimeReport:
    return TimeReport((seconds,) * 6, 1.0, (1,) * len(seconds), 100, load)


def measured(
    monkeypatch: pytest.MonkeyPatch, bench: Bench, *windows: tuple[float, float] | WorkerFailure
) -> tuple[Verdict, Recorded]:
    recorded = Recorded(windows)
    monkeypatch.setattr(bench, "time", recorded)
    return Timing(bench).verify(PROBLEM, CANDIDATE), recorded


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path, threads=1)


def found(verdict_measurement: Measurement | None) -> tuple[float, object, object]:
    assert verdict_measurement is not None
    details = verdict_measurement.details
    return verdict_measurement.score, details["windows"], details["disturbed"]


def test_a_calm_window_is_enough(monkeypatch: pytest.MonkeyPatch, bench: Bench) -> None:
    verdict, recorded = measured(monkeypatch, bench, (0.1, 2.0))
    assert found(verdict.measurement) == (pytest.approx(2.0), 1, False)
    assert len(recorded.commands) == 1


def test_the_calmer_one_counts_whatever_it_says(monkeypatch: pytest.MonkeyPatch, bench: Bench) -> None:
    verdict, recorded = measured(monkeypatch, bench, (0.9, 5.0), (0.1, 2.0))
    assert found(verdict.measurement) == (pytest.approx(2.0), 2, False)
    assert recorded.commands[0] == recorded.commands[1]


def test_twice_disturbed_is_marked_and_not_tried_for_ever(monkeypatch: pytest.MonkeyPatch, bench: Bench) -> None:
    verdict, recorded = measured(monkeypatch, bench, (0.5, 3.0), (0.9, 5.0))
    assert found(verdict.measurement) == (pytest.approx(3.0), 2, True)
    assert len(recorded.commands) == 2


def test_a_long_window_is_not_repeated(monkeypatch: pytest.MonkeyPatch, bench: Bench) -> None:
    monkeypatch.setattr("verifiers.timing.LONG_WINDOW", -1.0)
    verdict, _ = measured(monkeypatch, bench, (0.9, 5.0))
    assert found(verdict.measurement) == (pytest.approx(5.0), 1, True)


def test_a_disturbed_repetition_cannot_make_a_candidate_too_slow(monkeypatch: pytest.MonkeyPatch, bench: Bench) -> None:
    verdict, _ = measured(monkeypatch, bench, (0.9, 5.0), WorkerFailure(Reason.TOO_SLOW, "cut off", contestant=1))
    assert found(verdict.measurement) == (pytest.approx(5.0), 2, True)


def test_wrong_the_second_time_is_wrong(monkeypatch: pytest.MonkeyPatch, bench: Bench) -> None:
    failure = WorkerFailure(Reason.WRONG_RESULT, "not what it was", contestant=1)
    verdict, _ = measured(monkeypatch, bench, (0.9, 5.0), failure)
    assert (verdict.status, verdict.reason) == (Status.REJECTED, Reason.WRONG_RESULT)
