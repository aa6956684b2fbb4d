"""The code that runs jobs on another machine: the engine and what it imports, all of it for the standard library."""

from __future__ import annotations

import io
import zipfile
from functools import cache
from pathlib import Path

TOOLS = Path(__file__).parents[1]
WORKER_CODE = (
    *("__init__.py", "errors.py", "store/__init__.py", "store/blobs.py", "executors/__init__.py"),
    *("executors/host/*.py", "harness/**/*.py"),
)
"""What goes to the other machine, as globs below tools/."""


@cache
def worker_code() -> bytes:
    """Return a zip of the code."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        for path in sorted({path for pattern in WORKER_CODE for path in TOOLS.glob(pattern)}):
            file.write(path, path.relative_to(TOOLS.parent))
    return archive.getvalue()
