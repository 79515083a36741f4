"""Judge a Python file by tests that it must not touch: pytest in a copy, the verdict from what it reports.

The tests are locked by hash, a test that did not run did not pass, exactly the tests of the untouched file must run,
and a test that must fail is run with them. The report comes over a private pipe. The candidate runs in the process of
its tests, with the rights of the user: this keeps out candidates that cheat or break things, and is no prison for
malicious ones.
"""

from __future__ import annotations

import math
import shutil
import sys
import tempfile
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

from optimizer.candidate import Candidate
from optimizer.errors import UserError
from optimizer.protocols import Problem, Verifier
from optimizer.removal import remove_tree
from optimizer.suite_problem import SuiteProblem, file_digest, files_below, locked_files
from optimizer.verdict import Measurement, Reason, Status, Verdict
from verifiers.sandbox import Ended, run_once

NOT_COPIED = (".git", ".hg", ".venv", "venv", "node_modules", "__pycache__", ".pytest_cache", ".tox", ".mypy_cache")
CODE_SUFFIXES = (".py", ".pth", ".ini", ".toml", ".cfg", ".so", ".pyc")
"""Files that could change what Python or pytest does; tests themselves may leave other files behind."""
MOST_BYTES = 200 << 20
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
    _expected: dict[Path, frozenset[str]] = field(init=False, default_factory=dict[Path, frozenset[str]])

    def __post_init__(self) -> None:
        if not (math.isfinite(self.deadline) and self.deadline > 0):
            raise UserError(f"the deadline of the tests must be a number of seconds above 0, not {self.deadline}")
        if find_spec("pytest") is None:
            raise UserError("tests are run with pytest, which is not installed: pip install 'loopwright[pytest]'")

    def expected(self, problem: SuiteProblem) -> frozenset[str]:
        """The tests that there are, by the untouched file. Raises `UserError` when they cannot be collected."""
        key = problem.root / problem.tests
        if key not in self._expected:
            self._expected[key] = self._collect(problem)
        return self._expected[key]

    def verify(self, problem: SuiteProblem, candidate: Candidate) -> Verdict:
        changed = _difference(problem.locked, locked_files(problem.root, problem.tests))
        if changed:
            raise UserError(f"the tests changed since the run began: {changed} in {problem.root}")
        expected = self.expected(problem)
        with _copied(problem, candidate.text) as copy:
            before = _watched(problem, copy)
            ended = self._pytest(problem, copy)
            touched = _difference(before, _watched(problem, copy))
            touched = touched or _difference(problem.locked, locked_files(problem.root, problem.tests))
        if touched:
            return self._reject(Reason.TAMPERED, f"the candidate touched {touched}, which it must not")
        if ended.timed_out:
            return self._reject(Reason.TIMED_OUT, f"the tests did not end within {self.deadline:g} s")
        if ended.answer is None:
            if ended.returncode == ALL_PASSED:
                return self._reject(Reason.TAMPERED, "the process ended early, as if all were well, without a report")
            return self._reject(Reason.CRASHED, f"the tests gave no report; their process {ended.describe()}")
        return self._verdict(ended.answer, expected)

    def _verdict(self, answer: Mapping[str, Any], expected: frozenset[str]) -> Verdict:
        results: dict[str, str] = answer["results"]
        failures = {test: message for test, message in results.items() if message}
        shown = "; ".join(f"{test}: {message}" for test, message in list(failures.items())[:3])
        if answer["status"] not in (ALL_PASSED, SOME_FAILED):
            why = shown or f"pytest ended with status {answer['status']}"
            return self._reject(Reason.FAILED_CHECK, f"the tests could not run: {why}")
        if answer["control_passed"]:
            return self._reject(Reason.TAMPERED, "a test that must fail passed, so the candidate decides what fails")
        if different := sorted(results.keys() ^ expected):
            what = "did not run" if different[0] in expected else "is none of the tests that there are"
            return self._reject(
                Reason.TAMPERED, f"{len(results)} tests ran, and there are {len(expected)}: {different[0]} {what}"
            )
        passed, total = len(expected) - len(failures), len(expected)
        score = passed / total
        return Verdict(
            Status.OK,
            self.name,
            detail=shown,
            assurance=f"tested only: {passed} of {total} tests pass",
            measurement=Measurement(score, (score, score), 1, "tests", {"passed": passed, "total": total}),
        )

    def _collect(self, problem: SuiteProblem) -> frozenset[str]:
        with _copied(problem, problem.text) as copy:
            ended = self._pytest(problem, copy, "--collect-only", "--quiet")
        answer = ended.answer or {"status": None, "results": {}, "collected": []}
        if answer["status"] != ALL_PASSED or not answer["collected"]:
            how = "collecting them did not end in time" if ended.timed_out else f"pytest {ended.describe()}"
            why = next(iter(answer["results"].values()), how)
            raise UserError(f"the tests in {problem.root / problem.tests} cannot be used: {why}")
        return frozenset(answer["collected"])

    def _pytest(self, problem: SuiteProblem, copy: Path, *options: str) -> Ended:
        main = str(Path(__file__).with_name("test_suite_main.py"))
        command = [sys.executable, main, "-p", "no:cacheprovider", f"--rootdir={copy}", *options, str(problem.tests)]
        variables = {} if self.plugins else {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        return run_once(command, self.deadline, directory=copy, request={}, variables=variables, network=self.network)

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


@contextmanager
def _copied(problem: SuiteProblem, text: str) -> Generator[Path]:
    """The whole root with the candidate's text in place. Raises `UserError` when the root is too large for that."""
    total = 0
    for path in files_below(problem.root):
        if not path.is_symlink() and not set(NOT_COPIED) & set(path.relative_to(problem.root).parts):
            total += path.stat().st_size
        if total > MOST_BYTES:
            raise UserError(
                f"{problem.root} holds more than {MOST_BYTES >> 20} MiB, too much to copy for each candidate: "
                "put the file and its tests into a folder of their own"
            )
    folder = Path(tempfile.mkdtemp(prefix="loopwright-"))
    try:
        copy = folder / "copy"
        shutil.copytree(problem.root, copy, ignore=shutil.ignore_patterns(*NOT_COPIED), symlinks=True)
        (copy / problem.file).write_text(text, encoding="utf-8")
        yield copy
    finally:
        remove_tree(folder)


def _watched(problem: SuiteProblem, copy: Path) -> dict[str, str]:
    """Path within a copy -> its state, of what is locked and of all that could change what Python or pytest does.

    With the time of the last change, which cannot be set: a file that was edited and restored is a file that changed.
    """
    states: dict[str, str] = {}
    for path in files_below(copy):
        name = path.relative_to(copy).as_posix()
        if name in problem.locked or path.suffix in CODE_SUFFIXES:
            found = path.lstat()
            states[name] = f"{found.st_mode} {found.st_ino} {found.st_ctime_ns} {file_digest(path)}"
    return states


def _difference(before: Mapping[str, str], after: Mapping[str, str]) -> str | None:
    """The first path whose state differs."""
    return next((path for path in sorted({*before, *after}) if before.get(path) != after.get(path)), None)
