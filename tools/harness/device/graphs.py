"""Calls captured in a CUDA graph, in the same way for kernels and for torch's functions."""

import contextlib
import ctypes
import functools
from ctypes import byref, c_char_p, c_int, c_size_t, c_uint64, c_void_p

SET_DEPENDENCIES = 1
KERNEL_NODE, CHILD_GRAPH_NODE = 0, 4
FUNCTION, KERNEL = 0, 7
"""Places of the two handles, of which one is set, among the 9 words of CUDA_KERNEL_NODE_PARAMS_v2."""
POISON_BYTE = 0xFF


class CapturedCalls:
    """A graph that holds `calls`, one after another; they are captured on a stream of their own and not run for it.

    One graph holds them all because launching a graph takes 7 to 15 us (H100), which would hide a shorter call again.
    A barrier after each call makes the next one wait, as on a stream. The results stay alive, so that each call has its
    own; scratch memory is shared. Raises what a call raises that cannot be captured, and TypeError under a torch that
    does not keep graphs (before 2.8).
    """

    def __init__(self, torch, calls):
        self.torch, self.results = torch, []
        self.graph, stream = torch.cuda.CUDAGraph(keep_graph=True), torch.cuda.Stream()
        barriers = Barriers(c_void_p(stream.cuda_stream))
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            self.graph.capture_begin(capture_error_mode="thread_local")
            try:
                for call in calls:
                    self.results.append(call())
                    barriers.add()
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


class Barriers:
    """Empty nodes behind the calls that `stream` captures: all work of a call waits for all work of the one before.

    A call may drop the dependencies of the stream while it is captured, and would then run beside the others.
    """

    def __init__(self, stream: c_void_p):
        self.driver, self.stream = ctypes.CDLL("libcuda.so.1"), stream
        self.last, self.seen = None, set()
        """The last barrier, and all nodes up to it."""

    def add(self) -> None:
        """Put a barrier behind the nodes that were captured since the last; RuntimeError if one does not wait for it.

        What a node of the call waits for is another one of the call, or the last barrier.
        """
        graph, barrier = c_void_p(), c_void_p()
        status, identity, dependencies, count = c_int(), c_uint64(), c_void_p(), c_size_t()
        places = map(byref, (status, identity, graph, dependencies, count))
        _ask(self.driver, "cuStreamGetCaptureInfo_v2", self.stream, *places)
        new = [node for node in _listed(self.driver, "cuGraphGetNodes", graph) if node not in self.seen]
        allowed, waited_for = {*new, self.last}, set()
        for node in new:
            before = _neighbours(self.driver, "cuGraphNodeGetDependencies_v2", node)
            waited_for.update(before)
            if not allowed.issuperset(before or [None]):
                raise RuntimeError("its captured work does not wait for the call before it")
        ends = [node for node in new if node not in waited_for] or [one for one in (self.last,) if one]
        _ask(
            self.driver,
            "cuGraphAddEmptyNode",
            byref(barrier),
            graph,
            (c_void_p * len(ends))(*ends),
            c_size_t(len(ends)),
        )
        _ask(
            self.driver, "cuStreamUpdateCaptureDependencies", self.stream, byref(barrier), c_size_t(1), SET_DEPENDENCIES
        )
        self.last = barrier.value
        self.seen.update(new, [barrier.value])


def _ask(driver, name, *arguments) -> None:
    if result := getattr(driver, name)(*arguments):
        raise RuntimeError(f"the driver's {name} returned {result} for the captured graph")


def _listed(driver, name, graph) -> list[int]:
    """Return the handles that the driver's function `name` lists: it answers their number if it is given no place."""
    count = c_size_t()
    _ask(driver, name, graph, None, byref(count))
    handles = (c_void_p * count.value)()
    if count.value:
        _ask(driver, name, graph, handles, byref(count))
    return list(handles)


def _neighbours(driver, name, node: int) -> list[int]:
    """Return the nodes before or behind a node; their edges' data is given a place, without which the driver refuses
    programmatic edges."""
    count = c_size_t()
    _ask(driver, name, c_void_p(node), None, None, byref(count))
    handles, edges = (c_void_p * count.value)(), (c_uint64 * count.value)()
    if count.value:
        _ask(driver, name, c_void_p(node), handles, edges, byref(count))
    return list(handles)


def _kernel_names(driver, graph: c_void_p) -> list[str]:
    """Return the symbols of the kernels of a graph and of the graphs in it; RuntimeError if the driver gives none."""
    ask = functools.partial(_ask, driver)
    names = []
    for node in map(c_void_p, _listed(driver, "cuGraphGetNodes", graph)):
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
