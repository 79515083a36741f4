"""`loopwright doctor`: is this machine fit to measure on, and what to do if it is not."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
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

    Looks at the noise and drift of its times, the clock, what else it is doing, its peaks and versions, and says what
    its system cannot do, and from what the sandbox of candidates does not protect here.
    """
    from optimizer.measure.machine import this_machine
    from optimizer.measure.system_limits import can_measure, missing_here
    from optimizer.run import runs_directory
    from optimizer.sandbox import missing_protection

    machine, missing, home = this_machine(), missing_here(), runs_directory()
    unprotected = missing_protection()
    noise, peaks = _measured(threads) if can_measure() else (None, None)
    if as_json:
        findings = {"noise": asdict(noise) if noise else None, "peaks": asdict(peaks) if peaks else None}
        limits = {"missing": list(missing), "unprotected": list(unprotected)}
        print_json({"machine": machine.to_json(), **findings, **limits, "runs": str(home)})
    else:
        click.echo(doctor_text(machine, noise, peaks, missing, unprotected, home))


def _measured(threads: int | None) -> tuple[Noise, Peaks]:
    from optimizer.measure.bench import Bench
    from optimizer.measure.machine import available_processors
    from optimizer.measure.noise import measure_noise
    from optimizer.measure.peaks import machine_peaks

    say("measuring; this takes some seconds")
    with (
        tempfile.TemporaryDirectory(prefix="loopwright-doctor-") as directory,
        Bench(Path(directory), threads=threads or available_processors(), on_wait=say) as bench,
    ):
        # Peaks first: they warm the processor up, as a run does.
        peaks = machine_peaks(bench)
        return measure_noise(bench), peaks


def doctor_text(
    machine: Machine,
    noise: Noise | None,
    peaks: Peaks | None,
    missing: Sequence[str],
    unprotected: Sequence[str],
    home: Path,
) -> str:
    """The findings, the answer first.

    `missing` is what does not hold on this system for measuring, `unprotected` what does not of the sandbox.
    """
    versions = ", ".join(f"{name} {version}" for name, version in machine.versions)
    lines = [
        f"this machine is {noise.fitness.value if noise else 'unfit'} for measuring",
        *(f"  {sentence}" for sentence in (*(noise.sentences if noise else ()), *missing)),
        f"  machine   {machine}",
        f"  versions  Python {machine.python}, {versions}",
        *(_noise_lines(noise) if noise else ()),
        *(_peak_lines(peaks) if peaks else ()),
        *(f"  sandbox   {sentence}" for sentence in unprotected or ("Everything that it promises holds here.",)),
        f"  runs      {home}",
    ]
    return "\n".join(lines)


def _noise_lines(noise: Noise) -> Iterator[str]:
    told = ", ".join(f"{difference:.1%} in {rounds}" for rounds, difference in noise.differences.items())
    yield f"  noise     {noise.spread:.1%} between the 5th and 95th percentile of equal work"
    yield f"  told      differences of {told} rounds of {seconds_text(noise.sample_seconds)}"
    yield f"  drift     {noise.drift:+.1%} in {noise.seconds:.1f} s of equal work"
    yield f"  timer     steps of {seconds_text(noise.timer_seconds)}"
    yield f"  threads   {noise.processors} processors, {'kept' if noise.is_pinned else 'not kept'} to their own"
    load = f"{noise.other_load:.1f} processors busy with something else, {noise.load_average:.1f} on average"
    yield f"  load      {load}; {noise.free_processors:.1f} of {noise.processors} free"


def _peak_lines(peaks: Peaks) -> Iterator[str]:
    rates = ", ".join(f"{rate / 1e9:.0f} GFLOP/s {name}" for name, rate in peaks.flops_per_second.items())
    memory = ", ".join(
        f"{max(rates.items(), key=lambda item: int(item[0]))[1] / 1e9:.0f} GB/s with {count} threads"
        for count, rates in peaks.bytes_per_second.items()
    )
    yield f"  peaks     {rates}"
    yield f"  memory    {memory}"
