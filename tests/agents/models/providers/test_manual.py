"""`agents.models.providers.manual`: a prompt in a file, PendingError until its answer is there, and nothing that a
person wrote is lost."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from agents.artifacts import Analysis, AnalystBrief, Review
from agents.models.base import AnswerReply, Model, Request
from agents.roles.agent import Agent, open_model
from agents.roles.profiler_analyst import analyze_findings
from tests.agents.models.providers.test_command import REQUEST
from tests.contracts.test_models import ASKED
from tools.errors import PendingError, SettingsError
from tools.store.records import Records


@pytest.fixture
def model(tmp_path: Path) -> Model:
    return open_model("gatekeeper", {"provider": "manual"}, tmp_path)


def waits(model: Model, request: Request = REQUEST) -> tuple[Path, str]:
    """The file that is awaited, and what is said of it."""
    with pytest.raises(PendingError) as caught:
        model.ask(request)
    assert str(caught.value).startswith(f"models.{request.role}: ") and "\n" not in str(caught.value)
    return caught.value.file, str(caught.value)


def test_it_asks_once_and_takes_the_answer(model: Model, tmp_path: Path) -> None:
    file, said = waits(model)
    assert file.parent == tmp_path / "manual" and re.fullmatch(r"001-gatekeeper-[0-9a-f]{8}\.answer\.md", file.name)
    assert str(file) in said
    prompt = file.with_name(file.name.replace("answer", "prompt"))
    text = prompt.read_text()
    assert "You are the reviewer." in text and '"veto"' in text
    assert file.name not in text and "resume" not in text, "no file and no command for the model to stumble over"
    before = prompt.stat().st_mtime_ns
    assert waits(open_model("gatekeeper", {"provider": "manual"}, tmp_path))[0] == file, (
        "another process asks in the same file"
    )
    assert waits(model, REQUEST.model_copy(update={"number": 7}))[0] == file, "which conversation it is changes nothing"
    assert prompt.stat().st_mtime_ns == before and len(list(file.parent.iterdir())) == 1
    file.write_text('I see nothing wrong.\n{"veto": false}\n')
    reply = model.ask(REQUEST)
    assert isinstance(reply, AnswerReply) and reply.answer == Review() and file.exists()


@pytest.mark.parametrize(
    ("text", "told"), [("", "is empty"), (" \n", "is empty"), ('{"veto": fal', "is not complete yet")]
)
def test_an_empty_or_half_written_answer_is_left_alone(model: Model, text: str, told: str) -> None:
    file, _ = waits(model)
    file.write_text(text)
    if not text.strip():
        os.utime(file, (0, 0))
    again, said = waits(model)
    assert again == file and told in said and file.read_text() == text and not list(file.parent.glob("*.refused.md"))
    file.write_text('{"veto": false}')
    assert isinstance(model.ask(REQUEST), AnswerReply)


def test_answers_that_do_not_fit_come_back_with_the_reason(model: Model) -> None:
    file, _ = waits(model)
    written = ['{"veto": "perhaps"}', "no"]
    for text in written:
        file.write_text(text)
        os.utime(file, (0, 0))
        again, said = waits(model)
        refused = file.with_name(file.name.replace("answer", "refused"))
        assert again == file and not file.exists() and refused.name in said
        assert refused.read_text().count("\n- ") >= 1
        assert refused.name in waits(model)[1], "asked again before another answer is there"
    kept = [file.with_name(file.name.replace(".answer", f".answer.{n}")).read_text() for n in (1, 2)]
    assert kept == written
    file.write_text('{"veto": false}')
    assert isinstance(model.ask(REQUEST), AnswerReply) and not refused.exists()


def test_an_answer_refused_for_what_it_says_is_asked_for_again_with_the_reason(tmp_path: Path) -> None:
    brief, _ = ASKED["profiler_analyst"]
    assert isinstance(brief, AnalystBrief)
    model = open_model("profiler_analyst", {"provider": "manual"}, tmp_path)
    agent = Agent("profiler_analyst", model, Records(tmp_path), lambda kind, details: None)
    for number, text in enumerate(("See [rule:invented].", "expf is called."), 1):
        with pytest.raises(PendingError) as caught:
            analyze_findings(agent, brief)
        file = caught.value.file
        assert file.name.startswith(f"{number:03d}-")
        prompt = file.with_name(file.name.replace("answer", "prompt")).read_text()
        assert ("not accepted" in prompt and "[rule:invented] is not a finding" in prompt) == (number == 2)
        file.write_text(Analysis(ranking=("scalar_math_call",), text=text).model_dump_json())
    assert analyze_findings(agent, brief).text == "expf is called."
    assert len(list((tmp_path / "manual").glob("*.answer.md"))) == 2


def test_the_folder_can_be_chosen(tmp_path: Path) -> None:
    model = open_model("gatekeeper", {"provider": "manual", "folder": str(tmp_path / "a" / "desk")}, tmp_path)
    assert waits(model)[0].parent == tmp_path / "a" / "desk"
    (tmp_path / "file").touch()
    for folder in ("file", "file/below"):
        with pytest.raises(SettingsError, match=rf"models\.gatekeeper\.folder: .*{folder} is not a writable folder"):
            open_model("gatekeeper", {"provider": "manual", "folder": str(tmp_path / folder)})
