"""A journal, or the folder of a run, that somebody forged, tore, mixed or put in another place."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from optimizer.budget import Amounts, Ledger, Limits
from optimizer.candidate import Candidate
from optimizer.errors import UserError
from optimizer.events import RunResult
from optimizer.journal import FILE_NAME, Journal, read_record
from optimizer.loop import run_loop
from optimizer.plan import Plan, StopReason
from optimizer.protocols import Proposal
from optimizer.run_lock import LOCK_NAME, RunInUse
from optimizer.selection import Finalist
from optimizer.trial import Cost, Trial
from optimizer.verdict import Measurement, Reason, Status, Verdict
from tests.fakes import ListPolicy, NumberProblem, NumberVerifier

TEXTS = ("2", "5", "3", "200", "4")
"""One of which is rejected; the best scores 5."""
FALSE_SCORE = 1e9


def go(directory: Path, texts: tuple[str, ...] = TEXTS) -> RunResult:
    with Journal(directory) as journal:
        ledger = Ledger(Limits(), journal.record.spent)
        plan = Plan(steps=len(texts))
        return run_loop(NumberProblem(), [ListPolicy(texts=texts)], [NumberVerifier()], plan, ledger, journal)


@pytest.fixture
def finished(tmp_path: Path) -> Path:
    result = go(tmp_path)
    assert (result.winner.score, result.stop_reason) == (5.0, StopReason.STEPS_DONE)
    return tmp_path


def lines_of(directory: Path) -> list[bytes]:
    return (directory / FILE_NAME).read_bytes().splitlines(keepends=True)


def test_control_the_untouched_journal_gives_the_same_result(finished: Path) -> None:
    before = lines_of(finished)
    assert go(finished).winner.score == 5.0
    assert lines_of(finished)[: len(before)] == before


FORGED_LINE = json.dumps(
    {"v": 1, "event": "finished", "t": 0, "stop_reason": "target_reached", "chain_stops": [], "spent": {}}
)
TEXTS_OF_CANDIDATES = {
    "an event behind a line end": f"x\n{FORGED_LINE}\n",
    "an event behind another line end": f"x\r{FORGED_LINE}\r",
    "separators that some take for line ends": f"x\u2028{FORGED_LINE}\u2029\x85\x0b\x0c\x1c\x1d\x1e",
    "the end of the object around": f'", "digest": "0"}}}}\n{FORGED_LINE}',
    "a null": "x\0y",
    "half a character": "\ud800 and \udfff",
    "a byte order mark": "\ufeffx",
    "escapes": "\\u000a\\n\\",
}


@pytest.mark.parametrize("text", TEXTS_OF_CANDIDATES.values(), ids=TEXTS_OF_CANDIDATES)
def test_no_text_becomes_an_event_or_gets_lost(text: str, tmp_path: Path) -> None:
    verdict = Verdict(Status.REJECTED, text, Reason.FAILED_CHECK, text, {text: text}, text, text)
    trial = Trial(0, 0, 0, Candidate(text), (verdict,), text, text)
    with Journal(tmp_path) as journal:
        journal.proposal(0, 1, Proposal(text, text, malformed=text))
        journal.trial(trial, Amounts())
        journal.note("said", 0, {"text": text})
    assert len(lines_of(tmp_path)) == 3
    record = read_record(tmp_path)
    assert record.trials == (trial,)
    assert record.pending[0, 1] == Proposal(text, text, malformed=text)
    assert (record.stop_reason, record.notes[0]["text"]) == (None, text)


def edited(directory: Path, change: Callable[[dict[str, Any]], None], event: str = "trial", place: int = -1) -> None:
    """Change the last event of a kind, or another one."""
    events = [json.loads(line) for line in lines_of(directory)]
    change([found for found in events if found["event"] == event][place])
    (directory / FILE_NAME).write_text("".join(json.dumps(event) + "\n" for event in events))


def score_as(value: Any) -> Callable[[dict[str, Any]], None]:
    def change(event: dict[str, Any]) -> None:
        event["trial"]["verdicts"][-1]["measurement"]["score"] = value

    return change


def part_as(*path: Any, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(event: dict[str, Any]) -> None:
        *before, last = path
        for name in before:
            event = event[name]
        event[last] = value

    return change


DAMAGED: dict[str, Callable[[dict[str, Any]], None]] = {
    "a score of text": score_as("1e9"),
    "a score that is no number": score_as(float("nan")),
    "a score of infinity": score_as(float("inf")),
    "a score that is a truth value": score_as(True),
    "a score above any float": score_as(10**400),
    "a verdict that is ok with a reason": part_as("trial", "verdicts", -1, "reason", value="illegal"),
    "a status that does not exist": part_as("trial", "verdicts", -1, "status", value="excellent"),
    "a detail that is a number": part_as("trial", "verdicts", -1, "detail", value=7),
    "a verdict of one part more": part_as("trial", "verdicts", -1, "bonus", value=1),
    "a trial without a digest": lambda event: event["trial"].pop("digest"),
    "money that was taken back": part_as("spent", "usd", value=-100.0),
    "money that is no number": part_as("spent", "usd", value=float("nan")),
    "a cost that was taken back": part_as("trial", "cost", "usd", value=-1.0),
    "a trial that is a list": part_as("trial", value=[]),
}


@pytest.mark.parametrize("change", DAMAGED.values(), ids=DAMAGED)
def test_an_event_that_was_never_written_so_is_damage(change: Callable[[dict[str, Any]], None], finished: Path) -> None:
    edited(finished, change)
    content = (finished / FILE_NAME).read_bytes()
    with pytest.raises(UserError, match=r"event \d+ of the journal \(trial\) is damaged"):
        go(finished)
    assert (finished / FILE_NAME).read_bytes() == content


def test_a_settlement_of_nothing_is_damage(finished: Path) -> None:
    with (finished / FILE_NAME).open("a") as file:
        event = {"v": 1, "event": "settled", "t": 0, "number": 99, "chain": 0, "amount": {"usd": 5}, "why": "refund"}
        file.write(json.dumps(event) + "\n")
    with pytest.raises(UserError, match="damaged"):
        go(finished)


def doubled(lines: list[bytes]) -> list[bytes]:
    return [*lines[:5], lines[4], *lines[5:]]


def swapped(lines: list[bytes]) -> list[bytes]:
    trials = [place for place, line in enumerate(lines) if b'"event": "trial"' in line]
    one, other = trials[2], trials[3]
    lines[one], lines[other] = lines[other], lines[one]
    return lines


def without_one(lines: list[bytes]) -> list[bytes]:
    return [line for place, line in enumerate(lines) if place != 4]


def without_the_first(lines: list[bytes]) -> list[bytes]:
    return lines[1:]


@pytest.mark.parametrize("mix", [doubled, swapped, without_one, without_the_first])
def test_lines_that_were_moved_about_are_damage(mix: Callable[[list[bytes]], list[bytes]], finished: Path) -> None:
    content = b"".join(mix(lines_of(finished)))
    (finished / FILE_NAME).write_bytes(content)
    with pytest.raises(UserError, match="damaged"):
        go(finished)
    assert (finished / FILE_NAME).read_bytes() == content


TORN = {
    "half a line in the middle": lambda lines: [*lines[:3], lines[3][:20] + b"\n", *lines[4:]],
    "a line of nulls in the middle": lambda lines: [*lines[:3], b"\0" * 50 + b"\n", *lines[3:]],
    "brackets without end in the middle": lambda lines: [*lines[:3], b"[" * 100_000 + b"\n", *lines[3:]],
    "another program's line": lambda lines: [*lines[:3], b'{"level": "info"}\n', *lines[3:]],
}


@pytest.mark.parametrize("tear", TORN.values(), ids=TORN)
def test_what_is_torn_before_the_end_is_told_with_its_line(tear: Any, finished: Path) -> None:
    (finished / FILE_NAME).write_bytes(b"".join(tear(lines_of(finished))))
    with pytest.raises(UserError, match=r"journal\.jsonl:4: this line of the journal is damaged"):
        go(finished)


ENDS = {
    "half a line": lambda line: line[: len(line) // 2],
    "brackets without end": lambda line: b"[" * 100_000,
    "nulls": lambda line: b"\0" * 4096,
    "no line end": lambda line: line[:-1],
}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_a_torn_end_loses_the_last_event_at_most(end: Any, finished: Path) -> None:
    lines = lines_of(finished)
    (finished / FILE_NAME).write_bytes(b"".join(lines[:-1]) + end(lines[-1]))
    again = go(finished)
    assert ([trial.score for trial in again.trials], again.winner.score) == ([1.0, 2.0, 5.0, 3.0, None, 4.0], 5.0)


def test_a_foreign_journal_is_not_gone_on_with_as_if_it_were_ours(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_text('{"time": "2020", "level": "info", "msg": "started"}\n' * 3)
    with pytest.raises(UserError, match="damaged"):
        go(tmp_path)
    assert (tmp_path / FILE_NAME).read_text().count("started") == 3


@contextmanager
def little_memory() -> Generator[None]:
    """In here this process may take another gigabyte: what is read without end must not cost the machine."""
    limits = resource.getrlimit(resource.RLIMIT_AS)
    mapped = psutil.Process().memory_info().vms
    resource.setrlimit(resource.RLIMIT_AS, (mapped + (1 << 30), limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)


@pytest.mark.parametrize("make", [Path.mkdir, lambda path: path.symlink_to("/dev/full")], ids=["a folder", "a device"])
def test_a_journal_that_is_no_file_is_the_users_error(make: Callable[[Path], None], tmp_path: Path) -> None:
    make(tmp_path / FILE_NAME)
    with little_memory(), pytest.raises(UserError):
        go(tmp_path)


def test_two_names_of_one_folder_are_one_run(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "link").symlink_to("run")
    with Journal(tmp_path / "run"), pytest.raises(RunInUse, match=f"process {os.getpid()}"):
        Journal(tmp_path / "link")
    assert go(tmp_path / "link").trials == go(tmp_path / "run").trials


def test_the_lock_of_a_dead_process_is_none(tmp_path: Path) -> None:
    script = (
        "import os, sys; from pathlib import Path; from optimizer.run_lock import acquire\n"
        "acquire(Path(sys.argv[1])); os.kill(os.getpid(), 9)"
    )
    root = Path(__file__).parents[2]
    dead = subprocess.run([sys.executable, "-c", script, str(tmp_path)], cwd=root, check=False)
    assert dead.returncode == -9
    assert int((tmp_path / LOCK_NAME).read_text()) != os.getpid()
    assert go(tmp_path).winner.score == 5.0


def test_the_lock_names_nobody_that_a_text_could_forge(tmp_path: Path) -> None:
    with Journal(tmp_path):
        (tmp_path / LOCK_NAME).write_text("\x1b[31m99999 and a long story that goes on")
        with pytest.raises(RunInUse) as caught:
            Journal(tmp_path)
    assert "story" not in str(caught.value)


def test_a_finalist_that_never_was_is_damage(finished: Path) -> None:
    with Journal(finished) as journal:
        journal.finalists([Finalist(99, Measurement(FALSE_SCORE, (FALSE_SCORE, FALSE_SCORE), 1))])
    with pytest.raises(UserError, match="damaged"):
        go(finished)


def test_a_proposal_that_was_paid_for_is_not_paid_again(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        journal.trial(Trial(0, 0, 0, Candidate("1"), (Verdict(Status.OK, "baseline"),)), Amounts())
        journal.proposal(0, 1, Proposal("7", cost=Cost(usd=1.0)))
    policy = ListPolicy(texts=("2",))
    with Journal(tmp_path) as journal:
        result = run_loop(NumberProblem(), [policy], [NumberVerifier()], Plan(steps=1), Ledger(Limits()), journal)
    assert ([trial.candidate.text for trial in result.trials], policy.seen) == (["1", "7"], [])
