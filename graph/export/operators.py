"""`export --format op`: a package with two operators of PyTorch, one that allocates its outputs and one that is given
them.

C++ and CUDA are registered through PyTorch's stable ABI. Their operator keeps what was decided for each signature and
asks Python, which has the conditions of the claim, for a new one. Triton is a `triton_op` where its host code traces;
other Python kernels are opaque operators.
"""

from __future__ import annotations

import ast
import json
import re
import textwrap
from collections.abc import Callable, Iterable
from typing import Any

from graph.export import bindings, operator_sources
from graph.export.accepted import ALIGNMENT, AcceptedKernel, TextByName
from tools.artifacts import Argument
from tools.errors import SettingsError

TRACED_CALLS = {"triton.cdiv", "triton.next_power_of_2", "min", "max", "int", "len", "torch.empty", "torch.empty_like"}
TRACED_METHODS = {"size", "stride", "numel", "dim", "view", "reshape", "bit_length"}
"""What host code may call besides its kernels to be traced."""

STABLE_FLAGS = ["-DTORCH_TARGET_VERSION=0x020a000000000000", "-DPy_LIMITED_API=0x030A0000"]
"""What ties an extension to the stable ABI of torch 2.10, and to Python's."""


def operator_package(kernel: AcceptedKernel) -> TextByName:
    """The package without reference and test: operators, their fakes, type hints, and what `pip wheel .` needs."""
    name, folder = kernel.name, f"src/{kernel.name}"
    if not kernel.inputs or name in ("torch", "triton", "aten"):
        raise SettingsError(
            f"--format op: an operator needs a tensor to read and a name of its own, and {name} has not; use --format "
            f"python"
        )
    words = _words(kernel)
    functions, fakes = operator_sources.FUNCTIONS.format(**words), operator_sources.FAKE_SOURCE.replace("PACKAGE", name)
    files, dependencies = {f"{folder}/py.typed": ""}, ["torch>=2.10"]
    if kernel.is_compiled:
        files |= _extension_files(kernel, words)
        launch = operator_sources.LOAD_SOURCE.format(name=name)
        parts = [functions, operator_sources.COMPILED_SOURCE.replace("PACKAGE", name), fakes]
    else:
        dependencies.append("nvidia-cutlass-dsl" if kernel.task.language == "cutedsl" else "triton")
        launch, kernels = "", _traceable_kernels(kernel.source)
        registered = operator_sources.OPAQUE_SOURCE.format(**words) + fakes
        if kernels:
            # Triton's interpreter launches what cannot be traced.
            traced = operator_sources.TRACED_SOURCE.format(**words, kernels=kernels)
            branches = (textwrap.indent(part, "    ") for part in (registered, traced))
            registered = "\n\nif _exported.device == 'cpu':\n{}\nelse:\n{}".format(*branches)
        parts = [operator_sources.PYTHON_SOURCE, registered, functions]
    project = operator_sources.PROJECT_TOML.format(
        project=name.strip("_"), name=name, title=json.dumps(kernel.title), dependencies=json.dumps(dependencies)
    )
    module = kernel.module_source(launch, ", differentiable=False") + operator_sources.OWN_REFERENCE + "".join(parts)
    return {"pyproject.toml": project, **files, f"{folder}/__init__.py": module}


def _extension_files(kernel: AcceptedKernel, words: dict[str, Any]) -> TextByName:
    """setup.py and the sources of the extension."""
    gpu, flags = kernel.device == "cuda", bindings.extension_flags(kernel)
    capability = kernel.architecture.removeprefix("sm_")
    code = f"{capability}{'a' if int(capability) >= 90 else ''}" if capability.isdigit() else ""
    architecture = [f"-gencode=arch=compute_{code},code=sm_{code}"] if code else []
    nvcc = [*STABLE_FLAGS, "-DUSE_CUDA", *flags, *architecture, *bindings.HALF_OPERATOR_FLAGS]
    setup = operator_sources.SETUP_SOURCE.format(
        kind="CUDAExtension" if gpu else "CppExtension",
        name=kernel.name,
        suffix=kernel.suffix,
        flags={"cxx": ["-O3", "-DUSE_CUDA", *STABLE_FLAGS], "nvcc": nvcc} if gpu else [*STABLE_FLAGS, *flags],
        links=[] if gpu else [flag for flag in flags if flag == "-fopenmp"],
    )
    return {
        "setup.py": setup,
        "csrc/binding.cpp": _binding(kernel, words),
        f"csrc/kernel{kernel.suffix}": kernel.source,
    }


def _derived(kernel: AcceptedKernel, argument: Argument) -> bool:
    """Whether a shape says the scalar."""
    return argument.role == "scalar" and any(argument.name in a.shape for a in kernel.inputs)


def _words(kernel: AcceptedKernel) -> dict[str, Any]:
    """What the templates name."""
    out = [a for a in kernel.task.arguments if not _derived(kernel, a)]
    given = [a for a in out if a.role != "output"]
    written = [a for a in out if a.is_written]

    def schema(arguments: Iterable[Argument], tensor: Callable[[int, Argument], str]) -> str:
        return ", ".join(
            f"{bindings.torch_types(a)[1] if a.role == 'scalar' else tensor(at, a)} {a.name}"
            for at, a in enumerate(arguments)
        )

    def typed(arguments: Iterable[Argument]) -> str:
        return ", ".join(
            f"{a.name}: {bindings.torch_types(a)[1] if a.role == 'scalar' else 'torch.Tensor'}" for a in arguments
        )

    return {
        "name": kernel.name,
        "title": kernel.title,
        "typed": typed(given),
        "typed_out": typed(out),
        "positional": ", ".join(a.name for a in given),
        "positional_out": ", ".join(a.name for a in out),
        "given": ", ".join(f"{a.name}={a.name}" for a in given),
        "given_out": ", ".join(f"{a.name}={a.name}" for a in out),
        "returned": "torch.Tensor" if len(written) == 1 else f"tuple[{', '.join(['torch.Tensor'] * len(written))}]",
        "names": [a.name for a in given],
        "out_names": [a.name for a in out],
        "inouts": [a.name for a in written if a.role == "inout"],
        "written": [a.name for a in written],
        "schema": schema(given, lambda at, a: "Tensor"),
        "schema_out": schema(out, lambda at, a: f"Tensor(a{at}!)" if a.is_written else "Tensor"),
        "schema_answer": schema(
            out, lambda at, a: f"Tensor(a{at}!){'?' * (a.role == 'output')}" if a.is_written else "Tensor"
        ),
        "schema_ask": schema(out, lambda at, a: "Tensor?" if a.role == "output" else "Tensor"),
        "result_schema": "Tensor" if len(written) == 1 else f"({', '.join(['Tensor'] * len(written))})",
    }


def _binding(kernel: AcceptedKernel, words: dict[str, Any]) -> str:
    """The operators in C++. An argument of the task is `a_NAME` there, apart from the function's own names."""
    gpu, arguments = kernel.device == "cuda", kernel.task.arguments
    out = [a for a in arguments if not _derived(kernel, a)]
    given, written = [a for a in out if a.role != "output"], [a for a in out if a.is_written]
    outputs = [a for a in written if a.role == "output"]
    first = f"a_{kernel.inputs[0].name}"

    def parameters(of: Iterable[Argument], output: str) -> str:
        return ", ".join(
            f"{bindings.torch_types(a)[0]} a_{a.name}"
            if a.role == "scalar"
            else f"{output if a.role == 'output' else 'const Tensor&'} a_{a.name}"
            for a in of
        )

    def lines(texts: Iterable[str]) -> str:
        return "".join(f"  {text}\n" for text in texts)

    missing = [
        f"[[maybe_unused]] const int64_t a_{a.name} = *next++;"
        if a.role == "scalar"
        else f"if (!a_{a.name}) a_{a.name} = allocate(next, {len(a.shape)}, aoti_torch_dtype_{a.dtype}(), {first}), "
        f"next += {len(a.shape)};"
        for a in arguments
        if a.role == "output" or _derived(kernel, a)
    ]
    passed = [
        f"static_cast<{bindings.C_TYPES[a.dtype]}>(a_{a.name})"
        if a.role == "scalar"
        else f"a_{a.name}{'->' if a.role == 'output' else '.'}data_ptr()"
        for a in arguments
    ]
    declared = bindings.declared_parameters(arguments)
    values = [f"*a_{a.name}" if a.role == "output" else f"new_{a.name}" for a in written]
    return operator_sources.BINDING.format(
        **words,
        includes="#include <cuda_runtime.h>\n" if gpu else "",
        declared=", ".join([*declared, *(["void* stream"] if kernel.takes_stream else [])]),
        tensors=sum(a.role != "scalar" for a in arguments),
        align=ALIGNMENT[kernel.device],
        parameters=parameters(out, "std::optional<Tensor>&"),
        stream=operator_sources.STREAM.format(first=first) if gpu else "",
        signature=lines(
            [
                *(f"signature.add(a_{a.name}{'' if a.role == 'scalar' else f', {a.is_written:d}'});" for a in out),
                *(["signature.add(stream == nullptr);"] if gpu and not kernel.takes_stream else []),
            ]
        ),
        slots=max(len(out), 3),
        asked=", ".join(f"from(a_{a.name})" for a in out),
        missing=lines(missing),
        passed=", ".join([*passed, *(["stream"] if kernel.takes_stream else [])]),
        check="  STD_CUDA_KERNEL_LAUNCH_CHECK();\n" if gpu else "",
        made="Tensor" if len(written) == 1 else f"std::tuple<{', '.join(['Tensor'] * len(written))}>",
        given_typed=parameters(given, ""),
        clones=lines(
            [
                *(f"const Tensor new_{a.name} = torch::stable::clone(a_{a.name});" for a in written if a.is_read),
                *(f"std::optional<Tensor> a_{a.name};" for a in outputs),
            ]
        ),
        forwarded=", ".join(f"{'new' if a.role == 'inout' else 'a'}_{a.name}" for a in out),
        results=values[0] if len(values) == 1 else f"{{{', '.join(values)}}}",
        given_out_typed=parameters(out, "const Tensor&"),
        wrapped=lines(f"std::optional<Tensor> new_{a.name}(a_{a.name});" for a in outputs),
        forwarded_out=", ".join(f"{'new' if a.role == 'output' else 'a'}_{a.name}" for a in out),
        key="CUDA" if gpu else "CPU",
    )


def _traceable_kernels(source: str) -> list[str]:
    """The Triton kernels that `run_kernel` launches, where it does nothing else that a tracer cannot follow; empty
    otherwise."""
    functions = [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)]
    kernels = {
        one.name
        for one in functions
        if one.decorator_list
        and all(re.match(r"triton\.(jit|autotune)\b", ast.unparse(named)) for named in one.decorator_list)
    }
    entry = next(one for one in functions if one.name == "run_kernel")
    launched = set()
    for node in ast.walk(entry):
        if isinstance(node, ast.Try | ast.With | ast.Import | ast.ImportFrom | ast.Global):
            return []
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            is_method = isinstance(node.func, ast.Attribute) and node.func.attr in TRACED_METHODS
            if isinstance(node.func, ast.Subscript) and ast.unparse(node.func.value) in kernels:
                launched.add(ast.unparse(node.func.value))
            elif called not in TRACED_CALLS and not is_method:
                return []
    return sorted(launched)
