"""Triton kernels in other people's manner, with arguments for a small ragged call and what torch says of it."""

from __future__ import annotations

from typing import NamedTuple

HEAD = "import torch\nimport triton\nimport triton.language as tl\n\n\n"


class Given(NamedTuple):
    source: str
    arguments: dict
    expected: str


ROWS: dict[str, Given] = {}
PRODUCTS: dict[str, Given] = {}
PLAIN: dict[str, Given] = {}
"""Elementwise and one-loop kernels."""


def given(body: str, expected: str, **arguments: object) -> Given:
    return Given(HEAD + body, arguments, expected)


MATRIX = {"x": "in:5x70", "y": "out:5x70"}

ROWS["SOFTMAX_COUNTED"] = given(
    """@triton.jit
def _sm(Y, X, sx, sy, n, BS: tl.constexpr):
    pid = tl.program_id(axis=0)
    # number of chunks
    nb = tl.cdiv(n, BS)
    mx = -float("inf")
    for i in range(nb):
        o = i * BS + tl.arange(0, BS)
        m = o < n
        v = tl.load(X + pid * sx + o, m, -float("inf"))
        mx = tl.maximum(mx, tl.max(v, 0))
    den = 0.0
    for i in range(nb):
        o = i * BS + tl.arange(0, BS)
        m = o < n
        v = tl.load(X + pid * sx + o, m, -float("inf"))
        num = tl.exp(v - mx)
        den += tl.sum(num, 0)
    for i in range(0, nb):
        o = i * BS + tl.arange(0, BS)
        m = o < n
        v = tl.load(X + pid * sx + o, m, 0.0)
        num = tl.exp(v - mx)
        tl.store(Y + pid * sy + o, num / den, m)


def run_kernel(**kwargs):
    x, y = kwargs["x"], kwargs["y"]
    rows, n = x.shape
    _sm[(rows,)](y, x, x.stride(0), y.stride(0), n, 32)
""",
    "torch.softmax(x, -1)",
    **MATRIX,
)
ROWS["SOFTMAX_VIA_OUT"] = given(
    """@triton.jit
def kernel(in_p, out_p, cols, B: tl.constexpr):
    r = tl.program_id(0)
    top = float("-inf")
    for c0 in range(0, cols, B):
        c = c0 + tl.arange(0, B)
        a = tl.load(in_p + r * cols + c, mask=c < cols, other=float("-inf"))
        top = max(top, tl.max(a, axis=0))
    z = 0.0
    for c0 in range(0, cols, B):
        c = c0 + tl.arange(0, B)
        a = tl.load(in_p + r * cols + c, mask=c < cols, other=float("-inf"))
        e = tl.exp(a - top)
        tl.store(out_p + r * cols + c, e, mask=c < cols)
        z = z + tl.sum(e, axis=0)
    for c0 in range(0, cols, B):
        c = c0 + tl.arange(0, B)
        e = tl.load(out_p + r * cols + c, mask=c < cols)
        tl.store(out_p + r * cols + c, e / z, mask=c < cols)


def run_kernel(x, y):
    grid = (x.shape[0],)
    kernel[grid](x, y, x.shape[1], B=16, num_warps=2)
""",
    "torch.softmax(x, -1)",
    **MATRIX,
)
ROWS["LOG_SOFTMAX"] = given(
    '''@triton.jit
def lsm(
    inp,  # (M, N)
    outp,
    N: tl.constexpr,
    W: tl.constexpr,
):
    """Log-softmax of a row."""
    base = tl.program_id(0) * N
    m = float("-inf")
    for s in tl.range(0, N, W):
        k = s + tl.arange(0, W)
        m = tl.maximum(m, tl.max(tl.load(inp + base + k, mask=k < N, other=float("-inf")), axis=0))
    t = 0.0
    for s in tl.range(0, N, W):
        k = s + tl.arange(0, W)
        t += tl.sum(tl.exp(tl.load(inp + base + k, mask=k < N, other=float("-inf")) - m), axis=0)
    lse = m + tl.log(t)
    for s in tl.range(0, N, W):
        k = s + tl.arange(0, W)
        tl.store(outp + base + k, tl.load(inp + base + k, mask=k < N) - lse, mask=k < N)


WIDTH = 64


def run_kernel(x, y):
    lsm[(x.size(0),)](x, y, x.size(1), W=WIDTH)
''',
    "torch.log_softmax(x, -1)",
    **MATRIX,
)
ROWS["RMS_HALF"] = given(
    """@triton.jit
def rms(X, W, Y, n_cols, eps, BLOCK_SIZE: tl.constexpr):
    i = tl.program_id(0).to(tl.int64)
    total = 0.0
    for start in range(0, n_cols, BLOCK_SIZE):
        cols = start + tl.arange(0, BLOCK_SIZE)
        x = tl.load(X + i * n_cols + cols, mask=n_cols > cols, other=0.0).to(tl.float32)
        total += tl.sum(x * x, axis=0)
    scale = tl.rsqrt(total / n_cols + eps)
    for start in range(0, n_cols, BLOCK_SIZE):
        cols = start + tl.arange(0, BLOCK_SIZE)
        x = tl.load(X + i * n_cols + cols, mask=n_cols > cols).to(tl.float32)
        w = tl.load(W + cols, mask=n_cols > cols).to(tl.float32)
        tl.store(Y + i * n_cols + cols, (x * scale * w).to(tl.float16), mask=n_cols > cols)


def run_kernel(x, w, y, eps=1e-6, **unused):
    rows, columns = x.shape
    rms[rows,](x, w, y, columns, eps, BLOCK_SIZE=64)
""",
    "x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * w",
    x="half:5x70",
    w="half:70",
    y="half-out:5x70",
)
ROWS["SOFTMAX_PERSISTENT"] = given(
    """@triton.jit
def persistent(out, inp, rows, cols, BLK: tl.constexpr):
    first = tl.program_id(0)
    for row in range(first, rows, tl.num_programs(0)):
        src = inp + row * cols
        dst = out + row * cols
        hi = float("-inf")
        for j in range(0, cols, BLK):
            at = j + tl.arange(0, BLK)
            hi = tl.maximum(hi, tl.max(tl.load(src + at, mask=at < cols, other=float("-inf")), axis=0))
        acc = 0.0
        for j in range(0, cols, BLK):
            at = j + tl.arange(0, BLK)
            acc += tl.sum(tl.exp(tl.load(src + at, mask=at < cols, other=float("-inf")) - hi), axis=0)
        for j in range(0, cols, BLK):
            at = j + tl.arange(0, BLK)
            tl.store(dst + at, tl.exp(tl.load(src + at, mask=at < cols, other=float("-inf")) - hi) / acc, mask=at < cols)


def run_kernel(x, y):
    persistent[(2,)](y, x, x.shape[0], x.shape[1], BLK=32)
""",
    "torch.softmax(x, -1)",
    **MATRIX,
)
ROWS["CROSS_ENTROPY"] = given(
    """@triton.jit
def ce(lp, tp, op, V, B: tl.constexpr):
    r = tl.program_id(0)
    lp = lp + r * V
    t = tl.load(tp + r)
    mx = float("-inf")
    for b in range(0, (V + B - 1) // B):
        f = b * B + tl.arange(0, B)
        l = tl.load(lp + f, mask=f < V, other=float("-inf"))
        mx = tl.maximum(mx, tl.max(l, 0))
    se = 0.0
    hit = 0.0
    for b in range(0, (V + B - 1) // B):
        f = b * B + tl.arange(0, B)
        l = tl.load(lp + f, mask=f < V, other=float("-inf"))
        se += tl.sum(tl.where(f < V, tl.exp(l - mx), 0.0), 0)
        hit += tl.sum(tl.where(f == t, l, 0.0), 0)
    tl.store(op + r, tl.log(se) + mx - hit)


def run_kernel(logits, target, loss, **_):
    rows, vocabulary = logits.shape
    ce[(rows,)](logits, target, loss, vocabulary, B=32)
""",
    "torch.nn.functional.cross_entropy(logits, target, reduction='none')",
    logits="in:5x70",
    target="index:5:70",
    loss="out:5",
)

# ---------------------------------------------------------------- matrix products

PRODUCT = {"a": "half:37x50", "b": "half:50x45", "c": "half-out:37x45"}
PRODUCTS["MATMUL_ONE_AXIS"] = given(
    """@triton.jit
def mm(A, B, C, M, N, K, sam, sak, sbk, sbn, scm, scn, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    pid = tl.program_id(axis=0)
    grid_n = tl.cdiv(N, BN)
    pid_m = pid // grid_n
    pid_n = pid % grid_n
    offs_m = pid_m * BM + tl.arange(0, BM)
    offs_n = pid_n * BN + tl.arange(0, BN)
    offs_k = tl.arange(0, BK)
    a_ptrs = A + offs_m[:, None] * sam + offs_k[None, :] * sak
    b_ptrs = B + offs_k[:, None] * sbk + offs_n[None, :] * sbn
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BK)):
        a = tl.load(a_ptrs, mask=(offs_m[:, None] < M) & (offs_k[None, :] < K - k * BK), other=0.0)
        b = tl.load(b_ptrs, mask=(offs_k[:, None] < K - k * BK) & (offs_n[None, :] < N), other=0.0)
        acc = tl.dot(a, b, acc)
        a_ptrs += BK * sak
        b_ptrs += BK * sbk
    c_ptrs = C + scm * offs_m[:, None] + scn * offs_n[None, :]
    tl.store(c_ptrs, acc.to(tl.float16), mask=(offs_m[:, None] < M) & (offs_n[None, :] < N))


def run_kernel(a, b, c):
    M, K = a.shape
    N = b.shape[1]
    grid = lambda META: (triton.cdiv(M, META["BM"]) * triton.cdiv(N, META["BN"]),)
    mm[grid](a, b, c, M, N, K, a.stride(0), a.stride(1), b.stride(0), b.stride(1), c.stride(0), c.stride(1), BM=16, BN=16, BK=16)
""",
    "a @ b",
    **PRODUCT,
)
PRODUCTS["MATMUL_TWO_AXES"] = given(
    """TILE = 16


@triton.jit
def gemm(x, y, z, m, n, k, TM: tl.constexpr, TN: tl.constexpr, TK: tl.constexpr):
    i = tl.program_id(0)
    j = tl.program_id(1)
    ri = i * TM + tl.arange(0, TM)
    rj = j * TN + tl.arange(0, TN)
    total = tl.zeros([TM, TN], tl.float32)
    for p in range(0, k, TK):
        rk = p + tl.arange(0, TK)
        u = tl.load(x + ri[:, None] * k + rk[None, :], mask=(ri[:, None] < m) & (rk[None, :] < k), other=0.0)
        v = tl.load(y + rk[:, None] * n + rj[None, :], mask=(rk[:, None] < k) & (rj[None, :] < n), other=0.0)
        total += tl.dot(u, v)
    tl.store(z + ri[:, None] * n + rj[None, :], total.to(tl.float16), mask=(ri[:, None] < m) & (rj[None, :] < n))


def run_kernel(a, b, c):
    m, k = a.shape
    n = b.shape[1]
    gemm[(triton.cdiv(m, TILE), triton.cdiv(n, TILE))](a, b, c, m, n, k, TM=TILE, TN=TILE, TK=TILE)
""",
    "a @ b",
    **PRODUCT,
)
PRODUCTS["MATMUL_BIAS_RELU"] = given(
    """@triton.jit
def linear_relu(inp, weight, bias, out, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    col_block = tl.program_id(0)
    row_block = tl.program_id(1)
    m = row_block * BLOCK_M + tl.arange(0, BLOCK_M)
    n = col_block * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.full((BLOCK_M, BLOCK_N), 0.0, tl.float32)
    for start in range(0, K, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        xa = tl.load(inp + m[:, None] * K + k[None, :], mask=(m[:, None] < M) & (k[None, :] < K), other=0.0)
        # weight is stored as (N, K)
        wb = tl.load(weight + n[None, :] * K + k[:, None], mask=(n[None, :] < N) & (k[:, None] < K), other=0.0)
        acc += tl.dot(xa, wb)
    acc += tl.load(bias + n, mask=n < N, other=0.0)[None, :]
    acc = tl.maximum(acc, 0.0)
    tl.store(out + m[:, None] * N + n[None, :], acc, mask=(m[:, None] < M) & (n[None, :] < N))


def run_kernel(x, w, bias, y):
    M, K = x.shape
    N, _ = w.shape
    blocks = (triton.cdiv(N, 16), triton.cdiv(M, 16))
    linear_relu[blocks](x, w, bias, y, M, N, K, BLOCK_M=16, BLOCK_N=16, BLOCK_K=16, num_warps=2)
""",
    "torch.relu(x @ w.T + bias)",
    x="half:37x50",
    w="half:45x50",
    bias="half:45",
    y="half-out:37x45",
)
PRODUCTS["MATMUL_LITERAL_GRID"] = given(
    PRODUCTS["MATMUL_TWO_AXES"]
    .source.removeprefix(HEAD)
    .replace("TILE = 16\n\n\n", "")
    .replace("TM=TILE, TN=TILE, TK=TILE", "16, 32, 16")
    .replace("triton.cdiv(m, TILE), triton.cdiv(n, TILE)", "triton.cdiv(m, 16), triton.cdiv(n, 32)"),
    "a @ b",
    **PRODUCT,
)

# ---------------------------------------------------------------- elementwise and one-loop kernels

VECTORS = {"x": "in:333", "z": "in:333", "y": "out:333"}
PLAIN["ADD"] = given(
    """@triton.jit
def add(x, z, y, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(y + offsets, tl.load(x + offsets, mask) + tl.load(z + offsets, mask), mask)


def run_kernel(x, z, y):
    grid = lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)
    add[grid](x, z, y, x.numel(), BLOCK=128)
""",
    "x + z",
    **VECTORS,
)
PLAIN["ROW_SUM"] = given(
    """@triton.jit
def row_sum(p, q, n, B: tl.constexpr):
    r = tl.program_id(0)
    acc = tl.zeros((B,), dtype=tl.float32)
    for k in range(0, n, B):
        c = k + tl.arange(0, B)
        acc += tl.load(p + r * n + c, mask=c < n, other=0.0)
    tl.store(q + r, tl.sum(acc, axis=0))


def run_kernel(x, y):
    row_sum[(x.shape[0],)](x, y, x.shape[1], B=16)
""",
    "x.sum(-1)",
    x="in:5x70",
    y="out:5",
)
PLAIN["TWO_KERNELS"] = given(
    PLAIN["ADD"].source.removeprefix(HEAD).split("def run_kernel")[0]
    + """@triton.jit
def double(y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, 2 * tl.load(y + at, at < n), at < n)


def run_kernel(x, z, y):
    n = x.numel()
    blocks = triton.cdiv(n, 128)
    add[(blocks,)](x, z, y, n, BLOCK=128)
    double[(blocks,)](y, n, BLOCK=128)
""",
    "2 * (x + z)",
    **VECTORS,
)
KERNELS = {**ROWS, **PRODUCTS, **PLAIN}
