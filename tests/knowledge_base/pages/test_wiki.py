import os
from pathlib import Path

import pytest

from knowledge_base.pages.wiki import MAX_PAGE_BYTES, Wiki, section_text, table_rows
from knowledge_base.specs.lookup import resolve_spec
from tools.artifacts import Quantity, digest
from tools.errors import SettingsError

BUNDLED = Wiki.open()
HEAD = "---\nid: {id}\ntype: {type}\ntitle: A page\n{more}---\n"


def write(root: Path, name: str, text: str) -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def page(root: Path, identity: str, *, type: str = "method", more: str = "", body: str = "# A page\n") -> Path:
    return write(root, f"{identity}.md", HEAD.format(id=identity, type=type, more=more) + body)


def test_a_path_that_is_no_folder_names_the_setting(tmp_path: Path):
    (tmp_path / "a-file.md").write_text("")
    for missing in ("nowhere", "a-file.md"):
        with pytest.raises(SettingsError, match="gpu_wiki_path"):
            Wiki.open(tmp_path / missing)


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("# no front matter\n", 1, "no front matter"),
        ("---\nid: x\n# never closed\n", 1, "not closed"),
        ("---\nid: [x\n---\n", 3, "not YAML"),
        ("---\njust words\n---\n", 2, "key: value"),
        ("---\nid: x\ntype: novel\ntitle: X\n---\n", 3, "type"),
        ("---\nid: x\ntype: meta\ntitle: X\nprioritty: 3\n---\n", 5, "prioritty"),
        ("---\nid: good\ntype: meta\ntitle: X\n---\n", 1, "already"),
    ],
)
def test_a_malformed_page_is_listed_and_the_rest_works(tmp_path: Path, text: str, line: int, says: str):
    page(tmp_path, "good")
    write(tmp_path, "x/worse.md", text)
    wiki = Wiki.open(tmp_path)
    assert [p.head.id for p in wiki.pages] == ["good"]
    (problem,) = map(str, wiki.problems)
    assert problem.startswith(f"x/worse.md:{line}: ") and says in problem


def test_methods_match_by_rule_or_trigger_and_come_by_priority(tmp_path: Path):
    trigger = "triggers: [{tool: objdump, metric: objdump.gather, op: '>', value: 0}]\n"
    page(tmp_path, "low", more="priority: 10\nrules: [r]\nlanguages: [cpp]\n")
    page(tmp_path, "high", more=f"priority: 90\n{trigger}languages: [cpp]\n")
    page(tmp_path, "any", more="priority: 50\nrules: [r, s]\n")
    page(tmp_path, "other", more="rules: [r]\nlanguages: [triton]\n")
    page(tmp_path, "device", more="rules: [r]\npriority: 70\nlanguages: [cuda]\napplies_to: [sm_100]\n")
    page(tmp_path, "advice", type="skill", more="rules: [r]\n")
    wiki = Wiki.open(tmp_path)

    for language, rules, gathers, found in (
        ("cpp", ["r"], None, ["any", "low"]),
        ("cpp", ["r"], 2, ["high", "any", "low"]),
        ("cpp", [], 0, []),
        ("triton", ["s"], None, ["any"]),
        ("cutlass", ["r"], None, ["device", "any"]),
    ):
        measured = {} if gathers is None else {"objdump.gather": Quantity(value=gathers)}
        assert [p.head.id for p in wiki.methods(language, rules, measured)] == found
    assert [p.head.id for p in wiki.methods("cuda", ["r"], {}, architecture="sm_90")] == ["any"], (
        "a page of another architecture alone"
    )


def test_passages_are_cut_at_headings_but_not_inside_code(tmp_path: Path):
    body = "\nbefore\n# A page\nintro\n\n## One\n```cpp\n# not a heading\n```\n\n### Deep\nx\n## Empty\n\n## Two\ny\n"
    path = page(tmp_path, "p", body=body)
    lines = path.read_text().splitlines()
    found = Wiki.open(tmp_path).passages()
    assert [p.heading for p in found] == [
        ("A page",),
        ("A page",),
        ("A page", "One"),
        ("A page", "One", "Deep"),
        ("A page", "Two"),
    ]
    for passage in found:
        assert passage.text.splitlines() == lines[passage.first_line - 1 : passage.last_line]
        assert (passage.citation.line, passage.citation.sha256) == (
            passage.first_line,
            digest(lines[passage.first_line - 1]),
        )
    assert "# not a heading" in found[2].text


def test_every_bundled_passage_cites_its_own_first_line():
    assert all(
        BUNDLED.confirms(passage.citation) and passage.citation.line == passage.first_line
        for passage in BUNDLED.passages()
    )


def test_line_stays_inside_the_wiki_and_the_file(tmp_path: Path):
    path = page(tmp_path / "w", "p")
    (tmp_path / "secret.md").write_text("secret\n")
    wiki = Wiki.open(tmp_path / "w")
    assert wiki.line("p.md", 2) == "id: p"
    assert {wiki.line(*place) for place in (("p.md", 0), ("p.md", 999), ("gone.md", 1), ("../secret.md", 1))} == {None}
    path.write_text("changed\n")
    assert wiki.line("p.md", 1) == "changed"


def test_rows_take_only_tables_with_the_asked_header(tmp_path: Path):
    table = "| Alias | Metric |\n|---|:-:|\n| a | b |\n\n| other | head |\n|---|---|\n| c | d |\n"
    page(tmp_path, "p", body=table)
    wiki = Wiki.open(tmp_path)
    (row,) = table_rows(wiki.pages[0], ("alias", "metric"))
    assert row.cells == {"alias": "a", "metric": "b"}
    assert wiki.line("p.md", row.line) == "| a | b |"


def test_only_the_pages_asked_for_are_read(tmp_path: Path):
    page(tmp_path, "m")
    wiki = Wiki.open(tmp_path, types=("hardware",))
    assert not wiki.pages and not wiki.problems
    assert {page.head.type for page in Wiki.open(types=("hardware", "meta")).pages} == {"hardware", "meta"}


def test_files_that_lead_out_or_never_end_or_are_no_pages_are_problems(tmp_path: Path):
    root = tmp_path / "w"
    page(root, "good")
    secret = write(tmp_path, "secret.md", HEAD.format(id="secret", type="meta", title="S", more="") + "secret\n")
    (root / "leaves.md").symlink_to(secret)
    (root / "stays.md").symlink_to(root / "good.md")
    os.mkfifo(root / "pipe.md")
    (root / "zero.md").symlink_to("/dev/zero")
    (root / "big.md").write_bytes(b"x" * (MAX_PAGE_BYTES + 1))
    (root / "bytes.md").write_bytes(b"---\nid: \xff\n")
    wiki = Wiki.open(root)
    said = {problem.path: problem.text for problem in wiki.problems}
    assert [p.head.id for p in wiki.pages] == ["good"]
    assert "leads out of the wiki" in said["leaves.md"] and "leads out" in said["zero.md"]
    assert "no regular file" in said["pipe.md"] and "bytes" in said["big.md"] and "already" in said["stays.md"]
    assert "cannot be read" in said["bytes.md"]
    assert all(wiki.line(name, 1) is None for name in ("leaves.md", "pipe.md", "zero.md", "big.md"))
    assert wiki.line("stays.md", 2) == "id: good"
    assert resolve_spec(wiki, "H100", "tdp").metric == "tdp", "the readers of other layouts open them no more"


def test_lines_end_where_editors_end_them_and_a_byte_order_mark_is_no_text(tmp_path: Path):
    text = (
        "\ufeff---\r\nid: p\r\ntype: meta\r\ntitle: T\r\n---\r\na\fb\u2028c\rd\r\n| alias | metric "
        "|\r\n|---|---|\r\n| x | y |\r\n"
    )
    (tmp_path / "p.md").write_bytes(text.encode())
    wiki = Wiki.open(tmp_path)
    assert wiki.problems == ()
    (row,) = table_rows(wiki.pages[0], ("alias", "metric"))
    assert row.line == 9 and wiki.line("p.md", 9) == "| x | y |" and wiki.line("p.md", 6) == "a\fb\u2028c\rd"
    (passage,) = wiki.passages()
    assert passage.citation.sha256 == digest("a\fb\u2028c\rd")


def test_methods_that_fit_the_operator_come_first_and_those_that_show_on_another_architecture_last():
    def order(operator, architecture=""):
        return [
            page.head.id for page in BUNDLED.methods("triton", ["launch_settings_open"], {}, operator, architecture)
        ]

    assert (
        order("softmax")[:2] == ["triton-single-pass", "triton-online-softmax"] and order("matmul")[0] == "triton-tiles"
    )
    assert (
        order("matmul", "sm_90").index("triton-pipelined-loop")
        < 3
        < order("matmul", "sm_75").index("triton-pipelined-loop")
    )
    assert {
        page.head.id for page in (BUNDLED.operator(name) for name in ("conv", "layer_norm", "mean_mul")) if page
    } == {*("convolution", "normalisation", "reduction")}
    assert BUNDLED.operator("") is None and BUNDLED.operator("frobnicate") is None
    headings = {
        device: {one.heading[-1] for one in BUNDLED.operator_passages("matmul", device)} for device in ("cpu", "cuda")
    }
    assert headings["cuda"] ^ headings["cpu"] == {
        "What usually helps, in order (GPU)",
        "What usually helps, in order (CPU)",
    }


def test_skills_answer_the_rules_that_fired_in_their_order():
    found = BUNDLED.skills("triton", ["narrow_loads", "launch_settings_open", "narrow_loads", "no_such_rule"])
    assert [page.head.id for page in found] == ["gpu-narrow-loads", "gpu-launch-settings-open"]
    assert BUNDLED.skills("cpp", ["narrow_loads"]) == ()
    assert len(BUNDLED.skills("triton", [rule for page in BUNDLED.pages for rule in page.head.rules])) == 5


def test_a_section_of_a_page_ends_at_the_next_heading():
    body = "# T\n## Signal\n\none\n### deeper\ntwo\n\n## Causes\nthree\n"
    assert (
        section_text(body, "Signal") == "one\n### deeper\ntwo"
        and section_text(body, "Causes") == "three"
        and section_text(body, "Sig") == ""
    )
