"""Entry of the harness: answers `request.json` in the job's folder with `result.json`.

`supervisor.py request.json` answers one request. With `--serve` it reads lines {"folder": path, "memory_bytes": n} on
stdin, answers each folder's request with a line {"exit": 0} on stdout, and ends with stdin. Oracle and fork server are
its children, started when first needed and kept. It alone clocks contests and believes nothing that a kernel's process
says about correctness.
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

# For this import alone: what else lies in the job's folder, a candidate's kernel.py among it, is not to be importable.
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
)
ORACLE_LIMIT_S = 600.0
# The oracle allocates and frees the same tens of megabytes again and again: keep them, or page faults cost more than
# the arithmetic.
KEEP_MEMORY = {"THP_MEM_ALLOC_ENABLE": "1", "MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 30)}


def torch_environment() -> dict[str, str]:
    """What a process with torch in it sees."""
    return sandbox.environment() | {name: os.environ[name] for name in FOR_TORCH if name in os.environ}


class TorchProcess:
    """A child that speaks over a channel and has torch: the oracle, or a contestant under eager or compile."""

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
        self.channel = ipc.Channel(ours)
        self.ahead = False
        """It was asked to make itself ready, and has not answered yet."""

    def call(self, op: str, limit_s: float = ORACLE_LIMIT_S, fds=(), watched_s: float = 0.0, **message) -> dict:
        """One verb; WorkloadError for the reference's fault, InfraError for the machine's. `watched_s`: wait awake
        for so long."""
        self.tell(op, fds, **message)
        return self.answer(op, limit_s, watched_s)

    def tell(self, op: str, fds=(), **message) -> None:
        """Send a verb without waiting; `answer` must be asked for before the next one."""
        with contextlib.suppress(ipc.ClosedError):
            self.channel.send({"op": op, **message}, fds)

    def answer(self, op: str, limit_s: float = ORACLE_LIMIT_S, watched_s: float = 0.0) -> dict:
        """What the verb `op` that was told came to; as `call`."""
        try:
            if watched_s:
                self.channel.watch(watched_s)
            answer, carried = self.channel.recv(limit_s)
            if carried:
                answer["fds"] = carried
        except (ipc.ClosedError, ipc.LateError) as error:
            self.close()
            late = isinstance(error, ipc.LateError)
            tail = self.log.read_text(errors="replace")[-300:].strip().replace("\n", " | ")
            raise InfraError(
                f"{self.log.name.split('.')[0]} "
                f"{f'did not answer within {limit_s:g} s' if late else f'died ({self.process.returncode})'} "
                f"while asked to {op}{f': {tail}' if tail else ''}"
            ) from error
        if "infra" in answer:
            raise InfraError(f"{answer['infra']}: {answer.get('log', '')[-600:]}")
        if "error" in answer:
            raised = WorkloadError(answer["error"])
            raised.log = answer.get("log", "")
            raise raised
        return answer

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def signal(self, number: int) -> None:
        """To it and the compilers that it started; nothing where they have ended."""
        with contextlib.suppress(OSError):
            os.killpg(self.process.pid, number)

    def close(self) -> None:
        self.channel.close()
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except OSError:
            self.process.kill()
        self.process.wait()


class Supervisor:
    def __init__(self):
        self.scratch = Path(tempfile.mkdtemp(prefix="harness-", dir=Path.cwd()))
        self.job = Path.cwd()
        self.memory = int(os.environ.get("HARNESS_MEMORY_BYTES", 8 << 30))
        self._oracle: TorchProcess | None = None
        self._fork_server: cpu_kernel.ForkServer | None = None
        self._device_fork_server: gpu_kernel.GpuForkServer | None = None
        self._caches: gpu_kernel.CompileCaches | None = None
        self._ahead: dict[str, TorchProcess] = {}
        """Torch's contestants that were started before their contest, or kept after one."""
        self.visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
        """The GPU of all our processes: what was visible to us, until a request chooses one."""
        self._watches: dict[str, nvml.GpuWatch] = {}
        self.profiled: dict | None = None
        """What the profiler saw of a kernel of ours; None: not tried yet."""

    def choose(self, index: int) -> None:
        """Use the GPU with this index among those visible to us; processes that see another one are ended."""
        listed = [name.strip() for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name.strip()]
        if listed and index >= len(listed):
            raise InfraError(f"there is no device {index}; CUDA_VISIBLE_DEVICES lists {len(listed)}")
        chosen = listed[index] if listed else str(index)
        if chosen != self.visible:
            self.restart()
            self.visible = chosen

    def watch(self) -> nvml.GpuWatch:
        """Of the GPU of all our processes; made before the first of them is on it, and kept."""
        if self.visible not in self._watches:
            self._watches[self.visible] = nvml.GpuWatch(self.visible)
        return self._watches[self.visible]

    def oracle(self) -> TorchProcess:
        if self._oracle is None or not self._oracle.alive:
            self._oracle = TorchProcess("reference/oracle.py", self.scratch, KEEP_MEMORY | self._visible())
        return self._oracle

    def torch_host(self, kind: str) -> TorchProcess:
        """A process for the reference under `kind`: one that was started ahead, else a new one."""
        ahead = self._ahead.pop(kind, None)
        if ahead is not None and ahead.alive:
            ahead.signal(signal.SIGCONT)
            return ahead
        # On a CPU Inductor's pool of compiling processes is never asked, and would be there for the whole run.
        quiet = {} if self.visible else {"TORCH_WARM_POOL": "0"}
        return TorchProcess("workers/torch_worker.py", self.scratch, self._visible() | quiet)

    def keep(self, kind: str, process: TorchProcess) -> None:
        """After a contest, for the next one that wants this `kind`."""
        self._ahead[kind] = process

    def prepare(self, request: dict) -> dict:
        """Start torch's contestants now; what they were asked is answered when they are taken. Without any: those
        there are rest until the next timing is over."""
        if not request["frameworks"]:
            self.ahead_signal(signal.SIGSTOP)
            return {"kind": "prepare"}
        if request["device"] != "cpu":
            self.choose(request["device_index"])
            self.watch()  # before any of ours is on it
            self.oracle()
            self.device_fork_server(request["capability"])
        for kind in request["frameworks"]:
            if kind not in self._ahead:
                self._ahead[kind] = self.torch_host(kind)
                self._ahead[kind].ahead = True
                self._ahead[kind].tell(
                    "ahead", mode=kind, task=request["task"], dims=request["dims"], device=request["device"]
                )
        return {"kind": "prepare"}

    @contextlib.contextmanager
    def alone(self):
        """What was started ahead rests while kernels are checked and timed."""
        resting = list(self._ahead.values())
        for process in resting:
            process.signal(signal.SIGSTOP)
        try:
            yield
        finally:
            for process in resting:
                process.signal(signal.SIGCONT)

    def ahead_signal(self, number: int) -> None:
        for process in list(self._ahead.values()):
            process.signal(number)

    def _visible(self) -> dict[str, str]:
        # A job on a CPU is told that no GPU is visible, and torch must be told so too: it would take a context on each.
        hidden = os.environ.get("CUDA_VISIBLE_DEVICES") == ""
        return (
            {"CUDA_VISIBLE_DEVICES": self.visible, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"} if self.visible or hidden else {}
        )

    def device_fork_server(self, capability: int) -> gpu_kernel.GpuForkServer:
        """The parent of kernels' processes on the GPU; `capability` is ten times the major plus the minor number of
        its architecture."""
        if self._device_fork_server is None or self._device_fork_server.process.poll() is not None:
            self._device_fork_server = gpu_kernel.GpuForkServer(
                self.scratch, gpu_kernel.gpu_environment(self.visible), capability
            )
        return self._device_fork_server

    def caches(self) -> gpu_kernel.CompileCaches:
        self._caches = self._caches or gpu_kernel.compile_caches_in(self.scratch)
        return self._caches

    def fork_server(self) -> cpu_kernel.ForkServer:
        if self._fork_server is None or self._fork_server.process.poll() is not None:
            self._fork_server = cpu_kernel.ForkServer(self.scratch)
        return self._fork_server

    @functools.cached_property
    def flush(self):
        """Puts (address, bytes) out of the caches."""
        return trampoline.load_flush_function(self.scratch)

    def kernel(self, kinds: tuple[str, ...], libraries: dict[str, str], limit_s: float) -> cpu_kernel.KernelProcess:
        space = self.memory + (4 << 30) + (160 << 20) * (os.cpu_count() or 1)
        return cpu_kernel.KernelProcess(self.fork_server(), kinds, self.scratch, libraries, space, limit_s)

    def library(self, relative: str) -> str:
        path = (self.job / relative).resolve()
        if not path.is_file():
            raise InfraError(f"the job has no file {relative}")
        return str(path)

    def own_cpu(self) -> float:
        """CPU seconds of this process, of its children and of those that they have ended."""
        pids = [os.getpid()]
        children = (self._oracle, self._fork_server, self._device_fork_server, *self._ahead.values())
        pids += [child.process.pid for child in children if child is not None]
        return sum(telemetry.cpu_seconds_of(pid) for pid in pids)

    def handle(self, folder: Path) -> None:
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

    def take(self, order: dict) -> int:
        """Answer one of the jobs of a process that stays."""
        self.memory = int(order.get("memory_bytes", self.memory))
        os.chdir(order["folder"])
        self.handle(Path(order["folder"]))
        os.chdir("/")
        return 0

    def abandon(self) -> None:
        """Before an end at once: the children die with us, but compilers that torch's contestants started and that
        rest would not."""
        self.ahead_signal(signal.SIGKILL)
        shutil.rmtree(self.scratch, ignore_errors=True)

    def answer(self, request: dict) -> dict:
        kind = request["kind"]
        if kind == "probe":
            try:
                return self.oracle().call("probe", request=request)
            except WorkloadError as error:
                return {"kind": "probe", "error": str(error), "error_log": error.log}
        if kind == "inductor":
            try:
                return backend.backend_for(self, request).oracle.call(
                    "inductor", others=request["others"], seconds=request["search_s"]
                )
            except WorkloadError as error:
                return {"kind": "inductor", "refused": str(error)}
        if kind == "prepare":
            return self.prepare(request)
        module = {"correctness": correctness, "timing": timing, "contest": interleaved, "needed": needed}.get(kind)
        if module is None:
            raise InfraError(f"this harness does not know requests of kind {kind!r}")
        with self.alone():
            return module.answer(self, request)

    def restart(self) -> None:
        """After a failure of our own nothing is trusted: the children are started anew when next needed."""
        for child in (self._oracle, self._fork_server, self._device_fork_server, *self._ahead.values()):
            if child is not None:
                child.close()
        self._ahead.clear()
        self._oracle = self._fork_server = self._device_fork_server = self.profiled = None

    def close(self) -> None:
        self.restart()
        shutil.rmtree(self.scratch, ignore_errors=True)


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    supervisor = Supervisor()
    try:
        if "--serve" in sys.argv:
            ipc.serve_jobs(supervisor.take, supervisor.abandon)
        else:
            supervisor.handle(Path(sys.argv[1]).resolve().parent)
    finally:
        supervisor.close()


if __name__ == "__main__":
    main()
