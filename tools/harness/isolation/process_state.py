"""What a process shows of itself under /proc. The supervisor reads it, because a process in which a kernel has run
cannot be trusted to tell."""

import contextlib
from pathlib import Path

HANDLERS = ("SigBlk", "SigIgn", "SigCgt")
OWN_SIGNALS_OF_LIBC = 3 << 31
"""The signals 32 and 33, which the C library handles from the first thread on and lets no program handle."""
PENDING = ("SigPnd", "ShdPnd")
ATTRIBUTES = ("Umask", "TracerPid", "NoNewPrivs", "Seccomp", "Seccomp_filters", "THP_enabled", "Mems_allowed")


class ProcessState:
    """State of a process that no call may change.

    The two complaints are ends of "the candidate ...", empty if nothing changed. What the operating system did not show
    at first is not compared.
    """

    def __init__(self, pid: int, *, children: bool):
        self.folder = Path(f"/proc/{pid}")
        self.children = children
        """Whether the process could start others, so that they are looked for."""
        self.known = self._read()
        self.accept_mappings()

    def complaint(self) -> str:
        """Return the first change in timers, signals, children, descriptors and attributes; this takes a fifth of a
        millisecond."""
        now = self._read()
        return next((what for what, known in self.known.items() if known is not None and now[what] != known), "")

    def accept_mappings(self) -> None:
        """Take the present mappings as those that no call may change, after the harness changed them."""
        self.mapped = self._mappings()

    def mapping_complaint(self) -> str:
        """Return the first change in mappings; this takes some microseconds for each of them.

        New mappings of files are allowed if nobody else sees changes in them, as of a library that is loaded late, and
        so is new memory that is neither executable nor shared.
        """
        now = self._mappings()
        if any(map(is_shared_or_executable_memory, now ^ self.mapped)):
            return "left executable or shared memory mapped"
        return "unmapped or protected a part of a library" if any(map(is_file, self.mapped - now)) else ""

    def _read(self) -> dict:
        """Return the end of a sentence about a change -> what is compared; None if the system does not show it."""
        lines = dict(line.split(":", 1) for line in (self._text("status") or "").splitlines())
        return {
            "left a timer armed": self._text("timers"),
            "changed the signal handlers of its process": [
                int(lines.get(name, "0"), 16) & ~OWN_SIGNALS_OF_LIBC for name in HANDLERS
            ],
            "left a signal pending": [lines.get(name) for name in PENDING],
            "changed attributes of its process": [lines.get(name) for name in ATTRIBUTES],
            "left a child process running": self._children() if self.children else None,
            "left a file or another descriptor open": self._descriptors(),
        }

    def _text(self, name: str) -> str | None:
        try:
            return (self.folder / name).read_text()
        except OSError:
            return None

    def _children(self) -> list[str] | None:
        try:
            tasks = [task.name for task in (self.folder / "task").iterdir()]
        except OSError:
            return None
        return [text for task in tasks if (text := self._text(f"task/{task}/children"))]

    def _descriptors(self) -> dict[str, str] | None:
        """Return the open descriptors and what they are open on."""
        found = {}
        try:
            for link in (self.folder / "fd").iterdir():
                with contextlib.suppress(FileNotFoundError):  # closed meanwhile
                    found[link.name] = str(link.readlink())
        except OSError:
            return None
        return found

    def _mappings(self) -> set[str]:
        return set((self._text("maps") or "").splitlines())


def is_file(line: str) -> bool:
    """Whether a line of /proc/PID/maps is of a file in which only that process sees its changes."""
    _, rights, _, _, inode, *_ = line.split(maxsplit=5)
    return inode != "0" and rights[3] == "p" and not line.endswith("(deleted)")


def is_shared_or_executable_memory(line: str) -> bool:
    """Whether a line of /proc/PID/maps is of anything else that is executable or shared, or of a deleted file."""
    _, rights, _, _, inode, *path = line.split(maxsplit=5)
    anonymous = inode == "0" and rights[3] == "p" and (rights[2] != "x" or path == ["[stack]"])
    return not anonymous and not is_file(line)
