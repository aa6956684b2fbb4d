"""A run that reaches a cap ends in order, with a report and exit code 3; what was paid for is neither lost nor paid
again."""

from __future__ import annotations

import json
import math
import re
import socket
from pathlib import Path
from typing import Any

import pytest
import yaml

from agents.models.ledger import exchange_records, format_seconds, sum_exchanges
from graph.__main__ import main
from graph.budget.reserve import estimate_benchmark_seconds, seconds_per_sample
from graph.lifecycle import run
from graph.settings import load
from graph.workspace import completeness, drift, events
from graph.workspace.events import Event
from graph.workspace.folder import open_read_only
from graph.workspace.versions import read_state
from tests.agents.models.openai_server import Server
from tests.agents.models.scripted_server import Step
from tests.graph.conftest import printed_json
from tests.support import Capsys
from tools.store.records import Records
from tools.store.repository import Repository

PRICED = "tests.graph.priced:Priced"
MADE_UP = {"made-up": {"input": 10, "output": 50, "cache_read": 1}}
EACH_USD, EACH_TOKENS = 0.0215, 1800
"""What `Priced` takes an exchange; it reserves 0.036 and 2000."""
SLOW = pytest.mark.slow


def priced(config: Path, budget: dict[str, Any], **more: Any) -> Path:
    """The config with `Priced` in every role under a budget; the log of its exchanges lies beside it."""
    data = yaml.safe_load(config.read_text())
    data["search"] = {"iterations": 1, "candidates": 1, "patience": 1}
    data["benchmark"] = {"eager": False, "compile": False}
    models = {"default": {"provider": PRICED, "model": "made-up", "log": str(config.parent / "paid")}}
    config.write_text(yaml.safe_dump({**data, "models": models, "prices": MADE_UP, "budget": budget, **more}))
    return config


def paid(config: Path) -> list[str]:
    """Roles of the exchanges that were really made."""
    log = config.parent / "paid"
    return log.read_text().splitlines() if log.exists() else []


CASES = {
    # Node in which it is reached -> budget, exchanges that are made, how the reason begins, verdicts
    "begin": ({"wall_s": 1}, [], "budget.wall_s: ", {}),
    "profile": ({"usd": 0.03}, [], "budget.usd: $0.0000 of $0.0300", {}),
    "retrieve_evidence": (
        {"tokens": 3799},
        ["profiler_analyst"],
        "budget.tokens: 1,800 of 3,799",
        {},
    ),
    "plan": ({"tokens": 5500}, ["profiler_analyst", "knowledge_retriever"], "budget.tokens: 3,600 of 5,500", {}),
    "write": (
        {"tokens": 7399},
        ["profiler_analyst", "knowledge_retriever", "planner"],
        "budget.tokens: 5,400 of 7,399",
        {"v1": "inconclusive"},
    ),
    # Nothing is accepted without its review.
    "gate": (
        {"tokens": 9199},
        None,
        "budget.tokens: 7,200 of 9,199",
        {"v1": "inconclusive"},
    ),
}


@SLOW
@pytest.mark.parametrize(("budget", "made", "reason", "verdicts"), CASES.values(), ids=CASES)
def test_a_cap_that_is_reached_in_a_node_ends_the_run_in_order(
    config: Path,
    capsys: Capsys,
    budget: dict[str, Any],
    made: list[str] | None,
    reason: str,
    verdicts: dict[str, str],
) -> None:
    assert main(["run", str(priced(config, budget)), "--json"]) == 3
    out = capsys.readouterr().out.splitlines()
    found = json.loads(out[-1])
    assert found["status"] == "finished" and found["stop_reason"] == "budget" and found["verdicts"] == verdicts
    assert found["budget_reached"].startswith(reason) and any("--budget" in line for line in out)
    asked = paid(config)
    assert asked == made or (made is None and "coder" in asked and "gatekeeper" not in asked)
    assert found["usd"] == pytest.approx(EACH_USD * len(asked)) and found["tokens"] == EACH_TOKENS * len(asked)
    root = Path(found["workspace"])
    in_order(root, reason)
    if not verdicts:  # No kernel is faster than itself.
        assert (found["speedup"], found["ci"]) == (1.0, None) and found["best_s"] == found["baseline_s"] > 0
        assert main(["show", str(root)]) == 0 and "no version was accepted" in capsys.readouterr().out
        assert "| best |" not in (root / "benchmark.md").read_text()
    if asked:
        assert main(["show", str(root)]) == 0 and "profiler_analyst: 1,800 tokens, $0.0215" in capsys.readouterr().out
        assert "| profiler_analyst | 1 | 1,000 | 500 | 100 | 200 | $0.0215 | 0.5 |" in (root / "report.md").read_text()
        assert any(" profile " in line and line.endswith("[1,800 tokens, $0.0215]") for line in out)
    # Finished is finished: nothing is asked, and nothing is paid again.
    assert main(["resume", str(root), "--quiet"]) == 3
    assert paid(config) == asked


def in_order(root: Path, reason: str) -> None:
    """The report says why, the versions are whole and git is clean."""
    report = (root / "report.md").read_text()
    assert f"It stopped because a cap is reached ({reason}" in report and "caps: wall_s " in report
    for iteration in range(int((root / drift.POINTER_FILE).read_text()) + 1):
        assert completeness.audit_version(root, iteration, closed=True) == ()
    assert Repository(root).drift() == ()
    (commit, *_) = Repository(root).log()
    assert "Report" in commit.trailers


class Death(BaseException):
    """The end of the process, as far as it can be had within one."""


def died_after(node: str, iteration: int, config: Path) -> Path:
    """The workspace of a run that died as soon as a node of an iteration was done."""

    def dies(event: Event) -> None:
        told = event.details
        if event.kind == "node" and (told["node"], told["state"], told["iteration"]) == (
            node,
            "finished",
            str(iteration),
        ):
            raise Death

    with pytest.raises(Death):
        run.start(load(config), (dies,))
    (root,) = (config.parent / "workspaces").iterdir()
    return root


@SLOW
@pytest.mark.parametrize(
    ("node", "left", "outcome", "said"),
    [
        ("write", 0.0, "inconclusive", "could not be measured: budget.device_s: 10"),
        ("attribute", 0.02, "inconclusive", "not confirmed in separate processes: budget.device_s: 10"),
    ],
    ids=["a candidate is not judged", "a gain is not confirmed"],
)
def test_what_there_is_no_device_time_for_is_not_accepted(
    config: Path, node: str, left: float, outcome: str, said: str
) -> None:
    """The run dies after a node; by what its log says, jobs had taken all but a moment of what they may."""
    root = died_after(node, 1, priced(config, {"device_s": 10_000.0}))
    log = events.Events(root / ".kernelwright" / "events.jsonl")
    used = 10_000 - left - events.device_seconds(events.read_events(log.path), 0.0)["cpu"]
    log.emit("job", {"number": "x", "state": "finished", "device": "cpu", "used": f"{used:.4f}"})
    seen: list[Event] = []
    state, _ = run.resume(root, (seen.append,))
    assert state.get("stop") == "budget"
    verdict = json.loads((root / "versions" / "v1" / completeness.VERDICT_FILE).read_text())
    assert verdict["outcome"] == outcome and said in verdict["reasons"][-1]
    assert not any(record.kind == "confirmation" for record in Records(root))
    in_order(root, "budget.device_s: 10")
    if not left:
        before = seen[: [event.kind for event in seen].index("commit")]
        assert not any(event.kind == "job" for event in before), "what comes on top is the benchmark"
        (candidate,) = [event for event in seen if event.kind == "candidate"]
        assert candidate.details["outcome"] == "unmeasured" and "budget.device_s: 10" in candidate.details["summary"]


@SLOW
def test_device_time_that_v0_takes_ends_the_run_after_it(config: Path, capsys: Capsys) -> None:
    assert main(["run", str(priced(config, {"device_s": 0.01})), "--json"]) == 3
    found = printed_json(capsys)
    root = Path(found["workspace"])
    assert found["verdicts"] == {} and paid(config) == ["profiler_analyst"] and found["device_s"] > 0.01
    in_order(root, "budget.device_s: ")
    # Kept for the benchmark from v0 on; passed all the same, the report says by how much.
    (kept,) = [record for record in Records(root) if record.kind == "reserve"]
    (timed,) = [record for record in Records(root) if record.kind == "calibration"]
    reason = "budget.device_s: "
    (inspection,) = [record for record in Records(root) if record.kind == "inspection"]
    assert inspection.payload["profiles"] == [] and reason in str(inspection.payload["missing"])
    for told in (root / "report.md", root / "report.html", root / "versions" / "v0" / "analysis.md"):
        assert "not profiled" in told.read_text() and "limited by" not in told.read_text(), told
    assert kept.payload["seconds"] == estimate_benchmark_seconds(seconds_per_sample(timed), 1, load(config), "cpu")
    assert (
        f"and {format_seconds(kept.payload['seconds'])} are set aside for the final benchmark"
        in found["budget_reached"]
    )
    assert f"budget.device_s was exceeded by {found['device_s'] - 0.01:.1f} s" in (root / "report.md").read_text()


@SLOW
def test_wall_time_that_ends_in_the_middle_of_an_iteration_ends_the_run_in_order(config: Path, capsys: Capsys) -> None:
    """The run dies once the second iteration's candidate is written; by its clock, it has then worked as long as it
    may."""
    search = {"iterations": 3, "candidates": 1, "patience": 3}
    root = died_after("write", 2, priced(config, {"wall_s": 10_000.0}, search=search))
    before = Repository(root).log()
    asked = len(paid(config))
    (root / ".kernelwright" / "wall_s").write_text("0000000010000.000\n")
    assert main(["resume", str(root), "--json"]) == 3
    found = printed_json(capsys)
    assert found["stop_reason"] == "budget" and found["budget_reached"].startswith("budget.wall_s: 100")
    assert found["budget_reached"].endswith(" s of 10000 s are spent")
    assert len(paid(config)) == asked, "nobody is asked any more"
    assert set(found["verdicts"]) == {"v1", "v2"} and found["verdicts"]["v2"] == "inconclusive"
    log = Repository(root).log()
    assert log[-len(before) :] == before, "what was accepted before stays"
    assert (root / "report.md").read_text().count("budget.wall_s was exceeded by ") == 1
    for iteration in range(3):
        assert completeness.audit_version(root, iteration, closed=True) == ()


@pytest.mark.parametrize(
    ("option", "said", "why"),
    [
        ("--budget", "usd", "KEY=VALUE"),
        ("--budget", "dollars=1", "budget.dollars"),
        ("--set", "dims=M", "dims"),
        ("--set", "gpu=first", "gpu"),
        ("--set", "linked_to=elsewhere v1", "linked_to is what the version says"),
        ("--set", "gpu.index=1", "gpu holds a value and no keys"),
    ],
)
def test_what_cannot_be_changed_is_refused_before_a_restart(
    copied: Path, capsys: Capsys, option: str, said: str, why: str
) -> None:
    assert main(["restart", str(copied), "v0", "--set", "gpu=1", option, said]) == 2
    error = capsys.readouterr().err
    assert why in error and error.count("\n") == 1


@SLOW
def test_a_reply_on_record_is_never_paid_for_again(config: Path) -> None:
    """The run dies right after each paid reply is on record, before anything else knows of it."""
    settings = load(priced(config, {"usd": 1.0}))
    seen: set[str] = set()

    def dies(event: Event) -> None:
        if event.kind == "record" and event.details["kind"] == "exchange" and event.details["record"] not in seen:
            seen.add(event.details["record"])
            raise Death

    with pytest.raises(Death):
        run.start(settings, (dies,))
    (root,) = (config.parent / "workspaces").iterdir()
    for deaths in range(1, 20):
        spent = sum_exchanges(exchange_records(Records(root)))
        assert spent.exchanges == deaths == len(paid(config)) and spent.usd == pytest.approx(EACH_USD * deaths)
        try:
            state, _ = run.resume(root, (dies,))
            break
        except Death:
            continue
    assert state.get("report") and read_state(open_read_only(root)).get("report") == state["report"]
    assert len(paid(config)) == len(seen) == len(exchange_records(Records(root))) >= 4
    assert sum_exchanges(exchange_records(Records(root))).usd == pytest.approx(EACH_USD * len(seen))
    iterations = {
        r.payload["role"]: r.payload["iteration"]
        for r in exchange_records(Records(root))
        if r.payload["role"] != "profiler_analyst"
    }
    assert set(iterations.values()) == {1}, "each is for the iteration that it was asked in"


# ---------------------------------------------------------------- before a run


@pytest.mark.slow
def test_check_estimates_a_run(config: Path, capsys: Capsys) -> None:
    assert main(["check", str(config)]) == 0 and "no language model: nothing to pay" in capsys.readouterr().out
    assert main(["check", str(priced(config, {"usd": 0.001}))]) == 0
    said = capsys.readouterr().out
    assert (
        "tokens an iteration" in said and "assumed, not measured" in said and "budget.usd: $0.0010 is less than" in said
    )
    assert "coder                made-up, 2 exchanges an iteration" in said and "$" in said
    assert main(["check", str(priced(config, {}, prices={}))]) == 0
    said = capsys.readouterr().out
    assert "cost unknown: no price for model made-up; add it under prices:" in said and "$" not in said
    assert paid(config) == [], "an estimate asks nobody"


SERVED = {"provider": "openai_compatible", "model": "made-up", "base_url": "http://127.0.0.1:9/v1", "max_tokens": 1000}
"""No server is there. An exchange sets aside 4,000 tokens of output, 6,000 of it that are read again, and its
prompts."""


@pytest.mark.parametrize(
    ("verb", "budget", "key"),
    [
        ("run", {"tokens": 9000}, "budget.tokens: 9,000 tokens is"),
        ("check", {"usd": 0.2}, "budget.usd: $0.2000 is"),
    ],
)
def test_a_cap_under_which_nothing_can_be_asked_is_refused(
    config: Path, capsys: Capsys, verb: str, budget: dict[str, Any], key: str
) -> None:
    with Server(Step()) as server:
        served = {**SERVED, "base_url": server.url}
        assert main([verb, str(priced(config, budget, models={"default": served}))]) == 2
    error = re.sub(r".* so far\n", "", capsys.readouterr().err)
    assert key in error and "sets aside" in error and "or lower max_tokens" in error and error.count("\n") == 1
    workspaces = config.parent / "workspaces"
    assert not workspaces.exists() or not list(workspaces.iterdir())


@pytest.mark.slow
def test_an_estimate_asks_no_server_for_a_count(config: Path, capsys: Capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    """The official SDK would: counting tokens is a request of its own."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(0.2)
        model = {
            "provider": "anthropic",
            "model": "made-up",
            "base_url": f"http://127.0.0.1:{listening.getsockname()[1]}",
        }
        prices = {"made-up": {"input": 5, "output": 25, "cache_read": 0.5, "cache_write": 6, "cache_write_1h": 10}}
        assert main(["check", str(priced(config, {"usd": 1.0}, models={"default": model}, prices=prices))]) == 2
        # Three times 16,000 tokens that are written, and read again from an hour's cache.
        assert "budget.usd: $1.0000 is" in capsys.readouterr().err
        assert main(["check", str(priced(config, {"usd": 100.0}, models={"default": model}, prices=prices))]) == 0
        with pytest.raises(TimeoutError):
            listening.accept()


@pytest.mark.slow
@pytest.mark.parametrize("budget", [{"tokens": 20_000}, {"usd": 0.4}, {"device_s": 5.0}])
def test_a_cap_that_an_estimate_passes_is_warned_about_and_what_check_names_as_enough_is(
    config: Path, capsys: Capsys, budget: dict[str, Any]
) -> None:
    models = {} if "device_s" in budget else {"models": {"default": SERVED}}
    assert main(["check", str(priced(config, budget, **models))]) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("too small")]
    enough = float(re.findall(r"give (?:more than )?\$?([\d,.]+\d)", line)[-1].replace(",", ""))
    more = json.loads(re.sub(r"[\d.]+(?=}*$)", str(math.ceil(enough + 1)), json.dumps(budget)))
    assert main(["check", str(priced(config, more, **models))]) == 0
    assert "too small" not in capsys.readouterr().out
