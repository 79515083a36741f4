"""A schedule under construction that stays legal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from optimizer.errors import StepError
from optimizer.polyhedral.leaf_pairs import carries_nothing, is_legal
from optimizer.polyhedral.model import Model
from optimizer.polyhedral.private_arrays import model_for
from optimizer.polyhedral.schedule import nest_of
from optimizer.polyhedral.steps import Step
from optimizer.polyhedral.steps.parallel import Parallel
from optimizer.polyhedral.tree import Node, loops, show


@dataclass(frozen=True)
class Draft:
    """A legal schedule under construction."""

    model: Model
    """With the private arrays that the tree has."""
    steps: tuple[Step, ...]
    tree: Node
    _parallel: dict[str, bool] = field(default_factory=dict[str, bool], repr=False, compare=False)

    def is_parallel(self, loop: str) -> bool:
        """Whether a loop carries no dependence."""
        if loop not in self._parallel:
            self._parallel[loop] = carries_nothing(self.model, self.tree, loop)
        return self._parallel[loop]

    def new_loops(self, before: Draft) -> list[str]:
        """Those that this draft has and an earlier one has not, outer before inner."""
        known = {loop.name for loop in loops(before.tree)}
        return [loop.name for loop in loops(self.tree) if loop.name not in known]

    def with_threads_on(self, loop: str, share: str = "blocks") -> Draft | None:
        """With a loop that carries nothing parallel, which changes no order: there is nothing to judge."""
        step = Parallel(loop, share)
        try:
            tree = step.apply(self.model.nest, self.tree)
        except StepError:
            return None
        return Draft(self.model, (*self.steps, step), tree, self._parallel)

    def then(self, *steps: Step) -> Draft | None:
        """With these steps added, if they apply and the whole is still legal."""
        tree = self.tree
        try:
            for step in steps:
                tree = step.apply(nest_of(self.model.nest, tree), tree)
        except StepError:
            return None
        if not is_legal(self.model, tree):
            return None
        return Draft(model_for(self.model, tree), (*self.steps, *steps), tree)


def distinct(drafts: Iterable[Draft]) -> Iterator[Draft]:
    """The drafts without those that come to the same tree as one before."""
    seen: set[str] = set()
    for draft in drafts:
        meaning = show(draft.tree)
        if meaning not in seen:
            seen.add(meaning)
            yield draft
