"""Chooses the function for each operator that has a CUDA kernel, and registers it.

Functions that need no arithmetic stay PyTorch's own: views, allocation, and the bookkeeping of streams. For every other
operator, the first of these applies: a formula; the CPU kernel (or PyTorch's own composition for CPU tensors); an error
that names the operator. The function of an operator is built at its first call, so ``import torch`` stays quick.
"""

import functools
import warnings

import torch

from . import assembler, capture, collectives, formulas, kernels, named, transfers
from .signature import Signature

OWN = frozenset(
    "empty.memory_format empty_strided resize_ set_.source_Storage set_.source_Storage_storage_offset set_.source_Tensor "
    "set_ record_stream _pin_memory is_pinned _efficientzerotensor is_set_to _nested_view_from_buffer "
    "_cudnn_init_dropout_state".split()
)
"""Operators whose CUDA kernels do not run code on the device."""

ADDED = "convolution _convolution copy_ cudnn_is_acceptable".split()
"""Operators without a CUDA kernel that select one of several CUDA kernels by the device of their arguments."""

OWN_SPARSE = frozenset(
    "_coalesced_ _dimI _dimV _indices _nnz _values _sparse_coo_tensor_with_dims _sparse_coo_tensor_with_dims_and_tensors "
    "dense_dim sparse_dim empty.memory_format empty_like is_coalesced sparse_resize_ sparse_resize_and_clear_ clone "
    "resize_as_sparse_ resize_ copy_ copy_sparse_to_sparse_ bmm.out baddbmm.out".split()
)
"""Operators on sparse tensors that work on the parts of the tensors with other operators, or (the last two) with PTX of
cuSPARSE."""

OWN_NESTED = frozenset(
    "_nested_tensor_size _nested_tensor_strides _nested_tensor_storage_offsets _nested_from_padded_and_nested_example "
    "_to_copy alias detach chunk clone copy_ empty_like is_same_size narrow native_dropout native_dropout_backward normal_ "
    "select.int split_with_sizes squeeze squeeze.dim squeeze.dims transpose.int unbind.int unsqueeze values view".split()
)
"""Operators on nested tensors that work on their buffer with other operators."""

PARTS = {
    "SparseCUDA": ("SparseCPU", OWN_SPARSE),
    "SparseCsrCUDA": ("SparseCsrCPU", OWN_SPARSE),
    "NestedTensorCUDA": ("NestedTensorCPU", OWN_NESTED),
}
"""The dispatch keys of device tensors that consist of several tensors: the key of such CPU tensors, and the operators that
stay PyTorch's own."""

NAMESPACES = ("torchvision", "torchaudio")
"""Namespaces of libraries of operators with CUDA kernels as machine code and CPU kernels. A user's own library may have
PTX, so its operators stay its own."""

FORMULAS = {**formulas.TABLE, "copy_": transfers.copy}

_COMPOSITE = ("CPU", "CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional")
_libraries = []


def _registered(key):
    """Returns the names of the operators of ``aten`` that have a kernel for a dispatch key."""
    found = torch._C._dispatch_get_registrations_for_dispatch_key(key)
    return {name[6:] for name in found if name.startswith("aten::")}


def _is_view(schema):
    return any(one.alias_info is not None and not one.alias_info.is_write for one in schema.returns)


def _full_name(schema):
    return schema.name + (f".{schema.overload_name}" if schema.overload_name else "")


@functools.cache
def _schemas():
    """Returns the name and the schema of each operator of ``aten``."""
    found = torch._C._jit_get_all_schemas()
    return [(_full_name(schema)[6:], schema) for schema in found if schema.name.startswith("aten::")]


def plan():
    """Returns for each operator to register its name, its schema and what it becomes: ``formula``, ``kernel`` or
    ``unsupported``."""
    cuda = _registered("CUDA") | set(ADDED)
    supported = set().union(*map(_registered, _COMPOSITE))
    chosen = []
    for name, schema in _schemas():
        if name in cuda and name not in OWN and not _is_view(schema):
            if name in named.MAKERS:
                what = "unsupported"
            else:
                what = "formula" if name in FORMULAS else "kernel" if name in supported else "unsupported"
            chosen.append((name, schema, what))
    return chosen


def plan_parts(key):
    """Returns the same as :func:`plan` for a dispatch key of ``PARTS``."""
    other, own = PARTS[key]
    cuda, cpu = _registered(key), _registered(other)
    chosen = []
    for name, schema in _schemas():
        if name in cuda and name not in own and not _is_view(schema):
            formula = name in formulas.NESTED and key == "NestedTensorCUDA"
            chosen.append((name, schema, "formula" if formula else "kernel" if name in cpu else "unsupported"))
    return chosen


def plan_quantised():
    """Returns the operators on quantised tensors, which are not supported."""
    computing = _registered("QuantizedCUDA") & named.QUANTISED
    return [(name, schema, "unsupported") for name, schema in _schemas() if name in computing]


def register_library(namespace):
    """Registers functions for the operators of a library that has been loaded."""
    registrations = torch._C._dispatch_get_registrations_for_dispatch_key
    cuda, cpu = set(registrations("CUDA")), set(registrations("CPU"))
    library = torch.library.Library(namespace, "IMPL", "CUDA")
    _libraries.append(library)
    for schema in torch._C._jit_get_all_schemas():
        full = _full_name(schema)
        name = full.removeprefix(namespace + "::")
        if name == full or full not in cuda or (namespace, name) in _loaded:
            continue
        _loaded.add((namespace, name))
        library.impl(name, _later(schema, False) if full in cpu else named.unsupported(full))


_loaded = set()


def _watch_libraries():
    """Registers functions for libraries of operators when they are loaded."""
    load = torch.ops.load_library

    def load_library(path):
        load(path)
        for namespace in NAMESPACES:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                register_library(namespace)

    torch.ops.load_library = load_library


def _later(schema, parts):
    """Returns a function that builds the function of an operator when it is first called."""
    built = None

    def first(*args, **kwargs):
        nonlocal built
        if built is None:
            built = kernels.kernel(Signature(schema), parts)
        return built(*args, **kwargs)

    return first


def _register(key, chosen, parts=False):
    library = torch.library.Library("aten", "IMPL", key)
    _libraries.append(library)
    for name, schema, what in chosen:
        if what == "formula":
            function = FORMULAS[name]
        elif what == "kernel":
            function = _later(schema, parts)
        else:
            function = named.unsupported(name)
        library.impl(name, function)


def register():
    """Registers a function for each operator of the plans."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _register("CUDA", plan())
        for key in PARTS:
            _register(key, plan_parts(key), parts=True)
        _register("QuantizedCUDA", plan_quantised())
    _watch_libraries()
    _choose_paths()


def _choose_paths():
    """Makes PyTorch choose compositions instead of NVIDIA's libraries where it asks before it calls an operator."""
    torch._C._cuda_sleep = transfers.sleep
    capture.wait_for_replay()
    collectives.use_gloo()
    assembler.use_known_version()
    torch.backends.cudnn.enabled = False
    torch.backends.cuda.enable_flash_sdp(False)
    torch.backends.cuda.enable_mem_efficient_sdp(False)
    torch.backends.cuda.enable_cudnn_sdp(False)
