"""What the harness reads out of reference.py, in both styles, and the one sentence for each mistake in it."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest
import torch

from tests.support import Beside
from tests.tools.harness.test_gpu_judging import module
from tools.artifacts import Argument, Dims, Task
from tools.executors.harness_job import harness_job, read_answer
from tools.executors.local import LocalExecutor
from tools.executors.protocol import (
    Case,
    CorrectnessRequest,
    CorrectnessResult,
    Distribution,
    Parameter,
    ProbeRequest,
    ProbeResult,
)
from tools.store.blobs import Blobs

MADE = """
import torch
outputs = ("c",)
rtol = 1e-3
dims_range = {"M": (1, 64)}
workloads = [{"name": "small", "dims": {"M": 8, "K": 4, "N": 6}, "weight": 2.0}, {"M": 16, "K": 4, "N": 6}]

def make_inputs(dims, seed):
    g = torch.Generator().manual_seed(seed)
    a, b = torch.randn(dims["M"], dims["K"], generator=g), torch.randn(dims["K"], dims["N"], generator=g)
    return {"a": a, "b": b, "c": torch.empty(dims["M"], dims["N"]), "M": dims["M"], "alpha": 0.5}

def reference(a, b, c, alpha, **kwargs):
    return alpha * (a @ b)
"""


class Asker:
    def __init__(self, executor: LocalExecutor, blobs: Blobs) -> None:
        self.executor, self.blobs = executor, blobs

    def probe(
        self,
        reference: str,
        *dims: Dims,
        parameters: tuple[Parameter, ...] = (),
        elements: int = 0,
        memory: int = 8 << 30,
    ) -> ProbeResult:
        request = ProbeRequest(
            reference=reference, dims=dims, parameters=parameters, pointer_elements=elements, memory_bytes=memory
        )
        return read_answer(self.executor.run(harness_job(request, {}, self.blobs)), self.blobs, ProbeResult)


@pytest.fixture(scope="module")
def asker(beside: Beside) -> Asker:
    return Asker(*beside)


def pointer(name: str, dtype: str = "float32", const: bool = False) -> Parameter:
    return Parameter(name=name, dtype=dtype, pointer=True, const=const)  # type: ignore[arg-type]


def scalar(name: str, dtype: str = "int32") -> Parameter:
    return Parameter(name=name, dtype=dtype, pointer=False)  # type: ignore[arg-type]


def shapes(seen: ProbeResult, count: int = 3) -> str:
    """The first arguments of the first workload: name, role and shape of each."""
    return ", ".join(f"{a.name} {a.role} {a.shape}" for a in seen.workloads[0].arguments[:count])


LARGE = """
import torch
from torch import nn
outputs = ["out"]
large = True
workloads = [{"name": "big", "dims": {"M": 40000}}, {"name": "small", "dims": {"M": 64}}]
rate = [one.item() for one in torch.linspace(0, 1, 3)][0]

def make_inputs(dims, seed):
    g = torch.Generator().manual_seed(seed)
    x = torch.distributions.Cauchy(0, 2).sample((dims["M"], dims["M"])) * torch.randn(1, generator=g)
    return {"x": x.float(), "out": torch.zeros(dims["M"], dims["M"])}

def reference(x, out):
    layer = nn.Linear(x.shape[1], 1, bias=False).to("cpu", x.dtype)
    layer.weight = nn.Parameter(torch.ones_like(layer.weight))
    return x @ x.mT + layer(x) * rate
"""


def test_shapes_of_a_large_workload_are_found_without_values(asker: Asker) -> None:
    """The large call alone would take an hour here; the small one is made, and shows what values show."""
    seen = asker.probe(LARGE, memory=1 << 40)
    assert [w.arguments[0].shape for w in seen.workloads] == [(40000, 40000), (64, 64)]
    assert (seen.workloads[0].flops or 0) > 2 * 40000**3 and not seen.unusable
    assert "aten.mm" in seen.products and not any("not checked" in one for one in seen.inferred)
    alone = asker.probe(LARGE, {"M": 40000}, memory=1 << 40)
    assert any("values are not checked yet" in one for one in alone.inferred)


@pytest.mark.parametrize("size", ["int(x.max())", "math.ceil(1 + 2 * rate)", "len(range(round(x.mean().item()), 4))"])
def test_a_size_that_follows_from_a_value_is_not_known_without_values(size: str) -> None:
    text = LARGE.replace("torch.zeros(dims['M'], dims['M'])", "out").replace(
        "    return {", f"    import math\n    out = torch.zeros(dims['M'], {size})\n    return {{"
    )
    shapes = module("reference.shapes").calls_without_values
    for reference, known in ((LARGE, ["w"]), (text, [])):
        assert list(shapes(reference, lambda _: [("w", {"M": 64})], [])[1]) == known


BY_VALUES = """
import torch
outputs = ["out"]
large = True
workloads = [{"name": name, "dims": {"M": M, "parts": parts, "mixed": mixed}} for name, M, parts, mixed in
             (("mixed", 40000, 1, 1), ("small", 8, 1, 0), ("plain", 30000, 1, 0), ("more", 16, 2, 0))]

def make_inputs(dims, seed):
    x = {f"x{at}": torch.randn(dims["M"], dims["M"]) for at in range(dims["parts"])}
    if dims["mixed"] and bool((x["x0"] > 0).all()):
        x["x0"] += 1
    return {**x, "out": torch.zeros(dims["M"])}

def reference(x0, out, x1=0):
    chosen = x0.argmax(1)
    for count in chosen.bincount().numpy():
        chosen[:count] += 0
    return x0[0] * chosen
"""


def test_shapes_that_need_values_follow_from_those_that_do_not(asker: Asker) -> None:
    """One workload reads its values to be made, and every call reads integers; one has another argument."""
    seen = asker.probe(BY_VALUES, memory=1 << 40)
    assert seen.error is None and [(w.name, w.arguments[0].shape, w.arguments[1].shape) for w in seen.workloads] == [
        ("mixed", (40000, 40000), (40000,)),
        ("small", (8, 8), (8,)),
        ("plain", (30000, 30000), (30000,)),
    ]
    assert seen.workloads[0].flops is None and seen.workloads[2].flops
    assert any("follow from those at the others: mixed." in one for one in seen.inferred)
    assert any("other arguments belong to these sizes: more." in one for one in seen.inferred)


def test_a_contract_is_known_where_its_values_are_refused(asker: Asker) -> None:
    for reference, memory, said in (
        (LARGE, 1 << 30, "float64 copies"),
        (LARGE.replace("+ layer(x)", "+ torch.rand_like(x) + layer(x)"), 1 << 40, "called again"),
    ):
        seen = asker.probe(reference, memory=memory)
        assert seen.error is None and said in seen.unusable
        assert [w.arguments[0].shape[0] for w in seen.workloads] == [40000, 64]


def test_a_missing_package_is_to_be_installed_where_jobs_run(asker: Asker) -> None:
    assert "pip install nowhere there" in (asker.probe("import nowhere.kernels\n" + MADE).error or "")


def test_nothing_in_the_jobs_folder_can_be_imported(asker: Asker) -> None:
    """A candidate's files lie there: only the harness's entry looks into it, and only for the harness itself."""
    looks = (
        "import os, sys\nfound = [p for p in sys.path if os.path.isdir(os.path.join(p, 'harness'))]\nif found: "
        "raise ValueError(found)\n"
    )
    assert asker.probe(looks + MADE).error is None


def test_a_reference_with_make_inputs(asker: Asker) -> None:
    seen = asker.probe(MADE)
    assert seen.error is None and seen.has_make_inputs
    small, other = seen.workloads
    assert (small.name, small.weight, small.dims) == ("small", 2.0, {"M": 8, "K": 4, "N": 6})
    assert (other.name, other.weight) == ("M16_K4_N6", 1.0)
    assert shapes(seen, 5) == "a input (8, 4), b input (4, 6), c output (8, 6), M scalar (), alpha scalar ()"
    assert [a.dtype for a in small.arguments] == ["float32"] * 3 + ["int32", "float32"]
    assert (small.flops, small.unique_bytes) == (2 * 8 * 4 * 6 + 8 * 6, 4 * (8 * 4 + 4 * 6 + 8 * 6))
    assert seen.dims_range == {"M": (1, 64)} and seen.rtol == 1e-3 and seen.atol is None


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("a @ b", "float32"),
        ("a.bfloat16() @ b.bfloat16()", "bfloat16"),
        ("torch.nn.functional.linear(a.half().float(), b.half().float().t().contiguous())", "float16"),
        ("a.to(torch.float8_e4m3fn).float() @ b.to(torch.float8_e4m3fn).to(torch.float32)", "float8"),
        ("(a.to(torch.int8).int() @ b.to(torch.int8).int()).float()", "int8"),
        ("a.int() @ b.int() * 1.0", "other"),
        ("a.half().double() @ b.half().double()", "float64"),
        ("a.half().float().mul_(2.0) @ b.half().float()", "float32"),
        ("a.bfloat16().float() @ b", "float32"),
        ("torch.softmax(a.bfloat16(), 1)[:, :1] + b[0]", ""),
    ],
)
def test_the_type_of_a_product_is_that_of_the_values_it_takes(body: str, kind: str, asker: Asker) -> None:
    seen = asker.probe(MADE.replace("alpha * (a @ b)", f"({body}).float()"))
    assert (seen.error, seen.product_type) == (None, kind)


RAGGED = """
import torch

outputs = ("out",)
workloads = [{"R": 40, "C": 100}]

def make_inputs(dims, seed):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(dims["R"], dims["C"], generator=g)
    n = torch.randint(2, dims["C"] // 4, (dims["R"],), generator=g, dtype=torch.int32)
    q = torch.randint(-127, 128, (dims["R"], dims["C"]), generator=g, dtype=torch.int8)
    return {"TENSOR": TENSOR, "n": n, "out": torch.empty(SHAPE)}

def reference(TENSOR, n, out):
    x = TENSOR.float()
    mask = torch.arange(x.shape[1]) < n[:, None]
    BODY
"""
ROWS = "return torch.stack([row[:k].mean() for row, k in zip(x, n.tolist())])"


@pytest.mark.parametrize(
    ("shape", "body", "needs"),
    [
        ("40", "return (x * mask).sum(1) / n", lambda x, n: n.sum()),
        ("40", ROWS, lambda x, n: n.sum()),
        ("40", "return torch.from_numpy((x.numpy() * mask.numpy()).sum(1)) / n", lambda x, n: n.sum()),
        ("40", "return x.masked_fill(~mask, -torch.inf).amax(1)", lambda x, n: n.sum()),
        ("40", "return x.masked_fill(~mask, -torch.inf).argmax(1).float()", lambda x, n: n.sum()),
        # What is defined of the output is as ragged.
        (
            "40, 100",
            "out[mask] = torch.softmax(x.masked_fill(~mask, -torch.inf), 1)[mask]",
            lambda x, n: 2 * n.sum() - 4000,
        ),
        (
            "40",
            "return (x * (x > -1).cumprod(1)).sum(1)",
            lambda x, n: ((x > -1).cumprod(1).sum(1) + 1).clamp(max=100).sum(),
        ),
        ("40, 100", "return x[n.long()]", lambda x, n: 100 * n.unique().numel()),
        # All of these is read, though no gradient tells.
        ("40, 100", "return torch.relu(x)", lambda x, n: x.numel()),
        ("40", "return x.amax(1)", lambda x, n: x.numel()),
        ("40", "return (x > 0).sum(1).float()", lambda x, n: x.numel()),
        # Hits so rare that no draw has one.
        ("40", "return (x.abs() > 1e4).to(x.dtype).sum(1)", lambda x, n: x.numel()),
        ("40", "return (~torch.isfinite(x)).to(x.dtype).sum(1)", lambda x, n: x.numel()),
        # Integers that are data, by gradient, and such as are none.
        ("40, 100", "return q[n.long()].to(x.dtype) / 127", lambda x, n: 25 * n.unique().numel()),
        ("40", "return q[:, :8].long().sum(1).float()", lambda x, n: 1000),
    ],
)
def test_the_bytes_that_count_are_those_that_the_outputs_depend_on(
    asker: Asker, shape: str, body: str, needs: Callable[[torch.Tensor, torch.Tensor], int]
) -> None:
    tensor = "q" if "q[" in body else "x"
    seen = asker.probe(RAGGED.replace("SHAPE", shape).replace("BODY", body).replace("TENSOR", tensor))
    g = torch.Generator().manual_seed(1)
    x, n = torch.randn(40, 100, generator=g), torch.randint(2, 25, (40,), generator=g, dtype=torch.int32)
    out = 40 if shape == "40" else 4000
    assert seen.error is None and seen.workloads[0].unique_bytes == 4 * (int(needs(x, n)) + 40 + out)


def test_margin_and_bytes_stand_beside_dims_and_are_dims_where_there_are_none(asker: Asker) -> None:
    own = MADE.replace('"weight": 2.0', '"margin": 0.02, "bytes": 400').replace('{"M": 16,', '{"margin": 0.5, "M": 16,')
    seen = asker.probe(own)
    small, other = seen.workloads
    assert (small.margin, "margin" in small.dims) == (0.02, False)
    assert small.unique_bytes == 400 and any("small needs 400 bytes, as it declares" in said for said in seen.inferred)
    assert (other.margin, other.dims["margin"]) == (None, 0.5)


def test_the_dims_given_win_and_scalars_take_the_kernels_types(asker: Asker) -> None:
    parameters = (pointer("a"), pointer("b"), pointer("c"), scalar("M", "int64"), scalar("alpha", "float64"))
    seen = asker.probe(MADE, {"M": 3, "K": 2, "N": 5}, parameters=parameters)
    assert [w.dims for w in seen.workloads] == [{"M": 3, "K": 2, "N": 5}]
    assert [a.dtype for a in seen.workloads[0].arguments if a.role == "scalar"] == ["int64", "float64"]


def test_seed_style_output_is_what_the_reference_changes(asker: Asker) -> None:
    reference = (
        "def reference(A, B, C, M, N, K, **kwargs):\n    C[:M * N] = (A[:M * K].view(M, K) @ B[:K * "
        "N].view(K, N)).reshape(-1)\n"
    )
    parameters = (pointer("A"), pointer("B"), pointer("C"), scalar("M"), scalar("N"), scalar("K"))
    seen = asker.probe(reference, {"M": 4, "N": 6, "K": 5}, parameters=parameters)
    assert seen.error is None and not seen.has_make_inputs
    assert shapes(seen) == "A input (30,), B input (30,), C output (30,)"
    assert any("C: output, because reference() changes it" in said for said in seen.inferred)


def test_seed_style_outputs_that_are_returned_are_the_last_pointers(asker: Asker) -> None:
    parameters = (pointer("x"), pointer("idx", "int32"), pointer("y"), scalar("N"))
    seen = asker.probe(
        "def reference(x, N, **kwargs):\n    return x * 2\n", {"N": 12}, parameters=parameters, elements=100
    )
    assert shapes(seen) == "x input (100,), idx input (100,), y output (100,)" and any(
        "y: output" in said for said in seen.inferred
    )


@pytest.mark.parametrize(
    ("reference", "words"),
    [
        ("def reference(:\n", ["does not parse", "line 1"]),
        ("import nowhere_to_be_found\n", ["importing reference.py", "nowhere_to_be_found"]),
        (MADE.replace("return alpha * (a @ b)", "raise KeyError('nope')"), ["raised KeyError: 'nope' (line", "correct it there"]),
        (MADE.replace('"K": 4, ', ""), ["workload small: 'K', which make_inputs reads, is not among its dims"]),
        (MADE.replace("return alpha * (a @ b)", "return (a @ b)[1:]"), ["shape (7, 6)", "'c'", "(8, 6)"]),
        (MADE.replace("return alpha * (a @ b)", "a += 1\n    return alpha * (a @ b)"), ["changes its input 'a'"]),
        (MADE.replace("reference(a, b, c, alpha,", "reference(a, b, c, alpha, beta,"), ["'beta'", "make_inputs does not make it"]),
        (MADE.replace('outputs = ("c",)', 'outputs = ("z",)'), ["`outputs` names ['z']", "a, b, c"]),
        (MADE.replace('(1, 64)', '64'), ["dims_range", "'M'"]),
        (MADE.replace('"M": 8, ', '"M": 10**9, '), ["memory"]),
        (MADE.replace('"weight": 2.0', '"wieght": 2.0'), ["unknown key 'wieght'", "did you mean 'weight'?", "margin, bytes"]),
        (MADE.replace('"weight": 2.0', '"bytes": 417'), ["workload small: its bytes are 417", "have 416"]),
        (MADE.replace('"weight": 2.0', '"weight": float("nan")'), ["workload small", "weight must be a number"]),
    ],
)  # fmt: skip
def test_one_sentence_for_each_mistake(asker: Asker, reference: str, words: list[str]) -> None:
    seen = asker.probe(reference)
    said = seen.error or seen.unusable
    assert said and (seen.unusable or not seen.workloads) and "\n" not in said
    for word in words:
        assert word in said


def out_of(answer: str, inputs: str = '"x": torch.randn(B, 4), "b": torch.ones(B, 4)', setup: str = "") -> str:
    """A logic-only reference that leaves its outputs to be found."""
    return f"""
import torch
workloads = [{{"B": 8}}]
{setup}
def make_inputs(dims, seed):
    torch.manual_seed(seed)
    B = dims["B"]
    return {{{inputs}, "B": B}}
def reference(x, b=None, out=None, gate=None, mask=None, B=None, **rest):
    {answer}
"""


MANY = '"x": torch.rand(200_000), "out": torch.empty(10)'
X, OUT = '"x": torch.randn(B, 4)', '"out": torch.empty(B, 4)'


NO_BUFFER = ["where the buffer", "(of shape [8, 4])", "'out': torch.empty", "`outputs = (...)`"]
"""The last tensor is an input then, and no kernel could be right that wrote there."""
IN_PLACE = '"x": torch.randn(B, 4).clamp(0), "b": torch.ones(B, 4), "out": torch.zeros(B, 4)'
DECLARED = 'outputs = "out"'


@pytest.mark.parametrize(
    ("answer", "inputs", "setup", "found"),
    [
        ("return torch.softmax(x * 2, -1) + b", f'{X}, "b": torch.ones(B, 4)', "", ["reads 'b'", *NO_BUFFER]),
        ("return x * 2", f'"out": torch.zeros(B, 4), "spare": torch.zeros(B, 4), {X}', "", ["reads 'x'", *NO_BUFFER]),
        # None of these shows in the values that make_inputs gives, or hardly.
        (
            "return x + gate * b",
            f'{X}, "b": torch.ones(B, 4), "gate": torch.zeros(1)',
            "",
            ["reads 'gate'", *NO_BUFFER],
        ),
        (
            "return torch.from_numpy(x.numpy() * b.numpy())",
            f'{X}, "b": torch.ones(B, 4)',
            "",
            ["reads 'b'", *NO_BUFFER],
        ),
        ("return x.sum(1)", f'"out": torch.empty(B), "other": torch.empty(2, 4), {X}', "", "out"),
        ("return torch.addmm(out, x, x.t()[:, :4], beta=0)", f"{X}, {OUT}", "", "out"),
        # Written by index, mask or scatter, in whole or in part.
        ("out[torch.arange(B).flip(0)] = x", f"{X}, {OUT}", "", "out"),
        # Written beside an answer, by what changes nothing here.
        ("b.clamp_(0, 3); return x[b]", f'{X}, "b": torch.arange(B) % 4, {OUT}', "", "out"),
        # Its sums move their last digits from one call to the next, which is not reading.
        ("return out.zero_().index_put_((torch.arange(200_000) % 10,), x, accumulate=True)", MANY, "", "out"),
        # What is read and written in place is named in `inout`.
        ("return x.relu_()", IN_PLACE, "", ["reads its output 'x' before writing it", 'inout = ("x",)', "noise"]),
        ("x.clamp_(-1e9, 1e9)", IN_PLACE, "", ["reads its output 'x' before writing it", 'inout = ("x",)']),
        (
            "out.copy_(x + b)",
            IN_PLACE,
            'outputs = "b", "out"',
            ["reads its output 'b'", "take it out of `outputs` if the kernel only"],
        ),
        ("x += 1", X, 'inout = "x"; outputs = "x"', ["'x' is named in `inout` and in `outputs`"]),
        ("x += 1; return x, x.sum(0)", X, 'inout = "x"', ["returned 2 tensors for 1 outputs (x)", "`outputs`"]),
        ("return x + torch.rand_like(x)", f"{X}, {OUT}", DECLARED, ["gives another 'out' when it is called again"]),
        ("return 2 * x + out", f"{X}, {OUT}", DECLARED, ["reads its output 'out' before writing it"]),
        ("return x.to_sparse()", f"{X}, {OUT}", DECLARED, ["returned a torch.sparse_coo tensor"]),
        ("return torch.fft.fft(x)", f"{X}, {OUT}", DECLARED, ["tensor of torch.complex64"]),
        ("copy = out.clone(); copy[:] = x; return copy", f"{X}, {OUT}", DECLARED, "out"),
    ],
)
def test_an_output_is_a_tensor_that_is_not_read_and_what_has_none_is_told_what_to_add(
    asker: Asker, answer: str, inputs: str, setup: str, found: str | list[str]
) -> None:
    """`found`: the output's name, or what the error says."""
    seen = asker.probe(out_of(answer, inputs, setup))
    if isinstance(found, str):
        assert seen.error is None and [a.name for a in seen.workloads[0].arguments if a.role == "output"] == [found]
    else:
        assert seen.error is not None and not [piece for piece in found if piece not in seen.error], seen.error


@pytest.mark.parametrize(
    ("answer", "setup", "roles"),
    [
        ("x.mul_(2).add_(b)", "", "inout input input"),
        ("return x.mul_(2).add_(b)", "", "inout input input"),
        ("return 2 * x + b", "", "inout input input"),
        ("out.copy_(x + b); x.mul_(2)", "", "inout input output"),
        ("x.mul_(2); return (x + b).clone()", 'outputs = "out"', "inout input output"),
        ("return 2 * x, x + b", 'outputs = "out"', "inout input output"),
    ],
)
def test_an_argument_that_is_read_and_written_is_both(asker: Asker, answer: str, setup: str, roles: str) -> None:
    given = f'{X}, "b": torch.ones(B, 4), {OUT}'
    seen = asker.probe(out_of(answer, given, f'inout = ("x",)\n{setup}'))
    assert seen.error is None, seen.error
    (workload,) = seen.workloads
    assert " ".join(a.role for a in workload.arguments[:3]) == roles
    # x counts twice, as it is read and written; all three tensors have 128 bytes.
    assert workload.unique_bytes == 4 * 128


def test_what_a_cache_keeps_need_neither_be_read_nor_written(asker: Asker) -> None:
    given = '"x": torch.randn(B, 4), "b": torch.randn(1000, 4)'
    seen = asker.probe(out_of("b[7] = x[0]", given, 'inout = ("b",)'))
    assert seen.error is None and seen.workloads[0].unique_bytes == 4 * 8


def test_fixed_values_and_parts_reach_the_reference_as_they_were_made(asker: Asker) -> None:
    setup = "import collections, dataclasses\nPair = collections.namedtuple('Pair', 'a b')\n"
    setup += "@dataclasses.dataclass\nclass C:\n    w: object\n    e: float\n"
    given = """"x": [torch.randn(B, 4), torch.randn(B, 4)], "b": None, "gate": C(torch.ones(4), 0.5), "self": "relu",
        "what": torch.float64, "mask": Pair(torch.ones(4), {"in": torch.ones(4)}), "out": torch.empty(B, 4)"""
    answer = """assert b is None and rest["self"] == "relu" and rest["what"] is torch.float64
    return (x[0] + x[1]) * gate.w * gate.e + mask.a * mask.b["in"]"""
    seen = asker.probe(out_of(answer, given, setup))
    assert seen.error is None, seen.error
    assert [a.name for a in seen.workloads[0].arguments] == [
        "x_0",
        "x_1",
        "gate_w",
        "gate_e",
        "mask_a",
        "mask_b_in",
        "out",
        "B",
    ]
    said = " ".join(seen.inferred)
    assert (
        "b is fixed to None" in said
        and "self is fixed to 'relu'" in said
        and "x is given to a kernel as x_0, x_1" in said
    )


@pytest.mark.parametrize(
    "answer",
    [
        "return torch.autograd.grad(torch.tanh(x), x, b)[0]",
        "torch.tanh(x).backward(b); return x.grad",
        "x = x.detach().requires_grad_(); out.copy_(torch.autograd.grad(torch.tanh(x), x, b)[0])",
    ],
)
def test_a_reference_may_ask_for_gradients(asker: Asker, answer: str) -> None:
    given = '"x": torch.randn(B, 4, requires_grad=True), "b": torch.randn(B, 4), "out": torch.empty(B, 4)'
    seen = asker.probe(out_of(answer, given))
    assert seen.error is None and shapes(seen) == "x input (8, 4), b input (8, 4), out output (8, 4)", seen.error
    assert not any("float64" in said for said in seen.inferred)


def test_what_changes_nothing_is_said(asker: Asker) -> None:
    said = " ".join(
        asker.probe(out_of("return x.sort(-1).values + b * 0", f'{X}, "b": torch.randn(B, 4), {OUT}')).inferred
    )
    assert "other values of the input 'b' alone change no output" in said and "input 'x'" not in said
    said = " ".join(asker.probe(out_of("return (x * 0).cos().cumsum(-1)", f"{X}, {OUT}")).inferred)
    assert "output 'out' is the same for other inputs" in said
    said = " ".join(
        asker.probe(out_of("return x + 1", '"x": torch.randn(4, B).t(), "out": torch.empty(B, 4)')).inferred
    )
    assert "its strides (1, 8) are for your own function" in said


def test_indices_are_not_written_where_values_belong(asker: Asker) -> None:
    idx, val = '"idx": torch.empty(B, 2, dtype=torch.int64)', '"val": torch.empty(B, 2)'
    assert asker.probe(out_of("return torch.topk(x, 2)", f"{X}, {val}, {idx}")).error is None
    error = asker.probe(out_of("return torch.topk(x, 2)", f"{X}, {idx}, {val}")).error
    assert error is not None and "'idx' (int64), 'val' (float32); put them in one order" in error


def test_what_is_written_in_part_and_returned_counts_as_written_in_part(asker: Asker) -> None:
    seen = asker.probe(out_of("out[:, :2] = 2 * x[:, :2]; return out", f"{X}, {OUT}"))
    assert seen.error is None and not any("float32 whatever" in said for said in seen.inferred)
    (compared,) = [a.compared for a in seen.workloads[0].arguments if a.name == "out"]
    assert compared == 16


def test_a_size_that_is_lacking_is_named_with_why_it_must_be_given(asker: Asker) -> None:
    alone = MADE.replace("workloads =", "wl =")
    for reference in (MADE, alone):
        error = asker.probe(reference, {"M": 8, "N": 6}).error
        assert error is not None and error.startswith("--dims: 'K'"), error
        assert "which make_inputs reads" in error and "add K=NUMBER" in error, error


def test_a_size_that_make_inputs_does_not_read_is_refused(asker: Asker) -> None:
    sizes = {"M": 8, "K": 4, "N": 6}
    refused = asker.probe(MADE, {**sizes, "Q": 3})
    assert refused.error is not None and refused.error.startswith(
        "--dims: 'Q' is not a dim of this task, whose make_inputs reads K, M, N"
    )
    # One that takes whatever it is given reads them all.
    some = ("q = dims['Q'] if dims['M'] > 100 else 1", "q = dims['M'] > 100 and 'Q' in dims")
    for line in ("dims = dict(dims)", "dims = dims | {}", "dims.get('Q', 1)", *some):
        assert asker.probe(MADE.replace("    g = ", f"    {line}\n    g = "), {**sizes, "Q": 3}).error is None, line


NOISE = "1e-5 * torch.randn(c.shape, dtype=a.dtype)"


@pytest.mark.parametrize(
    "body",
    [
        f"return alpha * (a @ b) + {NOISE}",
        "return alpha * (a @ b) + torch.from_numpy(__import__('numpy').random.rand(*c.shape) * 1e-5).to(a.dtype)",
        # Beside one huge element, of a generator that nobody else has.
        "out = alpha * (a @ b) + __import__('random').SystemRandom().random()\n    out[0, 0] = 1e9\n    return out",
        "c.copy_(torch.randn(c.shape))",
        # One buffer, returned each time.
        "kept.append(c)\n    kept[0][:] = alpha * (a @ b) + __import__('random').random()\n    return kept[0]",
        # Steady in float64 alone: answers in its own precision are far from those with which kernels are compared.
        "calls.append(1)\n    return alpha * (a @ b) * (1 + (0.3 * len(calls) if a.dtype is torch.float32 else 0))",
    ],
)
def test_a_reference_that_is_random_is_refused(asker: Asker, body: str) -> None:
    refused = asker.probe("calls, kept = [], []\n" + MADE.replace("return alpha * (a @ b)\n", f"{body}\n"))
    assert (
        refused.error is not None
        and "reference(...) gives another 'c' when it is called again with the same arguments" in refused.error
    )


@pytest.mark.parametrize(
    ("units", "dtype", "random"), [(60, "float32", False), (60, "float64", False), (300, "float64", True)]
)
def test_another_order_of_sums_does_not_make_a_reference_random(
    units: int, dtype: str, random: bool, asker: Asker
) -> None:
    """The last digits move from call to call, as those of an index_put_ that accumulates on several threads."""
    body = f"calls.append(1)\n    return alpha * (a @ b) * (1 + {units} * torch.finfo(a.dtype).eps * len(calls))"
    reference = MADE.replace("return alpha * (a @ b)\n", f"{body}\n").replace(
        "generator=g)", f"generator=g, dtype=torch.{dtype})"
    )
    error = asker.probe(f"calls = []\n{reference.replace('empty(', f'zeros(1, dtype=torch.{dtype}).new_empty(')}").error
    assert (error is not None) == random and (error is None or "called again" in error), error


def test_a_reference_that_varies_in_its_own_precision_alone_is_accepted_with_a_note(asker: Asker) -> None:
    """In float64, which is the oracle, the reference is the same each time."""
    body = "calls.append(1)\n    return alpha * (a @ b) * (1 + 300 * torch.finfo(a.dtype).eps * len(calls))"
    seen = asker.probe("calls = []\n" + MADE.replace("return alpha * (a @ b)\n", f"{body}\n"))
    assert seen.error is None
    assert any(
        "gives another 'c'" in note and "in float64, with which kernels are compared, it does not" in note
        for note in seen.inferred
    )


def test_randomness_that_does_not_reach_the_outputs_is_allowed(asker: Asker) -> None:
    for body in (
        "return alpha * (a @ b) + 0 * torch.rand(c.shape)",
        "return torch.where(a @ b > 0, a @ b, float('nan'))",
    ):
        assert asker.probe(MADE.replace("return alpha * (a @ b)\n", f"{body}\n")).error is None


def test_dims_beyond_memory_say_how_much(asker: Asker) -> None:
    seen = asker.probe(MADE, {"M": 4000, "N": 4000, "K": 8}, memory=64 << 20)
    assert "M=4000" in seen.unusable and "bytes" in seen.unusable
    parameters = (pointer("x"), scalar("N"))
    seen = asker.probe("def reference(x, N):\n    x *= 2\n", {"N": 2**40}, parameters=parameters)
    assert seen.error is not None and "memory" in seen.error
    assert asker.probe(MADE).error is None


def test_a_signature_that_does_not_fit(asker: Asker) -> None:
    a, b, c, m, alpha = pointer("a"), pointer("b"), pointer("c"), scalar("M"), scalar("alpha", "float32")
    for parameters in (
        (a, b, c, m),
        (a, b, c, alpha, m),
        (a, b, c, pointer("M"), alpha),
        (pointer("a", "float64"), b, c, m, alpha),
    ):
        assert "make_inputs gives (a: float32, b: float32" in str(asker.probe(MADE, parameters=parameters).error)


def test_a_reference_that_is_float32_at_heart_is_its_own_oracle(asker: Asker) -> None:
    seen = asker.probe(MADE.replace("return alpha * (a @ b)", "return alpha * (a.float() @ b.float())"))
    assert seen.error is None
    assert any("not float64" in said for said in seen.inferred)


def test_integers_and_unwritten_elements(asker: Asker, tmp_path_factory: pytest.TempPathFactory) -> None:
    """An integer output of which the reference writes a part: exact there, and free elsewhere."""
    folder = tmp_path_factory.mktemp("ints")
    task = Task(
        name="double",
        language="cpp",
        arguments=(
            Argument(name="x", role="input", dtype="int32", shape=("N",)),
            Argument(name="y", role="output", dtype="int32", shape=("N",)),
            Argument(name="N", role="scalar", dtype="int32"),
        ),
        reference="def reference(x, y, N):\n    y[:N - 3] = 45 * x[:N - 3]\n",
        workloads=(),
        seed_style=True,
        pointer_elements=100,
    )
    for factor, last, status in ((45, 3, "passed"), (45, 4, "failed"), (44, 3, "failed")):
        text = (
            f'extern "C" void solve(const int* x, int* y, int N) {{ for (int i = 0; i < N - {last}; ++i) y[i] = '
            f"{factor} * x[i]; }}"
        )
        (folder / "k.cpp").write_text(text)
        subprocess.run(["g++", "-O1", "-shared", "-fPIC", "-o", folder / "k.so", folder / "k.cpp"], check=True)
        request = CorrectnessRequest(
            task=task, libraries={"candidate": "candidate.so"}, cases=(Case(workload="w", dims={"N": 100}, seed=1),)
        )
        job = harness_job(request, {"candidate.so": asker.blobs.put((folder / "k.so").read_bytes())}, asker.blobs)
        result = read_answer(asker.executor.run(job), asker.blobs, CorrectnessResult).cases[0]
        assert result.status == status, result.reason


NEGATED = """
import torch

outputs = ("out", "wide")


def make_inputs(dims, seed):
    x = torch.randn(dims["N"], generator=torch.Generator().manual_seed(seed)).to(torch.DTYPE)
    return {"x": x, "out": torch.empty_like(x), "wide": torch.empty(dims["N"]), "N": dims["N"]}


def reference(x, **rest):
    return (-x.to(torch.float32)).to(x.dtype), x.to(torch.float32)
"""
NEGATE = """#include <cmath>
#include <cstdint>
extern "C" void solve(const uint8_t* x, uint8_t* out, float* wide, int N) {
  for (int i = 0; i < N; ++i) {
    const int exponent = (x[i] & 127) >> BITS, rest = x[i] & ((1 << BITS) - 1);
    const float size = std::ldexp((exponent ? 1 << BITS : 0) + rest, (exponent ? exponent : 1) - BIAS - BITS);
    wide[i] = x[i] & 128 ? -size : size;
    out[i] = x[i] ^ 128;
  }
}
"""
UNPACKED = """
import torch

outputs = ("out",)


def make_inputs(dims, seed):
    g = torch.Generator().manual_seed(seed)
    packed = torch.randint(256, (dims["N"] // 2,), generator=g, dtype=torch.uint8)
    scale = torch.rand(dims["N"] // 16, generator=g).to(torch.float16)
    return {"packed": packed, "scale": scale, "out": torch.empty(dims["N"]), "N": dims["N"]}


def reference(packed, scale, **rest):
    numbers = torch.stack([packed & 15, packed >> 4], 1).flatten().to(scale.dtype) - 8
    return (numbers.view(-1, 16) * scale[:, None]).flatten().to(torch.promote_types(scale.dtype, torch.float32))
"""
UNPACK = """#include <cstdint>
extern "C" void solve(const uint8_t* packed, const _Float16* scale, float* out, int N) {
  for (int i = 0; i < N; ++i) out[i] = ((packed[i / 2] >> i % 2 * 4 & 15) - 8) * (float)scale[i / 16];
}
"""


@pytest.mark.parametrize(
    ("reference", "kernel", "wrong"),
    [
        (
            NEGATED.replace("DTYPE", "float8_e4m3fn"),
            NEGATE.replace("BITS", "3").replace("BIAS", "7"),
            ("^ 128", "^ 129"),
        ),
        (NEGATED.replace("DTYPE", "float8_e5m2"), NEGATE.replace("BITS", "2").replace("BIAS", "15"), ("^ 128", "^ 0")),
        (UNPACKED, UNPACK, ("- 8)", "- 7)")),
    ],
    ids=["e4m3", "e5m2", "int4"],
)
def test_numbers_of_8_and_4_bits_reach_a_kernel_and_are_decoded_exactly(
    asker: Asker, tmp_path: Path, reference: str, kernel: str, wrong: tuple[str, str]
) -> None:
    seen = asker.probe(reference, {"N": 128})
    assert seen.error is None and "Degenerate" not in " ".join(seen.inferred)
    arguments = tuple(
        Argument(name=a.name, role=a.role, dtype=a.dtype, shape=tuple(map(str, a.shape)))
        for a in seen.workloads[0].arguments
    )
    task = Task(name="narrow", language="cpp", arguments=arguments, reference=reference, workloads=())
    libraries = {}
    for name, text in {"right": kernel, "wrong": kernel.replace(*wrong)}.items():
        (tmp_path / f"{name}.cpp").write_text(text)
        subprocess.run(
            ["g++", "-O1", "-shared", "-fPIC", "-o", tmp_path / f"{name}.so", tmp_path / f"{name}.cpp"], check=True
        )
        libraries[f"{name}.so"] = asker.blobs.put((tmp_path / f"{name}.so").read_bytes())
    cases = tuple(
        Case(workload="w", dims={"N": 128}, seed=at, distribution=name)
        for at, name in enumerate(get_args(Distribution))
    )
    for name, statuses in (("right", {"passed"}), ("wrong", {"failed"})):
        request = CorrectnessRequest(task=task, libraries={"candidate": f"{name}.so"}, cases=cases)
        answer = read_answer(
            asker.executor.run(harness_job(request, libraries, asker.blobs)), asker.blobs, CorrectnessResult
        )
        assert {case.status for case in answer.cases} == statuses, [case.reason for case in answer.cases]


DRAWN = "def make_inputs(dims, seed):\n    x = torch.rand(dims['N'], generator=torch.Generator().manual_seed(seed))\n"


@pytest.mark.parametrize(
    ("inputs", "answer", "told"),
    [
        (DRAWN, "x * 2", None),
        (DRAWN, "(x > 2).float()", "output 'out' is 0 everywhere"),
        (DRAWN, "torch.arange(len(x)) + 1e-7 * x", "hardly depends on the inputs"),
        (DRAWN, "torch.arange(len(x)) + 10 * x", None),
        (DRAWN.replace("manual_seed(seed)", "manual_seed(7)"), "x * 2", "same inputs for every seed"),
        (DRAWN + "    if seed == 2: raise ValueError('no')\n", "x * 2", None),
    ],
    ids=["honest", "constant", "drowned", "small but there", "one input", "another seed is refused"],
)
def test_a_task_that_says_little_about_a_kernel_is_called_degenerate(
    asker: Asker, inputs: str, answer: str, told: str | None
) -> None:
    head = "import torch\noutputs = ('out',)\nworkloads = [{'N': 512}]\n"
    tail = f"    return {{'x': x, 'out': torch.empty_like(x)}}\n\ndef reference(x, **rest):\n    return {answer}\n"
    seen = asker.probe(head + inputs + tail)
    said = [sentence for sentence in seen.inferred if sentence.startswith("Degenerate: ")]
    assert seen.error is None and len(said) == (told is not None) and (told or "") in "".join(said)


def test_a_stated_rtol_that_coarser_inputs_pass_is_told_with_their_error(asker: Asker) -> None:
    source = (
        "import torch\noutputs = ('out',)\nworkloads = [{'N': 512}]\n"
        "def make_inputs(dims, seed):\n    x = torch.randn(dims['N'], generator=torch.Generator().manual_seed(seed))\n"
        "    return {'x': x, 'out': torch.empty_like(x)}\n\ndef reference(x, **rest):\n    return x + 1\n"
    )
    assert not asker.probe(source).coarse, "nobody stated how exact it must be"
    seen = asker.probe("rtol = 0.01\n" + source).coarse
    assert 2**-12 < seen["tf32"] < 2**-11 and 2**-9 < seen["bfloat16"] < 2**-8


def test_inputs_that_return_for_other_seeds_are_named(asker: Asker) -> None:
    source = (
        "import torch\noutputs = ('out',)\nworkloads = [{'N': 64}, {'N': 128}]\n"
        "def make_inputs(dims, seed):\n    g, n = torch.Generator().manual_seed(seed), dims['N']\n"
        "    return {'x': torch.randn(n, generator=g), 'ids': torch.arange(n) // 3, 'order': torch.randperm(n, "
        "generator=g), 'three': torch.arange(n) + seed % 3, 'out': torch.empty(n)}\n\n"
        "def reference(x, ids, order, three, **rest):\n    return x[order] + ids + three\n"
    )
    said = [sentence for sentence in asker.probe(source).inferred if sentence.startswith("Known content: ")]
    assert [sentence.partition(", in N64, N128; a claim holds")[0] for sentence in said] == [
        "Known content: `ids`: the same content in all input sets",
        "Known content: `order`: the same values in another order in all input sets",
        "Known content: `three`: one of 3 contents in each of 8 input sets",
    ]
