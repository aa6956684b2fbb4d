"""From a brief to the prompt's blocks: `prompts/` holds the texts, this module renders them in the order stable, run, iteration."""

from __future__ import annotations

from agents.artifacts import Brief, RoleName
from agents.models.base import Block


def blocks(role: RoleName, brief: Brief, answer: str) -> tuple[Block, ...]:
    """The prompt of a role for a brief; `answer` names the type that is owed."""
    return (
        Block(
            scope="iteration", text=f"You are the {role}. Answer this brief with a JSON object {answer}:\n{brief.model_dump_json(indent=1)}"
        ),
    )
