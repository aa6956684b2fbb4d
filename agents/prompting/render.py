"""Renders a brief as the prompt's blocks. `prompts/` holds the texts; its `budget.yaml` lists each role's sections and
their token limits.

The blocks are ordered by how long they stay the same, byte for byte: for all runs, for this run, until a version is
accepted, for this iteration. The first contain nothing that differs between two runs of one language, and no block
before those of a version contains a date or the id of a record. A block that several roles use has the same bytes for
all of them, so that a cache stores it once.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from agents.artifacts import Brief, RoleName
from agents.models.base import PromptBlock, Scope
from agents.prompting.sections import SECTIONS, SectionContent
from agents.prompting.token_budget import fit_to_budget, token_upper_bound
from agents.text.fencing import fence_data
from tools.artifacts import Artifact

if TYPE_CHECKING:
    from jinja2 import Environment

PROMPTS_FOLDER = Path(__file__).parents[1] / "prompts"
FENCE_LABELS = {
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
    "frontier": "correct candidates that lost",
    "parent": "the kernel to start from",
    "signals": "signals that did not fire or lack counters",
    "pages": "pages of the planned methods",
    "failures": "why drafts failed",
    "champion": "the champion's kernel",
    "iteration": "what the ablation leaves out",
}
"""Section -> label of its data fence; other sections use their own name."""
PER_ROLE_SECTIONS = ("role", "iteration")
"""Sections for which each role has its own template."""


class SectionLimits(Artifact):
    """Token limits of a section that has parts worth extra room."""

    aim: int
    """Tokens that the section keeps to unless it would have to drop a part worth extra room."""
    most: int
    """Tokens that the section never exceeds."""


class BlockLayout(Artifact):
    """The layout of one block of prompts."""

    scope: Scope
    sections: dict[str, SectionLimits | int | None]
    """Section -> most tokens, in order; None: the section is never cut."""
    answers: tuple[str, ...] = ()
    """See PromptBlock."""


class PromptBudget(Artifact):
    """The content of prompts/budget.yaml."""

    blocks: dict[str, BlockLayout]
    roles: dict[RoleName, tuple[str, ...]]
    """Role -> names of the blocks of its prompt, in order."""


class PromptSection(NamedTuple):
    """One rendered section of a prompt."""

    block: str
    layer: Scope
    section: str
    text: str
    most: int | None
    """Most tokens of the section; None: it is never cut."""


def render_blocks(role: RoleName, brief: Brief, answer: str, tools: bool = False) -> tuple[PromptBlock, ...]:
    """Return the blocks of a role's prompt for a brief; `answer` names the required answer type, `tools` says whether
    the model is offered tools.

    The provider explains the format of the answer, after the block that names its type: each provider reads another
    format most reliably.
    """
    texts: dict[str, list[str]] = {}
    for part in render_sections(role, brief, answer, tools):
        texts.setdefault(part.block, []).append(part.text)
    layouts = {name: read_prompt_budget().blocks[name] for name in texts}
    return tuple(
        PromptBlock(scope=layout.scope, text="\n\n".join(texts[name]) + "\n", answers=layout.answers)
        for name, layout in layouts.items()
    )


def render_sections(role: RoleName, brief: Brief, answer: str, tools: bool = False) -> tuple[PromptSection, ...]:
    """Return the sections of a role's prompt for a brief, in order, without empty ones."""
    found = []
    for name in read_prompt_budget().roles[role]:
        layout = read_prompt_budget().blocks[name]
        for section, room in layout.sections.items():
            most = room.most if isinstance(room, SectionLimits) else room
            aim = room.aim if isinstance(room, SectionLimits) else None
            text = _render_section(section, role, brief, {"answer": answer, "tools": tools}, most, aim)
            if text:
                found.append(PromptSection(name, layout.scope, section, text, most))
    return tuple(found)


@cache
def read_prompt_budget() -> PromptBudget:
    """Read prompts/budget.yaml once, and return its content."""
    import yaml

    return PromptBudget.model_validate(yaml.safe_load((PROMPTS_FOLDER / "budget.yaml").read_text(encoding="utf-8")))


def _render_section(
    section: str, role: RoleName, brief: Brief, asked: Mapping[str, object], most: int | None, aim: int | None
) -> str:
    if section == "language":
        return _language_text(brief.task.language) if brief.task else ""
    template = f"{role}/{section}.md" if section in PER_ROLE_SECTIONS else f"sections/{section}.md"
    fill = SECTIONS.get(section)
    content = fill(brief, most) if fill else SectionContent()
    if content is None:
        return ""
    values = {**content.values, **asked}
    # The section's own sentences take their tokens first.
    own = token_upper_bound(_render_template(template, {**values, "data": ""})) + token_upper_bound(
        fence_data(FENCE_LABELS.get(section, section), "")
    )
    fitted = fit_to_budget(content.items, *(None if limit is None else max(0, limit - own) for limit in (most, aim)))
    data = fence_data(FENCE_LABELS.get(section, section), fitted.text) if content.items else ""
    return _render_template(template, {**values, "data": f"{data}\n{fitted.note}" if fitted.note else data})


def _language_text(name: str) -> str:
    """Return the prompt text about a language, empty if there is none. It is not a template, because code contains
    doubled braces."""
    file = PROMPTS_FOLDER / "languages" / f"{Path(name).name}.md"
    return file.read_text(encoding="utf-8").strip("\n") if file.is_file() else ""


def _render_template(template: str, values: Mapping[str, object]) -> str:
    return _template_environment().get_template(template).render(values).strip("\n")


@cache
def _template_environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    # Markdown, not HTML: escaping would corrupt code. External text is a value and never a template.
    return Environment(
        loader=FileSystemLoader(PROMPTS_FOLDER),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,
    )
