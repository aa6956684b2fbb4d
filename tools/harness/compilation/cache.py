"""Triton's folders of compiled code, carried from one to another: from the build to the kernels' processes, from those
to later ones.

Whoever filled such a folder may be a hostile candidate, and we who read it are not shut in: plain files alone are
taken, two levels deep, of names such as Triton gives, no more and no larger than a kernel could need. What they hold is
not trusted, and a forged one gives no new power: it is loaded where the candidate's own module is, which can launch
what it likes, and what runs there is judged whatever it is, by its outputs and by the names of the kernels that the
device executed. It is kept from being taken for another's by `gpu_kernel.CompileCaches`.
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
"""A folder of one compilation: a hash in base32."""
NAME = re.compile(r"\w[\w.-]{0,240}", re.ASCII)
GROUP = "__grp__"
"""Begins the name of a file that says where the others lie, by absolute paths."""
READ = (".json", ".cubin", ".so")
"""What a launch reads of a compilation; the languages in between are for people."""
MOST_BYTES, MOST_FILES, MOST_NAMES = 64 << 20, 2000, 20_000
"""Of all files that are taken; names of whatever kind that are looked through in one folder."""
HEADERS = 4096
"""Bytes that a tar file has more than its files' contents, for each of them, at most."""


class TooMuchError(Exception):
    """More than a folder of compiled code may hold."""


class ByteBudget:
    """Counts what is taken."""

    def __init__(self):
        self.files, self.bytes = 0, 0

    def room(self) -> int:
        """Bytes that the next file may have."""
        if self.files == MOST_FILES:
            raise TooMuchError
        return MOST_BYTES - self.bytes

    def take(self, data: bytes) -> bytes:
        self.files, self.bytes = self.files + 1, self.bytes + len(data)
        if self.bytes > MOST_BYTES:
            raise TooMuchError
        return data


def contents(folder: Path):
    """(key, name, content) of the files in a cache folder. No link is followed, and no other change of its owner's
    makes a difference."""
    bound = ByteBudget()
    with contextlib.suppress(OSError, TooMuchError), open_folder(folder) as outer:
        for key in list_folder(outer, KEY.fullmatch):
            with contextlib.suppress(OSError), open_folder(key, outer) as inside:
                for name in list_folder(inside, is_cache_file):
                    data = read_regular_file(name, inside, bound.room())
                    if data is not None:
                        yield key, name, bound.take(data)


@contextlib.contextmanager
def open_folder(folder, inside: int | None = None):
    """A descriptor of a folder; OSError where it is none, or a link to one."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=inside)
    try:
        yield handle
    finally:
        os.close(handle)


def list_folder(folder: int, of_use) -> list[str]:
    """Names in an open folder, sorted; TooMuchError where there are more, of whatever kind, than a compiler makes."""
    with os.scandir(folder) as entries:
        names = [entry.name for entry in itertools.islice(entries, MOST_NAMES + 1)]
    if len(names) > MOST_NAMES:
        raise TooMuchError
    return sorted(filter(of_use, names))


def is_cache_file(name: str) -> bool:
    return bool(NAME.fullmatch(name)) and name.endswith(READ)


def read_regular_file(name: str, inside: int, most: int) -> bytes | None:
    """The content of a plain file in the open folder `inside`, as far as one byte more than `most`; None where it is
    none."""
    try:
        handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=inside)
    except OSError:
        return None
    with os.fdopen(handle, "rb") as file:
        return file.read(most + 1) if stat.S_ISREG(os.fstat(handle).st_mode) else None


def read_archive(path: Path):
    """The same of a tar file, as `pack` writes it; nothing of a file that is none."""
    bound = ByteBudget()
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
                    and member.size <= bound.room()
                ):
                    yield key, name, bound.take(tar.extractfile(member).read())


def pack(folder: Path, path: Path) -> None:
    """Write the files of a cache folder to a tar file; none where the folder has none."""
    found = list(contents(folder))
    if not found:
        return
    with tarfile.open(path, "w", format=tarfile.GNU_FORMAT) as tar:
        for key, name, data in found:
            member = tarfile.TarInfo(f"{key}/{name}")
            member.size = len(data)
            tar.addfile(member, BytesIO(data))


def write_entries(found, folder: Path) -> None:
    """Write (key, name, content) into a cache folder of ours: what it held under such a key is gone, so that no two
    owners' files are mixed. A group names its files as they lie there, and is left out where one is missing: Triton
    then compiles anew."""
    groups: dict[Path, bytes] = {}
    begun: set[str] = set()
    for key, name, data in found:
        if key not in begun:
            begun.add(key)
            shutil.rmtree(folder / key, ignore_errors=True)
            (folder / key).mkdir()
        if name.startswith(GROUP):
            groups[folder / key / name] = data
        else:
            (folder / key / name).write_bytes(data)
    for path, data in groups.items():
        here = {child.name: str(child) for child in path.parent.iterdir() if not child.name.startswith(GROUP)}
        needed = [name for name in children(data) if name.endswith(READ)]
        if all(name in here for name in needed):
            path.write_text(json.dumps({"child_paths": {name: here[name] for name in needed}}))
        else:
            path.unlink(missing_ok=True)


def children(group: bytes) -> list[str]:
    """Names of the files that a group file lists."""
    try:
        return [str(name) for name in json.loads(group)["child_paths"]]
    except (ValueError, KeyError, TypeError, RecursionError):
        return []
