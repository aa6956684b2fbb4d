"""The sources of a package of operators, with blanks: C++, Python, and what builds them."""

OWN_REFERENCE = '''

def _own():
    if not _OWN:
        place = Path(__file__).with_name("reference.py")
        exec(compile(place.read_text(encoding="utf-8"), str(place), "exec"), _OWN)
    return _OWN["reference"]


_OWN = {}


def stats() -> dict:
    """`kernel`: calls that the kernel computed, without replays of graphs; `reference`: other calls by their reason."""
    return _exported.stats()


def configure(*, strict: bool) -> None:
    """`strict`: a call that the kernel was never judged for is a ValueError, and not the reference's."""
    _exported.strict = strict
'''
"""How an exported module finds reference.py beside it, and what it says of the calls."""
BINDING = """\
// {title}
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/macros.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/util/Exception.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <optional>
#include <sstream>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>
{includes}
extern "C" void solve({declared});

namespace {{
using torch::stable::Tensor;
using torch::stable::detail::from;
using torch::stable::detail::to;

std::atomic<int64_t> calls{{0}};

// What a decision depends on: shapes, types, devices, alignment, scalars, the stream, and whether a buffer that is
// written overlaps another one. Contents are not part of it.
struct Signature {{
  std::vector<int64_t> key;
  std::array<std::array<uintptr_t, 3>, {tensors}> spans;
  size_t count = 0;

  void add(const Tensor& tensor, uintptr_t written) {{
    int32_t dtype = 0, device = 0;
    TORCH_ERROR_CODE_CHECK(aoti_torch_get_dtype(tensor.get(), &dtype));
    TORCH_ERROR_CODE_CHECK(aoti_torch_get_device_type(tensor.get(), &device));
    const auto first = reinterpret_cast<uintptr_t>(tensor.data_ptr());
    const uintptr_t last = first + static_cast<uintptr_t>(tensor.numel()) * aoti_torch_dtype_element_size(dtype);
    const auto sizes = tensor.sizes();
    key.insert(key.end(), {{dtype, device, tensor.get_device_index(), tensor.is_contiguous(), first % {align} == 0,
                           static_cast<int64_t>(sizes.size())}});
    key.insert(key.end(), sizes.begin(), sizes.end());
    bool shared = false;
    for (size_t at = 0; at < count; ++at)
      shared |= (written | spans[at][2]) && first < spans[at][1] && spans[at][0] < last;
    key.push_back(shared);
    spans[count++] = {{first, last, written}};
  }}
  void add(const std::optional<Tensor>& tensor, uintptr_t written) {{
    if (tensor) add(*tensor, written);
    else key.push_back(-1);
  }}
  void add(double number) {{
    int64_t bits = 0;
    std::memcpy(&bits, &number, sizeof bits);
    key.push_back(bits);
  }}
  void add(int64_t number) {{ key.push_back(number); }}
  void add(bool number) {{ key.push_back(number); }}
}};

struct Hash {{
  size_t operator()(const std::vector<int64_t>& key) const {{
    uint64_t hash = key.size();
    for (int64_t number : key) hash = (hash ^ static_cast<uint64_t>(number)) * 0x9E3779B97F4A7C15u, hash ^= hash >> 32;
    return hash;
  }}
}};

[[maybe_unused]] Tensor allocate(const int64_t* sizes, int64_t rank, int32_t dtype, const Tensor& like) {{
  std::vector<int64_t> strides(rank, 1);
  for (int64_t axis = rank - 1; axis > 0; --axis) strides[axis - 1] = strides[axis] * (sizes[axis] ? sizes[axis] : 1);
  int32_t device = 0;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_device_type(like.get(), &device));
  AtenTensorHandle made = nullptr;
  TORCH_ERROR_CODE_CHECK(
      aoti_torch_empty_strided(rank, sizes, strides.data(), dtype, device, like.get_device_index(), &made));
  return Tensor(made);
}}

void run({parameters}) {{
  thread_local std::unordered_map<std::vector<int64_t>, std::vector<int64_t>, Hash> plans;
{stream}  Signature signature;
  signature.key.reserve(64);
{signature}
  // Where autograd records, Python looks whether a gradient is asked.
  const bool records = aoti_torch_grad_mode_is_enabled();
  auto known = records ? plans.end() : plans.find(signature.key);
  std::vector<int64_t> asked;
  if (known == plans.end()) {{
    std::array<StableIValue, {slots}> stack{{{asked}}};
    TORCH_ERROR_CODE_CHECK(torch_call_dispatcher("{name}::_ask", "", stack.data(), TORCH_ABI_VERSION));
    const auto answer = to<std::string>(stack[0]);
    STD_TORCH_CHECK(answer[0] != '!', answer.substr(1));
    std::istringstream numbers(answer);
    for (int64_t number; numbers >> number;) asked.push_back(number);
    if (asked[0] && !records) {{
      if (plans.size() >= 4096) plans.clear();
      plans.emplace(signature.key, asked);
    }}
  }}
  // 1 for the kernel or 0 for the reference, then in ABI order the sizes that were not given.
  const int64_t* next = (asked.empty() ? known->second : asked).data();
  const bool judged = *next++;
{missing}  if (!judged) {{
    std::array<StableIValue, {slots}> stack{{{asked}}};
    TORCH_ERROR_CODE_CHECK(torch_call_dispatcher("{name}::_answer", "", stack.data(), TORCH_ABI_VERSION));
    return;
  }}
  solve({passed});
{check}  calls.fetch_add(1, std::memory_order_relaxed);
}}

{made} functional({given_typed}) {{
{clones}  run({forwarded});
  return {results};
}}

void out_variant({given_out_typed}) {{
{wrapped}  run({forwarded_out});
}}

int64_t count_calls() {{ return calls.load(std::memory_order_relaxed); }}
}}  // namespace

STABLE_TORCH_LIBRARY({name}, m) {{
  m.def("{name}({schema}) -> {result_schema}");
  m.def("{name}_out({schema_out}) -> ()");
  m.def("_ask({schema_ask}) -> str");
  m.def("_answer({schema_answer}) -> ()");
  m.def("_calls() -> int");
}}

STABLE_TORCH_LIBRARY_IMPL({name}, {key}, m) {{
  m.impl("{name}", TORCH_BOX(&functional));
  m.impl("{name}_out", TORCH_BOX(&out_variant));
}}

STABLE_TORCH_LIBRARY_IMPL({name}, CompositeExplicitAutograd, m) {{
  m.impl("_calls", TORCH_BOX(&count_calls));
}}
"""
STREAM = """\
  int32_t index = {first}.get_device_index();
  const torch::stable::accelerator::DeviceGuard guard(index);
  void* stream = nullptr;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_current_cuda_stream(index, &stream));
"""

LOAD_SOURCE = """torch.ops.load_library(next(Path(__file__).parent.glob("_C*.so")))
_LIBRARY = torch.library.Library("{name}", "FRAGMENT")


def _run(**given):
    _OUT(*(given[name] for name in _OUT_NAMES))"""
COMPILED_SOURCE = '''

def _ask(*given):
    given = dict(zip(_OUT_NAMES, given))
    try:
        decision = _exported.decide(given)
        if isinstance(decision, str):
            _exported.count_fallback(decision)
            sizes = _exported.output_sizes(given)
            missing = [sizes.get(name, [0]) for name, *_ in _CONTRACT["arguments"] if given.get(name) is None]
        else:
            missing = [[size] if dtype is None else size for _, size, dtype in decision]
    except (ValueError, NotImplementedError) as error:
        return f"!{error}"
    return " ".join(str(int(size)) for one in [[not isinstance(decision, str)], *missing] for size in one)


def _answer(*given):
    with torch.no_grad():
        _exported.call_reference(dict(zip(_OUT_NAMES, given)), _own())


_LIBRARY.impl("_answer", _answer, "CompositeExplicitAutograd")
_LIBRARY.impl("_ask", _ask, "CompositeExplicitAutograd")


def stats() -> dict:
    """`kernel`: calls that the kernel computed, without replays of graphs; `reference`: other calls by their reason."""
    return {**_exported.stats(), "kernel": torch.ops.PACKAGE._calls()}


def _call(operator, *given):
    if not torch.is_grad_enabled() or torch.compiler.is_compiling():
        return operator(*given)
    _refuse_gradient(given)
    torch._C._set_grad_enabled(False)
    try:
        return operator(*given)
    finally:
        torch._C._set_grad_enabled(True)
'''
OPAQUE_SOURCE = """
_LIBRARY = torch.library.Library("{name}", "FRAGMENT")
_LIBRARY.define("{name}({schema}) -> {result_schema}")
_LIBRARY.define("{name}_out({schema_out}) -> ()")
_KEY = "CUDA" if _exported.device == "cuda" else "CPU"
_LIBRARY.impl("{name}", lambda *given: _computed(dict(zip(_NAMES, given))), _KEY)
_LIBRARY.impl("{name}_out", lambda *given: _into(dict(zip(_OUT_NAMES, given))), _KEY)
_launch = None
"""
TRACED_SOURCE = """
import types

_launch = types.FunctionType(
    run_kernel.__code__,
    {{**globals(), **{{name: torch.library.wrap_triton(globals()[name]) for name in {kernels}}}}},
    argdefs=run_kernel.__defaults__,
)
_launch.__kwdefaults__ = run_kernel.__kwdefaults__


@torch.library.triton_op("{name}::{name}", mutates_args=())
def _functional({typed}) -> {returned}:
    return _computed(dict({given}))


@torch.library.triton_op("{name}::{name}_out", mutates_args={written})
def _out_variant({typed_out}) -> None:
    _into(dict({given_out}))


def _refuse(context, *gradients):
    raise NotImplementedError("{name} has no gradient, because its task has no backward")


_functional.register_autograd(_refuse)
"""
PYTHON_SOURCE = """

def _has_no_memory(given):
    for one in given:
        if isinstance(one, torch.Tensor) and type(one) not in _PLAIN:
            return True
    return False


_PLAIN = (torch.Tensor, torch.nn.Parameter)


def _computed(given):
    given = {**given, **{name: given[name].clone() for name in _INOUT}}
    return _exported(given, _own(), _launch if _has_no_memory(given.values()) else None)


def _into(given):
    _exported(given, _own(), _launch if _has_no_memory(given.values()) else None)


def _call(operator, *given):
    if torch.is_grad_enabled() and not torch.compiler.is_compiling():
        _refuse_gradient(given)
    # What traces, or looks at each operator, sees the operator; other calls are spared the way to it.
    if torch.compiler.is_compiling() or torch._C._len_torch_dispatch_stack() or _has_no_memory(given):
        return operator(*given)
    return _into(dict(zip(_OUT_NAMES, given))) if operator is _OUT else _computed(dict(zip(_NAMES, given)))
"""
FAKE_SOURCE = """
@torch.library.register_fake("PACKAGE::PACKAGE", lib=_LIBRARY)
def _fake(*given):
    if torch.is_grad_enabled():
        _refuse_gradient(given)
    outputs = [*_exported.empty_outputs(dict(zip(_NAMES, given))).values()]
    return outputs[0] if len(outputs) == 1 else tuple(outputs)


@torch.library.register_fake("PACKAGE::PACKAGE_out", lib=_LIBRARY)
def _fake_out(*given):
    if torch.is_grad_enabled():
        _refuse_gradient(given)
"""
FUNCTIONS = '''

def _refuse_gradient(given):
    for one in given:
        if isinstance(one, torch.Tensor) and one.requires_grad:
            _exported.count_fallback(GRADIENT)


def {name}({typed}) -> {returned}:
    """{title}

    Returns new tensors. What the kernel was never judged for is computed by reference.py: `stats()` counts such calls,
    and `configure(strict=True)` makes them errors.
    """
    return _call(_FUNCTIONAL, {positional})


def {name}_out({typed_out}) -> None:
    """The same into tensors that are given."""
    _call(_OUT, {positional_out})


_NAMES = {names}
_OUT_NAMES = {out_names}
_INOUT = {inouts}
_FUNCTIONAL, _OUT = torch.ops.{name}.{name}.default, torch.ops.{name}.{name}_out.default
__all__ = ["configure", "{name}", "{name}_out", "stats"]
'''
PROJECT_TOML = """\
[build-system]
requires = ["setuptools>=77", "torch>=2.10"]
build-backend = "setuptools.build_meta"

[project]
name = "{project}"
version = "1"
description = {title}
requires-python = ">=3.10"
dependencies = {dependencies}

[tool.setuptools]
packages = ["{name}"]
package-dir = {{"" = "src"}}

[tool.setuptools.package-data]
{name} = ["py.typed"]
"""
SETUP_SOURCE = """\
import os

import torch
from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, {kind}

if tuple(int(one) for one in torch.__version__.split(".")[:2]) < (2, 10):
    raise SystemExit("{name} needs torch 2.10 or newer; for an older one export the kernel with --format torch-ext")
cutlass = os.environ.get("CUTLASS_PATH")
extension = {kind}(
    "{name}._C",
    ["csrc/binding.cpp", "csrc/kernel{suffix}"],
    include_dirs=[f"{{cutlass}}/include", f"{{cutlass}}/tools/util/include"] if cutlass else [],
    extra_compile_args={flags},
    extra_link_args={links},
    py_limited_api=True,
)
setup(
    ext_modules=[extension],
    cmdclass={{"build_ext": BuildExtension}},
    options={{"bdist_wheel": {{"py_limited_api": "cp310"}}}},
)
"""
