"""The simplest verifier: one function of the user, `check(text) -> bool | float | (float, str) | Verdict`.

Each call has a process of its own in the sandbox, in an empty temporary folder, so a candidate that the check executes
can end that process and no more. The process answers on a private pipe; the verdict is made here. The check and the
modules beside it that it loads are locked by hash. A check that executes candidates in its own process still trusts
them not to search its memory for a way to forge its answer: one that must not should start a further process.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import cache_from_source
from pathlib import Path
from typing import Any, ClassVar, cast

from optimizer.candidate import Candidate
from optimizer.errors import InfrastructureError, UserError
from optimizer.protocols import Problem, Verifier
from optimizer.suite_problem import file_digest
from optimizer.trial_json import verdict_from_json
from optimizer.verdict import Measurement, Reason, Status, Verdict
from verifiers.sandbox import Ended, run_once

ASSURANCE = "tested only"


@dataclass(frozen=True, slots=True)
class FunctionCheck:
    """Judge a text by a user's function: True or a finite score accepts, False or anything else rejects."""

    name: ClassVar[str] = "function-check"

    place: str
    """FILE.py:FUNCTION"""
    deadline: float = 10.0
    """Seconds for one call, with the start of its process."""
    network: bool = True
    """Whether the check keeps the network; where the system cannot take it away, it does in any case."""

    _locked: Mapping[str, str] = field(init=False, default_factory=dict[str, str], compare=False)
    """File of the check, or of a module beside it -> its digest when the run began."""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.deadline) and self.deadline > 0):
            raise UserError(f"the deadline of a check must be a number of seconds above 0, not {self.deadline}")
        file, function = self._parts()
        if not function.isidentifier():
            raise UserError(f"say which function checks a candidate, as FILE.py:FUNCTION, not {self.place!r}")
        if not file.is_file():
            raise UserError(f"there is no file {file} to check candidates with")
        ended, answer = self._call({})
        if "setup" in answer:
            raise UserError(f"{file} cannot be used as a check: {answer['setup']}")
        if "result" not in answer:
            raise UserError(f"{file} cannot be used as a check: loading it {_how(ended)}")
        locked = {name: file_digest(Path(name)) for name in {str(file), *answer["loaded"]}}
        object.__setattr__(self, "_locked", locked)

    def verify(self, problem: Any, candidate: Candidate) -> Verdict:
        if changed := self._changed():
            raise UserError(f"the check changed since the run began: {changed}")
        caches = {name: file_digest(Path(cache_from_source(name))) for name in self._locked}
        ended, answer = self._call({"text": candidate.text})
        forged = next((name for name, was in caches.items() if file_digest(Path(cache_from_source(name))) != was), None)
        if touched := self._changed() or forged:
            return self._reject(Reason.TAMPERED, f"the candidate touched {touched}, which it must not")
        if ended.timed_out:
            return self._reject(Reason.TIMED_OUT, f"the check did not end within {self.deadline:g} s")
        if "setup" in answer:
            raise InfrastructureError(f"the check can no longer be loaded: {answer['setup']}")
        if "out_of_memory" in answer:
            return self._reject(Reason.OUT_OF_MEMORY, answer["out_of_memory"])
        if "raised" in answer:
            return self._reject(Reason.FAILED_CHECK, f"the check raised {answer['raised']}")
        if "result" not in answer:
            return self._reject(Reason.CRASHED, f"the process of the check {_how(ended)}")
        return self._verdict_of(answer["result"])

    def _changed(self) -> str | None:
        """The first file of the check that is not as it was."""
        return next((name for name, digest in self._locked.items() if file_digest(Path(name)) != digest), None)

    def _parts(self) -> tuple[Path, str]:
        file, _, function = self.place.rpartition(":")
        return Path(file).resolve(), function

    def _call(self, request: Mapping[str, str]) -> tuple[Ended, Mapping[str, Any]]:
        """How the child ended, and its answer."""
        file, function = self._parts()
        main = str(Path(__file__).with_name("function_check_main.py"))
        ended = run_once(
            [sys.executable, main, str(file), function], self.deadline, request=request, network=self.network
        )
        return ended, ended.answer or {}

    def _verdict_of(self, result: Any) -> Verdict:
        if isinstance(result, dict) and "status" in result:
            return self._own_verdict(cast(dict[str, Any], result))
        note = ""
        if isinstance(result, list) and len(cast(list[Any], result)) == 2:
            result, note = cast(list[Any], result)
            note = str(note)
        if result is False:
            return self._reject(Reason.FAILED_CHECK, note or "the check says no")
        if result is not True and not isinstance(result, int | float):
            shown = cast(dict[str, Any], result).get("type", result) if isinstance(result, dict) else repr(result)
            return self._reject(Reason.FAILED_CHECK, f"the check gave neither a truth value nor a score, but {shown}")
        try:
            score = float(result)
            measurement = Measurement(score, (score, score), 1, "points")
        except (ValueError, OverflowError):
            return self._reject(Reason.FAILED_CHECK, f"the check gave {result}, which is no finite score")
        return Verdict(Status.OK, self.name, detail=note, assurance=ASSURANCE, measurement=measurement)

    def _own_verdict(self, data: Mapping[str, Any]) -> Verdict:
        try:
            verdict = verdict_from_json(data)
        except (KeyError, TypeError, ValueError) as error:
            return self._reject(Reason.FAILED_CHECK, f"the check gave a verdict that cannot be used: {error}")
        return replace(verdict, verifier=self.name, seconds=0.0, assurance=verdict.assurance or ASSURANCE)

    def _reject(self, reason: Reason, detail: str) -> Verdict:
        return Verdict(Status.REJECTED, self.name, reason, detail)


def function_verifiers(
    problem: Problem,
    directory: Path,
    waiting: Callable[[str], None],
    *,
    check: str = "",
    deadline: float = 10.0,
    network: bool = True,
) -> Sequence[Verifier]:
    """The verifiers of a text: `check` as FILE.py:FUNCTION. Raises `UserError` when it cannot be loaded."""
    if not check:
        raise UserError("a text needs a function that checks it: give FILE.py:FUNCTION with --verifier")
    return [FunctionCheck(check, deadline, network)]


def _how(ended: Ended) -> str:
    return "did not end in time" if ended.timed_out else ended.describe()
