"""Kill runs with SIGKILL at random moments and resume them: each must end as the run that nobody disturbed.

    python -m benchmarks.kill_resume --kills 200

Real processes, the real command line, real checks in processes of their own. Two scenarios take turns: a search without
a model, and a policy with two chains that reserves and pays. Exit status 1 when anything differs.
"""

from __future__ import annotations

import json
import math
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
import psutil

from benchmarks.paid_policy import WORST_CASE, price
from optimizer.budget import Amounts, Line
from optimizer.journal import FILE_NAME, read_events, record_of
from optimizer.run import SPECIFICATION_NAME
from optimizer.run_lock import LOCK_NAME

ROOT = Path(__file__).resolve().parents[1]
CHECK = """\
import hashlib


def check(text):
    number = int(hashlib.sha256(text.encode()).hexdigest()[:8], 16)
    return False if number % 5 == 0 else number / 2**32
"""
ENTRY_POINT = "[loopwright.policies]\npaid = benchmarks.paid_policy:Paid\n"
DISTRIBUTION = "Metadata-Version: 2.1\nName: paid-policy\nVersion: 1\n"
SECOND_KILL_SHARE = 0.3
"""How often the process that resumes is killed as well."""
STARTING_SHARE = 0.2
"""How often the clock of a kill begins with the process, and not with its work on the run."""
PATIENCE_SECONDS = 60.0
"""For a process that should end by itself."""
STEPS = 6


@dataclass(frozen=True, slots=True)
class Scenario:
    """A run: its options on the command line, and whether what it pays for is audited."""

    name: str
    options: tuple[str, ...]
    pays: bool


SCENARIOS = (
    Scenario("search", ("--policy", "mutate", "--chains", "2", "--steps", "20", "--evaluations", "10"), False),
    Scenario("paid", ("--policy", "paid", "--chains", "2", "--steps", str(STEPS), "--usd", "1000"), True),
)


@dataclass(frozen=True, slots=True)
class Ending:
    """All of a run that must not depend on when it was killed."""

    chains: Mapping[int, Sequence[tuple[Any, ...]]]
    """Chain -> its trials: step, text, outcome, score, rationale."""
    winner: tuple[Any, ...]
    stop_reason: str
    evaluations: int


@dataclass
class Findings:
    """What the kills showed."""

    kills: int = 0
    runs: int = 0
    moments: Counter[str] = field(default_factory=Counter[str])
    """Where the killed processes had got to."""
    lost: int = 0
    """Reservations in flight that a kill ended; each counts in full, once."""
    faults: list[str] = field(default_factory=list[str])

    def lines(self) -> list[str]:
        """What to print."""
        moments = ", ".join(f"{count} {moment}" for moment, count in self.moments.most_common())
        return [
            f"{self.kills} kills of {self.runs} runs ({moments})",
            f"{self.lost} reservations were in flight and count once each",
            *(f"FAULT {fault}" for fault in self.faults),
            f"{len(self.faults)} faults" if self.faults else "every run ended as the undisturbed one",
        ]


class Arena:
    """A folder with the check, the text and the plug-in, in which runs are started, killed and resumed."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.directory, self.seed = directory, seed
        self.check = directory / "check" / "hashed.py"
        self.check.parent.mkdir(parents=True)
        self.check.write_text(CHECK, encoding="utf-8")
        self.text = directory / "start.txt"
        self.text.write_text("some words to begin with\n", encoding="utf-8")
        plugin = directory / "plugin" / "paid_policy-1.dist-info"
        plugin.mkdir(parents=True)
        (plugin / "METADATA").write_text(DISTRIBUTION, encoding="utf-8")
        (plugin / "entry_points.txt").write_text(ENTRY_POINT, encoding="utf-8")
        self._environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(plugin.parent)]),
            "PYTHONDONTWRITEBYTECODE": "1",
            "LOOPWRIGHT_HOME": str(directory / "home"),
        }

    def start(self, scenario: Scenario, run: Path) -> subprocess.Popen[str]:
        """Start a run, or go on with one whose folder is complete."""
        if (run / SPECIFICATION_NAME).exists():
            return self._loopwright("resume", str(run))
        return self._loopwright(
            *("run", "--seed-text", str(self.text), "--verifier", f"{self.check}:check"),
            *("--run-dir", str(run), "--seed", str(self.seed), *scenario.options),
        )

    def leftovers(self) -> list[int]:
        """Processes that still work here some time after everything was killed."""
        end = time.monotonic() + 10
        while (found := self._processes()) and time.monotonic() < end:
            time.sleep(0.02)
        return found

    def _loopwright(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "optimizer.cli", *arguments, "--json"],
            cwd=self.directory,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def _processes(self) -> list[int]:
        found: list[int] = []
        for process in psutil.process_iter():
            try:
                if process.status() != psutil.STATUS_ZOMBIE and Path(process.cwd()).is_relative_to(self.directory):
                    found.append(process.pid)
            except psutil.Error:
                continue
        return found


def ending_of(run: Path, answer: Mapping[str, Any]) -> Ending:
    """How a run ended: its journal, and what its process printed."""
    record = record_of(read_events(run))
    chains: dict[int, list[tuple[Any, ...]]] = {}
    for trial in record.trials[1:]:
        told = trial.step, trial.candidate.text, trial.outcome, trial.score, trial.rationale
        chains.setdefault(trial.chain, []).append(told)
    return Ending(chains, (answer["candidate"], answer["score"]), answer["stop_reason"], answer["evaluations"])


def audit(events: Sequence[Mapping[str, Any]]) -> tuple[int, list[str]]:
    """The number of lost reservations, and what is wrong with the accounts; counted here from the events alone."""
    open_ones: dict[int, Mapping[str, Any]] = {}
    sums: Counter[str] = Counter()
    calls: Counter[tuple[int, int]] = Counter()
    lost, faults = 0, list[str]()
    for event in events:
        if event["event"] == "reserved":
            if event["number"] in open_ones:
                faults.append(f"reservation {event['number']} was made while one of that number was open")
            open_ones[event["number"]] = event["amount"]
            continue
        number = event["number"] if event["event"] == "settled" else event.get("reservation")
        if number is None:
            continue
        if open_ones.pop(number, None) is None:
            faults.append(f"reservation {number} was ended twice")
        sums.update({line.value: event["amount"][line] for line in Line})
        if event["event"] == "settled":
            lost += event["why"] == "lost"
        else:
            calls[event["chain"], event["step"]] += 1
            if event["amount"] != event["amount"] | {"usd": price(event["chain"], event["step"]).usd}:
                faults.append(f"the call for step {event['step']} has another price")
    for (chain, step), count in calls.items():
        if count > 1:
            faults.append(f"step {step} of chain {chain} was paid {count} times")
    faults += [f"reservation {number} was never ended" for number in open_ones]
    spent = next(event["spent"] for event in reversed(events) if event["event"] == "finished")
    for line in (Line.CALLS, Line.TOKENS, Line.USD):
        if not math.isclose(spent[line], sums[line], rel_tol=1e-12):
            faults.append(f"{spent[line]} {line} are charged, {sums[line]} were used")
    return lost, faults


def undisturbed_cost(chains: int, steps: int, lost: int) -> Amounts:
    """What the paid scenario costs: each step once, and the worst case for each call that a kill ended."""
    total = Amounts()
    for chain in range(chains):
        for step in range(1, steps + 1):
            total = total.plus(price(chain, step))
    for _ in range(lost):
        total = total.plus(WORST_CASE)
    return total


def kill_and_resume(kills: int, seed: int, directory: Path) -> Findings:
    """Kill so many processes at random moments, and resume each run to its end."""
    rng = random.Random(seed)
    arena = Arena(directory, seed)
    findings = Findings()
    whole: dict[str, tuple[Ending, float]] = {}
    for scenario in SCENARIOS:
        ending = _finish(arena, scenario, directory / f"whole-{scenario.name}")
        again = directory / f"again-{scenario.name}"
        if _finish(arena, scenario, again) != ending:
            findings.faults.append(f"two undisturbed runs ({scenario.name}) end differently")
        whole[scenario.name] = ending, _recorded_seconds(again)
    while findings.kills < kills:
        scenario = SCENARIOS[findings.runs % len(SCENARIOS)]
        ending, seconds = whole[scenario.name]
        run = directory / f"killed-{findings.runs}"
        findings.runs += 1
        faults = _disturb(arena, scenario, run, ending, seconds, rng, findings)
        findings.faults += [f"in {run.name} ({scenario.name}): {fault}" for fault in faults]
    return findings


def _disturb(
    arena: Arena,
    scenario: Scenario,
    run: Path,
    expected: Ending,
    seconds: float,
    rng: random.Random,
    findings: Findings,
) -> list[str]:
    """Kill one run once or more, resume it, and say what is wrong with it then."""
    while True:
        process = arena.start(scenario, run)
        if rng.random() >= STARTING_SHARE:
            _await_start(process, run)
        time.sleep(rng.random() * seconds)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        if process.returncode == -signal.SIGKILL:
            findings.kills += 1
            findings.moments[_moment(run)] += 1
        if leftovers := arena.leftovers():
            return [f"processes {leftovers} outlive their parent"]
        if rng.random() >= SECOND_KILL_SHARE:
            break
    before = read_events(run)
    try:
        ending = _finish(arena, scenario, run)
    except _Failed as error:
        return [str(error)]
    after = read_events(run)
    faults: list[str] = []
    if after[: len(before)] != before:
        faults.append("what was recorded before the kill has changed")
    if ending != expected:
        faults.append(f"it ended with {ending}, not with {expected}")
    if scenario.pays:
        lost, wrong = audit(after)
        findings.lost += lost
        faults += wrong
        cost, spent = undisturbed_cost(len(expected.chains), STEPS, lost), record_of(after).spent
        if (cost.calls, cost.tokens) != (spent.calls, spent.tokens) or not math.isclose(cost.usd, spent.usd):
            faults.append(f"{spent} were spent, not {cost}")
    return faults


def _recorded_seconds(run: Path) -> float:
    """From the moment at which a run's folder was complete to its last event."""
    return max(0.1, read_events(run)[-1]["t"] - (run / SPECIFICATION_NAME).stat().st_mtime)


def _await_start(process: subprocess.Popen[str], run: Path) -> None:
    """Wait until the process has the run's lock, or is over."""
    end = time.monotonic() + PATIENCE_SECONDS
    while process.poll() is None and time.monotonic() < end:
        with suppress(OSError):
            if (run / SPECIFICATION_NAME).exists() and (run / LOCK_NAME).read_text() == f"{process.pid}\n":
                return
        time.sleep(0.005)


class _Failed(Exception):
    """A process that should have ended a run did not."""


def _finish(arena: Arena, scenario: Scenario, run: Path) -> Ending:
    process = arena.start(scenario, run)
    try:
        out, problems = process.communicate(timeout=PATIENCE_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise _Failed(f"it was not over after {PATIENCE_SECONDS:g} s") from None
    if process.returncode != 0:
        raise _Failed(f"it ended with status {process.returncode}: {problems.strip()[-500:]}")
    return ending_of(run, json.loads(out))


def _moment(run: Path) -> str:
    """In words, where a killed process had got to."""
    if not (run / SPECIFICATION_NAME).exists():
        return "before the run's folder was complete"
    events = read_events(run)
    if not events:
        return "before the first trial"
    if events[-1]["event"] == "finished":
        return "after the end was recorded"
    content = (run / FILE_NAME).read_bytes()
    return f"after {events[-1]['event']}" if content.endswith(b"\n") else "within a line"


@click.command()
@click.option("--kills", default=200, show_default=True, type=click.IntRange(min=1))
@click.option("--seed", default=0, show_default=True)
@click.option("--directory", type=click.Path(path_type=Path), help="Keep the runs in this new folder.")
def main(kills: int, seed: int, directory: Path | None) -> None:
    """Kill runs at random moments and compare what becomes of them with undisturbed ones."""
    with tempfile.TemporaryDirectory(prefix="loopwright-kills-") as folder:
        findings = kill_and_resume(kills, seed, directory.absolute() if directory else Path(folder))
    print("\n".join(findings.lines()))
    sys.exit(1 if findings.faults else 0)


if __name__ == "__main__":
    main()
