"""NVML and the CUDA driver are stood in for by small C libraries of their names and shapes: what is tried is our
side of the binding."""

from __future__ import annotations

import contextlib
import itertools
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.tools.drivers import CUDA, NVML, compiled, needs_compiler
from tools.errors import DeviceBusyError, InfrastructureError, SettingsError
from tools.executors.base import Device, Job, Needs, pick_device
from tools.executors.host.cpu import describe_cpu
from tools.executors.host.nvidia import NvidiaDriver, Occupant, visible_devices
from tools.executors.local import LocalExecutor
from tools.harness.device.nvml import is_descendant
from tools.store.blobs import Blobs

pytestmark = needs_compiler
Libraries = tuple[str, str]
SHARED = Job(files={}, argv=("true",), needs=Needs(device="cuda"))
TIMED = SHARED.model_copy(update={"needs": Needs(device="cuda", exclusive=True)})


@pytest.fixture(scope="session")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Libraries:
    folder = tmp_path_factory.mktemp("driver")
    return compiled(NVML, folder / "nvml.so"), compiled(CUDA, folder / "cuda.so")


@pytest.fixture(autouse=True)
def unset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


def local(libraries: Libraries, folder: Path, gpu: int | None = None) -> LocalExecutor:
    return LocalExecutor(
        Blobs(folder / "blobs"), folder / "scratch", gpu=gpu, driver=NvidiaDriver(*libraries), lock_wait_s=300.0
    )


def test_gpus_follow_the_cpu(libraries: Libraries, tmp_path: Path) -> None:
    with local(libraries, tmp_path) as executor:
        cpu, first, second = executor.devices()
    assert cpu.kind == "cpu"
    assert (first.kind, first.name, first.index, first.units) == ("cuda", "NVIDIA Stub", 0, 7)
    assert (first.last_level_cache, first.architecture) == (1 << 20, "sm_90")
    assert (
        first.details["driver"] == "1.2.3" and first.details["ecc"] == "on" and first.details["mig"] == "not reported"
    )
    assert (second.index, second.details["uuid"][:8]) == (1, "GPU-0101")
    assert pick_device((cpu, first, second), "cuda") is first


def test_a_job_sees_the_gpu_it_needs_and_no_other(libraries: Libraries, tmp_path: Path) -> None:
    def seen(executor: LocalExecutor, needs: Needs, name: str = "CUDA_VISIBLE_DEVICES") -> str:
        finished = executor.run(
            Job(files={}, argv=("{python}", "-c", f"import os; print(os.environ['{name}'])"), needs=needs)
        )
        return executor.blobs.text(finished.files["stdout.txt"]).strip()

    with local(libraries, tmp_path, gpu=1) as executor:
        assert seen(executor, Needs(device="cuda", exclusive=True)).startswith("GPU-0101")
        assert seen(executor, Needs()) == ""
        assert seen(executor, Needs(), "HARNESS_GPU").startswith("GPU-0101"), "compilers make code for the chosen one"
        with pytest.raises(InfrastructureError, match="sm_90"):
            executor.run(Job(files={}, argv=("true",), needs=Needs(device="cuda", architecture="sm_80")))


def test_a_foreign_process_is_named_and_refused(
    libraries: Libraries, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STUB_PROCESSES", "1")
    with local(libraries, tmp_path / "a", gpu=0) as executor:
        with pytest.raises(DeviceBusyError, match=r"process 1 \(stub-trainer\).*choose another GPU"):
            executor.run(TIMED)
        assert executor.run(SHARED).exit_code == 0, "what is not timed may share"
    with local(libraries, tmp_path / "b") as executor:
        assert pick_device(executor.devices(), "cuda").index == 1, "the first that nobody uses"
        assert executor.run(TIMED).exit_code == 0


@pytest.mark.parametrize("stays", [False, True])
def test_what_a_killed_job_left_on_the_gpu_is_waited_for(
    libraries: Libraries, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stays: bool
) -> None:
    asked = itertools.count()

    def occupants(driver: NvidiaDriver, device: dict[str, Any]) -> tuple[Occupant, ...]:
        return (Occupant(pid=1, name="left"),) if stays or next(asked) < 5 else ()

    with local(libraries, tmp_path, gpu=0) as executor:
        executor.run(TIMED)
        monkeypatch.setattr(NvidiaDriver, "occupants", occupants)
        monkeypatch.setattr("tools.executors.host.device_lock.PROCESS_EXIT_WAIT_S", 0.3 if stays else 300.0)
        with pytest.raises(DeviceBusyError, match=r"process 1 \(left\)") if stays else contextlib.nullcontext():
            assert executor.run(TIMED).exit_code == 0


def test_our_own_processes_do_not_count_as_others(
    libraries: Libraries, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        monkeypatch.setenv("STUB_PROCESSES", str(child.pid))
        with local(libraries, tmp_path, gpu=0) as executor:
            assert executor.run(TIMED).exit_code == 0
        assert is_descendant(child.pid, os.getpid()) and not is_descendant(os.getpid(), child.pid)
        child.communicate(b"\n")


def test_a_process_that_was_on_the_gpu_first_counts_as_another_even_without_an_entry_in_proc(
    libraries: Libraries, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = "4194300"
    with local(libraries, tmp_path / "a", gpu=0) as executor:
        executor.run(TIMED)
        monkeypatch.setenv("STUB_PROCESSES", elsewhere)
        # Ours may go by numbers of the host: one that came later and is not shown cannot be told from them.
        assert executor.run(TIMED).exit_code == 0
    with local(libraries, tmp_path / "b", gpu=0) as executor:
        executor.run(SHARED)
        with pytest.raises(DeviceBusyError, match=elsewhere):
            executor.run(TIMED)


def test_a_gpu_at_work_that_lists_nobody_is_busy(
    libraries: Libraries, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tools.executors.host.device_lock.UTILISATION_DECAY_WAIT_S", 0.2)
    monkeypatch.setenv("STUB_SHARE", "87")
    with local(libraries, tmp_path, gpu=0) as executor:
        with pytest.raises(DeviceBusyError, match=r"does not name \(kernels ran 87% of the time, none of them ours\)"):
            executor.run(TIMED)
        monkeypatch.setenv("STUB_SHARE", "3")
        assert executor.run(TIMED).exit_code == 0


def test_an_index_that_is_not_here(libraries: Libraries, tmp_path: Path) -> None:
    with local(libraries, tmp_path, gpu=5) as executor, pytest.raises(SettingsError, match=r"gpu: 5.*here are: 0, 1"):
        executor.devices()


def test_a_driver_that_does_not_answer_is_no_gpu(
    libraries: Libraries, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STUB_NO_DRIVER", "1")
    with local(libraries, tmp_path) as executor:
        assert [device.kind for device in executor.devices()] == ["cpu"]
        with pytest.raises(InfrastructureError, match="NVML error 9"):
            executor.run(SHARED)


def test_without_a_driver_there_is_no_gpu() -> None:
    driver = NvidiaDriver("libno-such-library.so.1")
    assert driver.devices() == () and "libno-such-library" in driver.problem
    with pytest.raises(SettingsError, match=r"no CUDA device here.*checked.*not measured"):
        pick_device((Device.model_validate(describe_cpu()),), "cuda")


@pytest.mark.parametrize(
    ("setting", "expected"),
    [(None, [0, 1, 2]), ("2,0", [2, 0]), ("GPU-b", [1]), ("", []), ("-1", []), ("0,9,1", [0]), ("GPU-", [])],
)
def test_cuda_visible_devices_limits_the_gpus_that_are_used(
    monkeypatch: pytest.MonkeyPatch, setting: str | None, expected: list[int]
) -> None:
    if setting is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", setting)
    devices = [
        {"kind": "cuda", "name": "x", "index": i, "details": {"uuid": f"GPU-{letter}"}}
        for i, letter in enumerate("abc")
    ]
    assert [device["index"] for device in visible_devices(devices)] == expected


ENDS = {
    "returned": "",
    "a settings error": "raise SystemExit(2)",
    "Ctrl-C": "os.kill(os.getpid(), signal.SIGINT); time.sleep(300)",
    "killed": "os.kill(os.getpid(), signal.SIGKILL)",
    "its holder was killed": "executor.engine._locked._holder.kill()",
}


@needs_compiler
@pytest.mark.parametrize("end", ENDS)
def test_locked_clocks_are_given_back_however_a_run_ends(
    libraries: Libraries, tmp_path: Path, end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STUB_CLOCKS", str(tmp_path / "log"))
    program = f"""
import os, signal, sys, time
from pathlib import Path
from tools.executors.local import LocalExecutor
from tools.executors.host.nvidia import NvidiaDriver
from tools.store.blobs import Blobs

with LocalExecutor(Blobs(Path("blobs")), Path("scratch"), clocks="lock", gpu=1, driver=NvidiaDriver(*sys.argv[1:])) as executor:
    _, gpu, other = executor.devices()
    assert gpu.label == "cuda:1 NVIDIA Stub, clocks locked" and not other.has_locked_clocks, gpu
    assert gpu.details["clocks"] == "locked to what the power limit sustains"
    {ENDS[end]}
"""
    root = str(Path(__file__).parents[3])
    done = subprocess.run(
        [sys.executable, "-c", program, *libraries],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": root},
        capture_output=True,
        timeout=300,
    )
    assert b"AssertionError" not in done.stderr
    until = time.monotonic() + 120
    while (log := (tmp_path / "log").read_text().splitlines()) == ["lock 1"] and time.monotonic() < until:
        time.sleep(0.05)
    assert log == ["lock 1", "reset 1"]


@needs_compiler
@pytest.mark.parametrize(
    ("error", "why"), [("4", "only root may lock them"), ("3", "the driver did not lock them (NVML error 3)")]
)
def test_clocks_that_may_not_be_locked_are_watched_and_it_is_said_why(
    libraries: Libraries, tmp_path: Path, error: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "log"
    monkeypatch.setenv("STUB_CLOCKS", str(log))
    with local(libraries, tmp_path) as executor:
        assert "clocks" not in executor.devices()[1].details, "they are not touched unless it is asked for"
    monkeypatch.setenv("STUB_FORBIDDEN", error)
    with LocalExecutor(
        Blobs(tmp_path / "blobs"), tmp_path / "scratch", clocks="lock", driver=NvidiaDriver(*libraries)
    ) as executor:
        gpu = executor.devices()[1]
        assert gpu.details["clocks"] == f"as found: {why}" and gpu.label == "cuda:0 NVIDIA Stub"
    assert not log.exists(), "what was not locked is not reset"
