"""Another library's function for what a reference computes, by which a benchmark is timed too. Needs torch."""

from harness.reference.comparison import copy_arguments, expected_outputs, mark, native_outputs, results
from harness.reference.contract import DTYPE_NAMES, Arg, Contract, ContractError, call_or_contract_error, import_source
from harness.reference.determinism import is_equal

RIVALS_FILE = "rivals.py"


class Rival(Contract):
    """The function that `name()` of rivals.py gives; it takes what the reference takes, and answers as that does."""

    def __init__(self, source: str, name: str, reference: Contract):
        self.module, self.name, self.reference = import_source(source, RIVALS_FILE), name, reference
        self.function = call_or_contract_error(f"{name}()", getattr(self.module, name))
        if not callable(self.function):
            raise ContractError(
                f"{RIVALS_FILE}: {name}() returned {type(self.function).__name__}; return a function of the reference's "
                f"arguments"
            )
        self.has_make_inputs, self.takes, self.returns = reference.has_make_inputs, self._takes(), False

    def check(self, args: list[Arg], numeric: dict) -> None:
        """ContractError unless it computes the same, as exactly as a kernel must: within the floor of the dtype or
        twice torch's error, and within the cap. It fills its outputs, in their dtypes, and leaves its inputs alone."""
        where = f"{RIVALS_FILE}: {self.name}(...)"
        if lacking := self.missing(args):
            raise ContractError(
                f"{where} takes {lacking[0]!r}, but the reference's arguments are {', '.join(a.name for a in args)}"
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
            if before.is_tensor and before.role != "output" and not is_equal(before.value, after.value):
                raise ContractError(f"{where} changes its input {before.name!r}; let it work on a copy")
        for one, out, its in zip(expected, found, torch, strict=True):
            if DTYPE_NAMES.get(out.dtype) != one.dtype:
                raise ContractError(
                    f"{where} gives {one.name!r} as {DTYPE_NAMES.get(out.dtype, out.dtype)}, which is {one.dtype}"
                )
            seen, most = (
                one.error(out, numeric),
                max(numeric["floor"].get(one.dtype, 0.0), 2 * (one.error(its, numeric)["error"] or 0.0)),
            )
            most = min(most, numeric["cap"].get(one.dtype, most))
            if seen["problem"] or seen["error"] > most:
                what = seen["problem"] or f"its error is {seen['error']:.2g}, and a kernel's may be {most:.2g}"
                raise ContractError(f"{where} does not compute {one.name!r} as the reference does: {what}")
