"""Taichi: the same kernels with arch=cuda and arch=cpu, which must agree."""

import numpy as np
import taichi as ti


def results(arch):
    ti.init(arch=arch, offline_cache=False, random_seed=7, log_level=ti.ERROR)
    assert ti.lang.impl.current_cfg().arch == arch
    field = ti.field(ti.f32, shape=(32, 32))
    total = ti.field(ti.i32, shape=())

    @ti.kernel
    def fill():
        for i, j in field:
            x = ti.Vector([i * 0.1, j * 0.2])
            field[i, j] = ti.sin(x.norm()) + x.dot(x)

    @ti.kernel
    def count(limit: ti.f32):
        for i, j in field:
            if field[i, j] > limit:
                ti.atomic_add(total[None], 1)

    @ti.kernel
    def blur(source: ti.types.ndarray(), out: ti.types.ndarray()):
        for i in range(1, source.shape[0] - 1):
            out[i] = (source[i - 1] + source[i] + source[i + 1]) / 3

    fill()
    count(10.0)
    source = np.linspace(0, 1, 200, dtype=np.float32) ** 2
    out = np.zeros_like(source)
    blur(source, out)
    answer = field.to_numpy(), total[None], out
    ti.reset()
    return answer


def main():
    ours, theirs = results(ti.cuda), results(ti.cpu)
    for a, b in zip(ours, theirs):
        np.testing.assert_allclose(a, b, rtol=2e-5)
    print("PASS taichi", ti.__version__)


main()
