"""The pages on models tell the truth: their recipes open, every provider has its options, and the costs are those of
now."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml

from agents.artifacts import RoleName
from agents.models.base import PROVIDERS, Request
from agents.models.ledger import Ledger
from agents.prompting.render import render_blocks
from agents.roles.agent import Agent, open_model
from benchmarks.scenario import Scenario
from graph import services
from graph.settings import Settings, load, parse
from tests.agents.models.anthropic_server import Server
from tests.readme import DOCS, OPTIONS, RECIPES, ROOT
from tools.store.records import Records

CONFIGS = sorted(RECIPES.glob("*.yaml"))
COSTS = DOCS / "costs-and-budgets.md"
PAGES = [path.read_text() for path in sorted(DOCS.glob("*.md"))]
FENCED = [block for text in PAGES for block in re.findall(r"^```yaml\n(.*?)^```", text, re.MULTILINE | re.DOTALL)]
BLOCKS = [block for block in FENCED if not block.startswith("problems:")]
"""Suites of problems are no configs; `tests/graph/score` has them read."""


def test_every_provider_has_a_table_and_a_recipe() -> None:
    assert set(OPTIONS) | {"playbook"} == set(PROVIDERS)
    used = {choice.provider for path in CONFIGS for choice in load(path).models.values()}
    assert used == set(PROVIDERS) - {"recorded"}, "what is recorded can only be played once it is there"


@pytest.fixture
def reachable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, dict[str, Any]]]:
    """What a provider is given so that it opens without a network, a bill, or a program that this machine lacks."""
    program = tmp_path / "claude"
    program.write_text("#!/bin/sh\ncat\n")
    program.chmod(0o755)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "no-key-at-all")
    with Server() as server:
        here = {"base_url": server.url, "api_key_env": "ANTHROPIC_API_KEY"}
        yield {"anthropic": here, "command": {"argv": [str(program), "--print"]}}


@pytest.mark.slow
@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_a_recipe_opens_and_its_first_exchanges_are_within_its_caps(
    path: Path, reachable: dict[str, dict[str, Any]], tmp_path: Path
) -> None:
    settings = load(path)
    assert (Path(settings.task or "") / "reference.py").is_file()
    models = {
        role: choice.model_copy(update=reachable.get(choice.provider, {})) for role, choice in settings.models.items()
    }
    settings = settings.model_copy(update={"models": models})
    ledger = services.open_ledger(settings, Records(tmp_path))
    agents = services.open_agents(settings, ledger.records, lambda kind, facts: None, ledger, tmp_path)
    assert set(agents) == set(get_args(RoleName))
    for number, one in enumerate(Scenario("cpp").asked()):
        # Each in an account of its own: what is set aside and never settled stays counted.
        ledger = services.open_ledger(settings, Records(tmp_path / str(number)))
        model = agents[one.role].model
        asked = Request(
            role=one.role, brief=one.brief, answer=one.answer, prompt=render_blocks(one.role, one.brief, one.answer)
        )
        with ledger.reserve(one.role, model, asked), ledger.reserve(one.role, model, asked):
            pass  # Room for two at least: the second is what the first leaves after it was settled at its dearest.
        if one.iteration > 1:
            break


@pytest.mark.parametrize("text", BLOCKS, ids=range(len(BLOCKS)))
def test_every_yaml_of_the_pages_is_a_config(text: str, tmp_path: Path) -> None:
    data = {"task": "t", **yaml.safe_load(text)}
    assert isinstance(parse(data, origin="docs", base=tmp_path), Settings)


def test_the_yaml_of_the_readme_is_a_config(tmp_path: Path) -> None:
    found = re.findall(r"^```yaml\n(.*?)^```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    assert found
    for text in found:
        settings = parse({"task": "t", **yaml.safe_load(text)}, origin="README.md", base=tmp_path)
        choice = settings.model_for("planner")
        assert isinstance(
            Agent("planner", open_model("planner", choice), Records(tmp_path), lambda kind, facts: None), Agent
        )


def test_files_and_settings_that_the_pages_name_exist() -> None:
    text = "\n".join(PAGES)
    for name in re.findall(r"(?:configs|agents|tools|tests)/[A-Za-z_/.-]+\.(?:yaml|py)", text):
        assert (ROOT / name).exists(), name
    for section, key, default in re.findall(r"\*\*`(search)\.(\w+)`\*\* \((\d+)\)", text):
        assert Settings.model_fields[section].default.model_dump()[key] == int(default)


def test_the_estimate_that_it_names_is_checks(reachable: dict[str, dict[str, Any]], tmp_path: Path) -> None:
    """To a fifth: prompts change."""
    found = re.search(r"\*Anthropic\* it says \$([\d.]+) an iteration and \$([\d.]+) for 8", COSTS.read_text())
    assert found
    made = check_estimate(load(RECIPES / "anthropic.yaml"), reachable, tmp_path)
    assert [float(found[1]), float(found[2])] == pytest.approx(made, rel=0.2)


def check_estimate(settings: Settings, reachable: dict[str, dict[str, Any]], folder: Path) -> list[float]:
    from graph.budget.estimate import estimate_cost
    from knowledge_base.pages.wiki import Wiki

    models = {role: choice.model_copy(update=reachable["anthropic"]) for role, choice in settings.models.items()}
    settings = settings.model_copy(update={"models": models})
    ledger: Ledger = services.open_ledger(settings, Records(folder))
    agents = services.open_agents(settings, ledger.records, lambda kind, facts: None, ledger)
    made = estimate_cost(settings, Scenario("cpp").task, Wiki.open(), agents)
    return [made.iteration_usd, made.run_usd]


@pytest.mark.slow
def test_what_a_run_costs_is_what_it_says(tmp_path: Path) -> None:
    """To a fifth: prompts change, and who changes them much draws the tables anew."""
    from benchmarks.iteration_cost import MODELS, play_iteration

    marked = COSTS.read_text().split("<!-- cost cpp one shot: ")[1].split("<!-- end -->")[0]
    told = re.search(r"\*\*run of 6 iterations\*\*.*?\$([\d.]+)", marked)
    assert told
    spent = play_iteration("cpp", MODELS[0], tmp_path, tools=False).spending()
    assert spent.usd == pytest.approx(float(told[1]), rel=0.2), "run `python -m tests.readme --costs`"
