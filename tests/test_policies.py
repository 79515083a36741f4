"""The policies without a model: pure, seeded, never proposing what they know to fail."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Sequence
from typing import Any

import pytest

from optimizer.budget import BudgetView
from optimizer.candidate import Candidate
from optimizer.errors import UserError
from optimizer.policies.hillclimb import HillClimb
from optimizer.policies.mutate import Mutate
from optimizer.policies.random_search import RandomSearch
from optimizer.policies.replay import Replay
from optimizer.registry import make_policy
from optimizer.text_problem import TextProblem
from optimizer.trial import Trial
from tests.fakes import NumberProblem, accepted, rejected

SEARCHES = [RandomSearch, HillClimb, Mutate]
BASELINE = accepted(0, "1", 1.0)


def propose(policy: Any, history: Sequence[Trial], problem: Any = None) -> str | None:
    return policy.propose(problem or NumberProblem(), history, BudgetView()).text


def rollout(policy: Any, steps: int) -> list[str]:
    """What a policy proposes when every number scores itself."""
    history = [BASELINE]
    for number in range(1, steps + 1):
        text = propose(policy, history)
        if text is None:
            break
        history.append(accepted(number, text, float(text)))
    return [trial.candidate.text for trial in history[1:]]


@pytest.mark.parametrize("policy", SEARCHES)
def test_same_seed_and_history_same_proposal(policy: Any) -> None:
    assert rollout(policy(seed=3), 10) == rollout(policy(seed=3), 10)
    others = [rollout(policy(seed=seed, chain=chain), 10) for seed, chain in [(3, 0), (4, 0), (3, 1), (0, 0)]]
    assert len({tuple(texts) for texts in others}) == 4


@pytest.mark.parametrize("policy", SEARCHES)
def test_seed_0_is_a_seed_like_any_other(policy: Any) -> None:
    """And not the lack of one."""
    name = policy.name
    zero, again, one = (rollout(make_policy(name, {}, seed, 0), 10) for seed in (0, 0, 1))
    assert zero == again != one


@pytest.mark.parametrize("policy", SEARCHES)
def test_no_proposal_twice_and_none_that_cannot_pass(policy: Any) -> None:
    for seed in range(5):
        texts = rollout(policy(seed=seed), 15)
        assert len(texts) >= 10
        assert len(set(texts)) == len(texts)
        assert "1" not in texts
        assert all(float(text) > 0 for text in texts)


@pytest.mark.parametrize("policy", SEARCHES)
def test_giving_up_when_there_is_nothing_new(policy: Any) -> None:
    class Nothing(NumberProblem):
        def is_admissible(self, candidate: Candidate) -> bool:
            return False

    assert propose(policy(), [BASELINE], Nothing()) is None


@pytest.mark.parametrize("policy", SEARCHES)
def test_a_problem_without_neighbours_is_the_users_error(policy: Any) -> None:
    class Plain:
        kind = "plain"

    with pytest.raises(UserError, match="kind plain"):
        propose(policy(), [BASELINE], Plain())


@pytest.mark.parametrize("policy", SEARCHES)
def test_policies_are_frozen_and_check_their_options(policy: Any) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        policy().seed = 1
    with pytest.raises(UserError, match="at least 1"):
        policy(tries=0)


def test_hillclimb_climbs() -> None:
    texts = rollout(HillClimb(seed=1), 12)
    assert max(map(float, texts)) > 3


def test_hillclimb_takes_a_repair_once() -> None:
    history = [BASELINE, rejected(1, "200", repair="100")]
    assert propose(HillClimb(), history) == "100"
    assert propose(HillClimb(), [*history, rejected(2, "100", repair="100")]) not in ("100", None)


def test_hillclimb_steps_back_when_the_best_has_no_new_neighbour() -> None:
    around_two = [rejected(n, text) for n, text in enumerate(["1.5", "2.5", "1.75", "2.25"], start=2)]
    text = propose(HillClimb(), [BASELINE, accepted(1, "2", 2.0), *around_two])
    assert text in ("0.5", "0.75", "1.25")


def test_mutate_edits_the_best_and_its_equals_most_often() -> None:
    history = [BASELINE, accepted(1, "50", 7.0), accepted(2, "80", 7.0), accepted(3, "20", 6.0)]
    near = [round(float(propose(Mutate(seed=seed), history) or 0), -1) for seed in range(80)]
    assert set(near) == {50, 80, 20, 0}
    assert near.count(50) + near.count(80) > 40
    assert 4 < near.count(0) < 40


def test_mutate_starts_from_a_baseline_that_has_no_score() -> None:
    problem = TextProblem("note", "a small text")
    history = [rejected(0, "a small text"), rejected(1, "a smal text")]
    text = propose(Mutate(), history, problem)
    assert text is not None
    assert text not in ("a small text", "a smal text")


def test_random_walks_have_many_lengths() -> None:
    class Line(NumberProblem):
        def neighbours(self, candidate: Candidate, rng: random.Random) -> Any:
            yield self.parse(str(float(candidate.text) + 1))

    ends = {propose(RandomSearch(seed=seed, max_length=4), [BASELINE], Line()) for seed in range(60)}
    assert ends == {"2", "3", "4", "5"}


def test_replay_gives_its_list_and_then_gives_up() -> None:
    policy = Replay(chain=1, chains=[["a"], ["b", "c"]])
    history: list[Trial] = [BASELINE]
    for expected in ("b", "c"):
        assert propose(policy, history) == expected
        history.append(rejected(len(history), expected))
    assert propose(policy, history) is None
    assert propose(Replay(), [BASELINE]) is None


def test_replay_refuses_a_single_text_and_a_chain_that_is_not_there() -> None:
    with pytest.raises(UserError, match="list of texts"):
        Replay(chains="abc")
    with pytest.raises(UserError, match="chain 2"):
        Replay(chain=2, chains=[["a"], ["b"]])
