"""What a call costs: the table in prices.toml, which a user's own file overrides."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from functools import cache
from pathlib import Path
from typing import Annotated

from platformdirs import user_config_path
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from optimizer.errors import UserError
from optimizer.llm.messages import Usage

PATH_VARIABLE = "LOOPWRIGHT_PRICES"
BUILT_IN = Path(__file__).with_name("prices.toml")
MILLION = 1_000_000
DATED = re.compile(r"(?P<family>.+)-\d{8}")
"""A model's name with the day of its release, such as claude-sonnet-4-5-20250929."""


@dataclass(frozen=True, slots=True)
class Rates:
    """United States dollars for a million tokens."""

    input: float
    output: float
    cache_write: float
    """Into a cache that lasts five minutes, which is what the `llm` policy uses."""
    cache_write_1h: float
    cache_read: float

    def usd(self, usage: Usage) -> float:
        dollars = (
            usage.input * self.input
            + usage.output * self.output
            + usage.cache_write * self.cache_write
            + usage.cache_read * self.cache_read
        )
        return dollars / MILLION

    @property
    def dearest_prompt(self) -> float:
        return max(self.input, self.cache_write, self.cache_read)


@dataclass(frozen=True, slots=True)
class Price:
    """What a model costs, and where that was read."""

    model: str
    rates: Rates
    up_to: int | None
    """The longest prompt, in tokens, at `rates`; None: any."""
    longer: Rates | None
    """For the whole of a request with a longer prompt."""
    seen: date
    source: str

    def rates_for(self, prompt_tokens: int) -> Rates:
        if self.longer is None or self.up_to is None or prompt_tokens <= self.up_to:
            return self.rates
        return self.longer

    def usd(self, usage: Usage) -> float:
        """United States dollars of one call."""
        return self.rates_for(usage.prompt).usd(usage)

    def worst_case(self, prompt_tokens: int, max_tokens: int) -> float:
        """The most United States dollars that a call can cost: nothing read from the cache, the longest answer."""
        rates = self.rates_for(prompt_tokens)
        return (prompt_tokens * rates.dearest_prompt + max_tokens * rates.output) / MILLION


def price_of(model: str) -> Price | None:
    """The price of a model by its exact name, or by its name without the date at the end; None when it has none.

    Raises `UserError` when the user's file of prices is missing or damaged.
    """
    prices = _prices()
    if model in prices:
        return prices[model]
    dated = DATED.fullmatch(model)
    return prices.get(dated["family"]) if dated else None


def known_models() -> tuple[str, ...]:
    """The names of all models with a price."""
    return tuple(sorted(_prices()))


def user_file() -> Path | None:
    """The user's own file of prices; None when there is none. Raises `UserError` when the named one is missing."""
    named = os.environ.get(PATH_VARIABLE)
    if not named:
        usual = user_config_path("loopwright") / "prices.toml"
        return usual if usual.is_file() else None
    if not Path(named).is_file():
        raise UserError(f"{PATH_VARIABLE} names the file {named}, which is not there: correct the path, or unset it")
    return Path(named)


Dollars = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class _Rates(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    input: Dollars
    output: Dollars
    cache_write: Dollars | None = None
    cache_write_1h: Dollars | None = None
    cache_read: Dollars | None = None

    def rates(self) -> Rates:
        return Rates(
            self.input,
            self.output,
            1.25 * self.input if self.cache_write is None else self.cache_write,
            2 * self.input if self.cache_write_1h is None else self.cache_write_1h,
            self.input if self.cache_read is None else self.cache_read,
        )


class _Model(_Rates):
    same: list[str] = []
    """Other models at the same price."""
    up_to: int | None = Field(default=None, gt=0)
    longer: _Rates | None = None


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    date: date
    source: str
    models: dict[str, _Model]


def _prices() -> Mapping[str, Price]:
    own = user_file()
    return {**_read(BUILT_IN), **(_read(own) if own else {})}


@cache
def _read(path: Path) -> Mapping[str, Price]:
    """The prices in a file, by the name of the model. Raises `UserError` with the place of what is wrong."""
    try:
        table = _File.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise UserError(f"the prices in {path} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"the prices in {path} are no TOML: {error}") from error
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise UserError(f"the prices in {path} are wrong at {place}: {first['msg']}") from error
    prices: dict[str, Price] = {}
    for name, model in table.models.items():
        if (model.up_to is None) != (model.longer is None):
            raise UserError(f"the prices in {path} are wrong at models.{name}: up_to and longer come together")
        for each in (name, *model.same):
            if each in prices:
                raise UserError(f"the prices in {path} are wrong at models.{name}: {each} has two prices")
            longer = model.longer.rates() if model.longer else None
            prices[each] = Price(each, model.rates(), model.up_to, longer, table.date, table.source)
    return prices
