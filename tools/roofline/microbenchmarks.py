"""Measures the roofs of the device: memory bandwidth, arithmetic rates and an empty call, in about five seconds.

A measured roof is evidence, labelled so, and never replaces a citation. The programs harness/device/roofs_cpu.cpp and
harness/device/roofs_cuda.py report every try. On a CPU the best try counts, because noise on a shared machine only
slows down; on a GPU, which is not shared, the median counts. A measurement is repeated until the two best ones of each
roof agree, as long as `MAX_MEASURING_S` allows (on a GPU once); a roof on which no two agree carries a doubt.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import TypeVar

from pydantic import ValidationError

from tools.artifacts import Artifact, Record, digest
from tools.errors import HarnessError
from tools.executors.base import Device, Executor, FinishedJob, Job, Limits, Needs, pick_device
from tools.executors.protocol import PROTOCOL
from tools.executors.toolchain import Compiler
from tools.executors.toolchain_job import read_toolchain
from tools.languages.base import Language
from tools.roofline.hardware import Roof, RoofMetric
from tools.roofline.roofline import best_of_repeats, best_roof
from tools.store.records import Records, record_key

PROGRAM = Path(__file__).parents[1] / "harness" / "device" / "roofs_cpu.cpp"
CUDA_PROGRAM = Path(__file__).parents[1] / "harness" / "device" / "roofs_cuda.py"
MAX_MEASURING_S = 5.0
"""Seconds after which no further measurement of the roofs begins; two are made in any case."""
MAX_REPEATS = 1 << 10
"""Measurements of one attempt at most, by which the repeats of attempts are told apart."""
CUDA_LIMIT_S = 180.0
"""Mostly for importing torch and creating the first context on a cold machine; measuring takes about five seconds."""
_FLAG_SETS = (("-O3", "-march=native"), ("-O3", "-mcpu=native"), ("-O3",))
"""Compiler flags, tried in this order: no compiler knows both ways to name the machine."""
_VALID_DOUBLED_RATE_RATIO = (0.6, 1.67)
"""Allowed ratio of the rate at twice the work to the rate: outside of it the compiler removed work, or the machine was
too disturbed."""


class ArithmeticRates(Artifact):
    """Rates of independent fused multiply-adds, two operations each, on all cores at once."""

    once: tuple[float, ...]
    """Every try: operations of all threads over the seconds from the first start to the last end."""
    doubled: tuple[float, ...]
    """Every try at twice the work, which shows that no work was optimised away."""
    threads_once: tuple[float, ...]
    """The best rate of each thread while all threads ran."""
    threads_doubled: tuple[float, ...]


class CpuCeilings(Artifact):
    """All tries of one measurement on a CPU; rates per second, `call` in seconds."""

    threads: int
    array_bytes: int
    bandwidth: dict[str, tuple[float, ...]]
    """Access pattern -> bytes read and written a second, each array counted once."""
    float32: ArithmeticRates
    float64: ArithmeticRates
    call: tuple[float, ...]
    """Seconds of an empty call through a pointer."""
    others: float | None = None
    """Share of the allowed cores' time that other processes used meanwhile; None if unknown."""
    flags: tuple[str, ...] = ()
    repeats: tuple[CpuCeilings, ...] = ()
    """The measurements that followed the first."""
    disagreeing: tuple[RoofMetric, ...] = ()
    """Roofs whose best measurement no other confirms."""


class CudaCeilings(Artifact):
    """All tries of one measurement on a GPU; rates per second, times in seconds, by device events except `host`."""

    array_bytes: int
    bandwidth: dict[str, tuple[float, ...]]
    """copy (torch), stream (copying in Triton) and read -> bytes read and written a second, in arrays far larger
    than the cache."""
    products: dict[str, tuple[float, ...]]
    """Operations a second of dense matrix products on random data, by torch: float16, bfloat16, tf32, float32
    (IEEE), float64, and where the device has them float8 and int8."""
    launch: dict[str, tuple[float, ...]]
    """Seconds of an empty Triton kernel: `device` in a captured train, `event` in a train of single launches, `host`
    the host time of a launch."""
    seconds: float
    """Seconds of the whole measurement, without imports."""
    versions: dict[str, str]
    repeats: tuple[CudaCeilings, ...] = ()
    disagreeing: tuple[RoofMetric, ...] = ()


AnyCeilings = TypeVar("AnyCeilings", CpuCeilings, CudaCeilings)


def read_or_measure_roofs(
    language: Language, executor: Executor, records: Records, *, environment: str = "", attempt: int = 1
) -> tuple[Roof, ...]:
    """Return the roofs of the device that `language` runs on, from the record of kind "roof", measured first if there
    is no such record.

    Returns nothing for a device that no program here measures. A roof whose tries contradict each other is left out.
    Raises SettingsError if there is no such device, HarnessError if the program cannot be built or run.
    """
    if language.device not in ("cpu", "cuda"):
        return ()
    device = pick_device(executor.devices(), language.device)
    cuda = device.kind == "cuda"
    program = (CUDA_PROGRAM if cuda else PROGRAM).read_text(encoding="utf-8")
    made_by = {"clocks": "locked"} if device.has_locked_clocks else {}
    compiler = None if cuda else language.compiler(read_toolchain(executor, records.blobs))
    made_by |= {"compiler": compiler.version} if compiler else {"driver": device.details["driver"]}
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
            _run_cpu_program(program, compiler, device, executor, records, attempt)
            if compiler
            else _run_cuda_program(program, device, executor, records, attempt)
        )
        disagreeing = tuple(roof.metric for roof in _roofs_of(found, "") if roof.agreeing < 2)
        found = found.model_copy(update={"disagreeing": disagreeing})
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
    return roofs_of_record(record)


def roofs_of_record(record: Record) -> tuple[Roof, ...]:
    """Return the roofs of a record of kind "roof". Raises ValidationError for another kind of record."""
    kind = CudaCeilings if record.device.startswith("cuda:") else CpuCeilings
    return _roofs_of(kind.model_validate(record.payload), record.id)


def _roofs_of(found: CpuCeilings | CudaCeilings, source: str) -> tuple[Roof, ...]:
    return best_of_repeats(
        cpu_roofs(one, source) if isinstance(one, CpuCeilings) else cuda_roofs(one, source)
        for one in (found, *found.repeats)
    )


def measure_until_agreed(measure: Callable[[], CpuCeilings], clock: Callable[[], float]) -> CpuCeilings:
    """Return the first of at least two measurements with the others as its `repeats`.

    It ends when the two best of each roof agree, or when by `clock` (seconds) another one would end after
    `MAX_MEASURING_S`.
    """
    start, found = clock(), measure()
    while True:
        found = found.model_copy(update={"repeats": (*found.repeats, measure())})
        taken = clock() - start
        if taken * (1 + 1 / (1 + len(found.repeats))) > MAX_MEASURING_S or all(
            roof.agreeing > 1 for roof in _roofs_of(found, "")
        ):
            return found


def roof_records_of_device(first: Sequence[Roof], records: Records) -> tuple[Record, ...]:
    """Return all roof records of the device on which `first` was measured."""
    sources = {roof.source for roof in first}
    devices = {record.device for record in records if record.kind == "roof" and record.id in sources}
    return tuple(record for record in records if record.kind == "roof" and record.device in devices)


def all_measured_roofs(first: Sequence[Roof], records: Records) -> tuple[Roof, ...]:
    """Return the roofs of all records of the device on which `first` was measured."""
    return tuple(
        dict.fromkeys(
            [*first, *(roof for record in roof_records_of_device(first, records) for roof in roofs_of_record(record))]
        )
    )


def best_measured_roofs(first: Sequence[Roof], records: Records) -> tuple[Roof, ...]:
    """Return the best roof of each metric over all records of the device of `first`; a record can lack a roof that
    another one has."""
    found = all_measured_roofs(first, records)
    return tuple(
        roof
        for metric in dict.fromkeys(roof.metric for roof in found)
        if (roof := best_roof(found, metric)) is not None
    )


def cuda_roofs(found: CudaCeilings, source: str) -> tuple[Roof, ...]:
    """Return the medians as roofs of the record `source`; the bandwidth is that of the best access pattern.

    The launch latency is the device's share alone, since the host's share is hidden behind queued work.
    """
    made = [_measured_roof("memory_bandwidth", max(median(tries) for tries in found.bandwidth.values()), "B/s", source)]
    metrics: dict[str, RoofMetric] = {
        "float32": "compute_float32",
        "float64": "compute_float64",
        "tf32": "compute_tf32",
        "float16": "compute_float16",
        "bfloat16": "compute_bfloat16",
        "float8": "compute_float8",
        "int8": "compute_int8",
    }
    made += [
        _measured_roof(metric, median(found.products[kind]), "op/s", source)
        for kind, metric in metrics.items()
        if kind in found.products
    ]
    return (*made, _measured_roof("launch_latency", median(found.launch["device"]), "s", source))


def cpu_roofs(found: CpuCeilings, source: str) -> tuple[Roof, ...]:
    """Return the best of all tries as roofs of the record `source`.

    The compute roofs are sums of each thread's best try, because on a shared machine all cores are rarely free at
    once, and a roof that is too low would call honest kernels impossible.
    """
    made = [
        _measured_roof(
            "memory_bandwidth", max(max(tries) for tries in found.bandwidth.values()), "B/s", source, found.others
        )
    ]
    arithmetic: dict[RoofMetric, ArithmeticRates] = {"compute_float32": found.float32, "compute_float64": found.float64}
    for metric, tried in arithmetic.items():
        once, doubled = sum(tried.threads_once), sum(tried.threads_doubled)
        if _VALID_DOUBLED_RATE_RATIO[0] < doubled / once < _VALID_DOUBLED_RATE_RATIO[1]:
            made.append(_measured_roof(metric, max(once, doubled), "op/s", source, found.others))
    return (*made, _measured_roof("launch_latency", min(found.call), "s", source, found.others))


def _measured_roof(metric: RoofMetric, value: float, unit: str, source: str, others: float | None = None) -> Roof:
    return Roof(metric=metric, value=value, unit=unit, origin="measured", source=source, others=others)


def _run_cpu_program(
    program: str, compiler: Compiler, device: Device, executor: Executor, records: Records, attempt: int
) -> CpuCeilings:
    blobs = records.blobs
    source = {"roofs_cpu.cpp": blobs.put(program)}
    log = ""
    for flags in _FLAG_SETS:
        argv = (*compiler.argv, "-std=c++17", *flags, "-ffp-contract=fast", "-pthread", "roofs_cpu.cpp", "-o", "roofs")
        built = executor.run(Job(files=source, argv=argv, limits=Limits(wall_s=120.0), results=("roofs",)))
        if built.exit_code == 0 and "roofs" in built.files:
            break
        log = blobs.text(built.files["stderr.txt"])
    else:
        raise HarnessError(
            f"{PROGRAM.name} does not compile with {compiler.name}: "
            f"{log.strip().splitlines()[0] if log.strip() else 'no log'}"
        )
    command = f"chmod +x roofs && ./roofs {device.units} {device.last_level_cache}"
    job = Job(
        files={"roofs": built.files["roofs"]},
        argv=("sh", "-c", command),
        limits=Limits(wall_s=60.0),
        needs=Needs(exclusive=True),
    )
    repeats = (job.model_copy(update={"repeat": number}) for number in itertools.count(MAX_REPEATS * attempt))
    least = [next(repeats), next(repeats)]
    executor.gather(partial(executor.run, repeat) for repeat in least)
    jobs, seconds = itertools.chain(least, repeats), [0.0]

    def measure() -> CpuCeilings:
        ran = executor.run(next(jobs))
        seconds.append(seconds[-1] + ran.usage.wall_s)
        return _parse_ceilings(PROGRAM.name, ran, records, CpuCeilings)

    found = measure_until_agreed(measure, lambda: seconds[-1])
    return found.model_copy(update={"flags": flags})


def _run_cuda_program(program: str, device: Device, executor: Executor, records: Records, attempt: int) -> CudaCeilings:
    name = CUDA_PROGRAM.name
    job = Job(
        files={name: records.blobs.put(program)},
        argv=("{python}", "-I", name, str(device.last_level_cache)),
        limits=Limits(wall_s=CUDA_LIMIT_S),
        needs=Needs(device="cuda", exclusive=True),
        repeat=attempt,
    )
    return _parse_ceilings(name, executor.run(job), records, CudaCeilings)


def _parse_ceilings(program: str, ran: FinishedJob, records: Records, expected: type[AnyCeilings]) -> AnyCeilings:
    """Return what a program printed. Raises HarnessError if it failed or printed something else."""
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
