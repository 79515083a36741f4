"""Names become objects here, and unknown ones a helpful message."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from optimizer import registry
from optimizer.errors import UserError
from optimizer.policies.random_search import RandomSearch
from optimizer.protocols import Problem, Searchable
from optimizer.registry import (
    CASCADES,
    POLICIES,
    PROBLEMS,
    describe_policies,
    describe_verifiers,
    make_policy,
    make_problem,
    make_verifiers,
)
from optimizer.text_problem import TextProblem
from tests.fakes import NumberProblem

ROOT = Path(__file__).parents[1]


def test_a_policy_by_name_with_its_options() -> None:
    assert make_policy("random", {"max_length": 2}, seed=7, chain=1) == RandomSearch(7, 1, 2)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("hilclimb", {}, "no policy called 'hilclimb'; did you mean hillclimb?"),
        ("zzz", {}, "there are: external, hillclimb, llm, mutate"),
        ("random", {"max_lenght": 2}, "no option of policy random called 'max_lenght'; did you mean max_length?"),
        ("random", {"seed": 2}, "no option of policy random called 'seed'"),
        ("random", {"max_length": "many"}, "option max_length of policy random cannot be 'many': .*integer"),
        ("random", {"max_length": 2.5}, "cannot be 2.5: .*integer"),
        ("random", {"walks": True}, "cannot be True: .*integer"),
        ("polyhedral", {"share": "most"}, "option share of policy polyhedral cannot be 'most': .*number"),
        ("replay", {"chains": "tile(i=4)"}, "option chains of policy replay"),
        ("random", {"tries": 0}, "at least 1"),
    ],
)
def test_a_wrong_policy_is_the_users_error(name: str, options: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        make_policy(name, options, 0, 0)


def test_a_problem_by_its_specification() -> None:
    problem = TextProblem("note.txt", "some text")
    again = make_problem(problem.specification())
    assert again == problem
    assert isinstance(again, Searchable)
    checked: Problem = problem
    assert checked.kind == "text"


def test_a_wrong_problem_is_the_users_error() -> None:
    with pytest.raises(UserError, match="did you mean text"):
        make_problem({"kind": "texd"})
    with pytest.raises(UserError, match="lacks 'language'"):
        make_problem({"kind": "text", "name": "a", "text": "b"})
    with pytest.raises(UserError, match="kind of problem called 'None'"):
        make_problem({})


def test_a_wrong_verifier_option_is_the_users_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"'chekc'; did you mean check\?"):
        make_verifiers(TextProblem("a", "b"), tmp_path, {"chekc": "x.py:f"})
    with pytest.raises(UserError, match="'number'"):
        make_verifiers(NumberProblem(), tmp_path, {})


def test_every_kind_of_problem_has_verifiers() -> None:
    assert set(PROBLEMS) == set(CASCADES)


def test_descriptions_come_from_fields_and_docstrings() -> None:
    described = {description.name: description for description in describe_policies()}
    assert set(described) >= set(POLICIES)
    assert described["mutate"].options == {"max_edits": "3", "tries": "100"}
    assert described["random"].summary.startswith("Propose the end of a random walk")
    assert all(description.summary.endswith(".") for description in described.values())
    check = next(description for description in describe_verifiers() if description.name == "function-check")
    assert check.options == {"place": "", "deadline": "10.0", "network": "True"}


def test_names_match_what_the_classes_call_themselves() -> None:
    for name in POLICIES:
        assert make_policy(name, {}, 0, 0).name == name


def test_plug_ins_join_and_broken_ones_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    plugins = {
        "walk": EntryPoint("walk", "optimizer.policies.random_search:RandomSearch", "loopwright.policies"),
        "broken": EntryPoint("broken", "no_such_module:Thing", "loopwright.policies"),
    }
    monkeypatch.setattr(registry, "_plugins", lambda group: plugins)
    assert isinstance(make_policy("walk", {}, 0, 0), RandomSearch)
    with pytest.raises(UserError, match=r"no_such_module:Thing .* cannot be loaded"):
        make_policy("broken", {}, 0, 0)


def test_importing_the_engine_imports_nothing_heavy() -> None:
    script = (
        "import sys, optimizer, optimizer.registry, optimizer.loop, optimizer.journal, optimizer.protocols\n"
        "heavy = {'numpy', 'numba', 'islpy', 'rich', 'scipy', 'pydantic', 'platformdirs'}\n"
        "print(*sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("\n", "")
