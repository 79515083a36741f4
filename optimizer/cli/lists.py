"""`loopwright kernels`, `policies` and `verifiers`: what there is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from optimizer.cli import options
from optimizer.cli.output import print_json
from optimizer.wording import table

if TYPE_CHECKING:
    from optimizer.registry import Description


@click.command()
@options.as_json
def kernels(as_json: bool) -> None:
    """List the bundled kernels."""
    from optimizer.views.catalog import kernels_json

    entries = kernels_json()
    if as_json:
        print_json(entries)
        return
    rows = [
        (e["name"], e["suite"], _sizes_text(e["sizes"].get("large", {})), ", ".join(map(_array_text, e["arrays"])))
        for e in entries
    ]
    click.echo(table(("kernel", "suite", "size large", "arrays"), rows))


@click.command()
@options.as_json
def policies(as_json: bool) -> None:
    """List what can propose candidates."""
    from optimizer.registry import describe_policies

    _print_descriptions("policy", describe_policies(), as_json)


@click.command()
@options.as_json
def verifiers(as_json: bool) -> None:
    """List what can judge candidates."""
    from optimizer.registry import describe_verifiers

    _print_descriptions("verifier", describe_verifiers(), as_json)


def _sizes_text(sizes: dict[str, int]) -> str:
    return ", ".join(f"{name}={value}" for name, value in sizes.items())


def _array_text(array: dict[str, Any]) -> str:
    return f"{array['name']}[{', '.join(array['shape'])}]"


def _print_descriptions(what: str, descriptions: Sequence[Description], as_json: bool) -> None:
    if as_json:
        print_json([{"name": d.name, "options": dict(d.options), "summary": d.summary} for d in descriptions])
        return
    rows = [(d.name, ", ".join(f"{k}={value}" for k, value in d.options.items()), d.summary) for d in descriptions]
    click.echo(table((what, "options", "summary"), rows))
