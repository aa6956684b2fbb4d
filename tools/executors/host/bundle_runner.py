"""Runs the jobs of one bundle on this machine and packs their results: `python3 001.pyz`.

A bundle is a zip that Python 3.10 or newer runs: this code, `jobs.json`, and the files of the jobs. It unpacks itself
into a folder beside it, which keeps the result of each finished job, so that a run that was interrupted goes on there.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
import zipfile
from pathlib import Path
from typing import Any

from tools.errors import KernelwrightError
from tools.executors.host.engine import Engine, available_memory
from tools.executors.host.interpreter import problem_of_python
from tools.store.blobs import Blobs, write_atomically

HOST = "host"
"""Key of the answer that describes the machine."""


def main(bundle: Path) -> int:
    """Run the jobs of `bundle`, whose content lies unpacked in the folder beside it; return the exit code."""
    parser = argparse.ArgumentParser(prog=f"python3 {bundle.name}", description="Runs the jobs of this bundle.")
    parser.add_argument("--python", default=sys.executable, help="the Python with torch that runs the jobs")
    parser.add_argument("--gpu", type=int, help="the GPU to use, by its index")
    arguments = parser.parse_args()
    folder = bundle.with_suffix(".work")
    if problem := problem_of_python(arguments.python, needs_torch=True):
        _say(f"{arguments.python} {problem}; name the Python that has torch: `python3 {bundle.name} --python PATH`")
        return 2
    _forget_other_machine(folder, json.dumps([arguments.python, arguments.gpu]))
    order = json.loads((folder / "jobs.json").read_text())
    blobs = Blobs(folder / "blobs")
    named = {"gpu": arguments.gpu} if arguments.gpu is not None else {}
    engine = Engine(blobs, folder / "scratch", python=arguments.python, **{**order["engine"], **named})
    failed = 0
    try:
        # Every file of results says on which machine it was made.
        jobs = {HOST: {}, **order["jobs"]}
        for number, (key, job) in enumerate(jobs.items(), start=1):
            path = folder / "results" / f"{key}.json"
            if path.exists():
                continue
            start = time.monotonic()
            answer = _answer(engine, key, job)
            failed += "error" in answer
            # A failure of the machine is told, and the job runs again when the bundle does.
            write_atomically(path.with_suffix(".error") if "error" in answer else path, json.dumps(answer).encode())
            ended = answer.get("sentence", "done")
            _say(f"{number} of {len(jobs)}: {ended} ({time.monotonic() - start:.1f} s)")
    finally:
        engine.close()
    results = bundle.with_suffix(".results.zip")
    _pack(folder, results, blobs)
    again = (
        f"; {failed} jobs met a failure of this machine and run again with `python3 {bundle.name}`" if failed else ""
    )
    _say(f"{results.name} holds the results{again}; put it beside the bundle on the machine where the run waits")
    return 4 if failed else 0


def _forget_other_machine(folder: Path, named: str) -> None:
    """Remove the results of an earlier call that named another Python or GPU."""
    made_with = folder / "made_with.json"
    if made_with.exists() and made_with.read_text() != named:
        shutil.rmtree(folder / "results", ignore_errors=True)
    made_with.write_text(named)


def _answer(engine: Engine, key: str, job: dict[str, Any]) -> dict[str, Any]:
    try:
        if key == HOST:
            return {"devices": engine.devices(), "memory": available_memory()}
        return engine.run(job)
    except KernelwrightError as error:
        return {"error": type(error).__name__, "sentence": str(error)}


def _pack(folder: Path, results: Path, blobs: Blobs) -> None:
    """Write all answers and the files that they name into one zip."""
    answers: dict[str, Any] = {}
    for path in sorted((folder / "results").iterdir()):  # `.error` comes before the answer that replaces it.
        answers[path.stem] = json.loads(path.read_text())
    named = sorted({sha for answer in answers.values() for sha in answer.get("files", {}).values()})
    part = results.with_suffix(".part")
    part.touch(mode=0o600)
    with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("results.json", json.dumps(answers))
        for sha in named:
            archive.writestr(f"blobs/{sha}", blobs.get(sha))
    part.replace(results)


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
