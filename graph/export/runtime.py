"""Calls a kernel where it was judged, and says where it was not. Written into each exported module; needs torch, and
a compiler for C++ and CUDA."""

import ctypes
import hashlib
import inspect
import math
import os
import platform
import shlex
import shutil
import subprocess
import tempfile
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

SCALARS: dict[str, Any] = {
    "bool": ctypes.c_bool,
    "int32": ctypes.c_int32,
    "int64": ctypes.c_int64,
    "float32": ctypes.c_float,
    "float64": ctypes.c_double,
}
WRITTEN = ("output", "inout")
"""Roles of the arguments that a kernel writes; the content of an `inout` one is given."""
MOST_DECISIONS = 4096
"""Signatures whose decisions are kept."""
GRADIENT = "a gradient"


class Exported:
    """One kernel with the conditions of its claim.

    `contract`: `name`, `arguments` in ABI order (name, role, dtype, axes), `points` (each argument's shape or value at
    the sizes that were timed), `ranges` (of dims from which further sizes were drawn and found right; empty: none),
    `seen` (values of what has no range), `most` (the largest product of ranged dims), `named` (axes have the sizes of
    the dims that they are named for), `device`, `align` in bytes, `triton`, `stream` (it works on torch's current
    stream, and so in a CUDA graph, not only on the default one); where it is built at its first call `flags`, `file`,
    `source`.

    `strict`: a call that was never judged is a ValueError. `differentiable`: the reference answers where a gradient is
    asked; otherwise such a call is a NotImplementedError.
    """

    def __init__(
        self, contract: dict[str, Any], run: Callable[..., Any] | None = None, *, differentiable: bool = True
    ) -> None:
        self.contract, self.run, self.differentiable, self.strict = contract, run, differentiable, False
        self.solve: Any = None
        interpreted = contract["triton"] and os.environ.get("TRITON_INTERPRET") == "1"
        self.device: str = "cpu" if interpreted else contract["device"]
        self.align: int = 1 if interpreted else contract["align"]
        self._roles = [(name, role in WRITTEN) for name, role, *_ in contract["arguments"]]
        self._is_bound = self.device == "cuda" and not contract["stream"]
        self._decisions: dict[Any, Any] = {}
        self._kernel_calls = 0
        self._fallbacks: dict[str, int] = {}
        self._lock = threading.Lock()

    def __call__(
        self,
        given: dict[str, Any],
        reference: Callable[..., Any] | None = None,
        traced: Callable[..., Any] | None = None,
    ) -> Any:
        """The outputs, written into those given, else into new ones: one tensor, or a tuple in the contract's order.

        What was never judged goes to `reference`; without one it is a ValueError that says what it is. `traced`:
        launches the kernel on tensors that have no memory, as those of a tracer.
        """
        filled = self.complete_arguments(given, traced=traced is not None)
        if isinstance(filled, str):
            if reference is None:
                raise ValueError(f"this kernel was never judged for that: {filled}")
            self.count_fallback(filled)
            return self.call_reference(given, reference)
        if traced is not None:
            traced(**filled)
            return self._as_result([filled[name] for name, is_written in self._roles if is_written])
        self._kernel_calls += 1
        where = self._device_of(filled)
        if where.type == "cuda" and where.index != torch.cuda.current_device():
            with torch.cuda.device(where):
                self._launch(filled)
        else:
            self._launch(filled)
        return self._as_result([filled[name] for name, is_written in self._roles if is_written])

    def stats(self) -> dict[str, Any]:
        """`kernel`: calls that the kernel computed, without replays of graphs; `reference`: what else was asked -> the
        number of such calls."""
        return {"kernel": self._kernel_calls, "reference": dict(self._fallbacks)}

    def count_fallback(self, reason: str) -> None:
        """Count a call that the kernel does not compute, and warn of the first of its kind.

        `reason`: words of `complete_arguments`. Raises NotImplementedError where a gradient is asked and there is none,
        and ValueError where the caller wants no fallback.
        """
        name, kind = self.contract["name"], reason.partition(" (")[0]
        if reason == GRADIENT and not self.differentiable:
            raise NotImplementedError(
                f"{name} has no gradient, because its task has no backward; call it under torch.no_grad()"
            )
        if self.strict:
            raise ValueError(f"{name} was never judged for that: {reason}")
        with self._lock:
            self._fallbacks[kind] = self._fallbacks.get(kind, 0) + 1
        if self._fallbacks[kind] == 1:
            told = f"{name}: the reference computes this call, because the kernel was never judged for {reason}"
            warnings.warn(told, RuntimeWarning, stacklevel=4)

    def complete_arguments(self, given: dict[str, Any], *, traced: bool = False) -> dict[str, Any] | str:
        """Every argument of the kernel, outputs allocated; or a few words on what in `given` was never judged.

        `traced`: the tensors have shapes and no memory.
        """
        decision = self._decide(given) if traced else self.decide(given)
        if isinstance(decision, str):
            return decision
        filled = {name: given.get(name) for name, _ in self._roles}
        for name, size, dtype in decision:
            filled[name] = size if dtype is None else torch.empty(size, dtype=dtype, device=self._device_of(given))
        return filled

    def decide(self, given: dict[str, Any]) -> Any:
        """What `given` lacks, in ABI order (name, size or value, dtype or None for a scalar); or a few words on what
        was never judged. Worked out once for each signature."""
        records, align, shared = torch.is_grad_enabled(), self.align, False
        signature: list[Any] = [records, self._is_bound and self._is_elsewhere()]
        spans: list[tuple[bool, int, int]] = []
        for name, is_written in self._roles:
            value = given.get(name)
            if not isinstance(value, torch.Tensor):
                signature.append(value)
                continue
            first = value.data_ptr()
            last = first + value.nbytes
            signature += (value.shape, value.dtype, value.device, value.is_contiguous(), first % align)
            if records:
                signature.append(value.requires_grad)
            for other_written, other_first, other_last in spans:
                if first < other_last and other_first < last and (is_written or other_written):
                    shared = True
            spans.append((is_written, first, last))
        key = (shared, *signature)
        decision = self._decisions.get(key)
        if decision is None:
            if len(self._decisions) >= MOST_DECISIONS:
                self._decisions.clear()
            decision = self._decisions[key] = self._decide(given, has_memory=True, shared=shared)
        return decision

    def _is_elsewhere(self) -> bool:
        """Whether the kernel would run on another stream than the caller's."""
        return bool(torch.cuda.current_stream() != torch.cuda.default_stream())

    def _decide(self, given: dict[str, Any], *, has_memory: bool = False, shared: bool = False) -> Any:
        sizes = self._judged_sizes(given, traced=not has_memory)
        if sizes is None:
            told = ", ".join(f"{name} {_shape_or_value(value)}" for name, value in given.items() if value is not None)
            return f"the sizes or values ({told})"
        missing, where = [], self._device_of(given)
        for name, role, dtype, _ in self.contract["arguments"]:
            value = given.get(name)
            if value is None and role == "output":
                missing.append((name, sizes[name], getattr(torch, dtype)))
            elif value is None and role == "scalar":
                missing.append((name, sizes[name], None))
            elif value is None:
                return f"{name} left out"
            elif role != "scalar":
                wrong = self._mismatch(value, dtype, where, has_memory)
                if wrong:
                    return f"{name} {wrong}"
                if has_memory and torch.is_grad_enabled() and value.requires_grad:
                    return GRADIENT
        if has_memory and self._is_bound and self._is_elsewhere():
            return "a stream other than the default one"
        return "an output that shares memory with another argument" if shared else missing

    def _device_of(self, given: dict[str, Any]) -> Any:
        for value in given.values():
            if isinstance(value, torch.Tensor):
                return value.device
        return torch.device(self.device)

    def output_sizes(self, given: dict[str, Any]) -> dict[str, Any]:
        """The shape of each argument that the kernel writes; ValueError where `given` does not tell it."""
        sizes = (self.contract["named"] and self._sizes_by_axes(given, WRITTEN)) or self._judged_sizes(given)
        if sizes is None:
            raise ValueError(f"{self.contract['name']} does not know the size of its output here; give the output")
        return {name: sizes[name] for name, is_written in self._roles if is_written}

    def empty_outputs(self, given: dict[str, Any]) -> dict[str, Any]:
        """A new tensor for each argument that the kernel writes; ValueError where `given` does not tell its size."""
        sizes, where = self.output_sizes(given), self._device_of(given)
        return {
            name: torch.empty(sizes[name], dtype=getattr(torch, dtype), device=where)
            for name, _, dtype, _ in self.contract["arguments"]
            if name in sizes
        }

    def _launch(self, filled: dict[str, Any]) -> None:
        if self.run is not None:
            self.run(**filled)
            return
        passed = [value.data_ptr() if isinstance(value, torch.Tensor) else value for value in filled.values()]
        stream = [torch.cuda.current_stream().cuda_stream] if self.contract["stream"] else []
        self._built_entry()(*passed, *stream)

    def _mismatch(self, value: Any, dtype: str, where: Any, has_memory: bool) -> str:
        if value.dtype != getattr(torch, dtype):
            return f"of {value.dtype}"
        if value.device.type != self.device or value.device != where:
            return f"on {value.device}"
        if not value.is_contiguous():
            return "not contiguous"
        return f"not aligned to {self.align} bytes" if has_memory and value.data_ptr() % self.align else ""

    def _judged_sizes(self, given: dict[str, Any], *, traced: bool = False) -> dict[str, Any] | None:
        """Shape or value of every argument where `given` was judged."""
        # A tracer's symbolic size that equals a timed one would be bound to it; within a range it stays free.
        ranged = self._ranged_sizes(given) if traced else None
        if ranged is not None:
            return ranged
        for point in self.contract["points"]:
            if all(_shape_or_value(given[name]) == said for name, said in point.items() if given.get(name) is not None):
                return dict(point)
        return None if traced else self._ranged_sizes(given)

    def _ranged_sizes(self, given: dict[str, Any]) -> dict[str, Any] | None:
        dims, ranges = self._dims(given), self.contract["ranges"]
        if not ranges or dims is None:
            return None
        for name, size in dims.items():
            low, high = ranges.get(name, (0, -1))
            if not low <= size <= high and size not in self.contract["seen"].get(name, ()):
                return None
        known = math.prod(size for name, size in dims.items() if name in ranges) <= self.contract["most"]
        return self._sizes_by_axes(given, ("input", "scalar", *WRITTEN)) if known else None

    def _sizes_by_axes(self, given: dict[str, Any], roles: tuple[str, ...]) -> dict[str, Any] | None:
        dims = self._dims(given)
        sizes = {
            name: self._shape_or_size(role, axes, name, dims or {})
            for name, role, _, axes in self.contract["arguments"]
            if role in roles
        }
        return None if dims is None or None in sizes.values() else sizes

    def _dims(self, given: dict[str, Any]) -> dict[str, Any] | None:
        """Dims and scalars as shapes and values have them; None where these contradict each other."""
        found: dict[str, Any] = {}
        for name, role, _, axes in self.contract["arguments"]:
            value = given.get(name)
            if value is None:
                continue
            if role != "scalar" and value.dim() != len(axes):
                return None
            for axis, size in [(name, value)] if role == "scalar" else zip(axes, value.shape, strict=True):
                if (int(axis) if axis.isdigit() else found.setdefault(axis, size)) != size:
                    return None
        return found

    def _shape_or_size(self, role: str, axes: list[str], name: str, dims: dict[str, Any]) -> Any:
        if role == "scalar":
            return dims.get(name)
        sizes = [int(axis) if axis.isdigit() else dims.get(axis) for axis in axes]
        return None if None in sizes else sizes

    def call_reference(self, given: dict[str, Any], reference: Callable[..., Any]) -> Any:
        """What the reference says, in the outputs given where there are any."""
        if not self.differentiable:
            given = self.empty_outputs(given) | {name: one for name, one in given.items() if one is not None}
        dims, asked = self._dims(given) or {}, dict(given)
        named = [name for name, p in inspect.signature(reference).parameters.items() if p.kind != p.VAR_KEYWORD]
        like = next((value for value in given.values() if isinstance(value, torch.Tensor)), None)
        for name, role, dtype, axes in self.contract["arguments"]:
            size = self._shape_or_size(role, axes, name, dims)
            if asked.get(name) is None and role in ("output", "scalar") and name in named and size is not None:
                where = like.device if like is not None else self.device
                asked[name] = size if role == "scalar" else torch.empty(size, dtype=getattr(torch, dtype), device=where)
        answer = reference(**{name: value for name, value in asked.items() if value is not None})
        roles = {name: role for name, role, *_ in self.contract["arguments"] if role in WRITTEN}
        outputs = [*roles]
        if answer is None:
            return self._as_result([asked[name] for name in outputs])
        answers = list(answer) if isinstance(answer, tuple | list) else [answer]
        if len(answers) != len(outputs):  # those that it changed in place are not among them
            rest = iter(answers)
            answers = [next(rest) if roles[name] == "output" else asked[name] for name in outputs]
        into = [given.get(name) for name in outputs]
        return self._as_result([one if out is None else out.copy_(one) for out, one in zip(into, answers, strict=True)])

    def _as_result(self, outputs: list[Any]) -> Any:
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def _built_entry(self) -> Any:
        """The kernel's entry, built once on this machine with the flags that it was judged with."""
        if self.solve is None:
            argv, source, arguments = self._build_command(), self.contract["source"], self.contract["arguments"]
            kept = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "exported-kernels"
            kept.mkdir(parents=True, exist_ok=True, mode=0o700)
            library = kept / f"{hashlib.sha256(repr((argv, source, platform.node())).encode()).hexdigest()}.so"
            if not library.exists():
                with tempfile.TemporaryDirectory(dir=kept) as folder:
                    (Path(folder) / self.contract["file"]).write_text(source, encoding="utf-8")
                    done = subprocess.run(
                        [*argv, "-o", "kernel.so"], cwd=folder, capture_output=True, text=True, check=False
                    )
                    if done.returncode:
                        raise RuntimeError(f"{' '.join(argv)} failed:\n{done.stderr}")
                    (Path(folder) / "kernel.so").replace(library)
            entry = ctypes.CDLL(str(library)).solve
            entry.restype = None
            entry.argtypes = [
                *(SCALARS[dtype] if role == "scalar" else ctypes.c_void_p for _, role, dtype, _ in arguments),
                *([ctypes.c_void_p] if self.contract["stream"] else []),
            ]
            self.solve = entry
        return self.solve

    def _build_command(self) -> list[str]:
        flags, file = self.contract["flags"], self.contract["file"]
        if self.device == "cpu":
            return [*shlex.split(os.environ.get("CXX") or shutil.which("g++") or "clang++"), *flags, file]
        from torch.utils import cpp_extension

        major, minor = torch.cuda.get_device_capability()
        code = f"{major}{minor}{'a' if major >= 9 else ''}"
        nvcc = shutil.which("nvcc") or f"{cpp_extension.CUDA_HOME}/bin/nvcc"
        cutlass = os.environ.get("CUTLASS_PATH")
        headers = [f"-I{cutlass}/include", f"-I{cutlass}/tools/util/include"] if cutlass else []
        return [nvcc, *flags, *headers, f"-gencode=arch=compute_{code},code=sm_{code}", file]


def _shape_or_value(value: Any) -> Any:
    return list(value.shape) if isinstance(value, torch.Tensor) else value
