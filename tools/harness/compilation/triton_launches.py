"""Finds what a Triton kernel's `run_kernel` launches, without a GPU.

It runs on tensors without storage, and each function that Triton would compile is recorded instead. Triton's own
launcher determines the specialisation, so that a later launch on a GPU finds it in the cache.
"""

import contextlib
import sys
import types
from pathlib import Path

from harness.isolation import confinement


class BuildError(Exception):
    """A fault of the kernel; the text goes to stderr."""


class NotFollowed(Exception):
    """A launch that Triton's launcher does not accept without a GPU, or never; the text is a clause."""


class Launch:
    """One specialisation of one jitted function."""

    def __init__(self, function, signature: dict, constants: dict, attributes: dict, options, given: dict):
        self.function, self.signature, self.constants, self.attributes = function, signature, constants, attributes
        self.options, self.given = options, given
        """Options of the backend: all of them, and those that the launch gives."""
        self.calls: dict[str, None] = {}
        """Its grids with the whole numbers among its arguments, each different call once."""

    def source(self):
        """Return Triton's object for the source of this specialisation."""
        return self.function.ASTSource(self.function, self.signature, self.constants, self.attributes)

    def settings(self) -> dict[str, str]:
        """Return the constexpr arguments by name; elements of a tuple have their positions appended."""
        names = self.function.arg_names
        return {".".join([names[at], *map(str, path)]): str(value) for (at, *path), value in self.constants.items()}


class Without:
    """A tensor without storage, with the address that the launcher would see if buffers begin at multiples of 256
    bytes."""

    def __init__(self, tensor):
        self.tensor, self.dtype = tensor, tensor.dtype

    def data_ptr(self) -> int:
        """Return the tensor's offset in its storage, in bytes."""
        return self.tensor.storage_offset() * self.dtype.itemsize


def without(value):
    """Return the arguments of a launch with `Without` in place of tensors."""
    if isinstance(value, tuple):
        inside = [without(one) for one in value]
        return type(value)(*inside) if hasattr(value, "_fields") else tuple(inside)
    return Without(value) if hasattr(value, "storage_offset") else value


class Recorder:
    """Records the launches of one kernel's module: it replaces the compiler behind Triton's launcher."""

    def __init__(self, module, reference: str, target, path: Path):
        from triton.compiler import make_backend

        self.options = frozenset(make_backend(target).parse_options({}).__dict__)
        """Names of options that a launch may give beside the kernel's parameters."""
        self.module, self.path = module, path
        self.launches: dict[tuple, Launch] = {}
        self.notes: list[str] = []
        self.given: dict = {}
        """Options of the current launch."""
        self.call = ""
        """Grid and whole numbers of the current launch."""
        self.reference = types.ModuleType("reference")
        sys.modules["reference"] = self.reference
        exec(compile(reference, "reference.py", "exec"), self.reference.__dict__)

    def install(self) -> None:
        """Replace Triton's launcher, compiler and autotuner."""
        from triton.runtime import autotuner, jit

        launcher = jit.JITFunction.run

        def run(function, *args, grid, warmup=False, **kwargs):
            try:
                self._run_launcher(launcher, function, args, grid, kwargs)
            except NotFollowed as error:
                self._add_note(f"not followed: {function.__name__}: {error}")

        def compiler(function, key, signature, device, constants, options, attributes, warmup):
            launch = Launch(function, signature, constants, attributes, options, self.given)
            self.launches.setdefault((id(function), str(key)), launch).calls[self.call] = None

        jit.JITFunction.run = run
        jit.JITFunction._do_compile = compiler
        autotuner.Autotuner.run = tuned

    def _run_launcher(self, launcher, function, args, grid, kwargs) -> None:
        """Call Triton's launcher for one launch, without storage. Raises BuildError for the kernel's fault, NotFollowed
        otherwise."""
        options = {
            name: kwargs.pop(name) for name in tuple(kwargs) if name in self.options and name not in function.arg_names
        }
        try:
            bound = function.signature.bind(*args, **kwargs)
        except TypeError as error:
            raise BuildError(f"{function.__name__}: its launch does not fit its parameters: {error}") from error
        bound.apply_defaults()
        size = grid(dict(bound.arguments)) if callable(grid) else grid
        if not isinstance(size, tuple | list) or not all(isinstance(n, int) and n > 0 for n in size):
            raise BuildError(f"{function.__name__}: its grid is {size!r}; it must be a tuple of positive whole numbers")
        try:
            numbers = {name: value for name, value in bound.arguments.items() if isinstance(value, int)}
            self.given, self.call = options, f"grid {tuple(size)} {numbers}"
            launcher(
                function,
                *without(args),
                grid=grid,
                warmup=True,
                **{name: without(v) for name, v in kwargs.items()},
                **options,
            )
        except TypeError as error:
            raise NotFollowed(str(error)) from error

    def follow(self, dims: dict) -> None:
        """Run `run_kernel` at these dims. Raises BuildError for the kernel's fault; any other failure becomes a
        note."""
        with stand_ins(self.reference, dims) as given:
            try:
                self.module.run_kernel(**given)
            except (NameError, BuildError) as error:
                raise error if isinstance(error, BuildError) else BuildError(located(error, self.path)) from error
            except BaseException as error:
                message, line, code = confinement.error_location(error, self.path)
                summary = message.splitlines()[0] if message else type(error).__name__
                self._add_note(
                    f"not followed at {dims}: {summary}" + (f" ({self.path.name}:{line}: {code})" if line else "")
                )

    def new_launches_at(self, dims: list[dict]) -> list[Launch]:
        """Return the launches at these dims that were not recorded before; failures are ignored."""
        known = set(self.launches)
        for one in dims:
            with contextlib.suppress(BaseException):
                self.follow(one)
        return [launch for key, launch in self.launches.items() if key not in known]

    def _add_note(self, note: str) -> None:
        if note not in self.notes:
            self.notes.append(note)


@contextlib.contextmanager
def stand_ins(reference, dims: dict):
    """Yield the arguments of `run_kernel` at these dims as tensors without storage; tensors made in the context have
    none either."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode, unset_fake_temporarily

    with FakeTensorMode(allow_non_fake_inputs=True):
        try:
            arguments = reference.make_inputs(dict(dims), 1)
        except Exception:
            # Code that reads a value, such as `.item()`, needs real numbers.
            with unset_fake_temporarily():
                arguments = reference.make_inputs(dict(dims), 1)
        yield {
            name: torch.empty_strided(v.shape, v.stride(), dtype=v.dtype, device="cuda")
            if isinstance(v, torch.Tensor)
            else v
            for name, v in arguments.items()
        }


def tuned(self, *args, **kwargs):
    """Replacement of the autotuner: run its first config, with the hook that prepares the arguments."""
    config = self.configs[0]
    current = {**kwargs, **config.all_kwargs()}
    if config.pre_hook:
        config.pre_hook({**dict(zip(self.arg_names, args, strict=False)), **current})
    return self.fn.run(*args, **current)


def located(error: BaseException, path: Path) -> str:
    """Return an error with the line of the kernel that raised it."""
    message, line, code = confinement.error_location(error, path)
    return f"{path.name}:{line or 1}: error: {message}" + (f"\n    {code}" if code else "")
