"""Function-like macros are replaced as the preprocessor would, or left alone."""

from __future__ import annotations

import pytest

from agents.models.playbook.macros import expanded
from agents.models.playbook.recipe import recipe

HEAD = "#define AT(m, i, j) m[(i) * ld + (j)]\n"
TAIL = 'extern "C" void solve(const float* a, float* b, int n, int ld) { for (int i = 0; i < n; ++i) '


def test_uses_become_their_text_and_arguments_are_put_in() -> None:
    made = expanded(HEAD + TAIL + "AT(b, i, 0) = AT(a, i + 1, n - 1); }")
    assert made.endswith("b[(i) * ld + (0)] = a[(i + 1) * ld + (n - 1)]; }")


def test_macros_within_macros_and_within_arguments() -> None:
    made = expanded("#define TWICE(x) (2 * (x))\n#define QUAD(x) TWICE(TWICE(x))\n" + TAIL + "b[i] = TWICE(QUAD(a[i])); }")
    assert made.endswith("b[i] = (2 * ((2 * ((2 * (a[i])))))); }")


@pytest.mark.parametrize(
    "head",
    [
        "#define AT(m, i, j) m[(i) * ld + (j)]\n#undef AT\n",
        "#define AT(m, i, j) m[i]\n#define AT(m, i, j) m[j]\n",
        "#ifdef WIDE\n#define AT(m, i, j) m[i]\n#endif\n",
        "#define AT(m, i, j) do { m[i] = j; } while (0)\n",
        "#define AT(m, i, j) m##i[j]\n",
        "#define AT(m, i) m[i]\n",
        "",
    ],
)
def test_what_is_not_plain_is_left_alone(head: str) -> None:
    source = head + TAIL + "AT(b, i, 0) = 1; }"
    assert expanded(source) == source
    assert recipe("parallel_outer").edit(source, {}) == source


def test_a_recipe_that_finds_nothing_leaves_the_macros() -> None:
    source = HEAD + TAIL + "AT(b, i, 0) = AT(a, i, 0); }"
    assert recipe("tile").edit(source, {}) == source
    assert "b[(i) * ld + (0)]" in recipe("parallel_outer").edit(source, {})
