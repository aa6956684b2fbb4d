"""Infer a task's contract from what the kernel declares and what the probe saw (design 4). Pure: no file, no process.

Whatever is inferred rather than declared is said in one sentence, which `check` prints.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import prod
from pathlib import Path
from typing import NamedTuple

from tools.artifacts import Argument, NumericPolicy, Task
from tools.contracts.dims import beyond
from tools.errors import SettingsError
from tools.executors.protocol import KWARGS_PARAMETER, Parameter, ProbedArgument, ProbedWorkload, ProbeResult

CUT = "cut to the cap"
_FLOATS = ("float64", "float32", "float16", "bfloat16")


class Sources(NamedTuple):
    """How the user calls the two files; errors name them so."""

    kernel: str
    reference: str


def named(kernel: Path) -> str:
    """What a task without a name of its own is called: as its file, or as the folder around one that is only called
    `kernel`."""
    return kernel.resolve().parent.name or kernel.stem if kernel.stem == "kernel" else kernel.stem


def arguments(
    parameters: Sequence[Parameter], probe: ProbeResult, files: Sources
) -> tuple[tuple[Argument, ...], tuple[str, ...]]:
    """The task's arguments in ABI order, with the sentences that say what was inferred.

    Names, roles and shapes are the reference's, a scalar's C type is the kernel's. Raises SettingsError, showing both
    lists, when the two do not agree in number, kind, dtype or order.
    """
    first = probe.workloads[0]
    if all(parameter.pointer is None for parameter in parameters):
        parameters = _by_name(parameters, first.arguments, files)
    _agree(parameters, first.arguments, files)
    for workload in probe.workloads:
        _scalars_fit(parameters, workload, files)
    found, notes, known = [], _partly_compared(probe.workloads), _known(probe)
    for position, (parameter, seen) in enumerate(zip(parameters, first.arguments, strict=True)):
        name = f"`{seen.name}`"
        if parameter.name != seen.name:
            notes.append(f"The kernel's `{parameter.name}` is the reference's {name}, by position {position + 1}.")
        if parameter.const and seen.role == "output":
            notes.append(f"{name} is an output although the kernel declares it const.")
        shape, guesses = _shape(position, known)
        notes.extend(f"{name}: {guess}" for guess in guesses)
        dtype = seen.dtype if parameter.pointer or parameter.dtype is None else parameter.dtype
        found.append(Argument(name=seen.name, role=seen.role, dtype=dtype, shape=shape))
    notes.extend(_alike(known, found))
    if not any(argument.role == "output" for argument in found):
        raise SettingsError(
            f'{files.reference}: no argument is an output; set outputs = ("out",) beside make_inputs, or let '
            f"reference write into one"
        )
    return tuple(found), tuple(notes)


def _by_name(parameters: Sequence[Parameter], seen: Sequence[ProbedArgument], files: Sources) -> tuple[Parameter, ...]:
    """The kernel's parameters in the reference's order and with its types; SettingsError for names that have no
    partner."""
    named = {parameter.name: parameter for parameter in parameters}
    given = {argument.name for argument in seen}
    lists = f"{files.kernel} takes ({', '.join(named)}), {files.reference} gives ({', '.join(a.name for a in seen)})"
    unknown = [a.name for a in seen if a.name not in named] if KWARGS_PARAMETER not in named else []
    if unknown:
        raise SettingsError(
            f"the kernel does not take `{unknown[0]}`: {lists}; add it to run_kernel, or take {KWARGS_PARAMETER}"
        )
    missing = [p.name for p in parameters if p.name not in given and not p.optional]
    if missing:
        raise SettingsError(
            f"nothing gives the kernel its `{missing[0]}`: {lists}; add it to make_inputs, or rename one of the two"
        )
    return tuple(Parameter(name=a.name, dtype=a.dtype, pointer=a.role != "scalar") for a in seen)


def _agree(parameters: Sequence[Parameter], seen: Sequence[ProbedArgument], files: Sources) -> None:
    lists = (
        f"{files.kernel} takes ({', '.join(map(_declared, parameters))}), {files.reference} gives "
        f"({', '.join(map(_given, seen))})"
    )
    if len(parameters) != len(seen):
        raise SettingsError(
            f"the kernel and its reference differ in the number of arguments: {lists}; mend make_inputs in "
            f"{files.reference} so that it "
            "lists every parameter of the kernel in order"
        )
    declared, given = [p.name for p in parameters], [s.name for s in seen]
    if declared != given and set(declared) == set(given):
        raise SettingsError(
            f"the kernel and its reference name the same arguments in another order: {lists}; mend make_inputs in "
            f"{files.reference}: "
            f"the order of its dict must be {', '.join(declared)}"
        )
    for position, (parameter, argument) in enumerate(zip(parameters, seen, strict=True), start=1):
        problem = _mismatch(parameter, argument)
        if problem:
            raise SettingsError(
                f"argument {position} does not fit ({problem}): {lists}; mend {files.kernel} to take what the "
                f"reference gives"
            )


def _mismatch(parameter: Parameter, seen: ProbedArgument) -> str:
    tensor = seen.role != "scalar"
    if parameter.pointer != tensor:
        kind = "a tensor" if tensor else "a scalar"
        return (
            f"`{seen.name}` is {kind} in the reference and {'a pointer' if parameter.pointer else 'a scalar'} in "
            f"the kernel"
        )
    if tensor:
        return (
            ""
            if parameter.dtype == seen.dtype
            else f"`{seen.name}` holds {seen.dtype} in the reference and {parameter.dtype} in the kernel"
        )
    if seen.dtype in _FLOATS and parameter.dtype not in _FLOATS:
        return f"`{seen.name}` is a floating-point number in the reference and {parameter.dtype} in the kernel"
    return ""


def _scalars_fit(parameters: Sequence[Parameter], workload: ProbedWorkload, files: Sources) -> None:
    """Refuse a value that its C type cannot hold: it would reach the kernel as another one."""
    for parameter, seen in zip(parameters, workload.arguments, strict=True):
        dtype = parameter.dtype or seen.dtype
        outside = "" if parameter.pointer or seen.value is None else beyond(seen.value, dtype)
        if outside:
            raise SettingsError(
                f"workload {workload.name}: {seen.name}={outside}, as {files.kernel} takes it; give another value or "
                f"declare a wider type"
            )


def _partly_compared(workloads: Sequence[ProbedWorkload]) -> list[str]:
    """Which outputs the reference defines in part only: the rest of such a buffer is never looked at."""
    return [
        f"`{seen.name}`: {seen.compared:,} of {prod(seen.shape):,} elements are compared ({workload.name}), those "
        f"that reference() defines."
        for workload in workloads
        for seen in workload.arguments
        if seen.compared is not None and seen.compared < prod(seen.shape)
    ]


def _declared(parameter: Parameter) -> str:
    return f"{'const ' if parameter.const else ''}{parameter.dtype}{'*' if parameter.pointer else ''} {parameter.name}"


def _given(seen: ProbedArgument) -> str:
    kind = "scalar" if seen.role == "scalar" else f"{seen.role} tensor of {seen.dtype}"
    return f"{seen.name}: {kind}"


# ---------------------------------------------------------------- shapes and dims


def _known(probe: ProbeResult) -> tuple[ProbedWorkload, ...]:
    """The workloads, and what make_inputs gave at other sizes as long as it has as many axes."""
    ranks = [len(a.shape) for a in probe.workloads[0].arguments]
    others = probe.tried if probe.has_make_inputs else ()
    return (*probe.workloads, *(w for w in others if [len(a.shape) for a in w.arguments] == ranks))


def _shape(position: int, workloads: Sequence[ProbedWorkload]) -> tuple[tuple[str, ...], list[str]]:
    """Each axis as the name of the dim that it follows over all workloads, else as its number."""
    shapes = [w.arguments[position].shape for w in workloads]
    if len({len(shape) for shape in shapes}) > 1:
        raise SettingsError(
            f"argument `{workloads[0].arguments[position].name}` has another number of axes from workload to workload"
        )
    names: list[str] = []
    guesses: list[str] = []
    for axis in range(len(shapes[0])):
        extents = [shape[axis] for shape in shapes]
        matches = [
            d for d in _integer_dims(workloads) if all(w.dims[d] == e for w, e in zip(workloads, extents, strict=True))
        ]
        fresh = [d for d in matches if d not in names]
        if matches:
            names.append((fresh or matches)[0])
        elif len(set(extents)) == 1:
            names.append(str(extents[0]))
        else:
            names.append(str(extents[0]))
            guesses.append(f"axis {axis} follows no single dim; its extent is shown for workload {workloads[0].name}.")
    return tuple(names), guesses


def _alike(workloads: Sequence[ProbedWorkload], found: Sequence[Argument]) -> list[str]:
    """Dims that have the same size in every workload, so that no shape can tell them apart."""
    named = {axis for argument in found for axis in argument.shape}
    sizes: dict[tuple[int | float, ...], list[str]] = {}
    for dim in _integer_dims(workloads):
        sizes.setdefault(tuple(w.dims[dim] for w in workloads), []).append(dim)
    return [
        f"{' and '.join(dims)} have the same size in every workload, so that shapes may name one for the other; "
        f"use unequal sizes in one "
        "workload at least, so that they can be told apart."
        for dims in sizes.values()
        if len(dims) > 1 and named & set(dims)
    ]


def _integer_dims(workloads: Sequence[ProbedWorkload]) -> list[str]:
    return [
        d
        for d in workloads[0].dims
        if all(isinstance(w.dims.get(d), int) and not isinstance(w.dims[d], bool) for w in workloads)
    ]


def dims_range(probe: ProbeResult, files: Sources) -> tuple[dict[str, tuple[int, int]], tuple[str, ...]]:
    """The ranges of hidden workloads: the reference's own, else derived from the visible ones.

    Derived is each integer dim that the extent of some axis, or with another dim their product, follows (in the seed
    style: the two largest): [smallest visible / 4, largest visible].
    """
    integers = _integer_dims(probe.workloads)
    if probe.dims_range:
        for name, (low, high) in probe.dims_range.items():
            if name not in integers:
                allowed = ", ".join(integers) or "none"
                raise SettingsError(
                    f"{files.reference}: dims_range names `{name}`, which is no integer dim of the workloads; use "
                    f"{allowed}"
                )
            if not 1 <= low <= high:
                raise SettingsError(
                    f"{files.reference}: dims_range of `{name}` is ({low}, {high}); it must be 1 <= low <= high"
                )
        return dict(probe.dims_range), _refused(probe, integers, files)
    found = {}
    varied = _followed(_known(probe), integers) if probe.has_make_inputs else _largest(probe.workloads[0], integers)
    for name in varied:
        least = min(int(w.dims[name]) for w in probe.workloads)
        if least < 1:
            raise SettingsError(f"dims: {name}={least} sizes an argument; give 1 or more")
        found[name] = guessed_range([int(w.dims[name]) for w in probe.workloads])
    if not found:
        return {}, ("No shape follows an integer dim, so that no hidden sizes are drawn.",)
    listed = ", ".join(f"{name} in {low}…{high}" for name, (low, high) in found.items())
    return found, (
        (
            f"Hidden sizes are drawn from {listed} (a quarter of the smallest visible to the largest); set dims_range "
            f"to change that."
        ),
        *_refused(probe, integers, files),
    )


def _refused(probe: ProbeResult, integers: list[str], files: Sources) -> tuple[str, ...]:
    """A sentence for each size that the reference refused; SettingsError where it took no other than the workloads'
    own."""
    if probe.refused and not probe.tried:
        own = ", ".join(
            f'"{name}": ({probe.workloads[0].dims[name]}, {probe.workloads[0].dims[name]})' for name in integers
        )
        raise SettingsError(
            f"{files.reference}: refuses every size that was tried beside the workloads' own, first "
            f"{probe.refused[0]}; "
            f"set dims_range there to sizes that it takes, such as dims_range = {{{own}}}"
        )
    return tuple(
        f"The reference refuses {sizes}: where such sizes are drawn, others are asked in their place."
        for sizes in probe.refused
    )


def guessed_range(values: Sequence[int]) -> tuple[int, int]:
    """The range of a dim that the user gives none for, from its visible sizes."""
    return max(1, min(values) // 4), max(values)


def _largest(workload: ProbedWorkload, integers: list[str]) -> list[str]:
    chosen = sorted(integers, key=lambda d: -workload.dims[d])[:2]
    return [d for d in integers if d in chosen and workload.dims[d] > 1]


def _followed(workloads: Sequence[ProbedWorkload], integers: list[str]) -> list[str]:
    extents = {
        tuple(w.arguments[position].shape[axis] for w in workloads)
        for position, argument in enumerate(workloads[0].arguments)
        for axis in range(len(argument.shape))
    }
    singles = [d for d in integers if tuple(w.dims[d] for w in workloads) in extents]
    pairs = [
        pair
        for pair in combinations(integers, 2)
        if tuple(prod(int(w.dims[d]) for d in pair) for w in workloads) in extents
    ]
    # A product names dims only where no single dim explains that extent: with N = 1, M alone does.
    explained = {tuple(w.dims[d] for w in workloads) for d in singles}
    products = {
        d
        for pair in pairs
        if tuple(prod(int(w.dims[d]) for d in pair) for w in workloads) not in explained
        for d in pair
    }
    return [d for d in integers if d in singles or d in products]


# ---------------------------------------------------------------- tolerance


def numeric(
    probe: ProbeResult, arguments: Sequence[Argument], policy: NumericPolicy
) -> tuple[NumericPolicy, tuple[str, ...]]:
    """The numeric policy with the reference's rtol as floor of its outputs' dtypes, never above the cap, and its atol.

    What reads nothing in double precision may compute a double output in float32.
    """
    notes = []
    floor, cap = dict(policy.floor), dict(policy.cap)
    written = sorted({a.dtype for a in arguments if a.role == "output" and a.dtype in floor})
    read = {a.dtype for a in arguments if a.role == "input" and a.dtype in floor}
    if "float64" in written and read and "float64" not in read:
        floor["float64"], cap["float64"] = floor["float32"], cap["float32"]
        notes.append(
            "No input is float64: a float64 output is held to what arithmetic in float32 gives; a smaller rtol asks "
            "for more."
        )
    for dtype in written if probe.rtol is not None else ():
        floor[dtype] = min(probe.rtol or 0.0, cap[dtype])
        capped = (
            f", {CUT} {cap[dtype]:g}, which `tolerance: as_stated` in the config lifts"
            if floor[dtype] != probe.rtol
            else ""
        )
        notes.append(
            f"The reference's rtol {probe.rtol:g} becomes the relative error that always passes in {dtype}{capped}."
        )
    passing = [kind for kind, error in probe.coarse.items() if "float32" in written and error <= floor["float32"]]
    if passing and policy.precision == "ieee":
        notes.append(
            f"That rtol is coarse: inputs rounded to {passing[0]} pass it, and so may a kernel that computes in "
            f"{passing[0]}."
        )
    if probe.atol:
        notes.append(
            f"The reference's atol {probe.atol:g}: elements within atol + rtol · |reference| are taken as right, up "
            f"to the cap."
        )
    return policy.model_copy(
        update={"floor": floor, "cap": cap, "rtol": probe.rtol, "atol": probe.atol or None}
    ), tuple(notes)


def as_stated(task: Task) -> Task:
    """The task under the rtol and atol of its reference alone: no cap on the errors of its outputs."""
    policy, written = task.numeric, {a.dtype for a in task.outputs}
    if policy.rtol is None and policy.atol is None:
        return task
    floor = {
        dtype: value if policy.rtol is None or dtype not in written else policy.rtol
        for dtype, value in policy.floor.items()
    }
    cap = {dtype: value for dtype, value in policy.cap.items() if dtype not in written}
    stated = " and ".join(
        f"{name} {value:g}" for name, value in (("rtol", policy.rtol), ("atol", policy.atol)) if value is not None
    )
    notes = (
        *(said for said in task.inferred if CUT not in said),
        f"Tolerance as stated: {stated} hold for the outputs without a cap.",
    )
    return task.model_copy(
        update={"numeric": policy.model_copy(update={"floor": floor, "cap": cap}), "inferred": notes}
    )
