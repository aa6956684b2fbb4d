"""What tests of the coder and of its tools run beside."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agents.softmax import judge
from tests.tools.judge.test_judge import Counting
from tools.judge.judge import Judge
from tools.store.records import Records


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Counting]]:
    root = tmp_path_factory.mktemp("judging")
    with Counting(Records(root).blobs, root / "scratch") as executor:
        yield root, executor


@pytest.fixture
def judging(place: tuple[Path, Counting]) -> Judge:
    return judge(*place)
