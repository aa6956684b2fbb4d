"""The harness's own lines of C."""

from __future__ import annotations

import ctypes
import time
from pathlib import Path

import pytest

from tools.harness.workers import trampoline

SIZE = 1 << 20


@pytest.mark.slow
def test_flushed_memory_is_out_of_the_caches_and_unharmed(tmp_path: Path) -> None:
    """A copy from memory takes several times as long as one from a cache. The least of 100 tries each is compared: load makes
    single tries longer, and of a hundred that take 50 us each it leaves some alone."""
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
