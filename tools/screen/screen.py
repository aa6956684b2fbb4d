"""The static screen: it refuses source code that an honest kernel does not need and that could falsify a measurement.

Pure: text in, sentences out. The screen reduces what reaches the sandbox and tells the author early; it does not
replace the sandbox. Where the text does not show whether code is honest, the screen refuses it if an honest kernel has
an alternative. A static buffer could be scratch or a cache of earlier results, so scratch memory must come from the
stack or the heap inside the call; tables must be constexpr; inline assembly must become intrinsics (CUDA device code
may use assembly that reads no clock).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple

from tools.errors import SettingsError
from tools.languages.cpp_source import CUDA_GRAMMAR_LANGUAGES
from tools.screen import cpp_state, cuda_code, python_module
from tools.screen.refusals import Refusal
from tools.screen.screen_rules import ScreenRules, load_screen_rules

_LEXER = re.compile(
    r"""(?P<comment>//[^\n]*|/\*.*?(?:\*/|\Z))
      |(?P<string>(?:u8|[uUL])?R"(?P<fence>[^\s()\\]{0,16})\(.*?\)(?P=fence)"|(?:u8|[uUL])?"(?:\\.|[^"\\\n])*"|(?:u8|[uUL])?'(?:\\.|[^'\\\n])+')
      |(?P<number>\.?\d(?:[eEpP][+-]|'?[\w.])*)
      |(?P<name>[A-Za-z_$]\w*)
      |(?P<digraph><%|%>|%:|<:(?!:[^:>]))
      |(?P<other>::|->|\#\#|[^\s])""",
    re.VERBOSE | re.DOTALL | re.ASCII,
)


class Token(NamedTuple):
    """One token of C++ source outside comments."""

    line: int
    kind: str
    """string, number, name, digraph or other."""
    text: str


def screen(
    source: str,
    language: str,
    files: Collection[str] = (),
    tensors: Collection[str] = (),
    library: Collection[str] = (),
) -> tuple[str, ...]:
    """One sentence for each refusal of `source`, with its line and the quoted code; empty: the source passes.

    `files`: names of the candidate's other files, which `source` may include; the caller screens each of them, too.
    `tensors`: arguments of the entry that are tensors, which a kernel in Python need not annotate. `library`: operators
    of torch that the task lets host code call. Raises SettingsError for a language that has no screen.
    """
    if language in ("triton", "cutedsl"):
        allowed = (
            load_screen_rules().python
            if language == "triton"
            else load_screen_rules().python.with_cute_dsl(load_screen_rules().cutedsl)
        )
        return python_module.screen_python(source, allowed.with_library(library), tensors)
    if language not in ("cpp", *CUDA_GRAMMAR_LANGUAGES):
        raise SettingsError(
            f"language: {language!r} has no screen, so its kernels are not accepted; allowed are "
            f"cpp, triton, cutedsl, {', '.join(CUDA_GRAMMAR_LANGUAGES)}"
        )
    cuda = language in CUDA_GRAMMAR_LANGUAGES
    joined = _join_directives(source)
    lines = source.splitlines()
    tokens = list(_tokenise(joined))
    checks: tuple[Callable[[], Iterator[Refusal]], ...] = (
        lambda: _screen_characters(source, tokens),
        lambda: _screen_directives(joined, files, cuda=cuda),
        lambda: _screen_names(tokens, load_screen_rules().with_cuda_refusals if cuda else load_screen_rules()),
        lambda: _screen_attributes(tokens),
        lambda: cuda_code.screen_cuda_code(source) if cuda else _screen_assembly(tokens),
        lambda: cpp_state.screen_static_state(source, "cuda" if cuda else language),
    )
    refusals = {refusal for check in checks for refusal in check()}
    return tuple(f"line {f.line}: `{f.quote or lines[f.line - 1].strip()[:80]}` {f.reason}" for f in sorted(refusals))


def _join_directives(source: str) -> str:
    """The source with each continued preprocessor directive on one line; blank lines keep the line numbers."""
    joined: list[str] = []
    pending, blank = "", 0
    for line in source.splitlines():
        if (pending or line.lstrip().startswith(("#", "%:"))) and line.endswith("\\"):
            pending, blank = pending + line[:-1] + " ", blank + 1
            continue
        joined.append(pending + line)
        joined.extend([""] * blank)
        pending, blank = "", 0
    return "\n".join([*joined, pending] if pending else joined)


def _tokenise(text: str) -> Iterator[Token]:
    line, position = 1, 0
    for match in _LEXER.finditer(text):
        line += text.count("\n", position, match.start())
        position = match.start()
        kind = next(k for k in ("comment", "string", "number", "name", "digraph", "other") if match[k] is not None)
        if kind != "comment":
            yield Token(line, kind, match[0])


def _screen_characters(source: str, tokens: list[Token]) -> Iterator[Refusal]:
    for token in tokens:
        if token.kind == "digraph":
            yield Refusal(
                token.line, token.text, "is a digraph, which hides code; write the characters that it stands for"
            )
        elif token.kind in ("name", "other") and (not token.text.isascii() or "$" in token.text):
            yield Refusal(token.line, token.text, "is not an ASCII identifier; rename it")
        elif token.kind == "other" and (token.text == "\\" or not token.text.isprintable()):
            yield Refusal(
                token.line,
                "",
                "has a backslash or control character outside a string; write plain characters on one line",
            )
    for number, line in enumerate(source.splitlines(), start=1):
        if re.search(r"\?\?[=/'()!<>-]", re.sub(r"//(?!.*\?\?/).*", "", line)):
            yield Refusal(number, "", "has a trigraph, which hides code; write the character that it stands for")
        if line.endswith("\\") and "//" in line:
            yield Refusal(
                number, "", "ends a comment with a backslash, which hides the next line; remove the backslash"
            )


def _screen_directives(joined: str, files: Collection[str], *, cuda: bool) -> Iterator[Refusal]:
    for number, line in enumerate(_without_comments(joined).splitlines(), start=1):
        directive = re.match(r"\s*(?:#|%:)\s*(\w*)\s*(.*)$", line)
        for written in re.findall(r"_Pragma\s*\(\s*(.*?)\s*\)(?=[^)]*$|\s)", line):
            if not (
                re.fullmatch(r'"[^"\\]*"', written) and load_screen_rules().allows_pragma(written.strip('"').strip())
            ):
                yield Refusal(
                    number,
                    "_Pragma",
                    "hides a pragma or changes the frozen compiler flags; write an allowed `#pragma` line",
                )
        if not directive:
            continue
        word, rest = directive[1], directive[2].strip()
        if word == "pragma" and not load_screen_rules().allows_pragma(rest):
            yield Refusal(
                number,
                f"#pragma {rest}"[:80],
                "may change the frozen compiler flags; allowed are omp, GCC ivdep, GCC unroll, clang loop",
            )
        elif word == "include":
            yield from _screen_include(number, rest, files, cuda=cuda)
        elif word == "define":
            yield from _screen_define(number, rest)
        elif word in ("include_next", "import", "embed", "line", "ident", "sccs", "assert"):
            yield Refusal(number, f"#{word} {rest}"[:80], "is not allowed in a kernel; remove it")


def _without_comments(joined: str) -> str:
    def blank(match: re.Match[str]) -> str:
        return match[0] if match["comment"] is None else "\n" * match[0].count("\n") or " "

    return _LEXER.sub(blank, joined)


def _screen_include(number: int, rest: str, files: Collection[str], *, cuda: bool) -> Iterator[Refusal]:
    header = re.fullmatch(r'<([^>]+)>|"([^"]+)"', rest)
    if header is None:
        yield Refusal(number, f"#include {rest}"[:80], "does not contain a plain name; write <header>")
    elif not load_screen_rules().allows_header(header[1] or header[2], cuda=cuda) and header[2] not in files:
        yield Refusal(
            number,
            f"#include {rest}"[:80],
            "is not among the headers that a kernel may include (mathematics, memory, containers, omp.h, intrinsics)",
        )


def _screen_define(number: int, rest: str) -> Iterator[Refusal]:
    split = re.match(r"(\w+(?:\([^)]*\))?)\s*(.*)$", rest)
    name, body = (split[1], split[2]) if split else (rest[:40], "")
    tokens = [token.text for token in _tokenise(body)]
    if "##" in tokens or "#" in tokens:
        yield Refusal(number, f"#define {name}", "pastes or quotes tokens, which hides names; write the names out")
    if name.partition("(")[0] in load_screen_rules().keywords.split():
        yield Refusal(number, f"#define {name}", "gives another meaning to a keyword; choose another name")
    if "(" in name and {"static", "thread_local", "extern", "asm", "__asm__"} & set(tokens):
        yield Refusal(
            number,
            f"#define {name}",
            "declares storage or assembly inside a macro; write the declaration without the macro",
        )


def _screen_names(tokens: list[Token], known: ScreenRules) -> Iterator[Refusal]:
    defined = _defined_names(tokens)
    for index, token in enumerate(tokens):
        previous = tokens[index - 1].text if index else ""
        following = tokens[index + 1].text if index + 1 < len(tokens) else ""
        if token.kind != "name" or (previous == "<" and index > 1 and tokens[index - 2].text == "include"):
            continue
        is_member = previous in (".", "->")
        reason = known.refusal_reason(token.text, "members" if is_member else "names")
        if reason is None and not is_member and following == "(" and (previous == "::" or token.text not in defined):
            reason = known.refusal_reason(token.text, "calls")
        if reason:
            yield Refusal(token.line, token.text, f"{reason}; remove it, or rename it if the source defines it")
        elif _is_std_name(tokens, index) and (reason := known.refusal_reason(token.text, "std")):
            yield Refusal(token.line, f"std::{token.text}", f"{reason}; remove it")
        elif token.text == "operator" and following in ("new", "delete"):
            yield Refusal(
                token.line,
                f"operator {following}",
                "replaces the allocator of the process; use the standard malloc, new or std::vector",
            )


def _is_std_name(tokens: list[Token], index: int) -> bool:
    """Whether the name follows `std::`, or precedes `::` as after `using namespace std`."""
    follows_std = index > 1 and tokens[index - 1].text == "::" and tokens[index - 2].text == "std"
    return follows_std or (index + 1 < len(tokens) and tokens[index + 1].text == "::")


def _defined_names(tokens: list[Token]) -> set[str]:
    """Names that the source defines: each follows a type and precedes a bracket or an initialiser."""
    found = set()
    for before, token, after in zip(tokens, tokens[1:], tokens[2:], strict=False):
        typed = (before.kind == "name" and before.text not in ("return", "else", "do", "throw")) or before.text in (
            "*",
            "&",
            ">",
        )
        if token.kind == "name" and typed and after.text in ("(", "=", "{"):
            found.add(token.text)
    return found


def _screen_attributes(tokens: list[Token]) -> Iterator[Refusal]:
    """Refuse attributes that are not allowed, in GNU, C++11 and Microsoft spelling."""
    allowed = {*load_screen_rules().attributes.split(), "using"}
    depth = 0
    for index, token in enumerate(tokens):
        following = tokens[index + 1].text if index + 1 < len(tokens) else ""
        if token.text == "__declspec":
            yield Refusal(token.line, token.text, "is not allowed in a kernel; remove it")
        if depth == 0:
            opens = token.text in ("__attribute__", "__attribute") or (token.text == following == "[")
            depth = -1 if opens and following == "(" else 1 if opens else 0
            continue
        depth = max(depth, 0) + (token.text in ("(", "[")) - (token.text in (")", "]"))
        # Attributes are named at depth 2, their arguments are deeper.
        if (
            depth == 2
            and token.kind == "name"
            and following not in ("::", ":")
            and token.text.strip("_") not in allowed
        ):
            yield Refusal(
                token.line,
                token.text,
                "is an attribute that may change flags, linkage or the time at which code runs; remove it",
            )


def _screen_assembly(tokens: list[Token]) -> Iterator[Refusal]:
    for index, token in enumerate(tokens):
        if token.text not in ("asm", "__asm__", "__asm"):
            continue
        rest = [
            t for t in tokens[index + 1 : index + 6] if t.text not in ("volatile", "__volatile__", "inline", "goto")
        ]
        # An empty template is a compiler barrier, not an instruction.
        if not (len(rest) > 2 and rest[0].text == "(" and rest[1].text == '""' and rest[2].text in (":", "::", ")")):
            yield Refusal(
                token.line,
                token.text,
                "is inline assembly, which cannot be checked; use intrinsics (immintrin.h, arm_neon.h)",
            )
