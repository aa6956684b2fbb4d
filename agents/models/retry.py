"""When a request is sent again, how long is waited before that, and how long an answer may go on: for both SDKs.

The SDKs bound each silence alone, and a server may send signs of life for ever. Nor do they know of the run's time,
which holds for all attempts together, the pauses between them included.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, TypeVar

from agents.models.base import Request
from tools.errors import ProviderError

if TYPE_CHECKING:
    import httpx2

StreamT = TypeVar("StreamT")

CONNECT_S = 10.0
"""To be connected takes less than an answer, or there is no server."""
FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 8.0
"""Of pauses that no server asked for; both are the SDKs' own figures."""


def until(response: Any, end: float) -> None:
    """From `end` (monotonic seconds) on whoever reads `response`, an HTTP response that is streamed, gets a
    TimeoutError.

    It is looked at whenever bytes come in, those included that an SDK keeps to itself (comments and pings); between
    them the SDK's own time-out counts.
    """
    pieces = response.iter_bytes

    def timed(*arguments: Any, **named: Any) -> Iterator[bytes]:
        for piece in pieces(*arguments, **named):
            if time.monotonic() > end:
                raise TimeoutError
            yield piece

    response.iter_bytes = timed


def with_retries(
    asked: Request, sdk: Any, timeout_s: float, max_retries: int, send: Callable[[httpx2.Timeout], StreamT]
) -> StreamT:
    """What `send` returns when it is given a time-out; called again while the server cannot take the request.

    All attempts, with the pauses between them, end with the run's time; `sdk` (the module `openai` or `anthropic`),
    which knows nothing of it, makes single ones. ProviderError when that time is up, else the SDK's own error of the
    last attempt.
    """
    for attempt in range(1, 2 + max_retries):
        if asked.left_s <= 0:
            break
        try:
            return send(silence(asked.at_most(timeout_s)))
        except (sdk.APIConnectionError, sdk.APIStatusError) as error:
            if asked.left_s <= 0:
                raise time_is_up(asked) from error
            headers = error.response.headers if isinstance(error, sdk.APIStatusError) else {}
            wait = pause_s(attempt, headers)
            # A server that asks for a longer pause is without room, and an unattended run would stand still.
            too_long = wait >= asked.left_s or wait > max(timeout_s, LONGEST_PAUSE_S)
            if attempt > max_retries or too_long or not _for_now(getattr(error, "status_code", None), headers):
                raise
        time.sleep(wait)
    raise time_is_up(asked)


def silence(timeout_s: float) -> httpx2.Timeout:
    """The longest that an attempt bears."""
    import httpx2  # What both SDKs are built on, so always there with them.

    return httpx2.Timeout(timeout_s, connect=min(CONNECT_S, timeout_s))


def _for_now(status: int | None, headers: Mapping[str, str]) -> bool:
    """Whether an error may be gone the next time; a server that says so itself (`x-should-retry`) is believed. None:
    it did not answer."""
    said = headers.get("x-should-retry")
    if status is None or said in ("true", "false"):
        return said != "false"
    return status in (408, 409, 429) or status >= 500


def pause_s(attempts: int, headers: Mapping[str, str]) -> float:
    """Seconds to wait after so many attempts that failed: what the server asks for in `headers`, else a pause that
    doubles each time."""
    asked = _asked_s(headers)
    return asked if 0 < asked < math.inf else min(FIRST_PAUSE_S * 2.0 ** (attempts - 1), LONGEST_PAUSE_S)


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
