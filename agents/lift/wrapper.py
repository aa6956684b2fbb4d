"""Reads the module that Inductor generates: its kernels as text, and what its wrapper does with them, step by step."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from tools.errors import SettingsError

CALLS = {"cpp_pybinding", "triton"}
"""Methods of AsyncCompile that are given a kernel's text."""
IGNORED = (
    "size",
    "_DeviceGuard",
    "assert_size_stride",
    "copy_if_misaligned",
    "assert_alignment",
    "clear",
    "record_stream",
    "_set_device",
    "set_device",
    "synchronize",
)


@dataclass(frozen=True)
class BufferView:
    """A buffer, or a part of one: elements from `offset` on."""

    base: str
    shape: tuple[ast.expr, ...] = ()
    offset: ast.expr | None = None
    strides: tuple[ast.expr, ...] = ()

    @property
    def plain(self) -> bool:
        """Whether it begins where its buffer does."""
        return self.offset is None or ast.unparse(self.offset) == "0"


@dataclass(frozen=True)
class Buffer:
    name: str
    shape: tuple[ast.expr, ...]
    strides: tuple[ast.expr, ...]
    dtype: str


@dataclass(frozen=True)
class Zeroed:
    """A buffer that is set to zero, as a scan's is whose blocks wait for each other."""

    name: str


@dataclass(frozen=True)
class Alias:
    name: str
    view: BufferView


@dataclass(frozen=True)
class Number:
    name: str
    value: ast.expr


@dataclass(frozen=True)
class InductorLaunch:
    kernel: str
    args: tuple[BufferView | ast.expr, ...]


@dataclass(frozen=True)
class OperatorCall:
    """A call of a torch operator such as `aten.mm`, by the name of its overload; buffers among `args` are views."""

    name: str
    operator: str
    overload: str
    args: tuple[tuple[str, BufferView | ast.expr], ...]
    """Keyword, "" for one by position."""


@dataclass(frozen=True)
class ResultItem:
    """One of several results of a call."""

    name: str
    base: str
    at: int


@dataclass
class Wrapper:
    """`inputs`: names, in order. `kernels`: name -> text."""

    inputs: tuple[str, ...] = ()
    kernels: dict[str, str] = field(default_factory=dict)
    steps: list[Buffer | Zeroed | Alias | Number | InductorLaunch | OperatorCall | ResultItem] = field(
        default_factory=list
    )
    returned: tuple[BufferView, ...] = ()

    @property
    def calls(self) -> list[OperatorCall]:
        """The calls of torch operators."""
        return [step for step in self.steps if isinstance(step, OperatorCall)]


def read(code: str, library: Collection[str] | None = None) -> Wrapper:
    """SettingsError, in one sentence, for what the wrapper leaves to operators of torch but those of `library`;
    None: there can be none."""
    module = ast.parse(code)
    made = Wrapper(kernels=dict(_kernels(module)))
    call = next(node for node in ast.walk(module) if isinstance(node, ast.FunctionDef) and node.name == "call")
    for statement in _flat(call.body):
        _read_one(statement, made)
    if foreign := next((call.operator for call in made.calls if call.operator not in (library or ())), None):
        raise unread(foreign, "" if library is None else f"; allow it with `library: [{foreign}]` in task.yaml")
    if made.calls and not any(isinstance(step, InductorLaunch) for step in made.steps):
        raise SettingsError(
            f"torch.compile leaves all to {made.calls[0].operator}, which is library, not a kernel; give a kernel"
        )
    return made


def _flat(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for statement in body:
        if isinstance(statement, ast.With):
            yield from _flat(statement.body)
        else:
            yield statement


def _kernels(module: ast.Module) -> Iterator[tuple[str, str]]:
    for node in module.body:
        made = node.value if isinstance(node, ast.Assign) else None
        if not isinstance(made, ast.Call) or not isinstance(made.func, ast.Attribute) or made.func.attr not in CALLS:
            continue
        text = next(a.value for a in made.args[1:] if isinstance(a, ast.Constant) and isinstance(a.value, str))
        yield _target(node), text


def _target(node: ast.stmt) -> str:
    target = node.targets[0] if isinstance(node, ast.Assign) else None
    return target.id if isinstance(target, ast.Name) else ""


def _read_one(node: ast.stmt, made: Wrapper) -> None:
    match node:
        case (
            ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Name("args"))
            | ast.Assign(targets=[ast.List(elts=names)])
        ):
            made.inputs = tuple(ast.unparse(name) for name in names)
        case ast.Return(value=ast.Tuple(elts=values)):
            made.returned = tuple(_view(value) for value in values)
        case ast.Delete() | ast.Assign(targets=[ast.Subscript()]) | ast.Assert() | ast.Pass():
            pass
        case ast.Assign(value=ast.Call() as call):
            _read_call(_target(node), call, made)
        case ast.Assign(value=ast.Name() as other) if not re.fullmatch(r"s\d+|ks\d+|u\d+|zuf\d+|zf\d+", _target(node)):
            if not other.id.startswith("raw_stream"):
                made.steps.append(Alias(_target(node), BufferView(other.id)))
        case ast.Assign(value=ast.Subscript(ast.Name(base), ast.Constant(int(at)))) if base in {
            call.name for call in made.calls
        }:
            made.steps.append(ResultItem(_target(node), base, at))
        case ast.Assign(value=value):
            made.steps.append(Number(_target(node), value))
        case ast.Expr(value=ast.Call() as call):
            _read_call("", call, made)
        case _:
            raise unread(ast.unparse(node))


def _read_call(name: str, call: ast.Call, made: Wrapper) -> None:
    function = ast.unparse(call.func)
    last = function.rpartition(".")[2]
    if last in IGNORED or function.startswith(("get_raw_stream", "torch.cuda.")):
        return
    if last.startswith("empty_strided_"):
        shape, strides, dtype = call.args[:3]
        made.steps.append(Buffer(name, _items(shape), _items(strides), ast.unparse(dtype).removeprefix("torch.")))
    elif last == "zero_":
        made.steps.append(Zeroed(function.rpartition(".")[0]))
    elif last == "reinterpret_tensor":
        made.steps.append(Alias(name, _view(call)))
    elif function in made.kernels or function.removesuffix(".run") in made.kernels:
        args = tuple(_view(a) if _is_view(a) else a for a in call.args)
        made.steps.append(InductorLaunch(function.removesuffix(".run"), args))
    elif found := re.fullmatch(r"(?:extern_kernels|torch\.ops\.aten)\.(\w+)(?:\.(\w+))?", function):
        words = [*[""] * len(call.args), *(k.arg or "" for k in call.keywords)]
        values = [_view(a) if _is_view(a) else a for a in (*call.args, *(k.value for k in call.keywords))]
        overload = found[2] or ("out" if "out" in words else "default")
        made.steps.append(OperatorCall(name, f"aten.{found[1]}", overload, tuple(zip(words, values, strict=True))))
    else:
        raise unread(function)


def _items(node: ast.expr) -> tuple[ast.expr, ...]:
    return tuple(node.elts) if isinstance(node, (ast.Tuple, ast.List)) else ()


def _is_view(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func).endswith("reinterpret_tensor")


def _view(node: ast.expr) -> BufferView:
    if isinstance(node, ast.Name):
        return BufferView(node.id)
    if isinstance(node, ast.Call) and _is_view(node) and isinstance(node.args[0], (ast.Name, ast.Call)):
        inner = _view(node.args[0])
        if inner.plain:
            return BufferView(inner.base, _items(node.args[1]), node.args[3], _items(node.args[2]))
    raise unread(ast.unparse(node))


def unread(what: str, help: str = "") -> SettingsError:
    """The sentence for what no kernel of Inductor's computes."""
    if re.match(r"if not .*\bu\d+\b", what):
        return SettingsError(
            f"torch.compile finds a size that depends on values ({what[:60]} …), which no kernel of a fixed shape has; "
            f"give a kernel, or a language model as the coder"
        )
    found = re.search(r"(?:extern_kernels\.|aten\.|torch\.ops\.\w+\.|torch\.)_?(\w+?)(?:_out)?(?:\.\w+)*(?:\(|$)", what)
    name = f"torch's {found[1]}" if found else f"`{what[:80]}`"
    instead = "give a kernel, or a language model as the coder"
    return SettingsError(f"torch.compile leaves {name} to a library, which is not lifted{help}; {instead}")
