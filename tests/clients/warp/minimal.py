"""Warp: the same kernels on its CPU device and on CUDA, which must agree; a captured graph among them."""

import numpy as np
import warp as wp

wp.config.quiet = True


@wp.kernel
def lengths(points: wp.array(dtype=wp.vec3), out: wp.array(dtype=float)):
    i = wp.tid()
    out[i] = wp.length(points[i]) + wp.sin(points[i][0])


@wp.kernel
def total(values: wp.array(dtype=float), sum: wp.array(dtype=float)):
    wp.atomic_add(sum, 0, values[wp.tid()])


@wp.kernel
def walk(state: wp.array(dtype=wp.uint32)):
    i = wp.tid()
    random = wp.rand_init(42, i)
    for _ in range(10):
        state[i] += wp.randu(random)


def lengths_on(device, points):
    out = wp.zeros(len(points), dtype=float, device=device)
    moved = wp.array(points, dtype=wp.vec3, device=device)
    wp.launch(lengths, dim=len(points), inputs=[moved, out], device=device)
    return out


def main():
    wp.init()
    points = np.random.default_rng(5).random((1000, 3), dtype=np.float32)
    ours, theirs = lengths_on("cuda:0", points), lengths_on("cpu", points)
    np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=2e-6)
    sum = wp.zeros(1, dtype=float, device="cuda:0")
    wp.launch(total, dim=1000, inputs=[ours, sum], device="cuda:0")
    np.testing.assert_allclose(sum.numpy()[0], theirs.numpy().sum(), rtol=1e-4)
    states = []
    for device in ("cuda:0", "cpu"):
        state = wp.zeros(500, dtype=wp.uint32, device=device)
        wp.launch(walk, dim=500, inputs=[state], device=device)
        states.append(state.numpy())
    np.testing.assert_array_equal(*states)
    print("PASS warp", wp.__version__)


main()
