"""Options that several commands share, so that one name means one thing everywhere."""

from __future__ import annotations

import click

size = click.option(
    "--size",
    metavar="SIZE",
    help="A named size of a bundled kernel (mini, small, medium, large, extralarge) or values: n=1000,m=500.",
)
floating_point = click.option(
    "--fp",
    type=click.Choice(["strict", "contract", "reassociate"]),
    default="contract",
    show_default=True,
    help="strict: bit-identical. contract: fused multiply-add allowed. reassociate: reductions may be reordered.",
)
threads = click.option("--threads", type=click.IntRange(min=1), help="Threads of the candidates. [default: all cores]")
jobs = click.option(
    "--jobs",
    type=click.IntRange(min=1),
    help="Processes for work that is not timed, such as finding templates. [default: 1]",
)
seed = click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of all randomness.")
as_json = click.option("--json", "as_json", is_flag=True, help="Exactly one JSON document on standard output.")
