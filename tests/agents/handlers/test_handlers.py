"""Which sources the licence's handler applies to, and what it does to a draft that lost the licence."""

from __future__ import annotations

from pathlib import Path

import pytest

from agents.artifacts import CoderBrief, Draft, Drafts
from agents.handlers.base import applicable_handlers, apply_handlers, handler_hints, open_handlers
from agents.roles import coder
from tests.agents.models.playbook.kernels import KERNELS, source
from tests.agents.scripted import agent
from tests.contracts.test_models import PLAN, TASK

ROOT = Path(__file__).parents[3]
LICENCE = "// Copyright 2026 The Authors.\n// SPDX-License-Identifier: MIT\n\n"
LICENSED = LICENCE + source("softmax_int")
TRITON = (ROOT / "configs/tasks/triton-softmax/kernel.py").read_text()


def brief(source: str, language: str = "cpp") -> CoderBrief:
    return CoderBrief(task=TASK.model_copy(update={"language": language}), source=source, plan=PLAN, pages=(), tried=())


def after(draft: str, source: str = LICENSED) -> str:
    asked = brief(source)
    once = apply_handlers(open_handlers(), Draft(source=draft, methods=()), asked)
    assert apply_handlers(open_handlers(), once, asked) == once, "mending twice changes nothing more"
    return once.source


@pytest.mark.parametrize(
    ("source", "language", "named"),
    [
        (LICENSED, "cpp", ("license_header",)),
        (source("softmax_int"), "cpp", ()),
        (TRITON, "triton", ()),
        ('"""One.\n\nTwo.\nThree.\nFour.\n"""\n' + TRITON.split('"""', 2)[2], "triton", ("license_header",)),
        ("", "cpp", ()),
        ("def broken(:\n", "triton", ()),
    ],
)
def test_what_applies(source: str, language: str, named: tuple[str, ...]) -> None:
    assert tuple(handler.name for handler in applicable_handlers(open_handlers(), source, language)) == named
    assert len(handler_hints(open_handlers(), source, language)) == len(named) and all(
        handler_hints(open_handlers(), source, language)
    )


def test_a_whole_draft_is_left_as_it_is() -> None:
    for given in (LICENSED, *map(source, KERNELS)):
        changed = given.replace("{", "{ ", 1)
        assert after(changed, given) == changed


def test_a_lost_licence_stands_at_the_top_again() -> None:
    bare = source("softmax_int")
    assert after(bare) == LICENSED
    own = "/* Copyright 2026 The Authors, MIT licence */\n" + bare
    assert after(own) == own, "written in another way it is there"
    text = "// A softmax.\n// Row by row.\n// In three passes.\n// Slow.\n// Not for use.\n" + bare
    assert after(bare + "// mine\n", text) == bare + "// mine\n", "a description is the author's to drop"


def test_mending_reaches_the_candidates(tmp_path: Path) -> None:
    lost = source("softmax_int") + "// changed\n"
    asked, model = agent("coder", tmp_path, [Drafts(drafts=(Draft(source=lost, methods=()),))])
    (made,) = coder.write_candidates(asked, brief(LICENSED), "p", ".cpp")
    assert made.source == LICENCE + lost and len(model.asked) == 1
