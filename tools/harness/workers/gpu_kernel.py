"""The supervisor's side of kernels' processes on a GPU: their fork server, caches of compiled code, and the same
verbs as on a CPU."""

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
"""Processes kept with their context made, filled up when fewer than the least are left: correctness takes two, and
timing up to two."""
START_LIMIT_S = 120.0
BUILD_CACHE_SUFFIX = ".compiled"
"""In place of a library's suffix: the file with what its build left."""
BUSY_WAIT_S = 0.5
"""A train that the supervisor clocks is waited for awake for so long."""


class GpuForkServer(cpu_kernel.ForkServer):
    """Fork server for a GPU: its children have imported torch and triton, and spare ones also have their context."""

    def __init__(self, folder: Path, environment: dict[str, str], capability: int):
        self.base = folder / "triton"
        self.base.mkdir(exist_ok=True)
        extra = {"TRITON_CACHE_DIR": str(self.base), "TRITON_DEFAULT_FP_FUSION": "1", "TMPDIR": str(self.base)}
        super().__init__(folder, environment | extra, ("device", str(capability)))
        self.channel.send({"op": "warm", "count": MAX_SPARE_PROCESSES, "least": MIN_SPARE_PROCESSES})
        self.starting = True
        """It imports torch, and answers then."""

    def wait_until_started(self) -> None:
        """Wait until it has imported what its children need."""
        if self.starting:
            self.channel.recv(START_LIMIT_S)
            self.starting = False

    def spawn(self, theirs: socket.socket) -> int:
        self.wait_until_started()
        return super().spawn(theirs)

    def warm(self) -> None:
        """Start what is missing of the spare processes; returns before they are ready."""
        self.wait_until_started()
        self.channel.send({"op": "warm", "count": MAX_SPARE_PROCESSES, "least": MIN_SPARE_PROCESSES})
        self.channel.recv(START_LIMIT_S)

    def reap_later(self, pid: int) -> None:
        """A child that was killed: to be waited for later."""
        self.channel.send({"op": "bury", "pid": pid})
        self.channel.recv(30)

    def wait_until_settled(self) -> None:
        """Wait until no process is still starting or ending."""
        self.wait_until_started()
        self.channel.send({"op": "settled"})
        answer = self.channel.recv(START_LIMIT_S)[0]
        if answer["said"]:
            raise InfraError(f"a process for kernels on the GPU did not start: {answer['said'][-600:]}")


class CompileCaches:
    """Folders of compiled kernels, by the source's hash: what the build and then each candidate's own process left,
    for later processes."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.kept: dict[str, Path] = {}
        self.built: dict[str, Path] = {}
        """What came with the library and was not yet replaced by what a process left."""

    def add(self, source: bytes, beside: Path) -> None:
        """Take over what the build left of a library, where it is there: without it, kernels are compiled when they
        are launched."""
        identity = source_digest(source)
        if identity not in self.kept and identity not in self.built and beside.is_file():
            made = Path(tempfile.mkdtemp(prefix="built-", dir=self.folder))
            cache.write_entries(cache.read_archive(beside), made)
            if any(made.iterdir()):
                self.built[identity] = made

    def open(self, fork_server: GpuForkServer, sources: dict[str, bytes]) -> Path:
        """A new folder for a process with these sources, filled with what is known.

        A candidate, by its build or by its own process, may have left slow code under the key of somebody else's: so
        the others' and ours come last, and where it is not known what another launches, there is nothing of the
        candidate's and all is compiled there.
        """
        made = Path(tempfile.mkdtemp(prefix="cache-", dir=self.folder))
        known = self.built | self.kept
        own = source_digest(sources["candidate"]) if "candidate" in sources else ""
        others = [identity for source in sources.values() if (identity := source_digest(source)) != own]
        safe = own in known and all(identity in known for identity in others)
        for identity in [*([own] if safe else []), *others]:
            if identity in known:
                cache.write_entries(cache.contents(known[identity]), made)
        cache.write_entries(cache.contents(fork_server.base), made)
        return made

    def close(self, made: Path, sources: dict[str, bytes], *, launched: bool = True) -> None:
        """The process has ended: keep its folder when it had a single source that was not known, whose kernels it
        launched."""
        identity = source_digest(*sources.values())
        if len(sources) == 1 and identity not in self.kept and launched and made.is_dir():
            self.kept[identity] = made
            if replaced := self.built.pop(identity, None):
                shutil.rmtree(replaced, ignore_errors=True)
        else:
            shutil.rmtree(made, ignore_errors=True)


def source_digest(*sources: bytes) -> str:
    return hashlib.sha256(b"\0".join(source.rstrip() for source in sources)).hexdigest()


class GpuKernelProcess(cpu_kernel.KernelProcess):
    """One process with one or two kernels' modules in it."""

    launches = True

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
        return self.sources[name].decode(errors="replace")

    def load(self, name: str) -> dict:
        """Import one of the modules; KernelError when it cannot be had."""
        moment = "while being imported"
        self._ask({"op": "load", "name": name, "path": self.libraries[name]}, moment, self.limit_s, blamed=moment)
        return {"flags": 0, "omp": 0}

    def map(self, ring) -> None:
        """Have the ring's inputs and slots at hand; those of before go."""
        message = {"op": "map", "sizes": [ring.inputs.size, ring.slots.size], "sets": ring.made}
        message |= {"inputs": ring.inputs.offsets, "outputs": ring.slots.plan.offsets}
        moment = "while its buffers were mapped"
        self._ask(message, moment, fds=[ring.inputs.fd, ring.slots.fd], blamed=moment)

    def train(self, ring, at: list[int], slots: list[int]) -> list[tuple[int, int]]:
        """The arguments of a train of calls over these addresses and slots."""
        return list(zip(at, slots, strict=True))

    def run(self, name: str, packed: list[tuple[int, int]], calls: int) -> TrainSample:
        """A train of calls; KernelError when it does not come back, raises, or changed what it may not."""
        self._ask({"op": "prepare", "calls": packed, "fn": name, "spin": self.spin}, "between calls")
        start = time.perf_counter()
        self.channel.send({"op": "run"})
        if not self.spin:
            self.channel.watch(BUSY_WAIT_S)
        answer = self._answer("", self.limit_s)
        wall = time.perf_counter() - start
        self._raise_on_error(answer)
        self._ask({"op": "inspect"}, "between calls")
        self.launched |= bool(packed)
        return GpuTrainSample(answer, wall, calls)

    def flush(self, size: int) -> None:
        """Write through `size` bytes of other memory."""
        self._ask({"op": "flush", "bytes": size}, "between calls")

    def profile(self, name: str, packed: list[tuple[int, int]], library: bool) -> dict:
        """What one call executes: {kernels, streams, stream}; where it may call a `library`, also {seconds, launched,
        operators} as `kernel_trace.calling_operators` takes them; or {unavailable}."""
        self._ask({"op": "prepare", "calls": packed, "fn": name, "spin": False}, "between calls")
        moment = "under the profiler"
        answer = self._ask({"op": "profile", "library": library}, moment, max(self.limit_s, 60), blamed=moment)
        self._ask({"op": "inspect"}, "between calls", blamed=moment)
        return answer

    def profile_own(self) -> dict:
        """What the profiler reports of the harness's own kernel, in a process without other kernels."""
        self.channel.send({"op": "profile_own"})
        return self._answer("under the profiler", 60)

    def _reap(self, pid: int) -> None:
        """What it compiled may be kept."""
        self.fork_server.reap_later(pid)
        self.caches.close(self.cache, self.sources, launched=self.launched)

    def _death_reason(self, moment: str) -> str:
        said = super()._death_reason(moment)
        shutil.rmtree(self.cache, ignore_errors=True)
        return said


class GpuTrainSample(TrainSample):
    """One train of calls on a GPU."""

    def __init__(self, answer: dict, wall: float, calls: int):
        super().__init__({"ns": answer["device_s"] * 1e9, "before": 0, "after": 0, "omp": 0}, wall, calls)
        self.enqueue = answer["enqueue_s"]
        self.accounted_s = (
            max(answer["spin_s"], self.enqueue) + self.seconds if answer["spin_s"] else max(self.enqueue, self.seconds)
        )
        self.starved = answer["starved"]
        self.trailing_s = answer["left_s"]


def compile_caches_in(folder: Path) -> CompileCaches:
    (folder / "caches").mkdir(exist_ok=True)
    return CompileCaches(folder / "caches")


def gpu_environment(visible: str) -> dict[str, str]:
    """What processes on the GPU `visible` (an index or a UUID) see."""
    passed = {name: os.environ[name] for name in ("CC", "CXX", "CUDA_HOME", "CUDA_PATH") if name in os.environ}
    return sandbox.environment() | passed | {"CUDA_VISIBLE_DEVICES": visible, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
