"""Measures this GPU's highest rates: memory bandwidth, matrix products by type, an empty kernel. Prints one JSON
object.

Usage: `roofs_cuda.py LAST_LEVEL_CACHE_BYTES`. Everything is measured twice, which takes about five seconds; `repeats`
holds the second measurement. Each figure is a list of all tries, timed by events of the device except where it says
host. Rates are per second, times in seconds. Data is random, because products of zeros draw less power and run faster
than real ones.
"""

import json
import sys
import time

import torch
import triton
import triton.language as tl

BLOCK = 8192
TRIES = 15
TRAIN = 200
"""Empty kernels in a row, so that the cost of the clock does not count."""


@triton.jit
def stream(source, target, size, BLOCK: tl.constexpr):
    """Copy one block of 32-bit words from `source` to `target`."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(target + at, tl.load(source + at, mask=at < size), mask=at < size)


@triton.jit
def read(source, target, size, BLOCK: tl.constexpr):
    """Read a block and write one word for it."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(target + tl.program_id(0), tl.sum(tl.load(source + at, mask=at < size, other=0.0)))


@triton.jit
def empty_kernel(source):
    pass


def call_seconds(call, tries=TRIES):
    """Return the seconds of each of `tries` calls, after three that do not count."""
    for _ in range(3):
        call()
    marks = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(tries)]
    for begin, end in marks:
        begin.record()
        call()
        end.record()
    torch.cuda.synchronize()
    return [begin.elapsed_time(end) * 1e-3 for begin, end in marks]


def bandwidth(cache):
    """Return the bytes of each array, and access pattern -> bytes read and written per second."""
    free = torch.cuda.mem_get_info()[0]
    words = min(max(16 * cache, 1 << 30), free // 4) // 4
    source = torch.empty(words, dtype=torch.float32, device="cuda").normal_()
    target = torch.empty_like(source)
    grid = (triton.cdiv(words, BLOCK),)
    patterns = {
        "copy": (2, lambda: target.copy_(source)),
        "stream": (2, lambda: stream[grid](source, target, words, BLOCK=BLOCK, num_warps=8)),
        "read": (1, lambda: read[grid](source, target, words, BLOCK=BLOCK, num_warps=8)),
    }
    return 4 * words, {
        name: [4 * words * passes / s for s in call_seconds(call)] for name, (passes, call) in patterns.items()
    }


def products():
    """Return type -> operations per second of a dense matrix product accumulated in float32, int8's in int32; a type
    that fails is left out."""
    kinds = {
        "float16": torch.float16,
        "bfloat16": torch.bfloat16,
        "tf32": torch.float32,
        "float32": torch.float32,
        "float64": torch.float64,
        "float8": torch.float8_e4m3fn,
        "int8": torch.int8,
    }
    one = torch.ones((), device="cuda")
    free = torch.cuda.mem_get_info()[0]
    found = {}
    for name, kind in kinds.items():
        size = 4096 if name in ("float32", "float64") else 8192
        if 3 * size * size * kind.itemsize > free // 4:
            size //= 2
        torch.backends.cuda.matmul.allow_tf32 = name == "tf32"
        scale = 42.0 if kind == torch.int8 else 1.0
        wide = (torch.empty(size, size, dtype=torch.float32, device="cuda").normal_(std=scale) for _ in range(2))
        a, b = (one_wide.to(kind) for one_wide in wide)
        calls = {
            "float8": lambda a=a, b=b: torch._scaled_mm(a, b.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16),
            "int8": lambda a=a, b=b: torch._int_mm(a, b.t()),
        }
        c = None if name in calls else torch.empty(size, size, dtype=kind, device="cuda")
        try:
            found[name] = [
                2 * size**3 / s for s in call_seconds(calls.get(name, lambda a=a, b=b, c=c: torch.mm(a, b, out=c)), 10)
            ]
        except RuntimeError as error:
            print(f"{name}: {error}", file=sys.stderr)
    return found


def launch():
    """Return the seconds of an empty kernel: on the device alone (a captured train), in a train of single launches, and
    on the host."""
    word = torch.zeros(1, device="cuda")

    def train():
        for _ in range(TRAIN):
            empty_kernel[(1,)](word)

    train()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        train()
    device = [s / TRAIN for s in call_seconds(graph.replay)]
    event = [s / TRAIN for s in call_seconds(train)]
    host = []
    for _ in range(TRIES):
        torch.cuda.synchronize()
        start = time.perf_counter()
        train()
        host.append((time.perf_counter() - start) / TRAIN)
    torch.cuda.synchronize()
    return {"device": device, "event": event, "host": host}


def measure(cache):
    """Return one measurement of all figures."""
    start = time.perf_counter()
    array_bytes, rates_by_pattern = bandwidth(cache)
    torch.cuda.empty_cache()
    rates_by_type = products()
    launch_times = launch()
    return {
        "array_bytes": array_bytes,
        "bandwidth": rates_by_pattern,
        "products": rates_by_type,
        "launch": launch_times,
        "seconds": time.perf_counter() - start,
        "versions": {"torch": torch.__version__, "triton": triton.__version__, "cuda": torch.version.cuda or ""},
    }


def main():
    torch.manual_seed(0)
    torch.empty(1, device="cuda")
    report, again = (measure(int(sys.argv[1])) for _ in range(2))
    print(json.dumps({**report, "repeats": [again]}))


if __name__ == "__main__":
    main()
