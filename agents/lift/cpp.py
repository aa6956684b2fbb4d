"""Inductor's C++ as one source: kernels, the wrapper's steps, and of PyTorch's headers what they use."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from pathlib import Path

from agents.lift.binding import Binding, unwritten
from agents.lift.functions import sources_of_called_functions
from agents.lift.wrapper import Alias, Buffer, BufferView, InductorLaunch, Number, read
from tools.artifacts import Argument
from tools.errors import SettingsError
from tools.executors.protocol import GeneratedCode, InductorResult

TYPES = {
    "float32": "float",
    "float64": "double",
    "int64": "int64_t",
    "int32": "int32_t",
    "int16": "int16_t",
    "int8": "int8_t",
    "uint8": "uint8_t",
    "bool": "bool",
    "float16": "_Float16",
}
HEADERS = {
    "algorithm": r"std::(?:min|max|copy_n)\b",
    "array": "std::array",
    "cmath": r"std::(?!array|vec|uniq|make_|integer|numer|min|max|copy)\w",
    "cstdint": r"int\d+_t",
    "limits": "numeric_limits",
    "memory": "unique_ptr",
    "omp.h": r"\bomp_",
    "utility": "integer_sequence",
    "vector": "std::vector",
}
OPERATORS: dict[type, str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.Mod: "%",
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.And: "&&",
    ast.Or: "||",
    ast.BitOr: "||",
    ast.BitAnd: "&&",
    ast.USub: "-",
    ast.Not: "!",
}
SHIM = Path(__file__).with_name("vectors.hpp").read_text().split("\n\n")[1:]
"""Paragraphs; each comes after what it uses."""
DROPPED_LINES = re.compile(r"[^\n]*(?:integer_div_error|TORCH_CHECK|#include)[^\n]*\n")
MEMBER = re.compile(r"  (?:template <[^(]*?> )?(?:static |friend |constexpr )*[\w<>:]+ (\w+)\(.*\}$")


def lift_cpp(arguments: Sequence[Argument], found: InductorResult, library: Sequence[str]) -> str:
    """The source. SettingsError, in one sentence, for what cannot be lifted."""
    kernels: dict[str, str] = {}
    branches = []
    taken, given = ", ".join(map(_declared, arguments)), ", ".join(a.name for a in arguments)
    bodies = [_variant(arguments, found, variant, kernels) for variant in found.variants]
    for number, (body, variant) in enumerate(zip(bodies, found.variants, strict=True)):
        kernels[f"variant_{number}"] = f"static void variant_{number}({taken}) {{\n{body}}}"
        condition = " && ".join(map(_size, variant.conditions))
        call = f"variant_{number}({given});"
        branches.append(f"  if ({condition}) return {call}\n" if condition else f"  return {call}\n")
    entry = f'extern "C" void solve({taken}) {{\n{"".join(branches)}}}\n'
    code = "\n\n".join((*kernels.values(), entry))
    shim = _needed(code, found.vector_bytes)
    whole = f"{shim}{code}"
    headers = "".join(f"#include <{name}>\n" for name, words in HEADERS.items() if re.search(words, whole))
    return f"// Lifted from what torch.compile (Inductor) makes of reference.py.\n{headers}\n{whole}"


def _declared(argument: Argument) -> str:
    kind = TYPES[argument.dtype]
    if argument.role == "scalar":
        return f"{'int' if argument.dtype == 'int32' else kind} {argument.name}"
    return f"{'const ' if argument.role == 'input' else ''}{kind}* {argument.name}"


def _needed(code: str, lanes: int) -> str:
    """What `code` uses of the shim, and of the elementary functions that the recipe `vector_exp` writes out as well."""
    words = set(re.findall(r"\w+|[^\w\s]+", code))
    kept: list[str] = []
    for paragraph in reversed(SHIM):
        body = "\n".join(line for line in paragraph.splitlines() if not line.startswith("//"))
        names = set(
            re.findall(r"(?:struct|using|#define|inline \w[^(\n]*?) (\w+)(?:\(| =| \{|;|$)", body, re.MULTILINE)
        )
        if names.isdisjoint(words):
            continue
        if "struct Vec {" in body or "struct Mask {" in body:
            paragraph = _members(paragraph, code + "".join(kept))
        kept.insert(0, paragraph)
        words |= set(re.findall(r"\w+", paragraph))
    found = "\n\n".join(kept).replace("LANES", str(lanes))
    return sources_of_called_functions(found + code) + found + ("\n\n" if found else "")


def _members(struct: str, code: str) -> str:
    """Without the functions of one line that nobody calls: by their names in `code` or in each other."""
    lines = struct.splitlines()
    while True:
        named = [(line, MEMBER.match(line)) for line in lines]
        used = code + "".join(line[found.end(1) :] if found else line for line, found in named)
        kept = [
            line
            for line, found in named
            if not found or re.search(rf"[.:>]\s*(?:template )?{found[1]}\b|(?<!\w)\b{found[1]}\(", used)
        ]
        if len(kept) == len(lines):
            return "\n".join(lines)
        lines = kept


def _variant(
    arguments: Sequence[Argument], found: InductorResult, variant: GeneratedCode, kernels: dict[str, str]
) -> str:
    """The lines of one function's body; what it calls is added to `kernels`."""
    wrapper = read(variant.code)
    bound = Binding(arguments, found, variant, wrapper)
    named = {name: _kernel(name, text, kernels) for name, text in wrapper.kernels.items()}
    floats = {a.name for a in arguments if a.role == "scalar" and a.dtype.startswith("float")}
    lines = []
    for name, text in bound.given.items():
        if text in found.shapes:
            lines.append(f"const auto {name} = {text};")
        elif text in floats:
            lines += [f"const double {name}_value = {text};", f"const auto {name} = &{name}_value;"]
        else:
            lines.append(_number(name, text))
    for step in wrapper.steps:
        match step:
            case Number(name, value):
                lines.append(_number(name, bound.number(value)))
            case Alias(name, view):
                lines.append(f"const auto {name} = {_pointer(view)};")
            case Buffer():
                lines += _allocated(step, bound.outputs.get(step.name))
            case InductorLaunch(kernel, args):
                given = ", ".join(
                    _pointer(a) if isinstance(a, BufferView) else a.id if isinstance(a, ast.Name) else cpp(a)
                    for a in args
                )
                lines.append(f"{named[kernel]}({given});")
    lines += [f"std::copy_n({_pointer(copy.view)}, {_size(copy.size)}, {copy.output});" for copy in bound.copies]
    return "".join(f"  {line}\n" for line in lines)


def _number(name: str, text: str) -> str:
    return f"const int64_t {name} = {_size(text)};"


def _size(text: str) -> str:
    return cpp(ast.parse(text, mode="eval").body)


def _allocated(made: Buffer, output: str | None) -> list[str]:
    kind = TYPES.get(made.dtype)
    if kind is None:
        raise no_type(made.dtype)
    if output is not None:
        return [f"{kind}* const {made.name} = {output};"]
    size = " * ".join(f"({cpp(n)})" for n in made.shape) or "1"
    return [
        f"const std::unique_ptr<{kind}[]> {made.name}_memory(new {kind}[{size}]);",
        f"{kind}* const {made.name} = {made.name}_memory.get();",
    ]


def no_type(name: str) -> SettingsError:
    return SettingsError(
        f"torch.compile keeps values of the type {name}, which no lifted C++ takes; use float32, or give a kernel"
    )


def _pointer(view: BufferView) -> str:
    return view.base if view.plain or view.offset is None else f"{view.base} + {cpp(view.offset)}"


def _kernel(name: str, text: str, kernels: dict[str, str]) -> str:
    """The name under which a kernel stands in the source; a text that stands there already is not written again."""
    if foreign := re.search(r"\b(?:at|c10)::(Half|BFloat16|Float8\w+|complex)\b", text):
        raise no_type(foreign[1])
    body = DROPPED_LINES.sub("", text).strip()
    body = re.sub(r'extern "C"\s+void\s+kernel\(', "static void KERNEL(", body)
    body = re.sub(r"\bstatic (?=WelfordHelper|CascadeSumHelper)", "", body)
    body = re.sub(r"\bC10_(?:UN)?LIKELY\b", "", body).replace("__at_align__", "alignas(64)")
    for known, other in kernels.items():
        if other.replace(f" {known}(", " KERNEL(", 1) == body:
            return known
    chosen = name if name not in kernels else next(f"{name}_{n}" for n in range(1, 99) if f"{name}_{n}" not in kernels)
    kernels[chosen] = body.replace(" KERNEL(", f" {chosen}(", 1)
    return chosen


def cpp(node: ast.expr) -> str:
    """A Python expression over whole numbers as C++."""
    match node:
        case ast.Name(name):
            return name
        case ast.Constant(value):
            return str(value).lower() if isinstance(value, bool) else repr(value)
        case ast.BinOp(left, ast.FloorDiv(), right):
            return f"c10::div_floor_integer({cpp(left)}, {cpp(right)})"
        case ast.BinOp(left, sign, right) if type(sign) in OPERATORS:
            return f"({cpp(left)} {OPERATORS[type(sign)]} {cpp(right)})"
        case ast.UnaryOp(sign, operand) if type(sign) in OPERATORS:
            return f"{OPERATORS[type(sign)]}{cpp(operand)}"
        case ast.BoolOp(sign, values):
            return "(" + f" {OPERATORS[type(sign)]} ".join(map(cpp, values)) + ")"
        case ast.Compare(left, operators, [right]) if type(operators[0]) in OPERATORS:
            return f"({cpp(left)} {OPERATORS[type(operators[0])]} {cpp(right)})"
        case ast.Call(ast.Name("abs"), [inner]):
            return f"std::abs({cpp(inner)})"
        case ast.Call(ast.Name("max" | "min" as function), args):
            text = cpp(args[0])
            for more in args[1:]:
                text = f"std::{function}<int64_t>({text}, {cpp(more)})"
            return text
    raise unwritten(node)
