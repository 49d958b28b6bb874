"""Triton: layer normalisation, forwards and backwards; programs add gradients of weights under locks."""

import torch
import triton
import triton.language as tl
from tensors import TYPES, like, moved, same


@triton.jit
def forward(x, y, weight, bias, means, scales, stride, n, epsilon, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    x += row * stride
    y += row * stride
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        total += tl.load(x + at, mask=at < n, other=0.0).to(tl.float32)
    mean = tl.sum(total, axis=0) / n
    squares = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        off = tl.where(at < n, tl.load(x + at, mask=at < n, other=0.0).to(tl.float32) - mean, 0.0)
        squares += off * off
    scale = 1 / tl.sqrt(tl.sum(squares, axis=0) / n + epsilon)
    tl.store(means + row, mean)
    tl.store(scales + row, scale)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        inside = at < n
        normal = (tl.load(x + at, mask=inside, other=0.0).to(tl.float32) - mean) * scale
        tl.store(y + at, normal * tl.load(weight + at, mask=inside) + tl.load(bias + at, mask=inside), mask=inside)


@triton.jit
def backward(
    dx, dy, dweight, dbias, x, weight, means, scales, locks, stride, n, GROUPS: tl.constexpr, BLOCK: tl.constexpr
):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    inside = at < n
    given = tl.load(x + row * stride + at, mask=inside, other=0).to(tl.float32)
    gradient = tl.load(dy + row * stride + at, mask=inside, other=0).to(tl.float32)
    w = tl.load(weight + at, mask=inside).to(tl.float32)
    mean, scale = tl.load(means + row), tl.load(scales + row)
    normal = tl.where(inside, (given - mean) * scale, 0.0)
    weighted = tl.where(inside, w * gradient, 0.0)
    along = tl.sum(normal * weighted, axis=0) / n
    level = tl.sum(weighted, axis=0) / n
    tl.store(dx + row * stride + at, (weighted - (normal * along + level)) * scale, mask=inside)
    # The rows of a group share a line of sums: the first writes it, the others add to it.
    group = row % GROUPS
    lock, written = locks + group, locks + GROUPS + group
    dweight += group * n + at
    dbias += group * n + at
    weights, biases = gradient * normal, gradient
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    if tl.load(written) == 0:
        tl.atomic_xchg(written, 1)
    else:
        weights += tl.load(dweight, mask=inside)
        biases += tl.load(dbias, mask=inside)
    tl.store(dweight, weights, mask=inside)
    tl.store(dbias, biases, mask=inside)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


@triton.jit
def columns_summed(lines, out, rows, n, M: tl.constexpr, N: tl.constexpr):
    column = tl.program_id(0) * N + tl.arange(0, N)
    total = tl.zeros((M, N), dtype=tl.float32)
    for start in range(0, rows, M):
        row = start + tl.arange(0, M)
        inside = (row[:, None] < rows) & (column[None, :] < n)
        total += tl.load(lines + row[:, None] * n + column[None, :], mask=inside, other=0.0)
    tl.store(out + column, tl.sum(total, axis=0), mask=column < n)


def check(rows, n, dtype, groups):
    x, dy = -2.3 + 0.5 * torch.randn(rows, n), 0.1 * torch.randn(rows, n)
    weight, bias = torch.rand(n), torch.rand(n)
    x, dy, weight, bias = (tensor.to(dtype) for tensor in (x, dy, weight, bias))
    wide = [tensor.double().requires_grad_() for tensor in (x, weight, bias)]
    expected = torch.nn.functional.layer_norm(wide[0], (n,), wide[1], wide[2], 1e-5)
    expected.backward(dy.double())

    block = triton.next_power_of_2(n)
    there_x, there_weight = moved(x), moved(weight)
    y, dx = like(x), like(x)
    means, scales = like(torch.empty(rows)), like(torch.empty(rows))
    forward[(rows,)](there_x, y, there_weight, moved(bias), means, scales, n, n, 1e-5, BLOCK=max(block // 4, 32))
    lines = [like(torch.empty(groups, n)) for _ in range(2)]
    locks = moved(torch.zeros(2 * groups, dtype=torch.int32))
    backward[(rows,)](
        dx, moved(dy), *lines, there_x, there_weight, means, scales, locks, n, n, GROUPS=groups, BLOCK=block, num_warps=4
    )
    sums = [like(weight, torch.float32) for _ in range(2)]
    for line, out in zip(lines, sums):
        columns_summed[(triton.cdiv(n, 64),)](line, out, groups, n, M=32, N=64)
    tolerance = 1e-4 if dtype == torch.float32 else 4e-3
    pairs = zip((y, dx, *sums), (expected, *(tensor.grad for tensor in wide)))
    for ours, theirs in pairs:
        same(ours.cpu().double(), theirs.detach(), rtol=tolerance, atol=tolerance)


def main():
    torch.manual_seed(5)
    for dtype in TYPES:
        check(151, 300, dtype, 16)
        check(64, 1024, dtype, 64)
    print("PASS layer_norm", triton.__version__)


main()
