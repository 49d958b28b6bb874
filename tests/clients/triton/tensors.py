"""Tensors for kernels: PyTorch's own kernels are machine code, so values are made on the CPU and only copied."""

import torch

TYPES = (torch.float32, torch.float16)


def moved(tensor):
    """A copy of a tensor of the CPU on the device."""
    there = torch.empty(tensor.shape, dtype=tensor.dtype, device="cuda")
    there.copy_(tensor)
    return there


def like(tensor, dtype=None):
    """Memory for results of a tensor's shape, on the device, filled with what no kernel would leave there."""
    return moved(torch.full(tensor.shape, 77, dtype=dtype or tensor.dtype))


def same(ours, theirs, **tolerance):
    """Compares a tensor of the device with one of the CPU; without a tolerance, bit for bit."""
    torch.testing.assert_close(ours.cpu(), theirs, **(tolerance or {"rtol": 0, "atol": 0}))
