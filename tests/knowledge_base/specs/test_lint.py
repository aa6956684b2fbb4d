from pathlib import Path

import pytest

from knowledge_base.pages.figures import HardwareFigure
from knowledge_base.pages.names import metrics_of
from knowledge_base.pages.wiki import Wiki
from knowledge_base.specs.lint import contradictions, lint_wiki
from tools.roofline.hardware import Citation, SpecEvidence

GOOD = {"id": "x", "type": "method", "title": "X", "axis": "memory", "rules": "[known]"}
GOOD |= {"sources": "['key: a book']", "last_checked": "2026-01-31"}
HARDWARE = {"type": "hardware", "axis": "", "rules": ""}
TABLE = "| metric | value | unit | qualifier | source | evidence |\n|---|---|---|---|---|---|\n"


def written(root: Path, name: str, body: str, **changes: str) -> None:
    head = "".join(f"{key}: {value}\n" for key, value in (GOOD | {"id": name} | changes).items() if value)
    (root / f"{name}.md").write_text(f"---\n{head}---\n{body}")


def problems(root: Path, body: str = "", **changes: str) -> list[str]:
    """Of the page x with `body`, and of all that stands beside it."""
    written(root, "x", body, **changes)
    return [str(problem) for problem in lint_wiki(Wiki.open(root), frozenset({"known"}))]


def test_a_good_page_has_none(tmp_path: Path):
    (tmp_path / "other.txt").write_text("")
    assert (
        problems(
            tmp_path, "[a](other.txt#part) [b](https://example.org) [c](#here)\n# Here\n```\n[d](nowhere.md)\n```\n"
        )
        == []
    )


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"sources": ""}, "sources"),
        ({"last_checked": "yesterday"}, "date"),
        ({"axis": ""}, "axis"),
        ({"rules": "[unheard]"}, "'unheard'"),
        ({"signature": "{x86_64: '('}"}, "regular expression"),
        ({"type": "novel"}, "type"),
        ({"id": "y"}, "id 'y' is not the file's name, 'x'; rename one of them"),
    ],
)
def test_each_fault_of_the_head_is_named(tmp_path: Path, changes: dict[str, str], says: str):
    (found,) = problems(tmp_path, **changes)
    assert found.startswith("x.md:") and says in found


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ("tdp | about 3 | W |  | key, p. 1", "not one number"),
        ("tdp | 3 |  |  | key", "unit ''"),
        ("tdp | -700 | W |  | key", "is no possible"),
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
    found = problems(tmp_path, f"{TABLE}| sm_count | 1 | SM |  | key |\n| {row} |\n", **HARDWARE)
    assert found and all(says in text for text in found)


def test_a_sparse_peak_that_is_not_twice_the_dense_one_needs_a_word(tmp_path: Path):
    table = TABLE + "| fp32 | 10 | TFLOPS | dense | key |\n| fp32 | {} | TFLOPS | sparse | key |\n"
    assert problems(tmp_path, table.format("20.9"), **HARDWARE) == []
    (found,) = problems(tmp_path, table.format("15"), **HARDWARE)
    assert "1.50 times" in found


def test_a_product_neither_repeats_nor_contradicts_a_limit_of_its_capability(tmp_path: Path):
    limits = (
        TABLE.replace("| metric", "| cc | metric").replace("|---|", "|---|---|", 1)
        + "| 9.0 | warp_size | 32 | threads |  | key |\n"
    )
    written(tmp_path, "limits", limits, **HARDWARE)
    own = TABLE + "| compute_capability | 9.0 | CC |  | key |\n| warp_size | {} | threads |  | key |\n"
    (repeats,), (contradicts,) = (
        problems(tmp_path, own.format(size), **HARDWARE, applies_to="[X1, A]") for size in ("32", "64")
    )
    assert "repeats 32 threads <- <gpu-wiki>/limits.md:10" in repeats and "contradicts" in contradicts


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
        ("[a](gone.md)", "link to 'gone.md' leads nowhere"),
    ],
)
def test_an_anchor_must_be_that_of_a_heading(tmp_path: Path, link: str, says: str | None):
    body = f"# Here\n## Two words, and `code`\n## Here\n```\n# comment\n```\n{link}\n"
    found = problems(tmp_path, body)
    assert found == [] if says is None else says in found[0] and found[0].startswith("x.md:16: ")


@pytest.mark.parametrize(
    ("row", "variant", "says"),
    [
        ("| memory_bandwidth | 2000 | GB/s |  | key |", "X", ["x.md:1: applies_to [P100, X] is that of a.md"]),
        ("| fp32 | 9 | TFLOPS | dense | key |", "Y", []),
        (
            "| memory_bandwidth | 3 | TB/s |  | key |",
            "X",
            [
                "memory_bandwidth of P100 X is 3 TB/s, which contradicts 2 TB/s <- <gpu-wiki>/a.md:",
                "applies_to [P100, X]",
            ],
        ),
    ],
)
def test_pages_about_one_product_and_their_contradictions_are_named(
    tmp_path: Path, row: str, variant: str, says: list[str]
):
    written(tmp_path, "a", f"{TABLE}| memory_bandwidth | 2 | TB/s |  | key |\n", **HARDWARE, applies_to="[P100, X]")
    found = problems(tmp_path, f"{TABLE}{row}\n", **HARDWARE, applies_to=f"[P100, {variant}]")
    assert len(found) == len(says) and all(text.startswith("x.md:") for text in found)
    assert all(any(part in text for text in found) for part in says)


def test_a_caveat_that_names_the_conflict_or_other_evidence_is_no_contradiction():
    def contradicts(caveat: str = "", evidence: SpecEvidence = "vendor") -> bool:
        place, known = Citation(path="a.md", line=1, sha256="0" * 64), metrics_of(Wiki.open())
        other = HardwareFigure(
            "P100",
            "X",
            "tdp",
            250.0,
            "W",
            "",
            place.model_copy(update={"path": "b.md"}),
            evidence=evidence,
            caveat=caveat,
        )
        return bool(list(contradictions((HardwareFigure("P100", "X", "tdp", 300.0, "W", "", place), other), known)))

    assert contradicts() and contradicts("Infinity Cache")
    assert not contradicts("300 elsewhere: see source-conflicts") and not contradicts(evidence="measured")
