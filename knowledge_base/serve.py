"""The knowledge base as an MCP server over stdio: the same questions as on the command line, answered with the same artifacts.

Read-only, unless adding is allowed. Nothing but the protocol goes to stdout.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from knowledge_base import specs, verbs
from knowledge_base.artifacts import Passage
from knowledge_base.recommend import Recommendation
from knowledge_base.wiki import Wiki
from tools.artifacts import Artifact
from tools.errors import KernelwrightError, SettingsError
from tools.hardware import Spec, UnknownSpec

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

    from knowledge_base.index import Index

P = ParamSpec("P")
T = TypeVar("T")
INSTRUCTIONS = (
    "Knowledge about making kernels faster: a wiki whose hardware figures are cited line by line, and the outcomes of earlier runs. "
    "State no hardware figure that spec does not give with its citation; UNKNOWN means unknown. Ask recommend before you write a version: "
    "it names what failed in the same conditions, too."
)


class Passages(Artifact):
    """What a query found."""

    passages: tuple[Passage, ...]
    explain: str
    """Why nothing was found."""
    note: str
    """Why words alone were compared; empty when vectors were, too."""


class Figure(Artifact):
    """A hardware number, or that there is none."""

    known: bool
    line: str
    """As it may be quoted: value, unit and citation, or UNKNOWN with the reason."""
    spec: Spec | None
    unknown: UnknownSpec | None


def serve(wiki: Path | None, home: Path | None, *, adding: bool) -> None:
    """Answer until the client closes stdin. SettingsError when the package is missing or the wiki cannot be opened."""
    server(wiki, home, adding=adding).run("stdio")


def server(wiki: Path | None, home: Path | None, *, adding: bool) -> MCPServer:
    """The server with its tools; the wiki is read once, the log anew for each question."""
    try:
        from mcp.server.mcpserver import MCPServer
    except ImportError as error:
        raise SettingsError("serve: needs the package mcp; pip install 'kernelwright[mcp]'") from error
    made = MCPServer("kernelwright-knowledge", instructions=INSTRUCTIONS, log_level="WARNING")
    opened = Wiki.open(wiki)

    @cache
    def index() -> Index:
        # With the first question: a client that only asks for figures does not wait for it.
        from knowledge_base.index import Index

        return Index.open(opened, home=home)

    _wiki_tools(made, opened, index)
    _experience_tools(made, opened, home)
    if adding:
        _adding_tool(made, opened, home)
    return made


def search(index: Index, text: str, k: int, kind: str | None, language: str | None, arch: str | None) -> Passages:
    """What the verb `query` finds."""
    found = index.search(text, k, kind=kind, language=language, arch=arch)
    why_not = "" if found else index.explain(text, kind=kind, language=language, arch=arch)
    return Passages(passages=found, explain=why_not, note=index.shortfall)


def figure(wiki: Wiki, product: str, metric: str, variant: str, qualifier: str) -> Figure:
    """What the verb `spec` answers; a measured roof of this machine only under its own name."""
    from knowledge_base import overlay

    answer: Spec | UnknownSpec = specs.resolve(wiki, product, metric, variant, qualifier)
    if isinstance(answer, UnknownSpec):
        answer = overlay.resolve(product, metric, variant, qualifier) or answer
    known = answer if isinstance(answer, Spec) else None
    return Figure(known=known is not None, line=specs.gap(answer), spec=known, unknown=None if isinstance(answer, Spec) else answer)


def _told(function: Callable[P, T]) -> Callable[P, T]:
    """Our own errors as the one sentence that they are."""
    from mcp.server.mcpserver.exceptions import ToolError

    @wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except KernelwrightError as error:
            raise ToolError(str(error)) from error

    return wrapped


def _wiki_tools(made: MCPServer, wiki: Wiki, index: Callable[[], Index]) -> None:
    from mcp.types import ToolAnnotations

    reading = ToolAnnotations(read_only_hint=True, open_world_hint=False)

    @made.tool(annotations=reading)
    @_told
    def query(text: str, k: int = 8, kind: str | None = None, language: str | None = None, arch: str | None = None) -> Passages:
        """Search the wiki and past outcomes. Passages come with file, line range and why they matched. kind: hardware, method, skill,
        guide, operator, meta or outcome. language: such as cpp or triton. arch: such as hopper, sm_90 or H100."""
        if k < 1:
            raise SettingsError(f"k: {k} passages cannot be shown; give 1 or more")
        return search(index(), text, k, kind, language, arch)

    @made.tool(annotations=reading)
    @_told
    def spec(product: str, metric: str, variant: str = "", qualifier: str = "") -> Figure:
        """Look one hardware number up, with its citation, such as H200 memory_bandwidth, variant SXM5. UNKNOWN is never to be filled in."""
        return figure(wiki, product, metric, variant, qualifier)


def _experience_tools(made: MCPServer, wiki: Wiki, home: Path | None) -> None:
    from mcp.types import ToolAnnotations

    reading = ToolAnnotations(read_only_hint=True, open_world_hint=False)

    @made.tool(annotations=reading)
    @_told
    def recommend(
        language: str, bottleneck: str = "", arch: str = "", operator: str = "", dtype: str = "", shape_class: str = "", k: int = 5
    ) -> Recommendation:
        """What to try next and why, by outcomes in like conditions, else by the wiki; and what failed in the same conditions.
        bottleneck: memory, compute, latency, occupancy, mixed, or a finding such as poor_coalescing. arch: such as sm_90 or hopper.
        shape_class: power of two in the unique bytes, such as 2^25B."""
        return verbs.recommend(
            home,
            wiki,
            k,
            language=language,
            bottleneck=bottleneck,
            architecture=arch,
            operator=operator,
            dtype=dtype,
            shape_class=shape_class,
        )

    @made.tool(annotations=reading)
    @_told
    def experience_list(
        operator: str = "", language: str = "", arch: str = "", method: str = "", result: str = "", n: int = 20
    ) -> verbs.Listed:
        """Past attempts, the newest first. result: success, failure, neutral or crash."""
        chosen = verbs.Filter(operator=operator, language=language, architecture=arch, method=method, result=result)
        return verbs.listed(home, wiki, chosen, n)

    @made.tool(annotations=reading)
    @_told
    def experience_search(text: str, operator: str = "", language: str = "", arch: str = "", n: int = 10) -> verbs.Listed:
        """Past attempts in which these words occur."""
        return verbs.search(home, wiki, text, verbs.Filter(operator=operator, language=language, architecture=arch), n)

    @made.tool(annotations=reading)
    @_told
    def experience_stats(operator: str = "", language: str = "", arch: str = "") -> verbs.Stats:
        """Counts of outcomes by method, and of each set of methods whether it is resolved, pending or to be avoided."""
        return verbs.stats(home, wiki, verbs.Filter(operator=operator, language=language, architecture=arch))


def _adding_tool(made: MCPServer, wiki: Wiki, home: Path | None) -> None:
    from mcp.types import ToolAnnotations

    @made.tool(annotations=ToolAnnotations(read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=False))
    @_told
    def experience_add(
        operator: str,
        language: str,
        dtype: str,
        methods: list[str],
        result: str,
        effect: list[float] | None = None,
        knobs: dict[str, str] | None = None,
        arch: str = "",
        shape_class: str = "",
        bottleneck: str = "",
        evidence: str = "",
        commit: str = "",
        note: str = "",
    ) -> verbs.Added:
        """Keep an outcome that you state; it is marked as not measured by a run. result: success, failure, neutral or crash. effect: old
        time / new time, as [estimate] or [estimate, low, high]."""
        given = {
            "operator": operator,
            "language": language,
            "dtype": dtype,
            "result": result,
            "architecture": arch,
            "shape_class": shape_class,
            "bottleneck": bottleneck,
            "evidence": evidence,
            "commit": commit,
            "note": note,
        }
        pairs = tuple(f"{name}={value}" for name, value in (knobs or {}).items())
        return verbs.add(home, wiki, given, tuple(methods), tuple(effect or ()), pairs)
