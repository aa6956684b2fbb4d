"""Static refusals before any machine time: what no honest kernel needs and what would make its measurement mean
something else.

Pure: text in, sentences out. A screen narrows what reaches the sandbox and tells the author early; it is not the
sandbox. What it cannot decide it decides strictly where an honest kernel has another way: scratch comes from the stack
or the heap inside the call, because whether a static buffer is scratch or a cache of earlier results cannot be seen in
the text; inline assembly becomes intrinsics (in CUDA it stays, without clocks); tables become constexpr.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple

from tools.errors import SettingsError
from tools.languages.cpp_source import CUDA_GRAMMAR_LANGUAGES
from tools.screen import cpp_state, cuda_code, python_module
from tools.screen.allowed_names import Rules, rules

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
    """A token outside of comments."""

    line: int
    kind: str
    """string | number | name | digraph | other."""
    text: str


class Fault(NamedTuple):
    """One thing refused."""

    line: int
    quote: str
    reason: str


def screen(
    source: str,
    language: str,
    files: Collection[str] = (),
    tensors: Collection[str] = (),
    library: Collection[str] = (),
) -> tuple[str, ...]:
    """One sentence, with line and quoted text, for each thing in `source` that is refused; empty for a kernel that may
    go on.

    `files`: names of the candidate's other files, which it may include (each is to be screened too). `tensors`:
    arguments of the entry that are tensors, which kernels in Python do not say themselves. `library`: operators of
    torch that the task lets their host code call. Raises SettingsError for a language that has no screen.
    """
    if language in ("triton", "cutedsl"):
        allowed = rules().python if language == "triton" else rules().python.with_cute(rules().cutedsl)
        return python_module.screen(source, allowed.calling(library), tensors)
    if language not in ("cpp", *CUDA_GRAMMAR_LANGUAGES):
        raise SettingsError(
            f"language: {language!r} has no screen, so that its kernels cannot be let through; allowed are "
            f"cpp, triton, cutedsl, {', '.join(CUDA_GRAMMAR_LANGUAGES)}"
        )
    cuda = language in CUDA_GRAMMAR_LANGUAGES
    joined = _join_directives(source)
    lines = source.splitlines()
    tokens = list(_tokens(joined))
    checks: tuple[Callable[[], Iterator[Fault]], ...] = (
        lambda: _characters(source, tokens),
        lambda: _directives(joined, files, cuda=cuda),
        lambda: _names(tokens, rules().of_cuda if cuda else rules()),
        lambda: _attributes(tokens),
        lambda: (Fault(*found) for found in cuda_code.faults(source)) if cuda else _assembly(tokens),
        lambda: (Fault(*found) for found in cpp_state.faults(source, "cuda" if cuda else language)),
    )
    faults = {fault for check in checks for fault in check()}
    return tuple(f"line {f.line}: `{f.quote or lines[f.line - 1].strip()[:80]}` {f.reason}" for f in sorted(faults))


def _join_directives(source: str) -> str:
    """Preprocessor lines continued by a backslash on one line; blank lines keep the numbers right."""
    found: list[str] = []
    pending, blank = "", 0
    for line in source.splitlines():
        if (pending or line.lstrip().startswith(("#", "%:"))) and line.endswith("\\"):
            pending, blank = pending + line[:-1] + " ", blank + 1
            continue
        found.append(pending + line)
        found.extend([""] * blank)
        pending, blank = "", 0
    return "\n".join([*found, pending] if pending else found)


def _tokens(text: str) -> Iterator[Token]:
    line, position = 1, 0
    for match in _LEXER.finditer(text):
        line += text.count("\n", position, match.start())
        position = match.start()
        kind = next(k for k in ("comment", "string", "number", "name", "digraph", "other") if match[k] is not None)
        if kind != "comment":
            yield Token(line, kind, match[0])


def _characters(source: str, tokens: list[Token]) -> Iterator[Fault]:
    for token in tokens:
        if token.kind == "digraph":
            yield Fault(token.line, token.text, "is a digraph, which hides code; write the plain characters")
        elif token.kind in ("name", "other") and (not token.text.isascii() or "$" in token.text):
            yield Fault(token.line, token.text, "is no plain ASCII identifier; rename it")
        elif token.kind == "other" and (token.text == "\\" or not token.text.isprintable()):
            yield Fault(
                token.line, "", "has a backslash or control character outside of a string; write it on one plain line"
            )
    for number, line in enumerate(source.splitlines(), start=1):
        if re.search(r"\?\?[=/'()!<>-]", re.sub(r"//(?!.*\?\?/).*", "", line)):
            yield Fault(number, "", "has a trigraph, which hides code; write the plain characters")
        if line.endswith("\\") and "//" in line:
            yield Fault(number, "", "ends a comment with a backslash, which hides the next line; remove the backslash")


def _directives(joined: str, files: Collection[str], *, cuda: bool) -> Iterator[Fault]:
    for number, line in enumerate(_without_comments(joined).splitlines(), start=1):
        found = re.match(r"\s*(?:#|%:)\s*(\w*)\s*(.*)$", line)
        for written in re.findall(r"_Pragma\s*\(\s*(.*?)\s*\)(?=[^)]*$|\s)", line):
            if not (re.fullmatch(r'"[^"\\]*"', written) and rules().allows_pragma(written.strip('"').strip())):
                yield Fault(
                    number,
                    "_Pragma",
                    "hides a pragma or changes the frozen compiler flags; write an allowed `#pragma` line",
                )
        if not found:
            continue
        word, rest = found[1], found[2].strip()
        if word == "pragma" and not rules().allows_pragma(rest):
            yield Fault(
                number,
                f"#pragma {rest}"[:80],
                "may change the frozen compiler flags; allowed are omp, GCC ivdep, GCC unroll, clang loop",
            )
        elif word == "include":
            yield from _include(number, rest, files, cuda=cuda)
        elif word == "define":
            yield from _define(number, rest)
        elif word in ("include_next", "import", "embed", "line", "ident", "sccs", "assert"):
            yield Fault(number, f"#{word} {rest}"[:80], "is not allowed in a kernel; remove it")


def _without_comments(joined: str) -> str:
    def blank(match: re.Match[str]) -> str:
        return match[0] if match["comment"] is None else "\n" * match[0].count("\n") or " "

    return _LEXER.sub(blank, joined)


def _include(number: int, rest: str, files: Collection[str], *, cuda: bool) -> Iterator[Fault]:
    named = re.fullmatch(r'<([^>]+)>|"([^"]+)"', rest)
    if named is None:
        yield Fault(number, f"#include {rest}"[:80], "is not a plain name; write <header>")
    elif not rules().allows_header(named[1] or named[2], cuda=cuda) and named[2] not in files:
        yield Fault(
            number,
            f"#include {rest}"[:80],
            "is not among the headers that a kernel may use (mathematics, memory, containers, omp.h, intrinsics)",
        )


def _define(number: int, rest: str) -> Iterator[Fault]:
    split = re.match(r"(\w+(?:\([^)]*\))?)\s*(.*)$", rest)
    name, body = (split[1], split[2]) if split else (rest[:40], "")
    tokens = [token.text for token in _tokens(body)]
    if "##" in tokens or "#" in tokens:
        yield Fault(number, f"#define {name}", "pastes or quotes tokens, which hides names; write them out")
    if name.partition("(")[0] in rules().keywords.split():
        yield Fault(number, f"#define {name}", "gives another meaning to a word of the language; choose another name")
    if "(" in name and {"static", "thread_local", "extern", "asm", "__asm__"} & set(tokens):
        yield Fault(number, f"#define {name}", "declares storage or assembly inside a macro; write it out")


def _names(tokens: list[Token], known: Rules) -> Iterator[Fault]:
    own = _own_functions(tokens)
    for index, token in enumerate(tokens):
        previous = tokens[index - 1].text if index else ""
        following = tokens[index + 1].text if index + 1 < len(tokens) else ""
        if token.kind != "name" or previous in (".", "->"):
            continue
        reason = known.reason(token.text, "names")
        if reason is None and following == "(" and (previous == "::" or token.text not in own):
            reason = known.reason(token.text, "calls")
        if reason:
            yield Fault(token.line, token.text, f"{reason}; remove it, or rename it if it is your own")
        elif _of_std(tokens, index) and (reason := known.reason(token.text, "std")):
            yield Fault(token.line, f"std::{token.text}", f"{reason}; remove it")
        elif token.text == "operator" and following in ("new", "delete"):
            yield Fault(
                token.line,
                f"operator {following}",
                "replaces the process's allocator; use malloc, new or std::vector as they are",
            )


def _of_std(tokens: list[Token], index: int) -> bool:
    """Whether the name stands behind `std::`, or before `::` as it does after `using namespace std`."""
    behind = index > 1 and tokens[index - 1].text == "::" and tokens[index - 2].text == "std"
    return behind or (index + 1 < len(tokens) and tokens[index + 1].text == "::")


def _own_functions(tokens: list[Token]) -> set[str]:
    """Names that stand where a definition has them: behind a type, before a bracket or an initialiser."""
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


def _attributes(tokens: list[Token]) -> Iterator[Fault]:
    """Attributes outside of the allow-list, in GNU, C++11 and Microsoft spelling."""
    allowed = {*rules().attributes.split(), "using"}
    depth = 0
    for index, token in enumerate(tokens):
        following = tokens[index + 1].text if index + 1 < len(tokens) else ""
        if token.text == "__declspec":
            yield Fault(token.line, token.text, "is not allowed in a kernel; remove it")
        if depth == 0:
            opens = token.text in ("__attribute__", "__attribute") or (token.text == following == "[")
            depth = -1 if opens and following == "(" else 1 if opens else 0
            continue
        depth = max(depth, 0) + (token.text in ("(", "[")) - (token.text in (")", "]"))
        # Depth 2 names attributes; deeper stand their arguments.
        if (
            depth == 2
            and token.kind == "name"
            and following not in ("::", ":")
            and token.text.strip("_") not in allowed
        ):
            yield Fault(
                token.line, token.text, "is an attribute that may change flags, linkage or when code runs; remove it"
            )


def _assembly(tokens: list[Token]) -> Iterator[Fault]:
    for index, token in enumerate(tokens):
        if token.text not in ("asm", "__asm__", "__asm"):
            continue
        rest = [
            t for t in tokens[index + 1 : index + 6] if t.text not in ("volatile", "__volatile__", "inline", "goto")
        ]
        # An empty template is a compiler barrier, not an instruction.
        if not (len(rest) > 2 and rest[0].text == "(" and rest[1].text == '""' and rest[2].text in (":", "::", ")")):
            yield Fault(
                token.line,
                token.text,
                "is inline assembly, which cannot be checked; use intrinsics (immintrin.h, arm_neon.h)",
            )
