"""The verbs of `python -m knowledge_base` about past outcomes of methods, and what all verbs share."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from tools.spelling import Parser

if TYPE_CHECKING:
    from knowledge_base.artifacts import PageType
    from knowledge_base.verbs import Filter
    from knowledge_base.wiki import Wiki
    from tools.artifacts import Artifact

    Verbs = argparse._SubParsersAction[Parser]
Told = tuple["Artifact", Iterable[str], int]
"""The answer, the same as lines for people, and the exit code."""
EXPERIENCE = "Past outcomes of methods, kept under $KERNELWRIGHT_HOME/experience by every run."


def wiki_at(path: Path | None, types: Collection[PageType] = ()) -> Wiki:
    """The wiki at `path`, None: the bundled one; read here and not at import, since `--help` needs none of it."""
    from knowledge_base.wiki import Wiki

    return Wiki.open(path, types)


def home() -> Parser:
    """Where the log is."""
    shared = Parser(add_help=False)
    shared.add_argument("--home", type=Path, help="folder that holds experience/ (default: $KERNELWRIGHT_HOME)")
    return shared


def recommend(arguments: argparse.Namespace) -> Told:
    """What to try next under given conditions, by what came of it before; where nobody tried anything, by the wiki."""
    from knowledge_base import advice, verbs

    found = verbs.recommend(
        arguments.home,
        wiki_at(arguments.wiki),
        arguments.k,
        language=arguments.language,
        bottleneck=arguments.bottleneck,
        architecture=arguments.arch,
        operator=arguments.operator,
        dtype=arguments.dtype,
        shape_class=arguments.shape_class,
    )
    return found, advice.recommended(found), 0 if found.proposed else 1


def experience_list(arguments: argparse.Namespace) -> Told:
    """Show past attempts, the newest first."""
    from knowledge_base import advice, verbs

    found = verbs.listed(arguments.home, wiki_at(arguments.wiki), _filter(arguments), arguments.n)
    return found, advice.listed(found), 0 if found.attempts else 1


def experience_search(arguments: argparse.Namespace) -> Told:
    """Find past attempts by words."""
    from knowledge_base import advice, verbs

    found = verbs.search(arguments.home, wiki_at(arguments.wiki), arguments.text, _filter(arguments), arguments.n)
    return found, advice.listed(found), 0 if found.attempts else 1


def experience_stats(arguments: argparse.Namespace) -> Told:
    """Count outcomes, and say of each set of methods whether it is resolved, pending or to be avoided."""
    from knowledge_base import advice, verbs

    found = verbs.stats(arguments.home, wiki_at(arguments.wiki), _filter(arguments))
    return found, advice.counted(found), 0


def experience_add(arguments: argparse.Namespace) -> Told:
    """Keep an outcome that somebody states; it is marked as not measured by a run."""
    from knowledge_base import advice, verbs

    given = {
        "operator": arguments.operator,
        "language": arguments.language,
        "architecture": arguments.arch,
        "dtype": arguments.dtype,
        "shape_class": arguments.shape_class,
        "bottleneck": arguments.bottleneck,
    }
    given |= {name: getattr(arguments, name) for name in ("result", "evidence", "commit", "note")}
    done = verbs.add(
        arguments.home, wiki_at(arguments.wiki), given, tuple(arguments.method), tuple(arguments.effect), tuple(arguments.knob)
    )
    return done, advice.added(done), 0 if done.added or done.known else 1


def experience_merge(arguments: argparse.Namespace) -> Told:
    """Append what other logs hold; in any order, any number of times, the result is the same."""
    from knowledge_base import advice, verbs

    done = verbs.merge(arguments.home, arguments.files)
    return done, advice.added(done), 0


def experience_sync(arguments: argparse.Namespace) -> Told:
    """Bring this log and a shared folder, or a branch of a git remote, to the union of both; safe for many machines at once."""
    from knowledge_base import advice, verbs

    done = verbs.sync(arguments.home, arguments.place)
    return done, advice.synced(done), 0


def _filter(arguments: argparse.Namespace) -> Filter:
    from knowledge_base.verbs import Filter

    names = ("operator", "language", "dtype", "bottleneck", "method", "result")
    return Filter(architecture=arguments.arch, **{name: getattr(arguments, name) for name in names})


def add_verbs(verbs: Verbs, wiki: Parser, out: Parser, tell: Callable[[Artifact, Iterable[str], argparse.Namespace], None]) -> None:
    """To the command line. `wiki` and `out` hold the options that all verbs take; `tell` shows an answer."""
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

    def add(to: Verbs, name: str, run: Callable[[argparse.Namespace], Told], text: str, *parents: Parser) -> Parser:
        verb = to.add_parser(name, parents=[*shared, *parents], help=text, description=run.__doc__)

        def answered(arguments: argparse.Namespace) -> int:
            answer, lines, code = run(arguments)
            tell(answer, lines, arguments)
            return code

        verb.set_defaults(run=answered)
        return verb

    inner = verbs.add_parser("experience", help="past outcomes: add, recommend, search, list, merge, sync, stats", description=EXPERIENCE)
    below: Verbs = inner.add_subparsers(required=True, metavar="VERB")
    for to in (verbs, below):
        add(to, "recommend", recommend, "what to try next, and why", asked, sized).add_argument(
            "-k", type=int, default=5, help="proposals wanted (default 5)"
        )
    verb = add(below, "add", experience_add, "keep an outcome that somebody states", asked, sized)
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
