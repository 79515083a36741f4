"""`loopwright resume`, `replay` and `rescore`: go on with a run, do it again without its policy, judge it again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from optimizer.cli import options
from optimizer.cli.output import print_json, tell
from optimizer.destination import check_writable
from optimizer.errors import UserError
from optimizer.wording import score_text, table

if TYPE_CHECKING:
    from optimizer.run import Rescore
    from optimizer.trial import Trial

out = click.option("--out", metavar="FILE", help="Write the best candidate here.")
run_dir = click.option("--run-dir", metavar="DIR", help="Keep the new run in this new folder.")


@click.command()
@click.argument("run")
@out
@options.as_json
def resume(run: str, out: str | None, as_json: bool) -> None:
    """Go on with a run.

    RUN is a folder, or the name of one in the data folder. Nothing that was judged is judged again. A run that is over
    only tells its result again.
    """
    from optimizer.cli.watched import finish, watched
    from optimizer.run import resume as resume_run

    destination = _destination(out)
    directory = run_folder(run)
    machine = machine_for(directory)
    finish(watched(lambda observer: resume_run(directory, observer, machine)), destination, as_json)


@click.command()
@click.argument("run")
@out
@run_dir
@options.as_json
def replay(run: str, out: str | None, run_dir: str | None, as_json: bool) -> None:
    """Make the same proposals in a new run.

    RUN is a folder, or the name of one in the data folder. Its policy is not asked again.
    """
    from optimizer.cli.watched import finish, watched
    from optimizer.run import replay as replay_run

    destination = _destination(out)
    directory, into = run_folder(run), Path(run_dir).absolute() if run_dir else None
    machine = machine_for(directory)
    finish(watched(lambda observer: replay_run(directory, into, observer, machine)), destination, as_json)


@click.command()
@click.argument("run")
@run_dir
@options.as_json
def rescore(run: str, run_dir: str | None, as_json: bool) -> None:
    """Judge all candidates of a run again.

    RUN is a folder, or the name of one in the data folder. What was found then and now is shown side by side.
    """
    from optimizer.cli.watched import exit_for, watched
    from optimizer.run import rescore as rescore_run

    directory, into = run_folder(run), Path(run_dir).absolute() if run_dir else None
    machine = machine_for(directory)
    done = watched(lambda observer: rescore_run(directory, into, observer, machine))
    if as_json:
        trials = [
            {"candidate": old.candidate.text, "then": _trial_json(old), "now": _trial_json(new)}
            for old, new in done.pairs
        ]
        print_json({"run_dir": str(done.run.directory), "origin": str(directory), "trials": trials})
    else:
        tell(rescore_text(done))
    exit_for(done.run.result.stop_reason)


def run_folder(name: str) -> Path:
    """The folder that a person means: a path, or a name in the data folder. Raises `UserError` for neither."""
    from optimizer.names import nearest
    from optimizer.run import SPECIFICATION_NAME, runs_directory

    if Path(name).is_dir():
        return Path(name)
    home = runs_directory()
    if (home / name / SPECIFICATION_NAME).is_file():
        return home / name
    known = sorted(path.name for path in home.iterdir() if path.is_dir()) if home.is_dir() else []
    raise UserError(f"there is no run {name!r}, neither as a folder nor in {home}{nearest(name, known)}")


def machine_for(directory: Path) -> dict[str, Any] | None:
    """This machine, for a run whose scores are times; None for any other."""
    from optimizer.run import read_specification

    if read_specification(directory).problem.get("kind") != "kernel":
        return None
    from optimizer.kernel_run import machine_of_times

    return machine_of_times()


def rescore_text(done: Rescore) -> str:
    """The candidates with what was found then and now, side by side."""
    rows = [
        (str(old.number), _found(old), _found(new), " ".join(old.candidate.text.split())[:80])
        for old, new in done.pairs
    ]
    changed = sum(old.outcome != new.outcome for old, new in done.pairs)
    shown = table(("trial", "then", "now", "candidate"), rows)
    return (
        f"{shown}\n{len(rows)} candidates judged again, {changed} with another outcome; new run: {done.run.directory}"
    )


def _found(trial: Trial) -> str:
    return score_text(trial.measurement) if trial.measurement else trial.outcome


def _trial_json(trial: Trial) -> dict[str, object]:
    return {"trial": trial.number, "outcome": trial.outcome, "score": trial.score}


def _destination(out: str | None) -> Path | None:
    if out is None:
        return None
    check_writable(Path(out))
    return Path(out)
