"""The text of schedules: what parses, its canonical form, what is refused and where."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimizer.errors import ScheduleSyntaxError, StepError
from optimizer.polyhedral.schedule import Schedule, grammar, parse_schedule
from optimizer.polyhedral.steps import STEPS
from optimizer.polyhedral.steps.affine import Affine, name
from optimizer.polyhedral.steps.skew import Skew
from optimizer.polyhedral.steps.structure import MOST_LEAVES, MOST_LOOPS_AROUND
from optimizer.polyhedral.steps.text import LONGEST_TEXT, MOST_STEPS, parse_affine
from optimizer.polyhedral.steps.tile import Tile
from tests.hand_nests import gemm, lu


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("", ""),
        ("  # nothing\n\n ; ;\n", ""),
        ("tile(i=32,j=8)", "tile(i=32, j=8)"),
        ("tile(i=32); parallel(i_t);", "tile(i=32); parallel(i_t)"),
        ("parallel(i, chunk=8, share=blocks)", "parallel(i, chunk=8)"),
        ("parallel(i, ends, 0)", "parallel(i, share=ends)"),
        ("tile(i=32) # two levels\r\ntile(i_t=4)\n", "tile(i=32); tile(i_t=4)"),
        ("tile(\n  i=32,  # rows\n  j=8,\n)", "tile(i=32, j=8)"),
        ("tile(i=4*8, j=64//2)", "tile(i=32, j=32)"),
        ("skew(j, by=i, factor=1)", "skew(j, by=i)"),
        ("skew(j, i, -2)", "skew(j, by=i, factor=-2)"),
        ("skew(factor=2, by=i, loop=j)", "skew(j, by=i, factor=2)"),
        ("shift(S1, j, 1 - k + 2*(k + 3))", "shift(S1, j, k + 7)"),
        ("shift(S1, j, n - k)", "shift(S1, j, n - k)"),
        ("split(i, at=k_t*32+32)", "split(i, at=32*k_t + 32)"),
        ("split(i, k)", "split(i, at=k)"),
        ("split(i, at=3*((n + 1)//2) - n//4)", "split(i, at=3*((n + 1)//2) - (n//4))"),
        ("split(i, at=-n//2)", "split(i, at=(-n)//2)"),
        ("split(i, at=- - 3)", "split(i, at=3)"),
        ("split(i, at=n - n)", "split(i, at=0)"),
        ("unroll(k)", "unroll(k)"),
        ("unroll(k, 0)", "unroll(k)"),
        ("unroll(k, factor=4)", "unroll(k, 4)"),
        ("reorder(k, i, j)", "reorder(k, i, j)"),
        ("interchange(first=i, second=j)", "interchange(i, j)"),
        ("autoschedule()", "autoschedule()"),
        ("autoschedule(fuse=max)", "autoschedule(fuse=max)"),
    ],
)
def test_canonical_text(text: str, canonical: str) -> None:
    schedule = parse_schedule(text)
    assert str(schedule) == canonical
    assert parse_schedule(canonical) == schedule


def test_steps_made_in_python_and_from_text_are_equal() -> None:
    assert parse_schedule("tile(i=32, j=8); skew(j, by=i)").steps == (Tile((("i", 32), ("j", 8))), Skew("j", "i"))


def test_the_empty_schedule_is_the_untouched_kernel() -> None:
    assert parse_schedule("").apply(gemm()) is not None
    assert Schedule().apply(gemm()) == gemm().tree


@pytest.mark.parametrize(
    ("text", "message", "caret"),
    [
        ("tile(i=32", "line 1, column 10: expected `,` or `)`; the parenthesis of tile opens at column 5", 9),
        ("tile(i=32; parallel(i_t)", "line 1, column 10: expected `,` or `)`", 9),
        ("tile(i=32))", "line 1, column 11: expected `;` or a new line between two steps", 10),
        ("tile(i=32)\n  skew(j by=i)", "line 2, column 10: expected `,` or `)`", 9),
        ("tile(i=32) parallel(i)", "line 1, column 12: expected `;` or a new line", 11),
        ("parallel", "line 1, column 9: expected `(` after parallel", 8),
        ("(i)", "line 1, column 1: expected the name of a step", 0),
        ("tile(i=)", "line 1, column 8: expected a name or a whole number", 7),
        ("tile(i=1.5)", "line 1, column 9: unexpected '.'", 8),
        ("tile(i='8')", 'line 1, column 8: unexpected "\'"', 7),
        ("skew(by=i, j)", "line 1, column 12: an option without a name cannot follow one with a name", 11),
        ("skew(j, 2*i=3)", "line 1, column 9: expected the name of an option before `=`", 8),
        ("tile(i=2, i=4)", "line 1, column 11: i is given twice", 10),
        ("split(j, at=i*k)", "line 1, column 14: not affine: one side of `*` must be a number", 13),
        ("split(j, at=n//k)", "line 1, column 14: not affine: `//` needs a positive number", 13),
        ("split(j, at=n//0)", "line 1, column 14: not affine: `//` needs a positive number", 13),
        ("split(j, at=(n)", "line 1, column 16: expected `,` or `)`", 15),
        ("split(j, at=2*(n + 1)", "line 1, column 22: expected `,` or `)`", 21),
        ("split(j, at=(n + 1 i))", "line 1, column 20: expected `)`", 19),
        ("tile(i=99999999999)", "line 1, column 8: a number is larger than 1000000000", 7),
        ("split(j, at=1000000000*1000*n)", "a number is larger than 1000000000", None),
        (f"split(j, at={'(' * 60}n{')' * 60})", "too many parentheses inside each other", None),
    ],
)
def test_syntax_errors_show_the_place(text: str, message: str, caret: int | None) -> None:
    with pytest.raises(ScheduleSyntaxError) as caught:
        parse_schedule(text)
    lines = str(caught.value).splitlines()
    assert message in lines[0]
    if caret is not None:
        assert lines[2] == "    " + " " * caret + "^"
        assert lines[1].strip() in text


def test_the_caret_of_a_long_line_stays_in_sight() -> None:
    with pytest.raises(ScheduleSyntaxError) as caught:
        parse_schedule("tile(i=32); " * 100 + "tile(i=!)" + "; tile(i=32)" * 50)
    _, shown, caret = str(caught.value).splitlines()
    assert len(shown) < 110
    assert shown[caret.index("^")] == "!"


@pytest.mark.parametrize(
    "text",
    [
        "-" * 15_000 + "n",
        "(" * 15_000,
        "n" + "+n" * 7_000,
        "1" * 15_000,
        "999999999*" * 1_400 + "n",
    ],
    ids=lambda text: text[:12],
)
def test_hostile_expressions_end_in_a_schedule_error_or_a_schedule(text: str) -> None:
    try:
        parse_schedule(f"split(i, at={text})")
    except ScheduleSyntaxError:
        return
    assert "//" not in text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tile(i=32);" * (MOST_STEPS + 1), f"a schedule has at most {MOST_STEPS} steps"),
        (
            "#" * (LONGEST_TEXT + 1),
            f"a schedule has at most {LONGEST_TEXT} characters, this one has {LONGEST_TEXT + 1}",
        ),
    ],
    ids=["steps", "characters"],
)
def test_limits_of_the_text(text: str, message: str) -> None:
    with pytest.raises(ScheduleSyntaxError, match=message):
        parse_schedule(text)


@pytest.mark.parametrize(
    ("text", "message", "near"),
    [
        ("tyle(i=32)", "step 1, `tyle(i=32)`: there is no step tyle; the steps are autoschedule, interchange", "tile"),
        ("tile(i=32); unrol(i)", "step 2, `unrol(i)`: there is no step unrol", "unroll"),
        ("tile(i=abc)", "step 1, `tile(i=abc)`: tile: i takes a whole number, not abc", None),
        ("tile(i=0)", "step 1, `tile(i=0)`: the tile size of i must be from 2 to 1000000, not 0", "tile(i=32)"),
        ("tile(32)", "tile does not take; write tile(loop=number, ...)", None),
        ("reorder(i, j=3)", "reorder does not take; write reorder(loop, loop, ...)", None),
        ("skew(j)", "skew needs by (a loop); write skew(loop, by=loop[, factor=number])", None),
        ("skew(j, b=i)", "skew has no option b; write skew(loop, by=loop[, factor=number])", "by"),
        ("skew(j, i, by=k)", "skew: by is given twice", None),
        ("skew(j, by=i, factor=n)", "skew: factor takes a whole number, not n", None),
        ("interchange(i, j, k)", "interchange does not take; write interchange(loop, loop)", None),
        ("interchange(i, 3)", "interchange: second takes the name of a loop, not 3", None),
        ("interchange(i, 2*j)", "interchange: second takes the name of a loop, not 2*j", None),
        ("reorder(i, i + 1)", "reorder: order takes the name of a loop, not i + 1", None),
        ("fuse(i, 3)", "fuse: second takes the name of a loop or statement, not 3", None),
        ("unroll(k, x)", "unroll: factor takes a whole number, not x", None),
    ],
)
def test_wrong_options(text: str, message: str, near: str | None) -> None:
    with pytest.raises(StepError) as caught:
        parse_schedule(text)
    assert message in caught.value.message
    assert near is None or near in caught.value.near


def test_an_error_while_applying_names_the_step() -> None:
    schedule = parse_schedule("tile(i=32); parallel(i_t); interchange(j, k)")
    with pytest.raises(StepError, match=r"^step 3, `interchange\(j, k\)`: k and j are not nested in one another"):
        schedule.apply(gemm())


MANY_SPLITS = "".join(
    [*(f"split(j, at={900 - k});" for k in range(20)), *(f"split(i, at={999 - k});" for k in range(9))]
)
MANY_SKEWS = "skew(k_2, by=j_2); interchange(j_2, k_2); skew(j_2, by=k_2); interchange(k_2, j_2);" * 40


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tile(j=2);" * 20, f"step 14, .*S0 would be in 17 loops, at most {MOST_LOOPS_AROUND} may be"),
        (MANY_SPLITS, f"parts of statements, at most {MOST_LEAVES} are allowed"),
        (MANY_SKEWS, "step 23, .*the expressions of the loops around S2 would become too long"),
    ],
    ids=["loops", "leaves", "expressions"],
)
def test_limits_of_the_tree(text: str, message: str) -> None:
    with pytest.raises(StepError, match=message):
        parse_schedule(text).apply(lu())


def test_the_grammar_has_every_step_on_one_line() -> None:
    lines = grammar().splitlines()
    assert [line.strip().partition("(")[0] for line in lines[2:]] == list(STEPS)
    assert "  skew(loop, by=loop[, factor=number]): Add a multiple of an outer loop's value" in grammar()
    assert "  tile(loop=number, ...): Cut the iterations of loops into tiles, and run tile after tile." in lines


def test_every_docstring_has_its_sentence_arguments_and_rewriting() -> None:
    for kind in STEPS.values():
        first, *rest = (kind.__doc__ or "").splitlines()
        assert first.endswith(".")
        assert {"args:", "rewrite:"} <= {line.strip() for line in rest}
        assert "->" in (kind.__doc__ or "")


def test_schedules_are_read_without_heavy_modules() -> None:
    code = (
        "import sys; from optimizer.polyhedral.schedule import parse_schedule; parse_schedule('tile(i=32)');"
        "print(sorted({'numpy', 'numba', 'islpy', 'rich'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


NAMES = ("i", "k_t", "n")
expressions = st.recursive(
    st.one_of(st.integers(0, 50).map(str), st.sampled_from(NAMES)),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-"]), inner).map(lambda parts: f"({' '.join(parts)})"),
        st.tuples(inner, st.integers(1, 9)).map(lambda parts: f"({parts[0]} // {parts[1]})"),
        st.tuples(st.integers(-9, 9), inner).map(lambda parts: f"{parts[0]}*{parts[1]}"),
        inner.map(lambda text: f"-{text}"),
    ),
    max_leaves=8,
)


@given(expressions, st.tuples(*(st.integers(-99, 99) for _ in NAMES)))
def test_an_expression_has_the_value_that_python_gives_it(text: str, values: tuple[int, ...]) -> None:
    known = dict(zip(NAMES, values, strict=True))
    parsed = parse_affine(text)
    assert eval(str(parsed), dict(known)) == eval(text, dict(known))
    assert parse_affine(str(parsed)) == parsed


def test_affine_sums_are_normal() -> None:
    assert name("i") + name("n").scaled(-1) + name("i") == Affine((("i", 2), ("n", -1)))
    assert str(name("n").scaled(-1) + name("i")) == "i - n"
    assert name("i").scaled(0) == Affine()
    assert (name("k_t").scaled(32) + Affine(constant=-1)).in_isl({"k_t": "floor(k/32)"}) == "32*floor(k/32) - 1"
    assert parse_affine("n - 2*((i + 1)//2)").in_isl({"i": "i - j"}) == "n - 2*floor(((i - j) + 1)/2)"
