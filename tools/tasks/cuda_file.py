"""Kernels and host functions of a CUDA or C++ file, and the parts of `solve` around one of them that the source states.

A host function that takes pointers, scalars and streams is called as it is. For a kernel, and for host code that does
more (functions of torch tensors, `main`), `solve` launches the kernels, and each launch is quoted behind `FILL:`: the
user repeats its blocks and threads.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from tools.cli.suggestions import suggest_or_list
from tools.errors import SettingsError
from tools.languages.cpp_source import ENTRY, function_declarator, walk
from tools.languages.cpp_source import node_text as text

if TYPE_CHECKING:
    from tree_sitter import Node

FILL = "FILL:"
"""Begins what is left to the user, in every file that `init` writes."""
_TENSOR = re.compile(r"\b(?:torch|at|c10)::")
_SCALAR = re.compile(
    r"(?:const )?(?:unsigned |signed )?(?:int|long(?: long)?|u?int(?:8|16|32|64)_t|size_t|float|double|bool)"
)
_REGISTRATION = re.compile(r"^[ \t]*(?:PYBIND11_MODULE|TORCH_LIBRARY\w*)\s*\([^)]*\)\s*\{", re.MULTILINE)
_INCLUDED = re.compile(r"^[ \t]*#[ \t]*include[ \t]*<([^>]+)>.*\n", re.MULTILINE)
_KEPT_HEADERS = re.compile(
    r"cuda|cooperative|mma|crt/|cub/|cute|cutlass|device_|vector|sm_|c?(math|float|limits|std|assert)|type_traits"
    r"|algorithm|utility|omp"
)
"""Headers that stay whether or not something by their name is seen to be used."""
_HALF_TYPES = {r"\b(?:__)?nv_bfloat16": "cuda_bf16.h", r"\b(?:__half|half)2?\b": "cuda_fp16.h"}
"""Pattern of a type -> the header that a library's header would have included."""
_THREADS = re.compile(r"^(?:num_|n_)?(?:block_?(?:size|dim)|threads?)|threads?$", re.IGNORECASE)
"""Names of launch parameters, which are no size of the data."""
_TYPE_ARGUMENT = re.compile(r"_*(?:float|double|half|nv_bfloat16|int)\w*$")


@dataclass(frozen=True)
class SourceParameter:
    """A parameter of a function."""

    type: str
    """Without the name, e.g. `const float*`."""
    name: str

    @property
    def is_pointer(self) -> bool:
        return self.type.endswith("*")


@dataclass(frozen=True)
class CudaFunction:
    """A function of the file that has a body."""

    name: str
    node: Node
    parameters: tuple[SourceParameter, ...]
    is_kernel: bool
    launches: tuple[Node, ...] = ()
    template_parameters: tuple[str, ...] = ()

    @property
    def can_be_called(self) -> bool:
        """The function takes only pointers, scalars and streams, so that `solve` can call it as it is."""
        return (
            all(p.is_pointer or p.type == "cudaStream_t" or _SCALAR.fullmatch(p.type) for p in self.parameters)
            and self.name != "main"
            and bool(self.parameters)
            and not self.template_parameters
            and not _TENSOR.search(text(self.node))
        )


@dataclass
class EntrySketch:
    """The parameters and the body of `solve` as far as the source states them."""

    parameters: dict[str, SourceParameter] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    takes_stream: bool = False


class CudaFile:
    """A parsed `.cu` file, or a C++ file of the same contract."""

    def __init__(self, source: str) -> None:
        import tree_sitter
        import tree_sitter_cuda

        self.source = source
        self.root = (
            tree_sitter.Parser(tree_sitter.Language(tree_sitter_cuda.language())).parse(source.encode()).root_node
        )

    @cached_property
    def functions(self) -> tuple[CudaFunction, ...]:
        """Free functions with a body, in order."""
        return tuple(_function(node) for node in walk(self.root) if node.type == "function_definition" and _name(node))

    @property
    def kernels(self) -> dict[str, CudaFunction]:
        """`__global__` functions by name."""
        return {f.name: f for f in self.functions if f.is_kernel}

    @property
    def launchers(self) -> dict[str, CudaFunction]:
        """Host functions that launch; in a file without launches, plain C++ functions."""
        hosts = [f for f in self.functions if not f.is_kernel]
        launching = {f.name: f for f in hosts if f.launches}
        return launching or {f.name: f for f in hosts if f.can_be_called and not self.kernels}

    def choose(self, entry: str | None) -> CudaFunction:
        """The launcher or kernel named `entry`; without a name `solve`, else a launcher, `main`, or a kernel."""
        known = {**self.kernels, **self.launchers}
        if entry is not None:
            if entry not in known:
                raise SettingsError(
                    f"--entry: there is no kernel or launcher {entry!r} in the file; "
                    f"{suggest_or_list(entry, list(known))}"
                )
            return known[entry]
        hosts = [f for f in known.values() if not f.is_kernel]
        ranked = sorted(hosts, key=lambda f: (f.name != ENTRY, f.name == "main", self._is_used(f)))
        ranked = ranked or list(self.kernels.values())
        if not ranked:
            raise SettingsError(
                "no kernel (`__global__` function) and no function of pointers and scalars was found in the file"
            )
        return ranked[0]

    def sketch_solve(self, function: CudaFunction) -> EntrySketch:
        """`solve` around `function`."""
        sketch = EntrySketch()
        if function.is_kernel:
            self._add_launch(sketch, function, function.name, "the file launches nothing")
        elif function.can_be_called:
            values = {p.name: "stream" for p in function.parameters if p.type == "cudaStream_t"}
            sketch.takes_stream = bool(values)
            for parameter in function.parameters:
                if _THREADS.search(parameter.name):
                    sketch.lines.append(f"const int {parameter.name} = 256;  // {FILL} threads of a block")
                elif parameter.name not in values:
                    sketch.parameters[parameter.name] = self._resolved(parameter)
            arguments = ", ".join(values.get(p.name, p.name) for p in function.parameters)
            sketch.lines.append(f"{function.name}({arguments});")
        else:
            self._add_host_code(sketch, function)
        namespaces = {
            text(n.child_by_field_name("name") or n)
            for n in _ancestors(function.node)
            if n.type == "namespace_definition"
        }
        sketch.lines[:0] = [f"using namespace {name};" for name in sorted(namespaces)]
        return sketch

    def _add_host_code(self, sketch: EntrySketch, function: CudaFunction) -> None:
        """Each launch of a host function that `solve` cannot call, and each buffer that the function clears."""
        for call in (n for n in walk(function.node) if n.type == "call_expression"):
            callee, quoted = text(call.child_by_field_name("function") or call), " ".join(text(call).split())
            if callee.startswith("cudaMemset"):
                sketch.lines.append(f"// {FILL} clear what {function.name} clears: {quoted}")
            elif call in function.launches:
                kernel = self.kernels.get(re.sub(r"<.*|.*::", "", callee, flags=re.DOTALL))
                if kernel is None:
                    sketch.lines.append(f"// {FILL} {quoted} (its kernel is not in the file)")
                else:
                    self._add_launch(sketch, kernel, callee, f"{function.name} launches {quoted}")

    def _add_launch(self, sketch: EntrySketch, kernel: CudaFunction, callee: str, reason: str) -> None:
        """A launch of `kernel`, whose parameters become those of `solve`; type parameters that nothing states are
        float."""
        given = re.search(r"<(.*)>", callee, re.DOTALL)
        stated = [one.strip() for one in given[1].split(",")] if given else []
        types = {
            name: stated[i] if i < len(stated) and _TYPE_ARGUMENT.match(stated[i]) else "float"
            for i, name in enumerate(kernel.template_parameters)
        }
        for parameter in kernel.parameters:
            named = re.sub(r"\w+", lambda word: types.get(word[0], word[0]), parameter.type)
            known = sketch.parameters.get(parameter.name)
            # What one launch writes is no input of the whole.
            if known is None or "const" in known.type:
                sketch.parameters[parameter.name] = self._resolved(SourceParameter(named, parameter.name))
        template = ", template arguments" * bool(kernel.template_parameters)
        arguments = ", ".join(p.name for p in kernel.parameters)
        sketch.lines.append(f"// {FILL} blocks and threads of the launch{template}: {reason}")
        sketch.lines.append(f"{callee}<<<1, 256, 0, stream>>>({arguments});")
        sketch.takes_stream = True

    def needed_source(self, sketch: EntrySketch) -> tuple[str, tuple[str, ...]]:
        """The file's code that `solve` needs, with continued lines joined; and the names of the other functions."""
        items = [(node, _declared_names(node)) for node in _items(self.root)]
        never = [
            n
            for n, names in items
            if "main" in names
            or _REGISTRATION.match(text(n))
            or (_TENSOR.search(text(n)) and "__global__" not in text(n))
        ]
        items = [(node, names) for node, names in items if node not in never]
        words = set(re.findall(r"\w+", " ".join([ENTRY, *sketch.lines, *(p.type for p in sketch.parameters.values())])))
        needed: list[Node] = []
        while more := [node for node, names in items if node not in needed and (not names or names & words)]:
            needed += more
            words |= {word for node in more for word in re.findall(r"\w+", text(node))}
        removed = [*never, *(node for node, _ in items if node not in needed)]
        code = self.source.encode()
        for node in sorted(removed, key=lambda n: -n.start_byte):
            code = code[: node.start_byte] + code[node.end_byte :]
        remaining = re.sub(r"[ \t]*\\\n[ \t]*", " ", code.decode())
        bare = re.sub(r"//[^\n]*|/\*.*?\*/", "", _INCLUDED.sub("", remaining), flags=re.DOTALL)
        stems = {name: re.split(r"(?<=\d)|[^A-Za-z\d]", name)[0] for name in _INCLUDED.findall(remaining)}
        used = {name for name, stem in stems.items() if _KEPT_HEADERS.match(name) or re.search(rf"\b{stem}", bare)}
        remaining = _INCLUDED.sub(lambda m: m[0] if m[1] in used else "", remaining)
        for pattern, header in _HALF_TYPES.items():
            if re.search(pattern, bare) and header not in used:
                remaining = f"#include <{header}>\n{remaining}"
        left_out = dict.fromkeys(
            f.name
            for f in self.functions
            if not _REGISTRATION.match(text(f.node))
            for node in removed
            if f.node in (node, *node.named_children)
        )
        return re.sub(r"\n(?:[ \t]*\n){2,}", "\n\n", remaining).strip() + "\n", tuple(left_out)

    def _is_used(self, function: CudaFunction) -> bool:
        """Another function of the file names it."""
        others = (f for f in self.functions if f.name not in (function.name, "main"))
        return any(re.search(rf"\b{function.name}\b", text(f.node)) for f in others)

    def _resolved(self, parameter: SourceParameter) -> SourceParameter:
        """The parameter with the type behind the file's own name for it. Of several definitions the one under a macro
        that the file defines is taken, else the last, which is that of #else."""
        base = parameter.type.removeprefix("const ").rstrip("*")
        definition = rf"\btypedef\s+([\w ]+?)\s+{re.escape(base)}\s*;|\busing\s+{re.escape(base)}\s*=\s*([\w ]+?)\s*;"
        condition = r"^\s*#\s*(?:el)?if(?:def\s+|\s+defined\s*\(?\s*)(\w+)"
        resolved = ""
        for match in re.finditer(definition, self.source):
            resolved = match[1] or match[2]
            macros = re.findall(condition, self.source[: match.start()], re.MULTILINE)
            if macros and re.search(rf"^\s*#\s*define\s+{macros[-1]}\b", self.source, re.MULTILINE):
                break
        return replace(parameter, type=parameter.type.replace(base, resolved)) if resolved else parameter


def _function(node: Node) -> CudaFunction:
    declarator = function_declarator(node)
    above = node.parent if node.parent is not None and node.parent.type == "template_declaration" else None
    listed = above.child_by_field_name("parameters") if above is not None else None
    head = text(node)[: (node.child_by_field_name("body") or node).start_byte - node.start_byte]
    inside = declarator.child_by_field_name("parameters") if declarator is not None else None
    return CudaFunction(
        name=_name(node),
        node=node,
        parameters=tuple(
            _parameter(p)
            for p in (inside.named_children if inside is not None else ())
            if p.type.endswith("parameter_declaration")
        ),
        is_kernel="__global__" in head,
        launches=tuple(n for n in walk(node) if n.type == "call_expression" and _is_launch(n)),
        template_parameters=tuple(
            re.split(r"\W+", text(t).split("=")[0].strip())[-1]
            for t in (listed.named_children if listed is not None else ())
        ),
    )


def _name(node: Node) -> str:
    declarator = function_declarator(node)
    named = declarator.child_by_field_name("declarator") if declarator is not None else None
    return text(named) if named is not None and named.type == "identifier" else ""


def _parameter(node: Node) -> SourceParameter:
    words = re.sub(r"\b(?:__restrict__|__restrict|restrict|__grid_constant__)\b|=.*", "", text(node), flags=re.DOTALL)
    parts = re.fullmatch(r"(.*?)(\w+)\s*(\[[^\]]*\])?\s*", words, re.DOTALL)
    kind, name, array = (parts[1], parts[2], parts[3]) if parts else (words, "", None)
    kind = re.sub(r"\s*\*\s*(?:const\s*)?", "*", " ".join(kind.split())) + "*" * bool(array)
    kind = re.sub(r"\b(?:uint|unsigned(?! int| long| char| short))\b", "unsigned int", kind)
    return SourceParameter(re.sub(r"^(\w+) const\*", r"const \1*", kind), name)


def _is_launch(call: Node) -> bool:
    return any(child.type == "kernel_call_syntax" for child in call.children)


def _ancestors(node: Node | None) -> Iterator[Node]:
    while node is not None:
        yield node
        node = node.parent


def _items(node: Node) -> Iterator[Node]:
    """Declarations of a file or a namespace, under either branch of an #if."""
    for child in node.named_children:
        body = child.child_by_field_name("body")
        if (
            child.type in ("namespace_definition", "linkage_specification")
            and body is not None
            and body.type == "declaration_list"
        ):
            yield from _items(body)
        elif child.type.startswith(("preproc_if", "preproc_el")):
            yield from _items(child)
        elif child.type not in ("comment", "preproc_include", "preproc_call"):
            yield child


def _declared_names(node: Node) -> set[str]:
    """The names that an item declares; empty where the source does not show them, so that the item stays."""
    while node.type in ("template_declaration", "linkage_specification") and node.named_children:
        node = node.named_children[-1]
    names = set()
    for one in [*node.children_by_field_name("declarator"), *node.children_by_field_name("name")]:
        inner: Node | None = one
        while inner is not None:
            one, inner = inner, inner.child_by_field_name("declarator")
        names.add(re.split(r"[<\[(]", text(one))[0].strip("*& "))
    kind = node.child_by_field_name("type")
    if (
        kind is not None
        and kind.type.endswith("_specifier")
        and (named := kind.child_by_field_name("name")) is not None
    ):
        names.add(text(named))
    return set() if "enum_specifier" in (node.type, kind.type if kind is not None else "") else names - {""}
