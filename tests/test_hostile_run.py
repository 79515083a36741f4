"""Real runs of a kernel survive what candidates and people do to them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

import psutil
import pytest

from optimizer.budget import Ledger, Limits
from optimizer.codegen.backend import CodeOptions
from optimizer.codegen.numba_source import NumbaBackend
from optimizer.journal import FILE_NAME, Journal, read_record
from optimizer.kernel_problem import KernelProblem
from optimizer.loop import run_loop
from optimizer.measure.bench import Bench, TimeLimits
from optimizer.measure.lane import TimingLane
from optimizer.plan import Plan, StopReason
from optimizer.policies.replay import Replay
from optimizer.polyhedral.nest import Nest
from optimizer.polyhedral.tree import Node, show
from optimizer.verdict import Reason
from verifiers.equivalence import Equivalence
from verifiers.legality import Legality
from verifiers.timing import Timing

CALL_SECONDS = 2.0
HOSTILE = {
    "reverse(i)": "    while True:\n        pass\n",
    "reverse(j)": "    os.abort()\n",
    "reverse(i); reverse(j)": "    waste = []\n    while True:\n        waste.append(np.empty(2**22))\n",
}
"""Schedules, and what the back end makes of them."""
GOOD = "interchange(j, k)"


@dataclass(frozen=True)
class HostileBackend:
    """Makes proper code of all schedules but some."""

    bodies: dict[str, str]
    """Shown tree -> body of the function."""

    def source(self, nest: Nest, tree: Node, options: CodeOptions) -> str:
        if body := self.bodies.get(show(tree)):
            names = ", ".join(argument.name for argument in nest.arguments)
            return f"import os\nimport numpy as np\n\n\ndef {nest.name}({names}):\n{body}"
        return NumbaBackend().source(nest, tree, options)


def processes_in(directory: Path) -> list[psutil.Process]:
    found: list[psutil.Process] = []
    for process in psutil.process_iter():
        try:
            if Path(process.cwd()).is_relative_to(directory) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:
            continue
    return found


def test_hostile_candidates_cost_seconds_and_the_run_goes_on(tmp_path: Path) -> None:
    plain = KernelProblem.load("matmul", {"ni": 150, "nk": 150, "nj": 150}, threads=1)
    bodies = {show(plain.tree(plain.parse(text))): body for text, body in HOSTILE.items()}
    problem = replace(plain, backend=HostileBackend(bodies))
    policy = Replay(chains=((*HOSTILE, GOOD),))
    limits = TimeLimits(call=CALL_SECONDS, rounds=0.5)
    start = time.monotonic()
    with (
        Journal(tmp_path) as journal,
        Bench(tmp_path / "code", threads=1, limits=limits, lane=TimingLane(tmp_path / "lane")) as bench,
    ):
        verifiers = [Legality(), Equivalence(bench), Timing(bench)]
        result = run_loop(problem, [policy], verifiers, Plan(), Ledger(Limits(evaluations=4)), journal)
    assert [trial.candidate.text for trial in result.trials[1:]] == [*HOSTILE, GOOD]
    verdicts = [trial.verdicts[-1] for trial in result.trials[1:]]
    assert [v.reason for v in verdicts] == [Reason.TIMED_OUT, Reason.CRASHED, Reason.OUT_OF_MEMORY, None]
    assert all(verdict.detail for verdict in verdicts[:3])
    assert "SIGABRT" in verdicts[1].detail
    assert all(verdict.seconds < 10 * CALL_SECONDS for verdict in verdicts[:3])
    assert result.winner.candidate.text == GOOD
    assert result.stop_reason is StopReason.BUDGET_EVALUATIONS
    assert read_record(tmp_path).trials == result.trials
    assert time.monotonic() - start < 60
    assert processes_in(tmp_path) == []


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "optimizer.cli", *arguments, "--json"]


@pytest.mark.long
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into other processes")
def test_a_killed_run_resumes_without_repeating_or_losing(tmp_path: Path) -> None:
    environment = {**os.environ, "LOOPWRIGHT_HOME": str(tmp_path / "home")}
    directory = tmp_path / "run"
    arguments = ("--size", "mini", "--policy", "random", "--seed", "5", "--threads", "1", "--evaluations", "5")
    with subprocess.Popen(
        command("run", "matmul", *arguments, "--run-dir", str(directory)),
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        while not (directory / FILE_NAME).exists() or len(read_record(directory).trials) < 3:
            assert process.poll() is None
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 10
    while processes_in(directory):
        assert time.monotonic() < deadline, "the worker outlives its parent"
        time.sleep(0.05)
    before = (directory / FILE_NAME).read_bytes()
    trials = read_record(directory).trials
    assert len(trials) >= 3

    done = subprocess.run(
        command("resume", str(directory)), env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    assert data["evaluations"] == 5
    assert data["stop_reason"] == "budget_evaluations"
    whole = before[: before.rindex(b"\n") + 1]
    assert (directory / FILE_NAME).read_bytes().startswith(whole)
    after = read_record(directory).trials
    assert after[: len(trials)] == trials
    judged = [trial.candidate.digest for trial in after if trial.outcome != "duplicate"]
    assert len(set(judged)) == len(judged)
    assert [trial.number for trial in after] == list(range(len(after)))
    assert processes_in(directory) == []
