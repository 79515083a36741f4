"""How commands write: results to standard output, everything said to a person on the way to standard error."""

from __future__ import annotations

import json
from typing import Any

import click

from optimizer.wording import printable


def print_json(data: Any) -> None:
    """Exactly one JSON document on standard output; NaN and infinities are no JSON and raise ValueError.

    Half characters, which a model can write and UTF-8 cannot hold, stay JSON's own escapes.
    """
    text = json.dumps(data, indent=2, allow_nan=False, ensure_ascii=False)
    click.echo(text.encode(errors="backslashreplace").decode())


def say(text: str) -> None:
    """A line of progress, on standard error."""
    click.echo(printable(text), err=True)


def tell(text: str) -> None:
    """A result for a person, on standard output; what others wrote may be in it."""
    click.echo(printable(text))
