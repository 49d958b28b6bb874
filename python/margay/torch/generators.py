"""CPU generators that continue the sequence of a CUDA generator.

A CUDA generator is a seed and an offset. Each random operator gets a CPU generator that is seeded from both, and
advances the offset. So ``torch.cuda.manual_seed``, ``get_rng_state`` and ``set_rng_state`` work as on a GPU, and equal
seeds give equal numbers. The numbers differ from those of a GPU.
"""

import torch

STEP = 4
"""PyTorch requires that offsets are multiples of four."""
_MASK = (1 << 64) - 1


def mix(seed, offset):
    """Returns 64 bits that depend on all bits of the seed and the offset (the finaliser of SplitMix64)."""
    bits = (seed + (offset // STEP + 1) * 0x9E3779B97F4A7C15) & _MASK
    bits = ((bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    bits = ((bits ^ (bits >> 27)) * 0x94D049BB133111EB) & _MASK
    return bits ^ (bits >> 31)


def default(device):
    """Returns the default generator of the device with the number ``device``."""
    if not torch.cuda.default_generators:
        torch.cuda.init()
    return torch.cuda.default_generators[device]


def next_of(generator):
    """Returns a CPU generator for one operator, and advances the CUDA generator ``generator``."""
    offset = generator.get_offset()
    successor = torch.Generator()
    successor.manual_seed(mix(generator.initial_seed(), offset))
    generator.set_offset(offset + STEP)
    return successor
