"""Every row of every hardware page answers its own question, and nobody else's."""

import re
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from knowledge_base.artifacts import Page
from knowledge_base.pages import names
from knowledge_base.pages.wiki import BUNDLED_WIKI, TableRow, Wiki, table_rows
from knowledge_base.specs import sheets
from knowledge_base.specs.lookup import answer_line, figures_of, resolve_spec, reverify
from tools.analysis import rules
from tools.profilers import ncu, ncu_reports
from tools.roofline.hardware import Spec

WIKI = Wiki.open()
KNOWN = names.metrics_of(WIKI)
PAGES = [page for page in WIKI.pages if sheets.product_of(page)]
(LIMITS,) = [page for page in WIKI.pages if page.head.id == "compute-capability-limits"]
QUESTIONS = sorted({(figure.metric, figure.qualifier) for figure in figures_of(WIKI).figures})
PRODUCTS = """
V100 SXM2, T4 PCIe, A10 PCIe, L4 PCIe, L40S PCIe, RTX 3090, RTX 4090, RTX 5090, A100 SXM4 40GB,
A100 SXM4 80GB, A100 PCIe 40GB, A100 PCIe 80GB, H100 SXM5, H100 PCIe, H100 NVL, H200 SXM5, H200 NVL,
H20 96GB, H800, GH200 96GB HBM3, B200 HGX, GB200 NVL72, B300 HGX, GB300, MI250X OAM, MI250 OAM, MI300X OAM,
MI325X OAM, MI308X, MI355X OAM
"""


def name(page: Page) -> names.ProductName:
    found = sheets.product_of(page)
    assert found is not None
    return found


def asked() -> Iterator[tuple[Page, TableRow, TableRow | None]]:
    """Page of a product and one of its rows; or a row of the limits of its capability, then the row that states the
    capability."""
    for page in PAGES:
        for own in table_rows(page, sheets.COLUMNS):
            yield page, own, None
            if own.cells["metric"] == sheets.CAPABILITY:
                yield from (
                    (page, row, own)
                    for row in table_rows(LIMITS, sheets.LIMIT_COLUMNS)
                    if row.cells["cc"] == own.cells["value"]
                )


def test_there_is_a_page_for_every_product():
    assert {str(name(page)) for page in PAGES if page.head.id != "cpu"} == set(
        PRODUCTS.strip().replace(",\n", ", ").split(", ")
    )
    counts = Counter(own is None for _, _, own in asked())
    assert counts[True] > 350 and counts[False] > 200


@pytest.mark.slow
def test_each_row_and_each_limit_of_a_capability_answers_its_own_question():
    for page, row, own in asked():
        cells, evidence = row.cells, (own or row).cells["evidence"]
        spec = resolve_spec(WIKI, name(page).product, cells["metric"], name(page).variant, cells["qualifier"])
        assert isinstance(spec, Spec), answer_line(spec)
        at = (
            f"<gpu-wiki>/{LIMITS.path}:{row.line} via <gpu-wiki>/{page.path}:{own.line}"
            if own
            else f"<gpu-wiki>/{page.path}:{row.line}"
        )
        number = cells["value"] if spec.unit == "CC" else cells["value"].removesuffix(".0")
        assert answer_line(spec) == f"{spec.metric}: {number} {spec.unit} <- {at}{' [unofficial]' if evidence else ''}"
        assert (spec.metric, spec.value, spec.unit) == (cells["metric"], float(cells["value"]), cells["unit"])
        assert (spec.product, spec.variant, spec.qualifier) == (*name(page), cells["qualifier"])
        assert spec.evidence == (evidence or "vendor") and (own or spec.caveat == cells["caveat"])
        assert reverify(WIKI, spec)


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=[page.head.id for page in PAGES])
def test_no_product_is_answered_by_anothers_line(page: Page):
    assert not [figure for figure in figures_of(WIKI).figures if figure.citation.path.startswith("meta/")], (
        "prose about conflicts"
    )
    stated = {
        row.cells["value"] for row in table_rows(page, sheets.COLUMNS) if row.cells["metric"] == sheets.CAPABILITY
    }
    lines = {row.line for row in table_rows(LIMITS, sheets.LIMIT_COLUMNS) if row.cells["cc"] in stated}
    for metric, qualifier in QUESTIONS:
        answer = resolve_spec(WIKI, name(page).product, metric, name(page).variant, qualifier)
        if isinstance(answer, Spec):
            assert (answer.via or answer.citation).path == page.path, (metric, qualifier)
            assert answer.via is None or (answer.citation.path == LIMITS.path and answer.citation.line in lines)


def test_a_changed_digit_is_noticed_whichever_line_it_stands_in_and_so_is_a_moved_line_or_an_altered_spec(
    tmp_path: Path,
):
    root = tmp_path / "wiki"
    shutil.copytree(BUNDLED_WIKI, root)
    wiki = Wiki.open(root, types=("hardware", "meta"))
    own = resolve_spec(wiki, "H200", "memory_bandwidth", "SXM5")
    limit = resolve_spec(wiki, "H200", "max_shared_memory_per_block", "SXM5")
    assert isinstance(own, Spec) and isinstance(limit, Spec) and limit.via is not None
    assert reverify(wiki, own) and reverify(wiki, limit)
    page, limits = root / own.citation.path, root / limit.citation.path
    texts = page.read_text(), limits.read_text()

    for file, text, old, new, holds in (
        (page, texts[0], "| 4.8 | TB/s |", "| 4.9 | TB/s |", (False, True)),
        (page, texts[0], "| compute_capability | 9.0 |", "| compute_capability | 8.9 |", (True, False)),
        (page, texts[0], "applies_to: [H200, SXM5]", "applies_to: [H201, SXM5]", (False, False)),
        (page, texts[0], "| metric | value |", "| metric | guess |", (False, False)),
        (page, texts[0], "---\nid", "---\n\nid", (False, False)),
        (limits, texts[1], "max_shared_memory_per_block | 227 |", "max_shared_memory_per_block | 228 |", (True, False)),
    ):
        assert old in text
        file.write_text(text.replace(old, new))
        assert (reverify(wiki, own), reverify(wiki, limit)) == holds, new
        file.write_text(text)
    assert reverify(wiki, own) and reverify(wiki, limit)
    for change in ({"value": 4.9}, {"unit": "kW"}, {"metric": "sm_count"}, {"qualifier": "dense"}):
        assert not reverify(wiki, own.model_copy(update=change))
    page.unlink()
    assert not reverify(wiki, own) and not reverify(wiki, limit)


def test_a_figure_of_a_module_of_two_devices_says_so():
    module = resolve_spec(WIKI, "MI250X", "memory_bandwidth", "OAM")
    assert isinstance(module, Spec) and "module" in module.caveat


@pytest.mark.parametrize(
    ("reported", "page"), sorted((r, str(n)) for r, n in names.product_names_of(WIKI).reported.items())
)
def test_a_name_that_a_driver_reports_leads_to_one_page_or_to_none(reported: str, page: str):
    answer = resolve_spec(WIKI, reported, "compute_capability")
    without = [product for product in ("GCD", "141GB") if product in page]
    if isinstance(answer, Spec):
        assert str(names.ProductName(answer.product, answer.variant)) == page and not without
    else:
        assert without or reported.startswith("AMD"), answer.reason


@pytest.mark.parametrize("metric", sorted(KNOWN.kinds))
def test_every_metric_has_units_and_every_alias_a_metric(metric: str):
    assert KNOWN.kinds[metric].units
    assert {target for target, _ in KNOWN.aliases.values()} <= KNOWN.kinds.keys()
    for qualifier in KNOWN.kinds[metric].qualifiers:
        assert KNOWN.canonical(f"{metric}_{qualifier}") == (metric, qualifier)


def test_the_glossary_of_counters_tells_of_each_that_is_kept_and_names_its_rules():
    page = WIKI.page("ncu-metrics")
    assert page is not None
    told = {
        cells[0].strip("`"): {rule.strip() for rule in cells[3].split(",") if rule.strip()}
        for line in page.body.splitlines()
        if line.startswith("| `") and len(cells := [cell.strip() for cell in line.strip("|").split("|")]) == 4
    }
    assert set(ncu.METRICS) - {ncu_reports.DURATION_METRIC} <= told.keys()
    known = {}
    for rule in rules.load_rules():
        for condition in rule.when:
            known.setdefault(condition.metric, set()).add(rule.id)
    stall, room = re.escape(ncu.STALL_METRIC).replace(r"\{\}", r"(\w+)"), r"launch__occupancy_limit_(\w+)"
    for counter, named in told.items():
        worked = counter
        for pattern, share in ((stall, "ncu.stall_share.{}"), (room, "ncu.occupancy_limited_by.{}")):
            if match := re.fullmatch(pattern, counter):
                worked = share.format(match[1])
        assert named == known.get(counter, set()) | known.get(worked, set()), counter
    counted = {metric for metric in known if metric.startswith("ncu.") or "__" in metric}
    assert counted <= told.keys() | {
        m for m in counted if m.startswith(("ncu.stall_share.", "ncu.occupancy_limited_by."))
    }
