"""From a program that runs to a task folder: its inputs are like the recorded ones, and its baseline is the call."""

from __future__ import annotations

import importlib
import inspect
import itertools
import json
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
from tools.capture.integers import RECORDED_INTEGERS
from tools.capture.observation import CallGroup, Content, Observation, ObservedCall, ObservedValue
from tools.capture.task_folder import write_captured_task
from tools.tasks.loader import author_of_task

TOOLS = Path(__file__).parents[3] / "tools"
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
    assert sorted((w["dims"]["q_0"], w["weight"]) for w in task.reference.workloads) == [(2, 2.0), (3, 1.0)]
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
    fields = {"target": "m:f", "form": "function", "command": ("p.py",), "processes": 1, "apart": {}}
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


def reordered(values: list[int], how: str, seed: int) -> list[int]:
    import base64
    import zlib

    text = base64.b64encode(zlib.compress(torch.tensor(values).numpy().tobytes())).decode()
    scope = {"torch": torch, "base64": base64, "zlib": zlib, "HELD": ("n",), "REORDERING": {"x": how}}
    scope["RECORDED"] = {(7,): [{"x": text}]}
    exec(RECORDED_INTEGERS, scope)
    with pytest.raises(ValueError, match="no call with these sizes"):
        scope["recorded"]("x", {"n": 8}, seed, torch.int64, (len(values),))
    return scope["recorded"]("x", {"n": 7}, seed, torch.int64, (len(values),)).tolist()


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_offsets_keep_their_pieces(seed: int) -> None:
    offsets = [0, 3, 4, 4, 9, 16]
    assert reordered(offsets, "offsets", 0) == offsets
    found = reordered(offsets, "offsets", seed)
    assert found[0] == 0 and found[-1] == 16 and found != offsets
    assert sorted(b - a for a, b in itertools.pairwise(found)) == [0, 1, 3, 5, 7]
    assert sorted(reordered([5, 2, 8, 8], "rows", seed)) == [2, 5, 8, 8]
    assert reordered([5, 2, 8, 8], "kept", seed) == [5, 2, 8, 8]
