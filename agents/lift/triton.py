"""Inductor's Triton kernels and its wrapper as one module with our contract."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

from agents.lift.binding import Binding
from agents.lift.wrapper import (
    Alias,
    Buffer,
    BufferView,
    InductorLaunch,
    Number,
    OperatorCall,
    ResultItem,
    Zeroed,
    read,
)
from tools.artifacts import Argument
from tools.errors import SettingsError
from tools.executors.protocol import GeneratedCode, InductorResult, TritonLaunch

HEAD = '''"""Lifted from what torch.compile (Inductor) makes of reference.py."""

import torch
import triton
import triton.language as tl
'''
COPY = """@triton.jit
def lifted_copy(source, target, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(target + at, tl.load(source + at, at < count), at < count)"""
ZERO = """@triton.jit
def lifted_zero(target, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(target + at, 0, at < count)"""
TORCH_NAME_REPLACEMENTS = (
    (r"\btriton_helpers\.", ""),
    (r"\btl_math\.", "tl.math."),
    (r"(?<![\w.])math\.(?=exp|log|abs|sqrt|cos|sin)", "tl.math."),
    (r"\btl\.core\.(?!get_int_dtype)", "tl."),
)


def lift_triton(arguments: Sequence[Argument], found: InductorResult, library: Sequence[str]) -> str:
    """The module's text, which calls torch's operators of `library` at most. SettingsError, in one sentence, for
    what cannot be lifted."""
    functions: dict[str, str] = {}
    bodies, branches = [], []
    names = ", ".join(a.name for a in arguments)
    for number, variant in enumerate(found.variants):
        body = _variant(arguments, found, variant, functions, library)
        bodies.append(f"def variant_{number}({names}):\n{body}")
        condition = " and ".join(f"({c})" for c in variant.conditions)
        call = f"return variant_{number}({names})\n"
        branches.append(f"    if {condition}:\n        {call}" if condition else f"    {call}")
    code = "\n\n\n".join([*functions.values(), *bodies, f"def run_kernel({names}):\n{''.join(branches)}"])
    libraries = "from triton.language.extra import libdevice\n" if "libdevice." in code else ""
    return f"{HEAD}{libraries}\n\n{code}"


def _variant(
    arguments: Sequence[Argument],
    found: InductorResult,
    variant: GeneratedCode,
    functions: dict[str, str],
    library: Sequence[str],
) -> str:
    wrapper = read(variant.code, library)
    # A kernel takes a view for its address; an operator of torch wants its shape.
    shaped = bool(wrapper.calls)
    bound = Binding(arguments, found, variant, wrapper)
    for name, text in variant.helpers.items():
        functions.setdefault(name, _function(text))
    kernels = {name: _register_kernel(name, text, functions) for name, text in wrapper.kernels.items()}
    device = next(a.name for a in arguments if a.role != "scalar")
    lines = [f"{name} = {text}" for name, text in bound.given.items() if name != text]
    for step in wrapper.steps:
        match step:
            case Number(name, value):
                lines.append(f"{name} = {bound.number(value)}")
            case Alias(name, view):
                lines.append(f"{name} = {_viewed(view, shaped)}")
            case Buffer(name, shape, strides) if name in bound.outputs:
                whole = f".as_strided({_tuple_text(shape)}, {_tuple_text(strides)})" if shaped else ""
                lines.append(f"{name} = {bound.outputs[name]}{whole}")
            case Zeroed(name):
                functions.setdefault("lifted_zero", ZERO)
                lines.append(f"lifted_zero[(triton.cdiv({name}.numel(), 1024),)]({name}, {name}.numel(), BLOCK=1024)")
            case OperatorCall() | ResultItem():
                lines.append(_call_text(step))
            case Buffer(name, shape, strides, dtype):
                lines.append(
                    f"{name} = torch.empty_strided({_tuple_text(shape)}, {_tuple_text(strides)}, dtype=torch.{dtype}, "
                    f"device={device}.device)"
                )
            case InductorLaunch(kernel, args):
                launch = variant.launches.get(kernel)
                if launch is None:
                    raise SettingsError(
                        f"torch.compile's kernel {kernel} was not seen to run, so that its settings are not known; "
                        f"give a kernel"
                    )
                texts = [_viewed(a) if isinstance(a, BufferView) else bound.number(a) for a in args]
                lines.append(_launched(kernels[kernel], functions[kernels[kernel]], launch, texts))
    for copy in bound.copies:
        functions.setdefault("lifted_copy", COPY)
        lines.append(
            f"lifted_copy[(triton.cdiv({copy.size}, 1024),)]({_viewed(copy.view)}, {copy.output}, {copy.size}, "
            f"BLOCK=1024)"
        )
    return "".join(f"    {line}\n" for line in lines) or "    pass\n"


def _function(text: str) -> str:
    """A Triton function without decorators of Inductor's and words of its modules."""
    tree = ast.parse(text[text.index("def ") :]).body[0]
    assert isinstance(tree, ast.FunctionDef)
    if ast.get_docstring(tree) is not None:
        tree.body = tree.body[1:]
    return f"@triton.jit\n{_replace_torch_names(ast.unparse(tree))}"


def _replace_torch_names(text: str) -> str:
    for pattern, instead in TORCH_NAME_REPLACEMENTS:
        text = re.sub(pattern, instead, text)
    return text


def _register_kernel(name: str, text: str, functions: dict[str, str]) -> str:
    """The name under which a kernel stands in the module; a text that stands there already is not written again."""
    # What a scan combines by is a function of its own before the kernel.
    *combining, last = (part.partition("\n@")[0].strip() for part in text.split("@triton.jit\n")[1:])
    body = _replace_torch_names(last)
    for function in combining:
        made = f"@triton.jit\n{_replace_torch_names(function)}"
        called = given = function[len("def ") : function.index("(")]
        while (own := made.replace(f"def {called}(", f"def {given}(", 1)) != functions.setdefault(given, own):
            given += "_"
        body = re.sub(rf"\b{called}\b", given, body)
    plain = re.sub(rf"\bdef {name}\(", "def KERNEL(", f"@triton.jit\n{body}", count=1)
    for known, other in functions.items():
        if other.replace(f"def {known}(", "def KERNEL(", 1) == plain:
            return known
    chosen = (
        name if name not in functions else next(f"{name}_{n}" for n in range(1, 99) if f"{name}_{n}" not in functions)
    )
    functions[chosen] = plain.replace("def KERNEL(", f"def {chosen}(", 1)
    return chosen


def _launched(kernel: str, function: str, launch: TritonLaunch, texts: Sequence[str]) -> str:
    head = ast.parse(function).body[0]
    assert isinstance(head, ast.FunctionDef)
    own = [a.arg for a in head.args.args if a.annotation is None]
    given = dict(zip([*own, *launch.extra], texts, strict=True))
    config = {k: repr(v) for k, v in launch.config.items() if k not in given}
    grid = [
        _readable(re.sub(r"\b[A-Za-z_]\w*\b", lambda word: {**given, **config}.get(word[0], word[0]), text))
        for text in launch.grid
    ]
    while len(grid) > 1 and grid[-1] == "1":
        grid.pop()
    taken = [f"{name}={text}" for name, text in {**given, **config}.items() if name not in launch.extra]
    return f"{kernel}[({', '.join(grid)},)]({', '.join(taken)})"


def _readable(text: str) -> str:
    return re.sub(r"^-\(\((.+)\) // -\((\w+)\)\)$", r"triton.cdiv(\1, \2)", text)


def _call_text(call: OperatorCall | ResultItem) -> str:
    if isinstance(call, ResultItem):
        return f"{call.name} = {call.base}[{call.at}]"
    args = [(word, _viewed(a, True) if isinstance(a, BufferView) else ast.unparse(a)) for word, a in call.args]
    given = ", ".join(f"{word}={text}" if word else text for word, text in args)
    overload = "" if call.overload == "default" else f".{call.overload}"
    return f"{f'{call.name} = ' if call.name else ''}torch.ops.{call.operator}{overload}({given})"


def _viewed(view: BufferView, shaped: bool = False) -> str:
    if shaped and view.offset is not None:
        start = "" if view.plain else f", {view.base}.storage_offset() + {ast.unparse(view.offset)}"
        return f"{view.base}.as_strided({_tuple_text(view.shape)}, {_tuple_text(view.strides)}{start})"
    if view.plain or view.offset is None:
        return view.base
    return f"{view.base}.as_strided((1,), (1,), {view.base}.storage_offset() + {ast.unparse(view.offset)})"


def _tuple_text(items: Sequence[ast.expr]) -> str:
    return f"({', '.join(map(ast.unparse, items))}{',' if len(items) == 1 else ''})"
