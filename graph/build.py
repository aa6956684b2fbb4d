"""The state machine of a run: its nodes and edges. The routes are in `routing`, the work is in `nodes`."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime

from graph.nodes import evaluate, finish, prepare, propose
from graph.routing import Routes, next_unless_stopped
from graph.services import Services
from graph.settings import Settings
from graph.state import Branch, State
from tools.errors import BudgetError

if TYPE_CHECKING:
    from langgraph.graph.state import CompiledStateGraph

Node = Callable[[Any, Services], State]

NODES: Mapping[str, Node] = {
    "preflight": prepare.preflight,
    "retrieve_specs": prepare.retrieve_specs,
    "establish_baseline": prepare.establish_baseline,
    "profile": prepare.profile,
    "retrieve_evidence": propose.retrieve_evidence,
    "plan": propose.plan,
    "write": propose.write,
    "judge": evaluate.judge,
    "select": evaluate.select_champion,
    "attribute": evaluate.attribute_gain,
    "gate": evaluate.gate,
    "learn": evaluate.learn,
    "finalise": finish.finalise,
}


def build_graph(settings: Settings, checkpointer: Any = None) -> CompiledStateGraph[State, Services, State, State]:
    """Return the compiled graph of a run; without a checkpointer it can only be drawn."""
    routes = Routes(settings)
    graph = StateGraph(State, context_schema=Services)
    for name, work in NODES.items():
        graph.add_node(name, _node_with_events(name, work), input_schema=Branch if name == "judge" else State)
    graph.add_edge(START, "preflight")
    graph.add_edge("preflight", "retrieve_specs")
    graph.add_edge("retrieve_specs", "establish_baseline")
    graph.add_edge("establish_baseline", "profile")
    for name, onward in (("profile", "retrieve_evidence"), ("retrieve_evidence", "plan"), ("plan", "write")):
        graph.add_conditional_edges(name, partial(next_unless_stopped, onward), [onward, "finalise"])
    graph.add_conditional_edges("write", routes.judge_branches, ["judge", "gate"])
    graph.add_edge("judge", "select")
    graph.add_conditional_edges("select", routes.after_select, ["write", "attribute", "gate"])
    graph.add_edge("attribute", "gate")
    graph.add_edge("gate", "learn")
    graph.add_conditional_edges("learn", routes.after_learn, ["profile", "retrieve_evidence", "finalise"])
    graph.add_edge("finalise", END)
    return graph.compile(checkpointer=checkpointer)


def _node_with_events(name: str, work: Node) -> Any:
    """Return the LangGraph node for `work`, which emits events at its start and end and stops the run at a
    BudgetError."""

    def node(state: State | Branch, runtime: Runtime[Services]) -> State:
        services = runtime.context
        services.executor.raise_if_stopping()
        iteration = str(state.get("iteration", 0))
        services.emit(
            "node", {"node": name, "state": "started", "iteration": iteration, "at": f"{services.executor.clock():.4f}"}
        )
        # This one opens the iteration that comes after the one in the state.
        services.ledger.iteration = int(iteration) + (name == "retrieve_evidence")
        start = time.perf_counter()
        try:
            update = work(state, services)
        except BudgetError as error:
            update = state_after_unpaid_node(name, state)
            update["stop"] = services.record_reached_cap(str(error))
            update["summary"] = str(error)
        details = {"node": name, "state": "finished", "s": f"{time.perf_counter() - start:.4f}"}
        summary = update.pop("summary", "")
        # A node that gives its iteration back (`plan` with nothing left) has still worked for that one.
        worked_for = str(max(int(iteration), update.get("iteration", 0)))
        spent = services.ledger.spending()
        spent_details = spent.event_details() if spent.is_paid else {}
        services.emit("node", {**details, "iteration": worked_for, "summary": summary, **spent_details})
        return update

    node.__name__ = name
    return node


def state_after_unpaid_node(name: str, state: State | Branch) -> State:
    """Return the update of a node whose model could not be paid: `plan` gives its iteration back, `write` has no
    drafts."""
    if name == "plan":
        return State(iteration=state["iteration"] - 1)
    return State(drafts=[], champion=None, attribution=None) if name == "write" else State()
