from pathlib import Path

import pytest

from knowledge_base.lint import lint
from knowledge_base.wiki import Wiki

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
    assert problems(tmp_path, "[a](other.txt#part) [b](https://example.org) [c](#here)\n```\n[d](nowhere.md)\n```\n") == []


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
