"""The ledger: spent is what the records say, whatever crashes, and no cap is passed by more than an exchange took
beyond its own bound."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from itertools import pairwise
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.artifacts import GatekeeperBrief, Review, RoleName
from agents.models.base import AnswerReply, Model, Request, Usage
from agents.models.ledger import (
    Ledger,
    ModelCaps,
    RemainingTime,
    exchange_records,
    format_dollars,
    sum_exchanges,
    total_tokens,
)
from agents.models.prices import LongPromptSurcharge, Price, cost_usd, published_prices
from agents.roles.agent import Agent, open_model
from tests.contracts.conftest import task
from tools.artifacts import Artifact, Record
from tools.errors import BudgetError, ProviderError, SettingsError
from tools.languages.cpp import Cpp
from tools.store.records import Records

TASK = task(Cpp())
PRICES = {"made-up": Price(input=10, output=50, cache_read=1)}
ROLES: tuple[RoleName, ...] = get_args(RoleName)


class Killed(BaseException):
    """Stands for the end of the process: nobody catches it."""


class Step(Artifact):
    """One exchange that somebody wants."""

    role: RoleName
    iteration: int
    bound: Usage
    took: Usage
    ends: str


class Scripted(Model):
    """Takes what the step says, and ends as it says."""

    reads = "brief"
    step: Step

    def ask(self, request: Request) -> AnswerReply:
        if self.step.ends == "fails":
            raise ProviderError("models.coder: out of order")
        if self.step.ends == "fails and is paid":
            error = ProviderError("models.coder: declined")
            error.usage = self.step.took.model_dump()
            raise error
        if self.step.ends == "killed before the record":
            raise Killed
        return AnswerReply(answer=Review(), usage=self.step.took)

    def usage_bound(self, request: Request) -> Usage:
        return self.step.bound


def usages(most: int) -> st.SearchStrategy[Usage]:
    counts = st.integers(0, most)
    return st.builds(
        Usage, model=st.just("made-up"), input=counts, cache_read=counts, cache_write=counts, output=counts
    )


ENDS = ("answers", "fails", "fails and is paid", "killed before the record", "killed after the record")
STEPS = st.builds(
    Step,
    role=st.sampled_from(ROLES[:2]),
    iteration=st.integers(0, 1),
    bound=usages(1000),
    took=usages(1000),
    ends=st.sampled_from(ENDS),
)
CAPS = st.builds(ModelCaps, usd=st.none() | st.floats(1e-4, 0.2), tokens=st.none() | st.integers(1, 9000))


@settings(max_examples=60)
@given(steps=st.lists(STEPS, max_size=10), caps=CAPS)
def test_spent_is_what_the_records_say_and_caps_hold(steps: list[Step], caps: ModelCaps) -> None:
    with tempfile.TemporaryDirectory() as folder:
        records = Records(Path(folder))
        ledger = Ledger(records, caps, PRICES)
        paid: list[Step] = []
        for number, step in enumerate(steps):
            ledger.iteration = step.iteration
            before = len(paid)
            made = ledger.spending()
            try:
                carried_out(step, number, records, ledger, paid)
            except Killed:
                # The next process knows the records and nothing else.
                records = Records(Path(folder))
                ledger = Ledger(records, caps, PRICES)
            except BudgetError as error:
                assert "\n" not in str(error) and str(error).startswith("budget")
                assert len(paid) == before and ledger.spending() == made, (
                    "nothing is taken by an exchange that was refused"
                )
            assert ledger.spending() == Ledger(Records(Path(folder)), caps, PRICES).spending()
            holds(caps, paid, ledger)


def carried_out(step: Step, number: int, records: Records, ledger: Ledger, paid: list[Step]) -> None:
    def added(record: Record) -> None:
        if record.kind not in ("exchange", "failed_exchange"):
            return
        paid.append(step.model_copy(update={"took": Usage()}) if step.ends == "fails" else step)
        if step.ends == "killed after the record":
            raise Killed

    records.on_added = added
    model = Scripted({"model": "made-up"})
    model.step = step
    agent = Agent(step.role, model, records, lambda kind, details: None, ledger)
    try:
        agent.ask(GatekeeperBrief(task=TASK, diff=str(number)), Review)
    except ProviderError:
        assert step.ends.startswith("fails")
    except Killed:
        if step.ends == "killed before the record":
            # Nobody knows what it took: what was set aside stays counted.
            paid.append(step.model_copy(update={"took": step.bound}))
        raise
    # The next one finds nothing held that is over.
    assert not ledger._reservations


def holds(caps: ModelCaps, paid: list[Step], ledger: Ledger) -> None:
    accounts: list[tuple[RoleName | None, int | None]] = [(None, None), (None, 0), (None, 1)]
    for role, iteration in accounts + [(role, None) for role in ROLES[:2]]:
        own = [step for step in paid if role in (None, step.role) and iteration in (None, step.iteration)]
        spent = ledger.spending(role, iteration)
        assert spent.exchanges == len(own) and spent.tokens == sum(total_tokens(step.took) for step in own)
        assert spent.usd == pytest.approx(sum(dollar(step.took) for step in own)) and not spent.unknown
        if caps.tokens is not None:
            assert spent.tokens <= caps.tokens + beyond(own, total_tokens)
        if caps.usd is not None:
            assert spent.usd <= caps.usd + beyond(own, dollar) + 1e-9


def beyond(own: list[Step], measure: Callable[[Usage], float]) -> float:
    return max((max(0.0, measure(step.took) - measure(step.bound)) for step in own), default=0.0)


def dollar(usage: Usage) -> float:
    return cost_usd(PRICES["made-up"], usage)


def agent(
    root: Path, caps: ModelCaps, kind: type[Scripted] = Scripted, model: str = "made-up", took: Usage | None = None
) -> tuple[Agent, Ledger]:
    """A coder whose exchanges take 100 tokens and two seconds."""
    ledger = Ledger(Records(root), caps, PRICES)
    asked, usage = kind({"model": model}), Usage(model=model, input=100)
    asked.step = Step(
        role="coder", iteration=0, bound=usage, took=took or usage.model_copy(update={"seconds": 2.0}), ends="answers"
    )
    return Agent("coder", asked, ledger.records, lambda kind, details: None, ledger), ledger


def ask(one: Agent, diff: str) -> None:
    one.ask(GatekeeperBrief(task=TASK, diff=diff), Review)


@pytest.mark.parametrize(
    ("caps", "name", "spent"),
    [
        (ModelCaps(tokens=250), "budget.tokens", "200 of 250 tokens"),
        (ModelCaps(usd=0.0025), "budget.usd", "$0.0020 of $0.0025"),
    ],
)
def test_an_exchange_that_could_pass_a_cap_is_not_begun(tmp_path: Path, caps: ModelCaps, name: str, spent: str) -> None:
    one, ledger = agent(tmp_path, caps)
    ask(one, "a")
    ask(one, "b")
    with pytest.raises(BudgetError) as caught:
        ask(one, "c")
    said = str(caught.value)
    assert said.startswith(f"{name}: ") and spent in said and "coder may take" in said
    assert ("100" if name.endswith("tokens") else "$0.0010") in said.rsplit("may take", 1)[1]
    # What was answered before is not asked, nor paid for, again.
    ask(one, "b")
    assert ledger.spending().tokens == 200


class Late(Scripted):
    """Fails when a short time is up."""

    def ask(self, request: Request) -> AnswerReply:
        assert request.ends is not None
        time.sleep(min(0.1, max(request.remaining_s, 0)))
        raise ProviderError("models.coder: no answer")


@pytest.mark.parametrize(
    ("wall_s", "error", "told"), [(0.05, BudgetError, r"^budget\.wall_s: "), (1000, ProviderError, "no answer")]
)
def test_a_failure_with_the_time_up_is_the_caps_and_booked(
    tmp_path: Path, wall_s: float, error: type[Exception], told: str
) -> None:
    """Of a provider that fails in its time nothing else is said than before."""
    late, ledger = agent(tmp_path, ModelCaps(), Late)
    late.begin = lambda: RemainingTime(wall_s, f"budget.wall_s: {wall_s} s of {wall_s} s are spent")
    with pytest.raises(error, match=told):
        ask(late, "a")
    assert ledger.spending("coder").seconds > 0


def test_threads_cannot_spend_the_same_dollar_twice(tmp_path: Path) -> None:
    """Ten at once, room for three: three are let in while none has settled."""
    go, admitted, refused = threading.Event(), threading.Semaphore(0), threading.Semaphore(0)

    class Slow(Scripted):
        def ask(self, request: Request) -> AnswerReply:
            admitted.release()
            assert go.wait(60)
            return super().ask(request)

    one, ledger = agent(tmp_path, ModelCaps(tokens=350), Slow)

    def work(number: int) -> None:
        try:
            ask(Agent("coder", one.model, one.records, one.emit, ledger), str(number))
        except BudgetError:
            refused.release()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(10)]
    for thread in threads:
        thread.start()
    assert all(refused.acquire(timeout=60) for _ in range(7)) and all(admitted.acquire(timeout=60) for _ in range(3))
    go.set()
    for thread in threads:
        thread.join(60)
    assert not admitted.acquire(blocking=False) and ledger.spending().tokens == 300


# ---------------------------------------------------------------- prices


def test_what_tokens_cost() -> None:
    price = Price(input=4, output=20, cache_read=0.2, cache_write=5, cache_write_1h=8)
    usage = Usage(input=1000, cache_read=10_000, cache_write=2000, cache_write_1h=3000, output=500)
    assert cost_usd(price, usage) == pytest.approx((4000 + 2000 + 10_000 + 24_000 + 10_000) / 1e6)
    # What is not said costs what it costs without a cache.
    assert cost_usd(Price(input=4, output=20), usage) == pytest.approx((16_000 * 4 + 10_000) / 1e6)
    tier = Price(input=1, output=2, long_prompt=LongPromptSurcharge(above=100, times=5))
    assert cost_usd(tier, Usage(input=100, output=10)) == pytest.approx(120e-6)
    assert cost_usd(tier, Usage(input=60, cache_read=41, output=10)) == pytest.approx(5 * 121e-6)


def test_published_prices_are_dated_and_in_order() -> None:
    table = published_prices()
    assert table
    for model, price in table.items():
        assert price.source and price.date, model
        rates = (0, price.cache_read, price.input, price.cache_write, price.cache_write_1h, price.output)
        assert all(low < high for low, high in pairwise(rates)), model


def test_an_unknown_model_has_tokens_and_no_dollars(tmp_path: Path) -> None:
    one, ledger = agent(tmp_path, ModelCaps(), model="nobody-knows")
    ask(one, "a")
    spent = ledger.spending()
    assert (
        spent.tokens == 100
        and spent.cost_text() == "cost unknown: no price for model nobody-knows; add it under prices:"
    )
    (record,) = exchange_records(ledger.records)
    assert record.payload["usd"] is None
    known, _ = agent(tmp_path, ModelCaps())
    ask(known, "b")
    both = sum_exchanges(exchange_records(Records(tmp_path)))
    assert (
        both.cost_text().startswith(f"{format_dollars(0.001)} and more; cost unknown")
        and "0.0000" not in both.cost_text()
    )


class Unseen(Scripted):
    bills = "unseen"


def test_a_provider_that_does_not_count_is_not_free(tmp_path: Path) -> None:
    unseen, ledger = agent(tmp_path, ModelCaps(), Unseen, took=Usage(model="some-agent"))
    ask(unseen, "a")
    spent = ledger.spending()
    assert spent.cost_text() == "cost unknown: Unseen does not report its usage" and spent.is_paid and spent.unseen == 1
    assert str(spent) == f"tokens unknown, {spent.cost_text()}" and spent.count_text(spent.input) == "N/A"
    free = Ledger(Records(tmp_path), prices={"some-agent": Price(input=0, output=0)})
    assert free.cost_usd(unseen.model, Usage(model="some-agent")) == 0, "whoever says that nothing is paid for it"
    unseen.model = agent(tmp_path, ModelCaps())[0].model
    ask(unseen, "b")
    both = ledger.spending()
    assert (
        str(both).startswith(f"{both.tokens:,} tokens and more, ")
        and both.count_text(both.output) == f"{both.output:,} and more"
    )


@pytest.mark.parametrize(
    ("caps", "model", "told"),
    [
        (
            ModelCaps(usd=1),
            Scripted({"model": "nobody-knows"}),
            "budget.usd: .*'nobody-knows' of models.coder has no price; add it",
        ),
        (ModelCaps(usd=1), Scripted({}), "budget.usd: .*models.coder names no model"),
        (ModelCaps(usd=1), Unseen({}), "budget.usd: .*the usage of models.coder is unknown"),
        (ModelCaps(usd=1), open_model("coder", {"provider": "playbook"}), ""),
        (ModelCaps(usd=1), Scripted({"model": "made-up-20260101"}), ""),
        (ModelCaps(), Unseen({}), ""),
    ],
)
def test_what_is_not_known_cannot_be_capped_and_what_is_can(
    tmp_path: Path, caps: ModelCaps, model: Model, told: str
) -> None:
    with pytest.raises(SettingsError, match=told) if told else nullcontext():
        Ledger(Records(tmp_path), caps, PRICES).check_caps_can_be_kept("coder", model)


def test_the_playbook_answers_with_every_cap_reached(tmp_path: Path) -> None:
    one, ledger = agent(tmp_path, ModelCaps(tokens=100, usd=0.001))
    ask(one, "a")
    with pytest.raises(BudgetError):
        ask(one, "b")
    playbook = Agent("gatekeeper", open_model("gatekeeper", {"provider": "playbook"}), one.records, one.emit, ledger)
    ask(playbook, "b")
    assert (
        ledger.spending().exchanges == 2
        and ledger.spending("gatekeeper").cost_text() == "$0.0000"
        and not ledger.spending("gatekeeper").is_paid
    )


def test_a_faulty_answer_that_was_paid_for_is_used_where_no_other_can_be_paid(tmp_path: Path) -> None:
    one, _ = agent(tmp_path, ModelCaps(tokens=150))
    answer = one.ask(GatekeeperBrief(task=TASK, diff="a"), Review, lambda review: ("quote: is missing",))
    assert answer == Review()
