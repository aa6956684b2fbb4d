"""Another library's function for what a reference computes, by which a benchmark is timed too. Needs torch."""

from harness.reference.comparison import expect, native
from harness.reference.contract import Arg, Contract, ContractError, guarded, imported

FILE = "rivals.py"


class Rival(Contract):
    """The function that `name()` of rivals.py gives; it takes what the reference takes, and answers as that does."""

    def __init__(self, source: str, name: str, reference: Contract):
        self.module, self.name, self.reference = imported(source, FILE), name, reference
        self.function = guarded(f"{name}()", getattr(self.module, name))
        if not callable(self.function):
            raise ContractError(f"{FILE}: {name}() returned {type(self.function).__name__}; return a function of the reference's arguments")
        self.has_make_inputs, self.takes, self.returns = reference.has_make_inputs, self._takes(), False

    def check(self, args: list[Arg], numeric: dict) -> None:
        """ContractError unless it computes the same: each error below the cap of its dtype, by which a kernel may never be worse."""
        expected, _ = expect(self.reference, args)
        try:
            found = native(self, args)
        except ContractError as error:
            raise ContractError(
                str(error).replace("reference.py", FILE).replace("reference(...)", f"{self.name}(...)"), error.log
            ) from error
        for one, out in zip(expected, found, strict=True):
            seen, cap = one.error(out, numeric), numeric["cap"].get(one.dtype, float("inf"))
            if seen["problem"] or seen["error"] > cap:
                what = seen["problem"] or f"its error is {seen['error']:.2g}, the most allowed {cap:.2g}"
                raise ContractError(f"{FILE}: {self.name}(...) does not compute {one.name!r} as the reference does: {what}")
