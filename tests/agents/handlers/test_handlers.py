"""Handlers on real kernels: what applies where, and drafts that lost a part compile and compute again once it is put
back."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from agents.artifacts import CoderBrief, Draft, Drafts
from agents.checks.drafts import faults_of
from agents.handlers.base import applying, hints, mended, opened
from agents.roles import coder
from tests.agents.models.playbook import triton_foreign
from tests.agents.models.playbook.calling import build, compare
from tests.agents.models.playbook.kernels import KERNELS, source
from tests.agents.scripted import agent
from tests.contracts.test_models import PLAN, TASK

ROOT = Path(__file__).parents[3]
LAYERED = Path(__file__).with_name("layered.cpp").read_text()
"""Licence, nested namespace, templates with an instantiation, several functions, a wrapper."""
HEAD = LAYERED[: LAYERED.index("#include")]
WRAPPER = LAYERED[LAYERED.index('extern "C"') :]
SPECIFICATION = ["in:9x40", "out:9x40", 9, 40]
TRITON = (ROOT / "configs/tasks/triton-softmax/kernel.py").read_text()
TWO = triton_foreign.PLAIN["TWO_KERNELS"].source


def brief(source: str, language: str = "cpp") -> CoderBrief:
    return CoderBrief(task=TASK.model_copy(update={"language": language}), source=source, plan=PLAN, pages=(), tried=())


def after(draft: str, source: str = LAYERED, language: str = "cpp") -> str:
    asked = brief(source, language)
    once = mended(opened(), Draft(source=draft, methods=()), asked)
    assert mended(opened(), once, asked) == once, "mending twice changes nothing more"
    return once.source


def same(draft: str, folder: Path) -> bool:
    """Whether a draft, mended, compiles and computes what the source does."""
    libraries = [str(build(text, folder, name)) for name, text in (("given", LAYERED), ("mended", after(draft)))]
    return compare([[*libraries, SPECIFICATION]], folder)[0] < 1e-6


@pytest.mark.parametrize(
    ("source", "language", "named"),
    [
        (LAYERED, "cpp", ("prose", "several", "namespaces", "templates")),
        (source("softmax_int"), "cpp", ()),
        (source("softmax_rows"), "cpp", ()),
        ("namespace {\nint a() { return 1; }\nint b() { return 2; }\n}\n" + source("softmax_int"), "cpp", ("several",)),
        (TRITON, "triton", ()),
        (TWO, "triton", ("several",)),
        ('"""One.\n\nTwo.\nThree.\nFour.\n"""\n' + TRITON.split('"""', 2)[2], "triton", ("prose",)),
        ("", "cpp", ()),
        ("def broken(:\n", "triton", ()),
    ],
)
def test_what_applies(source: str, language: str, named: tuple[str, ...]) -> None:
    assert tuple(handler.name for handler in applying(opened(), source, language)) == named
    assert len(hints(opened(), source, language)) == len(named) and all(hints(opened(), source, language))


def test_a_whole_draft_is_left_as_it_is() -> None:
    changed = LAYERED.replace("s += x[i]", "s = s + x[i]")
    assert after(changed) == changed
    for name in KERNELS:
        assert after(source(name).replace("{", "{ ", 1), source(name)) == source(name).replace("{", "{ ", 1), name


def test_a_lost_licence_stands_at_the_top_again() -> None:
    bare = LAYERED.removeprefix(HEAD)
    assert after(bare).startswith(HEAD.rstrip()) and after(bare).endswith(WRAPPER)
    own = "/* Copyright 2026 The Authors, MIT licence */\n" + bare
    assert after(own) == own, "written in another way it is there"
    text = "// A softmax.\n// Row by row.\n// In three passes.\n// Slow.\n// Not for use.\n" + source("softmax_int")
    assert after(source("softmax_int") + "// mine\n", text).startswith("#include"), (
        "a description is the author's to drop"
    )


def test_a_wrapper_is_not_put_back_where_what_it_calls_is_gone() -> None:
    renamed = LAYERED.replace(WRAPPER, "").replace("scale", "scaled")
    assert "solve" not in after(renamed)
    assert "`solve` is not defined" in faults_of(Draft(source=after(renamed), methods=()), brief(LAYERED))[0]


INSTANTIATION = "template void scale<float, 8>(const float*, float*, int);\n"
SQUARED = LAYERED[LAYERED.index("template <typename T>\nstatic") : LAYERED.index("template <typename T, int B>")]


@pytest.mark.parametrize(
    ("lost", "back"),
    [
        (LAYERED.replace(WRAPPER, "").replace(INSTANTIATION, ""), ['extern "C" void solve', INSTANTIATION]),
        (LAYERED.replace("namespace ops::detail {\n", "").replace("}  // namespace ops::detail\n", ""), []),
        (LAYERED.replace(SQUARED, "  // keep: squared\n\n"), ["static inline T squared(T v) { return v * v; }"]),
    ],
    ids=["wrapper and instantiation", "namespace", "kept by name"],
)
def test_what_a_draft_lost_is_put_back_and_computes_the_same(lost: str, back: list[str], tmp_path: Path) -> None:
    assert all(after(lost).count(text) == 1 for text in back) and same(lost, tmp_path)


def test_a_triton_kernel_is_kept_with_its_decorators() -> None:
    start, end = TWO.index("@triton.jit\ndef add"), TWO.index("@triton.jit\ndef double")
    short = TWO[:start] + "# keep: add\n\n\n" + TWO[end:].replace("2 * tl.load", "3 * tl.load")
    text = after(short, TWO, "triton")
    assert ast.dump(ast.parse(text)) == ast.dump(ast.parse(TWO.replace("2 * tl.load", "3 * tl.load")))


@pytest.mark.parametrize(
    "line", ["// keep: nothing_of_the_kind", "// keep: sum", "// keep: squared, nothing_of_the_kind"]
)
def test_nothing_is_invented_for_what_the_source_does_not_have(line: str) -> None:
    """Nor for what the draft defines itself."""
    short = LAYERED.replace("}  // namespace", f"{line}\n}}  // namespace")
    assert after(short) == short
    assert (
        f"`{line}` names nothing that the given file defines once"
        in faults_of(Draft(source=short, methods=()), brief(LAYERED))[0]
    )


def test_mending_reaches_the_candidates(tmp_path: Path) -> None:
    lost = LAYERED.removeprefix(HEAD).replace("s += x[i]", "s = s + x[i]").replace(WRAPPER, "")
    asked, model = agent("coder", tmp_path, [Drafts(drafts=(Draft(source=lost, methods=()),))])
    (made,) = coder.write(asked, brief(LAYERED), "p", ".cpp")
    assert made.source.startswith(HEAD.rstrip()) and 'extern "C" void solve' in made.source and len(model.asked) == 1
