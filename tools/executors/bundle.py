"""Has jobs run on a machine that cannot be reached: they wait in a file that somebody carries there and back.

A job whose answer is not here raises PendingError, and the run ends until the answer comes. All jobs that were
requested by then stand in one bundle, `<folder>/001.pyz`. `python3 001.pyz` runs them over there with the standard
library and that machine's torch, and leaves `001.results.zip`, which belongs beside the bundle. A subclass that
overrides `carry` does that itself.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import threading
import zipfile
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from tools import errors
from tools.artifacts import digest
from tools.errors import InfrastructureError, KernelwrightError, PendingError, SettingsError
from tools.executors.base import Device, Executor, ExecutorOptions, FinishedJob, Job
from tools.executors.host.bundle_runner import HOST, is_final
from tools.executors.worker_code import worker_code
from tools.store.blobs import Blobs, write_atomically

MAIN = """import sys, zipfile
if sys.version_info < (3, 10):
    sys.exit(sys.executable + " is older than Python 3.10; run the bundle with a newer one")
from pathlib import Path
bundle = Path(sys.argv[0]).absolute()
folder = bundle.with_suffix(".work")
folder.mkdir(exist_ok=True)
folder.chmod(0o700)
zipfile.ZipFile(bundle).extractall(folder)
sys.path[0] = str(folder)
from tools.executors.host import bundle_runner
sys.exit(bundle_runner.main(bundle))
"""
"""The program of a bundle: a job's files must lie on the disk, so all is unpacked. Hidden sizes and
seeds are among them, which other users may not read."""


class BundleOptions(ExecutorOptions):
    """Options of `bundle`."""

    folder: str = Field(default="bundles", min_length=1)
    """The folder of bundles and results, below the current one if it is relative."""


class BundleExecutor(Executor):
    """Collects jobs in bundles and answers from results that were carried back."""

    options = BundleOptions
    answers_at_once, is_elsewhere = False, True

    def __init__(
        self,
        blobs: Blobs,
        scratch: Path,
        *,
        folder: str = "bundles",
        gpu: int | None = None,
        clocks: Literal["observe", "lock"] = "observe",
    ) -> None:
        """Create an executor that answers from the results in `folder`. `gpu` and `clocks` are those of `Engine`;
        `scratch` is not used. SettingsError for results that cannot be read."""
        self.blobs = blobs
        self.folder = Path(folder).expanduser().absolute()
        self._engine = {"gpu": gpu, "clocks": clocks}
        self._waiting: dict[str, dict[str, Any]] = {}
        self._answers: dict[str, list[tuple[Path, dict[str, Any]]]] = defaultdict(list)
        """The answers to each job, the oldest first: what may be a failure of the machine is taken once."""
        self._begun_on = ""
        self._is_collecting = False
        self._guard = threading.Lock()
        self._last = 0
        """Number of the last bundle whose results are here."""
        for path in sorted(self.folder.glob("*.results.zip")):
            self._read_results(path)

    def devices(self) -> tuple[Device, ...]:
        return tuple(Device.model_validate(device) for device in self._answer(HOST, {})[1]["devices"])

    def available_memory(self) -> int:
        return int(self._answer(HOST, {})[1]["memory"])

    def run(self, job: Job) -> FinishedJob:
        """Return the result of `job`, or raise PendingError until it is here.

        The limits on time depend on what the run has spent, so a job is known without them.
        """
        key = digest(job.model_dump_json(exclude={"limits", "warm"}))[:32]
        path, answer = self._answer(key, job.model_dump(mode="json"))
        finished = FinishedJob.model_validate(answer)
        for sha in set(finished.files.values()):
            if not self.blobs.has(sha):
                with _opened(path) as archive:
                    if self.blobs.put(archive.read(f"blobs/{sha}")) != sha:
                        raise ValueError(f"the file {sha} is damaged")
        return finished

    def gather(self, requests: Iterable[Callable[[], object]]) -> None:
        known, is_inner = tuple(requests), self._is_collecting
        while self._collect(known) and not is_inner:
            self._carry()

    def _collect(self, requests: Iterable[Callable[[], object]]) -> bool:
        """Let the jobs of all requests wait that have no answer, and return whether there are any."""
        before, self._is_collecting = self._is_collecting, True
        try:
            for request in requests:
                # The run meets whatever is wrong when it comes to this request itself.
                with contextlib.suppress(KernelwrightError):
                    request()
        finally:
            self._is_collecting = before
        return bool(self._waiting)

    def carry(self, bundle: Path, results: Path) -> None:
        """Run `bundle` elsewhere and bring its results to the path `results`. This class leaves that to a person and
        raises PendingError."""
        raise PendingError(
            f"executor: run `python3 {bundle.name}` from {bundle.parent} on the machine with the device, and put "
            f"{results.name}, which it leaves, beside it here",
            results,
        )

    def draw_secret(self) -> bytes:
        if type(self).carry is BundleExecutor.carry:
            raise SettingsError(
                "executor: a command that draws fresh seeds cannot wait for bundles, because it draws others when it "
                "is called again; copy the workspace or task to the machine with the device and run the command there"
            )
        return super().draw_secret()

    def close(self) -> None:
        """Do nothing: bundles and results stay."""

    def _answer(self, key: str, order: dict[str, Any]) -> tuple[Path, dict[str, Any]]:
        """Return the answer to a job and the file that holds it; the job is carried if there is none."""
        with self._guard:
            # A job that a nearly spent cap cut short has not been answered; two calls seldom leave quite the same time.
            attempts = self._answers[key] = sorted(
                (
                    (path, answer)
                    for path, answer in self._answers[key]
                    if not answer.get("timed_out") or answer["usage"]["wall_s"] > 0.9 * order["limits"]["wall_s"]
                ),
                key=lambda one: not is_final(one[1], order),
            )
            if not attempts:
                self._waiting[key] = order
                if self._is_collecting:
                    raise PendingError("executor: a job waits for the next bundle", self.folder)
                self._carry()
            path, answer = attempts[0]
            if not is_final(answer, order) and not self._is_collecting:
                del attempts[0]  # Another attempt is another job.
        if "error" in answer:
            kind = getattr(errors, answer["error"], InfrastructureError)
            raise kind(f"{answer['sentence']} (on the machine of {path.name}, where its bundle can be run again)")
        return path, answer

    def _carry(self) -> None:
        """Have the jobs that wait carried; PendingError until their results are here."""
        bundle = self._next_bundle()
        results = bundle.with_suffix(".results.zip")
        self._write_bundle(bundle)
        self.carry(bundle, results)
        self._read_results(results)
        if missing := [key for key in self._waiting if not self._answers[key]]:
            raise InfrastructureError(
                f"executor: {results} lacks {len(missing)} results of its bundle; run `python3 {bundle.name}` again"
            )
        self._waiting = {}

    def _next_bundle(self) -> Path:
        """Return the file for the jobs that wait: the one in which they wait already, or a new one, as another run may
        wait for the results of those that are there."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for number in itertools.count(self._last + 1):
            bundle = self.folder / f"{number:03d}.pyz"
            try:
                bundle.touch(exist_ok=False)
            except FileExistsError:
                if _jobs_in(bundle) != self._waiting.keys():
                    continue
            return bundle
        raise AssertionError("unreachable")

    def _write_bundle(self, bundle: Path) -> None:
        """Write the jobs that wait, with their files and the code that runs them."""
        content = io.BytesIO(worker_code())
        with zipfile.ZipFile(content, "a", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("__main__.py", MAIN)
            archive.writestr("jobs.json", json.dumps({"engine": self._engine, "jobs": self._waiting}))
            for sha in sorted({sha for job in self._waiting.values() for sha in job.get("files", {}).values()}):
                archive.writestr(f"blobs/{sha}", self.blobs.get(sha))
        write_atomically(bundle, content.getvalue(), mode=0o600)

    def _read_results(self, path: Path) -> None:
        """Take the answers in a file of results; SettingsError if it cannot be read."""
        with _opened(path) as archive:
            answers = json.loads(archive.read("results.json"))
            host = answers[HOST]
            if "error" in host:
                raise SettingsError(f"executor: {path.name}: {host['sentence']}")
            here = _describe_host(host)
        self._begun_on = self._begun_on or here
        if here != self._begun_on:
            raise SettingsError(
                f"executor: {path} comes from {here}, and the first results from {self._begun_on}; run it there"
            )
        for key, answer in answers.items():
            self._answers[key].append((path, answer))
        number = path.name.partition(".")[0]
        self._last = max(self._last, int(number) if number.isdigit() else 0)


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[zipfile.ZipFile]:
    """Open a file of results; SettingsError if the block finds it damaged or incomplete."""
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    except (OSError, KeyError, ValueError, zipfile.BadZipFile, zlib.error) as error:
        raise SettingsError(f"executor: {path} cannot be read ({error}); copy it again") from None


def _jobs_in(bundle: Path) -> set[str]:
    """Return the keys of the jobs in a bundle; none: it is not written yet."""
    try:
        with zipfile.ZipFile(bundle) as archive:
            return set(json.loads(archive.read("jobs.json"))["jobs"])
    except zipfile.BadZipFile:
        return set()


def _describe_host(answer: dict[str, Any]) -> str:
    """Return the devices of a machine as text, by which machines are told apart."""
    return ", ".join(f"{device['name']} ({device['units']} units)" for device in answer["devices"])
