"""The bundled kernels: against PolyBench/C's printed outputs, against NumPy, and against the rules of a kernel file."""

import ast
import functools
import gzip
import inspect
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest

from kernels import catalog

DATA = Path(__file__).parent / "data" / "polybench"
SIZE_NAMES = ["mini", "small", "medium", "large", "extralarge"]
POLYBENCH = [name for name in catalog.names() if catalog.entry(name).suite == "polybench"]
EXTRA = [name for name in catalog.names() if catalog.entry(name).suite == "extra"]
TOLERANCE = 1e-12
# PolyBench prints one triangle of these; both orders are row by row.
TRIANGLES = {"cholesky": np.tril_indices, "nussinov": np.triu_indices}

Inputs = dict[str, Any]


@functools.cache
def compiled(name: str, fastmath: bool = False) -> Callable[..., None]:
    """The kernel under Numba, as the engine's baseline compiles it."""
    return numba.njit(error_model="numpy", fastmath=fastmath)(catalog.entry(name).load_function())


def inputs_of(name: str, size: str, seed: int | None = None) -> Inputs:
    module = catalog.load(name)
    rng = None if seed is None else np.random.default_rng(seed)
    return module.make_inputs(**module.SIZES[size], rng=rng)


def call_plain(name: str, size: str) -> Inputs:
    arguments = inputs_of(name, size)
    catalog.entry(name).load_function()(**arguments)
    return arguments


def call_compiled(name: str, size: str, seed: int | None = None, fastmath: bool = False) -> Inputs:
    arguments = inputs_of(name, size, seed)
    compiled(name, fastmath)(*arguments.values())
    return arguments


CALLS = {"mini": call_plain, "small": call_compiled}


def printed_outputs(name: str, size: str) -> dict[str, np.ndarray]:
    """What PolyBench/C printed, by array. A value may follow the array's name without a space."""
    text = gzip.decompress((DATA / f"{name}.{size}.txt.gz").read_bytes()).decode()
    outputs: dict[str, np.ndarray] = {}
    for array in catalog.load(name).OUTPUTS:
        match = re.search(rf"begin dump: {array}(.*?)end   dump: {array}\n", text, re.DOTALL)
        assert match is not None, f"{name}: no dump of {array}"
        outputs[array] = np.array(match[1].split(), dtype=np.float64)
    assert text.count("begin dump:") == len(outputs)
    return outputs


def relative_difference(actual: np.ndarray, expected: np.ndarray) -> float:
    return float(np.max(np.abs(actual - expected) / np.maximum(np.abs(expected), 1.0)))


@pytest.fixture(scope="module")
def differences(request: pytest.FixtureRequest) -> Iterator[dict[str, float]]:
    """Collects the difference of every kernel and size; the worst is printed at the end, past the capture."""
    found: dict[str, float] = {}
    yield found
    if not found:
        return
    worst = max(found, key=lambda case: found[case])
    with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        print(
            f"\n{len(found)} outputs compared with PolyBench/C, worst relative difference {found[worst]:.2e} ({worst})"
        )


@pytest.mark.parametrize("size", ["mini", "small"])
@pytest.mark.parametrize("name", [name for name in POLYBENCH if name != "gramschmidt"])
def test_outputs_agree_with_polybench(name: str, size: str, differences: dict[str, float]) -> None:
    arguments = CALLS[size](name, size)
    for array, expected in printed_outputs(name, size).items():
        actual = arguments[array]
        if name in TRIANGLES:
            actual = actual[TRIANGLES[name](len(actual))]
        assert actual.size == expected.size
        if actual.dtype.kind == "i":
            np.testing.assert_array_equal(actual.ravel(), expected)
        difference = relative_difference(actual.ravel(), expected)
        differences[f"{name} {size} {array}"] = difference
        assert difference <= TOLERANCE


@pytest.mark.parametrize("size", ["mini", "small"])
def test_gramschmidt_reproduces_its_input(size: str) -> None:
    """PolyBench's input has rank 2, so R and Q are mostly rounding noise; only their product is determined."""
    original = inputs_of("gramschmidt", size)["A"]
    arguments = CALLS[size]("gramschmidt", size)
    printed = printed_outputs("gramschmidt", size)
    assert printed["R"].size == arguments["R"].size
    assert printed["Q"].size == arguments["Q"].size
    assert relative_difference(arguments["Q"] @ arguments["R"], original) <= TOLERANCE
    printed_product = printed["Q"].reshape(arguments["Q"].shape) @ printed["R"].reshape(arguments["R"].shape)
    assert relative_difference(printed_product, original) <= TOLERANCE


def test_all_thirty_are_there() -> None:
    assert len(POLYBENCH) == 30
    assert {path.name.split(".")[0] for path in DATA.iterdir()} == set(POLYBENCH)


def expected_blur(image: np.ndarray, blurred: np.ndarray) -> np.ndarray:
    expected = blurred.copy()
    rows = (image[:, :-2] + image[:, 1:-1] + image[:, 2:]) / 3
    expected[1:-1, 1:-1] = (rows[:-2] + rows[1:-1] + rows[2:]) / 3
    return expected


def expected_layernorm(given: Inputs) -> np.ndarray:
    x = given["x"]
    deviation = np.sqrt(x.var(axis=1, keepdims=True) + given["epsilon"])
    return (x - x.mean(axis=1, keepdims=True)) / deviation * given["scale"] + given["shift"]


def expected_convolution(image: np.ndarray, weight: np.ndarray) -> np.ndarray:
    windows = np.lib.stride_tricks.sliding_window_view(image, (3, 3), axis=(1, 2))
    return np.einsum("cyxrs,fcrs->fyx", windows, weight)


def expected_lcs(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Hunt's view of the same table: entry (i, j) counts the row's thresholds that are at most j."""
    table = np.zeros((len(a) + 1, len(b) + 1), dtype=np.int32)
    thresholds: list[int] = []
    for i, letter in enumerate(a, start=1):
        for j in range(len(b), 0, -1):
            if b[j - 1] == letter:
                place = int(np.searchsorted(thresholds, j))
                thresholds[place : place + 1] = [j]
        table[i] = np.searchsorted(thresholds, np.arange(len(b) + 1), side="right")
    return table


EXPECTED: dict[str, Callable[[Inputs], np.ndarray]] = {
    "blur": lambda given: expected_blur(given["image"], given["blurred"]),
    "conv2d": lambda given: expected_convolution(given["image"], given["weight"]),
    "layernorm": expected_layernorm,
    "lcs": lambda given: expected_lcs(given["a"], given["b"]),
    "matmul": lambda given: given["C"] + given["A"] @ given["B"],
    "matmul-float32": lambda given: given["C"] + given["A"].astype(np.float64) @ given["B"],
    "matvec": lambda given: given["A"] @ given["x"],
    "mttkrp": lambda given: np.einsum("ikl,kj,lj->ij", given["B"], given["C"], given["D"]),
}


@pytest.mark.parametrize("seed", [None, 3])
@pytest.mark.parametrize("size", ["mini", "small"])
@pytest.mark.parametrize("name", EXTRA)
def test_extra_kernels_agree_with_numpy(name: str, size: str, seed: int | None) -> None:
    expected = EXPECTED[name](inputs_of(name, size, seed))
    (output,) = catalog.load(name).OUTPUTS
    actual = call_compiled(name, size, seed)[output]
    assert relative_difference(actual, expected) <= (1e-5 if actual.dtype == np.float32 else TOLERANCE)


@pytest.mark.parametrize("name", EXTRA)
def test_extra_kernels_run_as_ordinary_python(name: str) -> None:
    expected = EXPECTED[name](inputs_of(name, "mini"))
    (output,) = catalog.load(name).OUTPUTS
    actual = call_plain(name, "mini")[output]
    assert relative_difference(actual, expected) <= (1e-5 if actual.dtype == np.float32 else TOLERANCE)


@pytest.mark.parametrize("name", catalog.names())
def test_five_growing_sizes(name: str) -> None:
    module = catalog.load(name)
    assert list(module.SIZES) == SIZE_NAMES
    keys = [list(sizes) for sizes in module.SIZES.values()]
    assert all(each == keys[0] for each in keys)
    # PolyBench's extralarge atax and bicg are smaller than large in one direction.
    volumes = [np.prod([float(value) for value in module.SIZES[size].values()]) for size in SIZE_NAMES[:4]]
    assert volumes == sorted(volumes)


@pytest.mark.parametrize("seed", [None, 0])
@pytest.mark.parametrize("name", catalog.names())
def test_inputs_fit_the_signature(name: str, seed: int | None) -> None:
    entry = catalog.entry(name)
    sizes = entry.load().SIZES["mini"]
    arguments = inputs_of(name, "mini", seed)
    parameters = inspect.signature(entry.load_function()).parameters
    assert list(arguments) == list(parameters)
    assert set(entry.load().OUTPUTS) <= set(arguments)
    for parameter, value in arguments.items():
        annotation = parameters[parameter].annotation
        if not isinstance(value, np.ndarray):
            assert type(value) is annotation
            continue
        assert value.shape == tuple(eval(extent, dict(sizes)) for extent in annotation.dim_str.split())
        assert value.dtype.name in annotation.dtypes
        assert value.flags.c_contiguous
        assert value.flags.writeable
        assert value.flags.owndata or value.base.flags.owndata
    assert {parameter: value for parameter, value in arguments.items() if parameter in sizes}.items() <= sizes.items()


@pytest.mark.parametrize("extent", [0, 1, 2])
@pytest.mark.parametrize("name", catalog.names())
def test_inputs_exist_at_the_smallest_sizes(name: str, extent: int) -> None:
    module = catalog.load(name)
    sizes = dict.fromkeys(module.SIZES["mini"], extent)
    for rng in (None, np.random.default_rng(0)):
        arrays = [value for value in module.make_inputs(**sizes, rng=rng).values() if isinstance(value, np.ndarray)]
        assert all(np.all(np.isfinite(array)) for array in arrays)


@pytest.mark.parametrize("name", catalog.names())
def test_random_inputs_are_reproducible_and_fresh(name: str) -> None:
    first, again, other = (inputs_of(name, "mini", seed) for seed in (5, 5, 6))
    arrays = [key for key, value in first.items() if isinstance(value, np.ndarray)]
    assert all(np.array_equal(first[key], again[key]) for key in first)
    assert not any(np.shares_memory(first[key], again[key]) for key in arrays)
    assert not any(np.shares_memory(first[key], first[more]) for key in arrays for more in arrays if key != more)
    assert any(not np.array_equal(first[key], other[key]) for key in arrays)


@pytest.mark.parametrize("size", ["mini", "small"])
@pytest.mark.parametrize("name", catalog.names())
def test_outputs_of_random_inputs_are_finite(name: str, size: str) -> None:
    before = inputs_of(name, size, seed=1)
    after = call_compiled(name, size, seed=1)
    for key, value in after.items():
        assert np.all(np.isfinite(value)), key
    for output in catalog.load(name).OUTPUTS:
        assert not np.array_equal(before[output], after[output])


@pytest.mark.long
@pytest.mark.parametrize("size", ["mini", "small", "medium"])
@pytest.mark.parametrize("name", catalog.names())
def test_random_inputs_are_benign(name: str, size: str) -> None:
    """Another order of evaluation (LLVM's own, under fastmath) changes the outputs by rounding only."""
    strict, relaxed = (call_compiled(name, size, seed=2, fastmath=fastmath) for fastmath in (False, True))
    determined = strict["m"] if name == "gramschmidt" else None
    for output in catalog.load(name).OUTPUTS:
        expected = strict[output]
        scale = np.max(np.abs(expected))
        selection = (slice(determined), slice(determined)) if determined else ...
        difference = np.max(np.abs(relaxed[output] - expected)[selection]) / scale
        assert difference <= (1e-5 if expected.dtype == np.float32 else TOLERANCE), output


FORBIDDEN = (ast.While, ast.Slice, ast.Try, ast.With, ast.ListComp, ast.Lambda, ast.Starred, ast.Return, ast.MatMult)


@pytest.mark.parametrize("name", catalog.names())
def test_kernels_are_plain_loops(name: str) -> None:
    function = ast.parse(inspect.getsource(catalog.entry(name).load_function())).body[0]
    assert isinstance(function, ast.FunctionDef)
    assert not function.decorator_list
    nodes = [node for statement in function.body for node in ast.walk(statement)]
    assert not [node for node in nodes if isinstance(node, FORBIDDEN)]
    loops = [node for node in nodes if isinstance(node, ast.For)]
    assert loops
    assert all(isinstance(loop.iter, ast.Call) and ast.unparse(loop.iter.func) == "range" for loop in loops)
    calls = {ast.unparse(node.func) for node in nodes if isinstance(node, ast.Call)}
    assert calls <= {"range", "len", "max", "math.sqrt", "math.exp", "math.pow", "np.empty"}


def test_catalog_names_its_functions() -> None:
    entry = catalog.entry("floyd-warshall")
    assert (entry.suite, entry.module, entry.function) == (
        "polybench",
        "kernels.polybench.floyd_warshall",
        "floyd_warshall",
    )
    assert entry.load() is catalog.load("floyd-warshall")
    assert entry.load_function().__name__ == "floyd_warshall"
    with pytest.raises(KeyError, match="gem"):
        catalog.entry("gem")


def test_every_kernel_file_is_listed() -> None:
    root = Path(catalog.__file__).parent
    files = {f"kernels.{path.parent.name}.{path.stem}" for path in root.glob("*/*.py") if path.stem != "__init__"}
    assert files == set(catalog.MODULES.values())


def test_catalog_imports_nothing_heavy() -> None:
    script = (
        "import sys; from kernels import catalog; catalog.entry('gemm'); print({'numpy', 'numba'} & set(sys.modules))"
    )
    root = Path(catalog.__file__).parents[1]
    ran = subprocess.run([sys.executable, "-c", script], cwd=root, capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "set()"
