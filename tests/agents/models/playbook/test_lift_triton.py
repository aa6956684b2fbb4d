"""Triton kernels lifted from what Inductor wrote on an H200 (torch 2.11): text that was recorded there, with its launches."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

from agents.models.playbook.lift.triton import lifted
from tools.artifacts import Argument
from tools.executors.protocol import InductorResult
from tools.screen.screen import screen

RECORDED = sorted((Path(__file__).parent / "inductor").glob("*.json"))


@pytest.fixture(params=RECORDED, ids=lambda path: path.stem)
def recorded(request: pytest.FixtureRequest) -> tuple[tuple[Argument, ...], InductorResult]:
    found = json.loads(request.param.read_text())
    return tuple(Argument.model_validate(a) for a in found.pop("arguments")), InductorResult.model_validate(found)


def test_what_is_lifted_needs_nothing_of_inductor_and_passes_the_screen(recorded: tuple[tuple[Argument, ...], InductorResult]) -> None:
    arguments, found = recorded
    text = lifted(arguments, found)
    assert screen(text, "triton", (), [a.name for a in arguments if a.role != "scalar"]) == ()
    assert "inductor" not in text.partition('"""\n')[2] and "triton_helpers" not in text


def test_each_kernel_is_launched_with_the_settings_that_ran(recorded: tuple[tuple[Argument, ...], InductorResult]) -> None:
    arguments, found = recorded
    tree = ast.parse(lifted(arguments, found))
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert [a.arg for a in functions["run_kernel"].args.args] == [a.name for a in arguments]
    for number, variant in enumerate(found.variants):
        calls = [n for n in ast.walk(functions[f"variant_{number}"]) if isinstance(n, ast.Call) and isinstance(n.func, ast.Subscript)]
        given = [{k.arg: ast.unparse(k.value) for k in call.keywords} for call in calls]
        assert len(calls) == len(variant.launches)
        for launch in variant.launches.values():
            blocks = {name: repr(value) for name, value in launch.config.items() if name.endswith("BLOCK") or name.startswith("num_")}
            assert any(blocks.items() <= one.items() for one in given), blocks


def test_other_sizes_have_code_of_their_own(recorded: tuple[tuple[Argument, ...], InductorResult]) -> None:
    arguments, found = recorded
    (entry,) = (n for n in ast.parse(lifted(arguments, found)).body if isinstance(n, ast.FunctionDef) and n.name == "run_kernel")
    first = entry.body[0]
    assert isinstance(first, ast.If) and ast.unparse(first.test) == " and ".join(found.variants[0].conditions)
    assert "variant_1(" in ast.unparse(entry.body[-1])
