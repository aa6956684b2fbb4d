"""compute-sanitizer's own words on an H100 (fixtures/sanitizer: cut after three findings, with a summary where that
was cut too)."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tools.gate.test_verdict import GOOD
from tools.artifacts import Record
from tools.gate import sanitizers
from tools.gate.judge_settings import JudgeSettings
from tools.gate.verdict import decide_verdict, with_sanitizers

FIXTURES = Path(__file__).parents[1] / "fixtures" / "sanitizer"
HARNESS = Path(__file__).parents[3] / "tools" / "harness"
CLEAN = "========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n"


def seen(**tools: str) -> sanitizers.SanitizerReport:
    """What is read from these logs."""
    answer = {
        tool: {"text": text, "exit": 0, "said": "the kernel's process raised RuntimeError"}
        for tool, text in tools.items()
    }
    return sanitizers.parse_answer({"version": "2025.3.1.0", "seconds": 9.0, "tools": answer}, "cand", "small")


def recorded(name: str) -> str:
    return (FIXTURES / f"{name}.log").read_text()


@pytest.mark.parametrize(
    ("name", "finding"),
    [
        (
            "memcheck-oob",
            "Invalid __global__ read of size 4 bytes at scale(const float *, float *, int)+0x90 in oob.cu:4 (3 times)",
        ),
        ("memcheck-tri", "Invalid __global__ read of size 8 bytes at scale+0xa0 in tri.py:5 (2 times)"),
        (
            "racecheck-race",
            (
                "Error: Race reported between Write access at shifted(const float *, float *, int)+0xf0 in race.cu:5 "
                "and Read access at shifted(const float *, float *, int)+0x140 in race.cu:6 [4096 hazards]"
            ),
        ),
        (
            "initcheck-uninit",
            (
                "Uninitialized __global__ memory read of size 4 bytes "
                "at add(const float *, float *, float *, int)+0xf0 in uninit.cu:4 (3 times)"
            ),
        ),
        (
            "synccheck-sync",
            (
                "Barrier error detected. Divergent thread(s) in warp. at half_waits(float *, int)+0xd0 in sync.cu:5 "
                "(3 times)"
            ),
        ),
    ],
)
def test_a_finding_is_told_once_with_kernel_and_source_line(name: str, finding: str) -> None:
    tool = name.split("-")[0]
    assert seen(**{tool: recorded(name)}).found == {tool: (finding,)}


def test_memcheck_refuses_and_the_others_remark() -> None:
    policy = JudgeSettings()

    def verdict(found: sanitizers.SanitizerReport, policy: JudgeSettings = policy):
        record = Record(kind="sanitizers", key="k", environment="", protocol=2, payload=found.model_dump(mode="json"))
        return decide_verdict(with_sanitizers(GOOD, lambda: record, policy), policy), record.id

    refused, cited = verdict(seen(memcheck=recorded("memcheck-oob"), racecheck=CLEAN))
    assert refused.outcome == "reject_correctness" and "in oob.cu:4" in refused.reasons[0] and cited in refused.records
    passed, _ = verdict(seen(memcheck=CLEAN, racecheck=recorded("racecheck-race"), initcheck="", synccheck=CLEAN))
    assert passed.outcome == "accept"
    told = next(reason for reason in passed.reasons if "compute-sanitizer" in reason)
    for piece in (
        "memcheck found nothing",
        "race.cu:5",
        "initcheck could not run (the kernel's process raised RuntimeError)",
        "on small",
    ):
        assert piece in told
    missing, _ = verdict(
        sanitizers.parse_answer({"missing": "compute-sanitizer was not found", "seconds": 0.0}, "cand", "small")
    )
    assert missing.outcome == "accept" and any(
        "were not checked: compute-sanitizer was not found" in r for r in missing.reasons
    )
    assert (
        verdict(seen(memcheck=recorded("memcheck-oob")), policy.model_copy(update={"sanitize": "off"}))[0].outcome
        == "accept"
    )


def test_nothing_is_asked_of_what_is_refused_anyway() -> None:
    def look() -> None:
        pytest.fail("asked")

    refused = GOOD.model_copy(update={"screen": ("It reads a clock.",)})
    assert with_sanitizers(refused, look, JudgeSettings()) is refused


def test_a_tool_that_failed_itself_finds_nothing_and_refuses_nothing() -> None:
    log = (
        "========= COMPUTE-SANITIZER\n========= Internal Sanitizer Error: The driver is too new\n========= ERROR "
        "SUMMARY: 1 error\n"
    )
    found = seen(memcheck=log)
    assert found.refusal() is None and "The driver is too new" in found.sentence()


def test_a_fault_that_also_ended_the_process_badly_is_found_all_the_same() -> None:
    ended = "========= Error: process didn't terminate successfully\n========= Target application returned an error\n"
    found = seen(
        memcheck=recorded("memcheck-oob").replace("========= ERROR SUMMARY", f"{ended}========= ERROR SUMMARY")
    )
    assert "in oob.cu:4" in str(found.refusal()) and "terminate" not in str(found.refusal()) and not found.failed


FAKE = """#!{python}
import shutil, sys
if "--version" in sys.argv:
    print("Version 2025.3.1.0 (build 1)")
else:
    log, tool = (sys.argv[sys.argv.index(name) + 1] for name in ("--log-file", "--tool"))
    assert sys.argv[-2] == "launch" and sys.argv[-1] == __file__
    shutil.copy(f"{fixtures}/memcheck-oob.log" if tool == "memcheck" else "{clean}", log)
"""


def beside(folder: Path, path: str) -> dict[str, object]:
    """What the program leaves that runs beside the device."""
    shutil.copytree(HARNESS, folder / "harness")
    (folder / "launch.json").write_text(json.dumps({"dims": {}, "seed": 0, "arguments": [], "limit_s": 30}))
    environment = {**os.environ, "PATH": path}
    for name in ("CUDA_HOME", "CUDA_PATH"):
        environment.pop(name, None)
    argv = [sys.executable, "-I", "harness/device/sanitizer_target.py"]
    subprocess.run(argv, cwd=folder, env=environment, check=True)
    return json.loads((folder / "sanitizers.json").read_text())


def test_all_four_tools_are_run_and_their_words_come_back(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "clean.log").write_text(CLEAN)
    fake = tmp_path / "bin" / "compute-sanitizer"
    fake.write_text(FAKE.format(python=sys.executable, fixtures=FIXTURES, clean=tmp_path / "clean.log"))
    fake.chmod(0o755)
    found = sanitizers.parse_answer(beside(tmp_path / "job", str(fake.parent)), "cand", "small")
    assert list(found.found) == ["memcheck", "racecheck", "initcheck", "synccheck"] and found.version == "2025.3.1.0"
    assert found.refusal() and not any(found.found[tool] for tool in list(found.found)[1:])


def test_a_missing_sanitizer_is_reported_as_not_installed(tmp_path: Path) -> None:
    if Path("/usr/local/cuda/bin/compute-sanitizer").exists():
        pytest.skip("it is installed where it is always found")
    assert "was not found" in str(beside(tmp_path / "job", "/nowhere")["missing"])
