"""The labelled questions of benchmarks/questions.jsonl: fields, balance, and that every answer stands in the bundled
wiki."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from itertools import combinations
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


def words(question: Question) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", str(question["question"]).casefold()))


def answers(question: Question) -> list[str]:
    found = question["answers"]
    assert isinstance(found, list)
    return [str(answer) for answer in found]


def test_fields_are_as_described(questions: list[Question]) -> None:
    for question in questions:
        assert list(question) == ["question", "kind", "half", "language", "answers"], question
        text = question["question"]
        assert isinstance(text, str)
        assert text == text.strip()
        # A single token is an identifier: a metric, an instruction, an architecture, an option.
        assert len(text.split()) == 1 or 4 <= len(text.split()) <= 20, text
        assert len(text.split()) > 1 or question["kind"] == "jargon", text
        assert question["kind"] in ("jargon", "paraphrase"), text
        assert question["language"] is None or question["language"] in LANGUAGES, text
        assert 1 <= len(answers(question)) == len(set(answers(question))) <= 4, text


def test_the_half_follows_from_the_question(questions: list[Question]) -> None:
    for question in questions:
        digest = hashlib.sha256(str(question["question"]).encode()).hexdigest()
        assert question["half"] == ("tune" if int(digest, 16) % 2 else "final"), question


def test_kinds_and_halves_are_balanced(questions: list[Question]) -> None:
    kinds = Counter(question["kind"] for question in questions)
    assert kinds.total() >= 120
    assert all(0.4 <= count / kinds.total() <= 0.6 for count in kinds.values()), kinds
    halves = Counter((question["kind"], question["half"]) for question in questions)
    assert len(halves) == 4
    assert all(0.4 <= count / kinds[kind] <= 0.6 for (kind, _), count in halves.items()), halves
    assert sum(len(str(question["question"]).split()) == 1 for question in questions) >= 10


def test_no_two_questions_are_nearly_alike(questions: list[Question]) -> None:
    for one, other in combinations(questions, 2):
        shared, either = words(one) & words(other), words(one) | words(other)
        assert len(shared) / len(either) < 0.5, (one["question"], other["question"])


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


def test_all_folders_are_asked_about(questions: list[Question], wiki: Wiki) -> None:
    """Every page but those of single products, of which a few stand for all."""
    asked = {answer.partition("#")[0] for question in questions for answer in answers(question)}
    assert {page.path for page in wiki.pages if not page.path.startswith("hardware/")} <= asked
