"""Kernels lifted from what torch.compile makes of references: right by the judge, and refused in one sentence where
a library is called."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agents.lift.from_reference import lift_reference
from tests.agents.lift.references import MN, REFERENCES, SIZES, empty, randn, source
from tools.artifacts import Candidate
from tools.errors import SettingsError
from tools.executors.local import LocalExecutor
from tools.gate.judge_settings import JudgeSettings
from tools.judge import evidence
from tools.judge.judge import Judge
from tools.languages.cpp import Cpp
from tools.store.records import Records
from tools.tasks import loader as tasks
from tools.tasks.inductor_code import generate_inductor_code
from tools.tasks.loader import LoadedTask

pytestmark = pytest.mark.slow
Stage = tuple[LocalExecutor, Records]


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    folder = tmp_path_factory.mktemp("lift")
    (folder / "scratch").mkdir()
    records = Records(folder)
    with LocalExecutor(records.blobs, folder / "scratch") as executor:
        yield executor, records


def load(text: str, folder: Path, stage: Stage) -> LoadedTask:
    (folder / "reference.py").write_text(text)
    return tasks.load_task_folder(folder, stage[0], stage[1].blobs)


@pytest.mark.parametrize("name", sorted(REFERENCES))
def test_a_lifted_kernel_passes_the_judge_at_sizes_that_torch_compile_never_saw(
    name: str, tmp_path: Path, stage: Stage
) -> None:
    executor, records = stage
    loaded = load(REFERENCES[name], tmp_path, stage)
    text = lift_reference(loaded.task, generate_inductor_code(loaded.task, executor, records.blobs, 600))
    kernel = Candidate(language="cpp", files={"kernel.cpp": text})
    judge = Judge(
        loaded.task,
        Cpp(),
        executor,
        records,
        environment="",
        device="cpu",
        secret=bytes(32),
        policy=JudgeSettings(),
        emit=lambda event, fields: None,
    )
    refused = judge.screen_failure(kernel)
    assert refused is None, f"{refused}\n{text}"
    failed = evidence.build_failure(judge.builder.read_or_build(kernel)) or evidence.correctness_failure(
        judge.read_or_check_correctness(kernel, None, "baseline")
    )
    assert failed is None, f"{failed.reason}\n{failed.log}\n{text}"


BGN = {name: name for name in "BGN"}
GROUPS: dict[str, int | float] = {"B": 3, "G": 2, "N": 36}
MANY = 'dims_range = {"G": (1, 8), "N": (8, 64)}'
X = {"x": randn("M", "N"), "out": empty("M", "N"), **MN}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (source("return x.sort(-1).values", X, SIZES), "torch's sort"),
        (source("return torch.cumsum(x, dim=1)", X, SIZES), "torch's cumsum"),
        (source("return x @ x.t() @ x", X, SIZES), "torch's mm"),
        (source("return x if x.sum() > 0 else -x", X, SIZES), "looks at a tensor's value"),
        (
            source(
                "return x * 2", {"x": f"{randn('M', 'N')}.half()", "out": empty("M", "N", dtype="float16"), **MN}, SIZES
            ),
            "the type Half",
        ),
        (
            source("return x * WEIGHTS", X, SIZES, extra="WEIGHTS = torch.ones(72)"),
            "reads WEIGHTS, which is not one of its arguments",
        ),
        (
            source("return x * 2", {"x": randn("M", "N"), "out": empty("M", "N")}, SIZES),
            "is no simple formula of the scalars",
        ),
        (
            source(
                "return F.group_norm(x, G)",
                {"x": randn("B", "4 * G", "N"), "out": empty("B", "4 * G", "N"), **BGN},
                GROUPS,
                extra=MANY,
            ),
            "each value of G",
        ),
        (
            source(
                "y = c[K].expand(N)\nfor k in range(K - 1, -1, -1):\n    y = y * x + c[k]\nreturn y",
                {"x": randn("N"), "c": randn("K + 1"), "out": empty("N"), "N": "N", "K": "K"},
                {"N": 36, "K": 5},
                extra='dims_range = {"K": (1, 8), "N": (8, 64)}',
            ),
            "each value of K",
        ),
    ],
)
def test_what_is_not_lifted_is_named_with_what_would_help(text: str, words: str, tmp_path: Path, stage: Stage) -> None:
    loaded = load(text, tmp_path, stage)
    with pytest.raises(SettingsError, match=words) as caught:
        lift_reference(loaded.task, generate_inductor_code(loaded.task, stage[0], stage[1].blobs, 600))
    assert "give a kernel" in str(caught.value)


def test_references_with_other_modules_are_not_taken_for_each_other_in_one_process(
    tmp_path: Path, stage: Stage
) -> None:
    for part in ("Tanh", "Softplus"):
        (folder := tmp_path / part).mkdir()
        extra = f"model = torch.nn.Sequential()\nmodel.add_module({part!r}, torch.nn.{part}())"
        loaded = load(
            source("return torch.func.functional_call(model, {}, (x,))", X, SIZES, extra=extra), folder, stage
        )
        assert part.lower() in lift_reference(
            loaded.task, generate_inductor_code(loaded.task, stage[0], stage[1].blobs, 600)
        )
