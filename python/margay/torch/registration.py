"""Chooses the function for each operator that has a CUDA kernel, and registers it.

Functions that need no arithmetic stay PyTorch's own: views, allocation, and the bookkeeping of streams. For every other
operator, the first of these applies: a formula; the CPU kernel (or PyTorch's own composition for CPU tensors); an error
that names the operator. The function of an operator is built at its first call, so ``import torch`` stays quick.
"""

import warnings

import torch

from . import formulas, kernels, named
from .signature import Signature

OWN = frozenset(
    "empty.memory_format empty_strided resize_ set_.source_Storage set_.source_Storage_storage_offset set_.source_Tensor "
    "set_ record_stream _pin_memory is_pinned _efficientzerotensor is_set_to _nested_view_from_buffer "
    "_cudnn_init_dropout_state".split()
)
"""Operators whose CUDA kernels do not run code on the device."""

ADDED = "convolution _convolution copy_".split()
"""Operators without a CUDA kernel that select one of several CUDA kernels by the device of their arguments."""

_COMPOSITE = ("CPU", "CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional")
_libraries = []


def _registered(key):
    """Returns the names of the operators of ``aten`` that have a kernel for a dispatch key."""
    found = torch._C._dispatch_get_registrations_for_dispatch_key(key)
    return {name[6:] for name in found if name.startswith("aten::")}


def _is_view(schema):
    return any(one.alias_info is not None and not one.alias_info.is_write for one in schema.returns)


def plan():
    """Returns for each operator to register its name, its schema and what it becomes: ``formula``, ``kernel`` or
    ``unsupported``."""
    cuda = _registered("CUDA") | set(ADDED)
    supported = set().union(*map(_registered, _COMPOSITE))
    chosen = []
    for schema in torch._C._jit_get_all_schemas():
        if not schema.name.startswith("aten::"):
            continue
        name = schema.name[6:] + (f".{schema.overload_name}" if schema.overload_name else "")
        if name not in cuda or name in OWN or _is_view(schema):
            continue
        what = "formula" if name in formulas.TABLE else "kernel" if name in supported else "unsupported"
        chosen.append((name, schema, what))
    return chosen


def _later(schema):
    """Returns a function that builds the function of an operator when it is first called."""
    built = None

    def first(*args, **kwargs):
        nonlocal built
        if built is None:
            built = kernels.kernel(Signature(schema))
        return built(*args, **kwargs)

    return first


def _function(name, schema, what):
    if what == "formula":
        return formulas.TABLE[name]
    return _later(schema) if what == "kernel" else named.unsupported(name)


def register():
    """Registers a function for each operator of :func:`plan`."""
    library = torch.library.Library("aten", "IMPL", "CUDA")
    _libraries.append(library)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, schema, what in plan():
            library.impl(name, _function(name, schema, what))
    _choose_paths()


def _choose_paths():
    """Makes PyTorch choose compositions instead of NVIDIA's libraries where it asks before it calls an operator."""
    torch.backends.cudnn.enabled = False
    torch.backends.cuda.enable_flash_sdp(False)
    torch.backends.cuda.enable_mem_efficient_sdp(False)
    torch.backends.cuda.enable_cudnn_sdp(False)
