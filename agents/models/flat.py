"""A request as one text, for whoever takes no blocks, turns and schemas: a program's stdin, a file for a person."""

from __future__ import annotations

from agents.fencing import fence
from agents.models import answers
from agents.models.base import Request

SPOKEN = "\n\n---\n\n"
"""Between the prompt and what came after it."""


def render(request: Request, where: str) -> str:
    """Prompt, the answers that were refused with the reasons, and how to answer. `where`: to what place, for the last sentence."""
    parts = ["\n\n".join(block.text for block in request.prompt)]
    for number, turn in enumerate(request.turns, 1):
        told = [f"Your answer {number} was:\n\n{fence('an earlier answer', turn.said)}"]
        told += [f"Result of {result.id}{' (failed)' if result.failed else ''}:\n\n{result.text}" for result in turn.results]
        if turn.refused:
            told.append(answers.told(turn.refused))
        parts.append("\n\n".join(told))
    parts.append(how(request, where))
    return SPOKEN.join(parts) + "\n"


def how(request: Request, where: str) -> str:
    """What an answer must look like, and where it goes."""
    return f"{answers.how_to_answer(request.answer, structured=False)}\n\nWrite your answer {where}."
