"""`agents.models.providers.recorded`: what a provider answers is written down, redacted, and plays again in a run
whose records have other ids."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agents.artifacts import Analysis, AnalystBrief, Brief, CoderBrief, Draft, Drafts
from agents.models.base import AnswerReply, Request, Usage
from agents.models.providers import recorded
from agents.models.providers.recorded import Recorded, RecordingModel
from agents.models.redaction import redact
from agents.roles import profiler_analyst
from agents.roles.agent import Agent, open_model
from tests.agents.models.calling import PAID, Lookup
from tests.agents.scripted import Scripted
from tests.contracts.test_models import ASKED, HEADROOM, PAGES, TASK
from tests.support import one_sentence
from tools.artifacts import Finding
from tools.errors import ProviderError, SettingsError
from tools.store.records import Records

STRANGER = "tests.agents.models.calling:Calling"


@pytest.fixture
def script(tmp_path: Path) -> Path:
    return tmp_path / "script.jsonl"


def recording(script: Path, **more: Any) -> dict[str, Any]:
    """The options of a provider whose answers are written to `script`."""
    return {"provider": STRANGER, "record": str(script), **more}


def replay(script: Path) -> dict[str, Any]:
    """The options of the provider that gives the answers of `script`."""
    return {"provider": "recorded", "path": str(script)}


def brief(*records: str, source: str = "") -> AnalystBrief:
    finding = Finding(rule="far_from_roof", severity="high", axis="compute", text="Far.", evidence=(records[-1],))
    return AnalystBrief(source=source, findings=(finding,), remarks=(), headroom=HEADROOM, records=records)


def analyst(folder: Path, choice: dict[str, Any]) -> Agent:
    """The profiler-analyst of a run whose records lie in `folder`."""
    return Agent(
        "profiler_analyst", open_model("profiler_analyst", choice, folder), Records(folder), lambda kind, details: None
    )


def run(folder: Path, choice: dict[str, Any], *briefs: AnalystBrief) -> list[str]:
    """What the analyst says of each brief; each is asked in another process, so to speak."""
    return [analyst(folder, choice).ask(one, Analysis, toolbox=Lookup()).text for one in briefs]


THEN = (brief("a" * 16, "b" * 16), brief("c" * 16, "b" * 16, source="again"))
NOW = (brief("1" * 16, "2" * 16), brief("3" * 16, "2" * 16, source="again"))


def test_tool_calls_and_ids_play_again(tmp_path: Path, script: Path) -> None:
    said = run(tmp_path / "then", recording(script), *THEN)
    assert said == [f"Record {x * 16} says what {x * 16} holds." for x in "ac"]
    assert "a" * 16 not in script.read_text().replace("\\n", " ") and "<record:1>" in script.read_text()
    assert [(line.number, line.turn) for line in recorded.read_script(script)] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert run(tmp_path / "now", replay(script), *NOW) == [f"Record {x * 16} says what {x * 16} holds." for x in "13"]
    assert {record.payload["provider"] for record in Records(tmp_path / "now")} == {"Recorded"}
    assert all(record.payload["usage"] == Usage().model_dump() for record in Records(tmp_path / "now")), (
        "nothing is paid for twice"
    )
    with pytest.raises(
        ProviderError, match=r"models\.profiler_analyst: .*script\.jsonl holds no answer of .* in conversation 3"
    ):
        run(tmp_path / "now", replay(script), brief("4" * 16, source="once more"))


def test_a_round_that_is_not_needed_again_shifts_nothing(tmp_path: Path, script: Path) -> None:
    """Recorded with a repair in the first conversation; played by a script that lost it, as where another fault is
    found."""
    run(tmp_path / "then", recording(script, stutter=True), *THEN)
    lines = recorded.read_script(script)
    assert [line.reply.kind for line in lines] == ["called", "unfit", "answered"] * 2
    assert [text[7:10] for text in run(tmp_path / "now", replay(script), *NOW)] == ["111", "333"]
    script.write_text(
        "".join(f"{line.model_copy(update={'turn': line.turn - line.turn // 2}).model_dump_json()}\n" for line in lines)
    )
    assert [line.turn for line in recorded.read_script(script)] == [0, 1, 1, 0, 1, 1]
    assert [text[7:10] for text in run(tmp_path / "later", replay(script), *NOW)] == ["111", "333"]


def test_an_answer_that_is_refused_only_now_is_given_once_more(tmp_path: Path, script: Path) -> None:
    """A rule that fired on the machine of the recording need not fire here: the role takes it out, and the run goes
    on."""
    here = brief("1" * 16)
    there = here.model_copy(
        update={"findings": (*here.findings, here.findings[0].model_copy(update={"rule": "single_threaded"}))}
    )
    said = Analysis(ranking=("single_threaded", "far_from_roof"), text="One core works.")
    recording = RecordingModel(Scripted({"lines": [said]}), "profiler_analyst", str(script))
    recording.ask(Request(role="profiler_analyst", brief=there, answer="Analysis"))
    assert profiler_analyst.analyze_findings(analyst(tmp_path / "there", replay(script)), there).ranking == (
        "single_threaded",
        "far_from_roof",
    )
    agent = analyst(tmp_path / "here", replay(script))
    assert profiler_analyst.analyze_findings(agent, here) == said.model_copy(update={"ranking": ("far_from_roof",)})
    assert {record.payload["turn"] for record in Records(tmp_path / "here")} == {0, 1}
    # The end of a script is still its end.
    with pytest.raises(ProviderError, match="no answer of profiler_analyst in conversation 2, turn 1"):
        profiler_analyst.analyze_findings(agent, here.model_copy(update={"source": "another"}))


def request(brief: Brief) -> Request:
    return Request(role="coder", brief=brief, answer="Drafts")


def test_what_is_asked_for_another_purpose_has_a_line_of_its_own(script: Path) -> None:
    """Noise decides whether there is a champion, and so whether it is ablated: what the coder writes next must not
    hang on that."""
    whole, _ = ASKED["coder"]
    assert isinstance(whole, CoderBrief)
    without = whole.model_copy(update={"ablated_methods": ("openmp-parallel-outer",)})
    mending = whole.model_copy(update={"failures": ("it does not compile",)})
    model = open_model("coder", recording(script, provider="playbook"))
    purposes = {"": whole, "ablation": without, "repair": mending}
    wrote = {purpose: model.ask(request(one)) for purpose, one in purposes.items()}
    assert [line.purpose for line in recorded.read_script(script)] == list(wrote)
    played = open_model("coder", replay(script))
    assert all(played.ask(request(one)) == wrote[request(one).purpose] for one in (mending, whole))
    script.write_text(
        "".join(line for line in script.read_text().splitlines(keepends=True) if '"ablation"' not in line)
    )
    with pytest.raises(ProviderError, match=r"holds no answer of coder \(ablation\)"):
        open_model("coder", replay(script)).ask(request(without))


def test_a_recording_changes_nothing_else(tmp_path: Path) -> None:
    choice = {"provider": STRANGER, "stutter": True}
    inner = open_model("coder", choice)
    model = open_model("coder", {**choice, "record": str(tmp_path / "script.jsonl")}, tmp_path)
    assert isinstance(model, RecordingModel)
    assert all(getattr(model, name) == getattr(inner, name) for name in ("options", "provider", "reads", "calls_tools"))
    asked = Request(role="profiler_analyst", brief=THEN[0], answer="Analysis")
    assert model.usage_bound(asked) == PAID and model.ask(asked) == inner.ask(asked) and model.folder == tmp_path


def test_another_runs_file_is_not_written_over(tmp_path: Path, script: Path) -> None:
    choice = recording(script)
    run(tmp_path / "then", choice, *THEN)
    before = script.read_text()
    with pytest.raises(
        SettingsError,
        match=r"models\.profiler_analyst\.record: .* already holds another run's conversation 1; name a new",
    ):
        run(tmp_path / "now", choice, *NOW)
    assert script.read_text() == before
    # The same run, killed after the script was written and before its own records were: nothing is doubled.
    run(tmp_path / "resumed", choice, *THEN)
    assert len(script.read_text().splitlines()) == len(before.splitlines())


def test_what_must_not_leave_the_machine_does_not(monkeypatch: pytest.MonkeyPatch, script: Path) -> None:
    monkeypatch.setenv("SOME_AGENT_KEY", "correct-horse-battery")
    text = f"correct-horse-battery {Path.home()}/.ssh 'jo.doe+x@mail.example.org'\nsk-ant-{'x' * 30} /home/jo/kernel.cu"
    answer = Drafts(drafts=(Draft(source=text, methods=(), note=text),))
    model = RecordingModel(Scripted({"lines": [AnswerReply(answer=answer, said=text)]}), "coder", str(script))
    reply = model.ask(request(ASKED["coder"][0]))
    assert isinstance(reply, AnswerReply) and reply.said == text, "the run itself goes on with what was said"
    written = script.read_text()
    for secret in ("correct-horse", str(Path.home()) + "/", "jo.doe", "sk-ant", "/home/jo"):
        assert secret not in written, secret
    played = Recorded({"path": str(script)}).ask(request(ASKED["coder"][0]))
    assert isinstance(played, AnswerReply) and played.said == "<secret> ~/.ssh '<address>'\n<secret> ~/kernel.cu"
    assert isinstance(played.answer, Drafts) and played.answer.drafts[0].source == played.said


@pytest.mark.parametrize(
    "text",
    [
        "@triton.jit\ndef kernel(): pass",
        "attention = (query@key.mT) @ value.to(torch.float32)",
        "using Atom = SM90_64x128x16_F32BF16BF16_SS<GMMA::Major::K, GMMA::Major::K>;",
        "__m512 a = _mm512_mask_i32gather_ps(b, mask, index, base, 4);",
        "https://www.example.org/~root/a/b.html and <gpu-wiki>/methods/vector-exp.md:20",
        TASK.reference + (TASK.baseline or ""),
        "".join(page.body for page in PAGES),
    ],
)
def test_code_and_pages_are_left_as_they_are_and_tokens_are_taken_out(text: str) -> None:
    assert redact(text) == text
    for before, token in (("Authorization: Bearer", "abc-def-123"), ("token", f"eyJ{'a' * 12}.{'b' * 12}.c2ln")):
        assert redact(f"{text} {before} {token}") == f"{text} {before} <secret>"


def test_digits_of_a_fraction_are_not_taken_for_an_id() -> None:
    asked = Request(role="profiler_analyst", brief=brief("a" * 16, source="x = 0.1234567890123456;"), answer="Analysis")
    assert recorded.named_record_ids(asked) == ("a" * 16,)


def test_a_script_that_names_a_record_which_this_run_lacks_is_refused(tmp_path: Path, script: Path) -> None:
    run(tmp_path / "then", recording(script), THEN[0])
    script.write_text(script.read_text().replace("<record:1>", "<record:3>"))
    with pytest.raises(
        ProviderError, match=r"script\.jsonl:1 names record 3 of what it was asked, and this run names 2"
    ):
        run(tmp_path / "now", replay(script), NOW[0])


@pytest.mark.parametrize(
    ("choice", "told"),
    [
        ({"provider": "recorded"}, "models.planner.path: is missing"),
        ({"provider": "recorded", "path": "{}/none.jsonl"}, "none.jsonl is not a file"),
        ({"provider": "recorded", "path": "{}/bad.jsonl"}, "bad.jsonl:2: is not an exchange (role: "),
        ({"provider": "recorded", "path": "{}/empty.jsonl"}, "empty.jsonl: contains no exchange"),
        ({"provider": "playbook", "record": 3}, "models.planner.record: must be the path of a file, not 3"),
        ({"provider": "playbook", "record": "{}"}, "name a file in an existing folder"),
    ],
)
def test_files_that_cannot_be_used_are_refused_when_opened(choice: dict[str, Any], told: str, tmp_path: Path) -> None:
    run(tmp_path / "then", recording(tmp_path / "bad.jsonl"), THEN[0])
    lines = (tmp_path / "bad.jsonl").read_text().splitlines()
    (tmp_path / "bad.jsonl").write_text("\n".join((lines[0], lines[1].replace("profiler_analyst", "poet"))))
    (tmp_path / "empty.jsonl").touch()
    placed = {name: value.format(tmp_path) if isinstance(value, str) else value for name, value in choice.items()}
    with one_sentence(told):
        open_model("planner", placed)
