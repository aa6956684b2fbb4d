"""What the system shows to the outside, as text: `python -m tests.golden.update` writes the files that
`test_golden.py` compares."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from tests.support import run_captured

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PROGRAMS = ("graph", "tools", "knowledge_base")


def picture() -> str:
    """The state machine as Mermaid."""
    from graph.build import build_graph
    from graph.settings import Settings

    return build_graph(Settings(task="t")).get_graph().draw_mermaid()


def usage(program: str) -> str:
    """What `python -m <program> --help` prints on a terminal 100 columns wide."""
    environment = {**os.environ, "COLUMNS": "100"}
    done = run_captured([sys.executable, "-m", program, "--help"], cwd=ROOT, env=environment, check=True)
    return done.stdout


def schema(name: str) -> str:
    """JSON schema of one artifact."""
    from agents import artifacts as owed
    from graph import artifacts as kept
    from tools import artifacts as made

    found = next(getattr(module, name) for module in (owed, made, kept) if hasattr(module, name))
    return json.dumps(found.model_json_schema(), indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def prompt(language: str, role: str, ablated: bool = False) -> str:
    """The last prompt of a role in the story of `benchmarks/scenario.py` before it ends, block after block; `ablated`:
    for the ablation of a kernel with the plan's methods."""
    from agents.artifacts import CoderBrief
    from agents.prompting.render import render_blocks
    from benchmarks.scenario import Scenario

    asked = [one for one in Scenario(language).asked() if one.role == role and one.iteration < 6]
    if ablated and isinstance(brief := asked[-1].brief, CoderBrief):
        methods = tuple(item.method for item in brief.plan.methods)
        champion = {"champion": f"{brief.source}# the champion\n", "champion_knobs": {"WARPS": "8"}, "failures": ()}
        asked.append(asked[-1]._replace(brief=brief.model_copy(update={"ablated_methods": methods, **champion})))
    return "\n".join(
        f"<!-- {block.scope} -->\n{block.text}"
        for block in render_blocks(asked[-1].role, asked[-1].brief, asked[-1].answer)
    )


ROLES = ("planner", "coder", "profiler_analyst", "knowledge_retriever", "gatekeeper")
SCHEMAS = (
    *("Task", "Candidate", "Record", "Verdict", "Passed", "Failed", "Unmeasured"),
    *("Plan", "Drafts", "Analysis", "Queries", "Review", "VersionMemory"),
)
GOLDEN: dict[str, Callable[[], str]] = {
    "graph.mmd": picture,
    **{f"help/{program}.txt": partial(usage, program) for program in PROGRAMS},
    **{f"schemas/{name}.json": partial(schema, name) for name in SCHEMAS},
    **{
        f"prompts/{role}.{language}.md": partial(prompt, language, role)
        for role in ROLES
        for language in ("cpp", "triton")
    },
    "prompts/ablation.triton.md": partial(prompt, "triton", "coder", ablated=True),
}
"""File under this folder -> what must stand in it."""


def stale() -> Iterator[Path]:
    """Files that nothing makes any more."""
    kept = {HERE / name for name in GOLDEN}
    for folder in ("help", "schemas", "prompts"):
        yield from (path for path in (HERE / folder).glob("*") if path not in kept)


if __name__ == "__main__":
    for name, made in GOLDEN.items():
        path = HERE / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(made(), encoding="utf-8")
    for path in list(stale()):
        path.unlink()
