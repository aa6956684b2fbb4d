"""Index polynomials and loop independence."""

from __future__ import annotations

import pytest

from agents.models.playbook.analysis.affine import Polynomial
from agents.models.playbook.analysis.dependence import analyse_independence
from agents.models.playbook.analysis.unit import CppUnit


def verdicts(
    body: str, parameters: str = "const float* a, float* b, float* c, int n, int m, int k", before: str = ""
) -> list[str]:
    unit = CppUnit(f'{before}\nextern "C" void solve({parameters}) {{ {body} }}')
    assert not unit.has_syntax_errors
    return [analyse_independence(unit, loop).problem for loop in unit.outermost_loops]


def test_polynomials() -> None:
    i, n = Polynomial.symbol("i"), Polynomial.symbol("n")
    index = i * n + Polynomial.constant(3)
    assert index.coefficient("i") == n
    assert index.without("i").value == 3
    assert (index - index).value == 0
    assert index.substitute({"i": n - Polynomial.constant(1)}) == n * n - n + Polynomial.constant(3)
    assert (i * i).coefficient("i") is None


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("for (int i = 0; i < n; ++i) b[i] = a[i];", ""),
        ("for (int i = 0; i < n; ++i) { b[2*i] = a[i]; b[2*i+1] = a[i]; }", ""),
        (
            (
                "for (int i = 0; i < n; ++i) for (int j = 0; j < m; ++j) for (int p = 0; p < k; ++p) b[(i*m + j)*k + "
                "p] = a[p];"
            ),
            "",
        ),
        (
            (
                "for (int p = 0; p < k; ++p) for (int i = 0; i < n; ++i) for (int j = 0; j < m; ++j) b[(i*m + j)*k + "
                "p] = a[p];"
            ),
            "",
        ),
        ("for (int i = 0; i < n; ++i) { float* row = b + i * m; for (int j = 1; j < m; ++j) row[j] += row[j-1]; }", ""),
        ("float t; for (int i = 0; i < n; ++i) { t = a[i] * 2; b[i] = t; }", ""),
        ("int j; for (int i = 0; i < n; ++i) for (j = 0; j < m; ++j) b[i*m+j] = a[j];", ""),
        (
            (
                "for (int i = 0; i < n; ++i) { float t[4]; for (int q = 0; q < 4; ++q) t[q] = a[4*i+q]; b[i] = t[0] "
                "+ t[3]; }"
            ),
            "",
        ),
        (
            (
                "for (int i = 0; i < n; i += 8) { const int e = i + 8 < n ? i + 8 : n; for (int j = i; j < e; ++j) b[j] "
                "= a[j]; }"
            ),
            "",
        ),
        ("for (int i = 0; i < n; ++i) for (int j = 0; j < m; ++j) b[i*k + j] = a[i*m + j];", ""),
        ("for (int i = 0; i < n; ++i) { float& o = b[i]; o = a[i]; o += 1; }", ""),
        (
            (
                "for (int i = 0; i < n; ++i) { float s = 0; for (int j = i > 3 ? i - 3 : 0; j < i; ++j) s += a[j]; "
                "b[i] = s; }"
            ),
            "",
        ),
        (
            (
                "for (int i = 0; i < n; ++i) { const float* p = a+i; float* q = b+i*m; for (int j = 0; j < m; ++j) { *q "
                "= *p; p += n; q++; } }"
            ),
            "",
        ),
        ("for (int i = 0; i < n; ++i) for (int j = m - 1; j >= 0; --j) b[i*m + j] = a[j];", ""),
        (
            (
                "for (int i = 0; i < n; ++i) { float s = -std::numeric_limits<float>::infinity(); s = s > a[i] ? s : "
                "a[i]; b[i] = s; }"
            ),
            "",
        ),
        (
            "for (int i = 0; i < n; ++i) for (int j = i; j < n; ++j) { b[i*n + j] = a[j]; b[j*n + i] = a[i]; }",
            "same element of b",
        ),
        ("for (int i = 1; i < n; ++i) for (int j = 0; j < n; ++j) b[i*n + j] += b[j];", "same element of b"),
        ("for (int i = 1; i < n; ++i) b[i] = b[i-1];", "same element of b"),
        ("for (int i = 0; i < n; ++i) b[i / 2] = a[i];", "same element of b"),
        ("for (int i = -n; i < n; ++i) { b[n + i] = a[i + n]; b[n - i] = a[i + n]; }", "same element of b"),
        (
            "for (int i = 0; i < n; ++i) for (int j = 0; j < n; ++j) { b[i*n + j] = a[j]; b[j*n + i] = a[i]; }",
            "same element of b",
        ),
        ("for (int i = 0; i < n; ++i) for (int j = 0; j < n; ++j) b[i*n + j] += b[j];", "same element of b"),
        (
            "for (int i = 0; i < n; ++i) for (int j = 0; j <= n; ++j) { b[i*n + j] = a[j]; b[j*n + i] = a[i]; }",
            "same element of b",
        ),
        ("for (int i = 0; i < n; ++i) b[i % 4] += a[i];", "same element of b"),
        ("for (int i = 0; i < n; ++i) b[0] = a[i];", "same element of b"),
        ("for (int i = 0; i < n; ++i) for (int j = 0; j < m; ++j) b[i + j] = a[i];", "same element of b"),
        ("for (int i = 0; i < n; ++i) for (int j = 0; j <= m; ++j) b[i*m + j] = a[i];", "same element of b"),
        ("for (int i = 0; i < n; ++i) for (int j = 0; j < m; ++j) b[i*k + j] += a[i];", "same element of b"),
        ("for (int i = 0; i < n; ++i) { float* p = b + (int)a[i]; p[0] = 1; }", "b"),
        ("float t = 0; for (int i = 0; i < n; ++i) { b[i] = t; t = a[i]; }", "t carries"),
        ("float t = 0; for (int i = 0; i < n; ++i) { if (a[i] > 0) t = a[i]; b[i] = t; }", "t carries"),
        ("int w = 0; for (int i = 0; i < n; ++i) if (a[i] > 0) b[w++] = a[i];", "w carries"),
        ("float t; for (int i = 0; i < n; ++i) { t = a[i]; b[i] = t; } c[0] = t;", "t carries"),
        ("for (int i = 0; i < n; ++i) { if (a[i] < 0) return; b[i] = a[i]; }", "returns"),
        ('for (int i = 0; i < n; ++i) { printf("%d", i); b[i] = 1; }', "printf"),
        ("for (int i = 0; i < n; ++i) { b[i] = 1; if (a[i] < 0) n--; }", "bound"),
        (
            "for (int i = 0; i < n; ++i) { for (int j = i > 3 ? i - 3 : 0; j < i; ++j) b[j] = a[i]; }",
            "same element of b",
        ),
        (
            "for (int i = 0; i < n; ++i) { for (int j = i > 3 ? i - 3 : 0; j < i; ++j) b[i] += b[j]; }",
            "same element of b",
        ),
        (
            "for (int i = 0; i < n; ++i) { float* q = b + i; for (int j = 0; j < m; ++j) { *q = a[j]; q += 1; } }",
            "same element of b",
        ),
        (
            "for (int i = 0; i < n; ++i) { float* q = b + i*m; for (int j = 0; j < m; ++j) { q += j; *q = a[j]; } }",
            "cannot be traced",
        ),
        ("float* q = b; for (int i = 0; i < n; ++i) { *q = a[i]; q += 1; }", "q walks"),
        ("for (int i = 0; i < n; ++i) for (int j = m; j >= 0; --j) b[i*m + j] = a[j];", "same element of b"),
        (
            "float s[8]; for (int i = 0; i < n; ++i) { for (int q = 0; q < 8; ++q) s[q] = a[q] * i; b[i] = s[0]; }",
            "same element of s",
        ),
    ],
)
def test_a_loop_is_independent_or_it_is_said_why_not(body: str, why: str) -> None:
    found = verdicts(body)
    assert why in found[0] if why else found == [""]


def test_helpers_are_read_through() -> None:
    helper = "static void row(const float* s, float* d, int w) { for (int j = 0; j < w; ++j) d[j] = s[j]; }"
    assert verdicts("for (int i = 0; i < n; ++i) row(a + i*m, b + i*m, m);", before=helper) == [""]
    assert "same element" in verdicts("for (int i = 0; i < n; ++i) row(a + i*m, b, m);", before=helper)[0]
    assert "same element" in verdicts("for (int i = 0; i < n; ++i) row(b + i*m, b + (i+1)*m, m);", before=helper)[0]
    walking = "static void fill(float* d, int w) { for (int j = 0; j < w; ++j) { *d = j; d += 1; } }"
    assert "cannot be traced" in verdicts("for (int i = 0; i < n; ++i) fill(b + i, m);", before=walking)[0]
    counter = "static int calls = 0; static float next(float v) { calls += 1; return v; }"
    assert "calls" in verdicts("for (int i = 0; i < n; ++i) b[i] = next(a[i]);", before=counter)[0]
