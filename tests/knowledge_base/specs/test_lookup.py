import csv
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge_base.artifacts import Page
from knowledge_base.pages.figures import HardwareFigure, HardwareFigures, StatedGap
from knowledge_base.pages.wiki import TableRow, Wiki, table_rows
from knowledge_base.specs.lookup import answer_line, resolve_spec, reverify
from knowledge_base.specs.sheets import COLUMNS, product_of
from tools.artifacts import digest
from tools.roofline.hardware import Citation, Spec, UnknownSpec

BUNDLED = Wiki.open()
with (Path(__file__).parents[1] / "lookups.csv").open() as table:
    LOOKUPS = list(csv.DictReader(table))
    """Questions of the bundled wiki: variant and qualifier of the answer, or UNKNOWN with a part of the reason and
    of a candidate."""
ROWS: list[tuple[Page, TableRow]] = [
    (page, row) for page in BUNDLED.pages if product_of(page) for row in table_rows(page, COLUMNS)
]


def known(answer: Spec | UnknownSpec) -> Spec:
    assert isinstance(answer, Spec), answer
    return answer


def unknown(answer: Spec | UnknownSpec) -> UnknownSpec:
    assert isinstance(answer, UnknownSpec), answer
    return answer


def sheet(root: Path, product_of: str, variant: str, *table: str) -> None:
    head = f"---\nid: {product_of}-{variant}\ntype: hardware\ntitle: T\napplies_to: [{product_of}, '{variant}']\n---\n"
    body = "| metric | value | unit | qualifier | source |\n|---|---|---|---|---|\n" + "".join(
        f"| {row} | s |\n" for row in table
    )
    (root / f"{product_of}-{variant}.md").write_text(head + body)


@settings(deadline=None)
@given(st.sampled_from(ROWS), st.text(max_size=4), st.text(max_size=4))
def test_no_other_product_gets_a_row(item: tuple[Page, TableRow], before: str, after: str):
    page, row = item
    product_of, variant = (*page.head.applies_to, "")[:2]
    answer = resolve_spec(BUNDLED, before + product_of + after, row.cells["metric"], variant, row.cells["qualifier"])
    if isinstance(answer, Spec):
        assert answer.product == product_of
        assert not any(character.isascii() and character.isalnum() for character in before + after)


@pytest.mark.parametrize("asked", LOOKUPS, ids=lambda asked: asked["law"])
def test_names_variants_and_qualifiers_bind_a_question_to_one_row_or_to_none(asked: dict[str, str]):
    answer = resolve_spec(BUNDLED, asked["product"], asked["metric"], asked["variant"], asked["qualifier"])
    told, _, reason = asked["expected"].partition(" ")
    if told != "UNKNOWN":
        assert f"{known(answer).variant} {known(answer).qualifier}".strip() == asked["expected"]
        return
    assert reason in unknown(answer).reason and any(
        asked["candidate"] in one for one in (*unknown(answer).candidates, "")
    )
    assert str(answer).endswith(": UNKNOWN (gpu-wiki not found)") and answer_line(answer).startswith(f"{answer}: ")


@pytest.mark.parametrize(
    "asked",
    sorted({page.head.applies_to[0] for page in BUNDLED.pages if product_of(page)} | {"A100 80GB", "A100 SXM4"}),
)
def test_what_an_answer_suggests_answers_when_it_is_pasted(asked: str):
    for metric in ("memory_bandwidth", "tdp", "sm_count", "bf16_tensor"):
        answer = resolve_spec(BUNDLED, asked, metric)
        open_ = isinstance(answer, UnknownSpec) and answer.reason.endswith(("name the variant", "give one of these"))
        for one in answer.candidates if isinstance(answer, UnknownSpec) and open_ else ():
            whole = one.partition(": ")[0]
            for pasted in (resolve_spec(BUNDLED, whole, metric), resolve_spec(BUNDLED, asked, metric, whole)):
                assert isinstance(pasted, Spec) or pasted.reason.startswith(
                    ("knowledge", "hardware/", "<gpu-wiki>/")
                ), (one, pasted)


def test_the_drivers_name_finds_the_page_of_whichever_way_it_is_written(tmp_path: Path):
    sheet(tmp_path, "GeForce RTX 4090", "", "tdp | 450 | W | ")
    wiki = Wiki.open(tmp_path)
    assert [
        known(resolve_spec(wiki, name, "tdp")).value
        for name in ("NVIDIA GeForce RTX 4090", "RTX 4090", "GeForce RTX 4090")
    ] == [450.0] * 3
    unknown(resolve_spec(wiki, "NVIDIA GeForce RTX 4090 Laptop GPU", "tdp"))


LINK = "A nvlink_bandwidth | 450 | GB/s | per_direction"
BANDWIDTHS, CACHES = "A memory_bandwidth | 4.8 | TB/s | ", "A l2_size | 40 | MB | "
SHEETS: dict[tuple[str, ...], tuple[str, float | str]] = {
    # Rows, each behind its variant -> question, and the value or what the reason says.
    ("A tdp | 300 | W | ", "A tdp | 350 | W | "): ("tdp", "two rows of tdp that differ"),
    **{
        (f"A memory_capacity | {value} | GB | ",): ("memory_capacity", "")
        for value in ("about 5", "48 or 72", "80–141", "~3", "4.8 TB/s", "—", "")
    },
    ("A registers_per_sm | 65,536 | registers | ",): ("registers", 65536),
    **{
        (f"A {row}",): (row.partition(" ")[0], "no such row")
        for row in (
            "tdp | 300 | GB | ",
            "memory_bandwidth | 3 | W | ",
            "tdp | 300 |  | ",
            "fp32 | 3 | GB/s | dense",
            "zest | 3 | W | ",
            "tdp | -700 | W | ",
            "memory_bandwidth | 48000 | TB/s | ",
            "memory_capacity | 1440 | GB | ",
        )
    },
    (BANDWIDTHS, "B memory_bandwidth | 4800 | GB/s | "): ("memory_bandwidth", 4.8),
    (CACHES, "B l2_size | 40960 | KB | "): ("l2", 40),
    (CACHES, "B l2_size | 40000 | KB | "): ("l2", ""),
    (LINK,): ("nvlink", ""),
    (LINK, "A tdp | 9 | W | "): ("nvlink_bandwidth_per_direction", 450),
    (LINK, "A nvlink_bandwidth | 900 | GB/s | total"): ("nvlink", 900),
}


@pytest.mark.parametrize(("rows", "metric", "expected"), [(rows, *told) for rows, told in SHEETS.items()], ids=str)
def test_a_row_answers_only_as_one_number_in_a_unit_of_its_metric(
    tmp_path: Path, rows: tuple[str, ...], metric: str, expected: float | str
):
    for variant in {row[0] for row in rows}:
        sheet(tmp_path, "X1", variant, *(row[2:] for row in rows if row[0] == variant), "sm_count | 3 | SM | ")
    wiki = Wiki.open(tmp_path)
    answer = resolve_spec(wiki, "X1", metric)
    assert expected in unknown(answer).reason if isinstance(expected, str) else known(answer).value == expected
    assert known(resolve_spec(wiki, "X1", "sm_count")).value == 3, "the other rows answer"


def test_a_wiki_that_tells_no_variants_apart_speaks_of_the_product_only(tmp_path: Path):
    sheet(tmp_path, "H100", "", "tdp | 700 | W | ")
    wiki = Wiki.open(tmp_path)
    assert known(resolve_spec(wiki, "H100", "tdp")).value == 700
    assert "without a variant" in unknown(resolve_spec(wiki, "H100", "tdp", "PCIe")).reason
    (tmp_path / "H100-.md").unlink()
    assert unknown(resolve_spec(Wiki.open(tmp_path), "H100", "tdp")).candidates == ()


def test_a_family_never_answers_with_a_number(tmp_path: Path):
    sheet(tmp_path, "CPU", "", "tdp | 300 | W | ")
    aliases = "---\nid: product-aliases\ntype: meta\ntitle: T\n---\n| word | family |\n|---|---|\n| EPYC | CPU |\n"
    (tmp_path / "aliases.md").write_text(aliases)
    unknown(resolve_spec(Wiki.open(tmp_path), "AMD EPYC", "tdp"))


def test_the_better_evidence_answers_and_the_mark_is_shown(tmp_path: Path):
    sheet(tmp_path, "X1", "A", "tdp | 300 | W | ", "sm_count | 10 | SM | ")
    path = tmp_path / "X1-A.md"
    text = path.read_text().replace("| source |\n|---|", "| source | evidence | caveat |\n|---|---|---|")
    text = text.replace("10 | SM |  | s |", "10 | SM |  | s | unofficial | read off a photograph |")
    path.write_text(text + "| tdp | 350 | W |  | s | mention | |\n")
    wiki = Wiki.open(tmp_path)
    assert known(resolve_spec(wiki, "X1", "tdp")).value == 300
    count = known(resolve_spec(wiki, "X1", "sm_count"))
    assert (
        answer_line(count).endswith(" [unofficial]")
        and count.caveat == "read off a photograph"
        and not count.sets_targets
    )
    assert reverify(wiki, count) and not reverify(wiki, count.model_copy(update={"evidence": "vendor"}))


def figure(
    product_of: str, variant: str, metric: str, value: float, unit: str, line: int, qualifier: str = ""
) -> HardwareFigure:
    return HardwareFigure(
        product_of,
        variant,
        metric,
        value,
        unit,
        qualifier,
        Citation(path="specs/all.json", line=line, sha256=digest(str(line))),
    )


def test_a_question_is_bound_the_same_way_whoever_read_the_figures(tmp_path: Path):
    wiki = Wiki.open(tmp_path)
    wiki.figures = HardwareFigures(
        (
            figure("h100", "SXM", "bf16_tensor", 989.4, "TFLOP/s", 1, "dense"),
            figure("h100", "SXM", "bf16_tensor", 1978.9, "TFLOP/s", 2, "sparse"),
            figure("h100", "SXM", "memory_bandwidth", 80.0, "GB", 3),
            figure("AMD MI300X", "", "tdp", 750.0, "Watts", 4),
            figure("AMD MI300X", "", "cu_count", 304.0, "CUs", 5),
            figure("AMD MI300X", "", "cu_count", 38.0, "CUs", 6),
        ),
        (
            StatedGap(
                "AMD MI300X",
                "",
                "memory_capacity",
                "nobody says",
                Citation(path="specs/all.json", line=9, sha256=digest("9")),
            ),
        ),
    )
    assert (
        answer_line(resolve_spec(wiki, "NVIDIA H100 80GB HBM3", "peak_bf16"))
        == "bf16_tensor: 989.4 TFLOP/s <- <gpu-wiki>/specs/all.json:1"
    )
    assert known(resolve_spec(wiki, "H100", "bf16_sparse", "SXM5")).citation.line == 2
    assert "no such row" in unknown(resolve_spec(wiki, "H100", "memory_bandwidth", "SXM5")).reason, (
        "its unit is not one of a bandwidth"
    )
    assert "PCIe" in unknown(resolve_spec(wiki, "H100", "bf16")).reason
    assert known(resolve_spec(wiki, "mi300x", "tdp")).unit == "Watts"
    assert len(unknown(resolve_spec(wiki, "MI300X", "cu_count")).candidates) == 2
    assert "specs/all.json:9 says: nobody says" in unknown(resolve_spec(wiki, "MI300X", "vram")).reason


def test_a_broken_page_that_would_have_answered_is_named(tmp_path: Path):
    sheet(tmp_path, "X2", "A", "tdp | 300 | W | ")
    path = tmp_path / "X2-A.md"
    path.write_text(path.read_text().replace("title: T", "titel: T"))
    wiki = Wiki.open(tmp_path)
    assert "X2-A.md:" in unknown(resolve_spec(wiki, "X2", "tdp")).reason
    assert "X2-A" not in unknown(resolve_spec(wiki, "X3", "tdp")).reason


def test_no_gpu_is_taken_for_a_cpu():
    assert "cpu" not in unknown(resolve_spec(BUNDLED, "NVIDIA H100 Core Processor", "tdp")).reason


FOREIGN = """# NVIDIA H100 SXM5

| Parameter | Value |
|---|---|
| TDP | 690 W |
| BF16 Tensor Core | 1,979 TFLOPS |
| NVLink | 900 GB/s |
"""


def test_our_own_pages_and_those_of_another_layout_are_read_together(tmp_path: Path):
    (tmp_path / "h100.md").write_text(FOREIGN)
    sheet(tmp_path, "X1", "A", "tdp | 300 | W | ")
    wiki = Wiki.open(tmp_path, types=("hardware", "meta"))
    ours, theirs = known(resolve_spec(wiki, "X1", "tdp")), known(resolve_spec(wiki, "H100", "tdp", "SXM5"))
    assert (ours.value, theirs.value) == (300, 690)
    assert reverify(wiki, ours) and reverify(wiki, theirs)
    (tmp_path / "h100.md").write_text(FOREIGN.replace("690", "691"))
    assert reverify(wiki, ours) and not reverify(wiki, theirs)
    (tmp_path / "X1-A.md").write_text((tmp_path / "X1-A.md").read_text().replace("300", "301"))
    assert not reverify(wiki, ours)
