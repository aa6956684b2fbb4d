"""The harness's own lines of C."""

from __future__ import annotations

import ctypes
import time
from pathlib import Path

from tools.harness.workers import trampoline

SIZE = 1 << 20


def test_what_was_flushed_is_out_of_the_caches_and_unharmed(tmp_path: Path) -> None:
    """Fetched from memory it takes several times what it takes from a cache: the least of many tries, for others may
    be at work."""
    flush = trampoline.load_flush_function(tmp_path)
    source, target = ctypes.create_string_buffer(b"\x5a" * SIZE, SIZE), ctypes.create_string_buffer(SIZE)
    took: dict[bool, list[float]] = {True: [], False: []}
    for cold in [True, False] * 100:
        ctypes.memmove(target, source, SIZE)
        if cold:
            flush(ctypes.addressof(source), SIZE)
        start = time.perf_counter()
        ctypes.memmove(target, source, SIZE)
        took[cold].append(time.perf_counter() - start)
    assert source.raw == target.raw == b"\x5a" * SIZE
    assert min(took[True]) > 1.3 * min(took[False]), (min(took[True]), min(took[False]))
