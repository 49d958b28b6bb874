"""Halide: one pipeline for CUDA and for the CPU, which must agree."""

import halide as hl
import numpy as np


def realize(target, on_gpu):
    x, y = hl.Var("x"), hl.Var("y")
    xo, yo, xi, yi = hl.Var("xo"), hl.Var("yo"), hl.Var("xi"), hl.Var("yi")
    wave, blurred = hl.Func("wave"), hl.Func("blurred")
    wave[x, y] = hl.sin(x * hl.f32(0.1)) + hl.f32(0.01) * y
    blurred[x, y] = (wave[x - 1, y] + wave[x, y] + wave[x + 1, y]) / 3
    if on_gpu:
        blurred.gpu_tile(x, y, xo, yo, xi, yi, 16, 16)
        wave.compute_at(blurred, xo).gpu_threads(x, y)
    buffer = blurred.realize([100, 60], target)
    buffer.copy_to_host()
    return np.array(buffer)


def main():
    host = hl.get_host_target()
    cuda = host.with_feature(hl.TargetFeature.CUDA).with_feature(hl.TargetFeature.CUDACapability80)
    np.testing.assert_allclose(realize(cuda, True), realize(host, False), rtol=1e-5, atol=1e-6)
    print("PASS halide", hl.__version__ if hasattr(hl, "__version__") else "")


main()
