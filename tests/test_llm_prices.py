"""Prices: the published table, dated names, prompts of two lengths, and files of the user's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from optimizer.errors import UserError
from optimizer.llm.messages import Usage
from optimizer.llm.prices import PATH_VARIABLE, known_models, price_of

PUBLISHED = {
    "claude-fable-5-1": (10, 50, 12.50, 20, 0.25),
    "claude-opus-5-5": (4, 20, 5, 8, 0.20),
    "claude-opus-5": (5, 25, 6.25, 10, 0.50),
    "claude-opus-4-8": (5, 25, 6.25, 10, 0.50),
    "claude-opus-4-7": (5, 25, 6.25, 10, 0.50),
    "claude-opus-4-6": (5, 25, 6.25, 10, 0.50),
    "claude-opus-4-5": (5, 25, 6.25, 10, 0.50),
    "claude-sonnet-5-5": (2, 10, 2.50, 4, 0.10),
    "claude-sonnet-5": (2, 10, 2.50, 4, 0.20),
    "claude-sonnet-4-6": (3, 15, 3.75, 6, 0.30),
    "claude-sonnet-4-5": (3, 15, 3.75, 6, 0.30),
    "claude-haiku-5-5": (0.10, 0.50, 0.125, 0.20, 0.01),
    "claude-haiku-4-5": (1, 5, 1.25, 2, 0.10),
}
"""Input, output, cache write for five minutes and for an hour, cache read; USD per million tokens."""
HEAD = 'date = 2026-11-01\nsource = "mine"\n'


@pytest.fixture(autouse=True)
def _no_own_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(PATH_VARIABLE, raising=False)
    monkeypatch.setattr("optimizer.llm.prices.user_config_path", lambda _: tmp_path / "config")


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The path of a file that LOOPWRIGHT_PRICES names."""
    path = tmp_path / "own.toml"
    monkeypatch.setenv(PATH_VARIABLE, str(path))
    return path


def test_the_table_has_every_published_model_and_no_other() -> None:
    assert known_models() == tuple(sorted(PUBLISHED))


@pytest.mark.parametrize("model", PUBLISHED)
def test_every_row_is_as_published(model: str) -> None:
    price = price_of(model)
    assert price is not None
    rates = price.rates
    row = (rates.input, rates.output, rates.cache_write, rates.cache_write_1h, rates.cache_read)
    assert row == PUBLISHED[model]
    assert price.model == model
    assert price.seen.year == 2026
    assert "Anthropic" in price.source


def test_the_four_kinds_of_tokens_are_counted_apart() -> None:
    price = price_of("claude-sonnet-5-5")
    assert price is not None
    assert price.usd(Usage(1_000_000, 0, 0, 0)) == pytest.approx(2)
    assert price.usd(Usage(0, 1_000_000, 0, 0)) == pytest.approx(10)
    assert price.usd(Usage(0, 0, 1_000_000, 0)) == pytest.approx(2.5)
    assert price.usd(Usage(0, 0, 0, 1_000_000)) == pytest.approx(0.1)
    assert price.usd(Usage(100, 200, 300, 400)) == pytest.approx((200 + 2000 + 750 + 40) / 1e6)


def test_a_long_prompt_makes_the_whole_request_dearer() -> None:
    price = price_of("claude-haiku-5-5")
    assert price is not None
    assert price.usd(Usage(input=50_000, cache_read=50_000)) == pytest.approx((5000 + 500) / 1e6)
    assert price.usd(Usage(input=50_000, cache_read=50_001, output=10)) == pytest.approx((25_000 + 2500.05 + 25) / 1e6)
    assert price.longer is not None
    longer = price.longer
    row = (longer.input, longer.output, longer.cache_write, longer.cache_write_1h, longer.cache_read)
    assert row == (0.50, 2.50, 0.625, 1.00, 0.05)


def test_the_worst_case_is_at_least_what_any_division_of_the_prompt_costs() -> None:
    for model in known_models():
        price = price_of(model)
        assert price is not None
        for prompt in (1, 100_000, 100_001):
            worst = price.worst_case(prompt, 500)
            for usage in (Usage(prompt, 500), Usage(0, 500, prompt), Usage(0, 500, 0, prompt), Usage(prompt, 3)):
                assert price.usd(usage) <= worst


def test_a_dated_name_is_its_family_and_nothing_else_is() -> None:
    dated = price_of("claude-sonnet-4-5-20250929")
    assert dated is not None
    assert dated == price_of("claude-sonnet-4-5")
    for name in (
        "claude-sonnet-4",
        "claude-sonnet-4-5-2025",
        "claude-sonnet-4-5-latest",
        "claude-sonnet-5-5-5",
        "gpt",
        "",
    ):
        assert price_of(name) is None


def test_a_file_of_the_users_overrides_and_adds(own: Path) -> None:
    own.write_text(f"""{HEAD}
[models.claude-sonnet-5-5]
input = 1
output = 4
[models."qwen:32b"]
input = 0
output = 0
""")
    changed, added, kept = price_of("claude-sonnet-5-5"), price_of("qwen:32b"), price_of("claude-opus-5")
    assert changed is not None
    assert added is not None
    assert kept is not None
    assert (changed.rates.cache_write, changed.rates.cache_write_1h, changed.rates.cache_read) == (1.25, 2, 1)
    assert changed.source == "mine"
    assert added.usd(Usage(1000, 1000, 1000, 1000)) == 0
    assert kept.source != "mine"
    assert "qwen:32b" in known_models()


def test_the_file_in_the_configuration_folder_is_read(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "prices.toml").write_text(HEAD + "[models.local]\ninput = 1\noutput = 2\n")
    assert price_of("local") is not None


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("date = ?\n", "line 1"),
        (HEAD, "models"),
        (HEAD + "[models.m]\ninput = 1\n", r"models\.m\.output"),
        (HEAD + "[models.m]\ninput = -1\noutput = 1\n", r"models\.m\.input"),
        (HEAD + "[models.m]\ninput = nan\noutput = 1\n", r"models\.m\.input"),
        (HEAD + '[models.m]\ninput = "1"\noutput = 1\n', r"models\.m\.input"),
        (HEAD + "[models.m]\ninput = true\noutput = 1\n", r"models\.m\.input"),
        (HEAD + "[models.m]\ninput = 1\noutput = 1\ncache_raed = 1\n", r"models\.m\.cache_raed"),
        (HEAD + "[models.m]\ninput = 1\noutput = 1\nup_to = 5\n", r"models\.m: up_to"),
        (HEAD + '[models.m]\ninput = 1\noutput = 1\nsame = ["m"]\n', "m has two prices"),
    ],
)
def test_a_damaged_file_is_the_users_error_with_its_place(own: Path, text: str, place: str) -> None:
    own.write_text(text)
    with pytest.raises(UserError, match=place) as caught:
        price_of("claude-sonnet-5-5")
    assert str(own) in str(caught.value)


def test_a_named_file_that_is_missing_is_the_users_error(own: Path) -> None:
    with pytest.raises(UserError, match="which is not there"):
        known_models()
