"""Triton: products of matrices in tiles, tuned over several shapes of tiles, with an activation."""

import torch
import triton
import triton.language as tl
from tensors import like, moved, same

SHAPES = ((32, 64, 32, 2), (64, 64, 32, 4), (64, 32, 64, 4))
CONFIGURATIONS = [
    triton.Config({"M": m, "N": n, "K": k, "GROUP": 4}, num_stages=3, num_warps=warps) for m, n, k, warps in SHAPES
]


@triton.jit
def leaky(x):
    return tl.where(x >= 0, x, 0.01 * x)


@triton.jit
def tile_of(program, rows, columns, M: tl.constexpr, N: tl.constexpr, GROUP: tl.constexpr):
    """Tiles in groups of rows, so that programs that run together share what they read."""
    tall, wide = tl.cdiv(rows, M), tl.cdiv(columns, N)
    group = program // (GROUP * wide)
    height = min(tall - group * GROUP, GROUP)
    inside = program % (GROUP * wide)
    return group * GROUP + inside % height, inside // height


@triton.jit
def product(
    a, b, c, rows, columns, depth, a_row, a_column, b_row, b_column, c_row, c_column,
    M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, GROUP: tl.constexpr,
    PRECISION: tl.constexpr, ACTIVATION: tl.constexpr,
):  # fmt: skip
    row, column = tile_of(tl.program_id(0), rows, columns, M, N, GROUP)
    tl.assume(row >= 0)
    tl.assume(column >= 0)
    across, along = tl.arange(0, K), (row * M + tl.arange(0, M)) % rows
    down = (column * N + tl.arange(0, N)) % columns
    a_at = a + along[:, None] * a_row + across[None, :] * a_column
    b_at = b + across[:, None] * b_row + down[None, :] * b_column
    total = tl.zeros((M, N), dtype=tl.float32)
    for step in range(0, tl.cdiv(depth, K)):
        left = depth - step * K
        tile_a = tl.load(a_at, mask=across[None, :] < left, other=0.0)
        tile_b = tl.load(b_at, mask=across[:, None] < left, other=0.0)
        total = tl.dot(tile_a, tile_b, total, input_precision=PRECISION)
        a_at += K * a_column
        b_at += K * b_row
    if ACTIVATION:
        total = leaky(total)
    result = total.to(c.dtype.element_ty)
    line, place = row * M + tl.arange(0, M), column * N + tl.arange(0, N)
    inside = (line[:, None] < rows) & (place[None, :] < columns)
    tl.store(c + line[:, None] * c_row + place[None, :] * c_column, result, mask=inside)


tuned = triton.autotune(configs=CONFIGURATIONS, key=["rows", "columns", "depth"], restore_value=None)(product)


def check(kernel, options, a, b, activation, precision, tolerance):
    (rows, depth), columns = a.shape, b.shape[1]
    c = like(torch.empty(rows, columns, dtype=a.dtype))
    there_a, there_b = moved(a), moved(b)

    def grid(meta):
        return (triton.cdiv(rows, meta["M"]) * triton.cdiv(columns, meta["N"]),)

    strides = (*there_a.stride(), *there_b.stride(), *c.stride())
    kernel[grid](
        there_a, there_b, c, rows, columns, depth, *strides, PRECISION=precision, ACTIVATION=activation, **options
    )
    expected = a.double() @ b.double()
    if activation:
        expected = torch.where(expected >= 0, expected, 0.01 * expected)
    same(c.cpu().double(), expected, rtol=tolerance, atol=tolerance * depth**0.5)


def main():
    torch.manual_seed(3)
    fixed = {"M": 32, "N": 32, "K": 32, "GROUP": 8, "num_stages": 2, "num_warps": 4}
    half, full = torch.float16, torch.float32
    for dtype, precision, tolerance in ((half, "tf32", 1e-3), (full, "ieee", 1e-6), (full, "tf32", 2e-3)):
        for rows, columns, depth in ((128, 128, 128), (100, 75, 61), (17, 200, 96)):
            a, b = torch.randn(rows, depth).to(dtype), torch.randn(depth, columns).to(dtype)
            check(product, fixed, a, b, rows == 100, precision, tolerance)
    a, b = torch.randn(256, 192).to(half), torch.randn(192, 256).to(half)
    check(tuned, {}, a, b, True, "tf32", 1e-3)
    assert tuned.best_config in CONFIGURATIONS
    print("PASS matmul", triton.__version__)


main()
