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


class Cap(Artifact):
    """What may be spent; None: no cap. Figures are not read out of text, nor `true` as 1."""

    model_config = ConfigDict(strict=True)

    usd: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Dollars, by the prices in `agents/models/prices.yaml` and under `prices:`."""
    tokens: int | None = Field(default=None, gt=0)
    """Read and written, those read from a cache included."""
    device_s: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Seconds of jobs on the device (on a CPU: of all jobs); docs/costs-and-budgets.md says whose they are."""
    wall_s: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Seconds: of a role those of its exchanges, of an iteration those since it was begun, without the pauses of the
    run."""


class Caps(Cap):
    """Those of a whole run."""

    per_iteration: Cap = Cap()
    """For each iteration; v0 is one of its own. Reaching it ends the run, as any other cap does."""
    per_role: dict[RoleName, Cap] = Field(default_factory=dict)
    """For each role that is named here, over the whole run."""


class Left(NamedTuple):
    """What caps on wall time leave for an exchange."""

    seconds: float = math.inf
    reached: str = ""
    """What is said when it is over: the cap that leaves least, in one sentence."""


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

    def left(self, role: RoleName) -> Left:
        """Of the wall time that the role's exchanges may take in all; one that was killed counts for none: nobody
        knows what it took."""
        cap = self.caps.per_role.get(role, Cap()).wall_s
        if cap is None:
            return Left()
        return Left(
            cap - self.spent(role).seconds, f"budget.per_role.{role}.wall_s: {seconds(cap)} of {seconds(cap)} are spent"
        )

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
        """SettingsError when a cap holds for the role that cannot be kept: what its model takes, or what that costs,
        is not known."""
        if model.bills == "nothing":
            return
        caps = [
            (f"{name}.{kind}", kind)
            for name, cap in self._caps(role)
            for kind in ("usd", "tokens")
            if getattr(cap, kind) is not None
        ]
        if caps and model.bills == "unseen":
            raise SettingsError(
                f"{caps[0][0]}: cannot be kept, for nobody sees what models.{role} takes; cap the other roles under "
                f"per_role, and this one "
                "by wall_s or search.iterations"
            )
        cap = next((name for name, kind in caps if kind == "usd"), None)
        if cap is None:
            return
        if find(self.prices, model.name) is None:
            named = (
                f"model {model.name!r} of models.{role} has no price" if model.name else f"models.{role} names no model"
            )
            raise SettingsError(
                f"{cap}: cannot be kept, for {named}; add it under prices: (USD per million tokens), or take the "
                f"cap away"
            )

    def _caps(self, role: RoleName) -> tuple[tuple[str, Cap], ...]:
        """Those that an exchange of the role is under, by their keys in the config."""
        own = self.caps.per_role.get(role, Cap())
        return (
            ("budget", self.caps),
            ("budget.per_iteration", self.caps.per_iteration),
            (f"budget.per_role.{role}", own),
        )

    def _refuse(self, wanted: Reservation) -> None:
        for name, cap in self._caps(wanted.role):
            if cap.usd is None and cap.tokens is None:
                continue
            role = wanted.role if name.startswith("budget.per_role") else None
            iteration = wanted.iteration if name == "budget.per_iteration" else None
            past = self.spent(role, iteration)
            others = [h for h in self._held if role in (None, h.role) and iteration in (None, h.iteration)]
            where = f" in iteration {iteration}" if iteration is not None else ""
            if cap.tokens is not None:
                taken = past.tokens + sum(held.tokens for held in others)
                if taken >= cap.tokens or taken + wanted.tokens > cap.tokens:
                    said = f"{taken:,} of {cap.tokens:,} tokens are spent{where}", f"{wanted.tokens:,}"
                    raise BudgetError(_sentence(f"{name}.tokens", wanted.role, *said))
            if cap.usd is not None:
                if past.unknown:
                    raise BudgetError(f"{name}.usd: cannot be kept any more, {past.unknown[0]}")
                taken_usd = math.fsum([past.usd, *(held.usd for held in others)])
                if taken_usd >= cap.usd or taken_usd + wanted.usd > cap.usd:
                    said = f"{dollars(taken_usd)} of {dollars(cap.usd)} are spent{where}", dollars(wanted.usd)
                    raise BudgetError(_sentence(f"{name}.usd", wanted.role, *said))


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
    # Records of before there was a ledger are of the playbook, which is free.
    costs = [record.payload.get("usd", 0.0) for record in records]
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
