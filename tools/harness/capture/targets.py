"""What is observed: a function, a module's or an autograd function's `forward`, a Triton kernel, or an operator."""

import contextlib
import inspect
import types

from harness.capture import values

_TRAMPOLINE = """
def factory({cells}):
    def trampoline(*args, **kwargs):
        [{cells}]
        from {module} import record_call
        return record_call({key}, args, kwargs)
    return trampoline
"""
_by_key: dict = {}
"""Key of a trampoline -> the target, the function as it was, and the recorder."""


def record_call(key, args, kwargs):
    """Called by every trampoline."""
    target, original, recorder = _by_key[key]
    torch = values.torch_module()
    if (torch is not None and torch.compiler.is_compiling()) or not target.concerns(args):
        return original(*args, **kwargs)
    return recorder.call(target, original, args, kwargs)


def replace_code(function, target, recorder) -> None:
    """Let a function record its calls, whoever holds a reference to it: its code is exchanged, the object stays."""
    code = function.__code__
    original = types.FunctionType(
        code, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    original.__kwdefaults__ = function.__kwdefaults__
    key = len(_by_key)
    _by_key[key] = (target, original, recorder)
    scope: dict = {}
    text = _TRAMPOLINE.format(cells=", ".join(code.co_freevars), module=__name__, key=key)
    exec(compile(text, code.co_filename, "exec"), scope)
    function.__signature__ = inspect.signature(original)
    stand_in = scope["factory"](*[None] * len(code.co_freevars)).__code__
    # `inspect.getsource` goes by the first line.
    function.__code__ = stand_in.replace(co_name=code.co_name, co_firstlineno=code.co_firstlineno)
    function.__kwdefaults__ = None


class Target:
    """What is observed; `skipped` parameters at the front are not arguments of a task.

    Without a signature, as of an extension's function, the first call says how many parameters there are.
    """

    def __init__(self, form: str, signature=None, skipped: int = 0):
        self.form, self.signature, self.skipped = form, signature, skipped

    def concerns(self, args) -> bool:
        """Whether a call is the target's own."""
        return True

    def arguments(self, args, kwargs):
        """Return the arguments of a call by name, defaults included, and further fields of its record."""
        if self.signature is None:
            places = [inspect.Parameter(f"arg{at}", inspect.Parameter.POSITIONAL_ONLY) for at in range(len(args))]
            named = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in kwargs]
            self.signature = inspect.Signature(places + named)
        bound = self.signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return dict(list(bound.arguments.items())[self.skipped :]), {}

    def line(self) -> dict:
        """Return what the record says of the target."""
        parameters = list(self.signature.parameters.values())[self.skipped :] if self.signature else ()
        return {"form": self.form, "parameters": {p.name: p.kind.name for p in parameters}}


class ModuleTarget(Target):
    """The `forward` of a class that is a torch.nn.Module."""

    def __init__(self, kind, function):
        super().__init__("module", inspect.signature(function), 1)
        self.kind = kind
        self.made: dict = {}
        """Object id -> the arguments with which it was made."""
        constructor = kind.__init__
        if isinstance(constructor, types.FunctionType):
            replace_code(constructor, self, types.SimpleNamespace(call=self.note_constructor))

    def concerns(self, args) -> bool:
        """Whether the object is of the class: `forward` may be inherited by others."""
        return bool(args) and isinstance(args[0], self.kind)

    def note_constructor(self, _, original, args, kwargs):
        """Make an object, and note with which arguments."""
        named = inspect.signature(original).bind(*args, **kwargs).arguments
        self.made[id(args[0])] = {name: values.describe(one, []) for name, one in list(named.items())[1:]}
        return original(*args, **kwargs)

    def arguments(self, args, kwargs):
        """Return the arguments, and under `self.NAME` parameters and buffers of the object."""
        named, owner = super().arguments(args, kwargs)[0], args[0]
        state = {**dict(owner.named_parameters()), **dict(owner.named_buffers())}
        named |= {f"self.{name}": value for name, value in state.items()}
        return named, {"made": self.made.get(id(owner)), "training": owner.training}


class TritonTarget(Target):
    """A kernel under @triton.jit, on a device or in Triton's interpreter."""

    def arguments(self, args, kwargs):
        """Return the kernel's arguments, and grid, constexprs and options of the launch."""
        names = self.signature.parameters
        named, _ = super().arguments(args, {k: v for k, v in kwargs.items() if k in names})
        constexprs = [name for name, p in names.items() if "constexpr" in str(p.annotation)]
        grid, options = kwargs["grid"], {k: v for k, v in kwargs.items() if k not in names}
        grid = grid(named) if callable(grid) else grid
        return named, {
            "grid": [int(extent) for extent in (grid if isinstance(grid, (tuple, list)) else (grid,))],
            "options": {k: v for k, v in options.items() if isinstance(v, (int, float)) and k != "warmup"},
            "constexprs": constexprs,
        }


def operator_signature(overload) -> inspect.Signature:
    """Return the parameters of an operator by its schema."""
    return inspect.Signature(
        inspect.Parameter(
            one.name,
            inspect.Parameter.KEYWORD_ONLY if one.kwarg_only else inspect.Parameter.POSITIONAL_OR_KEYWORD,
            default=one.default_value if one.has_default_value() else inspect.Parameter.empty,
        )
        for one in overload._schema.arguments
    )


class OperatorTarget(Target):
    """An operator of torch, such as aten._softmax, with all its overloads."""

    def __init__(self, name: str):
        super().__init__("operator")
        self.overload = None
        self.wanted = name.split(":", 1)[-1].replace("::", ".").split(".")[:2]

    def matches(self, overload) -> bool:
        """Whether an operator that torch calls is the target; its parameters are then those of the overload."""
        if overload is not self.overload and overload._schema.name.split("::") == self.wanted:
            self.overload, self.signature = overload, operator_signature(overload)
        return overload is self.overload

    def arguments(self, args, kwargs):
        """Return the arguments by the names of the operator's schema, and the overload that was called."""
        return super().arguments(args, kwargs)[0], {"overload": str(self.overload)}


def wrap_target(value, recorder):
    """Let the object `value` record its calls; return the object that must take its place, usually itself.

    Raises TypeError with a clause for what cannot be observed.
    """
    function = jitted = value
    while type(jitted).__module__.startswith("triton.") and not type(jitted).__name__.endswith("Function"):
        jitted = jitted.fn
    if type(jitted).__module__.startswith("triton."):
        target = recorder.kernels[id(jitted)] = TritonTarget("triton", inspect.signature(jitted.fn))
    elif isinstance(value, type):
        torch, function = values.torch_module(), getattr(value, "forward", None)
        if not isinstance(function, types.FunctionType):
            raise TypeError("the class has no `forward` in Python")
        if torch is not None and issubclass(value, torch.autograd.Function):
            skipped = int(value.setup_context is torch.autograd.Function.setup_context)
            target = Target("autograd", inspect.signature(function), skipped)
        else:
            target = ModuleTarget(value, function)
    elif not callable(value):
        raise TypeError(f"it is a {type(value).__name__}, which nobody can call")
    elif inspect.isgeneratorfunction(value) or inspect.iscoroutinefunction(value):
        raise TypeError("it is a generator or a coroutine, whose call is not its work")
    else:
        # What torch.library.custom_op and triton_op return is an operator.
        overload, signature = getattr(value, "_opoverload", None), None
        with contextlib.suppress(ValueError):
            signature = operator_signature(overload) if overload else inspect.signature(value)
        target = Target("function", signature)
    recorder.described = target
    if isinstance(function, types.FunctionType):
        replace_code(function, target, recorder)
    if isinstance(function, types.FunctionType) or target.form == "triton":
        return value
    return lambda *args, **kwargs: recorder.call(target, value, args, kwargs)
