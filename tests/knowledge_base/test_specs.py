from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge_base.artifacts import Page
from knowledge_base.figures import Figure, Figures, Silence
from knowledge_base.sheets import COLUMNS, problems, product
from knowledge_base.specs import gap, resolve, reverify
from knowledge_base.wiki import Row, Wiki, rows
from tools.artifacts import digest
from tools.hardware import Citation, Spec, UnknownSpec

BUNDLED = Wiki.open()
ROWS: list[tuple[Page, Row]] = [(page, row) for page in BUNDLED.pages if product(page) for row in rows(page, COLUMNS)]


def known(answer: Spec | UnknownSpec) -> Spec:
    assert isinstance(answer, Spec), answer
    return answer


def unknown(answer: Spec | UnknownSpec) -> UnknownSpec:
    assert isinstance(answer, UnknownSpec), answer
    return answer


def sheet(root: Path, product: str, variant: str, *table: str) -> None:
    head = f"---\nid: {product}-{variant}\ntype: hardware\ntitle: T\napplies_to: [{product}, '{variant}']\n---\n"
    body = "| metric | value | unit | qualifier | source |\n|---|---|---|---|---|\n" + "".join(f"| {row} | s |\n" for row in table)
    (root / f"{product}-{variant}.md").write_text(head + body)


@settings(deadline=None)
@given(st.sampled_from(ROWS), st.text(max_size=4), st.text(max_size=4))
def test_no_other_product_gets_a_row(item: tuple[Page, Row], before: str, after: str):
    page, row = item
    product, variant = (*page.head.applies_to, "")[:2]
    answer = resolve(BUNDLED, before + product + after, row.cells["metric"], variant, row.cells["qualifier"])
    if isinstance(answer, Spec):
        assert answer.product == product
        assert not any(character.isascii() and character.isalnum() for character in before + after)


@pytest.mark.parametrize("product", ["H2", "GH20", "H2000", "H300", "Hopper", "H", "200", "", "Instinct MI300", "sm_90", "gfx942"])
def test_similar_and_unknown_products_are_unknown(product: str):
    answer = unknown(resolve(BUNDLED, product, "memory_bandwidth"))
    assert str(answer) == "memory_bandwidth: UNKNOWN (gpu-wiki not found)"
    assert gap(answer).startswith(f"{answer}: ")
    assert answer.candidates


@pytest.mark.parametrize("name", ["h200-sxm5", "NVIDIA H200 SXM5", "H200 SXM", "nvidia_h200_sxm"])
def test_names_differ_in_case_separators_vendor_and_listed_aliases_only(name: str):
    assert known(resolve(BUNDLED, name, "tdp")).variant == "SXM5"


def test_a_variant_that_contradicts_the_name_is_unknown():
    unknown(resolve(BUNDLED, "H200 SXM5", "tdp", "NVL"))
    unknown(resolve(BUNDLED, "H200", "tdp", "SXM9"))
    assert known(resolve(BUNDLED, "H200 SXM5", "tdp", "SXM")).variant == "SXM5"


def test_without_a_variant_all_must_agree():
    assert known(resolve(BUNDLED, "H200", "memory_bandwidth")).variant == ""
    differ = unknown(resolve(BUNDLED, "H200", "tdp"))
    assert len(differ.candidates) == 2 and all("<gpu-wiki>/" in told for told in differ.candidates)
    silent = unknown(resolve(BUNDLED, "H200", "base_clock"))
    assert "silent" in silent.reason
    assert "PCIe" in unknown(resolve(BUNDLED, "V100", "memory_bandwidth")).reason
    assert "no page" in unknown(resolve(BUNDLED, "V100", "sm_count", "PCIe")).reason


def test_dense_is_meant_and_sparse_never_stands_in():
    assert known(resolve(BUNDLED, "H100", "bf16", "SXM5")).qualifier == "dense"
    assert known(resolve(BUNDLED, "H100", "bf16", "SXM5", "sparse")).qualifier == "sparse"
    assert known(resolve(BUNDLED, "H100", "bf16_tensor_sparse", "SXM5")).qualifier == "sparse"
    only_sparse = unknown(resolve(BUNDLED, "H200", "bf16", "SXM5"))
    assert "dense" in only_sparse.reason and "sparse" in only_sparse.candidates[0]
    assert "contradicts" in unknown(resolve(BUNDLED, "H100", "bf16_tensor_sparse", "SXM5", "dense")).reason


def test_an_unknown_metric_names_the_nearest():
    assert "memory_bandwidth" in unknown(resolve(BUNDLED, "H200", "memory_bandwith", "SXM5")).candidates


@pytest.mark.parametrize("name", ["CPU", "AMD EPYC", "AMD EPYC 7R13 Processor", "Intel(R) Xeon(R) Platinum 8481C CPU @ 2.70GHz"])
def test_a_cpu_has_no_published_figure(name: str):
    answer = unknown(resolve(BUNDLED, name, "memory_bandwidth"))
    assert "hardware/cpu.md" in answer.reason and "measures" in answer.reason


def test_a_family_never_answers_with_a_number(tmp_path: Path):
    sheet(tmp_path, "CPU", "", "tdp | 300 | W | ")
    aliases = "---\nid: product-aliases\ntype: meta\ntitle: T\n---\n| word | family |\n|---|---|\n| EPYC | CPU |\n"
    (tmp_path / "aliases.md").write_text(aliases)
    unknown(resolve(Wiki.open(tmp_path), "AMD EPYC", "tdp"))


def test_rows_that_share_metric_and_qualifier_are_ambiguous(tmp_path: Path):
    sheet(tmp_path, "X1", "A", "tdp | 300 | W | ", "tdp | 350 | W | ")
    reason = unknown(resolve(Wiki.open(tmp_path), "X1", "tdp")).reason
    assert "two rows of tdp that differ" in reason and "qualifier" not in reason


@pytest.mark.parametrize("value", ["about 5", "48 or 72", "80–141", "~3", "4.8 TB/s", "—", ""])
def test_a_cell_that_is_not_one_number_is_no_spec(tmp_path: Path, value: str):
    sheet(tmp_path, "X1", "A", f"memory_capacity | {value} | GB | ")
    unknown(resolve(Wiki.open(tmp_path), "X1", "memory_capacity"))


def test_thousands_separators_are_read(tmp_path: Path):
    sheet(tmp_path, "X1", "", "registers_per_sm | 65,536 | registers | ")
    assert known(resolve(Wiki.open(tmp_path), "X1", "registers")).value == 65536


@pytest.mark.parametrize(
    "row", ["tdp | 300 | GB | ", "memory_bandwidth | 300 | W | ", "tdp | 300 |  | ", "fp32 | 3 | GB/s | dense", "zest | 3 | W | "]
)
def test_a_number_in_a_unit_that_its_metric_cannot_have_is_no_spec(tmp_path: Path, row: str):
    sheet(tmp_path, "X1", "", row, "sm_count | 3 | SM | ")
    wiki = Wiki.open(tmp_path)
    assert known(resolve(wiki, "X1", "sm_count")).value == 3
    assert "no such row" in unknown(resolve(wiki, "X1", row.partition(" ")[0])).reason


def test_lines_that_say_the_same_in_other_units_agree(tmp_path: Path):
    sheet(tmp_path, "X1", "A", "memory_bandwidth | 4.8 | TB/s | ")
    sheet(tmp_path, "X1", "B", "memory_bandwidth | 4800 | GB/s | ")
    assert known(resolve(Wiki.open(tmp_path), "X1", "memory_bandwidth")).variant == ""


def test_one_direction_never_answers_for_the_total(tmp_path: Path):
    sheet(tmp_path, "X1", "A", "nvlink_bandwidth | 450 | GB/s | per_direction")
    sheet(tmp_path, "X2", "A", "nvlink_bandwidth | 450 | GB/s | per_direction", "nvlink_bandwidth | 900 | GB/s | total")
    wiki = Wiki.open(tmp_path)
    unknown(resolve(wiki, "X1", "nvlink"))
    assert known(resolve(wiki, "X1", "nvlink_bandwidth_per_direction")).value == 450
    assert known(resolve(wiki, "X2", "nvlink")).value == 900


def test_the_better_evidence_answers_and_the_mark_is_shown(tmp_path: Path):
    sheet(tmp_path, "X1", "A", "tdp | 300 | W | ", "sm_count | 10 | SM | ")
    path = tmp_path / "X1-A.md"
    text = path.read_text().replace("| source |\n|---|", "| source | evidence | caveat |\n|---|---|---|")
    path.write_text(
        text.replace("10 | SM |  | s |", "10 | SM |  | s | unofficial | read off a photograph |") + "| tdp | 350 | W |  | s | mention | |\n"
    )
    wiki = Wiki.open(tmp_path)
    assert known(resolve(wiki, "X1", "tdp")).value == 300
    count = known(resolve(wiki, "X1", "sm_count"))
    assert gap(count).endswith(" [unofficial]") and count.caveat == "read off a photograph" and not count.sets_targets
    assert reverify(wiki, count) and not reverify(wiki, count.model_copy(update={"evidence": "vendor"}))


def test_a_wiki_that_tells_no_variants_apart_speaks_of_the_product_only(tmp_path: Path):
    sheet(tmp_path, "H100", "", "tdp | 700 | W | ")
    wiki = Wiki.open(tmp_path)
    assert known(resolve(wiki, "H100", "tdp")).value == 700
    assert "without a variant" in unknown(resolve(wiki, "H100", "tdp", "PCIe")).reason


def figure(product: str, variant: str, metric: str, value: float, unit: str, line: int, **more: str) -> Figure:
    citation = Citation(path="specs/all.json", line=line, sha256=digest(str(line)))
    return Figure(product, variant, metric, value, unit, more.get("qualifier", ""), citation, caveat=more.get("caveat", ""))


def test_a_question_is_bound_the_same_way_whoever_read_the_figures(tmp_path: Path):
    wiki = Wiki.open(tmp_path)
    wiki.figures = Figures(
        (
            figure("h100", "SXM", "bf16_tensor", 989.4, "TFLOP/s", 1, qualifier="dense"),
            figure("h100", "SXM", "bf16_tensor", 1978.9, "TFLOP/s", 2, qualifier="sparse"),
            figure("h100", "SXM", "memory_bandwidth", 80.0, "GB", 3),
            figure("AMD MI300X", "", "tdp", 750.0, "Watts", 4),
            figure("AMD MI300X", "", "cu_count", 304.0, "CUs", 5),
            figure("AMD MI300X", "", "cu_count", 38.0, "CUs", 6),
        ),
        (Silence("AMD MI300X", "", "memory_capacity", "nobody says", Citation(path="specs/all.json", line=9, sha256=digest("9"))),),
    )
    assert gap(resolve(wiki, "NVIDIA H100 80GB HBM3", "peak_bf16")) == "bf16_tensor: 989.4 TFLOP/s <- <gpu-wiki>/specs/all.json:1"
    assert known(resolve(wiki, "H100", "bf16_sparse", "SXM5")).citation.line == 2
    assert "no such row" in unknown(resolve(wiki, "H100", "memory_bandwidth", "SXM5")).reason, "its unit is not one of a bandwidth"
    assert "PCIe" in unknown(resolve(wiki, "H100", "bf16")).reason
    assert known(resolve(wiki, "mi300x", "tdp")).unit == "Watts"
    assert len(unknown(resolve(wiki, "MI300X", "cu_count")).candidates) == 2
    assert "specs/all.json:9 says: nobody says" in unknown(resolve(wiki, "MI300X", "vram")).reason


def test_a_changed_or_moved_line_is_noticed(tmp_path: Path):
    sheet(tmp_path, "X1", "A", "tdp | 300 | W | ", "sm_count | 10 | SM | ")
    wiki = Wiki.open(tmp_path)
    spec = known(resolve(wiki, "X1", "tdp"))
    path = tmp_path / spec.citation.path
    assert reverify(wiki, spec)
    original = path.read_text()
    path.write_text(original.replace("| 300 |", "| 301 |"))
    assert not reverify(wiki, spec)
    path.write_text("\n" + original)
    assert not reverify(wiki, spec)
    path.unlink()
    assert not reverify(wiki, spec)


def test_an_altered_spec_does_not_verify():
    spec = known(resolve(BUNDLED, "H200", "memory_bandwidth", "SXM5"))
    for change in ({"value": 4.9}, {"unit": "GB/s"}, {"metric": "tdp"}, {"qualifier": "dense"}):
        assert not reverify(BUNDLED, spec.model_copy(update=change))


def test_an_empty_wiki_answers_unknown(tmp_path: Path):
    assert unknown(resolve(Wiki.open(tmp_path), "H200", "tdp")).candidates == ()


def test_a_drivers_own_name_tells_the_variant_word_for_word():
    assert known(resolve(BUNDLED, "NVIDIA H200", "tdp")).variant == "SXM5"
    assert known(resolve(BUNDLED, "NVIDIA H200 NVL", "tdp")).variant == "NVL"
    unknown(resolve(BUNDLED, "H200", "tdp"))
    unknown(resolve(BUNDLED, "nvidia h200", "tdp"))
    assert known(resolve(BUNDLED, "NVIDIA H200", "tdp", "NVL")).variant == "NVL", "a variant that is asked for goes before the name"


def test_a_part_of_a_variants_name_gives_the_candidates():
    several = unknown(resolve(BUNDLED, "A100 80GB", "tdp"))
    assert set(several.candidates) == {"A100 SXM4 80GB", "A100 PCIe 80GB"} and "name the one" in several.reason
    assert set(unknown(resolve(BUNDLED, "NVIDIA A100", "tdp", "SXM4")).candidates) == {"A100 SXM4 80GB", "A100 SXM4 40GB"}


def test_a_gpus_long_name_is_its_product_and_no_cpu():
    assert known(resolve(BUNDLED, "NVIDIA H100 Tensor Core GPU", "bf16", "SXM5")).product == "H100"
    assert "cpu" not in unknown(resolve(BUNDLED, "NVIDIA H100 Core Processor", "tdp")).reason
    assert "hardware/cpu.md" in unknown(resolve(BUNDLED, "Intel Core i9-13900K", "tdp")).reason


def test_qualifiers_are_compared_without_case():
    assert known(resolve(BUNDLED, "H100", "bf16", "SXM5", "Sparse")).qualifier == "sparse"
    assert known(resolve(BUNDLED, "H100", "bf16_sparse", "SXM5", "SPARSE")).qualifier == "sparse"


@pytest.mark.parametrize("row", ["tdp | -700 | W | ", "memory_bandwidth | 48000 | TB/s | ", "memory_capacity | 1440 | GB | "])
def test_an_impossible_number_is_a_problem_and_no_spec(tmp_path: Path, row: str):
    sheet(tmp_path, "X1", "A", row, "sm_count | 3 | SM | ")
    wiki = Wiki.open(tmp_path)
    assert "no such row" in unknown(resolve(wiki, "X1", row.partition(" ")[0])).reason
    assert any("is no possible" in str(problem) for problem in problems(wiki, wiki.pages[0]))


def test_memories_on_the_chip_count_in_powers_of_two(tmp_path: Path):
    sheet(tmp_path, "X1", "A", "l2_size | 40 | MB | ")
    sheet(tmp_path, "X1", "B", "l2_size | 40960 | KB | ")
    sheet(tmp_path, "X2", "A", "l2_size | 40 | MB | ")
    sheet(tmp_path, "X2", "B", "l2_size | 40000 | KB | ")
    wiki = Wiki.open(tmp_path)
    assert known(resolve(wiki, "X1", "l2")).variant == ""
    unknown(resolve(wiki, "X2", "l2"))


def test_a_broken_page_that_would_have_answered_is_named(tmp_path: Path):
    sheet(tmp_path, "X1", "A", "tdp | 300 | W | ")
    sheet(tmp_path, "X2", "A", "tdp | 300 | W | ")
    path = tmp_path / "X2-A.md"
    path.write_text(path.read_text().replace("title: T", "titel: T"))
    wiki = Wiki.open(tmp_path)
    assert "X2-A.md:" in unknown(resolve(wiki, "X2", "tdp")).reason
    assert "X2-A" not in unknown(resolve(wiki, "X3", "tdp")).reason


def test_a_capability_is_printed_as_a_version():
    assert gap(resolve(BUNDLED, "H100", "compute_capability", "SXM5")).startswith("compute_capability: 9.0 CC <- ")


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
    ours, theirs = known(resolve(wiki, "X1", "tdp")), known(resolve(wiki, "H100", "tdp", "SXM5"))
    assert (ours.value, theirs.value) == (300, 690)
    assert reverify(wiki, ours) and reverify(wiki, theirs)
    (tmp_path / "h100.md").write_text(FOREIGN.replace("690", "691"))
    assert reverify(wiki, ours) and not reverify(wiki, theirs)
    (tmp_path / "X1-A.md").write_text((tmp_path / "X1-A.md").read_text().replace("300", "301"))
    assert not reverify(wiki, ours)
    assert Wiki.open().own and not wiki.own


def test_what_another_layout_leaves_unsaid_sets_no_target(tmp_path: Path):
    (tmp_path / "h100.md").write_text(FOREIGN)
    wiki = Wiki.open(tmp_path)
    for metric, caveat in (("bf16", "dense or sparse is not said there"), ("nvlink", "total or per direction is not said there")):
        spec = known(resolve(wiki, "H100", metric, "SXM5"))
        assert not spec.sets_targets and spec.caveat == caveat and reverify(wiki, spec)
    assert known(resolve(wiki, "H100", "tdp", "SXM5")).sets_targets
