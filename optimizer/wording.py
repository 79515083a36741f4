"""How times and scores read, everywhere."""

from __future__ import annotations

from collections.abc import Sequence

from optimizer.verdict import Measurement


def seconds_text(seconds: float) -> str:
    """A duration with three digits in the unit that suits it: `12.3 ms`."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def speedup_text(speedup: float, interval: Sequence[float]) -> str:
    """`2.31x (95% interval 2.25 to 2.37)`."""
    return f"{speedup:.2f}x (95% interval {interval[0]:.2f} to {interval[1]:.2f})"


def score_text(measurement: Measurement | None) -> str:
    """`2.31x`, `5 of 6 tests`, `3 points`, or a dash without a measurement."""
    if measurement is None:
        return "-"
    if measurement.unit == "x":
        return f"{measurement.score:.2f}x"
    if measurement.unit == "tests" and {"passed", "total"} <= measurement.details.keys():
        return f"{measurement.details['passed']} of {measurement.details['total']} tests"
    return f"{measurement.score:.6g} {measurement.unit}".rstrip()


def printable(text: str) -> str:
    """A text for a terminal: what would move its cursor or change its colours shows as `�`."""
    return "".join(character if character.isprintable() or character in "\n\t" else "�" for character in text)


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Text columns as wide as their widest cell, two spaces apart."""
    widths = [max(len(cell) for cell in column) for column in zip(header, *rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in (header, *rows)]
    return "\n".join(line.rstrip() for line in lines)
