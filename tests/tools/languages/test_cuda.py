"""CUDA C++: the contract is read through launches, the screen tells attacks from device code, nvcc's words are kept."""

from __future__ import annotations

import ctypes
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from tests.support import BARE, Beside
from tools.artifacts import Candidate, Task
from tools.errors import SettingsError
from tools.executors.base import Device, FinishedJob, Job
from tools.executors.local import LocalExecutor
from tools.harness.compilation import cuda_compile
from tools.harness.isolation import native
from tools.harness.measurement import kernel_trace
from tools.judge.build import KernelBuilder
from tools.languages.cuda import Cuda, resource_usage
from tools.screen.screen import screen
from tools.store.blobs import Blobs
from tools.store.records import Records


def needs_nvcc(test: Callable[..., None]) -> Callable[..., None]:
    """A test that compiles, and so is slow."""
    return pytest.mark.slow(pytest.mark.skipif(cuda_compile.program("nvcc") is None, reason="no nvcc here")(test))


FIXTURES = Path(__file__).parents[1] / "fixtures" / "cuda"
NAIVE = Path("configs/tasks/cuda-rmsnorm/kernel.cu").read_text()
GOOD = (FIXTURES / "rmsnorm_vectors.cu").read_text()
TILES = r"""
#include <cuda_fp16.h>
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
namespace {
struct Helper { int n; __device__ explicit Helper(int n) : n(n) {} __device__ int at(int i) const { return i * n; } };
constexpr int TILE = 64;
__constant__ float table[4] = {1.f, 2.f, 3.f, 4.f};
template <typename T> __device__ __forceinline__ T warp_sum(T v) {
#pragma unroll
  for (int o = 16; o; o >>= 1) v += __shfl_xor_sync(0xffffffff, v, o);
  return v;
}
__device__ __forceinline__ void fetch(void* s, const void* g) {
  unsigned a = static_cast<unsigned>(__cvta_generic_to_shared(s));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;\n" ::"r"(a), "l"(g) : "memory");
}
}
template <int N> __global__ void __launch_bounds__(256, 2) f(const half* __restrict__ x, half* __restrict__ y, int n) {
  extern __shared__ __align__(16) unsigned char raw[];
  __shared__ alignas(128) float big[TILE][TILE + 1];
  auto tile = cg::tiled_partition<32>(cg::this_thread_block());
  Helper h(n);
  big[0][threadIdx.x % N] = table[threadIdx.x & 3] + warp_sum(__half2float(x[h.at(threadIdx.x)]));
  tile.sync();
  auto waits = [&](int groups) { asm volatile("cp.async.wait_all;" ::: "memory"); return groups; };
  waits(0);
  __syncthreads();
  y[threadIdx.x] = __float2half(big[0][0] + raw[0]);
}
__global__ void g(float* w) { w[threadIdx.x] = 0.f; }
extern "C" void solve(const half* x, half* y, int n) {
  float* w;
  cudaMallocAsync(&w, 1024, 0);
  cudaFuncSetAttribute(f<32>, cudaFuncAttributeMaxDynamicSharedMemorySize, 65536);
  g<<<1, 256>>>(w);
  f<32><<<n, 256, 65536, 0>>>(x, y, n);
  cudaFreeAsync(w, 0);
}
"""
JOINED = r"""
#include <cuda_runtime.h>
__global__ void g(float* w, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) w[i] = 0.f; }
extern "C" void solve(const float* x, float* y, int n) {
  cudaStream_t a; cudaEvent_t begin, end;
  cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking);
  cudaEventCreateWithFlags(&begin, cudaEventDisableTiming); cudaEventCreateWithFlags(&end, cudaEventDisableTiming);
  cudaEventRecord(begin, 0); cudaStreamWaitEvent(a, begin, 0);
  g<<<(n + 255) / 256, 256, 0, a>>>(y, n);
  cudaEventRecord(end, a); cudaStreamWaitEvent(0, end, 0);
  cudaEventDestroy(begin); cudaEventDestroy(end); cudaStreamDestroy(a);
}
"""
CLUSTER = r"""
#include <cuda.h>
#include <cuda/barrier>
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
__global__ void __cluster_dims__(2, 1, 1) g(const __grid_constant__ CUtensorMap map, float* y) { cg::this_cluster().sync(); y[0] = 1; }
extern "C" void solve(const float* x, float* y, int n) {
  void* encode = nullptr; cudaDriverEntryPointQueryResult found;
  cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &encode, cudaEnableDefault, &found);
  CUtensorMap map{};
  try { g<<<2, 1>>>(map, y); } catch (...) { }
}
"""


def attack(top: str = "", device: str = "", host: str = "") -> str:
    return f"""#include <cuda_runtime.h>
{top}
__global__ void g(float* y, int n) {{ {device} y[threadIdx.x] = 0; }}
extern "C" void solve(const float* x, float* y, int n) {{ {host} g<<<1, 32>>>(y, n); }}
"""


ATTACKS = {
    "a global of the device": (attack("__device__ float cache[1024];"), "cache[1024]"),
    "managed memory": (attack("__managed__ int calls;"), "lives across calls"),
    "constants filled at run time": (
        attack("__constant__ float c[4] = {0};", host="cudaMemcpyToSymbol(c, x, 16);"),
        "cudaMemcpyToSymbol",
    ),
    "constants without values": (attack("__constant__ float c[4];"), "lives across calls"),
    "scratch kept by the host": (attack(host="static float* w = nullptr;"), "lives across calls"),
    "a static in device code": (attack(device="static int k; k++;"), "lives across calls"),
    "a stream that is not joined": (
        attack(host="cudaStream_t s; cudaStreamCreate(&s); g<<<1, 32, 0, s>>>(y, n);"),
        "never waited for",
    ),
    "clock64": (attack(device="long long t = clock64();"), "reads a clock"),
    "the clock in PTX": (
        attack(device='long long t; asm volatile("mov.u64 %0, %%clock64;" : "=l"(t));'),
        "reads a clock",
    ),
    "a timer in two strings": (
        attack(device='long long t; asm volatile("mov.u64 %0, %%glob" "altimer;" : "=l"(t));'),
        "reads a clock",
    ),
    "a timer by numbers": (
        attack(device='long long t; asm volatile("mov.u64 %0, %%\\x67lobaltimer;" : "=l"(t));'),
        "hidden",
    ),
    "a timer behind a macro": (
        attack('#define T "mov.u64 %0, %%globaltimer;"', 'long long t; asm volatile(T : "=l"(t));'),
        "reads a clock",
    ),
    "where it runs": (attack(device='int t; asm volatile("mov.u32 %0, %%smid;" : "=r"(t));'), "where it runs"),
    "assembly of the host": (attack(host='asm volatile("nop");'), "assembly of the host"),
    "assembly of the host behind a word": (
        attack(host='/* __device__ */ asm volatile("nop");'),
        "assembly of the host",
    ),
    "assembly of a type's function in a device function": (
        attack('__device__ auto f() { struct S { static void go() { asm volatile("nop"); } }; return S{}; }'),
        "assembly of the host",
    ),
    "assembly of both": (attack('__host__ __device__ void f() { asm volatile("nop"); }'), "assembly of the host"),
    "a timer of the host": (attack(host='asm volatile("rdtsc");'), "reads a clock"),
    "the events' clock": (attack(host="float ms; cudaEventElapsedTime(&ms, nullptr, nullptr);"), "reads a clock"),
    "a callback": (attack(host="cudaLaunchHostFunc(0, nullptr, nullptr);"), "state of the whole device"),
    "the driver": (attack(host="cuCtxSynchronize();"), "function of the driver"),
    "whether it is captured": (
        attack(host="cudaStreamCaptureStatus s; cudaStreamIsCapturing(0, &s);"),
        "tells a captured",
    ),
    "a look-up in the driver": (
        attack(host='void* f; cudaGetDriverEntryPoint("cuEventElapsedTime", &f, 0, nullptr);'),
        "looks up",
    ),
    "the loader": (attack(host='dlsym(nullptr, "cuEventElapsedTime");'), "loader"),
    "a thread": (attack("#include <thread>"), "not among the headers"),
    "a library": (attack("#include <cublas_v2.h>"), "not among the headers"),
    "pages of code": (attack(host="mprotect(nullptr, 0, 7);"), "loader"),
}


@pytest.mark.parametrize(
    "source", [NAIVE, GOOD, TILES, JOINED, CLUSTER], ids=["naive", "vectors", "tiles", "joined", "cluster"]
)
def test_honest_device_code_passes_the_screen(source: str) -> None:
    assert screen(source, "cuda") == ()


@pytest.mark.parametrize("name", ATTACKS)
def test_the_screen_refuses(name: str) -> None:
    source, said = ATTACKS[name]
    assert said in " ".join(screen(source, "cuda"))


def test_parameters_are_read_past_launches_and_with_cudas_types() -> None:
    named = [
        (p.name, p.dtype, p.pointer, p.const) for p in Cuda().parameters(TILES.replace("half* y", "__nv_bfloat16* y"))
    ]
    assert named == [("x", "float16", True, True), ("y", "bfloat16", True, False), ("n", "int32", False, False)]
    eight_bits = TILES.replace("const half* x", "const __nv_fp8_e4m3* x").replace("half* y", "__nv_fp8_e5m2* y")
    assert [p.dtype for p in Cuda().parameters(eight_bits)] == ["float8_e4m3fn", "float8_e5m2", "int32"]


STREAMED = (
    attack().replace("int n) {", "int n, cudaStream_t stream) {", 2).replace("<<<1, 32>>>", "<<<1, 32, 0, stream>>>")
)
STREAMED = STREAMED.replace("g(float* y, int n, cudaStream_t stream)", "g(float* y, int n)")


def test_a_stream_is_the_last_parameter_and_no_argument_of_the_task() -> None:
    plain = attack()
    assert Cuda().parameters(STREAMED) == Cuda().parameters(plain) and screen(STREAMED, "cuda") == ()
    assert Cuda().takes_stream(STREAMED) and not Cuda().takes_stream(plain)
    with pytest.raises(SettingsError, match=r"`s` of `solve` .* the last parameter may be a cudaStream_t"):
        Cuda().parameters(plain.replace("float* y, int n) {", "cudaStream_t s, float* y, int n) {"))


def test_a_kernel_gets_torchs_current_stream_and_one_without_it_runs_as_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda device: 0x5EED + device, raising=False)
    body = '{ x[0] = n + (stream == (void*)0x5EED); }\nextern "C" const char* kernelwright_error() { return nullptr; }'
    seen = []
    for name, last in (("with", ", void* stream"), ("without", "")):
        text = f'static void* stream; extern "C" void solve(float* x, int n{last}) {body}'
        (tmp_path / f"{name}.cpp").write_text(text)
        built = ["g++", "-shared", "-fPIC", f"{name}.cpp", "-o", f"{name}.so"]
        subprocess.run(built, cwd=tmp_path, check=True)
        x = torch.zeros(1)
        native.Native(str(tmp_path / f"{name}.so"))(
            x=native.to_c_argument("float32", x), n=native.to_c_argument("int32", 7)
        )
        seen.append(x.item())
    assert seen == [8.0, 7.0]


def test_a_flag_that_changes_what_is_built_is_refused(task_of_rows: Task) -> None:
    with pytest.raises(SettingsError, match="--use_fast_math"):
        Cuda().flags(task_of_rows.model_copy(update={"build_flags": ("--use_fast_math",)}), BARE)


def test_what_ptxas_says_is_kept_for_each_kernel() -> None:
    said = resource_usage((FIXTURES / "ptxas.txt").read_text())
    assert any(
        s.startswith("rmsnorm_any for sm_90a: 32 registers, 0 bytes of stack") and "32 bytes of static shared" in s
        for s in said
    )
    assert len(said) == 4


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        ("_Z7rmsnormPKfS0_Pfif", "rmsnorm"),
        ("_ZN12_GLOBAL__N_11fILi32EEEvPKf", "f"),
        ("plain", "plain"),
        ("_Z12rmsnorm_rowsILi8EEvPKf", "rmsnorm_rows"),
    ],
)
def test_a_kernels_name_is_found_in_its_symbol(symbol: str, name: str) -> None:
    assert cuda_compile.demangled_name(symbol) == name


def test_hopper_is_compiled_with_its_own_instructions_and_ampere_without() -> None:
    assert cuda_compile.generated("sm_90") == ["-gencode=arch=compute_90a,code=sm_90a"]
    assert cuda_compile.generated("sm_80") == ["-gencode=arch=compute_80,code=sm_80"]


def test_code_is_made_for_the_chosen_gpu_not_for_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    listed = [{"uuid": "GPU-0", "major": 9, "minor": 0}, {"uuid": "GPU-1", "major": 8, "minor": 0}]
    monkeypatch.setattr(cuda_compile.cuda_attributes, "read_attributes_in_child", lambda: listed)
    monkeypatch.setenv("HARNESS_GPU", "GPU-1")
    assert cuda_compile.local_architecture() == "sm_80"


class OnAnother(LocalExecutor):
    """This machine with a GPU of another architecture."""

    architecture = "sm_90"

    def devices(self) -> tuple[Device, ...]:
        return (
            *super().devices(),
            Device(kind="cuda", name="a GPU", architecture=self.architecture, details={"uuid": "GPU-0"}),
        )


@needs_nvcc
def test_a_library_for_one_architecture_is_no_answer_for_another(task_of_rows: Task, tmp_path: Path) -> None:
    (tmp_path / "scratch").mkdir()
    records, kernel = Records(tmp_path / "records"), Candidate(language="cuda", files={"kernel.cu": NAIVE})
    with OnAnother(records.blobs, tmp_path / "scratch") as executor:
        hopper = KernelBuilder(task_of_rows, Cuda(), executor, records, "").read_or_build(kernel)
        assert KernelBuilder(task_of_rows, Cuda(), executor, records, "").read_or_build(kernel).id == hopper.id
        executor.architecture = "sm_80"
        assert KernelBuilder(task_of_rows, Cuda(), executor, records, "").read_or_build(kernel).id != hopper.id


class Waits(OnAnother):
    """Each build waits until another runs beside it."""

    def __init__(self, blobs: Blobs, scratch: Path) -> None:
        super().__init__(blobs, scratch)
        self.beside = threading.Barrier(2, timeout=20)

    def run(self, job: Job) -> FinishedJob:
        if "build.json" in job.files:
            self.beside.wait()
        return super().run(job)


@needs_nvcc
def test_what_compiles_for_long_is_compiled_side_by_side_and_once(task_of_rows: Task, tmp_path: Path) -> None:
    (tmp_path / "scratch").mkdir()
    records = Records(tmp_path / "records")
    both = [Candidate(language="cuda", files={"kernel.cu": source}) for source in (NAIVE, NAIVE + "//\n")]
    with Waits(records.blobs, tmp_path / "scratch") as executor:
        builds = KernelBuilder(task_of_rows, Cuda(), executor, records, "")
        builds.build_in_parallel(both)
        executor.beside.abort()
        assert {builds.read_or_build(one).payload["candidate"] for one in both} == {one.id for one in both}


def test_without_nvcc_it_is_said_what_to_install() -> None:
    with pytest.raises(SettingsError, match="pip install nvidia-cuda-nvcc"):
        Cuda().compiler(BARE)


def test_code_that_is_written_over_is_seen() -> None:
    code = ctypes.create_string_buffer(b"\x90" * native.HEAD)
    known = native.first_code_bytes({"cuEventElapsedTime": code})
    assert not native.first_rewritten_function(known)
    code[3] = b"\xc3"
    assert "cuEventElapsedTime" in native.first_rewritten_function(known)


def test_executed_kernels_are_known_by_what_the_library_registers() -> None:
    library = "\x7fELF\0_Z7rmsnormPKf\0plain\0"
    seen = {"kernels": ["void rmsnorm<4>(float const*)", "plain"], "streams": [7, 9], "stream": 7}
    assert kernel_trace.complaint(seen, library) is None
    assert "not its own" in (kernel_trace.complaint({**seen, "kernels": ["norm(float)", "plain"]}, library) or "")


@pytest.fixture
def task_of_rows() -> Task:
    return Task.model_validate(
        {
            "name": "rows",
            "language": "cuda",
            "arguments": [],
            "reference": "",
            "workloads": [{"name": "one", "dims": {"N": 4}}],
        }
    )


def build(task: Task, source: str, executor: LocalExecutor, blobs: Blobs) -> tuple[str | None, str]:
    """The library and what the compiler said."""
    cuda = Cuda()
    done = executor.run(cuda.build(task, Candidate(language="cuda", files={"kernel.cu": source}), blobs, BARE))
    return cuda.build_output_digest(done), cuda.trim_log(blobs.text(done.files["stderr.txt"]))


@needs_nvcc
def test_a_library_exports_the_entry_and_a_failed_launch_is_told(task_of_rows: Task, beside: Beside) -> None:
    library, said = build(task_of_rows, NAIVE, *beside)
    assert library is not None and "rmsnorm for sm_" in said
    loaded = ctypes.CDLL(str(beside[1].path(library)))
    assert loaded.solve and loaded.kernelwright_error


@needs_nvcc
def test_an_error_comes_with_its_line(task_of_rows: Task, beside: Beside) -> None:
    library, said = build(task_of_rows, NAIVE.replace("float sum = 0.0f;", "flaot sum = 0.0f;"), *beside)
    assert library is None and "kernel.cu(" in said and "flaot" in said
