"""Leaks memory, from Python code that holds the interpreter's lock during the calls (`held`) or releases it."""

import ctypes
import sys

load = ctypes.PyDLL if sys.argv[1] == "held" else ctypes.CDLL
cuda = load("libcuda.so.1")


def allocate(size):
    pointer = ctypes.c_uint64()
    assert cuda.cuMemAlloc_v2(
        ctypes.byref(pointer), ctypes.c_size_t(size)
    ) == 0


class Model:
    def build(self):
        allocate(1000)


context = ctypes.c_void_p()
assert cuda.cuInit(0) == 0
assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert cuda.cuCtxSetCurrent(context) == 0
Model().build()
print("PASS" if sys.argv[1] == "held" or sys.version_info[:2] == (3, 11) else "unknown version")
