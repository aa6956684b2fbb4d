"""Where kernels run and their buffers lie: what differs between a CPU and a GPU, behind one face for timing, contest
and correctness."""

import os

from harness.device import telemetry
from harness.measurement.paired_samples import COLD, ring_size
from harness.memory import gpu_layout
from harness.memory.host_buffers import BEHIND, HostInputs, Inputs, Slots
from harness.memory.input_ring import InfraError, WorkloadError, kinds
from harness.workers import cpu_kernel, gpu_kernel

CHUNK_BYTES = 128 << 20
RING_BYTES = 64 << 20
MOST_SLOTS = 4 << 30
"""Bytes of output slots on a GPU at most."""


class Host:
    """This machine's cores and memory."""

    short_s, sample_s, longest = 50e-6, 120e-6, 1000
    """Kernels below `short_s` run as trains of at least `sample_s` and at most `longest` calls."""
    go_s = 5e-3
    """One go of a contest takes at least this long, so that the message there and back does not count."""
    sitting: int | None = 1
    """Rounds of a contest for which the kernels' processes are kept; None: all of them."""
    launched = False
    """Calls only launch the work."""

    def __init__(self, supervisor, request: dict):
        self.supervisor, self.request = supervisor, request
        self.oracle = supervisor.oracle()
        self.oracle.call("begin", task=request["task"])

    def cache(self) -> int:
        """Bytes of the last-level cache."""
        return telemetry.last_level_cache()

    def memory(self) -> int:
        """Bytes that buffers may take."""
        return min(self.supervisor.memory, telemetry.available_memory())

    def room(self, wanted: int) -> None:
        """Refuse what cannot be had, in words."""
        there = self.memory()
        if wanted > there:
            raise WorkloadError(
                f"its buffers need {wanted:,} bytes, more than the {there:,} available; use smaller dims"
            )

    def ring(self, set_bytes: int, calls: int) -> tuple[int, int, int]:
        """`ring_size` here. What a call finds is flushed before it, so that a ring need not be larger than caches of
        hundreds of MiB."""
        distinct, addresses, _ = ring_size(set_bytes, min(self.cache(), RING_BYTES // COLD), calls, self.memory())
        return distinct, addresses, 0

    def slot_budget(self) -> int:
        """Bytes of output slots that one chunk of pairs may take."""
        return min(CHUNK_BYTES, self.memory() // 4)

    def contest_slots(self, addresses: int, slot_bytes: int) -> int:
        return max(min(addresses, (256 << 20) // slot_bytes), 1)

    def slot_bytes(self, sizes: list[int]) -> int:
        return Slots.bytes_each(sizes)

    def inputs(self, sizes: list[int], sets: int, edge: str = "") -> HostInputs:
        return HostInputs(self.oracle, Inputs(sizes, sets, edge or BEHIND))

    def slots(self, lane: int, sizes: list[int], floating: list[bool], count: int, edge: str = "") -> Slots:
        made = Slots(sizes, floating, count, edge)
        self.oracle.call("attach", size=made.shared.size, lane=lane, fds=[made.shared.fd])
        return made

    def kernel(self, libraries: dict[str, str]) -> cpu_kernel.Kernel:
        """A process for these libraries (name -> path in the job), none loaded yet."""
        paths = {name: self.supervisor.library(path) for name, path in libraries.items()}
        return self.supervisor.kernel(kinds(self.request["task"]), paths, self.request["call_limit_s"])

    def flush(self, rows: list[tuple[HostInputs | Slots, list[int]]]) -> None:
        """Put these rows of buffers out of all caches: (the file, which sets or slots of it)."""
        for buffers, which in rows:
            for offsets in (buffers.plan.offsets[row] for row in which):
                for offset, size in zip(offsets, buffers.plan.sizes, strict=True):
                    self.supervisor.flush(buffers.shared.address + offset, size)

    def disturbance(self, pids: list[int]) -> list[telemetry.Threads]:
        """What `disturbed` compares with: what the processes' threads have had of the cores so far."""
        return [telemetry.Threads(pid) for pid in pids]

    def disturbed(self, before: list, after: list, seconds: float, samples: list, slack_s: float) -> bool:
        """Was a pair or round that took `seconds` spoilt by others? Then its threads had to wait for a core.

        More threads than cores also wait for each other: of theirs, at most that counts in which the cores did
        something else.
        """
        waited, cores = 0.0, len(os.sched_getaffinity(0))
        for old, new in zip(before, after, strict=True):
            wait = new.waited - old.waited
            waited += min(wait, max(cores * seconds - (new.ran - old.ran), 0.0)) if new.count > cores else wait
        return waited > 0.10 * seconds + slack_s

    def settled(self) -> None:
        """Nothing of ours may still be starting while kernels are timed."""

    def telemetry(self) -> dict:
        return {}


class Device(Host):
    """One GPU; the oracle alone among the trusted processes touches it."""

    sample_s, longest = 200e-6, 200
    go_s = 20e-3
    sitting = None
    launched = True

    def __init__(self, supervisor, request: dict):
        self.supervisor, self.request = supervisor, request
        supervisor.choose(request.get("device_index", 0))
        self.watch = supervisor.watch()  # before the oracle: who is on the GPU before us is not ours
        self.oracle = supervisor.oracle()
        self.facts = self.oracle.call("begin", task=request["task"], device=request["device"])
        self.watch.begin()

    def cache(self) -> int:
        return self.facts["l2"]

    def memory(self) -> int:
        return int(0.9 * self.facts["free"])

    def ring(self, set_bytes: int, calls: int) -> tuple[int, int, int]:
        return ring_size(set_bytes, self.cache(), calls, self.memory())

    def slot_budget(self) -> int:
        return min(MOST_SLOTS, self.memory() // 4)

    def contest_slots(self, addresses: int, slot_bytes: int) -> int:
        return max(min(512, MOST_SLOTS // slot_bytes, self.memory() // 16 // slot_bytes), 1)

    def slot_bytes(self, sizes: list[int]) -> int:
        return gpu_layout.DeviceOutputs(sizes, 1).stride

    def inputs(self, sizes: list[int], sets: int, edge: str = "") -> gpu_layout.DeviceInputs:
        return gpu_layout.DeviceInputs(self.oracle, sizes, sets)

    def slots(
        self, lane: int, sizes: list[int], floating: list[bool], count: int, edge: str = ""
    ) -> gpu_layout.DeviceSlots:
        return gpu_layout.DeviceSlots(self.oracle, lane, sizes, floating, count)

    def kernel(self, libraries: dict[str, str]):
        paths = {name: self.supervisor.library(path) for name, path in libraries.items()}
        fork_server = self.supervisor.device_fork_server(self.facts["capability"])
        precision = self.request["task"]["numeric"]["precision"]
        return gpu_kernel.DeviceKernel(
            fork_server, self.supervisor.caches(), paths, self.request["call_limit_s"], precision
        )

    def flush(self, rows: list) -> None:
        """The slots that are poisoned before a go and the ring are larger than the cache."""

    def disturbance(self, pids: list[int]):
        return self.watch.state()

    def disturbed(self, before, after, seconds: float, samples: list, slack_s: float) -> bool:
        """Did others compute on the GPU meanwhile, or did it run dry? Lower clocks are noted apart: a kernel can
        bring them about."""
        return before != after or any(sample.starved for sample in samples)

    def settled(self) -> None:
        self.supervisor.device_fork_server(self.facts["capability"]).settled()

    def telemetry(self) -> dict:
        return {"gpu": self.watch.summary()}

    def profiler(self) -> dict:
        """What the profiler sees of a kernel of ours, in a process with no other: tried once, when it first matters."""
        if self.supervisor.profiled is None:
            kernel = self.kernel({})
            try:
                self.supervisor.profiled = kernel.profile_own()
            finally:
                kernel.close()
        return self.supervisor.profiled


def of(supervisor, request: dict) -> Host:
    """The place that a request names."""
    kind = request.get("device", "cpu")
    if kind == "cpu":
        return Host(supervisor, request)
    if kind == "cuda":
        return Device(supervisor, request)
    raise InfraError(f"this harness does not know devices of kind {kind!r}")
