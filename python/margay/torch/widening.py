"""Repeats an operator in a wider type if PyTorch has no CPU kernel for the type of its arguments.

GPUs have kernels for half precision that the CPU lacks. The operator then runs in float32 and the results are rounded
once, which is at least as accurate as a kernel for half precision.
"""

import re

import torch

WIDER = {
    torch.float16: torch.float32,
    torch.bfloat16: torch.float32,
    torch.complex32: torch.complex64,
}
_TOGETHER = {torch.float16: torch.complex32, torch.complex32: torch.float16}
"""The real and the complex type of half precision. An operator may take the one and return the other."""

_NAMES = {"Half": torch.float16, "BFloat16": torch.bfloat16, "ComplexHalf": torch.complex32}
_MISSING = re.compile(r"(?:not implemented for '|Unsupported dtype |doesn't support tensors of type: )(\w+)")

ALWAYS = frozenset(
    "mm bmm addmm baddbmm addmv addbmm addr dot vdot _addmm_activation convolution convolution_backward "
    "cumsum cumprod logcumsumexp prod grid_sampler_2d grid_sampler_3d max_pool2d_with_indices_backward "
    "max_pool3d_with_indices_backward adaptive_max_pool2d_backward adaptive_max_pool3d_backward avg_pool2d_backward "
    "avg_pool3d_backward embedding_dense_backward".split()
)
"""Operators whose CPU kernels for half precision are slow, or accumulate in half precision."""


def missing(error):
    """Returns the type without a CPU kernel that the error of an operator names, or None."""
    found = _MISSING.search(str(error))
    return found and _NAMES.get(found[1])


def _map(value, change):
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, (tuple, list)):
        return type(value)(_map(one, change) for one in value)
    return value


def widened(call, narrow, args, kwargs, written):
    """Calls an operator with wider tensors in place of those of the type ``narrow``. ``written`` contains the tensors
    that the operator writes; they get the rounded results."""
    wider = {kind: WIDER[kind] for kind in (narrow, _TOGETHER.get(narrow)) if kind is not None}
    narrower = {wide: kind for kind, wide in wider.items()}
    copies = {}

    def change(tensor):
        if tensor.dtype not in wider:
            return tensor
        if id(tensor) not in copies:
            copies[id(tensor)] = tensor, tensor.to(wider[tensor.dtype])
        return copies[id(tensor)][1]

    def argument(value):
        return wider[value] if isinstance(value, torch.dtype) and value in wider else _map(value, change)

    result = call(*[argument(value) for value in args], **{name: argument(value) for name, value in kwargs.items()})
    returned = {}
    for tensor in written:
        if id(tensor) in copies:
            changed = copies[id(tensor)][1]
            if changed.size() != tensor.size():
                tensor.resize_(changed.size())
            tensor.copy_(changed)
            returned[id(changed)] = tensor

    def back(tensor):
        if id(tensor) in returned:
            return returned[id(tensor)]
        return tensor.to(narrower[tensor.dtype]) if tensor.dtype in narrower else tensor

    return _map(result, back)
