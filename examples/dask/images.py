"""Processes an image with Numba kernels in the workers of a Dask cluster. Each worker uses its own device.

    margay run --devices 4 python examples/dask/images.py

Needs dask[distributed], numba-cuda and numpy. The devices blur the blocks of a Dask array and compute a histogram of them.
Both results are compared with results of numpy.
"""

import dask.array as da
import numpy as np
from dask.distributed import Client, LocalCluster, get_worker
from numba import cuda

WORKERS = 4
BINS = 64


@cuda.jit
def blur(image, out):
    y, x = cuda.grid(2)
    height, width = image.shape
    if y < height and x < width:
        total = 0
        for dy in range(-1, 2):
            for dx in range(-1, 2):
                total += image[min(max(y + dy, 0), height - 1), min(max(x + dx, 0), width - 1)]
        out[y, x] = total // 9


@cuda.jit
def count(values, bins):
    tile = cuda.shared.array(BINS, np.int32)
    if cuda.threadIdx.x < BINS:
        tile[cuda.threadIdx.x] = 0
    cuda.syncthreads()
    for i in range(cuda.grid(1), values.size, cuda.gridsize(1)):
        cuda.atomic.add(tile, values[i] * BINS // 4096, 1)
    cuda.syncthreads()
    if cuda.threadIdx.x < BINS:
        cuda.atomic.add(bins, cuda.threadIdx.x, tile[cuda.threadIdx.x])


def use_device_of(worker):
    """Selects the device whose ordinal is the worker's name; workers have the names 0 to 3."""
    cuda.select_device(int(worker.name) % len(cuda.gpus))


def blurred(block):
    use_device_of(get_worker())
    out = cuda.device_array_like(block)
    height, width = block.shape
    blur[((height + 15) // 16, (width + 15) // 16), (16, 16)](cuda.to_device(block), out)
    return out.copy_to_host()


def counted(block):
    use_device_of(get_worker())
    bins = cuda.to_device(np.zeros(BINS, np.int32))
    count[8, 128](cuda.to_device(np.ascontiguousarray(block).ravel()), bins)
    return bins.copy_to_host().astype(np.int64)[None, None]


def device_of(dask_worker):
    use_device_of(dask_worker)
    return cuda.get_current_device().id


def in_numpy(image):
    padded = np.pad(image, 1, mode="edge")
    height, width = image.shape
    parts = (padded[y : y + height, x : x + width] for y in range(3) for x in range(3))
    return sum(parts) // 9


def main():
    image = np.random.default_rng(3).integers(0, 4096, (1600, 1200), dtype=np.int64)
    with LocalCluster(n_workers=WORKERS, threads_per_worker=2, processes=True, dashboard_address=None) as cluster:
        with Client(cluster) as client:
            devices = sorted(client.run(device_of).values())
            blocks = da.from_array(image, chunks=(400, 300))
            # Each block is extended by one point of the neighbouring blocks on every side.
            smooth = blocks.map_overlap(blurred, depth=1, boundary="nearest", dtype=np.int64)
            histogram = smooth.map_blocks(counted, new_axis=2, chunks=((1,) * 4, (1,) * 4, (BINS,)), dtype=np.int64)
            smooth, histogram = da.compute(smooth, histogram.sum(axis=(0, 1)))
    wanted = in_numpy(image)
    np.testing.assert_array_equal(smooth, wanted)
    np.testing.assert_array_equal(histogram, np.bincount(wanted.ravel() * BINS // 4096, minlength=BINS))
    print(f"PASS {WORKERS} workers on devices {devices}")


if __name__ == "__main__":
    main()
