"""Synonyms and paraphrases: which phrases of a question mean a concept, and how else it is said."""

from __future__ import annotations

import re
from functools import cached_property
from pathlib import Path

GLOSSARY_FILE = Path(__file__).parent / "glossary.yaml"
SUFFIX = re.compile(r"(?:isation|ization|ations?|ising|izing|ised|ized|ings?|ed|es|s|ly|ers?)$")
WORD = re.compile(r"[\w.]*\w")


def stem(word: str) -> str:
    """A word without its ending, in lower case; what would get shorter than four letters stays whole."""
    word = word.lower()
    short = SUFFIX.sub("", word)
    found = short if len(short) >= 4 else word
    return found[:-1] if len(found) > 4 and found[-1] in "ey" else found


def stems(text: str) -> tuple[str, ...]:
    """The stems of its words, in order."""
    return tuple(map(stem, WORD.findall(text)))


class Glossary:
    """Groups of phrases that mean the same."""

    def __init__(self, groups: tuple[tuple[str, ...], ...]) -> None:
        self.groups = groups

    @classmethod
    def open(cls, path: Path = GLOSSARY_FILE) -> Glossary:
        """Read a list of lists of phrases."""
        import yaml

        from knowledge_base.pages.wiki import yaml_loader

        groups = yaml.load(path.read_text(encoding="utf-8"), Loader=yaml_loader())
        return cls(tuple(tuple(map(str, group)) for group in groups))

    @cached_property
    def ordinary_words(self) -> frozenset[str]:
        """The words of its phrases, except for those that are written in capitals, as instructions are."""
        words = {word for group in self.groups for phrase in group for word in WORD.findall(phrase)}
        return frozenset(word for word in words if not word.isupper())

    @cached_property
    def _by_stem(self) -> dict[tuple[str, ...], list[tuple[int, str]]]:
        """Stems of a phrase -> the groups that it stands in, and how it is written there."""
        found: dict[tuple[str, ...], list[tuple[int, str]]] = {}
        for number, group in enumerate(self.groups):
            for phrase in group:
                found.setdefault(stems(phrase), []).append((number, phrase))
        return found

    @cached_property
    def _longest(self) -> int:
        return max(map(len, self._by_stem), default=0)

    def concepts_in(self, text: str) -> dict[int, list[str]]:
        """Numbers of the groups of which `text` contains a phrase -> its words that say it. Long phrases hide those
        within them."""
        words = WORD.findall(text)
        stemmed = tuple(map(stem, words))
        found: dict[int, list[str]] = {}
        start = 0
        while start < len(words):
            for length in range(min(self._longest, len(words) - start), 0, -1):
                groups = self._by_stem.get(stemmed[start : start + length])
                if groups:
                    for number, _ in groups:
                        found.setdefault(number, []).extend(word.lower() for word in words[start : start + length])
                    start += length - 1
                    break
            start += 1
        return found
