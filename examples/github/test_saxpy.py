"""An example of a project's test of CUDA code. It does not depend on Margay. `margay run pytest` runs it without a GPU."""

import numpy as np
import pytest
from numba import cuda


@cuda.jit
def saxpy(a, x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] += a * x[i]


@pytest.mark.parametrize("size", [1, 255, 100_000])
def test_saxpy(size):
    x = np.arange(size, dtype=np.float32)
    y = cuda.to_device(np.ones(size, np.float32))
    saxpy[(size + 255) // 256, 256](np.float32(2), cuda.to_device(x), y)
    np.testing.assert_array_equal(y.copy_to_host(), 2 * x + 1)


def test_a_wrong_launch_is_an_error():
    # The class of the exception depends on the version of numba-cuda.
    with pytest.raises(Exception, match="INVALID_VALUE"):
        saxpy[1, 4096](np.float32(2), cuda.device_array(1, np.float32), cuda.device_array(1, np.float32))
