"""What README.md and docs/ say that is drawn from code and measurements: `python -m tests.readme` writes it,
`test_readme.py` compares.

Between `<!-- NAME: drawn by python -m tests.readme -->` and `<!-- end -->` stands the part of that name; docs/tree.md,
docs/configuration.md and docs/attacks.md are drawn as a whole. What an iteration costs takes a minute and is drawn only with `--costs`.
Pictures: `python -m benchmarks.pictures`.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal, get_args, get_origin

import annotated_types
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from agents.models.prices import LongPromptSurcharge, Price
from agents.models.providers import anthropic_client, command, manual, openai_client, recorded
from graph.settings import Benchmark, Budget, ModelChoice, Search, Settings, Stop
from knowledge_base.pages.wiki import Wiki
from knowledge_base.specs import sheets
from tests.kernels import corpus
from tools.artifacts import field_docstrings
from tools.executors.bundle import BundleOptions
from tools.executors.choice import ExecutorChoice
from tools.executors.local import LocalOptions
from tools.executors.ssh import SshOptions
from tools.gate.judge_settings import JudgeSettings

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
DOCS = ROOT / "docs"
RECIPES = ROOT / "configs" / "models"
RESULTS = ROOT / "benchmarks" / "results"

# ---------------------------------------------------------------- keys and options

OPTIONS: dict[str, type[BaseModel]] = {
    "anthropic": anthropic_client.AnthropicOptions,
    "openai_compatible": openai_client.OpenAIOptions,
    "command": command.CommandOptions,
    "manual": manual.ManualOptions,
    "recorded": recorded.RecordedOptions,
}
"""Provider -> its options; the playbook has none."""
SECTIONS: dict[str, type[BaseModel]] = {
    "": Settings,
    "models.<role>": ModelChoice,
    "search": Search,
    "stop": Stop,
    "budget": Budget,
    "prices.<model>": Price,
    "prices.<model>.long_prompt": LongPromptSurcharge,
    "judge": JudgeSettings,
    "benchmark": Benchmark,
    "executor": ExecutorChoice,
    "executor` with `kind: local": LocalOptions,
    "executor` with `kind: ssh": SshOptions,
    "executor` with `kind: bundle": BundleOptions,
}
"""Key in a config -> the model of what stands under it."""
CONFIGURATION = """\
# Every key of a config

`python -m tests.readme` generates this page from the code. One YAML file describes one run. Every key except `task` (or `kernel`) has a default,
and a key that is not listed here is an error. Workloads, weights, margins and tolerances belong to the task and are set in its folder:
[your-kernel.md](your-kernel.md). The options of each model provider: [model-options.md](model-options.md).
"""
BOUNDS = {annotated_types.Ge: "≥", annotated_types.Gt: ">", annotated_types.Le: "≤", annotated_types.Lt: "<"}


def configuration() -> str:
    """docs/configuration.md: a table a section. KeyError for a key without a docstring."""
    tables = [
        f"## {f'`{section}`' if section else 'The run'}\n\n{fields(kind, 'key')}\n"
        for section, kind in SECTIONS.items()
    ]
    return "\n".join([CONFIGURATION, *tables])


def fields(kind: type[BaseModel], called: str) -> str:
    """A table of the model's fields. KeyError for one without a docstring."""
    meant = field_docstrings(kind)
    rows = [
        f"| `{name}` | {_default(field)} | {_meaning(field, meant[name])} |"
        for name, field in kind.model_fields.items()
    ]
    return "\n".join([f"| {called} | default | meaning |", "|---|---|---|", *rows])


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "must be given"
    value = field.get_default(call_default_factory=True)
    if isinstance(value, BaseModel) or (isinstance(value, dict) and value):
        return "see below"
    return (
        "none"
        if value is None or value in ((), {}, "")
        else f"`{value:g}`"
        if isinstance(value, float)
        else f"`{value}`"
    )


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
    if get_origin(annotation) is dict:
        return
    if get_origin(annotation) is Literal:
        yield from get_args(annotation)
    else:
        for part in get_args(annotation):
            yield from _literals(part)


def recipe(name: str) -> str:
    """A config as it stands in configs/models/."""
    return f"```yaml\n{(RECIPES / f'{name}.yaml').read_text().rstrip()}\n```"


# ---------------------------------------------------------------- results


def gpu() -> str:
    """The table over all workloads of results/h200.md, with its date."""
    page = (RESULTS / "h200.md").read_text()
    table = re.search(r"^\| Triton .*?(?=\n\n)", page, re.MULTILINE | re.DOTALL)
    assert table
    return f"{table[0]}\n\n{page.splitlines()[2].partition(' Commands:')[0]}"


def cpu() -> str:
    """Of results/foreign.md every fifth kernel in the order of its factor over torch.compile, and what all come to."""
    page = (RESULTS / "foreign.md").read_text()
    rows = [
        [cell.strip() for cell in line.strip("| ").split("|")]
        for line in page.splitlines()
        if re.match(r"\| \w+ \| [\d.]+ [mun]?s ", line)
    ]
    rows.sort(key=lambda cells: float(cells[6].partition("×")[0]), reverse=True)
    shown = [
        f"| {name} | {baseline} | {' | '.join((speedup, eager, compiled))} |"
        for name, baseline, _, speedup, _, eager, compiled, *_ in rows[::5]
    ]
    counts = re.search(
        r"≥ 2× over the baseline: (\d+) of (\d+)\n.*eager (\d+) of.*compile (\d+) of .*\n- wrong: (\d+).*\n- lost "
        r"or crashed: (\d+)",
        page,
    )
    # The sentence is not in a page that is measured anew.
    outdated = re.search(r"^Measured with .*$", page, re.MULTILINE)
    made = re.search(r"^(\S+); cpu:0: (.+?), (\d+) units,.*Kernelwright at (.+)\.$", page, re.MULTILINE)
    assert counts and made
    faster, tried, eager, compiled, wrong, lost = counts.groups()
    head = [
        "| C++ | baseline | against baseline | against torch eager | against torch.compile |",
        "|---|---|---|---|---|",
    ]
    told = (
        f"Every fifth of {tried}, from the best to the worst against torch.compile. Of all {tried}, by the "
        f"estimates: {faster} at least "
        f"twice as fast as before, {eager} not slower than torch eager, {compiled} not slower than torch.compile; "
        f"{wrong} wrong, {lost} lost. "
        f"{made[1]}; {made[3]} virtual cores, {made[2]}; Kernelwright at {made[4]}."
        f"{f' {outdated[0]}' if outdated else ''}"
    )
    return "\n".join([*head, *shown, "", told])


# ---------------------------------------------------------------- rooms

TREE = """\
# Every folder and module

`python -m tests.readme` generates this page from the code. A layer imports only from the layers before it. To add something, see the table in
[CONTRIBUTING.md](../CONTRIBUTING.md).
"""
LAYERS = ("tools", "knowledge_base", "agents", "graph")
OTHERS = """\
## Other folders

| folder | content |
|---|---|
| knowledge_base/wiki/ | the bundled gpu-wiki in Markdown: hardware, methods, skills, operators, languages, profiling, measuring |
| agents/prompts/ | the prompts in Markdown and Jinja, and budget.yaml, which sets the order and the length of their sections |
| configs/ | quickstart.yaml, quickstart-gpu.yaml, models/ (configs to copy), tasks/ (one folder for each task: kernel, reference, workloads) |
| docs/ | the pages for users; images/ holds their pictures |
| workspaces/ | one folder for each run, each a git repository of its own; the project's git ignores it |
| tests/ | the same folders as the packages, CPU only, offline, no key; kernels/ is the corpus of kernels that attack the judge, and of honest ones |
| benchmarks/ | measurements of Kernelwright itself and of kernels from elsewhere (foreign/); no tests |
"""


def tree() -> str:
    """docs/tree.md: a table a layer, a row a room with the first sentence of its docstring and its modules."""
    parts = [TREE]
    for layer in LAYERS:
        rooms = sorted({path.parent for path in (ROOT / layer).rglob("*.py")})
        rows = [f"| {room.relative_to(ROOT)}/ | {_first(room)} | {_modules(room)} |" for room in rooms]
        parts.append("\n".join([f"## {layer}", "", "| folder | content | modules |", "|---|---|---|", *rows, ""]))
    return "\n".join([*parts, OTHERS])


def _modules(room: Path) -> str:
    return " ".join(
        path.stem.replace("__", r"\_\_") for path in sorted(room.glob("*.py")) if path.name != "__init__.py"
    )


def _first(room: Path) -> str:
    """The first sentence of the room's docstring."""
    path = room / "__init__.py"
    text = ast.get_docstring(ast.parse(path.read_text())) if path.exists() else ""
    return re.split(r"(?<=[.!?]) (?=[A-Z`])", " ".join((text or "").split("\n\n")[0].split()))[0]


# ---------------------------------------------------------------- the wiki


def wiki() -> str:
    """How many pages the bundled wiki has of what."""
    found = Wiki.open().pages
    products = sum(page.path.count("/") == 2 and sheets.product_of(page) is not None for page in found)
    kinds = {kind: [page for page in found if page.head.type == kind] for kind in ("skill", "method")}
    recipes = sum(bool(page.head.recipe) for page in kinds["method"])
    return (
        f"The bundled wiki has pages for {products} products, for the limits of each compute capability, for "
        f"contradictions between vendors, for {len(kinds['skill'])} bottlenecks and for {len(kinds['method'])} "
        f"methods. The playbook has a recipe for {recipes} of the methods. The others are for models and people, except "
        "`inductor-lift`, which the playbook tries by itself."
    )


# ---------------------------------------------------------------- attacks

ATTACKS = """\
# Attacks on the judge, and honest kernels that look like one

`python -m tests.readme` generates this page from tests/kernels/corpus.yaml and from what `python -m tests.kernels.corpus` recorded, which takes
each kernel through screen, build, correctness, timing, physical limits and confirmation, and ends at the first refusal. *Behind the screen*: the
screen refuses the text, and was left out, so that the row says what the mechanisms behind it do. *No gain*: the kernel is right, and no gain is
shown where it is measured, on inputs that it has not seen or from outside its process. The figures are its speed-up and the interval: an interval
that contains 1 shows no gain, and one as wide as 2.89 [0.98, 81.24] comes from a busy machine. Classes: A keeps or replays results of other calls
(*remembering*: by values, for inputs that return), B deceives the clock or disturbs what is timed beside it, C computes less or something else than
the reference, D attacks the harness, its process or files; *honest*: a kernel that must pass. *Doubt*: of a
function over which a gain is reported, what the report says beside the factor. The number tells the attacks of a class apart. What the judge
cannot see: [trust and limits](trust-and-limits.md#limits).
"""


def attacks() -> str:
    """docs/attacks.md: a row for each kernel of the corpus, with what became of it."""
    found = corpus.recorded_outcomes()
    dates = sorted({outcome.date for outcome in found.values()})
    tables = []
    for title, verdict in (("To be refused", "refused"), ("To be accepted", "accepted")):
        chosen = [one for one in corpus.entries() if one.verdict == verdict]
        rows = [
            f"| {one.attack} | {one.kind} | {one.language} | {became(one, found.get(one.file))} |" for one in chosen
        ]
        head = [
            f"## {title}: {len(chosen)}",
            "",
            "| what it does | class | language | what became of it |",
            "|---|---|---|---|",
        ]
        tables.append("\n".join([*head, *rows, ""]))
    measured = f"Measured: {', '.join(dates)}.\n" if dates else ""
    return "\n".join([ATTACKS, measured, *tables])


def became(entry: corpus.Entry, outcome: corpus.Outcome | None) -> str:
    """The last cell of an entry's row."""
    if outcome is None:
        return "not yet run"
    gain = f"confirmed at {outcome.confirmed.estimate:.3g}×" if outcome.confirmed and not outcome.stage else "passes"
    passed = outcome.stage in corpus.PASSED and entry.verdict == "accepted"
    through = f"{gain}, by what is honest in it" if not entry.fault(outcome) else f"**gets through**, {gain}"
    stage = gain if passed else outcome.stage or through
    shown = outcome.confirmed or outcome.trial
    if stage == "no gain" and shown:
        stage += f" ({shown.estimate:.2f} [{shown.low:.2f}, {shown.high:.2f}])"
    return f"{stage}, behind the screen" if outcome.screen and not entry.screened else stage


# ---------------------------------------------------------------- pages


def drawn() -> dict[str, str]:
    """Name of a part -> its content."""
    recipes = {f"recipe {path.stem}": recipe(path.stem) for path in sorted(RECIPES.glob("*.yaml"))}
    options = {f"options {provider}": fields(kind, "option") for provider, kind in OPTIONS.items()}
    return {"gpu": gpu(), "cpu": cpu(), "wiki": wiki(), **recipes, **options}


def costs() -> dict[str, str]:
    """The same for what an iteration costs."""
    from benchmarks.iteration_cost import table

    drawn_of = (("cpp", "tools"), ("cpp", "one shot"), ("triton", "tools"))
    return {f"cost {language} {coder}": table(language, tools=coder == "tools") for language, coder in drawn_of}


def pages(parts: Mapping[str, str]) -> dict[Path, str]:
    """Each page as it should be, `parts` between their marks. KeyError for a part that does not have one place."""
    texts = {path: path.read_text() for path in (README, *sorted(DOCS.glob("*.md")))}
    for name, content in parts.items():
        pattern = re.compile(
            rf"(<!-- {name}: drawn by python -m tests.readme(?: --costs)? -->\n).*?(<!-- end -->)", re.DOTALL
        )
        places = 0
        for path, text in texts.items():
            texts[path], found = pattern.subn(lambda match, content=content: f"{match[1]}{content}\n{match[2]}", text)  # type: ignore[misc]
            places += found
        if places != 1:
            raise KeyError(f"{places} places for {name!r}")
    return texts | {
        DOCS / "tree.md": tree(),
        DOCS / "configuration.md": configuration(),
        DOCS / "attacks.md": attacks(),
    }


if __name__ == "__main__":
    for path, text in pages(costs() if "--costs" in sys.argv else drawn()).items():
        path.write_text(text)
