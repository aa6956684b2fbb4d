"""Compiles a reference with torch.compile and returns Inductor's generated code as text, with its relation to the
task's arguments."""

import contextlib
import inspect
import math
import re
import time
import warnings
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement

import sympy
import torch
from torch._inductor import async_compile, compile_fx, config, cpu_vec_isa, graph
from torch._inductor.choices import InductorChoices
from torch._inductor.runtime import triton_helpers, triton_heuristics
from torch._inductor.runtime.hints import ReductionHint
from torch._inductor.virtualized import V
from torch.fx.experimental import _config as symbolic
from torch.utils._sympy.functions import FloorDiv, ToFloat
from torch.utils._sympy.printers import PythonPrinter

from harness.reference.comparison import results
from harness.reference.contract import Arg, Contract, ContractError, first_line

MOST_STATIC = 4
"""Visible workloads that get code of their own; compiling the lifted source takes time for each."""
OFFSETS = 9
"""Exclusive bound of the offset that a formula for a size may add to a multiple or part of scalars."""


BASE_SETTINGS = {"fx_graph_cache": False}
SEPARATE_BUFFER_SETTINGS = {**BASE_SETTINGS, "inplace_buffers": False}
"""Settings for code in which a torch operator returns a buffer. Such a buffer is not one of the task's outputs, and
changing it in place would cost a copy."""
QUEUED_CYCLES = 2_000_000
BACKENDS = ("max_autotune_gemm_backends", "max_autotune_conv_backends")
FALLBACK = {"test_configs.max_mm_configs": 4}
"""Number of a product's templates for sizes that are not timed: each takes a second or two to compile."""


LONGEST_ROW = 1 << 16
"""Elements that one block of 1024 threads can hold in registers."""


class WholeRows(InductorChoices):
    """Choices that hold a row in registers where possible, so that it is read once and not once per pass."""

    @staticmethod
    def should_use_persistent_reduction(features, cooperative_reduction: bool) -> bool:
        return InductorChoices.should_use_persistent_reduction(features, cooperative_reduction) or (
            features.get_reduction_hint() is ReductionHint.INNER
            and V.graph.sizevars.statically_known_leq(features.reduction_numel, LONGEST_ROW)
        )


class SeparatePasses(InductorChoices):
    """Choices that give the operations after a reduction a kernel of their own. A row is not its unit, so that it uses
    vector accesses even if rows are not aligned."""

    @staticmethod
    def can_fuse_vertical(scheduler, node1, node2, shared_data_score: int) -> bool:
        return not node1.is_reduction() or node2.is_reduction()


class RecordingDone(BaseException):
    """Stops torch.compile once the code is recorded; nobody needs to run it. Not an Exception, because torch would wrap
    it."""


class InductorRecorder:
    """Records what torch compiles. Inductor's C++ compiler is skipped, because its input is all that is needed."""

    def __init__(self, device: str):
        self.device = device
        self.code: list[str] = []
        self.inputs: list[str] = []
        self.guards: list[sympy.Basic] = []
        self.symbols: dict[sympy.Symbol, str] = {}
        self.launches: dict[str, dict] = {}
        self.seconds = 0.0

    @property
    def has_kernels(self) -> bool:
        """Whether the code contains kernels of Inductor's own."""
        return self.device == "cpu" or any(name in self.code[-1] for name in self.launches)

    def backend(self, module, examples):
        """Compile a module as torch.compile's backend, and record its inputs and its conditions on sizes."""
        self.inputs = [bound(node.meta["grapharg"].source) for node in module.graph.nodes if node.op == "placeholder"]
        compiled_module = compile_fx.compile_fx(module, examples)
        shapes = torch._guards.TracingContext.get().fake_mode.shape_env
        if shapes is not None:
            self.guards = [guard.expr for guard in shapes.guards]
            self.symbols = {symbol: bound(sources[0]) for symbol, sources in shapes.var_to_sources.items() if sources}
        return self.stop if self.device == "cpu" else compiled_module

    def stop(self, *_):
        raise RecordingDone

    @contextlib.contextmanager
    def recording(self, settings: dict):
        """Context in which generated code and kernel launches are recorded."""
        originals = (
            graph.GraphLowering.save_output_code,
            async_compile.AsyncCompile.cpp_pybinding,
            config.cpp.vec_isa_ok,
        )
        graph.GraphLowering.save_output_code = staticmethod(self.code.append)
        run = triton_heuristics.CachingAutotuner.run
        if self.device == "cpu":
            async_compile.AsyncCompile.cpp_pybinding = lambda *_: lambda *_: None
            config.cpp.vec_isa_ok = True
        else:
            triton_heuristics.CachingAutotuner.run = self.recording_launches(run)
        try:
            with (
                config.patch(settings),
                symbolic.patch(use_duck_shape=False),
                torch._functorch.config.patch(enable_autograd_cache=False),
            ):
                yield self
        except RecordingDone:
            pass
        finally:
            graph.GraphLowering.save_output_code, async_compile.AsyncCompile.cpp_pybinding, config.cpp.vec_isa_ok = (
                originals
            )
            triton_heuristics.CachingAutotuner.run = run

    def recording_launches(self, run):
        """Return the autotuner's method `run`, extended to record the launch."""

        def run_and_record(tuner, *args, **kwargs):
            result = run(tuner, *args, **kwargs)
            self.launches[tuner.inductor_meta["kernel_name"]] = launch_of(tuner)
            return result

        return run_and_record


def bound(source) -> str:
    """Return the argument that a source names: `x`, or `x.0` for the size of its first dimension and `x.-0` for its
    stride."""
    text = source.name() if callable(source.name) else source.name
    found = re.search(r"\['(\w+)'\](?:\.(size|stride)\(\)\[(\d+)\])?$", text)
    return (
        text
        if found is None
        else found[1]
        if found[2] is None
        else f"{found[1]}.{'' if found[2] == 'size' else '-'}{found[3]}"
    )


def generate_variants(
    contract: Contract, build, visible: list[dict], others: list[list[dict]], seconds: float, library: tuple = ()
) -> dict:
    """Return an InductorResult (tools/executors/protocol.py) as a dict.

    `build(dims)` makes the arguments. Each list in `others` holds alternative sizes, of which the first that the
    reference accepts represents sizes beyond the visible workloads. No search begins after `seconds`. `library` names
    torch operators that the code may call. Raises ContractError if the reference cannot be compiled, or if the code is
    for the visible values of a scalar only and other sizes have further ones.
    """
    begun = time.monotonic()
    # Half of the time is for the sizes after the first.
    wanted = GenerationRequest(begun + seconds, tuple(library), begun + seconds / 2)
    samples = [SizeSample(dims, build(dims)) for dims in visible]
    samples += [found for found in (first_accepted_arguments(contract, build, choices) for choices in others) if found]
    scalars = [sample.scalars for sample in samples]
    formulas = {
        name: [
            formula(scalars, [s.shapes[name][at] for s in samples], f"{name}.shape[{at}]") for at in range(len(shape))
        ]
        for name, shape in samples[0].shapes.items()
    }
    variants = [generate_code(contract, build(dims), None, formulas, wanted) for dims in visible[:MOST_STATIC]]
    if any(other != scalars[0] for other in scalars):
        varying = {name: [at for at, size in enumerate(sizes) if size.free_symbols] for name, sizes in formulas.items()}
        # Code for one value of a scalar only is made for each visible value.
        for sample in [*sorted(samples[: len(visible)], key=lambda s: -s.elements), *samples[len(visible) :]]:
            if not any(v["sizes"] is not None and covers(v, sample.scalars) for v in variants):
                variants.append(generate_code(contract, build(sample.dims), varying, formulas, wanted))
    several = [fixed(variant["sizes"], scalars) for variant in variants if variant["sizes"] is not None]
    for name in sorted(set.intersection(*several) if several else ()):
        values = {s.scalars[name] for s in samples[: len(visible)]}
        if any(s.scalars[name] not in values for s in samples):
            raise ContractError(
                f"torch.compile makes other code for each value of {name}, and hidden sizes take further values; leave "
                f"{name} out of dims_range"
            )
    return {
        "kind": "inductor",
        "shapes": {name: [python_text(f) for f in found] for name, found in formulas.items()},
        "variants": [{k: v for k, v in variant.items() if k != "sizes"} for variant in variants],
        "vector_bytes": cpu_vec_isa.pick_vec_isa().bit_width() // 8 if contract.device == "cpu" else 0,
    }


def fixed(sizes: list, scalars: list[dict]) -> set[str]:
    """Return the integer scalars with several values for which the code holds for one value only."""
    names = set()
    for guard in sizes:
        # A condition on a remainder leaves many values.
        if (
            isinstance(guard, sympy.Eq)
            and len(guard.free_symbols) == 1
            and (guard.lhs - guard.rhs).is_polynomial(*guard.free_symbols)
        ):
            names |= {symbol.name for symbol in guard.free_symbols}
    return {name for name in names if len({values[name] for values in scalars}) > 1}


class SizeSample:
    """Shapes, scalars and total size of the arguments at one set of dims, without the tensors."""

    def __init__(self, dims: dict, args: list[Arg]):
        self.dims = dims
        self.scalars = {a.name: a.value for a in args if not a.is_tensor}
        self.shapes = {a.name: list(a.value.shape) for a in args if a.is_tensor}
        self.elements = sum(a.value.numel() for a in args if a.is_tensor)


def first_accepted_arguments(contract: Contract, build, choices: list[dict]):
    """Return the sample of the first choice that the reference accepts, or None."""
    for dims in choices:
        try:
            args = build(dims)
            results(contract, args)
        except ContractError:
            continue
        return SizeSample(dims, args)
    return None


def formula(scalars: list[dict], values: list[int], name: str) -> sympy.Expr:
    """Express a size by integer scalars so that it holds in all samples: a scalar, a product of two, or a multiple or a
    quotient of these, plus a small offset. Raises ContractError if there is no such formula."""
    if len(set(values)) == 1:
        return sympy.Integer(values[0])
    integers = [name for name, value in scalars[0].items() if isinstance(value, int) and not isinstance(value, bool)]
    for factors in [(n,) for n in integers] + list(combinations_with_replacement(integers, 2)):
        product = sympy.Mul(*(sympy.Symbol(n, integer=True, positive=True) for n in factors))
        products = [math.prod(s[n] for n in factors) for s in scalars]
        for offset in sorted(range(-OFFSETS, OFFSETS + 1), key=abs):
            multiple = (values[0] - offset) // products[0] if products[0] else 0
            if multiple and all(
                value == multiple * base + offset for value, base in zip(values, products, strict=True)
            ):
                return multiple * product + offset
            divisor = round((products[0] + offset) / values[0]) if values[0] else 0
            if divisor > 1 and all(
                value == (base + offset) // divisor for value, base in zip(values, products, strict=True)
            ):
                return FloorDiv(product + offset, sympy.Integer(divisor))
    raise ContractError(
        f"the size {name} is no simple formula of the scalars, so that one kernel cannot serve all workloads; give the "
        f"size as an argument of its own, or name one workload with --dims"
    )


@dataclass
class GenerationRequest:
    """Limits of code generation.

    `end` is the time after which no search begins, `library` names the torch operators that the code may call, and
    after `spare` only one search is made.
    """

    end: float
    library: tuple[str, ...]
    spare: float = math.inf

    def search_settings(self) -> dict:
        """Return Inductor's settings for a search over configurations."""
        backends = "ATEN,TRITON" if self.library else "TRITON"
        return {"max_autotune": True, "coordinate_descent_tuning": True, **dict.fromkeys(BACKENDS, backends)}

    def calls_other_operators(self, code: str) -> bool:
        """Whether the code calls a torch operator that is not allowed."""
        return any(f"aten.{name}" not in self.library for _, name in operators(code))


def operators(code: str) -> list[tuple[str, str]]:
    """Return torch's operators in the wrapper as (prefix, name); the prefix is "= " where the operator returns a
    buffer."""
    return re.findall(r"(= )?(?:extern_kernels|torch\.ops\.aten)\.(\w+)[.\w]*\(", code.partition("def call")[2])


def generate_code(
    contract: Contract, args: list[Arg], varying: dict[str, list[int]] | None, formulas: dict, wanted: GenerationRequest
) -> dict:
    """Return a Generated (tools/executors/protocol.py) for the sizes of `args`; with `varying` (tensor -> axes that
    vary) for other sizes as well."""
    values = {a.name: a.value for a in args if not a.is_tensor}
    recorders, settings = [compiled(contract, args, varying, BASE_SETTINGS)], BASE_SETTINGS
    if wanted.library and any(returns for returns, _ in operators(recorders[0].code[-1])):
        recorders, settings = [compiled(contract, args, varying, SEPARATE_BUFFER_SETTINGS)], SEPARATE_BUFFER_SETTINGS
    if contract.device != "cpu":
        recorders += generate_with_search(contract, args, varying, wanted, settings)
        if varying is None and "triton_heuristics.reduction(" in recorders[0].code[-1]:
            for choices in (WholeRows(), SeparatePasses()):
                with V.set_choices_handler(choices):
                    recorders += (
                        generate_with_search(contract, args, varying, wanted, settings)
                        if time.monotonic() < wanted.spare
                        else []
                    )
        if wanted.library and not any(recorder.has_kernels for recorder in recorders):
            # The library does all the work; one of Triton's templates may do it as well, if more slowly.
            recorders += generate_with_search(contract, args, varying, replace(wanted, library=()), BASE_SETTINGS)
    # Code that calls other operators cannot be lifted, so it comes last.
    recorder = min(recorders, key=lambda r: (wanted.calls_other_operators(r.code[-1]), not r.has_kernels, r.seconds))
    sizes = guards(recorder, formulas, values) if varying is not None else None
    conditions = (
        [python_text(c) for c in sizes]
        if sizes is not None
        else [value_condition(name, value) for name, value in values.items()]
    )
    launches = {name: launch for name, launch in recorder.launches.items() if name in recorder.code[-1]}
    return {
        "code": recorder.code[-1],
        "inputs": recorder.inputs,
        "conditions": conditions,
        "scalars": values,
        "launches": launches,
        "helpers": helper_functions(recorder.code[-1]),
        "sizes": sizes,
        "unsearched": contract.device != "cpu" and len(recorders) == 1,
    }


def generate_with_search(
    contract: Contract, args: list[Arg], varying: dict[str, list[int]] | None, wanted: GenerationRequest, plain: dict
) -> list[InductorRecorder]:
    """Compile with a search over configurations, beside `plain` settings; empty if there is no time left or the search
    ended without code."""
    remaining_s = wanted.end - time.monotonic()
    settings = {
        **plain,
        **wanted.search_settings(),
        "precompilation_timeout_seconds": math.ceil(remaining_s),
        **(FALLBACK if varying is not None else {}),
    }
    try:
        # Not every version of torch has all of these settings.
        return (
            [compiled(contract, args, varying, {k: v for k, v in settings.items() if hasattr(config, k)})]
            if remaining_s > 0
            else []
        )
    except ContractError:
        return []


def compiled(
    contract: Contract, args: list[Arg], varying: dict[str, list[int]] | None, settings: dict
) -> InductorRecorder:
    """Compile the reference for these arguments and return the recorder with its code. Raises ContractError with the
    reason if torch.compile fails."""
    kinds = [a.value.dtype for a in args if a.is_written]
    given = {a.name: a.value for a in args}

    def call_reference(given):
        found = contract.bind(given)()
        found = () if found is None else tuple(found) if isinstance(found, (tuple, list)) else (found,)
        return tuple(value.to(kind).contiguous() for value, kind in zip(found, kinds, strict=True)) if found else ()

    torch._dynamo.reset()
    if varying is not None:
        for name, value in given.items():
            for at in range(value.dim() if isinstance(value, torch.Tensor) else 0):
                (torch._dynamo.maybe_mark_dynamic if at in varying[name] else torch._dynamo.mark_static)(value, at)
    recorder = InductorRecorder(contract.device)
    # Output of print is not part of a kernel. Floats are constants unless an argument is a float.
    fractions = any(isinstance(value, float) for value in given.values())
    tracing = {"ignore_logger_methods": {print, warnings.warn}, "specialize_float": not fractions}
    try:
        with recorder.recording(settings), torch._dynamo.config.patch(tracing):
            function = torch.compile(
                call_reference, dynamic=varying is not None, fullgraph=True, backend=recorder.backend
            )
            function(given)
            recorder.seconds = best_gpu_call_s(lambda: function(given))
    except Exception as error:
        raise ContractError(error_message(getattr(error, "inner_exception", error))) from error
    if not recorder.code:
        raise ContractError("torch.compile finds nothing to compute")
    for source in recorder.inputs:
        if source.partition(".")[0] not in given:
            raise ContractError(
                f"it reads {source.rpartition('].')[2]}, which is not one of its arguments; a kernel cannot read it, "
                f"so make it one of them"
            )
    return recorder


def best_gpu_call_s(call) -> float:
    """Return the shortest of 20 times of a call on the GPU in seconds; used only to choose the faster of several
    codes."""
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    scratch = torch.empty(2 * torch.cuda.get_device_properties().L2_cache_size, dtype=torch.uint8, device="cuda")
    times = []
    for _ in range(20):
        # A benchmark also clears the cache: data left by the call before would help some kernels more than others.
        scratch.zero_()
        # Launches are queued while the device sleeps, so that gaps between them do not count.
        torch.cuda._sleep(QUEUED_CYCLES)
        start.record()
        call()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) / 1000)
    return min(times)


def launch_of(tuner) -> dict:
    """Return a TritonLaunch (tools/executors/protocol.py) of a kernel that has run and therefore has its
    configuration."""
    config = tuner.launchers[0].config
    constants = {k: v for k, v in tuner.triton_meta.get("constants", {}).items() if isinstance(k, str)}
    grid = triton_heuristics.GridExpr.from_meta(tuner.inductor_meta, {name: name for name in config.kwargs})
    texts = [str(grid.x_grid), str(grid.y_grid), str(grid.z_grid)]
    for line in reversed(grid.prefix):
        name, _, value = line.partition(" = ")
        texts = [re.sub(rf"\b{name}\b", f"({value})", text) for text in texts]
    return {
        "extra": list(tuner.inductor_meta.get("extra_launcher_args", ())),
        "config": {**constants, **config.kwargs, "num_warps": config.num_warps, "num_stages": config.num_stages},
        "grid": texts,
    }


def helper_functions(source: str) -> dict[str, str]:
    """Return the source of Inductor's Triton functions that the kernels use, directly or not, each after those that it
    needs."""
    found: dict[str, str] = {}
    for name in dict.fromkeys(re.findall(r"triton_helpers\.(\w+)", source)):
        add(name, found)
    return found


def add(name: str, found: dict[str, str]) -> None:
    """Add the function `name` of Inductor's helpers to `found`, after those that it calls."""
    function = getattr(getattr(triton_helpers, name, None), "fn", None)
    if function is None or name in found:
        return
    text = inspect.getsource(function)
    for other in dict.fromkeys(re.findall(r"(?<![.\w])([a-z]\w*)\b", text)):
        if other != name and hasattr(getattr(triton_helpers, other, None), "fn"):
            add(other, found)
    found[name] = text


def guards(recorder: InductorRecorder, formulas: dict, values: dict) -> list:
    """Return the conditions on sizes under which Inductor's code is valid, in the task's scalars, without those that
    always hold."""
    known = {}
    for symbol, what in recorder.symbols.items():
        name, _, at = what.partition(".")
        known[symbol] = (
            sympy.prod(formulas[name][int(at[1:]) + 1 :])
            if at.startswith("-")
            else formulas[name][int(at)]
            if at
            else scalar(name, values)
        )
    # ToFloat of a size is removed, because torch's own function is unknown in the lifted source.
    found = dict.fromkeys(guard.xreplace(known).replace(ToFloat, lambda size: size) for guard in recorder.guards)
    return [guard for guard in found if guard not in (sympy.true, True)]


def scalar(name: str, values: dict):
    """Return the sympy symbol of a scalar: real, or a positive integer."""
    return (
        sympy.Symbol(name, real=True)
        if isinstance(values.get(name), float)
        else sympy.Symbol(name, integer=True, positive=True)
    )


def covers(variant: dict, values: dict) -> bool:
    """Whether a variant's conditions hold for these scalars."""
    symbols = {scalar(name, values): value for name, value in values.items()}
    return all(bool(guard.xreplace({k: sympy.sympify(v) for k, v in symbols.items()})) for guard in variant["sizes"])


def value_condition(name: str, value) -> str:
    """Return the condition that a scalar has this value; with a tolerance for floats, which lose digits as a kernel's
    argument."""
    return f"abs({name} - {value!r}) <= {abs(value) * 1e-6!r}" if isinstance(value, float) else f"{name} == {value!r}"


def python_text(expression) -> str:
    """Return an expression as Python source."""
    if isinstance(expression, sympy.Eq) and expression.lhs.is_Symbol and expression.rhs.is_Float:
        return value_condition(expression.lhs.name, float(expression.rhs))
    return PythonPrinter().doprint(expression)


def error_message(error: Exception) -> str:
    """Return the reason why torch.compile fails, as the end of the message "reference.py cannot be lifted: "."""
    text = str(error)
    if re.search("data-dependent|Data-dependent|data dependent|_local_scalar_dense|Tensor.item", text):
        return "it looks at a tensor's value while it runs, and a kernel has no such branch; use torch.where"
    return f"torch.compile gives up ({first_line(error)})"
