"""C++ that lets Python call `solve` with tensors: a pybind11 module, or an operator of PyTorch."""

from __future__ import annotations

from collections.abc import Iterable

from graph.export.accepted import AcceptedKernel
from tools.artifacts import Argument
from tools.errors import SettingsError

C_TYPES = {"bool": "bool", "int32": "int", "int64": "long", "float32": "float", "float64": "double"}
"""A scalar's dtype -> its type in C; in PyTorch's schemas there are bool, int and float alone."""
TORCH_TYPES = {"bool": ("bool", "bool"), "int": ("int64_t", "int"), "float": ("double", "float")}
HALF_OPERATOR_FLAGS = tuple(
    f"-U__CUDA_NO_{what}__"
    for what in ("HALF_OPERATORS", "HALF_CONVERSIONS", "HALF2_OPERATORS", "BFLOAT16_CONVERSIONS")
)
"""PyTorch takes these operators away from every extension; the kernel was judged with them."""
PYBIND_MODULE = 'PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {{ m.def("run", &run{named}); }}\n'
TORCH_LIBRARY = """TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) {{
  ops.def("run({schema}) -> ()");
  ops.impl("run", torch::{device}, &run);
}}

REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
"""


def pybind_module(kernel: AcceptedKernel, *, derive_sizes: bool = False) -> str:
    """A module with `run`, which takes all arguments by name; with `derive_sizes` those up to the last output, in
    order, and sizes from shapes."""
    arguments = kernel.task.arguments[: _last_output(kernel) + 1] if derive_sizes else kernel.task.arguments
    declared = "".join(f', py::arg("{a.name}")' for a in arguments)
    return f"#include <torch/extension.h>\n\n{_run_function(kernel, arguments)}\n{PYBIND_MODULE.format(named=declared)}"


def torch_library(kernel: AcceptedKernel) -> str:
    """The operator `run` of all arguments in order, as Hugging Face's kernel-builder takes it."""
    schema = ", ".join(
        f"{torch_types(a)[1]} {a.name}"
        if a.role == "scalar"
        else f"Tensor{f'(a{at}!)' if a.is_written else ''} {a.name}"
        for at, a in enumerate(kernel.task.arguments)
    )
    registered = TORCH_LIBRARY.format(schema=schema, device="kCUDA" if kernel.device == "cuda" else "kCPU")
    headers = '#include <torch/all.h>\n#include <torch/library.h>\n\n#include "registration.h"\n'
    return f"{headers}\n{_run_function(kernel, kernel.task.arguments)}\n{registered}"


def suite_arguments(kernel: AcceptedKernel) -> tuple[Argument, ...]:
    """What a suite gives: the arguments up to the last output; those behind it are sizes."""
    return kernel.task.arguments[: _last_output(kernel) + 1]


def _last_output(kernel: AcceptedKernel) -> int:
    return max(at for at, a in enumerate(kernel.task.arguments) if a.is_written)


def torch_types(argument: Argument) -> tuple[str, str]:
    """Type of a scalar in C++ and in PyTorch's schemas, which have three."""
    return TORCH_TYPES[argument.dtype.rstrip("0123456789")]


def declared_parameters(arguments: Iterable[Argument]) -> list[str]:
    """The parameters of `solve` as C++ declares them, pointers without their types."""
    return [
        f"{C_TYPES[a.dtype]} {a.name}" if a.role == "scalar" else f"{'' if a.is_written else 'const '}void* {a.name}"
        for a in arguments
    ]


def _run_function(kernel: AcceptedKernel, given: tuple[Argument, ...]) -> str:
    declared, passed = declared_parameters(kernel.task.arguments), []
    for a in kernel.task.arguments:
        value = a.name if a in given else _size_expression(kernel, a, given)
        passed.append(f"static_cast<{C_TYPES[a.dtype]}>({value})" if a.role == "scalar" else f"{a.name}.data_ptr()")
    parameters = ", ".join(f"{torch_types(a)[0] if a.role == 'scalar' else 'torch::Tensor'} {a.name}" for a in given)
    head = ""
    if kernel.takes_stream:
        head = "#include <c10/cuda/CUDAStream.h>\n\n"
        declared.append("cudaStream_t stream")
        passed.append("c10::cuda::getCurrentCUDAStream()")
    head += f'extern "C" void solve({", ".join(declared)});'
    return f"{head}\n\nstatic void run({parameters}) {{\n  solve({', '.join(passed)});\n}}\n"


def _size_expression(kernel: AcceptedKernel, scalar: Argument, given: tuple[Argument, ...]) -> str:
    """Where a size is read from."""
    for a in given:
        if scalar.name in a.shape:
            return f"{a.name}.size({a.shape.index(scalar.name)})"
    values = {next(s.value for s in w.arguments if s.name == scalar.name) for w in kernel.probed_workloads}
    if len(values) > 1:
        raise SettingsError(
            f"{kernel.task.name}: no shape says {scalar.name!r}, which the suite does not give; export it as python"
        )
    return str(*values)


def extension_flags(kernel: AcceptedKernel) -> list[str]:
    """The kernel's flags less those that make a library of it, and the standard, which PyTorch's own headers decide."""
    own_flags = (
        "-shared",
        "-fPIC",
        "-Xcompiler=-fPIC",
        "-cudart=static",
        "-Xptxas=-v",
        "-Xlinker",
        "-std=",
        "-fdiagnostics",
    )
    return [flag for flag in kernel.flags if not flag.startswith(own_flags)]
