"""Random legal schedules of every bundled kernel, as generated code: bit-identical to the original.

The generated modules run as plain Python, so that many can be tried, their parallel loops also from the last iteration
to the first; `-m long` compiles some, under `strict`.
"""

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from kernels import catalog
from optimizer.codegen.backend import CodeOptions, FloatingPoint
from optimizer.codegen.loops_apart import with_loops_apart
from optimizer.codegen.numba_source import NumbaBackend
from optimizer.errors import CandidateError, StepError
from optimizer.measure.commands import Form
from optimizer.measure.loading import plain_function
from optimizer.polyhedral.frontend import nest_of_file
from optimizer.polyhedral.legality import Legal, judge
from optimizer.polyhedral.model import model_of
from optimizer.polyhedral.nest import Nest
from optimizer.polyhedral.schedule import Schedule, parse_schedule
from optimizer.polyhedral.steps import Step
from optimizer.polyhedral.steps.pack import Pack
from optimizer.polyhedral.steps.parallel import Parallel
from optimizer.polyhedral.steps.reduce import Reduce
from optimizer.polyhedral.steps.register_tile import RegisterTile
from optimizer.polyhedral.steps.sampling import random_schedule
from optimizer.polyhedral.steps.stream import Stream
from optimizer.polyhedral.steps.vectorize import Vectorize
from optimizer.polyhedral.tree import Node
from tests.test_legality_oracle import small_tiles, where_reduced, with_more
from tests.vector_units import lanes_of_doubles

SIZES = (7, 5, 8, 6, 9)
"""None is a multiple of all the tile sizes that are drawn, 2 and 3."""


def legal_schedules(
    nest: Nest,
    name: str,
    count: int,
    last: tuple[type[Step], ...] = (),
    choose: Callable[[Any, Node], bool] = lambda step, tree: True,
) -> list[tuple[Schedule, str]]:
    """Seeded random schedules that change something and are legal, each with its code: vectors and registers are what
    it has where the schedule says so. The last step is of the last kind of `last`, if there is one; of its options
    those are drawn that `choose` accepts, where there are any."""
    found: list[tuple[Schedule, str]] = []
    for seed in range(200 * count):
        rng = random.Random(f"legal/{name}/{seed}")
        schedule = small_tiles(random_schedule(nest, rng, rng.randint(1, 5)), rng)
        try:
            schedule = with_more(last, schedule, nest, rng, choose)
            tree = schedule.apply(nest)
        except StepError:
            continue
        is_wanted = tree != nest.tree and (not last or isinstance(schedule.steps[-1], last[-1]))
        if is_wanted and judge(model_of(nest), tree).legal is Legal.YES:
            source = source_or_none(nest, tree)
            found += [(schedule, source)] if source else []
            if len(found) == count:
                return found
    raise AssertionError(f"{name}: only {len(found)} legal schedules were drawn")


def source_or_none(nest: Nest, tree: Node) -> str | None:
    """None where only the generated loops say that a loop can be no vectors, or a tile not be kept in registers; and
    where there are too many of them."""
    try:
        with lanes_of_doubles(2):
            return NumbaBackend().source(nest, tree, CodeOptions(FloatingPoint.STRICT))
    except CandidateError as error:
        expected = (
            *("cannot be vectorized", "there is no register tile", "nothing can be packed"),
            *("needs a loop of at most 64", "gave up"),
        )
        if not any(reason in str(error) for reason in expected):
            raise
        return None


def sizes_of(name: str) -> dict[str, int]:
    sizes = {key: SIZES[k % len(SIZES)] for k, key in enumerate(catalog.load(name).SIZES["mini"])}
    return sizes | {key: 3 for key in sizes if key in ("tsteps", "tmax")}


def inputs(name: str) -> dict[str, Any]:
    return catalog.load(name).make_inputs(**sizes_of(name), rng=np.random.default_rng(5))


def run(function: Any, arguments: dict[str, Any]) -> dict[str, Any]:
    with np.errstate(all="ignore"):
        returned = function(*arguments.values())
    return {"returned": returned} | arguments


def assert_same_bits(got: dict[str, Any], expected: dict[str, Any], what: str) -> None:
    for name, value in expected.items():
        if isinstance(value, np.ndarray):
            assert got[name].tobytes() == value.tobytes(), f"{what}: {name} differs"
        else:
            assert got[name] == value, f"{what}: {name} differs"


def module_function(source: str, name: str) -> Any:
    namespace: dict[str, Any] = {}
    exec(compile(source, name, "exec"), namespace)
    return namespace[name]


def nest_named(name: str) -> Nest:
    entry = catalog.entry(name)
    return nest_of_file(f"{entry.load().__file__}:{entry.function}")


def function_with_loops_apart(source: str, name: str) -> Any:
    apart = with_loops_apart(source)
    assert "in_threads(" in apart
    assert "prange(" not in apart
    return plain_function(f"from optimizer.codegen.threads import in_threads\n{apart}", "candidate", name)


@pytest.mark.parametrize(
    ("name", "count"),
    [
        *((name, 12) for name in catalog.names()),
        *(pytest.param(name, 60, marks=pytest.mark.long) for name in catalog.names()),
    ],
)
def test_generated_code_gives_the_bits_of_the_original(name, count):
    nest = nest_named(name)
    expected = run(module_function(nest.original, nest.name), inputs(name))
    for schedule, source in legal_schedules(nest, name, count):
        for form in (Form.WATCHED, Form.BACKWARD) if "prange" in source else (Form.PLAIN,):
            got = run(plain_function(source, "candidate", nest.name, form), inputs(name))
            assert_same_bits(got, expected, f"{name}: {schedule}")
        if "prange" in source:
            got = run(function_with_loops_apart(source, nest.name), inputs(name))
            assert_same_bits(got, expected, f"{name}: {schedule}, loops apart")


@pytest.mark.parametrize("name", ["covariance", "gemm", "matmul", "matmul-float32", "symm", "trmm"])
def test_register_tiles_after_random_steps_give_the_bits_of_the_original(name):
    nest = nest_named(name)
    expected = run(module_function(nest.original, nest.name), inputs(name))
    schedules = legal_schedules(nest, name, 12, last=(RegisterTile,))
    with_tiles = [(schedule, source) for schedule, source in schedules if f"{nest.name}_tile(" in source]
    assert with_tiles, "the others have a loop of one iteration where vectors would be"
    for schedule, source in with_tiles:
        for form in (Form.WATCHED, Form.BACKWARD) if "prange" in source else (Form.PLAIN,):
            got = run(plain_function(source, "candidate", nest.name, form), inputs(name))
            assert_same_bits(got, expected, f"{name}: {schedule}")


@pytest.mark.parametrize("name", ["atax", "correlation", "durbin", "gemver", "layernorm", "trisolv"])
def test_reductions_after_random_steps_give_the_results_of_the_original_but_for_rounding(name):
    nest = replace(nest_named(name), reassociates=True)
    expected = run(module_function(nest.original, nest.name), inputs(name))
    checked = 0
    for last in ((Reduce, Parallel), (Reduce, Vectorize), (Reduce, Reduce, Parallel, Vectorize)):
        for schedule, source in legal_schedules(nest, name, 4, last, choose=where_reduced):
            checked += "_part = " in source or "_lanes = " in source
            for form in (Form.WATCHED, Form.BACKWARD) if "prange" in source else (Form.PLAIN,):
                got = run(plain_function(source, "candidate", nest.name, form), inputs(name))
                for array, value in expected.items():
                    if isinstance(value, np.ndarray):
                        near = np.abs(got[array] - value) <= 1e-11 * np.abs(value).max(initial=1.0)
                        assert near.all(), f"{name}: {schedule}: {array} differs"
    assert checked >= 4, "there are partial results"


@pytest.mark.parametrize("name", ["blur", "deriche", "jacobi-2d", "layernorm"])
def test_streams_after_random_steps_give_the_bits_of_the_original(name):
    nest = nest_named(name)
    expected = run(module_function(nest.original, nest.name), inputs(name))
    checked = 0
    for last in ((Vectorize, Stream), (Vectorize, Vectorize, Stream, Parallel)):
        for schedule, source in legal_schedules(nest, name, 4, last):
            checked += "store_streaming(" in source
            assert ("store_streaming(" in source) == ("fence()" in source)
            for form in (Form.WATCHED, Form.BACKWARD) if "prange" in source else (Form.PLAIN,):
                got = run(plain_function(source, "candidate", nest.name, form), inputs(name))
                assert_same_bits(got, expected, f"{name}: {schedule}")
    assert checked >= 4, "there are streams"


WITH_TILES = {
    "covariance": "distribute(j_3); distribute(i_3)",
    "gemm": "distribute(i); tile(k=4)",
    "matmul-float32": "tile(k=4)",
    "symm": "autoschedule()",
    "syrk": "distribute(i)",
    "syr2k": "distribute(i)",
    "trmm": "distribute(j); distribute(i)",
}
"""After them there can be register tiles."""


@pytest.mark.parametrize("name", WITH_TILES)
def test_random_packs_give_the_bits_of_the_original(name):
    nest = nest_named(name)
    expected = run(module_function(nest.original, nest.name), inputs(name))
    checked = 0
    for seed in range(60):
        rng = random.Random(f"packs/{name}/{seed}")
        threads = (Parallel,) * rng.randint(0, 1)
        schedule = with_more((RegisterTile, *threads, Pack, Pack), parse_schedule(WITH_TILES[name]), nest, rng)
        tree = schedule.apply(nest)
        source = source_or_none(nest, tree) if judge(model_of(nest), tree).legal is Legal.YES else None
        if source is None or "_packed = np.zeros(" not in source:
            continue
        for form in (Form.WATCHED, Form.BACKWARD) if "prange" in source else (Form.PLAIN,):
            got = run(plain_function(source, "candidate", nest.name, form), inputs(name))
            assert_same_bits(got, expected, f"{name}: {schedule}")
        checked += 1
        if checked == 8:
            return
    assert checked >= 4, f"only {checked} schedules were legal and had copies"


@pytest.mark.long
@pytest.mark.parametrize("name", catalog.names())
def test_compiled_strict_code_gives_the_bits_of_the_original(name):
    import numba

    nest = nest_named(name)
    original = numba.njit(error_model="numpy")(module_function(nest.original, nest.name))
    expected = run(original, inputs(name))
    for schedule, source in legal_schedules(nest, name, 4):
        function = module_function(source, nest.name)
        for _ in range(3):
            assert_same_bits(run(function, inputs(name)), expected, f"{name}: {schedule}")
