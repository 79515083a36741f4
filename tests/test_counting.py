"""Iterations, operations and bytes against a listing of every iteration, and against what a run of the kernel does."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

import numpy as np
import pytest

from kernels import catalog
from optimizer.polyhedral import counting
from optimizer.polyhedral.counting import array_bytes, compulsory_bytes, flops, iterations
from optimizer.polyhedral.frontend import nest_of_file, nest_of_source
from optimizer.polyhedral.nest import Nest, Role
from tests import oracle, value_graph
from tests.hand_nests import gemm, lu

TINY = (4, 3, 5, 3, 4)


def bundled(name: str) -> Nest:
    return nest_of_file(f"{catalog.load(name).__file__}:{catalog.entry(name).function}")


def own(body: str, arguments: str) -> Nest:
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    return nest_of_source(
        f"import numpy as np\nfrom jaxtyping import Float64\ndef f({arguments}):\n{lines}", "f", "k.py"
    )


@pytest.mark.parametrize("name", catalog.names())
def test_iterations_are_those_of_a_listing(name: str) -> None:
    nest = bundled(name)
    sizes = {parameter: TINY[k % len(TINY)] for k, parameter in enumerate(nest.parameters)}
    sizes |= {parameter: 2 for parameter in sizes if parameter in ("tsteps", "tmax")}
    assert iterations(nest, sizes) == len(oracle.trace(nest, sizes).iterations) > 0


@pytest.mark.parametrize("name", catalog.names())
def test_flops_and_bytes_are_those_of_a_run_at_mini(name: str) -> None:
    nest, module = bundled(name), catalog.load(name)
    item = {array.name: np.dtype(array.dtype).itemsize for array in nest.arrays if array.role is Role.ARGUMENT}
    for sizes in (module.SIZES["mini"], dict.fromkeys(module.SIZES["mini"], 4)):
        log = value_graph.run(
            catalog.entry(name).load_function(), module.make_inputs(**sizes, rng=np.random.default_rng(0))
        )
        assert 0 < flops(nest, values_of(nest, sizes)) == log.operations <= log.executed
        moved = sum(item.get(array, 0) for array, _ in [*log.first_reads, *log.written])
        # ludcmp stores the first row as it was loaded, which its nest leaves out.
        stored_unchanged = 8 * sizes["n"] if name == "ludcmp" else 0
        assert compulsory_bytes(nest, values_of(nest, sizes)) == moved - stored_unchanged > 0


def values_of(nest: Nest, sizes: Mapping[str, int]) -> dict[str, int]:
    """Sizes by the nest's own names, which are those of the bundled sizes."""
    assert set(nest.parameters) <= set(sizes)
    return dict(sizes)


@pytest.mark.parametrize("name", catalog.names())
def test_interpolated_counts_are_exact(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    nest = bundled(name)
    sizes = {parameter: 17 + 2 * k for k, parameter in enumerate(nest.parameters)}
    monkeypatch.setattr(counting, "SMALL", 10**9)
    direct = iterations(nest, sizes), flops(nest, sizes), compulsory_bytes(nest, sizes)
    monkeypatch.setattr(counting, "SMALL", 0)
    assert (iterations(nest, sizes), flops(nest, sizes), compulsory_bytes(nest, sizes)) == direct


def test_large_sizes_are_counted_by_formula() -> None:
    n = 10**6
    assert iterations(gemm(), {"ni": n, "nj": n, "nk": n}) == n**2 + n**3
    # lu: a triangle of divisions, and two operations for each of the rest.
    rest = sum(j for i in range(40) for j in range(i)) + sum(i for i in range(40) for _ in range(i, 40))
    assert iterations(lu(), {"n": 40}) == 40 * 39 // 2 + rest
    assert flops(lu(), {"n": 40}) == 40 * 39 // 2 + 2 * rest


def test_a_factor_that_can_be_hoisted_counts_once() -> None:
    sizes = {"ni": 7, "nj": 8, "nk": 9}
    assert flops(gemm(), sizes) == 7 * 8 + 7 * 9 + 2 * 7 * 8 * 9


XY = 'n: int, x: Float64[np.ndarray, "n"], y: Float64[np.ndarray, "n"]'


@pytest.mark.parametrize(
    ("value", "per_iteration"),
    [
        ("x[i] * x[i] + 1.0 if x[i] + 1.0 > 0.0 else x[i] + 2.0", 2),
        ("1.0 if x[i] > 0.0 and x[i] * 2.0 > 1.0 else 0.0", 0),
        ("1.0 if 0.0 < x[i] * 3.0 < x[i] * 2.0 else 0.0", 1),
        ("x[i] * 2.0 + x[i] * 2.0", 2),
        ("np.sqrt(np.abs(-x[i]))", 1),
        ("x[n - 1 - i]", 0),
        ("float(i) * 2.0 + n", 0),
        ("x[i] ** 2", 1),
    ],
)
def test_what_counts_as_an_operation(value: str, per_iteration: int) -> None:
    assert flops(own(f"for i in range(n):\n    y[i] = {value}", XY), {"n": 50}) == 50 * per_iteration


def test_what_a_loop_writes_is_no_invariant_of_it() -> None:
    body = "for k in range(n):\n    x[k] = y[k] + 1.0\n    for i in range(n):\n        y[i] = {}"
    assert flops(own(body.format("x[k] * 2.0"), XY), {"n": 50}) == 50 + 50
    # Each x[i] is written once: all but the first are multiplied before and after that.
    assert flops(own(body.format("x[i] * 2.0"), XY), {"n": 50}) == 50 + 50 + 49
    assert flops(own(body.format("(y[i] + x[i]) * 2.0"), XY), {"n": 50}) == 50 + 2 * 50 * 50


def test_equal_operations_of_two_statements_count_once_within_the_same_loops() -> None:
    twice = "for i in range(n):\n    x[i] = y[n - 1 - i] * 2.0\n{}    y[i] = y[n - 1 - i] * 2.0"
    assert flops(own(twice.format(""), XY), {"n": 50}) == 50
    apart = "for i in range(n):\n    x[i] = x[i] * 2.0\nfor j in range(n):\n    y[j] = x[j] * 2.0"
    assert flops(own(apart, XY), {"n": 50}) == 100


@pytest.mark.parametrize(
    ("body", "elements"),
    [
        ("for i in range(n):\n    y[i] = x[i]", 2),
        ("for i in range(n):\n    x[i] = 0.0\nfor i in range(n):\n    y[i] = x[i]", 2),
        ("for i in range(n):\n    y[i] = x[i]\nfor i in range(n):\n    x[i] = 0.0", 3),
        ("for i in range(n):\n    x[i] += 1.0", 2),
        ("for i in range(n):\n    y[i] = 1.0 if i + y[i] > 0.0 else x[i]", 2),
        ("for i in range(n):\n    y[i] = x[i] if x[i] > 0.0 else 0.0", 2),
        ("for i in range(n):\n    y[i] = 1.0 if y[i] > 0.0 and x[i] > 0.0 else 0.0", 2),
        ("for i in range(n):\n    y[i] = 1.0 if x[i] > 0.0 and y[i] > 0.0 else 0.0", 2),
        ("for i in range(n):\n    y[i] = x[i] if 2 * i < n else 1.0", 1.5),
        ("z = np.zeros(n)\nt = np.zeros(n)\nfor i in range(n):\n    t[i] = x[i]\n    z[i] += t[i]\nreturn z", 2),
    ],
)
def test_bytes_count_what_comes_in_unwritten_and_what_goes_out(body: str, elements: float) -> None:
    assert compulsory_bytes(own(body, XY), {"n": 50}) == 8 * 50 * elements


def test_what_is_no_polynomial_is_not_claimed() -> None:
    arguments = 'n: int, m: int, x: Float64[np.ndarray, "n m"]'
    nest = own("for i in range(min(n, m)):\n    for j in range(i, m):\n        x[i, j] += 1.0", arguments)
    large = {"n": 5000, "m": 4000}
    assert iterations(nest, large) is None
    assert flops(nest, large) == 0
    for n, m in product((3, 6), (4, 5)):
        assert iterations(nest, {"n": n, "m": m}) == sum(m - i for i in range(min(n, m)))


@pytest.mark.parametrize(
    ("bounds", "sizes", "count"),
    [
        ("min(n, 100)", {"n": 10**6, "m": 9}, 100),
        ("min(2 * n, m)", {"n": 100_000, "m": 5_000_000}, 200_000),
        ("(n + 1) // 2", {"n": 100_001, "m": 9}, 50_001),
        ("0, n, 3", {"n": 100_000, "m": 9}, 33_334),
    ],
)
def test_a_bend_or_a_stride_beyond_small_sizes_is_not_missed(bounds: str, sizes: dict[str, int], count: int) -> None:
    """Each looks like a straight line at the sizes of the interpolation."""
    nest = own(
        f"for i in range({bounds}):\n    x[0, i] = 1.0",
        'n: int, m: int, x: Float64[np.ndarray, "1 2*n+1"], y: Float64[np.ndarray, "m"]',
    )
    assert iterations(nest, sizes) in (count, None)
    assert iterations(nest, {name: value // 100 for name, value in sizes.items()}) is not None


def test_memory_of_arguments_and_local_arrays() -> None:
    arguments = 'n: int, x: Float64[np.ndarray, "n 2*n+1"]'
    nest = own("t = np.zeros(n + 1)\nfor i in range(n):\n    t[i] = x[i, 0]\n    x[i, 1] = t[i]", arguments)
    assert array_bytes(nest, {"n": 10}) == 8 * (10 * 21 + 11)
