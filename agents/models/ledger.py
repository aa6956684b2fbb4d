"""What the models of a run take: reserved before each exchange, settled by its record (F7).

The records of exchanges are the account. What is set aside is on record before a model is asked, and its reply before
that is given back: a crash neither loses what was paid nor counts it twice, a run that is taken up again knows what it
has spent without a book of its own, and an exchange that was killed, of which nobody knows what it took, stays counted
at what was set aside for it.
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
from agents.models.prices import Price, cost, find
from tools.artifacts import Artifact, Record
from tools.errors import BudgetError, SettingsError
from tools.store.records import Records, record_key

BEGUN = "begun_exchange"


class Caps(Artifact):
    """What models may take in a whole run; None: no cap. Strict: a figure is not read out of text, nor `true` as 1."""

    model_config = ConfigDict(strict=True)

    usd: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Dollars, by the prices in `agents/models/prices.yaml` and under `prices:`."""
    tokens: int | None = Field(default=None, gt=0)
    """Read and written, those read from a cache included."""


class Left(NamedTuple):
    """What the cap on wall time leaves for an exchange."""

    seconds: float = math.inf
    reached: str = ""
    """One sentence for when it is over."""


class Spent(Artifact):
    """The sum of some exchanges."""

    exchanges: int
    input: int
    """Tokens at the full price."""
    cached: int
    """Tokens read from a cache."""
    written: int
    """Tokens written to a cache."""
    output: int
    usd: float
    """Of the exchanges whose cost is known."""
    unknown: tuple[str, ...]
    """Why the cost of the others is not, one sentence each; empty: all is known."""
    unseen: int = 0
    """Exchanges of which nobody says how many tokens they took: the counts are those of the others."""
    seconds: float
    """That the providers took."""
    cut_off: int = 0
    """Exchanges that were killed; they are counted at what was set aside for them."""

    @property
    def tokens(self) -> int:
        """All of them."""
        return self.input + self.cached + self.written + self.output

    @property
    def paid(self) -> bool:
        """Whether a language model took part that is not free."""
        return bool(self.usd or self.tokens or self.unknown)

    @property
    def dollars(self) -> str:
        """As far as they are known; never 0 for what is unknown."""
        return "N/A" if self.unknown and not self.usd else f"{dollars(self.usd)}{' and more' if self.unknown else ''}"

    def cost(self) -> str:
        """Dollars, and why they are not known."""
        return "; ".join(([self.dollars] if self.usd or not self.unknown else []) + list(self.unknown))

    def count(self, tokens: int) -> str:
        """One of the counts, or N/A where nobody counted; never 0 for what is unknown."""
        if self.unseen and not self.tokens:
            return "N/A"
        return f"{tokens:,}{' and more' if self.unseen else ''}"

    def __str__(self) -> str:
        if self.unseen and not self.tokens:
            return f"tokens unknown, {self.cost()}"
        return f"{self.tokens:,} tokens{' and more' if self.unseen else ''}, {self.cost()}"

    @property
    def known(self) -> str:
        """The figures alone, empty where there is none: why something is not known is said once, and not on each
        line."""
        return "" if self.unseen and not self.tokens else str(self).partition("cost unknown")[0].rstrip("; ,")

    def told(self) -> dict[str, str]:
        """As details of an event: the line, and its figures (`spent_usd` is a lower bound where the cost of
        something is unknown)."""
        unknown = {"spent_unknown": self.unknown[0]} if self.unknown else {}
        return {"spent": self.known, "spent_tokens": str(self.tokens), "spent_usd": f"{self.usd:.6f}", **unknown}


@dataclass(frozen=True, eq=False)
class Reservation:
    """A reservation; two equal ones are two."""

    role: RoleName
    iteration: int
    tokens: int
    usd: float
    record: str
    """Where it is written down."""


class Ledger:
    """Keeps a run's exchanges within their caps. Safe for threads."""

    def __init__(self, records: Records, caps: Caps | None = None, prices: Mapping[str, Price] | None = None) -> None:
        """Without `prices` the cost of whatever is paid for is unknown."""
        self.records = records
        self.caps = caps or Caps()
        self.prices = dict(prices or {})
        self.iteration = 0
        """That the exchanges are for; the graph sets it."""
        self._held: frozenset[Reservation] = frozenset()
        self._lock = threading.Lock()

    def spent(self, role: RoleName | None = None, iteration: int | None = None) -> Spent:
        """By a role, in an iteration, or altogether."""
        return total(
            record
            for record in exchanges(self.records, frozenset(held.record for held in self._held))
            if (role is None or record.payload["role"] == role)
            and (iteration is None or record.payload.get("iteration", 0) == iteration)
        )

    def cost(self, model: Model, usage: Usage) -> float | None:
        """Dollars of `usage` by `model`; None: not known."""
        if model.bills == "nothing":
            return 0.0
        # A reply may name the model otherwise than it was ordered.
        price = find(self.prices, usage.model) or find(self.prices, model.name)
        if not tokens(usage):
            return None if model.bills == "unseen" and not (price and price.free) else 0.0
        return cost(price, usage) if price else None

    @contextmanager
    def reserved(self, role: RoleName, model: Model, request: Request) -> Iterator[str]:
        """Hold what the exchange takes at most while it goes on; BudgetError when a cap would be passed.

        Yields the id that the record of the exchange, which is made inside, must name as `begun`; empty where nothing
        is billed.
        """
        if model.bills == "nothing":
            yield ""
            return
        bound = model.bound(request)
        usd = self.cost(model, bound)
        with self._lock:
            self._refuse(Reservation(role, self.iteration, tokens(bound), usd or 0.0, ""))
            held = Reservation(role, self.iteration, tokens(bound), usd or 0.0, self._begun(role, model, bound, usd))
            self._held |= {held}
        try:
            yield held.record
        finally:
            with self._lock:
                self._held -= {held}

    def _begun(self, role: RoleName, model: Model, bound: Usage, usd: float | None) -> str:
        asked = record_key(BEGUN, role=role, before=sum(record.kind == BEGUN for record in self.records))
        payload = {
            "role": role,
            "provider": model.provider,
            "iteration": self.iteration,
            "usage": bound.model_dump(),
            "usd": usd,
        }
        return self.records.add(Record(kind=BEGUN, key=asked, payload=payload)).id

    def check(self, role: RoleName, model: Model) -> None:
        """SettingsError for a cap that cannot be kept, because nobody knows what the role's model takes or costs."""
        caps = [f"budget.{kind}" for kind in ("usd", "tokens") if getattr(self.caps, kind) is not None]
        if not caps or model.bills == "nothing":
            return
        if model.bills == "unseen":
            raise SettingsError(
                f"{caps[0]}: cannot be kept, for nobody sees what models.{role} takes; cap the run by wall_s or "
                f"search.iterations"
            )
        if self.caps.usd is not None and find(self.prices, model.name) is None:
            named = (
                f"model {model.name!r} of models.{role} has no price" if model.name else f"models.{role} names no model"
            )
            raise SettingsError(
                f"budget.usd: cannot be kept, for {named}; add it under prices: (USD per million tokens), or take "
                f"the cap away"
            )

    def _refuse(self, wanted: Reservation) -> None:
        cap = self.caps
        if cap.usd is None and cap.tokens is None:
            return
        past = self.spent()
        if cap.tokens is not None:
            taken = past.tokens + sum(held.tokens for held in self._held)
            if taken >= cap.tokens or taken + wanted.tokens > cap.tokens:
                spent = f"{taken:,} of {cap.tokens:,} tokens are spent"
                raise BudgetError(_sentence("budget.tokens", wanted.role, spent, f"{wanted.tokens:,}"))
        if cap.usd is not None:
            if past.unknown:
                raise BudgetError(f"budget.usd: cannot be kept any more, {past.unknown[0]}")
            taken_usd = math.fsum([past.usd, *(held.usd for held in self._held)])
            if taken_usd >= cap.usd or taken_usd + wanted.usd > cap.usd:
                spent = f"{dollars(taken_usd)} of {dollars(cap.usd)} are spent"
                raise BudgetError(_sentence("budget.usd", wanted.role, spent, dollars(wanted.usd)))


def _sentence(name: str, role: RoleName, spent: str, wanted: str) -> str:
    return f"{name}: {spent}, and the next exchange of the {role} may take {wanted}"


def exchanges(records: Iterable[Record], going_on: frozenset[str] = frozenset()) -> tuple[Record, ...]:
    """Those of exchanges with models: ended, failed, and begun without an end; `going_on` names beginnings that are
    no exchange yet."""
    found = tuple(record for record in records if record.kind in ("exchange", "failed_exchange", BEGUN))
    ended = {record.payload.get("begun") for record in found} | going_on
    return tuple(record for record in found if record.kind != BEGUN or record.id not in ended)


def total(found: Iterable[Record]) -> Spent:
    """The sum of exchanges."""
    records = tuple(found)
    usages = [Usage.model_validate(record.payload["usage"]) for record in records]
    costs = [record.payload["usd"] for record in records]
    unknown = [
        _unknown(record, usage) for record, usage, usd in zip(records, usages, costs, strict=True) if usd is None
    ]
    return Spent(
        exchanges=len(records),
        input=sum(usage.input for usage in usages),
        cached=sum(usage.cache_read for usage in usages),
        written=sum(usage.cache_write + usage.cache_write_1h for usage in usages),
        output=sum(usage.output for usage in usages),
        usd=math.fsum(usd for usd in costs if usd is not None),
        unseen=sum(usd is None and not tokens(usage) for usage, usd in zip(usages, costs, strict=True)),
        unknown=tuple(sorted(set(unknown))),
        seconds=math.fsum(usage.seconds for usage in usages),
        cut_off=sum(record.kind == BEGUN for record in records),
    )


def _unknown(record: Record, usage: Usage) -> str:
    """Why the cost of an exchange is not known."""
    return unpriced(usage.model) if tokens(usage) else unsaid(record.payload["provider"])


def unpriced(model: str) -> str:
    """The one sentence for a model without a price."""
    return f"cost unknown: no price for model {model or 'without a name'}; add it under prices:"


def unsaid(provider: str) -> str:
    """The one sentence for a provider that does not count."""
    return f"cost unknown: {provider} does not say what it takes"


def tokens(usage: Usage) -> int:
    """All that were read and written."""
    return usage.input + usage.cache_read + usage.cache_write + usage.cache_write_1h + usage.output


def seconds(spent: float) -> str:
    """Whole seconds, and what is below them, as far as it matters."""
    return f"{spent:.0f} s" if spent >= 10 else f"{spent:.2g} s"


def dollars(usd: float) -> str:
    """Cents and what is below them, as far as it matters."""
    return f"${usd:,.2f}" if usd >= 10 else f"${usd:.4f}"
