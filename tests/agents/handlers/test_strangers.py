"""Handlers of somebody else's, by import path: they come after ours, and what they do wrong is one sentence that
names them."""

from __future__ import annotations

from pathlib import Path

import pytest

from agents.artifacts import CoderBrief, Draft
from agents.handlers.base import HANDLERS, MAX_HINT_CHARS, apply_handlers, handler_hints, open_handlers
from tests.contracts.test_models import PLAN, TASK
from tools.errors import SettingsError

SOURCE = "// Copyright 2026 The Authors.\nint twice(int v) { return 2 * v; }\n"
GOOD = """
from pathlib import Path

from agents.handlers.base import SourceHandler


class Mine(SourceHandler):
    name = "mine"
    prompts = Path(__file__).parent

    def applies(self, source, language):
        return "twice" in source

    def repair(self, draft, source, language):
        return draft if "// mine" in draft else draft + "// mine\\n"
"""
OWN_HINT = GOOD + "\n    def hint(self):\n        return 'Keep twice.'\n"


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Path:
    """A module that can be imported, under a name that no other test has."""
    monkeypatch.syspath_prepend(str(tmp_path))
    found = "".join(c if c.isalnum() else "_" for c in request.node.name)
    return tmp_path / f"stranger_{found}.py"


def test_it_comes_after_ours_with_the_hint_that_lies_beside_it(module: Path) -> None:
    module.write_text(GOOD)
    module.with_name("mine.md").write_text("Keep twice, whatever else you change.\n")
    handlers = open_handlers([f"{module.stem}:Mine"], SOURCE, "cpp")
    assert [str(one) for one in handlers] == [*HANDLERS, f"{module.stem}:Mine"]
    assert handler_hints(handlers, SOURCE, "cpp")[-1] == "Keep twice, whatever else you change."
    assert len(handler_hints(handlers, SOURCE, "cpp")) == 2, "the licence has a handler of ours"
    asked = CoderBrief(task=TASK, source=SOURCE, plan=PLAN, pages=(), tried=())
    made = apply_handlers(handlers, Draft(source="int twice(int v) { return v + v; }\n", methods=()), asked).source
    assert made == "// Copyright 2026 The Authors.\n\nint twice(int v) { return v + v; }\n// mine\n"


INIT = OWN_HINT + "\n    def __init__(self):\n        raise {}\n"
WRONG = {
    "no module": ("", "nowhere.at.all:Mine", "cannot be imported (ModuleNotFoundError: No module named 'nowhere')"),
    "no class": (OWN_HINT, "{}:Theirs", "has no attribute 'Theirs'"),
    "no import path": (
        "",
        "prose",
        "is not an import path; write package.module:Class of your own handler (license_header are",
    ),
    "no handler": (
        "class Mine:\n    pass\n",
        "{}:Mine",
        "it must be a class that extends agents.handlers.base.SourceHandler",
    ),
    "abstract": (OWN_HINT.replace("def repair", "def amend"), "{}:Mine", "does not define repair; add it to the class"),
    "construction": (INIT.format("ValueError('no\\nlicence')"), "{}:Mine", "ValueError: no licence"),
    "leaves": (INIT.format("SystemExit(3)"), "{}:Mine", "failed in its construction (SystemExit: 3)"),
    "empty hint": (OWN_HINT.replace("Keep twice.", " "), "{}:Mine", "has an empty hint"),
    "long hint": (OWN_HINT.replace("'Keep twice.'", f"'x' * {MAX_HINT_CHARS + 1}"), "{}:Mine", "room for 1,200"),
    "applies": (OWN_HINT.replace('"twice" in source', "[][0]"), "{}:Mine", "failed in `applies` (IndexError"),
    "another type": (
        OWN_HINT.replace("return draft if", "return None if"),
        "{}:Mine",
        "returned NoneType from `repair` instead of str",
    ),
    "for ever": (
        OWN_HINT.replace('draft if "// mine" in draft else ', ""),
        "{}:Mine",
        "changes a draft again that it has already repaired",
    ),
}


@pytest.mark.parametrize(("text", "path", "told"), WRONG.values(), ids=list(WRONG))
def test_what_is_wrong_with_it_is_one_sentence(module: Path, text: str, path: str, told: str) -> None:
    module.write_text(text)
    path = path.format(module.stem)
    with pytest.raises(SettingsError) as caught:
        open_handlers([path], SOURCE, "cpp")
    said = str(caught.value)
    assert said.startswith(f"handlers: {path!r} ") and told in said and "\n" not in said and ("; " in said)


def test_one_is_listed_once(module: Path) -> None:
    module.write_text(OWN_HINT)
    with pytest.raises(SettingsError, match="is listed twice"):
        open_handlers([f"{module.stem}:Mine"] * 2)
