"""The checks of the host that runs jobs, where they travel in bundles; GPUs are stood in for by small C libraries."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.contracts.test_executors import CarriedBundles
from tests.tools.drivers import CUDA, NVML, compiled, needs_compiler
from tools.environment import inspect_environment, requests_about_machine
from tools.errors import DeviceBusyError
from tools.executors.base import Executor
from tools.executors.local import LocalExecutor
from tools.executors.preflight import ROOM_BYTES, check_host
from tools.languages.cpp import Cpp
from tools.store.blobs import Blobs
from tools.tasks.loader import load_task_folder

TASK = Path(__file__).parents[2] / "graph" / "task"
pytestmark = needs_compiler


@pytest.fixture
def blobs(tmp_path: Path) -> Blobs:
    return Blobs(tmp_path / "blobs")


@pytest.fixture
def carried(blobs: Blobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., CarriedBundles]:
    """An executor by bundles; `processes`: what uses the first GPU there."""
    (tmp_path / "driver").mkdir()
    for source, name in ((NVML, "libnvidia-ml.so.1"), (CUDA, "libcuda.so.1")):
        compiled(source, tmp_path / "driver" / name)

    def opened(processes: str = "") -> CarriedBundles:
        found = {"PATH": os.environ["PATH"], "LD_LIBRARY_PATH": str(tmp_path / "driver"), "STUB_PROCESSES": processes}
        monkeypatch.setattr(CarriedBundles, "environment", found)
        return CarriedBundles(blobs, tmp_path / "scratch", folder=str(tmp_path / "here"), gpu=0)

    return opened


def test_the_checks_of_the_host_take_no_round_trip_of_their_own(
    carried: Callable[..., CarriedBundles], blobs: Blobs
) -> None:
    executor = carried()

    def load() -> object:
        return load_task_folder(TASK, executor, blobs)

    asked = requests_about_machine(executor, blobs)
    executor.gather([*asked, load])
    assert bundles(executor) == 2, "the reference at its own sizes, and at those that are like the hidden ones"
    load()
    found = inspect_environment(executor, [Cpp()], blobs, check_host(executor, blobs, "cuda"))
    assert bundles(executor) == 2
    host = {item.name: (item.status, item.fix) for item in found.items if item.name.startswith("host ")}
    assert host == dict.fromkeys(("host python", "host torch", "host disk", "host GPU"), ("ok", "")), (
        "an answer that is carried says nothing about the clock"
    )
    assert sys.executable in found.items[0].value


def test_a_gpu_in_use_is_said_by_name_and_ends_what_needs_it(
    carried: Callable[..., CarriedBundles], blobs: Blobs
) -> None:
    executor = carried("1")
    executor.gather(requests_about_machine(executor, blobs))
    before = bundles(executor)
    with pytest.raises(DeviceBusyError, match=r"process 1 \(stub-trainer\).*00\d\.results\.zip"):
        check_host(executor, blobs, "cuda")
    assert bundles(executor) == before, "the error is on the files that came back"
    *_, gpu = check_host(executor, blobs)
    assert (gpu.name, gpu.ok, gpu.value) == ("host GPU", False, "in use") and "stub-trainer" in gpu.fix
    assert gpu.name not in [check.name for check in check_host(executor, blobs, "cpu")], (
        "no run on the CPU waits for it"
    )


def test_a_host_that_answers_at_once_tells_its_clock_and_what_it_lacks(
    blobs: Blobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = shutil.disk_usage(tmp_path).free
    monkeypatch.setattr("tools.executors.preflight.ROOM_BYTES", free + ROOM_BYTES)
    with LocalExecutor(blobs, tmp_path / "scratch") as executor:
        assert not asks_about_host(executor, blobs), "this machine is no other host"
        found = inspect_environment(executor, [Cpp()], blobs, check_host(executor, blobs))
        monkeypatch.setattr(LocalExecutor, "is_elsewhere", True)
        assert asks_about_host(executor, blobs)
    items = {item.name: item for item in found.items}
    assert items["host clock"].status == "ok"
    assert items["host disk"].status == "missing" and "| host disk | missing |" in found.to_markdown()
    assert items["host disk"].fix == "free some space" and "| free some space |" in found.to_markdown()


def asks_about_host(executor: Executor, blobs: Blobs) -> bool:
    """Whether a run asks for the checks of the host."""
    return check_host in [getattr(one, "func", None) for one in requests_about_machine(executor, blobs)]


def bundles(executor: CarriedBundles) -> int:
    """The round trips so far."""
    return len(list(executor.folder.glob("*.pyz")))
