"""Words and vectors over wiki, outcomes and reference projects: what is found, filtered out, told apart, and said
where nothing is."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks import retrieval
from knowledge_base.experience.log import Experience
from knowledge_base.pages.wiki import Wiki, passages_of
from knowledge_base.search.code_chunks import MAX_PIECE_LINES, ReferenceProjects
from knowledge_base.search.index import Index
from knowledge_base.search.search_entries import question_phrases
from knowledge_base.search.synonyms import Glossary
from knowledge_base.search.vector_index import VectorIndex
from tests.knowledge_base.experience.test_log import attempt
from tests.knowledge_base.search.test_vector_index import Letters, written
from tests.support import run_captured
from tools.artifacts import UNBOUNDED_RATIO, Interval, digest
from tools.errors import SettingsError

WIKI = Wiki.open()
SMOKE = Path(__file__).with_name("smoke_questions.jsonl")

WORDS = Index(WIKI)


def test_hits_are_ranked_cited_and_explained() -> None:
    hits = WORDS.search("softmax exponential zzzunknown", 5)
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert hits[0].score > 0
    for hit in hits:
        words, _, synonyms = hit.why.partition("; ")
        assert set(words.split(", ")) <= {"softmax", "exponential"} and words
        assert not synonyms or synonyms.startswith("synonyms: ")
        assert hit.citation.sha256 == digest(hit.text.splitlines()[0])


@pytest.mark.parametrize(
    ("query", "filters", "says"),
    [
        ("", {}, "no word"),
        ("how do I make it?", {}, "no word"),
        ("zzzunknown", {}, "has none of the words"),
        ("GOMP_parallel", {"kind": "hardware"}, "but none with kind=hardware"),
    ],
)
def test_nothing_found_is_empty_and_says_why(query: str, filters: dict[str, str], says: str) -> None:
    assert WORDS.search(query, **filters) == ()
    assert says in WORDS.explain(query, **filters)


def test_an_empty_wiki_says_so(tmp_path: Path) -> None:
    index = Index(Wiki.open(tmp_path))
    assert index.search("softmax") == () and index.explain("softmax") == "the wiki has no pages"


@settings(deadline=None)
@given(st.text() | st.text(alphabet="\"'*^:(){}[]-+~.,;\\/%_ \x00 AND OR NOT NEAR softmax"))
def test_no_text_and_no_operator_of_the_query_language_breaks_a_query(query: str) -> None:
    found = WORDS.search(query, 3)
    assert bool(found) == (WORDS.explain(query) == "")


# ---------------------------------------------------------------- words and vectors


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Index:
    return Index.open(WIKI, home=tmp_path_factory.mktemp("home"), embedder="none", languages=("hip",))


FOUND = {
    "GOMP_parallel": "methods/openmp-parallel-outer.md",
    "kmpc": "methods/openmp-parallel-outer.md",
    "__restrict__": "methods/restrict-pointers.md",
    "vpslld": "methods/vector-exp.md",
    "OMP_WAIT_POLICY=passive": "skills/launch-or-small-workload.md",
    "#pragma omp simd reduction(+:sum)": "methods/simd-reduction.md",
    "not suitable for strided load": "skills/strided-access.md",
    "how do I make softmax faster?": "operators/softmax.md",
    "vectorising exponentials": "methods/vector-exp.md",
    "H200 memory_bandwidth": "hardware/nvidia/h200-sxm5.md",
    "scalar_math_call": "skills/scalar-math-in-loop.md",
    "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active": "meta/ncu-metrics.md",
    "sm_90a": "meta/platforms.md",
    "is sm_90a forward compatible": "meta/platforms.md",
    # Of two that say the same either finds the other.
    "scattered accesses": "skills/gpu-poor-coalescing.md",
    "uncoalesced loads": "skills/gpu-poor-coalescing.md",
    "too many registers": "skills/gpu-register-limited.md",
    "register pressure": "skills/gpu-register-limited.md",
}


@pytest.mark.parametrize("question", FOUND)
def test_words_identifiers_and_synonyms_find_their_page_among_the_first_three(index: Index, question: str) -> None:
    found = index.search(question, 3)
    assert FOUND[question] in [passage.path for passage in found]
    assert all(word in found[0].text for word in question.split() if word.startswith("sm")), (
        "one that has the identifier comes first"
    )


@pytest.mark.parametrize(
    ("question", "page", "filters"),
    [
        (
            "how do I write a wgmma GEMM with TMA and mbarrier ring for H100",
            "methods/cuda-wgmma.md",
            ("cuda", "hopper"),
        ),
        ("tcgen05 2-CTA GEMM epilogue overlap tmem double buffering", "methods/cuda-tcgen05.md", ("cuda", "sm_100")),
        ("NVFP4 GEMM scale factor layout for tcgen05", "methods/triton-dot-scaled.md", ("triton", "sm_100")),
        ("which SASS does a BF16 HGMMA with STMATRIX", "listings/sass-tensor-instructions.md", (None, "hopper")),
    ],
)
def test_an_operator_or_a_type_in_capitals_is_no_name_of_an_instruction(
    question: str, page: str, filters: tuple[str | None, str], index: Index
) -> None:
    language, arch = filters
    assert page in [hit.path for hit in index.search(question, 3, language=language, arch=arch)]
    lexical = index._current_content().lexical
    plain = "GEMM GEMV BF16 FP16 TF32 INT8 NVFP4 MXFP8 SOFTMAX SDPA RMSNORM SWIGLU CUDA TRITON MFMA H100"
    assert not list(lexical._identifiers(plain))
    named = "HGMMA UTMALDG LDGSTS REDUX FFMA F2FP stall_wait"
    assert [word for word, _ in lexical._identifiers(named)] == named.split()


def test_the_longest_phrase_says_what_is_meant() -> None:
    glossary = Glossary((("memory bound", "starved for data"), ("memory",)))
    assert list(glossary.concepts_in("why is it memory-bound")) == list(glossary.concepts_in("Starved for DATA")) == [0]


def test_further_passages_of_a_page_come_after_the_best_of_others(index: Index) -> None:
    """What a page has in points is halved for its second passage, which is here nearly as good as its first."""
    assert len({hit.path for hit in index.search("bank conflicts in shared memory", 5)}) >= 4


def test_a_passage_that_is_found_by_its_words_and_by_phrases_is_shown_once(index: Index) -> None:
    found = index.search("reading down columns on the graphics card is far slower than along rows", 8)
    assert found[0].path == "skills/gpu-poor-coalescing.md" and "asked as" in found[0].why
    assert len({hit.citation for hit in found}) == len(found)


SKILL = """---
id: slow-loads
type: skill
title: Loads wait for memory
axis: latency
sources: [ours]
last_checked: 2026-11-27
---
## Signal

`stall_loads` and `busy_share` say that warps wait.

## Fixes

Issue several before the first use.

## How to verify

`stall_loads` falls, `busy_share` rises, `dram_share` rises.
"""


def test_a_section_that_says_what_is_wrong_comes_with_the_one_that_says_what_to_do(tmp_path: Path) -> None:
    wiki = written(
        tmp_path / "wiki", {"one": ("Warps", "Warps wait in turns, says the scheduler."), "two": ("Loads", "A load.")}
    )
    (wiki.root / "slow-loads.md").write_text(SKILL)
    found = Index(wiki.reopened()).search("warps wait: stall_loads, busy_share and dram_share", 4)
    assert found[0].heading[-1] == "How to verify" and found[0].remedy is not None
    assert found[0].remedy.heading[-1] == "Fixes" and found[0].remedy.remedy is None
    assert [one.citation for one in found[0].and_remedy()] == [found[0].citation, found[0].remedy.citation]
    assert len({hit.path for hit in found[:2]}) == 2, "a page's second passage comes after the first of three pages"
    itself = Index(wiki.reopened()).search("issue several before the first use", 1)[0]
    assert itself.heading[-1] == "Fixes" and itself.remedy is None
    guide = SKILL.replace("slow-loads", "guide").replace("type: skill", "type: guide").replace("## Fixes", "## Queues")
    (wiki.root / "guide.md").write_text(guide)
    first = Index(wiki.reopened()).search("stall_loads, busy_share, dram_share before the first use", 1, kind="guide")[
        0
    ]
    assert (first.heading[-1], first.remedy and first.remedy.heading[-1]) == ("How to verify", "Queues")


def test_the_first_three_answers_are_of_three_pages(index: Index) -> None:
    for question in retrieval.load(SMOKE, WIKI):
        found = index.search(question.question, 8)
        assert len({hit.path for hit in found[:3]}) == min(3, len({hit.path for hit in found}))
        assert not [hit for hit in found[3:] if hit.remedy]


def test_a_table_of_aliases_answers_a_name_and_no_sentence(tmp_path: Path) -> None:
    wiki = written(
        tmp_path / "wiki", {"one": ("Tiles", "The accumulator of a tile lies in tensor memory and is read from there.")}
    )
    (wiki.root / "names.md").write_text(
        "# Names\n\n## Other names\n\n| alias | metric |\n|---|---|\n| XMEM_SIZE | tensor_memory |\n"
    )
    index = Index(wiki.reopened())
    assert index.search("XMEM_SIZE")[0].path == "names.md"
    assert index.search("how is the accumulator of a tile read from XMEM_SIZE")[0].path == "one.md"


def test_a_phrase_leads_to_the_section_that_it_is_about(index: Index) -> None:
    sections = {f"{page.head.id}#{one.heading[-1]}": one for page in WIKI.pages for one in passages_of(page)}
    known = {page.head.id for page in WIKI.pages} | set(sections)
    assert set(question_phrases()) <= known
    asked = {key: phrases for key, phrases in question_phrases().items() if "#" in key}
    for key, phrases in asked.items():
        found = index.search(phrases[0], 3)
        assert sections[key].citation in [hit.citation for hit in found], key


def test_nothing_that_a_filter_excludes_is_found(index: Index) -> None:
    found = index.search("shared memory", 30, language="triton")
    assert found and not [hit.path for hit in found if hit.path.startswith("methods/cuda-")]
    assert {hit.kind for hit in index.search("memory", 30, kind="skill")} == {"skill"}
    on_cpu = index.search("vector loads", 30, arch="cpu")
    assert on_cpu and not [hit.path for hit in on_cpu if "cuda" in hit.path or "nvidia" in hit.path]
    for name in ("hopper", "sm_90", "SM90", "sm_90a", "H100"):
        pages = {hit.path for hit in index.search("memory bandwidth", 60, kind="hardware", arch=name)}
        assert "hardware/nvidia/h200-sxm5.md" in pages and "hardware/nvidia/a100-pcie-40gb.md" not in pages
    about_all = index.search("memory bandwidth", 8, language="hip")
    assert about_all and not [hit.path for hit in about_all if hit.path.startswith(("methods/cuda", "methods/triton"))]


@pytest.mark.parametrize(("name", "value"), [("language", "cobol"), ("arch", "itanium"), ("kind", "novel")])
def test_a_filter_that_nothing_passes_closes_and_says_what_there_is(index: Index, name: str, value: str) -> None:
    assert index.search("memory", **{name: value}) == ()
    assert f"'{value}'; give one of " in index.explain("memory", **{name: value})


def test_what_says_the_same_twice_is_shown_once_with_both_places(tmp_path: Path) -> None:
    same = "A fence orders the writes of a thread before its later ones, for all threads of the device."
    wiki = written(
        tmp_path / "wiki",
        {"one": ("Fences", same), "two": ("Fences", same), "three": ("Copies", "A copy engine moves tiles.")},
    )
    found = Index.open(wiki, home=tmp_path, embedder="none").search("fence orders writes")
    assert [hit.path for hit in found if "fence" in hit.text] == ["one.md"]
    assert "the same text at <gpu-wiki>/two.md:" in found[0].why


def test_a_long_lived_index_sees_what_changes(tmp_path: Path) -> None:
    wiki = written(tmp_path / "wiki", {"one": ("Fences", "A fence orders writes.")})
    index = Index(
        wiki,
        experience=Experience(tmp_path),
        vectors=VectorIndex(tmp_path / "index", Letters()),
        recheck_s=0,
    )
    assert not [hit for hit in index.search("polynomial") if "polynomial" in hit.text]
    written(wiki.root, {"two": ("Exponentials", "By a polynomial.")})
    assert index.search("polynomial")[0].path == "two.md"
    (wiki.root / "one.md").unlink()
    assert "one.md" not in {hit.path for hit in index.search("fence writes polynomial", 20)}
    Experience(tmp_path).add(ATTEMPT)
    assert index.search("polynomial vector-exp", kind="outcome")[0].path == "<experience>/attempts.jsonl"


ATTEMPT = attempt(
    "e" * 16, shape_class="2^24B", effect=Interval(estimate=2.5, low=2.25, high=2.75), note="the polynomial is short"
)


def test_past_outcomes_are_found_cited_and_hidden_when_masked(tmp_path: Path) -> None:
    log = Experience(tmp_path)
    other = ATTEMPT.model_copy(
        update={"methods": ("triton-split-k",), "language": "triton", "architecture": "sm_90", "result": "failure"}
    )
    assert log.add(ATTEMPT) and log.add(other)
    index = Index.open(WIKI, home=tmp_path, embedder="none")
    (hit,) = index.search("vector-exp softmax", kind="outcome", language="cpp")
    assert hit.path == "<experience>/attempts.jsonl" and hit.first_line == hit.last_line == 1
    assert "success (accept, 2.5x [2.25, 2.75] over the incumbent)" in hit.text
    assert index.confirms(hit.citation) and hit.citation.sha256 == digest(
        (log.folder / "attempts.jsonl").read_text().splitlines()[0]
    )
    assert [one.first_line for one in index.search("softmax", kind="outcome", arch="hopper")] == [2]
    log.add(ATTEMPT.model_copy(update={"masked": True}))
    fresh = Index.open(WIKI, home=tmp_path, embedder="none")
    assert [one.first_line for one in fresh.search("softmax", kind="outcome")] == [2]
    stated = {"estimate": 2.0, "low": 1 / UNBOUNDED_RATIO, "high": UNBOUNDED_RATIO}
    log.add(ATTEMPT.model_copy(update={"evidence": "s" * 16, "effect": Interval(**stated), "methods": ("simd-loop",)}))
    said = Index.open(WIKI, home=tmp_path, embedder="none").search("simd-loop", 1, kind="outcome")[0].text
    assert "(accept, 2x over the incumbent)" in said, "no interval was stated"


KERNEL = "import triton\n\n\n@triton.jit\ndef rowwise_gelu(x, y, n, BLOCK: tl.constexpr):\n    # waves of programs\n"
KERNEL += "".join(f"    step_{number} = {number}\n" for number in range(80))
GELU = "void gelu(float* x) { x[0] *= 0.5f; }\n"
READ = {
    "gelu.py": KERNEL,
    "gelu.cu": "__global__ " + GELU.replace("[0]", "[threadIdx.x]"),
    "gelu.cpp": GELU,
    "README.md": "# gelu\n\nA note about gelu.\n",
}
LEFT = {".git/gelu.py": KERNEL, "binary.txt": "gelu\0\x01", "huge.txt": "gelu " * 100_000, "weights.bin": "gelu"}


@pytest.fixture
def projects(tmp_path: Path) -> Path:
    for name, text in (READ | LEFT).items():
        file = tmp_path / "projects" / "lib" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return tmp_path / "projects"


def test_reference_projects_are_cut_cited_and_told_apart_by_language(projects: Path, tmp_path: Path) -> None:
    index = Index.open(WIKI, home=tmp_path, reference=projects, embedder="none")
    found = index.search("gelu", 20, kind="reference")
    assert {hit.path for hit in found} == {f"<reference>/lib/{name}" for name in READ}
    in_triton = index.search("gelu", 20, kind="reference", language="triton")
    assert {hit.path.rpartition("/")[2] for hit in in_triton} == {"gelu.py", "README.md"}
    (kernel,) = index.search("rowwise_gelu", kind="reference")[:1]
    lines = KERNEL.splitlines()
    assert kernel.text.splitlines() == lines[kernel.first_line - 1 : kernel.last_line]
    assert (
        kernel.heading == ("lib/gelu.py", "rowwise_gelu")
        and str(kernel.citation) == f"<reference>/lib/gelu.py:{kernel.first_line}"
    )
    assert index.confirms(kernel.citation)
    (projects / "lib" / "gelu.py").write_text("# rewritten\n" * 100)
    assert not index.confirms(kernel.citation)


def test_more_pieces_than_a_model_can_embed_are_found_by_words_and_the_index_says_so(
    projects: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Letters, "max_pieces", 1)
    wiki = written(tmp_path / "wiki", {"one": ("Fences", "A fence orders writes.")})
    index = Index(wiki, reference=projects, vectors=VectorIndex(tmp_path / "index", Letters()))
    assert index.search("rowwise_gelu")[0].path == "<reference>/lib/gelu.py"
    assert index.shortfall.endswith("pieces of reference projects are too many for letters")
    assert any("similarity" in hit.why for hit in index.search("fences"))


def test_every_line_of_a_reference_file_is_in_one_piece(projects: Path) -> None:
    pieces = [
        entry.passage for entry in ReferenceProjects(projects).entries() if entry.passage.path.endswith("gelu.py")
    ]
    covered = [number for piece in pieces for number in range(piece.first_line, piece.last_line + 1)]
    assert len(covered) == len(set(covered)) and all(
        piece.last_line - piece.first_line < MAX_PIECE_LINES for piece in pieces
    )
    assert {number for number, line in enumerate(KERNEL.splitlines(), 1) if line.strip()} <= set(covered)


def test_a_reference_folder_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="reference_projects"):
        Index.open(WIKI, home=tmp_path, reference=tmp_path / "nowhere", embedder="none")


def test_markdown_of_another_wiki_without_front_matter_is_searched_too(tmp_path: Path) -> None:
    (tmp_path / "wiki").mkdir()
    (tmp_path / "wiki" / "plain.md").write_text(
        "# Barriers\n\nWarps wait for each other.\n\n## Remedy\n\nSplit the barrier.\n"
    )
    hits = Index.open(Wiki.open(tmp_path / "wiki"), home=tmp_path, embedder="none").search("split the barrier")
    assert (hits[0].path, hits[0].heading, hits[0].first_line) == ("plain.md", ("Barriers", "Remedy"), 5)


# ---------------------------------------------------------------- what is imported

LIST = (
    "import sys\nfrom runpy import run_module\nsys.argv[:] = sys.argv[1:]\ntry:\n    run_module(sys.argv[0], "
    "run_name='__main__')\n"
)
LIST += "except SystemExit:\n    pass\nprint(*sys.modules)"


@pytest.mark.parametrize("command", ["spec H200 tdp", "query bank+conflicts -k 1"])
def test_what_does_not_need_vectors_imports_no_chromadb(command: str) -> None:
    argv, root = [sys.executable, "-c", LIST, "knowledge_base", *command.split()], Path(__file__).parents[3]
    loaded = run_captured(argv, check=True, cwd=root).stdout.splitlines()[-1].split()
    assert not {"chromadb", "onnxruntime", "tokenizers", "numpy", "torch", "langgraph", "httpx"} & set(loaded)


# ---------------------------------------------------------------- the benchmark


def test_the_benchmark_scores_and_refuses_what_is_no_question(tmp_path: Path, index: Index) -> None:
    questions = retrieval.load(SMOKE, WIKI)
    first = questions[0]
    right, wrong = (
        next(one for one in WIKI.passages() if (one.path == first.answers[0]) == wanted) for wanted in (True, False)
    )
    for found, score in (
        ([wrong, wrong, right], (1.0, 1 / 3)),
        ([wrong] * 5 + [right], (0.0, 1 / 6)),
        ([wrong], (0.0, 0.0)),
    ):
        assert retrieval.score_question(first, found) == score
    low, high = retrieval.interval([0.0, 1.0] * 50)
    assert low < 0.5 < high
    told = retrieval.table(questions[:2], {"FTS5": lambda text: [], "fused": index.search})
    assert "| jargon (1) | FTS5 | 0.000 [0.000, 0.000] |" in told and "fused − FTS5" in told
    bad = tmp_path / "bad.jsonl"
    bad.write_text(json.dumps({**first.model_dump(), "answers": ["skills/nowhere.md"]}))
    with pytest.raises(SettingsError, match=r"bad.jsonl:1: there is no 'skills/nowhere.md'"):
        retrieval.load(bad, WIKI)


def test_smoke_questions_are_answered(index: Index) -> None:
    """Few, and the author's own: this only finds out that something broke. The figure of record is
    `benchmarks.retrieval`'s."""
    scores = [
        retrieval.score_question(question, index.search(question.question, 10))
        for question in retrieval.load(SMOKE, WIKI)
    ]
    assert sum(score.recall for score in scores) / len(scores) >= 0.7
