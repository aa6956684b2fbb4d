"""What a reference computes, as a graph of ATen operations at three sets of sizes, so that a reader can tell sizes from constants."""

import math
import re
from itertools import combinations

import torch
from torch._decomp import core_aten_decompositions, get_decompositions
from torch.fx.experimental.proxy_tensor import make_fx
from torch.overrides import TorchFunctionMode

from harness.reference.contract import Arg, Contract, ContractError, guarded

TRACES = 3
"""Two tell a size from a constant; the third tells one size from a like combination of others."""
BASES = ((12, 4), (96, 32), (5, 2), (256, 64))
"""(smallest, step) of the sizes that are tried: small ones, multiples of what heads and groups divide by, odd ones."""
MOST_ELEMENTS = 1 << 24
MOST_CALLS = 2000
"""Of torch in one trace: loops over elements do more of them, and following these takes minutes."""
WHOLE = (
    "native_layer_norm", "native_group_norm", "_softmax", "_log_softmax", "gelu", "silu", "addmm", "baddbmm", "std", "leaky_relu", "elu",
    "hardtanh", "softplus", "_native_batch_norm_legit_no_training", "native_batch_norm", "_native_batch_norm_legit", "tril", "triu",
    "linalg_vector_norm", "masked_fill", "lerp", "logsumexp", "_fused_rms_norm", "addcmul", "addcdiv", "mv", "dot", "hardsigmoid",
    "hardswish", "mse_loss", "celu", "mish", "threshold", "square", "rsub", "nll_loss_forward", "logit", "xlogy", "smooth_l1_loss",
    "huber_loss",
)  # fmt: skip
"""Operations that are taken apart into simpler ones, beyond those that torch's core set leaves out."""
KEPT = ("var_mean", "var")
TYPES = {dtype: str(dtype).removeprefix("torch.") for dtype in vars(torch).values() if isinstance(dtype, torch.dtype)}


def traces(contract: Contract, workloads: list[dict], ranges: dict, roles: dict[str, str]) -> dict:
    """{"traces": [...], "untraced": ""}, or no traces and one sentence that says why."""
    if not contract.has_make_inputs:
        return {"traces": [], "untraced": "it has no make_inputs(dims, seed); define it"}
    names = [
        name
        for name, value in workloads[0].items()
        if varies(name, value, workloads) and ranges.get(name, (0, 1))[0] < ranges.get(name, (0, 1))[1]
    ]
    alike = [name for name in names if len({w[name] for w in workloads}) == 1]
    why = ""
    for held in [(), *combinations(alike, 1), *combinations(alike, 2)]:
        free = [name for name in names if name not in held]
        try:
            found, reason = attempt(contract, points(workloads, free, ranges), free, roles)
        except Endless as error:
            return {"traces": [], "untraced": str(error)}
        if found:
            return {"traces": found, "untraced": ""}
        why = why or reason
    return {"traces": [], "untraced": why or "its sizes could not be varied; give dims_range, or workloads of three sizes"}


def attempt(contract: Contract, tried, free: list[str], roles: dict[str, str]) -> tuple[list[dict], str]:
    """Traces at the first dims that differ in all of `free`; none, and the first complaint, where there are not enough."""
    found, seen, why = [], [], ""
    for dims in tried:
        if any(dims[name] == other[name] for other in seen for name in free):
            continue
        try:
            args = contract.build(dims, 1, [], 0)
            if sum(a.value.numel() for a in args if a.is_tensor) > MOST_ELEMENTS:
                continue
            found.append(trace(contract, vary(args, len(found), ()), roles))
        except Endless:
            raise
        except ContractError as error:
            why = why or said(error)
            continue
        seen.append(dims)
        if len(found) == TRACES:
            return loosened(contract, seen, found, roles), ""
    return [], why


def said(error: ContractError) -> str:
    """Why a reference could not be followed, without what only concerns torch's own tracing."""
    text = str(error).removeprefix("reference.py: ")
    if "_local_scalar_dense" in text or "data-dependent" in text:
        line = re.search(r" \(line \d+\)$", text)
        return f"it looks at a tensor's value while it runs{line[0] if line else ''}, and a kernel has no such branch; use torch.where"
    return text


def loosened(contract: Contract, points: list[dict], found: list[dict], roles: dict[str, str]) -> list[dict]:
    """The traces with other values of whole numbers, too, that make_inputs gives whatever the sizes are, where that can be done."""
    values = [{a["name"]: a["value"] for a in made["arguments"] if "value" in a} for made in found]
    values = [{k: v for k, v in each.items() if isinstance(v, int) and not isinstance(v, bool)} for each in values]
    free: tuple[str, ...] = ()
    for name in [name for name, value in values[0].items() if all(each[name] == value for each in values)]:
        try:
            tried = [trace(contract, vary(contract.build(dims, 1, [], 0), turn, (*free, name)), roles) for turn, dims in enumerate(points)]
        except ContractError:
            continue
        if len({tuple(node["op"] for node in made["nodes"]) for made in tried}) == 1:
            free, found = (*free, name), tried
    return found


def varies(name: str, value: object, workloads: list[dict]) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and all(isinstance(w[name], int) for w in workloads)


def points(workloads: list[dict], free: list[str], ranges: dict):
    """Dims to try: each free size another one, within its range; at last the workloads themselves."""
    for smallest, step in BASES:
        for turn in range(2 * TRACES):
            values = [smallest + step * ((at * 2 + turn * (3 + 2 * at)) % (2 * len(free) + 7)) for at in range(len(free))]
            yield workloads[0] | {name: inside(v, *ranges.get(name, (1, v))) for name, v in zip(free, values, strict=True)}
    yield from workloads


def inside(value: int, low: int, high: int) -> int:
    return value if low <= value <= high else min(low + value, high) if value < low else high


def vary(args: list[Arg], turn: int, free: tuple[str, ...]) -> list[Arg]:
    """The arguments with another value of each floating scalar, which may be no dim at all, and of the whole numbers in `free`."""
    changed = []
    for a in args:
        value = a.value
        if isinstance(value, float):
            value *= 1 + turn / 8
        elif a.name in free:
            value += turn
        changed.append(Arg(a.name, value, a.dtype, a.role))
    return changed


def trace(contract: Contract, args: list[Arg], roles: dict[str, str]) -> dict:
    """One Trace (tools/executors/protocol.py) of a call with these arguments."""
    tensors = [a for a in args if a.is_tensor]
    takes = contract.takes

    def called(*values):
        given = {a.name: a.value for a in args} | {a.name: v for a, v in zip(tensors, values, strict=True)}
        returned = contract.function(**{name: v for name, v in given.items() if takes is None or name in takes})
        found = () if returned is None else tuple(returned) if isinstance(returned, (tuple, list)) else (returned,)
        return tuple(v.contiguous() for v in found)

    inputs = [a.value.clone() for a in tensors]
    with Followed():
        graph = guarded("following reference(...)", make_fx(torch.func.functionalize(called), decomposition_table=table()), *inputs)
        # What was taken apart may hold in-place operations again.
        graph = guarded("following reference(...)", make_fx(torch.func.functionalize(graph)), *inputs)
    return read(graph, args, [a.name for a in tensors], [a.name for a in tensors if roles.get(a.name) == "output"])


class Endless(ContractError):
    """Other sizes would not help."""


class Followed(TorchFunctionMode):
    """Attention as its definition, where torch would go to a kernel of its own; Endless where the calls have no end."""

    def __init__(self):
        super().__init__()
        self.calls = 0

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.calls += 1
        if self.calls > MOST_CALLS:
            raise Endless(f"it calls torch more than {MOST_CALLS:,} times at small sizes, as loops over elements do; use whole tensors")
        if func is torch.nn.functional.scaled_dot_product_attention:
            return attention(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))


def attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    if dropout_p:
        raise ContractError("reference.py: reference(...) drops values at random; a kernel cannot be compared with that")
    if enable_gqa:
        repeated = query.size(-3) // key.size(-3)
        key, value = key.repeat_interleave(repeated, -3), value.repeat_interleave(repeated, -3)
    scores = query @ key.transpose(-2, -1) * (1 / math.sqrt(query.size(-1)) if scale is None else scale)
    if is_causal:
        rows, columns = (torch.arange(n, device=query.device) for n in scores.shape[-2:])
        attn_mask = columns[None, :] <= rows[:, None]
    if attn_mask is not None:
        scores = scores.masked_fill(~attn_mask, -math.inf) if attn_mask.dtype == torch.bool else scores + attn_mask
    return torch.softmax(scores, -1) @ value


def table() -> dict:
    taken = get_decompositions([getattr(torch.ops.aten, name) for name in WHOLE if hasattr(torch.ops.aten, name)])
    table = {**core_aten_decompositions(), **taken}
    return {op: how for op, how in table.items() if op._schema.name.removeprefix("aten::") not in KEPT}


def read(graph, args: list[Arg], tensors: list[str], outputs: list[str]) -> dict:
    """The graph as plain data; an output that is written to is the value that is copied there last."""
    nodes, names, written, returned = [], {}, {}, []
    placeholders = iter(tensors)
    for node in graph.graph.nodes:
        if node.op == "placeholder":
            names[node] = next(placeholders)
            continue
        if node.op == "output":
            given = node.args[0] or ()
            returned = [names[n] for n in (given if isinstance(given, (tuple, list)) else (given,)) if n is not None]
            continue
        target = str(node.target)
        if target == "aten.copy_.default":
            written[names[node.args[0]]] = names[node.args[1]]
            continue
        names[node] = f"%{node.name}"
        if node.op == "get_attr":
            nodes.append(constant(names[node], getattr(graph, node.target)))
            continue
        op = "getitem" if node.op == "call_function" and not isinstance(node.target, torch._ops.OpOverload) else target
        nodes.append(
            {
                "name": names[node],
                "op": op,
                "args": [operand(a, names) for a in node.args],
                "kwargs": {k: operand(v, names) for k, v in node.kwargs.items() if k not in UNIMPORTANT},
            }
            | described(node.meta.get("val"))
        )
    return {
        "arguments": [
            a.json() | {"role": "output" if a.name in outputs else a.role or ("input" if a.is_tensor else "scalar")} for a in args
        ],
        "nodes": nodes,
        "outputs": returned or [written.get(name, name) for name in outputs],
    }


UNIMPORTANT = ("layout", "device", "pin_memory", "memory_format", "non_blocking", "copy")


def constant(name: str, value: torch.Tensor) -> dict:
    """A tensor of the reference's own; of more than one element it has no name here that could stand in a kernel."""
    args = [operand(value.item(), {})] if value.numel() == 1 else []
    return {"name": name, "op": "constant", "args": args, "kwargs": {}} | described(value)


def described(value) -> dict:
    if isinstance(value, torch.Tensor):
        return {"dtype": TYPES[value.dtype], "shape": list(value.shape)}
    return {"dtype": "", "shape": []}


def operand(value, names: dict) -> dict:
    """An Operand (tools/executors/protocol.py)."""
    if isinstance(value, torch.fx.Node):
        return {"node": names[value]}
    if isinstance(value, bool):
        return {"flag": value}
    if isinstance(value, (int, float)):
        return {"number": value} if math.isfinite(value) else {"text": str(value)}
    if isinstance(value, (list, tuple)):
        return {"items": [operand(v, names) for v in value]}
    if isinstance(value, torch.dtype):
        return {"text": TYPES[value]}
    return {} if value is None else {"text": str(value)}
