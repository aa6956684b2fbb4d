"""How well and how fast `knowledge_base query` finds what was asked for: `python -m benchmarks.retrieval [--final]
[--embedder NAME]`.

Each line of `benchmarks/questions.jsonl` is one question, written and labelled without looking at rankings:
`{"question", "kind": "jargon" | "paraphrase", "half": "tune" | "final", "language", "answers": ["path" or "path#heading", …]}`.
A passage answers when it stands on that page of the wiki, under that heading where one is named. The half `final` is for the figure that is
reported; nothing is tuned on it.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, ValidationError

from knowledge_base.artifacts import Passage
from knowledge_base.pages.wiki import Wiki
from knowledge_base.search.embedding import Embedder, open_embedder
from knowledge_base.search.index import Index
from knowledge_base.search.synonyms import Glossary
from knowledge_base.search.vector_index import INDEX_FOLDER, VectorIndex
from tools.errors import SettingsError

QUESTIONS = Path(__file__).parent / "questions.jsonl"
DEPTH = 10
"""Ranks that count for the reciprocal rank; further down it is 0."""
DRAWS = 2000
"""Of the bootstrap."""
WARM, COLD = 50, 5
"""Timed queries in one process, and processes."""

Search = Callable[[str], Sequence[Passage]]


class Question(BaseModel):
    """One line of the file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    question: str
    kind: Literal["jargon", "paraphrase"]
    half: Literal["tune", "final"]
    language: str | None = None
    """That it is about; not used as a filter, which would make it easier."""
    answers: tuple[str, ...]


class Score(NamedTuple):
    """Of one question."""

    recall: float
    """Whether an answer is among the first five passages."""
    reciprocal: float
    """1 / rank of the first passage that answers."""


def load(path: Path, wiki: Wiki) -> list[Question]:
    """The questions of a file; SettingsError names the line that is none, or whose answer is nowhere in the wiki."""
    found = []
    places = {passage.path: set[str]() for passage in wiki.passages()}
    for passage in wiki.passages():
        places[passage.path].update(heading.lower() for heading in passage.heading)
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip():
            continue
        try:
            question = Question.model_validate_json(line)
        except ValidationError as error:
            raise SettingsError(f"{path}:{number}: {error.errors()[0]['loc']}: {error.errors()[0]['msg']}") from None
        for answer in question.answers:
            page, _, heading = answer.partition("#")
            if page not in places or (heading and heading.lower() not in places[page]):
                raise SettingsError(
                    f"{path}:{number}: there is no {answer!r} in the wiki; name a page and one of its headings"
                )
        found.append(question)
    return found


def is_relevant(passage: Passage, labels: Iterable[str]) -> bool:
    """Whether one of the labels names the page (and section) of the passage."""
    headings = {heading.lower() for heading in passage.heading}
    return any(
        page == passage.path and (not heading or heading.lower() in headings)
        for page, _, heading in (a.partition("#") for a in labels)
    )


def score_question(question: Question, found: Sequence[Passage]) -> Score:
    """By the rank of the first passage that answers."""
    rank = next((place for place, passage in enumerate(found, 1) if is_relevant(passage, question.answers)), 0)
    return Score(float(0 < rank <= 5), 1 / rank if 0 < rank <= DEPTH else 0.0)


def interval(values: Sequence[float]) -> tuple[float, float]:
    """95 % of the means of resampled values (percentile bootstrap, fixed seed)."""
    draw = random.Random(0)
    means = sorted(statistics.fmean(draw.choices(values, k=len(values))) for _ in range(DRAWS))
    return means[int(0.025 * DRAWS)], means[int(0.975 * DRAWS) - 1]


def format_mean(values: Sequence[float]) -> str:
    """Mean and interval."""
    low, high = interval(values)
    return f"{statistics.fmean(values):.3f} [{low:.3f}, {high:.3f}]"


def table(questions: Sequence[Question], methods: dict[str, Search]) -> str:
    """Recall@5 and MRR of each method by kind of question, and what fusion gains over words alone, question by
    question."""
    results = {
        name: [score_question(question, search(question.question)) for question in questions]
        for name, search in methods.items()
    }
    rows = ["| questions | method | recall@5 | MRR@10 |", "|---|---|---|---|"]
    first, *_, last = results
    for kind in ("jargon", "paraphrase", "all"):
        of_kind = [number for number, question in enumerate(questions) if kind in (question.kind, "all")]
        if not of_kind:
            continue
        for name, scores in results.items():
            recall, reciprocal = ([scores[n][column] for n in of_kind] for column in (0, 1))
            rows.append(f"| {kind} ({len(of_kind)}) | {name} | {format_mean(recall)} | {format_mean(reciprocal)} |")
        gains = [[results[last][n][column] - results[first][n][column] for n in of_kind] for column in (0, 1)]
        rows.append(
            f"| {kind} ({len(of_kind)}) | {last} − {first} | {format_mean(gains[0])} | {format_mean(gains[1])} |"
        )
    return "\n".join(rows)


def methods(wiki: Wiki, embedder: Embedder | None, home: Path) -> dict[str, Search]:
    """FTS5 alone, FTS5 with synonyms; with an embedder vectors alone and all of it, too."""
    words, synonyms = Index(wiki, glossary=Glossary(())), Index(wiki)
    found: dict[str, Search] = {
        "FTS5": lambda text: words.search(text, DEPTH),
        "FTS5 and glossary": lambda text: synonyms.search(text, DEPTH),
    }
    if embedder is not None:
        vectors = VectorIndex(home / INDEX_FOLDER, embedder)
        fused, entries = Index(wiki, vectors=vectors), synonyms.entries()
        texts = {row: entry.text for row, entry in enumerate(entries) if not entry.phrase}
        found[f"vectors ({embedder.id.partition(':')[0]})"] = lambda text: [
            entries[one.row].passage for one in vectors.nearest_rows(texts, text, DEPTH, texts)
        ]
        found["fused"] = lambda text: fused.search(text, DEPTH)
    return found


def warm_ms(search: Search, texts: Sequence[str]) -> list[float]:
    """Milliseconds of each query in this process, after one that is not counted."""
    search(texts[0])
    found = []
    for number in range(WARM):
        begun = time.perf_counter()
        search(texts[number % len(texts)])
        found.append(1e3 * (time.perf_counter() - begun))
    return found


def cold_s(home: Path, embedder: str | None, text: str) -> tuple[list[float], float]:
    """Seconds of whole processes that ask one question each, and what one takes of the processor; the index is
    there."""
    command = [
        sys.executable,
        "-m",
        "knowledge_base",
        "query",
        text,
        "--home",
        str(home),
        *(["--embedder", embedder] if embedder else []),
    ]
    subprocess.run(command, check=True, capture_output=True)
    before, found = resource.getrusage(resource.RUSAGE_CHILDREN), []
    for _ in range(COLD):
        begun = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        found.append(time.perf_counter() - begun)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return found, (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / COLD


def main(argv: list[str] | None = None) -> int:
    """Print the tables."""
    top = argparse.ArgumentParser(prog="python -m benchmarks.retrieval", description=__doc__.partition("\n")[0])
    top.add_argument("--questions", type=Path, default=QUESTIONS)
    top.add_argument(
        "--final", action="store_true", help="the half that nothing was tuned on, for the figure that is reported"
    )
    top.add_argument("--wiki", type=Path)
    top.add_argument("--embedder")
    top.add_argument("--json", action="store_true", help="print the first ten places of each question instead")
    arguments = top.parse_args(argv)
    wiki = Wiki.open(arguments.wiki)
    half = "final" if arguments.final else "tune"
    questions = [question for question in load(arguments.questions, wiki) if question.half == half]
    if not questions:
        raise SettingsError(f"{arguments.questions}: has no questions of the half {half!r}")
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        ways = methods(wiki, open_embedder(arguments.embedder), home)
        best = list(ways.values())[-1]
        begun = time.perf_counter()
        best(questions[0].question)
        built = time.perf_counter() - begun
        if arguments.json:
            for question in questions:
                places = {name: [str(p.citation) for p in search(question.question)] for name, search in ways.items()}
                print(json.dumps({"question": question.question, "answers": question.answers, **places}))
            return 0
        print(
            f"{len(questions)} questions of the half {half}, {len(wiki.pages)} pages, {len(wiki.passages())} passages\n"
        )
        print(table(questions, ways))
        warm = warm_ms(best, [question.question for question in questions])
        cold, processor = (
            cold_s(home, arguments.embedder, questions[0].question) if arguments.wiki is None else ([], 0.0)
        )
        print(
            f"\nload average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores; the index was built in {built:.1f} s"
        )
        print(
            f"a query in a running process: median {statistics.median(warm):.1f} ms, worst of {WARM} {max(warm):.1f} "
            f"ms (goal: 30 ms)"
        )
        if cold:
            print(
                f"a cold one: median {statistics.median(cold):.2f} s, worst of {COLD} {max(cold):.2f} s (goal: 1.5 s), "
                f"{processor:.2f} s of a processor each"
            )
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except SettingsError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
