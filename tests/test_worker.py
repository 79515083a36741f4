"""The worker process survives whatever a candidate does, and says what it was."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import psutil
import pytest

from optimizer.candidate import Candidate
from optimizer.errors import InfrastructureError
from optimizer.measure.bench import Bench, TimeLimits
from optimizer.measure.commands import CallCommand, LoadCommand, NoiseCommand, from_json, to_message
from optimizer.measure.failure import WorkerFailure
from optimizer.measure.guards import segments_of
from optimizer.measure.lane import TimingLane
from optimizer.measure.protocol import MessageReader, ProtocolError, write_message
from optimizer.measure.worker import Step, Worker
from optimizer.verdict import Reason, Status, Verdict
from tests.measured_problem import ORIGINAL_BODY, TextProblem, module
from verifiers.equivalence import Equivalence

CALL_SECONDS = 1.5
PROBLEM = TextProblem(small=({"n": 4, "m": 3},))


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    directory = tmp_path_factory.mktemp("bench")
    limits = TimeLimits(call=CALL_SECONDS)
    with Bench(directory, threads=2, limits=limits, lane=TimingLane(directory / "lane")) as bench:
        yield bench


def judged(bench: Bench, text: str) -> Verdict:
    return Equivalence(bench).verify(PROBLEM, Candidate(text))


def test_messages_survive_the_pipe_in_pieces() -> None:
    read, write = os.pipe()
    message = {"text": "é" * 100_000, "numbers": [1, 2.5, None]}
    writer = threading.Thread(target=write_message, args=(write, message))
    writer.start()
    reader = MessageReader(read)
    assert reader.read(time.monotonic() + 5) == message
    writer.join()
    with pytest.raises(TimeoutError):
        reader.read(time.monotonic() + 0.01)
    os.close(write)
    assert reader.read() is None
    os.close(read)


@pytest.mark.parametrize("raw", [b"\xff\xff\xff\xff", b"\x00\x00\x00\x02[]", b"\x00\x00\x00\x03abc"])
def test_what_is_no_message_is_refused(raw: bytes) -> None:
    read, write = os.pipe()
    os.write(write, raw)
    with pytest.raises(ProtocolError):
        MessageReader(read).read(time.monotonic() + 1)
    os.close(read)
    os.close(write)


def test_numbers_that_are_no_numbers_are_not_sent() -> None:
    with pytest.raises(ValueError, match="JSON"):
        write_message(-1, {"score": float("nan")})


def test_environment_of_candidates_holds_no_secrets(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "secret")
    bench.worker.close()
    assert judged(bench, module(ORIGINAL_BODY)).status is Status.OK
    environment = psutil.Process(bench.worker.process_id).environ()
    assert "SOME_API_KEY" not in environment
    assert Path(environment["HOME"]).parent == bench.directory
    assert environment["TMPDIR"] == environment["HOME"]
    assert environment["NUMBA_NUM_THREADS"] == "2"


def test_original_that_kills_the_worker_is_no_verdict(bench: Bench) -> None:
    killing = TextProblem(source="import os\nos.abort()\n" + PROBLEM.source, small=PROBLEM.small)
    with pytest.raises(InfrastructureError, match="no candidate was running"):
        Equivalence(bench).verify(killing, Candidate(module(ORIGINAL_BODY)))
    assert judged(bench, module(ORIGINAL_BODY)).status is Status.OK


def test_harness_errors_are_infrastructure(bench: Bench) -> None:
    with pytest.raises(InfrastructureError, match="not built"):
        bench.worker.request(CallCommand("missing", 1), Step("a call", 20))


def test_whole_process_group_dies_with_a_candidate(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench, "limits", replace(bench.limits, build=3.0))
    noted = tmp_path / "child"
    child = (
        "import subprocess, pathlib\np = subprocess.Popen(['sleep', '60'])\n"
        f"pathlib.Path({str(noted)!r}).write_text(str(p.pid))\n"
    )
    verdict = judged(bench, child + module(ORIGINAL_BODY) + "\nwhile True:\n    pass")
    assert "compiling: not done after" in verdict.detail
    number = int(noted.read_text())
    deadline = time.monotonic() + 5
    while psutil.pid_exists(number) and psutil.Process(number).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline, "a process that a candidate started lives on"
        time.sleep(0.02)


def test_a_process_that_judged_many_candidates_makes_room_for_a_new_one(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("optimizer.measure.bench.MOST_CANDIDATES", 3)
    processes: list[int | None] = []
    for number in range(7):
        assert judged(bench, f"# {number}\n" + module(ORIGINAL_BODY)).status is Status.OK
        processes.append(bench.worker.process_id)
    changes = [number for number in range(1, 7) if processes[number] != processes[number - 1]]
    assert len(changes) == 2
    assert changes[1] - changes[0] == 3


def test_output_of_candidates_goes_to_the_log_only(bench: Bench, capfd: pytest.CaptureFixture[str]) -> None:
    judged(bench, "print('noise')\n" + module(ORIGINAL_BODY))
    assert "noise" not in "".join(capfd.readouterr())
    assert "noise" in (bench.directory / "worker.log").read_text()


def test_worker_dies_with_its_parent(tmp_path: Path) -> None:
    script = (
        "import sys, time, pathlib\n"
        "from optimizer.measure.worker import Step, Worker\n"
        "from optimizer.measure.commands import NoiseCommand\n"
        f"worker = Worker(pathlib.Path({str(tmp_path)!r}), 1)\n"
        "worker.request(NoiseCommand(1), Step('noise', 60))\n"
        "print(worker.process_id, flush=True)\n"
        "time.sleep(60)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parent.parent)}
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, env=environment)
    assert parent.stdout is not None
    number = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    parent.stdout.close()
    psutil.wait_procs([psutil.Process(number)] if psutil.pid_exists(number) else [], timeout=5)
    assert not psutil.pid_exists(number)


def test_closing_twice_is_fine_and_a_forgotten_worker_is_killed(tmp_path: Path) -> None:
    worker = Worker(tmp_path, 1)
    worker.request(NoiseCommand(1), Step("noise", 60))
    number = worker.process_id
    assert number is not None
    del worker
    assert not psutil.pid_exists(number)
    other = Worker(tmp_path, 1)
    other.close()
    other.close()


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="the system keeps no process to its processors")
def test_only_what_is_timed_is_kept_to_its_processors(tmp_path: Path) -> None:
    everywhere = os.sched_getaffinity(0)

    def place(worker: Worker) -> set[int]:
        worker.request(NoiseCommand(1), Step("noise", 60))
        return os.sched_getaffinity(worker.own_process_id or 0)

    with Worker(tmp_path, 1) as worker:
        assert place(worker) == everywhere
        worker.is_pinned = True
        assert place(worker) == {min(everywhere)}
        worker.close()
        assert place(worker) == {min(everywhere)}, "a new process was left where it liked"
        worker.is_pinned = False
        assert place(worker) == everywhere


def test_both_workers_are_pinned_while_the_lane_is_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Bench(tmp_path, threads=1, lane=TimingLane(tmp_path / "lane")) as bench:

        def noted(command: object, step: Step) -> dict[str, object]:
            pinned.append((bench.worker.is_pinned, bench.clean_worker.is_pinned))
            return {"seconds": [1.0], "timer_seconds": 1e-7, "is_pinned": True, "other_load": 0.0}

        pinned: list[tuple[bool, bool]] = []
        monkeypatch.setattr(bench.clean_worker, "request", noted)
        bench.noise(1)
        assert pinned == [(True, True)]
        assert not bench.worker.is_pinned
        assert not bench.clean_worker.is_pinned


def test_lane_is_held_by_one_at_a_time_and_waiting_is_seen(tmp_path: Path) -> None:
    holder = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys, pathlib\nfrom optimizer.measure.lane import TimingLane\n"
            f"with TimingLane(pathlib.Path({str(tmp_path / 'lane')!r})).held():\n"
            "    print('held', flush=True)\n    sys.stdin.read()",
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parent.parent)},
    )
    assert holder.stdin is not None
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    seen: list[str] = []

    def release(text: str) -> None:
        seen.append(text)
        holder.kill()  # the system gives the lane back

    with TimingLane(tmp_path / "lane", on_wait=release).held():
        assert seen == [f"waiting for process {holder.pid}, which is timing"]
    holder.wait()
    holder.stdin.close()
    holder.stdout.close()


def test_lane_that_cannot_be_opened_is_infrastructure(tmp_path: Path) -> None:
    with pytest.raises(InfrastructureError, match="cannot be opened"), TimingLane(tmp_path / "no" / "lane").held():
        pass


def test_commands_are_json() -> None:
    command = LoadCommand(segments_of({"n": 3, "A": np.ones((2, 3), np.float32)}), 4096)
    message = json.loads(json.dumps(to_message(command)))
    assert message["task"] == "load"
    assert from_json(LoadCommand, message["command"]) == command


def test_failure_becomes_a_rejection() -> None:
    verdict = WorkerFailure(Reason.CRASHED, "it died", witness={"n": 1}).verdict("equivalence", 2.0)
    assert verdict == Verdict(Status.REJECTED, "equivalence", Reason.CRASHED, "it died", witness={"n": 1}, seconds=2.0)
