"""Where kernels run and their buffers lie: what differs between a CPU and a GPU, behind one face for timing, contest and correctness."""

import devicebuffers
import devicekernels
import kernels
import nvml
import telemetry
from buffers import HostInputs, Inputs, Slots
from workload import InfraError, WorkloadError, kinds

CHUNK_BYTES = 128 << 20
MOST_SLOTS = 4 << 30
"""Bytes of output slots on a GPU at most."""


class Host:
    """This machine's cores and memory."""

    short_s, sample_s, longest = 50e-6, 120e-6, 1000
    """Kernels below `short_s` run as trains of at least `sample_s` and at most `longest` calls."""
    go_s = 5e-3
    """One go of a contest takes at least this long, so that the message there and back does not count."""
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
            raise WorkloadError(f"its buffers need {wanted:,} bytes, more than the {there:,} available")

    def slot_budget(self) -> int:
        """Bytes of output slots that one chunk of pairs may take."""
        return min(max(CHUNK_BYTES, 4 * self.cache()), self.memory() // 4)

    def contest_slots(self, addresses: int, slot_bytes: int) -> int:
        return max(min(addresses, (256 << 20) // slot_bytes), 1)

    def slot_bytes(self, sizes: list[int]) -> int:
        return Slots.bytes_each(sizes)

    def inputs(self, sizes: list[int], sets: int) -> HostInputs:
        return HostInputs(self.oracle, Inputs(sizes, sets))

    def slots(self, lane: int, sizes: list[int], floating: list[bool], count: int) -> Slots:
        made = Slots(sizes, floating, count)
        self.oracle.call("attach", size=made.shared.size, lane=lane, fds=[made.shared.fd])
        return made

    def kernel(self, libraries: dict[str, str]) -> kernels.Kernel:
        """A process for these libraries (name -> path in the job), none loaded yet."""
        paths = {name: self.supervisor.library(path) for name, path in libraries.items()}
        return self.supervisor.kernel(kinds(self.request["task"]), paths, self.request["call_limit_s"])

    def disturbance(self, pids: list[int]) -> float:
        """What `disturbed` compares with: seconds for which the processes' threads had to wait for a core."""
        return sum(telemetry.run_delay(pid) for pid in pids)

    def disturbed(self, before: float, after: float, seconds: float, samples: list, slack_s: float) -> bool:
        """Was a pair or round that took `seconds` spoilt by others?"""
        return after - before > 0.10 * seconds + slack_s

    def settled(self) -> None:
        """Nothing of ours may still be starting while kernels are timed."""

    def telemetry(self) -> dict:
        return {}


class Device(Host):
    """One GPU; the oracle alone among the trusted processes touches it."""

    sample_s, longest = 200e-6, 200
    go_s = 20e-3
    launched = True

    def __init__(self, supervisor, request: dict):
        self.supervisor, self.request = supervisor, request
        supervisor.choose(request.get("device_index", 0))
        self.oracle = supervisor.oracle()
        self.facts = self.oracle.call("begin", task=request["task"], device=request["device"])
        self.watch = nvml.Watch(supervisor.visible)
        self.first = self.watch.read()

    def cache(self) -> int:
        return self.facts["l2"]

    def memory(self) -> int:
        return int(0.9 * self.facts["free"])

    def slot_budget(self) -> int:
        return min(MOST_SLOTS, self.memory() // 4)

    def contest_slots(self, addresses: int, slot_bytes: int) -> int:
        return max(min(512, MOST_SLOTS // slot_bytes, self.memory() // 16 // slot_bytes), 1)

    def slot_bytes(self, sizes: list[int]) -> int:
        return devicebuffers.DeviceOutputs(sizes, 1).stride

    def inputs(self, sizes: list[int], sets: int) -> devicebuffers.DeviceInputs:
        return devicebuffers.DeviceInputs(self.oracle, sizes, sets)

    def slots(self, lane: int, sizes: list[int], floating: list[bool], count: int) -> devicebuffers.DeviceSlots:
        return devicebuffers.DeviceSlots(self.oracle, lane, sizes, floating, count)

    def kernel(self, libraries: dict[str, str]):
        paths = {name: self.supervisor.library(path) for name, path in libraries.items()}
        nursery = self.supervisor.device_nursery(self.facts["capability"])
        return devicekernels.DeviceKernel(nursery, self.supervisor.caches(), paths, self.request["call_limit_s"])

    def disturbance(self, pids: list[int]):
        return self.watch.state()

    def disturbed(self, before, after, seconds: float, samples: list, slack_s: float) -> bool:
        return before != after or any(sample.starved for sample in samples)

    def settled(self) -> None:
        self.supervisor.device_nursery(self.facts["capability"]).settled()

    def telemetry(self) -> dict:
        return {"gpu": self.watch.summary(self.first, self.watch.read())}


def of(supervisor, request: dict) -> Host:
    """The place that a request names."""
    kind = request.get("device", "cpu")
    if kind == "cpu":
        return Host(supervisor, request)
    if kind == "cuda":
        return Device(supervisor, request)
    raise InfraError(f"this harness does not know devices of kind {kind!r}")
