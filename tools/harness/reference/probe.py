"""Answers a probe: the arguments, roles, shapes, operations and bytes of a reference at each set of dims."""

import functools
import math
import time
from collections.abc import Callable
from functools import partial

import torch

from harness.reference.comparison import ExpectedOutput, copy_arguments, expected_outputs, results
from harness.reference.contract import CORRECTION_HINT, Arg, Contract, ContractError, format_dims, total_bytes
from harness.reference.degenerate import DRAW_S, coarse_errors, known_contents, look_for_degenerate
from harness.reference.determinism import is_equal, look_for_chance
from harness.reference.flops import FlopCounter, products
from harness.reference.needed import look_for_needed
from harness.reference.outputs import infer_roles, look_for_read_outputs, set_roles
from harness.reference.shapes import CALLS_OF_FIRST, ShapedCall, ValueBudget, calls_without_values, is_large
from harness.reference.structures import flatten
from harness.reference.user_function import published_package
from harness.reference.workloads import build_arguments, check_dims, dims_range, requested_workloads

NEEDED_S = 8.0
"""Seconds for each size in which to determine what the outputs depend on; all sizes together have twice as many."""
PATIENCE_S = 100.0
"""Seconds after which no further workload is tried whose shapes only values show."""
KNOWN_CONTENT = "Known content: "
"""Beginning of a sentence about inputs that return for other seeds."""
CHECKS_S = 40.0
"""Seconds that the checks of values may take, as the first call predicts."""


def probe(request: dict) -> dict:
    """Return a ProbeResult as a dict; raises ContractError with a sentence for the user.

    A reference whose shapes are known, but whose values are refused, is answered with the reason in `unusable`.
    """
    look_for_operators(request["library"])
    # The reference is not imported yet.
    package = published_package(request["module"]) if request.get("module") else ""
    text = request["reference"]

    @functools.cache
    def with_values() -> Contract:
        contract = Contract(text)
        contract.device = request["device"]
        return contract

    if request["tentative"]:
        return {"kind": "probe"} | try_tentative_sizes(with_values, request)
    contract, shaped = None, {}
    if is_large(text, []) or is_large("", [w[1] for w in requested_workloads(with_values(), request)]):
        contract, shaped = calls_without_values(
            text, lambda found: [w[:2] for w in requested_workloads(found, request)], request["parameters"]
        )
    contract = contract or with_values()
    workloads = requested_workloads(contract, request)
    answer = {
        "kind": "probe",
        "package": package,
        "has_make_inputs": contract.has_make_inputs,
        "dims_range": dims_range(contract),
        "rtol": number(contract, "rtol"),
        "atol": number(contract, "atol"),
    }
    inferred: list[str] = []
    if request["dims"] and contract.get("workloads"):
        inferred.append("The sizes of --dims are timed; the reference's own `workloads` are not.")
    arguments = {name: [a.name for a in call.args] for name, call in shaped.items()}
    first = arguments.get(workloads[0][0])
    if unlike := [name for name, *_ in workloads if first and arguments.get(name, first) != first]:
        workloads = [one for one in workloads if one[0] not in unlike]
        inferred.append(f"Left out, as other arguments belong to these sizes: {', '.join(unlike)}.")
    if derived := [name for name, call in shaped.items() if call.counter is None]:
        inferred.append(
            f"The shapes at {len(derived)} of its sizes follow from those at the others: {', '.join(derived)}."
        )
    try:
        answer |= look_at_values(with_values, workloads, shaped, request, inferred)
    except ContractError as error:
        if len(shaped) < len(workloads):
            raise
        answer |= {"unusable": str(error), "error_log": error.log}
        answer |= describe_calls([(w, shaped[w[0]].args, shaped[w[0]].counter, {}) for w in workloads])
    return answer | {"inferred": inferred} | ({"restructured": True} if contract.made else {})


def look_at_values(
    with_values: Callable[[], Contract],
    workloads: list[tuple],
    shaped: dict[str, ShapedCall],
    request: dict,
    inferred: list[str],
) -> dict:
    """Return the fields of a ProbeResult that calls of the reference show.

    Values are made at the workloads that their budget allows, in their order; the others have shapes alone.
    """
    calls, coarse = [], {}
    roles: dict[str, str] = {}
    budget = ValueBudget(request["device"])
    begun, needed_s, draw_s = time.monotonic(), 2 * NEEDED_S, DRAW_S
    known: dict[tuple[str, str], list[str]] = {}
    for call in (shaped[name] for name, *_ in workloads if name in shaped):
        require_memory(call.args, call.dims, request["memory_bytes"])
    for workload in workloads:
        name, dims, *_, declared = workload
        call = shaped.get(name)
        if call is not None and not budget.affords(call):
            calls.append((workload, call.args, call.counter, {}))
            continue
        if call is None and time.monotonic() - begun > PATIENCE_S:
            raise ContractError(
                f"reference.py: its shapes at the sizes before {format_dims(dims)} took {PATIENCE_S:g} s; give smaller "
                f"sizes, or probe it where a GPU is"
            )
        contract = with_values()
        args = build_arguments(contract, name, dims, request)
        check_dims(contract, dims, request["reference"], given=bool(request["dims"]))
        contract.check_call(args)
        require_memory(args, dims, request["memory_bytes"])
        first = not roles
        if first:
            inferred += buffer_notes(contract, request, args) + structure_notes(contract)
            roles = infer_roles(contract, args, inferred)
        set_roles(args, roles)
        counter, compared, errors = run_once(contract, args, dims, request, first=first, roles=roles, inferred=inferred)
        coarse |= errors
        before = time.monotonic()
        if first or draw_s > 0:
            draw = partial(another, contract, dims, request, roles)
            for argument, how in known_contents(args, draw, before + draw_s).items():
                known.setdefault((argument, how), []).append(name)
        draw_s -= time.monotonic() - before
        before = time.monotonic()
        if first or declared is None:
            size, idle = look_for_needed(contract, args, min(NEEDED_S, max(needed_s, 1.0)))
            if first and not any(said.startswith("Degenerate") for said in inferred):
                inferred += [f"Degenerate: other values of the input {name!r} alone change no output." for name in idle]
        if declared is not None:
            size = check_declared_bytes(name, declared, args, inferred)
        needed_s -= time.monotonic() - before
        calls.append((workload, args, counter, compared, size))
    inferred += [
        f"{KNOWN_CONTENT}`{argument}`: {how}, in {', '.join(names)}; a claim holds for it alone."
        for (argument, how), names in known.items()
    ]
    if not roles:
        inferred.append(
            "The reference's values are not checked yet (chance, changed inputs, constant outputs): at its sizes that "
            f"takes this {'CPU' if request['device'] == 'cpu' else 'GPU'} minutes; smaller --dims show them."
        )
    return describe_calls(calls) | {"coarse": coarse}


def describe_calls(calls: list[tuple]) -> dict:
    """Return the fields of a ProbeResult for (workload, arguments, counter of operations, elements that are compared),
    with the bytes that are needed at the end where they were looked for; the first call's operators stand for all."""
    counter = next((call[2] for call in calls if call[2]), FlopCounter())
    names = {"operations": counter.names, "products": products(counter.names), "product_type": counter.main_type()}
    return names | {"workloads": [describe_workload(*call) for call in calls]}


def look_for_operators(library: list[str]) -> None:
    """Raise ContractError for an operator name that torch does not have, before a kernel calls it."""
    for name in library:
        if not hasattr(torch.ops.aten, name.removeprefix("aten.")):
            raise ContractError(
                f"task.yaml: library: {name} is no operator of torch {torch.__version__}; write its name in ATen, "
                f"as aten.mm"
            )


def try_tentative_sizes(with_values: Callable[[], Contract], request: dict) -> dict:
    """Return for each list of sizes the first that the reference accepts, and its messages about the others before."""
    tried, refused = [], []
    sizes = [(format_dims(dims), dims) for choices in request["tentative"] for dims in choices]
    shaped: dict[str, ShapedCall] = {}
    memory = {"memory_bytes": 2 * request["memory_bytes"]}
    if is_large(request["reference"], [dims for _, dims in sizes]):
        _, shaped = calls_without_values(request["reference"], lambda _: sizes, request["parameters"])
    for choices in request["tentative"]:
        for dims in choices:
            name = format_dims(dims)
            if name in shaped:
                call = shaped[name].args, shaped[name].counter
            else:
                try:
                    call = another(with_values(), dims, request | memory, request["roles"], 1), None
                    results(with_values(), call[0])
                except ContractError as error:
                    refused.append(f"{name} ({str(error).removesuffix(CORRECTION_HINT)})")
                    continue
            tried.append(describe_workload((name, dims, 1.0, None), *call, {}))
            break
    return {"tried": tried, "refused": refused}


def describe_workload(
    workload: tuple, args: list[Arg], counter: FlopCounter | None, compared: dict[str, int], needed: int | None = None
) -> dict:
    """Return a workload as a ProbedWorkload; all of its bytes count if those that are `needed` are not known."""
    return dict(zip(("name", "dims", "weight", "margin"), workload, strict=False)) | {
        "arguments": [describe_argument(a, compared.get(a.name)) for a in args],
        "flops": (counter and counter.total) or None,
        "unique_bytes": total_bytes(args) if needed is None else needed,
    }


def describe_argument(a: Arg, compared: int | None) -> dict:
    """Return an argument as a ProbedArgument; the value of an infinite or NaN scalar is None, because JSON has none for
    it."""
    description = a.json() | {"compared": compared}
    return description | {
        "value": a.value
        if isinstance(a.value, int) or (isinstance(a.value, float) and math.isfinite(a.value))
        else None
    }


def number(contract: Contract, name: str) -> float | None:
    """Return a number that the reference declares, or None; raise ContractError for any other type."""
    value = contract.get(name)
    if value is not None and not isinstance(value, (int, float)):
        raise ContractError(f"reference.py: `{name}` must be a number, not {value!r}")
    return None if value is None else float(value)


def require_memory(args: list[Arg], dims: dict, memory: int) -> None:
    """Raise ContractError unless `memory` bytes hold what one check has at once: each tensor twice, in the oracle and
    where the kernel finds it, and its float64 copy."""
    need = sum(a.value.numel() * (2 * a.value.element_size() + 8) for a in args if a.is_tensor)
    if need > memory:
        raise ContractError(
            f"the workload {format_dims(dims)} needs about {need:,} bytes of memory with float64 copies, and "
            f"{memory:,} are free here; use smaller dims"
        )


def buffer_notes(contract: Contract, request: dict, args: list[Arg]) -> list[str]:
    """Return the note on the size of flat buffers; empty if the reference has make_inputs."""
    if contract.has_make_inputs:
        return []
    count = next((a.value.numel() for a in args if a.is_tensor), 0)
    origin = "as --ptr-size says" if request["pointer_elements"] else "the product of the two largest dims"
    return [f"Every pointer is a flat buffer of {count} elements ({origin})."]


def structure_notes(contract: Contract) -> list[str]:
    """Return a sentence for each thing that a kernel gets in another form than make_inputs gives it, or not at all."""
    notes = [
        f"{name} is fixed to {value!r}: the reference gets it, a kernel does not."
        for name, value in contract.fixed.items()
    ]
    for name, made in contract.made.items():
        parts = [leaf for leaf, _ in flatten(name, made) if leaf != name and leaf not in contract.fixed]
        if parts:
            notes.append(f"{name} is given to a kernel as {', '.join(parts)}; the reference gets it whole.")
    for name, strides in contract.strides.items():
        notes.append(
            f"{name}: its strides {strides} are for your own function; reference and kernel get it contiguous."
        )
    return notes


def check_declared_bytes(name: str, declared: int, args: list[Arg], inferred: list[str]) -> int:
    """Return the bytes that a call must move as its workload declares them, and append a note; raise ContractError if
    they exceed its tensors."""
    if not 0 < declared <= total_bytes(args):
        raise ContractError(
            f"reference.py: workload {name}: its bytes are {declared}; its tensors have {total_bytes(args)}, give 1 "
            f"to these"
        )
    inferred.append(
        f"Workload {name} needs {declared} bytes, as it declares; no kernel can be faster than the memory that "
        f"moves these."
    )
    return declared


def run_once(
    contract: Contract,
    args: list[Arg],
    dims: dict,
    request: dict,
    *,
    first: bool,
    roles: dict[str, str],
    inferred: list[str],
) -> tuple[FlopCounter, dict[str, int], dict[str, float]]:
    """Run the reference as often as needed and return the counter of its operations, the elements that it defines of
    each output, and the errors of coarser types.

    Where the reference makes its own inputs, the first dims stand for all in what does not depend on size. At the first
    dims, chance, read outputs and degenerate outputs are looked for as well.
    """
    counter, begun = FlopCounter(), time.monotonic()
    own = copy_arguments(args)
    try:
        with counter:
            returned = contract.call(own)
    except ContractError as error:
        # A reference that cannot run under the counter may still run without it.
        own = copy_arguments(args)
        try:
            returned = contract.call(own)
        except ContractError:
            raise error from None
        counter = FlopCounter()
    for a, b in zip(args, own, strict=True):
        if a.role == "input" and a.is_tensor and not is_equal(a.value, b.value):
            raise ContractError(
                f"reference.py: reference(...) changes its input {a.name!r}; name it in `inout`, or work on a copy"
            )
    if (call_s := time.monotonic() - begun) * CALLS_OF_FIRST > CHECKS_S and contract.get("outputs") is not None:
        if first:
            inferred.append(
                f"The reference's values are not checked further (chance, constant outputs): one call at "
                f"{format_dims(dims)} takes {call_s:.0f} s here; smaller --dims show them."
            )
        return counter, {}, {}
    if first:
        look_for_chance(contract, args, own, returned, inferred)
        look_for_read_outputs(contract, args, own)
    elif contract.has_make_inputs:
        return counter, {}, {}
    expected, note = expected_outputs(contract, args)
    coarse: dict[str, float] = {}
    if first:
        inferred += [f"The oracle computes in the task's own precision, not float64: {note}."] * bool(note)
        look_for_degenerate(contract, args, expected, partial(another, contract, dims, request, roles), inferred)
        coarse = coarse_errors(contract, args, expected) if contract.get("rtol") is not None else {}
    for found in expected:
        check_count(contract, found, next(a.value.numel() for a in args if a.name == found.name), dims)
    return counter, {found.name: found.compared for found in expected}, coarse


def another(contract: Contract, dims: dict, request: dict, roles: dict[str, str], seed: int = 2) -> list[Arg]:
    """Return arguments of the same dims from another seed; raise ContractError if memory does not hold both sets."""
    args = contract.build(dims, seed, request["parameters"], request["pointer_elements"])
    require_memory(args, dims, request["memory_bytes"] // 2)
    set_roles(args, roles)
    return args


def check_count(contract: Contract, found: ExpectedOutput, allocated: int, dims: dict) -> None:
    """Raise ContractError if a returned output of fewer elements than its buffer is not a product of some dims.

    This applies without make_inputs, where buffers are flat.
    """
    count = found.count
    if contract.has_make_inputs or not contract.returns or count == allocated:
        return
    sizes = [v for v in dims.values() if isinstance(v, int) and v > 1]
    products = {1}
    for size in sizes * 2:
        products |= {product * size for product in products if count % (product * size) == 0}
    if count not in products:
        raise ContractError(
            f"reference.py: reference(...) returned {count:,} of the {allocated:,} elements of output {found.name!r}, "
            f"which is no "
            f"product of the dims {format_dims(dims)}; return the whole output, name its sizes in --dims, or define "
            f"make_inputs(dims, seed)"
        )
