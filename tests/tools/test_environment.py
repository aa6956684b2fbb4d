import pytest

from tools.environment import Environment, inspect_environment
from tools.executors.host.nvidia import NvidiaDriver
from tools.executors.local import LocalExecutor
from tools.languages.cpp import Cpp
from tools.store.blobs import Blobs


def inspected(folder, language, **options):
    blobs = Blobs(folder / "blobs")
    with LocalExecutor(blobs, folder / "scratch", **options) as executor:
        return inspect_environment(executor, [language], blobs)


def test_this_machine(tmp_path):
    found = inspected(tmp_path, Cpp())
    items = {item.name: item for item in found.items}
    assert items["cpp compiler"].status == items["git"].status == items["torch"].status == "ok"
    assert items["cpp compiler"].value == found.toolchain.cxx_version
    assert {"network", "landlock", "seccomp", "no_new_privileges"} <= set(found.sandbox)
    assert all(item.fix for item in found.items if item.status != "ok")
    assert Environment.model_validate_json(found.model_dump_json()) == found


def test_no_compiler_is_reported_not_raised(tmp_path, monkeypatch):
    monkeypatch.setenv("CXX", "/nonexistent/compiler")
    found = inspected(tmp_path, Cpp())
    (compiler,) = [item for item in found.items if item.name == "cpp compiler"]
    assert compiler.status == "missing" and "CXX" in compiler.fix


class OnGpu(Cpp):
    """A language that needs a GPU, as far as the environment can tell."""

    device = "cuda"


@pytest.mark.parametrize(("language", "optional"), [(Cpp(), True), (OnGpu(), False)])
def test_a_missing_gpu_matters_only_to_languages_that_run_there(tmp_path, language, optional):
    found = inspected(tmp_path, language, driver=NvidiaDriver("libno-such-library.so.1"))
    (gpu,) = [item for item in found.items if item.name == "NVIDIA GPU"]
    assert (gpu.status, gpu.optional) == ("missing", optional)
    assert ("checked and not measured" in gpu.fix) is not optional
