"""NVML and the CUDA driver, stood in for by small C libraries: what is tried is our side of the binding."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

COMPILER = shutil.which("gcc") or shutil.which("cc")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no C compiler here")
UUIDS = ("GPU-00000000-0000-0000-0000-000000000000", "GPU-01010101-0101-0101-0101-010101010101")
NVML = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
typedef struct { unsigned pid; unsigned long long memory; unsigned gpu, compute; } process;
typedef struct { unsigned pid; unsigned long long stamp; unsigned sm, memory, encode, decode; } sample;
typedef struct { unsigned long long total, free, used; } memory;
typedef struct { unsigned gpu, memory; } share;
static const char *UUIDS[] = {"UUID0", "UUID1"};
static unsigned number(const char *name) { const char *set = getenv(name); return set ? strtoul(set, 0, 10) : 0; }
int nvmlInit_v2(void) { return getenv("STUB_NO_DRIVER") ? 9 : 0; }
int nvmlDeviceGetCount_v2(unsigned *n) { *n = 2; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **h) { *h = (void *)(size_t)(i + 1); return i < 2 ? 0 : 2; }
int nvmlDeviceGetHandleByUUID(const char *u, void **h) {
  for (int i = 0; i < 2; ++i) if (!strcmp(u, UUIDS[i])) { *h = (void *)(size_t)(i + 1); return 0; }
  return 6;
}
int nvmlDeviceGetUUID(void *h, char *b, unsigned n) { snprintf(b, n, "%s", UUIDS[(size_t)h - 1]); return 0; }
int nvmlDeviceGetName(void *h, char *b, unsigned n) { snprintf(b, n, "NVIDIA Stub"); return 0; }
int nvmlSystemGetDriverVersion(char *b, unsigned n) { snprintf(b, n, "1.2.3"); return 0; }
int nvmlSystemGetProcessName(unsigned pid, char *b, unsigned n) { snprintf(b, n, "stub-trainer"); return 0; }
int nvmlDeviceGetMemoryInfo(void *h, memory *m) { m->total = 1ull << 34; return 0; }
int nvmlDeviceGetMigMode(void *h, unsigned *a, unsigned *b) { return 3; }
int nvmlDeviceGetEccMode(void *h, unsigned *a, unsigned *b) { *a = 1; return 0; }
int nvmlDeviceGetPersistenceMode(void *h, unsigned *a) { *a = 1; return 0; }
int nvmlDeviceGetMaxClockInfo(void *h, unsigned which, unsigned *a) { *a = 1000 * which; return 0; }
int nvmlDeviceGetClockInfo(void *h, int which, unsigned *v) { *v = 1000 * which; return 0; }
int nvmlDeviceGetEnforcedPowerLimit(void *h, unsigned *a) { *a = 700000; return 0; }
int nvmlDeviceGetTemperature(void *h, int which, unsigned *v) { *v = 40; return which; }
static int noted(const char *what, void *h) {
  FILE *log = getenv("STUB_CLOCKS") ? fopen(getenv("STUB_CLOCKS"), "a") : 0;
  if (log) { fprintf(log, "%s %zu\n", what, (size_t)h - 1); fclose(log); }
  return 0;
}
int nvmlDeviceSetGpuLockedClocks(void *h, unsigned least, unsigned most) {
  return number("STUB_FORBIDDEN") ? number("STUB_FORBIDDEN") : least == most && least > 0xffffff00u ? noted("lock", h) : 2;
}
int nvmlDeviceResetGpuLockedClocks(void *h) { return noted("reset", h); }
int nvmlDeviceGetPowerUsage(void *h, unsigned *v) { *v = 123456; return 0; }
int nvmlDeviceGetCurrentClocksThrottleReasons(void *h, unsigned long long *v) { *v = number("STUB_REASONS"); return 0; }
int nvmlDeviceGetUtilizationRates(void *h, share *s) { s->gpu = number("STUB_SHARE"); return 0; }
int nvmlDeviceGetComputeRunningProcesses_v3(void *h, unsigned *n, process *p) {
  const char *set = getenv("STUB_PROCESSES");  /* on the first GPU only */
  char copy[200] = "";
  if (set && *set == '?') return 4;
  strcpy(copy, set && (size_t)h == 1 ? set : "");
  *n = 0;
  for (char *word = strtok(copy, ","); word; word = strtok(0, ",")) p[(*n)++].pid = atoi(word);
  return 0;
}
int nvmlDeviceGetProcessUtilization(void *h, sample *s, unsigned *n, unsigned long long since) {
  if (!number("STUB_BUSY")) return 6;
  if (!s) { *n = 1; return 7; }
  s[0].pid = number("STUB_BUSY"); s[0].stamp = since + 1; s[0].sm = 80; *n = 1;
  return 0;
}
""".replace("UUID0", UUIDS[0]).replace("UUID1", UUIDS[1])
CUDA = r"""
#include <string.h>
int cuInit(unsigned flags) { return 0; }
int cuDeviceGetCount(int *n) { *n = 2; return 0; }
int cuDeviceGet(int *d, int i) { *d = i; return 0; }
int cuDeviceGetUuid_v2(unsigned char *u, int d) { memset(u, d, 16); return 0; }
int cuDeviceGetAttribute(int *v, int which, int d) {
  *v = which == 16 ? 7 : which == 38 ? 1 << 20 : which == 75 ? 9 : which == 76 ? 0 : which == 10 ? 32 : 1 << 16;
  return 0;
}
int cuDeviceGetName(char *n, int size, int d) { strcpy(n, "stub"); return 0; }
int cuDeviceTotalMem_v2(size_t *n, int d) { *n = 1 << 30; return 0; }
int cuFuncSetAttribute(void) { return 0; }
int cuCtxGetCurrent(void) { return 0; }
int cuDevicePrimaryCtxRetain(void) { return 0; }
int cuCtxSetCurrent(void) { return 0; }
int cuGetErrorString(void) { return 0; }
int cuPointerGetAttribute(void) { return 0; }
"""


def compiled(code: str, library: Path) -> str:
    """The path of a library that stands in for NVIDIA's: functions of its names and shapes, which say what the
    environment tells them."""
    assert COMPILER is not None
    source = library.with_suffix(".c")
    source.write_text(code)
    subprocess.run([COMPILER, "-w", "-shared", "-fPIC", source, "-o", library], check=True)
    return str(library)
