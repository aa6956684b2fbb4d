"""The stdio MCP server of the bench: a relay without rights. It passes calls to the process that owns the run, which it
starts if none listens."""

from __future__ import annotations

import fcntl
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graph.bench.answers import verdict_text
from graph.bench.arguments import INSTRUCTIONS, TOOLS
from graph.bench.channel import CallResult, call_through, is_listening
from graph.settings import Settings, load
from graph.workspace.folder import is_workspace
from knowledge_base.mcp_server import with_parameters_of
from tools.errors import SettingsError, WorkspaceError

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

START_WAIT_S = 15.0
"""Seconds that a call waits for the run to open its bench."""
POLL_S = 0.2
MAX_LOG_CHARS = 600


class Relay:
    """Finds or starts the run of a target, and passes calls to its bench."""

    def __init__(self, target: Path) -> None:
        """`target`: a config, a task folder or a workspace. SettingsError if it is none of these."""
        self.target = target
        self.settings: Settings = load(target / "settings.yaml" if is_workspace(target) else target)
        self._task = _task_of(self.settings)
        self.root: Path | None = None
        """The workspace whose bench answered last."""
        self._run: subprocess.Popen[bytes] | None = None
        self._guard = threading.Lock()

    def call(self, tool: str, arguments: Mapping[str, Any]) -> CallResult:
        """Return the answer of the run's bench, or what the run is doing instead, within 45 seconds."""
        root = self._listening_workspace()
        if root is None:
            return self._answer_without_bench(tool, arguments)
        try:
            return call_through(root / ".kernelwright", tool, arguments)
        except WorkspaceError as error:
            return (
                self._answer_without_bench(tool, arguments) if not self._is_open(root) else CallResult(str(error), True)
            )

    def _listening_workspace(self) -> Path | None:
        """Return the workspace whose bench listens, which is waited for; None: there is none (yet)."""
        with self._guard:
            ends = time.monotonic() + START_WAIT_S
            while True:
                found = next((root for root in self._workspaces() if self._is_open(root)), None)
                if found is not None:
                    self.root = found
                    return found
                if self.root is not None or time.monotonic() >= ends:
                    return None
                if self._run is None:
                    self._run = self._start()
                elif self._run.poll() is not None:
                    return None
                time.sleep(POLL_S)

    def _workspaces(self) -> list[Path]:
        if self.root is not None:
            return [self.root]
        if is_workspace(self.target):
            return [self.target]
        return sorted(Path(self.settings.workspaces).glob(f"{self.settings.run_name}-*"), reverse=True)

    def _is_open(self, root: Path) -> bool:
        return is_listening(root / ".kernelwright") and _task_of(load(root / "settings.yaml")) == self._task

    @property
    def _log_path(self) -> Path:
        return Path(self.settings.workspaces) / f"{self.settings.run_name}.bench.log"

    def _start(self) -> subprocess.Popen[bytes] | None:
        """Start the process that owns the run and its bench, which outlives this one; None: another relay has started
        it. It inherits the lock of its log, which ends with it."""
        self._log_path.parent.mkdir(parents=True, exist_ok=True)
        with self._log_path.open("ab") as log:
            try:
                fcntl.flock(log, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return None
            log.truncate(0)
            return subprocess.Popen(
                # -P: the folder of the agent may hold packages of the same names.
                [sys.executable, "-P", "-m", "graph", "bench", str(self.target), "--parent"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _answer_without_bench(self, tool: str, arguments: Mapping[str, Any]) -> CallResult:
        asked = str(arguments.get("ticket", ""))
        if self.root is not None and tool == "verdict" and asked.startswith("v") and asked[1:].isdecimal():
            return CallResult(f"{verdict_text(self.root, int(asked[1:]))}\nThe run has ended.")
        if self.root is None and (self._run is None or self._run.poll() is None):
            return CallResult(f"The run is being prepared; call `{tool}` again. Its output is in {self._log_path}.")
        said = self._log_path.read_text(errors="replace").strip()[-MAX_LOG_CHARS:] if self._run else ""
        # The next call tries again, with the fault corrected.
        self._run = None
        where = f"; `python -m graph bench {self.root}` continues a run that was stopped" if self.root else ""
        return CallResult(f"The bench is closed: the run has ended or was stopped{where}.\n{said}".strip(), failed=True)


def _task_of(settings: Settings) -> Settings:
    """Return settings with their task alone, by which runs of other tasks under the same name are told apart."""
    return Settings(**settings.model_dump(include={"task", "kernel", "reference", "dims"}))


def serve_relay(target: Path) -> None:
    """Answer as an MCP server over stdio until the client closes stdin. SettingsError when the package mcp is missing
    or the target is no task."""
    build_server(Relay(target)).run("stdio")


def build_server(relay: Relay) -> MCPServer:
    """The server with the tools of the bench."""
    try:
        from mcp.server.mcpserver import MCPServer
    except ImportError as error:
        raise SettingsError("bench: needs the package mcp; pip install 'kernelwright[mcp]'") from error
    made = MCPServer("kernelwright-bench", instructions=INSTRUCTIONS, log_level="WARNING")
    for name in TOOLS:
        made.tool(name, structured_output=False)(_tool_function(name, relay))
    return made


def _tool_function(name: str, relay: Relay) -> Any:
    from mcp.server.mcpserver.exceptions import ToolError

    def ask(**arguments: Any) -> str:
        found = relay.call(name, arguments)
        if found.failed:
            raise ToolError(found.text)
        return found.text

    return with_parameters_of(TOOLS[name], ask, str)
