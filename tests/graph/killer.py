"""A run that kills itself with SIGKILL at the first event of a kind it has not died at before.

python -m tests.graph.killer FOLDER run CONFIG
python -m tests.graph.killer FOLDER resume WORKSPACE

FOLDER/deaths lists the events it has died at, one a line; run it again until it ends by itself.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from graph.lifecycle import run
from graph.settings import load
from graph.workspace.events import Event

PLACES = {
    "node": ("node", "state", "iteration"),
    "judge": ("stage",),
    "commit": ("state", "iteration"),
    "record": ("kind",),
    "exchange": ("role", "state"),
    "job": ("argv", "state"),
}


class Killer:
    def __init__(self, deaths: Path) -> None:
        self.deaths = deaths
        self.known = set(deaths.read_text().splitlines()) if deaths.exists() else set()

    def __call__(self, event: Event) -> None:
        if event.kind not in PLACES:
            return
        place = " ".join([event.kind, *(event.details.get(name, "") for name in PLACES[event.kind])])
        if place in self.known:
            return
        with self.deaths.open("a") as file:
            file.write(place + "\n")
            file.flush()
            os.fsync(file.fileno())
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    killer = Killer(Path(sys.argv[1]) / "deaths")
    if sys.argv[2] == "run":
        run.start(load(Path(sys.argv[3])), (killer,))
    else:
        run.resume(Path(sys.argv[3]), (killer,))
