"""What tokens cost: the dated table `prices.yaml`, and what a config adds to it under `prices:`."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from pathlib import Path

from pydantic import ConfigDict, Field

from agents.models.base import Usage
from tools.artifacts import Artifact

MILLION = 1_000_000
DATED = re.compile(r"[-@]\d{8}$")
"""The day of release at the end of a model's name, which providers add and leave out as they like."""


class LongPrompt(Artifact):
    """Dearer long prompts: then the whole exchange costs more, not only the tokens beyond."""

    model_config = ConfigDict(strict=True)

    above: int = Field(gt=0)
    """Tokens of the prompt, cached ones included."""
    times: float = Field(ge=1, allow_inf_nan=False)
    """Of all prices."""


class Price(Artifact):
    """USD per million tokens."""

    model_config = ConfigDict(strict=True)

    input: float = Field(ge=0, allow_inf_nan=False)
    """Read at the full price."""
    output: float = Field(ge=0, allow_inf_nan=False)
    """Written, thinking included."""
    cache_read: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """Read from a cache; None: as `input`."""
    cache_write: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """Kept for five minutes; None: as `input`."""
    cache_write_1h: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """None: as `cache_write`."""
    long_prompt: LongPrompt | None = None
    """What long prompts cost more; None: nothing."""
    source: str = ""
    """Who says so."""
    date: datetime.date | None = None
    """Day on which it was looked up."""

    @property
    def free(self) -> bool:
        """Whether nothing of it costs anything, however much is taken."""
        return not any((self.input, self.output, self.cache_read, self.cache_write, self.cache_write_1h))


def published() -> dict[str, Price]:
    """The table that comes with Kernelwright: model -> price."""
    import yaml

    table = yaml.safe_load((Path(__file__).parent / "prices.yaml").read_text(encoding="utf-8"))
    return {str(model): Price.model_validate(price) for model, price in table.items()}


def find(prices: Mapping[str, Price], model: str) -> Price | None:
    """The price of a model, under its name or that without the day of release; None: it has none."""
    return prices.get(model) or prices.get(DATED.sub("", model))


def cost(price: Price, usage: Usage) -> float:
    """Dollars."""
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
