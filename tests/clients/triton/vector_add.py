"""Triton: sums of vectors whose last block is not full."""

import torch
import triton
import triton.language as tl
from tensors import TYPES, like, moved, same


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(out + at, tl.load(x + at, mask=inside) + tl.load(y + at, mask=inside), mask=inside)


def main():
    torch.manual_seed(1)
    for dtype in TYPES:
        for n in (1, 1000, 1024, 98_437):
            x, y = torch.rand(n).to(dtype), torch.randn(n).to(dtype)
            out = like(x)
            add[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](moved(x), moved(y), out, n, BLOCK=1024)
            same(out, x + y)
    print("PASS vector_add", triton.__version__)


main()
