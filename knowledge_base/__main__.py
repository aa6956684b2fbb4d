"""Ask the wiki and the experience log without a run. Exit 0: found; 1: nothing found, or problems; 2: bad input; 4: the machine failed."""

from __future__ import annotations

import argparse
import json
import os
import sys
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from knowledge_base.experience_cli import add_verbs, home, wiki_at
from tools.errors import InfrastructureError, SettingsError
from tools.interrupts import process
from tools.spelling import Misread, Parser, meant, offered, refusal

if TYPE_CHECKING:
    from tools.artifacts import Artifact

    Verbs = argparse._SubParsersAction[Parser]
EXCERPT = 300
"""Characters of a passage that `query` prints."""


def query(arguments: argparse.Namespace) -> int:
    """Search the wiki, past outcomes and reference projects."""
    from knowledge_base.index import Index

    if arguments.k < 1:
        raise SettingsError(f"-k: {arguments.k} passages cannot be shown; give 1 or more")
    index = Index.open(
        wiki_at(arguments.wiki),
        home=arguments.home,
        reference=arguments.reference_folder,
        embedder=arguments.embedder,
        server=arguments.chroma,
    )
    filters = {"kind": arguments.kind, "language": arguments.language, "arch": arguments.arch}
    if unknown := index.unknown(**filters):
        raise SettingsError("; ".join(f"--{name}: {why}" for name, why in unknown.items()))
    found = index.search(arguments.text, arguments.k, **filters)
    note = index.shortfall and f"words alone were compared: {index.shortfall}"
    why_not = "" if found else index.explain(arguments.text, **filters)
    if arguments.json:
        print(json.dumps({"passages": [passage.model_dump() for passage in found], "explain": why_not, "note": note}, indent=1))
        return 0 if found else 1
    if not found:
        print(f"nothing found: {why_not}")
    for passage in found:
        print(f"{passage.citation}-{passage.last_line}  {' > '.join(passage.heading)}")
        print(f"    {passage.kind}, score {passage.score:.4f}: {passage.why}")
        print(textwrap.indent(textwrap.shorten(" ".join(passage.text.split()), EXCERPT, placeholder=" …"), "    "))
    if note:
        print(f"note: {note}", file=sys.stderr)
    return 0 if found else 1


def pages(arguments: argparse.Namespace) -> int:
    """Skill and method pages that answer rules of the profile."""
    from tools import rules

    known = {rule.id for rule in rules.load()}
    unknown = [name for name in arguments.rules if name not in known]
    if unknown:
        hint = meant(unknown[0], known, "`python -m tools diagnose` names those of a kernel")
        raise SettingsError(f"{unknown[0]!r} is no rule of tools/rules.yaml; {hint}")
    wiki = wiki_at(arguments.wiki).guide()
    languages = wiki.languages()
    if arguments.language and arguments.language not in languages:
        raise SettingsError(f"--language {arguments.language}: no page is about it; {offered(arguments.language, languages)}")
    found = [
        (rule, page)
        for rule in dict.fromkeys(arguments.rules)
        for page in sorted(wiki.pages, key=lambda page: (page.head.type != "skill", -page.head.priority, page.head.id))
        if rule in page.head.rules and (not arguments.language or not page.head.languages or arguments.language in page.head.languages)
    ]
    if arguments.json:
        print(
            json.dumps(
                [{"rule": r, "type": p.head.type, "id": p.head.id, "title": p.head.title, "path": p.path} for r, p in found], indent=1
            )
        )
    for rule, page in found if not arguments.json else ():
        print(f"{rule}: {page.head.type} {page.head.id}: {page.head.title}  <gpu-wiki>/{page.path}:{page.body_line}")
    return 0 if found else 1


def spec(arguments: argparse.Namespace) -> int:
    """Look one hardware number up."""
    from knowledge_base import specs
    from tools.hardware import Spec, UnknownSpec

    wiki = wiki_at(arguments.wiki, types=("hardware", "meta"))
    answer = specs.resolve(wiki, arguments.product, arguments.metric, arguments.variant, arguments.qualifier)
    if isinstance(answer, UnknownSpec):
        from knowledge_base import overlay

        answer = overlay.resolve(arguments.product, arguments.metric, arguments.variant, arguments.qualifier) or answer
    known = isinstance(answer, Spec)
    if arguments.json:
        print(json.dumps({"known": known, "line": specs.gap(answer), **answer.model_dump()}, indent=1))
    else:
        print(specs.gap(answer))
        if isinstance(answer, Spec) and answer.caveat:
            print(f"    caveat: {answer.caveat}")
    return 0 if known else 1


def lint(arguments: argparse.Namespace) -> int:
    """Check every page of the wiki, or every citation of a workspace."""
    from knowledge_base.lint import lint as check
    from tools import rules

    if arguments.workspace is not None:
        return _citations(arguments.workspace, arguments.wiki)
    wiki = wiki_at(arguments.wiki)
    problems = check(wiki, frozenset(rule.id for rule in rules.load()))
    for problem in problems:
        print(problem)
    print(f"{len(wiki.pages)} pages, {len(problems)} problems")
    return 1 if problems else 0


def _citations(workspace: Path, wiki: Path | None) -> int:
    from knowledge_base import citations

    checked = citations.check(workspace, wiki_at(wiki or citations.wiki_of(workspace)), citations.reference_of(workspace))
    for problem in checked.problems:
        print(problem)
    print(f"{checked.citations} citations, {len(checked.problems)} problems")
    return 1 if checked.problems else 0


def overlay(arguments: argparse.Namespace) -> int:
    """Make a measured roof citable: write its record as a page under $KERNELWRIGHT_HOME/overlay."""
    from knowledge_base import overlay as pages

    wiki = wiki_at(arguments.wiki)
    written = pages.write(arguments.record, wiki, workspace=arguments.workspace, home=arguments.home, replace=arguments.replace)
    print(f"{written.path} {'is written' if written.changed else 'says this already'}")
    return 0


def serve(arguments: argparse.Namespace) -> int:
    """Answer the same questions as an MCP server over stdio, until the client leaves."""
    from knowledge_base.serve import serve as start

    start(arguments.wiki, arguments.home, adding=arguments.allow_add)
    return 0


def told(answer: Artifact, lines: Iterable[str], arguments: argparse.Namespace) -> None:
    """One JSON object, or lines for people."""
    if arguments.json:
        print(answer.model_dump_json(indent=1))
    else:
        for line in lines:
            print(line)


def parser() -> Parser:
    """The command line."""
    top = Parser(prog="python -m knowledge_base", description=__doc__)
    verbs = top.add_subparsers(required=True, metavar="VERB")
    wiki = Parser(add_help=False)
    wiki.add_argument("--wiki", type=Path, metavar="PATH", help="folder of wiki pages (default: the bundled gpu-wiki)")
    out = Parser(add_help=False)
    out.add_argument("--json", action="store_true", help="print one JSON object")

    _query(verbs, wiki, out)
    verb = verbs.add_parser("pages", parents=[wiki, out], help="pages that answer findings of a profile", description=pages.__doc__)
    verb.add_argument("rules", nargs="+", metavar="RULE", help="such as loop_not_vectorised")
    verb.add_argument("--language", help="only pages about this kernel language, or about all")
    verb.set_defaults(run=pages)

    verb = verbs.add_parser("spec", parents=[wiki, out], help="look one hardware number up, with its citation", description=spec.__doc__)
    verb.add_argument("product", help="such as H200")
    verb.add_argument("metric", help="such as memory_bandwidth")
    verb.add_argument("--variant", default="", help="such as SXM5; needed where variants differ")
    verb.add_argument("--qualifier", default="", help="such as sparse or per_direction; dense and total are meant otherwise")
    verb.set_defaults(run=spec)

    verb = verbs.add_parser("lint", parents=[wiki], help="check every page, or every citation of a workspace", description=lint.__doc__)
    verb.add_argument("--workspace", type=Path, metavar="DIR", help="open every citation of this run again, in the wiki that it used")
    verb.set_defaults(run=lint)

    verb = verbs.add_parser("overlay", parents=[wiki], help="make a measured roof citable", description=overlay.__doc__)
    verb.add_argument("record", help="file of a record of kind roof in a workspace, or its id with --workspace")
    verb.add_argument("--workspace", type=Path, metavar="DIR", help="the workspace that holds the record")
    verb.add_argument("--home", type=Path, help="folder that holds overlay/ (default: $KERNELWRIGHT_HOME)")
    verb.add_argument("--replace", action="store_true", help="put it in the place of another record of the same device and driver")
    verb.set_defaults(run=overlay)

    add_verbs(verbs, wiki, out, told)

    verb = verbs.add_parser("serve", parents=[wiki, home()], help="answer as an MCP server over stdio", description=serve.__doc__)
    verb.add_argument("--allow-add", action="store_true", help="offer experience_add, too; without it nothing can be written")
    verb.set_defaults(run=serve)
    return top


def _query(verbs: Verbs, wiki: Parser, out: Parser) -> None:
    about = "search the wiki, past outcomes and reference projects"
    verb = verbs.add_parser("query", parents=[wiki, out], help=about, description=query.__doc__)
    verb.add_argument("text", help="words, identifiers, anything")
    verb.add_argument("-k", type=int, default=8, help="passages wanted (default 8)")
    verb.add_argument("--kind", help="only this kind: hardware, method, skill, guide, operator, meta, outcome, reference")
    verb.add_argument("--language", help="only what is about this kernel language, or about all")
    verb.add_argument("--arch", help="only what is about this architecture (hopper, sm_90, H100, cpu), or about all")
    verb.add_argument("--reference-folder", type=Path, metavar="DIR", help="folder of projects to search, too")
    verb.add_argument(
        "--embedder", help="hashed, minilm or package.module:Class (default: $KERNELWRIGHT_EMBEDDER, else minilm if installed)"
    )
    verb.add_argument("--chroma", metavar="URL", help="a Chroma server instead of the index on disk (default: $KERNELWRIGHT_CHROMA)")
    verb.add_argument("--home", type=Path, help="folder that holds index/ and experience/ (default: $KERNELWRIGHT_HOME)")
    verb.set_defaults(run=query)


def main(argv: list[str] | None = None) -> int:
    """Run one verb and return the exit code."""
    as_json = "--json" in (sys.argv[1:] if argv is None else argv)
    try:
        arguments = parser().parse_args(argv)
        code = int(arguments.run(arguments))
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # Whoever read it has what was wanted; nothing is left for the interpreter to write at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Misread as misread:
        if as_json:
            print(refusal(misread))
        raise
    except (SettingsError, InfrastructureError) as error:
        print(f"error: {error}", file=sys.stderr)
        if as_json:
            print(refusal(error))
        return 2 if isinstance(error, SettingsError) else 4


if __name__ == "__main__":
    process(main)
