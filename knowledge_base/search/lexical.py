"""The lexical half: SQLite FTS5 in memory, Porter stems, identifiers kept whole and in parts, synonyms beside what
was said."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import lru_cache
from math import log1p
from typing import NamedTuple

from knowledge_base.search.documents import Entry
from knowledge_base.search.synonyms import Glossary
from tools.errors import InfrastructureError

WORD = re.compile(r"\w+")
PARTS = re.compile(r"[A-Z]*[^\W_A-Z]+|[A-Z]+")
OPCODE = re.compile(r"[A-Z][A-Z0-9]{3,}")
STOP = frozenset(
    WORD.findall(
        "a an and are as at be but by can do does for from get has have how i if in into is it its make me my no "
        "not of on or so than that "
        "the their then there these this to too use was what when where which why will with you"
    )
)
COLUMNS = {"title": 4.0, "tags": 1.5, "heading": 2.5, "body": 1.0, "parts": 0.4}
"""Columns and their weights in the ranking (bm25); tags are what the front matter says the page is about."""
SYNONYM = 0.6
"""What a concept that is said in other words counts against one said in the question's own."""
RARE = 0.03
"""An identifier in a smaller share of all entries (or in at most five of them) names what is looked for."""


class Hit(NamedTuple):
    """An entry that shares words or concepts with the question."""

    row: int
    score: float
    """From 0 to about 1, where the entry has nearly all words of the question, however many these are."""
    words: tuple[str, ...]
    """Of the question, that occur."""
    also: tuple[str, ...]
    """Phrases that mean the same as some of the question's."""
    exact: int = 0
    """Rare identifiers of the question that it contains whole."""


class Lexical:
    """Full-text search over entries; built in memory in some milliseconds, so that there is nothing on disk to go
    stale."""

    def __init__(self, entries: Sequence[Entry], glossary: Glossary, hardware: Collection[str] = ()) -> None:
        """`hardware`: names of products in lower case; they say where somebody asks from, more often than what
        about."""
        self._glossary = glossary
        self._hardware = frozenset(hardware)
        self._count = len(entries)
        # The graph asks from whichever thread runs the node; the table is only read after this.
        self._db = sqlite3.connect(":memory:", check_same_thread=False)
        try:
            self._db.execute(
                f"CREATE VIRTUAL TABLE p USING fts5({', '.join(COLUMNS)}, tokenize=\"porter unicode61 tokenchars '_'\")"
            )
        except sqlite3.OperationalError as error:
            raise InfrastructureError(
                f"this Python's SQLite has no FTS5 ({error}); use a CPython built with it"
            ) from error
        cut = lru_cache(maxsize=None)(parts)
        filled = ((number, *_row(entry, cut)) for number, entry in enumerate(entries))
        self._db.executemany(f"INSERT INTO p(rowid, {', '.join(COLUMNS)}) VALUES (?, ?, ?, ?, ?, ?)", filled)

    def ranked(self, query: str) -> list[Hit]:
        """Every entry that matches, the best first."""
        asked = terms(query)
        by_term = {term: scores for term in asked if (scores := self._scores(term))}
        concepts = list(self._concepts(query))
        rare = [
            scores for word, scores in self._identifiers(query) if scores and len(scores) <= max(5, RARE * self._count)
        ]
        rows = set().union(*by_term.values(), *(scores for _, scores in concepts))
        # bm25 adds up over words: as a share of what they are worth, points of one question compare with another's and
        # with cosines.
        told = sum(log1p(self._count / max(1, len(by_term.get(term, ())))) for term in asked)
        found = []
        for row in rows:
            words = [term for term, scores in by_term.items() if row in scores]
            score, covered, also = sum(by_term[term][row] for term in words), float(len(words)), []
            for said, synonyms in concepts:
                if row in synonyms:
                    points, phrase = synonyms[row]
                    # A word that nobody here uses is as good as said by its synonym.
                    worth = SYNONYM if any(word in by_term for word in said) else 1.0
                    score += worth * points
                    covered += worth * sum(word not in words for word in said)
                    also.append(phrase)
            # bm25 favours short passages; one that covers the whole question should beat one that repeats a word of it.
            share = covered / len(asked)
            found.append(
                Hit(row, score * share / told, tuple(words), tuple(also), sum(row in scores for scores in rare))
            )
        return sorted(found, key=lambda hit: (-hit.exact, -hit.score, hit.row))

    def matching(self, query: str) -> set[int]:
        """Entries with any of the question's own words."""
        return set().union(*(self._scores(term) for term in terms(query)))

    def _concepts(self, query: str) -> Iterator[tuple[list[str], dict[int, tuple[float, str]]]]:
        """Of each concept in the question: the words that say it, and the entries that say it otherwise, by the
        phrase that counts most."""
        said = query.lower()
        for number, words in self._glossary.concepts(query).items():
            best: dict[int, tuple[float, str]] = {}
            for phrase in self._glossary.groups[number]:
                if phrase.lower() in said:
                    continue
                for row, score in self._scores(phrase).items():
                    best[row] = max(best.get(row, (0.0, "")), (score, phrase))
            yield [word for word in dict.fromkeys(words) if word not in STOP], best

    def _identifiers(self, query: str) -> Iterator[tuple[str, dict[int, float]]]:
        for word in dict.fromkeys(WORD.findall(query)):
            if "_" in word.strip("_") or (OPCODE.fullmatch(word) and word.lower() not in self._hardware):
                yield word, self._scores(word)

    def _scores(self, phrase: str) -> dict[int, float]:
        if not WORD.search(phrase):
            return {}
        weights = ", ".join(map(str, COLUMNS.values()))
        return dict(self._db.execute(f"SELECT rowid, -bm25(p, {weights}) FROM p WHERE p MATCH ?", (_quoted(phrase),)))


def _row(entry: Entry, cut: Callable[[str], list[str]]) -> tuple[str, str, str, str, str]:
    passage = entry.passage
    if entry.asked:
        return "", "", "", entry.asked, ""
    pieces = {part for word in WORD.findall(f"{entry.tags} {passage.text}") for part in cut(word)}
    return passage.heading[0], entry.tags, " ".join(passage.heading[1:]), passage.text, " ".join(sorted(pieces))


def parts(word: str) -> list[str]:
    """What an identifier is made of (snake_case, camelCase); nothing for a plain word."""
    found = PARTS.findall(word)
    return [part for part in found if len(part) > 1] if len(found) > 1 or "_" in word else []


def terms(query: str) -> list[str]:
    """Words to look for, in order, once each: identifiers whole, then their parts; function words dropped."""
    found: dict[str, None] = {}
    for word in WORD.findall(query):
        for term in (word, *parts(word)):
            if term.lower() not in STOP and term.strip("_"):
                found[term.lower()] = None
    return list(found)


def _quoted(term: str) -> str:
    return '"' + term.replace('"', '""').replace("\0", " ") + '"'
