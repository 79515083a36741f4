"""What a model is told before it proposes anything: instructions, what it works on, its tools, where to start."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from optimizer.llm.tools import Tool
    from optimizer.measure.machine import Machine
    from optimizer.measure.peaks import Peaks

CHARACTERS_PER_TOKEN = 3.2
"""Of prompts in English with formulas and code. Models count 3.5 to 4, so a text has fewer tokens than estimated."""


class Grounding(StrEnum):
    """The parts of what a model is told that can be left out, to see what each is worth."""

    FEEDBACK = "feedback"
    """How a proposal was judged: without it, a proposal is answered with `recorded`."""
    WITNESS = "witness"
    """The counterexample of a rejection: the violated dependence, the wrong element."""
    REPAIR = "repair"
    """The near candidate that would have been accepted."""
    INSPECT = "inspect"
    """The tool that answers questions about the nest."""
    ANALYSIS = "analysis"
    """What was found out about the untouched nest: dependences, parallel loops, permutable bands."""


Without = Collection[Grounding]
"""The parts that are left out."""
ALL_OF_IT: frozenset[Grounding] = frozenset()


class What(StrEnum):
    """What can be asked of a nest."""

    DEPENDENCES = "dependences"
    LEGAL = "legal"
    NEST = "nest"
    BOUND = "bound"


@dataclass(frozen=True, slots=True)
class Inspection:
    """One question."""

    what: What
    of: str = ""
    """An array for the dependences, a loop for what is legal."""
    schedule: str = ""
    """After which schedule; the untouched nest by default."""


@dataclass(frozen=True, slots=True)
class Part:
    """A named piece of the first message."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Start:
    """Where a chain begins, so that chains differ."""

    text: str
    """A candidate that can be proposed as it stands."""
    hint: str


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of the task from measurements, if anything is."""

    baseline_seconds: float | None = None
    limit_seconds: float | None = None
    """The least time that this machine needs for the work."""
    peaks: Peaks | None = None
    """The machine's rates; they say whether arithmetic or memory is the limit."""
    machine: str = ""
    hardware: Machine | None = None
    """Caches and instruction sets of the machine that measures."""


class Briefing(Protocol):
    """What a model is told about one problem, and how its tool calls are answered."""

    def system(self, without: Without = ALL_OF_IT) -> str:
        """The instructions: the same for all problems of a kind."""
        ...

    def parts(self, without: Without = ALL_OF_IT) -> tuple[Part, ...]:
        """The content of the first message, what many problems share first."""
        ...

    def toolset(self, without: Without = ALL_OF_IT) -> tuple[Tool, ...]: ...

    def tools(self, without: Without = ALL_OF_IT) -> tuple[Mapping[str, Any], ...]:
        """The toolset as the Messages API takes it."""
        ...

    def inspect(self, inspection: Inspection, without: Without = ALL_OF_IT) -> str:
        """The answer to a question; what cannot be answered is answered with what could be asked instead."""
        ...

    def candidate_of(self, arguments: Mapping[str, Any]) -> str:
        """The candidate's text in the (valid) arguments of `evaluate`."""
        ...

    def starts(self, count: int) -> tuple[Start, ...]:
        """Where so many chains begin; fewer when there are no more, and then chains share them in turn."""
        ...


def briefing_of(problem: Any, facts: Facts | None = None) -> Briefing:
    """The briefing for a problem of any kind."""
    if problem.kind == "kernel":
        from optimizer.llm.kernel_briefing import KernelBriefing

        return KernelBriefing(problem, facts or Facts())
    from optimizer.llm.text_briefing import TextBriefing

    return TextBriefing(problem)


def estimated_tokens(text: str) -> int:
    """About how many tokens a text has, rather too many than too few."""
    return math.ceil(len(text) / CHARACTERS_PER_TOKEN)


def fenced(text: str, language: str = "") -> str:
    """The text between fences that are longer than any row of backticks in it, so that it cannot end them."""
    longest = max((len(row) for row in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def inline(text: str) -> str:
    """The text on one line between backticks, which it cannot end."""
    return f"`{' '.join(text.split()).replace('`', chr(39))}`"


def cut(text: str, most: int) -> str:
    """The text, or its beginning with a note of how much is missing."""
    if len(text) <= most:
        return text
    note = f"\n... ({len(text) - most} more characters left out)"
    return text[:most].rstrip() + note
