"""A contestant in a process of its own: the reference under torch eager or torch.compile, or another package's function
for it, in native precision."""

import contextlib
import copy
import mmap
import os
import signal
import socket
import sys
import time
import traceback
import warnings
from functools import partial
from pathlib import Path

# For this import only: other files of the job's folder, such as a candidate's kernel.py, must not be importable.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import harness  # noqa: F401

sys.path.pop(0)
from harness.isolation import ipc, sandbox
from harness.numerics.precision import set_precision
from harness.workers import trampoline

COMPILE_MODES = {"compile": None, "max_autotune": "max-autotune-no-cudagraphs"}
"""Contestant -> mode of torch.compile. CUDA graphs are off, because they record addresses and each call has its own."""
SPIN_SLACK_S, MAX_SPIN_S = 150e-6, 20e-3
"""Seconds by which a spin exceeds one and a half times the launches behind it, and its longest duration."""
MAX_QUEUED_CALLS = 64
"""Most calls behind a spin: a device's queue holds about a thousand launches, and a full queue blocks the host."""


class TorchBackend:
    """The contestant's function, its inputs and its clocks."""

    def __init__(self):
        import torch

        from harness.reference import comparison, contract, rival, user_function

        self.torch, self.contract, self.rivals, self.user_functions = torch, contract, rival, user_function
        self.copy_arguments = comparison.copy_arguments
        torch.set_num_threads(sandbox.torch_thread_count())
        torch.set_grad_enabled(False)
        warnings.filterwarnings("ignore")
        self.calls: list[dict] = []
        """The arguments at each address, and `bound` the call with them."""
        self.bound: list[partial] = []
        self.launches: list[str] = []
        """Kernels that Triton's interpreter ran in place of a GPU; where there are any, no time says anything."""
        self.copied: list[list[tuple]] = []
        """(tensor, its content) of each argument of each call that is not where the inputs lie: it is changed by the
        call, or has other strides there."""
        self.captured = None
        """The graph of the last `capture`."""

    def warm_up(self, message: dict, fds) -> dict:
        """Prepare for a contest: import the compiler and, on a CPU, compile at the task's sizes, which fills Inductor's
        cache. A failure here repeats, and is reported, when the contest starts."""
        self.mode, self.device = message["mode"], message["device"]
        if self.mode in COMPILE_MODES:
            self._import_compiler()
        if self.mode in COMPILE_MODES and self.device == "cpu":
            with contextlib.suppress(Exception):
                self._compile_at(message["task"], message["dims"])
        return {}

    def _compile_at(self, task: dict, sizes: list[dict]) -> None:
        """Compile the reference at these sizes, with made-up inputs."""
        set_precision(task["numeric"]["precision"])
        self.reference = self.contract.Contract(task["reference"])
        roles = {a["name"]: a["role"] for a in task["arguments"]}
        parameters = [
            {"name": a["name"], "dtype": a["dtype"], "pointer": a["role"] != "scalar"} for a in task["arguments"]
        ]
        for dims in sizes:
            arguments = self.reference.build(dims, 0, parameters, task["pointer_elements"])
            given = {
                a.name: self.torch.zeros_like(a.value) if roles[a.name] == "output" else a.value for a in arguments
            }
            self.calls = [given]
            self.compile_for_inputs()
        self.calls = self.bound = []

    def begin(self, message: dict, fds) -> dict:
        """Load the contestant of a task."""
        self.task, self.mode, self.rival = message["task"], message["mode"], None
        set_precision(self.task["numeric"]["precision"])
        self.device, self.arena = message["device"], None
        if self.device == "cpu":
            self.flush = trampoline.load_flush_function(Path.cwd())
        else:
            from harness.memory import cuda_driver

            self.torch.cuda.init()
            self.torch.zeros(1, device="cuda")
            self.driver, self.cuda = cuda_driver.CudaDriver(), cuda_driver
            self.events = self.driver.create_event(), self.driver.create_event()
            self.cycles = self.driver.spin_rate(self.torch.cuda._sleep, *self.events)
            self.launch_s = SPIN_SLACK_S
        self.reference = self.contract.Contract(self.task["reference"])
        if self.mode in COMPILE_MODES:
            self._import_compiler()
        elif message["function"]:
            self.launches = self.contract.interpret_triton() if self.device == "cpu" else []
            self.rival = self.user_functions.UserFunction(message["function"], self.reference, self.device)
        elif self.mode != "eager":
            self.rival = self.rivals.Rival(self.task["rivals"]["source"], self.mode, self.reference)
        return {}

    def _import_compiler(self) -> None:
        """Import the compiler now, beside the other contestants, because that takes longer than importing torch.

        Inductor compiles and loads a test program for each vector extension of the processor: ten seconds of a core
        where nothing is cached. It would choose the same extension without the tests, so they are skipped;
        `compile_for_inputs` handles a compiler that does not know the extension.
        """
        import torch._dynamo
        import torch._inductor.compile_fx
        import torch._inductor.config
        import torch._inductor.cpu_vec_isa

        if self.device == "cpu" and torch._inductor.config.cpp.vec_isa_ok is None:
            torch._inductor.config.cpp.vec_isa_ok = True

    def compile_for_inputs(self) -> None:
        """Compile the reference for the attached shapes and call it once. If that fails on a CPU, test the vector
        extensions and compile again."""
        torch = self.torch
        torch._dynamo.reset()
        self.timed = copy.copy(self.reference)
        self.timed.function = torch.compile(self.reference.function, dynamic=False, mode=COMPILE_MODES[self.mode])
        self._bind()
        try:
            self.bound[0]()
        except Exception:
            settings = torch._inductor.config.cpp
            if self.device != "cpu" or not settings.vec_isa_ok:
                raise
            settings.vec_isa_ok = None
            torch._inductor.cpu_vec_isa.valid_vec_isa_list.cache_clear()
            for isa in torch._inductor.cpu_vec_isa.supported_vec_isa_list:
                getattr(type(isa).__bool__, "cache_clear", lambda: None)()
            self.compile_for_inputs()

    def attach(self, message: dict, fds: list[int]) -> dict:
        """Make tensors over the shared inputs, one set of keyword arguments for each address."""
        torch = self.torch
        self._drop_graph()
        view = self._map_inputs(fds[0], message["size"])
        os.close(fds[0])

        def argument_value(a: dict, remaining_offsets):
            if a["role"] == "scalar":
                return a["value"]
            dtype = self.contract.DTYPES[a["dtype"]]
            if a["role"] == "output":
                return torch.zeros(a["shape"], dtype=dtype, device=self.device)
            content = view(dtype, torch.Size(a["shape"]).numel(), next(remaining_offsets)).view(a["shape"])
            strides = self.reference.strides.get(a["name"]) if self.rival else None
            if a["role"] == "input" and not strides:
                return content
            value, *copied = own_copy(content, strides or content.stride())
            self.copied[-1].append(copied)
            return value

        self.reference.device = self.device
        self.reference.strides.clear()
        if made_by := message["arguments"][0][0].get("made_by"):
            # What no kernel is given, and how make_inputs arranges the rest.
            self.reference.build(made_by["dims"], made_by["seed"], [], 0)
        sets, self.copied = [], []
        for arguments, offsets in zip(message["arguments"], message["offsets"], strict=True):
            remaining_offsets = iter(offsets)
            self.copied.append([])
            sets.append(
                [
                    self.contract.Arg(a["name"], argument_value(a, remaining_offsets), a["dtype"], a["role"])
                    for a in arguments
                ]
            )
        self.calls = [{a.name: a.value for a in args} for args in sets]
        if self.reference.mentions_gradients and self.rival is None:
            self.reference.call(self.copy_arguments(sets[0]))
        if self.rival:
            # Two sets of inputs, because a result that is cached for one must not be correct for the other.
            for at, args in enumerate(sets[:2], start=1):
                self.rival.check(args, self.task["numeric"], at)
            if self.device != "cpu":
                torch.cuda.empty_cache()
        if self.mode in COMPILE_MODES:
            self.compile_for_inputs()
        else:
            self.timed = self.rival or self.reference
            self._bind()
        return {"interpreted": bool(self.launches), "has_copies": any(self.copied)}

    def set_scalars(self, message: dict, fds) -> dict:
        """Replace the scalars at each address by those of new inputs."""
        for call, scalars in zip(self.calls, message["scalars"], strict=True):
            call.update(scalars)
        self._bind()
        return {}

    def _bind(self) -> None:
        self.bound = [self.timed.bind(call) for call in self.calls]

    def restore(self, message: dict, fds) -> dict:
        """Give the copied arguments of the calls in the train their content again; on a CPU, none of it stays in a
        cache."""
        for tensor, content in (copied for at in message["train"] for copied in self.copied[at]):
            tensor.copy_(content)
            if self.device == "cpu":
                memory = tensor.untyped_storage()
                self.flush(memory.data_ptr(), memory.nbytes())
        if self.device != "cpu":
            self.driver("cuCtxSynchronize")
        return {}

    def _map_inputs(self, fd: int, size: int):
        """Map the inputs, which this process cannot write; return view(dtype, count, offset)."""
        torch = self.torch
        if self.device == "cpu":
            memory = mmap.mmap(fd, size, access=mmap.ACCESS_READ)
            return lambda dtype, count, offset: torch.frombuffer(memory, dtype=dtype, count=count, offset=offset)
        self.calls, self.bound, self.copied = [], [], []
        if self.arena:
            torch.cuda.synchronize()
            self.driver.unmap(*self.arena)
        handle = self.driver.import_handle(fd)
        address = self.driver.map(handle, size, self.cuda.READ)
        self.driver.release(handle)
        self.arena = address, size
        return lambda dtype, count, offset: self.cuda.byte_tensor_at(
            torch, address + offset, count * dtype.itemsize
        ).view(dtype)

    def release_inputs(self, message: dict, fds) -> dict:
        """Release the inputs, which stay mapped as long as a tensor lies over them."""
        self.calls, self.bound, self.copied = [], [], []
        return {}

    def run(self, message: dict, fds) -> dict:
        """Call the function for each address in the train, or replay their graph; on a GPU answer the seconds of the
        device."""
        if self.device == "cpu":
            for at in message["train"]:
                self.bound[at]()
            return {}
        self.driver.record(self.events[0], None)
        if message["replay"]:
            self.captured.replay()
        for at in message["train"] * (not message["replay"]):
            self.bound[at]()
        self.driver.record(self.events[1], None)
        self.driver("cuCtxSynchronize")
        return {"seconds": self.driver.elapsed(*self.events)}

    def capture(self, message: dict, fds) -> dict:
        """Capture the calls at the addresses of the train; {uncaptured: why} where that is impossible."""
        from harness.device import graphs

        self._drop_graph()
        calls = [self.bound[at] for at in message["train"]]
        try:
            self.captured = graphs.CapturedCalls(self.torch, calls)
            self.restore(message, fds)
            changed = [tensor for tensor, _ in self.copied[message["train"][0]]]
            return {"uncaptured": self.captured.wrong_replay(calls[0], changed, partial(self.restore, message, fds))}
        except Exception as error:
            return {"uncaptured": error_answer(error)["error"]}

    def _drop_graph(self) -> None:
        if self.captured:
            self.captured.close()
            self.captured = None

    def run_queued(self, message: dict, fds) -> dict:
        """Queue the train behind a spin and answer the device's seconds for each call. `starved`: the launches
        outlasted the spin."""
        driver = self.driver
        train = message["train"][: max(min(MAX_QUEUED_CALLS, int(MAX_SPIN_S / (2 * self.launch_s))), 1)]
        self.torch.cuda._sleep(int(min(1.5 * self.launch_s * len(train) + SPIN_SLACK_S, MAX_SPIN_S) * self.cycles))
        driver.record(self.events[0], None)
        launch_start = time.perf_counter()
        for at in train:
            self.bound[at]()
        self.launch_s = max((time.perf_counter() - launch_start) / len(train), 1e-6)
        driver.record(self.events[1], None)
        starved = driver.query(self.events[0]) != self.cuda.NOT_READY
        driver("cuCtxSynchronize")
        return {"seconds": driver.elapsed(*self.events) / len(train), "starved": starved}


def own_copy(content, strides: tuple[int, ...]) -> tuple:
    """Return (a tensor with this content and these strides, what of it is to be written, its content), where a
    dimension of stride 0 is written once. Overlapping strides are not kept."""
    part = content[tuple(slice(0, 1) if step == 0 else slice(None) for step in strides)]
    own = content.new_empty_strided(part.shape, strides)
    if own.untyped_storage().nbytes() < part.nbytes:
        own = content.clone()
        return own, own, content
    own.copy_(part)
    return own.as_strided(content.shape, strides), own, part


def error_answer(error: Exception) -> dict:
    """Return the answer to a request that raised."""
    lines = str(error).strip().splitlines()
    if type(error).__name__ == "ContractError":
        return {"error": lines[0], "wrong": error.wrong, "log": traceback.format_exc()[-4000:]}
    return {
        "error": f"{type(error).__name__}: {lines[0][:300] if lines else ''}",
        "log": traceback.format_exc()[-4000:],
    }


def main() -> None:
    sandbox.die_with_parent(int(sys.argv[2]))
    sandbox.become_subreaper()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    channel = ipc.Channel(socket.socket(fileno=int(sys.argv[1])))
    backend = TorchBackend()
    verbs = (backend.warm_up, backend.begin, backend.attach, backend.set_scalars, backend.run, backend.run_queued)
    verbs += (backend.release_inputs, backend.capture, backend.restore)
    ipc.serve_verbs(channel, {verb.__name__: verb for verb in verbs}, error_answer)


if __name__ == "__main__":
    main()
