"""numba-cuda: kernels of several kinds against numpy, and one against numba's own compiler for CPUs."""

import math
import warnings

import numba
import numpy as np
from numba import cuda, float32

warnings.simplefilter("ignore")  # The problems are small on purpose.


@cuda.jit
def saxpy(a, x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] += a * x[i]


@cuda.jit
def tile_sums(values, sums):
    tile = cuda.shared.array(128, float32)
    thread = cuda.threadIdx.x
    tile[thread] = values[cuda.grid(1)]
    cuda.syncthreads()
    step = 64
    while step:
        if thread < step:
            tile[thread] += tile[thread + step]
        cuda.syncthreads()
        step //= 2
    if thread == 0:
        sums[cuda.blockIdx.x] = tile[0]


@cuda.jit
def histogram(values, counts):
    i = cuda.grid(1)
    if i < values.size:
        cuda.atomic.add(counts, values[i], 1)


@cuda.jit(device=True)
def wave(x):
    return math.sin(x) * math.exp(-x)


@cuda.jit
def waves(x, out):
    i = cuda.grid(1)
    if i < x.size:
        out[i] = wave(x[i])


@numba.njit
def waves_on_cpu(x):
    out = np.empty_like(x)
    for i in range(x.size):
        out[i] = math.sin(x[i]) * math.exp(-x[i])
    return out


@cuda.reduce
def largest(a, b):
    return max(a, b)


@numba.vectorize(["float64(float64, float64)"], target="cuda")
def hypotenuse(a, b):
    return math.sqrt(a * a + b * b)


def main():
    random = np.random.default_rng(1)
    x = random.random(1000, dtype=np.float32)
    y = cuda.to_device(np.ones_like(x))
    saxpy[8, 128](np.float32(3), x, y)
    np.testing.assert_allclose(y.copy_to_host(), 3 * x + 1, rtol=1e-6)

    values = random.integers(0, 100, 1024).astype(np.float32)
    sums = cuda.device_array(8, np.float32)
    tile_sums[8, 128](values, sums)
    np.testing.assert_array_equal(sums.copy_to_host(), values.reshape(8, 128).sum(1))

    picks = random.integers(0, 16, 5000)
    counts = np.zeros(16, np.int64)
    histogram[40, 128](picks, counts)
    np.testing.assert_array_equal(counts, np.bincount(picks, minlength=16))

    points = np.linspace(0, 5, 300)
    stream = cuda.stream()
    out = cuda.device_array_like(points, stream=stream)
    waves[3, 128, stream](cuda.to_device(points, stream=stream), out)
    result = out.copy_to_host(stream=stream)
    stream.synchronize()
    np.testing.assert_allclose(result, waves_on_cpu(points), rtol=1e-13)

    assert largest(values) == values.max()
    legs = random.random((2, 500))
    np.testing.assert_allclose(hypotenuse(legs[0], legs[1]), np.hypot(*legs), rtol=1e-14)
    print("PASS numba-cuda", cuda.get_current_device().compute_capability)


main()
