"""`loopwright doctor`: is this machine fit to measure on, and what to do if it is not."""

from __future__ import annotations

import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from optimizer.cli import options
from optimizer.cli.output import print_json, say
from optimizer.wording import seconds_text

if TYPE_CHECKING:
    from optimizer.measure.machine import Machine
    from optimizer.measure.noise import Noise
    from optimizer.measure.peaks import Peaks


@click.command()
@options.threads
@options.as_json
def doctor(threads: int | None, as_json: bool) -> None:
    """Tell whether this machine can measure.

    Looks at the noise of its times, what else it is doing, its peaks and versions.
    """
    from optimizer.measure.bench import Bench
    from optimizer.measure.machine import available_processors, this_machine
    from optimizer.measure.noise import measure_noise
    from optimizer.measure.peaks import machine_peaks
    from optimizer.run import runs_directory

    machine = this_machine()
    say("measuring; this takes some seconds")
    with (
        tempfile.TemporaryDirectory(prefix="loopwright-doctor-") as directory,
        Bench(Path(directory), threads=threads or available_processors(), on_wait=say) as bench,
    ):
        peaks = machine_peaks(bench)
        noise = measure_noise(bench)
    home = runs_directory()
    if as_json:
        print_json({"machine": machine.to_json(), "noise": asdict(noise), "peaks": asdict(peaks), "runs": str(home)})
    else:
        click.echo(doctor_text(machine, noise, peaks, home))


def doctor_text(machine: Machine, noise: Noise, peaks: Peaks, home: Path) -> str:
    """The findings, the answer first."""
    versions = ", ".join(f"{name} {version}" for name, version in machine.versions)
    rates = ", ".join(f"{rate / 1e9:.0f} GFLOP/s {name}" for name, rate in peaks.flops_per_second.items())
    memory = ", ".join(
        f"{max(rates.items(), key=lambda item: int(item[0]))[1] / 1e9:.0f} GB/s with {count} threads"
        for count, rates in peaks.bytes_per_second.items()
    )
    lines = [
        f"this machine is {noise.fitness.value} for measuring",
        *(f"  {sentence}" for sentence in noise.sentences),
        f"  machine   {machine}",
        f"  versions  Python {machine.python}, {versions}",
        f"  noise     {noise.spread:.1%} between the 5th and 95th percentile of equal work",
        f"  timer     steps of {seconds_text(noise.timer_seconds)}",
        f"  threads   {noise.processors} processors, {'kept' if noise.is_pinned else 'not kept'} to their own",
        f"  load      {noise.other_load:.1f} processors busy with something else, {noise.load_average:.1f} on average",
        f"  peaks     {rates}",
        f"  memory    {memory}",
        f"  runs      {home}",
    ]
    return "\n".join(lines)
