"""A timing window that other work disturbed is measured once more, and the calmer one counts; who was too slow in it
gets a second chance."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from optimizer.candidate import Candidate
from optimizer.measure.bench import Bench
from optimizer.measure.commands import TimeCommand, TimeReport
from optimizer.measure.failure import WorkerFailure
from optimizer.measure.load import OtherLoad
from optimizer.sandbox import Sandbox, SandboxLimits
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


def too_slow(load: float) -> WorkerFailure:
    failure = WorkerFailure(Reason.TOO_SLOW, "not done after 4 s", contestant=1, seconds=4.0)
    failure.other_load = load
    return failure


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
    verdict, _ = measured(monkeypatch, bench, (0.9, 5.0), too_slow(0.9))
    assert found(verdict.measurement) == (pytest.approx(5.0), 2, True)


def test_wrong_the_second_time_is_wrong(monkeypatch: pytest.MonkeyPatch, bench: Bench) -> None:
    failure = WorkerFailure(Reason.WRONG_RESULT, "not what it was", contestant=1)
    verdict, _ = measured(monkeypatch, bench, (0.9, 5.0), failure)
    assert (verdict.status, verdict.reason) == (Status.REJECTED, Reason.WRONG_RESULT)


def test_too_slow_on_a_calm_machine_is_too_slow(monkeypatch: pytest.MonkeyPatch, bench: Bench) -> None:
    verdict, recorded = measured(monkeypatch, bench, too_slow(0.1))
    assert (verdict.status, verdict.reason) == (Status.REJECTED, Reason.TOO_SLOW)
    assert len(recorded.commands) == 1
    assert verdict.witness is not None
    assert (verdict.witness["other_load"], verdict.witness["disturbed"], verdict.witness["windows"]) == (0.1, False, 1)
    assert verdict.detail.endswith("at most 0.25x")


def test_too_slow_on_a_busy_machine_gets_a_second_chance(monkeypatch: pytest.MonkeyPatch, bench: Bench) -> None:
    verdict, recorded = measured(monkeypatch, bench, too_slow(1.4), (0.1, 2.0))
    assert found(verdict.measurement) == (pytest.approx(2.0), 2, False)
    assert recorded.commands[0] == recorded.commands[1]


def test_too_slow_twice_is_rejected_and_the_load_is_told(monkeypatch: pytest.MonkeyPatch, bench: Bench) -> None:
    verdict, _ = measured(monkeypatch, bench, too_slow(1.4), too_slow(0.7))
    assert (verdict.status, verdict.reason) == (Status.REJECTED, Reason.TOO_SLOW)
    assert verdict.witness is not None
    assert (verdict.witness["other_load"], verdict.witness["disturbed"], verdict.witness["windows"]) == (0.7, True, 2)
    assert verdict.detail.endswith("measured each of two times while other work kept 0.7 processors busy")


def test_too_slow_in_a_calm_second_window_is_plainly_too_slow(monkeypatch: pytest.MonkeyPatch, bench: Bench) -> None:
    verdict, _ = measured(monkeypatch, bench, too_slow(1.4), too_slow(0.0))
    assert verdict.witness is not None
    assert (verdict.witness["disturbed"], verdict.witness["windows"]) == (False, 2)
    assert "other work" not in verdict.detail


def test_the_work_of_a_killed_process_is_not_the_work_of_others(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The machine is said to have worked for ten seconds; what is left of them are those of others."""
    busy = 0.0
    monkeypatch.setattr(psutil, "cpu_times", lambda: SimpleNamespace(_asdict=lambda: {"user": busy, "idle": 9e9}))
    with (tmp_path / "log").open("wb") as output:
        guard = Sandbox([sys.executable, "-c", "while True: pass"], SandboxLimits(1 << 32), output=output)
    while not (children := psutil.Process(guard.process_id).children()):
        time.sleep(0.01)
    load, start = OtherLoad(children[0].pid), time.perf_counter()
    before = children[0].cpu_times().user
    while (spent := children[0].cpu_times().user - before) < 0.5:
        time.sleep(0.05)
    guard.end()
    assert not children[0].is_running()
    busy = 10.0
    others = load.processors() * (time.perf_counter() - start)
    assert 8.0 < others < 10.0 - 0.9 * spent
