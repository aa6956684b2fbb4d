"""Triton kernels lifted from what Inductor wrote on an H200 (torch 2.11): text that was recorded there, with its
launches."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import pytest

from agents.lift.triton import lift_triton
from tests.agents.models.playbook.triton_calling import errors
from tools.artifacts import Argument
from tools.errors import SettingsError
from tools.executors.protocol import InductorResult
from tools.screen.screen import screen

RECORDED = sorted((Path(__file__).parent / "inductor").glob("*.json"))


@pytest.fixture(params=RECORDED, ids=lambda path: path.stem)
def recorded(request: pytest.FixtureRequest) -> tuple[tuple[Argument, ...], InductorResult]:
    found = json.loads(request.param.read_text())
    return tuple(Argument.model_validate(a) for a in found.pop("arguments")), InductorResult.model_validate(found)


def test_what_is_lifted_needs_nothing_of_inductor_and_passes_the_screen(
    recorded: tuple[tuple[Argument, ...], InductorResult],
) -> None:
    arguments, found = recorded
    text = lift_triton(arguments, found, ())
    assert screen(text, "triton", (), [a.name for a in arguments if a.role != "scalar"]) == ()
    assert "inductor" not in text.partition('"""\n')[2] and "triton_helpers" not in text


def test_each_kernel_is_launched_with_the_settings_that_ran(
    recorded: tuple[tuple[Argument, ...], InductorResult],
) -> None:
    arguments, found = recorded
    tree = ast.parse(lift_triton(arguments, found, ()))
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert [a.arg for a in functions["run_kernel"].args.args] == [a.name for a in arguments]
    for number, variant in enumerate(found.variants):
        calls = [
            n
            for n in ast.walk(functions[f"variant_{number}"])
            if isinstance(n, ast.Call) and isinstance(n.func, ast.Subscript)
        ]
        given = [{k.arg: ast.unparse(k.value) for k in call.keywords} for call in calls]
        assert len(calls) == len(variant.launches)
        for launch in variant.launches.values():
            blocks = {
                name: repr(value)
                for name, value in launch.config.items()
                if name.endswith("BLOCK") or name.startswith("num_")
            }
            assert any(blocks.items() <= one.items() for one in given), blocks


def test_other_sizes_have_code_of_their_own(recorded: tuple[tuple[Argument, ...], InductorResult]) -> None:
    arguments, found = recorded
    (entry,) = (
        n
        for n in ast.parse(lift_triton(arguments, found, ())).body
        if isinstance(n, ast.FunctionDef) and n.name == "run_kernel"
    )
    first = entry.body[0]
    assert isinstance(first, ast.If) and ast.unparse(first.test) == " and ".join(found.variants[0].conditions)
    assert "variant_1(" in ast.unparse(entry.body[-1])


MIXED = """
async_compile = AsyncCompile()
triton_poi_fused_add_0 = async_compile.triton('triton_poi_fused_add_0', '''
@triton.jit
def triton_poi_fused_add_0(in_ptr0, in_ptr1, out_ptr0, xnumel, XBLOCK : tl.constexpr):
    at = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)
    tl.store(out_ptr0 + at, tl.load(in_ptr0 + at, at < xnumel) + tl.load(in_ptr1 + at, at < xnumel), at < xnumel)
''', device_str='cuda')


def call(self, args):
    x_1, w_1, k_1 = args
    args.clear()
    buf0 = empty_strided_cuda((5, 4), (4, 1), torch.float32)
    extern_kernels.mm(reinterpret_tensor(x_1, (5, 6), (6, 1), 0), reinterpret_tensor(w_1, (6, 4), (1, 6), 0), out=buf0)
    buf1 = extern_kernels.convolution(reinterpret_tensor(x_1, (1, 1, 5, 6), (30, 30, 6, 1), 0), k_1, stride=(1, 1), padding=(0, 0), \
dilation=(1, 1), transposed=False, output_padding=(0, 0), groups=1, bias=None)
    assert_size_stride(buf1, (1, 1, 5, 4), (20, 20, 4, 1), 'torch.ops.aten.convolution.default')
    buf2 = torch.ops.aten.sort.default(reinterpret_tensor(buf1, (5, 4), (4, 1), 0), 1)
    buf3 = buf2[0]
    buf4 = empty_strided_cuda((5, 4), (4, 1), torch.float32)
    triton_poi_fused_add_0.run(buf0, buf3, buf4, 20, stream=raw_stream0)
    return (buf4, )
"""
ARGUMENTS = tuple(
    Argument(name=n, dtype="float32", role="output" if n == "out" else "input") for n in ("x", "w", "k", "out")
)


EXPECTED = (
    "(x @ w.T).reshape(-1).cumsum(0).reshape(5, 4) + torch.nn.functional.conv2d(x[None, None], k)[0, 0].sort(1)[0]"
)


LIBRARY = ("aten.mm", "aten.convolution", "aten.sort")


def mixed(code: str = MIXED, library: tuple[str, ...] = LIBRARY, scalars: dict[str, float] | None = None) -> str:
    """A wrapper of a kernel and of operators that write into a buffer, return one, and return several."""
    config = {"XBLOCK": 32, "num_warps": 1, "num_stages": 1}
    launch = {"config": config, "grid": ("-((xnumel) // -(XBLOCK))", "1", "1")}
    shapes = {"x": ("5", "6"), "w": ("4", "6"), "k": ("1", "1", "1", "3"), "out": ("5", "4")}
    variant = {
        "code": code,
        "inputs": ("x", "w", "k", *(scalars or {})),
        "conditions": (),
        "scalars": scalars or {},
        "launches": {"triton_poi_fused_add_0": launch},
    }
    arguments = (*ARGUMENTS, *(Argument(name=n, dtype="float32", role="scalar") for n in scalars or {}))
    return lift_triton(arguments, InductorResult.model_validate({"shapes": shapes, "variants": (variant,)}), library)


def test_what_inductor_leaves_to_the_tasks_library_is_called_with_the_shapes_it_had(tmp_path: Path) -> None:
    pytest.importorskip("triton")
    text = mixed()
    assert screen(text, "triton", (), ("x", "w", "k", "out"), LIBRARY) == ()
    specification = {"x": "in:5x6", "w": "in:4x6", "k": "in:1x1x1x3", "out": "out:5x4"}
    expected = "x @ w.T + torch.nn.functional.conv2d(x[None, None], k)[0, 0].sort(1)[0]"
    assert errors([[text, specification, expected]], tmp_path)[0] < 1e-5


def test_a_float_that_inductor_reads_from_a_tensor_is_the_argument_itself(tmp_path: Path) -> None:
    pytest.importorskip("triton")
    code = (
        MIXED.replace("in_ptr1, out_ptr0", "in_ptr1, out_ptr0, scale")
        .replace("at < xnumel) + tl.load", "at < xnumel) + scale * tl.load")
        .replace("x_1, w_1, k_1 = args", "x_1, w_1, k_1, s_1 = args")
        .replace("buf4, 20,", "buf4, s_1.item(), 20,")
    )
    text = mixed(code, scalars={"s": 0.25})
    assert screen(text, "triton", (), ("x", "w", "k", "out"), LIBRARY) == ()
    specification = {"x": "in:5x6", "w": "in:4x6", "k": "in:1x1x1x3", "out": "out:5x4", "s": 0.5}
    expected = "x @ w.T + 0.5 * torch.nn.functional.conv2d(x[None, None], k)[0, 0].sort(1)[0]"
    assert errors([[text, specification, expected]], tmp_path)[0] < 1e-5


def test_a_workspace_that_the_wrapper_zeroes_is_zeroed_before_each_launch(tmp_path: Path) -> None:
    pytest.importorskip("triton")
    zeroed = "workspace_0 = empty_strided_cuda((20, ), (1, ), torch.float32)\n    workspace_0.zero_()\n    "
    text = mixed(
        MIXED.replace(
            "triton_poi_fused_add_0.run(buf0, buf3,", zeroed + "triton_poi_fused_add_0.run(buf0, workspace_0,"
        )
    )
    assert text.index("lifted_zero[") < text.index("triton_poi_fused_add_0[")
    assert screen(text, "triton", (), ("x", "w", "k", "out"), LIBRARY) == ()
    assert (
        errors([[text, {"x": "in:5x6", "w": "in:4x6", "k": "in:1x1x1x3", "out": "out:5x4"}, "x @ w.T"]], tmp_path)[0]
        < 1e-5
    )


def test_the_function_that_a_scan_combines_by_is_lifted_with_each_kernel_that_has_one_of_that_name(
    tmp_path: Path,
) -> None:
    pytest.importorskip("triton")
    combine = (
        "@triton.jit\ndef _triton_helper_fn_add0(arg0_0, arg1_0):\n    tmp0 = arg0_0 {} arg1_0\n    return "
        "tmp0\n\n@other(\n    x=1\n)\n"
    )
    scan = "tl.associative_scan({}, 0, _triton_helper_fn_add0)"
    first = MIXED.replace("@triton.jit\n", combine.format("+") + "@triton.jit\n").replace(
        "tl.load(in_ptr0 + at, at < xnumel)", scan.format("tl.load(in_ptr0 + at, at < xnumel)")
    )
    kernel = first[first.index("triton_poi_fused_add_0 = ") : first.index("def call")]
    other = kernel.replace("add_0", "mul_1").replace("{} arg1_0".format("+"), "* arg1_0")
    both = first.replace("def call", f"{other}\n\ndef call").replace("    return (buf4, )", "    return (buf4, )")
    text = mixed(both)
    compile(text, "lifted.py", "exec")
    assert "+ arg1_0" in text and "* arg1_0" in text and "_triton_helper_fn_add0_(" in text and "@other" not in text
    assert (
        errors([[text, {"x": "in:5x6", "w": "in:4x6", "k": "in:1x1x1x3", "out": "out:5x4"}, EXPECTED]], tmp_path)[0]
        < 1e-5
    )


@pytest.mark.parametrize(
    ("code", "library", "words"),
    [
        (
            MIXED,
            ("aten.mm", "aten.convolution"),
            "leaves torch's sort to a library, which is not lifted; allow it with `library: [aten.sort]`",
        ),
        (
            MIXED.replace("triton_poi_fused_add_0.run", "torch.cuda.none"),
            ("aten.mm", "aten.convolution", "aten.sort"),
            "is library, not a kernel",
        ),
    ],
)
def test_what_the_library_may_not_do_and_what_is_nothing_else_are_no_kernels(
    code: str, library: tuple[str, ...], words: str
) -> None:
    with pytest.raises(SettingsError, match=re.escape(words)):
        mixed(code, library)
