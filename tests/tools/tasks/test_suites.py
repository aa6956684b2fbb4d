"""Problems of SOL-ExecBench, FlashInfer-Bench and GPU MODE as tasks: what the suite would compute, on inputs as it
draws them."""

from __future__ import annotations

import json
from pathlib import Path
from runpy import run_path
from typing import Any

import pytest
import torch
import yaml

from tests.support import Beside
from tools.errors import SettingsError
from tools.tasks.loader import author_of_task, load_task_folder
from tools.tasks.suites import SuiteSource, write_task_folder

DEFINITION: dict[str, Any] = {
    "name": "scaled_pairs",
    "op_type": "own",
    "axes": {
        "rows": {"type": "var"},
        "columns": {"type": "const", "value": 6},
        "pairs": {"type": "expr", "expression": "columns // 2"},
    },
    "inputs": {
        "x": {"shape": ["rows", "columns"], "dtype": "float32"},
        "var": {"shape": ["rows"], "dtype": "float32"},
        "by": {"shape": None, "dtype": "float32"},
    },
    "outputs": {
        "sums": {"shape": ["rows", "pairs"], "dtype": "float32"},
        "least": {"shape": ["rows"], "dtype": "float32"},
    },
    "reference": "import torch\n\ndef run(x, var, by):\n    scaled = x * by / var.sqrt()[:, None]\n"
    "    return {'least': x.amin(1), 'sums': scaled[:, ::2] + scaled[:, 1::2]}",
}
TOLERANCE = {"max_atol": 1e-5, "max_rtol": 2e-4}


def line(rows: int, **changes: object) -> dict[str, Any]:
    """A workload of SOL-ExecBench."""
    inputs = {"x": {"type": "random"}, "var": {"type": "random"}, "by": {"type": "scalar", "value": 0.5}}
    return {"uuid": f"{rows:08}-0000", "axes": {"rows": rows}, "inputs": {**inputs, **changes}, "tolerance": TOLERANCE}


def sol(folder: Path, definition: dict[str, Any], *lines: dict[str, Any]) -> Path:
    """A problem's folder as SOL-ExecBench has it."""
    folder.mkdir(exist_ok=True)
    (folder / "definition.json").write_text(json.dumps(definition))
    if lines:
        (folder / "workload.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return folder


TASK_YML = """
files:
  - {"name": "submission.py", "source": "@SUBMISSION@"}
  - {"name": "utils.py", "source": "../utils.py"}
  - {"name": "reference.py", "source": "reference.py"}
tests:
  - {"size": 3, "kind": "plain", "seed": 1}
  - {"size": 5, "kind": "shifted", "seed": 2}
benchmarks:
  - {"size": 16, "kind": "shifted", "seed": 3}
"""
UTILS = """import torch


class Exact:
    def __enter__(self):
        torch.backends.cudnn.deterministic = True

    def __exit__(self, *told):
        torch.backends.cudnn.deterministic = False


def match(reference, **tolerances):
    return reference
"""
GPU_MODE = """import torch
from task import input_t
from utils import Exact, match


def generate_input(size: int, kind: str, seed: int) -> input_t:
    gen = torch.Generator(device="cuda")
    gen.manual_seed(seed)
    x = torch.randn(size, size, device=f"cuda:{0}", generator=gen) + (kind == "shifted")
    return x, {"by": torch.ones(size).cuda(), "times": 2}, torch.empty(size, size, device="cuda")


def ref_kernel(data):
    x, given, out = data
    with Exact():
        out[...] = x * given["by"] * given["times"]
        return out, x.amax(1)


check_implementation = match(ref_kernel, rtol=1e-4)
"""


@pytest.fixture
def gpu_mode(tmp_path: Path) -> Path:
    """A problem of GPU MODE, which asks for a GPU that is not here."""
    home = tmp_path / "set" / "scaled"
    home.mkdir(parents=True)
    (home.parent / "utils.py").write_text(UTILS)
    for name, text in {"task.yml": TASK_YML, "task.py": "input_t = tuple\n", "reference.py": GPU_MODE}.items():
        (home / name).write_text(text)
    return home


def test_a_definition_becomes_a_task_of_its_inputs_outputs_and_variable_axes(tmp_path: Path, beside: Beside) -> None:
    folder, told = write_task_folder(sol(tmp_path / "p", DEFINITION, line(4), line(9)), tmp_path / "task", "")
    task = load_task_folder(folder, *beside).task
    assert told == "scaled_pairs: 2 workloads" and task.name == "scaled_pairs"
    assert [(a.name, a.role, a.shape) for a in task.arguments] == [
        ("x", "input", ("rows", "columns")),
        ("var", "input", ("rows",)),
        ("by", "scalar", ()),
        ("sums", "output", ("rows", "3")),
        ("least", "output", ("rows",)),
        ("rows", "scalar", ()),
    ]
    assert task.dims_range == {"rows": (4, 9), "columns": (6, 6)} and (task.numeric.rtol, task.numeric.atol) == (
        2e-4,
        1e-5,
    )
    module = run_path(str(folder / "reference.py"))
    made = module["make_inputs"](task.workloads[0].dims, 3)
    assert (made["var"] > 0).all(), "SOL-ExecBench draws no negative variance"
    torch.testing.assert_close(
        module["reference"](**made)[0], (made["x"] * 0.5 / made["var"].sqrt()[:, None]).view(4, 3, 2).sum(2)
    )


def test_workloads_of_a_flashinfer_trace_set_are_found_and_inputs_may_be_the_problems_own(tmp_path: Path) -> None:
    own = (
        "\n\ndef draw(axes, device):\n    x = torch.full((axes['rows'], axes['pairs'] * 2), 7.0)\n    return "
        "{'x': x, 'var': x[:, 0]}\n"
    )
    said = {**DEFINITION, "custom_inputs_entrypoint": "draw", "reference": DEFINITION["reference"] + own}
    (tmp_path / "set" / "definitions" / "own").mkdir(parents=True)
    (tmp_path / "set" / "workloads" / "own").mkdir(parents=True)
    file = tmp_path / "set" / "definitions" / "own" / "scaled_pairs.json"
    file.write_text(json.dumps(said))
    trace = {
        "definition": "scaled_pairs",
        "solution": None,
        "workload": line(4, x={"type": "custom"}),
        "evaluation": None,
    }
    (tmp_path / "set" / "workloads" / "own" / "scaled_pairs.jsonl").write_text(json.dumps(trace) + "\n")
    folder, _ = write_task_folder(file, tmp_path / "task", "")
    module = run_path(str(folder / "reference.py"))
    made = module["make_inputs"](module["workloads"][0]["dims"], 3)
    assert (made["x"] == 7).all() and made["rows"] == 4


PAGED: dict[str, Any] = {
    "name": "paged",
    "axes": {"batch": {"type": "var"}, "ends": {"type": "expr", "expression": "batch + 1"}, "pages": {"type": "var"}}
    | {"used": {"type": "var"}, "two": {"type": "const", "value": 2}, "kinds": {"type": "const", "value": 3}},
    "constraints": ["used == ends_at[-1].item()"],
    "inputs": {
        "cache": {"shape": ["pages", "two"], "dtype": "float8_e4m3fn"},
        "ends_at": {"shape": ["ends"], "dtype": "int32"},
        "page": {"shape": ["used"], "dtype": "int32"},
        "kind": {"shape": ["batch"], "dtype": "int64"},
        "count": {"shape": ["batch"], "dtype": "int64"},
        "packed": {"shape": ["kinds", "two"], "dtype": "float4_e2m1fn_x2"},
    },
    "outputs": {"sums": {"shape": ["batch", "two"], "dtype": "float32"}},
    "reference": """import torch

def run(cache, ends_at, page, kind, count, packed):
    rows, ends = cache.double()[page.long()], ends_at.tolist()
    total = torch.stack([rows[a:b].sum(0) for a, b in zip(ends, ends[1:])])
    low = packed.view(torch.uint8) % 16
    return (total + count[:, None] + low.double()[kind]).float()
""",
}


def blob(file: Path, **tensors: list[int]) -> None:
    """A safetensors file of int32."""
    header, data = {}, b""
    for name, numbers in tensors.items():
        more = torch.tensor(numbers, dtype=torch.int32).numpy().tobytes()
        header[name] = {"dtype": "I32", "shape": [len(numbers)], "data_offsets": [len(data), len(data) + len(more)]}
        data += more
    text = json.dumps(header).encode()
    file.write_bytes(len(text).to_bytes(8, "little") + text + data)


def test_offsets_and_indices_are_those_of_the_file_or_drawn_within_their_bounds(tmp_path: Path, beside: Beside) -> None:
    def used(batch: int, pages: int, path: str) -> dict[str, Any]:
        of_file = {key: {"type": "safetensors", "path": path, "tensor_key": key} for key in ("ends_at", "page")}
        rest = {key: {"type": "random"} for key in ("cache", "kind", "count", "packed")}
        return {"uuid": path, "axes": {"batch": batch, "pages": pages, "used": 6}, "inputs": rest | of_file}

    home = sol(tmp_path / "set", PAGED, used(3, 50, "pages.safetensors"), used(4, 9, "missing"))
    blob(home / "pages.safetensors", ends_at=[0, 1, 3, 6], page=[7, 49, 2, 2, 3, 30])
    folder, told = write_task_folder(home, tmp_path / "task", "")
    assert told == (
        "paged: 2 workloads; ends_at, page drawn, as their safetensors file is not here, too long or not of integers"
    )
    task = load_task_folder(folder, *beside).task
    assert [(a.dtype, a.shape) for a in task.arguments[:6:5]] == [
        ("float8_e4m3fn", ("pages", "two")),
        ("uint8", ("kinds", "1")),
    ]
    assert task.language == "triton"
    module = run_path(str(folder / "reference.py"))
    first, other = (workload.dims for workload in task.workloads)
    recorded, shuffled = (module["make_inputs"](first, seed) for seed in (0, 5))
    assert recorded["ends_at"].tolist() == [0, 1, 3, 6] and recorded["page"].tolist() == [7, 49, 2, 2, 3, 30]
    assert sorted(shuffled["page"].tolist()) == [2, 2, 3, 7, 30, 49] != shuffled["page"].tolist()
    assert sorted(shuffled["ends_at"].diff().tolist()) == [1, 2, 3] and shuffled["ends_at"][0] == 0
    several = [module["make_inputs"](other, seed) for seed in range(30)]
    for made in several:
        assert made["ends_at"][0] == 0 and made["ends_at"][-1] == 6 and (made["ends_at"].diff() >= 0).all()
    for name, size in (("page", 9), ("kind", 3)):
        seen = {number for made in several for number in made[name].tolist()}
        assert seen == {*range(size)}, "each index of the axis, and none beyond it"
    assert min(int(made["count"].min()) for made in several) < 0, "a number that indexes nothing is as the suite's"
    again = run_path(str(folder / "reference.py"))["make_inputs"](other, 3)
    assert all(again[name].equal(several[3][name]) for name in ("page", "kind", "count"))


def test_a_definition_that_flashinfer_dumped_runs_by_its_one_function(tmp_path: Path) -> None:
    dumped = (
        DEFINITION["reference"]
        .removeprefix("import torch\n\n")
        .replace("def run(", "@torch.no_grad()\ndef _scaled_reference(")
    )
    file = tmp_path / "scaled_pairs.json"
    file.write_text(
        json.dumps({**DEFINITION, "reference": dumped.replace("x.amin(1)", "F.relu(x).amin(1) + math.log(1)")})
    )
    folder, _ = write_task_folder(file, tmp_path / "task", "rows=4 by=0.5")
    module = run_path(str(folder / "reference.py"))
    made = module["make_inputs"](module["workloads"][0]["dims"], 3)
    torch.testing.assert_close(module["reference"](**made)[1], made["x"].relu().amin(1))


@pytest.mark.parametrize("suite", ["KernelBench", "SOL-ExecBench", "GPU MODE"])
def test_where_a_gpu_is_the_problem_of_any_suite_is_for_it(
    suite: str, gpu_mode: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = {"KernelBench": tmp_path / "sum.py", "GPU MODE": gpu_mode}.get(suite) or sol(
        tmp_path / "p", DEFINITION, line(4)
    )
    (tmp_path / "sum.py").write_text("class Model: ...\ndef get_inputs(): ...\ndef get_init_inputs(): ...\n")
    for name, language in ((".", "triton"), ("missing", "cpp")):
        monkeypatch.setattr("tools.tasks.loader.NVIDIA_DRIVER", tmp_path / name)
        folder, _ = write_task_folder(problem, tmp_path / language, "")
        settings = yaml.safe_load((folder / "task.yaml").read_text())
        assert settings["language"] == language
    made_of, reference = SuiteSource(**settings["problem"]), folder / "reference.py"
    assert author_of_task(folder, made_of) == "suite"
    reference.write_text(reference.read_text() + "workloads = []\n")
    assert author_of_task(folder, made_of) == "submitter"


def test_a_gpu_mode_problem_becomes_a_task_of_what_its_data_holds(
    gpu_mode: Path, tmp_path: Path, beside: Beside
) -> None:
    folder, told = write_task_folder(gpu_mode, tmp_path / "task", "")
    task = load_task_folder(folder, *beside).task
    assert (
        told == "scaled: 3 workloads"
        and [w.weight for w in task.workloads] == [1, 1e-3, 1e-3]
        and task.dims_range == {"size": (3, 16)}
        and task.numeric.rtol == 1e-4
    )
    assert [(a.name, a.role, a.shape) for a in task.arguments] == [
        ("data_0", "input", ("size", "size")),
        ("data_1", "input", ("size",)),
        ("data_2", "scalar", ()),
        ("data_3", "output", ("size", "size")),
        ("out_1", "output", ("size",)),
        ("size", "scalar", ()),
    ]
    module = run_path(str(folder / "reference.py"))
    made = module["make_inputs"](task.workloads[0].dims, 3)
    gen = torch.Generator().manual_seed(3)
    torch.testing.assert_close(made["data_0"], torch.randn(16, 16, generator=gen) + 1)
    torch.testing.assert_close(module["reference"](**made)[0], made["data_0"] * 2)


def test_lists_of_a_gpu_mode_problem_have_the_length_of_the_first_benchmark(gpu_mode: Path, tmp_path: Path) -> None:
    sizes = {3: "[3, 4]", 5: "[5]", 16: "[16, 20]"}
    text = TASK_YML.replace('"kind"', '"least": 0, "most": 4, "kind"')
    for size, listed in sizes.items():
        text = text.replace(f'"size": {size}', f'"size": {listed}')
    (gpu_mode / "task.yml").write_text(text)
    made = "[torch.randn(one, device='cuda', generator=gen) for one in size]"
    (gpu_mode / "reference.py").write_text(
        GPU_MODE.partition("    x = ")[0].replace("kind: str", "kind: str, least: int, most: int")
        + f"    return {made}\n\n\ndef ref_kernel(data):\n    return [2 * one for one in data]\n"
    )
    folder, told = write_task_folder(gpu_mode, tmp_path / "task", "")
    assert told == "scaled: 2 workloads; 1 left out, as their lists have other lengths"
    module = run_path(str(folder / "reference.py"))
    assert module["dims_range"] == {"most": (4, 4)}  # A number that may be 0 is no size.
    made_of = [module["make_inputs"](one["dims"], 3) for one in module["workloads"]]
    assert [[*one["data_1"].shape] for one in made_of] == [[20], [4]]
    torch.testing.assert_close(module["reference"](**made_of[1])[1], made_of[1]["data_1"] * 2)


@pytest.mark.parametrize(
    ("changes", "lines", "sizes", "said"),
    [
        (
            {"axes": {**DEFINITION["axes"], "pairs": {"type": "expr", "expression": "open('x')"}}},
            [line(4)],
            "",
            "not arithmetic over axes",
        ),
        (
            {"outputs": {"sums": {"shape": ["rows"], "dtype": "float4_e2m1"}}},
            [line(4)],
            "",
            "`sums` is float4_e2m1",
        ),
        (
            {},
            [line(4, x={"type": "safetensors", "path": "workload.jsonl", "tensor_key": "b"})],
            "",
            "no tensor 'b' can be read from it",
        ),
        ({}, [], "", "no workloads were found"),
        ({}, [line(4)], "row=3", "'row'"),
        ({"axes": 3}, [line(4)], "", "axes"),
        ({"outputs": {"x": {"shape": ["rows"], "dtype": "float32"}}}, [line(4)], "", "`x` is both input and output"),
        ({"reference": "answer = 3"}, [line(4)], "", "defines 0 functions and no `run`"),
    ],
    ids=["expression", "dtype", "safetensors", "none", "sizes", "shape-of-the-file", "in-place", "no-function"],
)
def test_what_a_definition_asks_that_no_task_can_be_is_refused(
    tmp_path: Path, changes: dict[str, Any], lines: list[dict[str, Any]], sizes: str, said: str
) -> None:
    with pytest.raises(SettingsError, match=said):
        write_task_folder(sol(tmp_path / "p", {**DEFINITION, **changes}, *lines), tmp_path / "task", sizes)
    assert not (tmp_path / "task").exists()


@pytest.mark.parametrize(
    ("more", "sizes", "said"),
    [
        ("multi_gpu: true\n", "", "several GPUs"),
        ("", "sizes=3", "'sizes' is not a size"),
        ("", "", "defines no ref_kernel"),
    ],
)
def test_what_a_gpu_mode_problem_asks_that_no_task_can_be_is_refused(
    gpu_mode: Path, tmp_path: Path, more: str, sizes: str, said: str
) -> None:
    (gpu_mode / "task.yml").write_text(TASK_YML + more)
    (gpu_mode / "reference.py").write_text(
        GPU_MODE.replace("def ref_kernel", "def other" if not more + sizes else "def ref_kernel")
    )
    with pytest.raises(SettingsError, match=said):
        write_task_folder(gpu_mode, tmp_path / "task", sizes)


def test_a_folder_that_is_of_no_suite_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"not a problem of a suite; give one of these: a definition\.json"):
        write_task_folder(tmp_path, tmp_path / "task", "")
