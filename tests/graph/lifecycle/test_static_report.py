"""Where the device of the task's language is missing a run says what can be known without it, and never a time or a
speed-up."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from graph.__main__ import main
from tests.graph.conftest import TWICE, printed_json
from tests.support import Capsys
from tools.executors.local import LocalExecutor
from tools.store.blobs import Blobs

pytestmark = pytest.mark.slow

pytest.importorskip("triton")
KERNEL = """import triton
import triton.language as tl


@triton.jit
def twice(x, out, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(out + at, 2 * tl.load(x + at, at < n), at < n)


def run_kernel(x, out, N):
    twice[(triton.cdiv(N, 128),)](x, out, N, B=128)
"""


@pytest.fixture(autouse=True)
def without_a_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with LocalExecutor(Blobs(tmp_path / "blobs"), tmp_path / "scratch") as executor:
        if any(device.kind == "cuda" for device in executor.devices()):
            pytest.skip("a CUDA device is here")
    monkeypatch.setenv("KERNELWRIGHT_HOME", str(tmp_path / "home"))


def run(
    tmp_path: Path, kernel: str | None = KERNEL, reference: str = TWICE, verb: str = "run", **settings: object
) -> int:
    folder = tmp_path / "twice"
    folder.mkdir(exist_ok=True)
    for name, text in (("kernel.py", kernel), ("reference.py", reference), ("task.yaml", "language: triton\n")):
        if text is not None:
            (folder / name).write_text(text)
    config = {"task": str(folder), "workspaces": str(tmp_path / "workspaces"), **settings}
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(config))
    return main([verb, str(tmp_path / "run.yaml"), *(["--json"] if verb == "run" else [])])


def test_a_run_ends_not_measured_with_what_can_be_known(tmp_path: Path, capsys: Capsys) -> None:
    assert run(tmp_path, hardware="H200", variant="SXM5") == 0
    captured = capsys.readouterr()
    *lines, last = captured.out.splitlines()
    found = json.loads(last)
    assert (
        not captured.err
        and found["status"] == "not_measured"
        and found["speedup"] is None
        and found["workspace"] is None
    )
    assert found["reason"].startswith("no CUDA device here") and found["reason"].count(". ") == 0
    assert found["interpreted"]["status"] == "passed" and len(found["interpreted"]["cases"]) == 3
    (static,) = found["profiles"]
    assert static["launch"] == "sm_90" and {"sass.registers", "sass.shared", "sass.spills"} <= static["metrics"].keys()
    assert "no CUDA device" in found["missing"]["ncu"]
    (reach,) = found["reach"]
    assert reach["least_s"] > 0 and reach["bound"] == "memory" and reach["unique_bytes"] == 2 * 4 * 4096
    assert any("h200-sxm5.md" in line and line.startswith("published") for line in lines)
    assert lines[-1].startswith("not measured: no CUDA device here") and not any("×" in line for line in lines)
    assert not (tmp_path / "workspaces").exists()


def test_an_unofficial_figure_is_shown_and_no_roof_rests_on_it(tmp_path: Path, capsys: Capsys) -> None:
    assert run(tmp_path, hardware="H20", variant="96GB") == 0
    said = capsys.readouterr().out
    assert "<gpu-wiki>/hardware/nvidia/h20.md:" in said and "[unofficial]" in said and "no roof rests on it" in said
    found = json.loads(said.splitlines()[-1])
    assert {spec["evidence"] for spec in found["specs"]} == {"unofficial"} and found["reach"][0]["least_s"] is None


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn"])
def test_narrow_types_are_checked_and_not_timed_and_an_unnamed_product_is_unknown(
    dtype: str, tmp_path: Path, capsys: Capsys
) -> None:
    reference = TWICE.replace("to(torch.float32)", f"to(torch.{dtype})")
    kernel = KERNEL
    if dtype != "bfloat16":
        reference = reference.replace("return 2 * x", "return (2 * x.to(torch.float32)).to(x.dtype)")
        kernel = KERNEL.replace("2 * tl.load(x + at, at < n)", "2 * tl.load(x + at, at < n).to(tl.float32)")
    assert run(tmp_path, kernel=kernel, reference=reference) == 0
    found = printed_json(capsys)
    assert found["interpreted"]["status"] == "passed" and len(found["interpreted"]["cases"]) == 3
    assert found["reason"].startswith("no CUDA device here") and found["profiles"] and not found["specs"]
    assert "set `hardware`" in found["gaps"][0]["reason"] and found["reach"][0]["roof_s"] is None


HEAD = "def run_kernel(x, out, N):"


MADE = 'torch.randn(dims["N"], generator=torch.Generator().manual_seed(seed)).to(torch.float32)'


@pytest.mark.parametrize(
    ("part", "instead", "said"),
    [
        ("2 * tl.load", "3 * tl.load", "disagree at N="),
        ("tl.store(out", "tl.store(o", "compile"),
        (HEAD, f"{HEAD}\n    assert x.shape == (N, 1)", "AssertionError at line 12, `assert x.shape == (N, 1)`"),
        (MADE, "torch.randn(dims['N'], device='cuda')", "reference.py: make_inputs(N=4096) asks for a GPU"),
        ("", "", "on_unknown: stop, and "),
    ],
)
def test_what_is_wrong_is_refused_in_one_sentence_all_the_same(
    part: str, instead: str, said: str, tmp_path: Path, capsys: Capsys
) -> None:
    kernel, reference = (text.replace(part, instead) if part else text for text in (KERNEL, TWICE))
    unknown = {} if part else {"hardware": "H20000", "on_unknown": "stop"}
    assert run(tmp_path, kernel=kernel, reference=reference, **unknown) == 2
    captured = capsys.readouterr()
    assert said in captured.err and (captured.err.count("\n") == 1 or said == "compile"), (
        "only a compiler has more to say"
    )
    assert json.loads(captured.out.splitlines()[-1])["status"] == "refused"


def test_a_contract_without_a_kernel_is_shown_where_no_kernel_can_be_written(tmp_path: Path, capsys: Capsys) -> None:
    assert run(tmp_path, kernel=None, verb="check") == 0
    shown = capsys.readouterr().out
    assert "run_kernel(x, out, N)" in shown and "writes it when the run begins, which is where that device is" in shown
    assert (
        run(tmp_path, kernel=None) == 2
        and "no kernel is given, and where it cannot be judged" in capsys.readouterr().err
    )


def test_a_kernel_that_asks_for_a_gpu_ends_not_measured(tmp_path: Path, capsys: Capsys) -> None:
    asking = KERNEL.replace(HEAD, f"{HEAD}\n    spare = torch.empty(4, device='cuda')")
    assert run(tmp_path, kernel="import torch\n" + asking, gpu=0) == 0
    found = printed_json(capsys)
    assert found["interpreted"]["status"] == "unmeasured" and "GPU (at N=" in found["reason"]
    assert found["status"] == "not_measured" and "gpu: 0 names none" in found["reason"], "no error where there is none"
