"""Mutants by the part of the code that they change: one of every kind of fault in each part where the kind applies."""

from __future__ import annotations

import ast
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from tests.mutants.fault import Fault
from tests.mutants.registry import FAULTS
from tests.mutants.scoring import COMPILED_SHARE, Mutant, mutants_of
from tests.mutants.site import work_functions
from tests.mutants.subject import HELD_SUBJECTS, PRIVATE_SUBJECTS, TILE_SUBJECTS, Subject


class Part(StrEnum):
    TILE = "tile functions"
    PACKED = "packed copies"
    PRIVATE = "private copies"
    HELD = "elements in variables"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a part is seen, and what has it."""

    subjects: Sequence[Subject]
    line: re.Pattern[str]
    """What its lines look like."""
    function: re.Pattern[str] = re.compile("")
    """What its functions are called."""


PLACES: Mapping[Part, Place] = {
    Part.TILE: Place(TILE_SUBJECTS, re.compile(""), re.compile(r"_tile(_\d+)?$")),
    Part.PACKED: Place(TILE_SUBJECTS, re.compile(r"_packed\b")),
    Part.PRIVATE: Place(PRIVATE_SUBJECTS, re.compile(r"\bparts_i\b")),
    Part.HELD: Place(HELD_SUBJECTS, re.compile(r"\b(norm|C)_\d+\b")),
}


def one_of_each(part: Part, seed: int, faults: Sequence[Fault] = FAULTS) -> Iterator[Mutant]:
    """The first mutant of each kind that changes this part; none of a kind that does not apply to it."""
    place = PLACES[part]
    for fault in faults:
        rng = random.Random(f"{seed}/{fault.name}/{part}")
        for subject, wrong in mutants_of(fault, place.subjects, rng):
            if changes(place, subject.code, wrong):
                yield Mutant(fault, subject, wrong, fault.is_compiled_only or rng.random() < COMPILED_SHARE)
                break


def changes(place: Place, right: str, wrong: str) -> bool:
    """Whether two modules differ there."""
    return list(_lines(place, right)) != list(_lines(place, wrong))


def _lines(place: Place, text: str) -> Iterator[str]:
    """The statements of a place, and the heads of the loops and guards right around them."""
    for function in work_functions(ast.parse(text)):
        if not place.function.search(function.name):
            continue
        for node in ast.walk(function):
            match node:
                case ast.FunctionDef():
                    head, body = node.decorator_list, list[ast.stmt]()
                case ast.For():
                    head, body = [node.target, node.iter], node.body
                case ast.If():
                    head, body = [node.test], [*node.body, *node.orelse]
                case ast.stmt():
                    head, body = [node], [node]
                case _:
                    continue
            inside = [ast.unparse(statement) for statement in body if not isinstance(statement, ast.For | ast.If)]
            if any(map(place.line.search, inside)) or not place.line.pattern:
                yield " ".join(map(ast.unparse, head))
