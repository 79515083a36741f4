"""Judge a Python file by tests that it must not touch: pytest in a copy, the verdict from its JUnit report.

The tests are locked by hash, a test that did not run did not pass, and report, exit status and the number of tests of
the untouched file must agree. The candidate runs in the process of its tests, with the rights of the user: this keeps
out candidates that cheat or break things, and is no prison for malicious ones.
"""

from __future__ import annotations

import hashlib
import math
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar
from xml.etree import ElementTree

from optimizer.candidate import Candidate
from optimizer.errors import UserError
from optimizer.protocols import Problem, Verifier
from optimizer.suite_problem import SuiteProblem, locked_files
from optimizer.verdict import Measurement, Reason, Status, Verdict
from verifiers.sandbox import Ended, run_once

NOT_COPIED = (".git", ".hg", ".venv", "venv", "node_modules", "__pycache__", ".pytest_cache", ".tox", ".mypy_cache")
CODE_SUFFIXES = (".py", ".pth", ".ini", ".toml", ".cfg", ".so", ".pyc")
"""Files that could change what Python or pytest does; tests themselves may leave other files behind."""
MOST_BYTES = 200 << 20
LARGEST_REPORT = 16 << 20
ALL_PASSED, SOME_FAILED = 0, 1


@dataclass(slots=True)
class TestSuite:
    """Run the locked tests against a candidate; the score is the part of them that passes."""

    __test__: ClassVar[bool] = False  # not a test, whatever pytest thinks of the name

    name: ClassVar[str] = "test-suite"

    deadline: float = 60.0
    """Seconds for one run of all tests."""
    plugins: bool = True
    """Whether pytest loads installed plug-ins; without them it starts faster."""
    network: bool = True
    """Whether the tests keep the network; where the system cannot take it away, they do in any case."""
    _expected: dict[Path, int] = field(init=False, default_factory=dict[Path, int])

    def __post_init__(self) -> None:
        if not (math.isfinite(self.deadline) and self.deadline > 0):
            raise UserError(f"the deadline of the tests must be a number of seconds above 0, not {self.deadline}")
        if find_spec("pytest") is None:
            raise UserError("tests are run with pytest, which is not installed: pip install 'loopwright[pytest]'")

    def expected(self, problem: SuiteProblem) -> int:
        """How many tests there are, by the untouched file. Raises `UserError` when they cannot be collected."""
        key = problem.root / problem.tests
        if key not in self._expected:
            self._expected[key] = self._collect(problem)
        return self._expected[key]

    def verify(self, problem: SuiteProblem, candidate: Candidate) -> Verdict:
        changed = _difference(problem.locked, locked_files(problem.root, problem.tests))
        if changed:
            raise UserError(f"the tests changed since the run began: {changed} in {problem.root}")
        expected = self.expected(problem)
        with tempfile.TemporaryDirectory(prefix="loopwright-", ignore_cleanup_errors=True) as folder:
            copy, report = Path(folder) / "copy", Path(folder) / "report.xml"
            _copy(problem, candidate.text, copy)
            before = _watched(problem, copy)
            ended = self._pytest(problem, copy, f"--junitxml={report}")
            touched = _difference(before, _watched(problem, copy))
            touched = touched or _difference(problem.locked, locked_files(problem.root, problem.tests))
            if touched:
                return self._reject(Reason.TAMPERED, f"the candidate touched {touched}, which it must not")
            if ended.timed_out:
                return self._reject(Reason.TIMED_OUT, f"the tests did not end within {self.deadline:g} s")
            return self._verdict(ended, _read_report(report), expected)

    def _verdict(self, ended: Ended, results: dict[str, str] | None, expected: int) -> Verdict:
        if results is None:
            if ended.returncode == ALL_PASSED:
                return self._reject(Reason.TAMPERED, "the process ended early, as if all were well, without a report")
            return self._reject(Reason.CRASHED, f"the tests gave no report; their process {ended.describe()}")
        failures = {test: message for test, message in results.items() if message}
        shown = "; ".join(f"{test}: {message}" for test, message in list(failures.items())[:3])
        if ended.returncode not in (ALL_PASSED, SOME_FAILED):
            return self._reject(Reason.FAILED_CHECK, f"the tests could not run: {shown or ended.describe()}")
        if len(results) != expected:
            return self._reject(Reason.TAMPERED, f"{len(results)} tests ran, and there are {expected}")
        has_failed = any(not message.startswith("skipped") for message in failures.values())
        if has_failed != (ended.returncode == SOME_FAILED):
            return self._reject(Reason.TAMPERED, "the report and the exit status of the tests do not agree")
        passed = expected - len(failures)
        score = passed / expected
        return Verdict(
            Status.OK,
            self.name,
            detail=shown,
            assurance=f"tested only: {passed} of {expected} tests pass",
            measurement=Measurement(score, (score, score), 1, "tests", {"passed": passed, "total": expected}),
        )

    def _collect(self, problem: SuiteProblem) -> int:
        with tempfile.TemporaryDirectory(prefix="loopwright-", ignore_cleanup_errors=True) as folder:
            copy = Path(folder) / "copy"
            _copy(problem, problem.text, copy)
            ended = self._pytest(problem, copy, "--collect-only", "--verbosity=0")
        found = re.search(r"(\d+)(?:/\d+)? tests? collected", ended.output)
        if ended.returncode != 0 or not found or int(found[1]) == 0:
            how = "collecting them did not end in time" if ended.timed_out else f"pytest {ended.describe()}"
            raise UserError(f"the tests in {problem.root / problem.tests} cannot be used: {how}")
        return int(found[1])

    def _pytest(self, problem: SuiteProblem, copy: Path, *options: str) -> Ended:
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", f"--rootdir={copy}", *options]
        variables = {} if self.plugins else {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        return run_once(
            [*command, str(problem.tests)], self.deadline, directory=copy, variables=variables, network=self.network
        )

    def _reject(self, reason: Reason, detail: str) -> Verdict:
        return Verdict(Status.REJECTED, self.name, reason, detail)


def suite_verifiers(
    problem: Problem,
    directory: Path,
    waiting: Callable[[str], None],
    *,
    deadline: float = 60.0,
    plugins: bool = True,
    network: bool = True,
) -> Sequence[Verifier]:
    """The verifiers of a test suite. Raises `UserError` when the tests cannot be collected."""
    if not isinstance(problem, SuiteProblem):
        raise UserError(f"tests judge a problem of kind suite, not of kind {problem.kind}")
    suite = TestSuite(deadline, plugins, network)
    suite.expected(problem)
    return [suite]


def _copy(problem: SuiteProblem, text: str, copy: Path) -> None:
    """The whole root with the candidate's text in place. Raises `UserError` when the root is too large for that."""

    def ignored(folder: str, names: list[str]) -> list[str]:
        return [name for name in names if name in NOT_COPIED]

    total = 0
    for path in _files(problem.root):
        total += path.stat().st_size
        if total > MOST_BYTES:
            raise UserError(
                f"{problem.root} holds more than {MOST_BYTES >> 20} MiB, too much to copy for each candidate: "
                "put the file and its tests into a folder of their own"
            )
    shutil.copytree(problem.root, copy, ignore=ignored, symlinks=True)
    (copy / problem.file).write_text(text, encoding="utf-8")


def _files(root: Path) -> list[Path]:
    return [
        path
        for path in root.rglob("*")
        if path.is_file() and not path.is_symlink() and not set(NOT_COPIED) & set(path.relative_to(root).parts)
    ]


def _watched(problem: SuiteProblem, copy: Path) -> dict[str, str]:
    """Path within a copy -> SHA-256, of what is locked and of all that could change what Python or pytest does."""
    locked = {path: digest for path, digest in locked_files(copy, problem.tests).items() if path in problem.locked}
    code = {
        path.relative_to(copy).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in copy.rglob("*")
        if path.suffix in CODE_SUFFIXES and path.is_file()
    }
    return locked | code


def _difference(before: Mapping[str, str], after: Mapping[str, str]) -> str | None:
    """The first path whose hash differs."""
    return next((path for path in sorted({*before, *after}) if before.get(path) != after.get(path)), None)


def _read_report(path: Path) -> dict[str, str] | None:
    """Test -> why it did not pass, empty if it did. None without a whole report."""
    if not path.is_file() or path.stat().st_size > LARGEST_REPORT:
        return None
    try:
        cases = list(ElementTree.parse(path).iter("testcase"))
    except ElementTree.ParseError:
        return None
    results: dict[str, str] = {}
    for case in cases:
        test = f"{case.get('classname', '')}::{case.get('name', '')}"
        trouble = next((part for part in case if part.tag in ("failure", "error", "skipped")), None)
        message = "" if trouble is None else f"{trouble.tag} {trouble.get('message', '')}".strip()[:300]
        results[test] = results.get(test) or message
    return results
