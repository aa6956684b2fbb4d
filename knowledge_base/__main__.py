"""Ask the wiki and the experience log without a run. Exit 0: found; 1: nothing found, or problems; 2: bad input; 4:
the machine failed."""

from __future__ import annotations

import argparse
import json
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any, get_args, get_origin

from tools.cli.signals import run_as_process
from tools.cli.suggestions import Parser, run_command
from tools.errors import SettingsError

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

    from knowledge_base.experience.commands import KnowledgeCommand, KnowledgeLocations

WIKI_COMMANDS, EXPERIENCE_COMMANDS = "knowledge_base.commands", "knowledge_base.experience.commands"
COMMANDS = {
    "query": (f"{WIKI_COMMANDS}:QueryCommand", "search the wiki, past outcomes and reference projects"),
    "pages": (f"{WIKI_COMMANDS}:PagesCommand", "show the pages that answer findings of a profile"),
    "spec": (f"{WIKI_COMMANDS}:SpecCommand", "look up one hardware figure with its citation"),
    "lint": (f"{WIKI_COMMANDS}:LintCommand", "check every page, or every citation and figure of a workspace"),
    "overlay": (f"{WIKI_COMMANDS}:OverlayCommand", "write a measured roof as a page that can be cited"),
    "utilisation": (
        f"{WIKI_COMMANDS}:UtilisationCommand",
        "show what a kernel reaches of measured and of published roofs",
    ),
    "recommend": (f"{EXPERIENCE_COMMANDS}:RecommendCommand", "show what to try next, and why"),
    "experience recommend": (f"{EXPERIENCE_COMMANDS}:RecommendCommand", "show what to try next, and why"),
    "experience add": (f"{EXPERIENCE_COMMANDS}:AddCommand", "add an outcome that you state"),
    "experience list": (f"{EXPERIENCE_COMMANDS}:ListCommand", "show past attempts, the newest first"),
    "experience search": (f"{EXPERIENCE_COMMANDS}:SearchCommand", "find past attempts by words"),
    "experience stats": (f"{EXPERIENCE_COMMANDS}:StatsCommand", "count outcomes by method and by status"),
    "experience own": (f"{EXPERIENCE_COMMANDS}:ListFreeMethodsCommand", "show the methods that plans named themselves"),
    "experience edit": (f"{EXPERIENCE_COMMANDS}:EditFreeMethodCommand", "change the page of such a method"),
    "experience drop": (f"{EXPERIENCE_COMMANDS}:DropFreeMethodCommand", "delete the page of such a method"),
    "experience merge": (f"{EXPERIENCE_COMMANDS}:MergeCommand", "append other logs"),
    "experience sync": (f"{EXPERIENCE_COMMANDS}:SyncCommand", "share the log through a folder"),
    "serve": ("knowledge_base.mcp_server:ServeCommand", "answer as an MCP server over stdio"),
}
"""What is typed -> its class, which is loaded when it is typed, and its line in the list of commands."""
EXPERIENCE = "Past outcomes of methods, kept under $KERNELWRIGHT_HOME/experience by every run."


class CommandParser(Parser):
    """The options of one command, made from its fields when it is typed."""

    path = ""
    """Module and class; empty: the parser only holds other commands, or has its options already."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """See argparse."""
        if self.path:
            module, name = self.path.split(":")
            self.path = ""
            self._add_options(module, name)
        return super().parse_known_args(args, namespace)

    def _add_options(self, module: str, name: str) -> None:
        from knowledge_base.commands import SearchLocations

        command: type[KnowledgeCommand] = getattr(import_module(module), name)
        self.description = command.__doc__
        self.set_defaults(command=command)
        for field, info in command.model_fields.items():
            self._add_option(field, info, field in command.positional)
        for field in command.uses:
            self._add_option(field, SearchLocations.model_fields[field], positional=False)
        if command.has_json:
            self.add_argument("--json", action="store_true", help="print one JSON object")

    def _add_option(self, name: str, info: FieldInfo, positional: bool) -> None:
        """Add the option, or the positional argument, that fills a field."""
        is_multiple = get_origin(info.annotation) in (tuple, dict)
        kind = next(iter(get_args(info.annotation)), info.annotation)
        settings: dict[str, Any] = {"action": "store_true"} if kind is bool else {"type": kind}
        if positional:
            settings |= {"nargs": "+"} if is_multiple else {}
            self.add_argument(name, help=info.description, **settings)
            return
        if is_multiple:
            settings |= {"nargs": "+"} if kind is float else {"action": "append"}
        # An option with several values takes one at a time: --method a --method b.
        option = name.removesuffix("s") if settings.get("action") == "append" else name.replace("_", "-")
        self.add_argument(
            f"-{option}" if len(option) == 1 else f"--{option}", dest=name, help=info.description, **settings
        )


def parser() -> Parser:
    """The command line; `command_from` reads what it parses."""
    top = Parser(prog="python -m knowledge_base", description=__doc__)
    commands = top.add_subparsers(required=True, metavar="COMMAND", parser_class=CommandParser)
    experience = commands.add_parser(
        "experience",
        help="past outcomes: add, recommend, search, list, merge, sync, stats, own, edit, drop",
        description=EXPERIENCE,
    )
    names = "|".join(words.split()[1] for words in COMMANDS if " " in words)
    of_experience = experience.add_subparsers(required=True, metavar=names)
    for words, (path, brief) in COMMANDS.items():
        group, _, name = words.rpartition(" ")
        # Options that are not given are left to the fields' defaults.
        added = (of_experience if group else commands).add_parser(name, help=brief, argument_default=argparse.SUPPRESS)
        added.path = path
    return top


def command_from(arguments: argparse.Namespace) -> tuple[KnowledgeCommand, KnowledgeLocations]:
    """The command and where it looks. SettingsError for a `--knob` or the like that is not NAME=VALUE."""
    from knowledge_base.commands import SearchLocations

    command: type[KnowledgeCommand] = arguments.command
    given = vars(arguments)
    values = {name: given[name] for name in command.model_fields if name in given}
    for name, info in command.model_fields.items():
        if get_origin(info.annotation) is dict and name in values:
            if any("=" not in text for text in values[name]):
                raise SettingsError(f"--{name.removesuffix('s')}: must be NAME=VALUE")
            values[name] = dict(text.split("=", 1) for text in values[name])
        if info.is_required() and name not in values:
            # The command says what is missing, and which values are allowed.
            values[name] = () if get_origin(info.annotation) is tuple else ""
    return command(**values), SearchLocations(**{name: given[name] for name in command.uses if name in given})


def run(argv: list[str] | None) -> int:
    """Carry out one command and print its answer."""
    arguments = parser().parse_args(argv)
    command, locations = command_from(arguments)
    answer = command.answer(locations)
    if "json" not in arguments:
        for line in answer.lines:
            print(line)
        if answer.note:
            print(answer.note, file=sys.stderr)
    elif answer.artifact is not None and answer.json is None:
        print(answer.artifact.model_dump_json(indent=1))
    else:
        print(json.dumps(answer.json, indent=1))
    return answer.code


def main(argv: list[str] | None = None) -> int:
    """Carry out one command and return the exit code."""
    return run_command(lambda: run(argv), argv)


if __name__ == "__main__":
    run_as_process(main)
