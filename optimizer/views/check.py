"""The verdicts on one schedule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from optimizer.verdict import Measurement, Status, Verdict
from optimizer.views.nest import opaque_lines
from optimizer.wording import seconds_text, speedup_text

if TYPE_CHECKING:
    from optimizer.kernel_problem import KernelProblem


def check_json(kernel: str, schedule: str, verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """The verdicts as one object; the reason, the witness and the repair are those of the verifier that said no."""
    last, measurement = verdicts[-1], measurement_of(verdicts)
    return {
        "kernel": kernel,
        "schedule": schedule,
        "status": last.status.value,
        "reason": last.reason.value if last.reason else None,
        "detail": last.detail,
        "witness": last.witness,
        "repair": last.repair,
        "speedup": measurement.score if measurement else None,
        "interval": list(measurement.interval) if measurement else None,
        "assurance": assurance_of(verdicts),
    }


def check_text(problem: KernelProblem, schedule: str, verdicts: Sequence[Verdict]) -> str:
    """One line a verifier, then what to do with the answer."""
    lines = [f"{problem.name} at {problem.size}: {schedule or '(the original)'}"]
    for verdict in verdicts:
        said = (
            verdict.assurance or verdict.detail
            if verdict.status is Status.OK
            else f"{verdict.reason}: {verdict.detail}"
        )
        lines.append(f"  {verdict.verifier:<12} {verdict.status.value:<9} {said}".rstrip())
    measurement = measurement_of(verdicts)
    if measurement:
        lines.append(f"  {speedup_text(measurement.score, measurement.interval)} over the original")
        seconds = measurement.details.get("seconds")
        if seconds is not None:
            lines.append(
                f"  {seconds_text(measurement.details['baseline_seconds'])} original, {seconds_text(seconds)} now"
            )
    lines += [f"  {line}" for line in opaque_lines(problem.nest)]
    if verdicts[-1].repair is not None:
        lines.append(f"  nearest legal schedule: {verdicts[-1].repair or '(the original)'}")
    return "\n".join(lines)


def assurance_of(verdicts: Sequence[Verdict]) -> str:
    """What was proved and what was tested."""
    return ", ".join(v.assurance for v in verdicts if v.assurance)


def measurement_of(verdicts: Sequence[Verdict]) -> Measurement | None:
    """The speedup of an accepted schedule that was timed."""
    if verdicts[-1].status is not Status.OK:
        return None
    return next((v.measurement for v in reversed(verdicts) if v.measurement), None)
