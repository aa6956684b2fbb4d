"""NVML is stood in for by a small C library of its name and shape: whose processes are on a GPU, and what is said
where nobody tells."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.tools.drivers import NVML, UUIDS, compiled, needs_compiler
from tests.tools.harness.test_gpu_judging import module
from tools.executors.protocol import GpuTelemetry

pytestmark = needs_compiler


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> str:
    return compiled(NVML, tmp_path_factory.mktemp("driver") / "nvml.so")


@pytest.fixture
def nvml() -> ModuleType:
    return module("device.nvml")


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PROCESSES", "REASONS", "SHARE", "BUSY"):
        monkeypatch.delenv(f"STUB_{name}", raising=False)


def told(watch: object) -> GpuTelemetry:
    return GpuTelemetry.model_validate(watch.summary())  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["0", UUIDS[1], UUIDS[1][:9]])
def test_a_gpu_is_found_by_index_uuid_and_beginning_of_one(nvml: ModuleType, library: str, name: str) -> None:
    watch = nvml.GpuWatch(name, library)
    watch.begin()
    found = told(watch)
    assert found.source == "nvml"
    assert (found.sm_mhz_before, found.memory_mhz_after, found.celsius_before, found.watts_after) == (
        1000,
        2000,
        40,
        123.456,
    )


@pytest.mark.parametrize("name", ["2", "GPU-9"])
def test_a_gpu_that_the_library_does_not_know_is_not_taken_for_another(
    nvml: ModuleType, library: str, name: str
) -> None:
    watch = nvml.GpuWatch(name, library)
    assert watch.nvml is None and name in watch.missing


def test_without_the_library_nothing_is_claimed(
    nvml: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    watch = nvml.GpuWatch("0", "libno-such-library.so.1")
    watch.begin()
    assert watch.other_processes() is None and watch.disturbance_count() == 0 and watch.idle_share is None
    assert told(watch) == GpuTelemetry(source="absent") and told(watch).foreign_processes is None


def test_other_processes_are_counted_only_where_the_driver_lists_ours(
    nvml: ModuleType, library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = nvml.GpuWatch("0", library)
    watch.begin()
    assert told(watch).foreign_processes is None, "nobody is listed, not even ours: that says nothing"
    monkeypatch.setenv("STUB_PROCESSES", str(os.getpid()))
    assert told(watch).foreign_processes == 0
    monkeypatch.setenv("STUB_PROCESSES", f"{os.getpid()},1")
    monkeypatch.setenv("STUB_BUSY", "1")
    found = told(watch)
    assert found.foreign_processes == 1 and found.foreign_busy
    monkeypatch.setenv("STUB_BUSY", str(os.getpid()))
    before = watch.disturbance_count()
    assert watch.disturbance_count() == before, "samples of ours disturb nobody"


def test_a_child_that_has_just_ended_does_not_count_as_another_process(
    nvml: ModuleType, library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    watch = nvml.GpuWatch("0", library)
    monkeypatch.setenv("STUB_PROCESSES", f"{os.getpid()},{child.pid}")
    assert watch.other_processes() == set()
    watch.first_seen = {child.pid: watch.first_seen[child.pid] - 2 * nvml.PROCESS_LISTING_DELAY_S}
    assert watch.other_processes() == {child.pid}, "listed for so long, it is somebody whom /proc does not show"


def test_processes_on_the_gpu_before_ours_count_as_others(
    nvml: ModuleType, library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = "4194300"
    monkeypatch.setenv("STUB_PROCESSES", elsewhere)
    watch = nvml.GpuWatch("0", library)
    assert watch.other_processes() == {int(elsewhere)}
    # In a container ours may be listed under numbers that we do not know: then others cannot be told from them.
    monkeypatch.setenv("STUB_PROCESSES", "4194301,4194302")
    assert watch.other_processes() is None
    monkeypatch.setenv("STUB_PROCESSES", f"{elsewhere},4194301")
    assert watch.other_processes() == {int(elsewhere)}
    monkeypatch.setenv("STUB_PROCESSES", "?")
    assert watch.other_processes() is None


def test_a_gpu_at_work_before_ours_ran_is_noted(
    nvml: ModuleType, library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nvml, "QUIET_S", 0.2)
    monkeypatch.setenv("STUB_SHARE", "87")
    assert nvml.GpuWatch("0", library).idle_share == 87
    monkeypatch.setenv("STUB_SHARE", "0")
    assert nvml.GpuWatch("0", library).idle_share == 0


def test_lower_clocks_are_told_and_disturb_nothing(
    nvml: ModuleType, library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = nvml.GpuWatch("0", library)
    watch.begin()
    before = watch.disturbance_count()
    monkeypatch.setenv("STUB_REASONS", str(0x4 | 0x20 | 0x1))
    assert watch.disturbance_count() == before
    monkeypatch.setenv("STUB_REASONS", "0")
    assert told(watch).slowed_by == ("power cap", "thermal")
    watch.begin()
    assert told(watch).slowed_by == ()


def test_the_samples_have_the_librarys_layout(nvml: ModuleType) -> None:
    assert (ctypes.sizeof(nvml._Process), ctypes.sizeof(nvml._Used), nvml._Used.stamp.offset) == (24, 32, 8)
