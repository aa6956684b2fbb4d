"""Checks that the kernels which the device executed in one call are the candidate's own (pure)."""

import ast
import re

FILL_OR_COPY = re.compile(r"^(Memset|Memcpy|memset|memcpy)|FillFunctor|direct_copy_kernel|copy_device_to_device")
"""Names of the kernels with which torch fills or copies memory; they compute nothing."""


def jitted_functions(source: str) -> set[str]:
    """Names of the functions that the source decorates with Triton's `jit`, or with `jit` and `kernel` of CuTe DSL."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef):
            words = {word for decorator in node.decorator_list for word in re.split(r"\W", ast.unparse(decorator))}
            found |= {node.name} if words & {"jit", "kernel"} else set()
    return found


def names_defined_in(names: list[str], source: str) -> set[str]:
    """The executed kernels' names that are functions of the source; CuTe DSL appends types and sizes to them."""
    functions = jitted_functions(source)
    return {
        name for name in names if name in functions or any(name.startswith(f"kernel_cutlass_{f}_") for f in functions)
    }


UNPROFILED_PREFIX = "not known: "
"""How a note begins where the machine's profiler cannot say what a kernel executed; `tools.gate.confirmation`
reads it."""


def executed_names_and_complaint(seen: dict, source: str, machine, library=()) -> tuple[list[str], str | None]:
    """(names of what was executed, or a note why they are not known; complaint or None) of `seen`, as
    `GpuKernelProcess.profile` gives it.

    `machine()` says the same of a kernel of ours in a process without foreign code: where the profiler sees that one,
    it is the candidate that hides.
    """
    if "unavailable" not in seen:
        return list(dict.fromkeys(seen["kernels"])), complaint(seen, source, library)
    if "unavailable" in machine():
        return [f"{UNPROFILED_PREFIX}{seen['unavailable']}"], None
    return (
        [],
        (
            f"hid what it executes from the profiler ({seen['unavailable']}), which sees the kernels of a process "
            f"without it"
        ),
    )


def names_from_shared_object(names: list[str], library: str) -> set[str]:
    """The executed kernels' names that a shared object registers: mangled with their length, or as `extern "C"` between
    zero bytes."""
    found = set()
    for name in names:
        plain = name.replace("(anonymous namespace)::", "").removeprefix("void ")
        last = re.split(r"[<(]", plain)[0].rpartition("::")[2]
        if last and (f"{len(last)}{last}" in library or f"\0{last}\0" in library):
            found.add(name)
    return found


def own_kernels(names: list[str], source: str) -> set[str]:
    """The executed kernels' names that a Python source defines, or a library, given as text, registers."""
    find = names_from_shared_object if source.startswith("\x7fELF") else names_defined_in
    return find(names, source)


def missing_from_graph(seen: dict, nodes: list[str], calls: int) -> str | None:
    """Return why a graph whose kernels have the symbols `nodes` does not hold `calls` calls, of one of which `seen` is
    the profile; None if it does, as far as the profiler works."""
    executed = [name for name in seen.get("kernels", ()) if not FILL_OR_COPY.search(name)]
    lacking = [
        name
        for name in dict.fromkeys(executed)
        if sum(bool(names_from_shared_object([name], f"\0{node}\0")) for node in nodes) < executed.count(name) * calls
    ]
    if lacking or not nodes:
        what = f"it lacks {lacking[0][:160]}" if lacking else "it holds no kernel"
        return f"{what}: the call launches on another stream than the one given, such as the default stream"
    return None


def complaint(seen: dict, source: str, library=()) -> str | None:
    """Completes "the candidate …"; None when all is well. `seen` is {kernels: names, streams: theirs, stream: the one
    given}.

    `source` is of Python, or a library as text; `library`: the operators of torch that it may call. Native code may use
    streams of its own: that they are joined again is seen by the clock and by the outputs, which may neither be written
    before the stream given comes to it nor after it has ended.
    """
    native, own = source.startswith("\x7fELF"), own_kernels(seen["kernels"], source)
    called = calling_operators(seen, library)
    for name, stream, operator in zip(seen["kernels"], seen["streams"], called, strict=True):
        if name not in own and not operator and not FILL_OR_COPY.search(name):
            return f"ran {name[:160]}, a kernel that is not its own"
        if stream != seen["stream"] and not native:
            return f"ran {name[:160]} on another stream than the one given"
    if not own & set(seen["kernels"]):
        library = ", ".join(dict.fromkeys(filter(None, called)))
        return f"is library, not a kernel: it ran nothing but {library}" if library else "ran none of its own kernels"
    return None


def calling_operators(seen: dict, library) -> list[str]:
    """For each executed kernel the operator of `library` that launched it, or "" where none did.

    `seen` has for each the number of the operator that launched it (0: none did), and of all operators that torch
    dispatched, each nested in its caller, (number, name, start, end).
    """
    began = {number: start for number, _, start, _ in seen.get("operators", ())}
    calls = [
        (start, end, told)
        for _, name, start, end in seen.get("operators", ())
        if (told := name.replace("::", ".")) in library
    ]
    launched = seen.get("launched") or [0] * len(seen.get("kernels", ()))
    return [next((name for start, end, name in calls if start <= began.get(at, -1) <= end), "") for at in launched]
