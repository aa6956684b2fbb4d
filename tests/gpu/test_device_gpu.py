"""On a machine with an NVIDIA GPU: `pytest -m gpu tests/gpu`."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from knowledge_base.pages.wiki import Wiki
from knowledge_base.specs import lookup
from tests.support import run_captured
from tools.analysis import rules
from tools.artifacts import Candidate
from tools.environment import inspect_environment
from tools.errors import DeviceBusyError
from tools.executors.base import Device, Job, Needs, pick_device
from tools.executors.host.nvidia import NvidiaDriver
from tools.executors.local import LocalExecutor
from tools.executors.toolchain_job import read_toolchain
from tools.languages.base import Language, open_language
from tools.profilers.ncu import NcuProfiler
from tools.roofline import microbenchmarks
from tools.roofline.hardware import Spec
from tools.store.records import Records
from tools.tasks.loader import load_task_folder

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not NvidiaDriver().devices(), reason="needs an NVIDIA GPU and its driver"),
]
TASKS = Path(__file__).parents[2] / "configs" / "tasks"


@pytest.fixture
def records(tmp_path: Path) -> Records:
    return Records(tmp_path / "store")


@pytest.fixture
def local(tmp_path: Path, records: Records) -> Iterator[LocalExecutor]:
    with LocalExecutor(records.blobs, tmp_path / "scratch", lock_wait_s=60.0) as executor:
        assert isinstance(executor, LocalExecutor)
        yield executor


@pytest.fixture
def gpu(local: LocalExecutor) -> Device:
    return pick_device(local.devices(), "cuda")


def triton() -> Language:
    return open_language("triton")


def test_the_gpu_is_described(gpu: Device) -> None:
    assert gpu.name.startswith("NVIDIA") and gpu.architecture.startswith("sm_")
    assert gpu.units > 1 and gpu.last_level_cache > 1 << 20
    assert gpu.details["uuid"].startswith("GPU-") and gpu.details["driver"][0].isdigit()


def test_a_stranger_on_the_gpu_stops_what_is_timed(local: LocalExecutor, gpu: Device) -> None:
    # A grandchild whose parent has ended is no descendant of ours.
    quiet = "stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL"
    program = f"import subprocess, sys; print(subprocess.Popen([sys.executable, '-c', sys.argv[1]], {quiet}).pid)"
    holds = "import torch, time; torch.zeros(1, device='cuda'); time.sleep(60)"
    started = run_captured([sys.executable, "-c", program, holds], check=True)
    stranger = int(started.stdout)
    timed = Job(files={}, argv=("true",), needs=Needs(device="cuda", exclusive=True))
    try:
        deadline = time.monotonic() + 40.0
        occupants = lambda: local.engine.driver.occupants(gpu.model_dump())  # noqa: E731
        while time.monotonic() < deadline and stranger not in {process.pid for process in occupants()}:
            time.sleep(0.2)
        with pytest.raises(DeviceBusyError, match=str(stranger)):
            local.run(timed)
    finally:
        subprocess.run(["kill", str(stranger)], check=False)


def test_roofs_are_measured_once_and_in_order(local: LocalExecutor, records: Records) -> None:
    first = microbenchmarks.read_or_measure_roofs(triton(), local, records)
    assert first == microbenchmarks.read_or_measure_roofs(triton(), local, records) and len(list(records)) == 1
    value = {roof.metric: roof.value for roof in first}
    assert value["compute_float32"] < value["compute_float16"]
    assert value["memory_bandwidth"] < value["compute_float32"]
    found = microbenchmarks.CudaCeilings.model_validate(records.get(first[0].source).payload)
    assert found.seconds < 10.0
    assert 0 < value["launch_latency"] < min(found.launch["event"])


def test_published_figures_of_this_gpu_are_no_lower_than_measured_ones(
    local: LocalExecutor, records: Records, gpu: Device
) -> None:
    cited = lookup.resolve_spec(Wiki.open(), gpu.name, "memory_bandwidth")
    if not isinstance(cited, Spec):
        pytest.skip(f"the wiki does not know {gpu.name}")
    measured = next(
        roof
        for roof in microbenchmarks.read_or_measure_roofs(triton(), local, records)
        if roof.metric == "memory_bandwidth"
    )
    assert measured.value < cited.value * {"GB/s": 1e9, "TB/s": 1e12}[cited.unit]


def test_counters_of_a_triton_kernel(local: LocalExecutor, records: Records) -> None:
    language, profiler = triton(), NcuProfiler()
    lacking = profiler.reason_unavailable(language, read_toolchain(local, records.blobs))
    if lacking:
        pytest.skip(lacking)
    task = load_task_folder(TASKS / "triton-softmax", local, records.blobs).task
    assert task.baseline is not None
    kernel = Candidate(language="triton", files={"kernel.py": task.baseline})
    source = records.blobs.put(task.baseline)
    profile, raw = profiler.profile(task, kernel, source, task.workloads[0], language, local, records.blobs)
    assert {"report.ncu-rep", "raw.csv", "details.csv", "sandbox.json"} <= raw.keys(), profile.remarks
    shut = json.loads(records.blobs.text(raw["sandbox.json"]))
    assert shut["no_new_privileges"] is True and shut["landlock"].startswith(("abi", "not available")), shut
    assert [one.name for one in profile.launches] == ["softmax_kernel"] and profile.launches[0].own
    assert profile.metrics["launch__registers_per_thread"].value > 0
    assert profile.metrics["ncu.stall_share.long_scoreboard"].value > 0
    assert any(remark.text.startswith(("OPT", "INF", "WRN")) for remark in profile.remarks)
    rules.evaluate_rules([(profile, "record")], {})


def test_the_environment_names_the_gpu_and_its_tools(local: LocalExecutor, records: Records) -> None:
    items = {item.name: item for item in inspect_environment(local, [triton()], records.blobs).items}
    assert any(name.startswith("NVIDIA GPU ") for name in items)
    assert items["torch for CUDA"].status == "ok" and not items["torch for CUDA"].optional
    assert "ncu" in items and "cuobjdump" in items
