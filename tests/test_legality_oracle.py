"""Legality against brute force: random schedules of every bundled kernel, judged both ways at tiny sizes.

`pytest tests/test_legality_oracle.py -m long -s` runs 200 schedules a kernel and prints the counts; the ordinary run
draws a fifth of them.
"""

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from kernels import catalog
from optimizer.errors import StepError
from optimizer.polyhedral.frontend import nest_of_file
from optimizer.polyhedral.legality import Legal, judge
from optimizer.polyhedral.model import Model
from optimizer.polyhedral.nest import Nest
from optimizer.polyhedral.schedule import Schedule, nest_of
from optimizer.polyhedral.steps import Step
from optimizer.polyhedral.steps.pack import Pack
from optimizer.polyhedral.steps.parallel import Parallel
from optimizer.polyhedral.steps.reduce import Reduce
from optimizer.polyhedral.steps.register_tile import RegisterTile
from optimizer.polyhedral.steps.sampling import random_schedule
from optimizer.polyhedral.steps.tile import Tile
from optimizer.polyhedral.steps.vectorize import Vectorize
from optimizer.polyhedral.tree import Node, loops
from tests import oracle

TINY = (4, 3, 5, 3, 4)


def tiny_sizes(nest: Nest) -> dict[str, int]:
    """Sizes at which every statement runs and conflicts are still few."""
    largest = max(len(statement.iterators) for statement in nest.statements)
    stencil = any(name in nest.parameters for name in ("tsteps", "tmax"))
    sizes = {name: TINY[k % len(TINY)] for k, name in enumerate(nest.parameters)}
    if stencil:
        sizes |= {name: 2 if name in ("tsteps", "tmax") else 5 if largest < 4 else 4 for name in nest.parameters}
    return sizes


def small_tiles(schedule: Schedule, rng: random.Random) -> Schedule:
    """The same steps with sizes of tiles and vectors that matter at tiny sizes."""

    def small(step: Step) -> Step:
        match step:
            case Tile(sizes):
                return Tile(tuple((loop, rng.choice((2, 3))) for loop, _ in sizes))
            case Vectorize(loop):
                return Vectorize(loop, rng.choice((2, 4)))
            case RegisterTile((*rows, (columns, _))):
                return RegisterTile((*((loop, rng.choice((2, 3))) for loop, _ in rows), (columns, rng.choice((2, 4)))))
            case _:
                return step

    return Schedule(tuple(map(small, schedule.steps)))


def with_more(
    kinds: tuple[type[Step], ...],
    schedule: Schedule,
    nest: Nest,
    rng: random.Random,
    choose: Callable[[Any, Node], bool] = lambda step, tree: True,
) -> Schedule:
    """With such steps at the end, where they can be; those that `choose` accepts, where there are any."""
    for kind in kinds:
        tree = schedule.apply(nest)
        every = list(kind.options(nest_of(nest, tree), tree))
        options = [step for step in every if choose(step, tree)] or every
        last = small_tiles(Schedule((rng.choice(options),)), rng).steps if options else ()
        schedule = Schedule((*schedule.steps, *last))
    return schedule


def compare(
    name: str,
    count: int,
    last: tuple[type[Step], ...] = (),
    choose: Callable[[Any, Node], bool] = lambda step, tree: True,
    *,
    reassociates: bool = False,
) -> tuple[int, int, int]:
    """Judge `count` random schedules both ways; how many were legal, illegal, and parallel among the legal."""
    nest = nest_of_file(f"{catalog.load(name).__file__}:{catalog.entry(name).function}")
    nest = replace(nest, reassociates=reassociates)
    sizes = tiny_sizes(nest)
    everywhere = Model(nest)
    text = " and ".join(f"{k} = {v}" for k, v in sizes.items())
    here = Model(replace(nest, context=f"[{', '.join(sizes)}] -> {{ : {text} }}"))
    run = oracle.trace(nest, sizes)
    assert run.iterations, "nothing runs at the tiny sizes"
    legal = illegal = parallel = drawn = 0
    seed = 0
    while drawn < count:
        rng = random.Random(f"{name}/{seed}")
        seed += 1
        schedule = small_tiles(random_schedule(nest, rng, rng.randint(1, 5)), rng)
        try:
            schedule = with_more(last, schedule, nest, rng, choose)
            tree = schedule.apply(nest)
        except StepError:
            continue
        if last and not any(isinstance(step, last[-1]) for step in schedule.steps):
            continue
        drawn += 1
        judged = nest_of(nest, tree)
        expected = oracle.is_legal(run if judged is nest else oracle.trace(judged, sizes), tree)
        verdict = judge(here, tree)
        assert verdict.legal is (Legal.YES if expected else Legal.NO), f"{name}: {schedule}: {verdict.witness}"
        general = judge(everywhere, tree)
        assert general.legal is not Legal.UNKNOWN, f"{name}: {schedule}: {general.detail}"
        if general.legal is Legal.YES:
            assert expected, f"{name}: {schedule} is legal for all sizes, and wrong at {sizes}"
        for judgement in (verdict, general):
            if judgement.witness is not None:
                assert oracle.is_violated(judged, tree, judgement.witness), f"{name}: {schedule}: {judgement.witness}"
        legal += expected
        illegal += not expected
        parallel += expected and any(loop.is_parallel for loop in loops(tree))
    return legal, illegal, parallel


@pytest.mark.parametrize("name", catalog.names())
def test_verdicts_equal_brute_force(name):
    legal, illegal, _ = compare(name, 40)
    assert legal
    assert illegal or legal == 40


@pytest.mark.parametrize("name", ["bicg", "deriche", "floyd-warshall", "jacobi-1d", "lu", "gemver", "trisolv"])
def test_verdicts_on_vectors_equal_brute_force(name):
    # Few of them are legal on floyd-warshall.
    legal, illegal, _ = compare(name, 120 if name == "floyd-warshall" else 40, last=(Vectorize,))
    assert legal
    assert illegal


@pytest.mark.parametrize("name", ["conv2d", "floyd-warshall", "gemm", "lu", "symm", "trmm"])
def test_verdicts_on_register_tiles_equal_brute_force(name):
    # Few of them are legal on conv2d.
    legal, illegal, _ = compare(name, 160 if name == "conv2d" else 40, last=(RegisterTile,))
    assert legal
    assert illegal


@pytest.mark.parametrize("name", ["covariance", "gemm", "symm", "trmm"])
def test_verdicts_on_packs_equal_brute_force(name):
    legal, illegal, _ = compare(name, 40, last=(RegisterTile, Parallel, Pack))
    assert legal
    assert illegal


@pytest.mark.parametrize("name", ["atax", "durbin", "gramschmidt", "trisolv"])
def test_verdicts_on_reductions_equal_brute_force(name):
    for last in ((Reduce, Reduce, Parallel), (Reduce, Vectorize)):
        legal, illegal, _ = compare(name, 12, last, where_reduced, reassociates=True)
        assert legal
        assert illegal


def where_reduced(step: Any, tree: Node) -> bool:
    """Whether a step marks a loop that may reduce in any order."""
    return isinstance(step, Reduce) or any(loop.name == step.loop and loop.partials != 1 for loop in loops(tree))


@pytest.mark.long
@pytest.mark.parametrize("name", catalog.names())
def test_many_verdicts_equal_brute_force(name, capsys):
    legal, illegal, parallel = compare(name, 200)
    with capsys.disabled():
        print(f"\n{name}: {legal} legal ({parallel} with threads), {illegal} illegal, no disagreement")
    assert legal >= 20
