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

INSIDE = {
    "exec by another name": 'E = exec\n    E("import os")',
    "globals by another name": 'd = globals\n    d()["__builtins__"]',
    "exec in a tuple": '(exec, 1)[0]("import os")',
    "exec in a list by index": 'f = [exec]\n    f[0]("import os")',
    "exec in a dict": '{"a": exec}["a"]("1")',
    "exec by choice": '(exec if n else print)("1")',
    "exec by or": '(None or exec)("1")',
    "exec passed on": "list(map(exec, ['import os']))",
    "exec as a default": "g = lambda f=exec: f",
    "exec in a loop": "for f in (exec,):\n        f('1')",
    "exec unpacked": "f, g = exec, 1\n    f('1')",
    "exec in a grid": 'kernel[lambda meta: exec("1")](x, y, n, B=128)',
    "exec in a nested function": 'def g(c):\n        exec(c)\n    g("1")',
    "a parameter is called": "g = lambda f: f('1')\n    g(n)",
    "a lambda called at once": "(lambda: 1)()",
    "a result called": "triton.cdiv(1, 2)(3)",
    "bound methods": "f = x.softmax\n    c = y.copy_\n    c(f(-1))",
    "bound method of a view": "f = y.view\n    f(-1)",
    "dunder call": "n.__class__.__base__",
    "frame through a format string": '"{0.__class__}".format(x)',
    "format of a literal": 'f = "{0}".format',
    "plain function of a kernel": 'f = kernel.fn\n    f("1")',
    "run of a kernel": "kernel.run(x, y, n, grid=(1,), B=128)",
    "cache of a kernel": "kernel.cache",
    "jit cache": "kernel.device_caches",
    "type": "type('T', (), {})",
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
    "method called back by a name": "f = x.max\n    v = list(map(f, (0,)))",
    "bitcode at a launch": "kernel[(1,)](x, y, n, B=128, extern_libs={'a': '/a.bc'})",
    "bitcode spread": "kernel[(1,)](x, y, n, B=128, **{'extern_libs': (('a', '/a.bc'),)})",
    "bitcode spread by a key": "d = {}\n    d['extern' + '_libs'] = 1\n    kernel[(1,)](x, y, n, B=128, **d)",
    "state in the config": "kernel.configs[0].kwargs['x'] = y",
}
FILES = {
    "main block that always runs": IMPORTS + KERNEL + RUN + 'if __name__ != "__main__":\n    import os\n    os.getpid()\n',
    "main block with else": IMPORTS + KERNEL + RUN + 'if __name__ == "__main__":\n    pass\nelse:\n    import os\n',
    "main block with or": IMPORTS + KERNEL + RUN + 'if __name__ == "__main__" or True:\n    import os\n',
    "a jit of one's own": IMPORTS
    + KERNEL
    + "def jit(f):\n    return f\n\n\n@jit\ndef h(c):\n    exec(c)\n\n\n"
    + RUN.replace(":\n", ':\n    h("1")\n', 1),
    "a jit of one's own, silent": IMPORTS + KERNEL + "def jit(f):\n    return f\n\n\n@jit\ndef h(c):\n    return c\n\n\n" + RUN,
    "triton of one's own": IMPORTS + KERNEL + RUN + "triton = None\n",
    "kernel with exec": IMPORTS + KERNEL + "@triton.jit\ndef h(c):\n    exec(c)\n\n\n" + RUN,
    "plain function of a jitted one": IMPORTS
    + KERNEL
    + "@triton.jit\ndef h(c):\n    exec(c)\n\n\n"
    + RUN.replace(":\n", ':\n    f = h.fn\n    f("1")\n', 1),
    "kernel that opens": IMPORTS + KERNEL.replace("    at =", '    open("f")\n    at =', 1) + RUN,
    "kernel with a hidden call": IMPORTS + KERNEL.replace("    at =", "    e = exec\n    e(n)\n    at =", 1) + RUN,
    "kernel that calls host code": IMPORTS
    + "def host(n):\n    return n\n\n\n"
    + KERNEL.replace("    at =", "    host(n)\n    at =", 1)
    + RUN,
    "kernel with a lambda": IMPORTS + KERNEL.replace("    at =", "    f = lambda: 1\n    at =", 1) + RUN,
    "kernel that calls a parameter": IMPORTS + KERNEL.replace("    at =", "    n(1)\n    at =", 1) + RUN,
    "kernel with handles": IMPORTS + KERNEL.replace("    at =", "    x.handle.data\n    at =", 1) + RUN,
    "kernel that calls torch": IMPORTS + KERNEL.replace("    at =", "    torch.empty(3)\n    at =", 1) + RUN,
    "annotation of a parameter": IMPORTS + KERNEL + RUN.replace("x,", 'x: exec("1"),', 1),
    "annotation of a result": IMPORTS + KERNEL + RUN.replace("n):", 'n) -> print("1"):', 1),
    "annotation of a variable": IMPORTS + 'A: exec("1") = 1\n' + KERNEL + RUN,
    "annotation of no value": IMPORTS + 'A: exec("1")\n' + KERNEL + RUN,
    "annotation in a function": IMPORTS + KERNEL + RUN.replace(":\n", ":\n    a: [exec][0]('1') = 1\n", 1),
    "annotation in a kernel": IMPORTS + KERNEL.replace("B: tl.constexpr", "B: [exec][0]('1')") + RUN,
    "annotation as a call in a type": IMPORTS + KERNEL + RUN.replace("x,", "x: list[open('f')],", 1),
    "state in a tuple": IMPORTS + "S = ({}, [])\n" + KERNEL + RUN,
    "state in a lambda": IMPORTS + "S = lambda c={}: c\n" + KERNEL + RUN,
    "state in a set": IMPORTS + "S = {1}\n" + KERNEL + RUN,
    "state from a function": IMPORTS
    + "def make():\n    return []\n\n\nS = make()\n"
    + KERNEL
    + RUN.replace(":\n", ":\n    S.append(y)\n", 1),
    "state in the list of configs": IMPORTS
    + "C = [triton.Config({'B': 1})]\n@triton.autotune(configs=C, key=[])\n"
    + KERNEL
    + RUN.replace(":\n", ":\n    C.append(y)\n", 1),
    "buffer in a config": IMPORTS + "@triton.autotune(configs=[triton.Config({'B': torch.empty(3)})], key=[])\n" + KERNEL + RUN,
    "buffer by a function of configs": IMPORTS
    + "def make():\n    return [triton.Config({'B': torch.empty(3)})]\n\n\n@triton.autotune(configs=[make()[0]], key=[])\n"
    + KERNEL
    + RUN,
    "code of one's own for a config": IMPORTS
    + "@triton.autotune(configs=[triton.Config({'B': 1}, ir_override='/a.ptx')], key=[])\n"
    + KERNEL
    + RUN,
    "code of one's own in a config": IMPORTS
    + "@triton.autotune(configs=[triton.Config({'B': 1, 'ir_override': '/a.ptx'})], key=[])\n"
    + KERNEL
    + RUN,
    "state in constexpr": IMPORTS + "S = tl.constexpr([])\n" + KERNEL + RUN,
    "exec in heuristics": IMPORTS + '@triton.heuristics({"B": lambda a: exec("1")})\n' + KERNEL + RUN,
    "exec kept at import": IMPORTS + "E = exec\n" + KERNEL + RUN.replace(":\n", ":\n    E('1')\n", 1),
    "assembly": IMPORTS
    + "from triton.language import inline_asm_elementwise as f\n"
    + KERNEL.replace("    at =", "    f('', '', [], tl.int32, True, 1)\n    at =", 1)
    + RUN,
    "assembly through core": IMPORTS
    + KERNEL.replace("    at =", "    tl.core.inline_asm_elementwise('', '', [], tl.int32, True, 1)\n    at =", 1)
    + RUN,
    "assembly through math": IMPORTS
    + KERNEL.replace("    at =", "    tl.math.core.inline_asm_elementwise('', '', [], tl.int32, True, 1)\n    at =", 1)
    + RUN,
    "assembly by another name": IMPORTS + KERNEL.replace("    at =", "    f = tl.inline_asm_elementwise\n    at =", 1) + RUN,
    "clock": IMPORTS
    + "from triton.language.extra.cuda import globaltimer as g\n"
    + KERNEL.replace("    at =", "    g()\n    at =", 1)
    + RUN,
    "multiprocessor": IMPORTS
    + "from triton.language.extra import cuda\n"
    + KERNEL.replace("    at =", "    cuda.smid()\n    at =", 1)
    + RUN,
    "foreign bitcode": IMPORTS + KERNEL.replace("    at =", "    tl.core.extern_elementwise('', '/f.bc', [], {}, True)\n    at =", 1) + RUN,
    "everything": "from torch import *\n" + IMPORTS + KERNEL + RUN,
    "everything of triton": "from triton import *\n" + IMPORTS + KERNEL + RUN,
    "torch.ops": IMPORTS + "from torch import ops\n" + KERNEL + RUN,
    "one name, two imports": IMPORTS + "from math import sqrt as f\nfrom torch import empty as f\n" + KERNEL + RUN,
    "a name of main's": IMPORTS
    + KERNEL
    + RUN.replace(":\n", ":\n    exec('1')\n", 1)
    + 'if __name__ == "__main__":\n    from math import sqrt as exec\n',
    "module hook": IMPORTS + KERNEL + "def __getattr__(name):\n    return 1\n\n\n" + RUN,
    "builtin of one's own": IMPORTS + KERNEL + "F = min\n" + RUN,
    "defined twice": IMPORTS + KERNEL + "def kernel(x):\n    return x\n\n\n" + RUN,
    "decorator called": IMPORTS + KERNEL + "@triton.jit(do_not_specialize=exec('1'))\ndef h(x):\n    pass\n\n\n" + RUN,
    "jit of a nested function": IMPORTS + KERNEL + RUN.replace(":\n", ":\n    @triton.jit\n    def h(c):\n        exec(c)\n", 1),
    "setup that is used": IMPORTS + KERNEL + "def setup(n):\n    exec('1')\n\n\n" + RUN.replace(":\n", ":\n    setup(n)\n", 1),
    "default of setup": IMPORTS + KERNEL + "def setup(n=exec('1')):\n    return {}\n\n\n" + RUN,
    "tensors through a helper": IMPORTS
    + KERNEL
    + "def double(t):\n    return t * 2\n\n\n"
    + RUN.replace(":\n", ":\n    x = double(x.view(-1))\n", 1),
    "tensors from a helper": IMPORTS
    + KERNEL
    + "def made(n):\n    return torch.zeros(n)\n\n\n"
    + RUN.replace(":\n", ":\n    z = made(n) + 1\n", 1),
    "two configs hidden by text": IMPORTS
    + "@triton.autotune(configs=[triton.Config({'B': 1}), triton.Config({'B': 2})], key=[], **{'rep': [1][:1]})\n"
    + KERNEL
    + RUN,
    "lookalike of the pin": IMPORTS + "@triton.autotune(configs=list(C)[0:][:2], key=[])\n" + KERNEL + RUN,
}
