"""The tests that go with an exported module or package, with blanks."""

TEST_SOURCE = '''"""The exported kernel against the reference: `python -m pytest {test}`, or run as it is."""

import importlib.util
from pathlib import Path

import torch


def loaded(file):
    spec = importlib.util.spec_from_file_location(Path(file).stem, Path(__file__).parent / file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


EXPORTED, REFERENCE = {exported}, loaded("{reference}")
DIMS = {dims}
CAPS = {caps}
"""Largest error of each type, as a share of the largest right value: coarser than what the judge asks."""
ARGUMENTS = EXPORTED._CONTRACT["arguments"]
OUTPUTS = [name for name, role, *_ in ARGUMENTS if role == "output"]
WRITTEN = [name for name, role, *_ in ARGUMENTS if role in ("output", "inout")]


def given(at, seed):
    if hasattr(REFERENCE, "make_inputs"):
        made = REFERENCE.make_inputs(DIMS[at], seed)
    else:
        made, point = {{}}, EXPORTED._CONTRACT["points"][at]
        for name, role, dtype, _ in ARGUMENTS:
            made[name] = point[name] if role == "scalar" else torch.randn(point[name]).to(getattr(torch, dtype))
    where = EXPORTED._exported.device
    return {{name: one.to(where) if torch.is_tensor(one) else one for name, one in made.items() if name not in OUTPUTS}}


def expected(inputs, at, seed):
    own = {{name: one.clone() if torch.is_tensor(one) else one for name, one in inputs.items()}}
    for name, role, dtype, _ in ARGUMENTS:
        if role == "output":
            shape = EXPORTED._CONTRACT["points"][at][name]
            own[name] = torch.zeros(shape, dtype=getattr(torch, dtype), device=EXPORTED._exported.device)
    answer = REFERENCE.reference(**own)
    answers = list(answer) if isinstance(answer, (tuple, list)) else [answer] if answer is not None else []
    rest = iter(answers if len(answers) in (len(WRITTEN), len(OUTPUTS)) else [])
    news = WRITTEN if len(answers) == len(WRITTEN) else OUTPUTS if answers else []
    return [next(rest, own[name]) if name in news else own[name] for name in WRITTEN]


def compare(answer, right):
    dtypes = [dtype for name, _, dtype, _ in ARGUMENTS if name in WRITTEN]
    for found, said, dtype in zip(answer if isinstance(answer, tuple) else (answer,), right, dtypes):
        said = said.double().reshape(found.shape)
        allowed = CAPS.get(dtype, 0.0) + (torch.finfo(found.dtype).eps if dtype.startswith("float8") else 0.0)
        assert (found.double() - said).abs().max() <= allowed * said.abs().max().clamp(min=1e-30)
{tests}

if __name__ == "__main__":
    for name, test in [*globals().items()]:
        if name.startswith("test_"):
            test()
'''

FUNCTION_TESTS = """
def test_the_kernel_says_what_the_reference_says():
    for at in range(len(DIMS)):
        inputs = given(at, at)
        assert isinstance(EXPORTED._exported.complete_arguments(inputs), dict), "the reference would answer"
        right = expected(inputs, at, at)
        compare(EXPORTED.reference(**inputs), right)


def test_what_was_never_judged_is_the_reference():
    inputs = given(0, 7)
    for name, one in inputs.items():
        if torch.is_tensor(one):
            moved = torch.empty(one.numel() + 1, dtype=one.dtype, device=one.device)[1:].view(one.shape)
            inputs[name] = moved.copy_(one)
    assert isinstance(EXPORTED._exported.complete_arguments(inputs), str)
    right = expected(inputs, 0, 7)
    compare(EXPORTED.reference(**inputs), right)
"""

OPERATOR_TESTS = '''
FUNCTION, INTO = getattr(EXPORTED, EXPORTED.__name__), getattr(EXPORTED, EXPORTED.__name__ + "_out")
NAMES, OUT_NAMES = EXPORTED._NAMES, EXPORTED._OUT_NAMES
INTERPRETED = EXPORTED._CONTRACT["triton"] and EXPORTED._exported.device == "cpu"
"""Triton's interpreter is neither for the compiler nor for threads."""


def judged(at, seed):
    """Arguments by name, outputs of noise among them, and what the reference says."""
    inputs, point = given(at, seed), EXPORTED._CONTRACT["points"][at]
    right = expected(inputs, at, seed)
    for name, role, dtype, _ in ARGUMENTS:
        if role == "output":
            inputs[name] = torch.full(point[name], 77, dtype=getattr(torch, dtype), device=EXPORTED._exported.device)
    return inputs, right


def check_both(at, seed, function=FUNCTION, into=INTO):
    """Both operators on new contents."""
    inputs, right = judged(at, seed)
    compare(function(*(inputs[name] for name in NAMES)), right)
    into(*(inputs[name] for name in OUT_NAMES))
    compare(tuple(inputs[name] for name in WRITTEN), right)


def fallbacks():
    return sum(EXPORTED.stats()["reference"].values())


def test_the_operators_say_what_the_reference_says():
    before, kernels = fallbacks(), EXPORTED.stats()["kernel"]
    for at in range(len(DIMS)):
        check_both(at, 1)
        check_both(at, 2)
        with torch.inference_mode():
            check_both(at, 3)
            check_both(at, 4)
    assert fallbacks() == before and EXPORTED.stats()["kernel"] == kernels + 8 * len(DIMS)


def test_opcheck():
    for operator, names in ((EXPORTED._FUNCTIONAL, NAMES), (EXPORTED._OUT, OUT_NAMES)):
        inputs, _ = judged(0, 5)
        torch.library.opcheck(operator, tuple(inputs[name] for name in names))


def test_a_whole_graph_is_compiled():
    if INTERPRETED:
        return
    before = fallbacks()
    function, into = torch.compile(FUNCTION, fullgraph=True), torch.compile(INTO, fullgraph=True)
    for seed in (6, 7):
        check_both(0, seed, function, into)
    assert fallbacks() == before


def test_two_threads_on_streams_of_their_own():
    from concurrent.futures import ThreadPoolExecutor
    from contextlib import nullcontext

    if INTERPRETED:
        return
    gpu = EXPORTED._exported.device == "cuda"
    takes_stream = not gpu or EXPORTED._CONTRACT["stream"]

    def work(seed):
        with torch.cuda.stream(torch.cuda.Stream()) if gpu and takes_stream else nullcontext():
            for step in range(10):
                check_both(0, 100 * seed + step)

    before = fallbacks()
    with ThreadPoolExecutor(2) as pool:
        [*pool.map(work, (1, 2))]
    assert fallbacks() == before


def test_a_captured_graph_is_replayed_with_new_contents():
    if EXPORTED._exported.device != "cuda" or not EXPORTED._CONTRACT["stream"]:
        return
    inputs, _ = judged(0, 8)
    INTO(*(inputs[name] for name in OUT_NAMES))
    torch.cuda.synchronize()
    before, graph = fallbacks(), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        INTO(*(inputs[name] for name in OUT_NAMES))
    for seed in range(100):
        fresh, right = judged(0, 1000 + seed)
        for name in OUT_NAMES:
            if torch.is_tensor(fresh[name]):
                inputs[name].copy_(fresh[name])
        graph.replay()
        compare(tuple(inputs[name] for name in WRITTEN), right)
    assert fallbacks() == before


def test_what_was_never_judged_is_the_references_and_counted():
    import warnings

    inputs, right = judged(0, 9)
    for name, one in inputs.items():
        if torch.is_tensor(one):
            inputs[name] = torch.stack([one, one], -1)[..., 0]
    before = fallbacks()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        compare(FUNCTION(*(inputs[name] for name in NAMES)), right)
    assert fallbacks() == before + 1
    EXPORTED.configure(strict=True)
    try:
        FUNCTION(*(inputs[name] for name in NAMES))
    except (ValueError, RuntimeError) as error:
        assert "never judged" in str(error)
    else:
        raise AssertionError("strict is an error")
    finally:
        EXPORTED.configure(strict=False)


def test_a_gradient_is_refused():
    inputs, _ = judged(0, 10)
    floating = [name for name in NAMES if torch.is_tensor(inputs[name]) and inputs[name].is_floating_point()]
    for name in floating[:1]:
        inputs[name].requires_grad_()
        compiled = [torch.compile(one, fullgraph=True) for one in (FUNCTION, EXPORTED._FUNCTIONAL)]
        for function in (FUNCTION, EXPORTED._FUNCTIONAL, *([] if INTERPRETED else compiled)):
            try:
                answer = function(*(inputs[name] for name in NAMES))
                (answer if torch.is_tensor(answer) else answer[0]).sum().backward()
            except (NotImplementedError, RuntimeError) as error:
                assert "no gradient" in str(error), error
            else:
                raise AssertionError("a gradient is refused")
'''
