"""The step `shift`."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from optimizer.errors import StepError
from optimizer.polyhedral.nest import Nest
from optimizer.polyhedral.steps.affine import sum_text
from optimizer.polyhedral.steps.arguments import AffineText, LoopName, StatementName
from optimizer.polyhedral.steps.step import Step
from optimizer.polyhedral.steps.structure import around, change_values, loop_named
from optimizer.polyhedral.steps.text import parse_affine
from optimizer.polyhedral.tree import Leaf, Node, leaves, loops, replace_loop


@dataclass(frozen=True, slots=True)
class Shift(Step):
    """Let one statement run later, or earlier, in a loop that it shares with others.

    args:
        statement: the statement; the others of the loop stay.
        loop: a loop around it.
        amount: a whole number, or an affine expression of sizes and of the other loops around the statement, added
            to the loop's value.
    rewrite:
        for k: (S0[k]; S1[k])   ->   for k: (S0[k]; S1[k - 1])        with shift(S1, k, 1)
    """

    name: ClassVar[str] = "shift"
    statement: StatementName
    loop: LoopName
    amount: AffineText

    def __post_init__(self) -> None:
        amount = str(parse_affine(self.amount))
        if amount == "0":
            raise StepError("shifting by 0 changes nothing")
        object.__setattr__(self, "amount", amount)

    def apply(self, nest: Nest, tree: Node) -> Node:
        shifted_loop = loop_named(tree, self.loop)
        inside = [leaf for leaf in leaves(shifted_loop) if leaf.statement == self.statement]
        if not inside:
            statements = ", ".join(dict.fromkeys(leaf.statement for leaf in leaves(shifted_loop)))
            possible = _loops_around(tree, self.statement)
            raise StepError(
                f"{self.statement} is not in loop {self.loop}, which has {statements}",
                tuple(f"shift({self.statement}, {loop}, {self.amount})" for loop in possible),
            )
        amount = parse_affine(self.amount)
        for leaf in inside:
            known = [*(loop for loop in leaf.values if loop != self.loop), *nest.parameters]
            for name in amount.names():
                if name not in known:
                    raise StepError(
                        f"{name} in the amount is neither a size nor another loop around {self.statement}; "
                        f"those are {', '.join(known)}",
                        tuple(difflib.get_close_matches(name, known)),
                    )

        def shifted(leaf: Leaf) -> dict[str, str]:
            if leaf.statement != self.statement:
                return {}
            value = leaf.values[self.loop]
            if not amount.terms:
                return {self.loop: sum_text(value, 1 if amount.constant > 0 else -1, str(abs(amount.constant)))}
            return {self.loop: sum_text(value, 1, amount.in_isl(leaf.values))}

        return replace_loop(tree, self.loop, lambda loop: change_values(loop, shifted))

    @classmethod
    def options(cls, nest: Nest, tree: Node) -> Iterator[Shift]:
        """By one, and to the value of another loop where `fuse` left the value 0."""
        for loop in loops(tree):
            for statement in dict.fromkeys(leaf.statement for leaf in leaves(loop)):
                yield cls(statement, loop.name, "1")
                yield cls(statement, loop.name, "-1")
                found = [leaf for leaf in leaves(loop) if leaf.statement == statement]
                if all(leaf.values[loop.name] == "0" for leaf in found):
                    for outer in around(tree, loop.name):
                        yield cls(statement, loop.name, outer.name)


def _loops_around(tree: Node, statement: str) -> tuple[str, ...]:
    return tuple(loop.name for loop in loops(tree) if any(leaf.statement == statement for leaf in leaves(loop)))
