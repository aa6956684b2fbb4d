"""The C++ language: signatures as people write them, builds that repeat, compilers that are missing."""

from __future__ import annotations

import ctypes
import shutil
from pathlib import Path

import pytest

from tests.support import BARE, one_sentence, run_captured, toolchain_here
from tools.artifacts import Argument, Candidate, Task, Workload
from tools.errors import InfrastructureError, SettingsError
from tools.executors import toolchain_job
from tools.executors.base import FinishedJob, Job, JobUsage
from tools.languages.cpp import Cpp
from tools.store.blobs import Blobs

NO_TASK = Task(
    name="copy",
    language="cpp",
    arguments=(Argument(name="x", role="input", dtype="float32", shape=("N",)),),
    reference="",
    workloads=(Workload(name="a", dims={"N": 8}),),
)
needs_compiler = pytest.mark.skipif(
    not any(shutil.which(n) for n in ("g++", "clang++")), reason="no C++ compiler on this machine"
)


def shown(source: str) -> str:
    return ", ".join(
        f"{'const ' if p.const else ''}{p.dtype}{'*' if p.pointer else ''} {p.name}" for p in Cpp().parameters(source)
    )


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (
            'extern "C" void solve(const float* x, float* out, int M, int N) {}',
            "const float32* x, float32* out, int32 M, int32 N",
        ),
        (
            'extern "C" void solve(const float *__restrict__ x, float * __restrict out) {}',
            "const float32* x, float32* out",
        ),
        ('extern "C" void solve(float const* const x, float* const y) {}', "const float32* x, float32* y"),
        (
            'extern "C" void solve(const float x[], float out[16], size_t n) {}',
            "const float32* x, float32* out, int64 n",
        ),
        (
            'extern "C" {\nvoid solve(double *a, long long n, long m, bool causal) {}\n}',
            "float64* a, int64 n, int64 m, bool causal",
        ),
        (
            'extern "C" void solve(std::int8_t* a, uint8_t* b, int64_t* d, bool* e)\n{}',
            "int8* a, uint8* b, int64* d, bool* e",
        ),
        ('extern "C" void solve(_Float16* h, double eps, float s) {}', "float16* h, float64 eps, float32 s"),
        (
            'typedef float real;\nusing index = std::int64_t;\nextern "C" void solve(const real* x, index n) {}',
            "const float32* x, int64 n",
        ),
        (
            '#define R __restrict__\n#define T float\nextern "C" void solve(const T* R x, T* R y) {}',
            "const float32* x, float32* y",
        ),
        (
            (
                '#ifdef __cplusplus\nextern "C" {\n#endif\nvoid solve(float* x, int n) { x[0] = n; }\n#ifdef '
                "__cplusplus\n}\n#endif\n"
            ),
            "float32* x, int32 n",
        ),
        (
            'extern "C" __attribute__((noinline)) void solve(unsigned char* m, unsigned int n, int) {}',
            "uint8* m, int32 n, int32 arg2",
        ),
        (
            'namespace k { template <class T> T f(T x) { return x; } }\nextern "C" void solve(int* x, const int n) { }',
            "int32* x, int32 n",
        ),
    ],
)
def test_signatures_are_read(source: str, expected: str) -> None:
    assert shown(source) == expected


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ('extern "C" void run(float* x) {}', ["no function `solve`"]),
        ('\nextern "C" void solve(float* x, int N {}', ["kernel.cpp:2 does not parse", "`)` is missing"]),
        ("void solve(float* x, int n) {}", ['not extern "C"']),
        ('extern "C" int solve(float* x, int n) { return 0; }', ["returns int", "void"]),
        ('extern "C" void solve() {}', ["no parameters"]),
        ('extern "C" void solve(std::vector<float>& v) {}', ["`v`", "use a pointer"]),
        ('extern "C" void solve(float* x, Thing t) {}', ["`t`", "Thing"]),
        ('typedef b a; typedef a b;\nextern "C" void solve(a* x) {}', ["`x`"]),
        (
            '#if A\nextern "C" void solve(float* x) {}\n#else\nextern "C" void solve(double* x) {}\n#endif',
            ["more than once"],
        ),
    ],
)
def test_signatures_outside_the_contract_are_refused(source: str, words: list[str]) -> None:
    with one_sentence("kernel.cpp", *words):
        Cpp().parameters(source)


def run(job: Job, blobs: Blobs, folder: Path) -> FinishedJob:
    """Run a job's command by hand: what an executor does, without its walls."""
    folder.mkdir()
    for name, sha in job.files.items():
        (folder / name).write_bytes(blobs.get(sha))
    done = run_captured(job.argv, cwd=folder)
    files = {name: blobs.put((folder / name).read_bytes()) for name in job.results if (folder / name).exists()}
    files["stderr.txt"] = blobs.put(done.stderr)
    return FinishedJob(exit_code=done.returncode, files=files, usage=JobUsage(wall_s=0.0))


KERNEL = """#include "part.h"
extern "C" void solve(const float* x, float* out, int n) {
#pragma omp parallel for simd
  for (int i = 0; i < n; ++i) out[i] = twice(x[i]);
}
"""


@needs_compiler
def test_a_build_has_the_candidates_headers_and_no_fast_math(tmp_path: Path) -> None:
    language, blobs = Cpp(), Blobs(tmp_path / "blobs")
    candidate = Candidate(
        language="cpp", files={"kernel.cpp": KERNEL, "part.h": "static inline float twice(float v) { return 2 * v; }\n"}
    )
    job = language.build(NO_TASK, candidate, blobs, toolchain_here(tmp_path))
    assert "part.h" not in job.argv and not any("fast" in flag for flag in job.argv)
    first = language.build_output_digest(run(job, blobs, tmp_path / "a"))
    assert first is not None
    library = ctypes.CDLL(str(blobs.path(first)))
    x, out = (ctypes.c_float * 3)(1, 2, 3), (ctypes.c_float * 3)()
    library.solve(x, out, 3)
    assert list(out) == [2, 4, 6]


def test_a_long_log_is_cut_and_keeps_the_errors() -> None:
    log = "".join(f"/var/run/job7/kernel.cpp:{i}:3: warning: unused\n  {i} | x\n" for i in range(200))
    log += "/var/run/job7/kernel.cpp:900:3: error: expected ';'\n  900 | y\n      | ^\n"
    trimmed = Cpp().trim_log(log)
    assert trimmed.splitlines() == ["kernel.cpp:900:3: error: expected ';'", "  900 | y", "      | ^"]
    many = Cpp().trim_log("".join(f"kernel.cpp:{i}:1: error: no\n" for i in range(100)))
    assert len(many.splitlines()) == 40
    assert many.endswith("61 more lines")


def test_own_flags_replace_the_optimisations_and_nothing_else() -> None:
    task = NO_TASK.model_copy(update={"build_flags": ("-O2", "-ffast-math", "-lm")})
    flags = Cpp().flags(task, BARE)
    assert flags[-3:] == ("-O2", "-ffast-math", "-lm") and "-shared" in flags
    assert not {"-O3", "-march=native"} & set(flags)


@pytest.mark.parametrize(
    "flag",
    [
        "-o",
        "other.so",
        "-Wl,-rpath,/x",
        "-fplugin=x.so",
        "-fuse-ld=/tmp/x",
        "@file",
        "-c",
        "-S",
        "-x",
        "-fprofile-use",
        "-shared",
    ],
)
def test_flags_that_change_what_is_built_are_refused(flag: str) -> None:
    with pytest.raises(SettingsError, match="build_flags"):
        Cpp().flags(NO_TASK.model_copy(update={"build_flags": ("-O3", flag)}), BARE)


def script(path: Path, body: str) -> None:
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


@needs_compiler
def test_a_compiler_without_openmp_falls_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = shutil.which("g++") or shutil.which("clang++")
    wrapper = tmp_path / "no-omp"
    script(
        wrapper,
        f'for a in "$@"; do [ "$a" = -fopenmp ] && {{ echo "cannot find -lomp" >&2; exit 1; }}; done\nexec {real} "$@"',
    )
    monkeypatch.setenv("CXX", str(wrapper))
    assert "-fopenmp-simd" in Cpp().flags(NO_TASK, toolchain_here(tmp_path))


@needs_compiler
@pytest.mark.parametrize("step", ["build", "run", "version"])
def test_a_trial_that_takes_too_long_is_the_machines_fault(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Falling back to one thread because the machine was busy would compare kernels built in two ways."""
    real = shutil.which("g++") or shutil.which("clang++")
    wrapper = tmp_path / "busy"
    slow = {
        "build": f'case "$*" in *-fopenmp*) sleep 5;; esac\nexec {real} "$@"',
        "run": f'{real} "$@" || exit 1\n[ -f trial ] && printf "#!/bin/sh\\nsleep 5\\n" > trial; exit 0',
        "version": "sleep 5",
    }
    script(wrapper, slow[step])
    monkeypatch.setenv("CXX", str(wrapper))
    monkeypatch.setitem(toolchain_job.STEP_LIMITS_S, step, 0.5)
    with pytest.raises(InfrastructureError, match=r"took longer than 0\.5 s"):
        toolchain_here(tmp_path)


def test_no_compiler_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with one_sentence("apt install g++", "gcc-c++", "pacman", "pip install -e '.[zig]'"):
        Cpp().compiler(BARE)
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(SettingsError, match="CXX: 'no-such-compiler'"):
        Cpp().compiler(toolchain_here(tmp_path))
