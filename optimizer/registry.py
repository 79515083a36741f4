"""The only place where names become objects: built-in tables, and entry points of installed packages.

Nothing is imported before it is asked for. Factories that a table or an entry point may name:

    loopwright.problems   a class with `from_specification(mapping) -> Problem`
    loopwright.policies   a frozen dataclass with `seed`, `chain` and its options as fields
    loopwright.verifiers  `(problem, directory, waiting, **options) -> Sequence[Verifier]`, the cheapest verifier first,
                          under the kind of problem that they judge; `waiting(reason)` is to be called before a wait
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, get_type_hints

from optimizer.errors import UserError
from optimizer.names import nearest
from optimizer.protocols import Attachable, Policy, Problem, Verifier

PROBLEMS: Mapping[str, str] = {
    "kernel": "optimizer.kernel_problem:KernelProblem",
    "suite": "optimizer.suite_problem:SuiteProblem",
    "text": "optimizer.text_problem:TextProblem",
}
POLICIES: Mapping[str, str] = {
    "external": "optimizer.policies.external:External",
    "hillclimb": "optimizer.policies.hillclimb:HillClimb",
    "llm": "optimizer.policies.llm:Llm",
    "mutate": "optimizer.policies.mutate:Mutate",
    "polyhedral": "optimizer.policies.polyhedral:Polyhedral",
    "random": "optimizer.policies.random_search:RandomSearch",
    "replay": "optimizer.policies.replay:Replay",
}
CASCADES: Mapping[str, str] = {
    "kernel": "verifiers.kernel_cascade:kernel_verifiers",
    "suite": "verifiers.test_suite:suite_verifiers",
    "text": "verifiers.function_check:function_verifiers",
}
VERIFIERS: Mapping[str, str] = {
    "legality": "verifiers.legality:Legality",
    "equivalence": "verifiers.equivalence:Equivalence",
    "timing": "verifiers.timing:Timing",
    "plausibility": "verifiers.plausibility:Plausibility",
    "function-check": "verifiers.function_check:FunctionCheck",
    "test-suite": "verifiers.test_suite:TestSuite",
}
OWN_FIELDS = ("seed", "chain", "bench")
"""Fields of a policy or a verifier that the run sets, not the user."""


@dataclass(frozen=True, slots=True)
class Description:
    """What a person is told about a policy or a verifier."""

    name: str
    options: Mapping[str, str]
    """Name of each option -> its default, as text."""
    summary: str


def make_problem(specification: Mapping[str, Any]) -> Problem:
    """The problem that wrote a specification. Raises `UserError` when there is no such kind or a part is missing."""
    kind = specification.get("kind")
    problem_class = _find("kind of problem", str(kind), PROBLEMS, "loopwright.problems")
    try:
        return problem_class.from_specification(specification)
    except KeyError as error:
        raise UserError(f"the specification of a problem of kind {kind} lacks {error}") from error


def make_policy(name: str, options: Mapping[str, Any], seed: int, chain: int) -> Policy | Attachable:
    """The policy of one chain. Raises `UserError` for an unknown name or option, or a value that it refuses."""
    policy_class = _find("policy", name, POLICIES, "loopwright.policies")
    known = _option_names(policy_class)
    for option in options:
        if option not in known:
            raise UserError(_unknown(f"option of policy {name}", option, known))
    if options:
        _check_types(policy_class, options, f"policy {name}")
    return policy_class(seed=seed, chain=chain, **options)


def option_names(policy: str) -> list[str]:
    """The options of a policy. Raises `UserError` for an unknown one."""
    return _option_names(_find("policy", policy, POLICIES, "loopwright.policies"))


def asks_outside(policy: str) -> bool:
    """Whether a policy asks a model or somebody else, and may spend calls, tokens, dollars. Raises `UserError`."""
    return hasattr(_find("policy", policy, POLICIES, "loopwright.policies"), "attach")


def _check_types(thing: Any, options: Mapping[str, Any], owner: str) -> None:
    """Raise `UserError` for a value that is not of the type of its field."""
    from pydantic import TypeAdapter, ValidationError  # slow to import, and only needed here

    types = get_type_hints(thing)
    for option, value in options.items():
        try:
            TypeAdapter(types[option]).validate_python(value, strict=True)
        except ValidationError as error:
            first = error.errors()[0]["msg"]
            raise UserError(f"option {option} of {owner} cannot be {value!r}: {first}") from None


def make_verifiers(
    problem: Problem, directory: Path, options: Mapping[str, Any], waiting: Callable[[str], None] = lambda _: None
) -> Sequence[Verifier]:
    """The verifiers of a problem's kind, cheapest first; `directory` is the run's own for what they write.

    Raises `UserError` for an unknown option or a broken set-up.
    """
    factory = _find("kind of problem", problem.kind, CASCADES, "loopwright.verifiers")
    known = [name for name in inspect.signature(factory).parameters if name not in ("problem", "directory", "waiting")]
    for option in options:
        if option not in known:
            raise UserError(_unknown(f"verifier option for a problem of kind {problem.kind}", option, known))
    return factory(problem, directory, waiting, **options)


def describe_policies() -> list[Description]:
    """All policies that can be loaded, by name."""
    names = sorted({*POLICIES, *_plugins("loopwright.policies")})
    return [_describe(name, _find("policy", name, POLICIES, "loopwright.policies")) for name in names]


def describe_verifiers() -> list[Description]:
    """All built-in verifiers, in the order of the cascades."""
    return [_describe(name, _load(place)) for name, place in VERIFIERS.items()]


def _find(what: str, name: str, table: Mapping[str, str], group: str) -> Any:
    if name in table:
        return _load(table[name])
    plugins = _plugins(group)
    if name not in plugins:
        raise UserError(_unknown(what, name, [*table, *plugins]))
    try:
        return plugins[name].load()
    except (ImportError, AttributeError) as error:
        raise UserError(f"the plug-in {plugins[name].value} for {what} {name} cannot be loaded: {error}") from error


def _load(place: str) -> Any:
    module, _, attribute = place.partition(":")
    return getattr(importlib.import_module(module), attribute)


def _plugins(group: str) -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=group)}


def _unknown(what: str, name: str, known: Sequence[str]) -> str:
    hint = nearest(name, known) or f"; there are: {', '.join(sorted(known)) or 'none'}"
    return f"there is no {what} called {name!r}{hint}"


def _option_names(thing: Any) -> list[str]:
    return [field.name for field in fields(thing) if field.init and field.name not in OWN_FIELDS]


def _describe(name: str, thing: Any) -> Description:
    summary = (inspect.getdoc(thing) or "").split("\n\n")[0].replace("\n", " ")
    if not is_dataclass(thing):
        return Description(name, {}, summary)
    shown = {field.name: _default_text(field) for field in fields(thing) if field.init and field.name not in OWN_FIELDS}
    return Description(name, shown, summary)


def _default_text(field: Any) -> str:
    if field.default is not MISSING:
        return str(field.default)
    return "" if field.default_factory is MISSING else str(field.default_factory())
