"""Which candidate becomes champion, and what one method of it was worth: said only where the noise lets it be said."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agents.artifacts import Plan
from graph.artifacts import Attribution
from graph.nodes import evaluate
from graph.nodes.evaluate import _classify_method
from tools.analysis.signatures import InstructionCheck, MechanismCheck
from tools.artifacts import Candidate, Interval, Measurement, Passed
from tools.errors import DeviceBusyError, HarnessError, InfrastructureError
from tools.gate.judge_settings import JudgeSettings


@pytest.mark.parametrize(
    ("low", "high", "noise", "visible", "status", "note"),
    [
        (1.08, 1.40, 0.05, True, "effective", ""),
        (1.08, 1.40, 0.05, None, "not_checked", ""),
        (1.08, 1.40, 0.05, "both", "unclear", ""),
        (0.95, 1.01, 0.05, "both", "ineffective", ""),
        (0.95, 1.01, 0.05, True, "ineffective", ""),
        (0.70, 2.09, 0.05, True, "unattributed", "noise hides"),
        (0.71, 1.21, 0.30, True, "unattributed", "noise hides"),
        (1.02, 1.30, 0.05, None, "unattributed", "noise hides"),
        (1.08, 1.40, 0.05, False, "implementation_failed", ""),
        (0.70, 2.09, 0.05, False, "implementation_failed", ""),
    ],
)
def test_noise_is_not_a_verdict_on_a_method(
    low: float, high: float, noise: float, visible: bool | str | None, status: str, note: str
) -> None:
    """`visible`: both: with and without the method."""
    there = InstructionCheck(architecture="a", pattern="p", present=True, count=1)
    without = there if visible == "both" else None
    mechanism = MechanismCheck(shown=None if without else visible, there=there, without=without, against="c")
    worth = Interval(estimate=(low * high) ** 0.5, low=low, high=high)
    outcome = _classify_method("m", mechanism, worth, 1e-3, "c", noise=noise)
    assert outcome.status == status
    assert (outcome.ratio, outcome.seconds) == ((None, None) if visible is False else (worth, 1e-3))
    assert outcome.idle == (visible is False and low <= 1)
    assert note in outcome.note and bool(note) == bool(outcome.note)


def interval(estimate: float, low: float, high: float) -> Interval:
    return Interval(estimate=estimate, low=low, high=high)


def services(**more: object) -> Any:
    """What `decide` asks of a run's services, and `more`."""
    executor = SimpleNamespace(gather=lambda requests: None)
    settings = SimpleNamespace(judge=JudgeSettings())
    return SimpleNamespace(**{"settings": settings, "task": SimpleNamespace(margins={}), "executor": executor, **more})


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> list[Passed]:
    """The trials of the iteration, for a test to fill."""
    made: list[Passed] = []
    monkeypatch.setattr(
        evaluate, "trials_of_iteration", lambda state, services: [SimpleNamespace(trial=t) for t in made]
    )
    return made


def trial(name: str, overall: Interval, small: Interval) -> Passed:
    times = {"weight": 1.0, "incumbent_s": 1e-4, "candidate_s": 1e-4, "pairs": 12}
    seen = tuple(Measurement(workload=w, speedup=s, **times) for w, s in (("small", small), ("large", overall)))
    return Passed(candidate=name, measurements=seen, speedup=overall, records=())


LISTINGS = Path(__file__).parents[2] / "tools" / "fixtures" / "static"
NAIVE, FAST = ((LISTINGS / kernel / "gcc.assembly.txt").read_text() for kernel in ("softmax", "fast"))


@pytest.mark.parametrize(
    ("methods", "code", "complete", "statuses"),
    [
        (("simd",), {"parent": NAIVE}, True, ["effective"]),
        # Faster, but the untouched parent holds the same instructions.
        (("simd",), {"parent": FAST}, False, ["implementation_failed"]),
        (("tiles",), {"parent": NAIVE}, True, ["not_checked"]),
        # Held against the kernel without the one method where there is one, else against the parent.
        (("simd", "parallel"), {"parent": NAIVE, "no-simd": FAST}, False, ["implementation_failed", "unattributed"]),
        # What the timed calls do is all in the listings, and the same.
        (("tiles",), {"parent": FAST}, True, ["unreached"]),
        (("simd", "parallel"), {"parent": FAST, "no-simd": FAST}, True, ["unreached", "implementation_failed"]),
    ],
)
def test_a_mechanism_that_the_kernel_without_it_shows_too_is_not_shown(
    judged: list[Passed],
    monkeypatch: pytest.MonkeyPatch,
    methods: tuple[str, ...],
    code: dict[str, str],
    complete: bool,
    statuses: list[str],
) -> None:
    known = {"champion": SimpleNamespace(id="champion", methods=methods)} | {
        name: SimpleNamespace(id=name) for name in code
    }
    gain, loss = interval(2.0, 1.9, 2.1), interval(0.5, 0.4, 0.6)
    ablated = {f"no-{method}": trial(f"no-{method}", loss, loss) for method in methods}
    judged.append(trial("champion", gain, gain))
    monkeypatch.setattr(
        evaluate, "_measure_ablation", lambda method, *_: ablated[name] if (name := f"no-{method}") in code else None
    )
    monkeypatch.setattr(evaluate, "_write_ablations", lambda *_: {})
    signatures = {
        "simd": {"x86_64": "@packed_float"},
        "parallel": {"x86_64": "@parallel_region"},
        "tiles": {"sm_90": "x"},
    }
    kept: list[Attribution] = []
    asking = services(
        architecture="x86_64",
        language=SimpleNamespace(listing_shows_calls=complete),
        candidate=lambda name, iteration=None: known[name],
        assembly=lambda candidate: (code | {"champion": FAST})[candidate.id],
        guide=SimpleNamespace(page=lambda name: SimpleNamespace(head=SimpleNamespace(signature=signatures[name]))),
        records=SimpleNamespace(get=lambda _: SimpleNamespace(payload=Plan(methods=(), candidates=1).model_dump())),
        save_record=lambda kind, found, **_: kept.append(found) or SimpleNamespace(id="r"),
    )
    state = {"champion": "champion", "incumbent": "parent", "iteration": 1, "plan": "p", "noise_floor": 0.05}
    assert evaluate.attribute_gain(state, asking)["attribution"] == "r"  # type: ignore[arg-type]
    assert [outcome.status for outcome in kept[0].methods] == statuses
    for outcome in kept[0].methods:
        seen = outcome.mechanism
        twin = f"no-{outcome.method}"
        assert seen is not None and seen.against == (twin if twin in code else "parent")
        assert (outcome.visible, outcome.idle) == (
            (False, True) if outcome.status == "unreached" else (seen.shown, False)
        )
        assert outcome.ratio is None or outcome.status not in ("unreached", "implementation_failed")
        if seen.shown is not None:
            assert seen.there.pattern and seen.there.count and seen.there.examples and seen.without is not None


@pytest.mark.parametrize(
    ("small", "others", "champion"),
    [
        (interval(0.80, 0.75, 0.85), True, "careful"),
        (interval(0.90, 0.60, 1.40), True, "careful"),
        (interval(0.97, 0.80, 1.20), True, "fastest"),
        # The only one is still brought to the gate.
        (interval(0.80, 0.75, 0.85), False, "fastest"),
    ],
)
def test_a_gain_that_costs_a_workload_its_margin_comes_behind_one_that_does_not(
    judged: list[Passed], small: Interval, others: bool, champion: str
) -> None:
    fine = interval(1.5, 1.2, 1.8)
    judged.append(trial("fastest", interval(2.9, 2.5, 3.1), small))
    if others:
        judged += [trial("careful", fine, fine), trial("lucky", interval(9.0, 0.9, 20.0), fine)]
    assert evaluate.select_champion({"noise_floor": 0.01}, services())["champion"] == champion  # type: ignore[typeddict-item]


@pytest.mark.parametrize(
    ("composing", "small", "large", "champion"),
    [
        # Each is faster at one size and slower at the other.
        (True, (1.5, 0.8), (0.7, 1.4), "composed"),
        # One is the faster everywhere; nothing is to be had by calling both.
        (True, (1.5, 1.2), (1.6, 1.4), "one"),
        (False, (1.5, 0.8), (0.7, 1.4), "two"),
    ],
)
def test_candidates_that_win_at_other_sizes_are_judged_as_one_kernel(
    judged: list[Passed],
    monkeypatch: pytest.MonkeyPatch,
    composing: bool,
    small: tuple[float, float],
    large: tuple[float, float],
    champion: str,
) -> None:
    def near(value: float) -> Interval:
        return interval(value, value - 0.01, value + 0.01)

    judged += [trial("one", near(large[0]), near(small[0])), trial("two", near(large[1]), near(small[1]))]
    made: list[str] = []
    known = {
        n: Candidate(language="triton", files={"kernel.py": f"# {n}"}, methods=(f"m-{n}",))
        for n in ("old", "one", "two")
    }

    def judge(branch: Any, services: Any) -> dict[str, Any]:
        assert branch["siblings"] == 3
        judged.append(trial(branch["candidate"], near(1.4), near(1.5)))
        return {"trials": {}}

    asking = services(
        language=SimpleNamespace(suffix=".py"),
        candidate=lambda name, iteration=0: known[name],
        save_draft=lambda candidate, iteration: made.append(" ".join([candidate.source, *candidate.methods])),
    )
    monkeypatch.setattr(evaluate, "judge", judge)
    monkeypatch.setattr(evaluate, "compose_dispatcher", lambda task, usual, special: f"{usual} {special}")
    state = {
        "iteration": 1,
        "incumbent": "old",
        "baseline": "old",
        "noise_floor": 0.01,
        "drafts": ["one", "two"],
        "composing": composing,
    }
    update = evaluate.select_champion(state, asking)  # type: ignore[arg-type]
    assert made == (["# old {'small': '# one', 'large': '# two'} m-one m-two"] if champion == "composed" else [])
    assert update["champion"] == (judged[-1].candidate if champion == "composed" else champion)


@pytest.mark.parametrize(("again", "champion"), [(0.05, "late"), (0.9, None)])
def test_a_noise_floor_that_hides_a_gain_is_measured_again(
    monkeypatch: pytest.MonkeyPatch, again: float, champion: str | None
) -> None:
    hidden, seen = interval(1.4, 1.1, 1.8), interval(1.4, 1.3, 1.5)
    records = {"first": trial("late", hidden, hidden), "second": trial("late", seen, seen)}
    monkeypatch.setattr(
        evaluate,
        "trials_of_iteration",
        lambda state, services: [SimpleNamespace(trial=records[r]) for r in state["trials"].values()],
    )
    monkeypatch.setattr(
        evaluate,
        "_measure_with_retry",
        lambda candidate, branch, services: records["second" if branch["noise_floor"] < 0.7 else "first"],
    )
    monkeypatch.setattr(evaluate.evidence, "noise_floor", lambda calibration, objective: again)
    asked = []

    def read_or_measure_calibration(incumbent: object, attempt: int) -> SimpleNamespace:
        asked.append(attempt)
        return SimpleNamespace(id="calm")

    known = {
        "candidate": lambda name, iteration=0: SimpleNamespace(id=name),
        "save_record": lambda *_, **asked: SimpleNamespace(id="second"),
    }
    state = {"iteration": 3, "incumbent": "i", "baseline": "b", "noise_floor": 0.7, "trials": {"3/late": "first"}}
    asking = services(capped_judge=SimpleNamespace(read_or_measure_calibration=read_or_measure_calibration), **known)
    update = evaluate.select_champion(state, asking)  # type: ignore[arg-type]
    assert (update["champion"], asked) == (champion, [3])
    assert (update.get("noise_floor"), update.get("calibration")) == ((again, "calm") if champion else (None, None))


@pytest.mark.parametrize(
    ("first", "second", "taken"),
    [
        ("reject_policy", "accept", "careful"),
        ("reject_perf", "accept", "careful"),
        ("reject_perf", "inconclusive", None),
        ("accept", "accept", None),
        ("inconclusive", "accept", None),
    ],
)
def test_the_runner_up_is_tried_where_the_champion_is_refused(
    judged: list[Passed], monkeypatch: pytest.MonkeyPatch, first: str, second: str, taken: str | None
) -> None:
    fine, kept = interval(1.5, 1.2, 1.8), []
    judged += [
        trial("fastest", interval(2.9, 2.5, 3.1), fine),
        trial("lucky", interval(9.0, 0.9, 20.0), fine),
        trial("careful", fine, fine),
    ]
    outcomes = {"fastest": first, "careful": second}
    monkeypatch.setattr(
        evaluate, "dry_run_verdict", lambda state, services: SimpleNamespace(outcome=outcomes[state["champion"]])
    )
    monkeypatch.setattr(evaluate, "attribute_gain", lambda state, services: {"attribution": f"of {state['champion']}"})
    state = {"noise_floor": 0.01, "iteration": 1, "champion": "fastest"}
    asking = services(save_record=lambda kind, verdict, **asked: kept.append(verdict))
    found = evaluate.promote_runner_up(state, asking)  # type: ignore[arg-type]
    assert found == ({"champion": taken, "attribution": f"of {taken}"} if taken else {})
    assert [verdict.outcome for verdict in kept] == ([first] if taken else [])


def test_no_question_that_failed_as_infrastructure_is_asked_a_third_time() -> None:
    class Dying:
        def __init__(self, error: Exception) -> None:
            self.reason_unmeasured: dict[str, str] = {}
            self.asked, self.error = 0, error

        def judge(self, *args: object, **more: object) -> None:
            self.asked += 1
            raise self.error

    def given(error: Exception) -> dict[str, Any]:
        judge = Dying(error)
        return {"judge": judge, "capped_judge": judge, "candidate": lambda identity: candidate}

    candidate = Candidate(language="cpp", files={"kernel.cpp": "text"})
    asking = services(**given(HarnessError("the oracle died")))
    judge: Any = asking.judge
    branch = {
        "incumbent": "i",
        "baseline": "b",
        "drafts": [],
        "siblings": 1,
        "earlier": 0,
        "iteration": 1,
        "noise_floor": 0.0,
    }
    assert evaluate._measure_with_retry(candidate, branch, asking).kind == "unmeasured"  # type: ignore[arg-type]
    with pytest.raises(InfrastructureError, match="proposed again: the oracle died"):
        evaluate._measure_with_retry(candidate, branch, asking)  # type: ignore[arg-type]
    assert judge.asked == 2
    # A GPU in others' hands is no matter of one candidate: the run stops, and takes it up again.
    with pytest.raises(DeviceBusyError):
        evaluate._measure_with_retry(candidate, branch, services(**given(DeviceBusyError("in use by process 7"))))  # type: ignore[arg-type]
