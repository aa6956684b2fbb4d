import re
from pathlib import Path

import pytest

from knowledge_base.pages.figures import Figure
from knowledge_base.pages.terminology import metrics
from knowledge_base.pages.wiki import Wiki
from knowledge_base.specs.lint import contradicting, lint
from tools.roofline.hardware import Citation, Evidence

GOOD = {
    "id": "x",
    "type": "method",
    "title": "X",
    "axis": "memory",
    "rules": "[known]",
    "sources": "['key: a book']",
    "last_checked": "2026-01-31",
}
TABLE = "| metric | value | unit | qualifier | source | evidence |\n|---|---|---|---|---|---|\n"


def problems(root: Path, body: str = "", **changes: str) -> list[str]:
    head = "".join(f"{key}: {value}\n" for key, value in (GOOD | changes).items() if value)
    (root / "x.md").write_text(f"---\n{head}---\n{body}")
    return [str(problem) for problem in lint(Wiki.open(root), frozenset({"known"}))]


def test_a_good_page_has_none(tmp_path: Path):
    (tmp_path / "other.txt").write_text("")
    assert problems(tmp_path, "[a](other.txt#part) [b](https://example.org) [c](#here)\n# Here\n```\n[d](nowhere.md)\n```\n") == []


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"sources": ""}, "sources"),
        ({"last_checked": "yesterday"}, "date"),
        ({"axis": ""}, "axis"),
        ({"rules": "[unheard]"}, "'unheard'"),
        ({"signature": "{x86_64: '('}"}, "regular expression"),
        ({"type": "novel"}, "type"),
    ],
)
def test_each_fault_of_the_head_is_named(tmp_path: Path, changes: dict[str, str], says: str):
    (found,) = problems(tmp_path, **changes)
    assert found.startswith("x.md:") and says in found


def test_a_dead_link_is_named_with_its_line(tmp_path: Path):
    assert problems(tmp_path, "text\n[a](gone.md)\n") == ["x.md:11: link to 'gone.md' leads nowhere"]


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ("tdp | about 3 | W |  | key, p. 1", "not one number"),
        ("tdp | 3 |  |  | key", "unit ''"),
        ("tdp | 3 | TB/s |  | key", "none of tdp; write W"),
        ("zest | 3 | W |  | key", "no metric is called 'zest'"),
        ("tdp | 3 | W", "has 3 cells"),
        ("fp32 | 3 | TFLOPS |  | key", "qualifiers dense, sparse"),
        ("tdp | 3 | W |  | key | rumour", "evidence 'rumour'"),
        ("tdp | 3 | W |  | elsewhere", "key of the page's sources"),
        ("sm_count | 1 | SM |  | key", "twice"),
    ],
)
def test_each_fault_of_a_hardware_row_is_named(tmp_path: Path, row: str, says: str):
    found = problems(tmp_path, f"{TABLE}| sm_count | 1 | SM |  | key |\n| {row} |\n", type="hardware", axis="", rules="")
    assert found and all(says in text for text in found)


def test_a_sparse_peak_that_is_not_twice_the_dense_one_needs_a_word(tmp_path: Path):
    table = TABLE + "| fp32 | 10 | TFLOPS | dense | key |\n| fp32 | {} | TFLOPS | sparse | key |\n"
    hardware = {"type": "hardware", "axis": "", "rules": ""}
    assert problems(tmp_path, table.format("20.9"), **hardware) == []
    (found,) = problems(tmp_path, table.format("15"), **hardware)
    assert "1.50 times" in found


def test_a_product_neither_repeats_nor_contradicts_a_limit_of_its_capability(tmp_path: Path):
    limits = TABLE.replace("| metric", "| cc | metric").replace("|---|", "|---|---|", 1) + "| 9.0 | warp_size | 32 | threads |  | key |\n"
    head = "---\nid: limits\ntype: hardware\ntitle: L\nsources: ['key: a book']\nlast_checked: 2026-01-31\n---\n"
    (tmp_path / "limits.md").write_text(head + limits)
    own = TABLE + "| compute_capability | 9.0 | CC |  | key |\n| warp_size | {} | threads |  | key |\n"
    hardware = {"type": "hardware", "axis": "", "rules": "", "applies_to": "[X1, A]"}
    (repeats,) = problems(tmp_path, own.format("32"), **hardware)
    (contradicts,) = problems(tmp_path, own.format("64"), **hardware)
    assert "repeats <gpu-wiki>/limits.md:10" in repeats and "contradicts" in contradicts


def test_an_id_is_the_name_of_its_file(tmp_path: Path):
    assert problems(tmp_path, id="y") == ["x.md:1: id 'y' is not the file's name, 'x'; rename one of them"]


def test_an_id_that_two_pages_bear_is_named(tmp_path: Path):
    (tmp_path / "a").mkdir()
    problems(tmp_path / "a")
    assert problems(tmp_path) == ["x.md:1: id 'x' is already that of a/x.md"]


@pytest.mark.parametrize(
    ("link", "says"),
    [
        ("[a](#two-words-and-code)", None),
        ("[a](#here-1)", None),
        ("[a](x.md#here)", None),
        ("`[a](nowhere.md)`", None),
        ("[a](#gone)", "no heading there has the anchor 'gone'"),
        ("[a](x.md#here-2)", "no heading there has the anchor 'here-2'"),
        ("[a](#comment)", "'comment'"),
    ],
)
def test_an_anchor_must_be_that_of_a_heading(tmp_path: Path, link: str, says: str | None):
    body = f"# Here\n## Two words, and `code`\n## Here\n```\n# comment\n```\n{link}\n"
    found = problems(tmp_path, body)
    assert found == [] if says is None else says in found[0] and found[0].startswith("x.md:16: ")


def sheet(root: Path, name: str, row: str) -> None:
    head = "".join(f"{key}: {value}\n" for key, value in (GOOD | {"id": name, "type": "hardware"}).items() if key not in ("axis", "rules"))
    (root / f"{name}.md").write_text(f"---\n{head}applies_to: [P100, X]\n---\n{TABLE}{row}\n")


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ("| memory_bandwidth | 2000 | GB/s |  | key |", None),
        ("| fp32 | 9 | TFLOPS | dense | key |", None),
        ("| memory_bandwidth | 3 | TB/s |  | key |", "memory_bandwidth of P100 X is 3 TB/s, which contradicts 2 TB/s <- <gpu-wiki>/a.md:"),
    ],
)
def test_pages_that_contradict_each_other_are_named(tmp_path: Path, row: str, says: str | None):
    sheet(tmp_path, "a", "| memory_bandwidth | 2 | TB/s |  | key |")
    sheet(tmp_path, "b", row)
    found = [str(problem) for problem in lint(Wiki.open(tmp_path), frozenset({"known"})) if "applies_to" not in str(problem)]
    assert found == [] if says is None else len(found) == 1 and found[0].startswith("b.md:") and says in found[0]


def test_two_pages_about_one_product_are_both_named(tmp_path: Path):
    sheet(tmp_path, "a", "| memory_bandwidth | 2 | TB/s |  | key |")
    sheet(tmp_path, "b", "| fp32 | 9 | TFLOPS | dense | key |")
    (found,) = [str(problem) for problem in lint(Wiki.open(tmp_path), frozenset({"known"}))]
    assert found.startswith("b.md:1: applies_to [P100, X] is that of a.md")
    (tmp_path / "b.md").write_text((tmp_path / "b.md").read_text().replace("[P100, X]", "[P100, Y]"))
    assert lint(Wiki.open(tmp_path), frozenset({"known"})) == ()


def test_a_caveat_that_names_the_conflict_or_other_evidence_is_no_contradiction():
    def figure(page: str, value: float, evidence: Evidence = "vendor", caveat: str = "") -> Figure:
        place = Citation(path=page, line=1, sha256="0" * 64)
        return Figure("P100", "X", "tdp", value, "W", "", place, evidence=evidence, caveat=caveat)

    known = metrics(Wiki.open())
    assert list(contradicting((figure("a.md", 300.0), figure("b.md", 250.0)), known))
    assert not list(contradicting((figure("a.md", 300.0), figure("b.md", 250.0, caveat="300 elsewhere: see source-conflicts")), known))
    assert list(contradicting((figure("a.md", 300.0), figure("b.md", 250.0, caveat="Infinity Cache")), known))
    assert not list(contradicting((figure("a.md", 300.0), figure("b.md", 250.0, evidence="measured")), known))


def test_a_page_that_cannot_be_used_costs_only_itself(tmp_path: Path):
    (tmp_path / "latin.md").write_bytes("---\nid: latin\ntitle: größe\n---\n".encode("latin-1"))
    (tmp_path / "open.md").write_text("---\nid: open\n")
    (tmp_path / "broken.md").write_text("---\nid: broken\ntype: [\n---\n")
    found = problems(tmp_path)
    assert [text.partition(":")[0] for text in found] == ["broken.md", "latin.md", "open.md"]
    assert "utf-8" in found[1] and re.match(r"broken\.md:[34]: ", found[0])
    assert Wiki.open(tmp_path).page("x")
