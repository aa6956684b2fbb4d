"""Ask the wiki and the experience log without a run. Exit 0: found; 1: nothing found, or problems; 2: bad input; 4: the machine failed."""

from __future__ import annotations

import argparse
import json
import os
import sys
import textwrap
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from tools.errors import InfrastructureError, SettingsError
from tools.spelling import Misread, Parser, meant, offered, refusal

if TYPE_CHECKING:
    from knowledge_base.artifacts import PageType
    from knowledge_base.verbs import Filter
    from knowledge_base.wiki import Wiki
    from tools.artifacts import Artifact

    Verbs = argparse._SubParsersAction[Parser]
Run = Callable[[argparse.Namespace], int]
EXCERPT = 300
"""Characters of a passage that `query` prints."""
EXPERIENCE = "Past outcomes of methods, kept under $KERNELWRIGHT_HOME/experience by every run."


def query(arguments: argparse.Namespace) -> int:
    """Search the wiki, past outcomes and reference projects."""
    from knowledge_base.index import Index

    if arguments.k < 1:
        raise SettingsError(f"-k: {arguments.k} passages cannot be shown; give 1 or more")
    index = Index.open(
        _wiki(arguments.wiki),
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
    wiki = _wiki(arguments.wiki).guide()
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

    wiki = _wiki(arguments.wiki, types=("hardware", "meta"))
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
    wiki = _wiki(arguments.wiki)
    problems = check(wiki, frozenset(rule.id for rule in rules.load()))
    for problem in problems:
        print(problem)
    print(f"{len(wiki.pages)} pages, {len(problems)} problems")
    return 1 if problems else 0


def _citations(workspace: Path, wiki: Path | None) -> int:
    from knowledge_base import citations

    checked = citations.check(workspace, _wiki(wiki or citations.wiki_of(workspace)), citations.reference_of(workspace))
    for problem in checked.problems:
        print(problem)
    print(f"{checked.citations} citations, {len(checked.problems)} problems")
    return 1 if checked.problems else 0


def overlay(arguments: argparse.Namespace) -> int:
    """Make a measured roof citable: write its record as a page under $KERNELWRIGHT_HOME/overlay."""
    from knowledge_base import overlay as pages

    wiki = _wiki(arguments.wiki)
    written = pages.write(arguments.record, wiki, workspace=arguments.workspace, home=arguments.home, replace=arguments.replace)
    print(f"{written.path} {'is written' if written.changed else 'says this already'}")
    return 0


def recommend(arguments: argparse.Namespace) -> int:
    """What to try next under given conditions, by what came of it before; where nobody tried anything, by the wiki."""
    from knowledge_base import advice, verbs

    found = verbs.recommend(
        arguments.home,
        _wiki(arguments.wiki),
        arguments.k,
        language=arguments.language,
        bottleneck=arguments.bottleneck,
        architecture=arguments.arch,
        operator=arguments.operator,
        dtype=arguments.dtype,
        shape_class=arguments.shape_class,
    )
    _told(found, advice.recommended(found), arguments)
    return 0 if found.proposed else 1


def experience_list(arguments: argparse.Namespace) -> int:
    """Show past attempts, the newest first."""
    from knowledge_base import advice, verbs

    found = verbs.listed(arguments.home, _wiki(arguments.wiki), _filter(arguments), arguments.n)
    _told(found, advice.listed(found), arguments)
    return 0 if found.attempts else 1


def experience_search(arguments: argparse.Namespace) -> int:
    """Find past attempts by words."""
    from knowledge_base import advice, verbs

    found = verbs.search(arguments.home, _wiki(arguments.wiki), arguments.text, _filter(arguments), arguments.n)
    _told(found, advice.listed(found), arguments)
    return 0 if found.attempts else 1


def experience_stats(arguments: argparse.Namespace) -> int:
    """Count outcomes, and say of each set of methods whether it is resolved, pending or to be avoided."""
    from knowledge_base import advice, verbs

    found = verbs.stats(arguments.home, _wiki(arguments.wiki), _filter(arguments))
    _told(found, advice.counted(found), arguments)
    return 0


def experience_add(arguments: argparse.Namespace) -> int:
    """Keep an outcome that somebody states, or those in notes on a kernel. Such outcomes are marked as not measured by a run."""
    from knowledge_base import advice, verbs

    given = {
        "operator": arguments.operator,
        "language": arguments.language,
        "architecture": arguments.arch,
        "dtype": arguments.dtype,
        "shape_class": arguments.shape_class,
        "bottleneck": arguments.bottleneck,
    }
    if arguments.memo is not None:
        besides = [name for name in ("method", "result", "effect", "knob", "evidence", "commit", "note") if getattr(arguments, name)]
        if besides:
            raise SettingsError(f"--{besides[0]}: the outcomes come from --memo {arguments.memo}; give one of the two")
        done = verbs.add_memo(arguments.home, _wiki(arguments.wiki), arguments.memo, given)
    else:
        given |= {name: getattr(arguments, name) for name in ("result", "evidence", "commit", "note")}
        done = verbs.add(
            arguments.home, _wiki(arguments.wiki), given, tuple(arguments.method), tuple(arguments.effect), tuple(arguments.knob)
        )
    _told(done, advice.added(done), arguments)
    return 0 if done.added or done.known else 1


def experience_merge(arguments: argparse.Namespace) -> int:
    """Append what other logs hold; in any order, any number of times, the result is the same."""
    from knowledge_base import advice, verbs

    done = verbs.merge(arguments.home, arguments.files)
    _told(done, advice.added(done), arguments)
    return 0


def experience_sync(arguments: argparse.Namespace) -> int:
    """Bring this log and a shared folder, or a branch of a git remote, to the union of both; safe for many machines at once."""
    from knowledge_base import advice, verbs

    done = verbs.sync(arguments.home, arguments.place)
    _told(done, advice.synced(done), arguments)
    return 0


def serve(arguments: argparse.Namespace) -> int:
    """Answer the same questions as an MCP server over stdio, until the client leaves."""
    from knowledge_base.serve import serve as start

    start(arguments.wiki, arguments.home, adding=arguments.allow_add)
    return 0


def _wiki(path: Path | None, types: Collection[PageType] = ()) -> Wiki:
    """The wiki at `path`, None: the bundled one; read here and not at import, since `--help` needs none of it."""
    from knowledge_base.wiki import Wiki

    return Wiki.open(path, types)


def _filter(arguments: argparse.Namespace) -> Filter:
    from knowledge_base.verbs import Filter

    names = ("operator", "language", "dtype", "bottleneck", "method", "result")
    return Filter(architecture=arguments.arch, **{name: getattr(arguments, name) for name in names})


def _told(answer: Artifact, lines: Iterable[str], arguments: argparse.Namespace) -> None:
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

    _experience(verbs, wiki, out)

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


def home() -> Parser:
    """Where the log is."""
    shared = Parser(add_help=False)
    shared.add_argument("--home", type=Path, help="folder that holds experience/ (default: $KERNELWRIGHT_HOME)")
    return shared


def _experience(verbs: Verbs, wiki: Parser, out: Parser) -> None:
    shared = [wiki, out, home()]
    asked = Parser(add_help=False)
    for name, what in (
        ("operator", "family or name, such as softmax"),
        ("language", "such as cpp or triton"),
        ("arch", "such as sm_90, hopper, H200, x86_64"),
        ("dtype", "such as float32"),
        ("bottleneck", "memory, compute, latency, occupancy, mixed, or a finding such as poor_coalescing"),
    ):
        asked.add_argument(f"--{name}", default="", help=what)
    sized = Parser(add_help=False)
    sized.add_argument("--shape-class", default="", help="power of two in the unique bytes, such as 2^25B")
    chosen = Parser(add_help=False)
    chosen.add_argument("--method", default="", help="id of a method")
    chosen.add_argument("--result", default="", help="success, failure, neutral or crash")
    chosen.add_argument("-n", type=int, default=20, help="attempts wanted (default 20)")

    def add(to: Verbs, name: str, run: Run, text: str, *parents: Parser) -> Parser:
        verb = to.add_parser(name, parents=[*shared, *parents], help=text, description=run.__doc__)
        verb.set_defaults(run=run)
        return verb

    inner = verbs.add_parser("experience", help="past outcomes: add, recommend, search, list, merge, sync, stats", description=EXPERIENCE)
    below: Verbs = inner.add_subparsers(required=True, metavar="VERB")
    for to in (verbs, below):
        add(to, "recommend", recommend, "what to try next, and why", asked, sized).add_argument(
            "-k", type=int, default=5, help="proposals wanted (default 5)"
        )
    verb = add(below, "add", experience_add, "keep an outcome that somebody states", asked, sized)
    verb.add_argument("--memo", type=Path, metavar="FILE", help="notes on a kernel; conditions given as options go before what it says")
    verb.add_argument("--method", action="append", default=[], help="what was tried; once for each method of a set")
    verb.add_argument("--result", default="", help="success, failure, neutral or crash")
    verb.add_argument("--effect", type=float, nargs="+", default=[], metavar="X", help="old time / new time, or ESTIMATE LOW HIGH")
    verb.add_argument("--knob", action="append", default=[], metavar="NAME=VALUE")
    for name, what in (("evidence", "id of what shows it"), ("commit", "commit that brought it"), ("note", "why, in words")):
        verb.add_argument(f"--{name}", default="", help=what)
    add(below, "list", experience_list, "show attempts, the newest first", asked, chosen)
    add(below, "search", experience_search, "find attempts by words", asked, chosen).add_argument("text", help="words")
    add(below, "stats", experience_stats, "count outcomes; resolved, pending, avoid", asked, chosen)
    add(below, "merge", experience_merge, "append other logs").add_argument("files", type=Path, nargs="+", metavar="FILE")
    verb = add(below, "sync", experience_sync, "share the log with other machines")
    verb.add_argument("place", metavar="FOLDER-or-REMOTE", help="a folder that exists, a bare repository or the URL of one")


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
    sys.exit(main())
