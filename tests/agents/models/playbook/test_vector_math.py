"""The inserted functions against numpy in wider precision, run in another process."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from agents.lift.functions import FUNCTIONS as TEXTS
from tests.agents.models.playbook.calling import FLAGS, build

FUNCTIONS = sorted(one for one in TEXTS if one[0] != "pick")
SWEEP = """
import ctypes, json, sys
import numpy as np
np.seterr(all="ignore")
library = ctypes.CDLL(sys.argv[1])

def run(name, x):
    y = np.empty_like(x)
    getattr(library, "run_" + name)(ctypes.c_void_p(x.ctypes.data), ctypes.c_void_p(y.ctypes.data), ctypes.c_long(x.size))
    return y

def ulps(name, x, exact):
    y, reference = run(name, x), exact(x.astype(np.float64 if x.dtype == np.float32 else np.longdouble))
    rounded = reference.astype(x.dtype)
    finite = np.isfinite(rounded)
    wide = reference.dtype
    return float(np.max(np.abs(y[finite].astype(wide) - reference[finite]) / np.spacing(np.abs(rounded[finite])).astype(wide)))

def special(name, x, exact):
    y, reference = run(name, x), exact(x.astype(np.float64)).astype(x.dtype)
    # A gap of one subnormal is rounding.
    smallest = np.nextafter(x.dtype.type(0), x.dtype.type(1))
    close = np.abs(y - reference) <= np.maximum(smallest, 1e-6 * np.abs(reference))
    return bool(np.all((np.isnan(y) & np.isnan(reference)) | (y == reference) | close))

def check(name, sweep, dtype, exact, more, huge=(1e30, -1e30)):
    ends = np.array([-np.inf, np.inf, np.nan, 0.0, -0.0, 1e-45, *huge, *more], dtype)
    return [ulps(name, sweep.astype(dtype), exact), special(name, np.tile(ends, 7), exact)]

line = np.concatenate([np.linspace(-104, 89, 500001), np.random.default_rng(0).normal(0, 3, 100000)])
near_one = np.concatenate([np.exp(np.linspace(-103, 88, 500001)), np.linspace(0.6, 1.6, 200000)])
out = {"exp" + d: check("exp" + d, line, np.float32, np.exp, [88.72, 88.73, -87.4, -103.9, -104.1]) for d in "567"}
out["dexp"] = check("dexp", np.linspace(-746, 709.7, 500001), np.float64, np.exp, [709.7, 710, -745.0, -746.0])
out["log"] = check("log", near_one, np.float32, np.log, [1.0, -1.0, 3e-39])
out["tanh"] = check("tanh", np.linspace(-12, 12, 500001), np.float32, np.tanh, [20.0, -20.0])
wide = np.concatenate([np.exp(np.linspace(-103, 88, 300001)), np.linspace(0, 4, 100000)])
angles = np.concatenate([np.linspace(-30, 30, 300001), np.linspace(-9e5, 9e5, 100001)])
out["sqrt"] = check("sqrt", wide, np.float32, np.sqrt, [1.0, -1.0, 3e-39, 3.4e38])
out["dsqrt"] = check("dsqrt", wide, np.float64, np.sqrt, [1.0, -1.0, 3e-309, 1.7e308])
out["dlog"] = check("dlog", wide[wide > 0], np.float64, np.log, [1.0, -1.0, 3e-309])
out["sin"] = check("sin", angles, np.float32, np.sin, [1e5], huge=())
out["cos"] = check("cos", angles, np.float32, np.cos, [1e5], huge=())
out["expm1"] = check("expm1", line, np.float32, np.expm1, [88.8])
out["log1p"] = check("log1p", np.concatenate([np.linspace(-0.9999, 5, 300001), wide]), np.float32, np.log1p, [-1.0, -2.0])
out["exp2"] = check("exp2", np.linspace(-125.9, 127.9, 300001), np.float32, np.exp2, [-149.0, -151.0, 128.0])
whole = np.concatenate([np.linspace(-9, 9, 90001), np.linspace(4e6, 2e7, 90001), -np.linspace(4e6, 2e7, 90001)])
for name, exact in (("floor", np.floor), ("ceil", np.ceil), ("trunc", np.trunc)):
    out[name] = check(name, whole, np.float32, exact, [0.5, -0.5])
import math
erf, erfc = np.vectorize(math.erf, otypes=[float]), np.vectorize(math.erfc, otypes=[float])
out["erf"] = check("erf", np.linspace(-6, 6, 60001), np.float32, erf, [])
out["erfc"] = check("erfc", np.linspace(-6, 9, 60001), np.float32, erfc, [])
out["derf"] = check("derf", np.linspace(-6, 6, 60001), np.float64, erf, [])
out["derfc"] = check("derfc", np.linspace(-6, 26, 60001), np.float64, erfc, [])
out["pow"] = check("pow", np.exp(np.linspace(-30, 30, 60001)), np.float32, lambda x: x ** np.float64(np.float32(2.7)), [-2.0])
out["cube"] = check("cube", np.linspace(-30, 30, 60001), np.float32, lambda x: np.power(x, 3.0), [-2.0])
print(json.dumps(out))
"""


def loop(entry: str, kind: str, function: str) -> str:
    return f"""
extern "C" void {entry}(const {kind}* x, {kind}* y, long n) {{
#pragma omp simd
for (long i = 0; i < n; i++) y[i] = {function}(x[i]); }}
"""


def test_accuracy_and_special_values(tmp_path: Path) -> None:
    source = "".join(TEXTS.values())
    for degree in "567":
        text = (
            TEXTS["exp", "float"].replace("kw_exp", f"kw_exp{degree}").replace("DEGREE_1 = 6", f"DEGREE_1 = {degree}")
        )
        source += text.replace("DEGREE_1", f"DEGREE_{degree}") + loop(f"run_exp{degree}", "float", f"kw_exp{degree}")
    for name, kind in FUNCTIONS:
        if name not in ("log2", "log10") and not name.startswith("pow"):
            source += loop(f"run_{'d' if kind == 'double' else ''}{name}", kind, f"kw_{name}")
    for entry, exponent in (("run_pow", "2.7f"), ("run_cube", "3.0f")):
        source += loop(entry, "float", "kw_pow").replace("(x[i])", f"(x[i], {exponent})")
    library = build(source, tmp_path, "functions")
    done = subprocess.run(
        [sys.executable, "-c", SWEEP, str(library)], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr[-1500:]
    found = json.loads(done.stdout)
    limits = {"exp5": 2.5, "exp6": 1.2, "exp7": 1.2, "dexp": 1.5, "log": 1.5, "tanh": 2.0, "sqrt": 1.0, "dsqrt": 1.0, "dlog": 1.5,
              "sin": 2.0, "cos": 2.0, "expm1": 4.0, "log1p": 3.0, "exp2": 2.0, "floor": 0.1, "ceil": 0.1, "trunc": 0.1, "erf": 2.0,
              "erfc": 6.0, "derf": 3.0, "derfc": 6.0, "pow": 1.5, "cube": 1.5}  # fmt: skip
    assert {name: (error < limits[name], special) for name, (error, special) in found.items()} == dict.fromkeys(
        limits, (True, True)
    ), found


@pytest.mark.parametrize(("name", "kind"), FUNCTIONS, ids=["-".join(one) for one in FUNCTIONS])
def test_loops_over_the_functions_are_vectorised(name: str, kind: str, tmp_path: Path) -> None:
    """Compilers differ: one goes round a branch of a select where another computes both."""
    source = "".join(TEXTS.values()) + loop("solve", kind, f"kw_{name}")
    source = source.replace("(x[i])", "(x[i], 2.7f)") if name == "pow" else source
    (tmp_path / "one.cpp").write_text(source)
    command = ["g++", *FLAGS, "-fopt-info-vec-optimized", "one.cpp", "-o", "one.so"]
    told = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path).stderr
    assert "loop vectorized" in told, told
