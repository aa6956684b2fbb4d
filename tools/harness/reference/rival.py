"""Loads another package's function for what a reference computes; a benchmark times it as well. Needs torch."""

from harness.memory.input_ring import OutputVerdict
from harness.reference.comparison import compare_output, copy_arguments, expected_outputs, mark, native_outputs, results
from harness.reference.contract import DTYPE_NAMES, Arg, Contract, ContractError, call_or_contract_error, import_source
from harness.reference.determinism import is_equal

RIVALS_FILE = "rivals.py"


class OtherFunction(Contract):
    """A function that takes the reference's arguments and gives the same results.

    A subclass sets `reference`, `function`, `takes`, `has_make_inputs`, and in `where` what messages call it.
    """

    returns = False
    hint = ""
    """Advice at the end of the sentence about a wrong result."""

    @property
    def made(self) -> dict:
        """What the reference's make_inputs gave."""
        return self.reference.made

    @property
    def leaves(self) -> set[str]:
        """Names of the tensors that make_inputs gave with requires_grad."""
        return self.reference.leaves

    def check(self, args: list[Arg], numeric: dict, at: int) -> None:
        """Raise ContractError unless the function computes the reference's result as accurately as a kernel must.

        It must fill its outputs in their dtypes and leave its inputs unchanged. `at` is the number of the input.
        """
        if missing := self.missing_arguments(args):
            raise ContractError(
                f"{self.where} takes {missing[0]!r}, but the reference's arguments are "
                f"{', '.join(a.name for a in args)}"
            )
        expected, _ = expected_outputs(self.reference, args)
        torch = native_outputs(self.reference, args)
        own = copy_arguments(args)
        mark(own)
        found = results(self, own)
        for before, after in zip(args, own, strict=True):
            if before.is_tensor and before.role == "input" and not is_equal(before.value, after.value):
                raise ContractError(f"{self.where} changes its input {before.name!r}; let it work on a copy", wrong=at)
        for one, out, native in zip(expected, found, torch, strict=True):
            if DTYPE_NAMES.get(out.dtype) != one.dtype:
                raise ContractError(
                    f"{self.where} gives {one.name!r} as {DTYPE_NAMES.get(out.dtype, out.dtype)}, which is {one.dtype}",
                    wrong=at,
                )
            answer = compare_output(one, out, one.error(native, numeric)["error"], numeric, args)
            verdict = OutputVerdict([answer], numeric)
            if not verdict.ok:
                raise ContractError(
                    f"{self.where} does not compute {one.name!r} as the reference does: {verdict.reason}{self.hint}",
                    wrong=at,
                )


class Rival(OtherFunction):
    """The function that `name()` of rivals.py returns."""

    def __init__(self, source: str, name: str, reference: Contract):
        self.module, self.where, self.reference = import_source(source, RIVALS_FILE), "", reference
        self.function = call_or_contract_error(f"{name}()", getattr(self.module, name))
        if not callable(self.function):
            raise ContractError(
                f"{RIVALS_FILE}: {name}() returned {type(self.function).__name__}; return a function of the "
                f"reference's arguments"
            )
        self.where = f"{RIVALS_FILE}: {name}(...)"
        self.has_make_inputs, self.takes = reference.has_make_inputs, self._parameter_names()
