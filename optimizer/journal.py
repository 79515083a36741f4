"""The journal of a run: append-only JSON lines, one event a line. Everything else about a run is a replay of it.

Every line is an object with `v` (the format's major version), `event` and `t` (seconds since the epoch). The events:

    proposal   chain, step, text (null: the policy gave up), rationale, cost   written before anything is judged
    reserved   number, chain, amount                                           set aside for a call that begins
    settled    number, chain, amount, why                                      `refund`, or `lost` with its process
    trial      trial, spent                                                    one judged candidate
    finalists  finalists                                                       the measurements that chose the winner
    finished   stop_reason, chain_stops, spent                                 the end of a run or of a sitting of it

What a policy records about its own work has a name of the policy's choice (`call`, `prefix`, `fallback`), its `chain`,
and, where it ends a reservation, `reservation` (its number) and `amount`.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from optimizer.budget import Amounts
from optimizer.errors import InfrastructureError, UserError
from optimizer.plan import StopReason
from optimizer.protocols import Proposal
from optimizer.run_lock import acquire
from optimizer.selection import Finalist
from optimizer.trial import Cost, Trial
from optimizer.trial_json import (
    finalist_from_json,
    finalist_to_json,
    proposal_from_json,
    trial_from_json,
    trial_to_json,
)

VERSION = 1
OWN_EVENTS = ("proposal", "reserved", "settled", "trial", "finalists", "finished")
FILE_NAME = "journal.jsonl"


@dataclass(frozen=True, slots=True)
class Record:
    """What a journal says about its run."""

    trials: tuple[Trial, ...] = ()
    pending: Mapping[tuple[int, int], Proposal] = field(default_factory=dict[tuple[int, int], Proposal])
    """Proposals by (chain, step) that were paid for and not yet judged."""
    spent: Amounts = Amounts()
    """Reservations that no event ended count in full: the process died while they were in flight."""
    unsettled: Mapping[int, tuple[int, Amounts]] = field(default_factory=dict[int, tuple[int, Amounts]])
    """Those reservations: number -> chain, amount."""
    notes: tuple[Mapping[str, Any], ...] = ()
    """What policies recorded about their own work."""
    finalists: tuple[Finalist, ...] | None = None
    """None as long as the finalists were not measured again."""
    stop_reason: StopReason | None = None
    """None while the run goes on, and after it was killed."""
    chain_stops: tuple[StopReason, ...] = ()


class JournalFailed(InfrastructureError):
    """Nothing more can be recorded, so the run cannot go on: the disk is full, for instance."""


class Journal:
    """A run's journal, open for writing by this process alone. Use it as a context manager.

    Opening repairs a torn last line. Raises `UserError` when another process has it, when it cannot be written, or
    when it is damaged. What records raises `JournalFailed` when that is not possible; the file then ends with the
    last event that was recorded, and takes no further one.
    """

    def __init__(self, directory: Path) -> None:
        self.path = directory / FILE_NAME
        self._failure: JournalFailed | None = None
        self._lock = acquire(directory)
        try:
            self.record = record_of(_repair(self.path))
            self._file = self.path.open("ab", buffering=0)
        except OSError as error:
            os.close(self._lock)
            raise UserError(f"cannot write {self.path}: {error.strerror}") from error
        except UserError:
            os.close(self._lock)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._file.close()
        os.close(self._lock)

    def proposal(self, chain: int, step: int, proposal: Proposal) -> None:
        """Only one that was paid for is forced to the disk: any other is made again at no cost."""
        self._append("proposal", proposal.cost != Cost(), chain=chain, step=step, **asdict(proposal))

    def reserved(self, chain: int, number: int, amount: Amounts) -> None:
        self._append("reserved", True, chain=chain, number=number, amount=asdict(amount))

    def settled(self, chain: int, number: int, amount: Amounts, why: str) -> None:
        self._append("settled", True, chain=chain, number=number, amount=asdict(amount), why=why)

    def note(self, event: str, chain: int, fields: Mapping[str, Any], paid: tuple[int, Amounts] | None = None) -> None:
        """Something that a policy has to remember; `paid` ends a reservation with what was really used."""
        if event in OWN_EVENTS:
            raise ValueError(f"{event} is an event of the journal's own")
        bill = {} if paid is None else {"reservation": paid[0], "amount": asdict(paid[1])}
        self._append(event, True, chain=chain, **bill, **fields)

    def trial(self, trial: Trial, spent: Amounts) -> None:
        self._append("trial", True, trial=trial_to_json(trial), spent=asdict(spent))

    def finalists(self, finalists: Sequence[Finalist]) -> None:
        self._append("finalists", True, finalists=[finalist_to_json(finalist) for finalist in finalists])

    def finished(self, reason: StopReason, chain_stops: Sequence[StopReason], spent: Amounts) -> None:
        self._append("finished", True, stop_reason=reason, chain_stops=list(chain_stops), spent=asdict(spent))

    def _append(self, event: str, sync: bool, **fields: Any) -> None:
        line = json.dumps({"v": VERSION, "event": event, "t": time.time(), **_finite(fields)}, allow_nan=False)
        if self._failure:
            raise self._failure
        try:
            _append_whole(self._file.fileno(), line.encode() + b"\n", sync)
        except OSError as error:
            self._failure = JournalFailed(
                f"cannot write {self.path}: {error.strerror}; all that was recorded before is safe: once this is "
                f"mended, go on with `loopwright resume {self.path.parent}`"
            )
            raise self._failure from error


def read_events(directory: Path) -> list[dict[str, Any]]:
    """The events in a run's folder, also while another process writes them; a torn last line is left out.

    Raises `UserError`.
    """
    path = directory / FILE_NAME
    try:
        _check_is_file(path)
        content = path.read_bytes()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error
    return _parse(content, path)[0]


def read_record(directory: Path) -> Record:
    """What the journal in a run's folder says, also while another process writes it. Raises `UserError`."""
    return record_of(read_events(directory))


def record_of(events: Sequence[Mapping[str, Any]]) -> Record:
    """Fold events into what they say. Raises `UserError` on an event that is not as this version writes it."""
    trials: list[Trial] = []
    pending: dict[tuple[int, int], Proposal] = {}
    spent = Amounts()
    unsettled: dict[int, tuple[int, Amounts]] = {}
    notes: list[Mapping[str, Any]] = []
    finalists: tuple[Finalist, ...] | None = None
    stop_reason: StopReason | None = None
    chain_stops: tuple[StopReason, ...] = ()
    for number, event in enumerate(events, start=1):
        try:
            match event["event"]:
                case "proposal":
                    stop_reason = None
                    pending[event["chain"], event["step"]] = proposal_from_json(event)
                case "reserved":
                    stop_reason = None
                    unsettled[event["number"]] = event["chain"], Amounts(**event["amount"])
                case "settled":
                    unsettled.pop(event["number"])
                    spent = spent.plus(Amounts(**event["amount"]))
                case "trial":
                    trial = trial_from_json(event["trial"])
                    trials.append(trial)
                    pending.pop((trial.chain, trial.step), None)
                    spent = Amounts(**event["spent"])
                case "finalists":
                    finalists = tuple(finalist_from_json(data) for data in event["finalists"])
                case "finished":
                    stop_reason = StopReason(event["stop_reason"])
                    chain_stops = tuple(StopReason(stop) for stop in event["chain_stops"])
                    spent = Amounts(**event["spent"])
                case _:
                    if "reservation" in event:
                        unsettled.pop(event["reservation"])
                        spent = spent.plus(Amounts(**event["amount"]))
                    if "chain" in event:
                        notes.append(event)
        except (KeyError, TypeError, ValueError) as error:
            raise UserError(f"event {number} of the journal ({event.get('event')}) is damaged: {error!r}") from error
    for _, amount in unsettled.values():
        spent = spent.plus(amount)
    return Record(tuple(trials), pending, spent, unsettled, tuple(notes), finalists, stop_reason, chain_stops)


def check_order(record: Record) -> None:
    """Raise `UserError` unless trials are numbered by their places, as lines that were moved about or lost are not."""
    for place, trial in enumerate(record.trials):
        if trial.number != place:
            raise UserError(f"the journal is damaged: trial {trial.number} stands in the place of trial {place}")
    for finalist in record.finalists or ():
        if not 0 <= finalist.trial < len(record.trials):
            raise UserError(f"the journal is damaged: its finalist {finalist.trial} is none of its trials")


def _finite(value: Any) -> Any:
    """The same JSON value, with numbers that JSON does not have written as text."""
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value


def _append_whole(file: int, line: bytes, sync: bool) -> None:
    """Append all of a line or nothing, whatever interrupts it: a torn line is allowed at the end of a journal only."""
    before = os.fstat(file).st_size
    left = line
    try:
        while left:
            left = left[os.write(file, left) :]
        if sync:
            os.fsync(file)
    except OSError:
        with suppress(OSError):
            os.ftruncate(file, before)
        raise
    except BaseException:
        if left:
            os.ftruncate(file, before)
        raise


def _check_is_file(path: Path) -> None:
    """Raise `UserError` for what is there and may never end when it is read."""
    if path.exists() and not path.is_file():
        raise UserError(f"{path} is no file")


def _repair(path: Path) -> list[dict[str, Any]]:
    """The events of a journal, whose file afterwards ends with the last whole one."""
    if not path.exists():
        return []
    _check_is_file(path)
    content = path.read_bytes()
    events, whole = _parse(content, path)
    if whole < len(content) or not content.endswith(b"\n"):
        with path.open("r+b") as file:
            file.truncate(whole)
            file.seek(0, os.SEEK_END)
            if whole and content[whole - 1 : whole] != b"\n":
                file.write(b"\n")
    return events


def _parse(content: bytes, path: Path) -> tuple[list[dict[str, Any]], int]:
    """The events, and the length of the part that holds them: only the last line may be torn."""
    lines = content.splitlines(keepends=True)
    events: list[dict[str, Any]] = []
    whole = 0
    for number, line in enumerate(lines, start=1):
        event = _event_of(line)
        if event is None:
            if number == len(lines):
                break
            raise UserError(f"{path}:{number}: this line of the journal is damaged")
        if event.get("v") != VERSION:
            raise UserError(
                f"{path}:{number}: the journal has format {event.get('v')!r}, this version of loopwright reads format "
                f"{VERSION}: use the version that wrote it"
            )
        events.append(event)
        whole += len(line)
    return events, whole


def _event_of(line: bytes) -> dict[str, Any] | None:
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return event if isinstance(event, dict) and "event" in event else None
