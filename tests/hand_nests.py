"""Nests written by hand, so that parts behind the front end are tested without it."""

from optimizer.polyhedral.nest import Access, Argument, ArgumentKind, Array, Nest, Role, SourceLoop, Statement
from optimizer.polyhedral.tree import Leaf, Loop, Sequence

GEMM_SOURCE = """\
def gemm(ni, nj, nk, alpha, beta, C, A, B):
    for i in range(ni):
        for j in range(nj):
            C[i, j] *= beta
        for k in range(nk):
            for j in range(nj):
                C[i, j] += alpha * A[i, k] * B[k, j]
"""

LU_SOURCE = """\
def lu(n, A):
    for i in range(n):
        for j in range(i):
            for k in range(j):
                A[i, j] -= A[i, k] * A[k, j]
            A[i, j] /= A[j, j]
        for j in range(i, n):
            for k in range(i):
                A[i, j] -= A[i, k] * A[k, j]
"""

ROW_SUM_SOURCE = """\
def row_sum(n, m, A, x):
    for i in range(n):
        s = 0.0
        for j in range(m):
            s += A[i, j]
        x[i] = s
"""


def parameter(name: str) -> Argument:
    return Argument(name, ArgumentKind.PARAMETER, "int64")


def value(name: str) -> Argument:
    return Argument(name, ArgumentKind.VALUE, "float64")


def array(name: str) -> Argument:
    return Argument(name, ArgumentKind.ARRAY, "float64")


def read(name: str, *subscripts: str) -> Access:
    return Access(name, subscripts, is_write=False)


def write(name: str, *subscripts: str) -> Access:
    return Access(name, subscripts, is_write=True)


def gemm() -> Nest:
    own = read("C", "i", "j"), write("C", "i", "j")
    own_2 = read("C", "i", "j_2"), write("C", "i", "j_2")
    return Nest(
        name="gemm",
        arguments=(*map(parameter, ("ni", "nj", "nk")), value("alpha"), value("beta"), *map(array, "CAB")),
        parameters=("ni", "nj", "nk"),
        extents=(),
        context="[ni, nj, nk] -> { : ni >= 0 and nj >= 0 and nk >= 0 }",
        arrays=(
            Array("C", "float64", ("ni", "nj"), Role.ARGUMENT),
            Array("A", "float64", ("ni", "nk"), Role.ARGUMENT),
            Array("B", "float64", ("nk", "nj"), Role.ARGUMENT),
        ),
        statements=(
            Statement(
                "S0", ("i", "j"), "[ni, nj] -> { S0[i, j] : 0 <= i < ni and 0 <= j < nj }", own, "C[i, j] *= beta", 4
            ),
            Statement(
                "S1",
                ("i", "k", "j_2"),
                "[ni, nj, nk] -> { S1[i, k, j_2] : 0 <= i < ni and 0 <= k < nk and 0 <= j_2 < nj }",
                (*own_2, read("A", "i", "k"), read("B", "k", "j_2")),
                "C[i, j_2] += alpha * A[i, k] * B[k, j_2]",
                7,
            ),
        ),
        tree=Loop(
            "i",
            Sequence(
                (
                    Loop("j", Leaf("S0", {"i": "i", "j": "j"})),
                    Loop("k", Loop("j_2", Leaf("S1", {"i": "i", "k": "k", "j_2": "j_2"}))),
                )
            ),
        ),
        loops=(SourceLoop("i", 2), SourceLoop("j", 3), SourceLoop("k", 5), SourceLoop("j_2", 6)),
        prologue=(),
        epilogue=(),
        preamble="",
        original=GEMM_SOURCE,
    )


def lu() -> Nest:
    def own(j: str) -> tuple[Access, Access]:
        return read("A", "i", j), write("A", "i", j)

    return Nest(
        name="lu",
        arguments=(parameter("n"), array("A")),
        parameters=("n",),
        extents=(),
        context="[n] -> { : n >= 0 }",
        arrays=(Array("A", "float64", ("n", "n"), Role.ARGUMENT),),
        statements=(
            Statement(
                "S0",
                ("i", "j", "k"),
                "[n] -> { S0[i, j, k] : 0 <= i < n and 0 <= j < i and 0 <= k < j }",
                (*own("j"), read("A", "i", "k"), read("A", "k", "j")),
                "A[i, j] -= A[i, k] * A[k, j]",
                5,
            ),
            Statement(
                "S1",
                ("i", "j"),
                "[n] -> { S1[i, j] : 0 <= i < n and 0 <= j < i }",
                (*own("j"), read("A", "j", "j")),
                "A[i, j] /= A[j, j]",
                6,
            ),
            Statement(
                "S2",
                ("i", "j_2", "k_2"),
                "[n] -> { S2[i, j_2, k_2] : 0 <= i < n and i <= j_2 < n and 0 <= k_2 < i }",
                (*own("j_2"), read("A", "i", "k_2"), read("A", "k_2", "j_2")),
                "A[i, j_2] -= A[i, k_2] * A[k_2, j_2]",
                9,
            ),
        ),
        tree=Loop(
            "i",
            Sequence(
                (
                    Loop(
                        "j",
                        Sequence(
                            (
                                Loop("k", Leaf("S0", {"i": "i", "j": "j", "k": "k"})),
                                Leaf("S1", {"i": "i", "j": "j"}),
                            )
                        ),
                    ),
                    Loop("j_2", Loop("k_2", Leaf("S2", {"i": "i", "j_2": "j_2", "k_2": "k_2"}))),
                )
            ),
        ),
        loops=(SourceLoop("i", 2), SourceLoop("j", 3), SourceLoop("k", 4), SourceLoop("j_2", 7), SourceLoop("k_2", 8)),
        prologue=(),
        epilogue=(),
        preamble="",
        original=LU_SOURCE,
    )


def row_sum() -> Nest:
    """The scalar `s` is expanded over i: every read sees a write of the same i."""
    return Nest(
        name="row_sum",
        arguments=(parameter("n"), parameter("m"), array("A"), array("x")),
        parameters=("n", "m"),
        extents=(),
        context="[n, m] -> { : n >= 0 and m >= 0 }",
        arrays=(
            Array("A", "float64", ("n", "m"), Role.ARGUMENT),
            Array("x", "float64", ("n",), Role.ARGUMENT),
            Array("s", "float64", (), Role.SCALAR),
        ),
        statements=(
            Statement("S0", ("i",), "[n] -> { S0[i] : 0 <= i < n }", (write("s", "i"),), "s = 0.0", 3),
            Statement(
                "S1",
                ("i", "j"),
                "[n, m] -> { S1[i, j] : 0 <= i < n and 0 <= j < m }",
                (read("s", "i"), write("s", "i"), read("A", "i", "j")),
                "s += A[i, j]",
                5,
            ),
            Statement("S2", ("i",), "[n] -> { S2[i] : 0 <= i < n }", (read("s", "i"), write("x", "i")), "x[i] = s", 6),
        ),
        tree=Loop(
            "i",
            Sequence((Leaf("S0", {"i": "i"}), Loop("j", Leaf("S1", {"i": "i", "j": "j"})), Leaf("S2", {"i": "i"}))),
        ),
        loops=(SourceLoop("i", 2), SourceLoop("j", 4)),
        prologue=(),
        epilogue=(),
        preamble="",
        original=ROW_SUM_SOURCE,
    )
