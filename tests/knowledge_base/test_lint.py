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
TABLE = "| metric | value | unit | qualifier | source |\n|---|---|---|---|---|\n"


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
        ("tdp | 3 |  |  | key", "no unit"),
        ("tdp | 3 | W |  | elsewhere", "key of the page's sources"),
        ("sm_count | 1 | SM |  | key", "twice"),
    ],
)
def test_each_fault_of_a_hardware_row_is_named(tmp_path: Path, row: str, says: str):
    found = problems(tmp_path, f"{TABLE}| sm_count | 1 | SM |  | key |\n| {row} |\n", type="hardware", axis="", rules="")
    assert found and all(says in text for text in found)
