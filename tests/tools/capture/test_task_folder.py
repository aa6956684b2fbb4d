"""From a program that runs to a task folder: its inputs are like the recorded ones, and its baseline is the call."""

from __future__ import annotations

import importlib
import inspect
import json
import re
import subprocess
import sys
import types
from pathlib import Path

import pytest
import torch
import yaml

from graph.__main__ import main
from tests.support import Capsys
from tools.capture.contract import infer_contract
from tools.capture.observation import CallGroup, Content, Observation, ObservedCall, ObservedValue
from tools.capture.task_folder import write_captured_task
from tools.tasks.loader import author_of_task

TOOLS = Path(__file__).parents[3] / "tools"


@pytest.fixture(autouse=True)
def same_numbers() -> None:
    """What is said of a sample holds for these numbers."""
    torch.manual_seed(7)


ATTENTION = '''
import torch
def attention(q, pages, table, lengths, out, /, scale, *, window=None, mode="causal", extra=()):
    """Attention over pages."""
    for i in range(len(q)):
        n = int(lengths[i])
        kept = pages[table[i, : (n + 3) // 4].long()].flatten(0, 1)[:n]
        out[i] = torch.softmax(q[i] @ kept.T * scale, -1) @ kept
    return out, None
'''
BENCH = """
import torch
import attn
from attn import attention
torch.manual_seed(0)
pages = torch.randn(16, 4, 8)
for rows in (2, 2, 3):
    lengths = torch.randint(1, 16, (rows,), dtype=torch.int32)
    table = torch.full((rows, 4), -1, dtype=torch.int32)
    names = torch.randperm(16).int()
    for i in range(rows):
        used = (int(lengths[i]) + 3) // 4
        table[i, :used], names = names[:used], names[used:]
    q = torch.randn(rows, 8)
    attention(q, pages, table, lengths, torch.zeros_like(q), scale=0.5, window=None)
def whole(q):
    return attention(q, pages, table, lengths, torch.zeros_like(q), scale=0.5)[0]
torch.compile(whole, backend="eager")(q)
"""
NORM = """
import torch
class Norm(torch.nn.Module):
    def __init__(self, width, eps=1e-6):
        super().__init__()
        self.eps, self.weight = eps, torch.nn.Parameter(torch.ones(width))
    def scaled(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)
    def forward(self, x):
        return self.scaled(x) * self.weight
norm = Norm(16)
for n in (3, 3, 5):
    norm(torch.randn(2, n, 16)).sum().backward()
print("done")
"""
TRITON = """
import time, torch, triton, triton.language as tl
def timed(call, quantiles):
    begun = time.perf_counter(); call()
    return [time.perf_counter() - begun] * 3
@triton.autotune([triton.Config({"BLOCK": 16}), triton.Config({"BLOCK": 64})], key=["n"], do_bench=timed)
@triton.jit
def _axpy(x_ptr, y_ptr, o_ptr, n, alpha, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(o_ptr + at, tl.load(x_ptr + at, mask=at < n) * alpha + tl.load(y_ptr + at, mask=at < n), mask=at < n)
def axpy(x, y):
    o = torch.empty_like(x)
    _axpy[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, y, o, x.numel(), 2.0)
    return o
if __name__ == "__main__":
    for n in (100, 100, 200):
        axpy(torch.rand(n), torch.rand(n))
"""


def capture(folder: Path, target: str, program: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in program.items():
        (folder / name).write_text(text)
    monkeypatch.chdir(folder)
    assert main(["capture", "--target", target, "--out", "task", "--", list(program)[-1]]) == 0
    return folder / "task"


class Task:
    """A written task: its reference as a module, and its baseline as a function."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.text = (folder / "reference.py").read_text()
        self.reference = types.ModuleType("reference")
        exec(compile(self.text, "reference.py", "exec"), self.reference.__dict__)
        self.yaml = yaml.safe_load((folder / "task.yaml").read_text())
        self.captured = json.loads((folder / "captured.json").read_text())
        monkeypatch.syspath_prepend(str(folder / "baseline"))
        module, _, name = self.yaml["baseline"]["call"].partition(":")
        monkeypatch.delitem(sys.modules, module, raising=False)
        self.baseline = getattr(importlib.import_module(module), name)
        self.roles = {argument["name"]: argument["role"] for argument in self.captured["arguments"]}

    def inputs(self, seed: int = 0, workload: int = 0) -> dict[str, torch.Tensor]:
        """What make_inputs gives."""
        return self.reference.make_inputs(self.reference.workloads[workload]["dims"], seed)

    def call(self, given: dict[str, torch.Tensor]) -> object:
        return self.baseline(**{name: given[name] for name in inspect.signature(self.baseline).parameters})

    def agrees(self) -> bool:
        """Whether baseline and reference answer alike, and leave the same arguments, on inputs of several seeds."""
        for workload in range(len(self.reference.workloads)):
            for seed in (0, 1, 5):
                one, other = self.inputs(seed, workload), self.inputs(seed, workload)
                takes = inspect.signature(self.reference.reference).parameters
                results = self.reference.reference(**{name: one[name] for name in takes}), self.call(other)
                torch.testing.assert_close(*results)
                for name in (name for name, role in self.roles.items() if role in ("input", "inout")):
                    torch.testing.assert_close(one[name], other[name])
        return True


def test_paged_attention(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task = Task(
        capture(tmp_path, "attn:attention", {"attn.py": ATTENTION, "bench.py": BENCH}, monkeypatch), monkeypatch
    )
    assert {n: r for n, r in task.roles.items() if r != "scalar"} == {
        "q": "input",
        "pages": "input",
        "table": "input",
        "lengths": "input",
        "out": "inout",
    }
    assert task.reference.inout == ("out",)
    assert sorted((w["dims"]["q_0"], w["weight"]) for w in task.reference.workloads) == [(2, 0.6667), (3, 0.3333)]
    assert "q_0" not in task.reference.dims_range and task.reference.dims_range["pages_0"] == (16, 16)
    assert task.agrees()
    first, other = task.inputs(0), task.inputs(3)
    assert not torch.equal(first["table"], other["table"])
    for given in (first, other):
        # What belongs together stays together: a row holds as many pages as its length asks for.
        assert torch.equal((given["table"] >= 0).sum(1), (given["lengths"] + 3) // 4)
    monkeypatch.syspath_prepend(str(TOOLS))
    from harness.reference.contract import Contract  # type: ignore[import-not-found]

    contract = Contract(task.text)
    names = [argument.name for argument in contract.build(task.reference.workloads[0]["dims"], 1, [], 0)]
    assert names == [argument["name"] for argument in task.captured["arguments"]]
    assert contract.fixed == {"window": None, "mode": "causal"}
    assert author_of_task(tmp_path / "task", None) == "observed"
    assert "zlib" not in json.dumps(task.captured) and task.captured["observation"]["exit_code"] == 0


def test_a_module_becomes_a_function_of_its_parameters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capsys
) -> None:
    task = Task(capture(tmp_path, "norm:Norm", {"norm.py": NORM}, monkeypatch), monkeypatch)
    assert list(task.roles) == ["x", "weight", "out", "x_0", "x_1", "x_2"]
    assert task.agrees()
    given = task.inputs()
    assert not torch.equal(given["weight"], torch.ones(16))
    assert task.reference.outputs == ("out",) and not hasattr(task.reference, "inout")
    torch.testing.assert_close(task.call({**given, "weight": given["weight"] * 2}), task.call(given) * 2)
    # The script would run again if its file were imported.
    assert "for n in" not in (tmp_path / "task" / "baseline" / "norm.py").read_text()
    assert "3 calls of 2 classes" in capsys.readouterr().out


def test_a_triton_kernel_is_launched_as_the_autotuner_chose(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("triton")
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    folder = capture(tmp_path, "__main__:_axpy", {"axpy.py": TRITON}, monkeypatch)
    captured = json.loads((folder / "captured.json").read_text())
    assert captured["observation"]["apart"] == {"in autotuning": 4}
    roles = {argument["name"]: argument["role"] for argument in captured["arguments"]}
    assert roles == {"x_ptr": "input", "y_ptr": "input", "o_ptr": "inout", "n": "scalar", "alpha": "scalar"}
    assert sum(workload["calls"] for workload in captured["workloads"]) == 3
    assert yaml.safe_load((folder / "task.yaml").read_text())["language"] == "triton"
    assert "FILL" in (folder / "reference.py").read_text()
    program = (
        "import sys; sys.path.insert(0, 'baseline'); import torch; from observed_call import observed_call as f\n"
        "x, y, o = torch.rand(200), torch.rand(200), torch.empty(200)\n"
        "f(x_ptr=x, y_ptr=y, o_ptr=o, n=200, alpha=2.0); torch.testing.assert_close(o, 2 * x + y)"
    )
    subprocess.run([sys.executable, "-c", program], cwd=folder, check=True)


def test_an_operator_is_its_own_reference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = "import torch\nfor n in (4, 4, 9):\n    torch.rand(n, 7).t().softmax(0)\n"
    task = Task(capture(tmp_path, "op:aten._softmax", {"soft.py": program}, monkeypatch), monkeypatch)
    assert "torch.ops.aten._softmax.default(self, dim, half_to_float)" in task.text
    assert "strides [1, 7]" in task.captured["arguments"][0]["evidence"] and task.agrees()


# ---------------------------------------------------------------- without a program


def test_a_function_of_an_extension_is_called_by_place_with_transposed_inputs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = "import torch, fast\nfor _ in range(3):\n    fast.product(torch.randn(4, 8), torch.randn(6, 8).t())\n"
    program = {"fast.py": "from torch import mm as product\n", "bench.py": bench}
    task = Task(capture(tmp_path, "fast:product", program, monkeypatch), monkeypatch)
    given = task.inputs(3)
    assert given["arg0"].is_contiguous() and (given["arg1"].shape, given["arg1"].stride()) == ((8, 6), (1, 8))
    torch.testing.assert_close(task.call(given), given["arg0"] @ given["arg1"])


def test_an_operator_of_torch_library_has_the_parameters_of_its_schema_and_its_package_runs_at_import(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pack").mkdir()
    operator = (
        "import torch, pack\n@torch.library.custom_op('captured_here::shifted', mutates_args=())\n"
        "def shifted(x: torch.Tensor, by: float = 2.0) -> torch.Tensor:\n    return x + by + pack.READY\n"
    )
    bench = "import torch\nfrom pack.ops import shifted\nfor _ in range(2): shifted(torch.randn(5, 7))\n"
    program = {"pack/__init__.py": "READY = 1\n", "pack/ops.py": operator, "bench.py": bench}
    task = Task(capture(tmp_path, "pack.ops:shifted", program, monkeypatch), monkeypatch)
    assert task.roles["x"] == "input" and task.roles["by"] == "scalar" and "FILL:" in task.text
    assert (tmp_path / "task" / "baseline" / "pack" / "__init__.py").read_text() == "READY = 1\n"


def test_a_rare_size_keeps_a_weight(tmp_path: Path) -> None:
    calls = [({"x": tensor(n)}, count, seconds) for n, count, seconds in ((4, 100_000, 1e-6), (8, 1, 0.1))]
    write_captured_task(observed(calls), tmp_path / "t")
    scope: dict[str, object] = {}
    exec((tmp_path / "t" / "reference.py").read_text(), scope)
    assert sorted(w["weight"] for w in scope["workloads"]) == [pytest.approx(1e-5, rel=1e-3), pytest.approx(1.0)]


def tensor(*shape: int, dtype: str = "float32", strides: tuple[int, ...] = ()) -> ObservedValue:
    dense = tuple(int(torch.tensor(shape[at + 1 :]).prod()) for at in range(len(shape)))
    return ObservedValue(kind="tensor", dtype=dtype, shape=shape, strides=strides or dense, contiguous=not strides)


def observed(calls: list[tuple[dict[str, ObservedValue], int, float]], **more: object) -> Observation:
    groups = []
    for arguments, count, seconds in calls:
        tensors = ObservedCall(arguments=arguments).tensors
        call = ObservedCall(
            arguments=arguments,
            contents=tuple(Content(min=-1, max=1, std=1) for _ in tensors),
            written=tuple(name.startswith("y") for name in tensors),
            alias=tuple(range(len(tensors))),
        )
        groups.append(CallGroup(calls=(call,), count=count, median_s=seconds))
    fields = {"target": "m:f", "form": "function", "command": ("p.py",), "apart": {}}
    names = dict.fromkeys(calls[0][0], "POSITIONAL_OR_KEYWORD")
    fields |= {"problems": (), "modules": {}, "device": "cpu", "exit_code": 0}
    return Observation.model_validate({**fields, "parameters": names, "groups": groups, **more})


def number(value: float) -> ObservedValue:
    return ObservedValue(kind="number", value=value)


def test_extents_that_are_always_equal_are_one_dim() -> None:
    rows = [(2, 8, 3), (2, 16, 3), (6, 8, 3)]
    calls = [
        ({"x": tensor(b * n, h), "w": tensor(h), "o": tensor(b + 1), "n": number(n), "y": tensor(b, n)}, 1, 1.0)
        for b, n, h in rows
    ]
    contract = infer_contract(observed(calls))
    shapes = {a.name: a.shape for a in contract.arguments if a.role != "scalar"}
    assert shapes["w"] == ('dims["x_1"]',) and shapes["x"][1] == 'dims["x_1"]'
    assert shapes["y"] == ('dims["y_0"]', 'dims["n"]')
    assert contract.dims_range == {"n": (8, 16), "x_0": (16, 48), "x_1": (3, 3), "o_0": (3, 7), "y_0": (2, 6)}
    assert [a.role for a in contract.arguments if a.name == "y"] == ["inout"]


def test_workloads_cover_the_time_and_weigh_by_count() -> None:
    calls = [({"x": tensor(n)}, count, seconds) for n, count, seconds in ((4, 100, 1e-3), (8, 1, 0.05), (16, 5, 1e-3))]
    contract = infer_contract(observed(calls))
    assert [(w.dims["x_0"], w.calls) for w in contract.workloads] == [(4, 100), (8, 1)]
    assert sum(w.share for w in contract.workloads) > 0.9 and [w.calls for w in contract.left_out] == [5]
    many = infer_contract(observed([({"x": tensor(n)}, 1, 1.0) for n in range(2, 42)]))
    assert len(many.workloads) == 12


def test_a_counter_is_no_size() -> None:
    contract = infer_contract(observed([({"x": tensor(4), "step": number(step)}, 1, 1.0) for step in range(30)]))
    (workload,) = contract.workloads
    assert workload.calls == 30 and "step" not in workload.dims


def test_other_types_and_layouts_are_another_task() -> None:
    other = [({"x": tensor(8, 4, 1)}, 1, 1.0), ({"x": tensor(8, 4, dtype="int32")}, 2, 1.0)]
    contract = infer_contract(observed([({"x": tensor(8, 4)}, 9, 1.0), *other]))
    assert [w.calls for w in contract.workloads] == [9]
    assert len(contract.notes) == 2 and "2 calls (17% of the time) have other types" in contract.notes[0]


def test_a_layout_with_gaps_and_a_bad_alignment_are_said() -> None:
    gap = tensor(8, 4, strides=(9, 1)).model_copy(update={"alignment": 4})
    evidence = infer_contract(observed([({"x": gap}, 1, 1.0)])).arguments[0].evidence
    assert "strides [9, 1], in the task contiguous" in evidence and "multiple of 4 bytes" in evidence


def test_lists_and_structs_are_given_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mode, table = ObservedValue(kind="fixed", code="'a'"), {"w": tensor(2)}
    nested = {
        "xs": ObservedValue(kind="list", items={"0": tensor(4), "1": tensor(4)}),
        "meta": ObservedValue(kind="struct", type="Meta", items={"offsets": tensor(3), "mode": mode}),
        "more": ObservedValue(kind="tuple", items={"0": ObservedValue(kind="dict", items=table)}),
        "flag": ObservedValue(kind="number", value=True),
        "handle": ObservedValue(kind="opaque", type="Stream"),
    }
    written = write_captured_task(observed([(nested, 1, 1.0)]), tmp_path / "t")
    assert "baseline: m:f" in written.text() and not (tmp_path / "t" / "baseline").exists()
    assert "to fill: reference.py:" in written.text() and "handle is a Stream" in written.text()
    text = (tmp_path / "t" / "reference.py").read_text().replace('        "handle": None,\n', "")
    monkeypatch.syspath_prepend(str(TOOLS))
    from harness.reference.contract import Contract

    contract = Contract(text)
    given = contract.build({"xs_0_0": 4, "meta_offsets_0": 3, "more_0_w_0": 2}, 0, [], 0)
    assert [one.name for one in given][:5] == ["xs_0", "xs_1", "meta_offsets", "more_0_w", "flag"]
    assert contract.fixed == {"meta_mode": "a"} and contract.made["meta"].mode == "a"


def recorded_task(folder: Path, seeds: int = 9, **tensors: torch.Tensor) -> list[dict[str, torch.Tensor]]:
    """What make_inputs gives, by seed, in the task of one call with these tensors."""
    from tools.harness.capture.values import read_summary, summary, tensor_layout

    call = ObservedCall(
        arguments={name: ObservedValue.model_validate(tensor_layout(one)) for name, one in tensors.items()},
        contents=tuple(Content.model_validate(read_summary(summary(one))) for one in tensors.values()),
        written=(False,) * len(tensors),
        alias=tuple(range(len(tensors))),
    )
    found = observed([(call.arguments, 1, 1.0)])
    groups = (CallGroup(calls=(call,), count=1, median_s=1.0),)
    written = write_captured_task(found.model_copy(update={"groups": groups}), folder / "t")
    (folder / "said").write_text(written.text())
    scope: dict[str, object] = {}
    exec((folder / "t" / "reference.py").read_text(), scope)
    dims = scope["workloads"][0]["dims"]
    return [scope["make_inputs"](dims, seed) for seed in range(seeds)]


def contents(given: list[dict[str, torch.Tensor]], name: str) -> int:
    """Number of different contents of an argument, without regard to order."""
    return len({tuple(sorted(one[name].flatten().tolist())) for one in given})


def test_offsets_and_their_lengths_are_redrawn_together(tmp_path: Path) -> None:
    lengths = torch.tensor([16, 48, 0, 112, 32, 64])
    offsets = torch.nn.functional.pad(lengths.cumsum(0), (1, 0))
    given = recorded_task(tmp_path, lengths=lengths, offsets=offsets, x=torch.randn(272, 2))
    assert torch.equal(given[0]["offsets"], offsets) and contents(given, "lengths") > 5
    for one in given:
        assert torch.equal(one["offsets"].diff(), one["lengths"]) and int(one["offsets"][-1]) == 272
        assert not (one["lengths"] % 16).any() and int(one["lengths"].min()) >= 0 and int(one["lengths"].max()) <= 112


def test_a_sorted_list_gets_other_gaps_and_a_histogram_other_counts(tmp_path: Path) -> None:
    segments = torch.tensor([2, 2, 2, 3, 5, 5, 6, 6, 6, 6, 9, 9]).int()
    experts = torch.randint(0, 8, (300, 2), generator=torch.Generator().manual_seed(1))
    given = recorded_task(tmp_path, segments=segments, experts=experts, tokens=torch.arange(90) % 7)
    for name in ("segments", "experts", "tokens"):
        assert contents(given, name) > 5
    for one in given:
        assert bool((one["segments"].diff() >= 0).all()) and one["segments"][[0, -1]].tolist() == [2, 9]
        assert one["experts"].min() >= 0 and one["experts"].max() <= 7


def test_what_counts_or_sorts_another_list_stays_as_recorded(tmp_path: Path) -> None:
    segments = torch.tensor([0, 0, 1, 1, 1, 2, 4, 4, 4, 4, 5])
    given = recorded_task(tmp_path, segments=segments, counts=segments.bincount())
    assert (
        contents(given, "segments") == 1
        and "segments, counts: the recorded integers" in (tmp_path / "said").read_text()
    )
    experts = torch.tensor([3, 0, 3, 1, 2, 2, 0, 3, 1, 1, 3])
    given = recorded_task(tmp_path / "other", experts=experts, order=experts.argsort())
    assert len({tuple(one["experts"].tolist()) for one in given}) == 1


def test_rows_that_rise_and_pages_that_belong_to_one_row_stay_so(tmp_path: Path) -> None:
    neighbours = torch.stack([torch.randperm(50)[:6].sort().values for _ in range(12)])
    table = torch.where(torch.arange(12 * 3).reshape(12, 3) % 5 == 2, -1, torch.randperm(36).reshape(12, 3))
    given = recorded_task(tmp_path, neighbours=neighbours, table=table, causal=torch.ones(12, 12).tril().bool()[:, :9])
    for one in given:
        assert bool((one["neighbours"].diff() > 0).all())
        named = one["table"][one["table"] >= 0]
        assert len(named.unique()) == len(named) and int((one["table"] < 0).sum()) == int((table < 0).sum())


def test_masks_and_floats_of_few_values_keep_their_values(tmp_path: Path) -> None:
    causal = torch.full((20, 20), -torch.inf).triu(1)
    large = torch.randint(0, 2, (300, 300)).float()
    bias = torch.randn(300, 300).masked_fill(torch.rand(300, 300) < 0.25, -torch.inf)
    for one in recorded_task(tmp_path, 3, causal=causal, large=large, bias=bias):
        assert torch.equal(one["causal"], causal)
        assert set(one["large"].unique().tolist()) == {0.0, 1.0} and 0.4 < one["large"].mean() < 0.6
        assert 0.2 < one["bias"].isneginf().float().mean() < 0.3 and bool(one["bias"].isfinite().any(1).all())
        assert 0.9 < one["bias"][one["bias"].isfinite()].std() < 1.1
    assert re.search(r"\b2[3-7]% of its values are infinite", (tmp_path / "said").read_text()), "seen in a sample"


def test_large_integers_are_drawn_as_they_were_and_said(tmp_path: Path) -> None:
    starts = torch.randint(0, 500_000, (20_000,)).sort().values
    labels = torch.where(torch.rand(30_000) < 0.3, -100, torch.randint(0, 32_000, (30_000,)))
    given = recorded_task(tmp_path, 3, starts=starts, slots=torch.randperm(40_000), labels=labels)
    said = (tmp_path / "said").read_text()
    for one in given:
        assert bool((one["starts"].diff() >= 0).all()) and len(one["slots"].unique()) == 40_000
        assert set(one["labels"][one["labels"] < 0].tolist()) == {-100}
        assert 0.28 < (one["labels"] < 0).float().mean() < 0.32
    assert all(
        f"{name}: its integers are too large to be recorded" in said
        for name in given[0]
        if name in {"starts", "slots", "labels"}
    )


@pytest.mark.parametrize("distribution", ["scaled", "shifted", "outliers", "near_zero"])
def test_a_mask_stays_infinite_in_every_distribution(monkeypatch: pytest.MonkeyPatch, distribution: str) -> None:
    monkeypatch.syspath_prepend(str(TOOLS))
    from harness.reference.contract import Arg
    from harness.reference.oracle import transform

    causal = torch.full((9, 9), -torch.inf).triu(1)
    given = Arg("mask", causal.clone(), "float32", "input")
    transform(torch, [given], distribution, 3)
    assert torch.equal(given.value.isneginf(), causal.isneginf()) and not given.value.isnan().any()
