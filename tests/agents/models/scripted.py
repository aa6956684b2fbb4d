"""A program that answers each role from the text of its prompt, as a language model behind a command line would:
`scripted.py < prompt`.

Stdlib only, so that it starts at once. What it knows is one good idea for the softmax of tests/graph/task.
"""

from __future__ import annotations

import json
import re
import sys

METHOD = "vector-exp"
RULES = (
    "scalar_math_call",
    "loop_not_vectorised",
    "single_threaded",
    "redundant_passes",
    "division_in_loop",
    "far_from_roof",
)
FAST_EXP = """
static inline float fast_exp(float x) {
  const float c = x < -87.0f ? -87.0f : (x > 88.0f ? 88.0f : x);
  const float shifted = c * 1.44269504f + 12582912.0f;
  const float n = shifted - 12582912.0f;
  const float r = (c - n * 0.69140625f) - n * 1.7409305599e-3f;
  float p = 1.0f / 720;
  p = p * r + 1.0f / 120;
  p = p * r + 1.0f / 24;
  p = p * r + 1.0f / 6;
  p = p * r + 0.5f;
  const float series = p * r * r + r + 1.0f;
  const int bits = ((int)n + 127) << 23;
  float power;
  __builtin_memcpy(&power, &bits, 4);
  return series * power;
}
"""
SOFTMAX = """
extern "C" void solve(const float* __restrict values, float* __restrict result, int rows, int columns) {
  for (int r = 0; r < rows; r++) {
    const float* in = values + (long)r * columns;
    float* out = result + (long)r * columns;
    float total = 0;
    for (int c = 0; c < columns; c++) out[c] = fast_exp(in[c]);
    #pragma omp simd reduction(+ : total)
    for (int c = 0; c < columns; c++) total += out[c];
    const float scale = 1.0f / total;
    for (int c = 0; c < columns; c++) out[c] *= scale;
  }
}
"""
ELEMENTWISE = """
extern "C" void solve(const float* x, float* y, int n) {
  #pragma omp parallel for
  for (int i = 0; i < n; i++) y[i] = 2 * x[i] + fast_exp(x[i]);
}
"""


def answer(prompt: str) -> str:
    """Prose with a JSON object in it."""
    role = re.search(r"You are the (planner|coder|profiler.analyst|knowledge.retriever|gatekeeper|reviewer)", prompt)
    if role is None:
        raise SystemExit("the prompt names no role")
    made = ANSWERS[role[1].replace("-", "_").replace(" ", "_")](prompt)
    return f"I looked at it for a while.\n\n```json\n{json.dumps(made, indent=1)}\n```\n\nThat is all."


def plan(prompt: str) -> dict[str, object]:
    if "fast_exp" in prompt:
        return {
            "methods": [],
            "candidates": 0,
            "reason": "The exponential is an inline polynomial by now, and nothing else costs much.",
        }
    line = re.search(rf"<gpu-wiki>/methods/{METHOD}\.md:\d+", prompt)
    hypothesis = {
        "change": "The exponentials are computed once, by a polynomial that the compiler vectorises.",
        "rationale": "A call to the library for each element keeps the loop scalar.",
        "citations": [line[0] if line else f"<gpu-wiki>/methods/{METHOD}.md:20", *records(prompt)],
        "expected": [{"metric": "time", "direction": "down", "factor": 0.3, "confidence": 0.8}],
    }
    return {
        "methods": [{"method": METHOD, "axis": "compute", "hypothesis": hypothesis}],
        "candidates": 1,
        "reason": "Largest gap first.",
    }


def write(prompt: str) -> dict[str, object]:
    """One draft: of the softmax, or of the task of the contract tests, whose plan is to use threads."""
    softmax = "int rows, int columns" in prompt
    method = METHOD if softmax else "openmp-parallel-outer"
    source = FAST_EXP + (SOFTMAX if softmax else ELEMENTWISE)
    return {"drafts": [{"source": source.lstrip(), "methods": [method], "note": "No library call is left."}]}


def analyse(prompt: str) -> dict[str, object]:
    fired = [rule for rule in RULES if rule in prompt]
    told = ", ".join(records(prompt)) or "what was measured"
    return {"ranking": fired, "text": f"By {told} the loop calls a library function for each element and stays scalar."}


def ask(prompt: str) -> dict[str, object]:
    return {
        "queries": [
            {"text": "softmax cpp float32 exponential", "purpose": "kernel"},
            {"text": "scalar math call in loop not vectorised", "purpose": "bottleneck"},
        ]
    }


def review(prompt: str) -> dict[str, object]:
    veto = re.search(r"^\+.*\b(?:system|fopen)\(.*", prompt, re.MULTILINE)
    return (
        {"veto": True, "quote": veto[0][1:].strip(), "reason": "A kernel opens no files."} if veto else {"veto": False}
    )


def records(prompt: str) -> list[str]:
    """The first id of a record that the prompt names, if any."""
    return re.findall(r"(?<![\w.])[0-9a-f]{16}\b", prompt)[:1]


ANSWERS = {
    "planner": plan,
    "coder": write,
    "profiler_analyst": analyse,
    "knowledge_retriever": ask,
    "gatekeeper": review,
    "reviewer": review,
}

if __name__ == "__main__":
    sys.stdout.write(answer(sys.stdin.read()))
