"""Mistyped words: what was meant is said, by one parser for all command lines and one sentence for all settings."""

from __future__ import annotations

import argparse
import importlib
import json

import pytest

from tests.support import Capsys
from tools.cli.suggestions import Parser, suggest_name, suggest_or_list


def test_what_is_near_is_named_and_what_is_not_is_not() -> None:
    assert suggest_name("trition", ["cpp", "triton"]) == "did you mean 'triton'?"
    assert suggest_name("HOPER", ["Hopper", "ampere"]) == "did you mean 'Hopper'?"
    assert suggest_name("zzz", ["cpp", "triton"], "remove it") == "remove it"
    assert suggest_or_list("trition", ["cpp", "triton"]) == "did you mean 'triton'? There are cpp, triton"
    assert suggest_or_list("zzz", ["cpp", "triton"]) == "give one of cpp, triton"


@pytest.mark.parametrize(
    ("program", "words", "says"),
    [
        ("graph", ["rnu", "a.yaml"], "'rnu' is not known; did you mean 'run'? There are init, capture, run, check"),
        ("graph", ["rnu", "a.yaml", "--json"], "'rnu' is not known; did you mean 'run'?"),
        ("tools", ["env", "--json", "--mistyped"], "--mistyped is not known here; leave it out"),
        ("graph", ["verify", "x", "--josn"], "--josn is not known here; did you mean '--json'?"),
        ("tools", ["check", "a", "--dmis=3"], "--dmis=3 is not known here; did you mean '--dims'?"),
        ("knowledge_base", ["experience", "mrege", "x"], "'mrege' is not known; did you mean 'merge'?"),
    ],
)
def test_every_command_says_which_word_was_meant(program: str, words: list[str], says: str, capsys: Capsys) -> None:
    with pytest.raises(SystemExit) as stopped:
        importlib.import_module(f"{program}.__main__").main(words)
    printed = capsys.readouterr()
    assert stopped.value.code == 2 and says in printed.err
    if "--json" in words:
        told = json.loads(printed.out)
        assert told["status"] == "refused" and says in told["reason"] and told["reason"] in printed.err


@pytest.mark.parametrize(
    "words", [["x", "v1", "--json"], ["x", "--json", "v1"], ["--json", "x", "v1"], ["x", "--json"]]
)
def test_an_option_may_stand_before_what_may_be_left_out(words: list[str]) -> None:
    parser = Parser(prog="p")
    verb = parser.add_subparsers(dest="verb").add_parser("verify")
    verb.add_argument("workspace")
    verb.add_argument("commit", nargs="?")
    verb.add_argument("--json", action="store_true")
    given = "v1" if "v1" in words else None
    assert parser.parse_args(["verify", *words]) == argparse.Namespace(
        verb="verify", workspace="x", commit=given, json=True
    )
