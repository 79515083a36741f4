"""Answers to questions about a nest: dependences, what a loop allows, the nest after a schedule, what limits it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from optimizer.candidate import Candidate
from optimizer.errors import CandidateError, StepError
from optimizer.kernel_problem import KernelProblem
from optimizer.llm.briefing import ALL_OF_IT, Facts, Grounding, Inspection, What, Without, cut, inline
from optimizer.llm.feedback import repair_text
from optimizer.names import nearest
from optimizer.polyhedral.explain import Explanation, dependences, explain
from optimizer.polyhedral.footprint import footprints
from optimizer.polyhedral.legality import Judgement, Legal, judge
from optimizer.polyhedral.locality import strides
from optimizer.polyhedral.private_arrays import model_for
from optimizer.polyhedral.schedule import apply_step, nest_of
from optimizer.polyhedral.steps import STEPS, Step
from optimizer.polyhedral.steps.parallel import Parallel
from optimizer.polyhedral.steps.structure import around
from optimizer.polyhedral.tree import Leaf, Node, leaves, loops
from optimizer.schedule_edits import NUMBER
from optimizer.views.nest import (
    dependence_table,
    is_summarized,
    is_written_out,
    names_made,
    nest_text,
    written_out_text,
)

LONGEST_ANSWER = 3_000
"""Characters."""
SMALLEST_FOOTPRINT = 2**10
"""Bytes: less fits into every cache."""
MOST_STEPS_JUDGED = 60
STEP_LIMIT = 200_000
"""isl operations for each of them, a tenth of what a proposal gets: so many are judged for one question."""
MOST_UNDECIDED = 3
"""After so many steps that isl could not decide, the rest is not tried."""
ONE_FOR_ALL = ("tile", "unroll", "unroll_and_jam")
"""Steps of which one number stands for all: their numbers change the speed, not what is legal."""


@dataclass(frozen=True, slots=True)
class NestQuestions:
    """Answers questions about one problem."""

    problem: KernelProblem
    facts: Facts = Facts()
    without: Without = ALL_OF_IT

    def answer(self, inspection: Inspection) -> str:
        """At most `LONGEST_ANSWER` characters and a note; a mistake in the question is answered with what there is."""
        try:
            candidate = self.problem.parse(inspection.schedule)
        except CandidateError as error:
            return cut(f"the schedule cannot be used: {error}", LONGEST_ANSWER)
        schedule = self.problem.schedule(candidate)
        tree = schedule.apply(self.problem.nest)
        match inspection.what:
            case What.DEPENDENCES:
                text = self._dependences(candidate, tree, inspection.of.strip())
            case What.LEGAL:
                text = self._legal(candidate, tree, inspection.of.strip())
            case What.NEST:
                text = self._nest(candidate, tree)
            case What.BOUND:
                text = self._bound(tree)
        made = names_made(self.problem.nest, schedule)
        return cut(f"{made}\n{text}" if made else text, LONGEST_ANSWER)

    # -- dependences

    def _dependences(self, candidate: Candidate, tree: Node, array: str) -> str:
        known = [a.name for a in model_for(self.problem.model, tree).nest.arrays]
        if array and array not in known:
            return _unknown("array", array, known)
        every = list(dependences(self.problem.model, tree))
        found = [d for d in every if array in ("", d.array)]
        if not found and array:
            return f"no dependences through {array}"
        was_told = not candidate.text and Grounding.ANALYSIS not in self.without
        if was_told and not array and is_summarized(every):
            return "they stand in the first message, many of them in one row; ask of one array to see them all"
        if was_told and not is_summarized(every):
            return "they stand in the first message, under `Dependences of the untouched nest`"
        return dependence_table(found)

    # -- what is legal

    def _legal(self, candidate: Candidate, tree: Node, loop: str) -> str:
        judgement = self.problem.judge(candidate)
        if judgement.legal is not Legal.YES:
            return f"{self._verdict(candidate, judgement)}\nWhat it allows can be told once it is legal."
        names = [each.name for each in loops(tree)]
        explanation = explain(self.problem.model, tree)
        if not loop:
            return "\n".join(bands_text(explanation))
        if loop not in names:
            return _unknown("loop", loop, names)
        outside = " ".join(each.name for each in around(tree, loop))
        bands = [band for band in explanation.permutable if loop in band]
        shown = ", ".join(f"({', '.join(band)})" for band in bands)
        return "\n".join(
            [
                f"{loop} is {f'inside {outside}' if outside else 'an outermost loop'}",
                self._threads(tree, loop),
                f"permutable: in the band {shown}" if bands else "permutable: with no loop next to it, as it stands",
                *self._steps(tree, loop),
            ]
        )

    def _threads(self, tree: Node, loop: str) -> str:
        try:
            marked = Parallel(loop).apply(nest_of(self.problem.nest, tree), tree)
        except StepError as error:
            return f"parallel: {error.message}"
        judgement = judge(self.problem.model, marked)
        return f"parallel: {'yes' if judgement.legal is Legal.YES else f'no, {self._why_not(judgement)}'}"

    def _steps(self, tree: Node, loop: str) -> Iterator[str]:
        """The steps on a loop by whether they are legal as the only next step."""
        found: dict[Legal, list[str]] = {legal: [] for legal in Legal}
        rest = ""
        for count, step in enumerate(self._distinct_steps(tree, loop)):
            if count == MOST_STEPS_JUDGED or len(found[Legal.UNKNOWN]) > MOST_UNDECIDED:
                rest = " (others were not tried)"
                break
            try:
                after = apply_step(self.problem.nest, tree, step)
            except StepError:
                continue
            found[judge(self.problem.model, after, STEP_LIMIT).legal].append(str(step))
        yield f"legal next{rest}: {'; '.join(found[Legal.YES]) or 'nothing'}"
        if found[Legal.NO]:
            yield f"illegal next: {'; '.join(found[Legal.NO])}"
        if found[Legal.UNKNOWN]:
            yield f"not decided: {'; '.join(found[Legal.UNKNOWN])}"
        yield f"Of {', '.join(ONE_FOR_ALL)}, one number stands for all."

    def _distinct_steps(self, tree: Node, loop: str) -> Iterator[Step]:
        nest, seen = nest_of(self.problem.nest, tree), set[str]()
        for kind in STEPS.values():
            for step in kind.options(nest, tree) if kind is not Parallel else ():
                text = str(step)
                alike = NUMBER.sub("#", text) if kind.name in ONE_FOR_ALL else text
                if alike not in seen and re.search(rf"\b{re.escape(loop)}\b", text):
                    seen.add(alike)
                    yield step

    # -- the nest

    def _nest(self, candidate: Candidate, tree: Node) -> str:
        judgement = self.problem.judge(candidate)
        lines = [self._verdict(candidate, judgement)]
        if judgement.legal is Legal.YES:
            lines += bands_text(explain(self.problem.model, tree))
        else:
            lines.append("Below is the nest of the illegal schedule itself:")
        return "\n".join([*lines, nest_text(self.problem.nest, tree)])

    def _verdict(self, candidate: Candidate, judgement: Judgement) -> str:
        if judgement.legal is Legal.YES:
            return "this schedule is legal" if candidate.text else "the untouched nest"
        if judgement.legal is Legal.UNKNOWN:
            return f"this schedule is not accepted: {judgement.detail}"
        repaired = self.problem.repair(candidate) if Grounding.REPAIR not in self.without else None
        offer = f"\n{repair_text(self.problem, str(repaired))}" if repaired is not None else ""
        return f"this schedule is illegal: {self._why_not(judgement)}{offer}"

    def _why_not(self, judgement: Judgement) -> str:
        if judgement.witness is None:
            return judgement.detail
        return "it breaks a dependence" if Grounding.WITNESS in self.without else str(judgement.witness)

    # -- the bound

    def _bound(self, tree: Node) -> str:
        lines = [
            "What limits the untouched nest stands in the first message. Here is how each access moves when one loop "
            "steps, the others standing still (the innermost loop should have nothing strided):"
        ]
        for leaf in leaves(tree):
            inward = [loop for loop in loops(tree) if loop.name in leaf.values]
            *_, innermost = [None, *(loop for loop in inward if not is_written_out(loop))]
            for loop in inward:
                walk = self._walk(leaf, loop.name)
                if not walk or set(walk.values()) == {"stays"}:
                    continue
                how = f" ({written_out_text(loop)})" if is_written_out(loop) else ""
                place = loop.name + (" (innermost)" if loop is innermost else how)
                moves = ", ".join(f"{access} {way}" for access, way in walk.items())
                lines.append(f"{leaf.statement} along {place}: {moves}")
        touched = [
            f"{loop} {bytes_text(size)}"
            for loop, size in footprints(model_for(self.problem.model, tree), tree, self.problem.sizes)
            if size >= SMALLEST_FOOTPRINT
        ]
        if touched:
            lines.append(f"one iteration touches at most about: {', '.join(touched)}, of the other loops less")
        return "\n".join(dict.fromkeys(lines))

    def _walk(self, leaf: Leaf, loop: str) -> dict[str, str]:
        """How each access that is in memory moves."""
        found: dict[str, str] = {}
        model = model_for(self.problem.model, leaf)
        jumps = strides(model.nest, leaf, loop)
        accesses = model.nest.statement(leaf.statement).accesses
        for access, jump in zip(accesses, jumps, strict=False):
            # What is in no array of the caller's or the function's stays in a register.
            if access.subscripts and model.nest.array(access.array).shape:
                found[f"{access.array}[{', '.join(access.subscripts)}]"] = _way(jump)
        return found


def bands_text(explanation: Explanation) -> list[str]:
    """Parallel loops and permutable bands, a line each."""
    bands = ", ".join(f"({', '.join(band)})" for band in explanation.permutable)
    return [
        f"parallel, each by itself: {', '.join(explanation.parallel) or 'no loop as it stands'}",
        f"permutable bands, to be reordered and tiled freely: {bands or 'none as it stands'}",
    ]


def bytes_text(size: float) -> str:
    """`130 KiB`, with three digits."""
    unit, name = (2**20, "MiB") if size >= 2**20 else (2**10, "KiB")
    return f"{size / unit:.3g} {name}"


def _way(jump: float) -> str:
    if jump == 0:
        return "stays"
    return "contiguous" if jump == 1 else "strided"


def _unknown(kind: str, name: str, known: list[str]) -> str:
    return f"there is no {kind} {inline(cut(name, 60))}{nearest(name, known)}; the {kind}s are {', '.join(known)}"
