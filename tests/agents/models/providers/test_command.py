"""`agents.models.providers.command`: a program is run, bounded and cleaned up after, and what it says is read or
explained."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from agents.artifacts import GatekeeperBrief, Review
from agents.models.base import AnswerReply, Model, PromptBlock, Request
from agents.roles.agent import open_model
from tests.contracts.test_models import DIFF, TASK
from tests.support import one_sentence, run_captured
from tools.errors import ProviderError

REQUEST = Request(
    role="gatekeeper",
    brief=GatekeeperBrief(task=TASK, diff=DIFF),
    answer="Review",
    prompt=(
        PromptBlock(scope="stable", text="You are the reviewer."),
        PromptBlock(scope="iteration", text="The diff: größer."),
    ),
)
ANSWER = '{"veto": false}'


def program(tmp_path: Path, source: str, *arguments: str, **options: object) -> Model:
    """A model whose program is this Python."""
    path = tmp_path / "program.py"
    path.write_text(source)
    return open_model(
        "gatekeeper", {"provider": "command", "argv": [sys.executable, str(path), *arguments], **options}, tmp_path
    )


def failure(model: Model) -> str:
    with pytest.raises(ProviderError) as caught:
        model.ask(REQUEST)
    said = str(caught.value)
    assert said.startswith("models.gatekeeper: ") and "\n" not in said
    return said


def folder(tmp_path: Path) -> Path:
    (found,) = (tmp_path / ".kernelwright" / "exchanges").iterdir()
    return found


def test_prompt_on_stdin_answer_on_stdout(tmp_path: Path) -> None:
    source = (
        f"import sys; text = sys.stdin.read(); print('Let me see: it is', len(text)); print({ANSWER!r}); print('Done.')"
    )
    reply = program(tmp_path, source).ask(REQUEST)
    assert isinstance(reply, AnswerReply) and reply.answer == Review() and "Let me see" in reply.said
    prompt = (folder(tmp_path) / "prompt.md").read_text()
    assert f"it is {len(prompt)}" in reply.said, "it was given the whole prompt"
    assert prompt.index("You are the reviewer.") < prompt.index("größer") < prompt.index("JSON")
    assert reply.usage.seconds > 0 and reply.usage.model


def test_prompt_and_answer_in_files(tmp_path: Path) -> None:
    source = (
        "import sys; from pathlib import Path\n"
        "assert 'größer' in Path(sys.argv[1].removeprefix('--in=')).read_text() and not sys.stdin.read()\n"
        f"print('{{ not this }}'); Path(sys.argv[2]).write_text({ANSWER!r})"
    )
    assert isinstance(program(tmp_path, source, "--in={prompt_file}", "{answer_file}").ask(REQUEST), AnswerReply)
    assert "answer.md" in failure(program(tmp_path, "pass", "{answer_file}")), "it wrote none"


def test_without_a_workspace_nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    argv = [sys.executable, "-c", f"print({ANSWER!r})"]
    assert isinstance(open_model("gatekeeper", {"provider": "command", "argv": argv}).ask(REQUEST), AnswerReply)
    assert not list((tmp_path / "temporary").iterdir())
    said = failure(
        open_model(
            "gatekeeper", {"provider": "command", "argv": [sys.executable, "-c", "print('no')\nraise SystemExit(1)"]}
        )
    )
    (left,) = (tmp_path / "temporary").iterdir()
    assert str(left) in said and (left / "stdout.txt").read_text() == "no\n"


def test_a_failure_is_told_with_the_last_words(tmp_path: Path) -> None:
    said = failure(
        program(tmp_path, "import sys; print('warming up\\nno credit left\\n\\n', file=sys.stderr); sys.exit(3)")
    )
    assert "exit code 3: no credit left;" in said and str(folder(tmp_path)) in said
    # As Claude Code 2.1.197 does, whose stderr is empty then.
    assert "exit code 1: Not logged in;" in failure(
        program(tmp_path, "import sys; print('Not logged in'); sys.exit(1)")
    )
    assert "signal 9" in failure(program(tmp_path, "import os; os.kill(os.getpid(), 9)"))
    assert "it printed nothing" in failure(program(tmp_path, "print(' ')"))


def gone(named: Path) -> bool:
    """Whether the process whose id a file holds is not there, or a zombie, after the time that the kernel takes to
    end it."""
    pid, deadline = named.read_text(), time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z":
                return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.01)
    return False


CHILD = """
import os, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
with open("begun", "w") as file:
    file.write(str(child.pid))
os.rename("begun", "child")
"""


@pytest.mark.parametrize("how", ["late", "early", "interrupted"])
def test_nothing_that_it_started_lives_on(tmp_path: Path, how: str) -> None:
    if how == "late":
        for timeout_s in (2, 10, 60):  # until Python has started within it
            said = failure(program(tmp_path, CHILD + "import time; time.sleep(600)", timeout_s=timeout_s))
            assert "time-out" in said and "`timeout_s`" in said
            if list(tmp_path.rglob("child")):
                break
    elif how == "interrupted":
        # As Ctrl-C does: it reaches us alone, for the program has a session of its own.
        source = CHILD + f"import os, signal, time; os.kill({os.getpid()}, signal.SIGINT); time.sleep(600)"
        with pytest.raises(KeyboardInterrupt):
            program(tmp_path, source).ask(REQUEST)
    else:
        assert isinstance(program(tmp_path, CHILD + f"print({ANSWER!r})").ask(REQUEST), AnswerReply)
    (child,) = tmp_path.rglob("child")
    assert gone(child)


def test_its_time_out_is_cut_to_what_is_left_of_the_run(tmp_path: Path) -> None:
    model = program(tmp_path, "import time; time.sleep(600)", timeout_s=500)
    with pytest.raises(ProviderError, match="time-out"):
        model.ask(REQUEST.model_copy(update={"ends": time.monotonic() + 0.3}))
    assert REQUEST.model_copy(update={"ends": 1.0}).model_dump_json() == REQUEST.model_dump_json(), (
        "no part of what is asked"
    )


ASKS = """
import os, signal, sys, threading, time
from pathlib import Path
from tests.agents.models.providers.test_command import REQUEST, program

def die():
    while not any(Path(sys.argv[1]).glob(".kernelwright/exchanges/*/started")):
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGKILL)

threading.Thread(target=die).start()
source = "import os, time; open('begun', 'w').write(str(os.getpid())); os.rename('begun', 'started'); time.sleep(600)"
program(Path(sys.argv[1]), source).ask(REQUEST)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="prctl is Linux's")
def test_a_killed_run_leaves_no_program_behind_that_goes_on_spending(tmp_path: Path) -> None:
    done = run_captured([sys.executable, "-c", ASKS, str(tmp_path)], timeout=120)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert gone(folder(tmp_path) / "started")


def test_the_last_words_are_told_without_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "an0pAqu3-k3y")
    said = failure(program(tmp_path, "import os, sys; sys.exit('not with ' + os.environ['MY_KEY'])", env=["MY_KEY"]))
    assert "not with <secret>" in said and "an0pAqu3" not in said


@pytest.mark.parametrize("repeated", ["for _ in range(80)", "while True"])
def test_output_is_bounded(tmp_path: Path, repeated: str) -> None:
    source = f"import sys\n{repeated}: sys.stdout.write('x' * (1 << 16))"
    assert "wrote more than 4 MiB to stdout.txt" in failure(program(tmp_path, source))
    assert (folder(tmp_path) / "stdout.txt").stat().st_size < 1 << 30


def test_the_environment_is_what_is_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LISTED", "1")
    monkeypatch.setenv("UNLISTED_KEY", "1")
    source = f"import os; open('seen', 'w').write(' '.join(os.environ)); print({ANSWER!r})"
    program(tmp_path, source, env=["LISTED"]).ask(REQUEST)
    seen = set((folder(tmp_path) / "seen").read_text().split())
    assert {"PATH", "LISTED"} <= seen and not {"UNLISTED_KEY", "KERNELWRIGHT_HOME"} & seen


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({}, "models.gatekeeper.argv: is missing"),
        ({"argv": []}, "models.gatekeeper.argv: must be a program and its arguments"),
        ({"argv": [sys.executable], "env": ["MY_KEY=hush"]}, "models.gatekeeper.env: must be a list of NAMES"),
        ({"argv": ["no-such-agent"]}, "cannot find the program 'no-such-agent'"),
        ({"argv": [sys.executable, "pyproject.toml"]}, f"write '{Path('pyproject.toml').resolve()}'"),
        (
            {"argv": [sys.executable], "env": ["NOT_SET"]},
            "models.gatekeeper.env: the environment variable NOT_SET is not set",
        ),
    ],
)
def test_options_that_cannot_work_are_refused_when_opened(
    options: dict[str, object], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(Path(__file__).parents[4])
    with one_sentence(told, without="hush"):
        open_model("gatekeeper", {"provider": "command", **options})


def test_a_program_that_is_no_program(tmp_path: Path) -> None:
    path = tmp_path / "agent"
    path.write_text("no interpreter, no binary")
    path.chmod(0o755)
    said = failure(open_model("gatekeeper", {"provider": "command", "argv": [str(path)]}, tmp_path))
    assert "agent cannot be started" in said and os.linesep not in said
