"""How long an answer may go on, and how long is waited before it is asked for again.

The SDKs bound each silence alone, and a server may send signs of life for ever. Nor do they know of the run's time, which holds for all
attempts together, the pauses between them included.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from email.utils import parsedate_to_datetime
from typing import Any

from agents.models.base import Request
from tools.errors import ProviderError

FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 8.0
"""Of pauses that no server asked for; both are the SDKs' own figures."""


def until(response: Any, end: float) -> None:
    """From `end` (monotonic seconds) on whoever reads `response`, an HTTP response that is streamed, gets a TimeoutError.

    It is looked at whenever bytes come in, those included that an SDK keeps to itself (comments and pings); between them the SDK's own
    time-out counts.
    """
    pieces = response.iter_bytes

    def timed(*arguments: Any, **named: Any) -> Iterator[bytes]:
        for piece in pieces(*arguments, **named):
            if time.monotonic() > end:
                raise TimeoutError
            yield piece

    response.iter_bytes = timed


def pause_s(attempts: int, headers: Mapping[str, str]) -> float:
    """Seconds to wait after so many attempts that failed: what the server asks for in `headers`, else a pause that doubles each time."""
    asked = _asked_s(headers)
    return asked if 0 < asked < math.inf else min(FIRST_PAUSE_S * 2.0 ** (attempts - 1), LONGEST_PAUSE_S)


def longest_pause_s(timeout_s: float) -> float:
    """The longest pause that is made: a server that asks for a longer one is without room, and an unattended run would stand still."""
    return max(timeout_s, LONGEST_PAUSE_S)


def _asked_s(headers: Mapping[str, str]) -> float:
    """Seconds of `retry-after-ms` or `retry-after`, which may be a date; 0 where neither can be read."""
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        try:
            return float(headers[name]) / unit
        except (KeyError, ValueError):
            continue
    try:
        return parsedate_to_datetime(headers["retry-after"]).timestamp() - time.time()
    except (KeyError, ValueError, OverflowError, OSError):
        return 0.0


def time_is_up(asked: Request) -> ProviderError:
    """The run's time ended before an answer came."""
    return ProviderError(f"models.{asked.role}: no answer before the run's time was up")
