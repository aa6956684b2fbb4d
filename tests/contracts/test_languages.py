"""What every kernel language promises (`tools.languages.base`)."""

from __future__ import annotations

import pytest

from tests.contracts.conftest import kernel, task
from tools.analysis.assembly import functions_reachable_from, parse_disassembly
from tools.errors import SettingsError
from tools.executors.base import Executor, FinishedJob
from tools.executors.toolchain import Toolchain
from tools.executors.toolchain_job import read_toolchain
from tools.languages.base import LANGUAGES, Language, open_language
from tools.store.blobs import Blobs


@pytest.mark.parametrize("name", sorted(LANGUAGES))
def test_a_language_names_its_compiler_or_what_to_install(name: str, toolchain: Toolchain) -> None:
    language = open_language(name)
    assert language.name == name
    assert language.suffix.startswith(".") and language.device in ("cpu", "cuda", "hip")
    try:
        compiler = language.compiler(toolchain)
    except SettingsError as error:
        assert "install" in str(error) and "\n" not in str(error)
    else:
        assert compiler.name and compiler.version and compiler.family and compiler.argv
        assert "\n" not in compiler.version


def test_parameters_come_in_order(language: Language, toolchain: Toolchain) -> None:
    found = language.parameters(kernel(language, "good").source)
    assert [parameter.name for parameter in found] == ["x", "y", "n"]
    assert language.reason_unsupported("float32", toolchain) is None


def test_a_source_without_entry_is_refused_in_one_sentence(language: Language) -> None:
    with pytest.raises(SettingsError) as caught:
        language.parameters("")
    assert "\n" not in str(caught.value) and ("solve" in str(caught.value) or "run_kernel" in str(caught.value))


def build(language: Language, name: str, executor: Executor, blobs: Blobs) -> FinishedJob:
    return executor.run(language.build(task(language), kernel(language, name), blobs, read_toolchain(executor, blobs)))


@pytest.mark.slow
def test_equal_sources_build_to_equal_bytes_and_their_machine_code_is_listed(
    language: Language, beside: Executor, blobs: Blobs
) -> None:
    first, second = (build(language, "good", beside, blobs) for _ in range(2))
    library = language.build_output_digest(first)
    assert library is not None and blobs.get(library)
    assert language.build_output_digest(second) == library, "equal sources and flags must give equal bytes"
    finished = beside.run(language.disassembly_job(library, blobs, read_toolchain(beside, blobs), task(language)))
    if "was not found" not in blobs.text(finished.files["stderr.txt"]):  # a compiler may lack its disassembler
        assert finished.exit_code == 0
        listing = blobs.text(finished.files["assembly.txt"])
        assert "solve" in listing and len(listing.splitlines()) > 10
        assert functions_reachable_from(parse_disassembly(listing)), (
            "the listing's entry is found, with what it calls or launches"
        )


def test_a_bad_kernel_fails_with_a_short_log(language: Language, beside: Executor, blobs: Blobs) -> None:
    finished = build(language, "bad", beside, blobs)
    assert finished.exit_code != 0 and not finished.timed_out and language.build_output_digest(finished) is None
    log = language.trim_log(blobs.text(finished.files["stderr.txt"]) + blobs.text(finished.files["stdout.txt"]))
    assert "nowhere_declared" in log
    assert len(log.splitlines()) <= 40 and "/tmp/" not in log
    assert len(language.trim_log(log * 100).splitlines()) <= 41


def test_a_job_names_no_place(language: Language, toolchain: Toolchain, blobs: Blobs) -> None:
    job = language.build(task(language), kernel(language, "good"), blobs, toolchain)
    assert all(not name.startswith("/") and ".." not in name for name in job.files)
    assert all(blobs.path(sha).is_file() for sha in job.files.values())
    assert not any(str(blobs.folder.parent) in part for part in job.argv)


@pytest.mark.parametrize("name", ["../kernel.x", "/kernel.x", "-o.x"])
def test_a_file_name_that_leaves_the_folder_is_refused(
    language: Language, toolchain: Toolchain, blobs: Blobs, name: str
) -> None:
    good = kernel(language, "good")
    with pytest.raises(SettingsError, match="name"):
        language.build(task(language), good.model_copy(update={"files": {**good.files, name: "x"}}), blobs, toolchain)
