from pathlib import Path

import pytest

from tools.analysis.bottleneck import find_bottleneck
from tools.analysis.rules import evaluate_rules
from tools.artifacts import Profile, Quantity, Remark
from tools.profilers.static import examine_machine_code
from tools.roofline.hardware import Headroom

FIXTURES = Path(__file__).parents[1] / "fixtures" / "static"
CORES = {"device.units": Quantity(value=2)}
FAR_BEYOND_CACHE = {
    "roofline.fraction_of_memory_roof": 0.6,
    "roofline.intensity_over_ridge": 0.1,
    "workload.bytes_over_cache": 4,
}
FAR = Headroom(total=0.95, compute=0.99, memory=0.95, latency=0.9, bound="memory")


def profile(kernel: str) -> Profile:
    texts = [(FIXTURES / kernel / f"gcc.{part}.txt").read_text() for part in ("remarks", "assembly", "debug")]
    metrics, remarks = examine_machine_code(texts[0], "gcc", texts[1], texts[2])
    return Profile(tool="static", launch="static", source="c", metrics=metrics, remarks=remarks)


def made(metrics: dict[str, float], *remarks: Remark) -> Profile:
    return Profile(
        tool="static",
        launch="static",
        source="c",
        metrics={n: Quantity(value=v) for n, v in metrics.items()},
        remarks=remarks,
    )


def fired(kernel: str, **facts: float) -> dict[str, int]:
    known = CORES | {name.replace("__", "."): Quantity(value=value) for name, value in facts.items()}
    return {finding.rule: finding.line for finding in evaluate_rules([(profile(kernel), "record")], known)}


def test_naive_softmax():
    found = fired("softmax", roofline__fraction_of_memory_roof=0.04, roofline__intensity_over_ridge=0.1)
    assert found["scalar_math_call"] == 6
    assert found["reduction_not_vectorised"] == 13
    assert found["division_in_loop"] == 16
    assert {"single_threaded", "loop_not_vectorised", "low_packed_fraction", "redundant_passes"} <= set(found)
    assert not {"strided_access", "function_call_in_loop", "near_memory_roof"} & set(found)


def test_matmul_and_transpose_want_another_loop_order():
    assert {"outer_loop_interchange", "strided_access", "reduction_not_vectorised"} <= set(fired("matmul"))
    transposed = fired("transpose")
    assert {"outer_loop_interchange", "strided_access"} <= set(transposed)
    assert not {"reduction_not_vectorised", "low_packed_fraction"} & set(transposed)


def test_nothing_is_held_against_the_fast_kernel_at_the_roof():
    assert set(fired("fast", roofline__fraction_of_memory_roof=0.9, roofline__intensity_over_ridge=0.1)) == {
        "near_memory_roof"
    }


@pytest.mark.parametrize(
    ("rule", "facts"),
    [
        ("function_call_in_loop", {"objdump.other_calls": 1, "objdump.calls.helper": 1}),
        ("store_bound_streaming", FAR_BEYOND_CACHE | {"objdump.streaming_stores": 0}),
    ],
)
def test_rules_on_facts(rule, facts):
    found = evaluate_rules([(made(facts), "r")], {})
    assert [finding.rule for finding in found] == [rule]
    assert "N/A" not in found[0].text and found[0].evidence == ("r",)
    assert evaluate_rules([], {}) == (), "a metric that was not collected never fires"


def test_agreement_with_the_compiler_ranks_higher():
    assert evaluate_rules([(profile("softmax"), "r")], CORES)[0].rule == "scalar_math_call"
    alone = evaluate_rules([(made({"objdump.math_calls": 1, "objdump.omp_regions": 0}), "r")], CORES)
    assert [f.rule for f in alone] == ["single_threaded", "scalar_math_call"]
    said = Remark(tool="gcc", line=9, kind="missed", text="loop not vectorized: statement clobbers memory: expf")
    agreed = evaluate_rules([(made({"objdump.math_calls": 1, "objdump.omp_regions": 0}, said), "r")], CORES)
    assert [f.rule for f in agreed] == ["scalar_math_call", "single_threaded"]


def test_bottleneck():
    findings = evaluate_rules([(profile("softmax"), "r")], CORES)
    assert find_bottleneck(findings, FAR) == "compute"
    assert find_bottleneck((), FAR) == "memory"
    assert find_bottleneck(findings, FAR.model_copy(update={"memory": 0.1})) == "memory"
    assert find_bottleneck(findings[1:2], FAR) == findings[1].axis


@pytest.mark.parametrize("allowed", [0, 1])
def test_matrix_units_are_asked_for_only_where_the_precision_allows_them(allowed: int) -> None:
    idle = {"sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active": 0, "roofline.intensity_over_ridge": 9}
    found = evaluate_rules([(made(idle | {"roofline.matrix_units": allowed}), "r")], {})
    assert [finding.rule for finding in found] == ["tensor_cores_idle"] * allowed
