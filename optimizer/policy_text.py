"""How a policy with its options is written on a command line: `llm:without=feedback+witness:effort=low`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from optimizer.errors import UserError

LISTS = ("without",)
"""Options that take several values, joined with a plus."""


def parse_policy(text: str) -> tuple[str, dict[str, Any]]:
    """The name and the options. Raises `UserError`."""
    name, *options = text.split(":")
    return name, parse_options(options)


def parse_options(texts: Sequence[str]) -> dict[str, Any]:
    """`name=value` texts; a value that reads as a number or a truth value is one. Raises `UserError`."""
    found: dict[str, Any] = {}
    for text in texts:
        name, separator, value = text.partition("=")
        if not (name and separator):
            raise UserError(f"cannot read the option {text!r}: write name=value")
        found[name] = value.split("+") if name in LISTS else _value(value)
    return found


def _value(text: str) -> Any:
    try:
        return json.loads(text.lower())
    except ValueError:
        return text
