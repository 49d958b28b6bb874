"""Triton: dropout with a given mask, and with random numbers from a seed, which are computed here once more."""

import numpy as np
import torch
import triton
import triton.language as tl
from tensors import TYPES, like, moved, same


@triton.jit
def masked(x, keep, out, n, p, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    values = tl.load(x + at, mask=inside)
    kept = tl.load(keep + at, mask=inside)
    tl.store(out + at, tl.where(kept, values / (1 - p), 0.0), mask=inside)


@triton.jit
def seeded(x, out, n, p, seed, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    values = tl.load(x + at, mask=inside)
    tl.store(out + at, tl.where(tl.rand(seed, at) > p, values / (1 - p), 0.0), mask=inside)


def philox(seed, counters):
    """The first word of Philox 4x32 with ten rounds (Salmon and others, 2011) for each counter."""
    words = [counters.astype(np.uint64)] + [np.zeros(counters.shape, np.uint64) for _ in range(3)]
    keys = [seed & 0xFFFFFFFF, seed >> 32]
    low = np.uint64(0xFFFFFFFF)
    for _ in range(10):
        first, second = words[0] * np.uint64(0xD2511F53), words[2] * np.uint64(0xCD9E8D57)
        words = [
            (second >> np.uint64(32)) ^ words[1] ^ np.uint64(keys[0]),
            second & low,
            (first >> np.uint64(32)) ^ words[3] ^ np.uint64(keys[1]),
            first & low,
        ]
        keys = [(keys[0] + 0x9E3779B9) & 0xFFFFFFFF, (keys[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return words[0].astype(np.uint32)


def uniform(seed, n):
    """Words as Triton maps them to [0, 1): negative ones are turned over, and the sign is left out."""
    words = philox(seed, np.arange(n, dtype=np.uint32)).view(np.int32)
    words = np.where(words < 0, -words - 1, words)
    return words.astype(np.float32) * np.float32(4.6566127342e-10)


def main():
    torch.manual_seed(4)
    n, p, block = 5001, 0.5, 1024
    grid = (triton.cdiv(n, block),)
    for dtype in TYPES:
        x = torch.randn(n).to(dtype)
        keep = torch.rand(n) > p
        out = like(x)
        masked[grid](moved(x), moved(keep.to(torch.int32)), out, n, p, BLOCK=block)
        same(out, torch.where(keep, x / (1 - p), torch.zeros((), dtype=dtype)))
        left = []
        for seed in (123, 123, 512):
            out = like(x)
            seeded[grid](moved(x), out, n, p, seed, BLOCK=block)
            keep = torch.from_numpy(uniform(seed, n) > np.float32(p))
            same(out, torch.where(keep, x / (1 - p), torch.zeros((), dtype=dtype)))
            left.append(out.cpu())
        assert torch.equal(left[0], left[1]) and not torch.equal(left[0], left[2])
        assert abs((left[2] == 0).float().mean() - p) < 0.03
    print("PASS dropout", triton.__version__)


main()
