"""External wikis: what each plain form yields, with invented values; everything else stays UNKNOWN."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge_base.layouts.external_wiki import read_external_wiki
from knowledge_base.pages.figures import HardwareFigures
from knowledge_base.pages.wiki import BUNDLED_WIKI
from tools.artifacts import digest

TABLE = "| Parameter | Value |\n|---|---|\n"
RECORDS = "hardware_wiki/records/spec-sheet/nvidia/"


def rows(heading: str, *rows: str) -> str:
    return f"{heading}\n\n{TABLE}" + "".join(f"| {row} |\n" for row in rows) + "\n"


def lines(figures: HardwareFigures | None) -> list[str]:
    """One line a figure: product and variant, metric, value and unit, then qualifier and evidence where there are any."""
    found = []
    for figure in figures.figures if figures else ():
        evidence = "" if figure.evidence == "vendor" else figure.evidence
        name = f"{figure.product} {figure.variant}".strip()
        line = f"{name}|{figure.metric}|{figure.value:.10g} {figure.unit}|{figure.qualifier}|{evidence}"
        found.append(line.rstrip("|"))
    return sorted(found)


READ = {
    "metric and value": (
        rows("## NVIDIA H200", "L2 Cache | 41 MB", "**TDP** | 601 W", "SMs | 131"),
        ["H200|l2_size|41 MB", "H200|sm_count|131 SM", "H200|tdp|601 W"],
    ),
    "metric, value and unit": (
        "# H200\n\n| metric | value | unit | note |\n|---|---|---|---|\n| memory_bandwidth | 4,700 | GB/s | HBM3e |\n",
        ["H200|memory_bandwidth|4700 GB/s"],
    ),
    "metric: value unit": (
        "# NVIDIA H100\n\n- L2 cache: 49 MB\n- **TDP**: 690 W\n**VRAM:** 79 GB\n",
        ["H100|l2_size|49 MB", "H100|memory_capacity|79 GB", "H100|tdp|690 W"],
    ),
    "peaks that say dense or sparse": (
        rows(
            "## H100",
            "BF16 Tensor Core (dense) | 985 TFLOPS",
            "BF16 Tensor Core | 1,970 TFLOPS sparse",
            "FP8 / INT8 (Matrix) dense | 1,969 TFLOPS",
            "FP64 (Vector) | 33 TFLOPS",
            "FP32 | 66 TFLOPS",
        ),
        [
            *("H100|bf16_tensor|1970 TFLOPS|sparse", "H100|bf16_tensor|985 TFLOPS|dense", "H100|fp32|66 TFLOPS|dense"),
            *("H100|fp64_vector|33 TFLOPS|dense", "H100|fp8_tensor|1969 TFLOPS|dense"),
            "H100|int8_tensor|1969 TFLOPS|dense",
        ],
    ),
    "links with a direction": (
        rows("## B200", "NVLink | 1.62 TB/s (bidirectional)", "Shared memory per SM | 226 KB per SM"),
        ["B200|max_shared_memory_per_sm|226 KB", "B200|nvlink_bandwidth|1.62 TB/s|total"],
    ),
    "several products on a page": (
        rows("# Hopper\n\n## NVIDIA H100 SXM (sm_90)\n\n### Memory", "VRAM | 79 GB")
        + rows("## NVIDIA H20 (sm_90)\n\n### Memory", "VRAM | 95 GB")
        + rows("## Hopper Architecture (sm_90)", "L2 Cache | 256 MB")
        + rows("## NVIDIA B200 Data Center GPU (GB200 / sm_100)", "SMs | 146"),
        ["B200|sm_count|146 SM", "H100 SXM|memory_capacity|79 GB", "H20|memory_capacity|95 GB"],
    ),
    "headings that are underlined or behind a row": (
        "# NVIDIA H100\n\nNVIDIA H200\n-----------\n\n" + TABLE + "| VRAM | 140 GB |\n| TDP | 690 W |## NVIDIA H20\n\n"
        f"{TABLE}| VRAM | 95 GB |\n",
        ["H20|memory_capacity|95 GB", "H200|memory_capacity|140 GB", "H200|tdp|690 W"],
    ),
    "doubts": (
        rows("## NVIDIA H20\n\n> **Evidence status**: all figures are approximate.", "SMs | 77")
        + rows("## NVIDIA H100", "TDP | ~690 W", "L2 Cache | 49 MB*", "VRAM | 79 GB"),
        [
            *("H100|l2_size|49 MB||unofficial", "H100|memory_capacity|79 GB", "H100|tdp|690 W||unofficial"),
            "H20|sm_count|77 SM||unofficial",
        ],
    ),
    "comments and code": (
        "# NVIDIA H100\n\n<!-- old\n"
        + TABLE
        + "| VRAM | 64 GB |\n-->\n```\nTDP: 1 W\n```\n"
        + TABLE
        + "| SMs | 131 |\n",
        ["H100|sm_count|131 SM"],
    ),
}
UNKNOWN = {
    "several values or scopes in a cell": rows(
        "## B200",
        "BF16 Tensor Core | 2.4 PFLOPS dense; 4.8 PFLOPS sparse",
        "Shared Memory per SM | 226 KB per SM; 225 KB per block",
        "VRAM | 47 GB or 71 GB GDDR7",
        "Memory Bandwidth | 1.3–1.8 TB/s",
        "L2 Cache | 90-128 MB",
        "TDP | 990 W (max 1,190 W)",
    ),
    "totals, parts and whole chips": rows(
        "## B200",
        "VRAM | 1,448 GB total",
        "Memory | 640 GB (8 GPUs)",
        "L2 Cache | 4 MB (per XCD)",
        "SMs | 143 (full GH100)",
        "NVLink | 18 links × 90 GB/s = 1.62 TB/s (bidirectional)",
        "Max Shared Memory per Block | 227 KB per SM",
    ),
    "peaks that do not say enough": rows(
        "## H100",
        "BF16 Tensor Core | 1,970 TFLOPS",
        "FP64 | 33 TFLOPS",
        "FP16 dense | 150 TFLOPS",
        "NVLink | 890 GB/s",
        "Peak BF16 TFLOPS (dense) | 3.2×",
    ),
    "units and sizes that do not fit": rows(
        "# H100",
        "VRAM | 80",
        "Memory Bandwidth | 80 GB",
        "TDP | 3.3 TB/s",
        "L2 Cache | 50 GB",
        "SMs | 4,000",
        "Warp size | < 32",
    )
    + rows("# H20", "Memory Bandwidth | 3,35 TB/s", "TDP | ~~650~~ 700 W"),
    "other products and inheritance": rows(
        "# H200",
        "L2 Cache | 50 MB (H100)",
        "VRAM | Same as H100",
        "TDP | 700 W | same as H100",
        "Memory Bandwidth | 3.3 TB/s | measured",
    )
    + rows("# NVIDIA H100\n\n**H200**", "VRAM | 140 GB")
    + "# NVIDIA H100\n\nH200 memory bandwidth: 4.8 TB/s\n",
    "headings of work, measurements and systems": rows("# Tuning GEMM on the H100", "Memory Bandwidth | 2.9 TB/s")
    + rows("# NVIDIA H100\n\n## Results", "Memory Bandwidth | 2.8 TB/s")
    + rows("# DGX H100", "VRAM | 640 GB")
    + rows("# GB200 NVL72", "Memory Bandwidth | 20 TB/s")
    + rows("# H100 vs H200", "VRAM | 80 GB")
    + rows("# Notes", "VRAM | 80 GB"),
    "tables of another shape": "# NVIDIA H100\n\n| GPU | Memory | TDP |\n|---|---|---|\n| H100 SXM5 | 79 GB | 690 W |\n\n"
    "| Precision | Peak TFLOPS | With Sparsity |\n|---|---|---|\n| BF16 (Tensor Core) | 985 | 1,970 |\n\n"
    "| Parameter | H100 | H200 |\n|---|---|---|\n| TDP | 690 W | 700 W |\n\n"
    "| Specification | CC 9.0 | CC 10.0 |\n|---|---|---|\n| Max Resident Warps/SM | 63 | 62 |\n",
    "prose": "# NVIDIA H100\n\nThe **B200**'s 145 SMs share it. It has 7.9 TB/s of bandwidth: twice the A100's.\n",
}


@pytest.mark.parametrize("form", READ)
def test_a_plain_form_yields_exactly_its_figures(tmp_path: Path, form: str) -> None:
    text, expected = READ[form]
    (tmp_path / "page.md").write_text(text)
    figures = read_external_wiki(tmp_path)
    assert figures and lines(figures) == sorted(expected)
    for figure in figures.figures:
        printed = text.splitlines()[figure.citation.line - 1]
        assert digest(printed) == figure.citation.sha256 and f"{figure.value:.10g}" in printed.replace(",", "")


@pytest.mark.parametrize("form", UNKNOWN)
def test_every_other_form_is_unknown(tmp_path: Path, form: str) -> None:
    (tmp_path / "page.md").write_text(UNKNOWN[form])
    assert lines(read_external_wiki(tmp_path)) == []


def test_a_gap_says_why(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text(
        rows(
            "# B300", "Shared Memory per SM | Not published; ask the driver", "BF16 (Tensor) | 9 TFLOPS", "SMs | 4,000"
        )
    )
    figures = read_external_wiki(tmp_path)
    assert figures
    reasons = {gap.metric: (gap.citation.line, gap.reason) for gap in figures.gaps}
    assert reasons["max_shared_memory_per_sm"][0] == 5 and "Not published" in reasons["max_shared_memory_per_sm"][1]
    assert reasons["bf16_tensor"] == (6, "9 TFLOPS says none of dense, sparse")
    assert reasons["sm_count"] == (7, "4000 SM is not a possible sm_count")


ANY_LINE = sorted(
    {line for text in (*UNKNOWN.values(), *(page for page, _ in READ.values())) for line in text.split("\n")}
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(ANY_LINE), max_size=25), st.sampled_from(["H100", "H20", "MI300X", "RTX PRO 5000"]))
def test_on_any_page_a_figure_is_that_of_the_nearest_product(
    tmp_path_factory: pytest.TempPathFactory, above: list[str], product: str
) -> None:
    root = tmp_path_factory.mktemp("wiki")
    text = "\n".join((*above, "<!-- -->", "", "```", "```", "", rows(f"# NVIDIA {product}", "TDP | 777 W")))
    (root / "page.md").write_text(text)
    for figure in (read_external_wiki(root) or HardwareFigures(())).figures:
        printed = text.split("\n")[figure.citation.line - 1]
        assert digest(printed) == figure.citation.sha256
        assert "777 W" not in printed or figure.product == product


def write(root: Path, path: str, text: str) -> None:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def record(product: str | None, vendor: str = "nvidia", **facts: Any) -> str:
    return json.dumps(
        {"type": "spec-sheet", "identity": {"vendor": vendor, "product": product}, "facts": facts}, indent=1
    )


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


def test_a_record_gives_every_scalar_with_its_own_line(tmp_path: Path) -> None:
    text = record(
        "b200",
        peak_compute=[peak("fp64", "cuda-core", 36.5), peak("bf16", "tensor-core", 2200.0, 4400.0)],
        memory={"capacity_gb": 181, "l2_cache_mb": 125, "bandwidth_tb_s": 7.9, "provenance": "vendor-published"},
        compute_units={"sm_count": 146, "cuda_cores": 9, "shared_memory_kb_per_sm": None},
        unavailable={"shared_memory_kb_per_sm": "not published; not the 128 KB of another"},
    )
    write(tmp_path, RECORDS + "b200.json", text)
    figures = read_external_wiki(tmp_path)
    assert figures
    assert [line.removeprefix("B200|") for line in lines(figures)] == [
        *("bf16_tensor|2200 TFLOPS|dense", "bf16_tensor|4400 TFLOPS|sparse", "fp64_vector|36.5 TFLOPS|dense"),
        *("l2_size|125 MB", "memory_bandwidth|7.9 TB/s", "memory_capacity|181 GB", "sm_count|146 SM||unofficial"),
    ]
    printed = {(one.metric, one.qualifier): text.splitlines()[one.citation.line - 1].strip() for one in figures.figures}
    assert printed["fp64_vector", "dense"] == '"dense": 36.5,' and printed["sm_count", ""] == '"sm_count": 146,'
    assert printed["bf16_tensor", "sparse"] == '"sparse_2to4": 4400.0'
    assert [gap.reason for gap in figures.gaps] == ["not published; not the 128 KB of another"]


def test_corrupt_rows_of_a_record_are_left_out(tmp_path: Path) -> None:
    peaks = [
        *(peak("fp64", "cuda-core", 21.5, 80), peak("bf16", "tensor-core", 200.5, 308), peak("fp8", "cuda-core", 5000)),
        *(peak("fp32", "cuda-core", 150.5), peak("fp16", "tensor-core", 150.5), peak("b16", "tensor-core", 1.5)),
        peak("bf16", "cuda-core", 200.5, 5.3, use_case="200.5 / 5.3 ≈ 37.8"),
        peak("tf32", "tensor-core", float("nan")),
    ]
    write(tmp_path, RECORDS + "x.json", record("mi308x", "amd", peak_compute=peaks, compute_units={"sm_count": 79}))
    assert [line.removeprefix("MI308X|") for line in lines(read_external_wiki(tmp_path))] == [
        *("bf16_tensor|200.5 TFLOPS|dense", "cu_count|79 CU||unofficial", "fp32|150.5 TFLOPS|dense"),
        "fp64_vector|21.5 TFLOPS|dense",
    ]


@pytest.mark.parametrize("product", [None, "sm120", "hopper", "gfx942", "generic", "dgx-b200", ""])
def test_a_record_of_no_single_product_has_no_figures(tmp_path: Path, product: str | None) -> None:
    write(tmp_path, RECORDS + "x.json", record(product, memory={"capacity_gb": 80}))
    assert lines(read_external_wiki(tmp_path)) == []


def test_indexes_other_projects_and_pages_beside_the_sheets_are_not_read(tmp_path: Path) -> None:
    for path, capacity in (
        ("docs/hardware-specs/x.md", 79),
        ("docs/hardware-specs/README.md", 80),
        ("docs/tuning/y.md", 81),
        ("docs/hardware-specs/3rdparty/z.md", 82),
    ):
        write(tmp_path, path, rows("# NVIDIA H100", f"VRAM | {capacity} GB"))
    assert lines(read_external_wiki(tmp_path)) == ["H100|memory_capacity|79 GB"]
    write(tmp_path, RECORDS + "b200.json", record("b200", memory={"capacity_gb": 181}))
    write(tmp_path, "hardware_wiki/records/index.json", record("h200", memory={"capacity_gb": 141}))
    assert lines(read_external_wiki(tmp_path)) == ["B200|memory_capacity|181 GB||unofficial"]


def test_a_folder_without_foreign_figures_is_no_external_wiki(tmp_path: Path) -> None:
    assert read_external_wiki(BUNDLED_WIKI) is None
    write(tmp_path, "notes.md", "# Tuning\n\nUse more warps on the H100.\n")
    assert read_external_wiki(tmp_path) is None


def test_a_broken_file_costs_only_itself(tmp_path: Path) -> None:
    write(tmp_path, RECORDS + "b200.json", record("b200", memory={"capacity_gb": 181}))
    write(tmp_path, RECORDS + "h100.json", '{\n "identity": {"product": "h100"},\n "facts": {,\n}')
    write(tmp_path, RECORDS + "h200.json", "[" * 100_000 + '"H200"')
    write(tmp_path, RECORDS + "h20.json", record("h20", memory=[1], peak_compute=5, compute_units="no", unavailable=3))
    write(tmp_path, RECORDS + "l4.json", json.dumps(json.loads(record("l4", memory={"capacity_gb": 24}))))
    write(tmp_path, RECORDS + "a100.json", record("a100", memory={"capacity_gb": 10**400}))
    (tmp_path / RECORDS / "b300.json").write_bytes(b'{\n "identity": "B300 \xe9"}')
    (tmp_path / RECORDS / "l40s.json").write_bytes(record("l40s", memory={"capacity_gb": 48}).encode("utf-16"))
    figures = read_external_wiki(tmp_path)
    assert figures and lines(figures) == ["B200|memory_capacity|181 GB||unofficial"]
    problems = {problem.split(": ", 1)[0].removeprefix(RECORDS): problem for problem in figures.problems}
    assert {"b300.json:2", "h100.json:3", "h200.json:1", "l40s.json:1"} <= set(problems)
    assert "save the file as UTF-8" in problems["b300.json:2"]


def test_ragged_tables_do_no_harm(tmp_path: Path) -> None:
    table = "||\n|-|\n| |\n\n| Parameter | Value |\n|---|\n|\n| VRAM |\n|| 80 GB |\n| VRAM | 79 GB | 1 | 2 |\n|---|---|"
    write(tmp_path, "x.md", f"# NVIDIA H100\n\n{table}\n| TDP | 690 W")
    assert lines(read_external_wiki(tmp_path)) == ["H100|memory_capacity|79 GB", "H100|tdp|690 W"]
