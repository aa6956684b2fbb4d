"""Runs the jobs of one bundle on this machine and packs their results: `python3 001.pyz`.

A bundle is a zip that Python 3.10 or newer runs: this code, `jobs.json`, and the files of the jobs. It unpacks itself
into a folder beside it, which keeps the result of each finished job, so that a run that was interrupted goes on there.
"""

from __future__ import annotations

import argparse
import json
import shutil
import socket
import sys
import time
import zipfile
from collections.abc import Iterable
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
    order = json.loads((folder / "jobs.json").read_text())
    blobs = Blobs(folder / "blobs")
    named = {"gpu": arguments.gpu} if arguments.gpu is not None else {}
    engine = Engine(blobs, folder / "scratch", python=arguments.python, **{**order["engine"], **named})
    failed = unfinished = 0
    try:
        host = _answer(engine, HOST, {})
        if "error" not in host:
            _forget_other_machine(folder, vars(arguments), host["devices"])
        # Every file of results says on which machine it was made.
        jobs = {HOST: {}, **order["jobs"]}
        for number, (key, job) in enumerate(jobs.items(), start=1):
            path = folder / "results" / f"{key}.json"
            if path.exists():
                continue
            start = time.monotonic()
            answer = _answer(engine, key, job)
            failed += "error" in answer
            unfinished += not (final := is_final(answer, job))
            # What may be a failure of the machine is told, and the job runs again when the bundle does.
            write_atomically(path if final else path.with_suffix(".error"), json.dumps(answer).encode())
            ended = answer.get("sentence", "done" if final else "ran out of time, was killed or left no result")
            _say(f"{number} of {len(jobs)}: {ended} ({time.monotonic() - start:.1f} s)")
    finally:
        engine.close()
    results = bundle.with_suffix(".results.zip")
    _pack(folder / "results", jobs, results, blobs)
    again = f"; {unfinished} jobs did not finish and run again with `python3 {bundle.name}`" if unfinished else ""
    _say(f"{results.name} holds the results{again}; put it beside the bundle on the machine where the run waits")
    return 4 if failed else 0


def is_final(answer: dict[str, Any], job: dict[str, Any]) -> bool:
    """Return whether `answer` stands for good. A job that ran out of time, was killed, or ended well without any of the
    files that it must leave may have met a failure of the machine; a compiler's refusal is an exit code."""
    if "exit_code" not in answer:
        return "error" not in answer
    # What the job printed is two files.
    left_nothing = bool(job["results"]) and len(answer["files"]) <= 2
    return not answer["timed_out"] and answer["exit_code"] >= left_nothing


def _forget_other_machine(folder: Path, named: dict[str, Any], devices: Iterable[dict[str, Any]]) -> None:
    """Remove the results of an earlier call that named another Python or GPU, or of a machine with another name, other
    GPUs or another driver. The GPUs' order, in which free ones come first, does not count."""
    gpus = sorted(str([one["details"].get(fact) for fact in ("uuid", "driver")]) for one in devices)
    made_with, now = folder / "made_with.json", json.dumps([named, socket.gethostname(), gpus])
    if made_with.exists() and made_with.read_text() != now:
        shutil.rmtree(folder / "results", ignore_errors=True)
    made_with.write_text(now)


def _answer(engine: Engine, key: str, job: dict[str, Any]) -> dict[str, Any]:
    try:
        if key == HOST:
            return {"devices": engine.devices(), "memory": available_memory()}
        return engine.run(job)
    except KernelwrightError as error:
        return {"error": type(error).__name__, "sentence": str(error)}


def _pack(folder: Path, jobs: Iterable[str], results: Path, blobs: Blobs) -> None:
    """Write the answers to `jobs`, which lie in `folder`, and the files that they name into one zip."""
    paths = [folder / f"{key}.json" for key in jobs]
    answers = {
        path.stem: json.loads((path if path.exists() else path.with_suffix(".error")).read_text()) for path in paths
    }
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
