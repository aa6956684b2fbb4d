"""At which sizes a reference is asked: its own workloads or those of the command line, and what is wrong with
either."""

import ast
import difflib
import math

from harness.reference.contract import Arg, Contract, ContractError

KEYS = frozenset({"name", "dims", "weight", "margin", "bytes"})
"""Of a workload."""


def requested_workloads(contract: Contract, request: dict) -> list[tuple[str, dict, float, float | None, int | None]]:
    """Name, dims, weight, margin and declared bytes of each workload."""
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
    found = []
    for entry in listed:
        if not isinstance(entry, dict):
            raise ContractError(
                "reference.py: `workloads` must be a list of dicts such as {'dims': {'M': 4096}, 'weight': 1.0}"
            )
        # Without `dims` all else is a dim, `margin` too: losses have a scalar of that name.
        dims = entry.get("dims", {k: v for k, v in entry.items() if k not in ("name", "weight")})
        if not dims or not all(isinstance(v, (int, float)) for v in dims.values()):
            raise ContractError(f"reference.py: a workload's dims must be numbers by name, not {dims!r}")
        name = str(entry.get("name", label(dims)))
        if "dims" in entry and (unknown := sorted(set(entry) - KEYS)):
            near = difflib.get_close_matches(str(unknown[0]), sorted(KEYS), n=1)
            meant = f"did you mean {near[0]!r}? " if near else ""
            raise ContractError(
                f"reference.py: workload {name}: unknown key {unknown[0]!r}; {meant}Beside its dims may be name, "
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
        found.append((name, dict(dims), weight, margin, None if count is None else int(count)))
    if len({name for name, *_ in found}) != len(found):
        raise ContractError("reference.py: two workloads have the same name; give each its own")
    return found


def amount(workload: str, key: str, value: object) -> float:
    """A number that is finite and not negative."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < math.inf:
        raise ContractError(
            f"reference.py: workload {workload}: its {key} must be a number of 0 or more, not {value!r}"
        )
    return float(value)


def build_arguments(contract: Contract, name: str, dims: dict, request: dict) -> list[Arg]:
    """The arguments at `dims`; a dim that make_inputs reads and nobody gave is named, with whoever should have given
    it."""
    try:
        return contract.build(dims, 1, request["parameters"], request["pointer_elements"])
    except ContractError as error:
        cause = error.__cause__
        lacking = cause.args[0] if isinstance(cause, KeyError) and cause.args else None
        if not isinstance(lacking, str) or lacking in dims or lacking not in contract.sizes:
            raise
        if not request["dims"]:
            said = (
                f"reference.py: workload {name}: {lacking!r}, which make_inputs reads, is not among its dims; add "
                f"it there"
            )
        elif contract.get("workloads"):
            said = (
                f"--dims: they replace the reference's own `workloads`, and {lacking!r}, which make_inputs reads, is "
                f"not among them; "
                f"add {lacking}=NUMBER, or give no dims to time the reference's own"
            )
        else:
            said = f"--dims: {lacking!r}, which make_inputs reads, is not among them; add {lacking}=NUMBER"
        raise ContractError(said, error.log) from error


def check_dims(contract: Contract, dims: dict, text: str, *, given: bool) -> None:
    """A size that make_inputs never looks at changes nothing: whoever has `given` it meant another one.

    One that it looks at in some cases alone stands in the reference's `text`, or is among the dims that this declares.
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
            f"--dims: {unknown[0]!r} is no dim of this task, whose make_inputs reads {known}; leave it out, or name "
            f"one of these"
        )


def mentioned_sizes(contract: Contract, text: str) -> set[str]:
    """Dims of the reference's own workloads and dims_range, and whatever its text looks up by name."""
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
    return "_".join(
        f"{name}{value:g}" if isinstance(value, float) else f"{name}{value}" for name, value in dims.items()
    )


def dims_range(contract: Contract) -> dict:
    listed = contract.get("dims_range") or {}
    try:
        return {str(name): (int(low), int(high)) for name, (low, high) in listed.items()}
    except (TypeError, ValueError, AttributeError) as error:
        raise ContractError("reference.py: `dims_range` must be like {'M': (1, 4096)}") from error
