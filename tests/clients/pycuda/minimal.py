"""PyCUDA: a kernel by nvcc with constant memory, on a stream between events; arrays, element-wise kernels, reductions and scans."""

import numpy as np
import pycuda.autoinit
import pycuda.driver as driver
from pycuda import gpuarray
from pycuda.compiler import SourceModule
from pycuda.elementwise import ElementwiseKernel
from pycuda.reduction import ReductionKernel
from pycuda.scan import InclusiveScanKernel

SOURCE = r"""
__constant__ float weights[3];

__global__ void smooth(const float *x, float *out, int n) {
    extern __shared__ float tile[];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    for (int k = threadIdx.x; k < blockDim.x + 2; k += blockDim.x) {
        int from = blockIdx.x * blockDim.x + k - 1;
        tile[k] = from >= 0 && from < n ? x[from] : 0;
    }
    __syncthreads();
    if (i < n) {
        float sum = 0;
        for (int k = 0; k < 3; ++k) sum += weights[k] * tile[threadIdx.x + k];
        out[i] = sum;
    }
}
"""
SIZE = 5000


def smooth(x):
    module = SourceModule(SOURCE)
    weights = np.array([0.25, 0.5, 0.125], dtype=np.float32)
    address, size = module.get_global("weights")
    assert size == weights.nbytes
    driver.memcpy_htod(address, weights)
    stream, begin, end = driver.Stream(), driver.Event(), driver.Event()
    host = driver.pagelocked_empty(SIZE, np.float32)
    device = driver.to_device(x)
    out = driver.mem_alloc(x.nbytes)
    begin.record(stream)
    kernel = module.get_function("smooth")
    kernel(device, out, np.int32(SIZE), block=(128, 1, 1), grid=((SIZE + 127) // 128, 1), shared=130 * 4, stream=stream)
    driver.memcpy_dtoh_async(host, out, stream)
    end.record(stream)
    end.synchronize()
    assert end.time_since(begin) >= 0
    padded = np.concatenate(([0], x, [0])).astype(np.float32)
    wanted = sum(weight * padded[k : k + SIZE] for k, weight in enumerate(weights))
    np.testing.assert_allclose(host, wanted, rtol=1e-6)


def arrays(x, y):
    a, b = gpuarray.to_gpu(x), gpuarray.to_gpu(y)
    np.testing.assert_allclose((2 * a + b / 3).get(), 2 * x + y / 3, rtol=1e-6)
    np.testing.assert_allclose(gpuarray.sum(a).get(), x.sum(dtype=np.float64), rtol=1e-5)
    assert gpuarray.max(a).get() == x.max()
    out = gpuarray.empty_like(a)
    ElementwiseKernel("float p, float *x, float *y, float *out", "out[i] = powf(x[i], p) - y[i]", "powers")(1.5, a, b, out)
    np.testing.assert_allclose(out.get(), x**1.5 - y, rtol=1e-4, atol=1e-5)
    dot = ReductionKernel(np.float64, "0", "a + b", "(double) x[i] * y[i]", "float *x, float *y")
    np.testing.assert_allclose(dot(a, b).get(), np.dot(x.astype(np.float64), y), rtol=1e-12)
    numbers = np.arange(SIZE, dtype=np.int32) % 7
    np.testing.assert_array_equal(InclusiveScanKernel(np.int32, "a + b")(gpuarray.to_gpu(numbers)).get(), np.cumsum(numbers))


def main():
    x, y = np.random.default_rng(6).random((2, SIZE)).astype(np.float32)
    smooth(x)
    arrays(x, y)
    print("PASS pycuda", pycuda.VERSION_TEXT, pycuda.autoinit.device.name())


main()
