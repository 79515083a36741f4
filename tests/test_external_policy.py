"""The `external` policy: a person or a program answers the turns of a run through files in a folder."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from optimizer.budget import Ledger, Limits
from optimizer.errors import UserError
from optimizer.events import RunResult, Waiting
from optimizer.journal import Journal, read_events
from optimizer.kernel_problem import KernelProblem
from optimizer.kernel_run import kernel_specification
from optimizer.loop import run_loop
from optimizer.plan import Plan, StopReason
from optimizer.policies.external import External
from optimizer.registry import CASCADES
from optimizer.run import replay, start
from tests.fakes import NumberProblem, NumberVerifier, Watcher
from tests.model_runs import Timing
from verifiers.legality import Legality

Answering = Callable[[Mapping[str, Any]], Any]
"""What somebody writes in answer to a request file; text is written as it is."""


@contextmanager
def answered(folder: Path, answer: Answering) -> Generator[list[dict[str, Any]]]:
    """Somebody who looks into the folder now and then, and answers each new request; gives those that were seen."""
    seen: list[dict[str, Any]] = []
    leave = threading.Event()

    def work() -> None:
        while not leave.wait(0.01):
            for path in sorted(folder.glob("chain-*/*.request.json")):
                response = path.with_name(path.name.replace("request", "response"))
                if not response.exists():
                    request = json.loads(path.read_bytes())
                    seen.append(request)
                    if (text := answer(request)) is not None:
                        response.write_text(text if isinstance(text, str) else json.dumps(text))

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield seen
    finally:
        leave.set()
        thread.join()


def run_external(
    directory: Path, problem: Any = None, plan: Plan | None = None, **options: Any
) -> tuple[RunResult, Watcher]:
    problem = problem or NumberProblem()
    verifiers = [NumberVerifier()] if problem.kind == "number" else [Legality(), Timing()]
    plan, watcher = plan or Plan(), Watcher()
    directory.mkdir(exist_ok=True)
    with Journal(directory) as journal:
        policies = [External(chain=chain, **options) for chain in range(plan.chains)]
        ledger = Ledger(Limits(), journal.record.spent)
        result = run_loop(problem, policies, verifiers, plan, ledger, journal, watcher)
    return result, watcher


def turn_by_turn(*answers: Any) -> Answering:
    """The answers of one chain in their order."""
    left = list(answers)
    return lambda request: left.pop(0)


def once(request: Mapping[str, Any], number: int) -> Any:
    """A chain's only proposal, and then its end."""
    return {"evaluate": str(number)} if request["turn"] == 1 else {"finish": ""}


def outcomes(result: RunResult) -> list[tuple[str, str]]:
    return [(trial.candidate.text, trial.outcome) for trial in result.trials[1:]]


def test_a_kernel_is_improved_by_whoever_answers_the_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    monkeypatch.setitem(cast("dict[str, str]", CASCADES), "kernel", "tests.model_runs:timeless_verifiers")
    specification = kernel_specification(KernelProblem.load("gemm", "mini", threads=2), "external", Plan(), Limits())
    answers = turn_by_turn(
        {"inspect": {"what": "legal", "of": "k"}},
        {"evaluate": "parallel(k)", "rationale": "the deepest loop"},
        [{"inspect": "bound"}, {"evaluate": "parallel(i)"}],
        {"finish": "good enough"},
    )
    with answered(tmp_path / "run" / "external", answers) as requests:
        run = start(specification, tmp_path / "run")
    assert outcomes(run.result) == [("parallel(k)", "illegal"), ("parallel(i)", "ok")]
    assert run.result.stop_reason is StopReason.GIVEN_UP
    assert run.result.used.calls == 4
    assert run.result.used.usd == 0
    assert [request["turn"] for request in requests] == [1, 2, 3, 4]
    assert any("this near schedule is legal: `parallel(i)`" in line for line in requests[2]["text"])
    again = replay(tmp_path / "run", tmp_path / "again")
    assert outcomes(again.result) == outcomes(run.result)


def test_an_answer_that_cannot_be_used_is_explained_and_mended(tmp_path: Path) -> None:
    folder = tmp_path / "external" / "chain-0"
    mended: list[str] = []

    def mend() -> None:
        error = folder / "0001.error.json"
        while not error.exists():
            time.sleep(0.01)
        mended.append(json.loads(error.read_bytes())["error"])
        (folder / "0001.response.json").write_text('{"evaluate": "2"}')

    helper = threading.Thread(target=mend)
    helper.start()
    with answered(tmp_path / "external", turn_by_turn('{"evaluate": 2', {"finish": ""})):
        result, watcher = run_external(tmp_path)
    helper.join()
    assert outcomes(result) == [("2", "ok")]
    assert "JSON" in mended[0]
    assert not (folder / "0001.error.json").exists()
    assert any("cannot be used" in event.reason for event in watcher.events if isinstance(event, Waiting))


def test_what_no_tool_takes_gets_a_repair_turn_as_from_a_model(tmp_path: Path) -> None:
    answers = turn_by_turn(
        {"evaluate": {"candidate": 7}}, {"evaluate": "7"}, {"text": "Hm."}, {"text": "No."}, {"finish": ""}
    )
    with answered(tmp_path / "external", answers) as requests:
        result, _ = run_external(tmp_path)
    assert outcomes(result) == [("7", "ok"), ("No.", "unparsable")]
    assert any("candidate" in line for line in requests[1]["text"])


def test_a_run_that_ended_while_it_waited_goes_on_with_the_same_turn(tmp_path: Path) -> None:
    def impatient(request: Mapping[str, Any]) -> Any:
        return {"evaluate": "2"} if request["turn"] == 1 else None

    with answered(tmp_path / "external", impatient):
        first, _ = run_external(tmp_path, patience=0.3)
    assert first.stop_reason is StopReason.INFRASTRUCTURE_ERRORS
    assert outcomes(first) == [("2", "ok")]
    folder = tmp_path / "external" / "chain-0"
    assert sorted(path.name for path in folder.glob("*.request.json")) == ["0001.request.json", "0002.request.json"]
    asked = json.loads((folder / "0002.request.json").read_bytes())
    # Answered while nobody waits.
    (folder / "0002.response.json").write_text('{"evaluate": "3"}')
    with answered(tmp_path / "external", turn_by_turn({"finish": ""})) as requests:
        resumed, _ = run_external(tmp_path)
    assert outcomes(resumed) == [("2", "ok"), ("3", "ok")]
    assert [request["turn"] for request in requests] == [3]
    assert json.loads((folder / "0002.request.json").read_bytes()) == asked
    calls = [event for event in read_events(tmp_path) if event["event"] == "call" and event["answer"]]
    assert len(calls) == 3


def test_an_interrupted_wait_ends_at_once_and_nothing_is_lost(tmp_path: Path) -> None:
    def interrupt(count: int) -> None:
        raise KeyboardInterrupt

    def first_chain_only(request: Mapping[str, Any]) -> Any:
        return {"evaluate": "2"} if request["chain"] == 0 else None

    with answered(tmp_path / "external", first_chain_only), Journal(tmp_path) as journal:
        result = run_loop(
            NumberProblem(),
            [External(chain=0), External(chain=1)],
            [NumberVerifier(on_call=interrupt)],
            Plan(chains=2),
            Ledger(Limits()),
            journal,
        )
    assert result.stop_reason is StopReason.INTERRUPTED
    with answered(tmp_path / "external", lambda request: once(request, 3)):
        resumed, _ = run_external(tmp_path, plan=Plan(chains=2))
    assert sorted(outcomes(resumed)) == [("2", "ok"), ("3", "ok")]


def test_chains_have_folders_of_their_own(tmp_path: Path) -> None:
    with answered(tmp_path / "elsewhere", lambda request: once(request, 2 + request["chain"])) as requests:
        result, _ = run_external(tmp_path, plan=Plan(chains=3), folder=str(tmp_path / "elsewhere"))
    assert sorted(outcomes(result)) == [("2", "ok"), ("3", "ok"), ("4", "ok")]
    assert {request["chain"] for request in requests} == {0, 1, 2}


def test_when_patience_ends_a_fallback_may_propose(tmp_path: Path) -> None:
    result, watcher = run_external(tmp_path, plan=Plan(steps=2), patience=0.02, fallback="mutate")
    assert len(result.trials) == 3
    assert all(trial.rationale.startswith("without the model") for trial in result.trials[1:])
    assert any("no answer in" in event.reason for event in watcher.events if isinstance(event, Waiting))


def test_a_folder_that_cannot_be_written_ends_the_run(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(UserError, match="folder="):
        run_external(tmp_path, folder=str(tmp_path / "file"))


def test_options_that_cannot_work(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="patience"):
        External(patience=0)
    with pytest.raises(UserError, match="context"):
        run_external(tmp_path, context=10)
    with pytest.raises(UserError, match="asks somebody outside"):
        run_external(tmp_path, fallback="llm")
