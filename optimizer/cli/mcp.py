"""`loopwright mcp`: the engine as tools of the Model Context Protocol."""

from __future__ import annotations

import importlib
from contextlib import suppress
from pathlib import Path
from typing import Literal

import click

from optimizer.cli.output import say
from optimizer.errors import UserError


@click.command()
@click.option("--root", metavar="DIR", required=True, help="The folder whose kernels are served, and written to.")
@click.option("--transport", type=click.Choice(["stdio", "http"]), default="stdio", show_default=True)
@click.option("--host", default="127.0.0.1", show_default=True, help="With http; only addresses of this machine.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8765, show_default=True, help="With http; 0: a free one."
)
def mcp(root: str, transport: Literal["stdio", "http"], host: str, port: int) -> None:
    """Serve the engine to coding agents.

    An agent that speaks the Model Context Protocol lists, explains, checks, runs and exports kernels: it is the policy,
    and no key is needed here. The tools answer what the commands print with --json. All paths that an agent names are
    confined to --root, and its runs are kept there, in .loopwright/runs.
    """
    _check_installed()
    import anyio

    from optimizer.mcp.confinement import Root
    from optimizer.mcp.serving import check_loopback, serve_http, serve_stdio

    confined = Root.at(Path(root))
    if transport == "stdio":
        anyio.run(serve_stdio, confined)
    else:
        check_loopback(host)
        with suppress(KeyboardInterrupt):  # the way to end it
            anyio.run(serve_http, confined, host, port, say)


def _check_installed() -> None:
    try:
        importlib.import_module("mcp.server.mcpserver")
    except ImportError as error:
        raise UserError('this needs the package mcp, version 2 or newer: pip install "loopwright[mcp]"') from error
