"""What the linter found."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from optimizer.lint import Report


def reports_json(reports: Sequence[Report]) -> dict[str, Any]:
    """All findings of all files, and what could not be looked into."""
    return {
        "files": [report.source.file for report in reports],
        "findings": [found.to_json(report.source) for report in reports for found in report.findings],
        "skipped": [
            {"file": report.source.file, "function": skipped.function, "reason": skipped.reason}
            for report in reports
            for skipped in report.skipped
        ],
    }


def findings_text(reports: Sequence[Report]) -> Iterator[str]:
    """One text a finding: `file:line:column: rule: message`, the line, a caret under it, what to do."""
    for report in reports:
        yield from (found.text(report.source) for found in report.findings)


def skipped_text(reports: Sequence[Report]) -> Iterator[str]:
    """One line a function, or a loop of one, that could not be read."""
    for report in reports:
        yield from (f"not looked into, in `{skipped.function}`: {skipped.reason}" for skipped in report.skipped)
