"""The laws that a test can hold (design 1 and 2). Import direction is import-linter's, run by `make layers`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("tools", "knowledge_base", "agents", "graph")
SOURCES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
HARDWARE_NUMBER = re.compile(r"\b\d+(\.\d+)?\s?([TGP]B/s|[TGP]iB/s|[TP]FLOP/?s|TOPS|[GT]FLOPS)\b", re.IGNORECASE)


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def nodes(path: Path) -> Iterator[ast.AST]:
    return ast.walk(ast.parse(path.read_text()))


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_no_broad_except_outside_the_harness(path: Path) -> None:
    if "harness" in path.parts:
        return
    broad = [n.lineno for n in nodes(path) if isinstance(n, ast.ExceptHandler) and _is_broad(n) and not _reraises(n)]
    assert not broad, f"{relative(path)}:{broad}"


def _is_broad(handler: ast.ExceptHandler) -> bool:
    return handler.type is None or (isinstance(handler.type, ast.Name) and handler.type.id in {"Exception", "BaseException"})


def _reraises(handler: ast.ExceptHandler) -> bool:
    last = handler.body[-1]
    return isinstance(last, ast.Raise) and last.exc is None


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_only_main_modules_print(path: Path) -> None:
    if path.name == "__main__.py" or "harness" in path.parts:
        return
    printed = [n.lineno for n in nodes(path) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id == "print"]
    assert not printed, f"{relative(path)}:{printed}"


def test_no_hardware_number_in_code_prompts_or_configs() -> None:
    """Law 2: a bandwidth or a peak is cited from the wiki or measured, never written down."""
    files = [*SOURCES, *(ROOT / "configs").rglob("*.yaml"), *(ROOT / "agents").rglob("*.md"), *(ROOT / "agents").rglob("*.j2")]
    files += [*(ROOT / "tools").rglob("*.yaml"), *(ROOT / "tools").rglob("*.cpp"), *(ROOT / "graph").rglob("*.j2")]
    found = [
        f"{relative(path)}:{number}: {line.strip()}"
        for path in files
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if HARDWARE_NUMBER.search(line)
    ]
    assert not found


def test_only_specs_makes_a_spec() -> None:
    makers = {
        relative(p) for p in SOURCES for n in nodes(p) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id == "Spec"
    }
    assert makers <= {"knowledge_base/specs.py"}


def test_the_harness_imports_nothing_of_ours() -> None:
    beside = {path.stem for path in (ROOT / "tools" / "harness").glob("*.py")}
    for path in (ROOT / "tools" / "harness").glob("*.py"):
        for node in nodes(path):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            for name in names:
                top = name.split(".")[0]
                assert top not in PACKAGES or top in beside, f"{relative(path)} imports {name}"


def test_only_graph_imports_langgraph() -> None:
    for path in SOURCES:
        if path.parts[len(ROOT.parts)] == "graph":
            continue
        names = {a.name for n in nodes(path) if isinstance(n, ast.Import) for a in n.names}
        names |= {n.module or "" for n in nodes(path) if isinstance(n, ast.ImportFrom)}
        assert not [name for name in names if name.split(".")[0] == "langgraph"], relative(path)


def test_no_folder_for_leftovers() -> None:
    forbidden = {"utils", "common", "core", "helpers", "misc"}
    assert not [relative(path) for path in SOURCES if forbidden & {path.stem, *path.relative_to(ROOT).parts}]


def test_heavy_packages_are_imported_where_they_are_used() -> None:
    """`--help` must answer at once: nothing at module level may pull torch, triton, langgraph or a parser in."""
    heavy = {"torch", "triton", "tree_sitter", "tree_sitter_cpp", "rich", "jinja2"}
    for path in SOURCES:
        if "harness" in path.parts:
            continue
        tree = ast.parse(path.read_text())
        names = {a.name.split(".")[0] for n in tree.body if isinstance(n, ast.Import) for a in n.names}
        names |= {(n.module or "").split(".")[0] for n in tree.body if isinstance(n, ast.ImportFrom)}
        assert not names & heavy, relative(path)
