"""Tests with and without planted defects, which ``plugin.py`` runs. The names state the expected results."""

import os
import subprocess
import sys

import numpy as np
import pytest
from numba import cuda


@cuda.jit(lineinfo=True)
def fill(out, n):
    i = cuda.grid(1)
    if i < n:
        out[i] = i


@cuda.jit(lineinfo=True)
def last(values, out):
    out[0] = values[values.size - 1]


def run(n, size=64):
    out = cuda.device_array(size, np.int32)
    fill[1, 64](out, n)
    return out


def test_clean_first():
    assert run(64).copy_to_host().tolist() == list(range(64))


def test_defect():
    run(64, 60)  # No call waits for the kernel.


def test_defect_once_more():
    run(64, 60)


def test_clean_between():
    run(10)


def test_defect_and_failure():
    run(64, 60)
    assert False, "the test's own failure"


@pytest.mark.xfail(reason="known", strict=True)
def test_expected_defect():
    run(64, 60)


@pytest.mark.margay_allow
def test_allowed_defect():
    run(64, 60)


@pytest.fixture
def defect_at_end():
    yield
    run(64, 60)


def test_error_at_teardown(defect_at_end):
    run(64)


def test_defect_unwritten():
    out = cuda.device_array(1, np.int32)
    last[1, 1](cuda.device_array(64, np.int32), out)


def test_defect_of_child():
    if os.environ.get("IS_CHILD"):
        run(64, 60)
        cuda.synchronize()
        return
    code = "import cases; cases.test_defect_of_child()"
    environment = dict(os.environ, IS_CHILD="1", PYTHONPATH=os.path.dirname(__file__))
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)


def test_clean_refused():
    with pytest.raises(Exception, match="INVALID_VALUE"):
        fill[1, 4096](cuda.device_array(1, np.int32), 1)


def test_clean_last():
    assert run(64).copy_to_host().sum() == 64 * 63 // 2
