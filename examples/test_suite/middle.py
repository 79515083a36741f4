"""The middle of a sequence of numbers."""

from collections.abc import Sequence


def median(values: Sequence[float]) -> float:
    """The value in the middle, or the mean of the two that are nearest to it."""
    ordered = sorted(values)
    middle = len(ordered) // 2
    if len(ordered) % 2 != 0:  # the planted bug: this is the case of an even number
        return (ordered[middle - 1] + ordered[middle]) / 2
    return ordered[middle]
