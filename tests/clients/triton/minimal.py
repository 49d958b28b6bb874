"""Triton: kernels on tensors that PyTorch holds, against numpy. PyTorch's own kernels are machine code and not used."""

import numpy as np
import torch
import triton
import triton.language as tl


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(out + at, tl.load(x + at, mask=inside) + tl.load(y + at, mask=inside), mask=inside)


@triton.jit
def softmax(x, out, columns, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    values = tl.load(x + row * columns + at, mask=at < columns, other=-float("inf"))
    powers = tl.exp(values - tl.max(values, 0))
    tl.store(out + row * columns + at, powers / tl.sum(powers, 0), mask=at < columns)


@triton.jit
def product(a, b, out, N: tl.constexpr):
    at = tl.arange(0, N)
    square = at[:, None] * N + at[None, :]
    tl.store(out + square, tl.dot(tl.load(a + square), tl.load(b + square)))


def moved(array):
    tensor = torch.empty(array.shape, dtype=getattr(torch, str(array.dtype)), device="cuda")
    tensor.copy_(torch.from_numpy(array))
    return tensor


def main():
    random = np.random.default_rng(11)
    x, y = random.random((2, 1000), dtype=np.float32)
    out = moved(np.zeros_like(x))
    add[(4,)](moved(x), moved(y), out, 1000, BLOCK=256)
    np.testing.assert_array_equal(out.cpu().numpy(), x + y)

    rows = random.random((8, 100), dtype=np.float32)
    out = moved(np.zeros_like(rows))
    softmax[(8,)](moved(rows), out, 100, BLOCK=128)
    powers = np.exp(rows - rows.max(1, keepdims=True))
    np.testing.assert_allclose(out.cpu().numpy(), powers / powers.sum(1, keepdims=True), rtol=1e-5)

    a, b = random.integers(-4, 4, (2, 32, 32)).astype(np.float16)
    out = moved(np.zeros((32, 32), np.float32))
    product[(1,)](moved(a), moved(b), out, N=32)
    np.testing.assert_array_equal(out.cpu().numpy(), a.astype(np.float32) @ b.astype(np.float32))
    print("PASS triton", triton.__version__, torch.cuda.get_device_capability())


main()
