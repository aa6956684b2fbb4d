"""Reads the user's reference.py: the arguments that it makes, its outputs, and how it is called. Needs torch."""

import functools
import hashlib
import inspect
import linecache
import math
import os
import re
import sys
import traceback
import types
import warnings

import torch

from harness.numerics.unrounded import is_eight_bit_float
from harness.reference import structures

DTYPES = {
    name: getattr(torch, name)
    for name in (
        "float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "int64", "int32", "int16", "int8",
        "uint8", "bool",
    )
}  # fmt: skip
DTYPE_NAMES = {dtype: name for name, dtype in DTYPES.items()}
REFERENCE_FILE = "reference.py"
NO_GPU = "not compiled with CUDA|No CUDA GPUs are available|no NVIDIA driver|Cannot get CUDA generator|CUDA driver"
"""Pattern of torch's messages about a GPU that this process does not have."""
NO_GRADIENT = "does not require grad"
"""Part of torch's messages where a gradient is asked for that was not recorded."""
CORRECTION_HINT = "; correct it there and run again"
"""End of a message about a mistake in reference.py; omitted where the sizes are not the user's own."""
NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
"""Kinds of parameters that take an argument by its name."""
GENERATED = "# ---- the code below makes the problem a task"
"""Beginning of the line after which the reference of a suite's problem holds our code."""


class ContractError(Exception):
    """A mistake in the user's reference: one sentence for the user, and in `log` the traceback where there is one."""

    def __init__(self, sentence: str, log: str = "", wrong: int = 0):
        """`wrong`: the input, from 1, for which a function computed something else than the reference; 0: it did
        not."""
        super().__init__(sentence)
        self.log, self.wrong = log, wrong


class Arg:
    """One argument of one input set: a tensor, or a number."""

    def __init__(self, name: str, value, dtype: str, role: str = ""):
        self.name = name
        self.value = value
        self.dtype = dtype
        self.role = role

    @property
    def is_tensor(self) -> bool:
        return isinstance(self.value, torch.Tensor)

    @property
    def is_read(self) -> bool:
        """Whether it is a tensor whose content the kernel is given."""
        return self.is_tensor and self.role in ("input", "inout")

    @property
    def is_written(self) -> bool:
        """Whether the kernel writes it."""
        return self.role in ("output", "inout")

    def json(self) -> dict:
        """Return name, role, dtype and shape, and the value of a scalar."""
        if self.is_tensor:
            return {"name": self.name, "role": self.role, "dtype": self.dtype, "shape": list(self.value.shape)}
        return {"name": self.name, "role": "scalar", "dtype": self.dtype, "shape": [], "value": self.value}


def computable(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor of 8-bit floating-point numbers in float32, which holds all of them; any other as it is."""
    return tensor.to(torch.float32) if is_eight_bit_float(tensor.dtype) else tensor


def total_bytes(args: list[Arg]) -> int:
    """Return the bytes of all tensors; those that are read and written count twice."""
    return sum(a.value.numel() * a.value.element_size() * (1 + (a.role == "inout")) for a in args if a.is_tensor)


def format_dims(dims: dict) -> str:
    """Return the sizes as text, "M=4 N=8"."""
    return " ".join(
        f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}" for name, value in dims.items()
    )


def first_line(error: BaseException) -> str:
    """Return the type and the first line of an exception's message, at most 300 characters."""
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0] if text else ''}".rstrip(": ")[:300]


def call_or_contract_error(what: str, function, /, *args, **kwargs):
    """Call the user's code; an exception becomes a ContractError whose message begins with `what`."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return function(*args, **kwargs)
    except ContractError:
        raise
    except BaseException as error:
        raise ContractError(_failure_sentence(what, error), traceback.format_exc()) from error


def _failure_sentence(what: str, error: BaseException) -> str:
    """Return the sentence about an exception of the user's code `what`."""
    if isinstance(error, ModuleNotFoundError):
        name = error.name or ""
        package = name.partition(".")[0]
        lack = f"the package {package!r}, which the Python of the jobs ({sys.executable}) lacks; pip install {package}"
        if package in sys.modules:
            lack = f"the module {name!r}, which the copy of {package!r} beside the task lacks; copy its file"
        return f"{what} needs {lack} there"
    out_of_memory = re.search(r"tried to allocate (\d+) bytes|can't allocate memory|not enough memory", str(error))
    if out_of_memory or isinstance(error, MemoryError):
        asked = f" (it asked for {int(out_of_memory[1]):,} bytes)" if out_of_memory and out_of_memory[1] else ""
        return f"{what} does not fit in memory{asked}; make its dims smaller"
    if getattr(error, "is_sentence", False):
        return f"reference.py: {error}"
    # A hint applies to the reference alone; a user cannot correct anything else that is called.
    failed, hint = f"raised {first_line(error)}", CORRECTION_HINT
    if re.search(NO_GPU, str(error)):
        failed = "asks for a GPU, but this process has none"
        hint = "; make inputs on the CPU; the harness moves them to the kernel's device"
    return f"{what} {failed}{_line_suffix(error)}{hint if REFERENCE_FILE in what else ''}"


def _line_suffix(error: BaseException) -> str:
    """Return " (line N)" with the last line of reference.py in the traceback, or an empty text; for a problem of a
    suite, the last one that its authors wrote."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == REFERENCE_FILE]
    text = (linecache.cache.get(REFERENCE_FILE) or (0, 0, []))[2]
    end = next((at for at, line in enumerate(text, 1) if line.startswith(GENERATED)), len(text) + 1)
    lines = [frame.lineno for frame in frames if frame.lineno < end]
    return f" (line {lines[-1]})" if lines else ""


def dict_method_recording_keys(name: str, *, whole: bool):
    """Return dict's method `name`, extended to record the key that it reads, or all keys if `whole`."""
    method = getattr(dict, name)

    def method_with_record(self, *args):
        self.seen.update(dict.keys(self) if whole else args[:1])
        return method(self, *args)

    return method_with_record


class RecordingDims(dict):
    """Dims that record in `seen` which keys were read."""

    def __init__(self, dims: dict):
        super().__init__(dims)
        self.seen: set[str] = set()

    __getitem__, __contains__, get, pop, setdefault = (
        dict_method_recording_keys(name, whole=False)
        for name in ("__getitem__", "__contains__", "get", "pop", "setdefault")
    )
    # Overriding __iter__ makes `**dims` and dict(dims) use these methods.
    __iter__, keys, items, values, copy, __or__, __ror__ = (
        dict_method_recording_keys(name, whole=True)
        for name in ("__iter__", "keys", "items", "values", "copy", "__or__", "__ror__")
    )


def is_same_view(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors, of which either may have no values, are the same elements with equal strides and dtype."""

    def view(tensor: torch.Tensor):
        place = tensor.untyped_storage()._cdata, tensor.storage_offset()
        return place, tensor.shape, tensor.stride(), tensor.dtype

    return view(one) == view(other)


def import_source(text: str, file: str) -> types.ModuleType:
    """Import `text` as a module; errors and tracebacks show lines of `file`."""
    # torch.compile caches modules by name, and one process may serve several references, so each needs its own name.
    module = types.ModuleType(f"{file.removesuffix('.py')}_{hashlib.sha256(text.encode()).hexdigest()[:16]}")
    module.__file__ = file
    sys.modules[module.__name__] = module
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    try:
        code = compile(text, file, "exec")
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        raise ContractError(
            f"{file} does not parse (line {line}: {getattr(error, 'msg', error)})", traceback.format_exc()
        ) from error
    call_or_contract_error(f"importing {file}", exec, code, module.__dict__)
    return module


def interpret_triton() -> list[str]:
    """Let Triton's interpreter, if it is installed, run the kernels that are launched in this process, as there is no
    GPU; they are noted in the list returned."""
    os.environ["TRITON_INTERPRET"] = "1"
    try:
        from harness.numerics import narrow_floats
    except ImportError:
        return []
    narrow_floats.install()
    return narrow_floats.LAUNCHES


def parameters_of(function) -> list[inspect.Parameter]:
    """Return the function's parameters: one for any keywords if they cannot be read."""
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return [inspect.Parameter("unknown", inspect.Parameter.VAR_KEYWORD)]


class Contract:
    """A loaded reference."""

    where = "reference.py: reference(...)"
    """How messages call the function."""
    records_gradients: bool | None = None
    """Whether the function asks for gradients, which are off otherwise; None before its first call."""

    def __init__(self, text: str):
        if re.search(r"^\s*(?:import|from) triton\b", text, re.M) and not torch.cuda.is_available():
            interpret_triton()
        self.module = import_source(text, REFERENCE_FILE)
        self.function = getattr(self.module, "reference", None)
        if not callable(self.function):
            raise ContractError(
                "reference.py has no function `reference`; define reference(**kwargs) that returns or writes "
                "the outputs"
            )
        self.has_make_inputs = callable(getattr(self.module, "make_inputs", None))
        self.takes = self._parameter_names()
        self.mentions_gradients = "grad" in text or "backward" in text
        self.made: dict = {}
        """What make_inputs gave, by name, without the tensors and numbers that are a kernel's arguments."""
        self.fixed: dict[str, object] = {}
        """What the reference is given and no kernel is, by name."""
        self.layout: dict[str, object] | None = None
        """What is neither a tensor nor a number in what make_inputs gave, the same for all input sets; None before the
        first."""
        self.leaves: set[str] = set()
        """Names of the tensors that make_inputs gave with requires_grad."""
        self.strides: dict[str, tuple[int, ...]] = {}
        """Name -> strides of the tensors that make_inputs gave other than contiguous."""
        self.device = "cpu"
        """Device on which the arguments are made, or to which they are moved."""
        self.returns = False
        """Set by the first call: whether the reference returns its outputs, so that the output arguments are not
        read."""
        self.sizes: set[str] = set()
        """Names of the dims that make_inputs has read."""

    def get(self, name: str, default=None):
        """Return the module's attribute `name`, or `default`."""
        return getattr(self.module, name, default)

    def build(self, dims: dict, seed: int, parameters: list[dict], elements: int) -> list[Arg]:
        """Make the arguments of one call in ABI order.

        `parameters` ({name, dtype, pointer}) may be empty if the reference has make_inputs; `elements` is the size of
        pointer buffers without make_inputs (0: from the dims). Raises ContractError.
        """
        args = (
            self._arguments_from_make_inputs(dims, seed)
            if self.has_make_inputs
            else self._arguments_from_signature(dims, seed, parameters, elements)
        )
        if parameters:
            check_signature(args, parameters)
        return args

    def call(self, args: list[Arg]) -> tuple | None:
        """Call the reference with the arguments as they are. Returns its tensors in order, or None when it returns
        nothing."""
        returned = self._call_function(args)
        self.returns = returned is not None
        if returned is None:
            return None
        found = tuple(value for _, value in structures.flatten("", returned) if value is not None)
        for value in found:
            if not isinstance(value, torch.Tensor):
                raise ContractError(
                    f"{self.where} returned {type(value).__name__}; return a tensor or a tuple of tensors"
                )
            unsupported = (
                value.is_nested or value.is_quantized or value.is_complex() or value.layout is not torch.strided
            )
            if unsupported or value.device.type == "meta":
                what = "nested" if value.is_nested else f"{value.layout}"
                raise ContractError(
                    f"{self.where} returned a {what} tensor of {value.dtype} on the device {value.device.type}; return "
                    f"dense ones of real numbers"
                )
        if self.records_gradients:
            found = tuple(value.detach() for value in found)
        outputs = [a for a in args if a.is_written]
        changed = [a for a in outputs if a.role == "inout"]
        in_order = len(found) == len(outputs) and all(
            is_same_view(one, a.value) for one, a in zip(found, outputs, strict=True)
        )
        if in_order or (changed and all(any(is_same_view(one, a.value) for a in outputs) for one in found)):
            # The reference wrote into its outputs and returns these; elements that it did not write are undefined.
            self.returns = False
            return None
        if changed and len(found) == len(outputs) - len(changed):
            rest = iter(found)
            return tuple(a.value if a.role == "inout" else next(rest) for a in outputs)
        return found

    def bind(self, given: dict):
        """Return the function's call with those of these arguments that it takes; where it asks for gradients, each
        call has them on, and new tensors over the given ones, of which `leaves` are leaves."""
        function = self.callee(given)
        if not self.records_gradients:
            return self.fill(function, given)
        parameters = (*function.parameters(),) if isinstance(function, torch.nn.Module) else ()
        return functools.partial(self._call_with_gradients, function, parameters, given)

    def _call_with_gradients(self, function, parameters: tuple, given: dict):
        given = {
            name: one.detach().requires_grad_(name in self.leaves) if isinstance(one, torch.Tensor) else one
            for name, one in given.items()
        }
        for one in parameters:
            one.grad = None
        with torch.enable_grad():
            return self.fill(function, given)()

    def callee(self, given: dict):
        """Return what is called with these arguments."""
        return self.function

    def fill(self, function, given: dict):
        """Return the call of `function` with what it takes, as make_inputs arranges it, and with what is fixed."""
        arranged = self.arrange(given)
        accepted = {name: one for name, one in arranged.items() if self.takes is None or name in self.takes}
        return functools.partial(function, **accepted)

    def arrange(self, values: dict) -> dict:
        """Return the arguments' values by name as make_inputs gives them, with what is fixed."""
        return {name: structures.put_together(name, made, values) for name, made in self.made.items()} or values

    def _call_function(self, args: list[Arg]):
        """Return what the function returns. If its first call asks for gradients, it is made again with gradients on;
        they stay on from then on."""
        contents = {a.name: a.value.clone() for a in args if a.role == "inout" and self.records_gradients is None}
        values = {a.name: a.value for a in args}
        try:
            returned = call_or_contract_error(self.where, self.bind(values))
        except ContractError as error:
            if self.records_gradients is not None or NO_GRADIENT not in str(error):
                raise
            self.records_gradients = True
            for a in args:
                if a.name in contents:
                    a.value.copy_(contents[a.name])
            returned = call_or_contract_error(self.where, self.bind(values))
        self.records_gradients = bool(self.records_gradients)
        return returned

    def check_call(self, args: list[Arg]) -> None:
        """Raise ContractError if the reference requires an argument that does not exist."""
        if missing := self.missing_arguments(args):
            source = (
                "make_inputs does not make it" if self.has_make_inputs else "the kernel has no parameter of that name"
            )
            raise ContractError(
                f"reference.py: reference(...) needs the argument {missing[0]!r}, but {source}; use one name for both"
            )

    def missing_arguments(self, args: list[Arg]) -> list[str]:
        """Return the function's required parameters that are not among these arguments."""
        names = {a.name for a in args} | set(self.made)
        required = [p.name for p in parameters_of(self.function) if p.default is p.empty and p.kind in NAMED]
        return [name for name in required if name not in names]

    def _parameter_names(self) -> set[str] | None:
        """Return the names of the function's parameters; None if it accepts any keyword, or its signature cannot be
        read."""
        parameters = parameters_of(self.function)
        return None if any(p.kind is p.VAR_KEYWORD for p in parameters) else {p.name for p in parameters}

    def _arguments_from_make_inputs(self, dims: dict, seed: int) -> list[Arg]:
        """Make the arguments by the reference's make_inputs(dims, seed)."""
        # Making tensors on the device is quicker than moving them.
        takes_device = any(p.name == "device" for p in parameters_of(self.module.make_inputs))
        device_option = {"device": self.device} if self.device != "cpu" and takes_device else {}
        recorded = RecordingDims(dims)
        try:
            made = call_or_contract_error(
                f"reference.py: make_inputs({format_dims(dims)})",
                self.module.make_inputs,
                recorded,
                seed,
                **device_option,
            )
        finally:
            # Also after a failure: `probe` distinguishes a missing dim from any other missing key.
            self.sizes |= recorded.seen
        if not isinstance(made, dict) or not made:
            raise ContractError(
                "reference.py: make_inputs must return a dict of every argument by name, in the kernel's order"
            )
        self.leaves.clear()
        self.strides.clear()
        args = []
        fixed: dict[str, object] = {}
        for name, value in (leaf for top, whole in made.items() for leaf in structures.flatten(top, whole)):
            if name in fixed or name in {a.name for a in args}:
                raise ContractError(f"reference.py: make_inputs gives two values the name {name!r}; rename one")
            if isinstance(value, structures.FIXED):
                fixed[name] = value
                continue
            if isinstance(value, torch.Tensor):
                if value.dtype not in DTYPE_NAMES:
                    raise ContractError(
                        f"reference.py: make_inputs gave {name!r} the dtype {value.dtype}; use one of "
                        f"{', '.join(DTYPES)}"
                    )
                if value.requires_grad:
                    self.leaves.add(name)
                if not value.is_contiguous():
                    self.strides[name] = value.stride()
                args.append(Arg(name, value.detach().to(self.device).contiguous(), DTYPE_NAMES[value.dtype]))
            elif isinstance(value, (bool, int, float)):
                kind = "bool" if isinstance(value, bool) else "float32" if isinstance(value, float) else "int32"
                args.append(Arg(name, value, "int64" if kind == "int32" and not -(2**31) <= value < 2**31 else kind))
            else:
                raise ContractError(
                    f"reference.py: make_inputs gave {name!r} a {type(value).__name__}; use a tensor, int, float or "
                    f"bool, lists, dicts or dataclasses of these, and None, a str or a torch.dtype for what is fixed"
                )
        layout = {name: one for name, value in made.items() if (one := structures.layout(value)) != ()}
        if self.layout not in (None, layout):
            raise ContractError(
                f"reference.py: make_inputs gives other fixed values at {format_dims(dims)} ({fixed}, not "
                f"{self.fixed}), or other structures; no kernel is given them, so they must stay the same: make a "
                f"number of what changes"
            )
        self.layout, self.fixed = layout, fixed
        if list(made) != [a.name for a in args]:
            nothing = dict.fromkeys(a.name for a in args)
            self.made = {name: structures.put_together(name, value, nothing) for name, value in made.items()}
        return args

    def _arguments_from_signature(self, dims: dict, seed: int, parameters: list[dict], elements: int) -> list[Arg]:
        """Make random buffers for the pointers of the kernel's signature, and its scalars from the dims."""
        if not parameters:
            raise ContractError(
                "reference.py has no make_inputs(dims, seed); define it, or give a kernel whose signature can be read"
            )
        # The same rule as `tools.contracts.dims.pointer_elements`: the product of the two largest integer dims.
        count = elements or math.prod(sorted(v for v in dims.values() if isinstance(v, int))[-2:])
        generator = torch.Generator().manual_seed(seed)
        args = []
        for p in parameters:
            if p["pointer"]:
                buffer = call_or_contract_error(
                    f"the buffer {p['name']}", random_tensor, count, DTYPES[p["dtype"]], generator
                )
                args.append(Arg(p["name"], buffer.to(self.device), p["dtype"]))
            else:
                value = dims[p["name"]]
                args.append(Arg(p["name"], bool(value) if p["dtype"] == "bool" else value, p["dtype"]))
        return args


def random_tensor(count: int, dtype: torch.dtype, generator: torch.Generator) -> torch.Tensor:
    """Return `count` random elements: normal values, booleans, or integers from 0 to 15."""
    if dtype.is_floating_point:
        wide = torch.float64 if dtype is torch.float64 else torch.float32
        return torch.randn(count, generator=generator, dtype=wide).to(dtype)
    if dtype is torch.bool:
        return torch.randint(0, 2, (count,), generator=generator).to(dtype)
    return torch.randint(0, 16, (count,), generator=generator, dtype=torch.int64).to(dtype)


def check_signature(args: list[Arg], parameters: list[dict]) -> None:
    """Raise ContractError unless the arguments match the kernel's parameters; cast scalars to the kernel's C types."""
    given = [(a.name, a.dtype if a.is_tensor else "a scalar") for a in args]
    expected = [(p["name"], p["dtype"] if p["pointer"] else "a scalar") for p in parameters]
    if given != expected:
        lists = (", ".join(f"{name}: {what}" for name, what in listed) for listed in (given, expected))
        raise ContractError(
            "reference.py: make_inputs gives ({}), the kernel takes ({}); make them the same at all sizes".format(
                *lists
            )
        )
    for arg, parameter in zip(args, parameters, strict=True):
        if not arg.is_tensor:
            arg.dtype = parameter["dtype"]
            cast = bool if arg.dtype == "bool" else int if arg.dtype.startswith("int") else float
            arg.value = cast(arg.value)
