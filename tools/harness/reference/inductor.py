"""What torch.compile makes of a reference: Inductor's generated code as text, with what binds it to the task's
arguments."""

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
"""Visible workloads that have code of their own; the compiler of the lifted source takes its time for each."""
OFFSETS = 9
"""A size may differ from a multiple of what scalars say by less than this."""


BASE_SETTINGS = {"fx_graph_cache": False}
SEPARATE_BUFFER_SETTINGS = {**BASE_SETTINGS, "inplace_buffers": False}
"""Where an operator of torch returns a buffer: that is no output of ours, and would be copied to one if it were
changed in place."""
QUEUED_CYCLES = 2_000_000
BACKENDS = ("max_autotune_gemm_backends", "max_autotune_conv_backends")
FALLBACK = {"test_configs.max_mm_configs": 4}
"""Of a product's templates for the sizes that nobody times: it takes a second or two to compile each."""


LONGEST_ROW = 1 << 16
"""Elements that one block of 1024 threads may hold in registers."""


class WholeRows(InductorChoices):
    """Rows that a reduction would go over in steps, once for each pass, are held whole where that is possible: each
    is read once."""

    @staticmethod
    def should_use_persistent_reduction(features, cooperative_reduction: bool) -> bool:
        return InductorChoices.should_use_persistent_reduction(features, cooperative_reduction) or (
            features.get_reduction_hint() is ReductionHint.INNER
            and V.graph.sizevars.statically_known_leq(features.reduction_numel, LONGEST_ROW)
        )


class SeparatePasses(InductorChoices):
    """What follows a reduction has a kernel of its own: no row is its unit, so that it reads and writes in vectors
    where rows begin anywhere."""

    @staticmethod
    def can_fuse_vertical(scheduler, node1, node2, shared_data_score: int) -> bool:
        return not node1.is_reduction() or node2.is_reduction()


class RecordingDone(BaseException):
    """The code is there; nobody needs it run. Not an Exception, or torch would explain it."""


class InductorRecorder:
    """Listens while torch compiles. Inductor's C++ compiler, which is not needed to read what it would be given, is
    passed over."""

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
        """Whether kernels of its own are in the code."""
        return self.device == "cpu" or any(name in self.code[-1] for name in self.launches)

    def backend(self, module, examples):
        self.inputs = [bound(node.meta["grapharg"].source) for node in module.graph.nodes if node.op == "placeholder"]
        made = compile_fx.compile_fx(module, examples)
        shapes = torch._guards.TracingContext.get().fake_mode.shape_env
        if shapes is not None:
            self.guards = [guard.expr for guard in shapes.guards]
            self.symbols = {symbol: bound(found[0]) for symbol, found in shapes.var_to_sources.items() if found}
        return self.stop if self.device == "cpu" else made

    def stop(self, *_):
        raise RecordingDone

    @contextlib.contextmanager
    def listening(self, settings: dict):
        kept = graph.GraphLowering.save_output_code, async_compile.AsyncCompile.cpp_pybinding, config.cpp.vec_isa_ok
        graph.GraphLowering.save_output_code = staticmethod(self.code.append)
        run = triton_heuristics.CachingAutotuner.run
        if self.device == "cpu":
            async_compile.AsyncCompile.cpp_pybinding = lambda *_: lambda *_: None
            config.cpp.vec_isa_ok = True
        else:
            triton_heuristics.CachingAutotuner.run = self.noting(run)
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
            graph.GraphLowering.save_output_code, async_compile.AsyncCompile.cpp_pybinding, config.cpp.vec_isa_ok = kept
            triton_heuristics.CachingAutotuner.run = run

    def noting(self, run):
        def noted(tuner, *args, **kwargs):
            done = run(tuner, *args, **kwargs)
            self.launches[tuner.inductor_meta["kernel_name"]] = launched(tuner)
            return done

        return noted


def bound(source) -> str:
    """`x` of an argument, `x.0` of the size of its first dimension."""
    text = source.name() if callable(source.name) else source.name
    found = re.search(r"\['(\w+)'\](?:\.(size|stride)\(\)\[(\d+)\])?$", text)
    return (
        text
        if found is None
        else found[1]
        if found[2] is None
        else f"{found[1]}.{'' if found[2] == 'size' else '-'}{found[3]}"
    )


def inductor(
    contract: Contract, build, visible: list[dict], others: list[list[dict]], seconds: float, library: tuple = ()
) -> dict:
    """An InductorResult (tools/executors/protocol.py). `build(dims)` makes the arguments; of each of `others` the
    first sizes that the reference takes stand for those that it may yet be asked for. No search begins after
    `seconds`. `library`: operators of torch that the code may call."""
    begun = time.monotonic()
    # Half of the time is for the sizes behind the first.
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
        for sample in sorted(samples, key=lambda s: -s.elements):
            if not any(v["sizes"] is not None and covers(v, sample.scalars) for v in variants):
                variants.append(generate_code(contract, build(sample.dims), varying, formulas, wanted))
    several = [fixed(variant["sizes"], scalars) for variant in variants if variant["sizes"] is not None]
    for name in sorted(set.intersection(*several) if several else ()):
        raise ContractError(f"torch.compile makes other code for each value of {name}; hold it fixed by dims_range")
    return {
        "kind": "inductor",
        "shapes": {name: [python_text(f) for f in found] for name, found in formulas.items()},
        "variants": [{k: v for k, v in variant.items() if k != "sizes"} for variant in variants],
        "vector_bytes": cpu_vec_isa.pick_vec_isa().bit_width() // 8 if contract.device == "cpu" else 0,
    }


def fixed(sizes: list, scalars: list[dict]) -> set[str]:
    """The whole numbers with several values of which the code is for one."""
    found = set()
    for guard in sizes:
        # A remainder that is fixed leaves many values.
        if (
            isinstance(guard, sympy.Eq)
            and len(guard.free_symbols) == 1
            and (guard.lhs - guard.rhs).is_polynomial(*guard.free_symbols)
        ):
            found |= {symbol.name for symbol in guard.free_symbols}
    return {name for name in found if len({values[name] for values in scalars}) > 1}


class SizeSample:
    """What is known of the arguments at one set of sizes, without the arguments."""

    def __init__(self, dims: dict, args: list[Arg]):
        self.dims = dims
        self.scalars = {a.name: a.value for a in args if not a.is_tensor}
        self.shapes = {a.name: list(a.value.shape) for a in args if a.is_tensor}
        self.elements = sum(a.value.numel() for a in args if a.is_tensor)


def first_accepted_arguments(contract: Contract, build, choices: list[dict]):
    for dims in choices:
        try:
            args = build(dims)
            results(contract, args)
        except ContractError:
            continue
        return SizeSample(dims, args)
    return None


def formula(scalars: list[dict], values: list[int], name: str) -> sympy.Expr:
    """A size as what scalars say, in all samples: itself, a product of two, a multiple or a part of these, a little
    more or less."""
    if len(set(values)) == 1:
        return sympy.Integer(values[0])
    whole = [name for name, value in scalars[0].items() if isinstance(value, int) and not isinstance(value, bool)]
    for chosen in [(n,) for n in whole] + list(combinations_with_replacement(whole, 2)):
        product = sympy.Mul(*(sympy.Symbol(n, integer=True, positive=True) for n in chosen))
        found = [math.prod(s[n] for n in chosen) for s in scalars]
        for more in sorted(range(-OFFSETS, OFFSETS + 1), key=abs):
            times = (values[0] - more) // found[0] if found[0] else 0
            if times and all(value == times * base + more for value, base in zip(values, found, strict=True)):
                return times * product + more
            part = round((found[0] + more) / values[0]) if values[0] else 0
            if part > 1 and all(value == (base + more) // part for value, base in zip(values, found, strict=True)):
                return FloorDiv(product + more, sympy.Integer(part))
    raise ContractError(
        f"reference.py: the size {name} follows from none of its scalars; give it as an argument of its own"
    )


@dataclass
class GenerationRequest:
    """Until when a search may begin, which operators of torch the code may call, and until when more than the first
    is searched for."""

    end: float
    library: tuple[str, ...]
    spare: float = math.inf

    def search(self) -> dict:
        backends = "ATEN,TRITON" if self.library else "TRITON"
        return {"max_autotune": True, "coordinate_descent_tuning": True, **dict.fromkeys(BACKENDS, backends)}

    def alien(self, code: str) -> bool:
        """Whether it calls anything else."""
        return any(f"aten.{name}" not in self.library for _, name in operators(code))


def operators(code: str) -> list[tuple[str, str]]:
    """Torch's operators in the wrapper, each behind "= " where it returns a buffer."""
    return re.findall(r"(= )?(?:extern_kernels|torch\.ops\.aten)\.(\w+)[.\w]*\(", code.partition("def call")[2])


def generate_code(
    contract: Contract, args: list[Arg], varying: dict[str, list[int]] | None, formulas: dict, wanted: GenerationRequest
) -> dict:
    """A Generated (tools/executors/protocol.py) for the sizes of `args`; with `varying`, which names what varies,
    for others as well."""
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
            # All is left to the library: a template of Triton's may do it as well, if more slowly.
            recorders += generate_with_search(contract, args, varying, replace(wanted, library=()), BASE_SETTINGS)
    # What is not lifted comes last.
    recorder = min(recorders, key=lambda r: (wanted.alien(r.code[-1]), not r.has_kernels, r.seconds))
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
    """What a search comes to beside `plain` settings; nothing where there is no time, or where it ended without
    code."""
    left = wanted.end - time.monotonic()
    settings = {
        **plain,
        **wanted.search(),
        "precompilation_timeout_seconds": math.ceil(left),
        **(FALLBACK if varying is not None else {}),
    }
    try:
        # Not every torch knows all of them.
        return (
            [compiled(contract, args, varying, {k: v for k, v in settings.items() if hasattr(config, k)})]
            if left > 0
            else []
        )
    except ContractError:
        return []


def compiled(
    contract: Contract, args: list[Arg], varying: dict[str, list[int]] | None, settings: dict
) -> InductorRecorder:
    takes = contract.takes
    kinds = [a.value.dtype for a in args if a.role == "output"]
    given = {a.name: a.value for a in args if takes is None or a.name in takes}

    def called(given):
        found = contract.function(**given)
        found = () if found is None else tuple(found) if isinstance(found, (tuple, list)) else (found,)
        return tuple(value.to(kind).contiguous() for value, kind in zip(found, kinds, strict=True)) if found else ()

    torch._dynamo.reset()
    if varying is not None:
        for name, value in given.items():
            for at in range(value.dim() if isinstance(value, torch.Tensor) else 0):
                (torch._dynamo.maybe_mark_dynamic if at in varying[name] else torch._dynamo.mark_static)(value, at)
    recorder = InductorRecorder(contract.device)
    # What the reference prints is no part of a kernel; its own fractions are constants where no argument is one.
    fractions = any(isinstance(value, float) for value in given.values())
    tracing = {"ignore_logger_methods": {print, warnings.warn}, "specialize_float": not fractions}
    try:
        with recorder.listening(settings), torch._dynamo.config.patch(tracing):
            function = torch.compile(called, dynamic=varying is not None, fullgraph=True, backend=recorder.backend)
            function(given)
            recorder.seconds = best_gpu_call_s(lambda: function(given))
    except Exception as error:
        raise ContractError(error_message(getattr(error, "inner_exception", error))) from error
    if not recorder.code:
        raise ContractError("torch.compile finds nothing to compute")
    for what in recorder.inputs:
        if what.partition(".")[0] not in given:
            raise ContractError(
                f"it reads {what.rpartition('].')[2]} beside its arguments, which a kernel cannot; make it one of them"
            )
    return recorder


def best_gpu_call_s(call) -> float:
    """Seconds of a call on the GPU, the least of a few; which of two codes is faster, nothing else."""
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    others = torch.empty(2 * torch.cuda.get_device_properties().L2_cache_size, dtype=torch.uint8, device="cuda")
    found = []
    for _ in range(20):
        # As a benchmark times it: what the call before left in the cache helps the one kernel more than the other.
        others.zero_()
        # While the device waits the launches are queued, so that gaps between them do not decide.
        torch.cuda._sleep(QUEUED_CYCLES)
        start.record()
        call()
        end.record()
        end.synchronize()
        found.append(start.elapsed_time(end) / 1000)
    return min(found)


def launched(tuner) -> dict:
    """A TritonLaunch (tools/executors/protocol.py) of a kernel that has run, and so has its configuration."""
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
    """Inductor's own Triton functions that the kernels use, and those that they use, each behind what it needs."""
    found: dict[str, str] = {}
    for name in dict.fromkeys(re.findall(r"triton_helpers\.(\w+)", source)):
        add(name, found)
    return found


def add(name: str, found: dict[str, str]) -> None:
    function = getattr(getattr(triton_helpers, name, None), "fn", None)
    if function is None or name in found:
        return
    text = inspect.getsource(function)
    for other in dict.fromkeys(re.findall(r"(?<![.\w])([a-z]\w*)\b", text)):
        if other != name and hasattr(getattr(triton_helpers, other, None), "fn"):
            add(other, found)
    found[name] = text


def guards(recorder: InductorRecorder, formulas: dict, values: dict) -> list:
    """What Inductor took for granted of the sizes, in the task's scalars; what they say of themselves is left out."""
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
    # A size as a float is that size; left in, torch's own function would stand in the source.
    found = dict.fromkeys(guard.xreplace(known).replace(ToFloat, lambda size: size) for guard in recorder.guards)
    return [guard for guard in found if guard not in (sympy.true, True)]


def scalar(name: str, values: dict):
    return (
        sympy.Symbol(name, real=True)
        if isinstance(values.get(name), float)
        else sympy.Symbol(name, integer=True, positive=True)
    )


def covers(variant: dict, values: dict) -> bool:
    told = {scalar(name, values): value for name, value in values.items()}
    return all(bool(guard.xreplace({k: sympy.sympify(v) for k, v in told.items()})) for guard in variant["sizes"])


def value_condition(name: str, value) -> str:
    """A scalar's value as a condition; a number with a fraction is stored with fewer digits in a kernel's argument."""
    return f"abs({name} - {value!r}) <= {abs(value) * 1e-6!r}" if isinstance(value, float) else f"{name} == {value!r}"


def python_text(expression) -> str:
    """In Python's words."""
    if isinstance(expression, sympy.Eq) and expression.lhs.is_Symbol and expression.rhs.is_Float:
        return value_condition(expression.lhs.name, float(expression.rhs))
    return PythonPrinter().doprint(expression)


def error_message(error: Exception) -> str:
    """Why torch.compile gives up, to stand behind "reference.py cannot be lifted: "."""
    text = str(error)
    if re.search("data-dependent|Data-dependent|data dependent|_local_scalar_dense|Tensor.item", text):
        return "it looks at a tensor's value while it runs, and a kernel has no such branch; use torch.where"
    return f"torch.compile gives up ({first_line(error)})"
