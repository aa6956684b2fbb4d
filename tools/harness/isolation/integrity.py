"""What a kernel's process on a GPU may not change: the libraries' functions, torch's flags, our own modules, and
kernels loaded before.

It raises the price and is no proof: whoever shares a process with us can reach this code as well. What decides is the
supervisor's clock, which is in another process (`tools.gate.confirmation.speedup_on_device`).
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
    "harness.isolation.native",
    "harness.isolation.integrity",
    "harness.isolation.sandbox",
    "harness.isolation.ipc",
)
"""Modules of the harness that a kernel's process on a GPU has imported."""
FOREIGN_CLASSES = ("ctypes", "_ctypes")
"""Classes of these modules that ours use are held as ours are: their values carry the times."""
MAY_APPEAR = frozenset({"__warningregistry__"})
"""What `warnings` adds to a module by itself."""
CODE = ("__code__", "__defaults__", "__kwdefaults__")
JITTED = ("JITFunction", "Autotuner", "Heuristics")
"""Classes of Triton whose objects are called through attributes of their own …"""
FIXED = ("fn", "pre_run_hooks", "run", "configs", "pre_hook", "post_hook", "values")
"""… and those of these attributes that no call changes."""


LARGE, TURNS = 100, 4
"""Namespaces of more names than this are looked at in turns."""


class HeldReferences:
    """Names with the objects that they stood for, and functions with their code; compared by identity."""

    def __init__(self):
        self.names: list[tuple] = []
        """(namespace's name, its dict or a view of a class's, names, objects)"""
        self.closed: list[tuple] = []
        """(namespace's name, its dict or view, the names that may be in it)"""
        self.barred: list[tuple] = []
        """(namespace's name, its dict, names that may not appear in it)"""
        self.lists: list[tuple] = []
        """(namespace's name, list, its elements)"""
        self.turn = 0
        self.functions: dict[int, tuple] = {}
        """id -> (name, function, code, defaults, keyword defaults)"""

    def namespace(self, name: str, where, chosen=None, *, closed: bool = False) -> None:
        """Hold what `where` maps `chosen` names to (all, when not given); `closed`: nothing may be added either."""
        before = {key: where[key] for key in (list(where) if chosen is None else chosen)}
        self.names.append((name, where, tuple(before), tuple(before.values())))
        if closed:
            self.closed.append((name, where, MAY_APPEAR.union(where)))
        for key, value in before.items():
            self.function(f"{name}.{key}", value)

    def function(self, name: str, value) -> None:
        """Hold the code of a function, also of one in a staticmethod, classmethod or property; others have none."""
        inner = [value]
        if isinstance(value, (staticmethod, classmethod)):
            inner = [value.__func__]
        elif isinstance(value, property):
            inner = [value.fget, value.fset]
        for found in inner:
            if isinstance(found, types.FunctionType):
                self.functions.setdefault(id(found), (name, found, *(getattr(found, part) for part in CODE)))

    def instance(self, name: str, value, chosen) -> None:
        """Hold the `chosen` attributes of an object; no other may come to stand before a method of its class."""
        where, methods = (
            vars(value),
            {key for kind in type(value).__mro__ for key, held in vars(kind).items() if callable(held)},
        )
        self.namespace(name, where, chosen)
        self.barred.append((name, where, frozenset(methods.difference(where))))
        self.lists += [
            (f"{name}.{key}", where[key], tuple(where[key])) for key in chosen if isinstance(where[key], list)
        ]

    def module(self, name: str, module, *, exempt=(), classes: tuple[str, ...] = ()) -> None:
        """Everything of a module but the `exempt` names, with its own classes and those that come from the modules
        `classes`."""
        namespace = vars(module)
        self.namespace(name, namespace, [key for key in namespace if key not in exempt], closed=not exempt)
        for key, value in list(namespace.items()):
            if isinstance(value, type) and value.__module__ in (module.__name__, *classes):
                for held in value.__mro__[:-1]:
                    self.namespace(f"{name}.{key}", vars(held), closed=True)

    def changed(self) -> str:
        """What is no longer as it was, completing "the candidate ..."; empty when nothing is.

        Of the libraries' large namespaces every fourth is looked at, another one each time: they are most of the cost,
        and this is asked after every train. Ours are looked at always.
        """
        self.turn += 1
        return self._replaced() or self._added() or self._rewritten()

    def _replaced(self, all=all, map=map, len=len, enumerate=enumerate, same=operator.is_) -> str:
        for at, (name, now, keys, values) in enumerate(self.names):
            if len(keys) > LARGE and (at + self.turn) % TURNS:
                continue
            if not all(map(same, map(now.get, keys), values)):
                return (
                    f"replaced "
                    f"{name}.{next(key for key, value in zip(keys, values, strict=True) if now.get(key) is not value)}"
                )
        return ""

    def _added(self) -> str:
        for name, now, allowed in self.closed:
            for key in now:
                if key not in allowed:
                    return f"added {name}.{key}"
        for name, now, barred in self.barred:
            for key in now:
                if key in barred:
                    return f"added {name}.{key}"
        return ""

    def _rewritten(self) -> str:
        for name, now, before in self.lists:
            # Lists compare element by element, those that are identical without asking them.
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
    """The process as it was before foreign code was imported; `kernel` adds each kernel before the next is imported."""

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
                self.held.namespace(name, vars(holder), [key for key, value in vars(holder).items() if callable(value)])
        for name in GUARDED_MODULES:
            if name in sys.modules:
                self.held.module(f"the harness's {name.rpartition('.')[2]}", sys.modules[name], classes=FOREIGN_CLASSES)
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

    def host(self, host, parts: tuple[str, ...]) -> None:
        """Our own objects: these `parts` of the process's host, and all of its driver with the bound C functions."""
        self.held.instance("the harness's host", host, parts)
        self.held.namespace("the harness's driver", vars(host.driver), closed=True)
        self.held.namespace("the harness's driver", host.driver._bound, closed=True)
        self.bound = [(name, call, call.argtypes, call.restype) for name, call in host.driver._bound.items()]
        self.code: list[tuple] = []
        """Of the driver's functions, as `native.machine_code_of` gives it."""

    def machine_code(self) -> None:
        """Of the driver's functions and the clock, before native code is loaded: it could write over them."""
        functions = {name: call for name, call, *_ in self.bound} | {"clock_gettime": ctypes.CDLL(None).clock_gettime}
        self.code = self.code or native.machine_code_of(functions)

    def kernel(self, name: str, module, functions: dict) -> None:
        """A kernel's module (None: a library) and its entry in `functions`, before another one is imported."""
        if module is not None:
            hold_kernel(self.held, name, module)
        self.held.namespace("the harness's functions", functions, [name])

    def _flags(self) -> dict:
        found = {name: read() for name, read in self.readers.items()}
        return found | {"current stream": self.current_stream(0), "current device": self.current_device()}

    def changed(self) -> str:
        """What is no longer as it was, completing "the candidate ..."; empty when nothing is."""
        said = self.held.changed()
        if said:
            return said
        for name, call, types_, result in self.bound:
            # ctypes gives None for an errcheck that was never set.
            if call.argtypes is not types_ or call.restype is not result or call.errcheck is not None:
                return f"replaced what becomes of the driver's {name}"
        said = native.first_rewritten_function(self.code)
        if said:
            return said
        for name, value in self._flags().items():
            if value != self.flags[name]:
                return f"changed torch's {name} from {self.flags[name]} to {value}"
        return ""


def hold_kernel(held: HeldReferences, name: str, module) -> None:
    """A kernel's module: all names that it does not itself rebind, and of its jitted functions what they run."""
    tree = ast.parse(module.__loader__.get_source(module.__name__) or "")
    rebound = {name for node in ast.walk(tree) if isinstance(node, ast.Global) for name in node.names}
    held.module(f"the {name}'s module", module, exempt=rebound | {"__warningregistry__"})
    for key, value in list(vars(module).items()):
        if type(value).__name__ in JITTED:
            fixed = [part for part in FIXED if part in vars(value)]
            held.instance(f"the {name}'s {key}", value, fixed)
