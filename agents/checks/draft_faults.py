"""Finds faults in a draft's text before it uses machine time: omitted code, fences, diff marks, a missing entry, an
unchanged source. Pure.

A line that the given source contains is never a fault. Neither is a comment beside a statement, which describes that
statement, nor a comment that announces the code after it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from agents.artifacts import CoderBrief, Draft, Drafts
from agents.text.source import (
    SourcePart,
    blank_comments_and_strings,
    comments_and_strings,
    is_python_language,
    line_number,
)
from tools.languages.base import open_language

MAX_FAULTS_PER_DRAFT = 3
"""Number of faults that are reported for each draft: the first ones, because later ones often follow from them."""
_FENCE_LINE = re.compile(r"[ \t]*(?:```|~~~)")
_DIFF_LINE = re.compile(r"@@ -\d|diff --git |--- a/|\+\+\+ b/|<<<<<<< |>>>>>>> |=======\Z")
_PLUS_OR_MINUS_LINE = re.compile(r"[+-](?![+\-=>])[ \t]*[\w#{}/]")
_CODE_NOUN = (
    r"(?:\w+ "
    r")?(?:code|kernels?|functions?|file|body|implementations?|loops?|program|source|helpers?|includes?|definitions?|logic|class|"
    r"struct|methods?|wrapper|module|imports?|setup|stuff)"
)
_UNCHANGED_PHRASE = (
    r"(?:unchanged|not changed|no changes?|the same|same|identical|as (?:before|above|is|in the original|it was))"
)
_REST_OF_CODE = rf"(?:rest|remainder) of (?:the |this |your |my )?{_CODE_NOUN}"
_COMMENT_ABOUT_CODE = re.compile(
    r"\b(?:unchanged|no changes?|omitted|elided|not shown|and so on)\b"
    r"|\b(?:same as (?:before|above|previous|in|the|original|baseline)|as (?:before|above|in the original))\b"
    rf"|\b{_REST_OF_CODE}\b|\b(?:remaining|existing|previous|original|other|more|your|further|same) {_CODE_NOUN}\b"
    rf"|\b{_CODE_NOUN} (?:here|goes here|continues|follows)\b"
    r"|\A(?:same|rest|the rest|similar(?:ly)?|likewise|continued?|snip(?:ped)?|repeat(?:ed)?)\Z"
)
"""In a comment that begins or ends with an ellipsis: words that refer to code, not to values."""
_PLACEHOLDER_COMMENT = re.compile(
    r"(?:.*\b)?(?:omitted|elided|skipped|shortened|truncated|left out|not shown)(?: here)? for "
    r"(?:brevity|clarity|space)(?: .*)?"
    rf"|(?:the )?{_REST_OF_CODE}(?: (?:is|are|remains?|stays?|goes))? (?:{_UNCHANGED_PHRASE}|here|omitted)"
    rf"|(?:the )?(?:rest|everything else|all else|(?:all )?other {_CODE_NOUN}|remaining {_CODE_NOUN})(?: is| are| "
    rf"remains?| stays?)?"
    rf" (?:{_UNCHANGED_PHRASE}|omitted)"
    rf"|(?:insert|add|put|paste|place|fill in|copy|keep)(?: in)?(?: your| the| any)?(?: rest| remaining| "
    rf"existing| original| same)?"
    rf"(?: of the)? {_CODE_NOUN} (?:here|from .*)"
    rf"|(?:your|the|existing|actual|original|previous) {_CODE_NOUN} (?:goes )?here|(?:your )?{_CODE_NOUN} goes here"
    rf"|(?:todo|fixme|xxx)\W*(?:to )?(?:implement|fill in|complete|finish|write)(?: me| this| it|(?: the)? "
    rf"{_CODE_NOUN})?(?: here)?"
    r"|(?:to be )?(?:implemented|filled in|completed)(?: later)?"
    rf"|existing {_CODE_NOUN}|(?:not (?:yet )?implemented)(?: yet| here)?"
    r"|(?:a |just a )?(?:placeholder|stub)(?: (?:implementation|body|kernel|function))?"
)
"""A whole comment that replaces code wherever it occurs."""
_EMPTY_STATEMENTS = ("", "pass", "...", "return", "return None")


def all_draft_faults(answer: Drafts, brief: CoderBrief) -> tuple[str, ...]:
    """Return one sentence for each fault, with draft and line; empty when all drafts can be built."""
    return tuple(
        f"draft {number}: {fault}"
        for number, draft in enumerate(answer.drafts, 1)
        for fault in draft_faults(draft, brief)
    )


def draft_faults(draft: Draft, brief: CoderBrief) -> tuple[str, ...]:
    """Return the first faults of one draft, one sentence each, with the line."""
    source, python = draft.source, is_python_language(brief.task.language)
    if not source.strip():
        return ("the source is empty; give the whole file",)
    if not brief.ablated_methods and _lines_with_text(source) == _lines_with_text(brief.source):
        return (
            (
                "this is the given source unchanged; apply the planned methods, or say in skipped why they cannot "
                "be applied"
            ),
        )
    given_lines = {line.strip() for line in brief.source.split("\n")}
    lines = source.split("\n")
    mark_faults = [fault for fault in _fence_and_diff_faults(source, lines, python) if fault]
    if mark_faults:
        return tuple(mark_faults[:MAX_FAULTS_PER_DRAFT])
    omissions = {
        (number, sentence)
        for number, sentence in _omission_faults(source, python)
        if lines[number - 1].strip() not in given_lines
    }
    # If the given source shows no entry here either (a macro makes it), the compiler decides.
    entry_is_visible = not brief.source.strip() or _entry_fault(brief.source, brief.task.language, python) is None
    entry = _entry_fault(source, brief.task.language, python) if entry_is_visible else None
    return (
        *(f"line {number}: {sentence}" for number, sentence in sorted(omissions)[:MAX_FAULTS_PER_DRAFT]),
        *([entry] if entry else []),
    )


def _lines_with_text(source: str) -> list[str]:
    return [line.rstrip() for line in source.split("\n") if line.strip()]


def _quote_line(text: str) -> str:
    return f"`{text.strip()[:70]}`"


def _omission_faults(source: str, python: bool) -> Iterator[tuple[int, str]]:
    for number, text in _find_omissions(source, python):
        yield number, f"{_quote_line(text)} replaces code that was left out; write all of the code"


def _fence_and_diff_faults(source: str, lines: list[str], python: bool) -> Iterator[str]:
    """Yield a sentence for each mark of a fence or a diff, which makes the whole text unusable."""
    bare = blank_comments_and_strings(source, python).split("\n")
    for number, line in enumerate(bare, 1):
        if _FENCE_LINE.match(line):
            yield f"line {number}: {_quote_line(lines[number - 1])} is a mark of a code block; give the code without it"
        elif _DIFF_LINE.match(line):
            yield (
                f"line {number}: {_quote_line(lines[number - 1])} is a mark of a diff; give the whole file as the "
                f"compiler should read it"
            )
    added = [number for number, line in enumerate(bare, 1) if _PLUS_OR_MINUS_LINE.match(line)]
    if len(added) > 2 and len(added) * 8 > len(lines):
        yield (
            f"line {added[0]}: lines begin with + or - as in a diff; give the whole file as the compiler should read it"
        )


def _entry_fault(source: str, name: str, python: bool) -> str | None:
    """Return a sentence if the source does not define the entry function as required; else None."""
    entry, bare = open_language(name).entry, blank_comments_and_strings(source, python)
    if python:
        return (
            None
            if re.search(rf"^(?:async[ ]+)?def[ ]+{entry}\b", bare, re.MULTILINE)
            else f"`{entry}` is not defined; keep its signature"
        )
    exported = any(part.kind == "string" and part.text == '"C"' for part in comments_and_strings(source, python))
    if not re.search(rf"\b{entry}\s*\(", bare):
        return f"`{entry}` is not defined; keep it and its signature"
    return None if exported else f'`{entry}` is not declared extern "C"; keep that'


# ---------------------------------------------------------------- code that was left out


def _find_omissions(source: str, python: bool) -> Iterator[tuple[int, str]]:
    """Yield (line, text) of each position where code was left out, unordered; a position may occur twice."""
    bare = blank_comments_and_strings(source, python)
    lines, bare_lines = source.split("\n"), bare.split("\n")
    for part in comments_and_strings(source, python):
        if part.kind == "comment" and _is_placeholder_comment(part, source, bare, bare_lines, python):
            number = line_number(source, part.start)
            yield number, lines[number - 1].strip()
    found = _python_stub_lines(source, bare) if python else _cpp_ellipsis_lines(bare)
    yield from ((number, lines[number - 1].strip()) for number in found)


def _is_placeholder_comment(part: SourcePart, source: str, bare: str, bare_lines: list[str], python: bool) -> bool:
    number = line_number(source, part.start)
    start = source.rfind("\n", 0, part.start) + 1
    before = bare[start : part.start].strip()
    if before not in _EMPTY_STATEMENTS and not before.endswith(("{", "}", ":" if python else "{")):
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
        return not (
            _is_comment_line(number - 1, source, bare_lines) and _is_comment_line(number + 1, source, bare_lines)
        )
    return (open_ended and _COMMENT_ABOUT_CODE.search(core) is not None) or _PLACEHOLDER_COMMENT.fullmatch(
        core
    ) is not None


def _is_comment_line(number: int, source: str, bare_lines: list[str]) -> bool:
    """Return whether a line consists of a comment alone."""
    lines = source.split("\n")
    return 0 < number <= len(lines) and bool(lines[number - 1].strip()) and not bare_lines[number - 1].strip()


def _cpp_ellipsis_lines(bare: str) -> Iterator[int]:
    """Yield the lines on which `...` is a statement. In parameters, packs, folds, catch and ranges it follows other
    code."""
    for match in re.finditer(r"\.\.\.|…", bare):
        before = bare[: match.start()].rstrip()
        if not before or before[-1] in "{};":
            yield line_number(bare, match.start())


def _python_stub_lines(source: str, bare: str) -> Iterator[int]:
    """Yield the lines on which `...` or `raise NotImplementedError` is a whole body, which classes and overloads may
    have."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        yield from (number for number, line in enumerate(bare.split("\n"), 1) if line.strip() in ("...", "…"))
        return
    allowed = {id(inner) for node in ast.walk(tree) if _may_have_empty_body(node) for inner in ast.walk(node)}
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


def _may_have_empty_body(node: ast.AST) -> bool:
    if isinstance(node, ast.ClassDef):
        return True
    return isinstance(node, ast.FunctionDef) and any(
        re.search(r"overload|abstract", ast.unparse(one)) for one in node.decorator_list
    )
