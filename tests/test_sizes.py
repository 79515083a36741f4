"""Sizes as users write them."""

from __future__ import annotations

import pytest

from optimizer.errors import UserError
from optimizer.sizes import parse_sizes

NAMED = {"mini": {"n": 30, "m": 20}, "large": {"n": 1000, "m": 900}}


def test_a_named_size() -> None:
    assert parse_sizes("mini", ("n", "m"), NAMED) == ("mini", {"n": 30, "m": 20})


def test_values_in_any_order_come_in_the_kernels_order() -> None:
    name, sizes = parse_sizes(" m = 5, n=1_000", ("n", "m"), NAMED)
    assert (name, list(sizes.items())) == ("n=1000,m=5", [("n", 1000), ("m", 5)])
    assert parse_sizes({"m": 5, "n": 1000}, ("n", "m"), {}) == (name, sizes)
    assert parse_sizes(name, ("n", "m"), {}) == (name, sizes)


def test_a_kernel_without_sizes_needs_none() -> None:
    assert parse_sizes(None, (), {}) == ("", {})


@pytest.mark.parametrize(
    ("text", "named", "message"),
    [
        (None, NAMED, "no size given: use one of mini, large, or n=1000,m=1000"),
        ("", {}, "use --size n=1000,m=1000"),
        ("larg", NAMED, r"unknown size 'larg': .*did you mean large\?"),
        ("mini", {}, "unknown size 'mini': use n=1000,m=1000"),
        ("n=5", NAMED, "missing size: m"),
        ("n=5,k=3,m=1", NAMED, "no size 'k'; it has n, m"),
        ("n=5,n=6,m=1", NAMED, "n is given twice"),
        ("n=5,m", NAMED, "cannot read the size 'm'"),
        ("n=five,m=1", NAMED, "n=five is not an integer"),
        ("n=2.5,m=1", NAMED, "n=2.5 is not an integer"),
        ("n=0,m=1", NAMED, "n=0 must be a positive integer"),
        ("n=-3,m=1", NAMED, "n=-3 must be a positive integer"),
        ({"n": True, "m": 1}, NAMED, "n=True must be a positive integer"),
    ],
)
def test_everything_else_says_what_to_write(
    text: str | dict[str, int] | None, named: dict[str, dict[str, int]], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        parse_sizes(text, ("n", "m"), named)
