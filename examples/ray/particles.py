"""Particles that attract each other, computed by Ray tasks and actors with CuPy kernels.

    margay run --devices 4 python examples/ray/particles.py

Needs ray, cupy and numpy. Ray finds the GPUs that Margay simulates and assigns one to each task. Each task computes the
accelerations of a part of the particles, and an actor keeps the positions on its device. Both results are compared with numpy.
"""

import numpy as np
import ray

PARTICLES = 2048
TASKS = 4
STEPS = 5
SOFTENING = 1e-3

SOURCE = r"""
extern "C" __global__ void accelerations(const double2 *all, int n, int first, int count, double2 *out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    __shared__ double2 tile[128];
    double2 own = i < count ? all[first + i] : make_double2(0, 0), sum = make_double2(0, 0);
    for (int start = 0; start < n; start += blockDim.x) {
        int other = start + threadIdx.x;
        tile[threadIdx.x] = other < n ? all[other] : own;
        __syncthreads();
        for (int k = 0; k < blockDim.x && start + k < n; ++k) {
            double x = tile[k].x - own.x, y = tile[k].y - own.y;
            double square = x * x + y * y + 1e-3;
            double weight = 1 / (square * sqrt(square));
            sum.x += x * weight;
            sum.y += y * weight;
        }
        __syncthreads();
    }
    if (i < count) out[i] = sum;
}
"""


@ray.remote(num_cpus=0, num_gpus=1)
def accelerations(positions, first, count):
    import cupy

    out = cupy.empty((count, 2))
    kernel = cupy.RawKernel(SOURCE, "accelerations")
    arguments = (cupy.asarray(positions), np.int32(len(positions)), np.int32(first), np.int32(count), out)
    kernel(((count + 127) // 128,), (128,), arguments)
    return out.get(), ray.get_gpu_ids()


@ray.remote(num_cpus=0, num_gpus=0)
class Particles:
    """An actor that keeps positions and speeds in device memory between calls."""

    def __init__(self, positions):
        import cupy

        self.positions = cupy.asarray(positions)
        self.speeds = cupy.zeros_like(self.positions)

    def move(self, time, accelerations):
        import cupy

        self.speeds += time * cupy.asarray(accelerations)
        self.positions += time * self.speeds
        return self.positions.get()


def in_numpy(positions):
    apart = positions[None] - positions[:, None]
    square = (apart**2).sum(2) + SOFTENING
    return (apart / (square * np.sqrt(square))[..., None]).sum(1)


def main():
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    gpus = int(ray.cluster_resources().get("GPU", 0))
    assert gpus == TASKS, f"Ray sees {gpus} GPUs"
    positions = np.random.default_rng(5).random((PARTICLES, 2))
    speeds = np.zeros_like(positions)
    actor = Particles.remote(positions)
    moved, used, part = positions, set(), PARTICLES // TASKS
    for _ in range(STEPS):
        shared = ray.put(moved)
        tasks = [accelerations.remote(shared, first, part) for first in range(0, PARTICLES, part)]
        parts, ids = zip(*ray.get(tasks))
        used.update(id for task in ids for id in task)
        got = np.concatenate(parts)
        wanted = in_numpy(positions)
        np.testing.assert_allclose(got, wanted, rtol=1e-9, atol=1e-9 * abs(wanted).max())
        moved = ray.get(actor.move.remote(1e-6, got))
        speeds += 1e-6 * wanted
        positions = positions + 1e-6 * speeds
        np.testing.assert_allclose(moved, positions, rtol=1e-12)
    ray.shutdown()
    print(f"PASS {STEPS} steps, {TASKS} tasks on GPUs {sorted(used)}")


if __name__ == "__main__":
    main()
