"""CPU tensors over device memory, and device tensors with the results of CPU operators.

All CPU tensors over device memory share one storage per process, which begins at the address ``START`` and covers every
address above it. A tensor is a view of this storage at the offset of its address. Making such a view takes about a
microsecond. Invariant: the storage does not own memory, so a view is valid only as long as the device tensor that it
was made from. Invariant: a view must never be resized, because the storage is larger than any memory behind it.
"""

import ctypes

import torch

START = 4096
_CPU = torch.device("cpu")
_STORAGE = torch._C._construct_storage_from_data_pointer(START, _CPU, 1 << 62)
_as_strided = torch._C._VariableFunctions.as_strided
_empty_strided = torch._C._VariableFunctions.empty_strided
QUANTISED = {torch.qint8, torch.quint8, torch.qint32, torch.quint4x2, torch.quint2x4}
_whole = {}
Tensor = torch.Tensor


def _base(dtype):
    """Returns an empty tensor of the type ``dtype`` whose storage is the common storage."""
    if dtype in QUANTISED:
        raise NotImplementedError("Margay: quantised tensors are not supported on cuda")
    with torch._C._DisableTorchDispatch(), torch.inference_mode(False):
        base = torch.empty(0, dtype=dtype, device=_CPU).set_(_STORAGE, 0, (0,), (1,))
    found = _whole[dtype] = (base, base.element_size())
    return found


def share(tensor):
    """Returns a CPU tensor with the elements of a device tensor, in the same memory."""
    if tensor.layout is not torch.strided:
        return _share_sparse(tensor)
    address = tensor.data_ptr()
    dtype = tensor.dtype
    if not address:
        return _without_memory(tensor)
    base, size = _whole.get(dtype) or _base(dtype)
    offset = address - START
    if offset % size:
        return share_exactly(tensor)  # a view of another type need not be at a multiple of its own size
    shared = _as_strided(base, tensor.size(), tensor.stride(), offset // size)
    if tensor.is_neg():
        shared = torch._neg_view(shared)
    if dtype.is_complex and tensor.is_conj():
        shared = torch._conj(shared)
    return shared


def _without_memory(tensor):
    """Returns a CPU tensor for a device tensor without elements, or for a tensor of implicit zeros."""
    if tensor.numel():
        return torch.zeros(tensor.size(), dtype=tensor.dtype, device=_CPU)
    return _empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device=_CPU)


def share_exactly(tensor):
    """Returns a CPU tensor with the memory of a device tensor, and a storage of its own that ends where the tensor ends.
    PyTorch raises an error that contains ``not resizable`` if an operator tries to make the tensor larger."""
    count = extent(tensor.size(), tensor.stride()) * tensor.element_size()
    storage = torch._C._construct_storage_from_data_pointer(tensor.data_ptr(), _CPU, count)
    return _empty_strided((0,), (1,), dtype=tensor.dtype, device=_CPU).set_(storage, 0, tensor.size(), tensor.stride())


_COMPRESSED = {
    torch.sparse_csr: (Tensor.crow_indices, Tensor.col_indices),
    torch.sparse_csc: (Tensor.ccol_indices, Tensor.row_indices),
    torch.sparse_bsr: (Tensor.crow_indices, Tensor.col_indices),
    torch.sparse_bsc: (Tensor.ccol_indices, Tensor.row_indices),
}


def _share_sparse(tensor):
    """Returns a sparse CPU tensor that consists of CPU tensors over the parts of a sparse device tensor."""
    if tensor.layout is torch.sparse_coo:
        indices, values = share(tensor._indices()), share(tensor._values())
        return _coo(indices, values, tensor)
    return _from_parts(tensor, share, _CPU)


def _from_parts(tensor, convert, device):
    """Returns a tensor with the compressed layout of ``tensor`` whose parts ``convert`` returns."""
    if tensor.layout not in _COMPRESSED:
        raise NotImplementedError(f"Margay: tensors with the layout {tensor.layout} are not supported on cuda")
    compressed, plain = (part(tensor) for part in _COMPRESSED[tensor.layout])
    parts = convert(compressed), convert(plain), convert(tensor.values())
    return torch.sparse_compressed_tensor(
        *parts, tensor.size(), dtype=tensor.dtype, layout=tensor.layout, device=device, check_invariants=False
    )


def _coo(indices, values, like):
    """Returns a sparse tensor with the shape of ``like``."""
    coalesced = like.is_coalesced()
    return torch.sparse_coo_tensor(indices, values, like.size(), check_invariants=False, is_coalesced=coalesced)


def extent(size, stride):
    """Returns the number of elements from the first to the last element of a tensor."""
    last = 1
    for count, step in zip(size, stride):
        if count == 0:
            return 0
        last += (count - 1) * step
    return last


def place(result, device):
    """Returns a new device tensor with the elements of a CPU tensor, allocated by PyTorch's CUDA allocator."""
    if result.layout is not torch.strided:
        return _place_sparse(result, device)
    if result.is_nested:
        return _nested(place(result.values(), device), result)
    if result.is_neg() or (result.dtype.is_complex and result.is_conj()):
        result = result.resolve_neg().resolve_conj()
    size, stride = result.size(), result.stride()
    placed = _empty_strided(size, stride, dtype=result.dtype, device=device)
    if result.numel():
        count = result.numel() if result.is_contiguous() else extent(size, stride)
        ctypes.memmove(placed.data_ptr(), result.data_ptr(), count * result.element_size())
    return placed


def _place_sparse(result, device):
    if result.layout is torch.sparse_coo:
        indices, values = place(result._indices(), device), place(result._values(), device)
        return _coo(indices, values, result)
    return _from_parts(result, lambda part: place(part, device), device)


def _nested(buffer, like):
    """Returns a nested tensor with the shapes of ``like`` and the elements of ``buffer``."""
    return torch.ops.aten._nested_view_from_buffer(
        buffer, like._nested_tensor_size(), like._nested_tensor_strides(), like._nested_tensor_storage_offsets()
    )


def share_any(tensor):
    """Returns a CPU tensor with the elements of a device tensor, which may be nested. Operators on nested tensors read the
    size of the buffer's storage, which is therefore exact."""
    return _nested(share_exactly(tensor.values()), tensor) if tensor.is_nested else share(tensor)


def place_all(result, device):
    """Replaces the CPU tensors in the result of an operator by device tensors."""
    if isinstance(result, Tensor):
        return place(result, device)
    if isinstance(result, (tuple, list)):
        return type(result)(place_all(one, device) for one in result)
    return result


def assign(target, result):
    """Makes a device tensor equal to a CPU tensor in shape and elements, as PyTorch resizes an output. Both may have the
    same memory."""
    if target.layout is not torch.strided or result.layout is not torch.strided:
        return _assign_sparse(target, result)
    if target.size() != result.size():
        target.resize_(result.size())
        if target.stride() != result.stride() and extent(result.size(), result.stride()) == result.numel():
            target.as_strided_(result.size(), result.stride())
    if target.numel() and target.data_ptr() != result.data_ptr():
        share(target).copy_(result)


def _assign_sparse(target, result):
    fresh = place(result, target.device)
    if target.layout is torch.sparse_coo:
        target.sparse_resize_and_clear_(fresh.size(), fresh.sparse_dim(), fresh.dense_dim())
    elif target.layout is not torch.strided and target._nnz() != fresh._nnz():
        target.resize_as_sparse_(fresh)
    target.copy_(fresh)
