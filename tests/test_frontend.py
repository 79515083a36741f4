"""The front end's nests, golden and in detail."""

import linecache
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import islpy as isl
import numba
import numpy as np
import pytest
from jaxtyping import Float32, Float64

from kernels import catalog
from optimizer.polyhedral.frontend import nest_of_file, nest_of_function, nest_of_source
from optimizer.polyhedral.nest import Access, Argument, ArgumentKind, Array, Nest, Role, SourceLoop
from optimizer.polyhedral.tree import Leaf, Loop, Sequence, show
from tests import hand_nests

HEADER = "import numpy as np\nfrom jaxtyping import Float32, Float64, Int32\n"
HAND = {
    "gemm": (
        'ni: int, nj: int, nk: int, alpha: float, beta: float, C: Float64[np.ndarray, "ni nj"], '
        'A: Float64[np.ndarray, "ni nk"], B: Float64[np.ndarray, "nk nj"]',
        hand_nests.GEMM_SOURCE,
        hand_nests.gemm(),
    ),
    "lu": ('n: int, A: Float64[np.ndarray, "n n"]', hand_nests.LU_SOURCE, hand_nests.lu()),
    "row_sum": (
        'n: int, m: int, A: Float64[np.ndarray, "n m"], x: Float64[np.ndarray, "n"]',
        hand_nests.ROW_SUM_SOURCE,
        hand_nests.row_sum(),
    ),
}


def kernel(text: str, function: str = "f", examples: dict[str, Any] | None = None) -> Nest:
    return nest_of_source(HEADER + text, function, "kernel.py", examples)


def same_set(left: str, right: str) -> bool:
    return isl.Set(left).is_equal(isl.Set(right))


@pytest.mark.parametrize("name", HAND)
def test_hand_written_nests_come_out_equal(name: str) -> None:
    arguments, source, expected = HAND[name]
    annotated = re.sub(r"\(.*?\)", f"({arguments})", source, count=1)
    assert nest_of_source(annotated, None, "<function>") == expected


def test_golden_cholesky() -> None:
    nest = nest_of_file(str(catalog.load("cholesky").__file__))
    assert show(nest.tree) == (
        "for i\n  for j\n    for k\n      S0: i = i, j = j, k = k\n    S1: i = i, j = j\n"
        "  for k_2\n    S2: i = i, k_2 = k_2\n  S3: i = i"
    )
    assert [s.body for s in nest.statements] == [
        "A[i, j] -= A[i, k] * A[j, k]",
        "A[i, j] /= A[j, j]",
        "A[i, i] -= A[i, k_2] * A[i, k_2]",
        "A[i, i] = math.sqrt(A[i, i])",
    ]
    assert nest.statement("S2").domain == "[n] -> { S2[i, k_2] : 0 <= i < n and 0 <= k_2 < i }"
    assert nest.preamble == "import math\n"


def test_golden_nussinov() -> None:
    nest = nest_of_file(str(catalog.load("nussinov").__file__))
    assert [loop.name for loop in nest.loops] == ["i", "j", "k"]
    assert nest.tree == Loop(
        "i",
        Loop(
            "j",
            Sequence(
                (
                    *(Leaf(f"S{k}", {"i": "-i", "j": "j"}) for k in range(4)),
                    Loop("k", Leaf("S4", {"i": "-i", "j": "j", "k": "k"})),
                )
            ),
        ),
    )
    assert same_set(nest.statement("S3").domain, "[n] -> { S3[i, j] : 0 <= i < n - 1 and j = i + 1 }")
    assert nest.statement("S2").accesses == (
        Access("table", ("i", "j"), False),
        Access("table", ("i + 1", "j - 1"), False),
        Access("seq", ("i",), False),
        Access("seq", ("j",), False),
        Access("table", ("i", "j"), True),
    )
    assert {array.dtype for array in nest.arrays} == {"int32"}


def test_golden_ludcmp_tells_the_uses_of_one_variable_apart() -> None:
    nest = nest_of_file(str(catalog.load("ludcmp").__file__))
    scalars = {a.array: a.subscripts for s in nest.statements for a in s.accesses if a.array.startswith("w")}
    assert scalars == {"w_3": ("i_2",), "w_4": ("i_3",)}
    assert [s.body for s in nest.statements][-1] == "x[i_3] = w_4 / A[i_3, i_3]"
    assert nest.array("w_4") == Array("w_4", "float64", (), Role.SCALAR)


def test_golden_durbin_carries_scalars_and_has_a_local_array() -> None:
    nest = nest_of_file(str(catalog.load("durbin").__file__))
    subscripts = {(a.array, a.subscripts) for s in nest.statements for a in s.accesses}
    assert {("alpha", ()), ("beta", ()), ("sum", ("k",))} <= subscripts
    assert nest.array("z") == Array("z", "float64", ("n",), Role.LOCAL, "empty")
    assert nest.statement("S1").domain == "{ S1[] }"
    assert "y[k - i_2 - 1]" in nest.statement("S7").body


def test_golden_deriche_computes_its_coefficients_before() -> None:
    nest = nest_of_file(str(catalog.load("deriche").__file__))
    names = [line.partition(" = ")[0] for line in nest.prologue]
    assert names == ["k", "a1", "a5", "a2", "a6", "a3", "a7", "a4", "a8", "b1", "b2", "c1", "c2"]
    assert nest.prologue[-3] == "b2 = -math.exp(-2.0 * alpha)"
    assert nest.arguments[2] == Argument("alpha", ArgumentKind.VALUE, "float64")
    assert not nest.epilogue


def test_golden_matmul_float32_reads_sizes_off_its_arrays() -> None:
    nest = nest_of_file(str(catalog.load("matmul-float32").__file__))
    assert nest.parameters == ("ni", "nk", "nj")
    assert nest.extents == (("ni", "A", 0), ("nk", "A", 1), ("nj", "B", 1))
    assert not nest.prologue
    assert nest.context == "[ni, nk, nj] -> { : ni >= 0 and nk >= 0 and nj >= 0 }"
    assert nest.arguments[0] == Argument("A", ArgumentKind.ARRAY, "float32")


def test_domains_of_steps_and_of_min_and_max() -> None:
    nest = kernel(
        'def f(n: int, m: int, x: Float64[np.ndarray, "n"]):\n'
        "    for i in range(max(0, m), min(n, 2 * m), 3):\n        x[i] = 0.0\n"
        "    for i in range(n - 1, -1, -2):\n        x[i] = 0.0\n"
        "    for i in range(min(n, m), n):\n        if i >= 0:\n            x[i] = 0.0\n"
    )
    first, second, third = nest.statements
    assert "max(0, m) <= i" not in first.domain
    assert same_set(
        first.domain,
        "[n, m] -> { S0[i] : 0 <= i and m <= i and i < n and i < 2m and ((m >= 0 and (i - m) mod 3 = 0) or "
        "(m < 0 and i mod 3 = 0)) }",
    )
    assert second.domain == "[n] -> { S1[i_2] : 0 <= i_2 < n and (n - i_2 - 1) mod 2 = 0 }"
    assert same_set(third.domain, "[n, m] -> { S2[i_3] : 0 <= i_3 < n and (n <= i_3 or m <= i_3) }")
    assert nest.loops == (SourceLoop("i", 4), SourceLoop("i_2", 6), SourceLoop("i_3", 8))


def test_prange_is_marked_and_reserved_loop_names_change() -> None:
    nest = kernel(
        "from numba import prange\n"
        'def f(n: int, x: Float64[np.ndarray, "n"]):\n'
        "    for max in prange(n):\n        x[max] = n\n"
        "    for n_2 in range(n):\n        x[n_2] += 1\n"
    )
    assert nest.loops == (SourceLoop("max_2", 5, is_prange=True), SourceLoop("n_2", 7))
    assert nest.statement("S0").body == "x[max_2] = n"
    assert nest.original.startswith("from numba import prange\n")
    assert nest.preamble == ""


def test_names_in_shapes_give_way_to_those_of_the_function() -> None:
    nest = kernel(
        'def f(A: Float64[np.ndarray, "n m"], b: Float64[np.ndarray, "_ 3"]):\n'
        "    n = A.shape[0] - 1\n    rows, columns = b.shape\n"
        "    for m in range(n):\n        A[m, 0] = A[m + 1, 0] + n\n"
        "    for k in range(rows):\n        b[k, 2] = columns\n"
    )
    assert nest.parameters == ("n_2", "m_2", "rows")
    assert nest.extents == (("n_2", "A", 0), ("m_2", "A", 1), ("rows", "b", 0))
    assert nest.array("b").shape == ("rows", "3")
    assert nest.statement("S0").domain == "[n_2] -> { S0[m] : 0 <= m < n_2 - 1 }"
    assert nest.statement("S0").body == "A[m, 0] = A[m + 1, 0] + (n_2 - 1)"
    assert nest.statement("S1").body == "b[k, 2] = columns"
    assert nest.prologue == ("columns = 3",)


def test_integer_arguments_are_parameters_only_where_they_shape_the_nest() -> None:
    nest = kernel(
        'def f(n: int, steps: int, weight: int, last: int, x: Float64[np.ndarray, "n+1"]):\n'
        "    for t in range(steps):\n        for i in range(n):\n            x[i] += weight\n"
        "    last = last - 1\n    return last\n"
    )
    kinds = {a.name: a.kind for a in nest.arguments}
    assert kinds["weight"] is kinds["last"] is ArgumentKind.VALUE
    assert nest.parameters == ("n", "steps")
    assert same_set(nest.context, "[n, steps] -> { : n + 1 >= 0 }")
    assert nest.array("last") == Array("last", "int64", (), Role.SCALAR, returned=True)
    assert nest.epilogue == ("return last",)


def test_returned_arrays_and_defaults() -> None:
    nest = kernel(
        'def f(A: Float64[np.ndarray, "n n"], scale: float = 0.5, flag: bool = True):\n'
        "    out = np.zeros_like(A)\n    for i in range(len(A)):\n"
        "        out[i, i] = A[i, i] * scale if flag else 0.0\n    return out, A\n"
    )
    assert nest.array("out") == Array("out", "float64", ("n", "n"), Role.LOCAL, "zeros", returned=True)
    assert nest.arguments[1:] == (
        Argument("scale", ArgumentKind.VALUE, "float64", "0.5"),
        Argument("flag", ArgumentKind.VALUE, "bool", "True"),
    )
    assert nest.epilogue == ("return (out, A)",)
    assert nest.original.startswith("import numpy as np\n\n\ndef f(A, scale=0.5, flag=True):\n")


def test_the_original_keeps_the_body_as_it_is_written() -> None:
    nest = kernel(
        "LIMIT = 3  # unused\nWEIGHT: float = 0.5\n"
        'def f(n: int,\n      x: Float64[np.ndarray, "n"]) -> None:\n'
        '    """Halves."""\n    for i in range(n):  # all of them\n        x[i] = (x[i]\n                * WEIGHT)\n'
    )
    assert nest.original == (
        'WEIGHT = 0.5\n\n\ndef f(n, x):\n    """Halves."""\n'
        "    for i in range(n):  # all of them\n        x[i] = (x[i]\n                * WEIGHT)\n"
    )
    again = nest.original.replace("(n, x)", '(n: int, x: Float64[np.ndarray, "n"])')
    assert nest.digest == kernel(again).digest
    assert nest.digest != kernel(again.replace("Float64", "Float32")).digest


def test_only_the_helpers_that_are_used_come_along() -> None:
    nest = kernel(
        "import math\n@njit\ndef inner(x: float) -> float:\n    return math.exp(x)\n"
        "from numba import njit\ndef outer(x):\n    return inner(x) * HALF\ndef other(x):\n    return x\nHALF = 0.5\n"
        'def f(x: Float64[np.ndarray, "n"]):\n    for i in range(len(x)):\n        x[i] = outer(x[i])\n'
    )
    assert nest.preamble == (
        "import math\nHALF = 0.5\n\n\ndef inner(x):\n    return math.exp(x)\n\n\n"
        "def outer(x):\n    return inner(x) * HALF\n"
    )


def test_the_same_text_gives_the_same_nest() -> None:
    path = str(catalog.load("adi").__file__)
    assert nest_of_file(path) == nest_of_file(f"{path}:adi")


# Live functions


def from_examples(A, x, alpha, steps):
    n, m = A.shape
    for _t in range(steps):
        for i in range(n):
            for j in range(m):
                x[i] += alpha * A[i, j]


def annotated(A: Float64[np.ndarray, "rows columns"], x: Float32[np.ndarray, "rows"]) -> None:  # noqa: F722, F821
    for i in range(len(x)):
        x[i] = A[i, 0] if A.shape[1] > 0 else offset(x[i])


def offset(value: float) -> float:
    return value + OFFSET


OFFSET = 1.5


def test_types_and_ranks_come_from_example_arguments() -> None:
    arguments = [np.zeros((3, 4), np.float32), np.zeros(3), np.float32(2), 5]
    nest = nest_of_function(from_examples, arguments)
    assert [(a.kind, a.dtype) for a in nest.arguments] == [
        (ArgumentKind.ARRAY, "float32"),
        (ArgumentKind.ARRAY, "float64"),
        (ArgumentKind.VALUE, "float32"),
        (ArgumentKind.PARAMETER, "int64"),
    ]
    assert nest.parameters == ("steps", "n", "m", "x_0")
    assert nest_of_function(from_examples, [*arguments[:2], np.float64(2), np.int32(5)]).arguments[2].dtype == "float64"
    by_name = dict(zip(("A", "x", "alpha", "steps"), arguments, strict=True))
    assert nest_of_function(from_examples, by_name) == nest


def test_annotations_helpers_and_constants_of_the_file_are_found() -> None:
    nest = nest_of_function(annotated)
    assert nest.extents == (("rows", "A", 0), ("columns", "A", 1))
    assert nest.preamble == "OFFSET = 1.5\n\n\ndef offset(value):\n    return value + OFFSET\n"
    assert nest.file == __file__


def test_a_function_under_numba_is_read_through() -> None:
    compiled = numba.njit(annotated)
    assert nest_of_function(compiled) == nest_of_function(annotated)


def test_a_function_inside_another_and_one_of_a_notebook() -> None:
    shift, half = 2, numba.njit(offset)

    def inner(n: int, x: Float64[np.ndarray, "n"]) -> None:  # noqa: F821
        for i in range(shift, n):
            x[i] = half(x[i - shift])

    nest = nest_of_function(inner)
    assert nest.statement("S0").domain == "[n] -> { S0[i] : 2 <= i < n }"
    assert nest.statement("S0").line == inner.__code__.co_firstlineno + 2

    cell = (
        "@njit\ndef cell(n: int, x: \"Float64[np.ndarray, 'n']\"):\n"
        "    for i in range(n):\n        x[i] = WIDTH * np.sqrt(root(x[i]))\n"
    )
    name = "<ipython-input-1>"
    linecache.cache[name] = (len(cell), None, cell.splitlines(keepends=True), name)
    space: dict[str, Any] = {"np": np, "njit": numba.njit, "root": np.sqrt, "Float64": Float64, "WIDTH": 3}
    exec(compile(cell, name, "exec"), space)
    nest = nest_of_function(space["cell"])
    assert nest.statement("S0").body == "x[i] = WIDTH * np.sqrt(root(x[i]))"
    assert nest.preamble == "from numpy import sqrt as root\nimport numpy as np\nWIDTH = 3\n"
    assert nest.file == name
    assert nest.statement("S0").line == 4


def test_a_file_is_read_and_not_run(tmp_path: Path) -> None:
    path = tmp_path / "kernel.py"
    path.write_text(
        "raise SystemExit\ndef f(n: int, x: 'Float64[np.ndarray, \"n\"]'):\n    for i in range(n): x[i] = 0\n"
    )
    assert nest_of_file(str(path)).name == "f"
    assert nest_of_file(f"{path}:f").name == "f"


# Types of scalars are those that Numba gives them


def numba_types(function: Callable[..., Any], *arguments: Any) -> dict[str, str]:
    """The widest type of each variable over its versions."""
    compiled = numba.njit(function)
    compiled(*arguments)
    (signature,) = compiled.signatures
    lowered = compiled.overloads[signature].type_annotation.typemap
    return {name.partition(".")[0]: str(kind) for name, kind in lowered.items() if not name.startswith(("$", "arg"))}


def test_scalar_types_agree_with_numba() -> None:
    text = (
        HEADER
        + """
import math
def mixed(n: int, a: Float32[np.ndarray, "n"], b: Float64[np.ndarray, "n"], k: Int32[np.ndarray, "n"]):
    total = 0
    single = np.float32(0.0)
    whole = 0
    for i in range(n):
        total += a[i]
        single = single + a[i] * a[i] ** 2
        least = a[i] if a[i] < 2 else a[n - 1 - i]
        doubled = least * 2
        product = a[i] * 0.5
        shifted = a[i] + k[i]
        whole += k[i] // 2
        plain = k[i]
        negative = -k[i]
        ratio = k[i] / 2
        is_less = a[i] < b[i]
        nearest = np.floor(a[i])
        root = math.sqrt(a[i])
        below = math.floor(a[i])
        larger = max(k[i], 3)
        power = k[i] ** 2
        b[i] = doubled + product + ratio + is_less + nearest + below + plain + larger
        b[i] += power + negative + root + shifted
    return total, single, whole
"""
    )
    nest = nest_of_source(text, "mixed", "kernel.py")
    ours = {array.name: array.dtype for array in nest.arrays if array.role is Role.SCALAR}
    space: dict[str, Any] = {}
    exec(text, space)
    arrays = np.ones(3, np.float32), np.ones(3), np.ones(3, np.int32)
    theirs = numba_types(space["mixed"], 3, *arrays)
    assert ours == {name: theirs[name] for name in ours} | {"total": "float64"}
