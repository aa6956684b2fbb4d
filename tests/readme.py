"""What README.md and docs/tree.md say that is drawn from the code: `python -m tests.readme` writes it, `test_readme.py` compares."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
MODULES = ROOT / "docs" / "tree.md"
TREE = (
    "Drawn from the docstrings by `python -m tests.readme`. What to write where for something new: [CONTRIBUTING.md](../CONTRIBUTING.md)."
)
DATA = {
    "knowledge_base": {
        "wiki/": "The bundled gpu-wiki: hardware, methods, skills, operators, languages, profiling, measuring (Markdown).",
    },
    "agents": {"prompts/": "What models are told: Markdown and Jinja, and budget.yaml, which says how much of it stands where."},
}
"""Package -> its folders without a module."""
OTHERS = {
    "configs/": "quickstart.yaml, quickstart-gpu.yaml, models/: recipes, and tasks/: one folder a task (kernel, reference, workloads)",
    "docs/": (
        "models.md: providers, options, costs, budgets, what leaves the machine; knowledge.md: the knowledge base on its own, MCP; "
        "tree.md: every module"
    ),
    "workspaces/": "one folder a run, each a git repository of its own; ignored by ours",
    "tests/": "mirrors the packages; CPU only, offline, no key",
    "benchmarks/": "speeds of Kernelwright itself, and kernels from elsewhere (foreign/), as tables; never timed tests",
}


def graph() -> str:
    """The state machine as Mermaid."""
    from graph.build import build
    from graph.settings import Settings

    drawn = build(Settings(task="t")).get_graph().draw_mermaid()
    lines = drawn.split("graph TD;")[1].splitlines()
    kept = [line.strip() for line in lines if "-->" in line or "-.->" in line]
    plain = [re.sub(r"&nbsp;.*?&nbsp;", "", line).rstrip(";").replace("-.  .->", "-.->") for line in kept]
    return "\n".join(["graph TD", *(f"    {line}" for line in plain)])


def tree() -> str:
    """docs/tree.md: every module with the first sentence of its docstring, folders of data with one line."""
    lines = [f"{name:<28} {what}" for name, what in _lines()]
    return "\n".join(["# Every module", "", TREE, "", "```", *lines, "```", ""])


def folders() -> str:
    """The folders alone, two levels of them."""
    return "\n".join(f"{name:<20} {what}" for name, what in _lines() if name.endswith("/") and not name.startswith("    "))


def _lines() -> Iterator[tuple[str, str]]:
    """(indented name, what it is) of each folder and module, in the order of the layers."""
    for package in ("tools", "knowledge_base", "agents", "graph"):
        for path in sorted((ROOT / package).rglob("*.py")):
            depth = len(path.relative_to(ROOT).parts) - 1
            if path.name == "__init__.py":
                yield f"{'  ' * (depth - 1)}{path.parent.name}/", _first(path)
            else:
                yield f"{'  ' * depth}{path.name}", _first(path)
        yield from ((f"  {name}", what) for name, what in DATA.get(package, {}).items())
    yield from OTHERS.items()


def _first(path: Path) -> str:
    text = " ".join((ast.get_docstring(ast.parse(path.read_text())) or "").split("\n\n")[0].split())
    sentence = re.split(r"(?<=[.!?]) (?=[A-Z`])", text)[0]
    return sentence if len(sentence) <= 110 else sentence[:107].rsplit(" ", 1)[0] + " …"


def replaced(text: str) -> str:
    """README's text with its drawn parts as the code now has them."""
    for name, content in (("graph", "```mermaid\n" + graph() + "\n```"), ("folders", "```\n" + folders() + "\n```")):
        pattern = re.compile(rf"(<!-- {name}: drawn by python -m tests.readme -->\n).*?(\n<!-- end -->)", re.DOTALL)
        text = pattern.sub(lambda found, content=content: found.group(1) + content + found.group(2), text)  # type: ignore[misc]
    return text


if __name__ == "__main__":
    README.write_text(replaced(README.read_text()))
    MODULES.write_text(tree())
