"""The static profiler with this machine's own compiler."""

from pathlib import Path

from tools.artifacts import Candidate, Task, Workload
from tools.executors.local import Local
from tools.languages.cpp import Cpp
from tools.profilers.static import Static
from tools.store.records import Blobs

FIXTURES = Path(__file__).parents[1] / "fixtures" / "static"


def test_naive_softmax(tmp_path):
    source = (FIXTURES / "softmax" / "kernel.cpp").read_text()
    language, blobs = Cpp(), Blobs(tmp_path / "blobs")
    workload = Workload(name="w", dims={"M": 4, "N": 8})
    task = Task(name="softmax", language="cpp", arguments=(), reference="", baseline=source, workloads=(workload,))
    candidate = Candidate(language="cpp", files={"kernel.cpp": source})
    with Local(blobs, tmp_path / "scratch") as executor:
        library = language.built(executor.run(language.build(task, candidate, blobs)))
        assert library is not None
        profile, raw = Static().profile(task, candidate, library, workload, language, executor, blobs)
    assert profile.binary == library
    assert profile.metrics["objdump.calls.expf"].value >= 1
    assert profile.metrics["compiler.loops_missed"].value >= 1
    assert any(remark.line == 9 and "expf" in remark.text for remark in profile.remarks)
    assert set(raw) == {"remarks.txt", "assembly.txt"}
    assert "<solve>:" in blobs.text(raw["assembly.txt"])
    assert Static().missing(language) is None
