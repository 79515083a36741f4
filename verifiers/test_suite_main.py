"""The child process of `test_suite`: run pytest once and answer on a private pipe what became of each test.

Run as `test_suite_main.py PYTEST_ARGUMENT... PIPE`; standard input holds a JSON object with `nonce`. It stands alone,
since the candidate is loaded into its process.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import pytest


class Results:
    """What pytest reports, and a test of our own that must fail: where it does not, no result is worth anything."""

    def __init__(self) -> None:
        self.results: dict[str, str] = {}
        """Node -> why it did not pass, empty if it did."""
        self.collected: list[str] = []
        self.control = ""
        """The node of the test that must fail; empty where pytest leaves the tests to other processes."""

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, session: pytest.Session, items: list[pytest.Item]) -> None:
        self.collected = [item.nodeid for item in items]
        if not session.config.option.collectonly:
            control: pytest.Item = pytest.Function.from_parent(session, name="test_control", callobj=_must_fail)
            self.control = control.nodeid
            items.append(control)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.results[report.nodeid] = _message("error", report)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed or report.skipped:
            kind = "skipped" if report.skipped else "failure" if report.when == "call" else "error"
            self.results[report.nodeid] = self.results.get(report.nodeid) or _message(kind, report)
        elif report.passed and report.when == "call":
            self.results.setdefault(report.nodeid, "")


def main() -> None:
    *arguments, pipe = sys.argv[1:]
    request = json.loads(sys.stdin.buffer.read())
    # The candidate must not find in it what makes an answer true; that is in no variable either from here on.
    os.truncate(0, 0)
    sys.argv[1:] = arguments
    sys.path[0] = os.getcwd()  # noqa: PTH109
    answer = json.dumps({"nonce": request.pop("nonce"), **_run(arguments)}).encode("ascii")
    rest = len(answer).to_bytes(4, "big") + answer
    while rest:
        rest = rest[os.write(int(pipe), rest) :]


def _run(arguments: list[str]) -> dict[str, Any]:
    found = Results()
    status = pytest.main(arguments, plugins=[found])
    passed = found.results.pop(found.control, "") == "" if found.control else False
    return {"status": int(status), "results": found.results, "collected": found.collected, "control_passed": passed}


def _must_fail() -> None:
    assert not True


def _message(kind: str, report: pytest.CollectReport | pytest.TestReport) -> str:
    shown = report.longrepr
    crash = getattr(shown, "reprcrash", None)
    text = crash.message if crash else shown[2] if isinstance(shown, tuple) else str(shown)
    return f"{kind} {text}"[:300]


if __name__ == "__main__":
    main()
