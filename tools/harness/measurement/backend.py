"""Backends for timing, contests and correctness, which hide how a CPU and a GPU differ in processes and buffers."""

import os

from harness.device import telemetry
from harness.measurement.paired_samples import COLD_CACHE_FACTOR, ring_size
from harness.memory import gpu_layout
from harness.memory.host_buffers import BEHIND, HostInputs, HostSlots, InputLayout
from harness.memory.input_ring import InfraError, WorkloadError, parameter_kinds
from harness.workers import cpu_kernel, gpu_kernel

CHUNK_BYTES = 128 << 20
RING_BYTES = 64 << 20
MAX_SLOT_BYTES = 4 << 30
"""Maximum bytes of output slots on a GPU."""


class TimingBackend:
    """Runs kernels on this machine's cores, with buffers in host memory."""

    short_s, sample_s, longest = 50e-6, 120e-6, 1000
    """Kernels below `short_s` run as trains of at least `sample_s` and at most `longest` calls."""
    go_s = 5e-3
    """Minimum seconds of one train in a contest, so that the time of the messages to the process is negligible."""
    sitting: int | None = 1
    """Rounds of a contest for which the kernels' processes are kept; None: all of them."""
    launched = False
    """True where a call only launches the work."""

    def __init__(self, supervisor, request: dict):
        self.supervisor, self.request = supervisor, request
        self.oracle = supervisor.oracle()
        self.oracle.call("begin_request", task=request["task"])

    def cache(self) -> int:
        """Bytes of the last-level cache."""
        return telemetry.last_level_cache()

    def memory(self) -> int:
        """Bytes that buffers may take."""
        return min(self.supervisor.memory, telemetry.available_memory())

    def require_memory(self, wanted: int) -> None:
        """WorkloadError where buffers of `wanted` bytes do not fit into the available memory."""
        there = self.memory()
        if wanted > there:
            raise WorkloadError(
                f"its buffers need {wanted:,} bytes, more than the {there:,} available; use smaller dims"
            )

    def ring(self, set_bytes: int, calls: int) -> tuple[int, int, int]:
        """(distinct value sets, addresses, bytes to flush) of the ring, as `ring_size` gives them. On a CPU buffers are
        flushed before each call, so that the ring need not exceed a cache of hundreds of MiB."""
        distinct, addresses, _ = ring_size(
            set_bytes, min(self.cache(), RING_BYTES // COLD_CACHE_FACTOR), calls, self.memory()
        )
        return distinct, addresses, 0

    def slot_budget(self) -> int:
        """Bytes of output slots that one chunk of pairs may take."""
        return min(CHUNK_BYTES, self.memory() // 4)

    def contest_slots(self, addresses: int, slot_bytes: int) -> int:
        return max(min(addresses, (256 << 20) // slot_bytes), 1)

    def slot_bytes(self, sizes: list[int]) -> int:
        return HostSlots.bytes_each(sizes)

    def inputs(self, sizes: list[int], sets: int, edge: str = "") -> HostInputs:
        return HostInputs(self.oracle, InputLayout(sizes, sets, edge or BEHIND))

    def slots(self, lane: int, sizes: list[int], floating: list[bool], count: int, edge: str = "") -> HostSlots:
        made = HostSlots(sizes, floating, count, edge)
        self.oracle.call("attach_memory", size=made.shared.size, lane=lane, fds=[made.shared.fd])
        return made

    def kernel(self, libraries: dict[str, str]) -> cpu_kernel.KernelProcess:
        """A process for these libraries (name -> path in the job), none loaded yet."""
        paths = {name: self.supervisor.job_file(path) for name, path in libraries.items()}
        return self.supervisor.kernel_process(
            parameter_kinds(self.request["task"]), paths, self.request["call_limit_s"]
        )

    def flush(self, rows: list[tuple[HostInputs | HostSlots, list[int]]]) -> None:
        """Flush buffers from all caches; `rows` holds (buffers, the indices of their sets or slots)."""
        for buffers, which in rows:
            for offsets in (buffers.plan.offsets[row] for row in which):
                for offset, size in zip(offsets, buffers.plan.sizes, strict=True):
                    self.supervisor.flush(buffers.shared.address + offset, size)

    def evict_cache(self) -> None:
        """Evict all buffers from the device's cache; `flush` does so on a CPU."""

    def disturbance(self, pids: list[int]) -> list[telemetry.ThreadTimes]:
        """The scheduler's counts of the processes' threads so far, which `disturbed` compares."""
        return [telemetry.ThreadTimes(pid) for pid in pids]

    def disturbed(self, before: list, after: list, seconds: float, samples: list, slack_s: float) -> bool:
        """Whether other processes disturbed a pair or round that took `seconds`: its threads had to wait for a core.

        More threads than cores also wait for each other: of their waiting, only the time counts in which the cores ran
        something else.
        """
        waited, cores = 0.0, len(os.sched_getaffinity(0))
        for old, new in zip(before, after, strict=True):
            wait = new.waited - old.waited
            waited += min(wait, max(cores * seconds - (new.ran - old.ran), 0.0)) if new.count > cores else wait
        return waited > 0.10 * seconds + slack_s

    def wait_until_settled(self) -> None:
        """Wait until no process of the harness is starting; on a CPU there is nothing to wait for."""

    def telemetry(self) -> dict:
        return {}


class GpuTimingBackend(TimingBackend):
    """Runs kernels on one GPU; of the trusted processes only the oracle uses it."""

    sample_s, longest = 200e-6, 200
    go_s = 20e-3
    sitting = None
    launched = True

    def __init__(self, supervisor, request: dict):
        self.supervisor, self.request = supervisor, request
        supervisor.select_gpu(request.get("device_index", 0))
        self.watch = supervisor.gpu_watch()  # before the oracle: who is on the GPU before us is not ours
        self.oracle = supervisor.oracle()
        self.facts = self.oracle.call("begin_request", task=request["task"], device=request["device"])
        self.watch.begin()

    def cache(self) -> int:
        return self.facts["l2"]

    def memory(self) -> int:
        return int(0.9 * self.facts["free"])

    def ring(self, set_bytes: int, calls: int) -> tuple[int, int, int]:
        return ring_size(set_bytes, self.cache(), calls, self.memory())

    def slot_budget(self) -> int:
        return min(MAX_SLOT_BYTES, self.memory() // 4)

    def contest_slots(self, addresses: int, slot_bytes: int) -> int:
        return max(min(512, MAX_SLOT_BYTES // slot_bytes, self.memory() // 16 // slot_bytes), 1)

    def slot_bytes(self, sizes: list[int]) -> int:
        return gpu_layout.DeviceOutputs(sizes, 1).stride

    def inputs(self, sizes: list[int], sets: int, edge: str = "") -> gpu_layout.DeviceInputs:
        return gpu_layout.DeviceInputs(self.oracle, sizes, sets)

    def slots(
        self, lane: int, sizes: list[int], floating: list[bool], count: int, edge: str = ""
    ) -> gpu_layout.DeviceSlots:
        return gpu_layout.DeviceSlots(self.oracle, lane, sizes, floating, count)

    def kernel(self, libraries: dict[str, str]):
        paths = {name: self.supervisor.job_file(path) for name, path in libraries.items()}
        fork_server = self.supervisor.device_fork_server(self.facts["capability"])
        precision = self.request["task"]["numeric"]["precision"]
        return gpu_kernel.GpuKernelProcess(
            fork_server, self.supervisor.caches(), paths, self.request["call_limit_s"], precision
        )

    def flush(self, rows: list) -> None:
        """Do nothing: on a GPU the ring and the slots that are poisoned before a train exceed the cache."""

    def evict_cache(self) -> None:
        self.oracle.call("evict_cache")

    def disturbance(self, pids: list[int]):
        return self.watch.disturbance_count()

    def disturbed(self, before, after, seconds: float, samples: list, slack_s: float) -> bool:
        """Whether other processes computed on the GPU meanwhile, or it ran out of queued work. Lower clocks do not
        count, since a kernel can cause them."""
        return before != after or any(sample.starved for sample in samples)

    def wait_until_settled(self) -> None:
        self.supervisor.device_fork_server(self.facts["capability"]).wait_until_settled()

    def telemetry(self) -> dict:
        return {"gpu": self.watch.summary()}

    def profiler(self) -> dict:
        """What the profiler sees of the harness's own kernel, in a process without others; measured at the first call
        only."""
        if self.supervisor.profiled is None:
            kernel = self.kernel({})
            try:
                self.supervisor.profiled = kernel.profile_own()
            finally:
                kernel.close()
        return self.supervisor.profiled


def backend_for(supervisor, request: dict) -> TimingBackend:
    """The backend for the device that a request names; InfraError where the harness does not know its kind."""
    kind = request.get("device", "cpu")
    if kind == "cpu":
        return TimingBackend(supervisor, request)
    if kind == "cuda":
        return GpuTimingBackend(supervisor, request)
    raise InfraError(f"this harness does not know devices of kind {kind!r}")
