"""The rules of the code that a test can hold. Import direction is import-linter's; excepts and prints are ruff's
(BLE, E722, T20)."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import run_captured

ROOT = Path(__file__).parent.parent
PACKAGES = ("tools", "knowledge_base", "agents", "graph")
SOURCES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
HARDWARE_NUMBER = re.compile(
    r"\b\d+(\.\d+)?(e\d+)?\s?([MGTPE]i?B/s|[MGTPE]?FLOP(S|/s)|[MGTPE]OP(S|/s))(?!\w)", re.IGNORECASE
)
"""A figure with the unit of a peak or a bandwidth."""
HARDWARE_WORDS = {
    "peak", "peaks", "bandwidth", "bandwidths", "bw", "sm", "sms", "cu", "cus", "flops", "flop", "gflops", "tflops", "tops", "gbps", "tbps",
    "ridge", "roof", "roofs", "hbm", "dram", "clock", "ghz", "mhz",
}  # fmt: skip
"""Words in a name of which a hardware number may be made."""
NUMERAL = r"(\d[\d_.]*(?:[eE]\+?\d+)?)"
ASSIGNED = re.compile(
    rf"""(?<![\w.])["']?(\w+)["']?\s*(?::|=(?!=))\s*["']?{NUMERAL}|#\s*define\s+(\w+)\s+\(?{NUMERAL}"""
)
"""A name and the number behind it, in YAML, Markdown, Jinja and C++."""


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def nodes(path: Path) -> Iterator[ast.AST]:
    return ast.walk(ast.parse(path.read_text()))


def test_no_hardware_number_in_code_prompts_or_configs() -> None:
    """Law 2: a bandwidth or a peak is cited from the wiki or measured, never written down."""
    files = [
        *SOURCES,
        *(ROOT / "configs").rglob("*.yaml"),
        *(ROOT / "agents").rglob("*.md"),
        *(ROOT / "agents").rglob("*.yaml"),
    ]
    files += [
        *(ROOT / "agents").rglob("*.j2"),
        *(ROOT / "tools").rglob("*.yaml"),
        *(ROOT / "tools").rglob("*.cpp"),
        *(ROOT / "graph").rglob("*.j2"),
    ]
    found = [f"{relative(path)}:{line}" for path in files for line in hardware_numbers(path.read_text(), path.suffix)]
    assert not found


def is_hardware(name: str) -> bool:
    return bool(HARDWARE_WORDS & set(re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower().split("_")))


def numeral(node: ast.AST | None) -> bool:
    """A number that is written down, alone or in arithmetic with others; 0, 1 and shares between them describe no
    hardware."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, (int, float)) and not isinstance(node.value, bool) and abs(node.value) > 1
    if isinstance(node, ast.UnaryOp):
        return numeral(node.operand)
    if isinstance(node, ast.BinOp):
        constant = all(
            isinstance(n, (ast.Constant, ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop)) for n in ast.walk(node)
        )
        return constant and (numeral(node.left) or numeral(node.right))
    if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
        return any(numeral(item) for item in node.elts)
    return isinstance(node, ast.Dict) and any(numeral(value) for value in node.values)


def given(tree: ast.AST) -> Iterator[tuple[int, str, ast.AST | None]]:
    """Every (line, name, value) in which a name is given a value: assignments, defaults, keywords, entries of
    dictionaries."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            targets = [(t, node.value) for t in node.targets]
            for t in node.targets:
                if (
                    isinstance(t, ast.Tuple)
                    and isinstance(node.value, ast.Tuple)
                    and len(t.elts) == len(node.value.elts)
                ):
                    targets += list(zip(t.elts, node.value.elts, strict=True))
            yield from ((node.lineno, name, value) for target, value in targets if (name := named(target)))
        elif isinstance(node, (ast.AnnAssign, ast.NamedExpr)):
            yield node.lineno, named(node.target), node.value
        elif isinstance(node, ast.keyword):
            yield node.lineno, node.arg or "", node.value
        elif isinstance(node, ast.Dict):
            yield from (
                (node.lineno, str(k.value), v)
                for k, v in zip(node.keys, node.values, strict=True)
                if isinstance(k, ast.Constant)
            )
        elif isinstance(node, ast.arguments):
            positional = [*node.posonlyargs, *node.args]
            defaults = [*zip(positional[len(positional) - len(node.defaults) :], node.defaults, strict=True)]
            defaults += [(a, d) for a, d in zip(node.kwonlyargs, node.kw_defaults, strict=True) if d is not None]
            yield from ((argument.lineno, argument.arg, default) for argument, default in defaults)


def named(target: ast.AST) -> str:
    if isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Constant):
        return str(target.slice.value)
    return target.id if isinstance(target, ast.Name) else target.attr if isinstance(target, ast.Attribute) else ""


def hardware_numbers(text: str, suffix: str) -> list[int]:
    """Lines on which a hardware number is written down."""
    found = [number for number, line in enumerate(text.splitlines(), 1) if HARDWARE_NUMBER.search(line)]
    if suffix == ".py":
        return found + [line for line, name, value in given(ast.parse(text)) if is_hardware(name) and numeral(value)]
    for number, line in enumerate(text.splitlines(), 1):
        pairs = [(a or c, float((b or d).replace("_", ""))) for a, b, c, d in ASSIGNED.findall(line)]
        found += [number for name, value in pairs if is_hardware(name) and value > 1]
    return found


@pytest.mark.parametrize(
    ("text", "suffix"),
    [
        ("# 4.8 TB/s", ".py"),
        ("# 67 TFLOPS, no more", ".py"),
        ("# 835 GFLOP/s", ".py"),
        ("# 1979 TOPS", ".py"),
        ("PEAK = 3350e9", ".py"),
        ("SMS = 132", ".py"),
        ("PEAK_FP32: float = 67 * 10**12", ".py"),
        ("roofs = {'memory_bandwidth': 4.8e12}", ".py"),
        ("headroom(ridge=20.5)", ".py"),
        ("def f(a, flops=2.5, *, sms=132): ...", ".py"),
        ("self.peakBandwidth = -(-3350)", ".py"),
        ("hbm, x = 4.8e12, y", ".py"),
        ("peak_fp32: 67e12", ".yaml"),
        ("const double bandwidth = 3350e9;", ".cpp"),
        ("#define PEAK_BANDWIDTH (3350e9)", ".cpp"),
        ("{% set sms = 132 %}", ".j2"),
    ],
)
def test_the_search_for_hardware_numbers_finds_them(text: str, suffix: str) -> None:
    assert hardware_numbers(text, suffix)


@pytest.mark.parametrize(
    ("text", "suffix"),
    [
        ("flops = 0.0", ".py"),
        ("bandwidth = unique / seconds", ".py"),
        ("x = 132", ".py"),
        ("flops: 0", ".yaml"),
        ("peak == 3", ".cpp"),
    ],
)
def test_the_search_for_hardware_numbers_leaves_others_alone(text: str, suffix: str) -> None:
    assert not hardware_numbers(text, suffix)


MAKERS = {"model_validate", "model_validate_json", "model_construct", "model_validate_strings", "parse_obj"}


def makes_a_spec(tree: ast.AST) -> bool:
    """Whether a Spec is called or validated into being, under its own name, an alias of it or as an attribute of a
    module."""
    aliases = {
        a.asname
        for n in ast.walk(tree)
        if isinstance(n, ast.ImportFrom)
        for a in n.names
        if a.name == "Spec" and a.asname
    }
    aliases |= {
        name
        for n in ast.walk(tree)
        if isinstance(n, ast.Assign) and is_spec(n.value, set())
        for target in n.targets
        if (name := named(target))
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = node.func
            if isinstance(called, ast.Attribute) and called.attr in MAKERS:
                called = called.value
            # TypeAdapter(Spec) makes what it adapts.
            adapted = (
                isinstance(called, ast.Name)
                and called.id == "TypeAdapter"
                and any(is_spec(a, aliases) for a in node.args)
            )
            if is_spec(called, aliases) or adapted:
                return True
    return False


def is_spec(node: ast.AST, aliases: set[str]) -> bool:
    return (isinstance(node, ast.Name) and node.id in {"Spec", *aliases}) or (
        isinstance(node, ast.Attribute) and node.attr == "Spec"
    )


def test_only_specs_makes_a_spec() -> None:
    makers = {relative(path) for path in SOURCES if makes_a_spec(ast.parse(path.read_text()))}
    assert makers == {"knowledge_base/specs/lookup.py"}


@pytest.mark.parametrize(
    "text",
    [
        "Spec(metric='m')",
        "hardware.Spec(metric='m')",
        "tools.roofline.hardware.Spec.model_validate(found)",
        "Spec.model_validate_json(text)",
        "Spec.model_construct(**found)",
        "from tools.roofline.hardware import Spec as S\nS(metric='m')",
        "S = hardware.Spec\nS.model_validate(found)",
        "TypeAdapter(Spec).validate_python(found)",
    ],
)
def test_no_way_to_make_a_spec_is_overlooked(text: str) -> None:
    assert makes_a_spec(ast.parse(text))
    assert not makes_a_spec(ast.parse("isinstance(found, Spec)\nSpecSheet(specs=())\nx: tuple[Spec, ...] = ()"))


def test_the_harness_imports_nothing_of_ours() -> None:
    for path in (ROOT / "tools" / "harness").rglob("*.py"):
        for node in nodes(path):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            for name in names:
                assert name.split(".")[0] not in PACKAGES, f"{relative(path)} imports {name}"


def test_no_folder_for_leftovers() -> None:
    forbidden = {"utils", "common", "core", "helpers", "misc"}
    assert not [relative(path) for path in SOURCES if forbidden & {path.stem, *path.relative_to(ROOT).parts}]


HEAVY = {
    "torch",
    "triton",
    "numpy",
    "tree_sitter",
    "tree_sitter_cpp",
    "tree_sitter_cuda",
    "rich",
    "jinja2",
    "langgraph",
    "chromadb",
    "onnxruntime",
    "tokenizers",
}
STATE_MACHINE = {"graph/build.py", "graph/routing.py"}
"""Loaded only once a run starts, so that they may have langgraph at their top."""


def loaded_at_once(tree: ast.AST) -> set[str]:
    """Top packages that importing a module imports: inside its own `if`, `try` and `class`, too, but not in
    functions or for types only."""
    found: set[str] = set()
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            found |= {a.name.split(".")[0] for a in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add((node.module or "").split(".")[0])
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            found |= set().union(*(loaded_at_once(ast.Module([n], [])) for n in node.orelse))
        elif not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            found |= loaded_at_once(node)
    return found


def test_heavy_packages_are_imported_where_they_are_used() -> None:
    """`--help` must answer at once: nothing at module level may pull torch, triton, langgraph or a parser in."""
    for path in SOURCES:
        # The one is copied beside the device, the other into what `export` writes: nothing here imports them.
        if "harness" in path.parts or relative(path) == "graph/export/runtime.py":
            continue
        allowed = {"langgraph"} if relative(path) in STATE_MACHINE else set()
        assert not (loaded_at_once(ast.parse(path.read_text())) & HEAVY) - allowed, relative(path)


@pytest.mark.parametrize("program", ["graph", "tools", "knowledge_base"])
def test_help_loads_nothing_heavy(program: str) -> None:
    tried = (
        f"import runpy, sys\ntry:\n runpy.run_module('{program}', run_name='__main__', alter_sys=True)\nexcept "
        f"SystemExit:\n"
    )
    tried += f" print(*({HEAVY | {'yaml', 'pydantic'}!r} & set(sys.modules)), file=sys.stderr)"
    done = run_captured([sys.executable, "-c", tried, "--help"], cwd=ROOT, check=True)
    assert "usage:" in done.stdout
    assert done.stderr.strip() == ""


def test_what_a_run_imports_first_is_light() -> None:
    program = f"import sys, graph.lifecycle.run; print(*({HEAVY!r} & set(sys.modules)))"
    done = run_captured([sys.executable, "-c", program], cwd=ROOT, check=True)
    assert done.stdout.strip() == ""


@pytest.mark.parametrize(
    "text", ["import torch", "try:\n import torch.nn\nexcept ImportError: pass", "class A:\n from torch import nn"]
)
def test_no_import_at_module_level_is_overlooked(text: str) -> None:
    assert loaded_at_once(ast.parse(text)) & HEAVY
    assert not loaded_at_once(ast.parse("if TYPE_CHECKING:\n import torch\ndef f():\n import torch"))


# ---------------------------------------------------------------- rooms

MOST_MODULES = 16
"""In one folder: as many as a reader keeps in mind."""
FOLDERS = sorted({path.parent for path in SOURCES})


def module_name(path: Path) -> str:
    """As it is imported: the harness's modules are `harness.x`, since its folder stands beside the device without
    `tools`."""
    parts = path.relative_to(ROOT / "tools" if "harness" in path.parts else ROOT).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


def imports() -> dict[str, set[str]]:
    """Module -> modules of ours that it imports, at its top, in functions and for types; names in registries do not
    count."""
    known = {module_name(path) for path in SOURCES}
    found: dict[str, set[str]] = {}
    for path in SOURCES:
        said: set[str] = set()
        for node in nodes(path):
            if isinstance(node, ast.Import):
                said |= {a.name for a in node.names}
            elif isinstance(node, ast.ImportFrom):
                assert node.module and not node.level, f"{relative(path)}:{node.lineno}: a relative import"
                said |= {inner if (inner := f"{node.module}.{a.name}") in known else node.module for a in node.names}
        found[module_name(path)] = said & known - {module_name(path)}
    return found


def circles(edges: dict[str, set[str]]) -> list[str]:
    """Names that can be reached from themselves."""

    def reached(start: str) -> set[str]:
        seen: set[str] = set()
        left = [start]
        while left:
            left += (new := edges.get(left.pop(), set()) - seen)
            seen |= new
        return seen

    return sorted(name for name in edges if name in reached(name))


def test_no_room_holds_more_modules_than_a_reader_keeps_in_mind() -> None:
    sizes = {relative(folder): len([p for p in folder.glob("*.py") if p.name != "__init__.py"]) for folder in FOLDERS}
    assert not {folder: size for folder, size in sizes.items() if size > MOST_MODULES}


def test_no_module_imports_itself_through_others() -> None:
    assert not circles(imports())


def test_no_room_imports_itself_through_others() -> None:
    """A file that stands in a layer's own folder is a room of its own: the layer's foundation or its top."""
    edges = imports()

    def room(name: str) -> str:
        return name if name.count(".") < 2 else name.rpartition(".")[0]

    rooms: dict[str, set[str]] = {}
    for name, targets in edges.items():
        rooms.setdefault(room(name), set()).update(room(target) for target in targets)
    assert not circles({name: targets - {name} for name, targets in rooms.items()})


@pytest.mark.parametrize("folder", FOLDERS, ids=relative)
def test_each_room_says_what_it_is_in_one_docstring(folder: Path) -> None:
    (said,) = ast.parse((folder / "__init__.py").read_text()).body
    assert isinstance(said, ast.Expr) and isinstance(said.value, ast.Constant) and isinstance(said.value.value, str)


def test_a_circle_is_found() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}) == ["b", "c"]
