"""Answers a kernel's queries about the GPU in a process that sees none: while it is compiled, and in Triton's
interpreter.

On a machine with a GPU, the compiler's process answers with the driver's values of the GPU that jobs run on. Elsewhere,
and always in the interpreter, the answers are made up: small, so that a grid of one program per multiprocessor runs
quickly, and not those of any product. They influence how a kernel is launched, never what is reported about it.
"""

import contextlib
import functools
import sys
from pathlib import Path
from types import SimpleNamespace

MADE_UP = {
    "name": "stand-in for a GPU",
    "total_memory": 1 << 30,
    "multi_processor_count": 3,
    "warp_size": 32,
    "max_threads_per_block": 1024,
    "max_threads_per_multi_processor": 2048,
    "shared_memory_per_block": 48 << 10,
    "shared_memory_per_block_optin": 64 << 10,
    "shared_memory_per_multiprocessor": 64 << 10,
    "regs_per_block": 64 << 10,
    "regs_per_multiprocessor": 64 << 10,
    "L2_cache_size": 1 << 20,
    "memory_bus_width": 1,
}
"""Made-up properties by torch's names, without clocks, because no launch depends on these. Capability and architecture
are those of the target."""
TRITON = {
    "max_shared_mem": "shared_memory_per_block_optin",
    "max_num_regs": "regs_per_block",
    "multiprocessor_count": "multi_processor_count",
    "warpSize": "warp_size",
    "mem_bus_width": "memory_bus_width",
}
"""Triton's name of a property -> torch's name."""
QUERIES = ("/torch/cuda/", "/triton/runtime/driver.py", "/triton/backends/")
"""Parts of the paths of files that query the driver."""
DEVICE = "cuda"


class StandIns:
    """Replaces torch's and Triton's queries to the driver for calls from the kernel's file only."""

    def __init__(self, facts: dict, device: str, *, made_up: bool):
        self.facts = facts
        self.device = device
        self.made_up = made_up
        self.asked: set[str] = set()
        """Queries that got a made-up answer."""
        self.utils = self

    def install(self, path: Path) -> None:
        """Install the answers for calls from the file at `path`."""
        import torch
        from triton.runtime import driver

        driver.set_active(self)
        cuda = torch.cuda
        answers = {
            "get_device_properties": self._properties,
            "get_device_capability": lambda device=None: (self.facts["major"], self.facts["minor"]),
            "get_device_name": lambda device=None: self.facts["name"],
            "current_device": lambda: 0,
            "device_count": lambda: 1,
            # In the interpreter tensors are on the CPU, so a kernel that chooses its device must choose the CPU.
            "is_available": lambda: self.device == DEVICE,
            "device": contextlib.nullcontext,
        }
        for name, answer in answers.items():
            setattr(cuda, name, only_for(path, answer, getattr(cuda, name)))

    def _properties(self, device=None) -> SimpleNamespace:
        self._record_query("its properties")
        return SimpleNamespace(**self.facts)

    def _record_query(self, what: str) -> None:
        if self.made_up:
            self.asked.add(what)

    # The interface of Triton's driver.

    def get_device_properties(self, device=0) -> dict:
        self._record_query("its properties")
        return {name: self.facts[ours] for name, ours in TRITON.items()}

    def get_current_device(self) -> int:
        return 0

    def set_current_device(self, device) -> None:
        """Do nothing, because there is one device."""

    def get_current_stream(self, device=None) -> int:
        return 0

    def get_device_capability(self, device=None) -> tuple[int, int]:
        return self.facts["major"], self.facts["minor"]

    def get_current_target(self):
        from triton.backends.compiler import GPUTarget

        return GPUTarget(DEVICE, 10 * self.facts["major"] + self.facts["minor"], self.facts["warp_size"])

    def get_active_torch_device(self):
        import torch

        return torch.device(self.device, 0) if self.device == DEVICE else torch.device(self.device)


def only_for(path: Path, answer, original):
    """Return a function that answers with `answer` if the file at `path` calls it, and with `original` otherwise,
    because torch itself queries the driver as well."""

    @functools.wraps(original, updated=())
    def dispatch(*args, **kwargs):
        from_file = sys._getframe(1).f_code.co_filename == str(path)
        return (answer if from_file else original)(*args, **kwargs)

    return dispatch


def of_target(capability: int, reported: dict | None) -> StandIns:
    """Return the compiler's answers for a capability: those of the driver if the local GPU has it, or made-up ones."""
    major, minor = divmod(capability, 10)
    is_local = bool(reported) and (reported["major"], reported["minor"]) == (major, minor)
    facts = reported if is_local else {**MADE_UP, "major": major, "minor": minor}
    return StandIns(
        {**facts, "gcnArchName": f"sm_{capability}", "is_integrated": 0, "is_multi_gpu_board": 0},
        DEVICE,
        made_up=not is_local,
    )


def of_interpreter() -> StandIns:
    """Return the answers for Triton's interpreter, whose tensors are on the CPU; the capability is that of the default
    target."""
    answers = of_target(90, None)
    answers.device = "cpu"
    return answers


def asks_for_a_device(error: BaseException, statement: str) -> bool:
    """Whether an error follows from the lack of a GPU: it was raised in torch's or Triton's driver, or by an assertion
    on the device."""
    import traceback

    while error is not None:
        last = traceback.extract_tb(error.__traceback__)[-1:]
        if any(part in frame.filename for frame in last for part in QUERIES):
            return True
        if isinstance(error, AssertionError) and statement.startswith("assert") and "cuda" in statement:
            return True
        error = error.__cause__
    return False
