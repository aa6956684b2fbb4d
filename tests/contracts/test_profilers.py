"""What every profiler promises (`tools.profilers.base`), for each language that it can read."""

from __future__ import annotations

import re

import pytest

from tests.contracts.conftest import kernel, task
from tools.executors.base import Executor
from tools.executors.toolchain import Toolchain
from tools.executors.toolchain_job import read_toolchain
from tools.languages.base import Language
from tools.profilers.base import PROFILERS, Profiler
from tools.registry import load_class
from tools.store.blobs import Blobs


@pytest.fixture(params=sorted(PROFILERS))
def profiler(request: pytest.FixtureRequest) -> Profiler:
    found = load_class(PROFILERS, request.param, Profiler, key="profilers")()
    assert found.name == request.param
    return found


def test_a_profiler_says_in_one_sentence_what_it_lacks(
    profiler: Profiler, language: Language, toolchain: Toolchain
) -> None:
    lacking = profiler.reason_unavailable(language, toolchain)
    assert lacking is None or (lacking and "\n" not in lacking)


@pytest.mark.slow
def test_a_profile_names_what_was_seen(profiler: Profiler, language: Language, beside: Executor, blobs: Blobs) -> None:
    toolchain = read_toolchain(beside, blobs)
    lacking = profiler.reason_unavailable(language, toolchain)
    if lacking is not None:
        pytest.skip(lacking)
    wanted, candidate = task(language), kernel(language, "good")
    library = language.build_output_digest(beside.run(language.build(wanted, candidate, blobs, toolchain)))
    assert library is not None
    seen, again = (
        profiler.profile(wanted, candidate, library, wanted.workloads[0], language, beside, blobs) for _ in range(2)
    )
    profile, raw = seen
    assert profile.tool == profiler.name and profile.launch
    assert (profile.source, profile.binary) == (candidate.id, library)
    assert profile.metrics and all(re.fullmatch(r"[a-z]\w*[.:_]\w\S*", name) for name in profile.metrics), (
        "metrics carry their tool's name"
    )
    lines = len(candidate.source.splitlines())
    assert all(0 <= remark.line <= lines and remark.text for remark in profile.remarks)
    assert raw and all(blobs.has(sha) for sha in raw.values())
    assert set(again[0].metrics) == set(profile.metrics)
