"""Time limits that the SDKs' own retries lack: the run's time, which covers all attempts together, and the duration of
a streamed answer. The SDKs only bound each silence, and a server may send keep-alive bytes for ever.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from agents.models.base import MIN_TIMEOUT_S, Request
from tools.errors import ProviderError

if TYPE_CHECKING:
    import httpx2

CONNECT_TIMEOUT_S = 10.0
"""A connection takes less time than an answer, or there is no server."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 8.0
"""The SDKs' own pauses between retries double from the first to the longest."""
EXCHANGE_DEADLINE_S: ContextVar[float] = ContextVar("deadline", default=math.inf)
"""End of the current exchange's time, in monotonic seconds."""


@contextmanager
def hold_to_deadline(request: Request) -> Iterator[None]:
    """Limit every attempt that an SDK makes in the block to the run's remaining time for `request`."""
    token = EXCHANGE_DEADLINE_S.set(math.inf if request.ends is None else request.ends)
    try:
        yield
    finally:
        EXCHANGE_DEADLINE_S.reset(token)


def http_event_hooks(timeout_s: float) -> dict[str, list[Callable[..., None]]]:
    """Return event hooks for an SDK's HTTP client: an attempt ends at the deadline, and there is no retry when a server
    asks for a longer pause than `timeout_s` or than the remaining time."""

    def cut_timeouts(request: httpx2.Request) -> None:
        left_s = max(EXCHANGE_DEADLINE_S.get() - time.monotonic(), MIN_TIMEOUT_S)
        # The SDKs send all four time-outs, from `silence_timeout`.
        timeouts: dict[str, float] = request.extensions["timeout"]
        request.extensions["timeout"] = {name: min(left_s, timeout) for name, timeout in timeouts.items()}

    def refuse_long_pause(response: httpx2.Response) -> None:
        pause_s = _retry_after_s(response.headers.get("retry-after", ""))
        if pause_s > max(timeout_s, LONGEST_PAUSE_S) or time.monotonic() + pause_s >= EXCHANGE_DEADLINE_S.get():
            response.headers["x-should-retry"] = "false"

    return {"request": [cut_timeouts], "response": [refuse_long_pause]}


def affordable_retries(request: Request, most: int) -> int:
    """Return how many of `most` retries fit into the run's remaining time, by the pauses before them."""
    pauses = (min(FIRST_PAUSE_S * 2.0**number, LONGEST_PAUSE_S) for number in range(most))
    return sum(total_s < request.remaining_s for total_s in itertools.accumulate(pauses))


def silence_timeout(timeout_s: float) -> httpx2.Timeout:
    """Return the HTTP time-outs of one attempt: the longest silence, and a shorter one for the connection."""
    import httpx2  # Both SDKs depend on it.

    return httpx2.Timeout(timeout_s, connect=min(CONNECT_TIMEOUT_S, timeout_s))


def limit_stream(response: Any, end: float) -> None:
    """Make readers of a streamed HTTP response get a TimeoutError after `end` (monotonic seconds).

    The time is checked whenever bytes arrive, including those that an SDK does not pass on (comments and pings);
    between them the SDK's own time-out applies.
    """
    pieces = response.iter_bytes

    def timed(*arguments: Any, **named: Any) -> Iterator[bytes]:
        for piece in pieces(*arguments, **named):
            if time.monotonic() > end:
                raise TimeoutError
            yield piece

    response.iter_bytes = timed


def time_is_up_error(request: Request) -> ProviderError:
    """Return the error for a run whose time ended before an answer came."""
    return ProviderError(f"models.{request.role}: no answer came before the run's time ended")


def _retry_after_s(header: str) -> float:
    """Return the seconds of a `retry-after` header, which may be a date; 0 if it cannot be read."""
    with suppress(ValueError):
        return float(header)
    with suppress(ValueError, OverflowError, OSError):
        return parsedate_to_datetime(header).timestamp() - time.time()
    return 0.0
