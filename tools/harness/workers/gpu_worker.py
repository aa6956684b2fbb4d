"""Runs in a kernel's process on a GPU from fork to end: it creates its context, confines itself, imports the kernels
and launches trains.

No answer of this process decides whether a kernel is correct. Outputs are in the oracle's memory, where the oracle
reads them. Times come from device events, and the supervisor compares them with its own clock.
"""

import contextlib
import ctypes
import functools
import importlib
import importlib.util
import os
import random
import socket
import sys
import tempfile
import time
import traceback
from pathlib import Path

from harness.device import graphs
from harness.isolation import integrity, ipc, native, sandbox
from harness.memory import cuda_driver
from harness.memory.input_ring import READ_ROLES, WRITTEN_ROLES
from harness.numerics import precision

SPIN_SLACK_S = 150e-6
"""Seconds by which a spin exceeds one and a half times the longest recent launch of the train."""
MAX_SPIN_S = 20e-3
PEEK_BYTES = 64
"""Bytes of an output that are read to detect writes before the train's turn."""
VERBS = (
    "load",
    "map",
    "scatter_noise",
    "prepare",
    "run",
    "capture",
    "inspect",
    "flush",
    "profile",
    "profile_own",
)
MAX_SPIN_MISSES = 3
"""Number of successive trains not covered by a spin, after which a kernel (one that waits for the device itself) is
timed without a spin."""
FIXED_ATTRIBUTES = (
    "torch",
    "marker",
    "driver",
    "start",
    "end",
    "aside",
    "ordered",
    "peeked",
    "sleep",
    "profiler",
    "clock",
    "cycles",
    "list_memory",
    "triton",
    "snapshot",
)
"""Attributes of the backend that no kernel may change."""
PASSED_ENVIRONMENT_VARIABLES = (
    *sandbox.PASSED_ENVIRONMENT_VARIABLES,
    "CC",
    "CXX",
    "CUDA_HOME",
    "CUDA_PATH",
    "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER",
)


class GpuBackend:
    """The context, modules and mappings of this process."""

    def __init__(self):
        import torch
        import triton

        self.torch = torch
        torch.cuda.init()
        self.marker = torch.zeros(64, device="cuda")
        self.driver = cuda_driver.CudaDriver()
        self.start, self.end = self.driver.create_event(), self.driver.create_event()
        self.aside, self.peeked = (
            self.driver.create_stream(),
            torch.zeros(PEEK_BYTES, dtype=torch.uint8, pin_memory=True),
        )
        self.ordered = self.driver.create_stream(waits=True)
        self.sleep, self.profiler, self.clock = torch.cuda._sleep, torch.profiler, time.perf_counter
        self.cycles = self.driver.spin_rate(self.sleep, self.start, self.end)
        self.list_memory = torch.cuda.memory_snapshot
        warm_launch(self.marker)
        torch.cuda.synchronize()
        self.triton = triton
        self.snapshot: integrity.Snapshot | None = None
        self.functions: dict[str, object] = {}
        self.mapped: list[tuple[int, int]] = []
        self.eviction = None
        self.enqueued: dict[tuple[str, int], list[float]] = {}
        """(kernel, number of calls) -> seconds that launching the last trains took."""
        self.misses: dict[str, int] = {}
        self.calls: list[dict] = []
        self.captured: graphs.CapturedCalls | None = None

    # ------------------------------------------------------------ verbs

    def load(self, message: dict, fds: list[int]) -> dict:
        """Import a kernel and answer an error, if there is one, of the import or of the integrity check."""
        if self.snapshot is None:
            import_cute(message["path"])
            self.snapshot = integrity.Snapshot(self.torch, self.triton)
            self.snapshot.hold_backend(self, FIXED_ATTRIBUTES)
        for name in self.functions:
            self.snapshot.add_kernel(name, sys.modules.get(f"kernel_{name}"), self.functions)
        path = message["path"]
        if path.endswith(".so"):
            return self._load_native(message["name"], path)
        try:
            specification = importlib.util.spec_from_file_location(f"kernel_{message['name']}", path)
            module = importlib.util.module_from_spec(specification)
            sys.modules[specification.name] = module
            specification.loader.exec_module(module)
        except BaseException as error:
            return {"error": f"cannot be imported: {describe_error(error, path)}"}
        function = getattr(module, "run_kernel", None)
        if not callable(function):
            return {"error": "has no function `run_kernel`; define run_kernel(**kwargs)"}
        self.functions[message["name"]] = function, path
        return self.inspect(message, fds)

    def _load_native(self, name: str, path: str) -> dict:
        """Load a CUDA kernel's shared object and answer an error, if there is one."""
        self.snapshot.hold_machine_code()
        try:
            self.functions[name] = native.Native(path, self.ordered), path
        except OSError as error:
            return {"error": f"cannot be loaded: {str(error).replace(path, 'the library')}"}
        except AttributeError:
            return {"error": 'does not export `solve`; declare it extern "C" void solve(...)'}
        return self.inspect({}, [])

    def map(self, message: dict, fds: list[int]) -> dict:
        """Map the inputs' arena for reading and the outputs' arena for writing, and unmap the old ones."""
        try:
            self._unmap()
            for size, fd, access in zip(message["sizes"], fds, (cuda_driver.READ, cuda_driver.READ_WRITE), strict=True):
                handle = self.driver.import_handle(fd)
                self.mapped.append((self.driver.map(handle, size, access), size))
                self.driver.release(handle)
        except cuda_driver.CudaError as error:
            if self.functions:
                return {"error": f"left the device unusable ({error})"}
            return {"infra": f"could not map its buffers: {error}"}
        finally:
            for fd in fds:
                os.close(fd)
        self.sets, self.offsets, self.slots = message["sets"], message["inputs"], message["outputs"]
        self.inputs: dict[int, dict] = {}
        self.outputs: dict[int, dict] = {}
        return {}

    def scatter_noise(self, message: dict, fds: list[int]) -> dict:
        """Leave noise instead of what earlier calls left in freed device memory: in the free blocks of torch's
        allocator and, where a kernel can ask for it, in the device's memory pool."""
        word = random.getrandbits(32) | 1
        try:
            self.driver("cuCtxSynchronize")
            for segment in self.list_memory():
                address = segment["address"]
                for block in segment["blocks"]:
                    if block["state"] == "inactive":
                        self.driver.fill(address, block["size"], word)
                    address += block["size"]
            if any(isinstance(function, native.Native) for function, _ in self.functions.values()):
                self.driver.fill_pool(word)
            self.driver.let_lines_of_l2_go()
            self.driver("cuCtxSynchronize")
        except cuda_driver.CudaError as error:
            return {"error": describe_device_fault(str(error))}
        return {}

    def prepare(self, message: dict, fds: list[int]) -> dict:
        """Make the arguments of the next train, so that this work is not timed."""
        self.driver.let_lines_of_l2_go()
        self.name, self.spinning = message["fn"], message["spin"]
        self.calls = [self._arguments(at, slot) for at, slot in message["calls"]]
        if not self.spinning:
            # The end of another process's work and the switch to this context are not part of the train.
            self.sleep(1000)
            self.driver("cuCtxSynchronize")
        if self.spinning and message["calls"]:
            at, slot = message["calls"][0]
            written = next(a["name"] for a in self.sets[at] if a["role"] in WRITTEN_ROLES)
            size = self.outputs[slot][written].nbytes
            self.peek_at = self.outputs[slot][written].data_ptr() + random.randrange(max(size - PEEK_BYTES, 0) + 1)
            self.peek_size = min(PEEK_BYTES, size)
            self.before = self._read_output_bytes()
        return {}

    def run(self, message: dict, fds: list[int]) -> dict:
        """Run one train: an optional spin, the start event, launches (or the replay of the captured ones), the end
        event; then wait for the end event and for all other work."""
        driver, clock, name = self.driver, self.clock, self.name
        function, path = self.functions[name]
        calls = self.calls
        if message.get("replay"):
            function, calls, name = self.captured.replay, [{}], f"{name}'s graph"
        spin = self._spin_seconds() if self.spinning else 0.0
        try:
            if spin:
                self.sleep(int(spin * self.cycles))
            driver.record(self.start, None)
            launch_start = clock()
            for given in calls:
                function(**given)
            launch_end = clock()
            driver.record(self.end, None)
            starved = bool(spin) and driver.query(self.start) != cuda_driver.NOT_READY
            if spin and self.calls and self._writes_on_another_stream():
                return {"error": "ran its work on another stream than the one given"}
            driver.check(driver.wait(self.end), "cuEventSynchronize")
            train_end = clock()
            driver.check(driver.wait_for_all(), "cuCtxSynchronize")
            trailing_s = clock() - train_end
            seconds = driver.elapsed(self.start, self.end)
            if isinstance(function, native.Native):
                function.raise_launch_error()
        except cuda_driver.CudaError as error:
            return {"error": describe_device_fault(str(error))}
        except BaseException as error:
            return {
                "error": f"raised {describe_error(error, path)}"
                if not is_device_error(error)
                else describe_device_fault(str(error))
            }
        enqueue = launch_end - launch_start
        recent = self.enqueued.setdefault((name, len(self.calls)), [])
        recent[:] = [*recent[-2:], enqueue]
        self.misses[name] = self.misses.get(name, 0) + 1 if starved else 0
        return {"device_s": seconds, "enqueue_s": enqueue, "spin_s": spin, "starved": starved, "left_s": trailing_s}

    def _writes_on_another_stream(self) -> bool:
        """Whether an output changes while the spin still blocks the stream that the kernel should use."""
        while self.driver.query(self.start) == cuda_driver.NOT_READY:
            changed = self._read_output_bytes() != self.before
            if changed and self.driver.query(self.start) == cuda_driver.NOT_READY:
                return True
        return False

    def _read_output_bytes(self) -> bytes:
        """Copy the observed bytes of an output to the host, on a stream of its own."""
        self.driver("cuMemcpyDtoHAsync_v2", self.peeked.data_ptr(), self.peek_at, self.peek_size, self.aside)
        self.driver("cuStreamSynchronize", self.aside)
        return ctypes.string_at(self.peeked.data_ptr(), self.peek_size)

    def _spin_seconds(self) -> float:
        """Return how long the spin before a train lasts; 0 if a spin cannot cover this kernel."""
        if self.misses.get(self.name, 0) >= MAX_SPIN_MISSES:
            return 0.0
        recent = self.enqueued.get((self.name, len(self.calls)), [50e-6 * len(self.calls)])
        return min(1.5 * max(recent) + SPIN_SLACK_S, MAX_SPIN_S)

    def inspect(self, message: dict, fds: list[int]) -> dict:
        """Answer the first guarded object that changed, as an error."""
        changed = self.snapshot.changed()
        return {"error": changed} if changed else {}

    def flush(self, message: dict, fds: list[int]) -> dict:
        """Overwrite so many bytes of memory, to evict buffers from the cache."""
        size = message["bytes"]
        try:
            if self.eviction is None or self.eviction.numel() < size:
                self.eviction = self.torch.zeros(size, dtype=self.torch.uint8, device="cuda")
            self.eviction.add_(1)
            self.driver.check(self.driver.wait_for_all(), "cuCtxSynchronize")
        except Exception as error:
            return {"error": describe_device_fault(str(error))}
        return {}

    def profile(self, message: dict, fds: list[int]) -> dict:
        """Answer the kernels and streams of one train. A fill by the harness comes first and shows which stream is the
        given one."""
        function, path = self.functions[self.name]
        raised: list[BaseException] = []

        def train() -> None:
            try:
                for given in self.calls:
                    function(**given)
                self.torch.cuda.synchronize()
            except BaseException as error:
                raised.append(error)

        trace = self._trace(train, message["library"])
        if raised:
            return {
                "error": describe_device_fault(str(raised[0]))
                if is_device_error(raised[0])
                else f"raised {describe_error(raised[0], path)}"
            }
        return trace

    def profile_own(self, message: dict, fds: list[int]) -> dict:
        """Answer the trace of the harness's own kernel. In a process without other kernels this shows whether the
        profiler of this machine works at all."""
        trace = self._trace(lambda: (warm_launch(self.marker), self.torch.cuda.synchronize()))
        if "unavailable" not in trace and not any("touch" in name for name in trace["kernels"]):
            return {"unavailable": "the profiler did not see the harness's own kernel"}
        return trace

    def _trace(self, train, library: bool = False) -> dict:
        """Return {kernels, streams, stream} of what `train()` runs, with {seconds, launched, operators} for a
        `library`; or {unavailable}."""
        profiler = self.profiler
        try:
            host = [profiler.ProfilerActivity.CPU] if library else []
            with profiler.profile(activities=[*host, profiler.ProfilerActivity.CUDA]) as profile:
                self.marker.fill_(1.0)
                train()
            all_events = profile.profiler.kineto_results.events()
            events = [e for e in all_events if "CUDA" in str(e.device_type()) and e.duration_ns() > 0]
            events = [e for e in sorted(events, key=lambda e: e.start_ns()) if "ynchronize" not in e.name()]
        except Exception as error:
            return {"unavailable": f"{type(error).__name__}: {str(error)[:200]}"}
        if len(events) < 1:
            return {"unavailable": "the profiler saw nothing"}
        first, *kernels = events
        streams = [e.device_resource_id() for e in kernels]
        trace = {"kernels": [e.name() for e in kernels], "streams": streams, "stream": first.device_resource_id()}
        if library:
            operators = [e for e in all_events if "CPU" in str(e.device_type()) and e.linked_correlation_id() == 0]
            trace["operators"] = [
                (e.correlation_id(), e.name(), e.start_ns(), e.start_ns() + e.duration_ns()) for e in operators
            ]
            trace["launched"] = [e.linked_correlation_id() for e in kernels]
            trace["seconds"] = [e.duration_ns() / 1e9 for e in kernels]
        return trace

    def capture(self, message: dict, fds: list[int]) -> dict:
        """Capture the calls of the last `prepare` in a graph; answer the kernels of its {nodes}, or why they cannot be
        captured."""
        function, path = self.functions[self.name]
        self._drop_graph()

        def call(given: dict) -> None:
            function(**given)
            if isinstance(function, native.Native):
                function.raise_launch_error()

        try:
            self.captured = graphs.CapturedCalls(self.torch, [functools.partial(call, given) for given in self.calls])
            return {"nodes": self.captured.kernel_names()}
        except BaseException as error:
            return {"uncaptured": describe_error(error, path)}

    # ------------------------------------------------------------ inside

    def _drop_graph(self) -> None:
        if self.captured:
            self.captured.close()
            self.captured = None

    def _unmap(self) -> None:
        """Unmap all arenas."""
        self.calls, self.inputs, self.outputs = [], {}, {}
        self._drop_graph()
        if self.mapped:
            self.driver.check(self.driver.wait_for_all(), "cuCtxSynchronize")
        while self.mapped:
            self.driver.unmap(*self.mapped.pop())

    def _arguments(self, at: int, slot: int) -> dict:
        """Return the keyword arguments of one call."""
        arguments = self.sets[at]
        if at not in self.inputs:
            self.inputs[at] = self._tensors(arguments, READ_ROLES, self.mapped[0][0], self.offsets[at])
        if slot not in self.outputs:
            self.outputs[slot] = self._tensors(arguments, WRITTEN_ROLES, self.mapped[1][0], self.slots[slot])
        # An in/out argument is in both; the kernel gets its slot.
        tensors = self.inputs[at] | self.outputs[slot]
        values = {a["name"]: a["value"] if a["role"] == "scalar" else tensors[a["name"]] for a in arguments}
        if isinstance(self.functions.get(self.name, (None,))[0], native.Native):
            return {a["name"]: native.to_c_argument(a["dtype"], values[a["name"]]) for a in arguments}
        return values

    def _tensors(self, arguments: list[dict], roles: tuple[str, ...], base: int, offsets: list[int]) -> dict:
        """Return the tensors of all arguments of these roles, over mapped memory."""
        torch, tensors = self.torch, {}
        chosen = [a for a in arguments if a["role"] in roles]
        for a, offset in zip(chosen, offsets, strict=True):
            dtype, elements = getattr(torch, a["dtype"]), 1
            for extent in a["shape"]:
                elements *= extent
            flat = cuda_driver.byte_tensor_at(torch, base + offset, elements * dtype.itemsize)
            tensors[a["name"]] = flat.view(dtype).view(a["shape"])
        return tensors


def describe_error(error: BaseException, path: str) -> str:
    """Return an error in one line, with the line of the kernel's file that raised it."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
    at = getattr(error, "lineno", None) if isinstance(error, SyntaxError) else (lines[-1] if lines else None)
    text = (str(error).strip().splitlines() or [""])[0]
    return f"{type(error).__name__}: {text[:300]}".rstrip(": ") + (f" (line {at})" if at else "")


def is_device_error(error: BaseException) -> bool:
    """Whether an exception reports a fault on the device."""
    return any(
        word in str(error)
        for word in ("illegal memory access", "CUDA error", "misaligned address", "unspecified launch failure")
    )


def describe_device_fault(text: str) -> str:
    """Return a fault on the device as the end of "the candidate ..."."""
    if "ILLEGAL_ADDRESS" in text or "illegal memory access" in text:
        return (
            "made an illegal memory access on the device (wrote to an input, which is read-only, or went outside "
            "its buffers)"
        )
    return f"failed on the device ({text.splitlines()[0][:200]})"


def import_cute(path: str) -> None:
    """Import CuTe DSL if the kernel's file uses it, before the kernel does: it replaces sys.excepthook, which a
    candidate may not, and queries the driver, which is not allowed before a fork."""
    if path.endswith(".py") and b"cutlass" in Path(path).read_bytes():
        with contextlib.suppress(ImportError):
            importlib.import_module("cutlass.cute")


def warm_launch(tensor) -> None:
    """Launch the harness's own kernel, so that Triton's one-time work in a process is done."""
    from harness.workers import gpu_warmup

    gpu_warmup.launch(tensor)


def prepare_parent(capability: int) -> None:
    """Import and compile in the fork server what every child needs, without touching the device."""
    # Torch replaces functions of its own when it first imports this module (the profiler does); a kernel must not be
    # blamed for it.
    import torch._dynamo
    import torch.profiler
    import triton  # noqa: F401

    from harness.workers import gpu_warmup

    torch.set_grad_enabled(False)
    gpu_warmup.compile_only(capability)


def serve(control: socket.socket, parent: int) -> None:
    """Run a kernel's process: create the context, wait until `control` brings the channel, confine the process and
    answer requests."""
    null = os.open("/dev/null", os.O_RDWR)
    for target in (0, 1):
        os.dup2(null, target)
    os.close(null)
    for name in list(os.environ):
        if name not in PASSED_ENVIRONMENT_VARIABLES and not name.startswith("TRITON_") and name != "TMPDIR":
            del os.environ[name]
    libc = ctypes.CDLL(None, use_errno=True)
    network = sandbox.drop_network(libc)
    outlet = ipc.Channel(control)
    try:
        backend = GpuBackend()
    except BaseException:
        outlet.send({"error": traceback.format_exc()[-1500:]})
        os._exit(1)
    outlet.send({"error": ""})
    try:
        _, (channel_fd,) = outlet.recv()
    except ipc.ClosedError:
        return
    control.close()
    channel, hello, fds = ipc.receive_channel(socket.socket(fileno=channel_fd))
    for target in (1, 2):
        os.dup2(fds[0], target)
    os.close(fds[0])
    os.environ["LOGNAME"] = "kernel"  # torch's profiler asks for it, and the list of users cannot be read
    os.environ["TRITON_CACHE_DIR"] = os.environ["TMPDIR"] = tempfile.tempdir = hello["cache"]
    os.environ |= {"CUTE_DSL_CACHE_DIR": hello["cache"], "CUTE_DSL_DISABLE_FILE_CACHING": "1"}
    report = sandbox.shut_in_on_gpu(libc, hello, parent)
    # A candidate's calls of torch must have the precision of the reference; cuDNN's own default is TF32.
    precision.set_precision(hello["precision"])
    channel.send({"sandbox": report | {"network": network}})
    ipc.serve_verbs(channel, {verb: getattr(backend, verb) for verb in VERBS})
