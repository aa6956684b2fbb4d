"""The supervisor's side of kernels' processes on a GPU: their fork server, the caches of compiled code, and the same
requests as on a CPU."""

import hashlib
import os
import shutil
import socket
import sys
import tempfile
import time
from pathlib import Path

from harness.compilation import cache
from harness.isolation import sandbox
from harness.memory.input_ring import InfraError
from harness.workers import cpu_kernel
from harness.workers.cpu_kernel import TrainSample

MAX_SPARE_PROCESSES, MIN_SPARE_PROCESSES = 4, 2
"""Spare processes that have a context: new ones start when fewer than the minimum are left. Correctness takes two, and
timing up to two."""
START_LIMIT_S = 120.0
"""Seconds that a process may take to import torch and create its context."""
BUILD_CACHE_SUFFIX = ".compiled"
"""Suffix of the file with the code that a build compiled, in place of the kernel file's suffix."""
DRIVER_RUN_NS, DRIVER_SHARE = 1_000_000, 0.005
"""How long the driver's own threads may run in an idle process: nanoseconds, and a share of the time. On an H200 one
ran for 0.0007 of it."""
BUSY_WAIT_S = 0.5
"""Longest time in which the supervisor polls without sleeping for a train that it times itself."""


class GpuForkServer(cpu_kernel.ForkServer):
    """Fork server of a GPU: its children have imported torch and triton, and spare ones have a context as well."""

    def __init__(self, folder: Path, environment: dict[str, str], capability: int):
        self.base = folder / "triton"
        self.base.mkdir(exist_ok=True)
        extra = {"TRITON_CACHE_DIR": str(self.base), "TRITON_DEFAULT_FP_FUSION": "1", "TMPDIR": str(self.base)}
        super().__init__(folder, environment | extra, ("device", str(capability)))
        self.channel.send({"op": "warm", "count": MAX_SPARE_PROCESSES, "least": MIN_SPARE_PROCESSES})
        self.starting = True
        """Whether it is still importing torch; it answers once that is done."""

    def wait_until_started(self) -> None:
        """Wait until the fork server has imported what its children need."""
        if self.starting:
            self.channel.recv(START_LIMIT_S)
            self.starting = False

    def spawn(self, theirs: socket.socket) -> int:
        self.wait_until_started()
        return super().spawn(theirs)

    def warm(self) -> None:
        """Start the missing spare processes; returns before they are ready."""
        self.wait_until_started()
        self.channel.send({"op": "warm", "count": MAX_SPARE_PROCESSES, "least": MIN_SPARE_PROCESSES})
        self.channel.recv(START_LIMIT_S)

    def reap_later(self, pid: int) -> None:
        """Let the fork server reap a killed child later."""
        self.channel.send({"op": "reap_later", "pid": pid})
        self.channel.recv(30)

    def wait_until_settled(self) -> None:
        """Wait until no process is starting or ending; raise InfraError if one could not start."""
        self.wait_until_started()
        self.channel.send({"op": "wait_until_settled"})
        answer = self.channel.recv(START_LIMIT_S)[0]
        if answer["error"]:
            raise InfraError(f"a process for kernels on the GPU did not start: {answer['error'][-600:]}")


class CompileCaches:
    """Folders of compiled kernels by the hash of their source, first from the build and then from the candidate's own
    process, for later processes."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.from_processes: dict[str, Path] = {}
        self.from_builds: dict[str, Path] = {}
        """Folders from builds that no process has replaced yet."""

    def add(self, source: bytes, beside: Path) -> None:
        """Import the compiled code of a build, if there is any; without it, kernels are compiled when they are
        launched."""
        identity = source_digest(source)
        if identity not in self.from_processes and identity not in self.from_builds and beside.is_file():
            folder = Path(tempfile.mkdtemp(prefix="built-", dir=self.folder))
            cache.write_entries(cache.read_archive(beside), folder)
            if any(folder.iterdir()):
                self.from_builds[identity] = folder

    def open(self, fork_server: GpuForkServer, sources: dict[str, bytes]) -> Path:
        """Return a new cache folder for a process with these sources, filled with known code.

        A candidate's build or process may have stored slow code under the key of another kernel. Therefore the code of
        the others and of the harness is written last. If the code of another kernel is unknown, the candidate's code is
        left out and everything is compiled in the process.
        """
        folder = Path(tempfile.mkdtemp(prefix="cache-", dir=self.folder))
        known = self.from_builds | self.from_processes
        candidate = source_digest(sources["candidate"]) if "candidate" in sources else ""
        others = [identity for source in sources.values() if (identity := source_digest(source)) != candidate]
        is_complete = candidate in known and all(identity in known for identity in others)
        for identity in [*([candidate] if is_complete else []), *others]:
            if identity in known:
                cache.write_entries(cache.contents(known[identity]), folder)
        cache.write_entries(cache.contents(fork_server.base), folder)
        return folder

    def close(self, folder: Path, sources: dict[str, bytes], *, launched: bool = True) -> None:
        """Keep the folder of a process that has ended if the process launched kernels of a single source that is not
        known yet, or delete it."""
        identity = source_digest(*sources.values())
        if len(sources) == 1 and identity not in self.from_processes and launched and folder.is_dir():
            self.from_processes[identity] = folder
            if replaced := self.from_builds.pop(identity, None):
                shutil.rmtree(replaced, ignore_errors=True)
        else:
            shutil.rmtree(folder, ignore_errors=True)


def source_digest(*sources: bytes) -> str:
    """Return the hash of these sources without trailing space."""
    return hashlib.sha256(b"\0".join(source.rstrip() for source in sources)).hexdigest()


class GpuKernelProcess(cpu_kernel.KernelProcess):
    """A process with one or two kernels' modules in it."""

    launches = True
    idle_run_ns, idle_share = DRIVER_RUN_NS, DRIVER_SHARE

    def __init__(
        self,
        fork_server: GpuForkServer,
        caches: CompileCaches,
        libraries: dict[str, str],
        limit_s: float,
        precision: str,
    ):
        self.fork_server, self.caches, self.libraries, self.limit_s = fork_server, caches, libraries, limit_s
        self.sources = {name: Path(path).read_bytes() for name, path in libraries.items()}
        for name, path in libraries.items():
            caches.add(self.sources[name], Path(path).with_suffix(BUILD_CACHE_SUFFIX))
        self.cache = caches.open(fork_server, self.sources)
        self.spin = True
        self.launched = False
        readable = [*libraries.values(), sys.prefix, sys.base_prefix]
        self._start(
            caches.folder, {"readable": readable, "cache": str(self.cache), "precision": precision}, START_LIMIT_S
        )

    def source(self, name: str) -> str:
        """Return the source of the kernel `name`."""
        return self.sources[name].decode(errors="replace")

    def load(self, name: str) -> dict:
        """Import one of the modules; raise KernelError if it cannot be imported."""
        moment = "while being imported"
        self._ask({"op": "load", "name": name, "path": self.libraries[name]}, moment, self.limit_s, blamed=moment)
        return {"flags": 0, "omp": 0}

    def map(self, ring) -> None:
        """Map the ring's inputs and slots, and unmap those of before."""
        self.prepared = None
        message = {
            "op": "map",
            "sizes": [ring.inputs.size, ring.slots.size],
            "sets": [ring.arguments(at) for at in range(ring.addresses)],
        }
        message |= {"inputs": ring.inputs.offsets, "outputs": ring.slots.plan.offsets}
        moment = "while its buffers were mapped"
        self._ask(message, moment, fds=[ring.inputs.fd, ring.slots.fd], blamed=moment)

    def train(self, ring, at: list[int], slots: list[int]) -> list[tuple[int, int]]:
        """Return the addresses and slots of a train of calls."""
        return list(zip(at, slots, strict=True))

    def prepare(self, packed: list[tuple[int, int]]) -> None:
        """Overwrite what earlier calls left in freed memory. `run` sends the calls, because new scalars come with `map`
        after new inputs were drawn."""
        self._ask({"op": "scatter_noise"}, "between calls")
        self.require_idleness(packed)

    def run(self, name: str, packed: list[tuple[int, int]], calls: int, replay: bool = False) -> TrainSample:
        """Run a train of calls, or `replay` the graph that `capture` made of them; raise KernelError if it does not
        return, raises, or changes guarded state."""
        self.prepared = None
        self._ask({"op": "prepare", "calls": packed, "fn": name, "spin": self.spin}, "between calls")
        start = time.perf_counter()
        self._send({"op": "run", "replay": replay})
        if not self.spin:
            self.channel.watch(BUSY_WAIT_S)
        answer = self._answer("", self.limit_s)
        wall = time.perf_counter() - start
        self._raise_on_error(answer)
        self._ask({"op": "inspect"}, "between calls")
        self.launched |= bool(packed)
        return GpuTrainSample(answer, wall, calls)

    def capture(self, name: str, packed: list[tuple[int, int]]) -> dict:
        """Capture the calls in a graph; {nodes: symbols of its kernels}, or {uncaptured: why}."""
        self._ask({"op": "prepare", "calls": packed, "fn": name, "spin": False}, "between calls")
        moment = "while it was captured in a CUDA graph"
        answer = self._ask({"op": "capture"}, moment, max(self.limit_s, 60), blamed=moment)
        self._ask({"op": "inspect"}, "between calls", blamed=moment)
        return answer

    def flush(self, size: int) -> None:
        """Overwrite `size` bytes of other memory, to evict buffers from the cache."""
        self.check_idle()
        self._ask({"op": "flush", "bytes": size}, "between calls")
        if self.prepared is not None:
            self.require_idleness(self.prepared)

    def profile(self, name: str, packed: list[tuple[int, int]], library: bool) -> dict:
        """Return what one call executes: {kernels, streams, stream}, or {unavailable}.

        With `library`, for kernels that may call library operators, also {seconds, launched, operators} as
        `kernel_trace.calling_operators` takes them.
        """
        self._ask({"op": "prepare", "calls": packed, "fn": name, "spin": False}, "between calls")
        moment = "under the profiler"
        answer = self._ask({"op": "profile", "library": library}, moment, max(self.limit_s, 60), blamed=moment)
        self._ask({"op": "inspect"}, "between calls", blamed=moment)
        return answer

    def profile_own(self) -> dict:
        """Return what the profiler reports about the harness's own kernel in a process without other kernels."""
        self.channel.send({"op": "profile_own"})
        return self._answer("under the profiler", 60)

    def _reap(self, pid: int) -> None:
        """Let the fork server reap the process later, and keep the code that it compiled."""
        self.fork_server.reap_later(pid)
        self.caches.close(self.cache, self.sources, launched=self.launched)

    def _death_reason(self, moment: str) -> str:
        reason = super()._death_reason(moment)
        shutil.rmtree(self.cache, ignore_errors=True)
        return reason


class GpuTrainSample(TrainSample):
    """Timing of one train of calls on a GPU."""

    def __init__(self, answer: dict, wall: float, calls: int):
        super().__init__({"ns": answer["device_s"] * 1e9, "before": 0, "after": 0, "omp": 0}, wall, calls)
        self.enqueue = answer["enqueue_s"]
        self.accounted_s = (
            max(answer["spin_s"], self.enqueue) + self.seconds if answer["spin_s"] else max(self.enqueue, self.seconds)
        )
        self.starved = answer["starved"]
        self.trailing_s = answer["left_s"]


def compile_caches_in(folder: Path) -> CompileCaches:
    """Return caches in a new subfolder of `folder`."""
    (folder / "caches").mkdir(exist_ok=True)
    return CompileCaches(folder / "caches")


def gpu_environment(visible: str) -> dict[str, str]:
    """Return the environment of processes on the GPU `visible` (an index or a UUID)."""
    passed = {name: os.environ[name] for name in ("CC", "CXX", "CUDA_HOME", "CUDA_PATH") if name in os.environ}
    return sandbox.environment() | passed | {"CUDA_VISIBLE_DEVICES": visible, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
