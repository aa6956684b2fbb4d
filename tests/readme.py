"""The parts of README.md that are drawn from the code: `python -m tests.readme` writes them, `test_readme.py` compares."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
FOLDERS = {"harness": "RUNS BESIDE THE DEVICE: stdlib, and torch in the oracle; imports nothing of ours, copied into each job."}
OTHERS = {
    "configs/": "quickstart.yaml, quickstart-gpu.yaml, models/: recipes, and tasks/: one folder a task (kernel, reference, workloads)",
    "docs/": "models.md: providers, options, costs, budgets, what leaves the machine; knowledge.md: the knowledge base on its own, MCP",
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
    """Every module with the first sentence of its docstring, folders of data with one line."""
    lines = []
    for package in ("tools", "knowledge_base", "agents", "graph"):
        for path in sorted((ROOT / package).rglob("*.py")):
            relative = path.relative_to(ROOT).as_posix()
            if path.parent.name in FOLDERS and path == min(path.parent.glob("*.py")):
                lines.append(f"  {path.parent.name + '/':<26} {FOLDERS[path.parent.name]}")
            if path.name == "__init__.py":
                depth, name = relative.count("/") - 1, path.parent.name + "/"
            else:
                depth, name = relative.count("/"), path.name
            lines.append(f"{'  ' * depth}{name:<{28 - 2 * depth}} {_first(path)}".rstrip())
        if package == "knowledge_base":
            lines.append(
                f"  {'wiki/':<26} the bundled gpu-wiki: hardware, methods, skills, operators, languages, profiling, measuring (Markdown)"
            )
    lines += [f"{name:<28} {what}" for name, what in OTHERS.items()]
    return "\n".join(lines)


def _first(path: Path) -> str:
    text = " ".join((ast.get_docstring(ast.parse(path.read_text())) or "").split("\n\n")[0].split())
    sentence = re.split(r"(?<=[.!?]) (?=[A-Z`])", text)[0]
    return sentence if len(sentence) <= 110 else sentence[:107].rsplit(" ", 1)[0] + " …"


def replaced(text: str) -> str:
    """README's text with its drawn parts as the code now has them."""
    for name, content in (("graph", "```mermaid\n" + graph() + "\n```"), ("tree", "```\n" + tree() + "\n```")):
        pattern = re.compile(rf"(<!-- {name}: drawn by python -m tests.readme -->\n).*?(\n<!-- end -->)", re.DOTALL)
        text = pattern.sub(lambda found, content=content: found.group(1) + content + found.group(2), text)  # type: ignore[misc]
    return text


if __name__ == "__main__":
    README.write_text(replaced(README.read_text()))
