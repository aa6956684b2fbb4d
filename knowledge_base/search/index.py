"""Search over wiki passages, past outcomes and reference projects: by words and by vectors, whose points are added
up."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

from knowledge_base.artifacts import Passage
from knowledge_base.experience.log import Experience
from knowledge_base.pages.wiki import Wiki, home_folder
from knowledge_base.search.code_chunks import REFERENCE_PREFIX, ReferenceProjects
from knowledge_base.search.embedding import open_embedder
from knowledge_base.search.lexical_index import WORD, LexicalIndex, query_terms
from knowledge_base.search.ranking import distinct_rows, fused_scores, is_alias_list, match_reason, remedies_beside
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
IDENTIFIER_POINTS = 10.0
"""Points for a rare identifier of the question; more than anything else gives."""
MAX_NAME_WORDS = 2
"""Words of a question that asks for a name; a longer one is a sentence."""


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
        # A question with the name of a counter or an instruction wants the page that has this name; a list of aliases
        # says nothing to a sentence.
        is_sentence = len(WORD.findall(query)) > MAX_NAME_WORDS
        named = [hit for hit in hits if not (is_sentence and is_alias_list(content.entries[hit.row]))]
        exact = {hit.row: IDENTIFIER_POINTS * hit.exact for hit in named}
        scores = fused_scores(content.entries, rankings, exact)
        order = sorted(scores, key=lambda row: (-scores[row], row))
        shown = list(distinct_rows(content.entries, order, k))
        remedies = remedies_beside(content.entries, [row for row, _ in shown], hit_by_row, passing)
        return tuple(
            content.entries[row].passage.model_copy(
                update={
                    "score": round(scores[row], 5),
                    "why": match_reason(
                        content.entries[row], hit_by_row.get(row), similarity_by_row.get(row), duplicates
                    ),
                    "remedy": remedies.get(row),
                }
            )
            for row, duplicates in shown
        )

    def words_nowhere(self, query: str) -> tuple[str, ...]:
        """The words of a question that stand nowhere in what is searched."""
        lexical, whole = self._current_content().lexical, {word.lower() for word in WORD.findall(query)}
        return tuple(
            term
            for term in query_terms(query)
            if term in whole and term[0].isalpha() and not lexical.rows_matching(term)
        )

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
