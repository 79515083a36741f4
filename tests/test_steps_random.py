"""Whatever steps are drawn: trees stay consistent, no iteration is lost or doubled, and texts mean their steps."""

from __future__ import annotations

import random
from dataclasses import replace

import islpy as isl
import pytest

from kernels import catalog
from optimizer.errors import StepError
from optimizer.polyhedral.frontend import nest_of_file
from optimizer.polyhedral.nest import Nest
from optimizer.polyhedral.order import relation_text, timed_leaves
from optimizer.polyhedral.schedule import Schedule, apply_step, nest_of, parse_schedule
from optimizer.polyhedral.steps import STEPS
from optimizer.polyhedral.steps.sampling import random_schedule
from optimizer.polyhedral.tree import Node, inconsistencies, show
from tests.hand_nests import gemm, lu, row_sum

NESTS = [replace(nest, reassociates=True) for nest in (gemm(), lu(), row_sum())]
SHARING = replace(nest_of_file(f"{catalog.load('doitgen').__file__}:doitgen"), reassociates=True)
"""Its iterations share an array that each of them could have for itself."""
STARTS = ["", "autoschedule()", "distribute(i); tile(i=8)", "split(i, at=3)"]


def assert_every_iteration_runs_once(nest: Nest, tree: Node) -> None:
    domain = isl.UnionSet(f"[{', '.join(nest.parameters)}] -> {{ }}")
    for statement in nest.statements:
        domain = domain.union(isl.UnionSet(statement.domain).intersect_params(isl.Set(nest.context)))
    seen = isl.UnionSet(f"[{', '.join(nest.parameters)}] -> {{ }}")
    for timed in timed_leaves(tree):
        part = isl.UnionMap(relation_text(nest, (timed,))).domain().intersect(domain)
        assert part.is_disjoint(seen), f"two leaves share iterations in\n{show(tree)}"
        seen = seen.union(part)
    assert seen.is_equal(domain), f"iterations are missing in\n{show(tree)}"


@pytest.mark.parametrize("nest", [*NESTS, SHARING], ids=lambda nest: nest.name)
def test_random_schedules_keep_trees_consistent_and_all_iterations(nest: Nest) -> None:
    applied: set[str] = set()
    for seed in range(60):
        schedule = random_schedule(nest, random.Random(seed), 8)
        assert len(schedule.steps) == 8
        tree = nest.tree
        for step in schedule.steps:
            tree = apply_step(nest, tree, step)
            assert inconsistencies(tree) == (), f"after {step} in {schedule}"
        assert_every_iteration_runs_once(nest_of(nest, tree), tree)
        assert parse_schedule(str(schedule)) == schedule
        assert show(parse_schedule(str(schedule)).apply(nest)) == show(tree)
        applied.update(step.name for step in schedule.steps)
    rare = {"pack", "stream"} if nest is SHARING else {"pack", "stream", "privatize"}
    rare |= {"register_tile"} if nest.name in ("doitgen", "row_sum") else set[str]()
    assert applied | rare == set(STEPS), (
        "a pack needs a register tile before it, and that three loops; a stream a vector loop that only writes"
    )


def test_the_same_seed_gives_the_same_schedule_and_another_seed_another() -> None:
    texts = [str(random_schedule(lu(), random.Random(seed), 6)) for seed in (7, 7, 8)]
    assert texts[0] == texts[1] != texts[2]


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("nest", NESTS, ids=lambda nest: nest.name)
def test_every_option_is_its_text_and_can_be_applied(nest: Nest, start: str) -> None:
    tree = parse_schedule(start).apply(nest)
    for name, kind in STEPS.items():
        options = list(kind.options(nest, tree))
        assert options == list(kind.options(nest, tree))
        assert len(options) == len(set(options)) <= 300
        for step in options:
            assert step.name == name
            assert parse_schedule(str(step)) == Schedule((step,))
            try:
                after = step.apply(nest, tree)
            except StepError:
                assert name == "split", f"{step} is an option but refused"
                continue
            assert inconsistencies(after) == (), step
            assert after != tree, f"{step} changes nothing"


def test_every_kind_of_step_has_options_somewhere() -> None:
    trees = [(nest, parse_schedule(start).apply(nest)) for nest in NESTS for start in STARTS]
    trees.append((SHARING, SHARING.tree))
    trees.append((SHARING, parse_schedule("distribute(p); vectorize(p)").apply(SHARING)))
    trees.append((gemm(), parse_schedule("distribute(i); register_tile(i_2=2, j_2=8)").apply(gemm())))
    for name, kind in STEPS.items():
        assert any(list(kind.options(nest, tree)) for nest, tree in trees), name
