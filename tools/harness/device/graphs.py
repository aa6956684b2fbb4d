"""Calls captured in a CUDA graph, in the same way for kernels and for torch's functions."""

import contextlib
import ctypes
from ctypes import byref, c_char_p, c_int, c_size_t, c_void_p

KERNEL_NODE, CHILD_GRAPH_NODE = 0, 4
FUNCTION, KERNEL = 0, 7
"""Places of the two handles, of which one is set, among the 9 words of CUDA_KERNEL_NODE_PARAMS_v2."""
POISON_BYTE = 0xFF


class CapturedCalls:
    """A graph that holds `calls`, one after another; they are captured on a stream of their own and not run for it.

    One graph holds them all because launching a graph takes 7 to 15 us (H100), which would hide a shorter call again.
    The results stay alive, so that each call has its own; scratch memory is shared. Raises what a call raises that
    cannot be captured, and TypeError under a torch that does not keep graphs (before 2.8).
    """

    def __init__(self, torch, calls):
        self.torch, self.results = torch, []
        self.graph, stream = torch.cuda.CUDAGraph(keep_graph=True), torch.cuda.Stream()
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            self.graph.capture_begin(capture_error_mode="thread_local")
            try:
                for call in calls:
                    self.results.append(call())
            except BaseException:
                with contextlib.suppress(Exception):
                    self.graph.capture_end()
                raise
            self.graph.capture_end()
        self.graph.instantiate()
        torch.cuda.synchronize()

    def replay(self) -> None:
        """Launch the graph on torch's current stream."""
        self.graph.replay()

    def kernel_names(self) -> list[str]:
        """Return the symbol of each kernel node."""
        return _kernel_names(ctypes.CDLL("libcuda.so.1"), c_void_p(self.graph.raw_cuda_graph()))

    def wrong_replay(self, call, changed, restore) -> str:
        """Return what is wrong with the first call's result after a replay over poison; empty if it equals `call()`.
        `changed` are its in/out arguments, which `restore` gives their content again."""
        torch = self.torch
        results = [one for one in torch.utils._pytree.tree_leaves(self.results[0]) if isinstance(one, torch.Tensor)]
        if not results + changed:
            return "it returns no tensor whose replay could be checked"
        for result in results:
            result.untyped_storage().fill_(POISON_BYTE)
        restore()
        self.graph.replay()
        replayed = [result.clone() for result in results + changed]
        restore()
        returned = [one for one in torch.utils._pytree.tree_leaves(call()) if isinstance(one, torch.Tensor)]
        for result, wanted in zip(replayed, returned + changed, strict=False):
            if not torch.allclose(result.double(), wanted.double(), rtol=1e-2, atol=1e-2, equal_nan=True):
                return "its replay does not compute what a call computes"
        return ""

    def close(self) -> None:
        """Delete the graph and its memory."""
        self.graph.reset()
        self.results = []
        self.torch.cuda.empty_cache()


def _kernel_names(driver, graph: c_void_p) -> list[str]:
    """Return the symbols of the kernels of a graph and of the graphs in it; RuntimeError if the driver gives none."""

    def ask(name, *arguments):
        if result := getattr(driver, name)(*arguments):
            raise RuntimeError(f"the driver's {name} returned {result} for a node of the captured graph")

    count = c_size_t()
    ask("cuGraphGetNodes", graph, None, byref(count))
    nodes = (c_void_p * count.value)()
    if count.value:
        ask("cuGraphGetNodes", graph, nodes, byref(count))
    names = []
    for node in map(c_void_p, nodes):
        kind, parameters, inner, symbol = c_int(), (c_void_p * 9)(), c_void_p(), c_char_p()
        ask("cuGraphNodeGetType", node, byref(kind))
        if kind.value == CHILD_GRAPH_NODE:
            ask("cuGraphChildGraphNodeGetGraph", node, byref(inner))
            names += _kernel_names(driver, inner)
        elif kind.value == KERNEL_NODE:
            ask("cuGraphKernelNodeGetParams_v2", node, byref(parameters))
            place, verb = (FUNCTION, "cuFuncGetName") if parameters[FUNCTION] else (KERNEL, "cuKernelGetName")
            ask(verb, byref(symbol), c_void_p(parameters[place]))
            names.append(symbol.value.decode())
    return names
