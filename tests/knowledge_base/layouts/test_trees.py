"""Whole wikis: which layout a folder has, which files count, and what a broken file costs."""

import json
from pathlib import Path
from typing import Any

import pytest

from knowledge_base.layouts.reader import read
from knowledge_base.pages.wiki import BUNDLED
from tests.knowledge_base.layouts.test_forms import told

TABLE = "| Parameter | Value |\n|---|---|\n"
RECORDS = "hardware_wiki/records/spec-sheet/nvidia/"


def put(root: Path, path: str, text: str) -> None:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def sheet(product: str | None, capability: str | None = None, vendor: str = "nvidia", **facts: Any) -> str:
    identity = {"vendor": vendor, "arch": "x", "product": product, "compute_capability": capability}
    return json.dumps({"schema": "hw-1.0", "type": "spec-sheet", "identity": identity, "facts": facts}, indent=1)


def peak(dtype: str, kind: str, dense: float, sparse: float | None = None, **more: str) -> dict[str, Any]:
    row = {
        "dtype": dtype,
        "unit": "TFLOPS",
        "unit_kind": kind,
        "dense": dense,
        "provenance": "vendor-published",
        **more,
    }
    return row if sparse is None else {**row, "sparse_2to4": sparse}


def test_a_record_gives_every_scalar_with_its_own_line(tmp_path: Path):
    text = sheet(
        "b200",
        peak_compute=[
            peak("fp64", "cuda-core", 36.5),
            peak("fp64", "tensor-core", 35.5),
            peak("bf16", "tensor-core", 2200.0, 4400.0),
        ],
        memory={"capacity_gb": 181, "l2_cache_mb": 125, "bandwidth_tb_s": 7.9, "provenance": "vendor-published"},
        compute_units={
            "sm_count": 146,
            "cuda_cores": 9,
            "shared_memory_kb_per_sm": None,
            "register_file_kb_per_sm": 256,
        },
        unavailable={"shared_memory_kb_per_sm": "not published; not the 128 KB of another"},
    )
    put(tmp_path, RECORDS + "b200.json", text)
    figures = read(tmp_path)
    assert figures
    assert [line.removeprefix("B200|") for line in told(figures)] == [
        *("bf16_tensor|2200 TFLOPS|dense", "bf16_tensor|4400 TFLOPS|sparse", "fp64_tensor|35.5 TFLOPS|dense"),
        *("fp64_vector|36.5 TFLOPS|dense", "l2_size|125 MB", "memory_bandwidth|7.9 TB/s", "memory_capacity|181 GB"),
        *("registers_per_sm|65536 32-bit registers||unofficial", "sm_count|146 SM||unofficial"),
    ]
    lines = text.splitlines()
    by_metric = {
        (figure.metric, figure.qualifier): lines[figure.citation.line - 1].strip() for figure in figures.figures
    }
    assert by_metric["fp64_vector", "dense"] == '"dense": 36.5,'
    assert by_metric["bf16_tensor", "sparse"] == '"sparse_2to4": 4400.0'
    assert by_metric["sm_count", ""] == '"sm_count": 146,'
    (silence,) = figures.silences
    assert (silence.metric, silence.reason) == ("max_shared_memory_per_sm", "not published; not the 128 KB of another")


@pytest.mark.parametrize("product", [None, "sm120", "hopper", "gfx942", "generic", "dgx-b200", ""])
def test_what_is_no_product_has_no_numbers(tmp_path: Path, product: str | None):
    put(tmp_path, RECORDS + "x.json", sheet(product, memory={"capacity_gb": 80}))
    assert told(read(tmp_path)) == []


def test_corrupt_rows_of_a_record_are_left_out(tmp_path: Path):
    rows = [
        *(peak("fp64", "cuda-core", 21.5, 80), peak("bf16", "tensor-core", 200.5, 308), peak("fp8", "cuda-core", 5000)),
        *(peak("fp32", "cuda-core", 150.5), peak("fp16", "tensor-core", 150.5), peak("b16", "tensor-core", 1.5)),
        peak("bf16", "cuda-core", 200.5, 5.3, use_case="200.5 / 5.3 ≈ 37.8"),
        peak("tf32", "tensor-core", float("nan")),
    ]
    put(
        tmp_path,
        RECORDS + "mi308x.json",
        sheet("mi308x", vendor="amd", peak_compute=rows, compute_units={"sm_count": 79}),
    )
    assert [line.removeprefix("MI308X|") for line in told(read(tmp_path))] == [
        *(
            "bf16_tensor|200.5 TFLOPS|dense",
            "cu_count|79 CU||unofficial",
            "fp32|150.5 TFLOPS|dense",
            "fp64_vector|21.5 TFLOPS|dense",
        )
    ]


def test_b300_alone_may_have_less_than_twice(tmp_path: Path):
    for product in ("b300", "b200"):
        put(
            tmp_path,
            f"{RECORDS}{product}.json",
            sheet(product, peak_compute=[peak("fp4", "tensor-core", 9000.0, 12000.0)]),
        )
    assert [line for line in told(read(tmp_path)) if "sparse" in line] == ["B300|fp4_tensor|12000 TFLOPS|sparse"]


def test_a_flattened_table_of_limits_reaches_products_by_their_records(tmp_path: Path):
    table = (
        "| Limit | CC 9.0 | CC 10.0 | |---|---|---| | Max Resident Warps/SM | 62 | 63 | | Max Shared "
        "Memory/Block | 220 KB | 221 KB |"
    )
    record = json.dumps({"payload": {"what": table, "when": table[:50] + "…"}}, indent=1)
    put(tmp_path, "kernel_wiki/records/technique-card/x.json", record)
    put(tmp_path, RECORDS + "b200.json", sheet("b200", "10.0"))
    put(tmp_path, RECORDS + "b300.json", sheet("b300", "10.3"))
    figures = read(tmp_path)
    assert figures
    assert told(figures) == ["B200|max_shared_memory_per_block|221 KB", "B200|max_warps_per_sm|63 warps"]
    assert {(figure.citation.line, figure.via and figure.via.path) for figure in figures.figures} == {
        (3, RECORDS + "b200.json")
    }


def test_an_index_is_never_cited(tmp_path: Path):
    put(tmp_path, RECORDS + "b200.json", sheet("b200", memory={"capacity_gb": 181}))
    for path in (
        "hardware_wiki/records/index.json",
        "kernel_wiki/records/index.json",
        "3rdparty/x/y.json",
        "schema/z.json",
    ):
        put(tmp_path, path, json.dumps({"search_text": "H200 has 131 SMs and B200 has 8 TB/s bandwidth"}, indent=1))
    assert told(read(tmp_path)) == ["B200|memory_capacity|181 GB||unofficial"]


@pytest.mark.parametrize(
    "folder", ["docs/nvidia/hopper/hardware-specs", "docs/hardware-specs", "gpu-wiki/docs/nvidia/hardware-specs"]
)
def test_where_there_are_sheets_other_pages_are_not_read(tmp_path: Path, folder: str):
    put(tmp_path, f"{folder}/x.md", f"# NVIDIA H100\n\n{TABLE}| VRAM | 79 GB |\n")
    put(tmp_path, f"{folder}/README.md", f"# NVIDIA H20\n\n{TABLE}| VRAM | 95 GB |\n")
    put(
        tmp_path,
        f"{folder}/../kernel-opt/y.md",
        f"# NVIDIA H100\n\n{TABLE}| VRAM | 80 GB |\n\n# NVIDIA H20\n\n{TABLE}| VRAM | 90 GB |\n",
    )
    put(tmp_path, f"{folder}/../3rdparty/z.md", f"# NVIDIA H200\n\n{TABLE}| TDP | 690 W |\n")
    assert told(read(tmp_path)) == ["H100|memory_capacity|79 GB"]


def test_our_own_layout_and_folders_without_numbers_are_nobodys(tmp_path: Path):
    assert read(BUNDLED) is None
    assert read(tmp_path) is None
    put(tmp_path, "notes.md", "# Tuning\n\nUse more warps on the H100.\n")
    assert read(tmp_path) is None


def test_a_broken_file_costs_only_itself(tmp_path: Path):
    put(tmp_path, RECORDS + "b200.json", sheet("b200", memory={"capacity_gb": 181}))
    put(tmp_path, RECORDS + "h100.json", '{\n "identity": {"product": "h100"},\n "facts": {,\n}')
    put(tmp_path, RECORDS + "h200.json", "[" * 100_000 + '"H200"')
    put(tmp_path, RECORDS + "h20.json", sheet("h20", memory=[1], peak_compute=5, compute_units="no", unavailable=3))
    put(
        tmp_path, RECORDS + "l4.json", json.dumps(json.loads(sheet("l4", memory={"capacity_gb": 24})))
    )  # all on one line
    put(tmp_path, RECORDS + "a100.json", sheet("a100", memory={"capacity_gb": 10**400}))
    (tmp_path / RECORDS / "b300.json").write_bytes(b'{\n "identity": "B300 \xe9"}')
    (tmp_path / RECORDS / "l40s.json").write_bytes(sheet("l40s", memory={"capacity_gb": 48}).encode("utf-16"))
    figures = read(tmp_path)
    assert figures
    assert told(figures) == ["B200|memory_capacity|181 GB||unofficial"]
    said = {problem.split(": ", 1)[0].removeprefix(RECORDS): problem for problem in figures.problems}
    assert set(said) == {"a100.json:1", "b300.json:2", "h100.json:3", "h200.json:1", "l40s.json:1"}
    assert "save the file as UTF-8" in said["b300.json:2"]


def test_ragged_tables_do_no_harm(tmp_path: Path):
    rows = "||\n|-|\n| |\n\n| Parameter | Value |\n|---|\n|\n| VRAM |\n|| 80 GB |\n| VRAM | 79 GB | 1 | 2 |\n|---|---|"
    put(tmp_path, "x.md", f"# NVIDIA H100\n\n{rows}\n| TDP | 690 W")
    assert told(read(tmp_path)) == ["H100|memory_capacity|79 GB", "H100|tdp|690 W"]
