"""Steps whose subscripts and numbers of iterations data decide: what they may touch, which orders are legal, the code.

Every schedule that is found to be legal gives the bits of the original, on functions as people write them and on random
ones; what a step touches when it runs is among what the nest says that it may touch.
"""

from __future__ import annotations

import copy
import random
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from optimizer.codegen.backend import CodeOptions, FloatingPoint
from optimizer.codegen.loops_apart import with_loops_apart
from optimizer.codegen.numba_source import NumbaBackend
from optimizer.errors import CandidateError, SourceError, StepError
from optimizer.measure.commands import Form
from optimizer.measure.loading import plain_function
from optimizer.polyhedral.data_subscripts import arrays_of_subscripts
from optimizer.polyhedral.frontend import nest_of_file, nest_of_source
from optimizer.polyhedral.legality import Legal, judge, parallel_loops
from optimizer.polyhedral.model import model_of
from optimizer.polyhedral.nest import Nest
from optimizer.polyhedral.schedule import parse_schedule
from optimizer.polyhedral.steps.sampling import random_schedule
from optimizer.polyhedral.witness import Fault
from tests import nest_interpreter
from tests.people import irregular
from tests.plain_comparison import IMPORTS
from tests.test_legality_oracle import small_tiles
from tests.test_people import inputs

PLACE = str(Path(irregular.__file__))
SEEDS = [*range(16), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(16, 100))]
PARALLEL = {
    "sparse_product": {"i"},
    "histogram": {"b"},
    "histogram_of_rows": {"r", "b"},
    "escape_times": {"i", "j"},
    "binary_search": {"q"},
    "gather_rows": {"i", "j"},
    "scatter_rows": {"j"},
    "sample_bilinear": {"i"},
    "first_above": {"i"},
}


def nest_named(name: str) -> Nest:
    return nest_of_file(f"{PLACE}:{name}")


def nest_of(body: str, arguments: dict[str, Any]) -> Nest:
    lines = "".join(f"    {line}\n" for line in body.strip("\n").splitlines())
    return nest_of_source(f"{IMPORTS}def f({', '.join(arguments)}):\n{lines}", "f", "people.py", arguments)


def vectors(size: int = 6) -> dict[str, Any]:
    rng = np.random.default_rng(size)
    floats = {name: rng.integers(-4, 5, size).astype(float) for name in "xy"}
    return floats | {"A": rng.integers(-4, 5, (size, size)).astype(float), "p": rng.integers(0, max(1, size), size)}


@pytest.mark.parametrize("name", PARALLEL)
def test_loops_around_steps_run_on_threads_where_nothing_is_shared(name: str) -> None:
    nest = nest_named(name)
    assert any(statement.opaque for statement in nest.statements)
    assert set(parallel_loops(model_of(nest), nest.tree)) == PARALLEL[name]


@pytest.mark.parametrize(("name", "loop", "element"), [("histogram", "i", "counts"), ("scatter_rows", "i", "table")])
def test_iterations_that_may_add_to_one_element_are_no_threads(name: str, loop: str, element: str) -> None:
    nest = nest_named(name)
    judgement = judge(model_of(nest), parse_schedule(f"parallel({loop})").apply(nest))
    assert judgement.legal is Legal.NO
    assert judgement.witness is not None
    assert (judgement.witness.fault, judgement.witness.loop, judgement.witness.array) == (Fault.RACE, loop, element)


@pytest.mark.parametrize(
    ("name", "schedule"),
    [
        ("histogram", "reverse(i)"),
        ("histogram_of_rows", "distribute(r); reorder(c, r_2)"),
        ("first_above", "distribute(i); reorder_statements(i_2, i)"),
        ("sparse_product", "distribute(i); reorder_statements(i_2, i)"),
        ("escape_times", "distribute(j); distribute(i); reorder_statements(i_4, i)"),
    ],
)
def test_orders_that_may_change_a_result_are_refused(name: str, schedule: str) -> None:
    nest = nest_named(name)
    try:
        tree = parse_schedule(schedule).apply(nest)
    except StepError as error:
        pytest.fail(str(error))
    judgement = judge(model_of(nest), tree)
    if name == "histogram_of_rows":
        assert judgement.legal is Legal.YES  # Each row is counted in its own order.
    else:
        assert judgement.legal is Legal.NO
        assert judgement.witness is not None


@pytest.mark.parametrize("name", PARALLEL)
def test_legal_schedules_give_the_bits_of_the_original(name: str) -> None:
    nest = nest_named(name)
    cases = [inputs(nest, length, list(irregular.SIZES)) for length in (5, 7, 0, 1)]
    assert_all_legal_schedules_agree(nest, getattr(irregular, name), cases, seed=name, count=12)


@pytest.mark.parametrize("seed", SEEDS)
def test_random_functions_under_random_legal_schedules(seed: int) -> None:
    text = random_function(seed)
    cases = [vectors(size) for size in (6, 3, 1)]
    nest = nest_of_source(IMPORTS + text, "f", "people.py", cases[0])
    assert_all_legal_schedules_agree(nest, function_of(text), cases, seed=str(seed), count=8)


@pytest.mark.parametrize("seed", SEEDS)
def test_what_random_functions_touch_is_among_their_accesses(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    text = random_function(seed)
    given = vectors()
    nest = nest_of_source(IMPORTS + text, "f", "people.py", given)
    expected = copy.deepcopy(given)
    function_of(text)(**expected)
    touched: set[tuple[str, Any, bool]] = set()
    allowed: list[set[tuple[str, Any, bool]]] = []
    every = nest_interpreter.accessed

    def watched(*what: Any) -> list[tuple[str, Any, bool]]:
        assert not allowed or touched <= allowed[-1]
        touched.clear()
        found = every(*what)
        allowed.append(set(found))
        return found

    monkeypatch.setattr(nest_interpreter, "accessed", watched)
    nest_interpreter.run(nest, {name: Watched(name, value, touched) for name, value in given.items()})
    assert allowed
    assert touched <= allowed[-1]
    for name, value in given.items():
        assert value.tobytes() == expected[name].tobytes()


class Watched:
    """An array that notes which of its elements are used."""

    def __init__(self, name: str, array: Any, touched: set[tuple[str, Any, bool]]) -> None:
        self.name, self.array, self.touched, self.shape = name, array, touched, array.shape

    def _index(self, index: Any) -> Any:
        numbers = index if isinstance(index, tuple) else (index,)
        return tuple(int(k) % n for k, n in zip(numbers, self.shape, strict=True))

    def __getitem__(self, index: Any) -> Any:
        self.touched.add((self.name, self._index(index), False))
        return self.array[index]

    def __setitem__(self, index: Any, value: Any) -> None:
        self.touched.add((self.name, self._index(index), True))
        self.array[index] = value


def function_of(text: str) -> Any:
    space: dict[str, Any] = {}
    exec(IMPORTS + text, space)
    return space["f"]


def assert_all_legal_schedules_agree(nest: Nest, function: Any, cases: list[Any], seed: str, count: int) -> None:
    wanted: list[tuple[dict[str, Any], Any]] = []
    for case in cases:
        expected = copy.deepcopy(case)
        try:
            wanted.append((expected, function(**expected)))
        except IndexError:
            wanted.append((expected, IndexError))
    agreed = 0
    for number in range(15 * count):
        rng = random.Random(f"{seed}/{number}")
        schedule = small_tiles(random_schedule(nest, rng, rng.randint(1, 4)), rng)
        try:
            tree = schedule.apply(nest)
            if number and judge(model_of(nest), tree).legal is not Legal.YES:
                continue
            source = NumbaBackend().source(nest, tree if number else nest.tree, CodeOptions(FloatingPoint.STRICT))
        except (StepError, CandidateError):
            continue
        for form in (Form.WATCHED, Form.BACKWARD) if "prange" in source else (Form.PLAIN,):
            candidate = plain_function(source, "candidate", nest.name, form)
            for case, (expected, result) in zip(cases, wanted, strict=True):
                if result is not IndexError:
                    got = copy.deepcopy(case)
                    assert_same(candidate(*got.values()), result, f"{schedule}\n{source}")
                    for name, value in got.items():
                        assert_same(value, expected[name], f"{schedule}: {name} differs\n{source}")
        agreed += 1
        if agreed == count:
            return
    assert agreed >= 1


def assert_same(got: Any, expected: Any, what: str) -> None:
    assert np.asarray(got).tobytes() == np.asarray(expected).tobytes(), what


def random_function(seed: int) -> str:
    """Loops with exact and opaque steps among them, over whole numbers as floats so that no order rounds."""
    chance = random.Random(f"opaque/{seed}")
    variables = iter(f"t{k}" for k in range(100))

    def element(names: str = "xy") -> str:
        exact = chance.choice(("i", "j", "n - 1 - i", "i"))
        data = chance.choice((f"p[{exact}]", f"p[p[{exact}]]", f"(p[{exact}] + j) % n"))
        index = chance.choice((exact, data))
        name = chance.choice(names + "A")
        return f"A[{index}, {chance.choice(('i', 'j', data))}]" if name == "A" else f"{name}[{index}]"

    def value() -> str:
        return f"min({element()} - {chance.choice(('1.0', element()))}, 9.0)"

    def step() -> list[str]:
        v = next(variables)
        match chance.randrange(7):
            case 0 | 1:
                return [f"{element()} = {value()}"]
            case 2:
                return [f"{element()} += {chance.choice(('1.0', '-2.0'))}"]
            case 3:
                return [f"for {v} in range(p[i] // 2, p[j]):", f"    {element()} = {value()}", f"    x[{v}] += 1.0"]
            case 4:
                return [
                    f"{v} = {value()}",
                    f"while {v} > 0.0:",
                    f"    {v}_old = {v}",
                    f"    {v} = {v}_old - 1.0",
                    f"    {element()} = {v}_old",
                    f"{element()} = {v}",
                ]
            case 5:
                return [f"if {element()} > {element()}:", f"    {element()} = {value()}"]
            case _:
                return [
                    f"{v} = 0",
                    f"for {v}_at in range(n):",
                    f"    if x[{v}_at] > {value()}:",
                    f"        {v} = {v}_at",
                    "        break",
                    f"y[{v}] = 1.0",
                ]

    lines = ["n = len(x)"]
    for _ in range(chance.randint(1, 2)):
        lines.append("for i in range(n):")
        before, inside, after = ([step() for _ in range(chance.randint(low, 2))] for low in (0, 1, 0))
        lines += [f"    {line.replace('j', 'i')}" for group in before for line in group]
        lines.append("    for j in range(n):")
        lines += [f"        {line}" for group in inside for line in group]
        lines += [f"    {line.replace('j', 'i')}" for group in after for line in group]
    body = "\n".join(f"    {line}" for line in lines)
    return f"def f(x, y, A, p):\n{body}\n"


SCALARS = {
    "may keep its value": ("t = 1.0\nwhile x[i] > t:\n    t = t + 1.0\ny[i] = t", {("t", True), ("t", False)}),
    "is surely assigned": ("t = x[p[i]]\ny[i] = t", {("t", True)}),
    "is its own": ("while x[i] > 0.0:\n    t = x[i] - 1.0\n    x[i] = t", set[tuple[str, bool]]()),
    "of a branch": (
        "t = 0.0\nif x[i] > 0.0:\n    for k in range(p[i]):\n        t = x[k]\ny[i] = t",
        {("t", True), ("t", False)},
    ),
}


@pytest.mark.parametrize("case", SCALARS)
def test_variables_of_steps(case: str) -> None:
    body, expected = SCALARS[case]
    nest = nest_of("for i in range(len(x)):\n" + "\n".join(f"    {line}" for line in body.splitlines()), vectors())
    (opaque,) = [statement for statement in nest.statements if statement.opaque]
    assert {(a.array, a.is_write) for a in opaque.accesses if a.array == "t"} == expected


KEPT = {
    "a value that data decide": "for i in range(len(x)):\n    t = x[p[i]] - 1.0\n    y[i] = t * t",
    "a value that a step uses": (
        "for i in range(len(x)):\n    t = x[i] - 1.0\n    while x[i] > 0.0:\n        x[i] -= 1.0\n        y[i] += t"
    ),
    "an array that a step fills": (
        "for i in range(len(x)):\n    t = np.empty(len(x))\n    for j in range(len(x)):\n        t[j] = x[j] + y[i]\n"
        "    for j in range(len(x)):\n        y[i] += t[p[j]]"
    ),
}


@pytest.mark.parametrize("case", KEPT)
def test_temporaries_of_steps_keep_their_values(case: str) -> None:
    nest = nest_of(KEPT[case], vectors())
    body = "".join(f"    {line}\n" for line in KEPT[case].splitlines())
    function = function_of(f"{IMPORTS}def f(x, y, A, p):\n{body}")
    assert_all_legal_schedules_agree(nest, function, [vectors(6), vectors(1)], case, 8)


def test_a_variable_that_has_no_value_before_a_step_is_refused() -> None:
    body = "for i in range(len(x)):\n    while x[i] > 0.0:\n        s = s + x[i]\n        x[i] -= 1.0"
    with pytest.raises(SourceError, match="`s` is read before it is assigned"):
        nest_of(body, vectors())


def test_a_write_that_may_not_happen_keeps_the_value_before() -> None:
    body = """
t = 5.0
for i in range(len(x)):
    for k in range(p[i]):
        t = x[k]
    y[i] = t
"""
    nest = nest_of(body, vectors())
    assert parallel_loops(model_of(nest), nest.tree) == frozenset()
    got = judge(model_of(nest), parse_schedule("parallel(i)").apply(nest))
    assert got.legal is Legal.NO


def test_subscripts_that_may_leave_their_arrays_are_all_of_a_dimension() -> None:
    body = """
for i in range(len(x)):
    while x[i] > 0.0:
        x[i] -= 1.0
        if i > 0:
            y[i - 1] += 1.0
"""
    nest = nest_of(body, vectors())
    (step,) = nest.statements
    accesses = {(a.array, a.subscripts) for a in step.accesses}
    assert ("x", ("i",)) in accesses
    assert {subscripts for array, subscripts in accesses if array == "y"} == {("*",)}


def test_a_test_that_guards_a_subscript_stays_around_it() -> None:
    nest = nest_of("for i in range(len(x)):\n    if p[i] < len(y):\n        y[p[i]] += x[i]", vectors())
    (step,) = nest.statements
    assert step.body.startswith("if ")


def test_loops_of_steps_have_names_of_their_own() -> None:
    body = """
for i in range(len(x)):
    for k in range(p[i]):
        x[i] += 1.0
    for k in range(len(y)):
        A[i, k] = x[i]
"""
    nest = nest_of(body, vectors())
    iterators = {name for statement in nest.statements for name in statement.iterators}
    assert "for k in" in nest.statements[0].body
    assert iterators == {"i", "k_2"}


def test_sizes_are_those_at_which_exact_subscripts_stay_inside() -> None:
    body = "for i in range(len(y)):\n    for k in range(p[i], p[i + 1]):\n        y[i] += x[k]"
    nest = nest_of(body, {"x": np.ones(4), "y": np.ones(3), "p": np.zeros(4, np.int64)})
    admits = model_of(nest).admits
    sizes = {array: symbol for symbol, array, _ in nest.extents}
    assert admits({sizes["x"]: 4, sizes["y"]: 3, sizes["p"]: 4})
    assert not admits({sizes["x"]: 4, sizes["y"]: 3, sizes["p"]: 3})


REFUSED = {
    "return": ("for i in range(len(x)):\n    $while x[i] > 0.0:\n        return", "`while` is not supported"),
    "leaves loops": (
        "for i in range(len(x)):\n    for j in range(len(y)):\n        if $x[i] > 0.0:\n            return",
        "",
    ),
    "unknown call": ("for i in range(len(x)):\n    $while x[i] > 0.0:\n        x[i] = other(x)", "`while` is not"),
    "raise": ("for i in range(len(x)):\n    $while x[i] > 0.0:\n        raise ValueError", "`while` is not supported"),
    "slice": ("for i in range(len(x)):\n    $while x[i] > 0.0:\n        x[:] = 0.0", "`while` is not supported"),
    "view": ("for i in range(len(x)):\n    r = A[i]\n    $while r[0] > 0.0:\n        r[0] -= 1.0", "`while` is not"),
    "list": ("for i in range(len(x)):\n    $while x[i] > 0.0:\n        t = [1, 2]\n        x[i] = t[0]", "`while` is"),
    "only loop": ("$while x[0] > 0.0:\n    x[0] -= 1.0", "`while` is not supported"),
    "only bound": ("for i in range($p[0]):\n    x[i] = 0.0", "is data"),
    "outermost": ("for i in range(len(x)):\n    x[i] = 0.0\n    $break", "`break` is not supported"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_a_step_is_refused_with_its_place(case: str) -> None:
    body, message = REFUSED[case]
    with pytest.raises(SourceError) as caught:
        nest_of(body.replace("$", ""), vectors())
    error = caught.value
    line = next(k for k, text in enumerate(body.splitlines()) if "$" in text)
    header = len(IMPORTS.splitlines()) + 2
    assert message in error.message
    assert error.hint
    assert (error.line, error.column) == (header + line, 4 + body.splitlines()[line].index("$"))


def test_no_vectors_tiles_and_private_copies_of_steps() -> None:
    nest = nest_named("gather_rows")
    with pytest.raises(StepError, match="one step whose loops and subscripts data decide"):
        parse_schedule("vectorize(j)").apply(nest)
    nest = nest_named("histogram_of_rows")
    with pytest.raises(StepError, match=r"which elements of counts S1 \(line \d+\) uses is not known"):
        parse_schedule("privatize(counts, r)").apply(nest)


def test_subscripts_of_inputs() -> None:
    found = arrays_of_subscripts(nest_named("sparse_product"))
    assert (found["start"].limit, found["start"].is_ascending) == ("m + 1", True)
    assert (found["column"].limit, found["column"].is_ascending) == ("k", False)
    assert arrays_of_subscripts(nest_named("escape_times")) == {}


@pytest.mark.parametrize(("name", "schedule"), [("sparse_product", "parallel(i)"), ("escape_times", "parallel(i)")])
def test_compiled_steps_on_threads(name: str, schedule: str, tmp_path: Path) -> None:
    nest = nest_named(name)
    source = NumbaBackend().source(nest, parse_schedule(schedule).apply(nest), CodeOptions(FloatingPoint.STRICT))
    apart = with_loops_apart(source)
    assert "in_threads(" in apart
    file = tmp_path / "candidate.py"
    file.write_text(f"from optimizer.codegen.threads import in_threads\n{apart}", encoding="utf-8")
    space = SimpleNamespace()
    sys.path.insert(0, str(tmp_path))
    try:
        space.module = __import__("candidate")
    finally:
        sys.path.remove(str(tmp_path))
        sys.modules.pop("candidate", None)
    given = inputs(nest, 40, list(irregular.SIZES))
    expected = copy.deepcopy(given)
    wanted = getattr(irregular, name)(**expected)
    assert_same(getattr(space.module, name)(*given.values()), wanted, name)
    for argument, value in given.items():
        assert_same(value, expected[argument], argument)
