"""From a brief to the prompt's blocks: `prompts/` holds the texts, its `budget.yaml` each role's sections and how long
these may be.

Blocks stand in the order of how long they stay the same, byte for byte: for all runs, for this run, until a version is
accepted, for this iteration. Nothing that differs between two runs of one language stands in the first, no date and no
id of a record before those of a version. A block that several roles name is the same bytes for all of them, so that a
cache keeps it once.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from agents.artifacts import Brief, RoleName
from agents.models.base import Block, Scope
from agents.prompting.sections import SECTIONS, Content
from agents.prompting.token_budget import fit, tokens
from agents.text.fencing import fence
from tools.artifacts import Artifact

if TYPE_CHECKING:
    from jinja2 import Environment

PROMPTS = Path(__file__).parents[1] / "prompts"
LABELS = {
    "task": "the task's contract",
    "specs": "published figures of the device",
    "operator": "the operator's page",
    "memory": "outcomes of earlier runs",
    "kernel": "the incumbent kernel",
    "counters": "counters",
    "machine_code": "machine code of the hot loops",
    "standing": "times",
    "moved": "counters before and after",
    "remarks": "remarks of compiler and profiler",
    "records": "records of the measurements",
    "skills": "skills whose signal fired",
    "methods": "methods to choose from",
    "passages": "passages of the wiki",
    "attempts": "attempts of this run",
    "plan": "the plan",
    "pages": "pages of the planned methods",
    "failures": "why drafts failed",
    "champion": "the champion's kernel",
    "iteration": "what the ablation leaves out",
}
"""Section -> what its fence calls the data; the others by their own name."""
OWN = ("role", "iteration")
"""Sections of which each role has a text of its own."""


class Room(Artifact):
    """Tokens of a section of which a part is dear."""

    aim: int
    """What the section keeps to as long as nothing dear must go for it."""
    most: int


class Layout(Artifact):
    """One block of prompts."""

    scope: Scope
    sections: dict[str, Room | int | None]
    """In order, with the most tokens of each; None: it is never cut."""
    answers: tuple[str, ...] = ()
    """As in Block."""


class Budget(Artifact):
    """prompts/budget.yaml."""

    blocks: dict[str, Layout]
    roles: dict[RoleName, tuple[str, ...]]
    """The blocks of each role's prompt, in order."""


class Part(NamedTuple):
    """One section of a prompt."""

    block: str
    layer: Scope
    section: str
    text: str
    most: int | None
    """Tokens that it may take; None: it is never cut."""


def blocks(role: RoleName, brief: Brief, answer: str) -> tuple[Block, ...]:
    """The prompt of a role for a brief; `answer` names the type that is owed.

    How an answer is written is the provider's to say, behind the block that names its type: each reads another form
    most surely.
    """
    texts: dict[str, list[str]] = {}
    for part in parts(role, brief, answer):
        texts.setdefault(part.block, []).append(part.text)
    layouts = {name: budget().blocks[name] for name in texts}
    return tuple(
        Block(scope=layout.scope, text="\n\n".join(texts[name]) + "\n", answers=layout.answers)
        for name, layout in layouts.items()
    )


def parts(role: RoleName, brief: Brief, answer: str) -> tuple[Part, ...]:
    """The sections of the same prompt, in order."""
    found = []
    for name in budget().roles[role]:
        layout = budget().blocks[name]
        for section, room in layout.sections.items():
            most = room.most if isinstance(room, Room) else room
            text = _section(section, role, brief, answer, most, room.aim if isinstance(room, Room) else None)
            if text:
                found.append(Part(name, layout.scope, section, text, most))
    return tuple(found)


@cache
def budget() -> Budget:
    """prompts/budget.yaml."""
    import yaml

    return Budget.model_validate(yaml.safe_load((PROMPTS / "budget.yaml").read_text(encoding="utf-8")))


def _section(section: str, role: RoleName, brief: Brief, answer: str, most: int | None, aim: int | None) -> str:
    if section == "language":
        return _language(brief.task.language) if brief.task else ""
    template = f"{role}/{section}.md" if section in OWN else f"sections/{section}.md"
    fill = SECTIONS.get(section)
    content = fill(brief, most) if fill else Content()
    if content is None:
        return ""
    values = {**content.values, "answer": answer}
    # The section's own sentences are paid for first.
    own = tokens(_render(template, {**values, "data": ""})) + tokens(fence(LABELS.get(section, section), ""))
    fitted = fit(content.items, *(None if limit is None else max(0, limit - own) for limit in (most, aim)))
    data = fence(LABELS.get(section, section), fitted.text) if content.items else ""
    return _render(template, {**values, "data": f"{data}\n{fitted.note}" if fitted.note else data})


def _language(name: str) -> str:
    """What prompts say of a language; never read as a template, for code holds doubled braces. Empty where nothing
    is said."""
    file = PROMPTS / "languages" / f"{Path(name).name}.md"
    return file.read_text(encoding="utf-8").strip("\n") if file.is_file() else ""


def _render(template: str, values: Mapping[str, object]) -> str:
    return _environment().get_template(template).render(values).strip("\n")


@cache
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    # Markdown, not HTML: escaping would corrupt code. Foreign text comes in as a value and is never read as a template.
    return Environment(
        loader=FileSystemLoader(PROMPTS),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,
    )
