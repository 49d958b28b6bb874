"""NVIDIA's cuSOLVER on Margay's cuBLAS, through CuPy: decompositions and systems of equations, against NumPy."""

import cupy
import numpy
from cupyx.scipy import linalg

random = numpy.random.default_rng(6)


def matrix(shape, dtype):
    values = random.standard_normal(shape)
    if numpy.dtype(dtype).kind == "c":
        values = values + 1j * random.standard_normal(shape)
    return values.astype(dtype)


def same(ours, theirs, dtype):
    bound = {"f": 3e-4, "F": 3e-4}.get(dtype, 1e-9)
    numpy.testing.assert_allclose(cupy.asnumpy(ours), theirs, rtol=bound, atol=10 * bound)


def systems(dtype):
    a, b = matrix((24, 24), dtype) + 24 * numpy.eye(24, dtype=dtype), matrix((24, 5), dtype)
    x, y = cupy.asarray(a), cupy.asarray(b)
    same(cupy.linalg.solve(x, y), numpy.linalg.solve(a, b), dtype)
    same(cupy.linalg.inv(x), numpy.linalg.inv(a), dtype)
    same(x @ cupy.linalg.inv(x), numpy.eye(24), dtype)
    same(linalg.lu_solve(linalg.lu_factor(x), y), numpy.linalg.solve(a, b), dtype)
    lower = numpy.tril(a)
    same(linalg.solve_triangular(cupy.asarray(lower), y, lower=True), numpy.linalg.solve(lower, b), dtype)
    tall = matrix((40, 12), dtype)
    right = matrix((40, 3), dtype)
    ours = cupy.linalg.lstsq(cupy.asarray(tall), cupy.asarray(right), rcond=None)[0]
    same(ours, numpy.linalg.lstsq(tall, right, rcond=None)[0], dtype)
    batch, others = matrix((5, 8, 8), dtype) + 8 * numpy.eye(8, dtype=dtype), matrix((5, 8, 2), dtype)
    same(cupy.linalg.solve(cupy.asarray(batch), cupy.asarray(others)), numpy.linalg.solve(batch, others), dtype)
    same(cupy.linalg.inv(cupy.asarray(batch)), numpy.linalg.inv(batch), dtype)


def decompositions(dtype):
    a = matrix((20, 14), dtype)
    x = cupy.asarray(a)
    q, r = cupy.linalg.qr(x)
    same(q @ r, a, dtype)
    same(q.conj().T @ q, numpy.eye(14), dtype)
    u, s, v = cupy.linalg.svd(x, full_matrices=False)
    same(s, numpy.linalg.svd(a, compute_uv=False), dtype)
    same((u * s) @ v, a, dtype)
    symmetric = a.conj().T @ a + numpy.eye(14, dtype=dtype)
    p = cupy.asarray(symmetric)
    values, vectors = cupy.linalg.eigh(p)
    same(values, numpy.linalg.eigvalsh(symmetric), dtype)
    same(p @ vectors, cupy.asnumpy(vectors * values), dtype)
    factor = cupy.linalg.cholesky(p)
    same(factor @ factor.conj().T, symmetric, dtype)
    same(cupy.linalg.pinv(x) @ x, numpy.eye(14), dtype)
    same(cupy.linalg.slogdet(p)[1], numpy.linalg.slogdet(symmetric)[1], dtype)


def main():
    for dtype in ["f", "d", "F", "D"]:
        systems(dtype)
        decompositions(dtype)
    print("PASS cuSOLVER on cuBLAS", cupy.__version__)


main()
