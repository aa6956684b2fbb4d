"""A provider that answers as the playbook does and says that it took tokens: `provider: tests.graph.priced:Priced`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agents.artifacts import Draft, Drafts
from agents.models.base import AnswerReply, Model, Request, Usage
from agents.models.playbook.model import answer_brief

WRONG = (
    'extern "C" void solve(const float* values, float* result, int rows, int columns) { result[0] = '
    "values[0] * rows * columns; }\n"
)


class Priced(Model):
    """Options: `model`, and `log`, a file that gets a line for each exchange that was really made (and so paid for)."""

    reads = "brief"

    def __init__(self, options: dict[str, Any]) -> None:
        super().__init__(options)
        self.log = Path(options["log"])

    def ask(self, request: Request) -> AnswerReply:
        with self.log.open("a") as file:
            file.write(f"{request.role}\n")
        usage = Usage(model=self.name, input=1000, cache_read=500, cache_write=100, output=200, seconds=0.5)
        return AnswerReply(answer=answer_brief(request.brief), usage=usage)

    def usage_bound(self, request: Request) -> Usage:
        return Usage(model=self.name, input=1600, output=400)


class PricedPrompt(Priced):
    """The same, of a provider that reads prompts as a language model does, and whose first version is no kernel."""

    reads = "prompt"

    def ask(self, request: Request) -> AnswerReply:
        made = super().ask(request)
        return (
            made.model_copy(update={"answer": Drafts(drafts=(Draft(source=WRONG, methods=()),))})
            if request.role == "coder"
            else made
        )
