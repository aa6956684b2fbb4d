"""How long an answer may go on. The SDKs bound each silence alone, and a server may send signs of life for ever."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any


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
