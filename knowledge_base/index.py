"""Full-text search over the wiki's passages: SQLite FTS5 in memory, Porter stems, identifiers kept whole and in parts."""

from __future__ import annotations

import re
import sqlite3

from knowledge_base.artifacts import Passage
from knowledge_base.wiki import Wiki
from tools.errors import InfrastructureError

WORD = re.compile(r"\w+")
PARTS = re.compile(r"[A-Z]*[^\W_A-Z]+|[A-Z]+")
STOP = frozenset(
    WORD.findall(
        "a an and are as at be but by can do does for from get has have how i if in into is it its make me my no not of on or so than that "
        "the their then there these this to too use was what when where which why will with you"
    )
)
COLUMNS = {"title": 4.0, "tags": 1.5, "heading": 2.5, "body": 1.0, "parts": 0.4}
"""Columns and their weights in the ranking (bm25); tags are what the front matter says the page is about."""


class Index:
    """Search over one wiki; built in memory in some milliseconds, so that there is nothing on disk to go stale."""

    def __init__(self, wiki: Wiki) -> None:
        self._passages = wiki.passages()
        tags = {page.path: " ".join((page.head.id, *page.head.applies_to, *page.head.rules, page.head.recipe or "")) for page in wiki.pages}
        self._languages = {page.path: page.head.languages for page in wiki.pages}
        self._all_languages = sorted({language for languages in self._languages.values() for language in languages})
        # The graph asks from whichever thread runs the node; the table is only read after this.
        self._db = sqlite3.connect(":memory:", check_same_thread=False)
        try:
            self._db.execute(f"CREATE VIRTUAL TABLE p USING fts5({', '.join(COLUMNS)}, tokenize=\"porter unicode61 tokenchars '_'\")")
        except sqlite3.OperationalError as error:
            raise InfrastructureError(f"this Python's SQLite has no FTS5 ({error}); use a CPython built with it") from error
        filled = ((number, *_row(passage, tags[passage.path])) for number, passage in enumerate(self._passages))
        self._db.executemany(f"INSERT INTO p(rowid, {', '.join(COLUMNS)}) VALUES (?, ?, ?, ?, ?, ?)", filled)

    def search(self, query: str, k: int = 8, *, kind: str | None = None, language: str | None = None) -> tuple[Passage, ...]:
        """The `k` best passages for `query` (any text), each with score and the terms that matched; empty when nothing does.

        `kind` and `language` are hard filters; pages without languages are about all of them. `explain` says why nothing was found.
        """
        terms = _terms(query)
        if not terms:
            return ()
        weights = ", ".join(map(str, COLUMNS.values()))
        match = " OR ".join(map(_quoted, terms))
        ranked = self._db.execute(f"SELECT rowid, -bm25(p, {weights}) FROM p WHERE p MATCH ?", (match,)).fetchall()
        by_term = {term: self._rows(term) for term in terms}
        found = []
        for row, score in ranked:
            if self._fits(self._passages[row], kind, language):
                matched = [term for term in terms if row in by_term[term]]
                # bm25 favours short passages; one that covers the whole question should beat one that repeats a word of it.
                found.append((score * len(matched) / len(terms), row, ", ".join(matched)))
        found.sort(key=lambda hit: (-hit[0], hit[1]))
        return tuple(self._passages[row].model_copy(update={"score": round(score, 4), "why": why}) for score, row, why in found[:k])

    def explain(self, query: str, *, kind: str | None = None, language: str | None = None) -> str:
        """Why `search` with the same arguments finds nothing, in one sentence; empty when it does find something."""
        if self.search(query, 1, kind=kind, language=language):
            return ""
        terms = _terms(query)
        if not self._passages:
            return "the wiki has no pages"
        if not terms:
            return f"the query {query!r} has no word to search for"
        kinds = sorted({passage.kind for passage in self._passages})
        if kind is not None and kind not in kinds:
            return f"no page is of kind {kind!r}; there are {', '.join(kinds)}"
        if language is not None and language not in self._all_languages:
            return f"no page is about language {language!r}; there are {', '.join(self._all_languages)}"
        unfiltered = len(set().union(*(self._rows(term) for term in terms)))
        if unfiltered:
            return f"{unfiltered} passages match, but none within kind={kind or 'any'} and language={language or 'any'}"
        return f"none of the words {', '.join(terms)} occurs in the wiki"

    def _fits(self, passage: Passage, kind: str | None, language: str | None) -> bool:
        if kind is not None and passage.kind != kind:
            return False
        languages = self._languages[passage.path]
        return language is None or language in languages or (not languages and language in self._all_languages)

    def _rows(self, term: str) -> set[int]:
        return {row for (row,) in self._db.execute("SELECT rowid FROM p WHERE p MATCH ?", (_quoted(term),))}


def _row(passage: Passage, tags: str) -> tuple[str, str, str, str, str]:
    parts = {part for word in WORD.findall(f"{tags} {passage.text}") for part in _parts(word)}
    return passage.heading[0], tags, " ".join(passage.heading[1:]), passage.text, " ".join(sorted(parts))


def _parts(word: str) -> list[str]:
    """What an identifier is made of (snake_case, camelCase); nothing for a plain word."""
    found = PARTS.findall(word)
    return [part for part in found if len(part) > 1] if len(found) > 1 or "_" in word else []


def _terms(query: str) -> list[str]:
    """Words to look for, in order, once each: identifiers whole, then their parts; function words dropped."""
    terms: dict[str, None] = {}
    for word in WORD.findall(query):
        for term in (word, *_parts(word)):
            if term.lower() not in STOP and term.strip("_"):
                terms[term.lower()] = None
    return list(terms)


def _quoted(term: str) -> str:
    return '"' + term.replace('"', '""') + '"'
