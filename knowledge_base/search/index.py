"""Search over wiki passages, past outcomes and reference projects: words and vectors, fused by points; filters are
hard."""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from knowledge_base.artifacts import Passage
from knowledge_base.experience.log import Experience
from knowledge_base.pages.wiki import Wiki, home_folder
from knowledge_base.search import embedding
from knowledge_base.search.code_chunks import PREFIX, Reference
from knowledge_base.search.documents import EXPERIENCE, Architectures, Entry, fits, of_experience, of_wiki
from knowledge_base.search.lexical import WORD, Hit, Lexical, terms
from knowledge_base.search.synonyms import Glossary
from knowledge_base.search.vector_store import Unavailable, facet
from knowledge_base.search.vectors import FOLDER, Near, Vectors
from tools.artifacts import digest
from tools.cli.suggestions import suggest_or_list
from tools.roofline.hardware import Citation

DEEP = 200
"""Entries of each list that are fused."""
NEXT = 0.5
"""What each further passage of a page counts, and what it has of its page's points, against the one before it."""
OWN = 0.5
"""What a passage's own points count against those of its page."""
NAMED = 10.0
"""Points for a rare identifier of the question; more than anything else gives."""
PER_PAGE = 2
"""Passages shown of one page; whoever wants more opens it."""
ALIKE = 0.85
"""Share of words that two passages have in common of which only the better is shown."""


class Filters(NamedTuple):
    """What a result must be; None: anything."""

    kind: str | None = None
    language: str | None = None
    arch: str | None = None


class Stock(NamedTuple):
    """What there is to search, as it was on disk at one moment."""

    mark: int
    entries: tuple[Entry, ...]
    """Pieces of reference projects last."""
    lexical: Lexical
    embedded: tuple[Entry, ...]
    """Those that vectors are made of: all, or all but reference projects, where these are too many."""


class Index:
    """Search; `Index(wiki)` alone looks for words in the wiki, `Index.open` finds everything there is."""

    def __init__(
        self,
        wiki: Wiki,
        *,
        experience: Experience | None = None,
        reference: Path | None = None,
        vectors: Vectors | None = None,
        glossary: Glossary | None = None,
        languages: Collection[str] = (),
        recheck_s: float = 1.0,
    ) -> None:
        """`glossary`: None for ours. `languages`: known ones besides those that there are pages about.

        `recheck_s`: how long what was read counts as current; after that a search looks whether a file has changed
        since.
        """
        self._wiki = wiki
        self._experience = experience
        self._reference = Reference(reference) if reference else None
        self._vectors = vectors
        self._languages = frozenset(languages)
        self._recheck_s = recheck_s
        self._glossary = glossary or Glossary.open()
        self._architectures = Architectures(wiki)
        self._lock = threading.Lock()
        self._looked = time.monotonic()
        self._stock = self._read(self._mark())
        self.shortfall = ""
        """Why the last search had words alone to go by; empty when it had vectors, too, or was not to have any."""

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
        """With past outcomes (unless not wanted), the reference projects in a folder, and vectors under `home`
        (None: `home_folder()`)."""
        vectors = Vectors((home or home_folder()) / FOLDER, embedding.opened(embedder), server)
        experience = Experience(home) if outcomes else None
        return cls(wiki, experience=experience, reference=reference, vectors=vectors, languages=languages)

    # ------------------------------------------------------------ what there is

    def _mark(self) -> int:
        log = sorted(self._experience.folder.glob("*.jsonl")) if self._experience else []
        logs = tuple((str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in log)
        return hash((self._wiki.marked(), logs, self._reference.marked() if self._reference else 0))

    def _read(self, mark: int) -> Stock:
        own = [*of_wiki(self._wiki, self._architectures)]
        own += of_experience(self._experience, self._architectures) if self._experience else ()
        entries = (*own, *(self._reference.entries() if self._reference else ()))
        few = self._vectors is None or len(entries) - len(own) <= self._vectors.embedder.most
        return Stock(
            mark, entries, Lexical(entries, self._glossary, self._architectures.targets), entries if few else tuple(own)
        )

    def _current(self) -> Stock:
        """What is on disk now, read again where a file changed."""
        with self._lock:
            now = time.monotonic()
            if now - self._looked >= self._recheck_s:
                self._looked = now
                mark = self._mark()
                if mark != self._stock.mark:
                    self._wiki = self._wiki.again()
                    self._architectures = Architectures(self._wiki)
                    self._stock = self._read(mark)
            return self._stock

    def entries(self) -> tuple[Entry, ...]:
        """Everything that can be found now."""
        return self._current().entries

    # ------------------------------------------------------------ asking

    def search(
        self, query: str, k: int = 8, *, kind: str | None = None, language: str | None = None, arch: str | None = None
    ) -> tuple[Passage, ...]:
        """The `k` best passages for `query` (any text), each with its score and why it was found; empty when nothing
        fits.

        At most PER_PAGE are of one page, and none says nearly the same as a better one. `kind`, `language` and `arch`
        are hard filters; what names no language or architecture is about all of them. `explain` says why nothing was
        found.
        """
        self.shortfall = ""
        stock, filters = self._current(), Filters(kind, language, arch)
        fit = self._fitting(stock, filters)
        if not fit or not terms(query):
            return ()
        hits = [hit for hit in stock.lexical.ranked(query) if hit.row in fit][:DEEP]
        near = self._near(stock, query, fit, filters != Filters(), bool(hits))
        by_row = {hit.row: hit for hit in hits}
        similar = {one.row: one.similarity for one in near}
        weight = self._vectors.embedder.weight if self._vectors else 0.0
        lists = (
            {hit.row: hit.score for hit in hits},
            {row: weight * max(value, 0.0) for row, value in similar.items()},
        )
        # Whoever types the name of a counter or an instruction wants the page that has it.
        scores = _fused(stock.entries, lists, {hit.row: NAMED * hit.exact for hit in hits})
        order = sorted(scores, key=lambda row: (-scores[row], row))
        return tuple(
            stock.entries[row].passage.model_copy(
                update={
                    "score": round(scores[row], 5),
                    "why": _why(stock.entries[row], by_row.get(row), similar.get(row), twins),
                }
            )
            for row, twins in _distinct(stock.entries, order, k)
        )

    def _near(self, stock: Stock, query: str, fit: frozenset[int], filtered: bool, words: bool) -> list[Near]:
        """By vectors; where no word matched, only what is near enough to mean something."""
        if self._vectors is None:
            return []
        facets = sorted({facet(stock.entries[row]) for row in fit}) if filtered else None
        try:
            found = self._vectors.nearest(stock.embedded, query, DEEP, facets)
        except Unavailable as error:
            self.shortfall = str(error)
            return []
        if len(stock.embedded) < len(stock.entries):
            pieces = len(stock.entries) - len(stock.embedded)
            self.shortfall = (
                f"{pieces} pieces of reference projects are too many for {self._vectors.embedder.id.partition(':')[0]}"
            )
        floor = 0.0 if words else self._vectors.embedder.floor
        return [one for one in found if one.row in fit and one.similarity >= floor]

    def _fitting(self, stock: Stock, filters: Filters) -> frozenset[int]:
        """Rows that pass the filters; none where a filter names what nobody has heard of."""
        targets = None if filters.arch is None else self._architectures.named(filters.arch)
        if targets == frozenset() or (filters.language is not None and filters.language not in self._known(stock)):
            return frozenset()
        return frozenset(
            row for row, entry in enumerate(stock.entries) if fits(entry, filters.kind, filters.language, targets)
        )

    def _known(self, stock: Stock) -> list[str]:
        return sorted(self._languages.union(*(entry.languages for entry in stock.entries)))

    def unknown(
        self, *, kind: str | None = None, language: str | None = None, arch: str | None = None
    ) -> dict[str, str]:
        """Filter -> a sentence, for each that names nothing there is, whatever is asked; none where there are no
        pages at all."""
        stock, found = self._current(), dict[str, str]()
        kinds, languages = sorted({entry.passage.kind for entry in stock.entries}), self._known(stock)
        if not stock.entries:
            return found
        if kind is not None and kind not in kinds:
            found["kind"] = f"no page is of kind {kind!r}; {suggest_or_list(kind, kinds)}"
        if language is not None and language not in languages:
            found["language"] = f"no page is about language {language!r}; {suggest_or_list(language, languages)}"
        if arch is not None and not self._architectures.named(arch):
            found["arch"] = (
                f"no architecture is called {arch!r}; {suggest_or_list(arch, sorted(self._architectures.targets))}"
            )
        return found

    def explain(
        self, query: str, *, kind: str | None = None, language: str | None = None, arch: str | None = None
    ) -> str:
        """Why `search` with the same arguments finds nothing, in one sentence; empty when it does find something."""
        if self.search(query, 1, kind=kind, language=language, arch=arch):
            return ""
        stock = self._current()
        if not stock.entries:
            return "the wiki has no pages"
        if not terms(query):
            return f"the query {query!r} has no word to search for"
        if unknown := self.unknown(kind=kind, language=language, arch=arch):
            return next(iter(unknown.values()))
        unfiltered = len(stock.lexical.matching(query))
        if unfiltered:
            asked = " and ".join(
                f"{name}={value or 'any'}" for name, value in Filters(kind, language, arch)._asdict().items()
            )
            return f"{unfiltered} passages match, but none within {asked}"
        return f"none of the words {', '.join(terms(query))} occurs in the wiki"

    def holds(self, citation: Citation) -> bool:
        """Whether a cited line, opened now, still says the same, wherever it lies."""
        root, _, name = citation.path.partition("/")
        if root not in (PREFIX, EXPERIENCE):
            return self._wiki.holds(citation)
        if root == PREFIX:
            line = self._reference.line(name, citation.line) if self._reference else None
        else:
            line = Wiki(self._experience.folder, (), ()).line(name, citation.line) if self._experience else None
        return line is not None and digest(line) == citation.sha256


def _fused(
    entries: Sequence[Entry], lists: Iterable[Mapping[int, float]], more: Mapping[int, float]
) -> dict[int, float]:
    """Row -> score over lists of row -> points, best row first, and points for the row alone.

    A page has the points of its passages, in each list each next one counting NEXT of them; a passage has its own and
    its page's. Of the page's the second best passage has NEXT, and so on, so that the best one of another page comes
    before the third of this. A passage that stands in several rows, as itself and by phrases, is there once, by the
    best of them.
    """
    own, pages = defaultdict(float, more), defaultdict[str, float](float)
    for points in lists:
        seen = Counter[str]()
        for row, value in points.items():
            page = _page(entries[row].passage)
            own[row] += OWN * value
            pages[page] += value * NEXT ** seen[page]
            seen[page] += 1
    shown, scores = Counter[str](), dict[int, float]()
    places: set[tuple[str, int]] = set()
    for row in sorted(own, key=lambda row: (-own[row] - pages[_page(entries[row].passage)], row)):
        passage = entries[row].passage
        page, place = _page(passage), (passage.path, passage.first_line)
        if place not in places:
            places.add(place)
            scores[row] = own[row] + pages[page] * NEXT ** shown[page]
            shown[page] += 1
    return scores


def _page(passage: Passage) -> str:
    """What a passage is a part of; each outcome stands for itself."""
    return str(passage.citation) if passage.kind == "outcome" else passage.path


def _why(entry: Entry, hit: Hit | None, similarity: float | None, twins: Sequence[Passage]) -> str:
    said = [f"asked as {entry.asked!r}"] if entry.asked else []
    said += [", ".join(hit.words)] if hit and hit.words else []
    said += [f"also said: {', '.join(hit.also)}"] if hit and hit.also else []
    said += [f"similar {similarity:.2f}"] if similarity is not None else []
    said += [f"the same at {', '.join(str(twin.citation) for twin in twins[:3])}"] if twins else []
    return "; ".join(said)


def _distinct(entries: Sequence[Entry], order: Sequence[int], k: int) -> Iterator[tuple[int, list[Passage]]]:
    """The first `k` rows that differ, at most PER_PAGE of a page, each with the passages that say nearly the same."""
    kept: list[tuple[int, frozenset[str], list[Passage]]] = []
    shown: Counter[str] = Counter()
    for row in order:
        passage = entries[row].passage
        if shown[_page(passage)] == PER_PAGE or len(kept) == k:
            continue
        words = frozenset(WORD.findall(passage.text.lower()))
        twin = next((one for one in kept if _alike(one[1], words)), None)
        if twin is not None:
            if passage.citation != entries[twin[0]].passage.citation:
                twin[2].append(passage)
        else:
            kept.append((row, words, []))
            shown[_page(passage)] += 1
    yield from ((row, twins) for row, _, twins in kept)


def _alike(one: frozenset[str], other: frozenset[str]) -> bool:
    return len(one & other) >= ALIKE * max(1, len(one | other))
