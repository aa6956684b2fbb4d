"""Measured roofs of the device: what memory, arithmetic and an empty call can do at most, here and now (at most about five seconds).

A measured roof is evidence, labelled so, and never replaces a citation. The program in harness/roofs_cpu.cpp reports every try; the
best counts, since noise on a shared machine only ever takes away.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from tools.artifacts import Artifact, Device, Job, Limits, Needs, Record, Roof, digest
from tools.errors import HarnessError
from tools.executors.base import Executor
from tools.languages.base import Language, Toolchain
from tools.protocol import PROTOCOL
from tools.records import Records, key

Metric = Literal["memory_bandwidth", "compute_float32", "compute_float64", "launch_latency"]
PROGRAM = Path(__file__).with_name("harness") / "roofs_cpu.cpp"
_FLAGS = (("-O3", "-march=native"), ("-O3", "-mcpu=native"), ("-O3",))
"""Tried in this order: not every compiler knows both ways to name this machine."""
_HONEST = (0.6, 1.67)
"""Rate at twice the work over rate: outside, the loop did not do what it was meant to (or the machine was too disturbed to say)."""


class Arithmetic(Artifact):
    """Rates of independent fused multiply-adds, two operations each, on all cores at once."""

    once: tuple[float, ...]
    """All tries: operations of all threads over the seconds from the first start to the last end."""
    doubled: tuple[float, ...]
    """The same at twice the work, to see that no work was optimised away."""
    threads_once: tuple[float, ...]
    """Each thread's own best rate while all of them ran."""
    threads_doubled: tuple[float, ...]


class Ceilings(Artifact):
    """All tries of one measurement; rates per second, `call` in seconds."""

    threads: int
    array_bytes: int
    bandwidth: dict[str, tuple[float, ...]]
    """Access pattern -> bytes read and written a second, each array once."""
    float32: Arithmetic
    float64: Arithmetic
    call: tuple[float, ...]
    """Seconds of an empty call through a pointer."""
    flags: tuple[str, ...] = ()


def measure(language: Language, executor: Executor, records: Records, *, environment: str = "", attempt: int = 1) -> tuple[Roof, ...]:
    """The CPU's roofs, from one record of kind "roof"; what the records hold already is not measured again.

    Empty for languages of other devices. A roof whose tries contradict each other is left out. HarnessError when the program cannot be
    built or run.
    """
    if language.device != "cpu":
        return ()
    device = executor.devices()[0]
    program = PROGRAM.read_text(encoding="utf-8")
    toolchain = language.toolchain()
    asked = key(
        "roof",
        device=device.name,
        units=device.units,
        program=digest(program),
        compiler=toolchain.version,
        protocol=PROTOCOL,
        attempt=attempt,
    )
    record = records.find(asked)
    if record is None:
        found = _run(program, toolchain, device, executor, records)
        record = records.add(
            Record(
                kind="roof",
                key=asked,
                environment=environment,
                device=f"{device.kind}:{device.index} {device.name}",
                protocol=PROTOCOL,
                payload=found.model_dump(mode="json"),
                blobs={"program": records.blobs.put(program)},
            )
        )
    return roofs(Ceilings.model_validate(record.payload), record.id)


def roofs(found: Ceilings, source: str) -> tuple[Roof, ...]:
    """The best of all tries, as roofs that name the record `source`.

    The compute roofs add up the threads' own bests: on a shared machine hardly ever are all cores free at once, and a roof that is too
    low would call honest kernels impossible.
    """
    made = [_roof("memory_bandwidth", max(max(tries) for tries in found.bandwidth.values()), "B/s", source)]
    arithmetic: dict[Metric, Arithmetic] = {"compute_float32": found.float32, "compute_float64": found.float64}
    for metric, tried in arithmetic.items():
        once, doubled = sum(tried.threads_once), sum(tried.threads_doubled)
        if _HONEST[0] < doubled / once < _HONEST[1]:
            made.append(_roof(metric, max(once, doubled), "op/s", source))
    return (*made, _roof("launch_latency", min(found.call), "s", source))


def _roof(metric: Metric, value: float, unit: str, source: str) -> Roof:
    return Roof(metric=metric, value=value, unit=unit, origin="measured", source=source)


def _run(program: str, toolchain: Toolchain, device: Device, executor: Executor, records: Records) -> Ceilings:
    blobs = records.blobs
    source = {"roofs_cpu.cpp": blobs.put(program)}
    log = ""
    for flags in _FLAGS:
        argv = (*toolchain.argv, "-std=c++17", *flags, "-ffp-contract=fast", "-pthread", "roofs_cpu.cpp", "-o", "roofs")
        built = executor.run(Job(files=source, argv=argv, limits=Limits(wall_s=120.0), results=("roofs",)))
        if built.exit_code == 0 and "roofs" in built.files:
            break
        log = blobs.text(built.files["stderr.txt"])
    else:
        raise HarnessError(
            f"{PROGRAM.name} does not compile with {toolchain.name}: {log.strip().splitlines()[0] if log.strip() else 'no log'}"
        )
    command = f"chmod +x roofs && ./roofs {device.units} {device.last_level_cache}"
    ran = executor.run(
        Job(files={"roofs": built.files["roofs"]}, argv=("sh", "-c", command), limits=Limits(wall_s=60.0), needs=Needs(exclusive=True))
    )
    if ran.exit_code != 0:
        raise HarnessError(f"{PROGRAM.name} ended with status {ran.exit_code}: {blobs.text(ran.files['stderr.txt']).strip()[:200]}")
    try:
        return Ceilings.model_validate_json(blobs.get(ran.files["stdout.txt"])).model_copy(update={"flags": flags})
    except ValidationError as error:
        raise HarnessError(f"{PROGRAM.name} answered something that cannot be read: {error.errors()[0]['msg']}") from error
