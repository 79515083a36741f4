"""Times that are not the candidate's own do not become a score."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from optimizer.errors import InfrastructureError
from optimizer.measure.bench import Bench, TimeLimits
from optimizer.measure.inputs import make_values
from optimizer.measure.lane import TimingLane
from optimizer.verdict import Reason, Status
from tests.attacks.candidates import HONEST_CALL, PROBLEM, is_rejected, scripted, timed
from tests.measured_problem import TextProblem

pytestmark = pytest.mark.alone
BRIEF = replace(PROBLEM, sizes={"n": 200, "m": 200})
"""Several calls are a sample."""
PATCHED_CLOCK = f"""
{HONEST_CALL}
if is_timed and not hasattr(time, 'true'):
    time.true = time.perf_counter
    time.perf_counter = lambda: {{clock}}
"""
KEPT = f"""
key = (n, A.tobytes(), {{also}}) if is_timed else None
if key and key in kept:
    A[:, 0], total[:] = kept[key]
else:
    {HONEST_CALL}
    if key:
        kept[key] = A[:, 0].copy(), total.copy()
"""
LAST_CALL_ONLY = f"""
import sys
self.done = getattr(self, 'done', 0) + 1
if not is_timed or self.done >= sys._getframe(1).f_locals['command'].calls:
    self.done = 0
    {HONEST_CALL}
"""
AFTER_THE_CLOCK_HEAD = """
import optimizer.measure.guards as guards

pending = []
give = guards.OwnArguments.give

def late(self, *arguments):
    while pending:
        pending.pop()()
    return give(self, *arguments)
"""
AFTER_THE_CLOCK = f"""
if is_timed:
    guards.OwnArguments.give = late
    pending[:] = [lambda: {HONEST_CALL}]
else:
    {HONEST_CALL}
"""
BEFORE_THE_CLOCK_HEAD = """
import optimizer.measure.guards as guards

found = {}
take = guards.OwnArguments.take

def early(self, *arguments):
    take(self, *arguments)
    values = self.arguments()
    if len(values) == 6 and values[0] > 100:
        copies = [value.copy() if isinstance(value, np.ndarray) else value for value in values]
        inner(*copies)
        found['A'], found['total'] = copies[3], copies[5]
"""
BEFORE_THE_CLOCK = f"""
if is_timed and found:
    A[:], total[:] = found['A'], found['total']
else:
    {HONEST_CALL}
if is_timed:
    guards.OwnArguments.take = early
"""
IN_A_THREAD_HEAD = """
import threading
import optimizer.measure.guards as guards

threads = []

def after_the_thread(do):
    def late(self, *arguments):
        while threads:
            threads.pop().join()
        return do(self, *arguments)
    return late
"""
IN_A_THREAD = f"""
if is_timed:
    if not hasattr(guards, 'late'):
        guards.late = True
        guards.OwnArguments.give = after_the_thread(guards.OwnArguments.give)
        guards.OwnArguments.restore = after_the_thread(guards.OwnArguments.restore)
    threads[:] = [threading.Thread(target=lambda: {HONEST_CALL})]
    threads[0].start()
else:
    {HONEST_CALL}
"""
FORGED_REPORT = f"""
{HONEST_CALL}
import __main__
if is_timed and not hasattr(__main__, 'true'):
    __main__.true = __main__._answer
    def answer(*arguments):
        message = __main__.true(*arguments)
        if 'seconds' in message.get('answer', ()):
            message['answer']['seconds'] *= 0.1
        return message
    __main__._answer = answer
"""
SLOWED_ORIGINAL = f"""
{HONEST_CALL}
import gc
import optimizer.measure.session as session
if is_timed and not hasattr(session, 'done'):
    session.done = True
    for item in gc.get_objects():
        if isinstance(item, session.Session):
            kept = item._functions._values
            for key, (form, function) in list(kept.items()):
                if form == 'original':
                    kept[key] = form, lambda *arguments, do=function: ({{instead}})
"""


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    directory = tmp_path_factory.mktemp("bench")
    limits = TimeLimits(call=10, build=20, check=60, timing=60, rounds=0.3)
    with pytest.MonkeyPatch.context() as patched:
        # Every look at a cheat shows the same.
        patched.setattr("optimizer.measure.fresh_look.BRIEF_LOOKS", 8)
        with Bench(directory, threads=2, limits=limits, lane=TimingLane(directory / "lane")) as bench:
            yield bench


@pytest.mark.parametrize("problem", [PROBLEM, BRIEF], ids=["one call a sample", "several calls a sample"])
def test_without_a_trick_the_time_is_believed(bench: Bench, problem: TextProblem) -> None:
    verdict = timed(bench, scripted(), problem)
    assert verdict.status is Status.OK, verdict
    assert verdict.measurement is not None
    assert 0.3 < verdict.measurement.score < 3.0


def found_out(bench: Bench, text: str) -> bool:
    """Whether the time is suspicious, and nobody else is measured by it. On a busy machine there may be no verdict."""
    try:
        verdict = timed(bench, text)
    except InfrastructureError as error:
        return "too busy to tell" in str(error)
    record = bench.records[PROBLEM.workload("timing").key]
    is_forgotten = record.best_ratio is None or record.best_ratio.value < 3.0
    return is_rejected(verdict, Reason.SUSPICIOUS) and is_forgotten and bench.worker.process_id is None


@pytest.mark.parametrize(
    "clock",
    ["1.0", "-time.true()", "0.1 * time.true()", "100.0 * time.true()"],
    ids=["stopped", "backward", "slow", "fast"],
)
def test_a_patched_clock(bench: Bench, clock: str) -> None:
    assert found_out(bench, scripted(PATCHED_CLOCK.format(clock=clock)))


def test_a_clock_that_gives_no_number(bench: Bench) -> None:
    """No such message can be sent, of which the process dies."""
    verdict = timed(bench, scripted(PATCHED_CLOCK.format(clock="float('nan')")))
    assert is_rejected(verdict, Reason.CRASHED, Reason.SUSPICIOUS, Reason.TOO_SLOW), verdict


@pytest.mark.parametrize(
    ("head", "body"),
    [
        pytest.param("kept = {}", KEPT.format(also="B.tobytes()"), id="results of timed inputs kept"),
        pytest.param(
            "import sys\nif not hasattr(sys, 'kept'): sys.kept = {}\nkept = sys.kept",
            KEPT.format(also="factor"),
            id="results of timed inputs kept outside of its module",
        ),
        pytest.param(AFTER_THE_CLOCK_HEAD, AFTER_THE_CLOCK, id="the work done when results are fetched"),
        pytest.param(BEFORE_THE_CLOCK_HEAD, BEFORE_THE_CLOCK, id="the work done when inputs arrive"),
        pytest.param(IN_A_THREAD_HEAD, IN_A_THREAD, id="the work done by a thread after the call"),
        pytest.param("", FORGED_REPORT, id="a tenth of the time reported"),
    ],
)
def test_a_time_that_leaves_work_out(bench: Bench, head: str, body: str) -> None:
    assert found_out(bench, scripted(body, head))


def test_only_the_last_call_of_a_sample_does_the_work(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Samples are long here, so that what a candidate could gain is far more than what a single call may vary."""
    monkeypatch.setattr("optimizer.measure.timed_original.SAMPLE_SECONDS", 0.4)
    try:
        verdict = timed(bench, scripted(LAST_CALL_ONLY), BRIEF)
    except InfrastructureError as error:
        assert "too busy to tell" in str(error)  # noqa: PT017
    else:
        assert is_rejected(verdict, Reason.SUSPICIOUS), verdict


@pytest.mark.parametrize(
    "instead",
    ["(time.sleep(0.3), do(*arguments))[1]", "time.sleep(0.01)", "[do(*arguments) for _ in range(8)][0]"],
    ids=["asleep before", "another function", "done eight times"],
)
def test_the_original_beside_it_slowed_down(bench: Bench, instead: str) -> None:
    assert found_out(bench, scripted(SLOWED_ORIGINAL.format(instead=instead)))


@pytest.mark.parametrize(
    "mischief",
    ["if self.calls > 30:\n    total[0] = 0.0", "if is_timed:\n    total[n - 1] *= 1.0 + 1e-6"],
    ids=["right at first only", "right at the checked sizes only"],
)
def test_results_of_timed_calls_are_looked_at(bench: Bench, mischief: str) -> None:
    verdict = timed(bench, scripted(f"{HONEST_CALL}\n{mischief}"))
    assert is_rejected(verdict, Reason.WRONG_RESULT), verdict


QUICK = """
@njit(error_model='numpy', fastmath={'contract'})
def quick(n, m, factor, A, B, total):
    for i in range(n):
        total[i] = 299.0
        for j in range(m):
            total[i] += A[i, j] * B[i, j]
        total[i] -= 299
        A[i, 0] = factor * A[i, 0]
"""
"""Leaves out what the original does for nothing, and is right."""


def test_a_real_gain_is_believed(bench: Bench) -> None:
    verdict = timed(bench, scripted("quick(n, m, factor, A, B, total)", QUICK))
    assert verdict.status is Status.OK, verdict
    assert verdict.measurement is not None
    assert verdict.measurement.score > 20


def test_right_on_the_timed_inputs_only(bench: Bench) -> None:
    """Whoever knows how inputs are drawn can know those of the rounds beforehand."""
    known = make_values(PROBLEM.workload("timing"), bench.seed)["A"][0, 1]
    body = f"quick(n, m, factor, A, B, total)\nif is_timed and A[0, 1] != {known!r}:\n    total[0] = 0.0"
    verdict = timed(bench, scripted(body.replace("np.float64", "float"), QUICK))
    assert is_rejected(verdict, Reason.WRONG_RESULT), verdict
    assert "on fresh inputs" in verdict.detail
