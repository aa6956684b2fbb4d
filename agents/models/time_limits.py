"""What the SDKs' own retries do not know: the run's time, which holds for all attempts together, and how long a
streamed answer may go on. The SDKs bound each silence alone, and a server may send signs of life for ever.
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

from agents.models.base import SHORTEST_S, Request
from tools.errors import ProviderError

if TYPE_CHECKING:
    import httpx2

CONNECT_S = 10.0
"""To be connected takes less than an answer, or there is no server."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 8.0
"""The SDKs' own pauses double from the first to the longest."""
DEADLINE: ContextVar[float] = ContextVar("deadline", default=math.inf)
"""When the time of the exchange that is going on ends, monotonic seconds."""


@contextmanager
def deadline(request: Request) -> Iterator[None]:
    """Holds every attempt that an SDK makes in the block to the time that the run has left for `request`."""
    token = DEADLINE.set(math.inf if request.ends is None else request.ends)
    try:
        yield
    finally:
        DEADLINE.reset(token)


def hooks(timeout_s: float) -> dict[str, list[Callable[..., None]]]:
    """Event hooks for the HTTP client of an SDK: an attempt ends at the deadline, and a server that asks for a longer
    pause than `timeout_s`, or than there is time for, is not asked again."""

    def cut_timeouts(request: httpx2.Request) -> None:
        left_s = max(DEADLINE.get() - time.monotonic(), SHORTEST_S)
        # The SDKs send all four of them, from `silence`.
        timeouts: dict[str, float] = request.extensions["timeout"]
        request.extensions["timeout"] = {name: min(left_s, timeout) for name, timeout in timeouts.items()}

    def refuse_long_pause(response: httpx2.Response) -> None:
        pause_s = _pause_asked_s(response.headers.get("retry-after", ""))
        if pause_s > max(timeout_s, LONGEST_PAUSE_S) or time.monotonic() + pause_s >= DEADLINE.get():
            response.headers["x-should-retry"] = "false"

    return {"request": [cut_timeouts], "response": [refuse_long_pause]}


def retries(request: Request, most: int) -> int:
    """As many of `most` retries as the run has time for, by the pauses before them."""
    pauses = (min(FIRST_PAUSE_S * 2.0**number, LONGEST_PAUSE_S) for number in range(most))
    return sum(total_s < request.left_s for total_s in itertools.accumulate(pauses))


def silence(timeout_s: float) -> httpx2.Timeout:
    """The longest that an attempt bears."""
    import httpx2  # What both SDKs are built on, so always there with them.

    return httpx2.Timeout(timeout_s, connect=min(CONNECT_S, timeout_s))


def until(response: Any, end: float) -> None:
    """Makes readers of `response`, an HTTP response that is streamed, get a TimeoutError from `end` (monotonic
    seconds) on.

    The time is looked at whenever bytes come in, those included that an SDK keeps to itself (comments and pings);
    between them the SDK's own time-out counts.
    """
    pieces = response.iter_bytes

    def timed(*arguments: Any, **named: Any) -> Iterator[bytes]:
        for piece in pieces(*arguments, **named):
            if time.monotonic() > end:
                raise TimeoutError
            yield piece

    response.iter_bytes = timed


def time_is_up(request: Request) -> ProviderError:
    """The run's time ended before an answer came."""
    return ProviderError(f"models.{request.role}: no answer before the run's time was up")


def _pause_asked_s(header: str) -> float:
    """Seconds of a `retry-after` header, which may be a date; 0 where it cannot be read."""
    with suppress(ValueError):
        return float(header)
    with suppress(ValueError, OverflowError, OSError):
        return parsedate_to_datetime(header).timestamp() - time.time()
    return 0.0
