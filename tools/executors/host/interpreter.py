"""Asks a program whether it is a Python that can run jobs."""

from __future__ import annotations

import subprocess

ANSWER_S = 60.0
"""Seconds that a program has to say that it is a Python."""
QUESTION = "import importlib.util as u, sys; print(sys.version_info >= (3, 10), u.find_spec('torch') is not None)"
ANSWERS = {b"True True": "", b"True False": "has no torch"}


def problem_of_python(program: str, *, needs_torch: bool) -> str:
    """Return why `program` cannot run jobs, as what follows its name; empty: it can."""
    command = [program, "-I", "-c", QUESTION]
    try:
        asked = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=ANSWER_S)
    except OSError as error:
        return f"cannot be run ({error.strerror})"
    except subprocess.TimeoutExpired:
        asked = subprocess.CompletedProcess(command, 1, b"")
    problem = ANSWERS.get(asked.stdout.strip(), "is no Python of version 3.10 or newer")
    return problem if needs_torch or problem != ANSWERS[b"True False"] else ""
