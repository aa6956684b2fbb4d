"""Read the parameters of `extern "C" void solve(...)` from source text with tree-sitter, for C++ and CUDA C++.

No compiler is called. Object-like macros are expanded (`#define RESTRICT __restrict__`) and all preprocessor lines are
blanked, so both branches of an #if are read and an `#ifdef __cplusplus` bracket does not matter.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tools.artifacts import DType
from tools.errors import SettingsError
from tools.executors.protocol import Parameter
from tools.languages.cpp_source import ENTRY, CppSource, function_declarator, node_text, tokens, walk

if TYPE_CHECKING:
    from tree_sitter import Node

ENTRY_SIGNATURE = 'extern "C" void solve(<pointers and scalars in order>)'
ALLOWED_POINTERS = (
    "float*, double*, int8_t* … int64_t*, uint8_t*, bool*, _Float16*; in CUDA also half*, __half*, "
    "__nv_bfloat16*, __nv_fp8_e4m3*, __nv_fp8_e5m2*"
)
ALLOWED_SCALARS = "int, int32_t, int64_t, long, long long, size_t, float, double, bool"
STREAM_TYPE = "cudaStream_t"
"""Type of a last parameter of `solve` in CUDA C++, which is no argument of the task."""

_DTYPE_BY_TYPE_NAME: dict[str, DType] = {
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
    "__nv_fp8_e4m3": "float8_e4m3fn",
    "__nv_fp8_e5m2": "float8_e5m2",
}
_DTYPE_BY_UNSIGNED_SCALAR: dict[str, DType] = {
    "uint32_t": "int32",
    "uint64_t": "int64",
    "size_t": "int64",
    "uintptr_t": "int64",
}
"""Scalars only: sizes are never negative, and the calling convention passes signed and unsigned integers equally."""
_INTEGER_WORDS = {"unsigned", "signed", "char", "short", "int", "long"}
_TYPE_WORDS = {*_DTYPE_BY_TYPE_NAME, *_DTYPE_BY_UNSIGNED_SCALAR, *_INTEGER_WORDS}
_IGNORED_TOKENS = {
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
_DEFINE_DIRECTIVE = re.compile(r"^\s*#\s*define\s+([A-Za-z_]\w*)(?![\w(])[ \t]*(.*)$")
_NODE_TYPES_WITHOUT_ENTRY = frozenset({"compound_statement", "field_declaration_list", "template_declaration"})
"""Node types that cannot contain the entry function."""


def read_solve_parameters(source: str, file: str, grammar: str = "cpp") -> tuple[Parameter, ...]:
    """Return the parameters of `solve` in order; error messages name `file`. A stream in the last place has no dtype.

    Raises SettingsError if there is no such function, if it is not extern "C" or does not return void, if two
    definitions differ in their parameters, or if a parameter has an unknown type.
    """
    unit = CppSource(expand_macros(source), grammar)
    entries = [
        node
        for node in walk(unit.root, skip=_NODE_TYPES_WITHOUT_ENTRY)
        if node.type in ("function_definition", "declaration") and (declarator := function_declarator(node)) is not None
        if node_text(declarator.child_by_field_name("declarator") or declarator) == ENTRY
    ]
    if not entries:
        error_node = next(_syntax_error_nodes(unit.root), None)
        if error_node is not None:
            line = error_node.start_point.row + 1
            raise SettingsError(
                f"{file}:{line}: a syntax error there hides `{ENTRY}`: "
                f"{source.splitlines()[line - 1].strip()!r}; correct it"
            )
        raise SettingsError(f"{file}: there is no function `{ENTRY}`; the kernel's entry must be {ENTRY_SIGNATURE}")
    if not any(_is_extern_c(node) for node in entries):
        raise SettingsError(f'{file}: `{ENTRY}` is not extern "C"; write {ENTRY_SIGNATURE}')
    aliases = {
        name: [t for t in re.findall(r"\w+|::|[^\w\s]", meaning) if t not in _IGNORED_TOKENS]
        for name, meaning in unit.aliases.items()
    }
    definitions = [node for node in entries if node.type == "function_definition"] or entries
    for node in definitions:
        result = node_text(node.child_by_field_name("type") or node)
        pointer = (node.child_by_field_name("declarator") or node).type == "pointer_declarator"
        if pointer or aliases.get(result, [result]) != ["void"]:
            raise SettingsError(
                f"{file}: `{ENTRY}` returns {result}{'*' * pointer}; it must return void and write into its outputs"
            )
    signatures = {_read_parameters(node, aliases, file) for node in definitions}
    if len(signatures) > 1:
        raise SettingsError(f"{file}: `{ENTRY}` is defined more than once with different parameters; keep one")
    return signatures.pop()


def _syntax_error_nodes(node: Node) -> Iterator[Node]:
    """Yield the innermost nodes below `node` that do not parse, in document order."""
    if not node.has_error:
        return
    inner = [error for child in node.children for error in _syntax_error_nodes(child)]
    if inner:
        yield from inner
    elif node.is_error or node.is_missing:
        yield node
    else:
        yield from (child for child in node.children if child.is_missing)


def expand_macros(source: str) -> str:
    """Return `source` with object-like macros expanded and preprocessor lines blanked; line numbers stay the same."""
    macros: dict[str, str] = {}
    lines: list[str] = []
    continued = False
    for line in source.splitlines():
        define = _DEFINE_DIRECTIVE.match(line)
        if define and not line.endswith("\\"):
            macros[define[1]] = re.sub(r"//.*|/\*.*?\*/", "", define[2]).strip()
        directive = continued or line.lstrip().startswith("#")
        continued = directive and line.endswith("\\")
        lines.append("" if directive else line)
    body = "\n".join(lines)
    # A value such as `128` or an expression is harmless; five passes cover macros that name macros.
    for _ in range(5):
        unexpanded = body
        for name, value in macros.items():
            body = re.sub(rf"\b{name}\b", lambda _match, value=value: value, body)  # type: ignore[misc]
        if body == unexpanded:
            break
    return body


def _is_extern_c(node: Node | None) -> bool:
    while node is not None:
        if node.type == "linkage_specification":
            return node_text(node.child_by_field_name("value") or node) == '"C"'
        # An unbalanced bracket (half of an #ifdef __cplusplus pair) ends in an ERROR node that still shows the linkage.
        if node.type == "ERROR" and node_text(node).lstrip().startswith('extern "C"'):
            return True
        node = node.parent
    return False


def _read_parameters(node: Node, aliases: dict[str, list[str]], file: str) -> tuple[Parameter, ...]:
    declarator = function_declarator(node)
    parameter_list = declarator.child_by_field_name("parameters") if declarator is not None else None
    assert parameter_list is not None, (
        "a function declarator has a parameter list, and only nodes with one were collected"
    )
    error_node = next(_syntax_error_nodes(parameter_list), None)
    if error_node is not None:
        error_text = " ".join(node_text(error_node).split())[:60]
        missing = "a parameter" if error_node.type.isidentifier() else f"`{error_node.type}`"
        problem = f"at `{error_text}`" if error_text else f"where {missing} is missing"
        raise SettingsError(
            f"{file}:{error_node.start_point[0] + 1} does not parse {problem}, in the parameters of `{ENTRY}`; write "
            f"them as in {ENTRY_SIGNATURE}"
        )
    token_lists = [list(tokens(child)) for child in parameter_list.named_children if child.type != "comment"]
    if token_lists in ([], [["void"]]):
        raise SettingsError(
            f"{file}: `{ENTRY}` has no parameters; it must take its inputs, outputs and sizes: {ENTRY_SIGNATURE}"
        )
    streamed = STREAM_TYPE in token_lists[-1]
    given = token_lists[: len(token_lists) - streamed]
    parameters = tuple(_read_parameter(words, position, aliases, file) for position, words in enumerate(given))
    return (*parameters, *[Parameter(name="stream", dtype=None, pointer=None)] * streamed)


def _read_parameter(written: Sequence[str], position: int, aliases: dict[str, list[str]], file: str) -> Parameter:
    meaningful = [token for token in written if token not in _IGNORED_TOKENS]
    type_tokens = meaningful[: meaningful.index("[")] if "[" in meaningful else meaningful
    words = [token for token in type_tokens if token not in ("const", "*")]
    # The name comes last, after a type; a type may occur alone.
    is_named = (
        len(words) > 1 and type_tokens[-1] == words[-1] and words[-1].isidentifier() and words[-1] not in _TYPE_WORDS
    )
    name = words[-1] if is_named else f"arg{position}"
    type_tokens = type_tokens[:-1] if is_named else type_tokens
    resolved: set[str] = set()
    while (alias := next((token for token in type_tokens if token in aliases.keys() - resolved), None)) is not None:
        resolved.add(alias)
        index = type_tokens.index(alias)
        type_tokens = [*type_tokens[:index], *aliases[alias], *type_tokens[index + 1 :]]
    pointer_depth = type_tokens.count("*") + meaningful.count("[")
    dtype = (
        _dtype_of_type_words(
            [token for token in type_tokens if token not in ("const", "*")], pointer=pointer_depth == 1
        )
        if pointer_depth < 2
        else None
    )
    if dtype is None:
        declaration = re.sub(r" (?=[*&>,\[\]])|(?<=[<\[]) | ?(::) ?", r"\1", " ".join(written))
        raise SettingsError(
            f"{file}: parameter `{name}` of `{ENTRY}` is declared `{declaration}`, which the contract does not know; "
            f"use a pointer ({ALLOWED_POINTERS}) or a scalar ({ALLOWED_SCALARS}); in CUDA the last parameter may be a "
            f"{STREAM_TYPE}"
        )
    # Only `const float*` declares that the kernel does not write; `float* const` is a constant pointer.
    pointee = type_tokens[: type_tokens.index("*")] if "*" in type_tokens else type_tokens
    return Parameter(
        name=name, dtype=dtype, pointer=pointer_depth == 1, const="const" in pointee and pointer_depth == 1
    )


def _dtype_of_type_words(words: Sequence[str], *, pointer: bool) -> DType | None:
    if len(words) == 1 and words[0] in _DTYPE_BY_TYPE_NAME:
        return _DTYPE_BY_TYPE_NAME[words[0]]
    if len(words) == 1 and words[0] in _DTYPE_BY_UNSIGNED_SCALAR:
        return None if pointer else _DTYPE_BY_UNSIGNED_SCALAR[words[0]]
    if not words or any(word not in _INTEGER_WORDS for word in words):
        return None
    # Plain char is signed on some machines and unsigned on others, so it has no dtype.
    if "char" in words:
        return "uint8" if "unsigned" in words else "int8" if "signed" in words else None
    if "unsigned" in words and pointer:
        return None
    if "short" in words:
        return "int16" if "unsigned" not in words else None
    return "int64" if "long" in words else "int32"
