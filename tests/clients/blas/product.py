"""A product by the Fortran interface on cuBLAS, and an argument that cuBLAS refuses."""

import ctypes
import os
import pathlib
import tempfile

from build import library

with tempfile.TemporaryDirectory() as folder:
    blas = ctypes.CDLL(str(library(pathlib.Path(folder))), mode=os.RTLD_LAZY)

    def dgemm(m, n, k, a, b, c):
        integers = {number: ctypes.byref(ctypes.c_int(number)) for number in (m, n, k)}
        one, none = (ctypes.byref(ctypes.c_double(value)) for value in (1, 0))
        arrays = [(ctypes.c_double * len(values))(*values) for values in (a, b, c)]
        blas.dgemm_(
            b"N", b"N", integers[m], integers[n], integers[k], one, arrays[0], integers[m],
            arrays[1], integers[k], none, arrays[2], integers[m],
        )
        return list(arrays[2])

    # Columns of A: (1, 2), (3, 4), (5, 6); of B: (1, 0, 1), (0, 2, 0).
    assert dgemm(2, 2, 3, [1, 2, 3, 4, 5, 6], [1, 0, 1, 0, 2, 0], [9] * 4) == [6, 8, 6, 8]
print("PASS a product by the Fortran interface")
