"""Loads the user's own function as it is: a function, a module's class, or an autograd function's. Needs torch."""

import base64
import contextlib
import copy
import functools
import hashlib
import importlib.util
import inspect
import itertools
import json
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import torch

from harness.capture.targets import operator_signature
from harness.reference.contract import NAMED, Arg, Contract, ContractError, call_or_contract_error
from harness.reference.rival import OtherFunction
from harness.reference.structures import FIXED

BUILD_LIMIT_S = 240.0


class UserFunction(OtherFunction):
    """The function that `call` names, with those of the reference's arguments that it takes.

    They are given by name, and by position where its parameters have other names or cannot be read. Arguments that are
    called as a module's parameters or buffers (`layer_weight` or `state_layer_weight` for `layer.weight`) take their
    place.
    """

    def __init__(self, given: dict, reference: Contract, device: str):
        self.where, self.reference = given["call"], reference
        self.has_make_inputs, self.takes = reference.has_make_inputs, None
        self.names: list[str] | None = None
        """The arguments of a call, in its order; None: not known yet."""
        self.by_name, self.weights, self.module, self.hint = True, {}, None, ""
        """`weights`: argument -> the parameter or buffer of `module` whose place it takes."""
        named = call_or_contract_error(f"{self.where}: importing it", _named_object, given)
        if isinstance(named, type) and issubclass(named, torch.autograd.Function):
            own = named.setup_context is not torch.autograd.Function.setup_context
            self.function, self.signature, self.by_name = named.apply, _signature(named.forward, 0 if own else 1), False
        elif isinstance(named, type) and issubclass(named, torch.nn.Module):
            self.module = call_or_contract_error(f"{self.where}(...)", _construct, named, given["init"]).to(device)
            self.function, self.signature = self.module, _signature(self.module.forward)
        else:
            self.function, self.signature = named, _signature(named)
        if not callable(self.function):
            raise ContractError(f"{self.where} is {type(named).__name__}, which cannot be called; name a function")

    def missing_arguments(self, args: list[Arg]) -> list[str]:
        """Decide how the function is called with these arguments; ContractError where it cannot be."""
        self._match_weights(args)
        given = {a.name: a for a in args}
        every = [name for name in self.made or given if name not in self.weights]
        inputs = [name for name in every if name not in given or given[name].role != "output"]
        tensors = [
            name
            for name in every
            if (given[name].is_tensor if name in given else not isinstance(self.made[name], FIXED))
        ]
        read = [name for name in inputs if name in tensors]
        signature = self.signature or _documented_signature(self.function.__doc__ or "")
        kinds = {p.name: p.kind for p in signature.parameters.values()}
        names = {name for name, kind in kinds.items() if kind in NAMED}
        names |= {*inputs} if inspect.Parameter.VAR_KEYWORD in kinds.values() else set()
        named = [name for name in every if name in names]
        if named and _accepts(signature, **dict.fromkeys(named)):
            # apply() of an autograd function takes no names, and has the order of forward().
            self.names = named if self.by_name else [*itertools.takewhile(named.__contains__, kinds)]
            return []
        self.by_name = False
        choices = (read, inputs, every, tensors) if self.signature is None else (inputs, read, every, tensors)
        self.names = next((chosen for chosen in choices if _accepts(signature, *chosen)), None)
        if self.names is None:
            raise ContractError(
                f"{self.where} takes ({', '.join(kinds)}), and the reference's arguments are ({', '.join(every)}); "
                f"give both the same names"
            )
        return []

    def _match_weights(self, args: list[Arg]) -> None:
        if self.module is None:
            return
        own = {name: key for key in self.module.state_dict(keep_vars=True) for name in _argument_names(key)}
        forward = self.signature.parameters if self.signature else ()
        self.weights = {a.name: own[a.name] for a in args if a.is_tensor and a.name in own and a.name not in forward}
        trained = [key for key, _ in self.module.named_parameters() if key not in self.weights.values()]
        if trained:
            self.hint = (
                f" (no argument of the reference is called like its parameter {trained[0]}, which keeps the "
                f"constructor's values)"
            )

    def callee(self, given: dict):
        """Return the function; of a module whose weights are among the arguments, a copy with these in their places."""
        if not self.weights:
            return self.function
        # What it does not take from the arguments is shared.
        shared = {id(one): one for one in (*self.module.parameters(), *self.module.buffers())}
        module = copy.deepcopy(self.module, shared)
        for name, key in self.weights.items():
            path, _, leaf = key.rpartition(".")
            owner, value = module.get_submodule(path), given[name]
            if leaf in owner._parameters:
                is_leaf = bool(self.records_gradients) and owner._parameters[leaf].requires_grad
                value = torch.nn.Parameter(value, requires_grad=is_leaf)
            setattr(owner, leaf, value)
        return module

    def fill(self, function, given: dict):
        given = self.arrange(given)
        if self.by_name:
            return functools.partial(function, **{name: given[name] for name in self.names})
        return functools.partial(function, *(given[name] for name in self.names))


def published_package(module: str) -> str:
    """Return name and version of the package that an index gave and that holds the module, with its Python files as
    its record has them; empty: whoever uses this Python may have written the module."""
    top = module.partition(".")[0]
    for name in metadata.packages_distributions().get(top, ()):
        package, found = metadata.distribution(name), importlib.util.find_spec(top)
        texts = {str(file.locate()): file.hash for file in package.files or () if file.suffix == ".py"}
        # What comes from a folder, in place or copied, or from a repository is said in this file.
        from_index = package.read_text("direct_url.json") is None
        if found and found.origin in texts and from_index and all(map(_has_digest, texts, texts.values())):
            return f"{name} {package.version}"
    return ""


def _has_digest(path: str, known) -> bool:
    if known is None or not Path(path).is_file():
        return False
    return (
        base64.urlsafe_b64encode(hashlib.sha256(Path(path).read_bytes()).digest()).decode().rstrip("=") == known.value
    )


def _argument_names(key: str) -> tuple[str, str]:
    """Return the names of an argument for the parameter or buffer `key` of a module."""
    flat = key.replace(".", "_")
    return flat, f"state_{flat}"


def _signature(function, skipped: int = 0) -> inspect.Signature | None:
    """Return the function's signature without the first `skipped` parameters; None if it cannot be read."""
    overload = getattr(function, "_opoverload", None)
    try:
        signature = inspect.signature(function) if overload is None else operator_signature(overload)
        return signature.replace(parameters=[*signature.parameters.values()][skipped:])
    except (TypeError, ValueError):
        return None


def _documented_signature(text: str) -> inspect.Signature:
    """Return as many parameters without names as the docstring of a function in C++ says, else any number."""
    said = re.search(r"\w\(([^()]*)\) ->", text)
    kind = inspect.Parameter.POSITIONAL_ONLY if said else inspect.Parameter.VAR_POSITIONAL
    return inspect.Signature([inspect.Parameter(f"arg{at}", kind) for at in range(said[1].count(":") if said else 1)])


def _accepts(signature: inspect.Signature, *names, **named) -> bool:
    try:
        return bool(signature.bind(*names, **named))
    except TypeError:
        return False


def _named_object(given: dict):
    """Return the object that `module:name` names, after the user's files are written and built, once for all processes
    of this folder."""
    content = json.dumps([given["files"], given["build"]], sort_keys=True).encode()
    folder = Path.cwd() / f"baseline-{hashlib.sha256(content).hexdigest()[:16]}"
    is_built = folder.with_suffix(".built")
    if not is_built.exists():
        _write_and_build(given, folder)
    is_built.touch()
    sys.path.insert(0, str(folder))
    module, _, path = given["call"].partition(":")
    try:
        found = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise
        raise ContractError(
            f"{given['call']}: there is no module {error.name!r}, neither in baseline/ nor in the Python that runs "
            f"jobs ({sys.executable}); put its file into baseline/, or install it there"
        ) from error
    for name in path.split("."):
        if not hasattr(found, name):
            known = ", ".join(name for name, one in vars(found).items() if callable(one) and name[0] != "_")
            raise ContractError(f"{given['call']}: {module} has no {name!r}; it has {known[:300] or 'no function'}")
        found = getattr(found, name)
    return found


def _write_and_build(given: dict, folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    for path, text in given["files"].items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    if given["build"]:
        argv = [sys.executable if word == "{python}" else word for word in given["build"]]
        done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, timeout=BUILD_LIMIT_S, check=False)
        if done.returncode:
            end = " | ".join(f"{done.stdout}{done.stderr}".strip().splitlines()[-3:])
            raise ContractError(f"{given['call']}: `{' '.join(argv)}` ended with {done.returncode}: {end[-600:]}")


def _construct(kind, init):
    """Return the module that its class makes of `init`, else of get_init_inputs() beside it, else of nothing."""
    if isinstance(init, dict):
        return kind(**init)
    if not init:
        with contextlib.suppress(AttributeError):
            init = sys.modules[kind.__module__].get_init_inputs()
    return kind(*init)
