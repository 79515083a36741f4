"""`loopwright memory`: what earlier runs found, to look at, edit, carry elsewhere and forget."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from optimizer.cli import options
from optimizer.cli.output import print_json, say, tell
from optimizer.errors import UserError
from optimizer.wording import table

if TYPE_CHECKING:
    from optimizer.memory.entry import Entry

LARGEST_FILE = 50_000_000
"""Bytes that `import` reads."""


@click.group()
def memory() -> None:
    """See and edit the schedules that are remembered.

    `loopwright run --memory` keeps the winner of a run and offers it as a hint to later runs on the same machine, for
    the same kernel or one of the same structure. A hint is judged like any other proposal.
    """


@memory.command("list")
@options.as_json
def list_entries(as_json: bool) -> None:
    """List all entries, the best of each kernel first."""
    entries = sorted(_entries(), key=lambda entry: (entry.kernel, -entry.speedup))
    if as_json:
        print_json([_shown(entry) for entry in entries])
    elif entries:
        header = ("id", "kernel", "where", "speedup", "found", "state", "schedule")
        rows = [
            (
                entry.id,
                entry.kernel,
                entry.where,
                f"{entry.speedup:.2f}x",
                f"{entry.created:%Y-%m-%d}",
                _state(entry),
                entry.schedule if len(entry.schedule) <= 60 else f"{entry.schedule[:57]}...",
            )
            for entry in entries
        ]
        tell(table(header, rows))
    else:
        say("nothing is remembered yet: `loopwright run KERNEL --memory` keeps what it finds")


@memory.command()
@click.argument("entry_id", metavar="ID")
@options.as_json
def show(entry_id: str, as_json: bool) -> None:
    """Show one entry in full."""
    entry = _one(_entries(), entry_id)
    if as_json:
        print_json(_shown(entry))
        return
    lines = [
        ("id", entry.id),
        ("kernel", f"{entry.kernel} at {entry.where}"),
        ("speedup", entry.measured),
        ("schedule", entry.schedule),
        ("as a pattern", entry.pattern),
        ("machine", entry.machine_description),
        ("run", entry.run),
        ("found", f"{entry.created:%Y-%m-%d}, expires on {entry.expires:%Y-%m-%d}"),
        ("state", _state(entry)),
        ("note", entry.note or "none"),
    ]
    width = max(len(name) for name, _ in lines)
    tell("\n".join(f"{name.ljust(width)}  {value}" for name, value in lines))


@memory.command()
@click.argument("entry_id", metavar="ID")
@click.option("--note", metavar="TEXT", help="Your own words; no model sees them.")
@click.option("--expires", metavar="DATE", help="A date (2030-12-31), or days from now (30).")
@click.option("--disable/--enable", "disabled", default=None, help="Whether it is held back from being a hint.")
def edit(entry_id: str, note: str | None, expires: str | None, disabled: bool | None) -> None:
    """Change the note, the expiry or the use of an entry."""
    from optimizer.memory.entry import entry_from_json, entry_to_json

    changes: dict[str, Any] = {"note": note, "expires": _moment(expires) if expires else None, "disabled": disabled}
    changes = {name: value for name, value in changes.items() if value is not None}
    if not changes:
        raise UserError("nothing to change: give --note, --expires, --disable or --enable")

    def edited(entries: tuple[Entry, ...]) -> list[Entry]:
        old = _one(entries, entry_id)
        try:
            new = entry_from_json({**entry_to_json(old), **changes})
        except ValueError as error:
            raise UserError(f"cannot change the entry: {error}") from error
        return [new if entry is old else entry for entry in entries]

    _change(edited)
    click.echo(f"changed {entry_id}: {', '.join(changes)}")


@memory.command("export")
@click.argument("file", metavar="FILE")
def export_entries(file: str) -> None:
    """Write all entries to FILE, as JSON."""
    from optimizer.memory.entry import entry_to_json

    entries = [entry_to_json(entry) for entry in _entries()]
    try:
        Path(file).write_text(json.dumps({"entries": entries}, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise UserError(f"cannot write {file}: {error.strerror}") from error
    click.echo(f"{_count(len(entries))} in {file}")


@memory.command("import")
@click.argument("file", metavar="FILE")
def import_entries(file: str) -> None:
    """Add the entries of FILE, as `export` wrote it.

    Those of another machine are kept and listed, but are no hints here: their times do not hold for this machine.
    """
    from optimizer.memory.store import Memory

    entries = _read_export(Path(file))
    known = {entry.id for entry in _entries()}
    new = [entry for entry in entries if entry.id not in known]
    Memory().add(*new)
    others = sum(entry.machine != _machine() for entry in new)
    click.echo(f"{_count(len(new))} added, {others} of them of other machines; {len(entries) - len(new)} known before")


@memory.command()
@click.argument("entry_ids", metavar="[ID]...", nargs=-1)
@click.option("--kernel", metavar="NAME", help="All entries of this kernel.")
@click.option("--all", "everything", is_flag=True, help="All entries.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def forget(entry_ids: tuple[str, ...], kernel: str | None, everything: bool, yes: bool) -> None:
    """Forget entries for good."""
    if sum((bool(entry_ids), kernel is not None, everything)) != 1:
        raise UserError("say what to forget: ids, --kernel NAME, or --all")

    def meant(entries: Sequence[Entry]) -> set[str]:
        if entry_ids:
            return {_one(entries, entry_id).id for entry_id in entry_ids}
        return {entry.id for entry in entries if everything or entry.kernel == kernel}

    doomed = meant(_entries())
    if not doomed:
        raise UserError(f"nothing is remembered of {kernel!r}" if kernel is not None else "nothing is remembered")
    if not yes:
        click.confirm(f"forget {_count(len(doomed))}?", abort=True, err=True)
    _change(lambda entries: [entry for entry in entries if entry.id not in doomed])
    click.echo(f"{_count(len(doomed))} forgotten")


def _entries() -> tuple[Entry, ...]:
    """All entries, with a warning for each line that is damaged."""
    from optimizer.memory.store import Memory

    store = Memory()
    contents = store.read()
    for line in contents.damaged:
        say(f"warning: {store.path}:{line.number} is damaged and left out: {line.problem}")
    return contents.entries


def _change(change: Callable[[tuple[Entry, ...]], list[Entry]]) -> None:
    from optimizer.memory.store import Memory

    store = Memory()
    damaged = store.change(change).damaged
    if damaged:
        say(f"warning: damaged lines ({len(damaged)}) were moved to {store.aside}")


def _one(entries: Sequence[Entry], entry_id: str) -> Entry:
    """The entry whose id begins so. Raises `UserError` for none or several."""
    found = [entry for entry in entries if entry_id and entry.id.startswith(entry_id)]
    if len(found) == 1:
        return found[0]
    if found:
        raise UserError(f"{entry_id} could be {', '.join(entry.id for entry in found)}")
    raise UserError(f"no entry has the id {entry_id!r} (`loopwright memory list` shows them)")


def _moment(text: str) -> datetime:
    """A date, at its end in UTC, or so many days from now. Raises `UserError`."""
    try:
        if text.isdecimal():
            return datetime.now(UTC) + timedelta(days=int(text))
        return datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC) + timedelta(days=1, seconds=-1)
    except (ValueError, OverflowError):
        raise UserError(f"cannot read --expires {text}: write a date as 2030-12-31, or a number of days") from None


def _read_export(path: Path) -> list[Entry]:
    """The entries of an exported file, all or none. Raises `UserError`."""
    from optimizer.memory.entry import entry_from_json

    try:
        if path.stat().st_size > LARGEST_FILE:
            raise UserError(f"{path} has more than {LARGEST_FILE} bytes: it is no export of a memory")
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path} is no JSON: {error}") from error
    entries = cast("dict[str, Any]", data).get("entries") if isinstance(data, dict) else None
    if not isinstance(entries, list):
        raise UserError(f'{path} is no export of a memory: it is not {{"entries": [...]}}')
    found: list[Entry] = []
    for number, entry in enumerate(cast("list[Any]", entries), start=1):
        try:
            found.append(entry_from_json(entry))
        except ValueError as error:
            raise UserError(f"{path}: entry {number}: {error}; nothing was added") from error
    return found


def _shown(entry: Entry) -> dict[str, Any]:
    from optimizer.memory.entry import entry_to_json

    return {"id": entry.id, "state": _state(entry), **entry_to_json(entry)}


def _state(entry: Entry) -> str:
    return entry.why_unused(_machine(), datetime.now(UTC)) or "usable"


@cache
def _machine() -> str:
    """The digest of this machine."""
    from optimizer.measure.machine import this_machine

    return this_machine().digest


def _count(number: int) -> str:
    return "1 entry" if number == 1 else f"{number} entries"
