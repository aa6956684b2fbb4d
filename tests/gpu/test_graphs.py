"""The clock of captured CUDA graphs, and the stream as the last argument of a CUDA kernel, on a GPU."""

from __future__ import annotations

import ctypes
import statistics
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from graph.export.runtime import Exported
from tests.gpu import bench as gpu
from tools.artifacts import Record
from tools.executors.protocol import PROTOCOL, ContestResult
from tools.gate import confirmation
from tools.harness.compilation import cuda_compile
from tools.harness.device import graphs
from tools.harness.isolation import native
from tools.harness.memory import cuda_driver

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no CUDA device here"),
]
SMALL, ROUNDS = {"M": 512, "N": 1024}, 8
KERNELS = [{"name": name, "kind": "library", "library": f"{name}.py"} for name in ("incumbent", "candidate")]
CUDA = """#include <cuda_runtime.h>
__global__ void rows(const float* x, float* out, int N) {
  __shared__ float partial[256];
  const float* row = x + (long long)blockIdx.x * N;
  float most = -3.4e38f, sum = 0.f;
  for (int i = threadIdx.x; i < N; i += 256) most = fmaxf(most, row[i]);
  partial[threadIdx.x] = most;
  __syncthreads();
  for (int s = 128; s; s /= 2) {
    if (threadIdx.x < s) partial[threadIdx.x] = fmaxf(partial[threadIdx.x], partial[threadIdx.x + s]);
    __syncthreads();
  }
  most = partial[0];
  __syncthreads();
  for (int i = threadIdx.x; i < N; i += 256) sum += expf(row[i] - most);
  partial[threadIdx.x] = sum;
  __syncthreads();
  for (int s = 128; s; s /= 2) {
    if (threadIdx.x < s) partial[threadIdx.x] += partial[threadIdx.x + s];
    __syncthreads();
  }
  for (int i = threadIdx.x; i < N; i += 256) out[(long long)blockIdx.x * N + i] = expf(row[i] - most) / partial[0];
}
"""
STREAMED = (
    CUDA
    + """extern "C" void solve(const float* x, float* out, int M, int N, cudaStream_t stream) {
  rows<<<M, 256, 0, stream>>>(x, out, N);
}
"""
)
WITHOUT = STREAMED.replace(", cudaStream_t stream", "").replace(", 0, stream", "")
WAITS = STREAMED.replace("(x, out, N);\n}", "(x, out, N);\n  cudaStreamSynchronize(stream);\n}")


def built(source: str, folder: Path) -> bytes:
    """The shared object of a CUDA source, as a build job makes it."""
    (folder / "kernel.cu").write_text(source)
    (folder / "errors.cpp").write_text(cuda_compile.ASKS)
    flags = ["-O3", "-std=c++17", "-shared", "-Xcompiler=-fPIC", "-cudart=static", "-arch=native"]
    command = [cuda_compile.program("nvcc") or "nvcc", *flags, "kernel.cu", "errors.cpp", "-o", "kernel.so"]
    subprocess.run(command, cwd=folder, check=True)
    return (folder / "kernel.so").read_bytes()


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[gpu.GpuBench]:
    made = gpu.GpuBench(tmp_path_factory.mktemp("harness"))
    yield made
    made.close()


def replayed(bench: gpu.GpuBench, candidate: str, rounds: int = ROUNDS) -> dict[str, Any]:
    """The workload of a contest of an honest incumbent and `candidate`, with rounds of graphs."""
    files = {"incumbent.py": gpu.kernel(), "candidate.py": candidate}
    answer = bench.contest(KERNELS, files, SMALL, rounds=rounds, graph_rounds=rounds)
    assert answer["kind"] == "contest" and answer["problem"] is None, answer
    return dict(answer["workloads"][0])


def median(rounds: list[dict[str, float]], name: str) -> float:
    return statistics.median(found[name] for found in rounds)


def test_kernels_and_torch_are_captured_and_their_replays_are_clocked_from_outside(bench: gpu.GpuBench) -> None:
    field = [*KERNELS, *({"name": kind, "kind": kind} for kind in ("eager", "max_autotune"))]
    files = {"incumbent.py": gpu.kernel(), "candidate.py": gpu.kernel(tag="again")}
    answer = bench.contest(field, files, SMALL, rounds=ROUNDS, graph_rounds=ROUNDS)
    found = answer["workloads"][0]
    assert found["uncaptured"] == {} and len(found["graph_rounds"]) == len(found["graph_device_rounds"]) == ROUNDS
    for name in ("incumbent", "candidate", "eager", "max_autotune"):
        wall, graph, device, alone = (
            median(found[series], name) for series in ("rounds", "graph_rounds", "graph_device_rounds", "kernel_rounds")
        )
        print(f"{name}: wall {wall:.3g} graph {graph:.3g} its events {device:.3g} kernel {alone:.3g}")
        assert alone * 0.8 < graph, "a replay takes no less than the kernels"
        assert device <= graph * 1.05 and graph < wall, "a graph hides less than launches do"
        assert graph < alone + 1e-5, "a replay costs a few microseconds beside its kernels"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (gpu.HONEST + "    torch.cuda.synchronize()\n", "capturing"),
        (
            "    with torch.cuda.stream(torch.cuda.default_stream()):\n        softmax(x, out, M, N)\n",
            "default stream",
        ),
        (
            # Computes while it is captured, and only copies in the graph.
            (
                "    scratch = SCRATCH.setdefault(out.data_ptr(), torch.empty_like(x))\n"
                "    with torch.cuda.stream(torch.cuda.default_stream()):\n        softmax(x, scratch, M, N)\n"
                "    softmax_kernel[(1,)](x, torch.empty_like(x), N, 0, BLOCK=1024)\n    out.copy_(scratch)\n"
            ),
            "it lacks softmax_kernel",
        ),
    ],
    ids=["waits", "default-stream", "computes-at-capture"],
)
def test_a_call_that_cannot_be_captured_says_why(bench: gpu.GpuBench, body: str, words: str) -> None:
    found = replayed(bench, gpu.kernel(body, before="SCRATCH = {}\n"))
    assert words in found["uncaptured"]["candidate"], found["uncaptured"]
    assert all(round_.keys() == {"incumbent"} for round_ in found["graph_rounds"])
    assert len(found["rounds"]) == ROUNDS, "its other times are kept"


def test_a_cuda_kernel_is_captured_by_its_stream(bench: gpu.GpuBench, tmp_path: Path) -> None:
    contestants = [{"name": name, "kind": "library", "library": f"{name}.so"} for name in ("incumbent", "candidate")]
    honest = built(STREAMED, tmp_path)
    said = {}
    for name, source in {"streamed": STREAMED, "without": WITHOUT, "waits": WAITS}.items():
        files = {"incumbent.so": honest, "candidate.so": built(source, tmp_path)}
        answer = bench.contest(contestants, files, SMALL, rounds=4, graph_rounds=4)
        assert answer["kind"] == "contest" and answer["problem"] is None, answer
        said[name] = answer["workloads"][0]["uncaptured"]
    print(said)
    assert said["streamed"] == {} and said["without"].keys() == said["waits"].keys() == {"candidate"}
    assert "default stream" in said["without"]["candidate"] and "capturing" in said["waits"]["candidate"]


def test_a_gain_hidden_by_launches_is_confirmed_from_outside_by_graphs(bench: gpu.GpuBench) -> None:
    """By the wall clock with launches the two are equal, since launching takes longer than either kernel."""
    slower = gpu.kernel("    softmax(x, out, M, N, 400)\n")
    files = {"incumbent.py": slower, "candidate.py": gpu.kernel()}
    answer = bench.contest(KERNELS, files, {"M": 64, "N": 1024}, rounds=16, graph_rounds=16)
    claims = {}
    for clock in (None, "launch", "device", "graph"):
        payload = confirmation.Contest(
            candidates={"incumbent": "a", "candidate": "b"},
            attempt=0,
            weights={"w": 1.0},
            clock=clock,
            result=ContestResult.model_validate(answer),
        )
        record = Record(kind="confirmation", key="k", protocol=PROTOCOL, payload=payload.model_dump(mode="json"))
        claims[clock] = confirmation.claim_of([record], "total_time", 0.95, 0.02)
        print(clock, claims[clock].clock, claims[clock].speedup, claims[clock].other)
    assert claims["graph"].clock == "graph" and claims["graph"].speedup.low > 1.1
    assert claims["device"].clock == "device-only" and claims["device"].speedup.low > 1.02
    assert claims["launch"].clock == "launch-included"


def test_an_exported_cuda_kernel_works_in_a_graph_and_on_a_side_stream() -> None:
    flags = ["-std=c++17", "-shared", "-Xcompiler=-fPIC", "-cudart=static", "-O3"]
    arguments = [
        ("x", "input", "float32", ["M", "N"]),
        ("out", "output", "float32", ["M", "N"]),
        ("M", "scalar", "int32", []),
        ("N", "scalar", "int32", []),
    ]
    contract = {
        "arguments": arguments,
        "points": [{"x": [512, 1024], "out": [512, 1024], "M": 512, "N": 1024}],
        "ranges": {},
        "seen": {},
        "most": 1,
        "device": "cuda",
        "align": 256,
        "triton": False,
        "flags": flags,
    }
    used = {}
    for name, source, stream in (("streamed", STREAMED, True), ("without", WITHOUT, False)):
        kernel = Exported({**contract, "stream": stream, "file": "kernel.cu", "source": source})
        fallen: list[str] = []

        def reference(x: Any, fallen: list[str] = fallen, **_: Any) -> Any:
            fallen.append("reference")
            return torch.softmax(x, dim=-1)

        x = torch.randn(512, 1024, device="cuda")
        kernel({"x": x}, reference)
        torch.cuda.synchronize()
        assert fallen == [], "on the default stream the kernel runs"
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = kernel({"x": x}, reference)
        x.copy_(torch.randn(512, 1024, device="cuda"))
        out.fill_(float("nan"))
        graph.replay()
        torch.testing.assert_close(out, torch.softmax(x, dim=-1))
        used[name] = fallen
    assert used == {"streamed": [], "without": ["reference"]}


def test_a_call_that_drops_its_dependencies_while_it_is_captured_is_not_timed_beside_the_others() -> None:
    x = torch.rand(1 << 20, device="cuda")

    def honest() -> Any:
        return x * 2

    def runs_beside() -> Any:
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        ctypes.CDLL("libcuda.so.1").cuStreamUpdateCaptureDependencies(stream, None, ctypes.c_size_t(0), 1)
        return x * 3

    captured = graphs.CapturedCalls(torch, [honest, honest, honest])
    assert captured.wrong_replay(honest, [], lambda: None) == ""
    captured.close()
    with pytest.raises(RuntimeError, match="does not wait for the call before it"):
        graphs.CapturedCalls(torch, [honest, runs_beside])


def test_every_call_of_a_cuda_kernel_gets_a_stream_of_its_own(tmp_path: Path) -> None:
    """With the default stream's handle, which is 0, a kernel would know that it is not being captured."""
    source, library = tmp_path / "kernel.cu", tmp_path / "kernel.so"
    source.write_text(
        """#include <cuda_runtime.h>
__global__ void say(float* out, float value) { out[0] = value; }
extern "C" const char* kernelwright_error() { return ""; }
extern "C" void solve(float* out, cudaStream_t stream) { say<<<1, 1, 0, stream>>>(out, stream ? 1.f : 2.f); }
"""
    )
    nvcc = cuda_compile.program("nvcc")
    subprocess.run([nvcc, "-shared", "-Xcompiler", "-fPIC", "-arch=native", source, "-o", library], check=True)
    out = torch.zeros(1, device="cuda")
    kernel = native.Native(str(library), cuda_driver.CudaDriver().create_stream(waits=True))
    kernel(out=native.to_c_argument("float32", out))
    torch.cuda.synchronize()
    assert out.item() == 1
