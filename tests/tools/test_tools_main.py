import json
from pathlib import Path

import pytest

from knowledge_base.__main__ import main as knowledge_base
from tests.contracts.test_executors import other_python
from tests.tools import builders
from tools.__main__ import main
from tools.store.records import Records

SEED = Path(__file__).parent / "fixtures" / "static" / "softmax" / "kernel.cpp"

REFERENCE = builders.REFERENCE + '\n\nworkloads = [{"M": 16, "N": 64}]\n'


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["check"], "no task is given"),
        (["check", "--task", "a", "--kernel", "b"], "exclude each other"),
        (["ceilings", "--language", "cp"], "did you mean 'cpp'?"),
        (["check", "a", "--dims", "Q=3"], "--dims needs --kernel and --ref"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_2(arguments, said, capsys):
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1


def test_a_python_without_torch_is_named_with_its_key(tmp_path, capsys):
    (tmp_path / "reference.py").write_text(REFERENCE)
    (tmp_path / "kernel.cpp").write_text(SEED.read_text())
    executor = {"kind": "local", "python": str(other_python(tmp_path / "other"))}
    assert main(["--executor", json.dumps(executor), "check", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert "torch, which computes it, is not installed" in error and "under executor.python" in error


@pytest.mark.slow
def test_what_the_screen_refuses_and_how_noisy_the_machine_is_have_verbs_of_their_own(tmp_path, capsys):
    (tmp_path / "reference.py").write_text(REFERENCE)
    (tmp_path / "kernel.cpp").write_text(SEED.read_text())
    clock = tmp_path / "clock.txt"
    clock.write_text("#include <time.h>\n" + SEED.read_text())
    store = ["--store", str(tmp_path.parent / "store")]
    assert main([*store, "screen", str(tmp_path)]) == 0 and capsys.readouterr().out == "nothing is refused\n"
    assert main([*store, "screen", str(tmp_path), "--candidate", str(clock)]) == 1
    assert "line 1: `#include <time.h>`" in capsys.readouterr().out
    assert main([*store, "calibrate", str(tmp_path)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (
        main([*store, "time", str(tmp_path)]) == 0
        and "differs from a copy of itself by up to" in capsys.readouterr().out
    )
    assert found["noise_floor"] > 0 and next(iter(found["seconds"].values())) > 0


def test_profile_and_machine_code(tmp_path, capsys):
    (tmp_path / "ref.py").write_text(REFERENCE)
    files, store = ["--kernel", str(SEED), "--ref", str(tmp_path / "ref.py")], ["--store", str(tmp_path / "store")]
    assert main([*store, "profile", *files]) == 0
    found = json.loads(capsys.readouterr().out)
    assert "scalar_math_call" in {finding["rule"] for finding in found["findings"]}
    assert main([*store, "sass", *files, "--pattern", "expf"]) == 0
    assert json.loads(capsys.readouterr().out)["present"] is True


@pytest.mark.slow
def test_why_a_kernel_is_slow_in_words_and_as_json(tmp_path, capsys):
    (tmp_path / "reference.py").write_text(REFERENCE)
    (tmp_path / "kernel.cpp").write_text(SEED.read_text())
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    store = ["--store", str(tmp_path.parent / "store")]
    assert main([*store, "diagnose", str(tmp_path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert main([*store, "diagnose", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert said.splitlines()[0] == found["headline"]
    assert "of the measured roof; the main finding is " + found["findings"][0]["rule"] in found["headline"]
    records = {record.id for record in Records(tmp_path.parent / "store")}
    for finding in found["findings"]:
        assert finding["text"] in said
        assert set(finding["evidence"]) <= records


@pytest.mark.slow
def test_every_try_of_the_bandwidth_is_told_and_utilisation_names_measured_and_cited_roofs(tmp_path, capsys):
    (tmp_path / "reference.py").write_text(REFERENCE)
    (tmp_path / "kernel.cpp").write_text(SEED.read_text())
    store = ["--store", str(tmp_path.parent / "store")]
    assert main([*store, "bandwidth"]) == 0
    assert " B/s at best, " in capsys.readouterr().out
    assert main([*store, "utilisation", str(tmp_path)]) == 0
    assert "of measured  of cited" in capsys.readouterr().out
    assert knowledge_base(["utilisation", "H200", str(tmp_path), "--variant", "SXM"]) == 0
    said = capsys.readouterr().out
    assert (
        "of measured  of cited" in said
        and "memory_bandwidth: 4.8 TB/s, cited: <gpu-wiki>/hardware/nvidia/h200-sxm5.md:" in said
    )


@pytest.mark.slow
def test_a_reference_alone_has_a_roofline_and_nothing_to_diagnose(tmp_path, capsys):
    (tmp_path / "reference.py").write_text(REFERENCE)
    assert main(["roofline", str(tmp_path)]) == 0
    assert "nothing was timed" in capsys.readouterr().out
    assert main(["diagnose", str(tmp_path)]) == 2
    assert "add kernel.cpp" in capsys.readouterr().err


def test_a_kernel_that_is_wrong_is_refused_in_one_clean_sentence(tmp_path, capsys):
    (tmp_path / "reference.py").write_text(REFERENCE.replace("dim=1)", "dim=1) * 2"))
    assert main(["check", "--kernel", str(SEED), "--ref", str(tmp_path / "reference.py")]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("error: the kernel and the reference disagree: ") and error.endswith(
        "; correct the one that is wrong"
    )
    assert ".;" not in error
