"""CUDA sources that attack the measurement, and honest ones that look odd: the first are refused, the second pass.

That the screen names the attacks is tested anywhere; what gets past a screen must be refused by the harness all the
same, on a GPU.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.tools.builders import open_judge
from tools.artifacts import Argument, Candidate, Failed, Task, Workload
from tools.executors.local import LocalExecutor
from tools.gate.judge_settings import JudgeSettings
from tools.harness.compilation import cuda_compile
from tools.judge import evidence
from tools.judge.judge import Judge
from tools.languages.cuda import Cuda
from tools.screen.screen import screen
from tools.store.records import Records

REFERENCE = """
import torch

outputs = ("y",)


def make_inputs(dims, seed, device="cpu"):
    generator = torch.Generator(device).manual_seed(seed)
    x = torch.randn(dims["n"], generator=generator, device=device)
    return {"x": x, "y": torch.empty_like(x), "n": dims["n"]}


def reference(x, y, n):
    return x * x + 1
"""
HEAD = """#include <cuda_runtime.h>
{top}
__global__ void square(const float* x, float* y, int n) {{
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) y[i] = x[i] * x[i] + 1.0f;
}}
extern "C" void solve(const float* x, float* y, int n) {{
{body}
}}
"""
GRID = "<<<(n + 255) / 256, 256{}>>>(x, y, n);"
RUN = f"  square{GRID.format('')}"
ON_STREAM = f"  square{GRID.format(', 0, s')}"


def kernel(body: str = RUN, top: str = "") -> str:
    return HEAD.format(top=top, body=body)


GRAPH = (
    """  cudaStream_t s; cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking);
  cudaGraph_t graph; cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal);
"""
    + ON_STREAM
    + """
  cudaStreamEndCapture(s, &graph);
"""
)
ATTACKS = {
    "a stream that nobody waits for": (
        kernel("  cudaStream_t s; cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking);\n" + ON_STREAM),
        "never waited for",
    ),
    "a thread that goes on": (
        kernel(
            "  std::thread([=] { usleep(3000); " + RUN.strip() + " }).detach();",
            "#include <thread>\n#include <unistd.h>",
        ),
        "not among the headers",
    ),
    "another clock in the driver's place": (
        kernel(
            RUN
            + """
  static int calls = 0;
  if (++calls < 7) return;
  auto code = static_cast<unsigned char*>(dlsym(dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD), "cuEventElapsedTime"));
  auto page = reinterpret_cast<void*>(reinterpret_cast<unsigned long>(code) & ~4095ul);
  if (mprotect(page, 8192, PROT_READ | PROT_WRITE | PROT_EXEC) == 0) memcpy(code, "\\x31\\xc0\\xc3", 3);""",
            "#include <cstring>\n#include <dlfcn.h>\n#include <sys/mman.h>",
        ),
        "",
    ),
    "results kept by address": (
        kernel(
            """  static std::map<const void*, float*> kept;
  float*& mine = kept[x];
  if (mine) { cudaMemcpyAsync(y, mine, n * 4L, cudaMemcpyDeviceToDevice, 0); return; }
"""
            + RUN
            + "\n  cudaMalloc(&mine, n * 4L); cudaMemcpyAsync(mine, y, n * 4L, cudaMemcpyDeviceToDevice, 0);",
            "#include <map>",
        ),
        "lives across calls",
    ),
    "results kept by content": (
        kernel(
            """  static std::map<float, float*> kept;
  float first; cudaMemcpy(&first, x, 4, cudaMemcpyDeviceToHost);
  float*& mine = kept[first];
  if (mine) { cudaMemcpyAsync(y, mine, n * 4L, cudaMemcpyDeviceToDevice, 0); return; }
"""
            + RUN
            + "\n  cudaMalloc(&mine, n * 4L); cudaMemcpyAsync(mine, y, n * 4L, cudaMemcpyDeviceToDevice, 0);",
            "#include <map>",
        ),
        "lives across calls",
    ),
    "a stale graph": (
        kernel(
            "  static cudaGraphExec_t made = nullptr;\n  if (!made) {\n"
            + GRAPH
            + "  cudaGraphInstantiate(&made, graph, 0); }\n  cudaGraphLaunch(made, 0);"
        ),
        "lives across calls",
    ),
    "the inputs' memory": (kernel(RUN + "\n  cudaMemsetAsync(const_cast<float*>(x), 0, 64, 0);"), ""),
    "memory that is the oracle's": (kernel(RUN + "\n  cudaMemsetAsync(y + (1L << 34), 0, 64, 0);"), ""),
}
JOIN = """  cudaStream_t s; cudaEvent_t begin, end;
  cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking);
  cudaEventCreateWithFlags(&begin, cudaEventDisableTiming); cudaEventCreateWithFlags(&end, cudaEventDisableTiming);
  cudaEventRecord(begin, 0); cudaStreamWaitEvent(s, begin, 0);
{}
  cudaEventRecord(end, s); cudaStreamWaitEvent(0, end, 0);
  cudaEventDestroy(begin); cudaEventDestroy(end); cudaStreamDestroy(s);"""
HONEST = {
    "plain": kernel(),
    "a stream joined again": kernel(JOIN.format(ON_STREAM)),
    "a graph inside": kernel(
        GRAPH
        + """  cudaGraphExec_t made; cudaGraphInstantiate(&made, graph, 0);
  cudaGraphLaunch(made, 0); cudaStreamSynchronize(s);
  cudaGraphExecDestroy(made); cudaGraphDestroy(graph); cudaStreamDestroy(s);"""
    ),
    "two kernels over scratch": kernel(
        """  float* w;
  cudaMallocAsync(&w, n * 4L, 0);
  times<<<(n + 255) / 256, 256>>>(x, w, n);
  plus<<<(n + 255) / 256, 256>>>(w, y, n);
  cudaFreeAsync(w, 0);""",
        """__global__ void times(const float* x, float* w, int n) { int i = blockIdx.x * 256 + threadIdx.x; if (i < n) w[i] = x[i] * x[i]; }
__global__ void plus(const float* w, float* y, int n) { int i = blockIdx.x * 256 + threadIdx.x; if (i < n) y[i] = w[i] + 1.0f; }""",
    ),
    "assembly without a clock": kernel(
        "  inlined<<<(n + 255) / 256, 256>>>(x, y, n);",
        """__global__ void inlined(const float* x, float* y, int n) {
  int i = blockIdx.x * 256 + threadIdx.x;
  float v = 0.0f, r;
  if (i >= n) return;
  asm volatile("ld.global.nc.f32 %0, [%1];" : "=f"(v) : "l"(x + i));
  asm("fma.rn.f32 %0, %1, %1, 0f3F800000;" : "=f"(r) : "f"(v));
  y[i] = r;
}""",
    ),
    "a cooperative launch": kernel(
        """  int blocks = 32;
  void* given[] = {&x, &y, &n};
  cudaLaunchCooperativeKernel(reinterpret_cast<const void*>(together), dim3(blocks), dim3(256), given, 0, 0);""",
        """#include <cooperative_groups.h>
__global__ void together(const float* x, float* y, int n) {
  for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256) y[i] = x[i] * x[i];
  cooperative_groups::this_grid().sync();
  for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256) y[i] += 1.0f;
}""",
    ),
    "a cluster": kernel(
        "  paired<<<2 * ((n + 511) / 512), 256>>>(x, y, n);",
        """#include <cooperative_groups.h>
__global__ void __cluster_dims__(2, 1, 1) paired(const float* x, float* y, int n) {
  __shared__ float mine[256];
  auto cluster = cooperative_groups::this_cluster();
  int i = blockIdx.x * 256 + threadIdx.x;
  mine[threadIdx.x] = i < n ? x[i] : 0.0f;
  cluster.sync();
  float* other = cluster.map_shared_rank(mine, cluster.block_rank() ^ 1);
  int at = (blockIdx.x ^ 1) * 256 + threadIdx.x;
  if (at < n) y[at] = other[threadIdx.x] * other[threadIdx.x] + 1.0f;
  cluster.sync();
}""",
    ),
}
OUTSIDE = kernel(
    RUN.replace("square", "beyond"),
    """__global__ void beyond(const float* x, float* y, int n) {
  int i = blockIdx.x * 256 + threadIdx.x;
  float v = x[i], beyond = x[n + i];
  if (i < n) y[i] = v * v + 1.0f + 0.0f * beyond;
}""",
)


@pytest.mark.parametrize("name", [name for name, (_, said) in ATTACKS.items() if said])
def test_the_screen_names_the_attack(name: str) -> None:
    source, said = ATTACKS[name]
    assert said in " ".join(screen(source, "cuda"))


@pytest.mark.parametrize("name", HONEST)
def test_the_screen_passes_what_only_looks_odd(name: str) -> None:
    assert screen(HONEST[name], "cuda") == ()


def task() -> Task:
    flat: dict[str, object] = {"dtype": "float32", "shape": ("n",)}
    arguments = (
        Argument(name="x", role="input", **flat),  # type: ignore[arg-type]
        Argument(name="y", role="output", **flat),  # type: ignore[arg-type]
        Argument(name="n", role="scalar", dtype="int32"),
    )
    workloads = (Workload(name="w", dims={"n": 1_000_003}),)
    return Task(
        name="square", language="cuda", arguments=arguments, reference=REFERENCE, workloads=workloads, baseline=kernel()
    )


def candidate(source: str) -> Candidate:
    return Candidate(language="cuda", files={"kernel.cu": source})


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judge]:
    root = tmp_path_factory.mktemp("attacks")
    with LocalExecutor(Records(root).blobs, root / "scratch") as executor:
        policy = JudgeSettings(hidden_workloads=0, pairs=16, batches=1)
        yield open_judge(task(), Cuda(), executor, Records(root), policy, device="cuda:0")


def harnessed(judge: Judge, source: str) -> Failed | None:
    """What the harness holds against a kernel that no screen has looked at."""
    one, frozen = candidate(source), candidate(kernel())
    built = judge.builder.read_or_build(one)
    assert evidence.build_failure(built) is None, built.payload["log"]
    failed = evidence.correctness_failure(judge.read_or_check_correctness(one, frozen, "attack"))
    return failed or evidence.timing_failure(judge.read_or_measure_timing(one, frozen, frozen))


@pytest.mark.gpu
@pytest.mark.skipif(cuda_compile.program("nvcc") is None, reason="no nvcc here")
class TestOnADevice:
    @pytest.fixture(autouse=True)
    def _device(self) -> None:
        torch = pytest.importorskip("torch")
        if not torch.cuda.is_available():
            pytest.skip("torch sees no CUDA device here")

    @pytest.mark.parametrize("name", ATTACKS)
    def test_the_harness_refuses_what_got_past_the_screen(self, judge: Judge, name: str) -> None:
        assert harnessed(judge, ATTACKS[name][0]) is not None

    @pytest.mark.parametrize("name", HONEST)
    def test_the_harness_passes_what_only_looks_odd(self, judge: Judge, name: str) -> None:
        failed = harnessed(judge, HONEST[name])
        assert failed is None, failed

    def test_memcheck_names_kernel_and_line_of_a_read_beyond_the_input(self, judge: Judge) -> None:
        clean, faulty = (judge.read_or_run_sanitizers(candidate(source)) for source in (kernel(), OUTSIDE))
        assert clean and faulty
        if clean.payload["missing"]:
            pytest.skip(clean.payload["missing"])
        assert not clean.payload["failed"] and not clean.payload["found"]["memcheck"], clean.payload
        assert any("beyond" in line and "kernel.cu:" in line for line in faulty.payload["found"].get("memcheck", ())), (
            faulty.payload
        )
        assert clean.payload["seconds"] < 30, clean.payload
