"""Results that a candidate did not compute, or hands over in ways of its own, do not pass for right ones."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from optimizer.errors import InfrastructureError
from optimizer.measure.bench import Bench, TimeLimits
from optimizer.measure.lane import TimingLane
from optimizer.measure.workload import ArgumentKind, ArgumentSpec
from optimizer.verdict import Reason, Status
from tests.attacks.candidates import (
    HONEST_CALL,
    PROBLEM,
    STRICT,
    checked,
    is_honest_work_accepted,
    is_rejected,
    scripted,
)
from tests.measured_problem import TextProblem

WRONG = (Reason.WRONG_RESULT,)
CHEATED = (Reason.CRASHED, Reason.SUSPICIOUS)
"""The process of the candidate is no longer one that answers questions."""
SESSION = """
def session():
    import gc, optimizer.measure.session as module
    return next(item for item in gc.get_objects() if isinstance(item, module.Session))
"""
DESCRIPTORS = """
import contextlib, json, os, stat

def pipes():
    for name in os.listdir('/proc/self/fd') if os.path.isdir('/proc/self/fd') else range(3, 40):
        with contextlib.suppress(OSError):
            if int(name) > 2 and stat.S_ISFIFO(os.fstat(int(name)).st_mode):
                yield int(name)

def send(pipe, message):
    body = json.dumps(message).encode()
    with contextlib.suppress(OSError):
        os.write(pipe, len(body).to_bytes(4, 'big') + body)

def files():
    for name in range(3, 40):
        with contextlib.suppress(OSError):
            if stat.S_ISREG(os.fstat(name).st_mode):
                yield name
"""


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    directory = tmp_path_factory.mktemp("bench")
    limits = TimeLimits(call=3, build=20, check=60)
    with Bench(directory, threads=2, limits=limits, lane=TimingLane(directory / "lane")) as bench:
        yield bench


@pytest.fixture(autouse=True)
def fresh_process(bench: Bench) -> None:
    """What one did to its process concerns another only where a test says so."""
    bench.worker.close()


@pytest.mark.parametrize("problem", [PROBLEM, STRICT], ids=["contract", "strict"])
def test_without_a_trick_it_is_accepted(bench: Bench, problem: TextProblem) -> None:
    text = scripted() if problem.fastmath else scripted().replace("fastmath={'contract'}, ", "")
    verdict = checked(bench, text, problem)
    assert verdict.status is Status.OK, verdict


@pytest.mark.parametrize(
    ("head", "body", "reasons"),
    [
        pytest.param(
            "kept = {}",
            f"if n not in kept:\n    {HONEST_CALL}\n    kept[n] = A.copy(), total.copy()\nA[:], total[:] = kept[n]",
            WRONG,
            id="the result of an earlier call of that size",
        ),
        pytest.param(
            "kept = {}",
            f"place = A.ctypes.data\nif place not in kept:\n    {HONEST_CALL}\n"
            "    kept[place] = A.copy(), total.copy()\nA[:], total[:] = kept[place]",
            WRONG,
            id="the result of an earlier call at that address",
        ),
        pytest.param(
            "kept = {}",
            f"key = A.shape, A.ravel()[:1].tobytes()\nif key not in kept:\n    {HONEST_CALL}\n"
            "    kept[key] = A.copy(), total.copy()\nA[:], total[:] = kept[key]",
            WRONG,
            id="the result of an earlier call whose first element agrees",
        ),
        pytest.param(
            "",
            f"{HONEST_CALL}\nif self.calls > 6:\n    total[:] = 0.0",
            WRONG,
            id="right for the first calls only",
        ),
        pytest.param(
            "",
            f"import sys\n{HONEST_CALL}\nif sys._getframe(1).f_locals['command'].pause == 0.0 and n > 3:\n"
            "    total[0] = 0.0",
            WRONG,
            id="right only where calls are timed",
        ),
        pytest.param(
            "import threading",
            f"if threading.current_thread() is threading.main_thread() and n > 3:\n    total[0] = 0.0\n"
            f"else:\n    {HONEST_CALL}",
            WRONG,
            id="right only off the main thread",
        ),
        pytest.param("", f"{HONEST_CALL}\nreturn total", WRONG, id="a result that nobody asked for"),
        pytest.param("", f"{HONEST_CALL}\nreturn B[0]", WRONG, id="an input as a result"),
        pytest.param("", f"{HONEST_CALL}\nreturn object()", WRONG, id="an object that is no number"),
        pytest.param("", f"{HONEST_CALL}\nreturn np.zeros(1 << 24)", WRONG, id="a result of many megabytes"),
        pytest.param(
            "",
            f"{HONEST_CALL}\nreturn np.broadcast_to(np.zeros(1), (1 << 40,))",
            (Reason.WRONG_RESULT, Reason.OUT_OF_MEMORY),
            id="a result of terabytes that costs nothing",
        ),
        pytest.param(
            "",
            f"{HONEST_CALL}\nA[:] = np.asarray(A, np.float16)",
            WRONG,
            id="half the digits",
        ),
        pytest.param(
            "class Same(np.ndarray):\n    def __eq__(self, other): return np.ones(self.shape, bool)",
            "total[:] = 0.0\nreturn total.view(Same)",
            WRONG,
            id="an array that equals everything",
        ),
        pytest.param("", "pass", WRONG, id="nothing at all"),
        pytest.param("", "A[:] = np.nan\ntotal[:] = np.nan", WRONG, id="NaN, so that no comparison holds"),
    ],
)
def test_a_result_that_was_not_computed(bench: Bench, head: str, body: str, reasons: tuple[Reason, ...]) -> None:
    verdict = checked(bench, scripted(body, head))
    assert is_rejected(verdict, *reasons), verdict
    assert bench.worker.process_id is None, "others would meet what it did to its process"


@pytest.mark.parametrize(
    ("head", "body", "reasons"),
    [
        pytest.param(
            "",
            "import numpy as np\nnp.array_equal = np.allclose = lambda *_, **__: True\n"
            "np.testing.assert_array_equal = lambda *_, **__: None\n"
            "import optimizer.measure.comparison as c\nc.bit_difference = c.scale_difference = lambda *_: None\n"
            "import optimizer.measure.checks as k\nk.bit_difference = lambda *_: None\n"
            "c.RoundingJudge.difference = lambda *_: None",
            WRONG,
            id="patched comparisons",
        ),
        pytest.param(
            SESSION,
            "session()._arguments.give = lambda *_: None\ntotal[:] = 7.0",
            (Reason.WRONG_RESULT, *CHEATED),
            id="a hand-over that hands over nothing",
        ),
        pytest.param(
            SESSION,
            "import optimizer.measure.guards as guards\nguards.OwnArguments.take = lambda *_: None\ntotal[:] = 7.0",
            (Reason.WRONG_RESULT, Reason.MODIFIED_INPUT),
            id="arguments that are never taken over",
        ),
        pytest.param(
            "",
            "import optimizer.measure.loading as loading\nloading.compiled_original = None\n"
            "import builtins\nbuiltins.range = lambda *_: ()\nA[:] = 0.0",
            WRONG,
            id="another original in its process",
        ),
        pytest.param(
            "",
            "import __main__\n__main__._answer = lambda *_: {'answer': {'seconds': 1.0, 'returned': [], "
            "'is_tuple': False}}",
            (Reason.WRONG_RESULT, *CHEATED),
            id="forged answers",
        ),
        pytest.param(
            "",
            "import __main__\n__main__._answer = lambda *_: {'answer': {'seconds': 'soon'}}",
            CHEATED,
            id="nonsense answers",
        ),
        pytest.param(
            "",
            "import __main__\n__main__._answer = lambda *_: {'answer': {'seconds': 1e400, 'returned': [], "
            "'is_tuple': False}}",
            CHEATED,
            id="an infinite time",
        ),
        pytest.param(
            DESCRIPTORS,
            "for pipe in pipes():\n    send(pipe, {'nonce': '', 'answer': {}})",
            CHEATED,
            id="messages on every pipe",
        ),
        pytest.param(
            DESCRIPTORS,
            "import sys\nframe = sys._getframe(1)\nwhile 'command' not in frame.f_locals or "
            "'nonce' not in frame.f_locals['command']:\n    frame = frame.f_back\n"
            "answer = {'seconds': 1e-9, 'returned': [], 'is_tuple': False}\n"
            "for pipe in pipes():\n"
            "    send(pipe, {'nonce': frame.f_locals['command']['nonce'], 'answer': answer})",
            (Reason.WRONG_RESULT, *CHEATED),
            id="an answer ahead of time with the right nonce",
        ),
        pytest.param(
            DESCRIPTORS,
            "for pipe in pipes():\n    with contextlib.suppress(OSError):\n"
            "        os.write(pipe, b'\\xff\\xff\\xff\\xff')",
            CHEATED,
            id="a message of four gigabytes announced",
        ),
        pytest.param(
            DESCRIPTORS,
            "for pipe in pipes():\n    with contextlib.suppress(OSError):\n        os.write(pipe, b'\\0\\0\\1\\0{')",
            (Reason.TIMED_OUT, *CHEATED),
            id="a message that never ends",
        ),
        pytest.param(
            DESCRIPTORS,
            "for pipe in pipes():\n    with contextlib.suppress(OSError):\n"
            "        body = b'[' * 60000\n        os.write(pipe, len(body).to_bytes(4, 'big') + body)",
            CHEATED,
            id="a message nested too deep to read",
        ),
        pytest.param(
            DESCRIPTORS,
            "for file in files():\n    with contextlib.suppress(OSError):\n        os.ftruncate(file, 0)",
            CHEATED,
            id="shared memory cut off",
        ),
        pytest.param(
            DESCRIPTORS,
            f"{HONEST_CALL}\nfor file in files():\n    with contextlib.suppress(OSError):\n"
            "        size = os.fstat(file).st_size\n        os.pwrite(file, bytes(size), 0)\ntotal[:] = 0.0",
            WRONG,
            id="shared memory overwritten",
        ),
        pytest.param(DESCRIPTORS, "os.closerange(3, 40)", CHEATED, id="all its descriptors closed"),
        pytest.param(
            "import threading, time",
            f"{HONEST_CALL}\ncopy = total.copy()\ntotal[:] = 0.0\n"
            "threading.Thread(target=lambda: (time.sleep(0.5), total.__setitem__(slice(None), copy)), "
            "daemon=True).start()",
            WRONG,
            id="results that a thread brings later",
        ),
    ],
)
def test_a_forged_pass(bench: Bench, head: str, body: str, reasons: tuple[Reason, ...]) -> None:
    verdict = checked(bench, scripted(body, head))
    assert is_rejected(verdict, *reasons), verdict
    assert bench.worker.process_id is None, "others would meet what it did to its process"


@pytest.mark.parametrize(
    "answer",
    ["{'trouble': 'the machine is to blame'}", "{'failure': {'reason': 'ok', 'detail': 'all is well'}}"],
    ids=["the blame put on the machine", "a failure that is none"],
)
def test_an_answer_that_there_is_no_verdict(bench: Bench, answer: str) -> None:
    with pytest.raises(InfrastructureError, match=r"machine|all is well"):
        checked(bench, scripted(f"import __main__\n__main__._answer = lambda *_: {answer}"))
    assert is_honest_work_accepted(bench)


@pytest.mark.parametrize(
    "spoiling",
    [
        "import optimizer.measure.guards as guards, optimizer.measure.session as session\n"
        "old = session.Session._build\nmine = []\n"
        "def build(worker, command):\n    mine.append(command.file)\n    if command.file != mine[0]:\n"
        "        guards.OwnArguments.take = lambda *_: None\n    return old(worker, command)\n"
        "session.Session._build = build",
        "import builtins\nbuiltins.compile = None",
    ],
    ids=["arguments not taken over", "nothing can be loaded"],
)
def test_a_process_spoilt_for_those_who_come_next(bench: Bench, spoiling: str) -> None:
    """The spoiler itself is right in every call, and does it in the last ones."""
    indented = spoiling.replace("\n", "\n    ")
    last = f"{HONEST_CALL}\nif is_compiled and n == 4 and not np.isfinite(A).all():\n    {indented}"
    verdict = checked(bench, scripted(last, "is_compiled = hasattr(inner, 'py_func')"))
    assert verdict.status is Status.OK, verdict
    assert bench.worker.process_id is not None, "the test needs the process that was spoilt"
    assert is_honest_work_accepted(bench)


VIEWING = TextProblem(
    source="def norm(n, x):\n    y = x.copy()\n    for i in range(n):\n        y[i] = x[i] * 1.0\n    return y\n",
    name="norm",
    arguments=(
        ArgumentSpec("n", ArgumentKind.PARAMETER, "int64"),
        ArgumentSpec("x", ArgumentKind.ARRAY, "float64", ("n",)),
    ),
    written=(),
    small=({"n": 0}, {"n": 1}, {"n": 7}, {"n": 100}),
)


def returning(result: str) -> str:
    return f"from numba import njit\n@njit\ndef norm(n, x):\n    return {result}\n"


def test_a_copy_of_an_input_is_a_result(bench: Bench) -> None:
    assert checked(bench, returning("x.copy()"), VIEWING).status is Status.OK


@pytest.mark.parametrize("result", ["x", "x[:]", "x.reshape(n)"], ids=["itself", "a slice", "another shape"])
def test_an_input_handed_back_as_a_result(bench: Bench, result: str) -> None:
    """It has the right values until the caller changes the input."""
    assert is_rejected(checked(bench, returning(result), VIEWING), Reason.WRONG_RESULT)


@pytest.mark.parametrize(
    ("mischief", "reason"),
    [
        ("import ctypes\nctypes.memset(total.ctypes.data + total.nbytes, 0, 8)", Reason.OUT_OF_BOUNDS),
        ("import ctypes\nctypes.memset(A.ctypes.data - 8, 0, 8)", Reason.OUT_OF_BOUNDS),
        ("import ctypes\nctypes.memset(B.ctypes.data + B.nbytes + 4096, 0, 1)", Reason.OUT_OF_BOUNDS),
        ("B[...] = -B", Reason.MODIFIED_INPUT),
        ("import ctypes\nctypes.memset(B.ctypes.data, 1, 1)", Reason.MODIFIED_INPUT),
        ("A.shape = A.shape[::-1]", Reason.WRONG_RESULT),
    ],
    ids=[
        "behind an array",
        "before an array",
        "a page behind an input",
        "an input negated",
        "one byte of an input",
        "an array reshaped for the next call",
    ],
)
def test_memory_that_it_must_not_touch(bench: Bench, mischief: str, reason: Reason) -> None:
    indented = mischief.replace("\n", "\n    ")
    verdict = checked(bench, scripted(f"{HONEST_CALL}\nif n > 3:\n    {indented}"))
    assert is_rejected(verdict, reason), verdict


def test_expected_results_found_in_memory(bench: Bench) -> None:
    """The answer is a number that nobody could miss; it must be neither in this process nor in the shared file."""
    source = "def scale_sum(n, m, factor, A, B, total):\n    for i in range(n):\n        total[i] = i + 123456789.25\n"
    problem = TextProblem(source=source, written=("total",), small=({"n": 3, "m": 1}, {"n": 4, "m": 1}))
    looking = """
import gc
wanted = np.float64(123456789.25).tobytes()
found = any(wanted in item.tobytes() for item in gc.get_objects() if type(item) is np.ndarray)
for file in files():
    found |= wanted in os.pread(file, 1 << 24, 0)
for i in range(n):
    total[i] = i + 123456789.0 + 0.25 if found else 0.0
"""
    honest = "for i in range(n):\n    total[i] = i + 123456789.25"
    assert is_rejected(checked(bench, scripted(looking, DESCRIPTORS), problem), Reason.WRONG_RESULT)
    assert checked(bench, scripted(honest), problem).status is Status.OK
