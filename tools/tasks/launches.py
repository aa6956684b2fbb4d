"""Kernels of a CUDA file and the host code that launches them, and `solve` around both, as far as the source says it.

Three styles are known: host functions that take pointers and scalars (they are called), functions of torch tensors, and
programs with `main` (both are cut; their launches are repeated with the declarations that these need). What cannot be
read is marked `FILL:`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from tools.cli.suggestions import offered
from tools.errors import SettingsError
from tools.languages.cpp_source import ENTRY, function_declarator, walk
from tools.languages.cpp_source import node_text as text
from tools.tasks.kernelbench import evaluate_number as number_of

if TYPE_CHECKING:
    from tree_sitter import Node

FILL = "FILL:"
"""Begins what is left to the user, in every file that is written."""
TENSOR = re.compile(r"\b(?:torch|at|c10)::")
_SCALAR = re.compile(
    r"(?:const )?(?:unsigned |signed )?(?:int|long(?: long)?|u?int(?:8|16|32|64)_t|size_t|float|double|bool)"
)
_POINTER = re.compile(r"\.(?:const_|mutable_)?(?:data_ptr|data|contiguous|packed_accessor\w*)(?:<[^()]*>)?\(\)")
_STREAM = re.compile(r"(at|c10)::cuda::getCurrentCUDAStream\([^()]*\)(\.stream\(\))?")
SIZE = re.compile(r"\b(\w+)\.(?:size\((-?\d+)\)|sizes\(\)\[(\d+)\]|(numel)\(\))")
_REGISTRATION = re.compile(r"^[ \t]*(?:PYBIND11_MODULE|TORCH_LIBRARY\w*)\s*\([^)]*\)\s*\{", re.MULTILINE)
_INCLUDED = re.compile(r"^[ \t]*#[ \t]*include[ \t]*<([^>]+)>.*\n", re.MULTILINE)
_DEVICE = re.compile(
    r"cuda|cooperative|mma|crt/|cub/|cute|cutlass|device_|vector|sm_|c?(math|float|limits|std|assert)|type_traits|algorithm|utility|omp"
)
"""Headers that stay whether or not something by their name is seen to be used."""
_HALVES = {r"\b(?:__)?nv_bfloat16": "cuda_bf16.h", r"\b(?:__half|half)2?\b": "cuda_fp16.h"}
_CREATED = re.compile(r"(?:torch|at)::(zeros|empty|ones|full)(_like)?\((.*)\)$", re.DOTALL)
_CLEARED = re.compile(r"cudaMemset(?:Async)?\(\s*(\w+)\s*,\s*(\w+)\s*,\s*((?:[^(),]|\([^()]*\))+)")
_ALLOCATED = re.compile(r"cudaMalloc\w*\(\s*(?:\([^)]*\)\s*)?&\s*(\w+)\s*,\s*(.+?)\)\s*[;)]", re.DOTALL)


THREADS = re.compile(r"^(?:num_|n_)?(?:block_?(?:size|dim)|threads?)|threads?$", re.IGNORECASE)
"""Names of what a launch is made with, and no size of the data."""


@dataclass(frozen=True)
class Value:
    """A parameter or a variable."""

    type: str
    """Without the name, e.g. `const float*`."""
    name: str
    value: str = ""
    """As written where it is declared."""
    start: int = 0
    written: str = ""
    """Its declaration."""

    @property
    def pointer(self) -> bool:
        return self.type.endswith("*")


@dataclass(frozen=True)
class Function:
    """One function of the file with its body."""

    name: str
    node: Node
    parameters: tuple[Value, ...]
    kernel: bool
    launches: tuple[Node, ...] = ()
    templates: tuple[tuple[str, str], ...] = ()
    """(kind, name) of each template parameter."""

    @property
    def plain(self) -> bool:
        """Takes pointers and scalars only, so that it can be called as it is."""
        simple = all(p.pointer or _SCALAR.fullmatch(p.type) for p in self.parameters)
        return (
            simple
            and self.name != "main"
            and bool(self.parameters)
            and not self.templates
            and not TENSOR.search(text(self.node))
        )


@dataclass
class Shim:
    """`solve` as far as it is known."""

    parameters: dict[str, Value] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    sizes: dict[str, int] = field(default_factory=dict)
    """Scalar -> the value that the source gives it."""
    shapes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Pointer -> its sizes as expressions of scalars."""
    initial: dict[str, str] = field(default_factory=dict)
    """Pointer that the host code creates -> zeros, ones, empty, or the number that it is filled with: what it holds
    before the launch."""


class CudaFile:
    """One parsed `.cu`, or a C++ file of the same contract."""

    def __init__(self, source: str) -> None:
        import tree_sitter
        import tree_sitter_cuda

        self.source = source
        self.root = (
            tree_sitter.Parser(tree_sitter.Language(tree_sitter_cuda.language())).parse(source.encode()).root_node
        )

    @cached_property
    def functions(self) -> tuple[Function, ...]:
        """Free functions with a body, in order."""
        return tuple(_function(node) for node in walk(self.root) if node.type == "function_definition" and _name(node))

    @property
    def kernels(self) -> dict[str, Function]:
        """`__global__` functions by name."""
        return {f.name: f for f in self.functions if f.kernel}

    @property
    def launchers(self) -> dict[str, Function]:
        """Host functions that launch; where nothing launches, plain C++ functions."""
        hosts = [f for f in self.functions if not f.kernel]
        return {f.name: f for f in hosts if f.launches} or {f.name: f for f in hosts if f.plain and not self.kernels}

    def calls(self, function: Function) -> tuple[Node, ...]:
        """Calls in its body, launches among them, in order."""
        return tuple(n for n in walk(function.node) if n.type == "call_expression")

    def declared(self, function: Function) -> Iterator[tuple[str, Value]]:
        """Variables of its body by name."""
        return _declared(function.node)

    def chosen(self, entry: str | None) -> Function:
        """The launcher `entry`, or the kernel of that name; without a name `solve`, a launcher, `main`, or a kernel."""
        known = {**self.kernels, **self.launchers}
        if entry is not None:
            if entry not in known:
                raise SettingsError(
                    f"--entry: there is no kernel or launcher {entry!r} in the file; {offered(entry, list(known))}"
                )
            return known[entry]
        hosts = [f for f in known.values() if not f.kernel]
        ranked = sorted(hosts, key=lambda f: (f.name != ENTRY, f.name == "main", self._used(f))) or list(
            self.kernels.values()
        )
        if not ranked:
            raise SettingsError(
                "no kernel (`__global__` function) and no function of pointers and scalars was found in the file"
            )
        return ranked[0]

    def shim(self, function: Function) -> Shim:
        """`solve` around `function`."""
        shim = Shim()
        if function.kernel:
            for value in function.parameters:
                shim.parameters[value.name] = self._resolved(value)
            called = ", ".join(p.name for p in function.parameters)
            shim.lines = [
                (
                    f"// {FILL} blocks and threads of the launch{', template arguments' * bool(function.templates)}: the "
                    f"file launches nothing"
                ),
                f"{function.name}<<<1, 256>>>({called});",
            ]
        elif function.plain:
            shim.parameters = {p.name: self._resolved(p) for p in function.parameters if not THREADS.search(p.name)}
            asked = [p.name for p in function.parameters if p.name not in shim.parameters]
            shim.lines = [f"const int {name} = 256;  // {FILL} threads of a block" for name in asked]
            shim.lines += [f"{function.name}({', '.join(p.name for p in function.parameters)});"]
        else:
            _Slice(self, function, shim).fill()
        spaces = {
            text(n.child_by_field_name("name") or n) for n in _above(function.node) if n.type == "namespace_definition"
        }
        shim.lines[:0] = [f"using namespace {name};" for name in sorted(spaces)]
        return shim

    def kept(self, shim: Shim) -> tuple[str, tuple[str, ...]]:
        """The file's own code that `shim` needs, lines joined that a backslash continues, and the functions that
        were left out."""
        items = [(node, _names(node)) for node in _items(self.root)]
        never = [
            n
            for n, names in items
            if "main" in names
            or _REGISTRATION.match(text(n))
            or (TENSOR.search(text(n)) and "__global__" not in text(n))
        ]
        items = [(node, names) for node, names in items if node not in never]
        words = set(re.findall(r"\w+", " ".join([ENTRY, *shim.lines, *(p.type for p in shim.parameters.values())])))
        needed: list[Node] = []
        while more := [node for node, names in items if node not in needed and (not names or names & words)]:
            needed += more
            words |= {word for node in more for word in re.findall(r"\w+", text(node))}
        gone = [*never, *(node for node, _ in items if node not in needed)]
        code = self.source.encode()
        for node in sorted(gone, key=lambda n: -n.start_byte):
            code = code[: node.start_byte] + code[node.end_byte :]
        kept = re.sub(r"[ \t]*\\\n[ \t]*", " ", code.decode())
        bare = re.sub(r"//[^\n]*|/\*.*?\*/", "", _INCLUDED.sub("", kept), flags=re.DOTALL)
        stems = {name: re.split(r"(?<=\d)|[^A-Za-z\d]", name)[0] for name in _INCLUDED.findall(kept)}
        used = {name for name, stem in stems.items() if _DEVICE.match(name) or re.search(rf"\b{stem}", bare)}
        kept = _INCLUDED.sub(lambda m: m[0] if m[1] in used else "", kept)
        # Libraries' headers bring these along.
        kept = (
            "".join(f"#include <{h}>\n" for word, h in _HALVES.items() if re.search(word, bare) and h not in used)
            + kept
        )
        out = dict.fromkeys(
            f.name
            for f in self.functions
            if not _REGISTRATION.match(text(f.node))
            for g in gone
            if f.node in (g, *g.named_children)
        )
        return re.sub(r"\n(?:[ \t]*\n){2,}", "\n\n", kept).strip() + "\n", tuple(out)

    def _used(self, function: Function) -> bool:
        """Another function of the file names it."""
        others = (f for f in self.functions if f.name not in (function.name, "main"))
        return any(re.search(rf"\b{function.name}\b", text(f.node)) for f in others)

    def _resolved(self, value: Value) -> Value:
        """With the type behind the file's own name; of several, the one under a macro that the file defines, else
        the last: #else."""
        base = value.type.removeprefix("const ").rstrip("*")
        named = rf"\btypedef\s+([\w ]+?)\s+{re.escape(base)}\s*;|\busing\s+{re.escape(base)}\s*=\s*([\w ]+?)\s*;"
        meant = ""
        for found in re.finditer(named, self.source):
            meant = found[1] or found[2]
            macro = re.findall(
                r"^\s*#\s*(?:el)?if(?:def\s+|\s+defined\s*\(?\s*)(\w+)", self.source[: found.start()], re.MULTILINE
            )
            if macro and re.search(rf"^\s*#\s*define\s+{macro[-1]}\b", self.source, re.MULTILINE):
                break
        return replace(value, type=value.type.replace(base, meant)) if meant else value


class _Slice:
    """The launches of a host function, with the declarations that they need."""

    def __init__(self, file: CudaFile, function: Function, shim: Shim) -> None:
        self.file, self.function, self.shim = file, function, shim
        self.locals = dict(_declared(function.node))
        self.given = {p.name: p for p in function.parameters}
        self.needed: dict[str, Value] = {}
        self.passed: set[str] = set()

    def fill(self) -> None:
        launched: dict[str, list[str]] = {}
        for node in self.function.launches:
            launched.setdefault(*self._launch(node))
        source = text(self.function.node)
        # What a kernel adds to was cleared before it.
        cleared = {
            f"cudaMemsetAsync({name}, {byte}, {self._sliced(size.strip())});"
            for buffer, byte, size in _CLEARED.findall(source)
            if (name := self._origin(buffer)) in self.shim.parameters
        }
        for value in sorted(self.needed.values(), key=lambda v: v.start):
            self.shim.lines.append(self._declaration(value))
        self.shim.lines += sorted(cleared)
        for lines in launched.values():
            self.shim.lines += lines
        for name in (name for kind, name in self.function.templates if kind == "typename"):
            # As `_types` takes what a launch leaves to be deduced.
            self.shim.lines = [re.sub(rf"\b{name}\b", "float", line) for line in self.shim.lines]
        for name, size in _ALLOCATED.findall(source):
            # `size_t bytes = n * sizeof(float)` is one step away.
            count = self.locals[size.strip()].value if size.strip() in self.locals else size
            factors = [f.strip(" ()") for f in re.sub(r"\bsizeof\s*\([^)]*\)", "1", count).split("*")]
            factors = [f for f in factors if f != "1"]
            if (
                name in self.shim.parameters
                and factors
                and all(f.isdigit() or f in self.shim.parameters for f in factors)
            ):
                self.shim.shapes[name] = tuple(factors)

    def _launch(self, node: Node) -> tuple[str, list[str]]:
        called, syntax, given = (
            node.child_by_field_name("function"),
            _syntax(node),
            node.child_by_field_name("arguments"),
        )
        assert called is not None and syntax is not None and given is not None, (
            "only launches with all three are collected"
        )
        kernel = self.file.kernels.get(re.sub(r"<.*|.*::", "", text(called), flags=re.DOTALL))
        if kernel is None:
            return text(node), [f"// {FILL} {' '.join(text(node).split())} (its kernel is in no file beside this one)"]
        renamed = _types(kernel, text(called))
        values = [c for c in given.named_children if c.type != "comment"]
        arguments = []
        for parameter, argument in zip(kernel.parameters, values, strict=False):
            if parameter.pointer:
                name = self._origin(text(argument)) or parameter.name
                held = self.shim.parameters.get(name)
                spelled = " ".join(renamed.get(word, word) for word in parameter.type[:-1].split()) + "*"
                # What one launch writes is no input of the whole.
                if held is None or "const" in held.type:
                    self.shim.parameters[name] = Value(spelled, name)
                arguments.append(name)
                self._shape(name)
            else:
                self.passed |= {text(argument)}
                arguments.append(self._sliced(text(argument)))
        shape = self._sliced(_STREAM.sub("0", text(syntax)))
        return text(called) + text(syntax), [f"{self._sliced(text(called))}{shape}({', '.join(arguments)});"]

    def _origin(self, written: str) -> str:
        """The tensor or buffer behind a pointer argument, by the name that the host code first gives it."""
        name = re.sub(r"^\([^()]*\)\s*|^reinterpret_cast<.*?>\((.*)\)$", r"\1", _POINTER.sub("", written))
        behind = self.locals.get(name)
        further = _POINTER.sub("", behind.value) if behind is not None else ""
        return (
            self._origin(further)
            if further.isidentifier() and further not in ("NULL", "nullptr")
            else name
            if name.isidentifier()
            else ""
        )

    def _shape(self, name: str) -> None:
        """What the host code says of a tensor's sizes and first content."""
        created = _CREATED.search(self.locals[name].value) if name in self.locals else None
        asked = {
            int(k): n
            for n, v in self.locals.items()
            for m in [SIZE.fullmatch(v.value)]
            if m and m[1] == name
            for k in [m[2] or m[3]]
            if k
        }
        if asked and sorted(asked) == list(range(len(asked))):
            for size in asked.values():
                self._sliced(size)
            self.shim.shapes[name] = tuple(asked[k] for k in range(len(asked)))
        if created is None:
            return
        filled = re.search(r",\s*(-?[\w.]+?)f?\s*(?:,[^,]*)?$", created[3]) if created[1] == "full" else None
        self.shim.initial[name] = re.sub(r"INFINITY|INF", "inf", filled[1]) if filled else created[1]
        listed = re.match(r"\s*\{([^}]*)\}", created[3])
        like = re.match(r"\w+", created[3])
        of = self._origin(like[0]) if like else ""
        if created[2] or ".sizes()" in created[3]:
            self.shim.shapes |= (
                {name: self.shim.shapes[of]} if of in self.shim.shapes else {name: ("like", of)} if of else {}
            )
        elif listed:
            self.shim.shapes[name] = tuple(self._sliced(one.strip()) for one in listed[1].split(","))

    def _sliced(self, written: str) -> str:
        """`written` in terms of `solve`: sizes of tensors become scalars, and what it names is declared too."""

        def scalar(found: re.Match[str]) -> str:
            of, which = self._origin(found[1]) or found[1], found[2] or found[3]
            name = f"{of}_size{which}".replace("-", "_last") if which else f"{of}_numel"
            self.shim.parameters.setdefault(name, Value("int", name))
            if not which:
                self.shim.shapes.setdefault(of, (name,))
            return name

        written = SIZE.sub(scalar, written)
        for name in re.findall(r"(?<![.\w])[A-Za-z_]\w*", written):
            value = self.given.get(name) or self.locals.get(name)
            if value is None or name in self.shim.parameters or name in self.needed:
                continue
            whole = SIZE.fullmatch(value.value)
            number = _constant(value.value) if self.function.name == "main" and name in self.passed else None
            if "cudaStream_t" not in value.type and (name in self.given or whole or number is not None):
                self.shim.parameters[name] = Value(value.type.removeprefix("const "), name)
                self.shim.sizes |= {name: number} if number is not None else {}
                if whole and whole[4]:
                    self.shim.shapes.setdefault(self._origin(whole[1]) or whole[1], (name,))
            else:
                self.needed[name] = value
                self._sliced(value.value or value.written.partition(name)[2])
        return written

    def _declaration(self, value: Value) -> str:
        if "cudaStream_t" in value.type or "getCurrentCUDAStream" in value.written:
            return f"cudaStream_t {value.name} = nullptr;"
        line = self._sliced(" ".join(value.written.split()))
        return f"// {FILL} {line}" if TENSOR.search(line) or "argv" in line else line


def _function(node: Node) -> Function:
    declarator = function_declarator(node)
    above = node.parent if node.parent is not None and node.parent.type == "template_declaration" else None
    listed = above.child_by_field_name("parameters") if above is not None else None
    templates = tuple(
        (
            "typename" if t.type.startswith("type_parameter") else "value",
            re.split(r"\W+", text(t).split("=")[0].strip())[-1],
        )
        for t in (listed.named_children if listed is not None else ())
    )
    head = text(node)[: (node.child_by_field_name("body") or node).start_byte - node.start_byte]
    inside = declarator.child_by_field_name("parameters") if declarator is not None else None
    return Function(
        name=_name(node),
        node=node,
        parameters=tuple(
            _parameter(p)
            for p in (inside.named_children if inside is not None else ())
            if p.type.endswith("parameter_declaration")
        ),
        kernel="__global__" in head,
        launches=tuple(n for n in walk(node) if n.type == "call_expression" and _syntax(n) is not None),
        templates=templates,
    )


def _name(node: Node) -> str:
    declarator = function_declarator(node)
    named = declarator.child_by_field_name("declarator") if declarator is not None else None
    return text(named) if named is not None and named.type == "identifier" else ""


def _parameter(node: Node) -> Value:
    words = re.sub(r"\b(?:__restrict__|__restrict|restrict|__grid_constant__)\b|=.*", "", text(node), flags=re.DOTALL)
    found = re.fullmatch(r"(.*?)(\w+)\s*(\[[^\]]*\])?\s*", words, re.DOTALL)
    kind, name, array = (found[1], found[2], found[3]) if found else (words, "", None)
    kind = re.sub(r"\s*\*\s*(?:const\s*)?", "*", " ".join(kind.split())) + "*" * bool(array)
    kind = re.sub(r"\b(?:uint|unsigned(?! int| long| char| short))\b", "unsigned int", kind)
    return Value(re.sub(r"^(\w+) const\*", r"const \1*", kind), name)


def _declared(function: Node) -> Iterator[tuple[str, Value]]:
    for node in walk(function):
        if node.type != "declaration":
            continue
        kind = text(node)[: (node.child_by_field_name("declarator") or node).start_byte - node.start_byte].strip()
        for one in node.children_by_field_name("declarator"):
            named = one.child_by_field_name("declarator") or one
            value = one.child_by_field_name("value")
            name = text(named).lstrip("*& ")
            if name.isidentifier():
                yield (
                    name,
                    Value(kind, name, text(value) if value is not None else "", one.start_byte, f"{kind} {text(one)};"),
                )


def _constant(written: str) -> int | None:
    """A whole number as C++ writes it: 1'000, 1 << 20, 64 * 1024u."""
    try:
        found = number_of(ast.parse(re.sub(r"'|(?<=\d)[uUlL]+\b", "", written), mode="eval").body)
    except SyntaxError:
        return None
    return found if isinstance(found, int) else None


def _types(kernel: Function, called: str) -> dict[str, str]:
    """Type parameters of the kernel as the launch gives them; float where it leaves them to be deduced."""
    given = re.search(r"<(.*)>", called, re.DOTALL)
    listed = [one.strip() for one in given[1].split(",")] if given else []
    return {
        name: listed[i]
        if i < len(listed) and re.match(r"_*(?:float|double|half|nv_bfloat16|int)\w*$", listed[i])
        else "float"
        for i, (kind, name) in enumerate(kernel.templates)
        if kind == "typename"
    }


def _syntax(node: Node) -> Node | None:
    return next((c for c in node.children if c.type == "kernel_call_syntax"), None)


def _above(node: Node | None) -> Iterator[Node]:
    while node is not None:
        yield node
        node = node.parent


def _items(node: Node) -> Iterator[Node]:
    """What is declared in a file or a namespace, under either branch of an #if."""
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


def _names(node: Node) -> set[str]:
    """What an item declares; empty where it cannot be told, so that the item stays."""
    while node.type in ("template_declaration", "linkage_specification") and node.named_children:
        node = node.named_children[-1]
    found = set()
    for one in [*node.children_by_field_name("declarator"), *node.children_by_field_name("name")]:
        inner: Node | None = one
        while inner is not None:
            one, inner = inner, inner.child_by_field_name("declarator")
        found.add(re.split(r"[<\[(]", text(one))[0].strip("*& "))
    kind = node.child_by_field_name("type")
    if (
        kind is not None
        and kind.type.endswith("_specifier")
        and (named := kind.child_by_field_name("name")) is not None
    ):
        found.add(text(named))
    return set() if "enum_specifier" in (node.type, kind.type if kind is not None else "") else found - {""}
