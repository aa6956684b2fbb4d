"""What is wrong with a draft's text before any machine time: code left out, prose, debris, diff marks, no entry, nothing changed. Pure.

A line of the source that was given is its author's and is held against nobody.
"""

from __future__ import annotations

import ast
import itertools
import keyword
import re
import unicodedata
from collections.abc import Iterator

from agents.artifacts import CoderBrief, Draft, Drafts
from agents.elisions import elisions
from agents.source_text import blanked, is_python, language, line_of, parts

TOLD = 3
"""Faults told of each draft; the first ones, since the later often follow from them."""
_WORDS = re.compile(r"(?<![\w.])[A-Za-z][a-z]*(?:'[a-z]+)?(?:[,]?[ ][A-Za-z][a-z]*(?:'[a-z]+)?)+(?!\w)")
_CPP_WORDS = frozenset((
    "alignas", "auto", "bool", "case", "catch", "char", "class", "const", "consteval", "constexpr", "constinit", "default",
    "delete", "do", "double", "else", "enum", "explicit", "export", "extern", "false", "final", "float", "for", "friend",
    "goto", "if", "inline", "int", "long", "mutable", "namespace", "new", "noexcept", "nullptr", "operator", "override",
    "private", "protected", "public", "register", "restrict", "return", "short", "signed", "sizeof", "static", "struct",
    "switch", "template", "this", "throw", "true", "try", "typedef", "typename", "union", "unsigned", "using", "virtual",
    "void", "volatile", "while", "and", "or", "not",
))  # fmt: skip
_FENCE = re.compile(r"[ \t]*(?:```|~~~)")
_DIFF = re.compile(r"@@ -\d|diff --git |--- a/|\+\+\+ b/|<<<<<<< |>>>>>>> |=======\Z")
_ADDED = re.compile(r"[+-](?![+\-=>])[ \t]*[\w#{}/]")
_NUMBERED = re.compile(r"\s*(\d+)\s*(?:[|:→]|\t|(?=\s))")


def faults(answer: Drafts, brief: CoderBrief) -> tuple[str, ...]:
    """One sentence a fault, with draft and line; empty where all drafts can go on to be built."""
    return tuple(f"draft {number}: {fault}" for number, draft in enumerate(answer.drafts, 1) for fault in faults_of(draft, brief))


def faults_of(draft: Draft, brief: CoderBrief) -> tuple[str, ...]:
    """The first faults of one draft, one sentence each with its line."""
    source, python = draft.source, is_python(brief.task.language)
    if not source.strip():
        return ("the source is empty; give the whole file",)
    if brief.without is None and _plain(source) == _plain(brief.source):
        return ("this is the given source unchanged; apply the planned methods, or say in skipped why they cannot be applied",)
    given = {line.strip() for line in brief.source.split("\n")}
    lines = source.split("\n")
    marked = [fault for fault in _marks(source, lines, python) if fault]
    if marked:
        return tuple(marked[:TOLD])
    found = {
        (number, sentence)
        for number, sentence in (*_left_out(source, python), *_debris(source, python), *_prose(source, python))
        if lines[number - 1].strip() not in given
    }
    # Where the given source has none that can be seen here either (a macro makes it), the compiler is left to say it.
    seen = not brief.source.strip() or _entry(brief.source, brief.task.language, python) is None
    entry = _entry(source, brief.task.language, python) if seen else None
    return (*(f"line {number}: {sentence}" for number, sentence in sorted(found)[:TOLD]), *([entry] if entry else []))


def _plain(source: str) -> list[str]:
    return [line.rstrip() for line in source.split("\n") if line.strip()]


def _quoted(text: str) -> str:
    return f"`{text.strip()[:70]}`"


def _left_out(source: str, python: bool) -> Iterator[tuple[int, str]]:
    for number, text in elisions(source, python):
        yield number, f"{_quoted(text)} stands for code that was left out; write it all out"
    for part in parts(source, python):
        # Names alone on a line: a comment may well say in words what is kept.
        alone = not source[source.rfind("\n", 0, part.start) + 1 : part.start].strip()
        if alone and part.kind == "comment" and re.fullmatch(r"(?://|#)\s*keep:\s*[\w`()]+(?:\s*,\s*[\w`()]+)*\s*", part.text):
            yield line_of(source, part.start), f"{_quoted(part.text)} names nothing that the given file defines once; write it out"


def _marks(source: str, lines: list[str], python: bool) -> Iterator[str]:
    """Marks of a fence, a diff or line numbers, which spoil the whole text."""
    bare = blanked(source, python).split("\n")
    for number, line in enumerate(bare, 1):
        if _FENCE.match(line):
            yield f"line {number}: {_quoted(lines[number - 1])} is the mark of a code block; give the code without it"
        elif _DIFF.match(line):
            yield f"line {number}: {_quoted(lines[number - 1])} is a mark of a diff; give the whole file as it is to be compiled"
    added = [number for number, line in enumerate(bare, 1) if _ADDED.match(line)]
    if len(added) > 2 and len(added) * 8 > len(lines):
        yield f"line {added[0]}: lines begin with + or - as in a diff; give the whole file as it is to be compiled"
    counted = [int(match[1]) for line in lines if line.strip() and (match := _NUMBERED.match(line))]
    rising = sum(1 for a, b in itertools.pairwise(counted) if b == a + 1)
    if rising > 2 and rising * 5 > len([line for line in lines if line.strip()]) * 3:
        yield "line 1: the lines begin with their numbers; give the code without them"


def _debris(source: str, python: bool) -> Iterator[tuple[int, str]]:
    """Characters outside of ASCII in code; in comments and strings only those that cannot be seen."""
    bare = blanked(source, python)
    for match in re.finditer(r"[^\x00-\x7f]", source):
        sign = match[0]
        hidden = unicodedata.category(sign) == "Cf"
        if not hidden and bare[match.start()] != sign:
            continue
        name = unicodedata.name(sign, "no name")
        where = "cannot be seen" if hidden else "is no ASCII and stands in code"
        yield line_of(source, match.start()), f"the character U+{ord(sign):04X} ({name}) {where}; write plain ASCII"


def _prose(source: str, python: bool) -> Iterator[tuple[int, str]]:
    """Lines of code that are sentences: names in a row as no language has them."""
    if python and _parses(source):
        return
    words, most = (frozenset(keyword.kwlist) | {"match", "case"}, 2) if python else (_CPP_WORDS, 3)
    lines = blanked(source, python).split("\n")
    for number, (before, line) in enumerate(zip(["", *lines], lines, strict=False), 1):
        # Messages of preprocessor lines are prose by right.
        if not (line.lstrip().startswith("#") or before.endswith("\\")) and any(
            _longest(match[0], words) > most for match in _WORDS.finditer(line)
        ):
            yield number, f"{_quoted(line)} is prose; give code and comments only"


def _longest(words: str, known: frozenset[str]) -> int:
    """Most words in a row that are none of the language's. A capital at the beginning makes all of them a sentence's."""
    split = re.split(r" |(,)", words)
    if split[0][:1].isupper() and split[0] not in known and "," not in split[:4]:
        known = frozenset()
    longest = run = 0
    for word in split:
        run = 0 if word == "," or word in known else run + bool(word)
        longest = max(longest, run)
    return longest


def _parses(source: str) -> bool:
    try:
        ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return False
    return True


def _entry(source: str, name: str, python: bool) -> str | None:
    """The sentence about an entry that is not defined."""
    entry, bare = language(name).entry, blanked(source, python)
    if python:
        return (
            None if re.search(rf"^(?:async[ ]+)?def[ ]+{entry}\b", bare, re.MULTILINE) else f"`{entry}` is not defined; keep its signature"
        )
    defined = any(_body_follows(bare, match.end() - 1) for match in re.finditer(rf"\b{entry}\s*\(", bare))
    exported = any(part.kind == "string" and part.text == '"C"' for part in parts(source, python))
    if not defined:
        return f"`{entry}` is not defined; keep it and its signature"
    return None if exported else f'`{entry}` is not declared extern "C"; keep that'


def _body_follows(bare: str, bracket: int) -> bool:
    depth = 0
    for position in range(bracket, len(bare)):
        depth += {"(": 1, ")": -1}.get(bare[position], 0)
        if depth == 0:
            return bool(re.match(r"\s*(?:noexcept\s*)?\{", bare[position + 1 :]))
    return False
