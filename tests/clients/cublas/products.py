"""Margay's cuBLAS: CuPy's products of all types, cuBLAS's own functions through CuPy, streams and graphs, against NumPy."""

import ctypes

import cupy
import numpy
from cupy import cublas
from cupy_backends.cuda.libs import cublas as raw

random = numpy.random.default_rng(5)


def matrix(shape, dtype):
    values = random.standard_normal(shape)
    if numpy.dtype(dtype).kind == "c":
        values = values + 1j * random.standard_normal(shape)
    return values.astype(dtype)


def same(ours, theirs, dtype):
    wide = numpy.complex128 if numpy.dtype(dtype).kind == "c" else numpy.float64
    bound = {"e": 5e-3, "f": 2e-4, "F": 2e-4}.get(numpy.dtype(dtype).char, 1e-11)
    numpy.testing.assert_allclose(cupy.asnumpy(ours).astype(wide), theirs.astype(wide), rtol=bound, atol=20 * bound)


def products():
    for dtype in ["e", "f", "d", "F", "D"]:
        a, b = matrix((37, 53), dtype), matrix((53, 29), dtype)
        x, y = cupy.asarray(a), cupy.asarray(b)
        wide = numpy.result_type(dtype, "f") if dtype == "e" else dtype
        exact = a.astype(wide) @ b.astype(wide)
        same(x @ y, exact, dtype)
        same(y.T @ x.T, exact.T, dtype)
        same(cupy.asfortranarray(x) @ y, exact, dtype)
        same(cupy.einsum("ij,jk->ki", x, y), exact.T, dtype)
        same(cupy.tensordot(x, y, axes=1), exact, dtype)
        same(x @ y[:, 3], exact[:, 3], dtype)
        same(cupy.vdot(x[:, 0], x[:, 1]), numpy.asarray(numpy.vdot(a[:, 0].astype(wide), a[:, 1].astype(wide))), dtype)
        same(cupy.outer(x[0], y[0]), numpy.outer(a[0], b[0]), dtype)
        batch, other = matrix((6, 12, 20), dtype), matrix((6, 20, 9), dtype)
        exact = batch.astype(wide) @ other.astype(wide)
        same(cupy.asarray(batch) @ cupy.asarray(other), exact, dtype)
        same(cupy.einsum("bij,bjk->bik", cupy.asarray(batch), cupy.asarray(other)), exact, dtype)


def functions():
    for dtype in ["f", "d", "F", "D"]:
        a, b = matrix((19, 23), dtype), matrix((23, 17), dtype)
        x, y = cupy.asfortranarray(cupy.asarray(a)), cupy.asfortranarray(cupy.asarray(b))
        same(cublas.gemm("N", "N", x, y, alpha=2), 2 * a @ b, dtype)
        same(cublas.geam("T", "T", 2, x, 3, x), 5 * a.T, dtype)
        vector, other = matrix(101, dtype), matrix(101, dtype)
        p, q = cupy.asarray(vector), cupy.asarray(other)
        same(cublas.nrm2(p), numpy.linalg.norm(vector), dtype)
        same(cublas.asum(p), numpy.sum(abs(vector.real) + abs(vector.imag)), dtype)
        same(cublas.dotc(p, q), numpy.vdot(vector, other), dtype) if dtype in "FD" else same(
            cublas.dot(p, q), numpy.dot(vector, other), dtype
        )
        largest = int(numpy.argmax(abs(vector.real) + abs(vector.imag))) + 1
        assert int(cublas.iamax(p)) == largest, dtype
        cublas.axpy(3, p, q)
        same(q, other + 3 * vector, dtype)


def modes():
    """Calls of cuBLAS itself: a result in device memory, wrong arguments, the version."""
    handle = cupy.cuda.device.get_cublas_handle()
    assert raw.getVersion(handle) >= 120000
    x = cupy.arange(10, dtype=cupy.float32)
    result = cupy.zeros(1, dtype=cupy.float32)
    mode = raw.getPointerMode(handle)
    raw.setPointerMode(handle, raw.CUBLAS_POINTER_MODE_DEVICE)
    raw.sdot(handle, 10, x.data.ptr, 1, x.data.ptr, 1, result.data.ptr)
    raw.setPointerMode(handle, raw.CUBLAS_POINTER_MODE_HOST)
    assert float(result[0]) == 285.0
    on_host = numpy.zeros(1, dtype=numpy.float32)
    raw.sdot(handle, 10, x.data.ptr, 1, x.data.ptr, 1, on_host.ctypes.data)
    assert on_host[0] == 285.0
    raw.setPointerMode(handle, mode)
    one = numpy.ones(1, dtype=numpy.float32)
    try:
        raw.sgemm(handle, 0, 0, 4, 4, 4, one.ctypes.data, x.data.ptr, 2, x.data.ptr, 4, one.ctypes.data, x.data.ptr, 4)
        raise AssertionError("a leading dimension that is too small")
    except raw.CUBLASError as error:
        assert "INVALID_VALUE" in str(error), error


def captured(ours):
    """CuPy does not call cuBLAS in a capture, so the calls are those of C programs."""
    handle, one = ctypes.c_void_p(), ctypes.c_double(1)
    assert ours.cublasCreate_v2(ctypes.byref(handle)) == 0
    host = [matrix((40, 40), "d") for _ in range(3)]
    a, b, c = (cupy.asarray(each) for each in host)
    stream = cupy.cuda.Stream(non_blocking=True)
    assert ours.cublasSetStream_v2(handle, ctypes.c_void_p(stream.ptr)) == 0
    pointer = ctypes.c_void_p

    def multiply(left, right, out):
        """The product of matrices by rows is that of the transposes by columns."""
        scalar, order = ctypes.byref(one), 40
        zero = ctypes.byref(ctypes.c_double(0))
        operands = pointer(right.data.ptr), order, pointer(left.data.ptr), order, zero, pointer(out.data.ptr), order
        assert ours.cublasDgemm_v2(handle, 0, 0, order, order, order, scalar, *operands) == 0

    with stream:
        stream.begin_capture()
        multiply(a, b, c)
        multiply(c, b, a)
        graph = stream.end_capture()
    stream.synchronize()
    same(a, host[0], "d")
    expected = host[0]
    for _ in range(2):
        graph.launch(stream)
        stream.synchronize()
        expected = expected @ host[1] @ host[1]
        same(a / abs(expected).max(), expected / abs(expected).max(), "d")
    assert ours.cublasDestroy_v2(handle) == 0


def library():
    """The library is Margay's, although the wheel's file is loaded by its absolute path."""
    with open("/proc/self/maps") as maps:
        files = {line.split()[-1] for line in maps if ".so" in line}
    loaded = [name for name in files if "cublas" in name.lower() and "cupy" not in name]
    assert loaded and not any("nvidia/" in name for name in loaded), loaded
    ours = ctypes.CDLL(next(name for name in loaded if "/libcublas_" in name))
    ours.cublasGetStatusName.restype = ctypes.c_char_p
    assert ours.cublasGetStatusName(7) == b"CUBLAS_STATUS_INVALID_VALUE"
    return ours


def main():
    products()
    functions()
    modes()
    captured(library())
    print("PASS cuBLAS products", cupy.__version__)


main()
