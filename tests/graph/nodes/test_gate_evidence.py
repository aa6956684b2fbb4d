"""What experience keeps of an iteration."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Literal

import pytest

from agents.artifacts import Hypothesis, Plan, PlannedMethod, Prediction
from graph.artifacts import Attribution, MethodOutcome, is_borne_out
from graph.lifecycle import run as runs
from graph.lifecycle.verify import accepted_commits
from graph.nodes import gate_evidence
from graph.nodes.gate_evidence import _attempts_to_learn, _idle_methods, _score_predictions
from graph.nodes.propose import _prediction_summary, earlier_outcomes, trials_of_iteration
from graph.report.content.version_files import profile_files
from graph.workspace.folder import open_read_only
from graph.workspace.versions import closing_of, read_versions
from knowledge_base.artifacts import Forecast, source_digest
from knowledge_base.experience.forecasts import MIN_SCORED_PREDICTIONS
from tests.graph.conftest import FinishedRun, gain_of, state_of
from tools.artifacts import Candidate, Claim, Interval, Outcome, Passed, Verdict
from tools.gate.confirmation import claim_of
from tools.store.records import Records, record_key
from tools.store.repository import Repository


@pytest.mark.parametrize(
    ("outcome", "kept"),
    [
        ("accept", ["success"]),
        ("inconclusive", ["unknown"]),
        # What it gained is shown here: a workload's margin may have cost it the place, and that is no failure of its
        # methods.
        ("reject_perf", ["unknown"]),
        ("reject_correctness", ["crash"]),
        ("reject_policy", ["crash"]),
        ("infra_error", []),
    ],
)
def test_what_says_nothing_about_the_idea_is_not_remembered_of_it(
    copied: Path, monkeypatch: pytest.MonkeyPatch, outcome: Outcome, kept: list[str]
) -> None:
    statuses = {"seen": "effective", "unseen": "implementation_failed"}
    methods = [
        SimpleNamespace(method=method, status=status, visible=method == "seen") for method, status in statuses.items()
    ]
    monkeypatch.setattr(gate_evidence, "_read_attribution", lambda state, services: SimpleNamespace(methods=methods))
    memory = read_versions(copied)[1]
    with runs.open_services(copied) as services:
        state = state_of(services, iteration=1)
        record = services.records.get(memory.records[0])
        verdict = Verdict.model_validate(record.payload).model_copy(update={"outcome": outcome})
        champion = services.candidate(memory.candidate or "", 1).model_copy(update={"methods": tuple(statuses)})
        found = _attempts_to_learn(state, services, verdict, record, champion)
        judged = {services.candidate(j.trial.candidate).source for j in trials_of_iteration(state, services)}
        incumbent = services.candidate(state["incumbent"]).source
    # The last is of the kernel that the verdict is about; the others are its siblings.
    assert [attempt.result for attempt in found[-1:]] == kept
    if kept:
        assert {attempt.after for attempt in found} == {source_digest(source) for source in judged}
        assert found[-1].after == source_digest(champion.source) and found[-1].knobs == champion.knobs
        assert {attempt.before for attempt in found} == {source_digest(incumbent)}
        assert len({attempt.evidence for attempt in found}) == len(found)
        assert all(attempt.result in ("unknown", "failure", "crash") for attempt in found[:-1]), (
            "only the gate calls something a success"
        )
        assert found[-1].methods == (("seen",) if outcome == "accept" else tuple(statuses)), (
            "no success of what did not show"
        )
        unsure = [attempt for attempt in found[:-1] if attempt.result == "unknown"]
        assert all(a.effect is not None and "not confirmed" in a.note for a in unsure), "as it was timed, and said so"


def test_an_ablation_wins_over_the_versions_gain_and_an_unexplained_version_is_kept_and_marked(
    copied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = read_versions(copied)[1]
    none = Interval(estimate=1.0, low=0.99, high=1.01)
    with runs.open_services(copied) as services:
        state = state_of(services, iteration=1)
        record = services.records.get(memory.records[0])
        champion = services.candidate(memory.candidate or "", 1).model_copy(update={"methods": ("worth", "idle")})
        outcomes = (
            MethodOutcome(method="worth", status="effective", visible=True, seconds=1.0, ratio=none, ablation="x"),
            MethodOutcome(
                method="idle", status="ineffective", visible=True, seconds=0, ratio=none, ablation=state["incumbent"]
            ),
        )
        found = Attribution(champion=champion.id, methods=outcomes)
        monkeypatch.setattr(gate_evidence, "_read_attribution", lambda state, services: found)
        verdict = Verdict.model_validate(record.payload).model_copy(update={"outcome": "accept"})
        *_, idle, gained = _attempts_to_learn(state, services, verdict, record, champion)
        unexplained = verdict.model_copy(update={"explained": False})
        *_, marked = _attempts_to_learn(state, services, unexplained, record, champion)
    assert (idle.methods, idle.result, idle.effect) == (("idle",), "neutral", none)
    assert (gained.methods, gained.result, gained.explained) == (("worth",), "success", True)
    assert (marked.methods, marked.result, marked.explained) == (champion.methods, "success", False)


@pytest.mark.parametrize("wanted", ["champion", "all"])
def test_every_correct_candidate_is_profiled_where_all_are_wanted(
    copied: Path, monkeypatch: pytest.MonkeyPatch, wanted: Literal["champion", "all"]
) -> None:
    seen: dict[str, list[str]] = {"profiled": [], "inspected": []}
    monkeypatch.setattr(gate_evidence, "read_or_run_profilers", lambda one, *_: seen["profiled"].append(one.id))
    monkeypatch.setattr(gate_evidence, "read_or_make_inspection", lambda one, *_: seen["inspected"].append(one.id))
    memory = read_versions(copied)[1]
    with runs.open_services(copied) as services:
        services = replace(services, settings=services.settings.model_copy(update={"profile": wanted}))
        state = state_of(services, iteration=1)
        judged = trials_of_iteration(state, services)
        passed = [one.trial.candidate for one in judged if isinstance(one.trial, Passed)]
        verdict = Verdict.model_validate(services.records.get(memory.records[0]).payload)
        for outcome in ("accept", "reject_perf"):
            gate_evidence._profile_judged(verdict.model_copy(update={"outcome": outcome}), state, services)
    assert passed and seen["profiled"] == (2 * passed if wanted == "all" else [])
    assert seen["inspected"] == [memory.candidate] * (2 if wanted == "all" else 1)


SEEN = Hypothesis(
    change="c",
    rationale="r",
    citations=(),
    expected=(Prediction(metric="time", direction="down", factor=0.5, confidence=0.5),),
)


@pytest.mark.parametrize(
    ("gain", "hit"),
    [
        ((2.1, 1.9, 2.3), True),
        ((1.0, 0.97, 1.01), False),
        # Half the time was predicted, and seven eighths were measured.
        ((8 / 7, 1.13, 1.15), False),
        ((9.0, 8.0, 9.9), False),
        ((1.44, 0.26, 6.56), None),
        ((1.3, 0.9, 2.5), None),
    ],
)
def test_a_prediction_that_noise_hides_is_neither_hit_nor_missed(
    gain: tuple[float, float, float], hit: bool | None
) -> None:
    made = Plan(methods=(PlannedMethod(method="m", axis="compute", hypothesis=SEEN),), candidates=1)
    estimate, low, high = gain
    measured = Claim(speedup=Interval(estimate=estimate, low=low, high=high), clock="wall")
    verdict = Verdict(outcome="accept", reasons=(), candidate="c", incumbent="i", claim=measured)
    champion = Candidate(language="cpp", files={"kernel.cpp": ""}, methods=("m",))
    assert _score_predictions(made, verdict, champion, None, 0.02)[0].hit is hit
    failed = MethodOutcome(
        method="m", status="implementation_failed", visible=False, seconds=None, ratio=None, ablation=None
    )
    (scored,) = _score_predictions(made, verdict, champion, Attribution(champion="c", methods=(failed,)), 0.02)
    assert (scored.observed_factor, scored.hit) == (None, None), "the gain is not its own"


def test_a_gain_that_cannot_be_separated_bears_out_no_single_prediction() -> None:
    items = tuple(PlannedMethod(method=name, axis="compute", hypothesis=SEEN) for name in ("m", "n"))
    gain = Interval(estimate=2.0, low=1.9, high=2.1)
    verdict = Verdict(outcome="accept", reasons=(), candidate="c", incumbent="i", speedup=gain)
    champion = Candidate(language="cpp", files={"kernel.cpp": ""}, methods=("m", "n"))
    scored = _score_predictions(Plan(methods=items, candidates=1), verdict, champion, None, 0.02)
    assert [(one.hit, one.observed_factor) for one in scored] == [(None, None)] * 2


def test_the_band_narrows_with_the_confidence_and_noise_leaves_it_open() -> None:
    half = SEEN.expected[0]
    measured = Interval(estimate=0.635, low=0.62, high=0.65)
    held = [is_borne_out(half.model_copy(update={"confidence": sure}), measured) for sure in (0.5, 0.7, 0.95)]
    assert held == [True, None, False]
    noisy = Interval(estimate=0.62, low=0.3, high=1.2)
    assert is_borne_out(half, noisy) is None and is_borne_out(half, noisy.model_copy(update={"low": 0.8})) is False


def test_experience_keeps_stated_confidence_where_something_is_known(copied: Path) -> None:
    memory = read_versions(copied)[3]
    ids = dict(zip(("verdict", "plan", "dossier", "profile"), memory.records, strict=True))
    with runs.open_services(copied) as services:
        state = state_of(services, **ids, iteration=3, champion=None, attribution=None)
        record = services.records.get(ids["verdict"])
        verdict = Verdict.model_validate(record.payload).model_copy(
            update={"speedup": Interval(estimate=0.9, low=0.8, high=0.95)}
        )
        again = gate_evidence._version_memory(
            state, services, verdict, record, services.candidate(memory.candidate or "", 3)
        )
    # A planned method that the coder left out predicts nothing.
    written = services.candidate(memory.candidate or "", 3).methods
    assert [one.hit for one in again.predictions] == [
        False if one.planned.method in written else None for one in again.predictions
    ]
    one = next(one for one in again.predictions if one.planned.method in written)
    assert _prediction_summary([one]).startswith(f"0 of 1 predictions held ({one.planned.method}: time ")
    assert _prediction_summary([one]).endswith(" predicted, 1.11 observed)")
    *siblings, weighed = again.attempts
    assert {(f.model, f.held) for f in weighed.forecasts} == {("playbook", False)}
    assert {f.method for f in weighed.forecasts} <= {*written}
    assert not any(one.forecasts for one in siblings)


def test_a_planner_is_told_how_its_predictions_fared_once_there_are_enough(
    copied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempt = read_versions(copied)[1].attempts[-1]
    told = []
    with runs.open_services(copied) as services:
        monkeypatch.setattr(services.records, "find", lambda asked: None)
        monkeypatch.setattr(services.records, "add", lambda record: record)
        for number in range(MIN_SCORED_PREDICTIONS):
            one = Forecast(model="playbook", method=f"m{number}", confidence=0.9, held=number % 2 == 0)
            services.experience.add(
                attempt.model_copy(update={"evidence": str(number), "before": "", "forecasts": (one,)})
            )
            told.append(earlier_outcomes(services).forecasts)
    assert (
        set(told[:-1]) == {""}
        and f"{MIN_SCORED_PREDICTIONS // 2} of {MIN_SCORED_PREDICTIONS} predictions" in told[-1]
        and "stated 90%" in told[-1]
    )


@pytest.mark.slow
def test_a_version_claims_what_its_confirmation_says_and_holds_its_own_profile(finished: FinishedRun) -> None:
    root, records = finished.root, Records(finished.root)
    policy = open_read_only(root).settings().judge
    memories = read_versions(root)
    for commit in accepted_commits(Repository(root)):
        verdict = Verdict.model_validate(records.get(commit.trailers["Evidence"]).payload)
        contests = [record for record in map(records.get, verdict.records) if record.kind == "confirmation"]
        said = claim_of(contests, policy.objective, policy.confidence, policy.min_effect)
        assert verdict.claim == said and commit.trailers["Clock"] == said.clock
        assert gain_of(commit) == float(f"{said.speedup.estimate:.4g}")
        number = commit.trailers["Version"]
        assert (
            json.loads((root / "versions" / number / "roofline.json").read_text())["candidate"]
            == commit.trailers["Candidate"]
        )
        memory = memories[int(number[1:])]
        assert memory.speedup == said.speedup and {a.effect for a in memory.attempts if a.verdict == "accept"} <= {
            said.speedup
        }
    for memory in memories[1:]:
        if memory.verdict != "accept":
            assert (
                "refused before profiling" in (root / "versions" / f"v{memory.iteration}" / "analysis.md").read_text()
            )


@pytest.mark.parametrize(("outcome", "kept"), [("reject_correctness", ["crash"]), ("reject_policy", ["crash"])])
def test_a_champion_that_was_refused_before_the_runner_up_is_remembered_as_that(
    copied: Path, outcome: Outcome, kept: list[str]
) -> None:
    memory = read_versions(copied)[1]
    with runs.open_services(copied) as services:
        state = state_of(services, iteration=1)
        record = services.records.get(memory.records[0])
        verdict, champion = Verdict.model_validate(record.payload), services.candidate(memory.candidate or "", 1)
        first = next(
            j.trial.candidate for j in trials_of_iteration(state, services) if j.trial.candidate != champion.id
        )
        said = {"candidate": first, "outcome": outcome, "reasons": ("The gain is not there again.",)}
        services.save_record("refused", verdict.model_copy(update=said), iteration=1)
        found = _attempts_to_learn(state, services, verdict, record, champion)
        after = source_digest(services.candidate(first).source)
    assert [(a.result, a.note) for a in found if a.after == after] == [
        (result, "The gain is not there again.") for result in kept
    ]


@pytest.mark.parametrize(
    ("visible", "felt", "idle"),
    [
        # One that brought nothing rides along; one that the time speaks for must be seen; where nothing is seen all is
        # unexplained.
        ((True, False), False, ("m1",)),
        ((True, False), True, ()),
        ((False, False), False, ()),
        ((None, False), False, ()),
    ],
)
def test_a_method_that_is_neither_seen_nor_felt_leaves_nothing_unexplained(
    visible: tuple[bool | None, ...], felt: bool, idle: tuple[str, ...]
) -> None:
    methods = [
        SimpleNamespace(method=f"m{at}", visible=seen, idle=bool(at) and not felt) for at, seen in enumerate(visible)
    ]
    assert _idle_methods(methods) == idle  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("methods", "status", "ratio", "kept"),
    [
        (("own:a",), "not_checked", 1.2, [1.5]),
        (("own:a", "tiles"), "not_checked", 1.2, [1.2]),
        (("own:a", "tiles"), "unattributed", None, [None]),
        (("own:a", "tiles"), "ineffective", 1.0, []),
        (("own:a", "tiles"), "unreached", None, []),
        (("tiles",), "effective", 1.2, []),
    ],
)
def test_of_a_method_that_a_plan_named_itself_its_own_worth_is_kept_and_no_line_of_a_wiki(
    monkeypatch: pytest.MonkeyPatch,
    methods: tuple[str, ...],
    status: str,
    ratio: float | None,
    kept: list[float | None],
) -> None:
    said = Hypothesis(change="Two\nrows.", rationale="As <gpu-wiki>/a.md:3 says.", citations=(), expected=())
    made = Plan(
        methods=tuple(PlannedMethod(method=one, axis="memory", hypothesis=said) for one in ("own:a", "tiles")),
        candidates=1,
    )
    own = Interval(estimate=ratio, low=ratio, high=ratio) if ratio else None
    outcomes = [SimpleNamespace(method=one, status=status, ratio=own) for one in methods]
    monkeypatch.setattr(gate_evidence, "_read_attribution", lambda state, services: SimpleNamespace(methods=outcomes))
    records = SimpleNamespace(get=lambda _: SimpleNamespace(payload=made.model_dump()))
    services = SimpleNamespace(records=records, device=SimpleNamespace(name="CPU @ 2.10GHz"))
    champion = Candidate(files={"kernel.cpp": ""}, language="cpp", methods=methods)
    found = list(
        gate_evidence._free_methods({"plan": "p"}, services, champion, Interval(estimate=1.5, low=1.4, high=1.6))
    )  # type: ignore[arg-type]
    assert [one.effect.estimate if one.effect else None for one in found] == kept
    assert all((one.change, one.rationale) == ("Two rows.", "As the wiki says.") for one in found)
    assert all(one.device == "CPU @ 2.10GHz" for one in found)


def test_a_versions_folder_holds_its_kernel_report_metrics_ablations_and_budget(copied: Path) -> None:
    memory = next(one for one in read_versions(copied)[1:] if one.verdict == "accept")
    folder = f"versions/v{memory.iteration}"
    with runs.open_services(copied) as services:
        record = services.records.get(memory.records[0])
        texts = gate_evidence.version_texts(closing_of(record, services.records), services, record)
        kernel = services.candidate(memory.candidate or "", memory.iteration).source
        inspected = services.records.find(record_key("inspection", candidate=memory.candidate))
        assert inspected is not None
        raw = "==PROF== a report"
        reports = SimpleNamespace(
            get=lambda one: SimpleNamespace(blobs={"raw.csv": "sha"}), blobs=SimpleNamespace(text=lambda sha: raw)
        )
        files = profile_files(inspected, None, reports)  # type: ignore[arg-type]
    assert texts[f"{folder}/kernel.cpp"] == kernel and files["ncu_report.csv"] == raw
    assert any(json.loads(texts[f"{folder}/top_metrics.json"]).values())
    assert set(json.loads(texts[f"{folder}/budget.json"])) <= {"compute", "memory", "latency", "occupancy"}
    ablated = [name for name in texts if name.startswith(f"{folder}/ablations/") and name.endswith(".json")]
    assert all(f"{name.removesuffix('.json')}/kernel.cpp" in texts for name in ablated)
