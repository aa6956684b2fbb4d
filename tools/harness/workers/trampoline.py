"""The few lines of C that call `solve` in a train and time it, compiled once for each signature. They also overwrite
memory that earlier calls used, and look at what a call leaves behind that /proc does not show.

The text is valid C and C++, so that any compiler will do.
"""

import ctypes
import hashlib
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

C_TYPES = {"int32": "int", "int64": "long long", "float32": "float", "float64": "double", "bool": "_Bool"}
LEFT_BEHIND = ("", "left a timer armed", "replaced the harness's signal handlers", "changed the environment")
"""What a train of calls may leave behind, as the stub's answer counts: the end of "the candidate ..."."""

EVICTION = r"""
#if defined(__x86_64__) || defined(__i386__)
/* clflushopt, which does not wait for the line before; processors without it ignore the prefix. */
#define PUT_OUT(line) __asm__ volatile(".byte 0x66; clflush %0" : : "m"(*(line)) : "memory")
#define FENCE __asm__ volatile("mfence" : : : "memory")
#elif defined(__aarch64__)
#define PUT_OUT(line) __asm__ volatile("dc civac, %0" : : "r"(line) : "memory")
#define FENCE __asm__ volatile("dsb sy" : : : "memory")
#else
#error "kernels are timed with cold caches, and programs can empty them on x86 and 64-bit Arm alone"
#endif
/* Evict these bytes from all caches, in whichever process they are mapped; done at the next FENCE. */
static void evict(const char *memory, long long bytes) {
  long long i;
  for (i = 0; i < bytes; i += 64) PUT_OUT(memory + i);
  if (bytes > 0) PUT_OUT(memory + bytes - 1);
}
"""
FLUSH_SOURCE = (
    EVICTION
    + r"""
#ifdef __cplusplus
extern "C"
#endif
__attribute__((visibility("default"))) void flush(const char *memory, long long bytes) {
  evict(memory, bytes);
  FENCE;
}
"""
)
STUB_TEMPLATE = (
    "#define _GNU_SOURCE\n"
    + EVICTION
    + r"""
#include <malloc.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>
#if defined(__x86_64__) || defined(__i386__)
#include <xmmintrin.h>
static long long flags(void) { return _mm_getcsr() & 0xFFC0u; }
#elif defined(__aarch64__)
static long long flags(void) { unsigned long long f; __asm__ volatile("mrs %0, fpcr" : "=r"(f)); return (long long)f; }
#else
static long long flags(void) { return 0; }
#endif
#ifdef __cplusplus
#define _Bool bool
#define EXPORT extern "C" __attribute__((visibility("default")))
#else
#define EXPORT __attribute__((visibility("default")))
#endif

static volatile unsigned long long *fault_page;
static char fault_stack[65536];

static void on_fault(int number, siginfo_t *info, void *context) {
  unsigned long long kind = 3;
#if defined(__x86_64__) && defined(REG_ERR)
  kind = (((ucontext_t *)context)->uc_mcontext.gregs[REG_ERR] & 2) ? 2 : 1;
#endif
  (void)number; (void)context;
  if (fault_page) { fault_page[0] = (unsigned long long)(size_t)info->si_addr; fault_page[1] = kind; }
}

/* On a fault during a call leave its address in this shared page; the handler resets itself, so the fault then ends the
   process. */
EXPORT void kw_watch(void *page) {
  stack_t stack;
  fault_page = (volatile unsigned long long *)page;
  memset(&stack, 0, sizeof stack);
  stack.ss_sp = fault_stack; stack.ss_size = sizeof fault_stack;
  sigaltstack(&stack, NULL);
}

static void handle_faults(void) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_sigaction = on_fault;
  action.sa_flags = (int)(SA_SIGINFO | SA_ONSTACK | SA_RESETHAND);
  sigaction(SIGSEGV, &action, NULL);
  sigaction(SIGBUS, &action, NULL);
}

/* Reset the handlers; whether they were still ours. */
static int reset_handlers(void) {
  struct sigaction action, segv, bus;
  memset(&action, 0, sizeof action);
  action.sa_handler = SIG_DFL;
  sigaction(SIGSEGV, &action, &segv);
  sigaction(SIGBUS, &action, &bus);
  return segv.sa_sigaction == on_fault && bus.sa_sigaction == on_fault;
}

/* Disarm the interval timers; whether one was armed. */
static int disarm_timers(void) {
  struct itimerval none, old;
  int armed = 0;
  memset(&none, 0, sizeof none);
#define DISARM(which) \
  if (setitimer(which, &none, &old) == 0) armed |= old.it_value.tv_sec || old.it_value.tv_usec
  DISARM(ITIMER_REAL);
  DISARM(ITIMER_VIRTUAL);
  DISARM(ITIMER_PROF);
  return armed;
}

static unsigned long long environment_hash(void) {
  unsigned long long hash = 0;
  char **entry, *c;
  for (entry = environ; entry && *entry; ++entry)
    for (hash += 1, c = *entry; *c; ++c) hash = (hash ^ (unsigned char)*c) * 1099511628211ULL;
  return hash;
}

static unsigned long long noise = 0x2545F4914F6CDD1DULL;

/* Fill memory (a multiple of 8 bytes) with noise and evict it. */
static void scatter(char *memory, size_t bytes) {
  unsigned long long next = noise;
  size_t i;
  for (i = 0; i < bytes / 8; ++i) ((unsigned long long *)memory)[i] = next += 0x9E3779B97F4A7C15ULL;
  noise = next;
  evict(memory, (long long)bytes);
}

static __attribute__((noinline)) void scatter_below(void) {
  unsigned long long area[32768];
  scatter((char *)area, sizeof area);
  __asm__ volatile("" : : "r"(area) : "memory");
}

/* glibc's malloc: first the blocks of each size that a thread caches, then the free ones among all chunks from `start`
   on. A chunk is a size with three flags behind 8 bytes; it is free if the next one's lowest flag is clear, and then
   it begins with up to four links. Anything that does not look like chunks ends the walk. */
static void scatter_in_heap(char *start) {
#if defined(__GLIBC__) && defined(__LP64__)
#if __GLIBC_PREREQ(2, 42)
  enum { KEPT = 16 };
#else
  enum { KEPT = 7 };
#endif
  void *cached[64][KEPT];
  char *chunk = (char *)(((size_t)start + 15) & ~(size_t)15), *end, *next;
  size_t size, links;
  int i, j;
  for (i = 0; i < 64; ++i)
    for (j = 0; j < KEPT; ++j)
      if ((cached[i][j] = malloc(24 + 16 * i))) scatter((char *)cached[i][j], 24 + 16 * i);
  for (i = 0; i < 64; ++i)
    for (j = 0; j < KEPT; ++j) free(cached[i][j]);
  mallopt(M_PERTURB, 0); /* No change, but it joins small free chunks. */
  end = (char *)sbrk(0); /* Now, because free() may have given the end of the heap back. */
  for (; start && chunk + 32 <= end; chunk = next) {
    size = *(size_t *)(chunk + 8) & ~(size_t)7;
    next = chunk + size;
    if (size < 32 || (size & 15) || size > (size_t)(end - chunk)) return;
    links = size < 1024 ? 32 : 48;
    if ((next + 16 > end || !(*(size_t *)(next + 8) & 1)) && size > links) scatter(chunk + links, size - links);
  }
#else
  (void)start;
#endif
}

/* Leave noise instead of what earlier calls left on the stack and in freed memory. */
EXPORT void kw_scatter_noise(void *heap) {
  scatter_below();
  scatter_in_heap((char *)heap);
  FENCE;
}

EXPORT long long kw_flags(void) { return flags(); }

typedef void (*entry)(@TYPES@);

/* out: nanoseconds, floating-point control word before and after, what was left behind. */
EXPORT void kw_train(void *function, unsigned char *arguments, long long calls, long long *out) {
  entry call = (entry)function;
  struct timespec start, end;
  long long i;
  unsigned long long variables = environment_hash();
  handle_faults();
  out[1] = flags();
  clock_gettime(CLOCK_MONOTONIC, &start);
  for (i = 0; i < calls; ++i) {
    unsigned char *a = arguments + i * @STRIDE@; (void)a;
    call(@VALUES@);
  }
  clock_gettime(CLOCK_MONOTONIC, &end);
  out[3] = disarm_timers() ? 1 : !reset_handlers() ? 2 : environment_hash() != variables ? 3 : 0;
  out[2] = flags();
  out[0] = (end.tv_sec - start.tv_sec) * 1000000000LL + (end.tv_nsec - start.tv_nsec);
}
"""
)


class NoCompilerError(Exception):
    """No C compiler works on this machine."""


def stub_source(kinds: tuple[str, ...]) -> str:
    """Return the C text for a signature: "pointer" or a scalar's dtype for each parameter; each argument takes 8
    bytes."""
    types = ["void *" if kind == "pointer" else C_TYPES[kind] for kind in kinds]
    values = [f"*({t} *)(a + {8 * i})" for i, t in enumerate(types)]
    text = STUB_TEMPLATE.replace("@TYPES@", ", ".join(types) or "void").replace("@VALUES@", ", ".join(values))
    return text.replace("@STRIDE@", str(8 * len(kinds)))


def compiler_commands() -> list[list[str]]:
    """Return compiler commands to try, the user's own first."""
    found = [shlex.split(os.environ[name]) for name in ("CC", "CXX") if os.environ.get(name)]
    found += [[path] for name in ("gcc", "cc", "clang", "g++", "c++", "clang++") if (path := shutil.which(name))]
    return [*found, [sys.executable, "-m", "ziglang", "cc"]]


def runtime_library_folders() -> list[str]:
    """Return the folders in which compilers outside the system's folders (conda, a module system) keep the run-time
    libraries that kernels link to."""
    homes = {
        Path(path).resolve().parent.parent for command in compiler_commands() if (path := shutil.which(command[0]))
    }
    return sorted(str(folder) for home in homes for name in ("lib", "lib64") if (folder := home / name).is_dir())


def load_flush_function(folder: Path):
    """Return the function (address, bytes) that evicts memory from the caches."""
    function = ctypes.CDLL(str(compile_cached(FLUSH_SOURCE, folder))).flush
    function.argtypes, function.restype = [ctypes.c_void_p, ctypes.c_longlong], None
    return function


def compile_cached(text: str, folder: Path) -> Path:
    """Return the shared object of `text` in `folder`, compiled if it is not there yet."""
    shared_object = folder / f"trampoline-{hashlib.sha256(text.encode()).hexdigest()[:16]}.so"
    if shared_object.exists():
        return shared_object
    # Several processes may compile it at the same time.
    path, part = (shared_object.with_suffix(f".{os.getpid()}{end}") for end in (".c", ".part"))
    path.write_text(text)
    log = ""
    for compiler in compiler_commands():
        try:
            completed = subprocess.run(
                [*compiler, "-O1", "-shared", "-fPIC", "-o", str(part), str(path)],
                capture_output=True,
                text=True,
                timeout=120,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            log += f"{compiler[0]}: {error}\n"
            continue
        if completed.returncode == 0:
            return part.rename(shared_object)
        log += f"{' '.join(compiler)}: {completed.stderr[-400:]}\n"
    raise NoCompilerError(
        f"no C compiler here can build the harness's call stub; install gcc or clang ({log.strip()[-600:]})"
    )
