"""Kernels in Python that the screen must refuse: each reaches code, state or torch's own work by another way round.

`INSIDE` stands in run_kernel of `HEAD`, where x is an input and y the output; `FILES` are whole files.
"""

from __future__ import annotations

IMPORTS = "import torch\nimport triton\nimport triton.language as tl\n\n\n"
KERNEL = """@triton.jit
def kernel(x, y, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + at, tl.load(x + at, mask=at < n), mask=at < n)


"""
RUN = """def run_kernel(x, y, n):
    kernel[(triton.cdiv(n, 128),)](x, y, n, B=128)
"""
HEAD = (
    f"{IMPORTS}{KERNEL}def run_kernel(x: torch.Tensor, y: torch.Tensor, n: int):\n"
    "    # HERE\n    kernel[(triton.cdiv(n, 128),)](x, y, n, B=128)\n"
)


def made(first: str = "", top: str = "", kernel: str = "", middle: str = "", run: str = "", end: str = "") -> str:
    """A whole file with lines added: before and behind its imports, first in the kernel, behind it, first in
    run_kernel, last."""
    entry = KERNEL.replace("    at =", f"    {kernel}\n    at =", 1) if kernel else KERNEL
    called = RUN.replace(":\n", f":\n    {run}\n", 1) if run else RUN
    return "".join(
        (
            first and f"{first}\n",
            IMPORTS,
            top and f"{top}\n",
            entry,
            middle and f"{middle}\n\n\n",
            called,
            end and f"{end}\n",
        )
    )


INSIDE = {
    "torch does the work": "y.copy_(torch.softmax(x, -1))",
    "matrix product": "out = x @ x",
    "method of a tensor": "out = x.softmax(-1)",
    "compile": "fast = torch.compile(kernel)",
    "graph": "g = torch.cuda.CUDAGraph()",
    "events": "torch.cuda.Event.elapsed_time = kernel",
    "patched triton": "triton.cdiv = kernel",
    "patched triton machinery": "triton.runtime.jit.JITFunction.run(None)",
    "state on a function": "run_kernel.cache = y",
    "pointer as key": "key = x.data_ptr()",
    "identity as key": "key = id(x)",
    "fallback": "try:\n        pass\n    except RuntimeError:\n        pass",
    "global": "global kernel",
    "hidden name": "getattr(torch, 'softmax')(x, -1)",
    "module passed on": "t = torch",
    "files": "open('/etc/passwd')",
    "import inside": "import os",
    "ctypes": "from ctypes import CDLL",
    "private": "triton._C",
    "generator": "yield 1",
    "walrus": "(t := x)",
    "exec by another name": 'E = exec\n    E("import os")',
    "globals by another name": 'd = globals\n    d()["__builtins__"]',
    "exec in a tuple": '(exec, 1)[0]("import os")',
    "exec passed on": "list(map(exec, ['import os']))",
    "exec as a default": "g = lambda f=exec: f",
    "exec in a grid": 'kernel[lambda meta: exec("1")](x, y, n, B=128)',
    "a parameter is called": "g = lambda f: f('1')\n    g(n)",
    "bound methods": "f = x.softmax\n    c = y.copy_\n    c(f(-1))",
    "dunder call": "n.__class__.__base__",
    "plain function of a kernel": 'f = kernel.fn\n    f("1")',
    "cache of a kernel": "kernel.cache",
    "torch function passed on": "f = torch.empty_like\n    f(x)",
    "cdiv passed on": "f = triton.cdiv",
    "write through an index": "y[:] = x",
    "write into a tensor": "y[0] = 1",
    "delete of an item": "del n[0]",
    "sum of tensors": "z = x + y",
    "scaled parameter": "z = x * 2 + 1",
    "negated": "z = -x",
    "compared": "z = x > 0",
    "augmented": "x += 1",
    "of an allocation": "z = torch.zeros_like(y)\n    z = z + 1",
    "of a view": "z = x.view(-1) * 2",
    "of a transposed view": "z = x.T * 2",
    "of a loop over tensors": "for t in (x, y):\n        t * 2",
    "of a tuple": "p = (x, y)\n    p[0] * 2",
    "gather by a tensor": "z = x[y]",
    "gather by a list": "z = x[[2, 1, 0]]",
    "float of a tensor": "v = float(x)",
    "largest element": "v = max(x)",
    "sum by Python": "v = sum(x)",
    "match": "match n:\n        case 1:\n            pass",
    "state in a nested default": "def g(c=[]):\n        return c",
    "state in a nested tuple default": "g = lambda c=({}, 1): c",
    "import under a builtin's name": "from math import sqrt as exec",
    "a private launch": "kernel[(1,)]._run(x)",
    "method called back": "v = list(map(x.max, (0,)))",
    "bitcode at a launch": "kernel[(1,)](x, y, n, B=128, extern_libs={'a': '/a.bc'})",
    "bitcode spread": "kernel[(1,)](x, y, n, B=128, **{'extern_libs': (('a', '/a.bc'),)})",
    "bitcode spread by a key": "d = {}\n    d['extern' + '_libs'] = 1\n    kernel[(1,)](x, y, n, B=128, **d)",
    "state in the config": "kernel.configs[0].kwargs['x'] = y",
}
FILES = {
    "cache outside": made(top="CACHE = {}"),
    "os outside": made(top="import os"),
    "threads outside": made(top="import threading"),
    "inspect outside": made(top="import inspect, gc, sys"),
    "class outside": made(top="class Lazy(torch.Tensor):\n    pass"),
    "buffer at import": made(top="BUFFER = torch.empty(3)"),
    "loop at import": made(top="for i in range(3):\n    pass"),
    "decorator outside": made(top="@torch.compile\ndef f(x):\n    return x"),
    "name taken over outside": made(top="tl = None"),
    "assembly in a kernel": made(kernel="v = tl.inline_asm_elementwise('', '', [x], tl.float32, True, 1)"),
    "clock in a kernel": made(kernel="v = tl.extra.cuda.globaltimer()"),
    "main block that always runs": made(end='if __name__ != "__main__":\n    import os\n    os.getpid()'),
    "main block with else": made(end='if __name__ == "__main__":\n    pass\nelse:\n    import os'),
    "a jit of one's own": made(middle="def jit(f):\n    return f\n\n\n@jit\ndef h(c):\n    exec(c)", run='h("1")'),
    "a jit of one's own, silent": made(middle="def jit(f):\n    return f\n\n\n@jit\ndef h(c):\n    return c"),
    "triton of one's own": made(end="triton = None"),
    "kernel with exec": made(middle="@triton.jit\ndef h(c):\n    exec(c)"),
    "plain function of a jitted one": made(middle="@triton.jit\ndef h(c):\n    exec(c)", run='f = h.fn\n    f("1")'),
    "kernel with a hidden call": made(kernel="e = exec\n    e(n)"),
    "kernel that calls host code": made(top="def host(n):\n    return n\n\n", kernel="host(n)"),
    "kernel with a lambda": made(kernel="f = lambda: 1"),
    "kernel that calls a parameter": made(kernel="n(1)"),
    "kernel with handles": made(kernel="x.handle.data"),
    "kernel that calls torch": made(kernel="torch.empty(3)"),
    "annotation of a parameter": IMPORTS + KERNEL + RUN.replace("x,", 'x: exec("1"),', 1),
    "annotation of a result": IMPORTS + KERNEL + RUN.replace("n):", 'n) -> print("1"):', 1),
    "annotation of a variable": made(top='A: exec("1") = 1'),
    "annotation of no value": made(top='A: exec("1")'),
    "annotation in a function": made(run="a: [exec][0]('1') = 1"),
    "annotation in a kernel": IMPORTS + KERNEL.replace("B: tl.constexpr", "B: [exec][0]('1')") + RUN,
    "state in a tuple": made(top="S = ({}, [])"),
    "state in a lambda": made(top="S = lambda c={}: c"),
    "state in a set": made(top="S = {1}"),
    "state from a function": made(top="def make():\n    return []\n\n\nS = make()", run="S.append(y)"),
    "state in the list of configs": made(
        top="C = [triton.Config({'B': 1})]\n@triton.autotune(configs=C, key=[])", run="C.append(y)"
    ),
    "buffer in a config": made(top="@triton.autotune(configs=[triton.Config({'B': torch.empty(3)})], key=[])"),
    "buffer by a function of configs": made(
        top="def make():\n    return [triton.Config({'B': "
        "torch.empty(3)})]\n\n\n@triton.autotune(configs=[make()[0]], key=[])"
    ),
    "code of one's own for a config": made(
        top="@triton.autotune(configs=[triton.Config({'B': 1}, ir_override='/a.ptx')], key=[])"
    ),
    "code of one's own in a config": made(
        top="@triton.autotune(configs=[triton.Config({'B': 1, 'ir_override': '/a.ptx'})], key=[])"
    ),
    "state in constexpr": made(top="S = tl.constexpr([])"),
    "exec in heuristics": made(top='@triton.heuristics({"B": lambda a: exec("1")})'),
    "exec kept at import": made(top="E = exec", run="E('1')"),
    "assembly": made(
        top="from triton.language import inline_asm_elementwise as f", kernel="f('', '', [], tl.int32, True, 1)"
    ),
    "assembly by another name": made(kernel="f = tl.inline_asm_elementwise"),
    "foreign bitcode": made(kernel="tl.core.extern_elementwise('', '/f.bc', [], {}, True)"),
    "everything": made(first="from torch import *"),
    "everything of triton": made(first="from triton import *"),
    "torch.ops": made(top="from torch import ops"),
    "one name, two imports": made(top="from math import sqrt as f\nfrom torch import empty as f"),
    "a name of main's": made(run="exec('1')", end='if __name__ == "__main__":\n    from math import sqrt as exec'),
    "module hook": made(middle="def __getattr__(name):\n    return 1"),
    "builtin of one's own": IMPORTS + KERNEL + "F = min\n" + RUN,
    "defined twice": made(middle="def kernel(x):\n    return x"),
    "decorator called": made(middle="@triton.jit(do_not_specialize=exec('1'))\ndef h(x):\n    pass"),
    "jit of a nested function": made(run="@triton.jit\n    def h(c):\n        exec(c)"),
    "setup that is used": made(middle="def setup(n):\n    exec('1')", run="setup(n)"),
    "default of setup": made(middle="def setup(n=exec('1')):\n    return {}"),
    "tensors through a helper": made(middle="def double(t):\n    return t * 2", run="x = double(x.view(-1))"),
    "tensors from a helper": made(middle="def made(n):\n    return torch.zeros(n)", run="z = made(n) + 1"),
    "two configs hidden by text": made(
        top="@triton.autotune(configs=[triton.Config({'B': 1}), triton.Config({'B': 2})], key=[], **{'rep': [1][:1]})"
    ),
    "lookalike of the pin": made(top="@triton.autotune(configs=list(C)[0:][:2], key=[])"),
}
