"""A run on cited specs: what its README shows, and that a citation is opened again before each use."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from graph.lifecycle import run as runs
from graph.settings import load
from graph.specs import hardware_sheet
from graph.workspace.events import Event
from graph.workspace.versions import read_versions
from knowledge_base.__main__ import main as ask
from knowledge_base.pages.wiki import Wiki
from tests.graph.conftest import SHORT, configured
from tests.support import Capsys
from tools.artifacts import Task
from tools.errors import WorkspaceError
from tools.executors.base import Device, DeviceKind
from tools.roofline.hardware import Spec, UnknownSpec

PAGE = "docs/hardware-specs/accelerators.md"
LINE = 7
FIGURES = """# Accelerators

## NVIDIA H200

| Parameter | Value |
|---|---|
| Memory Bandwidth | 4.8 TB/s |
| L2 Cache | 50 MB |
"""


@pytest.fixture
def page(tmp_path: Path) -> Path:
    """Of a wiki of somebody else's."""
    page = tmp_path / "wiki" / PAGE
    page.parent.mkdir(parents=True)
    page.write_text(FIGURES)
    return page


def edits(page: Path, node: str) -> Callable[[Event], None]:
    """Changes the cited line as soon as a node is done, as somebody beside the run would."""

    def edit(event: Event) -> None:
        if event.kind == "node" and event.details["state"] == "finished" and event.details["node"] == node:
            page.write_text(FIGURES.replace("4.8", "9.9"))

    return edit


@pytest.mark.slow
def test_a_foreign_line_that_changes_stops_the_run_before_its_next_use_and_nothing_is_lost(
    tmp_path: Path, page: Path, capsys: Capsys
) -> None:
    config = configured(tmp_path, **SHORT, hardware="H200", gpu_wiki_path=str(tmp_path / "wiki"))
    with pytest.raises(WorkspaceError) as caught:
        runs.start(load(config), (edits(page, "retrieve_specs"),))
    (root,) = (tmp_path / "workspaces").iterdir()
    said = str(caught.value)
    assert (
        said.startswith(f"<gpu-wiki>/{PAGE}:{LINE} ")
        and "memory_bandwidth" in said
        and f"resume {root}" in said
        and "\n" not in said
    )
    assert caught.value.workspace == root and not (root / "README.md").exists(), "not shown either"

    page.write_text(FIGURES)
    with pytest.raises(WorkspaceError, match=rf"{PAGE}:{LINE} "):
        runs.resume(root, (edits(page, "judge"),))
    assert [memory.iteration for memory in read_versions(root)] == [0], "no verdict on such an archive"

    page.write_text(FIGURES)
    state, _ = runs.resume(root)
    assert state["report"] and [memory.iteration for memory in read_versions(root)] == [0, 1]
    report = (root / "report.md").read_text()
    assert (
        f"- memory_bandwidth: 4.8 TB/s <- <gpu-wiki>/{PAGE}:{LINE}\n" in report and "openmp-parallel-outer" in report
    ), "methods stay ours"
    _cites_everything((root / "README.md").read_text())
    assert ask(["lint", "--workspace", str(root)]) == 0, capsys.readouterr().out

    page.write_text(FIGURES.replace("4.8", "4.9"))
    runs.write_report(root)
    assert f"{PAGE}:{LINE}; the cited line has changed since" in (root / "report.md").read_text()
    assert (
        ask(["lint", "--workspace", str(root)]) == 1
        and "does not say any more what was cited" in capsys.readouterr().out
    )


def _cites_everything(readme: str) -> None:
    """Each figure of the three sections names a line of the wiki, a record, or the settings."""
    titles = ("Hardware Spec", "Roofline", "Stop Conditions")
    spec, roofline, stop = (readme.split(f"## {title}\n")[1].split("\n## ")[0] for title in titles)
    for item in re.findall(r"^- .*$", spec, re.MULTILINE):
        assert re.search(r"<- <gpu-wiki>/\S+:\d+|UNKNOWN \(gpu-wiki not found\): ", item), item
    roofs = re.findall(r"^\| (\w+) \| .* \| (cited|measured)(?:; [^|]*)? \| (.*) \|$", roofline, re.MULTILINE)
    assert roofs
    for metric, origin, source in roofs:
        assert origin == "measured" and re.fullmatch(r"record [0-9a-f]{16}", source), metric
    assert re.search(r"- target: 90% of the measured roof .* <- record [0-9a-f]{16}\n", stop), (
        "measured maxima are preferred"
    )
    assert spec.count("while this run measures on ") == 1
    assert PAGE not in roofline + stop and "published figures alone" not in stop, (
        "another device's figures set no target"
    )
    assert "settings.yaml" in stop


@pytest.mark.parametrize(
    ("kind", "name", "hardware", "variant", "other"),
    [
        ("cpu", "AMD EPYC 9354 32-Core Processor", "H200", "SXM5", True),
        ("cpu", "AMD EPYC 9354 32-Core Processor", "AMD EPYC 9354", "", False),
        ("cuda", "NVIDIA H200", "H200", "SXM5", False),
        ("cuda", "NVIDIA H200", "H200", "NVL", True),
        ("cuda", "NVIDIA H200", "MI300X", "", True),
        ("cuda", "NVIDIA H200", "RTX 5090", "", True),
        ("cuda", "NVIDIA GeForce RTX 5090", "RTX 5090", "", False),
        ("cuda", "NVIDIA GeForce RTX 5080", "RTX 5090", "", True),
        ("cuda", "a device nobody lists", "H200", "SXM5", True),
    ],
)
def test_figures_of_another_device_are_told_apart(
    kind: DeviceKind, name: str, hardware: str | None, variant: str, other: bool
) -> None:
    said = hardware_sheet.other_device_warning(Wiki.open(), Device(kind=kind, name=name), hardware, variant)
    assert bool(said) == other and (not other or (name in said and said.count(". ") == 0))


@pytest.mark.parametrize(
    ("product", "variant", "metric"),
    [("H200", "SXM5", "l2_size"), ("MI300X", "", "l3_size"), ("MI250X", "OAM", "l2_size")],
)
def test_each_kind_of_device_is_asked_for_its_own_last_cache(product: str, variant: str, metric: str) -> None:
    task = Task(name="t", language="cpp", arguments=(), reference="", workloads=())
    answers = hardware_sheet.published_specs(Wiki.open(), task, product, variant)
    assert metric in [answer.metric for answer in answers if isinstance(answer, Spec)]
    if product != "MI250X":
        assert not [answer for answer in answers if isinstance(answer, UnknownSpec)], (
            "so that `on_unknown: stop` lets it run"
        )


@pytest.mark.parametrize(
    ("hardware", "variant", "says"),
    [
        (None, "", ""),
        ("H200", "SXM5", ""),
        ("H200", "", ""),
        ("AMD EPYC 9354", "", "No figure of a CPU is published, by design"),
        ("H20000", "", "the gpu-wiki has no figures for H20000: no hardware page is about 'H20000'"),
        ("H200", "PCIe", "the gpu-wiki has no figures for H200 PCIe: "),
    ],
)
def test_hardware_that_the_wiki_does_not_know_is_said_before_a_run(
    hardware: str | None, variant: str, says: str
) -> None:
    task = Task(name="t", language="cpp", arguments=(), reference="", workloads=())
    said = hardware_sheet.unpublished_warning(Wiki.open(), task, hardware, variant)
    assert said.startswith(says) and bool(said) == bool(says) and "\n" not in said
