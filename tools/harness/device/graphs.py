"""Calls captured as CUDA graphs, one graph for each call, in the same way for kernels and for torch's functions."""

import contextlib
import ctypes
from ctypes import byref, c_char_p, c_int, c_size_t, c_uint, c_void_p

KERNEL_NODE, CHILD_GRAPH_NODE = 0, 4
POISON_BYTE = 0xFF


class _KernelNode(ctypes.Structure):
    """CUDA_KERNEL_NODE_PARAMS_v2: the fields behind the sizes are not read, except for `kernel`."""

    _fields_ = [
        ("function", c_void_p),
        *[(f"size_{at}", c_uint) for at in range(7)],
        ("parameters", c_void_p),
        ("extra", c_void_p),
        ("kernel", c_void_p),
        ("context", c_void_p),
    ]


class CapturedCalls:
    """One graph for each of `calls`, which are captured on a stream of their own and never run for it.

    Each result stays alive, so that the graphs write to different memory; scratch memory is shared. Raises what a call
    raises that cannot be captured, and TypeError under a torch that does not keep graphs (before 2.8).
    """

    def __init__(self, torch, calls):
        self.torch, self.graphs, self.results = torch, [], []
        pool, stream = torch.cuda.graph_pool_handle(), torch.cuda.Stream()
        torch.cuda.synchronize()
        for call in calls:
            graph = torch.cuda.CUDAGraph(keep_graph=True)
            with torch.cuda.stream(stream):
                graph.capture_begin(pool=pool, capture_error_mode="thread_local")
                try:
                    self.results.append(call())
                except BaseException:
                    with contextlib.suppress(Exception):
                        graph.capture_end()
                    raise
                graph.capture_end()
            graph.instantiate()
            self.graphs.append(graph)
        torch.cuda.synchronize()

    def replay(self, count: int) -> None:
        """Launch the first `count` graphs, one after another, on torch's current stream."""
        for graph in self.graphs[:count]:
            graph.replay()

    def kernel_names(self) -> list[str]:
        """Return the symbols of the kernels that every graph launches."""
        driver = ctypes.CDLL("libcuda.so.1")
        found = [set(_kernel_names(driver, c_void_p(graph.raw_cuda_graph()))) for graph in self.graphs]
        return sorted(set.intersection(*found))

    def wrong_replay(self, call, arguments: dict, may_write) -> str:
        """Return what is wrong with the first graph's replay over poisoned outputs; empty if it equals `call`.

        Outputs are the tensors in result and arguments for which `may_write` holds.
        """
        torch = self.torch

        def outputs(result):
            leaves = torch.utils._pytree.tree_leaves((result, list(arguments.values())))
            return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor) and may_write(leaf)]

        for output in (found := outputs(self.results[0])):
            output.untyped_storage().fill_(POISON_BYTE)
        self.graphs[0].replay()
        torch.cuda.synchronize()
        found = [output.clone() for output in found]
        for got, wanted in zip(found, outputs(call(**arguments)), strict=True):
            scale = 1e-2 * float(wanted.double().abs().nan_to_num(0.0, 0.0, 0.0).max()) if wanted.numel() else 0.0
            if not torch.allclose(got.double(), wanted.double(), rtol=1e-2, atol=scale, equal_nan=True):
                return "its replay does not compute what a call computes"
        return ""

    def close(self) -> None:
        """Delete the graphs and their memory."""
        for graph in self.graphs:
            graph.reset()
        self.graphs, self.results = [], []
        self.torch.cuda.empty_cache()


def _kernel_names(driver, graph: c_void_p) -> list[str]:
    """Return the symbols of the kernels of a graph and of the graphs in it; RuntimeError if the driver gives none."""

    def ask(name, *arguments):
        if result := getattr(driver, name)(*arguments):
            raise RuntimeError(f"the driver's {name} returned {result} for a node of the captured graph")

    count = c_size_t()
    ask("cuGraphGetNodes", graph, None, byref(count))
    nodes = (c_void_p * count.value)()
    ask("cuGraphGetNodes", graph, nodes, byref(count))
    names = []
    for node in map(c_void_p, nodes):
        kind, kernel, inner, symbol = c_int(), _KernelNode(), c_void_p(), c_char_p()
        ask("cuGraphNodeGetType", node, byref(kind))
        if kind.value == CHILD_GRAPH_NODE:
            ask("cuGraphChildGraphNodeGetGraph", node, byref(inner))
            names += _kernel_names(driver, inner)
        elif kind.value == KERNEL_NODE:
            ask("cuGraphKernelNodeGetParams_v2", node, byref(kernel))
            if kernel.function:
                ask("cuFuncGetName", byref(symbol), c_void_p(kernel.function))
            else:
                ask("cuKernelGetName", byref(symbol), c_void_p(kernel.kernel))
            names.append(symbol.value.decode())
    return names
