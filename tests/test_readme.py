"""README.md and docs/ tell the truth about keys, rooms, results, kernels to copy, links and commands."""

from __future__ import annotations

import re
import shlex
from html import unescape
from pathlib import Path

import pytest
from pydantic import BaseModel

from benchmarks import pictures
from graph.__main__ import build_parser, main
from graph.settings import Settings
from knowledge_base.__main__ import parser as knowledge_parser
from tests.readme import DOCS, LAYERS, README, ROOT, SECTIONS, drawn, pages, tree
from tests.support import Capsys
from tools.__main__ import main as tool

PAGES = [README, ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *sorted(DOCS.glob("*.md"))]
LONGEST = 12_000
"""Bytes of a page: what one reads in a few minutes."""


def shown(language: str) -> list[str]:
    """The blocks of code of that language on all pages."""
    return [
        block
        for path in PAGES
        for block in re.findall(rf"^```{language}\n(.*?)^```", path.read_text(), re.MULTILINE | re.DOTALL)
    ]


def test_drawn_parts_are_current() -> None:
    stale = [path.name for path, text in pages(drawn()).items() if path.read_text() != text]
    assert not stale, "run `python -m tests.readme`"


def test_the_picture_of_the_graph_is_current() -> None:
    assert pictures.GRAPH.read_text() == pictures.graph(), "run `make pictures`"


def test_the_picture_of_a_run_shows_what_the_console_writes() -> None:
    words = " ".join(unescape(" ".join(re.findall(r"<text[^>]*>([^<]*)</text>", pictures.RUN.read_text()))).split())
    for line in pictures.lines():
        assert " ".join(line.plain[: pictures.COLUMNS - 1].split()) in words, "run `make pictures`"


@pytest.mark.parametrize("path", [page for page in PAGES if page.name != "attacks.md"], ids=lambda path: path.name)
def test_a_page_is_short(path: Path) -> None:
    assert len(path.read_bytes()) <= LONGEST


def test_every_key_of_a_config_has_a_section() -> None:
    """A section that is added to the settings, and is on no page, is found here; a key without a docstring where it
    is drawn."""
    known, ahead = set(SECTIONS.values()), [Settings]
    while ahead:
        for field in ahead.pop().model_fields.values():
            for kind in _models(field.annotation):
                assert any(issubclass(one, kind) for one in known), (
                    f"{kind.__name__} is in no section of tests/readme.py"
                )
                ahead.append(kind)


def _models(annotation: object) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [kind for part in getattr(annotation, "__args__", ()) for kind in _models(part)]


def test_every_room_and_module_is_in_the_tree() -> None:
    rooms = tree()
    for layer in LAYERS:
        for path in (ROOT / layer).rglob("*.py"):
            row = next(line for line in rooms.splitlines() if line.startswith(f"| {path.parent.relative_to(ROOT)}/ |"))
            assert path.name.startswith("__") or f" {path.stem} " in row, path


def test_the_first_kernel_that_it_shows_is_right(tmp_path: Path, capsys: Capsys) -> None:
    for name in ("centre.cpp", "centre.py"):
        (found,) = re.findall(rf"^```\w+\n(?://|#) {name}\n(.*?)^```", README.read_text(), re.MULTILINE | re.DOTALL)
        (tmp_path / name).write_text(found)
    assert tool(["check", "--kernel", str(tmp_path / "centre.cpp"), "--ref", str(tmp_path / "centre.py")]) == 0, (
        capsys.readouterr().err
    )
    assert "the kernel compiles, agrees with the reference and is timed" in capsys.readouterr().out


def test_a_kernel_can_be_written_for_the_logic_that_it_shows(tmp_path: Path, capsys: Capsys) -> None:
    (found,) = (block for block in shown("python") if block.startswith("# relu_softmax/reference.py\n"))
    folder = tmp_path / "relu_softmax"
    folder.mkdir()
    (folder / "reference.py").write_text(found)
    assert main(["check", str(folder)]) == 0, capsys.readouterr().err
    assert "No kernel was given: v0 is what torch.compile makes of reference.py." in capsys.readouterr().out


def test_every_command_that_it_names_can_be_read() -> None:
    """By the commands' own parsers: verbs, options and the number of arguments."""
    ours = {"graph": build_parser(), "knowledge_base": knowledge_parser()}
    lines = [line for block in shown("sh") for line in re.sub(r"\\\n", "", block).splitlines()]
    found = [shlex.split(line, comments=True)[2:] for line in lines if line.startswith("python -m ")]
    assert {"run", "resume", "check", "show", "report", "verify", "mask", "restart"} <= {
        words[1] for words in found if words[0] == "graph"
    }
    for program, *words in found:
        if program in ours:
            ours[program].parse_args(words)
        for config in words:
            assert not config.startswith("configs/") or (ROOT / config).exists(), config


def test_every_make_target_that_it_names_exists() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for path in PAGES:
        for target in re.findall(r"(?:`|^)make ([a-z-]+)", path.read_text(), re.MULTILINE):
            assert re.search(rf"^{target}:", makefile, re.MULTILINE), f"{path.name}: make {target}"


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_every_link_leads_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", path.read_text()):
        file, _, heading = target.partition("#")
        if target.startswith("http"):
            continue
        page = (path.parent / file).resolve() if file else path
        assert page.exists(), target
        assert not heading or heading in _anchors(page.read_text()), target


def _anchors(text: str) -> set[str]:
    """Names of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_page_is_reached_from_the_readme() -> None:
    assert {path.name for path in DOCS.glob("*.md")} <= set(re.findall(r"\(docs/([\w.-]+)\)", README.read_text()))
