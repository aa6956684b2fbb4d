"""What a Triton build leaves for the launches to come: found by them under the same keys, and safe to take from a
hostile candidate."""

from __future__ import annotations

import io
import json
import os
import shutil
import sys
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.support import BARE, Beside, run_captured
from tests.tools import drivers
from tests.tools.builders import open_judge, softmax
from tests.tools.harness.test_gpu_judging import module
from tests.tools.judge.test_judge import Busy
from tools.artifacts import Candidate, Workload
from tools.contracts import checked_cases
from tools.errors import DeviceBusyError
from tools.executors.base import FinishedJob, Job
from tools.executors.local import LocalExecutor
from tools.gate.judge_settings import JudgeSettings
from tools.languages.triton import Triton
from tools.store.blobs import Blobs
from tools.store.records import Records

pytest.importorskip("triton")
ROOT = Path(__file__).resolve().parents[4]
SHIPPED = ROOT / "configs" / "tasks" / "triton-softmax"
KEY, OTHER = "A" * 52, "B" * 52

# ---------------------------------------------------------------- the folders and the file


@pytest.fixture
def code() -> ModuleType:
    return module("compilation.cache")


def compilation(folder: Path, key: str = KEY, **changed: bytes) -> dict[str, bytes]:
    """One as Triton leaves it, and what of it a launch reads."""
    inside = folder / key
    inside.mkdir(parents=True)
    files = {
        "softmax.ttir": b"module",
        "softmax.json": b'{"name": "softmax"}',
        "softmax.cubin": b"\x7fELF" + os.urandom(99),
        **changed,
    }
    for name, data in files.items():
        (inside / name).write_bytes(data)
    (inside / "__grp__softmax.json").write_text(
        json.dumps({"child_paths": {name: str(inside / name) for name in files}})
    )
    return {name: data for name, data in files.items() if not name.endswith(".ttir")}


def test_what_is_packed_is_found_again_in_another_place(code: ModuleType, tmp_path: Path) -> None:
    read = compilation(tmp_path / "here")
    (tmp_path / "here" / "tmp.pid_1").mkdir()
    code.pack(tmp_path / "here", tmp_path / "compiled.tar")
    shutil.rmtree(tmp_path / "here")
    there = tmp_path / "there"
    there.mkdir()
    code.write_entries(code.read_archive(tmp_path / "compiled.tar"), there)
    children = json.loads((there / KEY / "__grp__softmax.json").read_text())["child_paths"]
    assert {name: Path(path).read_bytes() for name, path in children.items()} == read
    assert [path.name for path in there.iterdir()] == [KEY] and len(list((there / KEY).iterdir())) == len(read) + 1
    code.pack(tmp_path / "there" / KEY, tmp_path / "none.tar")
    assert not (tmp_path / "none.tar").exists()


def test_only_plain_files_are_taken_from_a_folder(code: ModuleType, tmp_path: Path) -> None:
    secret, folder = tmp_path / "secret.json", tmp_path / "cache"
    secret.write_text("secret")
    read = compilation(folder)
    (folder / KEY / "linked.json").symlink_to(secret)
    os.mkfifo(folder / KEY / "waits.json")
    (folder / OTHER).symlink_to(folder / KEY)
    (folder / KEY / ("C" * 52)).mkdir()
    (folder / KEY / ("C" * 52) / "deeper.json").write_text("{}")
    (folder / "beside.json").write_text("{}")
    assert {(key, name) for key, name, _ in code.contents(folder)} == {
        (KEY, name) for name in [*read, "__grp__softmax.json"]
    }


def test_no_more_is_taken_than_a_kernel_could_need(
    code: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compilation(tmp_path / "cache")
    compilation(tmp_path / "cache", OTHER, **{"softmax.cubin": bytes(5000)})
    monkeypatch.setattr(code, "MOST_BYTES", 4000)
    (tmp_path / "laid").mkdir()
    code.write_entries(code.contents(tmp_path / "cache"), tmp_path / "laid")
    # A group without one of its files would be taken for a kernel without code.
    assert (tmp_path / "laid" / KEY / "__grp__softmax.json").exists()
    assert not (tmp_path / "laid" / OTHER / "__grp__softmax.json").exists()
    monkeypatch.setattr(code, "MOST_FILES", 2)
    assert len(list(code.contents(tmp_path / "cache"))) == 2
    code.pack(tmp_path / "cache", tmp_path / "small.tar")
    monkeypatch.setattr(code, "MOST_FILES", 1)
    assert len(list(code.read_archive(tmp_path / "small.tar"))) == 1


@pytest.mark.parametrize("made", ["fifo", "link", "too many names", "too many within"])
def test_a_folder_that_no_compiler_makes_is_nothing_and_holds_nobody_up(
    made: str, code: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "cache"
    compilation(tmp_path / "real")
    monkeypatch.setattr(code, "MOST_NAMES", 9)
    if made == "fifo":
        os.mkfifo(folder)
    elif made == "link":
        folder.symlink_to(tmp_path / "real")
    else:
        compilation(folder)
        for at in range(9):
            (folder / ("." if made == "too many names" else KEY) / f"{at}").mkdir()
    code.pack(folder, tmp_path / "compiled.tar")
    assert not (tmp_path / "compiled.tar").exists()


def member(name: str, data: bytes = b"{}", **fields: Any) -> tuple[tarfile.TarInfo, bytes]:
    made = tarfile.TarInfo(name)
    made.size = len(data)
    for field, value in fields.items():
        setattr(made, field, value)
    return made, data


OUTSIDE = (
    f"/tmp/{KEY}/x.json",
    f"../{KEY}/x.json",
    f"{KEY}/../../x.json",
    f"{KEY}/{OTHER}/x.json",
    "sitecustomize/x.json",
)
HIDDEN = (f"{KEY}/.x.json", f"{KEY}/x\n.json", f"{KEY}/-x.json", f"{KEY}/x.py", f"{KEY}/x.pth")


def test_a_hostile_file_lays_nothing(code: ModuleType, tmp_path: Path) -> None:
    """Names that lead out of the folder or hide, links, devices, a folder that is a link."""
    kinds = (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE)
    members = [member(name) for name in (*OUTSIDE, *HIDDEN)]
    members += [member(f"{KEY}/{kind.decode()}.json", b"", type=kind, linkname="/etc/passwd") for kind in kinds]
    members += [member(KEY, b"", type=tarfile.SYMTYPE, linkname="/tmp"), member(f"{KEY}/x.exe")]
    with tarfile.open(tmp_path / "hostile.tar", "w") as tar:
        for one, data in members:
            tar.addfile(one, io.BytesIO(data))
    (tmp_path / "laid").mkdir()
    code.write_entries(code.read_archive(tmp_path / "hostile.tar"), tmp_path / "laid")
    assert list((tmp_path / "laid").rglob("*")) == []


ENDLESS = (member("././@LongLink", type=tarfile.GNUTYPE_LONGNAME)[0].tobuf(tarfile.GNU_FORMAT) + bytes(512)) * 5000


@pytest.mark.parametrize("content", [b"", b"no tar", ENDLESS], ids=["empty", "text", "a name without end"])
def test_what_is_no_file_of_ours_is_nothing(content: bytes, code: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "compiled.tar").write_bytes(content)
    assert list(code.read_archive(tmp_path / "compiled.tar")) == []
    assert list(code.read_archive(tmp_path / "not there.tar")) == []


@pytest.mark.parametrize(
    "group", [b"", b"[]", b'{"child_paths": 3}', b'{"child_paths": {"/etc/passwd": "/etc/passwd", "a.cubin": ""}}']
)
def test_a_group_names_only_files_that_lie_beside_it(group: bytes, code: ModuleType, tmp_path: Path) -> None:
    code.write_entries([(KEY, "__grp__a.json", group), (KEY, "a.json", b"{}")], tmp_path)
    path = tmp_path / KEY / "__grp__a.json"
    assert not path.exists() or json.loads(path.read_text()) == {"child_paths": {}}


# ---------------------------------------------------------------- what processes start with


class ForkServer:
    """Its one trait that caches look at: the folder with what is compiled for everybody."""

    def __init__(self, base: Path) -> None:
        self.base = base


@pytest.fixture
def caches(code: ModuleType, tmp_path: Path) -> tuple[Any, ForkServer, Callable[[str, bytes, dict[str, bytes]], None]]:
    """Empty caches, a fork server, and a way to put beside a source what its build left: key -> machine code."""
    made = module("workers.gpu_kernel").CompileCaches(tmp_path)
    base = tmp_path / "base"
    compilation(base, "N" * 52)

    def left(name: str, source: bytes, what: dict[str, bytes]) -> None:
        for key, cubin in what.items():
            compilation(tmp_path / name, key, **{"softmax.cubin": cubin})
        code.pack(tmp_path / name, tmp_path / f"{name}.compiled")
        made.add(source, tmp_path / f"{name}.compiled")

    return made, ForkServer(base), left


def held(folder: Path) -> dict[str, bytes]:
    """key -> the machine code that Triton would load."""
    groups = {path.parent.name: json.loads(path.read_text())["child_paths"] for path in folder.glob("*/__grp__*.json")}
    assert all(Path(path).is_relative_to(folder) for children in groups.values() for path in children.values())
    return {key: Path(children["softmax.cubin"]).read_bytes() for key, children in groups.items() if key[0] != "N"}


def test_what_a_process_left_takes_the_place_of_what_the_build_left(caches: Any) -> None:
    made, fork_server, left = caches
    left("candidate", b"a kernel", {KEY: b"built"})
    # The judge marks copies of one library by empty lines behind its end.
    first = made.open(fork_server, {"candidate": b"a kernel\n\n"})
    assert held(first) == {KEY: b"built"}
    compilation(first, OTHER, **{"softmax.cubin": b"launched"})
    made.close(first, {"candidate": b"a kernel"})
    left("again", b"a kernel", {KEY: b"built again"})
    assert held(made.open(fork_server, {"candidate": b"a kernel"})) == {KEY: b"built", OTHER: b"launched"}
    assert sorted(path.name[:5] for path in made.folder.glob("*-*")) == ["cache", "cache"]
    assert held(made.open(fork_server, {"candidate": b"another"})) == held(made.open(fork_server, {})) == {}


@pytest.mark.parametrize("other", ["incumbent", "baseline"])
def test_a_candidate_replaces_nothing_of_the_others(other: str, caches: Any) -> None:
    made, fork_server, left = caches
    ours = (fork_server.base / ("N" * 52) / "softmax.cubin").read_bytes()
    left("candidate", b"hostile", {KEY: b"slow", OTHER: b"own", "N" * 52: b"forged"})
    left(other, b"honest", {KEY: b"fast"})
    for sources in ({"candidate": b"hostile", other: b"honest"}, {other: b"honest", "candidate": b"hostile"}):
        folder = made.open(fork_server, sources)
        assert held(folder) == {KEY: b"fast", OTHER: b"own"}
        assert (folder / ("N" * 52) / "softmax.cubin").read_bytes() == ours
    assert held(made.open(fork_server, {other: b"honest"})) == {KEY: b"fast"}


@pytest.mark.parametrize("held_by_other", [{}, {OTHER: b"fast"}])
def test_slow_code_under_a_key_of_the_incumbents_is_not_there_when_it_is_timed(
    held_by_other: dict[str, bytes], caches: Any
) -> None:
    """What the incumbent launches under KEY is known where its build or a process of its own left it, and only
    there."""
    made, fork_server, left = caches
    pair = {"incumbent": b"honest", "candidate": b"hostile"}
    left("candidate", b"hostile", {KEY: b"slow", OTHER: b"slow"})
    assert held(made.open(fork_server, pair)) == {}  # a workspace of before, or a clone: its build's blob is not there
    # The candidate's own process has left the same; a process with both leaves nothing behind.
    alone = made.open(fork_server, {"candidate": b"hostile"})
    made.close(alone, {"candidate": b"hostile"})
    both = made.open(fork_server, pair)
    compilation(both, KEY, **{"softmax.cubin": b"slow"})
    made.close(both, pair)
    assert held(made.open(fork_server, pair)) == held(made.open(fork_server, {"incumbent": b"honest"})) == {}
    # The incumbent's process in a confirmation, which is its own, tells what it launches: from then on it is what the
    # pair starts with.
    sources = {"incumbent": b"honest"}
    own = made.open(fork_server, sources)
    compilation(own, KEY, **{"softmax.cubin": b"fast"})
    for key, cubin in held_by_other.items():
        compilation(own, key, **{"softmax.cubin": cubin})
    made.close(own, sources)
    assert held(made.open(fork_server, pair)) == {KEY: b"fast", OTHER: b"slow"} | held_by_other
    # Against itself nobody is known, and nobody is wronged.
    assert held(made.open(fork_server, {"incumbent": b"hostile", "candidate": b"hostile\n"})) == {
        KEY: b"slow",
        OTHER: b"slow",
    }


@pytest.mark.parametrize("end", ["died", "launched nothing", "left no file of ours"])
def test_an_incumbent_is_not_taken_for_known_by_what_holds_nothing(end: str, caches: Any, tmp_path: Path) -> None:
    made, fork_server, left = caches
    left("candidate", b"hostile", {KEY: b"slow"})
    if end == "left no file of ours":
        (tmp_path / "incumbent.compiled").write_bytes(b"cut off")
        made.add(b"honest", tmp_path / "incumbent.compiled")
    else:
        first = made.open(fork_server, {"incumbent": b"honest"})
        if end == "died":
            shutil.rmtree(first)
        made.close(first, {"incumbent": b"honest"}, launched=end == "died")
    assert held(made.open(fork_server, {"incumbent": b"honest", "candidate": b"hostile"})) == {}


def test_files_of_two_owners_are_never_mixed_under_one_key(code: ModuleType, tmp_path: Path) -> None:
    group = json.dumps({"child_paths": {"softmax.json": "", "softmax.cubin": ""}}).encode()
    code.write_entries(
        [(KEY, "softmax.cubin", b"slow"), (KEY, "__triton_launcher.so", b"hostile"), (KEY, "__grp__other.json", group)],
        tmp_path,
    )
    # Of the incumbent's own the machine code was lost: it compiles anew rather than take the candidate's.
    code.write_entries([(KEY, "softmax.json", b"{}"), (KEY, "__grp__softmax.json", group)], tmp_path)
    assert [path.name for path in (tmp_path / KEY).iterdir()] == ["softmax.json"]


# ---------------------------------------------------------------- from the build to a launch

LAUNCH = '''
"""Launches a kernel with Triton's own launcher up to the point where the machine code would go to the device."""
import importlib.util, json, os, sys
from pathlib import Path
beside, kernel, cache, workloads = sys.argv[1:]
os.environ.update({"TRITON_CACHE_DIR": cache, "TRITON_DEFAULT_FP_FUSION": "1"})
sys.path.insert(0, beside)
from harness.compilation import fake_driver as standins
del sys.path[0]
import torch, triton
from triton.backends.nvidia import driver as nvidia

class Driver(standins.StandIns):
    """Says of the device what is said while compiling, and takes machine code without running it."""
    def launcher_cls(self, source, metadata):
        if hasattr(nvidia, "make_launcher"):  # C code for each signature, in older versions
            nvidia.CudaLauncher(source, metadata)
        return lambda *launch: None
    def load_binary(self, name, code, shared, device):
        assert code[:4] == b"\\x7fELF"
        return 0, 0, 16, 0, 1024

triton.runtime.driver.set_active(Driver(standins.of_target(90, None).facts, "cuda", made_up=True))
specification = importlib.util.spec_from_file_location("kernel_candidate", kernel)
module = importlib.util.module_from_spec(specification)
sys.modules[specification.name] = module
specification.loader.exec_module(module)
known, missed = set(os.listdir(cache)), []
for dims in json.loads(workloads):
    x = torch.empty(max(dims["M"], 1), dims["N"])
    module.run_kernel(x=x, out=torch.empty_like(x), M=dims["M"], N=dims["N"])
    missed += [dims] * (set(os.listdir(cache)) != known)
    known = set(os.listdir(cache))
print(json.dumps(missed))
'''
TASK = softmax(
    language="triton",
    reference=(SHIPPED / "reference.py").read_text(),
    workloads=(Workload(name="w", dims={"M": 128, "N": 1024}), Workload(name="v", dims={"M": 100, "N": 1000})),
    dims_range={"M": (1, 128), "N": (1, 1024)},
)
# The width reaches the kernel as a block size, as a number of its own, and as a flag: each size is compiled in its own
# way.
KERNEL = (
    (SHIPPED / "kernel.py")
    .read_text()
    .replace("BLOCK: tl.constexpr", "scale, odd, BLOCK: tl.constexpr")
    .replace("BLOCK=256", "1.5, N % 2 == 1, BLOCK=triton.next_power_of_2(N), num_warps=8, num_stages=2")
)


@pytest.fixture(scope="module")
def beside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    """An executor whose compiler is told of a GPU by a small C library under the driver's name."""
    if drivers.COMPILER is None:
        pytest.skip("no C compiler here")
    folder = tmp_path_factory.mktemp("driver")
    drivers.compiled(drivers.CUDA, folder / "libcuda.so.1")
    blobs = Blobs(folder / "blobs")
    with pytest.MonkeyPatch.context() as patch, LocalExecutor(blobs, folder / "scratch") as executor:
        patch.setenv("LD_LIBRARY_PATH", str(folder))
        yield executor, blobs


def built(source: str, beside: Beside, **changed: Any) -> tuple[FinishedJob, str]:
    """The build job's end, and what it said."""
    executor, blobs = beside
    task = TASK.model_copy(update=changed)
    finished = executor.run(
        Triton().build(task, Candidate(language="triton", files={"kernel.py": source}), blobs, BARE)
    )
    return finished, "".join(blobs.text(finished.files[name]) for name in ("stdout.txt", "stderr.txt"))


def missed(source: str, workloads: list[Any], compiled: Path | None, folder: Path) -> list[Any]:
    """The dims at which a launch does not find its machine code in what the build left."""
    (folder / "candidate.py").write_text(source + "\n\n")
    (folder / "cache").mkdir()
    if compiled is not None:
        code = module("compilation.cache")
        code.write_entries(code.read_archive(compiled), folder / "cache")
    argv = [str(ROOT / "tools"), str(folder / "candidate.py"), str(folder / "cache"), json.dumps(workloads)]
    done = run_captured([sys.executable, "-c", LAUNCH, *argv], timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    answer: list[Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


@pytest.mark.slow
def test_launches_find_what_was_built_at_the_dims_that_everybody_knows(beside: Beside, tmp_path: Path) -> None:
    finished, said = built(KERNEL, beside)
    left = Triton().compiled_cache_digest(finished)
    assert left is not None and "compiled 2 spec" in said and "not followed" not in said, said
    visible, derived = (
        [w.dims for w in TASK.workloads],
        [dims for dims, *_ in checked_cases.derive_sizes(TASK).values()],
    )
    known = [*visible, *derived]
    assert {"M": 100, "N": 1} in known and len(known) == 7
    assert missed(KERNEL, [*known, {"M": 3, "N": 48}], beside[1].path(left), tmp_path) == [{"M": 3, "N": 48}]


def hostile(what: str) -> str:
    """A kernel that does `what` in its build, where `made` is the folder that it may write to."""
    return f"import os\nfrom pathlib import Path\nmade = Path(os.environ['TRITON_CACHE_DIR']).parent\n{what}\n{KERNEL}"


def test_a_build_replaces_nothing_but_what_it_says(beside: Beside) -> None:
    """Its kernel was screened: another must not come out of the build; nor may a request that nobody can read end
    the harness."""
    names = ("kernel.py", "build.json", "compiled.tar", "other.txt")
    source = hostile("\n".join(f"(made / {name!r}).write_text('# never screened')" for name in names))
    finished, said = built(source, beside)
    assert finished.exit_code == 0 and said.startswith("compiled 2 spec")
    assert beside[1].text(finished.files["kernel.py"]) == source
    left = Triton().compiled_cache_digest(finished)
    assert left is not None and tarfile.is_tarfile(beside[1].path(left)) and "other.txt" not in finished.files


def test_nothing_of_a_build_outlives_it(beside: Beside) -> None:
    strays = """
import time
reader, writer = os.pipe()
for at in range(3):
    if os.fork() == 0:
        os.setsid()
        os.fork()
        os.write(writer, f'{os.getpid()} '.encode())
        time.sleep(100)
        os._exit(0)
pids = b''
while pids.count(b' ') < 6:
    pids += os.read(reader, 100)
(made / 'facts.json').write_bytes(pids)
os._exit(0)"""
    finished, _ = built(hostile(strays), beside)
    pids = beside[1].text(finished.files["facts.json"]).split()
    assert len(pids) == 6 and not [pid for pid in pids if Path(f"/proc/{pid}").exists()]


def test_a_build_that_does_not_know_all_that_is_launched_leaves_nothing(beside: Beside) -> None:
    """Else a candidate's code would be let into a process where the kernel, by then the incumbent, looks for what
    its build lacks."""
    unsure = KERNEL.replace(
        "def run_kernel(x, out, M, N):\n", "def run_kernel(x, out, M, N):\n    assert N != 1000 or float(x[0, 0]) < 9\n"
    )
    finished, said = built(unsure, beside)
    assert (
        unsure != KERNEL
        and finished.exit_code == 0
        and "not followed" in said
        and Triton().compiled_cache_digest(finished) is None
    )


def test_a_build_for_another_gpu_or_for_reading_leaves_nothing(beside: Beside) -> None:
    executor, blobs = beside
    finished, said = built(KERNEL, beside, build_flags=("--target=sm_80",))
    assert finished.exit_code == 0 and "for sm_80" in said and Triton().compiled_cache_digest(finished) is None
    listed = executor.run(Triton().disassembly_job(blobs.put(KERNEL), blobs, BARE, TASK))
    assert listed.exit_code == 0 and "assembly.txt" in listed.files and Triton().compiled_cache_digest(listed) is None
    assert Triton().compiled_cache_digest(built(KERNEL.replace("tl.exp(", "tl.expo("), beside)[0]) is None


def test_a_build_is_told_no_hidden_dims(beside: Beside) -> None:
    job: Job = Triton().build(TASK, Candidate(language="triton", files={"kernel.py": KERNEL}), beside[1], BARE)
    request = json.loads(beside[1].text(job.files["build.json"]))
    assert request["workloads"] == [w.dims for w in TASK.workloads]
    assert request["ahead"] == [dims for dims, *_ in checked_cases.derive_sizes(TASK).values()]


# ---------------------------------------------------------------- from the build to the harness


@pytest.mark.slow
def test_the_judge_puts_it_beside_the_library(beside: Beside, tmp_path: Path) -> None:
    records = Records(tmp_path)
    sources = {"candidate": KERNEL, "baseline": f"{KERNEL}# The parent.\n"}
    contestants = {name: Candidate(language="triton", files={"kernel.py": source}) for name, source in sources.items()}
    with Busy(records.blobs, tmp_path / "scratch") as executor:
        judge = open_judge(TASK, Triton(), executor, records, JudgeSettings(), device="cuda:0")

        def asked() -> dict[str, str]:
            with pytest.raises(DeviceBusyError):
                judge.read_or_check_correctness(contestants["candidate"], contestants["baseline"], "judge")
            return executor.asked[-1]

        files, builds = (
            asked(),
            {name: judge.builder.read_or_build(candidate).payload for name, candidate in contestants.items()},
        )
        for name, source in sources.items():
            assert records.blobs.text(files[f"{name}.py"]) == source
            assert files[f"{name}.compiled"] == builds[name]["compiled"]
        assert json.loads(records.blobs.text(files["request.json"]))["libraries"] == {
            name: f"{name}.py" for name in sources
        }
        # It is no part of the record: a clone has none of it, and measures as well.
        assert (
            builds["candidate"]["compiled"] not in judge.builder.read_or_build(contestants["candidate"]).blobs.values()
        )
        records.blobs.path(builds["candidate"]["compiled"]).unlink()
        assert {name for name in asked() if name.endswith(".compiled")} == {"baseline.compiled"}


def test_a_compiler_in_a_home_opens_its_own_folders_and_not_the_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, kit = tmp_path / "home", tmp_path / "kit" / "bin"
    kit.mkdir(parents=True)
    (home / "bin").mkdir(parents=True)
    (kit / "gcc").write_text("#!/bin/sh\n")
    (kit / "gcc").chmod(0o755)
    (home / "bin" / "gcc").symlink_to(kit / "gcc")
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", str(home / "bin"))
    found = module("isolation.confinement").compilers()
    assert {str(kit), str(kit.parent / "lib"), str(home / "bin")} <= set(found)
    assert not {str(home), str(kit.parent), str(tmp_path)} & set(found)
