"""Entry of the harness: answers `request.json` in the job's folder with `result.json`.

`supervisor.py request.json` answers one request. With `--serve` it reads lines {"folder": path, "memory_bytes": n} on
stdin, answers each folder's request with a line {"exit": 0} on stdout, and ends when stdin closes. The oracle and the
fork server are its children; they start when they are first needed and stay. Only the supervisor times contests, and it
trusts no answer of a kernel's process about correctness.
"""

import contextlib
import functools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

# For this import only: other files of the job's folder, such as a candidate's kernel.py, must not be importable.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import harness  # noqa: F401

sys.path.pop(0)
from harness.device import nvml, telemetry
from harness.isolation import ipc, sandbox
from harness.measurement import backend, correctness, interleaved, needed, timing
from harness.memory.input_ring import InfraError, WorkloadError
from harness.workers import cpu_kernel, gpu_kernel, trampoline

HARNESS_FOLDER = Path(__file__).resolve().parent
FOR_TORCH = (
    "HOME",
    "TMPDIR",
    "TORCHINDUCTOR_CACHE_DIR",
    "TRITON_CACHE_DIR",
    "CC",
    "CXX",
    "USER",
    "XDG_CACHE_HOME",
    "SSL_CERT_FILE",
    "CUDA_HOME",
    "CUDA_PATH",
    "TORCH_EXTENSIONS_DIR",
    "TORCH_CUDA_ARCH_LIST",
    "MAX_JOBS",
)
ORACLE_LIMIT_S = 600.0
# The oracle allocates and frees the same tens of megabytes many times. Malloc keeps them, or page faults cost more than
# the arithmetic.
KEEP_MEMORY = {"THP_MEM_ALLOC_ENABLE": "1", "MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 30)}


def torch_environment() -> dict[str, str]:
    """Return the environment of a process with torch in it."""
    return sandbox.environment() | {name: os.environ[name] for name in FOR_TORCH if name in os.environ}


class TorchProcess:
    """A child with a channel and torch: the oracle, or a contestant under eager or compile."""

    def __init__(self, script: str, folder: Path, extra: dict[str, str] | None = None):
        ours, theirs = ipc.socket_pair()
        self.log = folder / f"{Path(script).name}.{time.monotonic_ns()}.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-I", str(HARNESS_FOLDER / script), str(theirs.fileno()), str(os.getpid())],
                pass_fds=[theirs.fileno()],
                env=torch_environment() | (extra or {}),
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        theirs.close()
        sandbox.LIVE_PIDS.add(self.process.pid)
        self.channel = ipc.Channel(ours)
        self.is_warming_up = False
        """Whether it was told to warm up and has not answered yet."""

    def call(self, op: str, limit_s: float = ORACLE_LIMIT_S, fds=(), watched_s: float = 0.0, **message) -> dict:
        """Send one verb and return its answer.

        Raises WorkloadError for a fault of the reference and InfraError for one of the machine. For `watched_s` seconds
        the wait does not sleep.
        """
        self.send(op, fds, **message)
        return self.answer(op, limit_s, watched_s)

    def send(self, op: str, fds=(), **message) -> None:
        """Send a verb without waiting; `answer` must be called before the next verb."""
        with contextlib.suppress(ipc.ClosedError):
            self.channel.send({"op": op, **message}, fds)

    def answer(self, op: str, limit_s: float = ORACLE_LIMIT_S, watched_s: float = 0.0) -> dict:
        """Return the answer to the verb `op` that was sent; raises as `call` does."""
        try:
            if watched_s:
                self.channel.watch(watched_s)
            answer, carried = self.channel.recv(limit_s)
            if carried:
                answer["fds"] = carried
        except (ipc.ClosedError, ipc.LateError) as error:
            self.close()
            timed_out = isinstance(error, ipc.LateError)
            end_of_log = self.log.read_text(errors="replace")[-300:].strip().replace("\n", " | ")
            raise InfraError(
                f"{self.log.name.split('.')[0]} "
                f"{f'did not answer within {limit_s:g} s' if timed_out else f'died ({self.process.returncode})'} "
                f"while asked to {op}{f': {end_of_log}' if end_of_log else ''}"
            ) from error
        if "infra" in answer:
            raise InfraError(f"{answer['infra']}: {answer.get('log', '')[-600:]}")
        if "error" in answer:
            workload_error = WorkloadError(answer["error"])
            workload_error.log, workload_error.wrong = answer.get("log", ""), answer.get("wrong", 0)
            raise workload_error
        return answer

    @property
    def is_alive(self) -> bool:
        """Whether the process is running."""
        return self.process.poll() is None

    def signal(self, number: int) -> None:
        """Send a signal to the process and to the compilers that it started; ignored if they have ended."""
        with contextlib.suppress(OSError):
            os.killpg(self.process.pid, number)

    def close(self) -> None:
        """Kill the process and all of its descendants, which fall to this process even from sessions of their own."""
        self.channel.close()
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except OSError:
            self.process.kill()
        self.process.wait()
        sandbox.end_orphans(sandbox.LIVE_PIDS)
        sandbox.LIVE_PIDS.discard(self.process.pid)


class Supervisor:
    """Starts and keeps the harness's processes, and answers requests."""

    def __init__(self):
        self.scratch = Path(tempfile.mkdtemp(prefix="harness-", dir=Path.cwd()))
        self.job = Path.cwd()
        self.memory = int(os.environ.get("HARNESS_MEMORY_BYTES", 8 << 30))
        self._oracle: TorchProcess | None = None
        self._fork_server: cpu_kernel.ForkServer | None = None
        self._device_fork_server: gpu_kernel.GpuForkServer | None = None
        self._caches: gpu_kernel.CompileCaches | None = None
        self._contestants: dict[str, TorchProcess] = {}
        """Torch's contestants that were started before their contest, or kept after one."""
        self.visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
        """The GPU of all processes of the harness: the one visible to this process, until a request chooses another."""
        self._watches: dict[str, nvml.GpuWatch] = {}
        self.profiled: dict | None = None
        """What the profiler reports about the harness's own kernel; None before the first try."""

    def select_gpu(self, index: int) -> None:
        """Use the GPU with this index among the visible ones; processes that see another one are ended."""
        listed = [name.strip() for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name.strip()]
        if listed and index >= len(listed):
            raise InfraError(f"there is no device {index}; CUDA_VISIBLE_DEVICES lists {len(listed)}")
        chosen = listed[index] if listed else str(index)
        if chosen != self.visible:
            self.restart()
            self.visible = chosen

    def gpu_watch(self) -> nvml.GpuWatch:
        """Return the watch of the current GPU, created before the harness's first process uses it."""
        if self.visible not in self._watches:
            self._watches[self.visible] = nvml.GpuWatch(self.visible)
        return self._watches[self.visible]

    def oracle(self) -> TorchProcess:
        """Return the oracle; start it if it is not running."""
        if self._oracle is None or not self._oracle.is_alive:
            self._oracle = TorchProcess("reference/oracle.py", self.scratch, KEEP_MEMORY | self._gpu_environment())
        return self._oracle

    def torch_process(self, kind: str) -> TorchProcess:
        """Return a process for the reference under `kind`: one that was started in advance, or a new one."""
        waiting = self._contestants.pop(kind, None)
        if waiting is not None and waiting.is_alive:
            waiting.signal(signal.SIGCONT)
            return waiting
        # On a CPU, Inductor never uses its pool of compiling processes, which would stay for the whole run.
        extra_environment = {} if self.visible else {"TORCH_WARM_POOL": "0"}
        return TorchProcess("workers/torch_worker.py", self.scratch, self._gpu_environment() | extra_environment)

    def keep_process(self, kind: str, process: TorchProcess) -> None:
        """Keep a contestant's process for the next contest with this `kind`."""
        self._contestants[kind] = process

    def prepare(self, request: dict) -> dict:
        """Start torch's contestants in advance; their answers are read when they are used. A request without
        contestants stops the waiting ones until the next timing is over."""
        if not request["frameworks"]:
            self.signal_contestants(signal.SIGSTOP)
            return {"kind": "prepare"}
        if request["device"] != "cpu":
            self.select_gpu(request["device_index"])
            self.gpu_watch()  # before a process of the harness uses the GPU
            self.oracle()
            self.device_fork_server(request["capability"])
        for kind in request["frameworks"]:
            if kind not in self._contestants:
                self._contestants[kind] = self.torch_process(kind)
                self._contestants[kind].is_warming_up = True
                self._contestants[kind].send(
                    "warm_up", mode=kind, task=request["task"], dims=request["dims"], device=request["device"]
                )
        return {"kind": "prepare"}

    @contextlib.contextmanager
    def paused_contestants(self):
        """Context in which the contestants that were started in advance are stopped, while kernels are checked and
        timed."""
        self.signal_contestants(signal.SIGSTOP)
        try:
            yield
        finally:
            self.signal_contestants(signal.SIGCONT)

    def signal_contestants(self, number: int) -> None:
        """Send a signal to all contestants that were started in advance."""
        for process in list(self._contestants.values()):
            process.signal(number)

    def _gpu_environment(self) -> dict[str, str]:
        """Return the environment variables that select the GPU."""
        # A job on a CPU sees no GPU, and neither may torch, which would create a context on each.
        hidden = os.environ.get("CUDA_VISIBLE_DEVICES") == ""
        return (
            {"CUDA_VISIBLE_DEVICES": self.visible, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"} if self.visible or hidden else {}
        )

    def device_fork_server(self, capability: int) -> gpu_kernel.GpuForkServer:
        """Return the parent of kernels' processes on the GPU. `capability` is ten times the major plus the minor number
        of its architecture."""
        if self._device_fork_server is None or self._device_fork_server.process.poll() is not None:
            self._device_fork_server = gpu_kernel.GpuForkServer(
                self.scratch, gpu_kernel.gpu_environment(self.visible), capability
            )
        return self._device_fork_server

    def caches(self) -> gpu_kernel.CompileCaches:
        """Return the caches of compiled kernels."""
        self._caches = self._caches or gpu_kernel.compile_caches_in(self.scratch)
        return self._caches

    def fork_server(self) -> cpu_kernel.ForkServer:
        """Return the parent of kernels' processes on the CPU."""
        if self._fork_server is None or self._fork_server.process.poll() is not None:
            self._fork_server = cpu_kernel.ForkServer(self.scratch)
        return self._fork_server

    @functools.cached_property
    def flush(self):
        """Function that evicts (address, bytes) from the caches."""
        return trampoline.load_flush_function(self.scratch)

    def kernel_process(
        self, kinds: tuple[str, ...], libraries: dict[str, str], limit_s: float
    ) -> cpu_kernel.KernelProcess:
        """Start a process for kernels with parameters of these kinds."""
        space = self.memory + (4 << 30) + (160 << 20) * (os.cpu_count() or 1)
        return cpu_kernel.KernelProcess(self.fork_server(), kinds, self.scratch, libraries, space, limit_s)

    def job_file(self, relative: str) -> str:
        """Return the path of a file in the job's folder; raise InfraError if there is none."""
        path = (self.job / relative).resolve()
        if not path.is_file():
            raise InfraError(f"the job has no file {relative}")
        return str(path)

    def own_cpu_seconds(self) -> float:
        """Return the CPU seconds of this process, its children, and those that they have reaped."""
        pids = [os.getpid()]
        children = (self._oracle, self._fork_server, self._device_fork_server, *self._contestants.values())
        pids += [child.process.pid for child in children if child is not None]
        return sum(telemetry.cpu_seconds_of(pid) for pid in pids)

    def answer_folder(self, folder: Path) -> None:
        """Answer the request in `folder`."""
        self.job = folder
        try:
            request = json.loads((folder / "request.json").read_text())
            result = self.answer(request)
        except (InfraError, trampoline.NoCompilerError, MemoryError) as error:
            result = {"kind": "infra", "error": str(error) or "out of memory"}
        except WorkloadError as error:
            result = {"kind": "infra", "error": f"the reference failed where it did not before: {error}"}
        except Exception as error:
            result = {"kind": "infra", "error": f"the harness failed: {error!r}\n{traceback.format_exc()[-2000:]}"}
        if result["kind"] == "infra":
            self.restart()
        part = folder / "result.json.part"
        part.write_text(json.dumps(result))
        part.rename(folder / "result.json")
        if self._device_fork_server is not None and not self._device_fork_server.starting:
            self._device_fork_server.warm()  # between jobs, so that no context is made while a kernel is timed

    def answer_job(self, order: dict) -> int:
        """Answer one job of a process that stays; return 0."""
        self.memory = int(order.get("memory_bytes", self.memory))
        os.chdir(order["folder"])
        self.answer_folder(Path(order["folder"]))
        os.chdir("/")
        return 0

    def end_children(self) -> None:
        """End at once: children die with this process, but what they started would not."""
        for pid in sandbox.descendant_pids(os.getpid()):
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self.scratch, ignore_errors=True)

    def answer(self, request: dict) -> dict:
        """Return the answer to a request; raises InfraError and WorkloadError."""
        kind = request["kind"]
        if kind == "probe":
            if request["device"] != "cpu":
                self.select_gpu(0)
                self.gpu_watch()  # before a process of the harness uses the GPU
            bound = request["memory_bytes"] or min(self.memory, telemetry.available_memory())
            try:
                return self.oracle().call("probe", request={**request, "memory_bytes": bound})
            except WorkloadError as error:
                return {"kind": "probe", "error": str(error), "error_log": error.log}
        if kind == "inductor":
            try:
                return backend.backend_for(self, request).oracle.call(
                    "compile_reference", others=request["others"], seconds=request["search_s"]
                )
            except WorkloadError as error:
                return {"kind": "inductor", "refused": str(error)}
        if kind == "prepare":
            return self.prepare(request)
        module = {"correctness": correctness, "timing": timing, "contest": interleaved, "needed": needed}.get(kind)
        if module is None:
            raise InfraError(f"this harness does not know requests of kind {kind!r}")
        with self.paused_contestants():
            return module.answer(self, request)

    def restart(self) -> None:
        """Close all children after a failure of the harness; new ones start when they are next needed."""
        for child in (self._oracle, self._fork_server, self._device_fork_server, *self._contestants.values()):
            if child is not None:
                child.close()
        self._contestants.clear()
        self._oracle = self._fork_server = self._device_fork_server = self.profiled = None

    def close(self) -> None:
        """Close all children and delete the scratch folder."""
        self.restart()
        shutil.rmtree(self.scratch, ignore_errors=True)


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sandbox.become_subreaper()
    supervisor = Supervisor()
    try:
        if "--serve" in sys.argv:
            ipc.serve_jobs(supervisor.answer_job, supervisor.end_children)
        else:
            supervisor.answer_folder(Path(sys.argv[1]).resolve().parent)
    finally:
        supervisor.close()


if __name__ == "__main__":
    main()
