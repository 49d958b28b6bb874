"""Triton: softmax of rows, each program taking several rows, as many programs as the device is said to hold."""

import torch
import triton
import triton.language as tl
from tensors import TYPES, like, moved, same


@triton.jit
def softmax(out, x, out_stride, x_stride, rows, columns, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    first, step = tl.program_id(0), tl.num_programs(0)
    at = tl.arange(0, BLOCK)
    for row in tl.range(first, rows, step, num_stages=STAGES):
        values = tl.load(x + row * x_stride + at, mask=at < columns, other=-float("inf")).to(tl.float32)
        powers = tl.exp(values - tl.max(values, axis=0))
        result = powers / tl.sum(powers, axis=0)
        tl.store(out + row * out_stride + at, result, mask=at < columns)


def programs(kernel, warps, device):
    """How many programs run at once, by the registers and the shared memory that the kernel is said to take."""
    threads = device["warpSize"] * warps
    occupancy = device["max_num_regs"] // (max(kernel.n_regs, 1) * threads)
    if kernel.metadata.shared:
        occupancy = min(occupancy, device["max_shared_mem"] // kernel.metadata.shared)
    return max(occupancy, 1) * device["multiprocessor_count"]


def main():
    torch.manual_seed(2)
    device = triton.runtime.driver.active.utils.get_device_properties(torch.cuda.current_device())
    for dtype in TYPES:
        for rows, columns in ((1, 1), (700, 131), (123, 781), (40, 2048)):
            x = torch.randn(rows, columns).to(dtype)
            block, warps = triton.next_power_of_2(columns), 8
            ours, there = like(x), moved(x)
            arguments = (ours, there, ours.stride(0), there.stride(0), rows, columns)
            options = {"BLOCK": block, "STAGES": 2, "num_warps": warps}
            kernel = softmax.warmup(*arguments, grid=(1,), **options)
            kernel._init_handles()
            softmax[(min(programs(kernel, warps, device), rows),)](*arguments, **options)
            theirs = torch.softmax(x.float(), axis=1)
            tolerance = 1e-6 if dtype == torch.float32 else 1e-3
            same(ours.cpu().float(), theirs, rtol=tolerance, atol=tolerance / 10)
    print("PASS fused_softmax", triton.__version__)


main()
