"""Everything that is not supported is refused at its exact place, with the reason and what to write instead."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from optimizer.errors import SourceError, UserError
from optimizer.polyhedral.frontend import nest_of_file, nest_of_function, nest_of_source

HEADER = """\
import math
import numpy as np
import numpy.typing as npt
from jaxtyping import Float, Float64, Int64
from functools import lru_cache
LIMIT = math.inf
size = 3
if LIMIT: size = 4
TABLE = [1, 2]
def helper(x): return x * 2.0
def noisy(x):
    print(x)
    return x
@lru_cache
def cached(x): return x
def endless(x):
    return endless(x - 1.0)
"""
SIGNATURE = (
    'def f(n: int, m: int, alpha: float, A: Float64[np.ndarray, "n n"], x: Float64[np.ndarray, "n"], '
    'idx: Int64[np.ndarray, "n"]):\n'
)


def rejected(text: str, examples: dict[str, Any] | None = None) -> SourceError:
    with pytest.raises(SourceError) as caught:
        nest_of_source(text, "f", "kernel.py", examples)
    return caught.value


# Each: the body, in which `$` stands just before the offending place, and parts of the message and of the hint.
BODIES = {
    "while": ("$while n > 0:\n    n -= 1", "`while` is not supported", "`for` over a `range`"),
    "break": ("for i in range(n):\n    x[i] = 1.0\n    $break", "`break` is not supported", "into the bounds"),
    "continue": ("for i in range(n):\n    $continue", "`continue` is not supported", "`if` around the rest"),
    "indirect": ("for i in range($idx[0]):\n    x[idx[i]] = 1.0", "`idx[0]` is data", "gather the elements"),
    "product": (
        "for i in range($n * n):\n    x[i] = 1.0",
        "`n * n` multiplies two variables",
        "sums of loop variables",
    ),
    "true division": ("for i in range($n / 2):\n    x[i] = 1.0", "`/` gives a float", ""),
    "non-affine bound": ("for i in range($n * m):\n    x[i] = 1.0", "the bound of this loop is not affine", "sums of"),
    "float bound": ("for i in range($alpha):\n    x[i] = 1.0", "`alpha` is a float64, not a signed integer", ""),
    "division by a variable": ("for i in range($n // m):\n    x[i] = 1.0", "does not divide by a constant", ""),
    "step of a variable": ("for i in range(0, n, $m):\n    x[i] = 1.0", "step of a loop must be a whole number", "2"),
    "step of zero": ("for i in range(0, n, $0):\n    x[i] = 1.0", "other than 0", ""),
    "not a range": ("for v in $alpha:\n    A[0, 0] = v", "a loop over `alpha` is not supported", "range(...)"),
    "list": ("for v in $[1, 2]:\n    A[0, 0] = v", "a loop over `[1, 2]` is not supported", "range(...)"),
    "computed": ("for v, w in zip($x * 2, x):\n    A[0, 0] = v", "a loop over `x * 2` is not supported", "range(...)"),
    "enumerate": ("for i in $enumerate(x):\n    A[0, 0] = i", "over `enumerate(x)` is not supported", "range(...)"),
    "row given another value": ("for row in A:\n    $row = x", "`row` is a part of an array here", "another name"),
    "two names for one array": ("$t = u = np.zeros(n)\nfor i in range(n):\n    t[i] = 1.0", "several names", "its own"),
    "for else": ("for i in range(n):\n    x[i] = 1.0\nelse:\n    $x[0] = 2.0", "`else` of a loop", "behind the loop"),
    "same variable inside": (
        "for i in range(n):\n    for $i in range(n):\n        x[i] = 1.0",
        "also that of a loop around",
        "a variable of its own",
    ),
    "loop variable assigned": (
        "for i in range(n):\n    $i = 3\n    x[i] = 1.0",
        "`i` is a loop variable",
        "another name",
    ),
    "loop variable changed": ("for i in range(n):\n    x[i] = 1.0\n    $i += 1", "only its loop may change it", ""),
    "loop variable afterwards": ("for i in range(n):\n    x[i] = 1.0\nx[$i] = 2.0", "no value outside its loop", ""),
    "loop variable as value": ("for i in range(n):\n    x[i] = 1.0\nx[0] = $i", "no value outside its loop", "inside"),
    "slice read": ("for i in range(n):\n    $x[i] = helper(x[0:n])", "the value has 1 dimension, and one number", ""),
    "row": ("for i in range(n):\n    $x[i] = A[i]", "the value has 1 dimension, and one number is assigned to", ""),
    "whole array": ("for i in range(n):\n    $x[i] = A * 2.0", "the value has 2 dimensions, and one number", ""),
    "other size": (
        "$x[1:] = A[0]\nfor i in range(n):\n    x[i] = 1.0",
        "sizes n - 1 and n are not known to be",
        "",
    ),
    "smaller": ("$x[:] = A\nfor i in range(n):\n    x[i] = 1.0", "the value has another shape", ""),
    "rebound in a loop": ("for i in range(n):\n    $x = A[i] * 2.0", "`x` is an array already", ""),
    "part in a loop": ("for i in range(n):\n    $x = A[i]", "`x` is an array already", ""),
    "truth of an array": ("for i in range(n):\n    $x[i] = 1.0 if A[i] else 2.0", "whether an array is true", ""),
    "product of numbers": ("for i in range(n):\n    $x[i] = A[i, 0] @ x", "a product of 0 and 1 dimensions", ""),
    "chain of comparisons": ("for i in range(n):\n    $x[i] = np.sum(0 < A[i] < 1)", "a chain of comparisons", ""),
    "gathered": ("for i in range(n):\n    x[i] = np.sum(A[$idx[i], :])", "is data", "sums of loop variables"),
    "axis": ("for i in range(n):\n    $x[i] = A.sum(axis=2)[0]", "axis 2 of 2 dimensions", ""),
    "other function": ("for i in range(n):\n    $x[i] = np.median(A[i])", "`np.median` of arrays is not supported", ""),
    "unknown function": (
        "for i in range(n):\n    x[i] = $math.sqrtt(x[i])",
        "`math.sqrtt` cannot be called",
        "`math.sqrt`",
    ),
    "attribute": ("for i in range(n):\n    x[i] = $A.size", "attribute `A.size`", "argument"),
    "call for effect": ("for i in range(n):\n    $print(i)", "a call of `print` for its effect", "leave the call out"),
    "impure helper": ("for i in range(n):\n    x[i] = $noisy(x[i])", "calls `print`", "compute a number from numbers"),
    "recursive helper": ("for i in range(n):\n    x[i] = $endless(x[i])", "it calls itself", ""),
    "recursion": ("for i in range(n):\n    x[i] = $f(n, m, alpha, A, x, idx)", "`f` calls itself: recursion", ""),
    "keyword": ("for i in range(n):\n    x[i] = $max(x[i], 0.0, key=abs)", "called with keywords", "plain arguments"),
    "undefined": ("for i in range(n):\n    x[i] = $alhpa * x[i]", "`alhpa` is not defined (did you mean `alpha`?)", ""),
    "unknown array": ("for i in range(n):\n    $B[i] = 0.0", "`B` is not an array that is known here", "np.zeros"),
    "module list": ("for i in range(n):\n    x[i] = $TABLE * 2", "`TABLE` is not a number that is fixed", "argument"),
    "rebound constant": ("for i in range($size):\n    x[i] = 1.0", "`size` is not an integer that is known", ""),
    "text": ("for i in range(n):\n    x[i] = $'a'", "is not supported in a kernel", "numbers"),
    "lambda": ("for i in range(n):\n    x[i] = $(lambda: 1.0)()", "cannot be called", ""),
    "comprehension": ("for i in range(n):\n    x[i] = $[k for k in range(3)]", "is not supported", "numbers"),
    "comparison by in": ("for i in range(n):\n    x[i] = 1.0 if $i in (1, 2) else 0.0", "`is` and `in`", "=="),
    "early return": ("for i in range(n):\n    $return x", "only supported as the last line", ""),
    "try": ("for i in range(n):\n    $try:\n        x[i] = 1.0\n    finally:\n        pass", "`try", "`for`, `if`"),
    "with": ("for i in range(n):\n    $with x:\n        pass", "`with` is not supported", "`for`, `if`"),
    "assert": (
        "$assert n > 0\nfor i in range(n):\n    x[i] = 1.0",
        "a kernel that may raise is not supported",
        "before",
    ),
    "global": ("$global LIMIT\nfor i in range(n):\n    x[i] = 1.0", "`global` is not supported", ""),
    "import": ("$import os\nfor i in range(n):\n    x[i] = 1.0", "`import` inside a kernel", "top of the file"),
    "nested function": ("$def g(): return 1\nfor i in range(n):\n    x[i] = 1.0", "`def` is not supported", ""),
    "delete": ("$del n\nfor i in range(m):\n    x[i] = 1.0", "`del` is not supported", ""),
    "swap": (
        "A[0], A[1] = A[1], $A[0]\nfor i in range(n):\n    x[i] = 1.0",
        "`A` is read here and changed by the same assignment",
        "one by one",
    ),
    "unpacking": (
        "for i in range(n):\n    $a, b = helper(x[i])\n    x[i] = a",
        "several variables is not supported",
        "",
    ),
    "wrong shape": ("p, q = $x.shape\nfor i in range(n):\n    x[i] = 1.0", "not an array of 2 dimensions", ""),
    "decorated helper": ("for i in range(n):\n    x[i] = $cached(x[i])", "decorator `@lru_cache` may change", ""),
    "attribute target": ("for i in range(n):\n    $x.flags = 1", "assignment to `x.flags`", ""),
    "array of unknown size": ("t = np.zeros($idx[0])\nfor i in range(n):\n    x[i] = t[i]", "is data", ""),
    "array of divided size": ("t = np.zeros($n // 2)\nfor i in range(n):\n    x[i] = 1.0", "is not a sum", "argument"),
    "array of complex": ("t = np.zeros(n, dtype=$complex)\nfor i in range(n):\n    x[i] = 1.0", "is not a type", ""),
    "unset": (
        "for i in range(n):\n    s = $t + 1.0\n    t = s\n    x[i] = s",
        "`t` is read before it is assigned",
        "value",
    ),
    "sometimes unset": (
        "for i in range(n):\n    for j in range(m):\n        s = x[j]\n    x[i] = $s",
        "`s` is read before it is assigned, for example when n = ",
        "give `s` a value before the loops",
    ),
    "unset at return": (
        "for i in range(n):\n    s = x[i]\nreturn $s",
        "`s` is read before it is assigned, for exam",
        "",
    ),
    "unset sum": ("for i in range(n):\n    $s += x[i]", "`s` is read before it is assigned", "value before the loops"),
    "unset prologue": ("for i in range(n):\n    x[i] = $c\nc = 2.0 * alpha", "`c` is read before it is assigned", ""),
    "reserved": ("for i in range(n):\n    $max = 1.0\n    x[i] = max", "`max` cannot be the name of a variable", ""),
    "walrus": ("for i in range(n):\n    x[i] = $(y := 2.0)", "is not supported in a kernel", ""),
    "out of bounds": (
        "for i in range(n):\n    x[i] = $x[i + 1]",
        "S0 at i=0 reads x[1], but x has the shape [n], here [1]",
        "",
    ),
    "below": ("for i in range(n):\n    $x[i - 1] = 0.0", "S0 at i=0 writes x[-1]", "shorter"),
}


@pytest.mark.parametrize("case", BODIES)
def test_refused_in_a_body(case: str) -> None:
    body, message, hint = BODIES[case]
    marked = HEADER + SIGNATURE + "".join(f"    {line}\n" for line in body.splitlines())
    text = marked.replace("$", "")
    error = rejected(text)
    assert message in error.message
    assert hint in error.hint
    assert text.splitlines()[error.line - 1] == error.text
    if "$" in marked:
        before = marked.partition("$")[0]
        place = (before.count("\n") + 1, len(before) - before.rfind("\n") - 1)
        # A parenthesis is no part of the expression inside it.
        opening = error.text[place[1]] == "("
        assert (error.line, error.column) in {place, (place[0], place[1] + opening)}
    first, shown, caret, *_ = str(error).splitlines()
    assert first == f"kernel.py:{error.line}:{error.column + 1}: {error.message}"
    assert shown == f"    {error.text.rstrip()}"
    assert caret == " " * (4 + error.column) + "^"


SIGNATURES = {
    "no type": ("def f($x):", "argument `x` has no type", "Float64[np.ndarray"),
    "bare array": ("def f(x: $np.ndarray):", "says too little: `np.ndarray`", "Float64[np.ndarray"),
    "any float": ('def f(x: $Float[np.ndarray, "n"]):', "says too little", "Float64[np.ndarray"),
    "other type": ("def f(x: $str):", "says too little: `str`", ""),
    "list": ("def f(x: $list[int]):", "says too little", ""),
    "star": ("def f(*$x):", "`*` and `**` arguments", "each argument"),
    "any rank": ('def f(x: Float64[np.ndarray, $"..."]):', "number of dimensions must be fixed", ""),
    "variadic": ('def f(x: Float64[np.ndarray, $"*n"]):', "dimension `*n` is not", ""),
    "no dimension": ('def f(x: Float64[np.ndarray, $""]):', "without dimensions", "`x: float`"),
    "unknown size": ('def f(x: Float64[np.ndarray, $"n+1"]):', "`n` is neither an integer argument nor the size", ""),
    "product size": ('def f(n: int, x: Float64[np.ndarray, $"n*n"]):', "multiplies two variables", ""),
    "divided size": ('def f(n: int, x: Float64[np.ndarray, $"n//2"]):', "is not a sum", "a name of its own"),
    "float size": ('def f(n: float, x: Float64[np.ndarray, $"n+1"]):', "`n` is neither", ""),
    "reserved": ("def f($min: float):", "`min` cannot be the name of an argument", "another name"),
    "reserved by isl": ("def f($exists: int):", "`exists` cannot be the name of an argument", ""),
    "not ASCII": ("def f($β: float):", "`β` cannot be the name", ""),
}


@pytest.mark.parametrize("case", SIGNATURES)
def test_refused_in_a_signature(case: str) -> None:
    header, message, hint = SIGNATURES[case]
    text = HEADER + header.replace("$", "") + "\n    for i in range(3):\n        x[i] = 0.0\n"
    error = rejected(text)
    assert message in error.message
    assert hint in error.hint
    assert (error.line, error.column) == (HEADER.count("\n") + 1, header.index("$"))


def test_columns_count_characters_not_bytes() -> None:
    body = "    for i in range(n):\n        x[i] = 'äöü' if n else y\n"
    error = rejected(HEADER + SIGNATURE + body.replace("'äöü' if n else y", "alpha if x[i] else 'äöü'"))
    assert error.column == body.splitlines()[1].index("'") + len("alpha if x[i] else ")
    assert error.text[error.column] == "'"


@pytest.mark.parametrize(
    ("text", "line", "column"), [("def f(:\n    pass\n", 1, 6), ("x = (1\n", 1, 4), ("def f():\n", 1, 8)]
)
def test_syntax_errors_are_shown_at_their_place(text: str, line: int, column: int) -> None:
    error = rejected(text)
    assert "syntax error" in error.message
    assert (error.line, error.column) == (line, column)


def test_a_text_that_is_no_source_is_one_message() -> None:
    with pytest.raises(UserError, match=r"kernel\.py"):
        nest_of_source("x = 1\0", None, "kernel.py")


def test_no_loops() -> None:
    assert "`f` has no loops" in rejected("def f(n: int):\n    return n\n").message
    assert "`f` has no loops" in rejected("def f(n: int):\n    for i in range(n):\n        pass\n").message
    with pytest.raises(UserError, match=r"no function with loops or statements over arrays in kernel\.py \(f\)"):
        nest_of_source("def f(n: int):\n    return n\n", None, "kernel.py")


def test_decorators_that_change_a_function_are_refused() -> None:
    error = rejected(HEADER + "@np.vectorize\n" + SIGNATURE + "    pass\n")
    assert "decorator `@np.vectorize` may change what the function does" in error.message
    assert error.column == 1


def test_a_redefined_builtin_is_refused() -> None:
    assert "`max` a meaning of its own" in rejected("from numpy import max\n" + SIGNATURE + "    pass\n").message


TWO = "def g(n: int):\n    for i in range(n): pass\ndef h(n: int):\n    for i in range(n): pass\ndef _hidden(): pass\n"


WHOLE_ARRAYS = """import numpy as np
from jaxtyping import Float64

def means(x: Float64[np.ndarray, "n m"]):
    return np.mean(x, axis=1)

def show(count: int):
    return str(count)
"""


def test_files_and_functions_that_are_not_there(tmp_path: Path) -> None:
    path = tmp_path / "two.py"
    path.write_text(TWO)
    with pytest.raises(UserError, match=r"no such file: missing\.py"):
        nest_of_file("missing.py:gemm")
    with pytest.raises(UserError, match="cannot read"):
        nest_of_file(str(tmp_path))
    with pytest.raises(UserError, match=r"no function `k` in .*: there are g, h, _hidden"):
        nest_of_file(f"{path}:k")
    with pytest.raises(UserError, match=r"could mean several functions: g, h. Name one: .*two.py:g"):
        nest_of_file(str(path))
    path.write_text(WHOLE_ARRAYS)
    assert nest_of_file(str(path)).name == "means"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match="cannot read"):
        nest_of_file(str(path))


def test_examples_that_do_not_fit() -> None:
    text = "import numpy as np\nfrom jaxtyping import Float64\n" + 'def f(x: Float64[np.ndarray, "n"]):\n    pass\n'
    with pytest.raises(UserError, match="`x` is annotated as float64 array of rank 1, the example given is float32"):
        nest_of_source(text, "f", "k.py", {"x": np.zeros(3, np.float32)})
    scalars = "def f(a: float, n: int):\n    pass\n"
    with pytest.raises(UserError, match="`n` is annotated as int64, the example given is float64"):
        nest_of_source(scalars, "f", "k.py", {"a": 1, "n": 2.0})
    with pytest.raises(SourceError, match="has no loops"):
        nest_of_source(scalars, "f", "k.py", {"a": 1, "n": np.int32(2)})
    with pytest.raises(UserError, match="argument `x` is an array of complex128"):
        nest_of_source("def f(x):\n    pass\n", "f", "k.py", {"x": np.zeros(3, complex)})
    with pytest.raises(UserError, match="argument `x` is of type list"):
        nest_of_source("def f(x):\n    pass\n", "f", "k.py", {"x": [1.0]})


def scaled(x, factor):  # type: ignore[no-untyped-def]
    for i in range(len(x)):
        x[i] *= factor


def test_types_that_only_the_use_of_arguments_shows(tmp_path: Path) -> None:
    path = tmp_path / "plain.py"
    path.write_text("def f(n, a, m, t, y, b=2):\n    for i in range(n):\n        y[i] = a * m[i, 0] + b * len(t)\n")
    nest = nest_of_file(str(path))
    assert {argument.name: (argument.dtype, argument.is_assumed) for argument in nest.arguments} == {
        **{"n": ("int64", True), "a": ("float64", True), "m": ("float64", True), "t": ("float64", True)},
        **{"y": ("float64", True), "b": ("int64", False)},
    }
    assert {array.name: len(array.shape) for array in nest.arrays} == {"m": 2, "t": 1, "y": 1}
    path.write_text("def f(n, x):\n    for i in range(n):\n        x[i] = order\n")
    with pytest.raises(SourceError, match=r"(?s)`order` is not defined.*`n`, `x` may be is guessed from the use"):
        nest_of_file(str(path))
    with pytest.raises(SourceError, match="argument `n` has no type"):
        nest_of_source(path.read_text(), None, "plain.py")


def test_functions_whose_source_or_arguments_are_unusable() -> None:
    with pytest.raises(UserError, match="do not fit"):
        nest_of_function(scaled, [np.zeros(3)])
    with pytest.raises(SourceError, match="argument `x` has no type"):
        nest_of_function(scaled)
    space: dict[str, Any] = {}
    exec("def made(x):\n    for i in range(3): x[i] = 0.0\n", space)
    with pytest.raises(UserError, match="source of `made` cannot be found"):
        nest_of_function(space["made"], [np.zeros(3)])
    with pytest.raises(UserError, match="is not a Python function"):
        nest_of_function(len, [np.zeros(3)])
