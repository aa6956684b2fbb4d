"""The keys and servers of models are tried before a run's first job."""

from __future__ import annotations

from pathlib import Path

import pytest

from graph.__main__ import main
from tests.agents.models.anthropic_server import Server
from tests.agents.models.scripted_server import Step
from tests.graph.conftest import configured
from tests.support import Capsys
from tools.errors import HarnessError
from tools.executors.base import FinishedJob, Job
from tools.executors.local import LocalExecutor


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> list[Job]:
    """The jobs that were sent; the first ends the run."""
    sent: list[Job] = []

    def run(self: LocalExecutor, job: Job) -> FinishedJob:
        sent.append(job)
        raise HarnessError("the first job was sent")

    monkeypatch.setattr(LocalExecutor, "run", run)
    monkeypatch.setenv("MY_KEY", "an0pAqu3-k3y")
    return sent


def config(folder: Path, url: str) -> str:
    """Of a run with three entries for its five roles."""
    served = {"provider": "anthropic", "model": "m", "base_url": url, "api_key_env": "MY_KEY", "max_retries": 0}
    return str(configured(folder, models={"default": served, "coder": served, "gatekeeper": {"provider": "playbook"}}))


def test_a_wrong_key_ends_the_run_before_its_first_job(tmp_path: Path, capsys: Capsys, jobs: list[Job]) -> None:
    with Server(Step()) as server:
        server.key = "another"
        assert main(["run", config(tmp_path, server.url)]) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: models.default: MY_KEY does not give access") and said.count("\n") == 1
    assert not jobs and not server.asked and not list(tmp_path.glob("workspaces/*"))


def test_a_server_that_does_not_answer_ends_the_run_before_its_first_job(
    tmp_path: Path, capsys: Capsys, jobs: list[Job]
) -> None:
    assert main(["run", config(tmp_path, "http://127.0.0.1:9")]) == 4
    said = capsys.readouterr().err
    assert "models.default: no server answers at http://127.0.0.1:9" in said and said.count("\n") == 1
    assert not jobs and not list(tmp_path.glob("workspaces/*"))


@pytest.mark.parametrize("listing", [Step(body={"data": []}), Step(status=404)], ids=["models", "no such call"])
def test_each_entry_is_tried_once_and_the_run_goes_on(
    tmp_path: Path, capsys: Capsys, jobs: list[Job], listing: Step
) -> None:
    with Server(Step()) as server:
        server.listing = listing
        assert main(["run", config(tmp_path, server.url)]) == 4
    assert "the first job was sent" in capsys.readouterr().err and jobs
    assert len(server.looked_up) == 2 and not server.asked
