"""cuda.compute with operators and iterators in Python, which reach the algorithms as LTO-IR that nvJitLink links."""

import importlib.metadata

import cupy
import numpy
from cuda.compute import (
    CountingIterator,
    TransformIterator,
    inclusive_scan,
    merge_sort,
    reduce_into,
    unary_transform,
)


def add(a, b):
    return a + b


def square(a):
    return a * a


def descending(a, b):
    return a > b


def main():
    values = cupy.arange(1000, dtype=numpy.int32)
    host = values.get()
    zero = numpy.zeros(1, dtype=numpy.int32)
    total = cupy.empty(1, dtype=numpy.int32)

    reduce_into(d_in=values, d_out=total, op=add, num_items=1000, h_init=zero)
    assert int(total[0]) == 999 * 1000 // 2

    squares = TransformIterator(CountingIterator(numpy.int32(0)), square)
    reduce_into(d_in=squares, d_out=total, op=add, num_items=100, h_init=zero)
    assert int(total[0]) == 99 * 100 * 199 // 6

    out = cupy.empty_like(values)
    inclusive_scan(d_in=values, d_out=out, op=add, init_value=zero, num_items=1000)
    numpy.testing.assert_array_equal(out.get(), numpy.cumsum(host))

    merge_sort(d_in_keys=values, d_out_keys=out, op=descending, num_items=1000)
    numpy.testing.assert_array_equal(out.get(), host[::-1])

    unary_transform(d_in=values, d_out=out, op=square, num_items=1000)
    numpy.testing.assert_array_equal(out.get(), host * host)
    print("PASS cuda.compute operators", importlib.metadata.version("cuda-cccl"))


main()
