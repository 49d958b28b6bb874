"""Warp: launches captured into a graph and replayed, against numpy."""

import numpy as np
import warp as wp

wp.config.quiet = True


@wp.kernel
def step(x: wp.array(dtype=float)):
    i = wp.tid()
    x[i] = x[i] * 2.0 + 1.0


def main():
    wp.init()
    x = wp.array(np.arange(100, dtype=np.float32), device="cuda:0")
    wp.load_module(device="cuda:0")
    with wp.ScopedCapture(device="cuda:0") as capture:
        wp.launch(step, dim=100, inputs=[x], device="cuda:0")
        wp.launch(step, dim=100, inputs=[x], device="cuda:0")
    for _ in range(3):
        wp.capture_launch(capture.graph)
    expected = np.arange(100, dtype=np.float32)
    for _ in range(6):
        expected = expected * 2 + 1
    np.testing.assert_array_equal(x.numpy(), expected)
    print("PASS warp graph", wp.__version__)


main()
