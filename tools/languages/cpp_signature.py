"""Parameters of `extern "C" void solve(...)`, read from source text by tree-sitter: shared by the languages with that
contract.

Nothing is compiled or expanded by a compiler here. Preprocessor lines are blanked first (both branches of an #if are
read) after their object-like macros have been noted, so that `#define RESTRICT __restrict__` or an `#ifdef __cplusplus`
bracket do not matter.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tools.artifacts import DType
from tools.errors import SettingsError
from tools.executors.protocol import Parameter
from tools.languages.cpp_source import ENTRY, CppSource, function_declarator, text, tokens, walk

if TYPE_CHECKING:
    from tree_sitter import Node

SHAPE = 'extern "C" void solve(<pointers and scalars in order>)'
POINTERS = (
    "float*, double*, int8_t* … int64_t*, uint8_t*, bool*, _Float16*; in CUDA also half*, __half*, __nv_bfloat16*"
)
SCALARS = "int, int32_t, int64_t, long, long long, size_t, float, double, bool"

_NAMED: dict[str, DType] = {
    "float": "float32",
    "double": "float64",
    "bool": "bool",
    "_Bool": "bool",
    "_Float16": "float16",
    "__fp16": "float16",
    "float16_t": "float16",
    "__bf16": "bfloat16",
    "bfloat16_t": "bfloat16",
    "int8_t": "int8",
    "int16_t": "int16",
    "int32_t": "int32",
    "int64_t": "int64",
    "ssize_t": "int64",
    "ptrdiff_t": "int64",
    "intptr_t": "int64",
    "uint8_t": "uint8",
    # CUDA's own names; a C++ compiler without its headers refuses them.
    "half": "float16",
    "__half": "float16",
    "__nv_bfloat16": "bfloat16",
    "nv_bfloat16": "bfloat16",
}
_UNSIGNED: dict[str, DType] = {"uint32_t": "int32", "uint64_t": "int64", "size_t": "int64", "uintptr_t": "int64"}
"""Scalars only: sizes are never negative, and the calling convention passes both signs alike."""
_INTEGER_WORDS = {"unsigned", "signed", "char", "short", "int", "long"}
_TYPES = {*_NAMED, *_UNSIGNED, *_INTEGER_WORDS}
_IGNORED = {
    "volatile",
    "restrict",
    "__restrict",
    "__restrict__",
    "register",
    "struct",
    "std",
    "::",
    "typename",
    "[[maybe_unused]]",
}
_DEFINE = re.compile(r"^\s*#\s*define\s+([A-Za-z_]\w*)(?![\w(])[ \t]*(.*)$")
_CLOSED = frozenset({"compound_statement", "field_declaration_list", "template_declaration"})
"""What holds no entry, whatever stands in it."""


def solve_parameters(source: str, file: str, grammar: str = "cpp") -> tuple[Parameter, ...]:
    """Parameters of `solve` in order. `file` is named in errors.

    Raises SettingsError when there is no such function, it is not extern "C", does not return void, is defined with
    different parameters in two places, or has a parameter of a type that the contract does not know.
    """
    parsed = CppSource(expanded(source), grammar)
    found = [
        node
        for node in walk(parsed.root, skip=_CLOSED)
        if node.type in ("function_definition", "declaration") and (declarator := function_declarator(node)) is not None
        if text(declarator.child_by_field_name("declarator") or declarator) == ENTRY
    ]
    if not found:
        broken = next(_broken(parsed.root), None)
        if broken is not None:
            line = broken.start_point.row + 1
            raise SettingsError(
                f"{file}:{line}: a syntax error there hides `{ENTRY}`: "
                f"{source.splitlines()[line - 1].strip()!r}; mend it"
            )
        raise SettingsError(f"{file}: there is no function `{ENTRY}`; the kernel's entry must be {SHAPE}")
    if not any(_is_extern_c(node) for node in found):
        raise SettingsError(f'{file}: `{ENTRY}` is not extern "C"; write {SHAPE}')
    aliases = {
        name: [t for t in re.findall(r"\w+|::|[^\w\s]", meaning) if t not in _IGNORED]
        for name, meaning in parsed.aliases.items()
    }
    chosen = [node for node in found if node.type == "function_definition"] or found
    for node in chosen:
        result = text(node.child_by_field_name("type") or node)
        pointer = (node.child_by_field_name("declarator") or node).type == "pointer_declarator"
        if pointer or aliases.get(result, [result]) != ["void"]:
            raise SettingsError(
                f"{file}: `{ENTRY}` returns {result}{'*' * pointer}; it must return void and write into its outputs"
            )
    signatures = {_parameters(node, aliases, file) for node in chosen}
    if len(signatures) > 1:
        raise SettingsError(f"{file}: `{ENTRY}` is defined more than once with different parameters; keep one")
    return signatures.pop()


def _broken(node: Node) -> Iterator[Node]:
    """Innermost places that do not parse, in order."""
    if not node.has_error:
        return
    inner = [found for child in node.children for found in _broken(child)]
    if inner:
        yield from inner
    elif node.is_error or node.is_missing:
        yield node
    else:
        yield from (child for child in node.children if child.is_missing)


def expanded(source: str) -> str:
    """Source with preprocessor lines blanked and object-like macros replaced, line numbers kept."""
    macros: dict[str, str] = {}
    lines: list[str] = []
    continued = False
    for line in source.splitlines():
        define = _DEFINE.match(line)
        if define and not line.endswith("\\"):
            macros[define[1]] = re.sub(r"//.*|/\*.*?\*/", "", define[2]).strip()
        directive = continued or line.lstrip().startswith("#")
        continued = directive and line.endswith("\\")
        lines.append("" if directive else line)
    body = "\n".join(lines)
    # A value such as `128` or an expression is harmless; five rounds cover macros that name macros.
    for _ in range(5):
        before = body
        for name, value in macros.items():
            body = re.sub(rf"\b{name}\b", lambda _match, value=value: value, body)  # type: ignore[misc]
        if body == before:
            break
    return body


def _is_extern_c(node: Node | None) -> bool:
    while node is not None:
        if node.type == "linkage_specification":
            return text(node.child_by_field_name("value") or node) == '"C"'
        # An unbalanced bracket (half of an #ifdef __cplusplus pair) ends in an ERROR node that still shows the linkage.
        if node.type == "ERROR" and text(node).lstrip().startswith('extern "C"'):
            return True
        node = node.parent
    return False


def _parameters(node: Node, aliases: dict[str, list[str]], file: str) -> tuple[Parameter, ...]:
    declarator = function_declarator(node)
    listed = declarator.child_by_field_name("parameters") if declarator is not None else None
    assert listed is not None, "a function declarator has a parameter list, and only nodes with one were collected"
    broken = next(_broken(listed), None)
    if broken is not None:
        near = " ".join(text(broken).split())[:60]
        lacking = "a parameter" if broken.type.isidentifier() else f"`{broken.type}`"
        what = f"at `{near}`" if near else f"where {lacking} is missing"
        raise SettingsError(
            f"{file}:{broken.start_point[0] + 1} does not parse {what}, in the parameters of `{ENTRY}`; write them as "
            f"in {SHAPE}"
        )
    written = [list(tokens(child)) for child in listed.named_children if child.type != "comment"]
    if written in ([], [["void"]]):
        raise SettingsError(f"{file}: `{ENTRY}` has no parameters; it must take its inputs, outputs and sizes: {SHAPE}")
    return tuple(_parameter(words, position, aliases, file) for position, words in enumerate(written))


def _parameter(written: Sequence[str], position: int, aliases: dict[str, list[str]], file: str) -> Parameter:
    known = [token for token in written if token not in _IGNORED]
    spelled = known[: known.index("[")] if "[" in known else known
    words = [token for token in spelled if token not in ("const", "*")]
    # The name stands last, behind a type; a type may stand alone.
    named = len(words) > 1 and spelled[-1] == words[-1] and words[-1].isidentifier() and words[-1] not in _TYPES
    name = words[-1] if named else f"arg{position}"
    spelled = spelled[:-1] if named else spelled
    resolved: set[str] = set()
    while (alias := next((token for token in spelled if token in aliases.keys() - resolved), None)) is not None:
        resolved.add(alias)
        at = spelled.index(alias)
        spelled = [*spelled[:at], *aliases[alias], *spelled[at + 1 :]]
    stars = spelled.count("*") + known.count("[")
    dtype = (
        _dtype([token for token in spelled if token not in ("const", "*")], pointer=stars == 1) if stars < 2 else None
    )
    if dtype is None:
        shown = re.sub(r" (?=[*&>,\[\]])|(?<=[<\[]) | ?(::) ?", r"\1", " ".join(written))
        raise SettingsError(
            f"{file}: parameter `{name}` of `{ENTRY}` is declared `{shown}`, which the contract does not know; "
            f"use a pointer ({POINTERS}) or a scalar ({SCALARS})"
        )
    # Only `const float*` says that the kernel does not write; `float* const` is about the pointer itself.
    pointee = spelled[: spelled.index("*")] if "*" in spelled else spelled
    return Parameter(name=name, dtype=dtype, pointer=stars == 1, const="const" in pointee and stars == 1)


def _dtype(words: Sequence[str], *, pointer: bool) -> DType | None:
    if len(words) == 1 and words[0] in _NAMED:
        return _NAMED[words[0]]
    if len(words) == 1 and words[0] in _UNSIGNED:
        return None if pointer else _UNSIGNED[words[0]]
    if not words or any(word not in _INTEGER_WORDS for word in words):
        return None
    # Plain char is signed on some machines and not on others, so that it has no dtype.
    if "char" in words:
        return "uint8" if "unsigned" in words else "int8" if "signed" in words else None
    if "unsigned" in words and pointer:
        return None
    if "short" in words:
        return "int16" if "unsigned" not in words else None
    return "int64" if "long" in words else "int32"
