"""Tasks from folders and files: what is inferred, what is refused in one sentence, what is frozen."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from knowledge_base.experience import similarity
from tests.support import Beside, one_sentence
from tests.tools.builders import softmax
from tools.artifacts import (
    DEFAULT_ERROR_CAPS,
    DEFAULT_ERROR_FLOORS,
    Argument,
    Dims,
    DType,
    NumericTolerance,
    Role,
    Task,
    TaskClock,
    digest,
)
from tools.contracts.dims import parse_dims, parse_workloads
from tools.contracts.inference import SourceNames, infer_tolerance, lift_error_caps
from tools.errors import SettingsError, WorkspaceError
from tools.executors.protocol import ProbedArgument, ProbedWorkload, ProbeResult
from tools.languages.base import Language
from tools.languages.cpp import Cpp
from tools.languages.cuda import Cuda
from tools.languages.cutedsl import CuteDsl
from tools.tasks import loader as tasks
from tools.tasks.loader import LoadedTask, TaskSettings

ROOT = Path(__file__).parents[3]
SEED = Path(__file__).parents[1] / "fixtures" / "seed"
KERNEL = 'extern "C" void solve(const float* x, float* out, int M, int N) {}'


def tensor(name: str, *shape: int, role: Role = "input", dtype: DType = "float32") -> ProbedArgument:
    return ProbedArgument(name=name, role=role, dtype=dtype, shape=shape)


def scalar(name: str, dtype: DType = "int32") -> ProbedArgument:
    return ProbedArgument(name=name, role="scalar", dtype=dtype, shape=())


def workload(
    m: int, n: int, *arguments: ProbedArgument, weight: float = 1.0, margin: float | None = None
) -> ProbedWorkload:
    seen = arguments or (tensor("x", m, n), tensor("out", m, n, role="output"), scalar("M"), scalar("N"))
    dims: Dims = {"M": m, "N": n}
    figures = {"flops": 5.0 * m * n, "unique_bytes": 8 * m * n}
    return ProbedWorkload(name=f"{m}x{n}", dims=dims, weight=weight, margin=margin, arguments=seen, **figures)


def infer(
    probe: ProbeResult, kernel: str = KERNEL, declared: TaskSettings | None = None, language: Language | None = None
) -> LoadedTask:
    files, language = SourceNames("mine.cpp", "ref.py"), language or Cpp()
    return tasks.infer_task(
        "t", kernel, "text", language, language.parameters(kernel), 0, declared or TaskSettings(), probe, files
    )


def probed(
    *workloads: ProbedWorkload, rtol: float | None = None, ranges: dict[str, tuple[int, int]] | None = None
) -> ProbeResult:
    return ProbeResult(has_make_inputs=True, workloads=workloads, rtol=rtol, dims_range=ranges or {})


# ---------------------------------------------------------------- dims


def test_dims_are_read_with_spaces_and_commas() -> None:
    assert parse_dims("M=512 N=1000,eps=1e-5,  k=-3") == {"M": 512, "N": 1000, "eps": 1e-5, "k": -3}
    assert parse_workloads("M=1; M=2 N=3") == ({"M": 1}, {"M": 2, "N": 3})
    assert parse_workloads(" ") == ()


@pytest.mark.parametrize(
    ("text", "words"),
    [("M=512 N", "'N'"), ("M=", "'M='"), ("=3", "'=3'"), ("M=x", "'M=x'"), ("M=1 M=2", "twice"), ("e=nan", "finite")],
)
def test_dims_that_cannot_be_read_are_named(text: str, words: str) -> None:
    with one_sentence("dims: ", words):
        parse_workloads(text)


# ---------------------------------------------------------------- inference


def test_shapes_follow_dims_over_all_workloads() -> None:
    task = infer(probed(workload(4096, 1024), workload(512, 1000))).task
    assert [a.shape for a in task.arguments] == [("M", "N"), ("M", "N"), (), ()]
    assert [a.role for a in task.arguments] == ["input", "output", "scalar", "scalar"]
    assert task.dims_range == {"M": (128, 4096), "N": (250, 1024)}
    assert any("M in 128…4096" in sentence for sentence in task.inferred)
    assert not task.seed_style


def test_equal_dims_are_told_apart_by_order_and_said() -> None:
    task = infer(probed(workload(512, 512), workload(64, 64))).task
    assert task.arguments[0].shape == ("M", "N")
    assert any("M and N have the same size in every workload" in sentence for sentence in task.inferred)
    told_apart = infer(probed(workload(512, 512), workload(64, 32))).task
    assert not [sentence for sentence in told_apart.inferred if "the same size" in sentence]


def test_extents_that_follow_no_dim_are_numbers_and_flat_ones_still_vary() -> None:
    def flat(m: int, n: int) -> ProbedWorkload:
        return workload(m, n, tensor("x", m * n), tensor("out", 3, role="output"), scalar("M"), scalar("N"))

    task = infer(probed(flat(4, 8), flat(16, 8))).task
    assert task.arguments[1].shape == ("3",)
    assert task.dims_range == {"M": (1, 16), "N": (2, 8)}
    assert any("equals no single dim" in sentence for sentence in task.inferred)


def test_scalars_take_the_kernels_type_and_names_may_differ() -> None:
    kernel = 'extern "C" void solve(const float* input, const float* out, long long M, float N) {}'
    task = infer(probed(workload(8, 4)), kernel).task
    assert [(a.name, a.dtype) for a in task.arguments] == [
        ("x", "float32"),
        ("out", "float32"),
        ("M", "int64"),
        ("N", "float32"),
    ]
    assert any("`input`" in s and "`x`" in s for s in task.inferred) and any(
        "declares it const" in s for s in task.inferred
    )


@pytest.mark.parametrize(
    ("kernel", "words"),
    [
        ("const float* x, float* out, int M", ["number of arguments", "correct make_inputs in ref.py"]),
        (
            "float* out, const float* x, int M, int N",
            ["another order", "correct make_inputs in ref.py", "out, x, M, N"],
        ),
        ("const double* x, float* out, int M, int N", ["argument 1", "float64", "change mine.cpp"]),
        (
            "const float* x, float* out, int M, const int* N",
            ["argument 4", "a scalar in the reference and a pointer", "change mine.cpp"],
        ),
    ],
)
def test_disagreement_shows_both_lists_and_the_file_to_mend(kernel: str, words: list[str]) -> None:
    with one_sentence(*words, "mine.cpp takes (", "ref.py gives (x: input tensor of float32"):
        infer(probed(workload(8, 4)), f'extern "C" void solve({kernel}) {{}}')


def test_a_floating_point_argument_for_an_integer_parameter_is_refused() -> None:
    with pytest.raises(SettingsError, match="`eps` is a floating-point number"):
        infer(
            probed(
                workload(
                    8, 4, tensor("x", 8, 4), tensor("out", 8, 4, role="output"), scalar("M"), scalar("eps", "float32")
                )
            )
        )


def test_rtol_becomes_the_floor_and_never_passes_the_cap() -> None:
    assert infer(probed(workload(8, 4))).task.numeric.floor == DEFAULT_ERROR_FLOORS
    assert infer(probed(workload(8, 4), rtol=1e-4)).task.numeric.floor["float32"] == 1e-4
    capped = infer(probed(workload(8, 4), rtol=0.5)).task
    assert capped.numeric.floor["float32"] == DEFAULT_ERROR_CAPS["float32"]
    assert any("cut to the cap" in s for s in capped.inferred)
    assert any("which `tolerance: as_stated` in the config lifts" in s for s in capped.inferred)
    assert capped.numeric.floor["float64"] == DEFAULT_ERROR_FLOORS["float64"]
    stated = lift_error_caps(capped)
    assert stated.numeric.floor["float32"] == 0.5 and "float32" not in stated.numeric.cap
    assert "Tolerance as stated: rtol 0.5 apply" in stated.inferred[-1] and not [
        s for s in stated.inferred if "cut to" in s
    ]


@pytest.mark.parametrize(("error", "told"), [(9e-5, 1), (2e-4, 0)])
def test_an_rtol_that_a_coarser_type_passes_is_called_coarse(error: float, told: int) -> None:
    seen = probed(workload(8, 4), rtol=1e-4).model_copy(update={"coarse": {"tf32": error}})
    assert len([said for said in infer(seen).task.inferred if "coarse: inputs rounded to tf32" in said]) == told


def test_a_double_output_of_what_reads_no_double_may_be_computed_in_float() -> None:
    def doubled(dtype: DType) -> Task:
        arguments = (
            tensor("x", 8, 4, dtype=dtype),
            tensor("out", 8, 4, role="output", dtype="float64"),
            scalar("M"),
            scalar("N"),
        )
        source = KERNEL.replace("float* out", "double* out").replace(
            "float* x", f"{'float' if dtype == 'float32' else 'double'}* x"
        )
        return infer(probed(workload(8, 4, *arguments)), source).task

    mixed, whole = doubled("float32"), doubled("float64")
    assert (mixed.numeric.floor["float64"], mixed.numeric.cap["float64"]) == (
        DEFAULT_ERROR_FLOORS["float32"],
        DEFAULT_ERROR_CAPS["float32"],
    )
    assert any("No input is float64" in said for said in mixed.inferred)
    assert whole.numeric.cap == DEFAULT_ERROR_CAPS and not [said for said in whole.inferred if "float64" in said]


@pytest.mark.parametrize(
    ("inputs", "limits"),
    [(("float32",), "float32"), (("bfloat16", "float32"), "float16"), (("float8_e5m2",), "float16"), ((), "float32")],
)
def test_an_output_of_8_bits_has_the_limits_of_what_it_is_computed_in(inputs: tuple[DType, ...], limits: DType) -> None:
    arguments = [Argument(name=f"x{at}", role="input", dtype=dtype, shape=("M",)) for at, dtype in enumerate(inputs)]
    arguments += [Argument(name="out", role="output", dtype="float8_e4m3fn", shape=("M",))]
    found, _ = infer_tolerance(probed(workload(8, 4)), arguments, NumericTolerance())
    assert found.floor["float8_e4m3fn"] == DEFAULT_ERROR_FLOORS[limits]
    assert found.cap["float8_e4m3fn"] == DEFAULT_ERROR_CAPS[limits]


def test_weights_and_margins_of_task_yaml_replace_the_references() -> None:
    probe = probed(workload(8, 4, weight=2.0, margin=0.2), workload(16, 4), workload(32, 4))
    loaded = infer(probe, declared=TaskSettings(weights={"16x4": 5.0}, margins={"16x4": 0.0}))
    assert [w.weight for w in loaded.task.workloads] == [w.weight for w in loaded.workloads] == [2.0, 5.0, 1.0]
    assert [w.margin for w in loaded.task.workloads] == [w.margin for w in loaded.workloads] == [0.2, 0.0, None]
    assert loaded.task.margins == {"8x4": 0.2, "16x4": 0.0}


@pytest.mark.parametrize(
    ("declared", "words"),
    [
        ({"weights": {"9x9": 1.0}}, "'9x9'.* give one of 8x4, 16x4"),
        ({"weights": {"16x5": 1.0}}, "did you mean '16x4'"),
        ({"margins": {"8x4": -0.1}}, "margins.8x4 is -0.1; it must be 0 to 1"),
    ],
)
def test_weights_and_margins_of_no_workload_or_no_sense_are_refused(
    declared: dict[str, dict[str, float]], words: str
) -> None:
    with pytest.raises(SettingsError, match=words):
        infer(probed(workload(8, 4), workload(16, 4)), declared=TaskSettings.model_validate(declared))


def test_a_margin_is_part_of_the_tasks_identity_and_its_absence_is_not(tmp_path: Path) -> None:
    task = infer(probed(workload(8, 4))).task
    own = infer(probed(workload(8, 4, margin=0.05))).task
    assert (
        own.identity()
        != task.identity()
        != infer(probed(workload(8, 4, margin=0.06))).task.identity()
        != own.identity()
    )
    tasks.write_frozen_task(own, tmp_path)
    assert tasks.read_frozen_task(tmp_path).margins == {"8x4": 0.05}


STREAMED = 'extern "C" void solve(const float* x, float* out, int M, int N{}) {{}}'


@pytest.mark.parametrize(
    ("language", "clock", "last", "refused"),
    [
        (Cuda(), "graph", ", cudaStream_t stream", None),
        (Cuda(), "graph", "", "clock: graph needs .*last parameter of `solve`, `cudaStream_t stream`"),
        (Cuda(), "device", "", None),
        (CuteDsl(), "graph", None, "this one runs on the default stream"),
        (Cpp(), "launch", "", "clock: kernels in cpp launch nothing"),
    ],
)
def test_the_clock_of_task_yaml_is_one_that_the_kernel_can_have(
    language: Language, clock: TaskClock, last: str | None, refused: str | None
) -> None:
    source = "def run_kernel(x, out, M, N): ..." if last is None else STREAMED.format(last)
    if refused is None:
        assert infer(probed(workload(8, 4)), source, TaskSettings(clock=clock), language).task.clock == clock
        return
    with pytest.raises(SettingsError, match=refused):
        infer(probed(workload(8, 4)), source, TaskSettings(clock=clock), language)


# ---------------------------------------------------------------- freezing


def test_a_frozen_task_reads_back_and_a_changed_one_is_refused(tmp_path: Path) -> None:
    task = infer(probed(workload(8, 4), rtol=1e-4)).task
    tasks.write_frozen_task(task, tmp_path / "task")
    assert tasks.read_frozen_task(tmp_path / "task") == task
    for name in ("kernel.cpp", "reference.py", "task.json"):
        path = tmp_path / "task" / name
        kept = path.read_text()
        path.write_text(
            kept.replace("t", "T", 1) if name != "task.json" else kept.replace('"name": "t"', '"name": "u"')
        )
        with pytest.raises(WorkspaceError, match=name):
            tasks.read_frozen_task(tmp_path / "task")
        path.write_text(kept)
    (tmp_path / "task" / "reference.py").unlink()
    with pytest.raises(WorkspaceError, match="cannot be read"):
        tasks.read_frozen_task(tmp_path / "task")


def test_the_files_of_the_users_function_are_frozen_with_the_task(tmp_path: Path) -> None:
    own = tmp_path / "baseline"
    for name, text in {"mine.py": "x", "pack/__init__.py": "", "pack/k.cu": "y", ".git/HEAD": "z"}.items():
        (own / name).parent.mkdir(parents=True, exist_ok=True)
        (own / name).write_text(text)
    (own / "__pycache__").mkdir()
    (own / "__pycache__" / "mine.pyc").write_bytes(b"\xff")
    settings = TaskSettings.model_validate({"baseline": {"call": "pack.k:Model", "init": [3]}}).baseline
    assert settings is not None
    (own / "pack" / "built.so").write_bytes(b"\xff\xfe")
    function, left_out = tasks.with_baseline_files(settings, tmp_path)
    assert left_out == ["pack/built.so"]
    assert function.files == {"mine.py": "x", "pack/__init__.py": "", "pack/k.cu": "y"} and function.init == (3,)
    plain = infer(probed(workload(8, 4))).task
    task = plain.model_copy(update={"baseline_function": function})
    assert task.identity() != plain.identity()
    tasks.write_frozen_task(task, tmp_path / "task")
    assert tasks.read_frozen_task(tmp_path / "task") == task
    (tmp_path / "task" / "baseline" / "pack" / "k.cu").write_text("slower")
    with pytest.raises(WorkspaceError, match=r"baseline/pack/k\.cu was changed"):
        tasks.read_frozen_task(tmp_path / "task")


def test_a_forged_mark_or_evidence_makes_nobody_else_the_author(tmp_path: Path, beside: Beside) -> None:
    reference = (ROOT / "tests" / "graph" / "task" / "reference.py").read_text()
    marked = f"{reference}\n# ---- the code below makes the problem a task\n"
    (tmp_path / "reference.py").write_text(marked)
    (tmp_path / "captured.json").write_text("")
    (tmp_path / "task.yaml").write_text("problem: {path: reference.py}\nbaseline: {call: 'torch:softmax'}\n")
    task = tasks.load_task_folder(tmp_path, *beside).task
    assert task.authors.task == "submitter"
    function = task.baseline_function
    assert task.authors.baseline == "package" and function and function.package.startswith("torch 2")
    for evidence, author in (("[]", "submitter"), (json.dumps({"reference_sha256": digest(marked)}), "observed")):
        (tmp_path / "captured.json").write_text(evidence)
        assert tasks.author_of_task(tmp_path, None) == author
    (tmp_path / "reference.py").write_text(reference)
    assert tasks.author_of_task(tmp_path, None) == "submitter"


# ---------------------------------------------------------------- files, through a real probe


def test_the_softmax_folder_loads(beside: Beside) -> None:
    loaded = tasks.load_task_folder(ROOT / "configs" / "tasks" / "softmax", *beside)
    task = loaded.task
    assert task.arguments == softmax().arguments
    assert [w.name for w in task.workloads] == ["4096x1024", "512x1000"]
    assert task.dims_range == {"M": (64, 4096), "N": (32, 4096)}
    assert loaded.workloads[0].unique_bytes >= 2 * 4 * 4096 * 1024 and loaded.workloads[0].flops
    assert task.baseline == (ROOT / "configs" / "tasks" / "softmax" / "kernel.cpp").read_text()


def test_the_seed_files_load(beside: Beside) -> None:
    task = tasks.load_task_files(SEED / "kernel.cpp", SEED / "ref.py", "M=48 N=100 eps=-1e-5", *beside).task
    assert (
        " ".join(f"{a.name}:{a.role}" for a in task.arguments)
        == "input:input gamma:input output:output M:scalar N:scalar eps:scalar"
    )
    assert task.seed_style
    assert task.workloads[0].dims == {"M": 48, "N": 100, "eps": -1e-5}
    assert task.numeric.floor["float32"] == 1e-4
    assert task.dims_range == {"M": (12, 48), "N": (25, 100)}
    assert task.name == "seed" and task.inferred


@pytest.mark.parametrize(
    ("dims", "words"),
    [
        ("", "has no make_inputs"),
        ("M=48 N=100", "'eps'"),
        ("M=10000000 N=10000000 eps=1e-5", "needs about"),
        ("M=-5 N=-2 eps=1e-5", "M=-5 is negative"),
        ("M=3000000000 N=1 eps=1e-5", "M=3000000000 does not fit int32"),
    ],
)
def test_seed_dims_are_checked_before_anything_is_allocated(beside: Beside, dims: str, words: str) -> None:
    with one_sentence("dims: ", words):
        tasks.load_task_files(SEED / "kernel.cpp", SEED / "ref.py", dims, *beside)


def test_scalars_of_make_inputs_are_checked_on_every_workload(beside: Beside, tmp_path: Path) -> None:
    large = REFERENCE.replace('"M": rows, "N": columns', '"M": rows + (3 * 10**9 if rows == 512 else 0), "N": columns')
    with pytest.raises(SettingsError, match=r"workload 512x1000: M=3000000512 does not fit int32"):
        tasks.load_task_folder(folder(tmp_path / "t", large), *beside)


COPY = 'extern "C" void solve(const float* x, float* y, int M, int N) {}'


def seed_files(path: Path, reference: str) -> tuple[Path, Path]:
    (path / "copy.cpp").write_text(COPY)
    (path / "good.py").write_text(reference)
    return path / "copy.cpp", path / "good.py"


@pytest.mark.parametrize(
    ("result", "elements", "compared"),
    [
        ("return 2 * x", 0, 48),
        ("return x.view(M, N).sum(1)", 0, 8),
        ("y[:N] = x[:N]", 0, 6),
        ("return x[:M * N]", 100, 48),
    ],
)
def test_what_is_compared_of_a_larger_buffer_is_said(
    beside: Beside, tmp_path: Path, result: str, elements: int, compared: int
) -> None:
    files = seed_files(tmp_path, f"def reference(x, y, M, N):\n    {result}\n")
    loaded = tasks.load_task_files(*files, "M=8 N=6", *beside, pointer_elements=elements)
    assert loaded.workloads[0].arguments[1].compared == compared
    said = any(f"`y`: {compared} of {elements or 48} elements are compared" in said for said in loaded.task.inferred)
    assert said is (compared != (elements or 48)), "a whole output needs no remark"


def test_counts_that_no_dims_make_are_refused(beside: Beside, tmp_path: Path) -> None:
    for result, elements, said in (
        ("return x[:37]", 0, "37 of the 48 elements"),
        ("return x.new_zeros(M * N)", 10, "--ptr-size 48"),
    ):
        with pytest.raises(SettingsError, match=said):
            files = seed_files(tmp_path, f"def reference(x, y, M, N):\n    {result}\n")
            tasks.load_task_files(*files, "M=8 N=6", *beside, pointer_elements=elements)


def folder(path: Path, reference: str | bytes | None = None, kernel: str | None = KERNEL, declared: str = "") -> Path:
    path.mkdir(exist_ok=True)
    if reference is not None:
        (path / "reference.py").write_bytes(reference if isinstance(reference, bytes) else reference.encode())
    if kernel is not None:
        (path / "kernel.cpp").write_text(kernel)
    if declared:
        (path / "task.yaml").write_text(declared)
    return path


REFERENCE = (ROOT / "configs" / "tasks" / "softmax" / "reference.py").read_text()


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"reference": None}, ["reference.py", "no such file"]),
        ({"reference": "def reference(x): ...", "kernel": None}, ["make_inputs", "kernel.cpp"]),
        ({"reference": REFERENCE, "kernel": "void run() {}"}, ["kernel.cpp", "no function `solve`"]),
        (
            {"reference": REFERENCE, "declared": "library: [aten.mm]\n"},
            ["library", "kernels in cpp cannot call torch", "triton"],
        ),
        ({"reference": REFERENCE, "declared": "library: [mm]\n"}, ["task.yaml", "library", "mm"]),
        (
            {"reference": REFERENCE, "kernel": None, "declared": "language: triton\nlibrary: [aten.mm, aten.mmm]\n"},
            ["task.yaml: library: aten.mmm is no operator of torch"],
        ),
        ({"reference": REFERENCE, "declared": "baseline: {call: mine}\n"}, ["task.yaml", "baseline.call", "mine"]),
        ({"reference": REFERENCE, "declared": "nam: x\n"}, ["task.yaml", "nam", "Allowed here"]),
        (
            {"reference": REFERENCE.replace("return torch", "raise ValueError('no good')\n    return torch")},
            ["reference.py", "no good"],
        ),
        (
            {"reference": REFERENCE.replace('"M": rows, "N"', '"N"').replace("M: int, ", "")},
            ["number of arguments", "kernel.cpp"],
        ),
    ],
)
def test_bad_folders_are_one_sentence(beside: Beside, tmp_path: Path, files: dict[str, str], words: list[str]) -> None:
    with one_sentence(*words):
        tasks.load_task_folder(folder(tmp_path / "t", **files), *beside)


def test_the_library_is_frozen_with_the_task_and_none_leaves_older_identities(beside: Beside, tmp_path: Path) -> None:
    def loaded(name: str, declared: str) -> Task:
        return tasks.load_task_folder(
            folder(tmp_path / name, REFERENCE, None, f"name: t\nlanguage: triton\n{declared}"), *beside
        ).task

    none, mm = loaded("none", ""), loaded("mm", "library: [aten.mm]\n")
    assert none.library is None and mm.library == ("aten.mm",) and mm.identity() != none.identity()
    tasks.write_frozen_task(mm, tmp_path / "frozen")
    assert tasks.read_frozen_task(tmp_path / "frozen") == mm


LOGIC = """import torch

workloads = [{{"dims": {dims}}}]


def make_inputs(dims, seed):
    def drawn(*shape):
        return torch.randn(*[dims.get(axis, axis) for axis in shape], generator=torch.Generator().manual_seed(seed))

    return {made}


def reference({names}, **sizes):
    {body}
"""


def logic(dims: str, made: str, body: str, more: str = "") -> str:
    names = ", ".join(name for name in ("x", "w", "b") if f'"{name}":' in made)
    return LOGIC.format(dims=dims, made=made, body=body, names=names) + more


SQUARE = logic(
    '{"M": 64, "N": 64, "K": 64}',
    '{"x": drawn("M", "K"), "w": drawn("K", "N"), "b": drawn("N"), "out": drawn("M", "N"), **dims}',
    "return torch.addmm(b, x, w)",
)
ROTARY = logic(
    '{"S": 32, "d": 64}',
    '{"x": drawn("S", "d"), "w": drawn("S", 1), "out": drawn("S", "d"), **dims}',
    "a, c = x.unflatten(-1, (2, 8, -1)).flatten(2).unbind(1)\n    return torch.cat((a * w.cos() - c * w.sin(), c * w.cos() + a * w.sin()), -1)",
)
GROUPED = logic(
    '{"n": 2, "C": 48, "HW": 27, "groups": 12}',
    '{"x": drawn("n", "C", "HW"), "out": drawn("n", "C", "HW"), **dims}',
    'return torch.group_norm(x, sizes["groups"])',
)
FIXED = logic('{"M": 6, "N": 7}', '{"x": drawn("M", "N"), "out": drawn("M", "N"), **dims}', "return x.view(6, 7) + 1")


@pytest.mark.parametrize(
    ("language", "body", "library"),
    [
        ("triton", "torch.addmm(b, x, w)", ("aten.addmm", "aten.mm")),
        (
            "triton",
            (
                "torch.nn.functional.scaled_dot_product_attention(x[None, None], w.T[None, None], w.T[None, "
                "None])[0, 0] + b"
            ),
            ("aten._scaled_dot_product_efficient_attention",),
        ),
        ("cpp", "torch.addmm(b, x, w)", ()),
    ],
)
def test_the_library_of_a_reference_is_its_own_products_where_a_kernel_can_call_them(
    beside: Beside, tmp_path: Path, language: str, body: str, library: tuple[str, ...]
) -> None:
    declared = f"name: t\nlanguage: {language}\nlibrary: [reference]\n"
    given = SQUARE.replace("torch.addmm(b, x, w)", body)
    found = tasks.load_task_folder(folder(tmp_path / "t", given, None, declared), *beside).task.library or ()
    assert found == library or {*library} < {*found}


def test_dims_that_are_equal_in_every_workload_are_told_apart_at_other_sizes(beside: Beside, tmp_path: Path) -> None:
    task = tasks.load_task_folder(folder(tmp_path / "t", SQUARE, None), *beside).task
    assert [a.shape for a in task.arguments[:4]] == [("M", "K"), ("K", "N"), ("N",), ("M", "N")]
    assert not [said for said in task.inferred if "the same size" in said or "refuses" in said]


@pytest.mark.parametrize(
    ("body", "family"),
    [
        ("torch.softmax(x, -1)", "softmax"),
        (
            "(x - x.amax(-1, keepdim=True)).exp() / (x - x.amax(-1, keepdim=True)).exp().sum(-1, keepdim=True)",
            "softmax",
        ),
        ("torch.layer_norm(x, x.shape[-1:])", "layer_norm"),
        ("(x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True) + 1e-5).sqrt()", "layer_norm"),
        ("x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6)", "rms_norm"),
        ("torch.tanh(x)", "tanh"),
        ("torch.softmax(x @ w, -1)", "matmul"),
        ("torch.softmax(x @ w, -1) @ w", "attention"),
        ("torch.nn.functional.scaled_dot_product_attention(x[None], w[None], w[None])[0]", "attention"),
        ("x[torch.arange(len(x) - 1, -1, -1)]", "index"),
    ],
)
def test_the_operator_is_told_from_the_references_operations_and_not_from_a_name(
    beside: Beside, tmp_path: Path, body: str, family: str
) -> None:
    made = '{"x": drawn("M", "M"), "w": drawn("M", "M"), "out": drawn("M", "M"), **dims}'
    (tmp_path / "k").mkdir()
    files = tmp_path / "k" / "kernel.cpp", tmp_path / "k" / "ref.py"
    files[0].write_text(
        KERNEL.replace("float* x, float* out, int M, int N", "float* x, const float* w, float* out, int M")
    )
    files[1].write_text(logic('{"M": 8}', made, f"return {body}", '\noutputs = ("out",)\n'))
    loaded = tasks.load_task_files(*files, "", *beside)
    assert (similarity.operator_family(loaded.operator), loaded.task.name) == (family, "k")


@pytest.mark.parametrize(("reference", "odd"), [(ROTARY, "d"), pytest.param(GROUPED, "C", marks=pytest.mark.slow)])
def test_sizes_that_the_reference_refuses_are_listed(beside: Beside, tmp_path: Path, reference: str, odd: str) -> None:
    task = tasks.load_task_folder(folder(tmp_path / "t", reference, None), *beside).task
    listed = [said for said in task.inferred if said.startswith("The reference refuses ")]
    assert listed and all(f" {odd}=" in said and "mend" not in said for said in listed)
    assert odd in task.dims_range


def test_a_reference_that_takes_no_other_size_is_told_a_dims_range_that_works(beside: Beside, tmp_path: Path) -> None:
    with pytest.raises(
        SettingsError, match=r"reference\.py: the reference refuses every size .* such as dims_range = "
    ) as caught:
        tasks.load_task_folder(folder(tmp_path / "t", FIXED, None), *beside)
    suggested = str(caught.value).partition(" such as ")[2]
    assert tasks.load_task_folder(folder(tmp_path / "t", f"{FIXED}\n{suggested}\n", None), *beside).task.dims_range == {
        "M": (6, 6),
        "N": (7, 7),
    }


def test_without_a_kernel_the_reference_says_the_contract(beside: Beside, tmp_path: Path) -> None:
    loaded = tasks.load_task_folder(folder(tmp_path / "t", REFERENCE, None), *beside)
    given = tasks.load_task_folder(folder(tmp_path / "u", REFERENCE), *beside)
    assert loaded.task.baseline is None
    assert loaded.task.arguments == given.task.arguments
    assert loaded.workloads == given.workloads


@pytest.mark.parametrize("name", ["kernel.py", "mine.cpp"])
def test_a_kernel_of_another_name_is_not_passed_over(beside: Beside, tmp_path: Path, name: str) -> None:
    path = folder(tmp_path / "t", REFERENCE, None)
    (path / name).write_text(KERNEL)
    with pytest.raises(SettingsError, match=rf"{name} and no kernel\.cpp"):
        tasks.load_task_folder(path, *beside)
