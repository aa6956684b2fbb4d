"""Copies Triton's folders of compiled code from one process to another: from a build to the kernels' processes, and
from these to later ones.

A hostile candidate may have filled such a folder, and the process that reads it is not confined. Therefore only plain
files are read, two levels deep, with names as Triton chooses them, no more and no larger than a kernel needs. The
contents are not trusted, and a forged file gives no new power: it is loaded in the process of the candidate's own
module, which can launch anything, and the judge decides by the outputs and by the names of the kernels that the device
executed. `gpu_kernel.CompileCaches` prevents that a candidate's file is loaded for another kernel.
"""

import contextlib
import itertools
import json
import os
import re
import shutil
import stat
import tarfile
from io import BytesIO
from pathlib import Path

KEY = re.compile(r"[A-Z2-7]{26,64}")
"""Name of the folder of one compilation: a hash in base32."""
NAME = re.compile(r"\w[\w.-]{0,240}", re.ASCII)
GROUP = "__grp__"
"""Prefix of a file that lists the other files by absolute paths."""
READ = (".json", ".cubin", ".so")
"""Suffixes of the files that a launch reads; the intermediate languages are for people."""
MOST_BYTES, MOST_FILES, MOST_NAMES = 64 << 20, 2000, 20_000
"""Most bytes and files of a cache folder, and most entries of any kind in one folder."""
HEADERS = 4096
"""Largest overhead of a tar file for each of its files, in bytes."""


class TooMuchError(Exception):
    """A folder holds more than one of compiled code may."""


class ByteBudget:
    """Counts files and bytes, and raises TooMuchError above the limits."""

    def __init__(self):
        self.files, self.bytes = 0, 0

    def bytes_left(self) -> int:
        """Return the bytes that the next file may have."""
        if self.files == MOST_FILES:
            raise TooMuchError
        return MOST_BYTES - self.bytes

    def count(self, data: bytes) -> bytes:
        """Count a file and return its content."""
        self.files, self.bytes = self.files + 1, self.bytes + len(data)
        if self.bytes > MOST_BYTES:
            raise TooMuchError
        return data


def contents(folder: Path):
    """Yield (key, name, content) of the files in a cache folder. No link is followed, and no change of the folder
    during the call does harm."""
    budget = ByteBudget()
    with contextlib.suppress(OSError, TooMuchError), open_folder(folder) as outer:
        for key in list_folder(outer, KEY.fullmatch):
            with contextlib.suppress(OSError), open_folder(key, outer) as inside:
                for name in list_folder(inside, is_cache_file):
                    data = read_regular_file(name, inside, budget.bytes_left())
                    if data is not None:
                        yield key, name, budget.count(data)


@contextlib.contextmanager
def open_folder(folder, inside: int | None = None):
    """Open a folder and yield its descriptor; OSError if it is not a folder, or a link to one."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=inside)
    try:
        yield handle
    finally:
        os.close(handle)


def list_folder(folder: int, is_wanted) -> list[str]:
    """Return the wanted names in an open folder, sorted; TooMuchError if the folder has more entries than a compiler
    creates."""
    with os.scandir(folder) as entries:
        names = [entry.name for entry in itertools.islice(entries, MOST_NAMES + 1)]
    if len(names) > MOST_NAMES:
        raise TooMuchError
    return sorted(filter(is_wanted, names))


def is_cache_file(name: str) -> bool:
    """Whether a launch may read a file of this name."""
    return bool(NAME.fullmatch(name)) and name.endswith(READ)


def read_regular_file(name: str, inside: int, most: int) -> bytes | None:
    """Return at most `most` + 1 bytes of a plain file in the open folder `inside`; None if it is not a plain file."""
    try:
        handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=inside)
    except OSError:
        return None
    with os.fdopen(handle, "rb") as file:
        return file.read(most + 1) if stat.S_ISREG(os.fstat(handle).st_mode) else None


def read_archive(path: Path):
    """Yield (key, name, content) of the files in a tar file that `pack` wrote; nothing if it is not one."""
    budget = ByteBudget()
    with contextlib.suppress(OSError, TooMuchError, tarfile.TarError, ValueError, RecursionError):
        if path.stat().st_size > MOST_BYTES + MOST_FILES * HEADERS + tarfile.RECORDSIZE:
            return
        with tarfile.open(path, "r:") as tar:
            for member in tar:
                key, _, name = member.name.partition("/")
                if (
                    member.type == tarfile.REGTYPE
                    and KEY.fullmatch(key)
                    and is_cache_file(name)
                    and member.size <= budget.bytes_left()
                ):
                    yield key, name, budget.count(tar.extractfile(member).read())


def pack(folder: Path, path: Path) -> None:
    """Write the files of a cache folder to a tar file, if there are any."""
    entries = list(contents(folder))
    if not entries:
        return
    with tarfile.open(path, "w", format=tarfile.GNU_FORMAT) as tar:
        for key, name, data in entries:
            member = tarfile.TarInfo(f"{key}/{name}")
            member.size = len(data)
            tar.addfile(member, BytesIO(data))


def write_entries(entries, folder: Path) -> None:
    """Write (key, name, content) into a cache folder. A key's old files are deleted, so that files of two owners are
    never mixed.

    A group file lists its files by their new paths. It is left out if one is missing, and Triton then compiles again.
    """
    groups: dict[Path, bytes] = {}
    started_keys: set[str] = set()
    for key, name, data in entries:
        if key not in started_keys:
            started_keys.add(key)
            shutil.rmtree(folder / key, ignore_errors=True)
            (folder / key).mkdir()
        if name.startswith(GROUP):
            groups[folder / key / name] = data
        else:
            (folder / key / name).write_bytes(data)
    for path, data in groups.items():
        paths = {child.name: str(child) for child in path.parent.iterdir() if not child.name.startswith(GROUP)}
        names = [name for name in children(data) if name.endswith(READ)]
        if all(name in paths for name in names):
            path.write_text(json.dumps({"child_paths": {name: paths[name] for name in names}}))
        else:
            path.unlink(missing_ok=True)


def children(group: bytes) -> list[str]:
    """Return the names of the files that a group file lists."""
    try:
        return [str(name) for name in json.loads(group)["child_paths"]]
    except (ValueError, KeyError, TypeError, RecursionError):
        return []
