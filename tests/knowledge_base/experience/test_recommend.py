"""What is recommended, on which evidence, and what is said about it."""

import math
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge_base.artifacts import Attempt
from knowledge_base.experience.answer_lines import recommendation_lines
from knowledge_base.experience.recommend import Recommendation, covered_targets, read_conditions, recommend
from knowledge_base.experience.similarity import Conditions, likeness, operator_family
from knowledge_base.experience.status import RESULT_BY_VERDICT, compact, method_status
from knowledge_base.pages.wiki import Wiki, section_text
from tests.knowledge_base.experience.test_log import attempt
from tools.analysis import rules
from tools.artifacts import Interval

WIKI = Wiki.open()
HERE = Conditions(
    language="cpp",
    operator="softmax",
    architectures=("x86_64",),
    dtype="float32",
    shape_class="2^25B",
    bottleneck="compute",
)


def gain(estimate: float, spread: float = 1.05) -> Interval:
    return Interval(estimate=estimate, low=estimate / spread, high=estimate * spread)


def outcome(evidence: str, verdict: str, *methods: str, estimate: float = 1.5, **changes: object) -> Attempt:
    effect = {"effect": gain(estimate)} if verdict != "reject_correctness" else {}
    return attempt(evidence, verdict=verdict, result=RESULT_BY_VERDICT[verdict], methods=methods, **(effect | changes))


def asked(*attempts: Attempt, conditions: Conditions = HERE, k: int = 5) -> Recommendation:
    return recommend(attempts, conditions, WIKI, k)


def tried(found: Recommendation) -> list[tuple[str, ...]]:
    return [one.methods for one in found.proposed if one.basis == "experience"]


def test_without_experience_the_wiki_answers_and_is_called_that():
    found = asked(conditions=HERE.model_copy(update={"operator": ""}))
    assert found.proposed and all(one.basis == "wiki" and not one.results for one in found.proposed)
    assert all(one.citation.startswith("<gpu-wiki>/methods/") for one in found.proposed)
    assert "no outcome is known in similar conditions" in found.note
    priorities = [WIKI.page(one.methods[0]).head.priority for one in found.proposed]
    assert priorities == sorted(priorities, reverse=True)


def test_a_finding_gets_the_pages_that_name_it_first_and_its_skill():
    finding = read_conditions(WIKI, language="cpp", bottleneck="scalar-math-call")
    found = asked(conditions=finding)
    named = [WIKI.page(one.methods[0]).head.rules for one in found.proposed]
    assert "scalar_math_call" in named[0] and any("answers scalar_math_call" in one.reason for one in found.proposed)
    assert [("scalar_math_call" in rules) for rules in named] == sorted(
        (("scalar_math_call" in rules) for rules in named), reverse=True
    )
    assert any("scalar-math-in-loop" in page for page in found.pages)


@pytest.mark.parametrize("bottleneck", ["", "memory", "poor_coalescing"])
def test_a_recommendation_starts_from_the_operator(bottleneck: str):
    finding = read_conditions(WIKI, language="triton", operator="matmul", architecture="H100", bottleneck=bottleneck)
    found = asked(conditions=finding, k=50)
    page = WIKI.page("matmul")
    assert page is not None and found.operator == f"<gpu-wiki>/{page.path}:{page.body_line}"
    assert next(recommendation_lines(found)) == found.note and found.operator in list(recommendation_lines(found))[1]
    answers = [one for one in found.proposed if "but acts on the same axis" not in one.reason]
    for group in (answers, found.proposed[len(answers) :]):
        named = ["the page on matmul names it" in one.reason for one in group]
        assert named == sorted(named, reverse=True)
    assert any("the page on matmul names it" in one.reason for one in found.proposed[:5])
    if bottleneck == "poor_coalescing":
        rules_of = [WIKI.page(one.methods[0]).head.rules for one in found.proposed[:2]]  # type: ignore[union-attr]
        assert all("poor_coalescing" in named for named in rules_of) and "says that it" in found.proposed[0].reason
    hopper = asked(conditions=finding.model_copy(update={"language": "cuda", "bottleneck": "", "rule": ""}), k=50)
    methods = {one.methods[0] for one in hopper.proposed}
    assert "cuda-wgmma" in methods and "cuda-tcgen05" not in methods, "of another architecture"


def collected(rule: rules.Rule) -> tuple[str, ...]:
    """The languages in which what a rule reads is collected: from a CPU's machine code, by a GPU's profilers, or of
    any kernel."""
    metrics = [condition.metric for condition in rule.when]
    if any(metric.startswith(("objdump.", "compiler.")) for metric in metrics):
        return ("cpp",)
    everywhere = all(metric.startswith(("roofline.", "device.", "workload.")) for metric in metrics)
    return ("cpp", "cuda", "triton") if everywhere else ("cuda", "triton")


CAN_FIRE = sorted({(language, rule.id) for rule in rules.load_rules() for language in collected(rule)})


@pytest.mark.parametrize(("language", "rule"), CAN_FIRE)
def test_each_finding_leads_to_what_its_skill_page_names_and_else_to_that_page(language: str, rule: str):
    found = asked(conditions=read_conditions(WIKI, language=language, bottleneck=rule), k=50)
    pages = [
        page for page in WIKI.skills(language, [rule]) if f"<gpu-wiki>/{page.path}:{page.body_line}" in found.pages
    ]
    assert pages and all(section_text(page.body, "Fixes") for page in pages)
    linked = {name for page in pages for name in re.findall(r"methods/([\w-]+)\.md", section_text(page.body, "Fixes"))}
    wanted = {page.head.id for name in linked if (page := WIKI.page(name)) and language in page.head.languages}
    first = [one for one in found.proposed if "but acts on the same axis" not in one.reason]
    assert wanted <= {one.methods[0] for one in first} and found.proposed[: len(first)] == tuple(first)


def test_one_measurement_is_called_one_and_keeps_its_own_interval():
    found = asked(outcome("a", "accept", "vector-exp", estimate=2.0, commit="c0ffee", knobs={"DEGREE": "5"}))
    first = found.proposed[0]
    assert (first.methods, first.basis, first.results, first.effect) == (
        *(("vector-exp",), "experience"),
        *({"success": 1}, gain(2.0)),
    )
    assert all(part in first.reason for part in ("n=1 on x86_64", "a single measurement", "1 in the same conditions"))
    assert first.score == pytest.approx(math.sqrt(2.0), rel=1e-3), "one fictitious outcome of 1x stands beside it"
    kept = first.evidence[0].attempt
    assert (kept.evidence, kept.commit, kept.knobs) == ("a", "c0ffee", {"DEGREE": "5"})


def test_many_small_gains_here_beat_one_large_one_far_away():
    near = [outcome(f"n{i}", "accept", "simd-reduction", estimate=1.6) for i in range(4)]
    far = outcome(
        "f", "accept", "vector-exp", estimate=4.0, architecture="sm_90", operator="transpose", dtype="float16"
    )
    assert tried(asked(*near, far))[0] == ("simd-reduction",)


def test_what_failed_in_the_same_conditions_is_not_proposed():
    failed = ("vector-exp", "simd-loop")
    found = asked(*(outcome(name, "reject_perf", name, estimate=0.9, note="slower") for name in failed))
    assert not tried(found) and {one.methods for one in found.avoid} == {("vector-exp",), ("simd-loop",)}
    assert not {"vector-exp", "simd-loop"} & {method for one in found.proposed for method in one.methods}
    assert all(one.warning.startswith("failed in the same conditions") for one in found.avoid)


def test_what_noise_hid_and_a_draft_that_was_wrong_are_no_advice_against_a_method():
    hidden = outcome("a", "reject_perf", "vector-exp").model_copy(
        update={"effect": Interval(estimate=1.0, low=0.83, high=1.24)}
    )
    found = asked(hidden, outcome("b", "reject_correctness", "simd-loop"))
    assert not found.avoid and not any(one.warning for one in found.proposed)


def test_figures_that_nothing_decided_move_neither_the_interval_nor_the_rank():
    won, unsure = (
        outcome("a", "accept", "vector-exp", estimate=20.2),
        outcome("b", "inconclusive", "vector-exp", estimate=54.6),
    )
    alone, both = asked(won).proposed[0], asked(unsure, won).proposed[0]
    assert (both.effect, both.score) == (alone.effect, alone.score) and both.results == {
        "unknown": 1,
        "success": 1,
    }


def test_what_failed_too_is_proposed_with_a_warning_if_the_conditions_were_the_same():
    here, lost = (
        outcome("b", "accept", "vector-exp"),
        outcome("a", "reject_perf", "vector-exp", estimate=0.9, note="slower"),
    )
    elsewhere = lost.model_copy(update={"architecture": "aarch64"})
    first = asked(here, lost).proposed[0]
    assert first.results == {"success": 1, "failure": 1} and "a" in first.warning and "slower" in first.warning
    alone, both = asked(here).proposed[0], asked(here, elsewhere).proposed[0]
    assert not both.warning and sum(both.results.values()) == 2 and both.score < alone.score
    assert not asked(elsewhere).avoid and not tried(asked(outcome("a", "accept", "triton-tiles", language="triton")))


def test_a_page_whose_method_failed_as_part_of_a_set_is_hinted_with_that():
    found = asked(outcome("a", "reject_perf", "vector-exp", "simd-loop", estimate=0.9))
    hinted = next(one for one in found.proposed if one.methods == ("vector-exp",))
    assert hinted.basis == "wiki" and "vector-exp + simd-loop" in hinted.warning and "no outcome" not in hinted.reason


def test_what_a_person_states_counts_half():
    outcomes = (outcome("a", "accept", "vector-exp", estimate=2.0, origin=origin) for origin in ("run", "stated"))
    measured, stated = (asked(one).proposed[0] for one in outcomes)
    assert 1 < stated.score < measured.score and "not measured by a run" in stated.reason


NEARER = (
    # A condition that differs, how it is named, and one that is further away.
    ({"operator": "rms_norm"}, "operator rms_norm (row-wise, too)", {"operator": "transpose"}),
    ({"architecture": "aarch64"}, "architecture aarch64", {"architecture": "sm_90"}),
    ({"shape_class": "2^24B"}, "shapes 2^24B", {"shape_class": "2^10B"}),
    ({"dtype": "float64"}, "dtype float64", {"dtype": "float64", "operator": "matmul"}),
    ({"bottleneck": "memory"}, "bottleneck memory", {"language": "triton"}),
    ({"architecture": ""}, "architecture not known", {"language": "triton"}),
)


@pytest.mark.parametrize(("change", "said", "further"), NEARER, ids=[said for _, said, _ in NEARER])
def test_each_condition_that_differs_lowers_the_likeness_and_is_named(
    change: dict[str, str], said: str, further: dict[str, str]
):
    same, other = likeness(HERE, attempt("a")), likeness(HERE, attempt("a", **change))
    assert (same.score, same.all_same, same.differing) == (1.0, True, ())
    assert (
        likeness(HERE, attempt("a", **further)).score < other.score < 1
        and not other.all_same
        and other.differing == (said,)
    )
    assert likeness(Conditions(language="cpp"), attempt("a", **change)).all_same, "what is not asked does not differ"


def test_a_finding_is_matched_by_the_findings_kept():
    finding = read_conditions(WIKI, language="cpp", bottleneck="scalar_math_call")
    kept, other, old = (
        attempt("a", findings=findings) for findings in (("scalar_math_call",), ("single_threaded",), ())
    )
    scores = [likeness(finding, one).score for one in (kept, old, other)]
    assert scores[0] == 1.0 and scores == sorted(scores, reverse=True) and len(set(scores)) == 3


FAMILIES = {
    "softmax": "softmax triton-softmax", "log_softmax": "LogSoftmax", "layer_norm": "my_layernorm_v2", "rms_norm": "RMSNorm",
    "matmul": "gemm batched-matmul mm", "add": "vector_add", "sum": "row_sum", "cumsum": "cumsum", "summary": "summary", "heat": "heat",
}  # fmt: skip


def test_names_of_operators_lead_to_families():
    for found, names in FAMILIES.items():
        assert {operator_family(name) for name in names.split()} == {found}


def test_names_of_architectures_come_from_the_wiki():
    assert covered_targets(WIKI, "Hopper") == covered_targets(WIKI, "H200") == ("sm_90",)
    assert set(covered_targets(WIKI, "blackwell")) >= {"sm_100", "sm_120"} and covered_targets(WIKI, "sm_90a") == (
        "sm_90a",
    )
    assert likeness(
        Conditions(language="cuda", architectures=("sm_90",)), attempt("a", language="cuda", architecture="sm_90a")
    ).all_same


METHODS = st.sampled_from(
    [("vector-exp",), ("simd-loop",), ("vector-exp", "simd-loop"), ("tile-loops", "hoist-invariants")]
)
LOGS = st.lists(
    st.builds(
        lambda verdict, methods, number, change: outcome(f"e{number}", verdict, *methods, **change),
        st.sampled_from(list(RESULT_BY_VERDICT)),
        METHODS,
        st.integers(0, 99),
        st.sampled_from([{}, {}, {"architecture": "aarch64"}, {"operator": "matmul"}, {"dtype": "float64"}]),
    ),
    max_size=12,
    # As a log is read: of the lines about the same evidence and methods one counts.
    unique_by=lambda one: one.identity,
)


@given(LOGS)
def test_nothing_that_failed_in_the_same_conditions_is_proposed_without_a_word(log: list[Attempt]):
    found = asked(*log, k=50)
    failed = [one for one in log if likeness(HERE, one).all_same and method_status(one.verdict, one.effect) == "avoid"]
    for one in found.proposed:
        bad = [
            lost
            for lost in failed
            if set(lost.methods) == set(one.methods) or (one.basis == "wiki" and one.methods[0] in lost.methods)
        ]
        assert bool(one.warning) == bool(bad)
    told = [frozenset(one.methods) for one in (*found.proposed, *found.avoid)]
    assert len(told) == len(set(told)) and {frozenset(one.methods) for one in failed} <= set(told)


def test_compaction_goes_by_the_newest_outcome(tmp_path: Path):
    told = compact(
        (outcome("c", "accept", "a"), outcome("b", "reject_perf", "a"), outcome("a", "inconclusive", "b", "c"))
    )
    assert [(one.status, one.methods, one.verdicts) for one in told] == [
        ("resolved", ("a",), {"accept": 1, "reject_perf": 1}),
        ("pending", ("b", "c"), {"inconclusive": 1}),
    ]
