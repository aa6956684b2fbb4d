from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge_base.pages.wiki import Wiki
from knowledge_base.search.index import Index
from tools.artifacts import digest

INDEX = Index(Wiki.open())


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
}


@pytest.mark.parametrize("query", FOUND)
def test_words_and_identifiers_and_their_parts_find_their_page_among_the_first_three(query: str):
    assert FOUND[query] in [passage.path for passage in INDEX.search(query, 3)]


def test_hits_are_ranked_cited_and_explained():
    hits = INDEX.search("softmax exponential zzzunknown", 5)
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert hits[0].score > 0
    for hit in hits:
        words, _, synonyms = hit.why.partition("; ")
        assert set(words.split(", ")) <= {"softmax", "exponential"} and words
        assert not synonyms or synonyms.startswith("also said: ")
        assert hit.citation.sha256 == digest(hit.text.splitlines()[0])


@pytest.mark.parametrize(
    ("query", "filters", "says"),
    [
        ("", {}, "no word"),
        ("how do I make it?", {}, "no word"),
        ("zzzunknown", {}, "occurs in the wiki"),
        ("GOMP_parallel", {"kind": "hardware"}, "none within"),
    ],
)
def test_nothing_found_is_empty_and_says_why(query: str, filters: dict[str, str], says: str):
    assert INDEX.search(query, **filters) == ()
    assert says in INDEX.explain(query, **filters)


def test_an_empty_wiki_says_so(tmp_path: Path):
    index = Index(Wiki.open(tmp_path))
    assert index.search("softmax") == () and index.explain("softmax") == "the wiki has no pages"


@settings(deadline=None)
@given(st.text() | st.text(alphabet="\"'*^:(){}[]-+~.,;\\/%_ \x00 AND OR NOT NEAR softmax"))
def test_no_text_and_no_operator_of_the_query_language_breaks_a_query(query: str):
    found = INDEX.search(query, 3)
    assert bool(found) == (INDEX.explain(query) == "")
