"""Triton: its contract by name, frozen setups and pinned autotuning, what a build says, and what a listing shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support import BARE, Beside, one_sentence
from tests.tools.builders import softmax
from tools.analysis import signatures
from tools.artifacts import Candidate, Task, Workload
from tools.contracts.inference import SourceNames, infer_arguments
from tools.environment import inspect_environment
from tools.errors import SettingsError
from tools.executors.local import LocalExecutor
from tools.executors.protocol import KWARGS_PARAMETER, Parameter, ProbedArgument, ProbedWorkload, ProbeResult
from tools.languages.triton import Triton
from tools.languages.triton_source import count_autotune_configs, parse_module, pin_autotune, written_configs
from tools.profilers import sass
from tools.screen.screen import screen
from tools.store.blobs import Blobs
from tools.tasks.loader import load_task_files, load_task_folder

pytestmark = pytest.mark.slow

pytest.importorskip("triton")
TASKS = Path(__file__).parents[3] / "configs" / "tasks"
FILES = SourceNames("kernel.py", "reference.py")
X = ProbedArgument(name="x", role="input", dtype="float16", shape=(4,))
Y = ProbedArgument(name="y", role="output", dtype="float32", shape=(4,))
N = ProbedArgument(name="n", role="scalar", dtype="int32", shape=())
SEEN = ProbeResult(
    has_make_inputs=True,
    workloads=(ProbedWorkload(name="w", dims={"n": 4}, weight=1.0, arguments=(X, Y, N), flops=None, unique_bytes=8),),
)
AUTOTUNED = """import torch
import triton
import triton.language as tl


def setup(n=8, **kwargs):
    x = torch.rand(n, device="cuda")
    return {"inputs": {"x": x, "y": torch.empty_like(x).cuda(), "n": n}, "outputs": ["y"]}


# Both were tried.
@triton.autotune(
    configs=[
        triton.Config({"B": 128}, num_warps=2),  # small
        triton.Config({"B": 1024}, num_warps=8),
    ],
    key=["n"],
)
@triton.jit
def scale(x, y, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + at, 2 * tl.load(x + at, at < n), at < n)


def run_kernel(x, y, n):
    scale[lambda meta: (triton.cdiv(n, meta["B"]),)](x, y, n)
"""


def parameters(head: str) -> tuple[Parameter, ...]:
    return Triton().parameters(f"def run_kernel({head}):\n    pass\n")


def test_parameters_have_names_only() -> None:
    found = parameters("x, y=None, *, n=3, m, **rest")
    assert [p.name for p in found] == ["x", "y", "n", "m", KWARGS_PARAMETER]
    assert [p.name for p in found if p.optional] == ["y", "n", KWARGS_PARAMETER]
    with pytest.raises(SettingsError, match="positional arguments"):
        parameters("*args")


@pytest.mark.parametrize("head", ["x, y, n", "n, y, x", "**kwargs", "y, **kwargs", "x, y, n, spare=None"])
def test_the_reference_gives_what_names_ask_for(head: str) -> None:
    found, _ = infer_arguments(parameters(head), SEEN, FILES)
    assert [(a.name, a.dtype, a.role) for a in found] == [
        ("x", "float16", "input"),
        ("y", "float32", "output"),
        ("n", "int32", "scalar"),
    ]


@pytest.mark.parametrize(
    ("head", "said"), [("x, y", "does not take `n`"), ("x, y, n, eps", "nothing gives the kernel its `eps`")]
)
def test_names_without_a_partner_are_refused_in_one_sentence(head: str, said: str) -> None:
    with one_sentence(said, "reference.py"):
        infer_arguments(parameters(head), SEEN, FILES)


def test_autotuning_is_pinned_to_one_config() -> None:
    assert count_autotune_configs(AUTOTUNED) == {"scale": 2}
    pinned = pin_autotune(AUTOTUNED, 1)
    assert (
        count_autotune_configs(pinned) == {"scale": 1}
        and pin_autotune(pinned) == pinned
        and "# Both were tried." in pinned
    )
    module = parse_module(pinned)
    assert module is not None
    assert written_configs(module, module.kernels["scale"])[0].values == {"B": "1024", "num_warps": "8"}
    named = AUTOTUNED.replace("configs=[\n", "configs=CONFIGS, ignored=[\n")
    named = named.replace("# Both", "CONFIGS = [triton.Config({'B': 64}), triton.Config({'B': 32})]\n\n\n# Both")
    assert "configs=[triton.Config({'B': 64})]" in pin_autotune(named)


def test_each_written_config_is_a_variant() -> None:
    first, second = Triton().pinned_kernels(AUTOTUNED)
    assert first.source == Triton().freeze_sources(AUTOTUNED, "def make_inputs(dims, seed):\n    pass\n")[
        0
    ] and second.source == pin_autotune(AUTOTUNED, 1)
    assert second.label == 'scale: triton.Config({"B": 1024}, num_warps=8)'
    assert Triton().pinned_kernels(pin_autotune(AUTOTUNED)) == () and Triton().pinned_kernels("def broken(") == ()
    for given in ("", "configs=[], "):
        nothing = re.sub(r"configs=\[.*?\n    \],\n    ", given, AUTOTUNED, flags=re.DOTALL)
        assert (
            count_autotune_configs(nothing) == {"scale": 0}
            and Triton().pinned_kernels(nothing) == ()
            and pin_autotune(nothing) == nothing
        )
        assert Triton().freeze_sources(nothing, "def make_inputs(dims, seed):\n    pass\n")[2] == ()


COMPUTED = (
    "@triton.autotune(configs=[triton.Config({'BLOCK': 128 * b}) for b in (1, 2, 4)], key=['n_cols'])\n@triton.jit"
)


def test_computed_configs_are_variants_until_a_build_says_that_there_are_no_more(
    beside: Beside,
) -> None:
    source = KERNEL.replace("@triton.jit", COMPUTED).replace(", BLOCK=256", "")
    pinned = Triton().pinned_kernels(source)
    assert len(pinned) == 8 and pinned[0].source == pin_autotune(source) and "computed config 2" in pinned[2].label
    logs = []
    for kernel in pinned[2:4]:  # the last and the first that is not there
        assert screen(kernel.source, "triton") == ()
        code, _, log = outcome(kernel.source, SOFTMAX, *beside)
        logs.append(Triton().trim_log(log) if code else "")
    assert logs[0] == "" and pinned[3].past_end_error and pinned[3].past_end_error in logs[1]


def test_setup_is_frozen_into_the_reference(beside: Beside, tmp_path: Path) -> None:
    (tmp_path / "kernel.py").write_text(AUTOTUNED)
    (tmp_path / "reference.py").write_text("def reference(x, y, n, **_):\n    y.copy_(2 * x)\n")
    loaded = load_task_files(tmp_path / "kernel.py", tmp_path / "reference.py", "n=64", *beside)
    task = loaded.task
    assert loaded.pinned[0].source == task.baseline and len(loaded.pinned) == 2
    assert [(a.name, a.role) for a in task.arguments] == [("x", "input"), ("y", "output"), ("n", "scalar")]
    assert (
        not task.seed_style
        and "def setup" in task.reference
        and "import triton" not in task.reference
        and "cuda" not in task.reference
    )
    assert "pinned to the first" in " ".join(task.inferred) and "was not tuned by measurement" in " ".join(
        task.inferred
    )
    assert Triton().interpret(task, task.baseline or "", *beside).status == "passed"
    (tmp_path / "kernel.py").write_text("def run_kernel(x):\n    pass\n")
    with pytest.raises(SettingsError, match="define one of them"):
        load_task_files(tmp_path / "kernel.py", tmp_path / "reference.py", "n=64", *beside)
    assert "frozen" in " ".join(task.inferred)
    assert task.baseline is not None and count_autotune_configs(task.baseline) == {"scale": 1}


def task(name: str, dims: dict[str, float]) -> Task:
    reference = (TASKS / name / "reference.py").read_text()
    return softmax(name=name, language="triton", reference=reference, workloads=(Workload(name="w", dims=dims),))


SOFTMAX = task("triton-softmax", {"M": 128, "N": 1000})
KERNEL = (TASKS / "triton-softmax" / "kernel.py").read_text()
FAULTS = {
    "syntax": ("def run_kernel(x", "def run_kernel(x x"),
    "undefined in the kernel": ("total += tl.sum", "total += nowhere + tl.sum"),
    "not in triton": ("tl.exp(x - largest), axis=0", "tl.expo(x - largest), axis=0"),
    "block is no power of two": ("BLOCK=256", "BLOCK=250"),
    "empty grid": ("[(M,)]", "[(0,)]"),
    "import fails": ("import triton\n", "import triton\nimport nothing_of_that_name\n"),
}


@pytest.mark.parametrize("what", sorted(FAULTS))
def test_what_does_not_compile_is_said_with_its_line(what: str, beside: Beside) -> None:
    source = KERNEL.replace(*FAULTS[what], 1)
    assert source != KERNEL
    code, _, log = outcome(source, SOFTMAX, *beside)
    log = Triton().trim_log(log)
    assert code == 1
    assert "kernel.py:" in log or "grid" in log or "launch" in log, log
    assert "/tmp" not in log and 0 < len(log.splitlines()) <= 40


HELPER = "@triton.jit\ndef helper(v):\n    return v + tl.nothing(v)\n\n\n@triton.jit"
TUNED = (
    "@triton.autotune(configs=[\n    triton.Config({'BLOCK': 256}),\n    triton.Config({'BLOCK': 512}),\n], "
    "key=['n_cols'])\n"
)


@pytest.mark.parametrize(
    ("edits", "quoted"),
    [
        ([("largest = float", "tl.static_assert(BLOCK == 3)\n    largest = float")], ["tl.static_assert(BLOCK == 3)"]),
        ([("BLOCK=256", "BLOCK=250")], ["cols = start + tl.arange(0, BLOCK)"]),
        (
            [("@triton.jit", HELPER), ("total += ", "total += helper(total) + ")],
            ["return v + tl.nothing(v)", "total += helper(total) + tl.sum(tl.exp(x - largest), axis=0)"],
        ),
        (
            [("@triton.jit", f"{TUNED}@triton.jit"), (", BLOCK=256", ""), ("total += ", "total += nowhere + ")],
            ["total += nowhere + tl.sum(tl.exp(x - largest), axis=0)"],
        ),
    ],
    ids=["an assertion", "a value", "a function that is called", "a pinned kernel"],
)
def test_a_complaint_of_the_compiler_quotes_the_lines_of_the_users_own_file(
    edits: list[tuple[str, str]], quoted: list[str], beside: Beside
) -> None:
    source = KERNEL
    for old, new in edits:
        source = source.replace(old, new, 1)
    log = outcome(pin_autotune(source), SOFTMAX, *beside)[2]
    named = [
        (int(number), line)
        for number, line in re.findall(r"kernel\.py:(\d+): (?:error|called here).*\n *(.*)\n *\^", log)
    ]
    assert [line for _, line in named] == quoted, log
    assert [source.splitlines()[number - 1].strip() for number, _ in named] == quoted, log


def test_a_kernel_that_ends_the_process_is_only_a_failed_build(beside: Beside) -> None:
    code, said, _ = outcome("import os\nos._exit(0)\n" + KERNEL, SOFTMAX, *beside)
    assert code != 0 or "compiled" not in said
    assert outcome(KERNEL, SOFTMAX, *beside)[0] == 0


def test_only_a_target_is_a_flag() -> None:
    assert Triton().flags(SOFTMAX.model_copy(update={"build_flags": ("--target=sm_80",)})) == ("--target=sm_80",)
    with pytest.raises(SettingsError, match="--target"):
        Triton().flags(SOFTMAX.model_copy(update={"build_flags": ("-O3",)}))
    with pytest.raises(
        SettingsError, match=r"build_flags: '--target=sm_75' names a GPU that Triton does not support; .* sm_80, "
    ):
        Triton().flags(SOFTMAX.model_copy(update={"build_flags": ("--target=sm_75",)}))


def test_a_listing_tells_code_that_no_workload_reaches_from_code_that_runs(beside: Beside) -> None:
    source = (TASKS / "triton-softmax" / "kernel.py").read_text()
    launch = "softmax_kernel[(M,)](x, out, N, BLOCK=256)"
    kinds = {
        "unreached": f"if N > 32768:\n        softmax_kernel[(M,)](x, out, N, BLOCK=1024)\n    else:\n        {launch}",
        "grid": launch.replace("(M,)", "(M, 2)"),
        "argument": launch.replace("out, N,", "out, N // 2 * 2 if N % 2 else N - 16,"),
        "unknown": f"if float(x.sum()) > 0:\n        {launch}",
    }
    softmax = task("triton-softmax", {"M": 64, "N": 4096}).model_copy(update={"build_flags": ("--target=sm_90",)})

    def listing(code: str) -> str:
        executor, blobs = beside
        return blobs.text(
            executor.run(Triton().disassembly_job(blobs.put(code), blobs, BARE, softmax)).files["assembly.txt"]
        )

    given = listing(source)
    found = {
        kind: signatures.is_same_code(listing(source.replace(launch, text)), given) for kind, text in kinds.items()
    }
    assert found == {"unreached": True, "grid": False, "argument": False, "unknown": False}
    assert not signatures.is_same_code("", "")


@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
def test_a_listing_shows_registers_and_tensor_instructions(target: str, beside: Beside) -> None:
    executor, blobs = beside
    product = task("triton-matmul", {"M": 256, "N": 256, "K": 256}).model_copy(
        update={"build_flags": (f"--target={target}",)}
    )
    source = (TASKS / "triton-matmul" / "kernel.py").read_text()
    candidate = Candidate(language="triton", files={"kernel.py": source})
    profile, raw = sass.profile_listing(product, candidate, blobs.put(source), Triton(), executor, blobs)
    found = {name.removeprefix("sass."): quantity.value for name, quantity in profile.metrics.items()}
    assert profile.launch == target and found["registers"] > 16 and min(found["tensor"], found["shared"]) > 0
    assert (found["loops"], found["spills"]) == (1, 0)
    # What sm_80 does not have it does not lack: no rule may ask for warp-group products there.
    assert found.get("wgmma") == (0 if target == "sm_90" else None)
    listing = blobs.text(raw["assembly.txt"])
    assert signatures.check_signature(listing, target, {target: "^HMMA"}).present
    assert signatures.check_signature(listing, target, {target: "^HGMMA"}).present is False


def test_matrix_instructions_are_unknown_where_a_library_is_called(beside: Beside) -> None:
    executor, blobs = beside
    softmax = task("triton-softmax", {"M": 256, "N": 256}).model_copy(
        update={"build_flags": ("--target=sm_90",), "library": ("aten.mm",)}
    )
    source = (TASKS / "triton-softmax" / "kernel.py").read_text()
    called = source + "\n\ndef product(a, b):\n    return torch.ops.aten.mm(a, b)\n"
    tensor = [
        sass.profile_listing(softmax, candidate, blobs.put(text), Triton(), executor, blobs)[0].metrics.get(
            "sass.tensor"
        )
        for text in (source, called)
        for candidate in [Candidate(language="triton", files={"kernel.py": text})]
    ]
    assert [one and one.value for one in tensor] == [0, None]


@pytest.mark.parametrize("name", ["triton-softmax", "triton-rmsnorm"])
def test_the_shipped_tasks_are_understood(name: str, beside: Beside) -> None:
    loaded = load_task_folder(TASKS / name, *beside)
    assert loaded.task.language == "triton" and loaded.task.dims_range and len(loaded.task.workloads) == 3
    assert all(w.flops for w in loaded.workloads)


def outcome(source: str, what: Task, executor: LocalExecutor, blobs: Blobs) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a build."""
    finished = executor.run(
        Triton().build(what, Candidate(language="triton", files={"kernel.py": source}), blobs, BARE)
    )
    return finished.exit_code, blobs.text(finished.files["stdout.txt"]), blobs.text(finished.files["stderr.txt"])


ESCAPE = """
E = exec
for path in {secrets!r}:
    try:
        E("leaked = open(path).read()")
        E("open({written!r}, 'a').write(leaked)")
    except OSError:
        pass
try:
    E("open({written!r}, 'a').write('was here')")
except OSError:
    pass
try:
    E("open(__file__, 'a').write('# swapped')")
except OSError:
    pass
"""


def test_a_build_reaches_nothing_but_its_own_folder(beside: Beside, tmp_path: Path) -> None:
    executor, blobs = beside
    if not inspect_environment(executor, (Triton(),), blobs).sandbox.get("landlock", "").startswith("abi"):
        pytest.skip("this kernel has no Landlock")
    secret, written = tmp_path / "secret", tmp_path / "written"
    secret.write_text("secret")
    source = KERNEL + ESCAPE.format(
        secrets=[str(secret), str(blobs.path(blobs.put("another job's file")))], written=str(written)
    )
    finished = executor.run(
        Triton().build(SOFTMAX, Candidate(language="triton", files={"kernel.py": source}), blobs, BARE)
    )
    assert finished.exit_code == 0 and "compiled 1 spec" in blobs.text(finished.files["stdout.txt"])
    assert not written.exists() and secret.read_text() == "secret"
    assert blobs.text(finished.files["kernel.py"]) == source


def test_a_link_that_a_build_leaves_is_not_written_through(beside: Beside, tmp_path: Path) -> None:
    executor, blobs = beside
    target = tmp_path / "target"
    body = f"""
import os
for name in ('made/stdout.txt', 'stdout.txt', 'stderr.txt', 'assembly.txt'):
    try:
        os.symlink({str(target)!r}, os.path.join(os.path.dirname(__file__), name))
    except OSError:
        pass
os.kill(os.getpid(), 9)
"""
    assert outcome(body + KERNEL, SOFTMAX, executor, blobs)[0] != 0
    assert not target.exists()


TILES = """import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def copy(x, out, B: tl.constexpr):
    at = tl.program_id(0) * B
    out.store([at, 0], x.load([at, 0]))


def run_kernel(x, out, M, N):
    copy[(triton.cdiv(M, 16),)](TensorDescriptor.from_tensor(x, [16, 64]), TensorDescriptor.from_tensor(out, [16, 64]), B=16)
"""


def persistent(units: str) -> str:
    """The shipped softmax with a grid of as many programs as there are multiprocessors."""
    source = (
        KERNEL.replace("import triton\n", "import torch\nimport triton\n", 1)
        if "import torch" not in KERNEL
        else KERNEL
    )
    return source.replace("[(M,)]", f"[(max(M, min(M, {units})),)]")


OF_TRITON = (
    "triton.runtime.driver.active.utils.get_device_properties(torch.cuda.current_device())['multiprocessor_count']"
)
LAUNCHED = {
    "a grid by torch's properties": (
        persistent("torch.cuda.get_device_properties(0).multi_processor_count"),
        "compiled 1 spec",
    ),
    "a grid by triton's properties": (persistent(OF_TRITON), "compiled 1 spec"),
    "tensor descriptors": (TILES, "compiled 1 spec"),
    "a tuple": (
        KERNEL.replace("[(M,)](x,", "[(M,)]((out, x),").replace("x_ptr + row", "x_ptr[1] + row"),
        "compiled 1 spec",
    ),
    "an argument that no launch takes": (KERNEL.replace("[(M,)](x,", "[(M,)]('x',"), "not followed: softmax_kernel: "),
    "an assertion that fails": (KERNEL.replace("out, M, N):\n", "out, M, N):\n    assert N == 1\n"), "assert N == 1"),
}


@pytest.mark.parametrize("what", sorted(LAUNCHED))
def test_what_a_launch_takes_is_compiled_and_the_rest_is_said(what: str, beside: Beside) -> None:
    source, expected = LAUNCHED[what]
    code, said, wrong = outcome(source, task("triton-softmax", {"M": 64, "N": 64}), *beside)
    assert source != KERNEL and code == 0 and expected in said, said + wrong
    assert ("not followed" in said) is (expected != "compiled 1 spec")
    if "properties" in what:
        assert Triton().interpret(SOFTMAX, source, *beside).status == "passed"


def test_inputs_drawn_by_a_value_are_followed(beside: Beside) -> None:
    softmax = task("triton-softmax", {"M": 64, "N": 64})
    drawn = (
        softmax.reference
        + "\n_made = make_inputs\n\n\ndef make_inputs(*a, **k):\n    assert torch.rand(1).item() >= 0\n    return "
        "_made(*a, **k)\n"
    )
    code, said, wrong = outcome(KERNEL, softmax.model_copy(update={"reference": drawn}), *beside)
    assert code == 0 and "compiled 1 spec" in said and "not followed" not in said, said + wrong
