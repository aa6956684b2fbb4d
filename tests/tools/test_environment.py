import pytest

from tools.environment import Environment, inspect
from tools.executors.local import Local
from tools.executors.nvidia import Driver
from tools.languages.cpp import Cpp
from tools.store.records import Blobs


def test_this_machine(tmp_path):
    blobs = Blobs(tmp_path / "blobs")
    with Local(blobs, tmp_path / "scratch") as executor:
        found = inspect(executor, [Cpp()], blobs)
    items = {item.name: item for item in found.items}
    assert items["cpp compiler"].status == items["git"].status == items["torch"].status == "ok"
    assert items["cpp compiler"].value == Cpp().toolchain().version
    assert {"network", "landlock", "no_new_privileges"} <= set(found.sandbox)
    assert all(item.fix for item in found.items if item.status != "ok")
    assert Environment.model_validate_json(found.model_dump_json()) == found


def test_no_compiler_is_reported_not_raised(tmp_path, monkeypatch):
    monkeypatch.setenv("CXX", "/nonexistent/compiler")
    blobs = Blobs(tmp_path / "blobs")
    with Local(blobs, tmp_path / "scratch") as executor:
        found = inspect(executor, [Cpp()], blobs)
    (compiler,) = [item for item in found.items if item.name == "cpp compiler"]
    assert compiler.status == "missing"
    assert "CXX" in compiler.fix


class OnGpu(Cpp):
    """A language that needs a GPU, as far as the environment can tell."""

    device = "cuda"


@pytest.mark.parametrize(("language", "optional"), [(Cpp(), True), (OnGpu(), False)])
def test_a_missing_gpu_matters_only_to_languages_that_run_there(tmp_path, language, optional):
    blobs = Blobs(tmp_path / "blobs")
    with Local(blobs, tmp_path / "scratch", driver=Driver("libno-such-library.so.1")) as executor:
        found = inspect(executor, [language], blobs)
    (gpu,) = [item for item in found.items if item.name == "NVIDIA GPU"]
    assert (gpu.status, gpu.optional) == ("missing", optional)
    assert ("checked and not measured" in gpu.fix) is not optional
