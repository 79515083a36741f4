"""A schedule as text and as steps: `tile(i=32, j=32); parallel(i_t)`. The empty text is the untouched kernel."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from optimizer.errors import StepError
from optimizer.polyhedral.nest import Nest
from optimizer.polyhedral.steps import STEPS, Step
from optimizer.polyhedral.steps.arguments import step_of_call, usage
from optimizer.polyhedral.steps.structure import check_size, check_vectors
from optimizer.polyhedral.steps.text import Call, parse_calls
from optimizer.polyhedral.tree import Node, leaves


@dataclass(frozen=True, slots=True)
class Schedule:
    """The candidate of the kernel domain. `str` gives the canonical text, which parses to an equal schedule."""

    steps: tuple[Step, ...] = ()

    def apply(self, nest: Nest) -> Node:
        """The tree after all steps, not yet judged; StepError says which step is wrong and why."""
        tree = nest.tree
        for number, step in enumerate(self.steps, start=1):
            try:
                tree = apply_step(nest, tree, step)
            except StepError as error:
                raise _at_step(number, str(step), error) from None
        return tree

    def __str__(self) -> str:
        return "; ".join(map(str, self.steps))


def nest_of(nest: Nest, tree: Node) -> Nest:
    """The nest whose statements a tree runs: with the private arrays that the tree has."""
    if not any(leaf.private for leaf in leaves(tree)):
        return nest
    from optimizer.polyhedral.model import model_of
    from optimizer.polyhedral.private_arrays import model_for

    return model_for(model_of(nest), tree).nest


def apply_step(nest: Nest, tree: Node, step: Step) -> Node:
    """One step more, refused if the tree becomes larger than any useful one or vectors lose their loop."""
    after = step.apply(nest_of(nest, tree), tree)
    check_size(after)
    check_vectors(after)
    return after


def parse_schedule(text: str) -> Schedule:
    """The schedule that a text means.

    ScheduleSyntaxError shows where the text is malformed; StepError says which step is unknown or has wrong options.
    """
    steps: list[Step] = []
    for number, call in enumerate(parse_calls(text), start=1):
        try:
            steps.append(_step_of(call))
        except StepError as error:
            raise _at_step(number, call.text, error) from None
    return Schedule(tuple(steps))


def grammar() -> str:
    """How schedules are written and what each step does, one line a step, from the classes of the steps."""
    lines = [
        "A schedule is steps separated by `;`, applied in order to the loops of the kernel. `#` starts a comment.",
        "An expression is affine: whole numbers, sizes and names of loops with + - * //.",
    ]
    for kind in STEPS.values():
        lines.append(f"  {usage(kind)}: {(kind.__doc__ or '').splitlines()[0]}")
    return "\n".join(lines)


def _step_of(call: Call) -> Step:
    kind = STEPS.get(call.name)
    if kind is None:
        near = tuple(difflib.get_close_matches(call.name, STEPS))
        raise StepError(f"there is no step {call.name}; the steps are {', '.join(STEPS)}", near)
    return step_of_call(kind, call)


def _at_step(number: int, text: str, error: StepError) -> StepError:
    return StepError(f"step {number}, `{text}`: {error.message}", error.near)
