"""A contestant: the reference itself under torch eager or torch.compile, in native precision, in a process of its own."""

import mmap
import os
import signal
import socket
import sys
import traceback
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import sandbox
import wire


class Host:
    def __init__(self):
        import contract
        import torch

        self.torch, self.contract = torch, contract
        torch.set_num_threads(sandbox.threads())
        torch.set_grad_enabled(False)
        warnings.filterwarnings("ignore")
        self.calls: list[dict] = []

    def begin(self, message: dict, fds) -> dict:
        torch = self.torch
        torch.set_float32_matmul_precision({"ieee": "highest", "tf32": "high", "bf16": "medium"}[message["precision"]])
        self.reference = self.contract.Contract(message["reference"])
        self.function = self.reference.function
        self.mode = message["mode"]
        return {}

    def attach(self, message: dict, fds: list[int]) -> dict:
        """Tensors over the shared inputs, one set of keyword arguments an address."""
        torch = self.torch
        memory = mmap.mmap(fds[0], message["size"], access=mmap.ACCESS_READ)
        os.close(fds[0])
        self.calls = []
        for arguments, offsets in zip(message["arguments"], message["offsets"], strict=True):
            given, places = {}, iter(offsets)
            for a in arguments:
                dtype = self.contract.DTYPES[a["dtype"]] if a["role"] != "scalar" else None
                if a["role"] == "scalar":
                    given[a["name"]] = a["value"]
                elif a["role"] == "output":
                    given[a["name"]] = torch.zeros(a["shape"], dtype=dtype)
                else:
                    flat = torch.frombuffer(memory, dtype=dtype, count=max(torch.Size(a["shape"]).numel(), 0), offset=next(places))
                    given[a["name"]] = flat.view(a["shape"])
            takes = self.reference.takes
            self.calls.append(given if takes is None else {name: value for name, value in given.items() if name in takes})
        if self.mode == "compile":
            torch._dynamo.reset()
            self.function = torch.compile(self.reference.function, dynamic=False)
        return {}

    def run(self, message: dict, fds) -> dict:
        for at in message["train"]:
            self.function(**self.calls[at])
        return {}


def main() -> None:
    sandbox.die_with_parent(int(sys.argv[2]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    channel = wire.Channel(socket.socket(fileno=int(sys.argv[1])))
    host = Host()
    verbs = {"begin": host.begin, "attach": host.attach, "run": host.run}
    while True:
        try:
            message, fds = channel.recv()
        except wire.ClosedError:
            return
        try:
            answer = verbs[message["op"]](message, fds)
        except Exception as error:
            said = str(error).strip().splitlines()
            answer = {"error": f"{type(error).__name__}: {said[0][:300] if said else ''}", "log": traceback.format_exc()[-4000:]}
        channel.send(answer)


if __name__ == "__main__":
    main()
