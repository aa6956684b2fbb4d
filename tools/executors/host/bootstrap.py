"""The first program that runs on another host, as text for its Python: it unpacks the worker's code and connects
standard input and output to the worker.

Standard input brings two parts, each behind its length as eight hexadecimal digits: options as JSON, and a zip of code.
"""

import io
import json
import os
import sys
import zipfile
from pathlib import Path


def begin() -> None:
    """Unpack the code into the session's folder and connect to the session's worker, which is started if none runs."""
    if sys.version_info < (3, 10):  # noqa: UP036
        sys.exit(f"{sys.executable} is older than Python 3.10")
    read = sys.stdin.buffer.read
    options = json.loads(read(int(read(8), 16)).decode())
    archive = read(int(read(8), 16))
    folder = Path(options["folder"]).expanduser() / "sessions" / options["session"]
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    os.chdir(folder)
    if not Path("code").is_dir():
        part = Path(f"code.{os.getpid()}")
        zipfile.ZipFile(io.BytesIO(archive)).extractall(part)
        part.rename("code")
    sys.path.insert(0, str(folder / "code"))
    from tools.executors.host import service

    service.connect_to_worker(options)


if __name__ == "__main__":
    begin()
