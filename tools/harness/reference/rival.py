"""Loads another package's function for what a reference computes; a benchmark times it as well. Needs torch."""

from harness.reference.comparison import copy_arguments, expected_outputs, mark, native_outputs, results
from harness.reference.contract import DTYPE_NAMES, Arg, Contract, ContractError, call_or_contract_error, import_source
from harness.reference.determinism import is_equal

RIVALS_FILE = "rivals.py"


class Rival(Contract):
    """The function that `name()` of rivals.py returns; it takes the reference's arguments and gives the same
    results."""

    def __init__(self, source: str, name: str, reference: Contract):
        self.module, self.name, self.reference = import_source(source, RIVALS_FILE), name, reference
        self.function = call_or_contract_error(f"{name}()", getattr(self.module, name))
        if not callable(self.function):
            raise ContractError(
                f"{RIVALS_FILE}: {name}() returned {type(self.function).__name__}; return a function of the "
                f"reference's arguments"
            )
        self.has_make_inputs, self.takes, self.returns = reference.has_make_inputs, self._parameter_names(), False
        self.leaves = reference.leaves

    @property
    def made(self) -> dict:
        """What the reference's make_inputs gave."""
        return self.reference.made

    def check(self, args: list[Arg], numeric: dict) -> None:
        """Raise ContractError unless the rival computes the reference's result as accurately as a kernel must.

        Its error must be within the floor of the dtype or twice torch's error, and within the cap. It must fill its
        outputs in their dtypes and leave its inputs unchanged.
        """
        where = f"{RIVALS_FILE}: {self.name}(...)"
        if missing := self.missing_arguments(args):
            raise ContractError(
                f"{where} takes {missing[0]!r}, but the reference's arguments are {', '.join(a.name for a in args)}"
            )
        expected, _ = expected_outputs(self.reference, args)
        torch = native_outputs(self.reference, args)
        own = copy_arguments(args)
        mark(own)
        try:
            found = results(self, own)
        except ContractError as error:
            raise ContractError(str(error).replace("reference.py: reference(...)", where), error.log) from error
        for before, after in zip(args, own, strict=True):
            if before.role == "input" and not is_equal(before.value, after.value):
                raise ContractError(f"{where} changes its input {before.name!r}; let it work on a copy")
        for one, out, native in zip(expected, found, torch, strict=True):
            if DTYPE_NAMES.get(out.dtype) != one.dtype:
                raise ContractError(
                    f"{where} gives {one.name!r} as {DTYPE_NAMES.get(out.dtype, out.dtype)}, which is {one.dtype}"
                )
            difference, allowed = (
                one.error(out, numeric),
                max(numeric["floor"].get(one.dtype, 0.0), 2 * (one.error(native, numeric)["error"] or 0.0)),
            )
            allowed = min(allowed, numeric["cap"].get(one.dtype, allowed))
            if difference["problem"] or difference["error"] > allowed:
                what = (
                    difference["problem"]
                    or f"its error is {difference['error']:.2g}, and a kernel's may be {allowed:.2g}"
                )
                raise ContractError(f"{where} does not compute {one.name!r} as the reference does: {what}")
