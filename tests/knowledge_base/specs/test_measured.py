"""A measured roof becomes a page that the wiki's own reader reads, and never stands in for a published figure."""

from __future__ import annotations

import json
import re
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from knowledge_base.__main__ import main
from knowledge_base.pages.wiki import Wiki, table_rows
from knowledge_base.specs import lookup, measured
from knowledge_base.specs.lint import lint_wiki
from tests.support import Capsys
from tools.artifacts import Record
from tools.environment import Environment
from tools.executors.base import Device
from tools.roofline.hardware import UnknownSpec
from tools.store.records import Records

ROOFS: dict[str, Any] = json.loads((Path(__file__).parents[2] / "tools/fixtures/roofs_h200.json").read_text())
COLUMNS = ("metric", "value", "unit", "qualifier", "source", "evidence")
FLOAT32 = {"once": [1e11], "doubled": [1e11], "threads_once": [5e10, 5e10], "threads_doubled": [5e10, 5e10]}
FLOAT64 = {kind: [rate / 2 for rate in rates] for kind, rates in FLOAT32.items()}
CPU: dict[str, Any] = {
    "threads": 2,
    "array_bytes": 1 << 28,
    "bandwidth": {"copy": [2.5e10, 2.25e10]},
    "call": [1.25e-9],
}
CPU |= {"float32": FLOAT32, "float64": FLOAT64}


def device(driver: str = "570.86.15", name: str = "NVIDIA H200") -> Device:
    return Device(kind="cuda", name=name, architecture="sm_90", details={"driver": driver})


def workspace(root: Path, found: Device, payload: dict[str, Any] = ROOFS, key: str = "roof") -> str:
    """A workspace that measured roofs on `found`; returns the record's id."""
    records = Records(root)
    environment = Environment(items=(), devices=(found,), sandbox={})
    made = records.add(Record(kind="environment", key=f"e{key}", payload=environment.model_dump(mode="json")))
    place = f"{found.kind}:{found.index} {found.name}"
    return records.add(Record(kind="roof", key=key, environment=made.id, device=place, payload=payload)).id


def said(capsys: Capsys, *argv: str, code: int = 0) -> str:
    assert main(["overlay", *argv]) == code
    text = capsys.readouterr()[bool(code)].strip()
    assert "\n" not in text
    return str(text)


def test_a_record_becomes_a_page_with_all_that_a_reader_must_know(tmp_path: Path, capsys: Capsys) -> None:
    record = workspace(tmp_path / "w", device())
    out = said(capsys, str(tmp_path / "w/records" / f"{record}.json"), "--home", str(tmp_path / "home"))
    (path,) = measured.overlay_pages(tmp_path / "home")
    assert path.name == "nvidia-h200-570.86.15.md" and out == f"{path} is written"
    wiki = Wiki.open(path.parent)
    assert not wiki.problems and lint_wiki(wiki, frozenset()) == ()
    (page,) = wiki.pages
    assert page.head.type == "hardware" and page.head.applies_to == ("H200", "SXM5"), (
        "the driver's name, as the bundled wiki knows it"
    )
    for fact in (
        "device: NVIDIA H200",
        "driver: 570.86.15",
        f"record: {record}",
        "python -m tools ceilings --language triton",
    ):
        assert fact in page.body
    assert re.search(r"^- date: \d{4}-\d\d-\d\d$", page.body, re.MULTILINE)
    table = {row.cells["metric"]: row.cells for row in table_rows(page, COLUMNS)}
    assert set(table) == set(measured.METRIC_BY_ROOF.values())
    best = max(median(tries) for tries in ROOFS["bandwidth"].values())
    cells, peak = table["measured_memory_bandwidth"], table["measured_bf16_tensor"]
    assert (float(cells["value"]), cells["unit"], cells["evidence"]) == (
        pytest.approx(best / 1e12, rel=1e-5),
        "TB/s",
        "measured",
    )
    assert cells["source"] == f"measured, record {record}"
    assert (peak["unit"], peak["qualifier"], table["measured_launch_latency"]["unit"]) == ("TFLOPS", "dense", "us")
    for asked, metric in (
        (wiki, "memory_bandwidth"),
        (wiki, "bf16_tensor"),
        (Wiki.open(), "measured_memory_bandwidth"),
    ):
        assert isinstance(lookup.resolve_spec(asked, "H200", metric, "SXM5"), UnknownSpec), (
            "each answers to its own name only"
        )


@pytest.mark.parametrize(
    ("asked", "known"),
    [
        ("H200-SXM measured_memory_bandwidth", True),
        ("H200 Measured_Memory_Bandwidth --variant SXM5", True),
        ("H200-SXM5 measured-bf16-tensor --qualifier dense", True),
        ("H200-SXM5 measured_bf16_tensor_dense", True),
        ("H200-SXM measured_memory_bandwidth --variant NVL", False),
        ("H200-SXM5 measured_bf16_tensor --qualifier sparse", False),
        ("H100-SXM5 measured_memory_bandwidth", False),
        ("H200-SXM5 tdps", False),
    ],
)
def test_a_measurement_answers_for_its_product_variant_and_qualifier(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capsys, asked: str, known: bool
) -> None:
    record = workspace(tmp_path / "w", device())
    measured.write_overlay_page(record, Wiki.open(), workspace=tmp_path / "w", home=tmp_path)
    monkeypatch.setenv("KERNELWRIGHT_HOME", str(tmp_path))
    assert main(["spec", *asked.split()]) == (0 if known else 1)
    assert ("<gpu-wiki>/overlay/nvidia-h200-570.86.15.md:" in capsys.readouterr().out) == known


def test_a_cpu_has_no_driver_but_a_kernel(tmp_path: Path) -> None:
    name = "AMD EPYC 9354 32-Core Processor"
    cpu = Device(kind="cpu", name=name, architecture="x86_64", details={"kernel": "6.8.0-31-generic"})
    path = measured.write_overlay_page(
        workspace(tmp_path / "w", cpu, CPU), Wiki.open(), workspace=tmp_path / "w", home=tmp_path
    ).path
    assert path.name == "amd-epyc-9354-32-core-processor-linux-6.8.0-31-generic.md"
    (page,) = Wiki.open(path.parent).pages
    assert page.head.applies_to == (name,)
    table = {row.cells["metric"]: (row.cells["value"], row.cells["unit"]) for row in table_rows(page, COLUMNS)}
    assert table["measured_memory_bandwidth"] == ("25", "GB/s") and table["measured_fp64"] == ("50", "GFLOPS")
    assert table["measured_launch_latency"] == ("0.00125", "us")


def test_twice_is_once_and_another_measurement_needs_to_be_told(tmp_path: Path, capsys: Capsys) -> None:
    first = workspace(tmp_path / "w", device())
    home = ["--workspace", str(tmp_path / "w"), "--home", str(tmp_path)]
    said(capsys, first, *home)
    (path,) = measured.overlay_pages(tmp_path)
    before = (path.read_bytes(), path.stat().st_mtime_ns)
    assert (
        said(capsys, first, *home).endswith("is up to date") and (path.read_bytes(), path.stat().st_mtime_ns) == before
    )
    slower = {**ROOFS, "bandwidth": {"copy": [3.5e12]}}
    second = workspace(tmp_path / "w", device(), slower, key="again")
    assert (
        f"record {first} already; say --replace" in said(capsys, second, *home, code=2)
        and path.read_bytes() == before[0]
    )
    said(capsys, second, *home, "--replace")
    text = path.read_text()
    assert (
        "| measured_memory_bandwidth | 3.5 | TB/s |" in text
        and first not in text
        and len(measured.overlay_pages(tmp_path)) == 1
    )
    other = workspace(tmp_path / "w", device("580.1"), key="other driver")
    said(capsys, other, *home)
    assert [page.name for page in measured.overlay_pages(tmp_path)] == [
        "nvidia-h200-570.86.15.md",
        "nvidia-h200-580.1.md",
    ]


@pytest.mark.parametrize(
    ("spoilt", "says"),
    [
        ("file", "no such record file"),
        ("id", "no such record in"),
        ("kind", "is a record of kind environment"),
        ("damaged", "cannot be read"),
        ("payload", "no measurement of roofs"),
        ("environment", "which driver"),
    ],
)
def test_what_is_no_roof_record_is_one_sentence(tmp_path: Path, spoilt: str, says: str, capsys: Capsys) -> None:
    root = tmp_path / "w"
    record = workspace(root, device(), {"array_bytes": 1} if spoilt == "payload" else ROOFS)
    if spoilt == "kind":
        record = next(one.id for one in Records(root) if one.kind == "environment")
    elif spoilt == "damaged":
        (root / "records" / f"{record}.json").write_text("{")
    elif spoilt == "environment":
        payload = Environment(items=(), devices=(device(name="NVIDIA H100"),), sandbox={}).model_dump(mode="json")
        made = Records(root).add(Record(kind="environment", key="x", payload=payload)).id
        record = (
            Records(root)
            .add(Record(kind="roof", key="y", environment=made, device="cuda:0 NVIDIA H200", payload=ROOFS))
            .id
        )
    named = {"file": str(root / "nothing.json"), "id": "0" * 16}.get(spoilt, record)
    more = [] if spoilt == "file" else ["--workspace", str(root)]
    assert says in said(capsys, named, *more, "--home", str(tmp_path / "home"), code=2)
    assert not measured.overlay_pages(tmp_path / "home")
