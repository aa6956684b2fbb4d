"""What several tests of the tools run beside."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tools.executors.local import Local
from tools.store.records import Blobs


@pytest.fixture(scope="module")
def beside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Local, Blobs]]:
    """This machine and its blobs, for all tests of a module: the oracle starts once."""
    folder = tmp_path_factory.mktemp("beside")
    blobs = Blobs(folder / "blobs")
    with Local(blobs, folder / "scratch") as executor:
        yield executor, blobs
