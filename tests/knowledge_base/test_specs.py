from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge_base.artifacts import Page
from knowledge_base.specs import COLUMNS, gap, resolve, reverify
from knowledge_base.wiki import Row, Wiki, rows
from tools.artifacts import Spec, UnknownSpec

BUNDLED = Wiki.open()
ROWS: list[tuple[Page, Row]] = [(page, row) for page in BUNDLED.pages if page.head.type == "hardware" for row in rows(page, COLUMNS)]


def known(answer: Spec | UnknownSpec) -> Spec:
    assert isinstance(answer, Spec), answer
    return answer


def unknown(answer: Spec | UnknownSpec) -> UnknownSpec:
    assert isinstance(answer, UnknownSpec), answer
    return answer


def ask(page: Page, row: Row) -> Spec | UnknownSpec:
    product, variant = page.head.applies_to
    return resolve(BUNDLED, product, row.cells["metric"], variant, row.cells["qualifier"])


def sheet(root: Path, product: str, variant: str, *table: str) -> None:
    head = f"---\nid: {product}-{variant}\ntype: hardware\ntitle: T\napplies_to: [{product}, '{variant}']\n---\n"
    body = "| metric | value | unit | qualifier | source |\n|---|---|---|---|---|\n" + "".join(f"| {row} | s |\n" for row in table)
    (root / f"{product}-{variant}.md").write_text(head + body)


def test_there_are_rows_to_resolve():
    assert len(ROWS) > 80


@pytest.mark.parametrize(("page", "row"), ROWS, ids=[f"{page.head.id}:{row.line}" for page, row in ROWS])
def test_each_row_of_each_hardware_page_resolves_to_itself(page: Page, row: Row):
    spec = known(ask(page, row))
    assert (spec.citation.path, spec.citation.line) == (page.path, row.line)
    assert (spec.metric, spec.unit, spec.qualifier) == (row.cells["metric"], row.cells["unit"], row.cells["qualifier"])
    assert spec.value == float(row.cells["value"])
    assert (spec.product, spec.variant) == page.head.applies_to
    assert reverify(BUNDLED, spec)
    printed = BUNDLED.line(spec.citation.path, spec.citation.line)
    assert printed is not None
    assert gap(spec) == f"{spec.metric}: {row.cells['value'].removesuffix('.0')} {spec.unit} <- <gpu-wiki>/{page.path}:{row.line}"


@settings(deadline=None)
@given(st.sampled_from(ROWS), st.text(max_size=4), st.text(max_size=4))
def test_no_other_product_gets_a_row(item: tuple[Page, Row], before: str, after: str):
    page, row = item
    product, variant = page.head.applies_to
    answer = resolve(BUNDLED, before + product + after, row.cells["metric"], variant, row.cells["qualifier"])
    if isinstance(answer, Spec):
        assert answer.product == product
        assert not any(character.isascii() and character.isalnum() for character in before + after)


@pytest.mark.parametrize("product", ["H20", "GH200", "H2000", "H800", "Hopper", "H", "200", "", "Instinct MI300X"])
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
    assert "PCIe" in unknown(resolve(BUNDLED, "H100", "memory_bandwidth")).reason
    assert "no page" in unknown(resolve(BUNDLED, "A100", "sm_count", "SXM4 40GB")).reason


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
    assert "several rows" in unknown(resolve(Wiki.open(tmp_path), "X1", "tdp")).reason


@pytest.mark.parametrize("value", ["about 5", "48 or 72", "80–141", "~3", "4.8 TB/s", "—", ""])
def test_a_cell_that_is_not_one_number_is_no_spec(tmp_path: Path, value: str):
    sheet(tmp_path, "X1", "A", f"memory_capacity | {value} | GB | ")
    unknown(resolve(Wiki.open(tmp_path), "X1", "memory_capacity"))


def test_thousands_separators_are_read(tmp_path: Path):
    sheet(tmp_path, "X1", "", "registers | 65,536 | registers | ")
    assert known(resolve(Wiki.open(tmp_path), "X1", "registers")).value == 65536


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
