"""What the models of a run take: reserved before each exchange, settled after it (F7)."""

from __future__ import annotations

from agents.artifacts import RoleName
from agents.models.base import Usage


class Ledger:
    """Counts what a run's exchanges took."""

    def __init__(self) -> None:
        self.settled: list[tuple[RoleName, Usage]] = []

    def reserve(self, role: RoleName, bound: Usage) -> None:
        """Set aside what an exchange takes at most; BudgetError when a cap would be passed."""

    def settle(self, role: RoleName, usage: Usage) -> None:
        """Put what it took in the place of what was reserved."""
        self.settled.append((role, usage))
