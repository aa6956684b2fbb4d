"""The lexical half of a search: SQLite FTS5 in memory, with Porter stems, identifiers whole and in parts, and
synonyms."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import lru_cache
from math import log1p
from typing import NamedTuple

from knowledge_base.search.search_entries import SearchEntry
from knowledge_base.search.synonyms import Glossary
from tools.errors import InfrastructureError

WORD = re.compile(r"\w+")
IDENTIFIER_PARTS = re.compile(r"[A-Z]*[^\W_A-Z]+|[A-Z]+")
OPCODE = re.compile(r"[A-Z][A-Z0-9]{3,}")
DATA_TYPE = re.compile(r"(?:NV|MX)?(?:[BT]?F|FP|U?INT)\d+")
STOP_WORDS = frozenset(
    WORD.findall(
        "a an and are as at be but by can do does for from get has have how i if in into is it its make me my no "
        "not of on or so than that "
        "the their then there these this to too use was what when where which why will with you"
    )
)
COLUMN_WEIGHTS = {"title": 4.0, "tags": 1.5, "heading": 2.5, "body": 1.0, "parts": 0.4}
"""Columns with their weights in the ranking (bm25); tags are the words of the front matter."""
SYNONYM_WEIGHT = 0.6
"""Weight of a concept that an entry has in other words than the question."""
MIN_PHRASE_TERMS = 3
"""Words that a phrase in which people ask for a page counts as having at least."""
RARE_SHARE = 0.03
"""An identifier in at most this share of all entries, or in at most five of them, is what the question looks for."""


class LexicalHit(NamedTuple):
    """An entry that shares words or concepts with the question."""

    row: int
    score: float
    """From 0 to about 1, where the entry has nearly all words of the question, however many these are."""
    words: tuple[str, ...]
    """Words of the question that the entry has."""
    synonyms: tuple[str, ...]
    """Phrases of the entry that mean the same as words of the question."""
    exact: int = 0
    """Number of rare identifiers of the question that the entry has whole."""


class LexicalIndex:
    """Full-text search over entries; built in memory in some milliseconds, so that no file can be out of date."""

    def __init__(self, entries: Sequence[SearchEntry], glossary: Glossary, names: Collection[str] = ()) -> None:
        """`names`: of products, languages and operators, in lower case. In a question in capitals they are no names of
        instructions, and neither are words of the glossary or data types."""
        self._glossary = glossary
        self._ordinary = glossary.ordinary_words | {word for name in names for word in WORD.findall(name)}
        self._count = len(entries)
        self._phrase_terms = {row: len(query_terms(entry.phrase)) for row, entry in enumerate(entries) if entry.phrase}
        # The graph asks from any thread; the table is only read after this.
        self._db = sqlite3.connect(":memory:", check_same_thread=False)
        columns = ", ".join(COLUMN_WEIGHTS)
        try:
            self._db.execute(
                f"CREATE VIRTUAL TABLE p USING fts5({columns}, tokenize=\"porter unicode61 tokenchars '_'\")"
            )
        except sqlite3.OperationalError as error:
            raise InfrastructureError(
                f"the SQLite of this Python has no FTS5 ({error}); use a CPython built with it"
            ) from error
        cut = lru_cache(maxsize=None)(identifier_parts)
        table = ((number, *_indexed_columns(entry, cut)) for number, entry in enumerate(entries))
        self._db.executemany(f"INSERT INTO p(rowid, {columns}) VALUES (?, ?, ?, ?, ?, ?)", table)

    def rank(self, query: str) -> list[LexicalHit]:
        """Every entry that matches, the best first."""
        terms = query_terms(query)
        scores_by_term = {term: scores for term in terms if (scores := self._scores(term))}
        concepts = list(self._synonym_scores(query))
        limit = max(5, RARE_SHARE * self._count)
        rare = [scores for word, scores in self._identifiers(query) if scores and len(scores) <= limit]
        rows = set().union(*scores_by_term.values(), *(scores for _, scores in concepts))
        # bm25 adds up over words: as a share of what the words are worth, points of one question compare with those of
        # another and with cosines.
        worth = sum(log1p(self._count / max(1, len(scores_by_term.get(term, ())))) for term in terms)
        hits = []
        for row in rows:
            words = [term for term, scores in scores_by_term.items() if row in scores]
            score, covered, synonyms = sum(scores_by_term[term][row] for term in words), float(len(words)), []
            for question_words, synonym_scores in concepts:
                if row in synonym_scores:
                    points, phrase = synonym_scores[row]
                    # A word that no entry has is as good as said by its synonym.
                    weight = SYNONYM_WEIGHT if any(word in scores_by_term for word in question_words) else 1.0
                    score += weight * points
                    covered += weight * sum(word not in words for word in question_words)
                    synonyms.append(phrase)
            # bm25 favours short passages; one that covers the whole question should beat one that repeats a word of it.
            # A long question says more than any phrase: there the share of the phrase counts.
            whole = max(MIN_PHRASE_TERMS, self._phrase_terms.get(row, len(terms)))
            share = covered / min(len(terms), whole)
            exact = sum(row in scores for scores in rare)
            hits.append(LexicalHit(row, score * share / worth, tuple(words), tuple(synonyms), exact))
        return sorted(hits, key=lambda hit: (-hit.exact, -hit.score, hit.row))

    def rows_matching(self, query: str) -> set[int]:
        """Rows with any of the question's own words."""
        return set().union(*(self._scores(term) for term in query_terms(query)))

    def _synonym_scores(self, query: str) -> Iterator[tuple[list[str], dict[int, tuple[float, str]]]]:
        """For each concept of the question: the question's words for it, and the rows that have it in other words,
        with the points and the phrase that counts most."""
        text = query.lower()
        for number, words in self._glossary.concepts_in(query).items():
            best: dict[int, tuple[float, str]] = {}
            for phrase in self._glossary.groups[number]:
                if phrase.lower() in text:
                    continue
                for row, score in self._scores(phrase).items():
                    best[row] = max(best.get(row, (0.0, "")), (score, phrase))
            yield [word for word in dict.fromkeys(words) if word not in STOP_WORDS], best

    def _identifiers(self, query: str) -> Iterator[tuple[str, dict[int, float]]]:
        for word in dict.fromkeys(WORD.findall(query)):
            capitals = OPCODE.fullmatch(word) and not DATA_TYPE.fullmatch(word) and word.lower() not in self._ordinary
            if "_" in word.strip("_") or capitals:
                yield word, self._scores(word)

    def _scores(self, phrase: str) -> dict[int, float]:
        if not WORD.search(phrase):
            return {}
        weights = ", ".join(map(str, COLUMN_WEIGHTS.values()))
        return dict(
            self._db.execute(f"SELECT rowid, -bm25(p, {weights}) FROM p WHERE p MATCH ?", (_fts_string(phrase),))
        )


def _indexed_columns(entry: SearchEntry, cut: Callable[[str], list[str]]) -> tuple[str, str, str, str, str]:
    passage = entry.passage
    if entry.phrase:
        return "", "", "", entry.phrase, ""
    pieces = {part for word in WORD.findall(f"{entry.tags} {passage.text}") for part in cut(word)}
    return passage.heading[0], entry.tags, " ".join(passage.heading[1:]), passage.text, " ".join(sorted(pieces))


def identifier_parts(word: str) -> list[str]:
    """The parts of an identifier in snake_case or camelCase; empty for a plain word."""
    found = IDENTIFIER_PARTS.findall(word)
    return [part for part in found if len(part) > 1] if len(found) > 1 or "_" in word else []


def query_terms(query: str) -> list[str]:
    """The words to look for, in order and once each: identifiers whole, then their parts; no function words."""
    found: dict[str, None] = {}
    for word in WORD.findall(query):
        for term in (word, *identifier_parts(word)):
            if term.lower() not in STOP_WORDS and term.strip("_"):
                found[term.lower()] = None
    return list(found)


def _fts_string(term: str) -> str:
    return '"' + term.replace('"', '""').replace("\0", " ") + '"'
