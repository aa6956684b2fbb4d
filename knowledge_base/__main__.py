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

    from knowledge_base.experience.verbs import Base, Verb

VERBS = {
    "query": ("knowledge_base.verbs:Query", "search the wiki, past outcomes and reference projects"),
    "pages": ("knowledge_base.verbs:Pages", "pages that answer findings of a profile"),
    "spec": ("knowledge_base.verbs:LookUp", "look one hardware number up, with its citation"),
    "lint": ("knowledge_base.verbs:Lint", "check every page, or every citation of a workspace"),
    "overlay": ("knowledge_base.verbs:Overlay", "make a measured roof citable"),
    "utilisation": ("knowledge_base.verbs:Utilisation", "what a kernel reaches of measured and of cited roofs"),
    "recommend": ("knowledge_base.experience.verbs:Recommend", "what to try next, and why"),
    "experience recommend": ("knowledge_base.experience.verbs:Recommend", "what to try next, and why"),
    "experience add": ("knowledge_base.experience.verbs:Add", "keep an outcome that somebody states"),
    "experience list": ("knowledge_base.experience.verbs:ListAttempts", "show attempts, the newest first"),
    "experience search": ("knowledge_base.experience.verbs:SearchAttempts", "find attempts by words"),
    "experience stats": ("knowledge_base.experience.verbs:CountAttempts", "count outcomes; resolved, pending, avoid"),
    "experience own": ("knowledge_base.experience.verbs:ListOwn", "show the methods that plans named themselves"),
    "experience edit": ("knowledge_base.experience.verbs:EditOwn", "change what the page of one says"),
    "experience drop": ("knowledge_base.experience.verbs:DropOwn", "take its page back"),
    "experience merge": ("knowledge_base.experience.verbs:Merge", "append other logs"),
    "experience sync": ("knowledge_base.experience.verbs:Sync", "share the log with other machines"),
    "serve": ("knowledge_base.mcp_server:Serve", "answer as an MCP server over stdio"),
}
"""What is typed -> its class, loaded when it is typed, and its line in the list of verbs."""
EXPERIENCE = "Past outcomes of methods, kept under $KERNELWRIGHT_HOME/experience by every run."


class VerbParser(Parser):
    """The options of one verb, drawn from its fields when it is typed."""

    verb = ""
    """Module and class; empty: it only holds verbs, or its options are drawn."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """See argparse."""
        if self.verb:
            module, name = self.verb.split(":")
            self.verb = ""
            self._draw(module, name)
        return super().parse_known_args(args, namespace)

    def _draw(self, module: str, name: str) -> None:
        from knowledge_base.verbs import Place

        verb: type[Verb] = getattr(import_module(module), name)
        self.description = verb.__doc__
        self.set_defaults(verb=verb)
        for field, info in verb.model_fields.items():
            self._add(field, info, field in verb.positional)
        for field in verb.uses:
            self._add(field, Place.model_fields[field], positional=False)
        if verb.has_json:
            self.add_argument("--json", action="store_true", help="print one JSON object")

    def _add(self, name: str, info: FieldInfo, positional: bool) -> None:
        """The option, or the positional argument, that fills a field."""
        several = get_origin(info.annotation) in (tuple, dict)
        kind = next(iter(get_args(info.annotation)), info.annotation)
        settings: dict[str, Any] = {"action": "store_true"} if kind is bool else {"type": kind}
        if positional:
            settings |= {"nargs": "+"} if several else {}
            self.add_argument(name, help=info.description, **settings)
            return
        if several:
            settings |= {"nargs": "+"} if kind is float else {"action": "append"}
        # Of several values one is given at a time: --method a --method b.
        option = name.removesuffix("s") if settings.get("action") == "append" else name.replace("_", "-")
        self.add_argument(
            f"-{option}" if len(option) == 1 else f"--{option}", dest=name, help=info.description, **settings
        )


def parser() -> Parser:
    """The command line; what it parses goes to `asked`."""
    top = Parser(prog="python -m knowledge_base", description=__doc__)
    verbs = top.add_subparsers(required=True, metavar="VERB", parser_class=VerbParser)
    inner = verbs.add_parser(
        "experience",
        help="past outcomes: add, recommend, search, list, merge, sync, stats, own, edit, drop",
        description=EXPERIENCE,
    )
    below = inner.add_subparsers(required=True, metavar="|".join(words.split()[1] for words in VERBS if " " in words))
    for words, (verb, brief) in VERBS.items():
        group, _, name = words.rpartition(" ")
        # What is not given is left to the fields' defaults.
        made = (below if group else verbs).add_parser(name, help=brief, argument_default=argparse.SUPPRESS)
        made.verb = verb
    return top


def asked(arguments: argparse.Namespace) -> tuple[Verb, Base]:
    """What was asked and where to look. SettingsError for a pair that is none."""
    from knowledge_base.verbs import Place

    verb: type[Verb] = arguments.verb
    given = vars(arguments)
    values = {name: given[name] for name in verb.model_fields if name in given}
    for name, info in verb.model_fields.items():
        if get_origin(info.annotation) is dict and name in values:
            if any("=" not in text for text in values[name]):
                raise SettingsError(f"--{name.removesuffix('s')}: must be NAME=VALUE")
            values[name] = dict(text.split("=", 1) for text in values[name])
        if info.is_required() and name not in values:
            # The verb says what is missing, and what may stand there.
            values[name] = () if get_origin(info.annotation) is tuple else ""
    return verb(**values), Place(**{name: given[name] for name in verb.uses if name in given})


def run(argv: list[str] | None) -> int:
    """Ask one thing and print the answer."""
    arguments = parser().parse_args(argv)
    verb, base = asked(arguments)
    answer = verb.answer(base)
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
    """Run one verb and return the exit code."""
    return run_command(lambda: run(argv), argv)


if __name__ == "__main__":
    run_as_process(main)
