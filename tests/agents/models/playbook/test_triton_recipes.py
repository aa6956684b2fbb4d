"""Triton's recipes on kernels that were not written for them: the interpreter's result stays torch's, and a second
pass changes nothing."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from triton_calling import errors
from triton_foreign import HEAD, KERNELS, PLAIN, ROWS

from agents.models.playbook.recipe import RECIPES, load_recipe
from tools.screen.screen import screen

pytest.importorskip("triton")
SITES = {
    "triton_single_pass": tuple(ROWS),
    "triton_launch": (*ROWS, *PLAIN),
}
SMALL = {"triton_launch": {"BLOCK": "64"}}
TOLERANCE = {"half": 3e-3, "single": 2e-5}


def tolerance(name: str) -> float:
    return TOLERANCE["half" if any("half" in str(v) for v in KERNELS[name].arguments.values()) else "single"]


def hold(sources: dict[str, str], folder: Path) -> None:
    found = errors(
        [[source, KERNELS[name].arguments, KERNELS[name].expected] for name, source in sources.items()], folder
    )
    wrong = {n: (e, sources[n]) for n, e in zip(sources, found, strict=True) if isinstance(e, str) or e > tolerance(n)}
    assert not wrong, "\n\n".join(f"{n}: {e}\n{s}" for n, (e, s) in wrong.items())


def test_every_recipe_is_tried_on_at_least_four_foreign_kernels() -> None:
    assert set(SITES) == {name for name in RECIPES if load_recipe(name).language == "triton"}
    assert all(len(names) >= 4 for names in SITES.values())


def test_the_foreign_kernels_are_right_themselves(tmp_path: Path) -> None:
    hold({name: given.source for name, given in KERNELS.items()}, tmp_path)


@pytest.mark.parametrize("name", sorted(SITES))
def test_recipe_keeps_the_result(name: str, tmp_path: Path) -> None:
    made, edited = load_recipe(name), {}
    for kernel in SITES[name]:
        source = KERNELS[kernel].source
        edited[kernel] = made.edit(source, SMALL.get(name, {}))
        assert edited[kernel] != source, f"{name} finds no place in {kernel}"
        assert made.edit(edited[kernel], SMALL.get(name, {})) == edited[kernel], f"{name} is not idempotent on {kernel}"
    hold(edited, tmp_path)


def test_rows_that_do_not_fit_keep_their_loops(tmp_path: Path) -> None:
    hold({name: load_recipe("triton_single_pass").edit(ROWS[name].source, {"LIMIT": "64"}) for name in ROWS}, tmp_path)


@pytest.mark.slow
def test_all_recipes_together_keep_the_result(tmp_path: Path) -> None:
    edited = {}
    for kernel, given in KERNELS.items():
        source = given.source
        for name in SITES:
            source = load_recipe(name).edit(source, SMALL.get(name, {}))
        for name in SITES:
            assert load_recipe(name).edit(source, SMALL.get(name, {})) == source, (kernel, name)
        edited[kernel] = source
    hold(edited, tmp_path)


@pytest.mark.parametrize("kernel", sorted(KERNELS))
def test_nothing_that_the_screen_refuses_is_added(kernel: str) -> None:
    source = KERNELS[kernel].source
    before = {text.partition(": ")[2] for text in screen(source, "triton")}
    for name in SITES:
        source = load_recipe(name).edit(source, {})
    assert {text.partition(": ")[2] for text in screen(source, "triton")} <= before


def test_knobs_stand_in_the_source_and_can_be_changed() -> None:
    for name, kernels in SITES.items():
        made = load_recipe(name)
        edited = made.edit(KERNELS[kernels[0]].source, {})
        assert made.present(edited) == {knob: values[0] for knob, values in made.knobs.items()}
        for knob, values in made.knobs.items():
            assert made.present(made.set_knobs(edited, {knob: values[-1]}))[knob] == values[-1]


def test_the_first_block_is_loaded_once() -> None:
    for name, loads in {
        "SOFTMAX_COUNTED": 1,
        "SOFTMAX_VIA_OUT": 1,
        "RMS_HALF": 2,
        "LOG_SOFTMAX": 1,
        "CROSS_ENTROPY": 2,
    }.items():
        edited = load_recipe("triton_single_pass").edit(ROWS[name].source, {})
        copy = edited.split("_row(")[1].split("@triton.jit")[0]
        assert copy.count("tl.load") == loads and "for " not in copy, copy
    via_out = (
        load_recipe("triton_single_pass")
        .edit(ROWS["SOFTMAX_VIA_OUT"].source, {})
        .split("_row(")[1]
        .split("@triton.jit")[0]
    )
    assert via_out.count("tl.store") == 1


BROKEN = {
    "not masked": ('tl.load(X + pid * sx + o, m, -float("inf"))', "tl.load(X + pid * sx + o)"),
    "masked by something else": ("m = o < n", "m = o < sx"),
    "leaves the loop early": (
        "        num = tl.exp(v - mx)\n        den",
        "        if i > 3:\n            break\n        num = tl.exp(v - mx)\n        den",
    ),
    "block width used elsewhere": ('mx = -float("inf")', 'mx = -float("inf") * BS'),
    "adds atomically": ("den += tl.sum(num, 0)", "den += tl.sum(num, 0)\n        tl.atomic_add(Y, den)"),
    "counter outlives the loop": ("    den = 0.0\n", "    den = 0.0 * i\n"),
    "length is changed": ("    nb = tl.cdiv(n, BS)\n", "    n = n + 0\n    nb = tl.cdiv(n, BS)\n"),
    "same buffer twice": ("(y, x, x.stride(0)", "(x, x, x.stride(0)"),
    "launched through a name": ("    _sm[(rows,)]", "    launch = _sm\n    _sm[(rows,)]"),
    "arguments unpacked": ("y.stride(0), n, 32)", "*(y.stride(0), n, 32))"),
    "grid by the block": ("_sm[(rows,)]", "_sm[lambda meta: (rows * meta['BS'] // 32,)]"),
    "the launch is not a statement": ("    _sm[(rows,)]", "    done = _sm[(rows,)]"),
}


@pytest.mark.parametrize("what", sorted(BROKEN))
def test_single_pass_refuses_what_it_does_not_understand(what: str) -> None:
    old, new = BROKEN[what]
    source = ROWS["SOFTMAX_COUNTED"].source.replace(old, new)
    assert source != ROWS["SOFTMAX_COUNTED"].source
    assert load_recipe("triton_single_pass").edit(source, {}) == source


@pytest.mark.parametrize(
    "source",
    ["", "def f(:\n", "x = 1\n", HEAD + "def run_kernel(x):\n    pass\n", 'extern "C" void solve(float* x) {}\n'],
)
@pytest.mark.parametrize("name", sorted(SITES))
def test_other_texts_come_back_as_they_are(name: str, source: str) -> None:
    assert load_recipe(name).edit(source, {}) == source and not load_recipe(name).applies(source)
