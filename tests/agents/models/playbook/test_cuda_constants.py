"""The playbook searches the sizes that a CUDA source holds as constants, and leaves the rest of it alone."""

from agents.models.playbook.recipes.cuda_constants import CudaConstants

SOURCE = """#define TILE 16
constexpr int kThreads = 128;
constexpr int COUNT = 3;
__global__ void __launch_bounds__(kThreads, 4) f(float* y) { y[threadIdx.x] = COUNT * TILE; }
extern "C" void solve(float* y) { f<<<1, kThreads>>>(y); }
"""


def test_constants_are_found_by_their_names_and_set() -> None:
    made = CudaConstants()
    assert made.present(SOURCE) == {"THREADS": "128", "TILE": "16", "RESIDENT": "4"}
    other = made.edit(SOURCE, {"THREADS": "512", "TILE": "32", "RESIDENT": "1", "UNROLL": "8"})
    assert made.present(other) == {"THREADS": "512", "TILE": "32", "RESIDENT": "1"} and "COUNT = 3" in other


def test_what_does_not_parse_is_left_alone() -> None:
    assert CudaConstants().edit("constexpr int THREADS = 128; void f( {", {"THREADS": "256"}).count("128") == 1
