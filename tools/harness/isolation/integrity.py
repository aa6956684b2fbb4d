"""Detects changes that a kernel makes in its process on a GPU: to functions of the libraries, torch's flags, the
harness's modules, and kernels loaded before.

This makes an attack harder and is no proof, because code in the same process can reach this code as well. The decision
rests on the supervisor's clock, which is in another process (`tools.gate.confirmation.speedup_on_device`).
"""

import ast
import builtins
import ctypes
import operator
import os
import sys
import time
import types

from harness.isolation import native

GUARDED_MODULES = (
    "harness.memory.cuda_driver",
    "harness.workers.gpu_worker",
    "harness.workers.gpu_warmup",
    "harness.device.graphs",
    "harness.isolation.native",
    "harness.isolation.integrity",
    "harness.isolation.sandbox",
    "harness.isolation.ipc",
)
"""Modules of the harness that a kernel's process on a GPU has imported."""
FOREIGN_CLASSES = ("ctypes", "_ctypes")
"""Modules whose classes are guarded where the harness uses them, because their values carry times."""
MAY_APPEAR = frozenset({"__warningregistry__"})
"""Names that `warnings` adds to a module."""
CODE = ("__code__", "__defaults__", "__kwdefaults__")
JITTED = ("JITFunction", "Autotuner", "Heuristics")
"""Classes of Triton whose objects hold attributes that decide what a call runs."""
FIXED = ("fn", "pre_run_hooks", "run", "configs", "pre_hook", "post_hook", "values")
"""Attributes of such objects that no call changes."""


LARGE, TURNS = 100, 4
"""Namespaces of more names than this are checked in turns, one part of so many at each call."""


class HeldReferences:
    """Names with the objects that they referred to, and functions with their code; compared by identity."""

    def __init__(self):
        self.names: list[tuple] = []
        """(namespace's name, its dict or the view of a class's, names, objects)"""
        self.closed: list[tuple] = []
        """(namespace's name, its dict or view, the names that may be in it)"""
        self.barred: list[tuple] = []
        """(namespace's name, its dict, names that may not appear in it)"""
        self.lists: list[tuple] = []
        """(namespace's name, list, its elements)"""
        self.turn = 0
        self.functions: dict[int, tuple] = {}
        """id -> (name, function, code, defaults, keyword defaults)"""

    def hold_namespace(self, name: str, where, chosen=None, *, closed: bool = False) -> None:
        """Record the objects that `where` maps the `chosen` names to, by default all of them; `closed` forbids new
        names."""
        objects = {key: where[key] for key in (list(where) if chosen is None else chosen)}
        self.names.append((name, where, tuple(objects), tuple(objects.values())))
        if closed:
            self.closed.append((name, where, MAY_APPEAR.union(where)))
        for key, value in objects.items():
            self.hold_function(f"{name}.{key}", value)

    def hold_function(self, name: str, value) -> None:
        """Record the code of a function, also of one in a staticmethod, classmethod or property; other values are
        ignored."""
        inner = [value]
        if isinstance(value, (staticmethod, classmethod)):
            inner = [value.__func__]
        elif isinstance(value, property):
            inner = [value.fget, value.fset]
        for found in inner:
            if isinstance(found, types.FunctionType):
                self.functions.setdefault(id(found), (name, found, *(getattr(found, part) for part in CODE)))

    def hold_instance(self, name: str, value, chosen) -> None:
        """Record the `chosen` attributes of an object; a new attribute must not hide a method of its class."""
        where, methods = (
            vars(value),
            {key for kind in type(value).__mro__ for key, held in vars(kind).items() if callable(held)},
        )
        self.hold_namespace(name, where, chosen)
        self.barred.append((name, where, frozenset(methods.difference(where))))
        self.lists += [
            (f"{name}.{key}", where[key], tuple(where[key])) for key in chosen if isinstance(where[key], list)
        ]

    def hold_module(self, name: str, module, *, exempt=(), classes: tuple[str, ...] = ()) -> None:
        """Record all names of a module but the `exempt` ones, and the classes that are its own or come from the modules
        `classes`."""
        namespace = vars(module)
        self.hold_namespace(name, namespace, [key for key in namespace if key not in exempt], closed=not exempt)
        for key, value in list(namespace.items()):
            if isinstance(value, type) and value.__module__ in (module.__name__, *classes):
                for held in value.__mro__[:-1]:
                    self.hold_namespace(f"{name}.{key}", vars(held), closed=True)

    def changed(self) -> str:
        """Return the first change as the end of "the candidate ..."; empty if there is none.

        Each call checks another quarter of the libraries' large namespaces, which cost most of the time, because this
        is called after every train. The harness's own are checked always.
        """
        self.turn += 1
        return self._replaced_name() or self._added_name() or self._changed_code()

    def _replaced_name(self, all=all, map=map, len=len, enumerate=enumerate, same=operator.is_) -> str:
        """Return the first recorded name that refers to another object."""
        for at, (name, now, keys, values) in enumerate(self.names):
            if len(keys) > LARGE and (at + self.turn) % TURNS:
                continue
            if not all(map(same, map(now.get, keys), values)):
                return (
                    f"replaced "
                    f"{name}.{next(key for key, value in zip(keys, values, strict=True) if now.get(key) is not value)}"
                )
        return ""

    def _added_name(self) -> str:
        """Return the first forbidden name that was added."""
        for name, now, allowed in self.closed:
            for key in now:
                if key not in allowed:
                    return f"added {name}.{key}"
        for name, now, barred in self.barred:
            for key in now:
                if key in barred:
                    return f"added {name}.{key}"
        return ""

    def _changed_code(self) -> str:
        """Return the first list or function that changed."""
        for name, now, before in self.lists:
            # Lists compare element by element, and identical elements without calling their methods.
            if tuple(now) != before:
                return f"changed {name}"
        for name, function, code, defaults, keywords in self.functions.values():
            if (
                function.__code__ is not code
                or function.__defaults__ is not defaults
                or function.__kwdefaults__ is not keywords
            ):
                return f"replaced the code of {name}"
        return ""


class Snapshot:
    """The state of the process before a candidate's code was imported; `add_kernel` adds each kernel before the next is
    imported."""

    def __init__(self, torch, triton):
        from triton.compiler import CompiledKernel
        from triton.runtime.jit import JITFunction

        self.torch = torch
        self.held = HeldReferences()
        holders = {
            "builtins": builtins,
            "time": time,
            "ctypes": ctypes,
            "sys": sys,
            "os": os,
            "torch": torch,
            "torch.cuda": torch.cuda,
            "torch.Tensor": torch.Tensor,
            "torch.cuda.Event": torch.cuda.Event,
            "torch.cuda.CUDAGraph": torch.cuda.CUDAGraph,
            "torch.profiler": torch.profiler,
            "torch.profiler.profile": torch.profiler.profile,
            "torch.autograd.profiler.profile": torch.autograd.profiler.profile,
            "triton": triton,
            "triton.testing": sys.modules.get("triton.testing"),
            "triton.JITFunction": JITFunction,
            "triton.CompiledKernel": CompiledKernel,
        }
        for name, holder in holders.items():
            if holder is not None:
                self.held.hold_namespace(
                    name, vars(holder), [key for key, value in vars(holder).items() if callable(value)]
                )
        for name in GUARDED_MODULES:
            if name in sys.modules:
                self.held.hold_module(
                    f"the harness's {name.rpartition('.')[2]}", sys.modules[name], classes=FOREIGN_CLASSES
                )
        cublas, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
        self.readers = {
            "allow_tf32": lambda: cublas.allow_tf32,
            "cudnn.allow_tf32": lambda: cudnn.allow_tf32,
            "float32_matmul_precision": torch.get_float32_matmul_precision,
            "use_deterministic_algorithms": torch.are_deterministic_algorithms_enabled,
            "default_dtype": torch.get_default_dtype,
            "default_device": torch.get_default_device,
            "num_threads": torch.get_num_threads,
            "grad_enabled": torch.is_grad_enabled,
        }
        self.current_stream, self.current_device = torch._C._cuda_getCurrentRawStream, torch._C._cuda_getDevice
        self.flags = self._flags()
        self.bound: list[tuple] = []

    def hold_backend(self, host, parts: tuple[str, ...]) -> None:
        """Record these `parts` of the process's backend, and all of its driver with the bound C functions."""
        self.held.hold_instance("the harness's backend", host, parts)
        self.held.hold_namespace("the harness's driver", vars(host.driver), closed=True)
        self.held.hold_namespace("the harness's driver", host.driver._bound, closed=True)
        self.bound = [(name, call, call.argtypes, call.restype) for name, call in host.driver._bound.items()]
        self.code: list[tuple] = []
        """First bytes of the driver's functions, as `native.first_code_bytes` returns them."""

    def hold_machine_code(self) -> None:
        """Record the code of the driver's functions and of the clock, before native code is loaded that could overwrite
        it."""
        functions = {name: call for name, call, *_ in self.bound} | {"clock_gettime": ctypes.CDLL(None).clock_gettime}
        self.code = self.code or native.first_code_bytes(functions)

    def add_kernel(self, name: str, module, functions: dict) -> None:
        """Record a kernel's module (None: a shared object) and its entry in `functions`, before another one is
        imported."""
        if module is not None:
            hold_kernel(self.held, name, module)
        self.held.hold_namespace("the harness's functions", functions, [name])

    def _flags(self) -> dict:
        """Return torch's flags, the current stream and the current device."""
        found = {name: read() for name, read in self.readers.items()}
        return found | {"current stream": self.current_stream(0), "current device": self.current_device()}

    def changed(self) -> str:
        """Return the first change as the end of "the candidate ..."; empty if there is none."""
        change = self.held.changed()
        if change:
            return change
        for name, call, types_, result in self.bound:
            # ctypes returns None for an errcheck that was never set.
            if call.argtypes is not types_ or call.restype is not result or call.errcheck is not None:
                return f"replaced a conversion of the driver's {name}"
        change = native.first_rewritten_function(self.code)
        if change:
            return change
        for name, value in self._flags().items():
            if value != self.flags[name]:
                return f"changed torch's {name} from {self.flags[name]} to {value}"
        return ""


def hold_kernel(held: HeldReferences, name: str, module) -> None:
    """Record a kernel's module: all names that it does not rebind itself, and what its jitted functions run."""
    tree = ast.parse(module.__loader__.get_source(module.__name__) or "")
    rebound = {name for node in ast.walk(tree) if isinstance(node, ast.Global) for name in node.names}
    held.hold_module(f"the {name}'s module", module, exempt=rebound | {"__warningregistry__"})
    for key, value in list(vars(module).items()):
        if type(value).__name__ in JITTED:
            fixed = [part for part in FIXED if part in vars(value)]
            held.hold_instance(f"the {name}'s {key}", value, fixed)
