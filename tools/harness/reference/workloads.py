"""Determines the sizes at which a reference is called, from its own workloads or the command line, and reports mistakes
in either."""

import ast
import difflib
import math

from harness.reference.contract import Arg, Contract, ContractError

KEYS = frozenset({"name", "dims", "weight", "margin", "bytes"})
"""Keys of a workload that has `dims`."""


def requested_workloads(contract: Contract, request: dict) -> list[tuple[str, dict, float, float | None, int | None]]:
    """Return name, dims, weight, margin and declared bytes of each workload."""
    if request["dims"]:
        return [(label(dims), dims, 1.0, None, None) for dims in request["dims"]]
    listed = contract.get("workloads")
    if listed is None:
        raise ContractError("no dims: give --dims (for example M=4096 N=1024), or define `workloads` in reference.py")
    if not isinstance(listed, (list, tuple)) or not listed:
        what = (
            f"must be a list, not {type(listed).__name__}" if listed else "is empty, so that there is nothing to time"
        )
        raise ContractError(
            f"reference.py: `workloads` {what}; list at least one, such as {{'dims': {{'M': 4096, 'N': 1024}}}}"
        )
    workloads = []
    for entry in listed:
        if not isinstance(entry, dict):
            raise ContractError(
                "reference.py: `workloads` must be a list of dicts such as {'dims': {'M': 4096}, 'weight': 1.0}"
            )
        # Without `dims`, every other key is a dim, `margin` as well: losses have a scalar of that name.
        dims = entry.get("dims", {k: v for k, v in entry.items() if k not in ("name", "weight")})
        if not dims or not all(isinstance(v, (int, float)) for v in dims.values()):
            raise ContractError(f"reference.py: a workload's dims must be numbers by name, not {dims!r}")
        name = str(entry.get("name", label(dims)))
        if "dims" in entry and (unknown := sorted(set(entry) - KEYS)):
            near = difflib.get_close_matches(str(unknown[0]), sorted(KEYS), n=1)
            suggestion = f"did you mean {near[0]!r}? " if near else ""
            raise ContractError(
                f"reference.py: workload {name}: unknown key {unknown[0]!r}; {suggestion}A workload takes dims, name, "
                f"weight, margin, bytes"
            )
        weight = amount(name, "weight", entry.get("weight", 1.0))
        if weight == 0:
            raise ContractError(
                f"reference.py: workload {name}: its weight is 0; give one above 0, or leave the workload out"
            )
        margin = (
            amount(name, "margin", entry["margin"]) if "dims" in entry and entry.get("margin") is not None else None
        )
        if margin is not None and margin > 1:
            raise ContractError(
                f"reference.py: workload {name}: its margin is relative, 0.05 for 5 %; give 0 to 1, not {margin:g}"
            )
        count = amount(name, "bytes", entry["bytes"]) if "dims" in entry and entry.get("bytes") is not None else None
        workloads.append((name, dict(dims), weight, margin, None if count is None else int(count)))
    if len({name for name, *_ in workloads}) != len(workloads):
        raise ContractError("reference.py: two workloads have the same name; give each its own")
    return workloads


def amount(workload: str, key: str, value: object) -> float:
    """Return the value as a float; raise ContractError unless it is a finite number of 0 or more."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < math.inf:
        raise ContractError(
            f"reference.py: workload {workload}: its {key} must be a number of 0 or more, not {value!r}"
        )
    return float(value)


def build_arguments(contract: Contract, name: str, dims: dict, request: dict) -> list[Arg]:
    """Make the arguments at `dims`; if make_inputs reads a dim that is missing, raise a ContractError that says where
    to add it."""
    try:
        return contract.build(dims, 1, request["parameters"], request["pointer_elements"])
    except ContractError as error:
        cause = error.__cause__
        missing = cause.args[0] if isinstance(cause, KeyError) and cause.args else None
        if not isinstance(missing, str) or missing in dims or missing not in contract.sizes:
            raise
        if not request["dims"]:
            message = (
                f"reference.py: workload {name}: {missing!r}, which make_inputs reads, is not among its dims; add "
                f"it there"
            )
        elif contract.get("workloads"):
            message = (
                f"--dims: {missing!r} is missing, which make_inputs reads (--dims replaces the `workloads` of the "
                f"reference); "
                f"add {missing}=NUMBER, or leave --dims out to time the reference's own `workloads`"
            )
        else:
            message = f"--dims: {missing!r}, which make_inputs reads, is not among them; add {missing}=NUMBER"
        raise ContractError(message, error.log) from error


def check_dims(contract: Contract, dims: dict, text: str, *, given: bool) -> None:
    """Raise ContractError if a size `given` by the user is never read by make_inputs, because the user meant another
    one.

    A size that make_inputs reads in some cases only is found in the reference's `text` or among its declared dims.
    """
    unknown = [name for name in dims if name not in contract.sizes]
    if (
        given
        and contract.sizes
        and unknown
        and (unknown := [name for name in unknown if name not in mentioned_sizes(contract, text)])
    ):
        known = ", ".join(sorted(contract.sizes))
        raise ContractError(
            f"--dims: {unknown[0]!r} is not a dim of this task, whose make_inputs reads {known}; leave it out, or name "
            f"one of these"
        )


def mentioned_sizes(contract: Contract, text: str) -> set[str]:
    """Return the dims of the reference's own workloads and dims_range, and every constant key that its text looks
    up."""
    listed = contract.get("workloads") or []
    found = {
        *dims_range(contract),
        *(name for entry in listed if isinstance(entry, dict) for name in entry.get("dims", entry)),
    }
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Subscript):
            key = node.slice
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in ("get", "pop", "setdefault")
        ):
            key = node.args[0] if node.args else None
        else:
            key = node.left if isinstance(node, ast.Compare) else None
        if isinstance(key, ast.Constant):
            found.add(key.value)
    return found


def label(dims: dict) -> str:
    """Return the sizes as a name, "M4_N8"."""
    return "_".join(
        f"{name}{value:g}" if isinstance(value, float) else f"{name}{value}" for name, value in dims.items()
    )


def dims_range(contract: Contract) -> dict:
    """Return dim -> (lowest, highest) as the reference declares them."""
    listed = contract.get("dims_range") or {}
    try:
        return {str(name): (int(low), int(high)) for name, (low, high) in listed.items()}
    except (TypeError, ValueError, AttributeError) as error:
        raise ContractError("reference.py: `dims_range` must be like {'M': (1, 4096)}") from error
