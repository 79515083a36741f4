"""Sizes as a user writes them: a named size of a bundled kernel, or `n=1000,m=500`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from optimizer.errors import UserError
from optimizer.names import nearest


def parse_sizes(
    text: str | Mapping[str, int] | None,
    parameters: Iterable[str],
    named: Mapping[str, Mapping[str, int]],
) -> tuple[str, dict[str, int]]:
    """The name of the size (`large`, or the values as text) and one positive integer for each parameter.

    `named` holds the sizes that have names, none for a user's own kernel. Raises `UserError` for everything else.
    """
    wanted = tuple(parameters)
    if not text:
        if named:
            raise UserError(f"no size given: use one of {', '.join(named)}, or {_example(wanted)}")
        if wanted:
            raise UserError(f"no size given: use --size {_example(wanted)}")
        return "", {}
    if isinstance(text, str) and "=" not in text:
        if text not in named:
            known = f"one of {', '.join(named)}, or " if named else ""
            raise UserError(f"unknown size {text!r}: use {known}{_example(wanted)}{nearest(text, named)}")
        return text, dict(named[text])
    values = _parse_values(text) if isinstance(text, str) else dict(text)
    for name in values:
        if name not in wanted:
            raise UserError(f"this kernel has no size {name!r}; it has {', '.join(wanted)}{nearest(name, wanted)}")
    missing = [name for name in wanted if name not in values]
    if missing:
        raise UserError(f"missing size: {', '.join(missing)} (use --size {_example(wanted)})")
    for name, value in values.items():
        if isinstance(value, bool) or value < 1:
            raise UserError(f"size {name}={value} must be a positive integer")
    return ",".join(f"{name}={values[name]}" for name in wanted), {name: values[name] for name in wanted}


def _parse_values(text: str) -> dict[str, int]:
    values: dict[str, int] = {}
    for item in text.split(","):
        name, separator, value = (part.strip() for part in item.partition("="))
        if not separator or not name:
            raise UserError(f"cannot read the size {item.strip()!r}: write name=value, for example n=1000")
        if name in values:
            raise UserError(f"size {name} is given twice")
        try:
            values[name] = int(value.replace("_", ""))
        except ValueError:
            raise UserError(f"size {name}={value} is not an integer") from None
    return values


def _example(parameters: tuple[str, ...]) -> str:
    return ",".join(f"{name}=1000" for name in parameters) or "n=1000"
