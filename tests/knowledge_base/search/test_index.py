from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge_base.pages.wiki import Wiki
from knowledge_base.search.index import Index
from tools.artifacts import digest

INDEX = Index(Wiki.open())


@pytest.mark.parametrize(
    ("query", "path"),
    [
        ("GOMP_parallel", "methods/openmp-parallel-outer.md"),
        ("__kmpc_fork_call", "methods/openmp-parallel-outer.md"),
        ("__restrict__", "methods/restrict-pointers.md"),
        ("vpslld", "methods/vector-exp.md"),
        ("OMP_WAIT_POLICY=passive", "skills/launch-or-small-workload.md"),
        ("near_memory_roof", "skills/memory-bound-streaming.md"),
        ("#pragma omp simd reduction(+:sum)", "methods/simd-reduction.md"),
        ("not suitable for strided load", "skills/strided-access.md"),
        ("how do I make softmax faster?", "operators/softmax.md"),
        ("vectorising exponentials", "methods/vector-exp.md"),
        ("false sharing between threads", "methods/openmp-parallel-outer.md"),
        ("H200 memory_bandwidth", "hardware/nvidia/h200-sxm5.md"),
    ],
)
def test_words_and_identifiers_find_their_page_among_the_first_three(query: str, path: str):
    assert path in [passage.path for passage in INDEX.search(query, 3)]


def test_parts_of_an_identifier_find_it():
    assert "methods/openmp-parallel-outer.md" in [hit.path for hit in INDEX.search("kmpc")[:2]]
    assert "methods/openmp-parallel-outer.md" in [hit.path for hit in INDEX.search("GOMP")[:2]]


def test_a_rule_finds_the_pages_that_answer_it():
    found = {hit.path for hit in INDEX.search("scalar_math_call", 20)}
    assert {"methods/vector-exp.md", "skills/scalar-math-in-loop.md"} <= found


def test_hits_are_ranked_cited_and_explained():
    hits = INDEX.search("softmax exponential zzzunknown", 5)
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert hits[0].score > 0
    for hit in hits:
        words, _, synonyms = hit.why.partition("; ")
        assert set(words.split(", ")) <= {"softmax", "exponential"} and words
        assert not synonyms or synonyms.startswith("also said: ")
        assert hit.citation.sha256 == digest(hit.text.splitlines()[0])


def test_filters_are_hard():
    assert {hit.kind for hit in INDEX.search("vector", kind="skill")} == {"skill"}
    assert INDEX.search("vector", kind="novel") == ()
    assert INDEX.search("vector", language="cobol") == ()
    assert INDEX.search("softmax", kind="operator", language="cpp")


@pytest.mark.parametrize(
    ("query", "filters", "says"),
    [
        ("", {}, "no word"),
        ("how do I make it?", {}, "no word"),
        ("!!! ((( ---", {}, "no word"),
        ("zzzunknown", {}, "occurs in the wiki"),
        ("vector", {"kind": "novel"}, "kind 'novel'"),
        ("vector", {"language": "cobol"}, "language 'cobol'"),
        ("GOMP_parallel", {"kind": "hardware"}, "none within"),
    ],
)
def test_nothing_found_is_empty_and_says_why(query: str, filters: dict[str, str], says: str):
    kind, language = filters.get("kind"), filters.get("language")
    assert INDEX.search(query, kind=kind, language=language) == ()
    assert says in INDEX.explain(query, kind=kind, language=language)


def test_something_found_needs_no_explanation():
    assert INDEX.explain("softmax") == ""


def test_an_empty_wiki_says_so(tmp_path: Path):
    index = Index(Wiki.open(tmp_path))
    assert index.search("softmax") == ()
    assert index.explain("softmax") == "the wiki has no pages"


@settings(deadline=None)
@given(st.text())
def test_no_text_breaks_a_query(query: str):
    found = INDEX.search(query, 3)
    assert bool(found) == (INDEX.explain(query) == "")


@settings(deadline=None)
@given(st.text(alphabet="\"'*^:(){}[]-+~.,;\\/%_ \x00 AND OR NOT NEAR softmax"))
def test_no_operator_of_the_query_language_gets_through(query: str):
    INDEX.search(query, 3)
