"""The journal under fire: cut at any byte, no disk left, two processes, other versions, a wrong clock, SIGKILL."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import pytest

import optimizer.journal
import optimizer.run
from benchmarks.kill_resume import audit, kill_and_resume, undisturbed_cost
from benchmarks.paid_policy import Paid
from benchmarks.soak import Fault, soak
from optimizer.budget import Ledger, Limits
from optimizer.candidate import Candidate
from optimizer.errors import InfrastructureError, UserError
from optimizer.events import RunResult, Waiting
from optimizer.journal import FILE_NAME, Journal, JournalFailed, read_events, read_record
from optimizer.kernel_problem import KernelProblem
from optimizer.llm.spans import spans_of
from optimizer.llm.trace import trace_of
from optimizer.loop import run_loop
from optimizer.measure.bench import Bench
from optimizer.plan import Plan, StopReason
from optimizer.policies.polyhedral import Polyhedral
from optimizer.run import RunSpecification, resume, start
from optimizer.run_lock import LOCK_NAME, RunInUse, acquire
from optimizer.text_problem import TextProblem
from optimizer.verdict import Measurement, Reason, Status, Verdict
from tests.fakes import Watcher

ROOT = Path(__file__).parents[1]
OLD = Path(__file__).with_name("data") / "journal_version_1"
CHECK = """\
import os
import time


def check(text):
    if os.path.exists(__file__ + ".slow"):
        time.sleep(0.3)
    return text.count("a") if len(text) < 12 else False
"""


@dataclass(frozen=True)
class Hashed:
    """Scores any candidate by its digest, at once; rejects some."""

    name: ClassVar[str] = "hashed"

    def verify(self, problem: Any, candidate: Candidate) -> Verdict:
        score = int(hashlib.sha256(candidate.text.encode()).hexdigest()[:8], 16) / 2**32
        if score < 0.2:
            return Verdict(Status.REJECTED, self.name, Reason.FAILED_CHECK, "no")
        return Verdict(Status.OK, self.name, measurement=Measurement(score, (score, score), 1))


# -- cut at any byte


def polyhedral_run() -> Callable[[Path], RunResult]:
    problem = KernelProblem.load("matvec", "mini", threads=1)

    def go(directory: Path) -> RunResult:
        plan, limits = Plan(chains=2, steps=2), Limits(evaluations=3)
        with Journal(directory) as journal:
            ledger = Ledger(limits, journal.record.spent)
            policies = [Polyhedral(chain=chain) for chain in range(2)]
            return run_loop(problem, policies, [Hashed()], plan, ledger, journal)

    return go


def paid_run() -> Callable[[Path], RunResult]:
    problem = TextProblem("words", "words")

    def go(directory: Path) -> RunResult:
        with Journal(directory) as journal:
            ledger = Ledger(Limits(usd=100.0), journal.record.spent)
            return run_loop(problem, [Paid(seed=1, seconds=0.0)], [Hashed()], Plan(steps=3), ledger, journal)

    return go


def ending_of(result: RunResult) -> tuple[Any, ...]:
    trials = [(t.number, t.chain, t.step, t.candidate, t.outcome, t.score, t.rationale) for t in result.trials]
    return trials, result.winner.number, result.stop_reason, result.chain_stops, result.used.evaluations


@pytest.mark.parametrize("make", [polyhedral_run, paid_run])
def test_cut_at_any_byte_a_run_ends_in_the_same_way(
    make: Callable[[], Callable[[Path], RunResult]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", lambda file: None)  # thousands of runs; the disk is not what is tested here
    go = make()
    whole = tmp_path / "whole"
    whole.mkdir()
    expected = ending_of(go(whole))
    content = (whole / FILE_NAME).read_bytes()
    events = read_events(whole)
    folder = tmp_path / "cut"
    folder.mkdir()
    ends = [0, *(place + 1 for place, byte in enumerate(content) if byte == ord("\n"))]
    for length in range(len(content)):
        (folder / FILE_NAME).write_bytes(content[:length])
        kept = content[: length + 1].count(b"\n")  # the line end alone may be missing
        with Journal(folder):
            assert (folder / FILE_NAME).read_bytes() == content[: ends[kept]]
        # What is left is the same from one line's end to the next: a cut in every line is one of each kind.
        if length - ends[kept] not in (-1, 0, 9):
            continue
        (folder / FILE_NAME).write_bytes(content[:length])
        assert read_events(folder) == events[:kept]
        assert ending_of(go(folder)) == expected, f"cut after {length} bytes"
        again = read_events(folder)
        assert again[:kept] == events[:kept]
        if make is paid_run:
            lost, faults = audit(again)
            cost, spent = undisturbed_cost(1, 3, lost), read_record(folder).spent
            assert faults == []
            assert (spent.calls, spent.tokens, spent.usd) == (cost.calls, cost.tokens, cost.usd)
            assert lost == (bool(kept) and events[kept - 1]["event"] == "reserved")


# -- no disk left


@pytest.fixture
def letters(tmp_path: Path) -> list[str]:
    """The options of a run on the command line."""
    folder = tmp_path / "check"
    folder.mkdir()
    (folder / "letters.py").write_text(CHECK)
    (folder / "start").write_text("a b c")
    return [
        *("--seed-text", str(folder / "start"), "--verifier", f"{folder / 'letters.py'}:check", "--seed", "3"),
        *("--chains", "2", "--steps", "5", "--evaluations", "8", "--json"),
    ]


def loopwright(*arguments: str, before: str = "") -> subprocess.Popen[str]:
    script = f"{before}\nfrom optimizer.cli import main\nmain()"
    return subprocess.Popen(
        [sys.executable, "-c", script, *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, problems = process.communicate(timeout=60)
    return process.returncode, out, problems


def errors_in(problems: str) -> list[str]:
    assert "Traceback" not in problems
    return [line for line in problems.splitlines() if line.startswith("error:")]


@pytest.mark.parametrize("size", [1700, 5555])
def test_a_full_disk_ends_the_run_with_one_message_and_it_goes_on_later(
    letters: list[str], tmp_path: Path, size: int
) -> None:
    full = f"import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, ({size}, resource.RLIM_INFINITY))"
    directory = tmp_path / "run"
    status, out, problems = ended(loopwright("run", *letters, "--run-dir", str(directory), before=full))
    (message,) = errors_in(problems)
    assert (status, out) == (3, "")
    assert str(directory / FILE_NAME) in message
    assert f"loopwright resume {directory}" in message
    content = (directory / FILE_NAME).read_bytes()
    assert content.endswith(b"\n")
    assert len(content) <= size
    before = read_events(directory)
    assert len(before) == content.count(b"\n")

    status, _, problems = ended(loopwright("resume", str(directory), "--json", before=full))
    assert (status, len(errors_in(problems))) == (3, 1)
    assert (directory / FILE_NAME).read_bytes() == content

    status, out, _ = ended(loopwright("resume", str(directory), "--json"))
    whole = tmp_path / "whole"
    assert status == 0
    _, expected, _ = ended(loopwright("run", *letters, "--run-dir", str(whole)))
    assert {**json.loads(out), "seconds": 0, "run_dir": ""} == {**json.loads(expected), "seconds": 0, "run_dir": ""}
    assert read_events(directory)[: len(before)] == before
    assert [t.candidate for t in read_record(directory).trials] == [t.candidate for t in read_record(whole).trials]


class FullDisk:
    """Stands in for `os.write`: room for so many bytes, then none."""

    def __init__(self, room: int) -> None:
        self.room = room
        self._write = os.write

    def __call__(self, file: int, data: bytes) -> int:
        if not self.room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = self._write(file, data[: self.room])
        self.room -= written
        return written


def test_half_a_line_that_found_room_is_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Journal(tmp_path) as journal:
        journal.note("first", 0, {"text": "x" * 50})
        size = journal.path.stat().st_size
        monkeypatch.setattr(optimizer.journal.os, "write", FullDisk(size // 2))
        with pytest.raises(JournalFailed, match="No space left"):
            journal.note("second", 0, {"text": "y" * 50})
        assert journal.path.stat().st_size == size
        monkeypatch.undo()
        # What could not be recorded did not happen: nothing that came after it may be recorded either.
        with pytest.raises(JournalFailed, match="No space left"):
            journal.note("third", 0, {})
    assert [event["event"] for event in read_events(tmp_path)] == ["first"]


@pytest.mark.parametrize("room", range(0, 3200, 160))
def test_a_disk_that_fills_up_under_a_policy_that_pays_ends_the_run(
    tmp_path: Path, room: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever event finds no room: it is no fault of the policy's, and nothing is tried again."""
    watcher = Watcher()

    def go() -> RunResult:
        with Journal(tmp_path) as journal:
            ledger = Ledger(Limits(usd=100.0), journal.record.spent)
            policies = [Paid(seed=1, chain=chain, seconds=0.001) for chain in range(2)]
            problem = TextProblem("words", "words")
            return run_loop(problem, policies, [Hashed()], Plan(chains=2, steps=3), ledger, journal, watcher)

    monkeypatch.setattr(optimizer.journal.os, "write", FullDisk(room))
    with pytest.raises(InfrastructureError, match="No space left"):
        go()
    monkeypatch.undo()
    assert not [event for event in watcher.events if isinstance(event, Waiting) and "could not answer" in event.reason]
    content = (tmp_path / FILE_NAME).read_bytes()
    assert content == b"" or content.endswith(b"\n")
    result = go()
    assert result.stop_reason is StopReason.STEPS_DONE
    assert len(result.trials) == 7
    lost, faults = audit(read_events(tmp_path))
    assert faults == []
    assert read_record(tmp_path).spent.usd == undisturbed_cost(2, 3, lost).usd


def test_half_a_module_never_stands_for_a_whole_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A candidate whose code was cut off by a full disk or a kill would be rejected for it after a resume."""
    bench = Bench(tmp_path, threads=1)
    whole = Path.write_text

    def torn(path: Path, text: str, **options: Any) -> int:
        whole(path, text[: len(text) // 2], **options)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_text", torn)
    with pytest.raises(InfrastructureError, match="cannot be written"):
        bench.code_file("def f():\n    return 1\n")
    monkeypatch.undo()
    assert Path(bench.code_file("def f():\n    return 1\n")).read_text() == "def f():\n    return 1\n"


# -- folders that cannot be written, or are somebody else's


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that also nobody can enter."""
    folder = Path(tempfile.mkdtemp(prefix="loopwright-"))
    folder.chmod(0o755)
    yield folder
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755)
    shutil.rmtree(folder)


def test_a_read_only_folder_is_the_users_error(letters: list[str], open_folder: Path) -> None:
    run = open_folder / "run"
    # All that is imported later is imported before: nobody may not read every Python installation.
    as_nobody = (
        "import os; from pathlib import Path; import optimizer.cli.again, optimizer.cli.watched, optimizer.cli.live\n"
        "from optimizer.run import *; from optimizer.registry import make_policy, make_problem\n"
        f"found = read_specification(Path({str(run)!r}))\n"
        "make_problem(found.problem), make_policy(found.policy, {}, 0, 0)\n"
        "if os.geteuid() == 0: os.seteuid(65534)"
    )
    assert ended(loopwright("run", *letters, "--run-dir", str(run)))[0] == 0
    journal = run / FILE_NAME
    journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:5]))
    content = journal.read_bytes()
    for path in (*run.iterdir(), run, open_folder):
        path.chmod(0o555 if path.is_dir() else 0o444)
    status, _, problems = ended(loopwright("resume", str(run), before=as_nobody))
    (message,) = errors_in(problems)
    assert status == 2
    assert f"cannot write {run / LOCK_NAME}: Permission denied" in message
    assert journal.read_bytes() == content
    new = f"{as_nobody}\nstart(found, Path({str(open_folder / 'other')!r}))"
    _, _, problems = ended(loopwright(before=new))
    assert "UserError: cannot write the run's folder" in problems
    assert "Permission denied; choose another with --run-dir DIR" in problems


def test_two_processes_on_one_run_the_second_is_refused(letters: list[str], tmp_path: Path) -> None:
    slow = tmp_path / "check" / "letters.py.slow"
    slow.touch()
    directory = tmp_path / "run"
    first = loopwright("run", *letters, "--run-dir", str(directory))
    while len(read_events(directory)) < 3:
        assert first.poll() is None
        time.sleep(0.02)
    status, out, problems = ended(loopwright("resume", str(directory)))
    assert (status, out) == (2, "")
    assert errors_in(problems) == [f"error: the run in {directory} is in use by process {first.pid}"]
    status, _, problems = ended(loopwright("run", *letters, "--run-dir", str(directory)))
    assert status == 2
    assert "is not empty: resume the run in it" in problems
    slow.unlink()
    status, out, _ = ended(first)
    assert status == 0
    assert json.loads(out)["evaluations"] == 8
    assert ended(loopwright("resume", str(directory), "--json"))[0] == 0


def text_specification(tmp_path: Path) -> RunSpecification:
    (tmp_path / "letters.py").write_text(CHECK)
    return RunSpecification(
        TextProblem("letters", "a b c").specification(),
        policy="mutate",
        verifier_options={"check": f"{tmp_path / 'letters.py'}:check"},
        limits=Limits(evaluations=2),
    )


def test_a_run_that_another_process_took_over_is_not_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between making its folder and opening its journal, somebody may have resumed the run."""
    directory, locks = tmp_path / "run", list[int]()
    claim = optimizer.run._claim

    def claimed_and_taken(folder: Path, specification: RunSpecification) -> None:
        claim(folder, specification)
        locks.append(acquire(folder))

    monkeypatch.setattr(optimizer.run, "_claim", claimed_and_taken)
    with pytest.raises(RunInUse):
        start(text_specification(tmp_path), directory)
    assert (directory / "run.json").exists()
    os.close(locks[0])
    assert resume(directory).result.used.evaluations == 2


def test_a_start_that_was_killed_is_no_dead_end(tmp_path: Path) -> None:
    directory = tmp_path / "run"
    (directory / "code").mkdir(parents=True)
    (directory / LOCK_NAME).write_text("99999999\n")
    (directory / "run.draft").write_text('{"problem": ')
    with pytest.raises(UserError, match="no run folder"):
        resume(directory)
    assert start(text_specification(tmp_path), directory).result.used.evaluations == 2
    assert {path.name for path in directory.iterdir()} == {"run.json", FILE_NAME, "code", LOCK_NAME}


def test_a_folder_of_code_is_not_taken_for_a_start_that_was_killed(tmp_path: Path) -> None:
    directory = tmp_path / "project"
    (directory / "code").mkdir(parents=True)
    (directory / "code" / "thesis.py").write_text("precious")
    with pytest.raises(UserError, match="not empty"):
        start(text_specification(tmp_path), directory)
    assert [path.name for path in directory.iterdir()] == ["code"]


# -- other versions, other clocks


def old_run(tmp_path: Path, events: int | None = None) -> Path:
    """A run of before there were reservations, cut after so many events."""
    directory = tmp_path / "old"
    shutil.copytree(OLD, directory)
    (directory / "code").mkdir()
    (tmp_path / "letters.py").write_text(CHECK)
    specification = json.loads((OLD / "run.json").read_text())
    specification["verifier_options"]["check"] = f"{tmp_path / 'letters.py'}:check"
    (directory / "run.json").write_text(json.dumps(specification))
    lines = (OLD / FILE_NAME).read_bytes().splitlines(keepends=True)
    (directory / FILE_NAME).write_bytes(b"".join(lines[:events]))
    return directory


def test_a_journal_from_before_reservations_is_read_and_gone_on_with(tmp_path: Path) -> None:
    directory = old_run(tmp_path)
    content = (directory / FILE_NAME).read_bytes()
    result = resume(directory).result
    assert result.stop_reason is StopReason.BUDGET_EVALUATIONS
    assert (len(result.trials), result.used.evaluations, result.winner.number) == (9, 8, 0)
    assert (directory / FILE_NAME).read_bytes() == content
    for events in range(0, len(content.splitlines()), 3):
        shutil.rmtree(directory)
        old_run(tmp_path, events)
        before = read_record(directory)
        result = resume(directory).result
        assert result.trials[: len(before.trials)] == before.trials
        assert result.used.evaluations == 8
        if before.pending:
            ((place, proposal),) = before.pending.items()
            following = result.trials[len(before.trials)]
            assert ((following.chain, following.step), following.candidate.text) == (place, proposal.text)


def test_a_journal_of_a_later_version_is_refused_as_it_is(tmp_path: Path) -> None:
    directory = old_run(tmp_path, 6)
    path = directory / FILE_NAME
    for line in ('{"v": 2, "event": "trial", "t": 0, "all": "new"}\n', '{"v": "3.1", "event": "weather"}'):
        content = path.read_bytes()
        path.write_bytes(content + line.encode())
        status, out, problems = ended(loopwright("resume", str(directory)))
        (message,) = errors_in(problems)
        assert (status, out) == (2, "")
        assert f"{path}:7: the journal has format" in message
        assert "use the version that wrote it" in message
        assert path.read_bytes() == content + line.encode()
        path.write_bytes(content)


def test_events_that_nobody_knows_are_kept(tmp_path: Path) -> None:
    directory = old_run(tmp_path, 6)
    path = directory / FILE_NAME
    unknown = b'{"v": 1, "event": "weather", "t": 1.5, "chain": 0, "sky": ["blue"]}\n{"v": 1, "event": "tea", "t": 2}\n'
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:3], unknown, *lines[3:]]))
    content = path.read_bytes()
    assert [note["sky"] for note in read_record(directory).notes] == [["blue"]]
    assert resume(directory).result.used.evaluations == 8
    assert path.read_bytes().startswith(content)


@dataclass
class BackwardClock:
    """Every look is an hour before the last one."""

    now: float = 1.8e9

    def __call__(self) -> float:
        self.now -= 3600
        return self.now


def test_a_clock_that_goes_backwards_changes_no_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def go(name: str) -> RunResult:
        directory = tmp_path / name
        directory.mkdir(exist_ok=True)
        with Journal(directory) as journal:
            ledger = Ledger(Limits(usd=100.0, seconds=600.0), journal.record.spent)
            policies = [Paid(seed=1, seconds=0.0)]
            return run_loop(TextProblem("words", "words"), policies, [Hashed()], Plan(steps=5), ledger, journal)

    expected = ending_of(go("whole"))
    monkeypatch.setattr(time, "time", BackwardClock())
    result = go("back")
    assert ending_of(result) == expected
    assert 0 <= result.used.seconds < 60
    path = tmp_path / "back" / FILE_NAME
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[: len(lines) // 2]))
    assert ending_of(go("back")) == expected
    events = read_events(tmp_path / "back")
    assert all(later["t"] < earlier["t"] for earlier, later in pairwise(events))
    run = trace_of(events)
    assert run.ended >= run.started
    spans = spans_of(run, "back", "paid", "identity")
    assert spans
    assert all(span.end >= span.start for span in spans)


# -- SIGKILL, and a long run with faults


def test_killed_at_random_moments_every_run_ends_as_the_undisturbed_one(tmp_path: Path) -> None:
    findings = kill_and_resume(6, 7, tmp_path / "arena")
    assert findings.faults == []
    assert findings.kills >= 6


@pytest.mark.long
def test_a_soak_with_faults_leaks_nothing_and_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    report = soak(32, len(Fault) / 32, 5, tmp_path)
    assert report.faults == []
    assert len(report.injected) == len(Fault)
    assert report.growth < 1.3
