"""Parameters of `extern "C" void solve(...)`, read from source text by tree-sitter: shared by the languages with that contract.

Nothing is compiled or expanded by a compiler here. Preprocessor lines are blanked first (both branches of an #if are read) after
their object-like macros have been noted, so that `#define RESTRICT __restrict__` or an `#ifdef __cplusplus` bracket do not matter.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tools.artifacts import DType
from tools.errors import SettingsError
from tools.executors.protocol import Parameter

if TYPE_CHECKING:
    from tree_sitter import Node, Tree

ENTRY = "solve"
SHAPE = 'extern "C" void solve(<pointers and scalars in order>)'
POINTERS = "float*, double*, int8_t* … int64_t*, uint8_t*, bool*, _Float16*"
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
}
_UNSIGNED: dict[str, DType] = {"uint32_t": "int32", "uint64_t": "int64", "size_t": "int64", "uintptr_t": "int64"}
"""Scalars only: sizes are never negative, and the calling convention passes both signs alike."""
_INTEGER_WORDS = {"unsigned", "signed", "char", "short", "int", "long"}
_IGNORED = {"volatile", "restrict", "__restrict", "__restrict__", "register", "struct", "std", "::", "typename", "[[maybe_unused]]"}
_DEFINE = re.compile(r"^\s*#\s*define\s+([A-Za-z_]\w*)(?![\w(])[ \t]*(.*)$")


@dataclass
class _Spelling:
    """What the tokens of one parameter amount to."""

    words: list[str] = field(default_factory=list)
    stars: int = 0
    brackets: int = 0
    const: bool = False
    name: str = ""
    foreign: str = ""
    """The first token that has no place in such a signature (`&`, `(`, `<` …)."""


def parse(source: str) -> Tree:
    """Syntax tree of C++ text; erroneous parts become ERROR nodes, never an exception."""
    import tree_sitter
    import tree_sitter_cpp

    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_cpp.language())).parse(source.encode())


def text(node: Node) -> str:
    """The node's source text."""
    return (node.text or b"").decode(errors="replace")


def solve_parameters(source: str, file: str) -> tuple[Parameter, ...]:
    """Parameters of `solve` in order. `file` is named in errors.

    Raises SettingsError when there is no such function, it is not extern "C", does not return void, is defined with different
    parameters in two places, or has a parameter of a type that the contract does not know.
    """
    root = parse(expanded(source)).root_node
    found = list(_functions(root))
    if not found:
        broken = next(_broken(root), None)
        if broken is not None:
            line = broken.start_point.row + 1
            raise SettingsError(f"{file}:{line}: a syntax error there hides `{ENTRY}`: {source.splitlines()[line - 1].strip()!r}; mend it")
        raise SettingsError(f"{file}: there is no function `{ENTRY}`; the kernel's entry must be {SHAPE}")
    if not any(_is_extern_c(node) for node in found):
        raise SettingsError(f'{file}: `{ENTRY}` is not extern "C"; write {SHAPE}')
    aliases = _aliases(root)
    chosen = [node for node in found if node.type == "function_definition"] or found
    for node in chosen:
        _check_result(node, aliases, file)
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


def _functions(node: Node) -> list[Node]:
    """Declarations and definitions of `solve` outside of function bodies and classes."""
    found: list[Node] = []
    for child in node.children:
        if child.type in ("function_definition", "declaration"):
            declarator = _function_declarator(child)
            if declarator is not None and text(declarator.child_by_field_name("declarator") or declarator) == ENTRY:
                found.append(child)
                continue
        if child.type in ("linkage_specification", "declaration_list", "namespace_definition", "ERROR"):
            found.extend(_functions(child))
    return found


def _function_declarator(node: Node) -> Node | None:
    declarator = node.child_by_field_name("declarator")
    while declarator is not None and declarator.type != "function_declarator":
        declarator = declarator.child_by_field_name("declarator")
    return declarator


def _is_extern_c(node: Node | None) -> bool:
    while node is not None:
        if node.type == "linkage_specification":
            return text(node.child_by_field_name("value") or node) == '"C"'
        # An unbalanced bracket (half of an #ifdef __cplusplus pair) ends in an ERROR node that still shows the linkage.
        if node.type == "ERROR" and text(node).lstrip().startswith('extern "C"'):
            return True
        node = node.parent
    return False


def _check_result(node: Node, aliases: dict[str, list[str]], file: str) -> None:
    result = text(node.child_by_field_name("type") or node)
    pointer = (node.child_by_field_name("declarator") or node).type == "pointer_declarator"
    if pointer or aliases.get(result, [result]) != ["void"]:
        raise SettingsError(f"{file}: `{ENTRY}` returns {result}{'*' if pointer else ''}; it must return void and write into its outputs")


def _aliases(root: Node) -> dict[str, list[str]]:
    """Names from `typedef` and `using` -> the tokens that they stand for (simple ones)."""
    found: dict[str, list[str]] = {}
    for node in _walk(root):
        if node.type == "type_definition":
            declarator = node.child_by_field_name("declarator")
            tokens = [t for t in _tokens(node) if t not in ("typedef", ";")]
            if declarator is not None and tokens and declarator.type in ("type_identifier", "pointer_declarator", "primitive_type"):
                found[tokens[-1]] = tokens[:-1]
        elif node.type == "alias_declaration":
            name, value = node.child_by_field_name("name"), node.child_by_field_name("type")
            if name is not None and value is not None:
                found[text(name)] = _tokens(value)
    return found


def _walk(node: Node) -> list[Node]:
    nodes, found = [node], []
    while nodes:
        current = nodes.pop()
        found.append(current)
        nodes.extend(current.children)
    return found


def _tokens(node: Node) -> list[str]:
    """Leaf texts in order, without comments and attributes."""
    if node.type in ("comment", "attribute_specifier", "attribute_declaration"):
        return []
    if not node.children:
        return [text(node)] if text(node) else []
    return [token for child in node.children for token in _tokens(child)]


def _parameters(node: Node, aliases: dict[str, list[str]], file: str) -> tuple[Parameter, ...]:
    declarator = _function_declarator(node)
    assert declarator is not None, "only nodes with one were collected"
    listed = declarator.child_by_field_name("parameters")
    assert listed is not None, "a function declarator has a parameter list"
    _check_list(listed, file)
    groups: list[list[str]] = [[]]
    depth = 0
    for token in _tokens(listed)[1:-1]:
        depth += (token in "([{<") - (token in ")]}>")
        if token == "," and depth == 0:
            groups.append([])
        else:
            groups[-1].append(token)
    if groups == [[]] or groups == [["void"]]:
        raise SettingsError(f"{file}: `{ENTRY}` has no parameters; it must take its inputs, outputs and sizes: {SHAPE}")
    return tuple(_parameter(tokens, position, aliases, file) for position, tokens in enumerate(groups))


def _check_list(listed: Node, file: str) -> None:
    """Refuse, by its line, a parameter list that cannot be parsed or leaves a parameter without a name."""
    for node in reversed(_walk(listed)):
        if node.type == "ERROR" or node.is_missing:
            near = " ".join(text(node).split())[:60]
            lacking = "a parameter" if node.type.isidentifier() else f"`{node.type}`"
            what = f"at `{near}`" if near else f"where {lacking} is missing"
            raise SettingsError(
                f"{file}:{node.start_point[0] + 1} does not parse {what}, in the parameters of `{ENTRY}`; write them as in {SHAPE}"
            )


def _parameter(tokens: list[str], position: int, aliases: dict[str, list[str]], file: str) -> Parameter:
    spelling = _spell(tokens, aliases)
    name = spelling.name or f"arg{position}"
    pointer = spelling.stars + spelling.brackets == 1
    dtype = None if spelling.foreign or spelling.stars + spelling.brackets > 1 else _dtype(spelling.words, pointer)
    if dtype is None:
        written = re.sub(r" (?=[*&>,\[\]])|(?<=[<\[]) | ?(::) ?", r"\1", " ".join(tokens))
        raise SettingsError(
            f"{file}: parameter `{name}` of `{ENTRY}` is declared `{written}`, which the contract does not know; "
            f"use a pointer ({POINTERS}) or a scalar ({SCALARS})"
        )
    return Parameter(name=name, dtype=dtype, pointer=pointer, const=spelling.const and pointer)


def _spell(tokens: list[str], aliases: dict[str, list[str]]) -> _Spelling:
    found = _Spelling()
    queue = list(tokens)
    inside, resolved = False, set[str]()
    while queue:
        token = queue.pop(0)
        typed = bool(found.words)
        if token == "[":
            inside, found.brackets = True, found.brackets + 1
        elif token == "]":
            inside = False
        elif inside or token in _IGNORED:
            continue
        elif token == "const":
            # Only `const float*` says that the kernel does not write; `float* const` is about the pointer itself.
            found.const = found.const or found.stars == 0
        elif token == "*":
            found.stars += 1
        elif token in aliases and token not in resolved and not typed:
            resolved.add(token)
            queue[:0] = aliases[token]
        elif token in _INTEGER_WORDS or ((token in _NAMED or token in _UNSIGNED) and not typed):
            found.words.append(token)
        elif re.fullmatch(r"[A-Za-z_]\w*", token) and typed:
            found.foreign = found.foreign or (token if found.name else "")
            found.name = token
        elif re.fullmatch(r"[A-Za-z_]\w*", token) and not typed:
            found.words.append(token)
        else:
            found.foreign = found.foreign or token
    return found


def _dtype(words: list[str], pointer: bool) -> DType | None:
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
