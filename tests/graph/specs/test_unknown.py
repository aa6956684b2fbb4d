"""`on_unknown: continue | ask | stop`, asked on a real terminal too."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from graph.__main__ import main
from graph.artifacts import Placeholder
from graph.specs.unknown import MAX_ANSWERS, resolve_unknown
from tests.graph.conftest import SHORT, configured
from tests.graph.terminal import AtTerminal
from tests.support import Capsys, one_sentence
from tools.roofline.hardware import UnknownSpec

pytestmark = pytest.mark.slow

GAPS = tuple(UnknownSpec(metric=metric, reason="nobody says") for metric in ("memory_bandwidth", "fp32"))


class Person:
    """Types lines in turn; then the input ends."""

    def __init__(self, *lines: str) -> None:
        self.lines = list(lines)
        self.questions: list[str] = []

    def __call__(self, question: str) -> str | None:
        self.questions.append(question)
        return self.lines.pop(0) if self.lines else None


def test_continue_asks_nobody_and_no_gap_no_question() -> None:
    person = Person()
    assert (
        resolve_unknown(GAPS, "P", "continue", person)
        == ()
        == resolve_unknown((), "P", "ask", person)
        == resolve_unknown((), "P", "stop", None)
    )
    assert not person.questions


def test_a_person_is_asked_about_each_gap_with_its_reason() -> None:
    person = Person("c", " 51.2 TFLOPS ")
    assert resolve_unknown(GAPS, "P", "ask", person) == (Placeholder(metric="fp32", value=51.2, unit="TFLOPS"),)
    first, second = person.questions
    assert (
        "memory_bandwidth: UNKNOWN (gpu-wiki not found): nobody says" in first
        and "[c]ontinue" in first
        and "fp32 of P" in second
    )
    assert "PLACEHOLDER" in str(resolve_unknown(GAPS[:1], "P", "ask", Person("3e12 B/s"))[0])


@pytest.mark.parametrize("lines", [("stop",), ("S",), (), ("c",), ("1,979 TFLOPS", "51.2", "", "c")])
def test_to_stop_the_end_of_the_input_and_answers_that_cannot_be_read_stop(lines: Iterable[str]) -> None:
    with one_sentence("on_unknown: ask, and ", " of P"):
        resolve_unknown(GAPS, "P", "ask", Person(*lines))


@pytest.mark.parametrize("typed", ["1,979 TFLOPS", "51.2", "-5 GB", "1e999 GB"])
def test_what_is_no_positive_number_with_a_unit_is_asked_again_with_an_example(typed: str) -> None:
    person = Person(*[typed] * (MAX_ANSWERS - 1), "1979 TFLOPS")
    assert resolve_unknown(GAPS[1:], "P", "ask", person)[0].value == 1979
    assert f"{typed!r} is not c, s or a positive number with its unit" in person.questions[1]


@pytest.fixture
def asking(tmp_path: Path) -> Path:
    return configured(tmp_path, **SHORT, hardware="H20000", on_unknown="ask")


@pytest.mark.slow
def test_a_cpu_whose_figures_are_unknown_by_design_neither_stops_nor_asks(tmp_path: Path) -> None:
    assert main(["run", str(configured(tmp_path, **SHORT, on_unknown="stop")), "--quiet"]) == 0
    (root,) = (tmp_path / "workspaces").iterdir()
    assert (root / "README.md").read_text().count("`on_unknown` does not apply") == 1


def test_without_a_terminal_ask_stops_and_says_how_to_answer(asking: Path, tmp_path: Path, capsys: Capsys) -> None:
    assert main(["run", str(asking), "--quiet"]) == 2
    said = capsys.readouterr().err.strip()
    assert (
        said.startswith("error: on_unknown: ask")
        and "terminal" in said
        and "`on_unknown: continue`" in said
        and "\n" not in said
    )
    assert not (tmp_path / "workspaces").exists()


def on_terminal(config: Path, *lines: str) -> tuple[int, str]:
    """The run as on a terminal of its own, where `lines` are typed; its exit code and all that was shown."""
    run = AtTerminal("run", str(config))
    run.press("".join(f"{line}\n" for line in lines).encode())
    return run.ended(), run.terminal.written.decode(errors="replace")


@pytest.mark.slow
def test_on_a_terminal_a_placeholder_is_labelled_and_rests_nothing(asking: Path, tmp_path: Path) -> None:
    code, shown = on_terminal(asking, "51.2 GB/s", "c", "continue")
    assert code == 0, shown
    assert shown.count("[c]ontinue without it") == 3, "each gap once"
    (root,) = (tmp_path / "workspaces").iterdir()
    for name in ("README.md", "report.md"):
        text = (root / name).read_text()
        (line,) = [line for line in text.splitlines() if "51.2" in line]
        assert line == (
            "- memory_bandwidth: 51.2 GB/s PLACEHOLDER (given by a person, not from the gpu-wiki); neither roof nor "
            "target rests on it"
        )
        assert "- memory_bandwidth: UNKNOWN (gpu-wiki not found)" in text, "it stays a gap"
