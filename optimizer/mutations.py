"""Texts one small edit away: of the syntax tree for Python, of lines, words and characters otherwise."""

from __future__ import annotations

import ast
import random
import re
import string
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial

from optimizer.python_edits import python_edits
from optimizer.text_edit import Edit

LINE, LINE_WITH_END = r"[^\n]+", r"[^\n]*\n|[^\n]+"
WORD, WORD_WITH_SPACE = r"\w+", r"\w+[^\S\n]*"
CHARACTER = r"(?s)."
NUMBER = r"\d+"
CHARACTERS = string.ascii_letters + string.digits + " "


class Language(StrEnum):
    PYTHON = "python"
    PLAIN = "plain"


def language_of(file_name: str) -> Language:
    """Python for a name that ends in `.py`, else plain text."""
    return Language.PYTHON if file_name.endswith(".py") else Language.PLAIN


def mutations(text: str, rng: random.Random, language: Language) -> Iterator[str]:
    """Texts one edit away, in an order drawn from `rng` that gives every kind of edit the same chance.

    Python stays Python: what does not parse is left out; a text that does not parse itself is edited as plain text.
    """
    if language is Language.PYTHON and (tree := parsed(text)):
        for edit in _interleaved([_shuffled(edits, rng) for edits in python_edits(text, tree)], rng):
            edited = edit.apply(text)
            if edited != text and parsed(edited):
                yield edited
        return
    for edit in _interleaved(_plain_edits(text, rng), rng):
        edited = edit.apply(text)
        if edited != text:
            yield edited


def parsed(text: str) -> ast.Module | None:
    """The syntax tree of Python text, or None."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _interleaved(groups: Sequence[Iterator[Edit]], rng: random.Random) -> Iterator[Edit]:
    left = list(groups)
    while left:
        group = rng.choice(left)
        edit = next(group, None)
        if edit is None:
            left.remove(group)
        else:
            yield edit


def _shuffled(edits: Sequence[Edit], rng: random.Random) -> Iterator[Edit]:
    yield from rng.sample(edits, len(edits))


@dataclass(frozen=True, slots=True)
class _Piece:
    """A part of a text that is edited as one."""

    start: int
    end: int


def _plain_edits(text: str, rng: random.Random) -> list[Iterator[Edit]]:
    groups: list[Iterator[Edit]] = []
    for pattern in (LINE_WITH_END, WORD_WITH_SPACE, CHARACTER):
        groups += [_each(_pieces(pattern, text), edit_of, text, rng) for edit_of in (_delete, _duplicate)]
    for pattern in (LINE, WORD, CHARACTER):
        groups.append(_each(_pieces(pattern, text), _swap, text, rng))
    groups.append(_each(_pieces(CHARACTER, text), partial(_change, rng), text, rng))
    groups += [_each(_pieces(NUMBER, text), partial(_count, step), text, rng) for step in (1, -1)]
    return groups


def _pieces(pattern: str, text: str) -> list[_Piece]:
    return [_Piece(*match.span()) for match in re.finditer(pattern, text)]


def _each(
    pieces: Sequence[_Piece],
    edit_of: Callable[[str, Sequence[_Piece], int], Edit | None],
    text: str,
    rng: random.Random,
) -> Iterator[Edit]:
    for place in rng.sample(range(len(pieces)), len(pieces)):
        edit = edit_of(text, pieces, place)
        if edit:
            yield edit


def _delete(text: str, pieces: Sequence[_Piece], place: int) -> Edit:
    return Edit(pieces[place].start, pieces[place].end, "")


def _duplicate(text: str, pieces: Sequence[_Piece], place: int) -> Edit:
    piece = pieces[place]
    return Edit(piece.end, piece.end, text[piece.start : piece.end])


def _swap(text: str, pieces: Sequence[_Piece], place: int) -> Edit | None:
    if place + 1 == len(pieces):
        return None
    first, second = pieces[place], pieces[place + 1]
    swapped = text[second.start : second.end] + text[first.end : second.start] + text[first.start : first.end]
    return Edit(first.start, second.end, swapped)


def _change(rng: random.Random, text: str, pieces: Sequence[_Piece], place: int) -> Edit:
    return Edit(pieces[place].start, pieces[place].end, rng.choice(CHARACTERS))


def _count(step: int, text: str, pieces: Sequence[_Piece], place: int) -> Edit:
    """The number one higher or lower, as wide as before where it can be, so that decimals keep their places."""
    piece = pieces[place]
    digits = text[piece.start : piece.end]
    return Edit(piece.start, piece.end, f"{max(0, int(digits) + step):0{len(digits)}d}")
