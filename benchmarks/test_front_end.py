"""How long it takes to understand a function (pytest-benchmark): `make bench`.

What must hold: a function of 100 array statements becomes a nest, with all its dependences, in less than 0.5 s.
"""

from __future__ import annotations

from itertools import count

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from optimizer.polyhedral.frontend import nest_of_source
from optimizer.polyhedral.model import Model

STATEMENTS = 100
ROUNDS = 5
LIMIT_SECONDS = 0.5
FORMS = (
    "d{k} = u + 0.5 * v",
    "v[1:-1, 1:-1] = 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + d{k}[1:-1, :-2] + d{k}[1:-1, 2:])",
    "u[:] = np.where(v > 0.0, v, 0.1 * v)",
    "w += np.sum(u * d{k}, axis=1)",
    "u[1:, :] -= w[:-1, None] * v[:-1, :]",
)
"""What the statements are, in turns; all of them are about the same arrays."""
NUMBERS = count()


def array_function(statements: int) -> str:
    """The text of a function `f` of so many statements, with sizes of its own: what isl was asked is remembered."""
    n, m = (f"{name}{next(NUMBERS)}" for name in "nm")
    lines = [FORMS[k % len(FORMS)].format(k=k // len(FORMS)) for k in range(statements)]
    shape = f'Float64[np.ndarray, "{n} {m}"]'
    header = f'def f(u: {shape}, v: {shape}, w: Float64[np.ndarray, "{n}"]):'
    return "import numpy as np\nfrom jaxtyping import Float64\n" + "\n    ".join([header, *lines]) + "\n"


def dependences(text: str) -> Model:
    """What has to be known before any schedule can be judged."""
    model = Model(nest_of_source(text, "f", "front_end.py"))
    _ = model.conflicts
    return model


@pytest.mark.parametrize("what", ["front end", "front end and dependences"])
def test_a_function_of_100_array_statements(benchmark: BenchmarkFixture, what: str) -> None:
    texts = iter([array_function(STATEMENTS) for _ in range(ROUNDS + 1)])

    def read() -> object:
        text = next(texts)
        return dependences(text) if "dependences" in what else nest_of_source(text, "f", "front_end.py")

    benchmark.pedantic(read, rounds=ROUNDS, iterations=1, warmup_rounds=1)
    if benchmark.stats is None:
        return
    times = sorted(benchmark.stats.stats.data)
    print(f"\n{what}: {times[0]:.3f} s at least, {times[len(times) // 2]:.3f} s in the middle")
    assert times[len(times) // 2] < LIMIT_SECONDS
