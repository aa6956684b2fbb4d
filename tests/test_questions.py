"""The labelled questions of benchmarks/questions.jsonl: fields, balance, and that every answer stands in the bundled
wiki."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from knowledge_base.pages.wiki import Wiki

QUESTIONS = Path(__file__).parents[1] / "benchmarks" / "questions.jsonl"
LANGUAGES = {"cpp", "cuda", "triton", "cutlass", "cutedsl", "gluon", "hip", "flydsl"}
Question = dict[str, object]


@pytest.fixture(scope="module")
def questions() -> list[Question]:
    return [json.loads(line) for line in QUESTIONS.read_text(encoding="utf-8").splitlines()]


@pytest.fixture(scope="module")
def wiki() -> Wiki:
    return Wiki.open()


def answers(question: Question) -> list[str]:
    found = question["answers"]
    assert isinstance(found, list)
    return [str(answer) for answer in found]


def test_the_half_follows_from_the_question(questions: list[Question]) -> None:
    for question in questions:
        digest = hashlib.sha256(str(question["question"]).encode()).hexdigest()
        assert question["half"] == ("tune" if int(digest, 16) % 2 else "final"), question


def test_every_answer_stands_in_the_wiki(questions: list[Question], wiki: Wiki) -> None:
    pages = {page.path: page for page in wiki.pages}
    headings = {(passage.path, passage.heading[-1]) for passage in wiki.passages()}
    for question in questions:
        for answer in answers(question):
            path, _, heading = answer.partition("#")
            assert path in pages, answer
            assert not heading or (path, heading) in headings, answer
            assert not heading or path not in answers(question), f"{answer}: the whole page is named beside it"
            served = pages[path].head.languages
            assert not served or question["language"] in (None, *served), (
                f"{answer} is not about {question['language']}"
            )
