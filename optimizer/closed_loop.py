"""The arithmetic of a closed loop: what it is worth to answer a rejection with another attempt.

Symbols, as in the formulas below:

    p  the chance that a proposal is accepted by all verifiers
    d  the chance that a rejected proposal is answered with another attempt: the fault was detected, and there was
       something to go on with
    r  how many such repair rounds a step may have; infinity is allowed
    q  the chance that a step ends with an accepted proposal
    n  the steps of a task that all have to succeed

    q = p * sum_{k=0..r} ((1 - p) d)^k        an attempt after k rejections that were all answered
    task success over n steps = q^n
    half-length = ln(1/2) / ln(q)             the n at which the success of the task falls to one half

Attempts are taken to be independent with one p. Feedback that helps makes the truth better than q, a model that
repeats itself makes it worse: q says what more attempts alone would give.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

Z = 1.959964
"""Of a two-sided 95% interval."""


@dataclass(frozen=True, slots=True)
class ClosedLoop:
    """A loop of proposing, judging and repairing. Raises `ValueError` for what is no probability or no count."""

    accepted: float
    """p, from 0 to 1."""
    answered: float = 1.0
    """d, from 0 to 1."""
    rounds: float = 1
    """r: a whole number from 0, or `math.inf`."""

    def __post_init__(self) -> None:
        for name, value in (("accepted", self.accepted), ("answered", self.answered)):
            if not 0.0 <= value <= 1.0:
                raise ValueError(f"{name} must be a probability from 0 to 1, not {value!r}")
        if not (self.rounds >= 0 and (math.isinf(self.rounds) or self.rounds == int(self.rounds))):
            raise ValueError(f"rounds must be a whole number from 0, or infinite, not {self.rounds!r}")

    @property
    def attempts(self) -> float:
        """The expected number of attempts of a step, sum_{k=0..r} ((1 - p) d)^k: from 1 to r + 1."""
        again, most = (1.0 - self.accepted) * self.answered, self.rounds + 1.0
        if again in (0.0, 1.0):
            return most if again else 1.0
        # (1 - x^(r+1)) / (1 - x), without the cancellation that x near 1 would bring.
        return min(most, max(1.0, -math.expm1(most * math.log(again)) / (1.0 - again)))

    @property
    def acceptance(self) -> float:
        """q: the chance that a step ends with an accepted proposal."""
        return min(1.0, self.accepted * self.attempts) if self.accepted else 0.0

    def success(self, steps: float) -> float:
        """q^n: the chance that all of `steps` steps succeed."""
        if steps < 0:
            raise ValueError(f"a task cannot have {steps!r} steps")
        return self.acceptance**steps

    @property
    def half_length(self) -> float:
        """The number of steps at which the success of a task is one half: 0 where q is 0, infinite where q is 1."""
        if self.acceptance in (0.0, 1.0):
            return math.inf if self.acceptance else 0.0
        return -math.log(2.0) / math.log(self.acceptance)

    def cost_per_accepted(self, proposal: float, repair: float | None = None) -> float:
        """What an accepted candidate costs, failed steps included: (proposal + (attempts - 1) repair) / q.

        Where a repair costs what a proposal does (the default) that is proposal / p, whatever d and r are: repairs
        raise q and the spending alike. Infinite where nothing is ever accepted. The unit is that of the arguments.
        """
        if not self.accepted:
            return math.inf
        if repair is None:
            return proposal / self.accepted
        return (proposal + (self.attempts - 1.0) * repair) / self.acceptance


@dataclass(frozen=True, slots=True)
class Tally:
    """What became of judged proposals; tallies add up."""

    accepted: int = 0
    rejected: int = 0
    answered: int = 0
    """Rejected ones that another proposal of the same chain followed."""

    def plus(self, other: Tally) -> Tally:
        return Tally(self.accepted + other.accepted, self.rejected + other.rejected, self.answered + other.answered)

    @property
    def share(self) -> Share:
        """Of accepted proposals."""
        return Share(self.accepted, self.accepted + self.rejected)

    def loop(self, rounds: float = 1) -> ClosedLoop | None:
        """The loop that these proposals show, with so many repair rounds; None without a proposal.

        Without a rejected one nothing is known against d = 1.
        """
        if self.share.value is None:
            return None
        return ClosedLoop(self.share.value, self.answered / self.rejected if self.rejected else 1.0, rounds)


def tally_of(chain: Sequence[bool]) -> Tally:
    """Of one chain, from whether each of its judged proposals was accepted, in order."""
    accepted = sum(chain)
    answered = sum(not accepted for accepted in chain[:-1])
    return Tally(accepted, len(chain) - accepted, answered)


def wilson_interval(count: int, total: int) -> tuple[float, float]:
    """The 95% score interval of a share `count / total`, within 0 to 1 and never without the share itself.

    E. B. Wilson, "Probable inference, the law of succession, and statistical inference", 1927. Raises `ValueError`
    unless 0 <= count <= total and total is at least 1.
    """
    if not 0 <= count <= total or total < 1:
        raise ValueError(f"{count} of {total} is no share")
    share = count / total
    middle = (share + Z * Z / (2 * total)) / (1 + Z * Z / total)
    half = Z / (1 + Z * Z / total) * math.sqrt(share * (1 - share) / total + Z * Z / (4 * total * total))
    return max(0.0, min(share, middle - half)), min(1.0, max(share, middle + half))


@dataclass(frozen=True, slots=True)
class Share:
    """A part of a count, with its 95% interval."""

    count: int
    total: int

    @property
    def value(self) -> float | None:
        return self.count / self.total if self.total else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """Wilson's; None of nothing."""
        return wilson_interval(self.count, self.total) if self.total else None
