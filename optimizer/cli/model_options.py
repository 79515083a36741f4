"""Options of `run` for policies that ask a model, or somebody else outside."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click

from optimizer.errors import UserError

if TYPE_CHECKING:
    from optimizer.budget import Limits

Command = TypeVar("Command", bound=Callable[..., Any])

POLICY_OPTIONS = ("model", "effort", "base_url", "fallback", "without", "memory")
"""Those that are options of the policy of the same name."""
BUDGET_OPTIONS = ("calls", "tokens", "usd")

_OPTIONS = (
    click.option("--model", metavar="NAME", help="The model to ask. [default: claude-sonnet-5-5]"),
    click.option("--effort", metavar="LEVEL", help="How much it thinks: low, medium, high. [default: the model's own]"),
    click.option("--base-url", metavar="URL", help="Another server that speaks the Messages API."),
    click.option("--fallback", metavar="POLICY", help="Proposes while no model can be reached; none for no one."),
    click.option("--without", metavar="A,B,...", help="Leave out: feedback, witness, repair, inspect, analysis."),
    click.option(
        "--memory", is_flag=True, default=None, help="Remember the result, and offer a model what earlier runs found."
    ),
    click.option("--calls", type=click.IntRange(min=1), help="Stop after so many calls of the model."),
    click.option("--tokens", type=click.IntRange(min=1), help="Stop before more tokens are used."),
    click.option("--usd", type=click.FloatRange(min=0, min_open=True), help="Stop before more dollars are spent."),
)


def model_options(command: Command) -> Command:
    """Add the options; the command gets them as keywords, None where they were not given."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def policy_options(policy: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The options for the policy. Raises `UserError` for one that it does not have."""
    from optimizer.registry import option_names

    known = option_names(policy)
    found: dict[str, Any] = {}
    for name in POLICY_OPTIONS:
        value = given[name]
        if value is None:
            continue
        if name not in known and name == "memory":  # any run may be remembered; only a model is offered what was
            continue
        if name not in known:
            raise UserError(f"{_flag(name)} means nothing for policy {policy}: leave it out, or choose --policy llm")
        found[name] = [part.strip() for part in value.split(",") if part.strip()] if name == "without" else value
    return found


def with_model_budget(limits: Limits, policy: str, given: Mapping[str, Any]) -> Limits:
    """The limits with those on calls, tokens and dollars. Raises `UserError` for a policy that spends none."""
    from dataclasses import replace

    from optimizer.registry import asks_outside

    chosen = {name: given[name] for name in BUDGET_OPTIONS if given[name] is not None}
    if chosen and not asks_outside(policy):
        flag = _flag(next(iter(chosen)))
        raise UserError(f"{flag} means nothing for policy {policy}, which asks no model: leave it out")
    return replace(limits, **chosen)


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")
