"""The static screen: what it refuses, what honest kernels may do, and that its sentences point at the line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.errors import SettingsError
from tools.screen.screen import screen

HEAD = "#include <cmath>\n"
SOLVE = 'extern "C" void solve(const float* x, float* out, int n) {\n  for (int i = 0; i < n; ++i) out[i] = x[i];\n}\n'


def inside(body: str) -> str:
    return f'{HEAD}extern "C" void solve(const float* x, float* out, int n) {{\n  {body}\n}}\n'


REFUSED = {
    "fast-math pragma": ('#pragma GCC optimize("fast-math")\n' + SOLVE, 1, "#pragma GCC optimize"),
    "continued pragma": ('#pragma GCC \\\n  optimize("fast-math")\n' + SOLVE, 1, "optimize"),
    "commented pragma": ('#/**/pragma GCC optimize("fast-math")\n' + SOLVE, 1, "optimize"),
    "clang fp": (inside("#pragma clang fp reassociate(on)\n  out[0] = x[0];"), 3, "clang fp"),
    "fenv access": ("#pragma STDC FENV_ACCESS ON\n" + SOLVE, 1, "FENV_ACCESS"),
    "_Pragma": ('_Pragma("GCC optimize(\\"fast-math\\")")\n' + SOLVE, 1, "_Pragma"),
    "_Pragma behind a macro": ("#define P(x) _Pragma(#x)\nP(GCC optimize 3)\n" + SOLVE, 1, "_Pragma"),
    "optimize attribute": (
        '__attribute__((optimize("fast-math"))) static float f(float v) { return v; }\n' + SOLVE,
        1,
        "optimize",
    ),
    "target attribute": (
        '__attribute__((noinline, __target__("avx512f"))) static float f(float v) { return v; }\n' + SOLVE,
        1,
        "__target__",
    ),
    "C++11 target attribute": ('[[gnu::target("avx2")]] static float f(float v) { return v; }\n' + SOLVE, 1, "target"),
    "constructor": ("__attribute__((constructor)) static void init() {}\n" + SOLVE, 1, "constructor"),
    "attribute in a macro": (
        "#define HOT __attribute__((constructor))\nHOT static void init() {}\n" + SOLVE,
        1,
        "constructor",
    ),
    "mxcsr by assembly": (inside('unsigned m = 0x9fc0; asm volatile("ldmxcsr %0" : : "m"(m));'), 3, "assembly"),
    "assembly label": ('extern "C" int f(const char*) __asm__("system");\n' + SOLVE, 1, "asm"),
    "system by address": ("#include <cstdlib>\n" + inside('auto f = &std::system; f("true");'), 4, "system"),
    "global open": ("static int open(int v) { return v; }\n" + inside('int f = ::open("/x", 0);'), 4, "open"),
    "std::thread": (inside("std::thread t([] {}); t.detach();"), 3, "std::thread"),
    "chrono": (inside("auto t = std::chrono::steady_clock::now();"), 3, "std::chrono"),
    "chrono under using": (inside("using namespace std; auto t = chrono::steady_clock::now();"), 3, "std::chrono"),
    "unistd": ("#include <unistd.h>\n" + SOLVE, 1, "unistd.h"),
    "fstream": ("# include <fstream>\n" + SOLVE, 1, "fstream"),
    "quoted system header": ('#include "unistd.h"\n' + SOLVE, 1, "unistd.h"),
    "computed include": ("#define H <unistd.h>\n#include H\n" + SOLVE, 2, "plain name"),
    "global counter": ("int calls = 0;\n" + SOLVE, 1, "across calls"),
    "static counter": (inside("static int calls; if (calls++) return;"), 3, "static int calls"),
    "static pointer to const": ("static const float* last = nullptr;\n" + SOLVE, 1, "across calls"),
    "anonymous namespace": ("namespace {\nfloat memo[8];\n}\n" + SOLVE, 2, "across calls"),
    "thread_local": (inside("thread_local float scratch[64]; out[0] = scratch[0];"), 3, "across calls"),
    "static member": ("struct S { static int n; };\nint S::n = 0;\n" + SOLVE, 2, "across calls"),
    "inline static member": ("struct S { inline static int n = 0; };\n" + SOLVE, 1, "across calls"),
    "template variable": ("template <int N> float cache[N];\n" + SOLVE, 1, "across calls"),
    "static behind a macro": ("#define KEEP static\n" + inside("KEEP int calls = 0; calls++;"), 4, "across calls"),
    "static in a function macro": (
        "#define KEEP(t, n) static t n\n" + inside("KEEP(int, calls); calls++;"),
        1,
        "inside a macro",
    ),
    "static anonymous struct": (inside("static struct { int n; } state; state.n++;"), 3, "across calls"),
    "global struct": ("struct State { float* p; } state;\n" + SOLVE, 1, "across calls"),
    "global function pointer": ("float (*f)(float) = nullptr;\n" + SOLVE, 1, "across calls"),
    "one of two globals": ("int *const a = nullptr, *b = nullptr;\n" + SOLVE, 1, "across calls"),
    "mutable member": ("struct S { mutable int n; };\nstatic constexpr S s{0};\n" + SOLVE, 1, "mutable"),
    "static lambda": (inside("static auto f = [k = 0]() mutable { return k++; }; out[0] = f();"), 3, "across calls"),
    "const pointer to new": ("static float* const memo = new float[16];\n" + SOLVE, 1, "initialised by code"),
    "global vector": (
        "#include <vector>\nstatic const std::vector<float> table(16, 1.0f);\n" + SOLVE,
        2,
        "initialised by code",
    ),
    "constructor of an own class": ("struct S { S() {} };\nstatic const S once;\n" + SOLVE, 2, "initialised by code"),
    "global from elsewhere": ("extern char** environ;\n" + SOLVE, 1, "environ"),
    "table by a call": (
        "static float f() { return 1; }\nstatic const float table[1] = {f()};\n" + SOLVE,
        2,
        "initialised by code",
    ),
    "static array of pointers": (inside("static const float* seen[4]; out[0] = seen[0] == x;"), 3, "across calls"),
    "function from elsewhere": ('extern "C" int secret(int);\n' + inside("out[0] = secret(1);"), 1, "not defined here"),
    "token pasting": ("#define CALL(a, b) a##b\n" + inside('CALL(sys, tem)("true");'), 1, "pastes"),
    "keyword macro": ("#define double float\n" + SOLVE, 1, "another meaning"),
    "name in a macro": ("#define RUN(c) system(c)\n" + inside('RUN("true");'), 1, "system"),
    "digraph": (SOLVE.replace("{\n", "<%\n").replace("}\n", "%>\n"), 1, "digraph"),
    "trigraph": ("??=pragma GCC optimize 3\n" + SOLVE, 1, "trigraph"),
    "split name": (inside('sys\\\ntem("true");'), 3, "backslash"),
    "universal character": (inside("int \\u00e9 = 1;"), 3, "backslash"),
    "look-alike": (inside("int е = 1;"), 3, "ASCII"),
    "comment that hides a line": (inside("// nothing \\\n  out[0] = 1;"), 3, "hides the next line"),
    "operator new": ("#include <new>\nvoid* operator new(size_t n) { return 0; }\n" + SOLVE, 2, "allocator"),
    "build time": (inside("const char* t = __TIME__; out[0] = t[0];"), 3, "__TIME__"),
    "line directive": ('#line 1 "other.cpp"\n' + SOLVE, 1, "#line"),
    "threadprivate": ("#pragma omp threadprivate(x)\n" + SOLVE, 1, "threadprivate"),
}

CALLS = (
    "fork system open mmap dlsym getenv signal longjmp atexit pthread_create clock_gettime time __rdtsc "
    "printf rand fesetround"
)
CALLS += " feenableexcept _mm_setcsr _MM_SET_FLUSH_ZERO_MODE omp_get_wtime omp_set_num_threads omp_set_dynamic"
REFUSED |= {name: (inside(f"{name}(0);"), 3, name) for name in CALLS.split()}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    source, line, words = REFUSED[name]
    found = screen(source, "cpp")
    assert any(sentence.startswith(f"line {line}: ") and words in sentence for sentence in found), found
    assert all("\n" not in sentence for sentence in found)


ALLOWED = {
    "plain": SOLVE,
    "openmp": inside(
        "#pragma omp parallel for schedule(static) num_threads(2)\n  for (int i = 0; i < n; ++i) out[i] = x[i];"
    ),
    "openmp simd reduction": inside(
        "float s = 0;\n#pragma omp simd reduction(+ : s) \\\n    aligned(x : 64)\n  for (int i = 0; i < n; ++i) "
        "s += x[i];"
    ),
    "_Pragma omp": inside('_Pragma("omp simd") for (int i = 0; i < n; ++i) out[i] = x[i];'),
    "ivdep and unroll": inside(
        "#pragma GCC ivdep\n  for (int i = 0; i < n; ++i)\n#pragma GCC unroll 4\n    for (int j = 0; j < 4; ++j) "
        "out[i] = j;"
    ),
    "intrinsics": '#include <immintrin.h>\nextern "C" void solve(const float* x, float* out, int n) {\n'
    "  for (int i = 0; i + 8 <= n; i += 8)\n"
    "    _mm256_storeu_ps(out + i, _mm256_mul_ps(_mm256_loadu_ps(x + i), _mm256_set1_ps(2.0f)));\n}\n",
    "intrinsics under #if": "#if defined(__AVX512F__)\n#include <immintrin.h>\n"
    "static inline __m512 twice(__m512 v) { return _mm512_add_ps(v, v); }\n"
    "#elif defined(__ARM_NEON)\n#include <arm_neon.h>\n#endif\n" + SOLVE,
    "vector extension": "typedef float v8 __attribute__((vector_size(32), aligned(4)));\n"
    + inside("v8 a = {}; a += 1.0f; out[0] = a[0];"),
    "always_inline": "__attribute__((always_inline)) static inline float f(float v) { return v; }\n" + SOLVE,
    "C++11 attributes": inside("[[maybe_unused]] int k = 0; if (n > 0) [[likely]] { out[0] = 1; }"),
    "templates": "template <int W, class T>\nstatic inline T sum(const T* p) {\n"
    "  T s{};\n  for (int i = 0; i < W; ++i) s += p[i];\n  return s;\n}\n" + inside("out[0] = sum<4>(x);"),
    "constexpr table": "#include <array>\nstatic constexpr std::array<float, 3> kTable = {1.0f, 0.5f, 0.25f};\n"
    "constexpr float kLn2 = 0.6931472f;\n" + SOLVE,
    "const table": "static const float coefficients[] = {1.0f, 0.5f, 1.0f / 6};\nnamespace {\nconst int kBlock = "
    "64;\n}\n" + SOLVE,
    "const pointer table": 'static const char* const kName = "softmax";\n' + SOLVE,
    "local static constexpr": inside(
        "static constexpr int block = 32; static const float half = 0.5f; out[0] = half * block;"
    ),
    "constexpr by a function": "constexpr float f(int i) { return i * 0.5f; }\nstatic constexpr float table[2] = "
    "{f(0), f(1)};\n" + SOLVE,
    "lambda": inside("auto f = [&](int i) mutable { return x[i] * 2; }; out[0] = f(0);"),
    "scratch on the heap": "#include <vector>\n#include <memory>\n"
    + inside("std::vector<float> s(n); auto p = std::make_unique<float[]>(n); out[0] = s[0];"),
    "bit tricks": "#include <cstring>\n#include <cstdint>\n"
    + inside(
        "int32_t b; std::memcpy(&b, x, 4); b += 127 << 23; std::memcpy(out, &b, 4); out[0] *= __builtin_expect(n "
        "> 0, 1);"
    ),
    "words in comments and strings": '// fork(), system("rm"), #pragma GCC optimize, static int x; what?!\n'
    "/* dlopen mmap\n #include <unistd.h> */\n"
    'static const char text[] = "fork system // pthread_create";\n' + SOLVE,
    "own names": 'extern "C" void solve(const float* signal, float* out, int time) {\n  float clock = signal[0], '
    "read = 2;\n"
    "  for (int i = 0; i < time; ++i) out[i] = signal[i] * clock * read;\n}\n",
    "own function": "static float select(bool c, float a, float b) { return c ? a : b; }\n"
    + inside("out[0] = select(n > 1, x[0], 0);"),
    "member functions": "struct Tile { const float* p; float read(int i) const { return p[i]; } };\n"
    + inside("Tile t{x}; out[0] = t.read(0);"),
    "macros": "#define RESTRICT __restrict__\n#define IDX(i, j) ((i) * n + (j))\n#define N_UNROLL 4\n"
    + inside("const float* RESTRICT p = x; out[IDX(0, 0)] = p[0] * N_UNROLL;"),
    "continued macro": "#define STEP(v) \\\n  do { \\\n    v += 1; \\\n  } while (0)\n"
    + inside("int k = 0; STEP(k); out[0] = k;"),
    "barrier": inside('asm volatile("" ::: "memory"); __asm__ volatile("" : "+m"(out[0]));'),
    "assume": inside("x = (const float*)__builtin_assume_aligned(x, 64); __builtin_prefetch(x + 64); out[0] = x[0];"),
    "forward declaration": "static float twice(float v);\n"
    + inside("out[0] = twice(x[0]);")
    + "static float twice(float v) { return v + v; }\n",
    "cplusplus bracket": "#ifdef __cplusplus\n"
    'extern "C" {\n#endif\nvoid solve(float* x, int n) { x[0] = n; }\n#ifdef __cplusplus\n}\n#endif\n',
    "numbers": inside(
        "unsigned long k = 0xFFu + 1'000'000ul; float f = 0x1.8p+1f + 1.e-5f; out[0] = f * (k > 0 ? 1 : 2);"
    ),
    "isa atomics": "#include <atomic>\n"
    + inside("std::atomic<int> k{0}; k.fetch_add(1, std::memory_order_relaxed); out[0] = k.load();"),
    "headers left behind": "#include <cstdio>\n#include <iostream>\n#include <string>\n" + SOLVE,
    "global scope type": "namespace a { struct b {}; }\ntemplate <class T> struct W { T v; };\n"
    + inside("W<::a::b> w; (void)w; out[0] = n % 2 ? 1 : 0;"),
}


@pytest.mark.parametrize("name", ALLOWED)
def test_allowed(name: str) -> None:
    assert screen(ALLOWED[name], "cpp") == ()


@pytest.mark.parametrize("path", ["configs/tasks/softmax/kernel.cpp", "tests/tools/fixtures/seed/kernel.cpp"])
def test_our_own_kernels_are_allowed(path: str) -> None:
    assert screen((Path(__file__).parents[3] / path).read_text(), "cpp") == ()


def test_own_headers_are_allowed_by_name_only() -> None:
    source = '#include "tile.h"\n' + SOLVE
    assert screen(source, "cpp", files=("kernel.cpp", "tile.h")) == ()
    assert len(screen(source, "cpp")) == 1


def test_all_faults_are_listed_in_order() -> None:
    found = screen("#include <unistd.h>\nstatic int n;\n" + inside("fork(); rand();"), "cpp")
    assert [sentence.split(":")[0] for sentence in found] == ["line 1", "line 2", "line 5", "line 5"]


def test_a_language_without_a_screen_is_refused() -> None:
    with pytest.raises(SettingsError, match="fortran"):
        screen("", "fortran")
