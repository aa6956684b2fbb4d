"""Measured roofs of the device: what memory, arithmetic and an empty call can do at most, here and now (at most about
five seconds).

A measured roof is evidence, labelled so, and never replaces a citation. The programs harness/device/roofs_cpu.cpp and
harness/device/roofs_cuda.py report every try. On a CPU the best counts, since noise on a shared machine only ever takes
away; on a GPU, which nobody shares, the median.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import TypeVar

from pydantic import ValidationError

from tools.artifacts import Artifact, Record, digest
from tools.errors import HarnessError
from tools.executors.base import Device, Executor, FinishedJob, Job, Limits, Needs, pick_device
from tools.executors.protocol import PROTOCOL
from tools.languages.base import Language, Toolchain
from tools.roofline.hardware import Roof, RoofMetric
from tools.roofline.roofline import best
from tools.store.records import Records, record_key

PROGRAM = Path(__file__).parents[1] / "harness" / "device" / "roofs_cpu.cpp"
CUDA_PROGRAM = Path(__file__).parents[1] / "harness" / "device" / "roofs_cuda.py"
CUDA_LIMIT_S = 180.0
"""Importing torch and making the first context take most of it on a cold machine; the measuring itself, about five
seconds."""
_FLAGS = (("-O3", "-march=native"), ("-O3", "-mcpu=native"), ("-O3",))
"""Tried in this order: not every compiler knows both ways to name this machine."""
_HONEST = (0.6, 1.67)
"""Rate at twice the work over rate: outside, the loop did not do what it was meant to (or the machine was too
disturbed to say)."""


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
    others: float | None = None
    """Share of the time of the cores we may run on that others had meanwhile; None: not known."""
    flags: tuple[str, ...] = ()


class CudaCeilings(Artifact):
    """All tries of one measurement on a GPU; rates per second, times in seconds, all by the device's own events
    unless it says host."""

    array_bytes: int
    bandwidth: dict[str, tuple[float, ...]]
    """copy (torch), stream (copying in Triton) and read -> bytes read and written a second, in arrays far larger
    than the cache."""
    products: dict[str, tuple[float, ...]]
    """Operations a second of dense matrix products on random data, by torch: float16, bfloat16, tf32, float32
    (IEEE), float64."""
    launch: dict[str, tuple[float, ...]]
    """An empty Triton kernel: `device` in a captured train, `event` in a train launched one by one, `host` what
    launching costs us."""
    seconds: float
    """What measuring took, imports aside."""
    versions: dict[str, str]


Found = TypeVar("Found", Ceilings, CudaCeilings)


def measure(
    language: Language, executor: Executor, records: Records, *, environment: str = "", attempt: int = 1
) -> tuple[Roof, ...]:
    """The roofs of the device that `language` runs on, from one record of kind "roof"; what the records hold is not
    measured again.

    Empty for devices that no program here measures. A roof whose tries contradict each other is left out. SettingsError
    when there is no such device here, HarnessError when the program cannot be built or run.
    """
    if language.device not in ("cpu", "cuda"):
        return ()
    device = pick_device(executor.devices(), language.device)
    cuda = device.kind == "cuda"
    program = (CUDA_PROGRAM if cuda else PROGRAM).read_text(encoding="utf-8")
    made_by = {"clocks": "locked"} if device.has_locked_clocks else {}
    made_by |= {"driver": device.details["driver"]} if cuda else {"compiler": language.toolchain().version}
    asked = record_key(
        "roof",
        device=device.name,
        units=device.units,
        program=digest(program),
        protocol=PROTOCOL,
        attempt=attempt,
        **made_by,
    )
    record = records.find(asked)
    if record is None:
        found = (
            _run_cuda(program, device, executor, records)
            if cuda
            else _run(program, language.toolchain(), device, executor, records)
        )
        record = records.add(
            Record(
                kind="roof",
                key=asked,
                environment=environment,
                device=device.label,
                protocol=PROTOCOL,
                payload=found.model_dump(mode="json"),
                blobs={"program": records.blobs.put(program)},
            )
        )
    return of(record)


def of(record: Record) -> tuple[Roof, ...]:
    """The roofs that a record of kind "roof" holds; ValidationError when it is none that this version can read."""
    if record.device.startswith("cuda:"):
        return cuda_roofs(CudaCeilings.model_validate(record.payload), record.id)
    return roofs(Ceilings.model_validate(record.payload), record.id)


def attempts(first: Sequence[Roof], records: Records) -> tuple[Record, ...]:
    """All measurements on record of the device on which `first` was measured."""
    sources = {roof.source for roof in first}
    devices = {record.device for record in records if record.kind == "roof" and record.id in sources}
    return tuple(record for record in records if record.kind == "roof" and record.device in devices)


def every(first: Sequence[Roof], records: Records) -> tuple[Roof, ...]:
    """The roofs of all measurements on record of the device on which `first` was measured."""
    return tuple(dict.fromkeys([*first, *(roof for record in attempts(first, records) for roof in of(record))]))


def highest(first: Sequence[Roof], records: Records) -> tuple[Roof, ...]:
    """The best of what all measurements of the device of `first` found; one may have a roof that another had to
    leave out."""
    found = every(first, records)
    return tuple(
        roof for metric in dict.fromkeys(roof.metric for roof in found) if (roof := best(found, metric)) is not None
    )


def cuda_roofs(found: CudaCeilings, source: str) -> tuple[Roof, ...]:
    """Medians as roofs that name the record `source`; the bandwidth is that of the best access pattern.

    The launch latency is the device's own share, below which no call can be: what the host adds hides behind work that
    is queued.
    """
    made = [_roof("memory_bandwidth", max(median(tries) for tries in found.bandwidth.values()), "B/s", source)]
    metrics: dict[str, RoofMetric] = {
        "float32": "compute_float32",
        "float64": "compute_float64",
        "tf32": "compute_tf32",
        "float16": "compute_float16",
        "bfloat16": "compute_bfloat16",
    }
    made += [
        _roof(metric, median(found.products[kind]), "op/s", source)
        for kind, metric in metrics.items()
        if kind in found.products
    ]
    return (*made, _roof("launch_latency", median(found.launch["device"]), "s", source))


def roofs(found: Ceilings, source: str) -> tuple[Roof, ...]:
    """The best of all tries, as roofs that name the record `source`.

    The compute roofs add up the threads' own bests: on a shared machine hardly ever are all cores free at once, and a
    roof that is too low would call honest kernels impossible.
    """
    made = [
        _roof("memory_bandwidth", max(max(tries) for tries in found.bandwidth.values()), "B/s", source, found.others)
    ]
    arithmetic: dict[RoofMetric, Arithmetic] = {"compute_float32": found.float32, "compute_float64": found.float64}
    for metric, tried in arithmetic.items():
        once, doubled = sum(tried.threads_once), sum(tried.threads_doubled)
        if _HONEST[0] < doubled / once < _HONEST[1]:
            made.append(_roof(metric, max(once, doubled), "op/s", source, found.others))
    return (*made, _roof("launch_latency", min(found.call), "s", source, found.others))


def _roof(metric: RoofMetric, value: float, unit: str, source: str, others: float | None = None) -> Roof:
    return Roof(metric=metric, value=value, unit=unit, origin="measured", source=source, others=others)


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
            f"{PROGRAM.name} does not compile with {toolchain.name}: "
            f"{log.strip().splitlines()[0] if log.strip() else 'no log'}"
        )
    command = f"chmod +x roofs && ./roofs {device.units} {device.last_level_cache}"
    ran = executor.run(
        Job(
            files={"roofs": built.files["roofs"]},
            argv=("sh", "-c", command),
            limits=Limits(wall_s=60.0),
            needs=Needs(exclusive=True),
        )
    )
    return _answer(PROGRAM.name, ran, records, Ceilings).model_copy(update={"flags": flags})


def _run_cuda(program: str, device: Device, executor: Executor, records: Records) -> CudaCeilings:
    name = CUDA_PROGRAM.name
    job = Job(
        files={name: records.blobs.put(program)},
        argv=("{python}", "-I", name, str(device.last_level_cache)),
        limits=Limits(wall_s=CUDA_LIMIT_S),
        needs=Needs(device="cuda", exclusive=True),
    )
    return _answer(name, executor.run(job), records, CudaCeilings)


def _answer(program: str, ran: FinishedJob, records: Records, expected: type[Found]) -> Found:
    """What a program printed; HarnessError when it failed or printed something else."""
    if ran.exit_code != 0:
        ended = "ran out of time" if ran.timed_out else f"ended with status {ran.exit_code}"
        said = records.blobs.text(ran.files["stderr.txt"]).strip()
        raise HarnessError(
            f"{program} {ended}: {said.splitlines()[-1][:200] if said else 'it said nothing'}; see `python -m "
            f"tools env`"
        )
    try:
        return expected.model_validate_json(records.blobs.get(ran.files["stdout.txt"]))
    except ValidationError as error:
        raise HarnessError(f"{program} answered something that cannot be read: {error.errors()[0]['msg']}") from error
