"""Margay's cuRAND: CuPy's generators with literal first numbers of NVIDIA's library, distributions, streams and graphs."""

import ctypes

import cupy
import numpy
from cupy_backends.cuda.libs import curand


def bits(method, seed, count):
    generator = curand.createGenerator(method)
    curand.setPseudoRandomGeneratorSeed(generator, seed)
    out = cupy.empty(count, dtype=cupy.uint32)
    curand.setStream(generator, cupy.cuda.get_current_stream().ptr)
    curand.generate(generator, out.data.ptr, count)
    curand.destroyGenerator(generator)
    return cupy.asnumpy(out)


# The first numbers for the seed 0.
FIRST = {
    curand.CURAND_RNG_PSEUDO_XORWOW: [3179217846, 3955638199, 167591721],
    curand.CURAND_RNG_PSEUDO_MRG32K3A: [545508615, 341016064, 1125210161],
    curand.CURAND_RNG_PSEUDO_MTGP32: [360948779, 1200908298, 2313932395],
    curand.CURAND_RNG_PSEUDO_MT19937: [2357136044, 2499028148, 1139839185],
    curand.CURAND_RNG_PSEUDO_PHILOX4_32_10: [1713891541, 3781805453, 3159862348],
}
for method, first in FIRST.items():
    assert bits(method, 0, 1000)[:3].tolist() == first, method

random = cupy.random.RandomState(11)
for values, mean, deviation in [
    (random.uniform(0, 1, 100_000), 0.5, 12**-0.5),
    (random.normal(3, 2, 100_000), 3, 2),
    (random.poisson(7, 100_000), 7, 7**0.5),
]:
    assert abs(float(values.mean()) - mean) < 0.03 * deviation + 0.02
    assert abs(float(values.std()) - deviation) < 0.03 * deviation

# Each launch of a captured graph continues the sequence. (CuPy itself refuses such calls during a capture.)
library = ctypes.CDLL("libcurand.so.10")
stream = cupy.cuda.Stream(non_blocking=True)
generator = curand.createGenerator(curand.CURAND_RNG_PSEUDO_XORWOW)
curand.setStream(generator, stream.ptr)
out = cupy.zeros(4096, dtype=cupy.uint32)
with stream:
    stream.begin_capture()
    status = library.curandGenerate(ctypes.c_void_p(generator), ctypes.c_void_p(out.data.ptr), ctypes.c_size_t(out.size))
    assert status == 0, status
    graph = stream.end_capture()
    graph.launch(stream)
    stream.synchronize()
    first = cupy.asnumpy(out)
    graph.launch(stream)
    stream.synchronize()
    second = cupy.asnumpy(out)
expected = bits(curand.CURAND_RNG_PSEUDO_XORWOW, 0, 8192)
numpy.testing.assert_array_equal(numpy.concatenate([first, second]), expected)
print("PASS cuRAND generators")
