from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import one_sentence
from tools.tasks import rivals


def test_each_function_is_a_rival_but_for_helpers(tmp_path: Path) -> None:
    file = tmp_path / "rivals.py"
    file.write_text(
        "import math\n\ndef liger():\n    pass\n\ndef _helper(x):\n    pass\n\ndef quack(tuned=True):\n    pass\n"
    )
    assert rivals.read_rivals(file).names == ("liger", "quack")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("def liger(:\n", "rivals.py: not valid Python (invalid syntax, line 1)"),
        ("import liger_kernel\n", "defines no rival; add a function such as liger()"),
        ("def best():\n    pass\n", "a rival has the name best of another contestant"),
        ("def user_function():\n    pass\n", "a rival has the name user_function of another contestant"),
        ("def liger(x):\n    pass\n", "liger(x) takes arguments; let liger() import its package and return"),
    ],
)
def test_a_file_that_names_none_is_one_sentence(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "rivals.py"
    file.write_text(text)
    with one_sentence(says):
        rivals.read_rivals(file)
