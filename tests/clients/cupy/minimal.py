"""CuPy: element-wise and raw kernels, reductions, sorting and indexing against numpy."""

import cupy
import numpy

RAW = r"""
extern "C" __global__ void add_index(float *x, int n) {
    int i = blockDim.x * blockIdx.x + threadIdx.x;
    if (i < n) x[i] += i;
}
"""


def same(ours, theirs, **tolerance):
    numpy.testing.assert_allclose(cupy.asnumpy(ours), theirs, **(tolerance or {"rtol": 1e-6}))


def main():
    random = numpy.random.default_rng(3)
    host = random.random((40, 50)).astype(numpy.float32)
    device = cupy.asarray(host)
    same(cupy.sin(device) * 2 + device**2, numpy.sin(host) * 2 + host**2)
    same(device.sum(axis=0), host.sum(axis=0), rtol=1e-5)
    same(device.max(), host.max())
    same(device[::3, 5:20].T, host[::3, 5:20].T)
    same(cupy.where(device > 0.5, device, -device), numpy.where(host > 0.5, host, -host))
    counted = cupy.arange(300, dtype=cupy.float32)
    cupy.RawKernel(RAW, "add_index")((3,), (128,), (counted, numpy.int32(300)))
    same(counted, 2 * numpy.arange(300))
    square = cupy.ElementwiseKernel("T x, T y", "T z", "z = x * x + y", "square")
    same(square(device, device), host * host + host)
    norm = cupy.ReductionKernel("T x", "T y", "x * x", "a + b", "y = sqrt(a)", "0", "norm")
    same(norm(device), numpy.linalg.norm(host), rtol=1e-5)
    module = cupy.RawModule(code=RAW)
    module.get_function("add_index")((3,), (128,), (counted, numpy.int32(300)))
    same(counted, 3 * numpy.arange(300))
    print("PASS cupy", cupy.__version__, cupy.cuda.Device().compute_capability)


main()
