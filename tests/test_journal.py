"""The journal: nothing written is lost, a torn end is repaired, and only one process writes."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import time
from pathlib import Path

import pytest

from optimizer.budget import Amounts
from optimizer.candidate import Candidate
from optimizer.errors import UserError
from optimizer.journal import FILE_NAME, Journal, read_record
from optimizer.plan import StopReason
from optimizer.protocols import Proposal
from optimizer.selection import Finalist
from optimizer.trial import Cost, Trial
from optimizer.trial_json import trial_from_json, trial_to_json
from optimizer.verdict import Measurement, Reason, Status, Verdict

TRIAL = Trial(
    number=3,
    chain=1,
    step=2,
    candidate=Candidate("tile(i=32); é \u2028 parallel(i_t)"),
    verdicts=(
        Verdict(Status.OK, "legality", assurance="proved", seconds=0.25),
        Verdict(
            Status.OK,
            "timing",
            detail="noisy",
            measurement=Measurement(1.8, (1.7, 1.9), 12, "x", {"seconds": 0.5, "threads": 2}),
        ),
    ),
    feedback="accepted",
    rationale="because",
    cost=Cost(1.5, 2, 300, 0.01),
    when=1e9,
)
REFUSED = Trial(
    4,
    0,
    3,
    Candidate("reverse(i)"),
    (Verdict(Status.REJECTED, "legality", Reason.ILLEGAL, "A", {"source": [1, 2]}, "skew(j, by=i)"),),
)


def test_a_trial_survives_json() -> None:
    for trial in (TRIAL, REFUSED):
        assert trial_from_json(json.loads(json.dumps(trial_to_json(trial), allow_nan=False))) == trial


def test_all_that_was_written_is_read(tmp_path: Path) -> None:
    finalists = [Finalist(3, Measurement(1.7, (1.6, 1.8), 9)), Finalist(4, REFUSED.verdicts[0])]
    with Journal(tmp_path) as journal:
        assert journal.record.trials == ()
        journal.proposal(1, 2, Proposal(TRIAL.candidate.text, "because", Cost(usd=0.5)))
        journal.trial(TRIAL, Amounts(evaluations=1, seconds=2.5, usd=0.5))
        journal.proposal(0, 3, Proposal("reverse(i)", "", Cost(tokens=7)))
        journal.finalists(finalists)
    record = read_record(tmp_path)
    assert record.trials == (TRIAL,)
    assert record.pending == {(0, 3): Proposal("reverse(i)", "", Cost(tokens=7))}
    assert record.spent == Amounts(evaluations=1, seconds=2.5, usd=0.5)
    assert record.finalists == tuple(finalists)
    assert record.stop_reason is None
    with Journal(tmp_path) as journal:
        journal.finished(StopReason.INTERRUPTED, [StopReason.STEPS_DONE, StopReason.INTERRUPTED], Amounts(seconds=9))
    record = read_record(tmp_path)
    assert record.stop_reason is StopReason.INTERRUPTED
    assert record.chain_stops == (StopReason.STEPS_DONE, StopReason.INTERRUPTED)
    assert record.spent == Amounts(seconds=9)


def test_no_nan_reaches_the_file(tmp_path: Path) -> None:
    verdict = Verdict(Status.REJECTED, "check", Reason.FAILED_CHECK, "no", witness={"got": math.nan, "at": [math.inf]})
    with Journal(tmp_path) as journal:
        journal.trial(Trial(0, 0, 0, Candidate("x"), (verdict,)), Amounts())
    (line,) = (tmp_path / FILE_NAME).read_text().splitlines()
    assert json.loads(line, parse_constant=pytest.fail)["trial"]["verdicts"][0]["witness"] == {
        "got": "nan",
        "at": ["inf"],
    }


def test_cut_at_any_byte_it_keeps_every_whole_event(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        for _ in range(2):
            journal.trial(TRIAL, Amounts())
    content = (tmp_path / FILE_NAME).read_bytes()
    first = content.index(b"\n") + 1
    for length in [*range(0, len(content), 37), first - 1, first, first + 1, len(content) - 1, len(content)]:
        folder = tmp_path / str(length)
        folder.mkdir(exist_ok=True)
        (folder / FILE_NAME).write_bytes(content[:length])
        expected = (length >= first - 1) + (length >= len(content) - 1)
        assert len(read_record(folder).trials) == expected
        with Journal(folder) as journal:
            assert len(journal.record.trials) == expected
            journal.trial(REFUSED, Amounts())
        assert len(read_record(folder).trials) == expected + 1
        assert read_record(folder).trials[-1] == REFUSED


def test_damage_before_the_end_is_an_error_with_its_line(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        journal.trial(TRIAL, Amounts())
    path = tmp_path / FILE_NAME
    path.write_bytes(b'{"v": 1, "event"\n' + path.read_bytes())
    with pytest.raises(UserError, match=r"journal\.jsonl:1: .*damaged"):
        Journal(tmp_path)


def test_an_event_without_its_parts_is_an_error(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_text('{"v": 1, "event": "trial", "t": 0}\n')
    with pytest.raises(UserError, match=r"event 1 of the journal \(trial\) is damaged"):
        read_record(tmp_path)


def test_another_format_is_refused_and_an_unknown_event_is_not(tmp_path: Path) -> None:
    path = tmp_path / FILE_NAME
    path.write_text('{"v": 1, "event": "weather", "t": 0}\n')
    assert read_record(tmp_path).trials == ()
    path.write_text('{"v": 2, "event": "trial", "t": 0}\n')
    with pytest.raises(UserError, match="format 2"):
        Journal(tmp_path)
    path.write_text('{"v": 1, "event": "weather", "t": 0}\n')
    Journal(tmp_path).__exit__(None, None, None)


def test_a_second_writer_is_refused_with_the_process_that_has_it(tmp_path: Path) -> None:
    script = (
        "import sys, time; from pathlib import Path; from optimizer.journal import Journal\n"
        "with Journal(Path(sys.argv[1])): print('open', flush=True); time.sleep(60)"
    )
    root = Path(__file__).parents[1]
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE, text=True, cwd=root
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "open\n"
        with pytest.raises(UserError, match=f"in use by process {holder.pid}"):
            Journal(tmp_path)
        assert read_record(tmp_path).trials == ()
        holder.kill()
    Journal(tmp_path).__exit__(None, None, None)


def test_an_unwritable_folder_is_the_users_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot write"):
        Journal(tmp_path / "nowhere")


def test_a_thousand_trials_are_read_in_under_a_second(tmp_path: Path) -> None:
    line = json.dumps({"v": 1, "event": "trial", "t": 0, "trial": trial_to_json(TRIAL), "spent": {}}) + "\n"
    (tmp_path / FILE_NAME).write_text(line * 1000)
    started = time.perf_counter()
    with Journal(tmp_path) as journal:
        assert len(journal.record.trials) == 1000
    assert time.perf_counter() - started < 1
