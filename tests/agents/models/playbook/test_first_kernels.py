"""First kernels from references alone: right by the judge in many styles, and refused in one sentence where there is no C++."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agents.artifacts import CoderBrief, Plan
from agents.models.playbook.first.writing import first_draft
from tests.agents.models.playbook.references import REFERENCES, SIZES, empty, randn, source
from tools.artifacts import Candidate
from tools.executors.local import Local
from tools.gate.policy import Policy
from tools.judge import evidence
from tools.judge.judge import Judge
from tools.languages.cpp import Cpp
from tools.store.records import Records
from tools.tasks import loader as tasks
from tools.tasks.loader import Loaded

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Local, Records]]:
    folder = tmp_path_factory.mktemp("first")
    (folder / "scratch").mkdir()
    records = Records(folder)
    with Local(records.blobs, folder / "scratch") as executor:
        yield executor, records


def load(text: str, folder: Path, stage: tuple[Local, Records]) -> Loaded:
    (folder / "reference.py").write_text(text)
    return tasks.load_folder(folder, stage[0], stage[1].blobs)


def draft(loaded: Loaded) -> tuple[str | None, str]:
    """(source, why there is none)."""
    plan = Plan(methods=(), candidates=1)
    brief = CoderBrief(task=loaded.task, source="", plan=plan, pages=(), tried=(), traces=loaded.traces, untraced=loaded.untraced)
    answer = first_draft(brief)
    return (answer.drafts[0].source if answer.drafts else None), "".join(answer.skipped.values())


@pytest.mark.parametrize("name", sorted(REFERENCES))
def test_first_kernel_passes_the_judge(name: str, tmp_path: Path, stage: tuple[Local, Records]) -> None:
    loaded = load(REFERENCES[name], tmp_path, stage)
    text, why = draft(loaded)
    assert text is not None, why
    kernel = Candidate(language="cpp", files={"kernel.cpp": text})
    executor, records = stage
    judge = Judge(
        loaded.task,
        Cpp(),
        executor,
        records,
        environment="",
        device="cpu",
        secret=bytes(32),
        policy=Policy(),
        emit=lambda event, fields: None,
    )
    refused = judge.screened(kernel)
    assert refused is None, f"{refused}\n{text}"
    failed = evidence.build_failure(judge.builds.build(kernel)) or evidence.correctness_failure(judge.correctness(kernel, None, "baseline"))
    assert failed is None, f"{failed.reason}\n{failed.log}\n{text}"


X = {"x": randn("M", "N"), "out": empty("M", "N"), "M": "M", "N": "N"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (source("return x.sort(-1).values", X, SIZES), ["torch's sort", "give a kernel", "language model"]),
        (source("return x if x.sum() > 0 else -x", X, SIZES), ["looks at a tensor's value", "line", "torch.where"]),
        (source("return x.relu() if M > 20 else x", X, SIZES), ["other operations at other sizes"]),
        (source("return x.relu()", {"x": randn("M", "N"), "out": empty("M", "N")}, SIZES), ["axis 0 of `x`", "scalar"]),
        (source("return x * torch.tensor([1.0, 2.0])[M % 2]", X, SIZES), ["table of numbers"]),
        (source("for _ in range(250):\n    x = (x + 1) * 0.5\nreturn x", X, SIZES), ["too many operations", "give a kernel"]),
        (source("for _ in range(30000):\n    x = x + 1\nreturn x", X, SIZES), ["more than 2,000 times", "whole tensors", "give a kernel"]),
    ],
)
def test_what_cannot_be_written_is_one_sentence(text: str, words: list[str], tmp_path: Path, stage: tuple[Local, Records]) -> None:
    made, why = draft(load(text, tmp_path, stage))
    assert made is None
    assert all(word in why for word in words), why
    assert "\n" not in why


def test_a_first_kernel_takes_its_sizes_and_numbers_from_its_scalars(tmp_path: Path, stage: tuple[Local, Records]) -> None:
    text, why = draft(load(source("return x * s * k / (M * N)", {**X, "s": "0.5", "k": "3"}, SIZES), tmp_path, stage))
    assert text is not None, why
    body = text[text.index("{") :]
    assert "float(s)" in body or "* s" in body
    assert "float(k)" in body
    assert "48" not in text
    assert "72" not in text
    assert " 3" not in body


def test_rows_share_one_loop_and_need_no_array(tmp_path: Path, stage: tuple[Local, Records]) -> None:
    text, _ = draft(load(REFERENCES["softmax"], tmp_path, stage))
    assert text is not None
    assert text.count("for (int64_t i0") == 1
    assert "vector" not in text


def test_other_languages_are_left_to_models(tmp_path: Path, stage: tuple[Local, Records]) -> None:
    loaded = load(REFERENCES["softmax"], tmp_path, stage)
    _, why = draft(loaded.model_copy(update={"task": loaded.task.model_copy(update={"language": "triton"})}))
    assert "C++ alone" in why
    assert "triton" in why
