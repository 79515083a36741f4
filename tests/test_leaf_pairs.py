"""What is asked of two leaves at a time against the judgement of the whole tree, legal schedules and illegal ones."""

import random

import pytest

from optimizer.kernel_problem import KernelProblem
from optimizer.polyhedral.leaf_pairs import carries_nothing, is_legal
from optimizer.polyhedral.legality import Legal, can_be_parallel, judge
from optimizer.polyhedral.model import model_of
from optimizer.polyhedral.private_arrays import model_for
from optimizer.polyhedral.steps.sampling import random_schedule
from optimizer.polyhedral.tree import loops
from tests.test_legality_oracle import small_tiles


@pytest.mark.parametrize("name", ["lu", "jacobi-1d", "nussinov", "covariance", "floyd-warshall"])
def test_two_leaves_at_a_time_say_what_the_whole_says(name: str) -> None:
    nest = KernelProblem.load(name, "mini").nest
    model, rng = model_of(nest), random.Random(3)
    answers: list[bool] = []
    for _ in range(60):
        schedule = small_tiles(random_schedule(nest, rng, rng.randint(1, 5)), rng)
        tree = schedule.apply(nest)
        answers.append(is_legal(model, tree))
        assert answers[-1] is (judge(model, tree).legal is Legal.YES), schedule
        for loop in loops(tree):
            own = model_for(model, tree)
            assert carries_nothing(own, tree, loop.name) is can_be_parallel(own, tree, loop.name), (schedule, loop.name)
    assert len(set(answers)) == 2


def test_a_tree_without_a_statement_is_not_legal() -> None:
    nest = KernelProblem.load("jacobi-1d", "mini").nest
    (loop,) = (loop for loop in loops(nest.tree) if loop.name == "i")
    assert not is_legal(model_of(nest), loop)
