"""What make_inputs gives in lists, dicts and structs reaches the reference as it was made, for each input set."""

from __future__ import annotations

import sys

import pytest
import torch

from tests.tools.harness.test_gpu_judging import module

STRUCTS = """import collections, dataclasses, torch

class Named(dict):
    def __getattr__(self, name):
        return self[name]

class Both(dict):
    def __setitem__(self, name, value):
        super().__setitem__(name, value)
        self.__dict__[name] = value

@dataclasses.dataclass(frozen=True)
class Scaled:
    x: torch.Tensor

    def __post_init__(self):
        object.__setattr__(self, "top", self.x.max())

class Row(list):
    def __init__(self, one, two):
        super().__init__((one, two))

class Pair(collections.namedtuple("Pair", "x")):
    def __new__(cls, x, y):
        return super().__new__(cls, x)

def both(x):
    made = Both()
    made["x"] = x
    return made

def make_inputs(dims, seed):
    x = torch.rand(4, generator=torch.Generator().manual_seed(seed)) + seed
    return {"given": MAKE, "out": torch.empty(4)}

def reference(given, out):
    return USE
"""


@pytest.mark.parametrize(
    ("make", "use"),
    [
        ("Named(x=x)", "given.x * 2"),
        ("collections.OrderedDict(x=x)", "next(reversed(given.values())) * 2"),
        ("collections.defaultdict(lambda: 2, x=x)", "given['x'] * given['other']"),
        ("both(x)", "given.x * given['x'] / given.x * 2"),
        ("Scaled(x)", "given.x * 2 * given.top / given.x.max()"),
        ("Row(x, 2)", "given[0] * given[1]"),
        ("Pair(x, 2)", "given.x * 2"),
    ],
)
def test_an_input_set_is_put_together_as_it_was_made_after_others_were(make: str, use: str) -> None:
    comparison = module("reference.comparison")
    contract = sys.modules["harness.reference.contract"].Contract(STRUCTS.replace("MAKE", make).replace("USE", use))
    first, second = (contract.build({}, seed, [], 0) for seed in (1, 2))
    for args in (first, second, first):
        x = args[0].value
        (found,) = contract.call(comparison.copy_arguments(args, wide=True))
        assert torch.allclose(found, 2 * x.double()) and found.dtype is torch.float64


@pytest.mark.parametrize(
    "make", ["[x, str(seed)]", "x if seed else [x]", "[x, None] if seed else [x]", "Named(x=x) if seed else dict(x=x)"]
)
def test_a_structure_that_changes_with_the_seed_is_refused(make: str) -> None:
    module("reference.comparison")
    contracts = sys.modules["harness.reference.contract"]
    contract = contracts.Contract(STRUCTS.replace("MAKE", make).replace("USE", "out"))
    contract.build({}, 0, [], 0)
    with pytest.raises(contracts.ContractError, match="or other structures"):
        contract.build({}, 1, [], 0)
