"""The order of the entries that a search has found: the points of pages and passages, and what is shown of a page."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from knowledge_base.artifacts import Passage
from knowledge_base.search.lexical_index import WORD, LexicalHit
from knowledge_base.search.search_entries import SearchEntry

NEXT_PASSAGE_FACTOR = 0.5
"""By which the points of each further passage of a page, and its share of its page's points, are multiplied."""
PASSAGE_FACTOR = 0.5
"""By which a passage's own points are multiplied beside those of its page."""
MAX_PASSAGES_PER_PAGE = 2
"""Passages of one page in an answer; a reader who wants more opens the page."""
FIRST_ANSWERS = 3
"""Answers that most readers look at: each is of a page of its own, with the remedy of that page."""
REMEDY_HEADING = re.compile(r"(?:Fixes|What usually helps|Ways out|What to do|Causes and cures|Order of attack|How$)")
"""How the heading of a section begins that says what to change (the wiki's README lists them)."""
ASIDE_HEADING = re.compile(
    "Signal|Symptom|Causes?$|Anti-patterns|How to verify|Pitfalls|Traps|Cost|Why|When it|What(?: it| is computed|$)"
)
"""How the heading of a section begins that says what is wrong, what to mind or what a thing is."""
ALIAS_HEADING = "Other names"
"""Heading of a table of aliases."""
DUPLICATE_WORD_SHARE = 0.85
"""Share of common words from which on two passages say the same, and only the better one is shown."""


def fused_scores(
    entries: Sequence[SearchEntry], rankings: Iterable[Mapping[int, float]], extra: Mapping[int, float]
) -> dict[int, float]:
    """Row -> score, from rankings (row -> points, the best row first) and from extra points for single rows.

    A page has the points of its passages, in each ranking each further one multiplied by NEXT_PASSAGE_FACTOR once more.
    A passage has its own points and its page's: all of these for the page's best passage, NEXT_PASSAGE_FACTOR of them
    for its second, and so on, so that the best passage of another page comes before the third of this one. A passage
    that has several rows, one by its own text and some by phrases, is there once, by the best row.
    """
    row_points, page_points = defaultdict(float, extra), defaultdict[str, float](float)
    for ranking in rankings:
        counted = Counter[str]()
        for row, points in ranking.items():
            page = page_key(entries[row].passage)
            row_points[row] += PASSAGE_FACTOR * points
            page_points[page] += points * NEXT_PASSAGE_FACTOR ** counted[page]
            counted[page] += 1
    placed, scores = Counter[str](), dict[int, float]()
    passages: set[tuple[str, int]] = set()
    for row in sorted(
        row_points, key=lambda row: (-row_points[row] - page_points[page_key(entries[row].passage)], row)
    ):
        passage = entries[row].passage
        page, place = page_key(passage), (passage.path, passage.first_line)
        if place not in passages:
            passages.add(place)
            scores[row] = row_points[row] + page_points[page] * NEXT_PASSAGE_FACTOR ** placed[page]
            placed[page] += 1
    return scores


def page_key(passage: Passage) -> str:
    """What a passage is a part of: its file; a past outcome is a page by itself."""
    return str(passage.citation) if passage.kind == "outcome" else passage.path


def match_reason(
    entry: SearchEntry, hit: LexicalHit | None, similarity: float | None, duplicates: Sequence[Passage]
) -> str:
    """Why an entry was found: its phrase, words, synonyms and similarity, and where the same text stands besides."""
    reasons = [f"asked as {entry.phrase!r}"] if entry.phrase else []
    reasons += [", ".join(hit.words)] if hit and hit.words else []
    reasons += [f"synonyms: {', '.join(hit.synonyms)}"] if hit and hit.synonyms else []
    reasons += [f"similarity {similarity:.2f}"] if similarity is not None else []
    reasons += [f"the same text at {', '.join(str(one.citation) for one in duplicates[:3])}"] if duplicates else []
    return "; ".join(reasons)


def distinct_rows(entries: Sequence[SearchEntry], order: Sequence[int], k: int) -> Iterator[tuple[int, list[Passage]]]:
    """The first `k` rows of `order` with different texts, each with the passages that say nearly the same: of a page at
    most MAX_PASSAGES_PER_PAGE, and one among the FIRST_ANSWERS."""
    leaders = dict.fromkeys(page_key(entries[row].passage) for row in order)
    best = {
        page: next(row for row in order if page_key(entries[row].passage) == page)
        for page in [*leaders][:FIRST_ANSWERS]
    }
    chosen: list[tuple[int, frozenset[str], list[Passage]]] = []
    per_page: Counter[str] = Counter()
    for row in dict.fromkeys((*[*best.values()][:FIRST_ANSWERS], *order)):
        passage = entries[row].passage
        if per_page[page_key(passage)] == MAX_PASSAGES_PER_PAGE or len(chosen) == k:
            continue
        words = frozenset(WORD.findall(passage.text.lower()))
        better = next((one for one in chosen if say_the_same(one[1], words)), None)
        if better is not None:
            if passage.citation != entries[better[0]].passage.citation:
                better[2].append(passage)
        else:
            chosen.append((row, words, []))
            per_page[page_key(passage)] += 1
    yield from ((row, duplicates) for row, _, duplicates in chosen)


def remedies_beside(
    entries: Sequence[SearchEntry], shown: Sequence[int], hits: Mapping[int, LexicalHit], passing: Collection[int]
) -> dict[int, Passage]:
    """Row -> the section of its page that says what to do and has most of the question, for those of the first answers
    that say something else (what is computed, what is wrong, how to verify)."""
    pages: dict[str, list[int]] = {entries[row].passage.path: [] for row in shown[:FIRST_ANSWERS]}
    for row in passing:
        if not entries[row].phrase and entries[row].passage.path in pages:
            pages[entries[row].passage.path].append(row)
    found: dict[int, Passage] = {}
    for row in shown[:FIRST_ANSWERS]:
        passage = entries[row].passage
        rows = [one for one in pages[passage.path] if is_remedy(entries[one].passage)]
        # Some guides have no such section: what they do not say aside is their answer.
        if not rows and is_aside(passage):
            rows = [one for one in pages[passage.path] if one in hits and not is_aside(entries[one].passage)]
        if rows and not is_remedy(passage):
            best = max(rows, key=lambda one: (hits[one].score if one in hits else 0.0, -one))
            found[row] = entries[best].passage
    return found


def is_remedy(passage: Passage) -> bool:
    """Whether a section says what to change."""
    return REMEDY_HEADING.match(passage.heading[-1]) is not None


def is_aside(passage: Passage) -> bool:
    """Whether a section says what is wrong, what to mind or what a thing is, and not what to do."""
    return ASIDE_HEADING.match(passage.heading[-1]) is not None


def is_alias_list(entry: SearchEntry) -> bool:
    """Whether an entry is a table of other names."""
    return entry.passage.heading[-1] == ALIAS_HEADING


def say_the_same(words: frozenset[str], others: frozenset[str]) -> bool:
    return len(words & others) >= DUPLICATE_WORD_SHARE * max(1, len(words | others))
