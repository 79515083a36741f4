"""The names of values that a register tile keeps, as its text is printed."""

from __future__ import annotations

from dataclasses import dataclass, field

from optimizer.codegen.layout import laid_out
from optimizer.codegen.naming import free_name


@dataclass(slots=True)
class Registers:
    """The names of values in a register tile: those that its loop keeps, and those of one of its iterations."""

    taken: set[str]
    """Names that are not free."""
    kept: dict[str, Register] = field(default_factory=dict[str, "Register"])
    """By the text that loads them."""
    shared: dict[str, str] = field(default_factory=dict[str, str])
    """Text -> name."""
    read_masks: list[str] = field(default_factory=list[str])
    """For each call, of a tile that is not full."""
    read_mask: str = ""
    """Of the call that is printed."""
    new_lines: list[str] = field(default_factory=list[str])
    """Assignments of names that were given and are not printed yet."""

    def fresh(self, stem: str) -> str:
        count = sum(1 for name in self.taken if name.startswith(f"{stem}_"))
        name = free_name(f"{stem}_{count}", self.taken)
        self.taken.add(name)
        return name

    def name_of(self, text: str, stem: str) -> str:
        """Of a value that is the same wherever it is used in an iteration."""
        if text in self.kept:
            return self.kept[text].name
        if text not in self.shared:
            self.shared[text] = self.fresh(stem)
            self.new_lines.append(f"{self.shared[text]} = {text}")
        return self.shared[text]

    def printed(self, indent: str) -> list[str]:
        lines = [line for text in self.new_lines for line in laid_out(text, indent)]
        self.new_lines.clear()
        return lines


@dataclass(frozen=True, slots=True)
class Register:
    """A register that takes the place of a vector in memory."""

    name: str
    load: str
    store: str
