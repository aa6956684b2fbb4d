"""What is refused in a draft, and what honest code may hold: both corpora, in C++ and Python."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agents.artifacts import CoderBrief, Draft, Drafts
from agents.checks.draft_faults import all_draft_faults, draft_faults
from agents.roles import coder
from tests.agents.models.playbook import triton_foreign
from tests.agents.scripted import agent
from tests.contracts.conftest import task
from tests.contracts.test_models import PLAN, TASK
from tests.tools import screen_pieces
from tools.languages.cpp import Cpp

ROOT = Path(__file__).parents[3]
CPP = (
    '#include <cmath>\nextern "C" void solve(const float* x, float* y, int n) {{\n  {}\n  y[0] = x[0];\n  {}\n}}\n{}\n'
)
PYTHON = (
    "import triton\nimport triton.language as tl\n\n\ndef helper(n):\n    {}\n    return n\n\n\n"
    "def run_kernel(x, y):\n    y.copy_(x)\n    {}\n\n\n{}\n"
)


def brief(language: str = "cpp", source: str = "", **more: object) -> CoderBrief:
    made = TASK.model_copy(update={"language": language})
    return CoderBrief(task=made, source=source, plan=PLAN, pages=(), tried=(), **more)


def found(source: str, language: str = "cpp", given: str = "") -> tuple[str, ...]:
    return draft_faults(Draft(source=source, methods=()), brief(language, given))


ELISIONS = [
    "... unchanged",
    "… rest of the code …",
    "rest of the code unchanged",
    "rest of the implementation here",
    "other functions unchanged",
    "existing code here",
    "existing code",
    "[existing code]...",
    "remaining code omitted for brevity",
    "TODO: implement this",
    "your code here",
    "insert the original code here",
    "placeholder implementation",
]
HONEST = [
    "... up to n",
    "x[0], x[1], ... x[n - 1]",
    "rest of the row, ...",
    "the remaining elements",
    "TODO: implement the fp16 path once tiles are larger, which needs 64 lanes",
    "same as before, but with one pass",
    "the original code read x twice",
    "no code before this line may write y",
    "same as before",
    "unchanged",
    "keep: the running maximum stays in a register",
]


@pytest.mark.parametrize("comment", ELISIONS)
def test_code_left_out_is_refused(comment: str) -> None:
    # In the middle of a block, at its end, and at the end of the file.
    for at in range(3):
        for form in (f"// {comment}", f"/* {comment} */", f"static void g() {{ // {comment}\n}}")[
            : 3 if at == 2 else 2
        ]:
            text = CPP.format(*(form if at == place else "" for place in range(3)))
            line = next(n for n, each in enumerate(text.split("\n"), 1) if comment in each)
            assert [f for f in found(text) if f.startswith(f"line {line}: ") and "left out" in f], text
        text = PYTHON.format(*(f"# {comment}" if at == place else "" for place in range(3)))
        assert [f for f in found(text, "triton") if "left out" in f], text


@pytest.mark.parametrize("comment", HONEST)
def test_an_honest_comment_is_left_alone(comment: str) -> None:
    """Before the code that it announces, and beside a statement; at a block's end, where it promises nothing."""
    for form, mark, language in ((CPP, "//", "cpp"), (PYTHON, "#", "triton")):
        assert found(form.format(f"{mark} {comment}", "", ""), language) == ()
        assert found(form.format(f"n += 1;  {mark} {comment}", "", ""), language) == ()
    if "implement" not in comment:
        assert (
            found(CPP.format("", f"// {comment}", ""))
            == found(CPP.format("", f"/* {comment}\n   * more of it */", ""))
            == ()
        )


HONEST_CPP = [
    "static void log(const char* f, ...) {}",
    "template <typename... Ts> static int count(Ts... ts) { return (0 + ... + int(sizeof(ts))); }",
    "#define CALL(f, ...) f(__VA_ARGS__)",
    "static int safe() { try { return 1; } catch (...) { return 0; } }",
    "template <class... A> void go(A&&... a) { f(std::forward<A>(\n      a)...); }",
    "static int of(int i) { switch (i) { case 0 ... 9: return 1; } return 0; }",
    "// y[0] = x[0]\n// ...\n// y[n] = x[n]\nstatic int z;",
    'static const char* s = "... unchanged";',
]
HONEST_PYTHON = [
    "def f(x: tuple[int, ...]):\n    return x[..., None]",
    "class P(Protocol):\n    def f(self) -> int: ...",
    "@overload\ndef f(x: int) -> int: ...\n\n\ndef f(x):\n    return x",
    "def f(x=...):\n    return x",
    "def f(kind):\n    if kind:\n        return 1\n    raise NotImplementedError(kind)",
    's = """... rest of the code"""',
]


@pytest.mark.parametrize(
    ("form", "text"), [*((CPP, one) for one in HONEST_CPP), *((PYTHON, one) for one in HONEST_PYTHON)]
)
def test_an_ellipsis_that_the_language_has_is_no_code_left_out(form: str, text: str) -> None:
    assert found(form.format("", "", text), "cpp" if form is CPP else "triton") == ()


@pytest.mark.parametrize(
    ("form", "text"),
    [
        *((CPP, text) for text in ("static void f() { ... }", "...", "static void f() { int i; ...; }")),
        *(
            (PYTHON, text)
            for text in ("...", "def f(x):\n    '''Text.'''\n    ...", "def f(x):\n    raise NotImplementedError")
        ),
    ],
)
def test_an_ellipsis_for_code_is_refused(form: str, text: str) -> None:
    assert [f for f in found(form.format("", "", text), "cpp" if form is CPP else "triton") if "left out" in f]


def test_marks_of_fences_and_diffs() -> None:
    code = CPP.format("y[1] = 0;", "y[2] = 0;", "")
    lines = code.splitlines()
    assert "is a mark of a code block" in found(f"```cpp\n{code}```\n")[0]
    assert "line 1: `--- a/kernel.cpp` is a mark of a diff" in found(f"--- a/kernel.cpp\n+++ b/kernel.cpp\n{code}")[0]
    assert "is a mark of a diff" in found(f"<<<<<<< SEARCH\n{code}")[0]
    assert (
        "lines begin with + or -" in found("\n".join(("+" if i % 2 else " ") + line for i, line in enumerate(lines)))[0]
    )
    assert found(CPP.format("--n;", "y[1] = n\n+ 1\n- 2;", "static const int t[] = {\n1,\n2,\n3,\n4,\n};")) == ()


def test_the_entry_must_be_there() -> None:
    assert found("void other(int n) {}\n") == ("`solve` is not defined; keep it and its signature",)
    assert found("void solve(int n) {}\n") == ('`solve` is not declared extern "C"; keep that',)
    assert found('extern "C" {\nvoid solve(int n) noexcept {}\n}\n') == ()
    assert found("def kernel(x):\n    return x\n", "triton") == ("`run_kernel` is not defined; keep its signature",)
    assert found("def run_kernel(**kwargs):\n    pass\n", "triton") == ()
    assert (
        found(CPP.format("", "", ""), given="KERNEL(solve)")
        == found("KERNEL(solve) ", given="KERNEL(solve)\nint x;")
        == ()
    ), "a macro's"


def test_the_given_source_is_no_answer() -> None:
    source = CPP.format("", "", "")
    assert "given source unchanged" in found(source.replace("\n", "  \n\n"), given=source)[0]
    draft = Draft(source=source, methods=())
    assert draft_faults(draft, brief(source=source, ablated_methods=("openmp-parallel-outer",))) == (), (
        "without its only method a kernel is what it was"
    )


def test_what_stood_in_the_given_source_is_held_against_nobody() -> None:
    given = CPP.format("", "// ... unchanged", "")
    assert found(given.replace("x[0]", "x[1]"), given=given) == ()


def test_faults_say_which_draft() -> None:
    drafts = Drafts(drafts=(Draft(source=CPP.format("", "", ""), methods=()), Draft(source="", methods=())))
    assert all_draft_faults(drafts, brief()) == ("draft 2: the source is empty; give the whole file",)


def honest() -> Iterator[tuple[str, str, str]]:
    yield from ((name, given.source, "triton") for name, given in triton_foreign.KERNELS.items())
    honest = (piece for piece in screen_pieces.PIECES if "says" not in piece and "inside" not in piece)
    yield from ((piece["name"], screen_pieces.source(piece), piece["language"]) for piece in honest)
    for path in sorted(
        [
            *(ROOT / "configs").rglob("kernel.*"),
            *(ROOT / "tests").rglob("*.cpp"),
            *(ROOT / "tests/tools/fixtures").rglob("*.cu"),
        ]
    ):
        yield str(path.relative_to(ROOT)), path.read_text(), "triton" if path.suffix == ".py" else "cpp"
    yield from ((str(p.relative_to(ROOT)), p.read_text(), "triton") for p in sorted((ROOT / "agents").rglob("*.py")))


def test_no_kernel_of_the_corpora_is_refused() -> None:
    """Strangers' kernels, honest kernels of the screen, tasks, fixtures, and our own Python; entries aside, which
    not all have."""
    every = list(honest())
    assert len(every) > 120
    for name, source, language in every:
        assert [f for f in found(source, language) if " is not de" not in f] == [], name


@pytest.mark.parametrize("mends", [True, False])
def test_a_faulty_draft_is_asked_for_again_and_then_left_out(tmp_path: Path, mends: bool) -> None:
    good, bad = (
        Draft(source=CPP.format("", "", ""), methods=()),
        Draft(source=CPP.format("", "// ... unchanged", ""), methods=()),
    )
    both = Drafts(drafts=(bad, good))
    given = CoderBrief(task=task(Cpp()), source=TASK.baseline or "", plan=PLAN, pages=(), tried=())
    asked, model = agent("coder", tmp_path, [both, Drafts(drafts=(good,)) if mends else both])
    assert [one.source for one in coder.write_candidates(asked, given, "p", ".cpp")] == [good.source]
    assert "draft 1: line 5: `// ... unchanged` replaces code that was left out" in model.asked[1].refused[0]
