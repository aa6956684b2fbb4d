"""Accounts for what the models of a run take: a reservation before each exchange, settled by its record (F7).

The records of exchanges are the account. A reservation is recorded before a model is asked, and the reply is recorded
before the reservation ends. So a crash neither loses what was paid nor counts it twice, a resumed run knows its
spending without a further file, and an exchange that was killed counts at its reservation, because nobody knows what
it took.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

from pydantic import ConfigDict, Field

from agents.artifacts import RoleName
from agents.models.base import Model, Request, Usage
from agents.models.prices import Price, cost_usd, find_price
from tools.artifacts import Artifact, Record
from tools.errors import BudgetError, SettingsError
from tools.store.records import Records, record_key

BEGUN_EXCHANGE_KIND = "begun_exchange"


class ModelCaps(Artifact):
    """Limits on what models may take in a whole run; None: no cap. Strict: text and `true` are no numbers."""

    model_config = ConfigDict(strict=True)

    usd: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Dollars, by the prices in `agents/models/prices.yaml` and under `prices:`."""
    tokens: int | None = Field(default=None, gt=0)
    """Tokens read and written, including those read from a cache."""


class RemainingTime(NamedTuple):
    """The time that the cap on wall time leaves for an exchange."""

    seconds: float = math.inf
    exhausted_message: str = ""
    """The sentence for the error when the time is over."""


class Spending(Artifact):
    """The sum of what several exchanges took."""

    exchanges: int
    input: int
    """Tokens at the full price."""
    cached: int
    """Tokens read from a cache."""
    written: int
    """Tokens written to a cache."""
    output: int
    usd: float
    """Dollars of the exchanges whose cost is known."""
    unknown: tuple[str, ...]
    """Why the cost of the other exchanges is unknown, one sentence each; empty when every cost is known."""
    unseen: int = 0
    """Number of exchanges whose tokens are unknown; the token counts cover the others."""
    seconds: float
    """Seconds that the providers took."""
    cut_off: int = 0
    """Number of exchanges that were killed; each counts at its reservation."""

    @property
    def tokens(self) -> int:
        """Sum of all token counts."""
        return self.input + self.cached + self.written + self.output

    @property
    def is_paid(self) -> bool:
        """Whether a language model that is not free took part."""
        return bool(self.usd or self.tokens or self.unknown)

    @property
    def dollars_text(self) -> str:
        """The known dollars as text; N/A instead of 0 when nothing is known."""
        return (
            "N/A"
            if self.unknown and not self.usd
            else f"{format_dollars(self.usd)}{' and more' if self.unknown else ''}"
        )

    def cost_text(self) -> str:
        """Return the known dollars as text, followed by the reasons why others are unknown."""
        return "; ".join(([self.dollars_text] if self.usd or not self.unknown else []) + list(self.unknown))

    def count_text(self, tokens: int) -> str:
        """Return a token count of this sum as text; N/A instead of 0 when nobody counted."""
        if self.unseen and not self.tokens:
            return "N/A"
        return f"{tokens:,}{' and more' if self.unseen else ''}"

    def __str__(self) -> str:
        if self.unseen and not self.tokens:
            return f"tokens unknown, {self.cost_text()}"
        return f"{self.tokens:,} tokens{' and more' if self.unseen else ''}, {self.cost_text()}"

    @property
    def known_text(self) -> str:
        """The known figures as text, without the reasons for unknown costs; empty when nothing is known."""
        return "" if self.unseen and not self.tokens else str(self).partition("cost unknown")[0].rstrip("; ,")

    def event_details(self) -> dict[str, str]:
        """Return the sum as details of an event; `spent_usd` is a lower bound when some cost is unknown."""
        unknown = {"spent_unknown": self.unknown[0]} if self.unknown else {}
        return {"spent": self.known_text, "spent_tokens": str(self.tokens), "spent_usd": f"{self.usd:.6f}", **unknown}


@dataclass(frozen=True, eq=False)
class Reservation:
    """What is reserved for one exchange; two reservations with equal fields stay distinct."""

    role: RoleName
    iteration: int
    tokens: int
    usd: float
    record: str
    """Id of the record of the reservation."""


class Ledger:
    """Keeps a run's exchanges within its caps. Safe for threads."""

    def __init__(
        self, records: Records, caps: ModelCaps | None = None, prices: Mapping[str, Price] | None = None
    ) -> None:
        """Without `prices` the cost of every paid model is unknown."""
        self.records = records
        self.caps = caps or ModelCaps()
        self.prices = dict(prices or {})
        self.iteration = 0
        """Iteration that the exchanges belong to; the graph sets it."""
        self._reservations: frozenset[Reservation] = frozenset()
        self._lock = threading.Lock()

    def spending(self, role: RoleName | None = None, iteration: int | None = None) -> Spending:
        """Return what was spent, optionally by one role or in one iteration only."""
        return sum_exchanges(
            record
            for record in exchange_records(self.records, frozenset(held.record for held in self._reservations))
            if (role is None or record.payload["role"] == role)
            and (iteration is None or record.payload.get("iteration", 0) == iteration)
        )

    def cost_usd(self, model: Model, usage: Usage) -> float | None:
        """Return the dollars that `usage` of `model` costs; None when unknown."""
        if model.bills == "nothing":
            return 0.0
        # A reply may name the model differently from the config.
        price = find_price(self.prices, usage.model) or find_price(self.prices, model.name)
        if not total_tokens(usage):
            return None if model.bills == "unseen" and not (price and price.is_free) else 0.0
        return cost_usd(price, usage) if price else None

    @contextmanager
    def reserve(self, role: RoleName, model: Model, request: Request) -> Iterator[str]:
        """Reserve the most that the exchange can take while the block runs; BudgetError if a cap would be exceeded.

        Yields the id that the record of the exchange, which the block adds, must name as `begun`; empty for a model
        that bills nothing.
        """
        if model.bills == "nothing":
            yield ""
            return
        bound = model.usage_bound(request)
        usd = self.cost_usd(model, bound)
        with self._lock:
            self._check_caps(Reservation(role, self.iteration, total_tokens(bound), usd or 0.0, ""))
            reservation = Reservation(
                role, self.iteration, total_tokens(bound), usd or 0.0, self._record_beginning(role, model, bound, usd)
            )
            self._reservations |= {reservation}
        try:
            yield reservation.record
        finally:
            with self._lock:
                self._reservations -= {reservation}

    def _record_beginning(self, role: RoleName, model: Model, bound: Usage, usd: float | None) -> str:
        asked = record_key(
            BEGUN_EXCHANGE_KIND, role=role, before=sum(record.kind == BEGUN_EXCHANGE_KIND for record in self.records)
        )
        payload = {
            "role": role,
            "provider": model.provider,
            "iteration": self.iteration,
            "usage": bound.model_dump(),
            "usd": usd,
        }
        return self.records.add(Record(kind=BEGUN_EXCHANGE_KIND, key=asked, payload=payload)).id

    def check_caps_can_be_kept(self, role: RoleName, model: Model) -> None:
        """Raise SettingsError for a cap that cannot be kept because the usage or the price of the model is unknown."""
        caps = [f"budget.{kind}" for kind in ("usd", "tokens") if getattr(self.caps, kind) is not None]
        if not caps or model.bills == "nothing":
            return
        if model.bills == "unseen":
            raise SettingsError(
                f"{caps[0]}: cannot be kept, because the usage of models.{role} is unknown; cap the run by "
                f"budget.wall_s or search.iterations"
            )
        if self.caps.usd is not None and find_price(self.prices, model.name) is None:
            named = (
                f"model {model.name!r} of models.{role} has no price" if model.name else f"models.{role} names no model"
            )
            raise SettingsError(
                f"budget.usd: cannot be kept, because {named}; add it under prices: (USD per million tokens), or "
                f"remove the cap"
            )

    def _check_caps(self, wanted: Reservation) -> None:
        cap = self.caps
        if cap.usd is None and cap.tokens is None:
            return
        past = self.spending()
        if cap.tokens is not None:
            taken = past.tokens + sum(held.tokens for held in self._reservations)
            if taken >= cap.tokens or taken + wanted.tokens > cap.tokens:
                spent = f"{taken:,} of {cap.tokens:,} tokens are spent"
                raise BudgetError(_cap_message("budget.tokens", wanted.role, spent, f"{wanted.tokens:,}"))
        if cap.usd is not None:
            if past.unknown:
                raise BudgetError(f"budget.usd: cannot be kept any longer, {past.unknown[0]}")
            taken_usd = math.fsum([past.usd, *(held.usd for held in self._reservations)])
            if taken_usd >= cap.usd or taken_usd + wanted.usd > cap.usd:
                spent = f"{format_dollars(taken_usd)} of {format_dollars(cap.usd)} are spent"
                raise BudgetError(_cap_message("budget.usd", wanted.role, spent, format_dollars(wanted.usd)))


def _cap_message(name: str, role: RoleName, spent: str, wanted: str) -> str:
    return f"{name}: {spent}, and the next exchange of the {role} may take {wanted}"


def exchange_records(records: Iterable[Record], going_on: frozenset[str] = frozenset()) -> tuple[Record, ...]:
    """Return the records of exchanges with models: finished, failed, and begun without an end. `going_on`: ids of the
    beginnings of exchanges that still run, which are left out."""
    found = tuple(record for record in records if record.kind in ("exchange", "failed_exchange", BEGUN_EXCHANGE_KIND))
    ended = {record.payload.get("begun") for record in found} | going_on
    return tuple(record for record in found if record.kind != BEGUN_EXCHANGE_KIND or record.id not in ended)


def sum_exchanges(exchanges: Iterable[Record]) -> Spending:
    """Return the sum of what the given records of exchanges took."""
    records = tuple(exchanges)
    usages = [Usage.model_validate(record.payload["usage"]) for record in records]
    costs = [record.payload["usd"] for record in records]
    unknown = [
        _unknown_cost_reason(record, usage)
        for record, usage, usd in zip(records, usages, costs, strict=True)
        if usd is None
    ]
    return Spending(
        exchanges=len(records),
        input=sum(usage.input for usage in usages),
        cached=sum(usage.cache_read for usage in usages),
        written=sum(usage.cache_write + usage.cache_write_1h for usage in usages),
        output=sum(usage.output for usage in usages),
        usd=math.fsum(usd for usd in costs if usd is not None),
        unseen=sum(usd is None and not total_tokens(usage) for usage, usd in zip(usages, costs, strict=True)),
        unknown=tuple(sorted(set(unknown))),
        seconds=math.fsum(usage.seconds for usage in usages),
        cut_off=sum(record.kind == BEGUN_EXCHANGE_KIND for record in records),
    )


def _unknown_cost_reason(record: Record, usage: Usage) -> str:
    """Return why the cost of an exchange is unknown."""
    return unpriced_message(usage.model) if total_tokens(usage) else uncounted_message(record.payload["provider"])


def unpriced_message(model: str) -> str:
    """Return the sentence for a model without a price."""
    return f"cost unknown: no price for model {model or 'without a name'}; add it under prices:"


def uncounted_message(provider: str) -> str:
    """Return the sentence for a provider that does not report tokens."""
    return f"cost unknown: {provider} does not report its usage"


def total_tokens(usage: Usage) -> int:
    """Return the number of all tokens read and written."""
    return usage.input + usage.cache_read + usage.cache_write + usage.cache_write_1h + usage.output


def format_seconds(spent: float) -> str:
    """Return seconds as text: whole from 10 s on, else two significant digits."""
    return f"{spent:.0f} s" if spent >= 10 else f"{spent:.2g} s"


def format_dollars(usd: float) -> str:
    """Return dollars as text: cents from $10 on, else four decimals."""
    return f"${usd:,.2f}" if usd >= 10 else f"${usd:.4f}"
