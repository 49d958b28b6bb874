"""CuPy's kernels from CUB and Thrust, which are the PTX of fat binaries: sorting, scans, unique values."""

import cupy
import numpy


def main():
    random = numpy.random.default_rng(4)
    host = random.integers(0, 1000, 2000).astype(numpy.int32)
    device = cupy.asarray(host)
    numpy.testing.assert_array_equal(cupy.asnumpy(cupy.sort(device)), numpy.sort(host))
    numpy.testing.assert_array_equal(cupy.asnumpy(cupy.cumsum(device)), numpy.cumsum(host))
    numpy.testing.assert_array_equal(cupy.asnumpy(cupy.unique(device)), numpy.unique(host))
    numpy.testing.assert_array_equal(cupy.asnumpy(device[cupy.argsort(device)]), numpy.sort(host))
    print("PASS cupy libraries", cupy.__version__)


main()
