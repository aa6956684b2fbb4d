"""Against real reports of Nsight Compute, cut to the columns that a profile keeps (fixtures/ncu)."""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path

import pytest

from tests.support import BARE, run_captured
from tools.analysis import rules
from tools.artifacts import Profile
from tools.executors.harness_job import HARNESS_FOLDER
from tools.harness.compilation import toolchain
from tools.languages.triton import Triton
from tools.profilers import ncu, ncu_reports

REPORTS = Path(__file__).parents[1] / "fixtures" / "ncu"
LABELS: dict[str, list[str]] = json.loads((REPORTS / "labels.json").read_text())
OURS = {"register_spill": "register_spill", "narrow_loads": "narrow_accesses"}
"""Rules of ours that go by another name than in the labels."""


def report(name: str) -> tuple[ncu_reports.ProfiledLaunch, ...]:
    details = REPORTS / f"{name}.details.csv"
    return ncu.parse_launches(
        (REPORTS / f"{name}.raw.csv").read_text(), details.read_text() if details.exists() else ""
    )


@pytest.mark.parametrize("name", sorted(LABELS))
def test_the_planted_bottleneck_is_named_first(name: str) -> None:
    metrics = ncu.profile_metrics(ncu.longest_launch(report(name)).metrics)
    found = rules.evaluate_rules([(Profile(tool="ncu", launch=name, source="", metrics=metrics), "record")], {})
    assert found and OURS.get(found[0].rule, found[0].rule) in LABELS[name], [finding.rule for finding in found]
    assert found[0].evidence == ("record",) and "N/A" not in found[0].text


def test_metrics_keep_their_names_and_times_are_discarded() -> None:
    (launch,) = report("triton_softmax")
    metrics = ncu.profile_metrics(launch.metrics)
    assert launch.kernel == "softmax_kernel"
    assert ncu_reports.DURATION_METRIC in launch.metrics and ncu_reports.DURATION_METRIC not in metrics
    assert metrics["launch__registers_per_thread"].unit == "register/thread"
    assert metrics["dram__bytes_read.sum"].unit == "byte" and metrics["dram__bytes_read.sum"].value > 1e8, (
        "Mbyte is undone"
    )
    shares = [quantity.value for name, quantity in metrics.items() if name.startswith("ncu.stall_share.")]
    assert len(shares) == len(ncu.STALL_REASONS) and sum(shares) == pytest.approx(1.0, abs=0.02)
    # Three passes over the rows: 8192 x 4096 floats are loaded three times.
    assert metrics["ncu.global_bytes.ld"].value == 3 * 8192 * 4096 * 4


def test_a_section_of_the_report_can_be_read_by_its_name() -> None:
    found = ncu.parse_sections(next(iter(sorted(REPORTS.glob("*.details.csv")))).read_text())
    (said,) = found["Occupancy"]
    assert re.search(r": .*Achieved Occupancy [\d.]+ %", said) and not ncu.parse_sections("")


def test_of_several_kernels_the_longest_counts() -> None:
    both = (*report("stream_copy"), *report("byte_copy"))
    assert ncu.longest_launch(both) is both[1], "1.3 ms against 500 us: their units differ"
    assert ncu.profile_metrics(both[1].metrics, len(both))["ncu.kernels"].value == 2


def test_permission_is_read_from_the_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parameters = tmp_path / "params"
    monkeypatch.setattr(toolchain, "DRIVER_PARAMETERS_FILE", parameters)
    assert not toolchain.counters_need_root(), "nobody can tell"
    parameters.write_text("Mobile: 0\nRmProfilingAdminOnly: 1\n")
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    forbidden = BARE.model_copy(update={"programs": {"ncu": ""}, "counters_need_root": toolchain.counters_need_root()})
    assert "NVreg_RestrictProfilingToAdminUsers=0" in (ncu.NcuProfiler().reason_unavailable(Triton(), forbidden) or "")
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert not toolchain.counters_need_root()


PRYING = """
import json, sys
sys.path.insert(0, "FOLDER")
from harness.device import ncu_target
ncu_target.shut_in("/usr/local/cuda/bin/ncu")
opened = []
for path, mode in (("kernel.py", "r"), ("scratch/made", "w"), ("compiled/made", "w"), ("harness/isolation/sandbox.py", "a"), ("new.py",
"w"),
                   ("/etc/passwd", "r"), ("/tmp/kernel-was-here", "w")):
    try:
        open(path, mode).close()
        opened.append(path)
    except OSError:
        pass
print(json.dumps(opened))
"""


def test_a_kernel_under_ncu_has_its_folder_to_read_and_two_to_write(tmp_path: Path) -> None:
    shutil.copytree(HARNESS_FOLDER, tmp_path / "harness")
    (tmp_path / "kernel.py").touch()
    for name in ("scratch", "compiled"):
        (tmp_path / name).mkdir()
    argv = [sys.executable, "-I", "-c", PRYING.replace("FOLDER", str(tmp_path))]
    done = run_captured(argv, cwd=tmp_path, check=True)
    report = json.loads((tmp_path / "sandbox.json").read_text())
    assert report["no_new_privileges"] is True
    if not report["landlock"].startswith("abi"):
        pytest.skip(f"Landlock is {report['landlock']} here")
    assert json.loads(done.stdout) == ["kernel.py", "scratch/made", "compiled/made"]
