"""What is observed: a function, a module's or an autograd function's `forward`, a Triton kernel, or an operator."""

import inspect
import sys
import types
from pathlib import Path

from harness.capture import values

_TRAMPOLINE = """
def factory({cells}):
    def trampoline(*args, **kwargs):
        {cells}
        from {module} import record_call
        return record_call({key}, args, kwargs)
    return trampoline
"""
_by_key: dict = {}
"""Key of a trampoline -> the target, the function as it was, and the recorder."""
trampolines: set = set()
"""Ids of the codes that stand in for functions."""


def record_call(key, args, kwargs):
    """Called by every trampoline."""
    target, original, recorder = _by_key[key]
    torch = values.torch_module()
    compiles = torch is not None and hasattr(torch, "compiler") and torch.compiler.is_compiling()
    if compiles or not target.concerns(args):
        return original(*args, **kwargs)
    return recorder.call(target, original, args, kwargs)


def replace_code(function, target, recorder) -> None:
    """Let a function record its calls, whoever holds a reference to it: its code is exchanged, the object stays."""
    original = types.FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    original.__kwdefaults__, original.__qualname__ = function.__kwdefaults__, function.__qualname__
    original.__module__, original.__doc__ = function.__module__, function.__doc__
    key = len(_by_key)
    _by_key[key] = (target, original, recorder)
    cells = ", ".join(function.__code__.co_freevars)
    text = _TRAMPOLINE.format(cells=cells or "", module=__name__, key=key)
    text = text if cells else text.replace("        \n", "")
    scope: dict = {}
    exec(compile(text, function.__code__.co_filename, "exec"), scope)
    code = scope["factory"](*[None] * len(function.__code__.co_freevars)).__code__
    function.__signature__ = inspect.signature(original)
    # `inspect.getsource` goes by the first line.
    function.__code__ = code.replace(co_name=function.__code__.co_name, co_firstlineno=function.__code__.co_firstlineno)
    trampolines.add(id(function.__code__))
    function.__kwdefaults__ = None


class FunctionTarget:
    """A plain function; also the base of the other targets."""

    form = "function"

    def __init__(self, name: str, function):
        self.name, self.function = name, function
        self.signature = inspect.signature(function)

    def concerns(self, args) -> bool:
        """Whether a call is the target's own."""
        return True

    def arguments(self, args, kwargs):
        """Return the arguments of a call by name, defaults included."""
        bound = self.signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return dict(bound.arguments)

    def extras(self, named: dict) -> dict:
        """Return further fields of a full record."""
        return {}

    def line(self) -> dict:
        """Return what the file says of the target once."""
        function = inspect.unwrap(self.function)
        file = getattr(sys.modules.get(getattr(function, "__module__", "")), "__file__", None)
        parameters = [
            {"name": p.name, "kind": p.kind.name, "default": None if p.default is p.empty else repr(p.default)}
            for p in self.signature.parameters.values()
        ]
        return {
            "kind": "target",
            "form": self.form,
            "name": self.name,
            "file": str(Path(file).resolve()) if file else "",
            "parameters": parameters,
        }


class ModuleTarget(FunctionTarget):
    """The `forward` of a class that is a torch.nn.Module, or `__call__` of another class."""

    form = "module"

    def __init__(self, name: str, kind, function):
        super().__init__(name, function)
        self.kind = kind
        self.made: dict = {}
        """Object id -> the arguments with which it was made."""

    def concerns(self, args) -> bool:
        """Whether the object is of the class: `forward` may be inherited by others."""
        return bool(args) and isinstance(args[0], self.kind)

    def arguments(self, args, kwargs):
        """Return the arguments, and under `self.NAME` parameters, buffers and numbers of the object."""
        named = super().arguments(args, kwargs)
        owner = named.pop(next(iter(self.signature.parameters)))
        state: dict = {}
        if hasattr(owner, "named_parameters"):
            state = {**dict(owner.named_parameters()), **dict(owner.named_buffers())}
        state.update((k, v) for k, v in vars(owner).items() if isinstance(v, (int, float)) and not k.startswith("_"))
        self.owner = owner
        return {**named, **{f"self.{name}": value for name, value in state.items()}}

    def extras(self, named: dict) -> dict:
        """Return the arguments of the constructor, where all can be written down."""
        made = self.made.get(id(self.owner))
        return {"made": made} if made is not None else {}

    def watch_constructor(self) -> None:
        """Note the arguments with which objects of the class are made."""
        constructor = self.kind.__init__
        if not isinstance(constructor, types.FunctionType):
            return
        signature = inspect.signature(constructor)
        made = self.made

        def call(_, original, args, kwargs):
            result = original(*args, **kwargs)
            named = signature.bind(*args, **kwargs).arguments
            owner = named.pop(next(iter(signature.parameters)))
            tensors: list = []
            made[id(owner)] = {name: values.describe(value, tensors) for name, value in named.items()}
            return result

        always = types.SimpleNamespace(concerns=lambda args: True)
        replace_code(constructor, always, types.SimpleNamespace(call=call))


class AutogradTarget(FunctionTarget):
    """The `forward` of a torch.autograd.Function, without its context."""

    form = "autograd"

    def __init__(self, name: str, kind, function):
        super().__init__(name, function)
        torch = values.torch_module()
        separate = getattr(kind, "setup_context", None) is not torch.autograd.Function.setup_context
        self.skipped = 0 if separate else 1

    def arguments(self, args, kwargs):
        """Return the arguments after the context."""
        return dict(list(super().arguments(args, kwargs).items())[self.skipped :])

    def line(self) -> dict:
        """As of a function, without the context."""
        line = super().line()
        line["parameters"] = line["parameters"][self.skipped :]
        return line


class TritonTarget(FunctionTarget):
    """A kernel under @triton.jit, on a device or in Triton's interpreter."""

    form = "triton"

    def __init__(self, name: str, jitted, function):
        super().__init__(name, function)
        self.jitted = jitted
        self.constexprs = [
            p.name for p in self.signature.parameters.values() if "constexpr" in str(getattr(p, "annotation", ""))
        ]

    def arguments(self, args, kwargs):
        """Return the kernel's arguments; grid and options of the launch are kept for `extras`."""
        names = self.signature.parameters
        launch = {name: value for name, value in kwargs.items() if name not in names}
        bound = self.signature.bind(*args, **{k: v for k, v in kwargs.items() if k in names})
        bound.apply_defaults()
        named = dict(bound.arguments)
        grid = launch.pop("grid")
        grid = grid(named) if callable(grid) else grid
        self.launch = {
            "grid": [int(extent) for extent in (grid if isinstance(grid, (tuple, list)) else (grid,))],
            "options": {k: v for k, v in launch.items() if isinstance(v, (bool, int, float)) and k != "warmup"},
        }
        return named

    def extras(self, named: dict) -> dict:
        """Return grid, constexprs and options of the launch."""
        return {**self.launch, "constexprs": self.constexprs}


class OperatorTarget:
    """An operator of torch, such as aten._softmax, with all its overloads."""

    form = "operator"

    def __init__(self, name: str):
        self.name, self.overload = name, None
        self.wanted = name.split(":", 1)[-1].replace("::", ".").split(".")[:2]

    def matches(self, overload) -> bool:
        """Whether an operator that torch calls is the target."""
        namespace, _, name = overload._schema.name.partition("::")
        return [namespace, name] == self.wanted

    def arguments(self, args, kwargs):
        """Return the arguments by the names of the operator's schema, defaults included."""
        schema = self.overload._schema.arguments
        given = {one.name: value for one, value in zip(schema, args)}  # noqa: B905
        defaults = {one.name: one.default_value for one in schema if one.has_default_value()}
        return {**given, **{k: v for k, v in {**defaults, **kwargs}.items() if k not in given}}

    def extras(self, named: dict) -> dict:
        """Return the overload that was called."""
        return {"overload": str(self.overload)}

    def line(self) -> dict:
        """Return what the file says of the target once."""
        parameters = [
            {"name": p.name, "kind": "KEYWORD_ONLY" if p.kwarg_only else "POSITIONAL_OR_KEYWORD", "default": None}
            for p in self.overload._schema.arguments
        ]
        return {"kind": "target", "form": self.form, "name": self.name, "file": "", "parameters": parameters}


def wrap_target(name: str, value, recorder):
    """Let the object `value` record its calls; return the object that must take its place, usually itself.

    Raises TypeError with a clause for what cannot be observed.
    """
    if isinstance(value, type):
        torch = values.torch_module()
        autograd = torch is not None and issubclass(value, torch.autograd.Function)
        method = "forward" if autograd or hasattr(value, "forward") else "__call__"
        function = getattr(value, method, None)
        if not isinstance(function, types.FunctionType):
            raise TypeError(f"the class has no {method} in Python")
        target = (AutogradTarget if autograd else ModuleTarget)(name, value, function)
        recorder.described = target.line()
        replace_code(function, target, recorder)
        if not autograd:
            target.watch_constructor()
        return value
    jitted = value
    while type(jitted).__module__.startswith("triton.") and not hasattr(jitted, "rewrite"):
        if type(jitted).__name__ == "JITFunction":
            break
        jitted = jitted.fn
    if type(jitted).__module__.startswith("triton."):
        target = TritonTarget(name, jitted, jitted.fn)
        recorder.described = target.line()
        recorder.kernels[id(jitted)] = target
        return value
    if isinstance(value, types.FunctionType):
        if inspect.isgeneratorfunction(value) or inspect.iscoroutinefunction(value):
            raise TypeError("it is a generator or a coroutine, whose call is not its work")
        target = FunctionTarget(name, value)
        recorder.described = target.line()
        replace_code(value, target, recorder)
        return value
    if not callable(value):
        raise TypeError(f"it is a {type(value).__name__}, which nobody can call")
    try:
        target = FunctionTarget(name, value)
    except ValueError as error:
        raise TypeError("it has no signature in Python; for an operator of torch, name aten.NAME") from error
    recorder.described = target.line()
    return lambda *args, **kwargs: recorder.call(target, value, args, kwargs)
