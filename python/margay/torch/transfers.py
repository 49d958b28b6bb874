"""Copies that do not block, and delays of a stream.

A copy of bytes between device memory, or with ``non_blocking=True`` between pinned and device memory, is a copy of the
driver in the stream if the stream is busy, so the program goes on. Every other copy is an operator like others.
"""

import collections
import ctypes

import torch

from . import order
from .kernels import kernel
from .signature import Signature

_operator = []
_pending = collections.deque()
_driver = ctypes.CDLL("libcuda.so.1")
_launch = _driver.cuLaunchHostFunc
_launch.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
_memcpy = _driver.cuMemcpyAsync
_memcpy.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]
_query = _driver.cuStreamQuery
_query.argtypes = [ctypes.c_void_p]
_NOT_READY = 600
_usleep = ctypes.cast(ctypes.CDLL(None).usleep, ctypes.c_void_p)
_CYCLES = 1000
"""The cycles of a microsecond: the clock of a device at one gigahertz."""
_LONGEST = 600_000_000


def _is_plain(target, source):
    """Returns whether a copy is one of bytes."""
    return (
        target.dtype is source.dtype
        and target.layout is source.layout is torch.strided
        and target.size() == source.size()
        and target.is_contiguous()
        and source.is_contiguous()
        and not (target.is_conj() or source.is_conj() or target.is_neg() or source.is_neg())
        and target.numel() > 0
    )


def _enqueue(target, source, host):
    """Copies bytes in the order of the current stream. Returns False if the stream has nothing left to do."""
    device = (target if target.is_cuda else source).get_device()
    stream = torch._C._cuda_getCurrentRawStream(device)
    captured = order.capturing()
    if not captured and _query(stream) != _NOT_READY:
        return False
    if _memcpy(target.data_ptr(), source.data_ptr(), target.numel() * target.element_size(), stream):
        torch.cuda.synchronize(device)
    if not captured and not host.is_cuda:
        # PyTorch must not give the pinned memory to another tensor before the copy has ended.
        while _pending and _pending[0][0].query():
            _pending.popleft()
        done = torch.cuda.Event()
        done.record(torch.cuda.current_stream(device))
        _pending.append((done, host))
    return True


def copy(target, source, non_blocking=False):
    """Copies the elements of one tensor to another."""
    if isinstance(source, torch.Tensor) and _is_plain(target, source):
        host = source if target.is_cuda else target
        if host.is_cuda:
            ordered = target.device == source.device
        else:
            ordered = non_blocking and host.is_pinned()
        if ordered and _enqueue(target, source, host):
            return target
    if not _operator:
        _operator.append(kernel(Signature(torch.ops.aten.copy_.default._schema)))
    return _operator[0](target, source, non_blocking)


def sleep(cycles):
    """Keeps the current stream busy for a time, as ``torch.cuda._sleep`` does. The host function is ``usleep`` of the C
    library, whose argument is the number that CUDA passes."""
    torch.cuda.init()
    stream = torch._C._cuda_getCurrentRawStream(torch.cuda.current_device())
    if _launch(stream, _usleep, min(max(int(cycles), 0) // _CYCLES, _LONGEST)):
        torch.cuda.synchronize()
