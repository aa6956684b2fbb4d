"""Kernels in Python that the screen must let through: what people write in run_kernel, at the top level, and in
kernels."""

from __future__ import annotations

from tests.tools.screen_cheats import IMPORTS, KERNEL, RUN, made

INSIDE = {
    "sizes": "m, k = x.shape\n    s = x.stride(0) * 2 + k // 3 - m % 4",
    "grid by name": "grid = lambda meta: (triton.cdiv(n, meta['BLOCK']),)\n    kernel[grid](x, y, n, B=64)",
    "grid function": "def grid(meta):\n        return (triton.cdiv(n, meta['B']),)\n    kernel[grid](x, y, n, B=64)",
    "scratch": "z = torch.empty_like(y)\n    w = torch.zeros((n, 4), device=x.device, dtype=torch.float32)\n"
    "    kernel[(1,)](z, w, n, B=64)",
    "views": "kernel[(1,)](x.view(-1), y.reshape(-1, 4).unsqueeze(0), n, B=64)",
    "slices": "kernel[(1,)](x[:2], y[0], n, B=64)\n    kernel[(1,)](x[n // 2 :], y[..., 0], n, B=64)",
    "transposed": "kernel[(1,)](x.T, y.transpose(0, 1), n, B=64)",
    "checks": "assert x.is_contiguous() and x.dtype == torch.float16, 'no'\n"
    "    if x.shape != y.shape:\n        raise ValueError(f'{x.shape} and {y.shape}')",
    "choice of kernels": "k = kernel if n > 10 else kernel\n    k[(1,)](x, y, n, B=64)",
    "device properties": "p = torch.cuda.get_device_properties(x.device)\n    units = "
    "min(p.multi_processor_count, n) * 2",
    "driver's properties": "p = triton.runtime.driver.active.utils.get_device_properties(x.device.index)\n"
    "    units = p['multiprocessor_count']",
    "capability": "big = torch.cuda.get_device_capability()[0] >= 9",
    "block size": "B = min(max(triton.next_power_of_2(n), 16), 65536 // x.element_size())",
    "warps": "warps = 4\n    if n >= 2048:\n        warps = 8\n    kernel[(1,)](x, y, n, B=64, num_warps=warps, "
    "num_stages=2)",
    "device": "with torch.cuda.device(x.device):\n        kernel[(1,)](x, y, n, B=64)",
    "set to a constant": "y.zero_()\n    y.view(-1).fill_(1.0)",
    "list of one's own": "sizes = []\n    for d in x.shape:\n        sizes.append(d)\n    strides = [s for s in "
    "x.stride()]\n"
    "    sizes[0] = 1",
    "optional": "bias = None\n    kernel[(1,)](x if bias is None else bias, y, n, B=64)\n    has = bias is not None",
    "loop of launches": "step = 1\n    while step < n:\n        kernel[(1,)](x, y, step, B=64)\n        step *= 2",
    "dict of options": "options = {'num_warps': 4}\n    options['num_stages'] = 2\n    kernel[(1,)](x, y, n, B=64, "
    "**options)",
    "strides spread": "kernel[(1,)](x, *x.stride(), n, B=64)",
    "numbers": "s = 1.0 / math.sqrt(n) if n > 0 else float('inf')\n    e = torch.finfo(x.dtype).eps * 2",
    "product of shape": "import math as m\n    total = m.prod(x.shape) + x.numel() * x.element_size()",
    "flags of a dtype": "flag = x.dtype is torch.float16\n    wide = x.dtype in (torch.float32, torch.float64)",
}
CONFIGS = "configs = [triton.Config({'B': b}, num_warps=w) for b in (64, 128) for w in (2, 4)]\n\n\n"
TUNED = "@triton.autotune(configs=[list(configs)[3]], key=['n'])"
FILES = {
    "constants": made(
        top="BLOCK = 128\nSIZES = (16, 32)\nLOG2E: tl.constexpr = 1.44\nW = tl.constexpr(4)\nHALF = BLOCK // 2"
    ),
    "names of triton": "import torch\nimport triton as t\nfrom triton import cdiv, jit\nimport triton.language as "
    "tl\n\n\n" + KERNEL.replace("@triton.jit", "@jit") + RUN.replace("triton.cdiv", "cdiv"),
    "annotations": "from __future__ import annotations\n"
    + IMPORTS
    + KERNEL
    + "from typing import Optional\n"
    + "def run_kernel(x: torch.Tensor, y: 'torch.Tensor', n: int = 3, "
    + "b: Optional[torch.Tensor] = None, s: tuple[int, ...] | None = None) -> None:\n    pass\n",
    "docstrings": made(first='"""A kernel."""', kernel='"""Copies."""'),
    "pinned written": made(top="@triton.autotune(configs=[triton.Config({'B': 64})], key=['n'])"),
    "pinned computed": made(top=CONFIGS + TUNED),
    "pinned by a function": made(
        top="def configs():\n    return [triton.Config({'B': b}, num_stages=s) for b in [64, 128] for s in range(2, "
        "4)]\n\n\n" + TUNED.replace("list(configs)", "list(configs())")
    ),
    "pruned": made(
        top=f"{CONFIGS}def prune(configs, named_args, **kwargs):\n    return [c for c in configs if c.kwargs['B'] <= "
        f"named_args['n']]\n\n\n"
        + TUNED.replace("key=['n']", "key=['n'], prune_configs_by={'early_config_prune': prune}")
    ),
    "heuristics": made(top="@triton.heuristics({'EVEN': lambda a: a['n'] % a['B'] == 0})"),
    "set to zero before": made(
        top="def zero(nargs):\n    nargs['y'].zero_()\n\n\n@triton.autotune(configs=[triton.Config({'B': 64}, "
        "pre_hook=zero)], key=['n'])"
    ),
    "setup": made(
        middle="def seeded(n):\n    return torch.randn(n, device='cuda') * 2\n\n\n"
        "def setup(n=8, **kwargs):\n    import random\n    x = seeded(n)\n"
        "    return {'inputs': {'x': x, 'y': torch.empty_like(x).cuda(), 'n': n}, 'outputs': ['y']}"
    ),
    "tried by hand": made(
        end="\n\nif __name__ == '__main__':\n    import time\n    x = torch.randn(8)\n    print(x + 1, time.time())"
    ),
    "reduction": IMPORTS
    + "@triton.jit\ndef _larger(a, b):\n    return tl.maximum(a, b)\n\n\n"
    + KERNEL.replace("    tl.store", "    m = tl.reduce(tl.load(x + at), 0, _larger).to(tl.float32)\n    tl.store")
    + RUN,
    "libdevice": IMPORTS
    + "from triton.language.extra import libdevice\n"
    + KERNEL.replace("tl.load(x + at, mask=at < n)", "libdevice.tanh(tl.load(x + at, mask=at < n).to(tl.float32))")
    + RUN,
    "kernel's own words": IMPORTS
    + KERNEL.replace(
        "    tl.store",
        "    z = tl.zeros((B,), dtype=tl.float32)\n    max = -float('inf')\n    for i in tl.range(0, 4, "
        "num_stages=2):\n        z += i\n"
        "    for j in tl.static_range(2):\n        z = tl.where(z > max, z, 0.0)\n    w = z[:, None].trans() if "
        "B > 1 else z[None, :]\n"
        "    z = z.to(y.dtype.element_ty)\n    tl.static_assert(B >= 16, 'too few')\n    s = z.sum() + tl.max(z, "
        "axis=0)\n"
        "    tl.device_assert(s == s)\n    while s > 0:\n        s = s - 1\n    tl.store",
    )
    + RUN,
    "block pointers": IMPORTS
    + KERNEL.replace(
        "    tl.store",
        "    p = tl.make_block_ptr(base=x, shape=(n,), strides=(1,), offsets=(0,), block_shape=(B,), order=(0,))\n"
        "    v = tl.load(p, boundary_check=(0,), padding_option='zero')\n    p = tl.advance(p, (B,))\n    tl.store",
    )
    + RUN,
    "descriptors": IMPORTS
    + "from triton.tools.tensor_descriptor import TensorDescriptor\n"
    + KERNEL.replace(
        "    tl.store",
        "    d = tl.make_tensor_descriptor(x, [n], [1], [B])\n    v = d.load([0])\n    d.store([0], v)\n    tl.store",
    )
    + "def alloc(size, alignment, stream):\n    return torch.empty(size, device='cuda', dtype=torch.int8)\n\n\n"
    + RUN.replace(
        ":\n",
        ":\n    triton.set_allocator(alloc)\n    d = TensorDescriptor.from_tensor(x, [16])\n"
        "    e = TensorDescriptor(x, x.shape, x.stride(), [16])\n",
        1,
    ),
    "all by name": IMPORTS
    + KERNEL
    + "def run_kernel(**kwargs):\n    x, y = kwargs['x'], kwargs['y']\n"
    + "    n = kwargs.get('n', x.numel()) * 2\n    kernel[(1,)](x, y, n, B=64)\n",
    "helpers": made(
        middle="def blocks(t, width):\n    return triton.cdiv(t.numel(), width) * t.shape[-1]",
        run="kernel[(blocks(x, 64),)](x, y, n, B=64)",
    ),
    "the driver by import": made(
        first="from triton.runtime import driver",
        run="arch = driver.active.get_current_target().arch\n    where = driver.active.get_active_torch_device()",
    ),
}
