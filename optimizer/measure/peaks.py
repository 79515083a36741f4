"""The machine's limits: how fast it can compute and move data at most. Measured once and kept."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import platformdirs
from pydantic import ValidationError

from optimizer.measure.bench import Bench
from optimizer.measure.commands import PeaksReport, from_json
from optimizer.measure.machine import this_machine

FILE_PREFIX = "peaks-2"
"""Counted up when peaks are measured in another way, so that old files are not believed."""


@dataclass(frozen=True, slots=True)
class Peaks:
    """Rates that no code can beat, for one thread and for all that were asked for."""

    threads: int
    flops_per_second: Mapping[str, float]
    """`float64/1` and the like: by type and threads. A fused multiply-add counts as two."""
    bytes_per_second: Mapping[str, Mapping[str, float]]
    """By threads, then by the bytes that lay in reach when it was measured: caches are faster than memory."""

    def limit_seconds(self, flops: float, moved_bytes: float, dtype: str, threads: int) -> float:
        """The least time for so many floating-point operations and so many bytes that must move at least once.

        Each element counts once in and once out at most, so the data take half of the bytes at least, and that decides
        how near they can lie. Types without a measured peak are limited by the bytes alone. Raises `ValueError` for a
        number of threads that was not measured.
        """
        if threads not in (1, self.threads):
            raise ValueError(f"the machine's limit is known for 1 and {self.threads} threads, not for {threads}")
        rate = self.flop_rate(dtype, threads)
        return max(flops / rate if rate else 0.0, moved_bytes / self.bandwidth(moved_bytes / 2, threads))

    def flop_rate(self, dtype: str, threads: int) -> float:
        """Operations per second; 0 for a type without a peak.

        Processors do not share their arithmetic, so all together are never slower than one times their number, even
        if something disturbed them while they were measured.
        """
        alone = self.flops_per_second.get(f"{dtype}/1", 0.0)
        return max(alone * threads, self.flops_per_second.get(f"{dtype}/{threads}", 0.0))

    def bandwidth(self, footprint: float, threads: int) -> float:
        """Bytes per second for data of so many bytes.

        The one of the largest measured footprint that is no larger, so data that happen to lie in a faster cache are
        allowed for; and no less than what larger footprints, or one thread alone, were seen to reach.
        """
        measured = [
            (int(size), rate) for count in {1, threads} for size, rate in self.bytes_per_second[str(count)].items()
        ]
        within = max((size for size, _ in measured if size <= footprint), default=0)
        return max(rate for size, rate in measured if size >= within)


def machine_peaks(bench: Bench, directory: Path | None = None, *, again: bool = False) -> Peaks:
    """This machine's peaks for one thread and for the bench's number, measured unless `directory` has them.

    The directory is the user's cache by default; without one that can be written they are measured anew each time.
    With `again` they are measured anyway and the better of old and new is kept, because everything that disturbs a
    measurement lowers it.
    """
    folder = directory or platformdirs.user_cache_path("loopwright")
    file = folder / f"{FILE_PREFIX}-{this_machine().digest}-{bench.threads}.json"
    report = _read(file)
    if report is None or again:
        report = _better(bench.peaks(), report)
        _write(file, report)
    return Peaks(bench.threads, report.flops_per_second, report.bytes_per_second)


def _better(new: PeaksReport, old: PeaksReport | None) -> PeaksReport:
    if old is None:
        return new
    return PeaksReport(
        _best_of(new.flops_per_second, old.flops_per_second),
        {
            threads: _best_of(rates, old.bytes_per_second.get(threads, {}))
            for threads, rates in new.bytes_per_second.items()
        },
    )


def _best_of(new: Mapping[str, float], old: Mapping[str, float]) -> dict[str, float]:
    return {key: max(rate, old.get(key, 0.0)) for key, rate in new.items()}


def _read(file: Path) -> PeaksReport | None:
    try:
        return from_json(PeaksReport, json.loads(file.read_text(encoding="utf-8")))
    except (OSError, ValueError, ValidationError):
        return None


def _write(file: Path, report: PeaksReport) -> None:
    """Whole or not at all; a cache that cannot be written is no error."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=file.parent, delete=False, encoding="utf-8") as unfinished:
            json.dump(asdict(report), unfinished)
        Path(unfinished.name).replace(file)
    except OSError:
        return
