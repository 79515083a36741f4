"""Does a mutant change any result? Decided without the cascade, on more inputs than it uses, in a process of its own.

`python -m tests.mutants.judging` reads a question as JSON and prints the answer.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numba
import numpy as np
from pydantic import TypeAdapter

from optimizer.measure.commands import Form
from optimizer.measure.inputs import ValueKind, Values, make_values
from optimizer.measure.loading import plain_function
from optimizer.measure.workload import Workload

ROOT = Path(__file__).resolve().parent.parent.parent
SEEDS = (101, 202, 303)
"""None of them is one of the cascade's."""
PADDING = 64
REPEATS = 40
"""Of a parallel function at the largest size."""
LOOSE_TOLERANCE = 1e-9
ANSWER_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class Question:
    workload: Workload
    right: str
    wrong: str
    sizes: Sequence[Mapping[str, int]]
    threads: int
    compiles: bool
    """Whether the fault may show in compiled code only."""
    keeps_flags: bool
    """Compile with the flags as they are; otherwise without freedom for the compiler."""
    is_loose: bool
    """Whether results may differ as roundings do; otherwise their bits must agree. At extreme magnitudes a rounding
    decides between the largest number and infinity, so those are left out then."""
    seconds: float = 6.0
    """About what the small sizes may take in each half; what was tried until then counts."""


@dataclass(frozen=True, slots=True)
class Answer:
    difference: str | None
    """The first difference found."""
    runs: int
    """How many runs were compared."""


def ask(question: Question) -> Answer | None:
    """None when the process failed or gave no answer in time."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", "tests.mutants.judging"],
            input=json.dumps(asdict(question)),
            capture_output=True,
            text=True,
            timeout=ANSWER_SECONDS,
            cwd=ROOT,
            check=True,
        )
    except (subprocess.TimeoutExpired, subprocess.CalledProcessError):
        return None
    return Answer(**json.loads(done.stdout.splitlines()[-1]))


def answer(question: Question) -> Answer:
    plain = _first_difference(question, _plain_pairs(question), plain=True)
    if plain.difference or not question.compiles:
        return plain
    compiled = _first_difference(question, [_compiled_pair(question)], plain=False)
    return Answer(compiled.difference, plain.runs + compiled.runs)


Function = Callable[..., Any]
Pair = tuple[str, Function, Function]


def _plain_pairs(question: Question) -> list[Pair]:
    name = question.workload.function
    right = plain_function(question.right, "right", name)
    pairs = [("as plain Python", right, plain_function(question.wrong, "wrong", name))]
    if "prange" in question.wrong:
        backward = plain_function(question.wrong, "wrong", name, Form.BACKWARD)
        pairs.append(("as plain Python, parallel loops backward", right, backward))
    return pairs


def _compiled_pair(question: Question) -> Pair:
    texts = [question.right, question.wrong]
    if not question.keeps_flags:
        texts = [re.sub(r"fastmath=(\{[^}]*\}|\w+)(, )?", "", text) for text in texts]
    right, wrong = (_loaded(text, question.workload.function) for text in texts)
    return "compiled", right, wrong


def _loaded(text: str, name: str) -> Function:
    namespace: dict[str, Any] = {"__name__": "judged"}
    exec(compile(text, "judged", "exec"), namespace)
    return namespace[name]


def _first_difference(question: Question, pairs: Sequence[Pair], *, plain: bool) -> Answer:
    start, runs = time.monotonic(), 0
    for memory, values, what, is_last in _cases(question):
        if not is_last and time.monotonic() - start > question.seconds:
            continue
        for how, right, wrong in pairs:
            try:
                expected = memory.left_behind(right, values, plain)
            except (ArithmeticError, LookupError, ValueError, TypeError):
                continue
            for _ in range(REPEATS if is_last and not plain and "prange" in question.wrong else 1):
                runs += 1
                try:
                    got = memory.left_behind(wrong, values, plain)
                except (ArithmeticError, LookupError, ValueError, TypeError, NameError) as error:
                    return Answer(f"{how}, {what}: {type(error).__name__}: {error}", runs)
                if place := _difference(got, expected, question.is_loose):
                    return Answer(f"{how}, {what}: {place}", runs)
    return Answer(None, runs)


def _cases(question: Question) -> Iterator[tuple[Memory, Values, str, bool]]:
    """The last size is the one that is timed, and the only one with fewer cases."""
    for number, sizes in enumerate(question.sizes, 1):
        is_last = number == len(question.sizes)
        memory: Memory | None = None
        for seed in SEEDS[:1] if is_last else SEEDS:
            for kind in ValueKind:
                if question.is_loose and kind is ValueKind.EXTREMES:
                    continue
                values = make_values(question.workload.at(sizes), seed, kind)
                memory = memory or Memory(values)
                yield memory, values, f"size {dict(sizes)}, seed {seed}, {kind.value} values", is_last


class Memory:
    """The same addresses for several calls, with room around each array."""

    def __init__(self, values: Values) -> None:
        self._buffers: dict[str, Any] = {}
        self._arrays: dict[str, Any] = {}
        for name, value in values.items():
            if isinstance(value, np.ndarray):
                buffer = np.empty(value.nbytes + 2 * PADDING * value.itemsize, np.uint8).view(value.dtype)
                self._buffers[name] = buffer
                self._arrays[name] = buffer[PADDING : buffer.size - PADDING].reshape(value.shape)

    def left_behind(self, function: Function, values: Values, plain: bool) -> dict[str, Any]:
        """Every array with what lies around it, and everything returned, after a call."""
        for name, array in self._arrays.items():
            self._buffers[name][:] = 77
            np.copyto(array, values[name])
        arguments = [self._arrays.get(name, value) for name, value in values.items()]
        if plain:
            arguments = [np.float64(value) if isinstance(value, float) else value for value in arguments]
        with np.errstate(all="ignore"):
            returned = function(*arguments)
        results: dict[str, Any] = {name: buffer.copy() for name, buffer in self._buffers.items()}
        parts = returned if isinstance(returned, tuple) else () if returned is None else (returned,)
        return results | {f"the returned value {number}": np.array(part) for number, part in enumerate(parts)}


def _difference(got: Mapping[str, Any], expected: Mapping[str, Any], is_loose: bool) -> str | None:
    if got.keys() != expected.keys():
        return f"{sorted(got)} instead of {sorted(expected)}"
    for name, right in expected.items():
        mine = got[name]
        # Python has one width for scalars.
        if mine.shape != right.shape or (mine.dtype != right.dtype and right.ndim > 0):
            return f"{name} is {mine.dtype}{list(mine.shape)}, not {right.dtype}{list(right.shape)}"
        same = mine == right
        if right.dtype.kind == "f":
            finite = np.abs(right[np.isfinite(right)])
            near = np.abs(mine - right) <= LOOSE_TOLERANCE * finite.max(initial=0.0) if is_loose else same
            zeros = is_loose | (np.signbit(mine) == np.signbit(right))
            same = ((near | same) & zeros) | (np.isnan(mine) & np.isnan(right))
        if not np.all(same):
            return f"{name} differs in {int(np.size(same) - np.count_nonzero(same))} elements"
    return None


def main() -> None:
    question = TypeAdapter(Question).validate_json(sys.stdin.read())
    numba.config.NUMBA_NUM_THREADS = question.threads
    numba.set_num_threads(min(question.threads, numba.get_num_threads()))
    with np.errstate(all="ignore"):
        print(json.dumps(asdict(answer(question))))


if __name__ == "__main__":
    main()
