"""The knowledge base as an MCP server over stdio: the commands of the command line as tools, answered with the same
artifacts.

Read-only, unless adding is allowed. Nothing but the protocol goes to stdout.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, Field
from pydantic_core import PydanticUndefined

from knowledge_base.artifacts import PageType
from knowledge_base.commands import QueryCommand, SearchLocations, SpecCommand
from knowledge_base.experience.commands import (
    AddCommand,
    CommandAnswer,
    KnowledgeCommand,
    KnowledgeLocations,
    ListCommand,
    RecommendCommand,
    SearchCommand,
    StatsCommand,
)
from knowledge_base.pages.wiki import Wiki
from tools.artifacts import field_docstrings
from tools.errors import KernelwrightError, SettingsError

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

    from knowledge_base.search.index import Index

INSTRUCTIONS = (
    "Knowledge about making kernels faster: a wiki whose hardware figures are cited line by line, and the "
    "outcomes of earlier runs. "
    "State no hardware figure that spec does not give with its citation; UNKNOWN means unknown. Ask "
    "recommend before you write a version: "
    "it names what failed in the same conditions, too."
)
READING_TOOLS: dict[str, type[KnowledgeCommand]] = {
    "query": QueryCommand,
    "spec": SpecCommand,
    "recommend": RecommendCommand,
    "experience_list": ListCommand,
    "experience_search": SearchCommand,
    "experience_stats": StatsCommand,
}


class KnowledgeBaseHandle(SearchLocations):
    """The wiki, read once for all questions; the log is read again for each."""

    @cached_property
    def whole_wiki(self) -> Wiki:
        """The wiki with all of its pages."""
        return Wiki.open(self.wiki)

    @cached_property
    def search_index(self) -> Index:
        """The index, made for the first query, so that a client that only asks for figures does not wait for it."""
        return super().index()

    def open(self, *types: PageType) -> Wiki:
        """The whole wiki."""
        return self.whole_wiki

    def index(self) -> Index:
        """The index, made once for all questions."""
        return self.search_index


class ServeCommand(KnowledgeCommand):
    """Answer as an MCP server over stdio until the client leaves."""

    has_json = False

    allow_add: bool = False
    """offer experience_add as well; without it nothing can be written"""

    def answer(self, base: KnowledgeLocations) -> CommandAnswer:
        """Returns when the client closes stdin."""
        serve_stdio(base, adding=self.allow_add)
        return CommandAnswer(None, ())


def serve_stdio(base: KnowledgeLocations, *, adding: bool) -> None:
    """Answer until the client closes stdin. SettingsError when the package is missing or the wiki cannot be opened."""
    build_server(base, adding=adding).run("stdio")


def build_server(base: KnowledgeLocations, *, adding: bool) -> MCPServer:
    """The server with its tools."""
    try:
        from mcp.server.mcpserver import MCPServer
        from mcp.types import ToolAnnotations
    except ImportError as error:
        raise SettingsError("serve: needs the package mcp; pip install 'kernelwright[mcp]'") from error
    made = MCPServer("kernelwright-knowledge", instructions=INSTRUCTIONS, log_level="WARNING")
    opened = KnowledgeBaseHandle(wiki=base.wiki, home=base.home)
    opened.open()
    for name, verb in READING_TOOLS.items():
        made.tool(name, annotations=ToolAnnotations(read_only_hint=True, open_world_hint=False))(
            _tool_function(verb, opened)
        )
    if adding:
        writing = ToolAnnotations(
            read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=False
        )
        made.tool("experience_add", annotations=writing)(_tool_function(AddCommand, opened))
    return made


def _tool_function(verb: type[KnowledgeCommand], base: KnowledgeBaseHandle) -> Any:
    """A function with the verb's fields as parameters and its artifact as answer, from which MCP draws both schemas."""
    from mcp.server.mcpserver.exceptions import ToolError

    def ask(**arguments: Any) -> Any:
        try:
            return verb(**arguments).answer(base).artifact
        except KernelwrightError as error:
            # Our own errors are one sentence.
            raise ToolError(str(error)) from error

    return with_parameters_of(verb, ask, verb.answers)


def with_parameters_of(arguments: type[BaseModel], ask: Callable[..., Any], answer: Any) -> Callable[..., Any]:
    """Return `ask`, a function of keywords, with the fields and the docstring of `arguments` as its signature and its
    own, from which MCP draws the schema of a tool; `answer`: what it returns."""
    described = field_docstrings(arguments)
    parameters = [
        Parameter(
            name,
            Parameter.KEYWORD_ONLY,
            default=Parameter.empty
            if (default := info.get_default(call_default_factory=True)) is PydanticUndefined
            else default,
            annotation=Annotated[info.annotation, Field(description=info.description or described.get(name))],
        )
        for name, info in arguments.model_fields.items()
    ]
    ask.__doc__ = " ".join((arguments.__doc__ or "").split())
    ask.__signature__ = Signature(parameters, return_annotation=answer)  # type: ignore[attr-defined]
    return ask
