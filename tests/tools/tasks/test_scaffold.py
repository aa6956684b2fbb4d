"""`init`: a task folder around a file as somebody has it, which is copied and not rewritten."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

from graph.__main__ import main
from tests.support import Capsys
from tools.errors import SettingsError
from tools.tasks.scaffold import Scaffold, scaffold
from tools.tasks.task_handle import open_machine

KERNELS = """#include "half.cuh"
__global__ void one(const float* a, float* c, int n) { if (threadIdx.x < n) c[threadIdx.x] = HALF * a[threadIdx.x]; }
__global__ void four(const float* a, float* c, int n) { if (threadIdx.x < n) c[threadIdx.x] = HALF * a[threadIdx.x]; }
"""
CONDITION = "{ if (n % 4 == 0) four<<<1, n>>>(a, c, n); else one<<<1, n>>>(a, c, n); }\n"
TENSORS = "torch::Tensor halve(torch::Tensor a, c10::optional<torch::Tensor> in, bool wide, int64_t n) { auto c = a; if (wide) one<<<1, 8>>>(0, 0, n); return c; }\n"
KERNEL = """import torch
import triton
import triton.language as tl
{more}

@triton.jit
def _k(x_ptr, y_ptr, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(y_ptr + i, tl.load(x_ptr + i, mask=i < n), mask=i < n)


"""
LAUNCH = "_k[(1,)](x, y, 8, B=8)\n"


def made(folder: Path, name: str, source: str, entry: str | None = None) -> Scaffold:
    (folder / "half.cuh").write_text("#pragma once\n#define HALF 0.5f\n")
    (folder / name).write_text(source)
    return scaffold(folder / name, folder / "task", entry)


def inputs(done: Scaffold) -> dict[str, object]:
    """What make_inputs draws, after `reference` was seen to take all of it."""
    space: dict[str, object] = {}
    exec(compile(done.files["reference.py"], "reference.py", "exec"), space)
    given: dict[str, object] = space["make_inputs"](space["workloads"][0]["dims"], 0)  # type: ignore[operator, index]
    with pytest.raises(NotImplementedError):
        space["reference"](**given)  # type: ignore[operator]
    return given


@pytest.mark.parametrize(
    ("name", "function", "solve"),
    [
        ("plain.cu", "void f(const float* a, float* c, int n) " + CONDITION, "const float* a, float* c, int n) {\n  f(a, c, n);"),
        ("east.cu", "void f(float const* a, float* c, int const n) " + CONDITION, "float const* a, float* c, int const n) {\n  f(a, c, n);"),
        ("stream.cu", "static void f(const float* a, float* c, int n, cudaStream_t s) " + CONDITION, "const float* a, float* c, int n, cudaStream_t stream) {\n  f(a, c, n, stream);"),
        ("space.cu", "namespace image { void f(const float* a, float* c, int n) " + CONDITION + "}\n", "const float* a, float* c, int n) {\n  image::f(a, c, n);"),
        ("returns.cpp", "double f(const double* a, std::size_t n) { return a[n - 1]; }\n", "const double* a, std::size_t n, double* result) {\n  *result = f(a, n);"),
        ("alias.cpp", "typedef float real;\nvoid g(real* a) {}\nvoid f(real* a, unsigned n) { g(a + n); }\n", "real* a, unsigned n) {\n  f(a, n);"),
    ],
)  # fmt: skip
def test_solve_calls_the_whole_of_a_function_of_pointers(tmp_path: Path, name: str, function: str, solve: str) -> None:
    program = "int main(int argc, char** argv) { exit(1); }\n"
    kernel = KERNELS if name.endswith(".cu") else ""
    done = made(tmp_path, name, kernel + function + program)
    text = done.files[f"kernel{Path(name).suffix}"]
    assert f'extern "C" void solve({solve}\n}}\n' in text
    assert function in text and kernel.partition("\n")[2] in text, "all of the user's code but main stays"
    assert "main" not in text and done.left_out == ("main",) and not any("kernel" in one for one in done.to_fill)
    assert done.files[f"baseline/{name}"] == kernel + function + program and not done.call
    assert list(inputs(done))


@pytest.mark.parametrize(
    ("name", "function", "reason"),
    [
        ("template.cu", "template <typename T> void f(const T* a, T* c, int n) " + CONDITION, "f is a template"),
        ("host.cu", "void f(float* a, float* c, int n) { cudaMemcpy(a, c, n, cudaMemcpyHostToDevice); one<<<1, 8>>>(a, c, n); }\n", "the file copies memory (cudaMemcpy)"),
        ("main.cu", "int main() { float *a, *c; int n = 8; " + CONDITION + "}\n", "main takes no pointers"),
        ("bare.cu", "", "one is a kernel"),
        ("struct.cu", "struct P { float* a; };\nvoid f(P& p) { one<<<1, 8>>>(p.a, p.a, 8); }\n", "declared `P& p`"),
        ("macro.cu", "#define GO(k) \\\n  k<<<1, 8>>>(a, c, n);\ntemplate <int N> void f(float* a, float* c, int n) { GO(one); }\n", "f is a template"),
        ("vector.cpp", "void f(const std::vector<float>& in, float* out) {}\n", "std::vector"),
        ("square.cpp", "const int N = 8;\nvoid f(float in[N][N]) {}\n", "declared `float in[N][N]`"),
    ],
)  # fmt: skip
def test_no_solve_is_written_where_that_is_uncertain(tmp_path: Path, name: str, function: str, reason: str) -> None:
    done = made(tmp_path, name, (KERNELS if name.endswith(".cu") else "") + function)
    text = done.files[f"kernel{Path(name).suffix}"]
    code = "\n".join(line for line in text.splitlines() if not line.startswith("//"))
    assert function in text and "solve" not in code and "<<<1, 256" not in text
    (asked,) = [one for one in done.to_fill if one.startswith("kernel.") and ", line" not in one]
    assert 'write extern "C" void solve(' in asked and "every condition included" in asked and reason in asked
    launches = [line for line in function.splitlines() if "<<<" in line]
    assert all(
        any(line.strip(" \\") in row for row in text.splitlines() if row.startswith("// line")) for line in launches
    )
    assert list(inputs(done))


@pytest.mark.parametrize(
    ("binding", "exported"), [("", "halve"), ('PYBIND11_MODULE(own, m) { m.def("halved", &halve); }\n', "halved")]
)
def test_a_function_of_tensors_is_the_baseline_as_an_extension(tmp_path: Path, binding: str, exported: str) -> None:
    done = made(tmp_path, "halves.cu", "#include <torch/extension.h>\n" + KERNELS + TENSORS + binding)
    assert done.call == f"halves_extension:{exported}" and "build:" in done.files["task.yaml"]
    assert TENSORS in done.files["baseline/halves.cu"] and "baseline/half.cuh" in done.files
    loader = done.files["baseline/halves_extension.py"]
    assert f"{exported} = built.{exported}" in loader and ("import own as built" in loader) == bool(binding)
    assert ("baseline/halves_extension.cu" in done.files) != bool(binding)
    assert ast.parse(loader) and not any(path.startswith("kernel.") for path in done.files)
    assert list(inputs(done)) == ["a", "in", "wide", "n", "out"]


FUNCTION = "def f({}):\n    y = torch.empty_like(x)\n    " + LAUNCH + "    return {}\n"
METHOD = "class {}:\n    def __init__(self, width):\n        pass\n\n    def forward({}, x):\n        y = x\n        " + LAUNCH + "        return y\n"  # fmt: skip


@pytest.mark.parametrize(
    ("source", "call", "given", "changed"),
    [
        (FUNCTION.format("x: torch.Tensor, N: int, eps=1e-6", "y"), "f", "x N eps y", []),
        (FUNCTION.format("x, *, in_: float, at: 'torch.LongTensor' = None, mode='relu'", "y"), "f", "x in_ y", []),
        (FUNCTION.format("x", "y, x.sum()"), "f", "x y out1", []),
        (FUNCTION.format("x, dims, random, torch", "x"), "f", "x dims random torch", ["x"]),
        (METHOD.format("Square(torch.autograd.Function)", "ctx"), "Square", "x y", []),
        (METHOD.format("Model(nn.Module)", "self"), "Model", "x y", []),
        ("class Ops:\n    @staticmethod\n    def f(x, y):\n        " + LAUNCH, "Ops.f", "x y", []),
        ("if True:\n    def f(x, y):\n        torch.library.wrap_triton(_k)[(1,)](x, y, 8, B=8)\n", "f", "x y", []),
        ("def g(p):\n    pass\n\n\ng2 = triton.heuristics({})(triton.jit(g))\n\n\ndef f(x):\n    g2[(1,)](x)\n", "f", "x", []),
        ("def _first(x):\n    " + LAUNCH + "\n\ndef f(x):\n    k = _k\n    k[(1,)](x)\n", "f", "x", []),
    ],
)  # fmt: skip
def test_a_python_function_is_the_baseline_as_it_is(
    tmp_path: Path, source: str, call: str, given: str, changed: list[str]
) -> None:
    done = made(tmp_path, "own.py", KERNEL.format(more="") + source)
    assert done.call == f"own:{call}" and f'call: "own:{call}"' in done.files["task.yaml"]
    assert done.files["baseline/own.py"] == KERNEL.format(more="") + source and "kernel.py" not in done.files
    assert " ".join(inputs(done)) == given and (f"inout = {json.dumps(changed)}" in done.files["reference.py"]) == bool(
        changed
    )
    assert ("init: []  # FILL: the arguments of Model(width)" in done.files["task.yaml"]) == (call == "Model")


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ("def f(*args):\n    " + LAUNCH, r"f takes \*args.*write a function of named arguments"),
        ("class Ops:\n    def run(self, x, y):\n        " + LAUNCH, r"calls _k; name .* --entry \(there are none\), or add a function"),
        ("def f(:\n", "is no Python"),
    ],
)  # fmt: skip
def test_what_cannot_be_called_is_refused_with_what_to_do(tmp_path: Path, source: str, sentence: str) -> None:
    with pytest.raises(SettingsError, match=sentence):
        made(tmp_path, "own.py", KERNEL.format(more="") + source)


def test_a_file_in_the_contract_is_the_kernel(tmp_path: Path) -> None:
    source = KERNELS.partition("\n")[2] + 'extern "C" void solve(const float* a, float* c, int n) ' + CONDITION
    assert {**made(tmp_path, "own.cu", source).files}["kernel.cu"] == source
    (tmp_path / "python").mkdir()
    run = KERNEL.format(more="") + "def run_kernel(x, y):\n    " + LAUNCH
    done = made(tmp_path / "python", "own.py", run)
    assert done.files["kernel.py"] == run and not any(path.startswith("baseline") for path in done.files)


def test_a_files_own_project_comes_along_and_what_is_missing_is_said_first(tmp_path: Path) -> None:
    package = tmp_path / "pkg" / "ops"
    package.mkdir(parents=True)
    for name, text in {
        "pkg/__init__.py": "raise RuntimeError\n",
        "pkg/ops/__init__.py": "from .sizes import SIZE\nfrom pkg import absent\n",
        "pkg/ops/sizes.py": "SIZE = 8\n",
        "pkg/ops/unused.py": "",
        "pkg/ops/01-own.py": KERNEL.format(more="from ..ops import SIZE") + FUNCTION.format("x", "y"),
    }.items():
        (tmp_path / name).write_text(text)
    with open_machine(None) as (executor, records):
        done = scaffold(package / "01-own.py", tmp_path / "task", None, (executor, records.blobs))
        assert done.call == "pkg.ops.01-own:f" and "baseline/pkg/ops/unused.py" not in done.files
        assert done.files["baseline/pkg/ops/sizes.py"] == "SIZE = 8\n" and "pkg" in done.problem
        (package / "__init__.py").write_text("from .sizes import SIZE\n")
        assert scaffold(package / "01-own.py", tmp_path / "two", None, (executor, records.blobs)).problem == ""
        (package / "sizes.py").write_text("import no_such_package\nSIZE = 8\n")
        done = scaffold(package / "01-own.py", tmp_path / "three", None, (executor, records.blobs))
    assert "needs no_such_package, which is not installed" in done.text().splitlines()[0]


def test_cuda_in_a_string_is_taken_out(tmp_path: Path) -> None:
    source = f'from torch.utils.cpp_extension import load_inline\ncode = """{KERNELS}"""\nbuilt = load_inline("b", "", code)\n\n\n'
    done = made(tmp_path, "strings.py", source + "def f(x):\n    return built.f(x)\n")
    assert done.files["baseline/code.cu"] == KERNELS and {"one", "four"} <= {*done.kernels}
    assert (done.call, done.language) == (
        "strings:f",
        "cuda",
    ) and f"launched by: f (line {source.count(chr(10)) + 2})" in done.text()


def test_check_reads_what_init_wrote_and_a_line_that_does_not_compile_comes_first(
    tmp_path: Path, capsys: Capsys
) -> None:
    (tmp_path / "halve.cc").write_text(
        "void halve(const float* in, float* out, int n) { for (int i = 0; i < n; ++i) out[i] = in[i] / 2; }\n"
    )
    (tmp_path / "old.c").write_text("void f(float *restrict dst, int n) { dst[0] = n; }\n")
    assert main(["init", str(tmp_path / "old.c"), "--out", str(tmp_path / "old")]) == 0
    assert "kernel.cpp does not compile: kernel.cpp:1" in capsys.readouterr().out.splitlines()[0]
    assert main(["init", str(tmp_path / "halve.cc"), "--out", str(tmp_path / "task"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["problem"] == ""
    reference = tmp_path / "task" / "reference.py"
    assert main(["check", str(tmp_path / "task" / "config.yaml")]) == 2, "nothing was filled"
    assert "say in reference.py what the kernel computes" in capsys.readouterr().err
    reference.write_text(
        reference.read_text().replace(reference.read_text().splitlines()[-1], '    return given["in"] / 2')
    )
    assert main(["check", str(tmp_path / "task" / "config.yaml")]) == 0


def test_init_overwrites_nothing_and_names_what_there_is(tmp_path: Path) -> None:
    source = KERNELS + "void launch(const float* a, float* c, int n) " + CONDITION
    made(tmp_path, "launch.cu", source)
    with pytest.raises(SettingsError, match="not empty"):
        scaffold(tmp_path / "launch.cu", tmp_path / "task")
    with pytest.raises(SettingsError, match="launch"):
        scaffold(tmp_path / "launch.cu", tmp_path / "other", "lunch")
