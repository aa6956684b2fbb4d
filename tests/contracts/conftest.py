"""What all seams share: a store, an executor to work with, and one small task in each language.

A new language brings `kernels/<name>/good.*` and `bad.*`: the same kernel, once right and once with the name
`nowhere_declared` in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import toolchain_here
from tools.artifacts import Argument, Candidate, Task, Workload
from tools.errors import SettingsError
from tools.executors.base import Executor
from tools.executors.local import LocalExecutor
from tools.executors.toolchain import Toolchain
from tools.languages.base import LANGUAGES, Language, open_language
from tools.store.blobs import Blobs

KERNELS = Path(__file__).parent / "kernels"
REFERENCE = """
import torch

outputs = ("y",)


def make_inputs(dims, seed):
    x = torch.randn(dims["n"], generator=torch.Generator().manual_seed(seed))
    return {"x": x, "y": torch.empty_like(x), "n": dims["n"]}


def reference(x, y, n):
    return 2 * x + x.exp()
"""


@pytest.fixture
def blobs(tmp_path: Path) -> Blobs:
    return Blobs(tmp_path / "blobs")


@pytest.fixture
def beside(blobs: Blobs, tmp_path: Path) -> Iterator[Executor]:
    """The machine itself, for suites about other seams."""
    with LocalExecutor(blobs, tmp_path / "scratch") as executor:
        yield executor


@pytest.fixture(scope="session")
def toolchain(tmp_path_factory: pytest.TempPathFactory) -> Toolchain:
    """What is installed on this machine."""
    return toolchain_here(tmp_path_factory.mktemp("toolchain"))


@pytest.fixture(params=sorted(LANGUAGES))
def language(request: pytest.FixtureRequest, toolchain: Toolchain) -> Language:
    """Each registered language that this machine has a toolchain for."""
    found = open_language(request.param)
    try:
        found.compiler(toolchain)
    except SettingsError as error:
        pytest.skip(str(error))
    return found


def kernel(language: Language, name: str) -> Candidate:
    path = KERNELS / language.name / f"{name}{language.suffix}"
    assert path.is_file(), (
        f"a language brings tests/contracts/{path.relative_to(KERNELS.parent)}, see tests/contracts/conftest.py"
    )
    return Candidate(language=language.name, files={f"kernel{language.suffix}": path.read_text()})


def task(language: Language) -> Task:
    """y = 2 x + exp(x) over n elements."""
    return Task(
        name="contract",
        language=language.name,
        arguments=(
            Argument(name="x", role="input", dtype="float32", shape=("n",)),
            Argument(name="y", role="output", dtype="float32", shape=("n",)),
            Argument(name="n", role="scalar", dtype="int32"),
        ),
        reference=REFERENCE,
        baseline=kernel(language, "good").source,
        workloads=(Workload(name="w", dims={"n": 4096}),),
    )
