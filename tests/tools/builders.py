"""What several tests of the tools are built of: the softmax of a matrix as a task, and a judge."""

from __future__ import annotations

from typing import Any

from tools.artifacts import Argument, Task, Workload
from tools.executors.base import Executor
from tools.gate.judge_settings import JudgeSettings
from tools.judge.judge import Judge
from tools.languages.base import Language
from tools.store.records import Records

REFERENCE = """
import torch

outputs = ("out",)


def make_inputs(dims, seed):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(dims["M"], dims["N"], generator=generator)
    return {"x": x, "out": torch.empty_like(x), "M": dims["M"], "N": dims["N"]}


def reference(x, out, M, N):
    return torch.softmax(x, dim=1)
"""


def softmax(**changes: Any) -> Task:
    """Of a float32 matrix of M rows and N columns, in C++ if nothing else is said."""
    tensor: dict[str, Any] = {"dtype": "float32", "shape": ("M", "N")}
    tensors = (Argument(name="x", role="input", **tensor), Argument(name="out", role="output", **tensor))
    scalars = (Argument(name="M", role="scalar", dtype="int32"), Argument(name="N", role="scalar", dtype="int32"))
    workloads = (Workload(name="w", dims={"M": 4096, "N": 1024}),)
    fields = {
        "name": "softmax",
        "language": "cpp",
        "arguments": tensors + scalars,
        "reference": REFERENCE,
        "workloads": workloads,
    }
    return Task(**(fields | changes))


def open_judge(
    task: Task,
    language: Language,
    executor: Executor,
    records: Records,
    policy: JudgeSettings,
    kind: type[Judge] = Judge,
    **changes: Any,
) -> Judge:
    """The real judge, which tells nobody what it does."""
    options = {"environment": "e", "device": "cpu:0", "secret": b"s" * 32, "emit": lambda kind, details: None}
    return kind(task, language, executor, records, policy=policy, **(options | changes))
