"""Ctrl-C while a command ends, tried in processes of their own."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.support import run_captured

ROOT = Path(__file__).parents[3]
BEGIN = """
import atexit, os, signal, threading, time
from tools.cli.signals import run_as_process

def press():
    os.kill(os.getpid(), signal.SIGINT)

def press_when_main_is_over():
    while threading.main_thread().is_alive():
        time.sleep(0.01)
    press()
    time.sleep(300)

class Late:
    def __del__(self, press=press):
        press()
"""
WHEN = {
    "while it works": ("press(); time.sleep(300)", 130),
    "while an interrupt is told": (
        "try: press(); time.sleep(300)\n    except KeyboardInterrupt: press(); time.sleep(300)",
        130,
    ),
    "twice, and the first is never done with": (
        "try: press(); time.sleep(300)\n    finally: press(); time.sleep(300)",
        130,
    ),
    "when it has exited": ("atexit.register(press)\n    raise SystemExit(2)", 2),
    "while threads end": (
        "threading.Thread(target=press_when_main_is_over).start()\n    return 3",
        3,
    ),
    "while modules are taken down": ("global late\n    late = Late()\n    return 3", 3),
}


@pytest.mark.parametrize("when", WHEN)
def test_ctrl_c_ends_it_with_a_code_and_no_word(when: str) -> None:
    main, code = WHEN[when]
    done = run_captured(
        [sys.executable, "-c", f"{BEGIN}\ndef main():\n    {main}\nrun_as_process(main)"], cwd=ROOT, timeout=200
    )
    assert (done.returncode, done.stdout, done.stderr) == (code, "", "")


@pytest.mark.parametrize("layer", ["graph", "knowledge_base", "tools"])
def test_every_command_line_is_such_a_process(layer: str) -> None:
    stand_in = (
        "import runpy, tools.cli.signals\ndef run_as_process(main):\n    raise "
        "SystemExit(f'{main.__module__}.{main.__name__}')\n"
    )
    run = (
        f"{stand_in}tools.cli.signals.run_as_process = run_as_process\nrunpy.run_module({layer!r}, run_name='__main__')"
    )
    done = run_captured([sys.executable, "-c", run], cwd=ROOT, timeout=200)
    assert done.stderr == "__main__.main\n"
