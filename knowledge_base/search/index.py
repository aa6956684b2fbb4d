"""Search over wiki passages, past outcomes and reference projects: by words and by vectors, whose points are added
up."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from knowledge_base.artifacts import Passage
from knowledge_base.experience.log import Experience
from knowledge_base.pages.wiki import Wiki, home_folder
from knowledge_base.search.code_chunks import REFERENCE_PREFIX, ReferenceProjects
from knowledge_base.search.embedding import open_embedder
from knowledge_base.search.lexical_index import WORD, LexicalHit, LexicalIndex, query_terms
from knowledge_base.search.search_entries import (
    EXPERIENCE_PREFIX,
    Architectures,
    SearchEntry,
    experience_entries,
    passes_filters,
    wiki_entries,
)
from knowledge_base.search.synonyms import Glossary
from knowledge_base.search.vector_index import INDEX_FOLDER, SERVER_VARIABLE, NearRow, VectorIndex, VectorsUnavailable
from tools.artifacts import digest
from tools.cli.suggestions import suggest_or_list
from tools.roofline.hardware import Citation

MAX_FUSED_ROWS = 200
"""Entries of each of the two rankings that are fused."""
NEXT_PASSAGE_FACTOR = 0.5
"""By which the points of each further passage of a page, and its share of its page's points, are multiplied."""
PASSAGE_FACTOR = 0.5
"""By which a passage's own points are multiplied beside those of its page."""
IDENTIFIER_POINTS = 10.0
"""Points for a rare identifier of the question; more than anything else gives."""
MAX_PASSAGES_PER_PAGE = 2
"""Passages of one page in an answer; a reader who wants more opens the page."""
DUPLICATE_WORD_SHARE = 0.85
"""Share of common words from which on two passages say the same, and only the better one is shown."""


class SearchFilters(NamedTuple):
    """What a result must be; None: anything."""

    kind: str | None = None
    language: str | None = None
    arch: str | None = None


class IndexedContent(NamedTuple):
    """Everything that can be found, as it was on disk at one moment."""

    fingerprint: int
    entries: tuple[SearchEntry, ...]
    """Pieces of reference projects last."""
    lexical: LexicalIndex
    texts: dict[int, str]
    """Row of each entry that has a vector -> the text that is embedded."""
    unembedded: int
    """Pieces of reference projects that have no vector, since they are too many for the embedder."""


class Index:
    """Search; `Index(wiki)` goes by words through the wiki alone, `Index.open` finds everything there is."""

    def __init__(
        self,
        wiki: Wiki,
        *,
        experience: Experience | None = None,
        reference: Path | None = None,
        vectors: VectorIndex | None = None,
        glossary: Glossary | None = None,
        languages: Collection[str] = (),
        recheck_s: float = 1.0,
    ) -> None:
        """`glossary`: None for the bundled one; `languages`: known languages besides those of the pages; `recheck_s`:
        seconds after which a search checks whether a file has changed."""
        self._wiki = wiki
        self._experience = experience
        self._reference = ReferenceProjects(reference) if reference else None
        self._vectors = vectors
        self._languages = frozenset(languages)
        self._recheck_s = recheck_s
        self._glossary = glossary or Glossary.open()
        self._architectures = Architectures(wiki)
        self._lock = threading.Lock()
        self._checked_at = time.monotonic()
        self._content = self._build_content(self._fingerprint())
        self.shortfall = ""
        """Why the last search failed to use vectors; empty if it used them or has no embedder."""

    @classmethod
    def open(
        cls,
        wiki: Wiki,
        *,
        home: Path | None = None,
        reference: Path | None = None,
        embedder: str | None = None,
        server: str | None = None,
        outcomes: bool = True,
        languages: Collection[str] = (),
    ) -> Index:
        """Open the index with past outcomes (unless `outcomes` is False) and the reference projects in a folder.

        With an embedder, or a Chroma `server` (then MiniLM by default), its vectors lie on the server, else under
        `home` (None: `home_folder()`).
        """
        server = server or os.environ.get(SERVER_VARIABLE) or None
        found = open_embedder(embedder or ("minilm" if server else None))
        vectors = VectorIndex((home or home_folder()) / INDEX_FOLDER, found, server) if found else None
        experience = Experience(home) if outcomes else None
        return cls(
            wiki,
            experience=experience,
            reference=reference,
            vectors=vectors,
            languages=languages,
        )

    def _fingerprint(self) -> int:
        """A number that changes when any file that is searched does."""
        logs = sorted(self._experience.folder.glob("*.jsonl")) if self._experience else []
        states = tuple((str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in logs)
        return hash((self._wiki.fingerprint(), states, self._reference.fingerprint() if self._reference else 0))

    def _build_content(self, fingerprint: int) -> IndexedContent:
        own = [*wiki_entries(self._wiki, self._architectures)]
        own += experience_entries(self._experience, self._architectures) if self._experience else ()
        pieces = self._reference.entries() if self._reference else []
        entries = (*own, *pieces)
        too_many = self._vectors is not None and len(pieces) > self._vectors.embedder.max_pieces
        embedded = own if too_many else entries
        # Phrases say how people ask for a page, and are found by their words; vectors find the page by its own text.
        texts = {row: entry.text for row, entry in enumerate(embedded) if not entry.phrase}
        about = {name.lower() for page in self._wiki.pages for name in (*page.head.applies_to, *page.head.languages)}
        lexical = LexicalIndex(entries, self._glossary, {*self._architectures.targets, *about, *self._languages})
        return IndexedContent(fingerprint, entries, lexical, texts, len(pieces) if too_many else 0)

    def _current_content(self) -> IndexedContent:
        """The content on disk now, read again where a file has changed."""
        with self._lock:
            now = time.monotonic()
            if now - self._checked_at >= self._recheck_s:
                self._checked_at = now
                fingerprint = self._fingerprint()
                if fingerprint != self._content.fingerprint:
                    self._wiki = self._wiki.reopened()
                    self._architectures = Architectures(self._wiki)
                    self._content = self._build_content(fingerprint)
            return self._content

    def entries(self) -> tuple[SearchEntry, ...]:
        """Everything that can be found now."""
        return self._current_content().entries

    def search(
        self, query: str, k: int = 8, *, kind: str | None = None, language: str | None = None, arch: str | None = None
    ) -> tuple[Passage, ...]:
        """The `k` best passages for `query` (any text), each with its score and the reason why it was found; empty
        when nothing passes, which `explain` explains.

        At most MAX_PASSAGES_PER_PAGE are of one page, and none says nearly the same as a better one. `kind`, `language`
        and `arch` are hard filters; an entry that names no language or architecture is about all of them.
        """
        self.shortfall = ""
        content, filters = self._current_content(), SearchFilters(kind, language, arch)
        passing = self._rows_passing(content, filters)
        if not passing or not query_terms(query):
            return ()
        hits = [hit for hit in content.lexical.rank(query) if hit.row in passing][:MAX_FUSED_ROWS]
        near = self._nearest_rows(content, query, passing, bool(hits))
        hit_by_row = {hit.row: hit for hit in hits}
        similarity_by_row = {one.row: one.similarity for one in near}
        weight = self._vectors.embedder.weight if self._vectors else 0.0
        rankings = (
            {hit.row: hit.score for hit in hits},
            {row: weight * max(value, 0.0) for row, value in similarity_by_row.items()},
        )
        # A question with the name of a counter or an instruction wants the page that has this name.
        scores = _fused_scores(content.entries, rankings, {hit.row: IDENTIFIER_POINTS * hit.exact for hit in hits})
        order = sorted(scores, key=lambda row: (-scores[row], row))
        return tuple(
            content.entries[row].passage.model_copy(
                update={
                    "score": round(scores[row], 5),
                    "why": _match_reason(
                        content.entries[row], hit_by_row.get(row), similarity_by_row.get(row), duplicates
                    ),
                }
            )
            for row, duplicates in _distinct_rows(content.entries, order, k)
        )

    def words_nowhere(self, query: str) -> tuple[str, ...]:
        """The words of a question that stand nowhere in what is searched."""
        lexical = self._current_content().lexical
        return tuple(term for term in query_terms(query) if term[0].isalpha() and not lexical.rows_matching(term))

    def _nearest_rows(
        self, content: IndexedContent, query: str, passing: frozenset[int], has_hits: bool
    ) -> list[NearRow]:
        """The rows nearest by vectors; where no word matched, only those that are near enough to mean something."""
        if self._vectors is None:
            return []
        try:
            near = self._vectors.nearest_rows(content.texts, query, MAX_FUSED_ROWS, passing)
        except VectorsUnavailable as error:
            self.shortfall = str(error)
            return []
        if content.unembedded:
            name = self._vectors.embedder.id.partition(":")[0]
            self.shortfall = f"{content.unembedded} pieces of reference projects are too many for {name}"
        least = 0.0 if has_hits else self._vectors.embedder.min_similarity
        return [one for one in near if one.similarity >= least]

    def _rows_passing(self, content: IndexedContent, filters: SearchFilters) -> frozenset[int]:
        """Rows that pass the filters; none where a filter has an unknown name."""
        targets = None if filters.arch is None else self._architectures.targets_of(filters.arch)
        unknown_language = filters.language is not None and filters.language not in self._known_languages(content)
        if targets == frozenset() or unknown_language:
            return frozenset()
        return frozenset(
            row
            for row, entry in enumerate(content.entries)
            if passes_filters(entry, filters.kind, filters.language, targets)
        )

    def _known_languages(self, content: IndexedContent) -> list[str]:
        return sorted(self._languages.union(*(entry.languages for entry in content.entries)))

    def unknown_filters(
        self, *, kind: str | None = None, language: str | None = None, arch: str | None = None
    ) -> dict[str, str]:
        """Filter -> a sentence, for each filter whose name is unknown; empty where there are no pages at all."""
        content = self._current_content()
        unknown: dict[str, str] = {}
        kinds, languages = sorted({entry.passage.kind for entry in content.entries}), self._known_languages(content)
        if not content.entries:
            return unknown
        if kind is not None and kind not in kinds:
            unknown["kind"] = f"no page is of the kind {kind!r}; {suggest_or_list(kind, kinds)}"
        if language is not None and language not in languages:
            unknown["language"] = f"no page is about the language {language!r}; {suggest_or_list(language, languages)}"
        if arch is not None and not self._architectures.targets_of(arch):
            names = sorted(self._architectures.targets)
            unknown["arch"] = f"no architecture has the name {arch!r}; {suggest_or_list(arch, names)}"
        return unknown

    def explain(
        self, query: str, *, kind: str | None = None, language: str | None = None, arch: str | None = None
    ) -> str:
        """Why `search` with the same arguments finds nothing, in one sentence; empty when it does find something."""
        if self.search(query, 1, kind=kind, language=language, arch=arch):
            return ""
        content = self._current_content()
        if not content.entries:
            return "the wiki has no pages"
        if not query_terms(query):
            return f"the query {query!r} has no word to search for"
        if unknown := self.unknown_filters(kind=kind, language=language, arch=arch):
            return next(iter(unknown.values()))
        unfiltered = len(content.lexical.rows_matching(query))
        if unfiltered:
            given = SearchFilters(kind, language, arch)._asdict().items()
            filters = " and ".join(f"{name}={value or 'any'}" for name, value in given)
            return f"{unfiltered} passages match, but none with {filters}"
        return f"the wiki has none of the words {', '.join(query_terms(query))}"

    def confirms(self, citation: Citation) -> bool:
        """Whether the cited line, opened now, is unchanged; in the wiki, the experience log or a reference project."""
        root, _, name = citation.path.partition("/")
        if root not in (REFERENCE_PREFIX, EXPERIENCE_PREFIX):
            return self._wiki.confirms(citation)
        if root == REFERENCE_PREFIX:
            line = self._reference.line(name, citation.line) if self._reference else None
        else:
            line = Wiki(self._experience.folder, (), ()).line(name, citation.line) if self._experience else None
        return line is not None and digest(line) == citation.sha256


def _fused_scores(
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
            page = _page_key(entries[row].passage)
            row_points[row] += PASSAGE_FACTOR * points
            page_points[page] += points * NEXT_PASSAGE_FACTOR ** counted[page]
            counted[page] += 1
    placed, scores = Counter[str](), dict[int, float]()
    passages: set[tuple[str, int]] = set()
    for row in sorted(
        row_points, key=lambda row: (-row_points[row] - page_points[_page_key(entries[row].passage)], row)
    ):
        passage = entries[row].passage
        page, place = _page_key(passage), (passage.path, passage.first_line)
        if place not in passages:
            passages.add(place)
            scores[row] = row_points[row] + page_points[page] * NEXT_PASSAGE_FACTOR ** placed[page]
            placed[page] += 1
    return scores


def _page_key(passage: Passage) -> str:
    """What a passage is a part of: its file; a past outcome is a page by itself."""
    return str(passage.citation) if passage.kind == "outcome" else passage.path


def _match_reason(
    entry: SearchEntry, hit: LexicalHit | None, similarity: float | None, duplicates: Sequence[Passage]
) -> str:
    """Why an entry was found: its phrase, words, synonyms and similarity, and where the same text stands besides."""
    reasons = [f"asked as {entry.phrase!r}"] if entry.phrase else []
    reasons += [", ".join(hit.words)] if hit and hit.words else []
    reasons += [f"synonyms: {', '.join(hit.synonyms)}"] if hit and hit.synonyms else []
    reasons += [f"similarity {similarity:.2f}"] if similarity is not None else []
    reasons += [f"the same text at {', '.join(str(one.citation) for one in duplicates[:3])}"] if duplicates else []
    return "; ".join(reasons)


def _distinct_rows(entries: Sequence[SearchEntry], order: Sequence[int], k: int) -> Iterator[tuple[int, list[Passage]]]:
    """The first `k` rows of `order` with different texts, at most MAX_PASSAGES_PER_PAGE of a page, each with the
    passages that say nearly the same."""
    chosen: list[tuple[int, frozenset[str], list[Passage]]] = []
    per_page: Counter[str] = Counter()
    for row in order:
        passage = entries[row].passage
        if per_page[_page_key(passage)] == MAX_PASSAGES_PER_PAGE or len(chosen) == k:
            continue
        words = frozenset(WORD.findall(passage.text.lower()))
        better = next((one for one in chosen if _say_the_same(one[1], words)), None)
        if better is not None:
            if passage.citation != entries[better[0]].passage.citation:
                better[2].append(passage)
        else:
            chosen.append((row, words, []))
            per_page[_page_key(passage)] += 1
    yield from ((row, duplicates) for row, _, duplicates in chosen)


def _say_the_same(words: frozenset[str], others: frozenset[str]) -> bool:
    return len(words & others) >= DUPLICATE_WORD_SHARE * max(1, len(words | others))
