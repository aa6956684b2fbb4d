"""A contestant: the reference itself under torch eager or torch.compile, or another library's function for it, in
native precision, in a process of its own."""

import contextlib
import mmap
import os
import signal
import socket
import sys
import time
import traceback
import warnings
from pathlib import Path

# For this import alone: what else lies in the job's folder, a candidate's kernel.py among it, is not to be importable.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import harness  # noqa: F401

sys.path.pop(0)
from harness.device.precision import set_precision
from harness.isolation import ipc, sandbox

COMPILE_MODES = {"compile": None, "max_autotune": "max-autotune-no-cudagraphs"}
"""Of torch.compile. CUDA graphs would record addresses, and each call has its own."""
SPIN_SLACK_S, MAX_SPIN_S = 150e-6, 20e-3
"""Of the spin before a train: so much longer than launching takes, and never longer."""
MAX_QUEUED_CALLS = 64
"""Calls behind a spin: a device's queue holds about a thousand launches, and the host waits for room in it."""


class TorchBackend:
    def __init__(self):
        import torch

        from harness.reference import contract, rival

        self.torch, self.contract, self.rivals = torch, contract, rival
        torch.set_num_threads(sandbox.torch_thread_count())
        torch.set_grad_enabled(False)
        warnings.filterwarnings("ignore")
        self.calls: list[dict] = []

    def ahead(self, message: dict, fds) -> dict:
        """What is known before the contest: import the compiler and, on a CPU, compile at the task's sizes, whose code
        stays in Inductor's cache. What fails here fails again, and is told, when it is wanted.
        """
        self.mode, self.device = message["mode"], message["device"]
        if self.mode in COMPILE_MODES:
            self._compiler()
        if self.mode in COMPILE_MODES and self.device == "cpu":
            with contextlib.suppress(Exception):
                self._compile_at(message["task"], message["dims"])
        return {}

    def _compile_at(self, task: dict, sizes: list[dict]) -> None:
        set_precision(task["numeric"]["precision"])
        self.reference = self.contract.Contract(task["reference"])
        roles = {a["name"]: a["role"] for a in task["arguments"]}
        parameters = [
            {"name": a["name"], "dtype": a["dtype"], "pointer": a["role"] != "scalar"} for a in task["arguments"]
        ]
        for dims in sizes:
            made = self.reference.build(dims, 0, parameters, task["pointer_elements"])
            given = {a.name: self.torch.zeros_like(a.value) if roles[a.name] == "output" else a.value for a in made}
            self.calls = [self._taken(given)]
            self.compiled()
        self.calls = []

    def begin(self, message: dict, fds) -> dict:
        self.task, self.mode, self.rival = message["task"], message["mode"], None
        set_precision(self.task["numeric"]["precision"])
        self.device, self.arena = message["device"], None
        if self.device != "cpu":
            from harness.memory import cuda_driver

            self.torch.cuda.init()
            self.torch.zeros(1, device="cuda")
            self.driver, self.cuda = cuda_driver.CudaDriver(), cuda_driver
            self.events = self.driver.event(), self.driver.event()
            self.cycles = self.driver.spin_rate(self.torch.cuda._sleep, *self.events)
            self.launch_s = SPIN_SLACK_S
        self.reference = self.contract.Contract(self.task["reference"])
        self.function = self.reference.function
        if self.mode in COMPILE_MODES:
            self._compiler()
        elif self.mode != "eager":
            self.rival = self.rivals.Rival(self.task["rivals"]["source"], self.mode, self.reference)
            self.function = self.rival.function
        return {}

    def _compiler(self) -> None:
        """Import it now, beside the other contestants; it takes longer than torch itself.

        Inductor compiles and loads a test program for each vector extension that the processor names, ten seconds of a
        core where none of it is cached. Which one it chooses is the same without; a compiler that does not know that
        one is found by `compiled`.
        """
        import torch._dynamo
        import torch._inductor.compile_fx
        import torch._inductor.config
        import torch._inductor.cpu_vec_isa

        if self.device == "cpu" and torch._inductor.config.cpp.vec_isa_ok is None:
            torch._inductor.config.cpp.vec_isa_ok = True

    def compiled(self) -> None:
        """The reference compiled for the shapes attached, and called once; trusted extensions are tested where that
        fails."""
        torch = self.torch
        torch._dynamo.reset()
        self.function = torch.compile(self.reference.function, dynamic=False, mode=COMPILE_MODES[self.mode])
        try:
            self.function(**self.calls[0])
        except Exception:
            settings = torch._inductor.config.cpp
            if self.device != "cpu" or not settings.vec_isa_ok:
                raise
            settings.vec_isa_ok = None
            torch._inductor.cpu_vec_isa.valid_vec_isa_list.cache_clear()
            for isa in torch._inductor.cpu_vec_isa.supported_vec_isa_list:
                getattr(type(isa).__bool__, "cache_clear", lambda: None)()
            self.compiled()

    def attach(self, message: dict, fds: list[int]) -> dict:
        """Tensors over the shared inputs, one set of keyword arguments an address."""
        torch = self.torch
        view = self._mapped(fds[0], message["size"])
        os.close(fds[0])

        def given(a: dict, places):
            if a["role"] == "scalar":
                return a["value"]
            dtype = self.contract.DTYPES[a["dtype"]]
            if a["role"] == "output":
                return torch.zeros(a["shape"], dtype=dtype, device=self.device)
            return view(dtype, torch.Size(a["shape"]).numel(), next(places)).view(a["shape"])

        sets = []
        for arguments, offsets in zip(message["arguments"], message["offsets"], strict=True):
            places = iter(offsets)
            sets.append([self.contract.Arg(a["name"], given(a, places), a["dtype"], a["role"]) for a in arguments])
        self.calls = [self._taken({a.name: a.value for a in args}) for args in sets]
        if self.mode in COMPILE_MODES:
            self.compiled()
        elif self.rival:
            # Two sets of inputs: what it keeps of the one must not answer for the other.
            for args in sets[:2]:
                self.rival.check(args, self.task["numeric"])
            if self.device != "cpu":
                torch.cuda.empty_cache()
        return {}

    def _taken(self, given: dict) -> dict:
        """Of the arguments those that the contestant takes."""
        takes = (self.rival or self.reference).takes
        return given if takes is None else {name: value for name, value in given.items() if name in takes}

    def _mapped(self, fd: int, size: int):
        """view(dtype, count, offset) of the inputs, which this process cannot write."""
        torch = self.torch
        if self.device == "cpu":
            memory = mmap.mmap(fd, size, access=mmap.ACCESS_READ)
            return lambda dtype, count, offset: torch.frombuffer(memory, dtype=dtype, count=count, offset=offset)
        self.calls = []
        if self.arena:
            torch.cuda.synchronize()
            self.driver.unmap(*self.arena)
        handle = self.driver.adopt(fd)
        address = self.driver.map(handle, size, self.cuda.READ)
        self.driver.release(handle)
        self.arena = address, size
        return lambda dtype, count, offset: self.cuda.byte_tensor_at(
            torch, address + offset, count * dtype.itemsize
        ).view(dtype)

    def rest(self, message: dict, fds) -> dict:
        """Let go of the inputs, which stay mapped as long as a tensor lies over them."""
        self.calls, self.function = [], None
        return {}

    def run(self, message: dict, fds) -> dict:
        if self.device == "cpu":
            for at in message["train"]:
                self.function(**self.calls[at])
            return {}
        self.driver.record(self.events[0], None)
        for at in message["train"]:
            self.function(**self.calls[at])
        self.driver.record(self.events[1], None)
        self.driver("cuCtxSynchronize")
        return {"seconds": self.driver.elapsed(*self.events)}

    def behind(self, message: dict, fds) -> dict:
        """Seconds a call of the device alone: all launches wait behind a spin. `starved`: they outlasted it, even
        with few calls."""
        driver, wanted = self.driver, message["train"][:MAX_QUEUED_CALLS]
        for fewer in (1, 4):
            train = wanted[: max(min(len(wanted) // fewer, int(MAX_SPIN_S / (2 * self.launch_s))), 1)]
            self.torch.cuda._sleep(int(min(1.5 * self.launch_s * len(train) + SPIN_SLACK_S, MAX_SPIN_S) * self.cycles))
            driver.record(self.events[0], None)
            begun = time.perf_counter()
            for at in train:
                self.function(**self.calls[at])
            self.launch_s = max((time.perf_counter() - begun) / len(train), 1e-6)
            driver.record(self.events[1], None)
            starved = driver.query(self.events[0]) != self.cuda.NOT_READY
            driver("cuCtxSynchronize")
            if not starved:
                break
        return {"seconds": driver.elapsed(*self.events) / len(train), "starved": starved}


def error_answer(error: Exception) -> dict:
    said = str(error).strip().splitlines()
    if type(error).__name__ == "ContractError":
        return {"error": said[0], "log": traceback.format_exc()[-4000:]}
    return {"error": f"{type(error).__name__}: {said[0][:300] if said else ''}", "log": traceback.format_exc()[-4000:]}


def main() -> None:
    sandbox.die_with_parent(int(sys.argv[2]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    channel = ipc.Channel(socket.socket(fileno=int(sys.argv[1])))
    host = TorchBackend()
    verbs = (host.ahead, host.begin, host.attach, host.run, host.behind, host.rest)
    ipc.serve_verbs(channel, {verb.__name__: verb for verb in verbs}, error_answer)


if __name__ == "__main__":
    main()
