"""The command line, `loopwright COMMAND`: one file a command or a close group of them, loaded when it is named.

A command's file imports only click and light modules at its top, and what is heavy inside the command, so that
`loopwright --help` answers at once.
"""

from __future__ import annotations

import importlib
from typing import Any, NoReturn

import click

from optimizer.cli.output import say
from optimizer.errors import CandidateError, InfrastructureError, UserError

# Adding a command: one file and one line here.
COMMANDS: dict[str, str] = {
    "run": "optimizer.cli.run:run",
    "check": "optimizer.cli.check:check",
    "explain": "optimizer.cli.explain:explain",
    "lint": "optimizer.cli.lint:lint",
    "kernels": "optimizer.cli.lists:kernels",
    "policies": "optimizer.cli.lists:policies",
    "verifiers": "optimizer.cli.lists:verifiers",
    "resume": "optimizer.cli.again:resume",
    "replay": "optimizer.cli.again:replay",
    "rescore": "optimizer.cli.again:rescore",
    "trace": "optimizer.cli.trace:trace",
    "bench": "optimizer.cli.bench:bench",
    "doctor": "optimizer.cli.doctor:doctor",
    "memory": "optimizer.cli.memory:memory",
    "mcp": "optimizer.cli.mcp:mcp",
}

REJECTED, WRONG_INPUT, INFRASTRUCTURE_FAILED, INTERRUPTED = 1, 2, 3, 130
"""Exit statuses besides 0."""


class Commands(click.Group):
    """The commands of the table above; the one place where an error becomes a message and an exit status."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, attribute = COMMANDS[cmd_name].split(":")
        return getattr(importlib.import_module(module), attribute)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (UserError, CandidateError) as error:
            _fail(ctx, error, WRONG_INPUT)
        except InfrastructureError as error:
            _fail(ctx, error, INFRASTRUCTURE_FAILED)
        except KeyboardInterrupt:
            _fail(ctx, "interrupted", INTERRUPTED)


def _fail(ctx: click.Context, message: Exception | str, status: int) -> NoReturn:
    say(f"error: {message}" if status != INTERRUPTED else str(message))
    ctx.exit(status)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.version_option(package_name="loopwright", message="%(prog)s %(version)s")
def main() -> None:
    """Turn a Python loop kernel into a faster one that is proved to compute the same.

    Start with `loopwright run matmul`, or with a file of your own: `loopwright run kernel.py:function --size n=1000`.
    """
