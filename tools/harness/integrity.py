"""What a kernel's process on a GPU may not change: the libraries' functions, and torch's flags."""

import builtins
import ctypes
import os
import sys
import time


class Snapshot:
    """Functions of the libraries and torch's flags as they were before foreign code was imported."""

    def __init__(self, torch, triton):
        from triton.compiler import CompiledKernel
        from triton.runtime.jit import JITFunction

        self.torch = torch
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
            "triton": triton,
            "triton.testing": sys.modules.get("triton.testing"),
            "triton.JITFunction": JITFunction,
            "triton.CompiledKernel": CompiledKernel,
        }
        self.functions = [
            (name, vars(holder), {key: value for key, value in vars(holder).items() if callable(value)})
            for name, holder in holders.items()
            if holder is not None
        ]
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

    def _flags(self) -> dict:
        found = {name: read() for name, read in self.readers.items()}
        return found | {"current stream": self.current_stream(0), "current device": self.current_device()}

    def changed(self) -> str:
        """What is no longer as it was, completing "the candidate ..."; empty when nothing is."""
        for name, now, before in self.functions:
            for key, value in before.items():
                if now.get(key) is not value:
                    return f"replaced {name}.{key}"
        for name, value in self._flags().items():
            if value != self.flags[name]:
                return f"changed torch's {name} from {self.flags[name]} to {value}"
        return ""
