"""Prices of tokens: the dated table `prices.yaml`, to which a config adds under `prices:`."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from pathlib import Path

from pydantic import ConfigDict, Field

from agents.models.base import Usage
from tools.artifacts import Artifact

MILLION = 1_000_000
RELEASE_DATE_SUFFIX = re.compile(r"[-@]\d{8}$")
"""Release date at the end of a model's name, which providers add inconsistently."""


class LongPromptSurcharge(Artifact):
    """Surcharge for long prompts. It applies to the whole exchange, not only to the tokens beyond the limit."""

    model_config = ConfigDict(strict=True)

    above: int = Field(gt=0)
    """Tokens of the prompt, including cached ones, above which the surcharge applies."""
    times: float = Field(ge=1, allow_inf_nan=False)
    """Factor on all prices."""


class Price(Artifact):
    """Price of a model in USD per million tokens."""

    model_config = ConfigDict(strict=True)

    input: float = Field(ge=0, allow_inf_nan=False)
    """Tokens read at the full price."""
    output: float = Field(ge=0, allow_inf_nan=False)
    """Tokens written, including thinking."""
    cache_read: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """Tokens read from a cache; None: the price of `input`."""
    cache_write: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """Tokens written to a cache for five minutes; None: the price of `input`."""
    cache_write_1h: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """Tokens written to a cache for one hour; None: the price of `cache_write`."""
    long_prompt: LongPromptSurcharge | None = None
    """Surcharge for long prompts; None: there is none."""
    source: str = ""
    """Source of the price."""
    date: datetime.date | None = None
    """Day on which the price was looked up."""

    @property
    def is_free(self) -> bool:
        """Whether every price is zero."""
        return not any((self.input, self.output, self.cache_read, self.cache_write, self.cache_write_1h))


def published_prices() -> dict[str, Price]:
    """Return the price table that comes with Kernelwright: model -> price."""
    import yaml

    table = yaml.safe_load((Path(__file__).parent / "prices.yaml").read_text(encoding="utf-8"))
    return {str(model): Price.model_validate(price) for model, price in table.items()}


def find_price(prices: Mapping[str, Price], model: str) -> Price | None:
    """Return the price of a model by its name, with or without the release date; None if it has no price."""
    return prices.get(model) or prices.get(RELEASE_DATE_SUFFIX.sub("", model))


def cost_usd(price: Price, usage: Usage) -> float:
    """Return the dollars that `usage` costs at `price`."""
    write = price.input if price.cache_write is None else price.cache_write
    rates = (
        (usage.input, price.input),
        (usage.cache_read, price.input if price.cache_read is None else price.cache_read),
        (usage.cache_write, write),
        (usage.cache_write_1h, write if price.cache_write_1h is None else price.cache_write_1h),
        (usage.output, price.output),
    )
    long = price.long_prompt
    prompt = usage.input + usage.cache_read + usage.cache_write + usage.cache_write_1h
    times = long.times if long and prompt > long.above else 1.0
    return times * sum(count * rate for count, rate in rates) / MILLION
