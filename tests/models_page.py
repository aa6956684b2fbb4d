"""The parts of docs/models.md that are drawn: `python -m tests.models_page` writes them, `test_models_page.py` compares.

What an iteration costs is drawn too, and only with `--costs`, for it takes a minute.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from typing import Literal, get_args, get_origin

import annotated_types
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from agents.models import anthropic_client, chat_client, command, manual, recorded
from tests.readme import ROOT
from tools.docstrings import of_fields

PAGE = ROOT / "docs" / "models.md"
RECIPES = ROOT / "configs" / "models"
OPTIONS: dict[str, type[BaseModel]] = {
    "anthropic": anthropic_client.Options,
    "openai_compatible": chat_client.Options,
    "command": command.Options,
    "manual": manual.Options,
    "recorded": recorded.Options,
}
"""Provider -> its options; the playbook has none."""
BOUNDS = {annotated_types.Ge: "≥", annotated_types.Gt: ">", annotated_types.Le: "≤"}


def options(provider: str) -> str:
    """A table of the provider's options."""
    meant = of_fields(OPTIONS[provider])
    rows = [f"| `{name}` | {_default(field)} | {_meaning(field, meant[name])} |" for name, field in OPTIONS[provider].model_fields.items()]
    return "\n".join(["| option | default | meaning |", "|---|---|---|", *rows])


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "must be given"
    value = field.get_default(call_default_factory=True)
    return "none" if value is None or value in ((), {}) else f"`{value:g}`" if isinstance(value, float) else f"`{value}`"


def _meaning(field: FieldInfo, docstring: str) -> str:
    """Its docstring and what is allowed."""
    allowed = [f"`{value}`" for value in _literals(field.annotation)]
    bounds = [
        f"{sign} {getattr(bound, kind.__name__.lower()):g}"
        for bound in field.metadata
        for kind, sign in BOUNDS.items()
        if isinstance(bound, kind)
    ]
    more = " or ".join(allowed) or ", ".join(bounds)
    text = " ".join(docstring.split()).replace("|", "\\|")
    return f"{text} ({more})" if more else text


def _literals(annotation: object) -> Iterator[object]:
    if get_origin(annotation) is Literal:
        yield from get_args(annotation)
    else:
        for part in get_args(annotation):
            yield from _literals(part)


def recipe(name: str) -> str:
    """A config as it stands in configs/models/."""
    return f"```yaml\n{(RECIPES / f'{name}.yaml').read_text().rstrip()}\n```"


def drawn() -> dict[str, str]:
    """Name of a drawn part -> its content."""
    recipes = {f"recipe {path.stem}": recipe(path.stem) for path in sorted(RECIPES.glob("*.yaml"))}
    return {**recipes, **{f"options {provider}": options(provider) for provider in OPTIONS}}


def costs() -> dict[str, str]:
    """The same for what an iteration costs."""
    from benchmarks.iteration_cost import table

    drawn_of = (("cpp", "tools"), ("cpp", "one shot"), ("triton", "tools"))
    return {f"cost {language} {coder}": table(language, tools=coder == "tools") for language, coder in drawn_of}


def replaced(text: str, parts: Mapping[str, str]) -> str:
    """`text` with `parts` between their marks. KeyError for a part that has no place."""
    for name, content in parts.items():
        pattern = re.compile(rf"(<!-- {name}: drawn by python -m tests.models_page(?: --costs)? -->\n).*?(<!-- end -->)", re.DOTALL)
        text, found = pattern.subn(lambda match, content=content: f"{match[1]}{content}\n{match[2]}", text)  # type: ignore[misc]
        if found != 1:
            raise KeyError(f"{PAGE} has {found} places for {name!r}")
    return text


if __name__ == "__main__":
    PAGE.write_text(replaced(PAGE.read_text(), costs() if "--costs" in sys.argv else drawn()))
