"""What is wrong with a draft's text before any machine time: code left out, fences, diff marks, no entry, nothing
changed. Pure.

A line of the source that was given is its author's and is held against nobody. A comment beside a statement describes
that statement and is left alone, and so is one that announces the code behind it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from agents.artifacts import CoderBrief, Draft, Drafts
from agents.text.source import Part, blanked, is_python, line_of, parts
from tools.languages.base import open_language

TOLD = 3
"""Faults told of each draft; the first ones, since the later often follow from them."""
_FENCE = re.compile(r"[ \t]*(?:```|~~~)")
_DIFF = re.compile(r"@@ -\d|diff --git |--- a/|\+\+\+ b/|<<<<<<< |>>>>>>> |=======\Z")
_ADDED = re.compile(r"[+-](?![+\-=>])[ \t]*[\w#{}/]")
_CODE = (
    r"(?:\w+ "
    r")?(?:code|kernels?|functions?|file|body|implementations?|loops?|program|source|helpers?|includes?|definitions?|logic|class|"
    r"struct|methods?|wrapper|module|imports?|setup|stuff)"
)
_STAYS = r"(?:unchanged|not changed|no changes?|the same|same|identical|as (?:before|above|is|in the original|it was))"
_OF_CODE = rf"(?:rest|remainder) of (?:the |this |your |my )?{_CODE}"
_ABOUT_CODE = re.compile(
    r"\b(?:unchanged|no changes?|omitted|elided|not shown|and so on)\b"
    r"|\b(?:same as (?:before|above|previous|in|the|original|baseline)|as (?:before|above|in the original))\b"
    rf"|\b{_OF_CODE}\b|\b(?:remaining|existing|previous|original|other|more|your|further|same) {_CODE}\b"
    rf"|\b{_CODE} (?:here|goes here|continues|follows)\b"
    r"|\A(?:same|rest|the rest|similar(?:ly)?|likewise|continued?|snip(?:ped)?|repeat(?:ed)?)\Z"
)
"""In a comment that has an ellipsis at one of its ends: it speaks of code, not of values."""
_ALWAYS = re.compile(
    r"(?:.*\b)?(?:omitted|elided|skipped|shortened|truncated|left out|not shown)(?: here)? for "
    r"(?:brevity|clarity|space)(?: .*)?"
    rf"|(?:the )?{_OF_CODE}(?: (?:is|are|remains?|stays?|goes))? (?:{_STAYS}|here|omitted)"
    rf"|(?:the )?(?:rest|everything else|all else|(?:all )?other {_CODE}|remaining {_CODE})(?: is| are| "
    rf"remains?| stays?)?"
    rf" (?:{_STAYS}|omitted)"
    rf"|(?:insert|add|put|paste|place|fill in|copy|keep)(?: in)?(?: your| the| any)?(?: rest| remaining| "
    rf"existing| original| same)?"
    rf"(?: of the)? {_CODE} (?:here|from .*)"
    rf"|(?:your|the|existing|actual|original|previous) {_CODE} (?:goes )?here|(?:your )?{_CODE} goes here"
    rf"|(?:todo|fixme|xxx)\W*(?:to )?(?:implement|fill in|complete|finish|write)(?: me| this| it|(?: the)? "
    rf"{_CODE})?(?: here)?"
    r"|(?:to be )?(?:implemented|filled in|completed)(?: later)?"
    rf"|existing {_CODE}|(?:not (?:yet )?implemented)(?: yet| here)?"
    r"|(?:a |just a )?(?:placeholder|stub)(?: (?:implementation|body|kernel|function))?"
)
"""A whole comment that stands for code wherever it is."""
_PLACEHOLDERS = ("", "pass", "...", "return", "return None")


def faults_of_drafts(answer: Drafts, brief: CoderBrief) -> tuple[str, ...]:
    """One sentence a fault, with draft and line; empty where all drafts can go on to be built."""
    return tuple(
        f"draft {number}: {fault}"
        for number, draft in enumerate(answer.drafts, 1)
        for fault in draft_faults(draft, brief)
    )


def draft_faults(draft: Draft, brief: CoderBrief) -> tuple[str, ...]:
    """The first faults of one draft, one sentence each with its line."""
    source, python = draft.source, is_python(brief.task.language)
    if not source.strip():
        return ("the source is empty; give the whole file",)
    if not brief.without and _plain(source) == _plain(brief.source):
        return (
            (
                "this is the given source unchanged; apply the planned methods, or say in skipped why they cannot "
                "be applied"
            ),
        )
    given = {line.strip() for line in brief.source.split("\n")}
    lines = source.split("\n")
    marked = [fault for fault in _marks(source, lines, python) if fault]
    if marked:
        return tuple(marked[:TOLD])
    found = {
        (number, sentence) for number, sentence in _left_out(source, python) if lines[number - 1].strip() not in given
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
    for number, text in _elisions(source, python):
        yield number, f"{_quoted(text)} stands for code that was left out; write it all out"


def _marks(source: str, lines: list[str], python: bool) -> Iterator[str]:
    """Marks of a fence or a diff, which spoil the whole text."""
    bare = blanked(source, python).split("\n")
    for number, line in enumerate(bare, 1):
        if _FENCE.match(line):
            yield f"line {number}: {_quoted(lines[number - 1])} is the mark of a code block; give the code without it"
        elif _DIFF.match(line):
            yield (
                f"line {number}: {_quoted(lines[number - 1])} is a mark of a diff; give the whole file as it is to "
                f"be compiled"
            )
    added = [number for number, line in enumerate(bare, 1) if _ADDED.match(line)]
    if len(added) > 2 and len(added) * 8 > len(lines):
        yield f"line {added[0]}: lines begin with + or - as in a diff; give the whole file as it is to be compiled"


def _entry(source: str, name: str, python: bool) -> str | None:
    """The sentence about an entry that is not defined."""
    entry, bare = open_language(name).entry, blanked(source, python)
    if python:
        return (
            None
            if re.search(rf"^(?:async[ ]+)?def[ ]+{entry}\b", bare, re.MULTILINE)
            else f"`{entry}` is not defined; keep its signature"
        )
    exported = any(part.kind == "string" and part.text == '"C"' for part in parts(source, python))
    if not re.search(rf"\b{entry}\s*\(", bare):
        return f"`{entry}` is not defined; keep it and its signature"
    return None if exported else f'`{entry}` is not declared extern "C"; keep that'


# ---------------------------------------------------------------- code that was left out


def _elisions(source: str, python: bool) -> Iterator[tuple[int, str]]:
    """(line, text) of each place where code was left out, in no order; a place may be named twice."""
    bare = blanked(source, python)
    lines, bare_lines = source.split("\n"), bare.split("\n")
    for part in parts(source, python):
        if part.kind == "comment" and _stands_for_code(part, source, bare, bare_lines, python):
            number = line_of(source, part.start)
            yield number, lines[number - 1].strip()
    found = _python_ellipses(source, bare) if python else _cpp_ellipses(bare)
    yield from ((number, lines[number - 1].strip()) for number in found)


def _stands_for_code(part: Part, source: str, bare: str, bare_lines: list[str], python: bool) -> bool:
    number = line_of(source, part.start)
    start = source.rfind("\n", 0, part.start) + 1
    before = bare[start : part.start].strip()
    if before not in _PLACEHOLDERS and not before.endswith(("{", "}", ":" if python else "{")):
        return False
    text = " ".join(
        re.sub(r"\A(?://+[!/]?|/\*+!?|#+)|\*+/\Z|^[ \t]*\*+(?!/)", " ", part.text, flags=re.MULTILINE)
        .replace("…", "...")
        .split()
    )
    text = text.strip("[](){}<>-=*~#/ ")
    core = re.sub(r"\s+", " ", text.replace("...", " ").replace(". . .", " ")).strip(" .,:;!-()[]{}<>").lower()
    open_ended = text.startswith(("...", ". . .")) or text.endswith(("...", ". . ."))
    if open_ended and not core:
        return not (_is_comment(number - 1, source, bare_lines) and _is_comment(number + 1, source, bare_lines))
    return (open_ended and _ABOUT_CODE.search(core) is not None) or _ALWAYS.fullmatch(core) is not None


def _is_comment(number: int, source: str, bare_lines: list[str]) -> bool:
    """Whether a line holds a comment and nothing else."""
    lines = source.split("\n")
    return 0 < number <= len(lines) and bool(lines[number - 1].strip()) and not bare_lines[number - 1].strip()


def _cpp_ellipses(bare: str) -> Iterator[int]:
    """Lines on which `...` is a statement; as parameters, packs, folds, catch and ranges it stands behind something
    else."""
    for match in re.finditer(r"\.\.\.|…", bare):
        before = bare[: match.start()].rstrip()
        if not before or before[-1] in "{};":
            yield line_of(bare, match.start())


def _python_ellipses(source: str, bare: str) -> Iterator[int]:
    """Lines on which `...` or `raise NotImplementedError` is all of a body; in classes and overloads it may be."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        yield from (number for number, line in enumerate(bare.split("\n"), 1) if line.strip() in ("...", "…"))
        return
    allowed = {id(inner) for node in ast.walk(tree) if _declares_only(node) for inner in ast.walk(node)}
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and node.value.value is Ellipsis
            and id(node) not in allowed
        ):
            yield node.lineno
        elif isinstance(node, ast.FunctionDef) and id(node) not in allowed:
            body = [one for one in node.body if not (isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant))]
            if len(body) == 1 and isinstance(body[0], ast.Raise) and "NotImplementedError" in ast.unparse(body[0]):
                yield body[0].lineno


def _declares_only(node: ast.AST) -> bool:
    if isinstance(node, ast.ClassDef):
        return True
    return isinstance(node, ast.FunctionDef) and any(
        re.search(r"overload|abstract", ast.unparse(one)) for one in node.decorator_list
    )
