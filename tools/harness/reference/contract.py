"""Reads the user's reference.py: what arguments it makes, what it calls outputs, and how it is called. Needs torch."""

import hashlib
import inspect
import linecache
import math
import re
import sys
import traceback
import types
import warnings

import torch

DTYPES = {
    name: getattr(torch, name)
    for name in ("float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool")
}
DTYPE_NAMES = {dtype: name for name, dtype in DTYPES.items()}
REFERENCE_FILE = "reference.py"
NO_GPU = "not compiled with CUDA|No CUDA GPUs are available|no NVIDIA driver|Cannot get CUDA generator|CUDA driver"
"""In torch's words for a GPU that this process does not have."""
CORRECTION_HINT = "; mend it there and run again"
"""Ends a sentence about the reference where it is at fault: not at sizes that are not the user's own."""


class ContractError(Exception):
    """One sentence for the user, and the traceback where there is one."""

    def __init__(self, sentence: str, log: str = ""):
        super().__init__(sentence)
        self.log = log


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

    def json(self) -> dict:
        if self.is_tensor:
            return {"name": self.name, "role": self.role, "dtype": self.dtype, "shape": list(self.value.shape)}
        return {"name": self.name, "role": "scalar", "dtype": self.dtype, "shape": [], "value": self.value}


def total_bytes(args: list[Arg]) -> int:
    return sum(a.value.numel() * a.value.element_size() for a in args if a.is_tensor)


def format_dims(dims: dict) -> str:
    return " ".join(
        f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}" for name, value in dims.items()
    )


def first_line(error: BaseException) -> str:
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0] if text else ''}".rstrip(": ")[:300]


def call_or_contract_error(what: str, function, *args, **kwargs):
    """Call the user's code; anything it raises becomes a sentence that begins with `what`."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return function(*args, **kwargs)
    except ContractError:
        raise
    except MemoryError as error:
        raise ContractError(f"{what} does not fit in memory; make its dims smaller", traceback.format_exc()) from error
    except BaseException as error:
        asked = re.search(r"tried to allocate (\d+) bytes|can't allocate memory|not enough memory", str(error))
        if asked:
            amount = f" (it asked for {int(asked[1]):,} bytes)" if asked[1] else ""
            raise ContractError(
                f"{what} does not fit in memory{amount}; make its dims smaller", traceback.format_exc()
            ) from error
        if re.search(NO_GPU, str(error)):
            remedy = "make inputs on the CPU, they are moved to where the kernel needs them"
            raise ContractError(
                f"{what} asks for a GPU, which is not there{_line(error)}; {remedy}", traceback.format_exc()
            ) from error
        # What else is guarded is no file that a person could mend.
        remedy = CORRECTION_HINT if REFERENCE_FILE in what else ""
        raise ContractError(
            f"{what} raised {first_line(error)}{_line(error)}{remedy}", traceback.format_exc()
        ) from error


def _line(error: BaseException) -> str:
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == REFERENCE_FILE]
    return f" (line {lines[-1]})" if lines else ""


def recording_method(name: str, *, whole: bool):
    """dict's method `name`, which notes the key that it looks at, or all of them."""
    method = getattr(dict, name)

    def noted(self, *args):
        self.seen.update(dict.keys(self) if whole else args[:1])
        return method(self, *args)

    return noted


class RecordingDims(dict):
    """Dims that know which of them were looked at."""

    def __init__(self, dims: dict):
        super().__init__(dims)
        self.seen: set[str] = set()

    __getitem__, __contains__, get, pop, setdefault = (
        recording_method(name, whole=False) for name in ("__getitem__", "__contains__", "get", "pop", "setdefault")
    )
    # An __iter__ of its own keeps `**dims` and dict(dims) from going past these.
    __iter__, keys, items, values, copy, __or__, __ror__ = (
        recording_method(name, whole=True)
        for name in ("__iter__", "keys", "items", "values", "copy", "__or__", "__ror__")
    )


def is_same_view(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether the two are the same place in memory, seen in the same way."""
    return one.data_ptr() == other.data_ptr() and (one.shape, one.stride(), one.dtype) == (
        other.shape,
        other.stride(),
        other.dtype,
    )


def import_source(text: str, file: str) -> types.ModuleType:
    """The module that `text` is; lines are told as those of `file`."""
    # torch.compile looks modules up by name and keeps what it found, in a process that may serve several references.
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


class Contract:
    """A loaded reference."""

    def __init__(self, text: str):
        self.module = import_source(text, REFERENCE_FILE)
        self.function = getattr(self.module, "reference", None)
        if not callable(self.function):
            raise ContractError(
                "reference.py has no function `reference`; define reference(**kwargs) that returns or writes "
                "the outputs"
            )
        self.has_make_inputs = callable(getattr(self.module, "make_inputs", None))
        self.takes = self._takes()
        self.device = "cpu"
        """Where the arguments are made, or moved to."""
        self.returns = False
        """Known after the first call: the outputs are returned, so what is in the output arguments does not matter."""
        self.sizes: set[str] = set()
        """Names of dims that make_inputs has looked at."""

    def get(self, name: str, default=None):
        return getattr(self.module, name, default)

    def build(self, dims: dict, seed: int, parameters: list[dict], elements: int) -> list[Arg]:
        """The arguments of one call in ABI order. `parameters` ({name, dtype, pointer}) may be empty with
        make_inputs."""
        args = self._made(dims, seed) if self.has_make_inputs else self._seeded(dims, seed, parameters, elements)
        if parameters:
            check_signature(args, parameters)
        return args

    def call(self, args: list[Arg]) -> tuple | None:
        """Call the reference on the arguments as they are; its tensors in order, or None when it returns nothing."""
        given = {a.name: a.value for a in args}
        if self.takes is not None:
            given = {name: value for name, value in given.items() if name in self.takes}
        returned = call_or_contract_error("reference.py: reference(...)", self.function, **given)
        self.returns = returned is not None
        if returned is None:
            return None
        found = tuple(returned) if isinstance(returned, (tuple, list)) else (returned,)
        for value in found:
            if not isinstance(value, torch.Tensor):
                raise ContractError(
                    f"reference.py: reference(...) returned {type(value).__name__}; return a tensor or a tuple "
                    f"of tensors"
                )
            odd = value.is_nested or value.is_quantized or value.is_complex() or value.layout is not torch.strided
            if odd or value.device.type == "meta":
                kind = "nested" if value.is_nested else f"{value.layout}"
                what = "a tensor without values" if value.device.type == "meta" else f"a {kind} tensor of {value.dtype}"
                raise ContractError(f"reference.py: reference(...) returned {what}; return dense ones of real numbers")
        outputs = [a.value for a in args if a.role == "output"]
        if len(found) == len(outputs) and all(
            is_same_view(one, other) for one, other in zip(found, outputs, strict=True)
        ):
            # It wrote them and hands them on: what it left alone there is no answer.
            self.returns = False
            return None
        return found

    def check_call(self, args: list[Arg]) -> None:
        """Does the reference ask for something that nobody gives?"""
        if missing := self.missing(args):
            source = (
                "make_inputs does not make it" if self.has_make_inputs else "the kernel has no parameter of that name"
            )
            raise ContractError(
                f"reference.py: reference(...) needs the argument {missing[0]!r}, but {source}; use one name for both"
            )

    def missing(self, args: list[Arg]) -> list[str]:
        """What the function asks for beside these."""
        try:
            parameters = inspect.signature(self.function).parameters.values()
        except (TypeError, ValueError):
            return []
        names = {a.name for a in args}
        wanted = [
            p.name for p in parameters if p.default is p.empty and p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
        ]
        return [name for name in wanted if name not in names]

    def _takes(self) -> set[str] | None:
        try:
            parameters = inspect.signature(self.function).parameters.values()
        except (TypeError, ValueError):
            return None
        return None if any(p.kind is p.VAR_KEYWORD for p in parameters) else {p.name for p in parameters}

    def _takes_device(self) -> bool:
        """make_inputs(dims, seed, device="cpu") makes its tensors where they are needed, which is quicker than
        moving them."""
        try:
            return "device" in inspect.signature(self.module.make_inputs).parameters
        except (TypeError, ValueError):
            return False

    def _made(self, dims: dict, seed: int) -> list[Arg]:
        there = {"device": self.device} if self.device != "cpu" and self._takes_device() else {}
        asked = RecordingDims(dims)
        try:
            made = call_or_contract_error(
                f"reference.py: make_inputs({format_dims(dims)})", self.module.make_inputs, asked, seed, **there
            )
        finally:
            # Also of one that fails: `probe` tells a dim that nobody gave from any other key.
            self.sizes |= asked.seen
        if not isinstance(made, dict) or not made:
            raise ContractError(
                "reference.py: make_inputs must return a dict of every argument by name, in the kernel's order"
            )
        args = []
        for name, value in made.items():
            if isinstance(value, torch.Tensor):
                if value.dtype not in DTYPE_NAMES:
                    raise ContractError(
                        f"reference.py: make_inputs gave {name!r} the dtype {value.dtype}; use one of "
                        f"{', '.join(DTYPES)}"
                    )
                args.append(Arg(name, value.detach().to(self.device).contiguous(), DTYPE_NAMES[value.dtype]))
            elif isinstance(value, (bool, int, float)):
                kind = "bool" if isinstance(value, bool) else "float32" if isinstance(value, float) else "int32"
                args.append(Arg(name, value, "int64" if kind == "int32" and not -(2**31) <= value < 2**31 else kind))
            else:
                raise ContractError(
                    f"reference.py: make_inputs gave {name!r} a {type(value).__name__}; use a tensor, int, "
                    f"float or bool"
                )
        return args

    def _seeded(self, dims: dict, seed: int, parameters: list[dict], elements: int) -> list[Arg]:
        if not parameters:
            raise ContractError(
                "reference.py has no make_inputs(dims, seed); define it, or give a kernel whose signature can be read"
            )
        # The product of the two largest integer dims, as `tools.contracts.dims.pointer_elements` has it.
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
    if dtype.is_floating_point:
        wide = torch.float64 if dtype is torch.float64 else torch.float32
        return torch.randn(count, generator=generator, dtype=wide).to(dtype)
    if dtype is torch.bool:
        return torch.randint(0, 2, (count,), generator=generator).to(dtype)
    return torch.randint(0, 16, (count,), generator=generator, dtype=torch.int64).to(dtype)


def check_signature(args: list[Arg], parameters: list[dict]) -> None:
    """make_inputs must give at all sizes what it gave when the task was read; scalars take the kernel's C type."""
    given = [(a.name, a.dtype if a.is_tensor else "a scalar") for a in args]
    taken = [(p["name"], p["dtype"] if p["pointer"] else "a scalar") for p in parameters]
    if given != taken:
        lists = (", ".join(f"{name}: {what}" for name, what in listed) for listed in (given, taken))
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
