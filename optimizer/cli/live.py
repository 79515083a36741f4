"""The views of a running run, both on standard error: a live table on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from optimizer.cli.output import say
from optimizer.cli.progress import Progress, budget_text, outcomes_text, short_text
from optimizer.events import (
    BudgetShort,
    ChainStopped,
    ComparisonStarted,
    Event,
    FinalistsMeasured,
    Observer,
    RunStarted,
    TrialFinished,
    Waiting,
)
from optimizer.trial import Trial
from optimizer.verdict import Measurement
from optimizer.wording import printable, score_text

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live


@contextmanager
def watching(is_terminal: bool | None = None) -> Generator[Observer]:
    """The view that suits standard error, shown as long as the block runs."""
    if not (sys.stderr.isatty() if is_terminal is None else is_terminal):
        yield PlainLines()
        return
    from rich.console import Console
    from rich.live import Live

    # Without a refresh thread: it would take time from a core while a candidate is being timed on it.
    with Live(console=Console(stderr=True), auto_refresh=False) as live:
        yield LiveTable(live)


class PlainLines:
    """One line an event that a person or a log wants."""

    def notify(self, event: Event) -> None:
        for line in lines_of(event):
            say(line)


def lines_of(event: Event) -> Iterator[str]:
    """What plain lines say about an event."""
    match event:
        case RunStarted():
            chains = "1 chain" if event.plan.chains == 1 else f"{event.plan.chains} chains"
            again = f", going on after trial {event.past_trials - 1}" if event.past_trials else ""
            yield f"{event.problem}: {chains} of up to {event.plan.steps} steps{again}"
            yield from (f"warning: {warning}" for warning in event.warnings)
        case TrialFinished() if event.trial.number > 0:
            yield f"{trial_line(event.trial)}  ({budget_text(event.budget)})"
        case ChainStopped():
            yield f"chain {event.chain} stopped: {event.reason}"
        case Waiting():
            yield f"waiting: {event.reason}"
        case BudgetShort():
            yield f"warning: {short_text(event)}"
        case ComparisonStarted():
            yield f"measuring the best {len(event.trials)} again, side by side"
        case FinalistsMeasured():
            for finalist in event.finalists:
                answer = finalist.answer
                shown = score_text(answer) if isinstance(answer, Measurement) else f"{answer.reason}: {answer.detail}"
                yield f"  trial {finalist.trial}: {shown}"
        case _:
            return


def trial_line(trial: Trial) -> str:
    """A trial on one line: its place, what came out, and the candidate."""
    detail = score_text(trial.measurement)
    if trial.measurement is None and trial.verdicts:
        detail = trial.verdicts[-1].detail.splitlines()[0] if trial.verdicts[-1].detail else ""
    text = " ".join(trial.candidate.text.split()) or "(the original)"
    shown = text if len(text) <= 100 else text[:97] + "..."
    return f"trial {trial.number}  chain {trial.chain} step {trial.step}  {trial.outcome}  {detail}  {shown}"


class LiveTable:
    """A table of the chains with the best so far, verdict counts and what is left of the budget."""

    def __init__(self, live: Live) -> None:
        self._live = live
        self._progress = Progress()

    def notify(self, event: Event) -> None:
        self._progress.notify(event)
        self._live.update(render(self._progress), refresh=True)


def render(progress: Progress) -> RenderableType:
    """The table for the present state."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(printable(progress.problem)), title_justify="left", expand=False)
    for name in ("chain", "step", "best", "outcomes", "now"):
        table.add_column(name, justify="right" if name in ("chain", "step", "best") else "left", overflow="fold")
    for number, chain in enumerate(progress.chains):
        best = score_text(chain.best.measurement) if chain.best else "-"
        cells = (str(number), str(chain.step), best, outcomes_text(chain.outcomes), chain.state)
        table.add_row(*(Text(printable(cell)) for cell in cells))
    lines = [f"budget: {budget_text(progress.budget)}", *(f"warning: {warning}" for warning in progress.warnings)]
    if progress.best:
        text = " ".join(progress.best.candidate.text.split())
        lines.append(f"best so far: {score_text(progress.best.measurement)}  {text[:200]}")
    if progress.doing:
        lines.append(progress.doing)
    return Group(table, *(Text(printable(line)) for line in lines))
