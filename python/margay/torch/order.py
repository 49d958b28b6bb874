"""The order of operators and kernels: an operator waits for its stream before it reads and writes memory.

Operators run on the calling thread, so no later call can precede them. Kernels that are in the stream must have ended
before an operator runs. If the stream is capturing, nothing may run; ``capture`` then records the operator.
"""

import ctypes

import torch

capturing = torch._C._cuda_isCurrentStreamCapturing
_stream_of = torch._C._cuda_getCurrentRawStream
_device_of_thread = torch._C._cuda_getDevice
_driver = ctypes.CDLL("libcuda.so.1")
_synchronize = _driver.cuStreamSynchronize
_synchronize.argtypes = [ctypes.c_void_p]
_synchronize.restype = ctypes.c_int

failures = []
"""Exceptions of host nodes, which the next operator raises."""


def wait(device):
    """Waits for the current stream of the device with the number ``device``."""
    if device != _device_of_thread():
        with torch.cuda.device(device):
            return wait(device)
    if _synchronize(_stream_of(device)):
        # The thread has no current context yet, or a kernel has failed. PyTorch sets the context or raises the error.
        torch.cuda.synchronize(device)
    if failures:
        failure = failures.pop()
        failures.clear()
        raise RuntimeError("an operator of a CUDA graph failed") from failure


def ready(device):
    """Waits for the current stream of a device. Returns False at once if the stream is capturing."""
    if device != _device_of_thread():
        with torch.cuda.device(device):
            return ready(device)
    if capturing():
        return False
    wait(device)
    return True
