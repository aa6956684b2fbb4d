"""Answers a kernel's questions about the GPU in a process that sees none: while it is compiled, and in Triton's
interpreter.

Beside a GPU the compiler's process answers what the driver reports of the one that jobs run on. Elsewhere, and in the
interpreter always, the answers are made up: small, so that a grid of one program per multiprocessor is run in a moment,
and no figure of any product. They steer how a kernel is launched, never what is said about it.
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
"""By torch's names, without clocks, which no launch depends on; capability and architecture are those of the target."""
TRITON = {
    "max_shared_mem": "shared_memory_per_block_optin",
    "max_num_regs": "regs_per_block",
    "multiprocessor_count": "multi_processor_count",
    "warpSize": "warp_size",
    "mem_bus_width": "memory_bus_width",
}
"""Triton's names for the same."""
QUERIES = ("/torch/cuda/", "/triton/runtime/driver.py", "/triton/backends/")
DEVICE = "cuda"


class StandIns:
    """What takes the place of torch's and Triton's questions to the driver, for the kernel's file alone."""

    def __init__(self, facts: dict, device: str, *, made_up: bool):
        self.facts = facts
        self.device = device
        self.made_up = made_up
        self.asked: set[str] = set()
        """Questions that a kernel got a made-up answer to."""
        self.utils = self

    def install(self, path: Path) -> None:
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
            # In the interpreter tensors lie on the CPU, and what asks in order to choose a device must choose that one.
            "is_available": lambda: self.device == DEVICE,
            "device": contextlib.nullcontext,
        }
        for name, answer in answers.items():
            setattr(cuda, name, only_for(path, answer, getattr(cuda, name)))

    def _properties(self, device=None) -> SimpleNamespace:
        self._note("its properties")
        return SimpleNamespace(**self.facts)

    def _note(self, what: str) -> None:
        if self.made_up:
            self.asked.add(what)

    # What Triton's driver is asked.

    def get_device_properties(self, device=0) -> dict:
        self._note("its properties")
        return {name: self.facts[ours] for name, ours in TRITON.items()}

    def get_current_device(self) -> int:
        return 0

    def set_current_device(self, device) -> None:
        """There is one."""

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


def only_for(path: Path, answer, own):
    """`answer` for calls from the file at `path`, `own` for everybody else: torch asks these questions itself."""

    @functools.wraps(own, updated=())
    def asked(*args, **kwargs):
        theirs = sys._getframe(1).f_code.co_filename == str(path)
        return (answer if theirs else own)(*args, **kwargs)

    return asked


def of_target(capability: int, reported: dict | None) -> StandIns:
    """For the compiler: what the driver reports of the GPU here where that is the target, else made-up answers for
    the target."""
    major, minor = divmod(capability, 10)
    here = bool(reported) and (reported["major"], reported["minor"]) == (major, minor)
    facts = reported if here else {**MADE_UP, "major": major, "minor": minor}
    return StandIns(
        {**facts, "gcnArchName": f"sm_{capability}", "is_integrated": 0, "is_multi_gpu_board": 0},
        DEVICE,
        made_up=not here,
    )


def of_interpreter() -> StandIns:
    """For Triton's interpreter, whose tensors lie on the CPU; the capability is that of the default target."""
    made = of_target(90, None)
    made.device = "cpu"
    return made


def asks_for_a_device(error: BaseException, statement: str) -> bool:
    """Did it come of asking for a GPU that this process does not see: from within torch's or Triton's driver, or a
    failed assertion?"""
    import traceback

    while error is not None:
        last = traceback.extract_tb(error.__traceback__)[-1:]
        if any(part in frame.filename for frame in last for part in QUERIES):
            return True
        if isinstance(error, AssertionError) and statement.startswith("assert") and "cuda" in statement:
            return True
        error = error.__cause__
    return False
