"""Run something under a live view, then tell what came out: shared by `run`, `resume`, `replay` and `rescore`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from optimizer.cli.output import print_json, say, tell
from optimizer.plan import StopReason

if TYPE_CHECKING:
    from optimizer.events import Observer
    from optimizer.run import Run

Answer = TypeVar("Answer")


def watched(go: Callable[[Observer], Answer]) -> Answer:
    """Call `go` with an observer that shows a person what happens, on standard error."""
    from optimizer.cli.live import watching

    with watching() as observer:
        return go(observer)


def finish(run: Run, destination: Path | None, as_json: bool, control: Run | None = None) -> None:
    """Write the best candidate, print the result, and exit with the status that its stop reason has.

    `control` is the same task under another policy, told beside it.
    """
    from optimizer.views.model import control_json, control_text, model_json, model_text
    from optimizer.views.run import run_json, summary_text

    export = write_best(run, destination) if destination else None
    if run.specification.memory and run.problem.kind == "kernel":
        from optimizer.memory.hints import remember

        remember(run)
    if as_json:
        found = run_json(run.problem, run.result, run.directory, export)
        print_json({**found, **model_json(run), **(control_json(control) if control else {})})
        if not run.result.stop_reason.is_final:
            say(f"{run.result.stop_reason}: go on with: loopwright resume {run.directory}")
    else:
        limit = known_limit(run) if run.problem.kind == "kernel" else None
        tell(summary_text(run.problem, run.result, run.directory, export, limit))
        for text in (model_text(run), control_text(run, control) if control else ""):
            if text:
                tell(text)
    exit_for(run.result.stop_reason)


def write_best(run: Run, destination: Path) -> Path:
    """The best candidate as a file: a stand-alone module for a kernel, the text itself otherwise."""
    from optimizer.destination import write_result

    if run.problem.kind == "kernel":
        from optimizer.kernel_run import exported_module

        write_result(destination, exported_module(run))
    else:
        write_result(destination, run.result.winner.candidate.text)
    return destination.absolute()


def known_limit(run: Run) -> float | None:
    """The limit in seconds of the machine that a kernel was timed on; None when it was not timed on this one."""
    from optimizer.kernel_problem import KernelProblem

    if not isinstance(run.problem, KernelProblem) or all(t.measurement is None for t in run.result.trials[1:]):
        return None
    from optimizer.kernel_loading import limit_seconds
    from optimizer.measure.machine import this_machine

    return limit_seconds(run.problem, say) if run.specification.machine.get("digest") == this_machine().digest else None


def exit_for(reason: StopReason) -> None:
    """Leave with the status of an interrupted or a failed run; return for any other."""
    from optimizer.cli import INFRASTRUCTURE_FAILED, INTERRUPTED

    status = {StopReason.INTERRUPTED: INTERRUPTED, StopReason.INFRASTRUCTURE_ERRORS: INFRASTRUCTURE_FAILED}.get(reason)
    if status is not None:
        click.get_current_context().exit(status)
