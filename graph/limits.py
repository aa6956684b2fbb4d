"""The caps on time: whose jobs each counts, and what it says when it is reached.

Three roles send jobs. The coder's are those by which it tries a draft before anything is judged: its tools, the check
after each round of fixes, and what torch.compile makes of the reference. The gatekeeper's are the judge's: of
candidates, ablations and confirmations, and of roofs again before a time is called impossible. The profiler-analyst's
are profiles, v0's included, the disassembly in which signatures are looked for, and roofs again before a run ends for a
kernel's nearness to one that was measured beside others; without time for these it goes on. Planner and
knowledge-retriever send none.

What there is no run or no report without is nobody's: the environment, the roofs at the start, v0's build, check and
A/A, and the final benchmark. It counts against the run's own cap alone, and is never refused or cut.
"""

from __future__ import annotations

from collections.abc import Iterable
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
    cap: float
    role: str | None = None
    """Whose jobs count; None: all."""
    iteration: int | None = None
    """Of which jobs of roles count, or since whose begin the clock does; None: all, and since the run's begin."""
    aside: float = 0.0
    """Seconds of it that are kept for the final benchmark."""

    @property
    def of_wall(self) -> bool:
        """On wall time; else on the device's."""
        return self.key.endswith(".wall_s")

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


def binding(
    caps: Caps, roles: Iterable[Sender] = (), iteration: int | None = None, aside: float = 0.0
) -> tuple[Limit, ...]:
    """Those of the run, of an iteration and of `roles`; an exchange's own role is the ledger's.

    Without an iteration those that stay reached once they are.
    """
    own = caps.per_iteration
    found: list[tuple[str, float | None, Sender | None, int | None]] = [
        ("budget.device_s", caps.device_s, None, None),
        ("budget.wall_s", caps.wall_s, None, None),
    ]
    if iteration is not None:
        found.append(("budget.per_iteration.device_s", own.device_s, None, iteration))
        # Most of v0's time is measuring that nobody may cut: a cap for iterations would end the run before the first.
        found.append(("budget.per_iteration.wall_s", own.wall_s if iteration else None, None, iteration))
    found += [
        (f"budget.per_role.{role}.device_s", caps.per_role.get(role, Cap()).device_s, role, None) for role in roles
    ]
    kept = {"budget.device_s": aside}
    return tuple(Limit(key, cap, role, of, kept.get(key, 0.0)) for key, cap, role, of in found if cap is not None)
