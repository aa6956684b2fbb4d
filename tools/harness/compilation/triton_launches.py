"""What a Triton kernel's `run_kernel` launches, found without a GPU: it runs on tensors without storage, and what
Triton would compile is noted in place of compiling it. Triton's own launcher says what that is, so that a later launch
on a GPU finds it in the cache.
"""

import contextlib
import sys
import types
from pathlib import Path

from harness.isolation import confinement


class BuildError(Exception):
    """The kernel's fault: the text goes to stderr."""


class NotFollowed(Exception):
    """A launch that Triton's launcher does not take without a GPU, or not at all: the text is a clause."""


class Launch:
    """One specialisation of one jitted function."""

    def __init__(self, function, signature: dict, constants: dict, attributes: dict, options, given: dict):
        self.function, self.signature, self.constants, self.attributes = function, signature, constants, attributes
        self.options, self.given = options, given
        """Of the backend: all of them, and those that are written in the launch."""

    def source(self):
        return self.function.ASTSource(self.function, self.signature, self.constants, self.attributes)

    def settings(self) -> dict[str, str]:
        """Constexpr arguments by name; of a tuple with the places in it."""
        names = self.function.arg_names
        return {".".join([names[at], *map(str, path)]): str(value) for (at, *path), value in self.constants.items()}


class Without:
    """A tensor without storage, as the launcher sees one on the device, where buffers begin at multiples of 256
    bytes."""

    def __init__(self, tensor):
        self.tensor, self.dtype = tensor, tensor.dtype

    def data_ptr(self) -> int:
        return self.tensor.storage_offset() * self.dtype.itemsize


def without(value):
    """The arguments of a launch with `Without` in place of tensors."""
    if isinstance(value, tuple):
        inside = [without(one) for one in value]
        return type(value)(*inside) if hasattr(value, "_fields") else tuple(inside)
    return Without(value) if hasattr(value, "storage_offset") else value


class Recorder:
    """Stands between the launcher of every jitted function and the compiler, for one kernel's module and its
    reference."""

    def __init__(self, module, reference: str, target, path: Path):
        from triton.compiler import make_backend

        self.options = frozenset(make_backend(target).parse_options({}).__dict__)
        """Names that the backend takes beside the kernel's parameters."""
        self.module, self.path = module, path
        self.launches: dict[tuple, Launch] = {}
        self.notes: list[str] = []
        self.given: dict = {}
        """Options in the launch that is under way."""
        self.reference = types.ModuleType("reference")
        sys.modules["reference"] = self.reference
        exec(compile(reference, "reference.py", "exec"), self.reference.__dict__)

    def install(self) -> None:
        from triton.runtime import autotuner, jit

        own = jit.JITFunction.run

        def run(function, *args, grid, warmup=False, **kwargs):
            try:
                self._launched(own, function, args, grid, kwargs)
            except NotFollowed as error:
                self._note(f"not followed: {function.__name__}: {error}")

        def compiler(function, key, signature, device, constants, options, attributes, warmup):
            launch = Launch(function, signature, constants, attributes, options, self.given)
            self.launches.setdefault((id(function), str(key)), launch)

        jit.JITFunction.run = run
        jit.JITFunction._do_compile = compiler
        autotuner.Autotuner.run = tuned

    def _launched(self, own, function, args, grid, kwargs) -> None:
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
            self.given = options
            own(
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
        """Run `run_kernel` at these dims. BuildError for what is the kernel's fault at any; what else goes wrong is
        noted."""
        with stand_ins(self.reference, dims) as given:
            try:
                self.module.run_kernel(**given)
            except (NameError, BuildError) as error:
                raise error if isinstance(error, BuildError) else BuildError(located(error, self.path)) from error
            except BaseException as error:
                said, line, code = confinement.error_location(error, self.path)
                first = said.splitlines()[0] if said else type(error).__name__
                self._note(f"not followed at {dims}: {first}" + (f" ({self.path.name}:{line}: {code})" if line else ""))

    def ahead(self, dims: list[dict]) -> list[Launch]:
        """What is launched at these dims and was not before, as far as it can be told."""
        known = set(self.launches)
        for one in dims:
            with contextlib.suppress(BaseException):
                self.follow(one)
        return [launch for key, launch in self.launches.items() if key not in known]

    def _note(self, note: str) -> None:
        if note not in self.notes:
            self.notes.append(note)


@contextlib.contextmanager
def stand_ins(reference, dims: dict):
    """Arguments of `run_kernel` at these dims as tensors without storage, and what is made in the block, too."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode, unset_fake_temporarily

    with FakeTensorMode(allow_non_fake_inputs=True):
        try:
            made = reference.make_inputs(dict(dims), 1)
        except Exception:
            # What asks for a value, as `.item()` does, needs real numbers.
            with unset_fake_temporarily():
                made = reference.make_inputs(dict(dims), 1)
        yield {
            name: torch.empty_strided(v.shape, v.stride(), dtype=v.dtype, device="cuda")
            if isinstance(v, torch.Tensor)
            else v
            for name, v in made.items()
        }


def tuned(self, *args, **kwargs):
    """In place of the autotuner: its first config, with the hook that makes arguments fit it."""
    config = self.configs[0]
    current = {**kwargs, **config.all_kwargs()}
    if config.pre_hook:
        config.pre_hook({**dict(zip(self.arg_names, args, strict=False)), **current})
    return self.fn.run(*args, **current)


def located(error: BaseException, path: Path) -> str:
    """An error with the line of the kernel that it comes from."""
    said, line, code = confinement.error_location(error, path)
    return f"{path.name}:{line or 1}: error: {said}" + (f"\n    {code}" if code else "")
