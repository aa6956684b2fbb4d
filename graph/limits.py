"""The caps on time: whose jobs each counts, and what it says when it is reached.

Three roles send jobs. The coder's are those by which it tries a draft before anything is judged: its tools, and the check after each round
of fixes. The gatekeeper's are the judge's: of candidates, ablations and confirmations, and of roofs again before a time is called
impossible. The profiler-analyst's are profiles, v0's included, the disassembly in which signatures are looked for, and roofs again before a
run ends for a kernel's nearness to one that was measured beside others; without time for these it goes on. Planner and knowledge-retriever
send none.

What there is no run or no report without is nobody's: the environment, the roofs at the start, v0's build, check and A/A, and the final
benchmark. It counts against the run's own cap alone, and is never refused or cut.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

from agents.models.ledger import Cap, Caps, seconds

Sender = Literal["coder", "gatekeeper", "profiler_analyst"]
SENDERS: tuple[Sender, ...] = get_args(Sender)
NOBODY = ""


class Sent(NamedTuple):
    """Whose account a job is on."""

    device: str
    """Kind of device."""
    role: str = NOBODY
    iteration: int = 0


@dataclass(frozen=True)
class Limit:
    """One cap on time, as it binds a job or an exchange."""

    key: str
    """In the config."""
    kind: Literal["device_s", "wall_s"]
    cap: float
    role: str | None = None
    """Whose jobs count; None: all."""
    iteration: int | None = None
    """Of which jobs of roles count, or since whose begin the clock does; None: all, and since the run's begin."""
    aside: float = 0.0
    """Seconds of it that are kept for the final benchmark."""

    def counts(self, sent: Sent) -> bool:
        """Whether a job on its device is under it."""
        if self.iteration is not None:
            return sent.role != NOBODY and sent.iteration == self.iteration
        return self.role in (None, sent.role)

    def sentence(self, spent: float) -> str:
        """That it is reached."""
        where = f" in iteration {self.iteration}" if self.iteration is not None else ""
        kept = f", and {seconds(self.aside)} are set aside for the final benchmark" if self.aside else ""
        return f"{self.key}: {seconds(spent)} of {seconds(self.cap)} are spent{where}{kept}"


def of_job(caps: Caps, role: Sender, iteration: int, aside: float) -> tuple[Limit, ...]:
    """Those that a job of a role is under."""
    return (*_of_run(caps, aside), *_of_iteration(caps, iteration), *_of_role(caps, role))


def of_exchange(caps: Caps, iteration: int) -> tuple[Limit, ...]:
    """Those on wall time that an exchange is under; its role's own is the ledger's."""
    return tuple(limit for limit in (*_of_run(caps, 0.0), *_of_iteration(caps, iteration)) if limit.kind == "wall_s")


def lasting(caps: Caps, aside: float) -> tuple[Limit, ...]:
    """Those that stay reached: of the whole run, and of roles without whose jobs no other iteration could come to its end."""
    return (*_of_run(caps, aside), *(limit for role in SENDERS for limit in _of_role(caps, role)))


def _of_run(caps: Caps, aside: float) -> Iterator[Limit]:
    if caps.device_s is not None:
        yield Limit("budget.device_s", "device_s", caps.device_s, aside=aside)
    if caps.wall_s is not None:
        yield Limit("budget.wall_s", "wall_s", caps.wall_s)


def _of_iteration(caps: Caps, iteration: int) -> Iterator[Limit]:
    own = caps.per_iteration
    if own.device_s is not None:
        yield Limit("budget.per_iteration.device_s", "device_s", own.device_s, iteration=iteration)
    # Most of v0's time is measuring that nobody may cut: a cap for iterations would end the run before the first.
    if own.wall_s is not None and iteration > 0:
        yield Limit("budget.per_iteration.wall_s", "wall_s", own.wall_s, iteration=iteration)


def _of_role(caps: Caps, role: Sender) -> Iterator[Limit]:
    own = caps.per_role.get(role, Cap())
    if own.device_s is not None:
        yield Limit(f"budget.per_role.{role}.device_s", "device_s", own.device_s, role=role)
