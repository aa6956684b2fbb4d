"""Infer a task's contract from the kernel's parameters and the probe of its reference. Pure: no file and no process.

Each property that is inferred and not declared gets one sentence, which `check` prints.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import prod
from pathlib import Path
from typing import NamedTuple

from tools.artifacts import Argument, NumericTolerance, Task
from tools.contracts.dims import reason_out_of_range
from tools.errors import SettingsError
from tools.executors.protocol import KWARGS_PARAMETER, Parameter, ProbedArgument, ProbedWorkload, ProbeResult

CUT_TO_CAP = "cut to the cap"
_FLOATS = ("float64", "float32", "float16", "bfloat16")


class SourceNames(NamedTuple):
    """File names of kernel and reference as the user calls them, for error messages."""

    kernel: str
    reference: str


def default_task_name(kernel: Path) -> str:
    """Return the name of a task that declares none: the kernel file's stem, or its folder's name if the stem is
    `kernel`."""
    return kernel.resolve().parent.name or kernel.stem if kernel.stem == "kernel" else kernel.stem


def infer_arguments(
    parameters: Sequence[Parameter], probe: ProbeResult, files: SourceNames
) -> tuple[tuple[Argument, ...], tuple[str, ...]]:
    """Return the task's arguments in ABI order, and a sentence for each property that was inferred.

    Names, roles and shapes come from the reference, the C types of scalars from the kernel. Raises SettingsError,
    which shows both argument lists, if the two differ in number, kind, dtype or order.
    """
    first = probe.workloads[0]
    if all(parameter.pointer is None for parameter in parameters):
        parameters = _match_by_name(parameters, first.arguments, files)
    _refuse_disagreement(parameters, first.arguments, files)
    for workload in probe.workloads:
        _refuse_scalars_out_of_range(parameters, workload, files)
    inferred, notes, workloads = [], _partial_output_notes(probe.workloads), _workloads_of_equal_rank(probe)
    for position, (parameter, argument) in enumerate(zip(parameters, first.arguments, strict=True)):
        name = f"`{argument.name}`"
        if parameter.name != argument.name:
            notes.append(f"The kernel's `{parameter.name}` is the reference's {name}, by position {position + 1}.")
        if parameter.const and argument.role in ("output", "inout"):
            notes.append(f"{name} is {argument.role} although the kernel declares it const.")
        shape, guesses = _infer_shape(position, workloads)
        notes.extend(f"{name}: {guess}" for guess in guesses)
        dtype = argument.dtype if parameter.pointer or parameter.dtype is None else parameter.dtype
        inferred.append(Argument(name=argument.name, role=argument.role, dtype=dtype, shape=shape))
    notes.extend(_equal_dims_notes(workloads, inferred))
    if not any(argument.is_written for argument in inferred):
        raise SettingsError(
            f'{files.reference}: no argument is an output; set outputs = ("out",) beside make_inputs, or let '
            f"reference write into one"
        )
    return tuple(inferred), tuple(notes)


def _match_by_name(
    parameters: Sequence[Parameter], reference_arguments: Sequence[ProbedArgument], files: SourceNames
) -> tuple[Parameter, ...]:
    """Return the kernel's parameters in the order and with the types of the reference.

    Raises SettingsError for a name that only one of the two has.
    """
    parameter_by_name = {parameter.name: parameter for parameter in parameters}
    reference_names = {argument.name for argument in reference_arguments}
    lists = (
        f"{files.kernel} takes ({', '.join(parameter_by_name)}), "
        f"{files.reference} gives ({', '.join(argument.name for argument in reference_arguments)})"
    )
    not_taken = (
        [a.name for a in reference_arguments if a.name not in parameter_by_name]
        if KWARGS_PARAMETER not in parameter_by_name
        else []
    )
    if not_taken:
        raise SettingsError(
            f"the kernel does not take `{not_taken[0]}`: {lists}; add it to run_kernel, or take {KWARGS_PARAMETER}"
        )
    missing = [p.name for p in parameters if p.name not in reference_names and not p.optional]
    if missing:
        raise SettingsError(
            f"nothing gives the kernel its `{missing[0]}`: {lists}; add it to make_inputs, or rename one of the two"
        )
    return tuple(Parameter(name=a.name, dtype=a.dtype, pointer=a.role != "scalar") for a in reference_arguments)


def _refuse_disagreement(
    parameters: Sequence[Parameter], reference_arguments: Sequence[ProbedArgument], files: SourceNames
) -> None:
    lists = (
        f"{files.kernel} takes ({', '.join(map(_format_parameter, parameters))}), {files.reference} gives "
        f"({', '.join(map(_format_argument, reference_arguments))})"
    )
    if len(parameters) != len(reference_arguments):
        raise SettingsError(
            f"the kernel and its reference differ in the number of arguments: {lists}; correct make_inputs in "
            f"{files.reference} so that it lists every parameter of the kernel in order"
        )
    kernel_names, reference_names = [p.name for p in parameters], [s.name for s in reference_arguments]
    if kernel_names != reference_names and set(kernel_names) == set(reference_names):
        raise SettingsError(
            f"the kernel and its reference name the same arguments in another order: {lists}; correct make_inputs in "
            f"{files.reference}: the order of its dict must be {', '.join(kernel_names)}"
        )
    for position, (parameter, argument) in enumerate(zip(parameters, reference_arguments, strict=True), start=1):
        problem = _mismatch_reason(parameter, argument)
        if problem:
            raise SettingsError(
                f"argument {position} does not fit ({problem}): {lists}; change {files.kernel} to take what the "
                f"reference gives"
            )


def _mismatch_reason(parameter: Parameter, argument: ProbedArgument) -> str:
    tensor = argument.role != "scalar"
    if parameter.pointer != tensor:
        kind = "a tensor" if tensor else "a scalar"
        return (
            f"`{argument.name}` is {kind} in the reference and {'a pointer' if parameter.pointer else 'a scalar'} in "
            f"the kernel"
        )
    if tensor:
        return (
            ""
            if parameter.dtype == argument.dtype
            else f"`{argument.name}` holds {argument.dtype} in the reference and {parameter.dtype} in the kernel"
        )
    if argument.dtype in _FLOATS and parameter.dtype not in _FLOATS:
        return f"`{argument.name}` is a floating-point number in the reference and {parameter.dtype} in the kernel"
    return ""


def _refuse_scalars_out_of_range(parameters: Sequence[Parameter], workload: ProbedWorkload, files: SourceNames) -> None:
    """Raise SettingsError for a scalar that its C type cannot hold: the kernel would receive another value."""
    for parameter, argument in zip(parameters, workload.arguments, strict=True):
        dtype = parameter.dtype or argument.dtype
        outside = "" if parameter.pointer or argument.value is None else reason_out_of_range(argument.value, dtype)
        if outside:
            raise SettingsError(
                f"workload {workload.name}: {argument.name}={outside}, the type that {files.kernel} declares; give "
                f"another value or declare a wider type"
            )


def _partial_output_notes(workloads: Sequence[ProbedWorkload]) -> list[str]:
    """Return a sentence for each output that the reference defines only in part; the rest of its buffer is not
    compared."""
    return [
        f"`{argument.name}`: {argument.compared:,} of {prod(argument.shape):,} elements are compared in "
        f"{workload.name}, those that reference() defines."
        for workload in workloads
        for argument in workload.arguments
        if argument.compared is not None and argument.compared < prod(argument.shape)
    ]


def _format_parameter(parameter: Parameter) -> str:
    return f"{'const ' if parameter.const else ''}{parameter.dtype}{'*' if parameter.pointer else ''} {parameter.name}"


def _format_argument(argument: ProbedArgument) -> str:
    kind = "scalar" if argument.role == "scalar" else f"{argument.role} tensor of {argument.dtype}"
    return f"{argument.name}: {kind}"


# ---------------------------------------------------------------- shapes and dims


def _workloads_of_equal_rank(probe: ProbeResult) -> tuple[ProbedWorkload, ...]:
    """Return the visible workloads, and those at other sizes whose arguments have the same numbers of axes."""
    ranks = [len(a.shape) for a in probe.workloads[0].arguments]
    other_sizes = probe.tried if probe.has_make_inputs else ()
    return (*probe.workloads, *(w for w in other_sizes if [len(a.shape) for a in w.arguments] == ranks))


def _infer_shape(position: int, workloads: Sequence[ProbedWorkload]) -> tuple[tuple[str, ...], list[str]]:
    """Return the shape of the argument at `position`, and a sentence for each axis that is a guess.

    An axis is the name of the dim that it equals in all workloads, else its extent in the first workload.
    """
    shapes = [w.arguments[position].shape for w in workloads]
    if len({len(shape) for shape in shapes}) > 1:
        raise SettingsError(
            f"argument `{workloads[0].arguments[position].name}` has a different number of axes in different workloads"
        )
    names: list[str] = []
    notes: list[str] = []
    for axis in range(len(shapes[0])):
        extents = [shape[axis] for shape in shapes]
        matches = [
            d for d in _integer_dims(workloads) if all(w.dims[d] == e for w, e in zip(workloads, extents, strict=True))
        ]
        unused = [d for d in matches if d not in names]
        if matches:
            names.append((unused or matches)[0])
        elif len(set(extents)) == 1:
            names.append(str(extents[0]))
        else:
            names.append(str(extents[0]))
            notes.append(f"axis {axis} equals no single dim; its extent is that of workload {workloads[0].name}.")
    return tuple(names), notes


def _equal_dims_notes(workloads: Sequence[ProbedWorkload], arguments: Sequence[Argument]) -> list[str]:
    """Return a sentence for each group of dims with equal sizes in every workload: no shape tells them apart."""
    dims_in_shapes = {axis for argument in arguments for axis in argument.shape}
    sizes: dict[tuple[int | float, ...], list[str]] = {}
    for dim in _integer_dims(workloads):
        sizes.setdefault(tuple(w.dims[dim] for w in workloads), []).append(dim)
    return [
        f"{' and '.join(dims)} have the same size in every workload, so a shape may name one instead of the "
        f"other; give them different sizes in at least one workload."
        for dims in sizes.values()
        if len(dims) > 1 and dims_in_shapes & set(dims)
    ]


def _integer_dims(workloads: Sequence[ProbedWorkload]) -> list[str]:
    return [
        d
        for d in workloads[0].dims
        if all(isinstance(w.dims.get(d), int) and not isinstance(w.dims[d], bool) for w in workloads)
    ]


def infer_dims_range(probe: ProbeResult, files: SourceNames) -> tuple[dict[str, tuple[int, int]], tuple[str, ...]]:
    """Return the dim ranges from which hidden workloads are drawn, and sentences about how they were inferred.

    The reference's own `dims_range` is used if it has one. Otherwise each integer dim that equals the extent of an axis
    (alone, or as a product with another dim) gets the range [smallest visible / 4, largest visible]; in the seed style
    these are the two largest dims. Raises SettingsError for a range that cannot be used.
    """
    integers = _integer_dims(probe.workloads)
    if probe.dims_range:
        for name, (low, high) in probe.dims_range.items():
            if name not in integers:
                allowed = ", ".join(integers) or "none"
                raise SettingsError(
                    f"{files.reference}: dims_range names `{name}`, which is not an integer dim of the workloads; use "
                    f"{allowed}"
                )
            if not 1 <= low <= high:
                raise SettingsError(
                    f"{files.reference}: dims_range of `{name}` is ({low}, {high}); it must be 1 <= low <= high"
                )
        return dict(probe.dims_range), _refused_sizes_notes(probe, integers, files)
    ranges = {}
    range_dims = (
        _dims_that_shapes_follow(_workloads_of_equal_rank(probe), integers)
        if probe.has_make_inputs
        else _two_largest_dims(probe.workloads[0], integers)
    )
    for name in range_dims:
        smallest = min(int(w.dims[name]) for w in probe.workloads)
        if smallest < 1:
            raise SettingsError(f"dims: {name}={smallest} sizes an argument; give 1 or more")
        ranges[name] = default_range([int(w.dims[name]) for w in probe.workloads])
    if not ranges:
        return {}, ("No shape depends on an integer dim, so no hidden sizes are drawn.",)
    ranges_text = ", ".join(f"{name} in {low}…{high}" for name, (low, high) in ranges.items())
    return ranges, (
        (
            f"Hidden sizes are drawn from {ranges_text} (a quarter of the smallest visible size to the largest); set "
            f"dims_range to change that."
        ),
        *_refused_sizes_notes(probe, integers, files),
    )


def _refused_sizes_notes(probe: ProbeResult, integers: list[str], files: SourceNames) -> tuple[str, ...]:
    """Return a sentence for each size that the reference refused.

    Raises SettingsError if it accepted no size except those of the workloads.
    """
    if probe.refused and not probe.tried:
        example = ", ".join(
            f'"{name}": ({probe.workloads[0].dims[name]}, {probe.workloads[0].dims[name]})' for name in integers
        )
        raise SettingsError(
            f"{files.reference}: the reference refuses every size that was tried except those of the workloads, first "
            f"{probe.refused[0]}; set dims_range there to sizes that it accepts, such as dims_range = {{{example}}}"
        )
    return tuple(
        f"The reference refuses {sizes}; if such sizes are drawn, others replace them." for sizes in probe.refused
    )


def default_range(values: Sequence[int]) -> tuple[int, int]:
    """Return the range of a dim without a range of the user: a quarter of its smallest visible size to its largest."""
    return max(1, min(values) // 4), max(values)


def _two_largest_dims(workload: ProbedWorkload, integers: list[str]) -> list[str]:
    largest = sorted(integers, key=lambda d: -workload.dims[d])[:2]
    return [d for d in integers if d in largest and workload.dims[d] > 1]


def _dims_that_shapes_follow(workloads: Sequence[ProbedWorkload], integers: list[str]) -> list[str]:
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


def infer_tolerance(
    probe: ProbeResult, arguments: Sequence[Argument], policy: NumericTolerance
) -> tuple[NumericTolerance, tuple[str, ...]]:
    """Return the error limits with the rtol and atol of the reference, and a sentence for each change.

    The rtol becomes the floor of the outputs' dtypes, limited by the cap. A float64 output of a task without a float64
    input gets the limits of float32; so does an 8-bit output where no input is of fewer bits.
    """
    notes = []
    floor, cap = dict(policy.floor), dict(policy.cap)
    output_dtypes = sorted({a.dtype for a in arguments if a.is_written and a.dtype in floor})
    input_dtypes = {a.dtype for a in arguments if a.is_read and a.dtype in floor}
    if "float64" in output_dtypes and input_dtypes and "float64" not in input_dtypes:
        floor["float64"], cap["float64"] = floor["float32"], cap["float32"]
        notes.append(
            "No input is float64, so a float64 output has the error limits of float32; a smaller rtol makes them "
            "stricter."
        )
    for dtype in output_dtypes if input_dtypes <= {"float64", "float32"} else ():
        if dtype.startswith("float8"):
            floor[dtype], cap[dtype] = floor["float32"], cap["float32"]
    for dtype in output_dtypes if probe.rtol is not None else ():
        floor[dtype] = min(probe.rtol or 0.0, cap[dtype])
        capped = (
            f", {CUT_TO_CAP} {cap[dtype]:g}, which `tolerance: as_stated` in the config lifts"
            if floor[dtype] != probe.rtol
            else ""
        )
        notes.append(
            f"The reference's rtol {probe.rtol:g} becomes the relative error that always passes in {dtype}{capped}."
        )
    coarse_kinds = [
        kind for kind, error in probe.coarse.items() if "float32" in output_dtypes and error <= floor["float32"]
    ]
    if coarse_kinds and policy.precision == "ieee":
        notes.append(
            f"This rtol is coarse: inputs rounded to {coarse_kinds[0]} pass it, so a kernel that computes in "
            f"{coarse_kinds[0]} may pass too."
        )
    if probe.atol:
        notes.append(
            f"The reference's atol is {probe.atol:g}: elements within atol + rtol · |reference| are correct, up to "
            f"the cap."
        )
    return policy.model_copy(
        update={"floor": floor, "cap": cap, "rtol": probe.rtol, "atol": probe.atol or None}
    ), tuple(notes)


def lift_error_caps(task: Task) -> Task:
    """Return the task with the rtol and atol of its reference and without caps on the errors of its outputs."""
    policy, output_dtypes = task.numeric, {a.dtype for a in task.outputs}
    if policy.rtol is None and policy.atol is None:
        return task
    floor = {
        dtype: value if policy.rtol is None or dtype not in output_dtypes else policy.rtol
        for dtype, value in policy.floor.items()
    }
    cap = {dtype: value for dtype, value in policy.cap.items() if dtype not in output_dtypes}
    stated = " and ".join(
        f"{name} {value:g}" for name, value in (("rtol", policy.rtol), ("atol", policy.atol)) if value is not None
    )
    notes = (
        *(note for note in task.inferred if CUT_TO_CAP not in note),
        f"Tolerance as stated: {stated} apply to the outputs without a cap.",
    )
    return task.model_copy(
        update={"numeric": policy.model_copy(update={"floor": floor, "cap": cap}), "inferred": notes}
    )
