"""NVML is stood in for by a small C library of its name and shape: whose processes are on a GPU, and what is said where nobody tells."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.tools.harness.test_gpu_judging import module
from tools.executors.protocol import GpuTelemetry

COMPILER = shutil.which("gcc") or shutil.which("cc")
pytestmark = pytest.mark.skipif(COMPILER is None, reason="no C compiler here")
UUID = "GPU-12345678-0000-0000-0000-000000000000"
NVML = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
typedef struct { unsigned pid; unsigned long long memory; unsigned gpu, compute; } process;
typedef struct { unsigned pid; unsigned long long stamp; unsigned sm, memory, encode, decode; } sample;
typedef struct { unsigned gpu, memory; } share;
static unsigned number(const char *name) { const char *set = getenv(name); return set ? strtoul(set, 0, 10) : 0; }
int nvmlInit_v2(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned *n) { *n = 1; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **h) { *h = (void *)1; return i ? 2 : 0; }
int nvmlDeviceGetHandleByUUID(const char *u, void **h) { *h = (void *)1; return strcmp(u, "UUID") ? 6 : 0; }
int nvmlDeviceGetUUID(void *h, char *b, unsigned n) { snprintf(b, n, "UUID"); return 0; }
int nvmlDeviceGetClockInfo(void *h, int which, unsigned *v) { *v = 1000 * which; return 0; }
int nvmlDeviceGetTemperature(void *h, int which, unsigned *v) { *v = 40; return which; }
int nvmlDeviceGetPowerUsage(void *h, unsigned *v) { *v = 123456; return 0; }
int nvmlDeviceGetCurrentClocksThrottleReasons(void *h, unsigned long long *v) { *v = number("STUB_REASONS"); return 0; }
int nvmlDeviceGetUtilizationRates(void *h, share *s) { s->gpu = number("STUB_SHARE"); return 0; }
int nvmlDeviceGetComputeRunningProcesses_v3(void *h, unsigned *n, process *p) {
  const char *set = getenv("STUB_PROCESSES");
  char copy[200] = "";
  if (set && *set == '?') return 4;
  strcpy(copy, set ? set : "");
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
""".replace('"UUID"', f'"{UUID}"')


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> str:
    assert COMPILER is not None
    folder = tmp_path_factory.mktemp("driver")
    (folder / "nvml.c").write_text(NVML)
    subprocess.run([COMPILER, "-w", "-shared", "-fPIC", "nvml.c", "-o", "nvml.so"], cwd=folder, check=True)
    return str(folder / "nvml.so")


@pytest.fixture
def nvml() -> ModuleType:
    return module("device.nvml")


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PROCESSES", "REASONS", "SHARE", "BUSY"):
        monkeypatch.delenv(f"STUB_{name}", raising=False)


def told(watch: object) -> GpuTelemetry:
    return GpuTelemetry.model_validate(watch.summary())  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["0", UUID, UUID[:9]])
def test_a_gpu_is_found_by_index_uuid_and_beginning_of_one(nvml: ModuleType, library: str, name: str) -> None:
    watch = nvml.Watch(name, library)
    watch.begin()
    found = told(watch)
    assert found.source == "nvml"
    assert (found.sm_mhz_before, found.memory_mhz_after, found.celsius_before, found.watts_after) == (1000, 2000, 40, 123.456)


@pytest.mark.parametrize("name", ["1", "GPU-9"])
def test_a_gpu_that_the_library_does_not_know_is_not_taken_for_another(nvml: ModuleType, library: str, name: str) -> None:
    watch = nvml.Watch(name, library)
    assert watch.nvml is None and name in watch.missing


def test_without_the_library_nothing_is_claimed(nvml: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    watch = nvml.Watch("0", "libno-such-library.so.1")
    watch.begin()
    assert watch.foreign() is None and watch.state() == 0 and watch.idle_share is None
    assert told(watch) == GpuTelemetry(source="absent") and told(watch).foreign_processes is None


def test_where_ours_are_listed_the_rest_is_counted(nvml: ModuleType, library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    watch = nvml.Watch("0", library)
    watch.begin()
    assert told(watch).foreign_processes is None, "nobody is listed, not even ours: that says nothing"
    monkeypatch.setenv("STUB_PROCESSES", str(os.getpid()))
    assert told(watch).foreign_processes == 0
    monkeypatch.setenv("STUB_PROCESSES", f"{os.getpid()},1")
    monkeypatch.setenv("STUB_BUSY", "1")
    found = told(watch)
    assert found.foreign_processes == 1 and found.foreign_busy
    monkeypatch.setenv("STUB_BUSY", str(os.getpid()))
    before = watch.state()
    assert watch.state() == before, "samples of ours disturb nobody"


def test_one_of_ours_that_has_just_ended_is_no_stranger(nvml: ModuleType, library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    watch = nvml.Watch("0", library)
    monkeypatch.setenv("STUB_PROCESSES", f"{os.getpid()},{child.pid}")
    assert watch.foreign() == set()
    watch.since = {child.pid: watch.since[child.pid] - 2 * nvml.LINGER_S}
    assert watch.foreign() == {child.pid}, "listed for so long, it is somebody whom /proc does not show"


def test_who_was_there_before_us_is_foreign_wherever_it_lives(nvml: ModuleType, library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = "4194300"
    monkeypatch.setenv("STUB_PROCESSES", elsewhere)
    watch = nvml.Watch("0", library)
    assert watch.foreign() == {int(elsewhere)}
    # In a container ours may be listed under numbers that we do not know: then others cannot be told from them.
    monkeypatch.setenv("STUB_PROCESSES", "4194301,4194302")
    assert watch.foreign() is None
    monkeypatch.setenv("STUB_PROCESSES", f"{elsewhere},4194301")
    assert watch.foreign() == {int(elsewhere)}
    monkeypatch.setenv("STUB_PROCESSES", "?")
    assert watch.foreign() is None


def test_a_gpu_at_work_before_ours_ran_is_noted(nvml: ModuleType, library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvml, "QUIET_S", 0.2)
    monkeypatch.setenv("STUB_SHARE", "87")
    assert nvml.Watch("0", library).idle_share == 87
    monkeypatch.setenv("STUB_SHARE", "0")
    assert nvml.Watch("0", library).idle_share == 0


def test_lower_clocks_are_told_and_disturb_nothing(nvml: ModuleType, library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    watch = nvml.Watch("0", library)
    watch.begin()
    before = watch.state()
    monkeypatch.setenv("STUB_REASONS", str(0x4 | 0x20 | 0x1))
    assert watch.state() == before
    monkeypatch.setenv("STUB_REASONS", "0")
    assert told(watch).slowed_by == ("power cap", "thermal")
    watch.begin()
    assert told(watch).slowed_by == ()


def test_the_samples_have_the_librarys_layout(nvml: ModuleType) -> None:
    assert (ctypes.sizeof(nvml._Process), ctypes.sizeof(nvml._Used), nvml._Used.stamp.offset) == (24, 32, 8)
